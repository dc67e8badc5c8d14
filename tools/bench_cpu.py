"""Measures attn-configure and attn-decompose on this CPU beside IREE's default and PyTorch.

    pip install torch --index-url https://download.pytorch.org/whl/cpu     # for its column
    python tools/bench_cpu.py --json tools/results/cpu.json --page

Every result is held against a float64 reference first. The programs are then called in turns;
numbers are medians. With one thread (the default) they are CPU milliseconds of the process,
which other work on the machine changes little; with `--threads 2` or more they are elapsed
milliseconds and need a quiet machine. `--page` writes docs/cpu.md.
"""

# pyright: reportMissingImports=false
# (torch is no dependency of the project)

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench_split_k import Shape, steps_module
from doc_blocks import machine, table, write_block
from model_check import HOST, TARGET, loaded

# Passes of each program; None is iree-compile. What attn-decompose refuses is configured.
WAYS = {
    "iree": None,
    "configured": "attn-configure",
    "decomposed": "attn-decompose,attn-configure",
}
COMPILE_SECONDS = 120
ROUNDS = 5
# A program that is so slow that five rounds take longer than this gets fewer.
MOST_SECONDS = 60.0
LEAST_SECONDS = 1.0


@dataclass(frozen=True)
class Case:
    shape: Shape
    mask: str = ""
    dynamic: bool = False

    @property
    def name(self) -> str:
        shape = self.shape
        words = [f"{shape.heads} heads", f"{shape.rows} x {shape.keys}", f"d {shape.head_dim}"]
        words += [shape.element, self.mask, "keys at run time" if self.dynamic else ""]
        return ", ".join(word for word in words if word)


def prefill(heads: int, length: int, head: int, kind: str = "f32", **more: Any) -> Case:
    return Case(Shape(heads, length, length, head, kind), **more)


def decode(rows: int, keys: int, kind: str = "f32", heads: int = 8, head: int = 128) -> Case:
    return Case(Shape(heads, rows, keys, head, kind))


CASES = (
    prefill(32, 512, 64),
    prefill(32, 512, 128),
    # Four of 32 heads: heads do not meet, and IREE's own configuration takes 0.7 s a head.
    prefill(4, 2048, 64),
    prefill(4, 2048, 128),
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
)


def measure(case: Case, threads: int) -> dict[str, Any]:
    """Milliseconds and relative errors of each program."""
    arrays = inputs(case)
    right = reference(case, arrays)
    text = steps_module(case.shape, {"one": 1}, bool(case.mask), case.dynamic)
    calls: dict[str, Callable[[], Any]] = {
        way: iree_call(text, passes, arrays, threads) for way, passes in WAYS.items()
    }
    if torch_is_there():
        calls["torch"] = torch_call(case, arrays, threads)
    rows = {name: {"error": error(call(), right)} for name, call in calls.items()}
    for name, seconds in in_turns(calls, threads).items():
        rows[name]["ms"] = round(statistics.median(seconds) * 1e3, 3)
        rows[name]["rounds"] = len(seconds)
    return rows


def inputs(case: Case) -> list[np.ndarray]:
    """q, k, v in the case's type and the mask, if it has one."""
    import ml_dtypes

    kind = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[case.shape.element]
    random = np.random.default_rng(0)
    shape = case.shape
    sizes = [(shape.heads, count, shape.head_dim) for count in (shape.rows, *[shape.keys] * 2)]
    arrays = [random.standard_normal(size, np.float32).astype(kind) for size in sizes]
    seen = np.ones((shape.heads, shape.rows, shape.keys), np.bool_)
    if case.mask == "causal":
        seen = np.tril(seen)
    elif case.mask == "padding":
        seen[:, :, shape.keys * 3 // 4 :] = False
    return [*arrays, seen] if case.mask else arrays


def reference(case: Case, arrays: list[np.ndarray]) -> np.ndarray:
    results = []
    for head in range(case.shape.heads):
        q, k, v = (array[head].astype(np.float64) for array in arrays[:3])
        scores = q @ k.T / math.sqrt(case.shape.head_dim)
        if case.mask:
            scores[~arrays[3][head]] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        results.append(weights / weights.sum(-1, keepdims=True) @ v)
    return np.stack(results)


def error(result: Any, right: np.ndarray) -> float:
    """Relative L2 distance."""
    given = np.asarray(result, np.float64).reshape(right.shape)
    return float(np.linalg.norm(given - right) / np.linalg.norm(right))


def iree_call(text: str, passes: str | None, arrays: list[np.ndarray], threads: int) -> Any:
    from iree import runtime

    device = runtime.get_device("local-sync") if threads == 1 else task_device(threads)
    call = loaded(compile_text(text, passes), arrays, device)
    return lambda: call()[0].to_host()


def task_device(threads: int) -> Any:
    from iree import runtime

    runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
    return runtime.get_device("local-task")


def compile_text(text: str, passes: str | None) -> bytes:
    """By attn-compile with these passes, or by iree-compile; each in a process of its own."""
    import subprocess
    import tempfile

    from attnpass.iree.flags import iree_compile

    ours = ["-m", "attnpass.cli.attn_compile", f"--attn-pipeline={passes}"]
    command = [sys.executable, *ours] if passes else [iree_compile()]
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "in.mlir"), Path(folder, "out.vmfb")
        source.write_text(text)
        command += [str(source), "-o", str(binary), *TARGET, *HOST]
        subprocess.run(command, check=True, timeout=COMPILE_SECONDS)
        return binary.read_bytes()


def torch_is_there() -> bool:
    from importlib.util import find_spec

    return find_spec("torch") is not None


def torch_call(case: Case, arrays: list[np.ndarray], threads: int) -> Callable[[], np.ndarray]:
    """PyTorch's scaled_dot_product_attention, told that a causal mask is one."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    torch.set_num_threads(threads)
    kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[case.shape.element]
    q, k, v = (torch.from_numpy(x.astype(np.float32)).to(kind)[None] for x in arrays[:3])
    causal = case.mask == "causal"
    mask = torch.from_numpy(arrays[3])[None] if case.mask and not causal else None

    def call() -> Any:
        with torch.no_grad():
            return scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)

    return lambda: call().float().numpy() if kind != torch.float32 else call().numpy()


def in_turns(calls: dict[str, Callable[[], Any]], threads: int) -> dict[str, list[float]]:
    clock = time.process_time if threads == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in calls}
    started = time.perf_counter()
    while True:
        for name, call in calls.items():
            begin = clock()
            call()
            times[name].append(clock() - begin)
        spent, rounds = time.perf_counter() - started, len(times["iree"])
        if (rounds >= ROUNDS and spent > LEAST_SECONDS) or spent > MOST_SECONDS:
            return times


def write_page(data: dict[str, Any]) -> None:
    ways = [*WAYS, "torch"]
    head = ["attention, ms", "IREE", "configured", "decomposed", "PyTorch"]
    head += ["best over IREE", "over PyTorch", "errors"]
    rows = []
    for name, row in ((case.name, data["cases"].get(case.name)) for case in CASES):
        if row is None:
            continue
        ours = min(row[way]["ms"] for way in ("configured", "decomposed"))
        found = [row.get(way) for way in ways]
        times = [f"{way['ms']:.4g}" if way else "" for way in found]
        gains = [f"{way['ms'] / ours:.2f}" if way else "" for way in (found[0], found[-1])]
        errors = ", ".join(f"{way['error']:.0e}" for way in found if way)
        rows.append([name, *times, *gains, errors])
    with_torch = f", PyTorch {data['torch']}" if data.get("torch") else ""
    where = f"{data['machine']}, threads: {data['threads']}, IREE {data['iree']}{with_torch}.\n\n"
    write_block("cpu.md", "cpu", where + table(head, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--only", type=int, nargs="*", help="numbers of cases, from 0, to measure again"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", action="store_true", help="write docs/cpu.md")
    options = parser.parse_args()
    data: dict[str, Any] = {**machine(), "threads": options.threads, "cases": {}}
    if options.only is not None and options.json and options.json.exists():
        data["cases"] = json.loads(options.json.read_text())["cases"]
    if torch_is_there():
        import torch

        data["torch"] = torch.__version__
    for i, case in enumerate(CASES):
        if options.only is not None and i not in options.only:
            continue
        data["cases"].pop(case.name, None)
        data["cases"][case.name] = row = measure(case, options.threads)
        print(case.name, json.dumps(row), flush=True)
        if options.json:
            options.json.write_text(json.dumps(data, indent=1) + "\n")
    if options.page:
        write_page(data)


if __name__ == "__main__":
    main()
