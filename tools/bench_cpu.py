"""Measures attention on CPUs, as IREE and as we compile it, beside PyTorch on the same cores.

    python tools/bench_cpu.py compile build/cpu --cpu host     (needs attnpass)
    python tools/bench_cpu.py run build/cpu --threads 1 2 --json bench/results/cpu.json
                                  (needs iree-base-runtime and, for its column, torch)
    python tools/bench_cpu.py page                             (rewrites docs/cpu.md)

`compile` may run on another machine than `run`: `--cpu` takes LLVM's name of a processor. `run`
holds every result against a float64 reference, then calls the programs in turns, as many times
as fit; numbers are medians. Each case has a process of its own, and PyTorch one for all cases,
pinned to as many cores as it gets threads. With one thread they are CPU milliseconds of the
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
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench_split_k import Shape, steps_module
from doc_blocks import RESULTS, machine, table, write_block
from iree_device import load, to_iree

# Passes of each program; None is iree-compile.
WAYS = {
    "iree": None,
    "configured": "attn-configure",
    "vectorized": "attn-configure,attn-vectorize",
}
COMPILE_SECONDS = 120
# Attention steps, each after the last, in a call of decode's function `steps`.
STEPS = 8
# The calls of a round, and what a program gets that takes much time; one that takes little gets
# more rounds where clocks are elapsed time.
CALLS, LEAST_ROUNDS = 3, 2
CASE_SECONDS = 150
# How long IREE's workers spin where they do: about what PyTorch's GNU OpenMP makes of its 300,000
# turns.
SPIN_MICROSECONDS = 10_000
# What `run` calls in processes of their own, and what it sets there; the last two with several
# threads.
PARTS = {
    "programs": {},
    "torch": {},
    "spinning": {},
    "sleeping": {"OMP_WAIT_POLICY": "passive"},
}
# The part that measures the same with threads that wait in the other way.
WAITING = {"programs": "spinning", "torch": "sleeping"}


@dataclass(frozen=True)
class Case:
    shape: Shape
    mask: str = ""
    dynamic: bool = False
    transposed: bool = False

    @property
    def name(self) -> str:
        shape = self.shape
        words = [f"{shape.heads} heads", f"{shape.rows} x {shape.keys}", f"d {shape.head_dim}"]
        words += [shape.element, self.mask, "keys at run time" if self.dynamic else ""]
        words += ["V^T"] if self.transposed else []
        return ", ".join(word for word in words if word)

    @property
    def functions(self) -> dict[str, int]:
        """The functions of its programs, and how many attention steps each has."""
        few_rows = self.shape.rows < self.shape.head_dim
        return {"one": 1, "steps": STEPS} if few_rows else {"one": 1}


def prefill(heads: int, length: int, head: int, kind: str = "f32", **more: Any) -> Case:
    return Case(Shape(heads, length, length, head, kind), **more)


def decode(rows: int, keys: int, kind: str = "f32", **more: Any) -> Case:
    return Case(Shape(8, rows, keys, 128, kind), **more)


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
)


def wanted(options: argparse.Namespace) -> list[int]:
    """Numbers of the cases to measure."""
    return list(range(len(CASES))) if options.only is None else options.only


def compile_all(options: argparse.Namespace) -> None:
    """Writes FOLDER/<number of the case>/<way>.vmfb, and for which processor they are."""
    folder, cpu = options.folder, options.cpu
    for number in wanted(options):
        case = CASES[number]
        place = folder / str(number)
        place.mkdir(parents=True, exist_ok=True)
        text = steps_module(
            case.shape, case.functions, bool(case.mask), case.dynamic, case.transposed
        )
        for way, passes in WAYS.items():
            (place / f"{way}.vmfb").write_bytes(compile_text(text, passes, cpu))
        print(case.name, flush=True)
    (folder / "cpu.json").write_text(json.dumps({"cpu": cpu, "iree": machine()["iree"]}))


def compile_text(text: str, passes: str | None, cpu: str) -> bytes:
    """By attn-compile with these passes, or by iree-compile; each in a process of its own."""
    from model_check import TARGET

    from attnpass.driver.flags import iree_compile

    ours = ["-m", "attnpass.cli.attn_compile", f"--attn-pipeline={passes}"]
    command = [sys.executable, *ours] if passes else [iree_compile()]
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder, "out.vmfb")
        command += ["-", "-o", str(binary), *TARGET, f"--iree-llvmcpu-target-cpu={cpu}"]
        # From standard input: a file's name would make equal programs differ.
        subprocess.run(command, input=text.encode(), check=True, timeout=COMPILE_SECONDS)
        return binary.read_bytes()


def run_all(options: argparse.Namespace) -> None:
    """Runs each compiled case in processes of its own; the results so far stand in the JSON."""
    folder = options.folder
    data: dict[str, Any] = {**machine(), **json.loads((folder / "cpu.json").read_text())}
    data |= {"torch": torch_version(), "threads": {}}
    if options.json.exists():
        data["threads"] = json.loads(options.json.read_text())["threads"]
    numbers = [number for number in wanted(options) if (folder / str(number)).exists()]
    began = time.perf_counter()
    for threads in options.threads:
        rounds: dict[int, list[dict[str, Any]]] = {number: [] for number in numbers}
        for number in numbers * options.processes:
            name = CASES[number].name
            if time.perf_counter() - began > options.seconds:
                raise SystemExit(f"no time left for {name}")
            rounds[number].append(run_case(folder, number, threads))
            print(threads, name, json.dumps(rounds[number][-1]), flush=True)
            data["threads"].setdefault(str(threads), {})[name] = median_row(rounds[number])
            options.json.write_text(json.dumps(data, indent=1) + "\n")


def run_case(folder: Path, number: int, threads: int) -> dict[str, Any]:
    """All columns of a case, PyTorch's in processes between those of IREE's programs and ours."""
    parts = ["programs", *(["torch"] if torch_version() else [])]
    if threads > 1:
        parts = [other for part in parts for other in (part, WAITING[part])]
    row: dict[str, Any] = {}
    for part in parts:
        row |= run_part(folder, number, threads, part)
    return row


def median_row(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of those of several processes: their median times, their best, the worst error."""
    if len(rows) == 1:
        return rows[0]
    if failed := [row for row in rows if "failed" in row]:
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


def run_part(folder: Path, number: int, threads: int, part: str) -> dict[str, Any]:
    """Columns of a case measured in a process, which prints them."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    command = ["taskset", "-c", cores, sys.executable, __file__, part, str(folder)]
    command += ["--only", str(number), "--threads", str(threads)]
    # Set before numpy and torch start their threads.
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **PARTS[part]}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=CASE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"took more than {CASE_SECONDS} s"}
    return json.loads(done.stdout) if done.stdout else {"failed": done.stderr[-500:]}


@dataclass(frozen=True)
class Call:
    """What is timed: attention `steps` times, each but the first on the result of the last."""

    run: Callable[[], np.ndarray]
    steps: int = 1


def measure_programs(folder: Path, case: Case, threads: int) -> dict[str, Any]:
    """Milliseconds and relative errors of each compiled program."""
    arrays, device = inputs(case), cpu_device(threads)
    programs = {path.stem: path.read_bytes() for path in sorted(folder.glob("*.vmfb"))}
    calls: dict[str, Call] = {}
    for name, program in programs.items():
        calls |= iree_calls(name, program, case, arrays, device, threads)
    return measure(case, arrays, calls, threads)


def measure_spinning(folder: Path, case: Case, threads: int) -> dict[str, Any]:
    """Milliseconds and relative errors of our loops, called by workers that spin."""
    arrays, device = inputs(case), cpu_device(threads, SPIN_MICROSECONDS)
    program = (folder / "vectorized.vmfb").read_bytes()
    return measure(
        case, arrays, iree_calls("spinning", program, case, arrays, device, threads), threads
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
        name: {"error": error(call.run(), right[call.steps])} for name, call in calls.items()
    }
    for name, seconds in in_turns(calls, threads).items():
        milliseconds = [1e3 * one / calls[name].steps for one in seconds]
        rows[name]["ms"] = round(statistics.median(milliseconds), 3)
        rows[name]["best"] = round(min(milliseconds), 3)
        rows[name]["rounds"] = len(seconds)
    return rows


def inputs(case: Case) -> list[np.ndarray]:
    """q, k, v (or V^T) in the case's type and the mask, if it has one."""
    import ml_dtypes

    kind = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[case.shape.element]
    random = np.random.default_rng(0)
    shape = case.shape
    sizes = [(shape.heads, count, shape.head_dim) for count in (shape.rows, *[shape.keys] * 2)]
    arrays = [random.standard_normal(size, np.float32).astype(kind) for size in sizes]
    if case.transposed:
        arrays[2] = np.ascontiguousarray(arrays[2].swapaxes(1, 2))
    seen = np.ones((shape.heads, shape.rows, shape.keys), np.bool_)
    if case.mask == "causal":
        seen = np.tril(seen)
    elif case.mask == "padding":
        seen[:, :, shape.keys * 3 // 4 :] = False
    return [*arrays, seen] if case.mask else arrays


def reference(case: Case, arrays: list[np.ndarray], steps: int) -> np.ndarray:
    results = []
    for head in range(case.shape.heads):
        q, k, v = (array[head].astype(np.float64) for array in arrays[:3])
        v = v.T if case.transposed else v
        for _ in range(steps):
            scores = q @ k.T / math.sqrt(case.shape.head_dim)
            if case.mask:
                scores[~arrays[3][head]] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            q = weights / weights.sum(-1, keepdims=True) @ v
        results.append(q)
    return np.stack(results)


def error(result: Any, right: np.ndarray) -> float:
    """Relative L2 distance."""
    given = np.asarray(result, np.float64).reshape(right.shape)
    return float(np.linalg.norm(given - right) / np.linalg.norm(right))


def cpu_device(threads: int, spin: int = 0) -> Any:
    """IREE's device with workers that wait for `spin` microseconds before they sleep."""
    from iree import runtime

    if threads == 1:
        return runtime.get_device("local-sync")
    runtime.flags.parse_flags(
        f"--task_topology_group_count={threads}", f"--task_worker_spin_us={spin}"
    )
    return runtime.get_device("local-task")


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
    kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[case.shape.element]
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


def in_turns(calls: dict[str, Call], threads: int) -> dict[str, list[float]]:
    """Seconds of calls. A turn is a call that is not counted, which finds its data where the
    program before has left it, and some that are."""
    clock = time.process_time if threads == 1 else time.perf_counter
    rounds, round_seconds = (7, 1.5) if threads == 1 else (50, 0.7)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            if len(times[name]) >= LEAST_ROUNDS and sum(times[name]) > round_seconds:
                continue
            call.run()
            for _ in range(CALLS):
                begin = clock()
                call.run()
                times[name].append(clock() - begin)
    return times


def write_page() -> None:
    """A table for each machine and number of threads."""
    parts = [
        machine_part(json.loads(path.read_text())) for path in sorted(RESULTS.glob("cpu*.json"))
    ]
    write_block("cpu.md", "cpu", "\n".join(parts))


def machine_part(data: dict[str, Any]) -> str:
    text = f"{data['note']}\n\n" if "note" in data else ""
    for threads, rows in data["threads"].items():
        found = [(case.name, rows[case.name]) for case in CASES if case.name in rows]
        found = [(name, row) for name, row in found if "failed" not in row]
        text += (
            f"{data['machine']} (compiled for {data['cpu']}), threads: {threads}, "
            f"IREE {data['iree']}, PyTorch {data['torch']}.\n\n{main_table(found)}\n"
        )
        if waits := [(name, row) for name, row in found if {"spinning", "sleeping"} <= {*row}]:
            text += f"{WAITS}\n\n{wait_table(waits)}\n"
        if steps := [(name, row) for name, row in found if "torch steps" in row]:
            text += f"{IN_A_CALL}\n\n{steps_table(steps)}\n"
    return text


def main_table(rows: list[tuple[str, dict[str, Any]]]) -> str:
    head = ["attention, ms", "IREE", "configured", "vectorized", "PyTorch"]
    head += ["over IREE", "over PyTorch", "errors"]
    return table(head, [table_line(name, row) for name, row in rows])


def table_line(name: str, row: dict[str, Any]) -> list[str]:
    found = [row.get(way) for way in (*WAYS, "torch")]
    ours = row["vectorized"]["ms"]
    times = [f"{way['ms']:.4g}" if way else "" for way in found]
    gains = [f"{way['ms'] / ours:.2f}" if way else "" for way in (found[0], found[-1])]
    errors = ", ".join(f"{way['error']:.0e}" for way in found if way)
    return [name, *times, *gains, errors]


WAITS = (
    "The same calls where both sides' threads wait in the same way between them, ms, medians "
    "(and the best calls):"
)


def wait_table(rows: list[tuple[str, dict[str, Any]]]) -> str:
    """Ours and PyTorch with threads that sleep between calls, and with threads that spin."""
    head = ["attention", "ours, sleeping", "PyTorch, sleeping", "gain"]
    head += ["ours, spinning", "PyTorch, spinning", "gain"]
    pairs = (("vectorized", "sleeping"), ("spinning", "torch"))
    return table(head, [[name, *wait_cells(row, pairs)] for name, row in rows])


IN_A_CALL = (
    f"Attention {STEPS} times in a call, each with the last result as its queries, ms a step, "
    "threads as both come, and where both wait in the same way:"
)


def steps_table(rows: list[tuple[str, dict[str, Any]]]) -> str:
    head = ["attention", "IREE", "ours", "PyTorch", "over IREE", "over PyTorch"]
    head += ["both sleeping", "both spinning", "errors"]
    return table(head, [[name, *steps_cells(row)] for name, row in rows])


def steps_cells(row: dict[str, Any]) -> list[str]:
    iree, ours, torch, spinning, sleeping = (
        row[column(name, STEPS)] for name in ("iree", "vectorized", "torch", "spinning", "sleeping")
    )
    pairs = ((iree, ours), (torch, ours), (sleeping, ours), (torch, spinning))
    times = [f"{way['ms']:.3g}" for way in (iree, ours, torch)]
    gains = [f"{theirs['ms'] / mine['ms']:.2f}" for theirs, mine in pairs]
    return [*times, *gains, ", ".join(f"{way['error']:.0e}" for way in (iree, ours, torch))]


def wait_cells(row: dict[str, Any], pairs: tuple[tuple[str, str], ...]) -> list[str]:
    cells: list[str] = []
    for names in pairs:
        ours, theirs = (row[name] for name in names)
        cells += [f"{way['ms']:.3g} ({way['best']:.3g})" for way in (ours, theirs)]
        cells.append(f"{theirs['ms'] / ours['ms']:.2f} ({theirs['best'] / ours['best']:.2f})")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=("compile", "run", *PARTS, "page"))
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/cpu"))
    parser.add_argument("--cpu", default="host", help="LLVM's name of the processor")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--only", type=int, nargs="+", help="numbers of cases, from 0")
    parser.add_argument("--processes", type=int, default=1, help="of each part, in turns")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no case after")
    parser.add_argument("--json", type=Path, default=RESULTS / "cpu.json")
    options = parser.parse_args()
    if options.what == "compile":
        compile_all(options)
    elif options.what == "run":
        run_all(options)
    elif options.what == "page":
        write_page()
    else:
        print(json.dumps(measure_part(options)), flush=True)


def measure_part(options: argparse.Namespace) -> dict[str, Any]:
    """One case of one of PARTS, in this process."""
    part, (number,), (threads,) = options.what, options.only, options.threads
    case, folder = CASES[number], options.folder / str(number)
    if part == "programs":
        return measure_programs(folder, case, threads)
    if part == "spinning":
        return measure_spinning(folder, case, threads)
    return measure_torch(part, case, threads)


if __name__ == "__main__":
    main()
