"""Whole transformer blocks on a Hopper GPU, beside PyTorch: eager, as a CUDA graph, compiled.

Blocks are those of bench/models/blocks.py at the sizes of real models (blocks.txt), their weights
arguments.
`iree` is IREE 3.13 at O2, where it is fastest, with no pass of ours (for sm_80: it compiles
no attention for sm_90); `attnpass` the code of IREE's that the passes configure; `kernels` has
precompiled kernels for attention and products. A time is that of a call with its synchronisation:
the least median of several rounds, in which programs take turns. `device_ms` is what runs on the
GPU in a call, from CUPTI through torch's profiler, `kernels` the longest of it in microseconds.
Errors are relative L2 distances from float64, the largest of all results.
"""

# pyright: reportMissingImports=false
# (torch is an extra here, and on the GPU machine)

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.block_case import Block, compile_block, listed_blocks, worst_error
from bench.device import gpu, load, several, to_iree, to_torch
from bench.results import Row, row
from bench.timing import call_seconds, captured, kernels_of, ms

CUDA = ("--iree-hal-target-device=cuda", "--iree-input-type=torch")
WAYS = {
    "iree": ("--iree-cuda-target=sm_80", "--attn-disable"),
    "attnpass": ("--iree-cuda-target=sm_90", "--attn-kernels=never", "--attn-products=never"),
    "kernels": ("--iree-cuda-target=sm_90", "--attn-kernels=cost", "--attn-products=cost"),
}
# Kernels of a call whose names the results keep.
LONGEST = 10


def cases() -> list[Block]:
    return listed_blocks(Path(__file__).with_suffix(".txt"))


def compile(folder: Path, wanted: list[Block], _: argparse.Namespace) -> None:
    """Writes each block as MLIR and a .vmfb for each way that compiles. Needs torch."""
    for case in wanted:
        own = {"kernels": WAYS["kernels"]} if case.other else WAYS
        levels = {way: case.level if way == "iree" else "O2" for way in own}
        ways = {w: (*CUDA, *of, f"--iree-opt-level={levels[w]}") for w, of in own.items()}
        compile_block(folder, case, ways)


def run(folder: Path, case: Block, options: argparse.Namespace) -> Iterator[Row]:
    import torch

    with torch.no_grad():
        yield from _run(folder, case, options)


def _run(folder: Path, case: Block, options: argparse.Namespace) -> Iterator[Row]:
    import torch

    block, inputs = case.filled("cuda"), case.given("cuda")
    wanted = case.exact(block, inputs)
    calls = _peers(block, inputs, compiled=not (options.numbers or case.other))
    found: dict[str, dict[str, Any]] = {
        way: {"error": worst_error(calls[way](), wanted)} for way in calls if way != "torch graph"
    }
    given = [to_iree(gpu().device, one) for one in (*inputs, *block.parameters())]
    for way in WAYS:
        path = case.file(folder, way)
        if not path.exists():
            continue
        try:
            function, found[way] = _loaded(path)
            found[way]["error"] = worst_error(_taken(function(*given), inputs), wanted)
            calls[way] = lambda f=function: f(*given)
        except Exception as problem:
            found[way] = {"failed": f"{type(problem).__name__}: {problem}"[:300]}
    torch.cuda.synchronize()
    del wanted
    for way, spent in ({} if options.numbers else call_seconds(calls)).items():
        found.setdefault(way, {}).update(ms=ms(spent), **_on_gpu(calls[way]))
    for way, numbers in found.items():
        yield row(case.name, way, numbers)


def _peers(block: Any, inputs: list[Any], compiled: bool) -> dict[str, Callable[[], Any]]:
    """PyTorch's ways, each call to its end."""
    import torch

    def ended(call: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: (call(), torch.cuda.synchronize())[0]

    peers: dict[str, Callable[[], Any]] = {"torch": ended(lambda: block(*inputs))}
    peers["torch graph"] = captured(lambda: block(*inputs))
    if compiled:
        fast = torch.compile(block)
        peers["torch compile"] = ended(lambda: fast(*inputs))
    return peers


def _loaded(path: Path) -> tuple[Any, dict[str, Any]]:
    """A module's function, the milliseconds that it takes to load, and its size."""
    config, binary = gpu(), path.read_bytes()
    start = time.perf_counter()
    function = load(config, binary)["main"]
    return function, {"load_ms": ms(time.perf_counter() - start, 2), "bytes": len(binary)}


def _taken(results: Any, inputs: list[Any]) -> list[Any]:
    """The results of a module as tensors."""
    return [to_torch(one, inputs[0].dtype).view(one.shape) for one in several(results)]


def _on_gpu(call: Callable[[], Any]) -> dict[str, Any]:
    """What a call runs on the GPU: milliseconds, and those of the longest kernels by name."""
    spent: defaultdict[str, float] = defaultdict(float)
    for name, microseconds in kernels_of(call):
        spent[name[:60]] += microseconds
    longest = sorted(spent.items(), key=lambda item: -item[1])[:LONGEST]
    kernels = {name: round(us, 1) for name, us in longest}
    return {"device_ms": round(sum(spent.values()) / 1e3, 4), "kernels": kernels}
