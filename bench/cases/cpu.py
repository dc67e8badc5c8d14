"""Attention on CPUs, as IREE and as we compile it, beside PyTorch on the same cores.

`compile --cpu` takes LLVM's name of a processor. `run` holds every result against a float64
reference, then calls the programs in turns, as many times as fit; numbers are medians. The parts
of a case have processes of their own, pinned to as many cores as they get threads, PyTorch's
between those of IREE's programs and ours. With one thread they are CPU milliseconds of the
process, which other work on the machine changes little; with more they are elapsed milliseconds
and need a quiet machine.

Between calls PyTorch's threads spin on their cores for some milliseconds and IREE's workers
sleep, so short calls compare waking up with not having slept. With several threads both are
measured in the other's way, too, each in a process of its own: our program with workers that
spin, PyTorch with threads that sleep. And decode is measured as models call it, too: attention
after attention in a call, each with the result of the last as its queries, which wakes the
workers once.
"""

# pyright: reportMissingImports=false
# (torch is no dependency of the project)

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import on_cpu
from bench.attention import V_T, K, Q, V, fresh_attention
from bench.device import load, to_iree
from bench.results import Row, row
from bench.timing import relative_error

# Passes of each program; None is iree-compile.
WAYS = {
    "iree": None,
    "configured": "attn-configure",
    "vectorized": "attn-split-k{configured=true},attn-configure,attn-vectorize",
}
COMPILE_SECONDS = 120
# Attention steps, each after the last, in a call of decode's function `steps`.
STEPS = 8
PART_SECONDS = 150
IS_ON_CPU = True
# Of all parts, threads and processes of a case together.
CASE_SECONDS = 3600
# How long IREE's workers spin where they do: about what PyTorch's GNU OpenMP makes of its 300,000
# turns.
SPIN_MICROSECONDS = 10_000
# What `run` calls in processes of their own, and what it sets there; the last two with several
# threads.
PARTS: dict[str, dict[str, str]] = {
    "programs": {},
    "torch": {},
    "spinning": {},
    "sleeping": {"OMP_WAIT_POLICY": "passive"},
}
# The part that measures the same with threads that wait in the other way.
WAITING = {"programs": "spinning", "torch": "sleeping"}


@dataclass(frozen=True)
class Case:
    """`heads`, each with `rows` queries over `keys` keys of `head` columns, all of type `kind`;
    `transposed`: V comes with its keys innermost."""

    heads: int
    rows: int
    keys: int
    head: int
    kind: str = "f32"
    mask: str = ""
    dynamic: bool = False
    transposed: bool = False

    @property
    def name(self) -> str:
        words = [f"{self.heads} heads", f"{self.rows} x {self.keys}", f"d {self.head}"]
        words += [self.kind, self.mask, "keys at run time" if self.dynamic else ""]
        words += ["V^T"] if self.transposed else []
        return ", ".join(word for word in words if word)

    @property
    def functions(self) -> dict[str, int]:
        """The functions of its programs, and how many attention steps each has."""
        return {"one": 1, "steps": STEPS} if self.rows < self.head else {"one": 1}


def prefill(heads: int, length: int, head: int, kind: str = "f32", **more: Any) -> Case:
    return Case(heads, length, length, head, kind, **more)


def decode(rows: int, keys: int, kind: str = "f32", heads: int = 8, **more: Any) -> Case:
    return Case(heads, rows, keys, 128, kind, **more)


CASES = (
    prefill(32, 512, 64),
    prefill(32, 512, 128),
    # Four of 32 heads as well: IREE's own configuration takes 0.4 and 1.5 s a head of those.
    prefill(4, 2048, 64),
    prefill(4, 2048, 128),
    prefill(32, 2048, 64),
    prefill(32, 2048, 128),
    decode(4, 4096),
    decode(4, 32768),
    decode(1, 4096),
    decode(1, 32768),
    prefill(8, 512, 128),
    prefill(2, 1024, 128),
    prefill(8, 512, 80),
    prefill(8, 512, 128, "f16"),
    prefill(8, 512, 128, "bf16"),
    decode(4, 4096, "f16"),
    decode(4, 4096, "bf16"),
    prefill(8, 512, 64, mask="causal"),
    prefill(8, 512, 64, mask="padding"),
    prefill(8, 512, 128, dynamic=True),
    prefill(8, 509, 128),
    prefill(8, 500, 80),
    prefill(8, 512, 32),
    prefill(4, 512, 256),
    prefill(2, 256, 512),
    prefill(1, 256, 1024),
    prefill(8, 512, 64, transposed=True),
    prefill(8, 512, 128, transposed=True),
    prefill(8, 512, 128, "f16", transposed=True),
    decode(4, 4096, transposed=True),
    decode(4, 4096, "f16", transposed=True),
    # Few heads, which are cut into chunks of their keys.
    decode(4, 16384, heads=1),
    decode(4, 65536, heads=1),
)


def cases() -> list[Case]:
    return list(CASES)


def compile(folder: Path, wanted: list[Case], options: argparse.Namespace) -> None:
    """Writes FOLDER/<case>/<way>.vmfb, and for which processor they are."""
    for case in wanted:
        place = folder_of(folder, case)
        place.mkdir(parents=True, exist_ok=True)
        text = steps_module(case)
        for way, passes in WAYS.items():
            (place / f"{way}.vmfb").write_bytes(compile_text(text, passes, options.cpu))
        print(case.name, flush=True)
    (folder / "cpu.json").write_text(json.dumps({"cpu": options.cpu}))


def about(folder: Path) -> dict[str, Any]:
    """For which processor the programs are."""
    return json.loads((folder / "cpu.json").read_text())


def steps_module(case: Case) -> str:
    """MLIR text: each function of a case, whose attention steps each read the last one's result."""
    heads, keys, kind = case.heads, "?" if case.dynamic else case.keys, case.kind
    q = f"tensor<{heads}x{case.rows}x{case.head}x{kind}>"
    k = f"tensor<{heads}x{keys}x{case.head}x{kind}>"
    v = f"tensor<{heads}x{case.head}x{keys}x{kind}>" if case.transposed else k
    mask = f"tensor<{heads}x{case.rows}x{keys}xi1>"
    read = [("%k", k, K), ("%v", v, V_T if case.transposed else V), ("%scale", kind, "")]
    read += [("%mask", mask, "b, m, k2")] if case.mask else []
    functions = []
    for name, count in case.functions.items():
        steps = [fresh_attention(f"%q{i + 1}", [(f"%q{i}", q, Q), *read], q) for i in range(count)]
        functions.append(
            f"func.func @{name}(%q0: {q}, %k: {k}, %v: {v}"
            f"{', %mask: ' + mask if case.mask else ''}) -> {q} {{\n"
            f"  %scale = arith.constant {case.head**-0.5} : {kind}"
            f"{''.join(steps)}\n  return %q{count} : {q}\n}}\n"
        )
    return "\n".join(functions)


def folder_of(folder: Path, case: Case) -> Path:
    return folder / str(CASES.index(case))


def compile_text(text: str, passes: str | None, cpu: str) -> bytes:
    """By attn-compile with these passes, or by iree-compile; each in a process of its own."""
    from attnpass.driver.flags import iree_compile
    from bench.models.check import TARGET

    ours = ["-m", "attnpass.cli.attn_compile", f"--attn-pipeline={passes}"]
    command = [sys.executable, *ours] if passes else [iree_compile()]
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder, "out.vmfb")
        command += ["-", "-o", str(binary), *TARGET, f"--iree-llvmcpu-target-cpu={cpu}"]
        # From standard input: a file's name would make equal programs differ.
        subprocess.run(command, input=text.encode(), check=True, timeout=COMPILE_SECONDS)
        return binary.read_bytes()


def run(folder: Path, case: Case, options: argparse.Namespace) -> Iterator[Row]:
    for threads in options.threads:
        measured = [run_case(folder, case, threads) for _ in range(options.processes)]
        for way, found in median_row(measured).items():
            yield row(case.name, way, found, threads=threads)


def run_case(folder: Path, case: Case, threads: int) -> dict[str, Any]:
    """All columns of a case."""
    parts = ["programs", *(["torch"] if torch_version() else [])]
    if threads > 1:
        parts = [other for part in parts for other in (part, WAITING[part])]
    found: dict[str, Any] = {}
    for part in parts:
        found |= run_part(folder, case, threads, part)
    return found


def median_row(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of those of several processes: their median times, their best, the worst error."""
    if len(rows) == 1:
        return rows[0]
    if failed := [row for row in rows if "" in row]:
        return failed[0]
    return {
        name: {
            "error": max(row[name]["error"] for row in rows),
            "ms": statistics.median(row[name]["ms"] for row in rows),
            "best": min(row[name]["best"] for row in rows),
            "rounds": sum(row[name]["rounds"] for row in rows),
            "processes": [row[name]["ms"] for row in rows],
        }
        for name in rows[0]
    }


def run_part(folder: Path, case: Case, threads: int, part: str) -> dict[str, Any]:
    """Columns of a case measured in a process, which prints them."""
    words = (part, folder, CASES.index(case), threads)
    found = on_cpu.Part("cpu", words, threads, PARTS[part]).measured()
    return {"": found} if "failed" in found else found


@dataclass(frozen=True)
class Call:
    """What is timed: attention `steps` times, each but the first on the result of the last."""

    run: Callable[[], np.ndarray]
    steps: int = 1


def measure_programs(folder: Path, case: Case, threads: int) -> dict[str, Any]:
    """Milliseconds and relative errors of each compiled program."""
    arrays, place = inputs(case), on_cpu.device(threads)
    programs = {path.stem: path.read_bytes() for path in sorted(folder.glob("*.vmfb"))}
    calls: dict[str, Call] = {}
    for name, program in programs.items():
        calls |= iree_calls(name, program, case, arrays, place, threads)
    return measure(case, arrays, calls, threads)


def measure_spinning(folder: Path, case: Case, threads: int) -> dict[str, Any]:
    """Milliseconds and relative errors of our loops, called by workers that spin."""
    arrays, place = inputs(case), on_cpu.device(threads, SPIN_MICROSECONDS)
    program = (folder / "vectorized.vmfb").read_bytes()
    return measure(
        case, arrays, iree_calls("spinning", program, case, arrays, place, threads), threads
    )


def measure_torch(part: str, case: Case, threads: int) -> dict[str, Any]:
    arrays = inputs(case)
    calls = {
        column(part, steps): Call(torch_call(case, arrays, threads, steps), steps)
        for steps in timed_steps(case, threads)
    }
    return measure(case, arrays, calls, threads)


def timed_steps(case: Case, threads: int) -> list[int]:
    """How many steps the calls have that are timed; a single thread needs no waking."""
    return [1] if threads == 1 else list(case.functions.values())


def column(name: str, steps: int) -> str:
    return name if steps == 1 else f"{name} steps"


def measure(
    case: Case, arrays: list[np.ndarray], calls: dict[str, Call], threads: int
) -> dict[str, Any]:
    """Milliseconds of a step and relative errors of calls."""
    right = {steps: reference(case, arrays, steps) for steps in {c.steps for c in calls.values()}}
    rows: dict[str, Any] = {
        name: {"error": relative_error(call.run(), right[call.steps])}
        for name, call in calls.items()
    }
    runs = {name: call.run for name, call in calls.items()}
    # Elapsed time is that of other work, too: many rounds.
    clock = time.process_time if threads == 1 else time.perf_counter
    rounds, seconds = (7, 1.5) if threads == 1 else (50, 0.7)
    for name, spent in on_cpu.in_turns(runs, rounds, seconds, least=2, clock=clock).items():
        rows[name] |= on_cpu.milliseconds(spent, calls[name].steps)
    return rows


def inputs(case: Case) -> list[np.ndarray]:
    """q, k, v (or V^T) in the case's type and the mask, if it has one."""
    import ml_dtypes

    kind = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[case.kind]
    random = np.random.default_rng(0)
    sizes = [(case.heads, count, case.head) for count in (case.rows, *[case.keys] * 2)]
    arrays = [random.standard_normal(size, np.float32).astype(kind) for size in sizes]
    if case.transposed:
        arrays[2] = np.ascontiguousarray(arrays[2].swapaxes(1, 2))
    seen = np.ones((case.heads, case.rows, case.keys), np.bool_)
    if case.mask == "causal":
        seen = np.tril(seen)
    elif case.mask == "padding":
        seen[:, :, case.keys * 3 // 4 :] = False
    return [*arrays, seen] if case.mask else arrays


def reference(case: Case, arrays: list[np.ndarray], steps: int) -> np.ndarray:
    results = []
    for head in range(case.heads):
        q, k, v = (array[head].astype(np.float64) for array in arrays[:3])
        v = v.T if case.transposed else v
        for _ in range(steps):
            scores = q @ k.T / math.sqrt(case.head)
            if case.mask:
                scores[~arrays[3][head]] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            q = weights / weights.sum(-1, keepdims=True) @ v
        results.append(q)
    return np.stack(results)


def iree_calls(
    name: str, vmfb: bytes, case: Case, arrays: list[np.ndarray], device: Any, threads: int
) -> dict[str, Call]:
    """Calls of a program's functions, by column, on inputs that lie on the device already."""
    from iree import runtime

    functions = load(runtime.Config(device=device), vmfb)
    given = [to_iree(device, array) for array in arrays]

    def call(function: Any) -> Callable[[], np.ndarray]:
        return lambda: function(*given).to_host()

    timed = timed_steps(case, threads)
    return {
        column(name, steps): Call(call(functions[function]), steps)
        for function, steps in case.functions.items()
        if steps in timed
    }


def torch_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def torch_call(
    case: Case, arrays: list[np.ndarray], threads: int, steps: int
) -> Callable[[], np.ndarray]:
    """PyTorch's scaled_dot_product_attention, told that a causal mask is one; V^T is a view. Its
    inputs lie where PyTorch puts them, not in numpy's large pages."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    torch.set_num_threads(threads)
    kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[case.kind]
    q, k, v = (torch.from_numpy(x.astype(np.float32)).to(kind)[None].clone() for x in arrays[:3])
    v = v.mT if case.transposed else v
    causal = case.mask == "causal"
    mask = torch.from_numpy(arrays[3])[None] if case.mask and not causal else None

    def call() -> Any:
        result = q
        with torch.no_grad():
            for _ in range(steps):
                result = scaled_dot_product_attention(
                    result, k, v, attn_mask=mask, is_causal=causal
                )
        return result

    return lambda: call().float().numpy() if kind != torch.float32 else call().numpy()


def measure_part(part: str, where: str, number: str, count: str) -> dict[str, Any]:
    """One case of one of PARTS, in this process."""
    on_cpu.end_after(PART_SECONDS)
    case, folder, threads = CASES[int(number)], Path(where, number), int(count)
    if part == "programs":
        return measure_programs(folder, case, threads)
    if part == "spinning":
        return measure_spinning(folder, case, threads)
    return measure_torch(part, case, threads)


if __name__ == "__main__":
    print(json.dumps(measure_part(*sys.argv[1:])), flush=True)
