"""Whole models' layers on CPUs, beside PyTorch: eager, and compiled (inductor).

Blocks are those of bench/models/blocks.py. `iree` is IREE 3.13 with no pass of ours, `attnpass`
the code of the passes, both with weights as arguments; `constants` has weights as parameters that
are read, and packed, when the program is loaded. Programs of a number of threads have a process,
PyTorch's two ways others, pinned to as many cores; all compile and warm up at once, and are
measured in turns, on the same cores. Times are medians of a call, `best` the least; IREE's workers
spin between calls, as PyTorch's do. Errors are relative L2 distances from float64, the largest of
all results. What fails is a row that says why.
"""

# pyright: reportMissingImports=false
# (torch is an extra here, and on the machine that runs)

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import on_cpu
from bench.block_case import Block, compile_block, listed_blocks, worst_error
from bench.device import load, to_iree
from bench.results import Row, row

IS_ON_CPU = True
CASE_SECONDS = 300
CPU = (
    "--iree-input-type=torch",
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
)
WAYS = ("iree", "attnpass", "constants")
# What `run` measures in processes of their own.
PARTS = ("programs", "torch", "torch compile")
# Seconds that a process may take until it is ready, and to be measured.
PART_SECONDS = 200
SPIN_MICROSECONDS = 1000
# Inductor tries each set of vector instructions in a process of its own: minutes where processes
# start slowly.
ENVIRONMENT = {"TORCHINDUCTOR_VEC_ISA_OK": "1"}


def cases() -> list[Block]:
    return listed_blocks(Path(__file__).with_suffix(".txt"))


def compile(folder: Path, wanted: list[Block], options: argparse.Namespace) -> None:
    """Writes each block as MLIR and a .vmfb for each way that compiles. Needs torch."""
    common = (*CPU, f"--iree-llvmcpu-target-cpu={options.cpu}")
    for case in wanted:
        ways: dict[str, list[str]] = {way: [*common, "--iree-opt-level=O2"] for way in WAYS}
        ways["iree"] = [*common, f"--iree-opt-level={case.level}", "--attn-disable"]
        compile_block(folder, case, ways, with_constants=("constants",))
    (folder / "cpu.json").write_text(json.dumps({"cpu": options.cpu}))


def about(folder: Path) -> dict[str, Any]:
    """For which processor the programs are."""
    return json.loads((folder / "cpu.json").read_text())


def run(folder: Path, case: Block, options: argparse.Namespace) -> Iterator[Row]:
    yield from run_all(folder, [(case, count) for count in options.threads])


def run_all(folder: Path, wanted: Iterable[tuple[Block, int]]) -> Iterator[Row]:
    """The rows of some blocks, each with a number of threads."""
    started: dict[tuple[str, int], dict[str, on_cpu.Part]] = {}
    for case, count in wanted:
        write_reference(folder, case)
        parts = started.setdefault((case.name, count), {})
        for name in PARTS:
            words, first = (name, folder, case.name, count), len(started) * len(PARTS)
            parts[name] = on_cpu.Part("models_on_cpu", words, count, ENVIRONMENT, first)
    for parts in started.values():
        for part in parts.values():
            part.wait()
    for (case, count), parts in started.items():
        for _ in range(on_cpu.TURNS):
            for part in parts.values():
                part.turn()
        for name, part in parts.items():
            measured = part.measured()
            for way, found in ({name: measured} if "failed" in measured else measured).items():
                yield row(case, way, found, threads=count)


def measure(part: str, folder: Path, case: Block, threads: int) -> dict[str, Any]:
    """Milliseconds and errors of the programs, or of PyTorch's ways, by name."""
    import torch

    on_cpu.end_after(PART_SECONDS)
    torch.set_num_threads(threads)
    with torch.no_grad():
        return _measure(part, folder, case, threads)


def _measure(part: str, folder: Path, case: Block, threads: int) -> dict[str, Any]:
    block, inputs = case.filled("cpu"), case.given("cpu")
    with np.load(_reference(folder, case)) as found_there:
        wanted = [found_there[name] for name in found_there.files]
    found: dict[str, dict[str, Any]] = {}
    calls: dict[str, Callable[[], Any]] = {}
    if part == "programs":
        made = _programs(folder, case, block, inputs, threads)
    else:
        made = {part: lambda: _torch(part, block, inputs)}
    for way, make in made.items():
        try:
            call = make()
            found[way] = {"error": worst_error(call(), wanted)}
            calls[way] = call
        except Exception as problem:
            found[way] = {"failed": f"{type(problem).__name__}: {problem}"[:400]}
    spent: dict[str, list[float]] = {way: [] for way in calls}
    for _ in on_cpu.turns(PART_SECONDS):
        for way, times in on_cpu.in_turns(calls, rounds=3, seconds=0.15, least=1).items():
            spent[way] += times
    for way, times in spent.items():
        found[way] |= on_cpu.milliseconds(times) if times else {"failed": "had no turn"}
    return found


def write_reference(folder: Path, case: Block) -> None:
    """Writes the block's results in float64, by all cores, where they are not there yet."""
    import torch

    if _reference(folder, case).exists():
        return
    with torch.no_grad():
        results = case.exact(case.filled("cpu"), case.given("cpu"))
    np.savez(_reference(folder, case), *[one.numpy() for one in results])


def _reference(folder: Path, case: Block) -> Path:
    return folder / f"{case.name}.npz"


def _torch(part: str, block: Any, inputs: list[Any]) -> Callable[[], Any]:
    import torch

    called = torch.compile(block) if part == "torch compile" else block
    return lambda: called(*inputs)


def _programs(
    folder: Path, case: Block, block: Any, inputs: list[Any], threads: int
) -> dict[str, Callable[[], Callable[[], Any]]]:
    """What makes a call of each program that was compiled."""
    from iree import runtime

    device = on_cpu.device(threads, SPIN_MICROSECONDS)
    weights = list(block.parameters())
    given = [to_iree(device, one) for one in inputs]
    as_arguments = [to_iree(device, one) for one in weights]

    def program(way: str) -> Callable[[], Any]:
        path = case.file(folder, way)
        if way == "constants":
            function = _with_parameters(device, path, weights)
            return lambda: function(*given)
        function = load(runtime.Config(device=device), path)["main"]
        return lambda: function(*given, *as_arguments)

    there = [way for way in sorted(WAYS) if case.file(folder, way).exists()]
    return {way: lambda way=way: program(way) for way in there}


def _with_parameters(device: Any, path: Path, weights: list[Any]) -> Any:
    """The function of a program that reads its weights when it is loaded."""
    import torch
    from iree import runtime

    config = runtime.Config(device=device)
    index = runtime.ParameterIndex()
    for number, weight in enumerate(weights):
        index.add_buffer(f"w{number}", weight.detach().contiguous().view(torch.uint8).numpy())
    provider = index.create_provider(scope="model")
    instance = config.vm_instance
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.create_io_parameters_module(instance, provider))
    module = runtime.VmModule.copy_buffer(instance, path.read_bytes())
    context.add_vm_module(module)
    return context.modules[module.name]["main"]


if __name__ == "__main__":
    chosen = next(case for case in cases() if case.name == sys.argv[3])
    print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]), chosen, int(sys.argv[4]))), flush=True)
