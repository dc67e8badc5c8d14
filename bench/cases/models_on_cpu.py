"""Whole models' layers on CPUs, beside PyTorch: eager, and compiled (inductor).

Blocks are those of bench/models/blocks.py. `iree` is IREE 3.13 with no pass of ours, `attnpass`
the code of the passes, both with weights as arguments; `constants` has weights as parameters that
are read, and packed, when the program is loaded. Programs of a number of threads take turns in a
process, PyTorch's in another, pinned to as many cores; all compile and warm up at once, and are
measured one by one. Times are medians of a call, `best` the least; IREE's workers spin between
calls, as PyTorch's do. Errors are relative L2 distances from float64, the largest of all results.
What fails is a row that says why.
"""

# pyright: reportMissingImports=false
# (torch is an extra here, and on the machine that runs)

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import on_cpu
from bench.device import load, to_iree, torch_type
from bench.harness import attn_compile
from bench.results import ROOT, Row, row
from bench.timing import relative_error

IS_ON_CPU = True
CASE_SECONDS = 300
CPU = (
    "--iree-input-type=torch",
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-opt-level=O2",
)
# How a program is compiled, and whether its weights are parameters.
WAYS: dict[str, tuple[tuple[str, ...], bool]] = {
    "iree": (("--attn-disable",), False),
    "attnpass": ((), False),
    "constants": ((), True),
}
# What `run` measures in processes of their own.
PARTS = ("programs", "torch", "torch compile")
# Seconds that a process may take until it is ready, and to be measured.
PART_SECONDS = 100
READY = "ready\n"
SPIN_MICROSECONDS = 1000
# Seconds that a program is called for, and the calls at least and at most.
SECONDS, LEAST, MOST = 0.5, 3, 40


@dataclass(frozen=True)
class Block:
    name: str
    model: str
    sizes: Mapping[str, Any]
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    kind: str = "f32"


BERT = {"width": 768, "count": 12, "hidden": 3072, "layers": 2, "behind": True}
DECODE = {"width": 2048, "count": 32, "groups": 8, "hidden": 8192}
CACHE = ((1, 8, 4096, 64), "random")
STEP = (
    ((1, 1, 2048), "random"),
    ((1, 64), "random"),
    ((1, 64), "random"),
    ((1,), "place"),
    CACHE,
    CACHE,
)


def cases() -> list[Block]:
    padded = (((1, 512, 768), "random"), ((1, 512), "padding"))
    gpt2 = {"layers": 2, "width": 768, "count": 12}
    return [
        Block("BERT-base, 2 layers, 512 rows, padded, f32", "encoders", BERT, padded),
        Block("decode step, 2048 wide, 4096 keys, f32", "decode", DECODE, STEP),
        Block(
            "GPT-2, 2 layers, 1024 rows, written out, f32",
            "gpt2",
            gpt2,
            (((1, 1024, 768), "random"),),
        ),
        Block("decode step, 2048 wide, 4096 keys, bf16", "decode", DECODE, STEP, "bf16"),
    ]


def compile(folder: Path, wanted: list[Block], options: argparse.Namespace) -> None:
    """Writes each block as MLIR and a .vmfb for each way that compiles. Needs torch."""
    from bench.models.blocks import block_of, text_of, with_parameters

    for case in wanted:
        block = block_of(case.model, case.sizes, torch_type(case.kind), "cpu")
        text = text_of(block, _inputs(case), [None] * len(case.inputs))
        for way, (flags, are_parameters) in WAYS.items():
            source = file_of(folder, case, way).with_suffix(".mlir")
            source.write_text(with_parameters(text, len(case.inputs)) if are_parameters else text)
            flags = (*CPU, f"--iree-llvmcpu-target-cpu={options.cpu}", *flags)
            if failed := attn_compile(source, file_of(folder, case, way), *flags):
                print(f"{case.name} {way}: {failed}", flush=True)
    (folder / "cpu.json").write_text(json.dumps({"cpu": options.cpu}))


def about(folder: Path) -> dict[str, Any]:
    """For which processor the programs are."""
    return json.loads((folder / "cpu.json").read_text())


def file_of(folder: Path, case: Block, way: str) -> Path:
    return folder / f"{_number(case)}.{way}.vmfb"


def _number(case: Block) -> int:
    return [one.name for one in cases()].index(case.name)


def run(folder: Path, case: Block, options: argparse.Namespace) -> Iterator[Row]:
    yield from run_all(folder, [case], options.threads)


def run_all(folder: Path, wanted: Iterable[Block], threads: Sequence[int]) -> Iterator[Row]:
    """The rows of some blocks with each number of threads."""
    started: list[tuple[Block, int, Part]] = []
    for case in wanted:
        write_reference(folder, case)
        for count in threads:
            for name in PARTS:
                started.append((case, count, Part(folder, case, count, name, len(started))))
    for _, _, part in started:
        part.wait()
    for case, count, part in started:
        for way, found in part.measured().items():
            yield row(case.name, way, found, threads=count)


class Part:
    """A process that is pinned to so many cores, from the one of number `first` on: it is ready
    once all of its programs have been called, and measures them when it is told to."""

    def __init__(self, folder: Path, case: Block, threads: int, name: str, first: int):
        self.name = name
        cores = sorted(os.sched_getaffinity(0))
        mine = ",".join(str(cores[(first + i) % len(cores)]) for i in range(threads))
        command = ["taskset", "-c", mine, sys.executable, "-m", "bench.cases.models_on_cpu"]
        command += [name, str(folder), str(_number(case)), str(threads)]
        self.log = folder / f"{_number(case)}.{threads}.{name}.log"
        with self.log.open("w") as said:
            self.process = subprocess.Popen(
                command,
                env=_environment(threads),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                cwd=ROOT,
            )

    def wait(self) -> None:
        """Until the process is ready, or has ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line == READY:
                return

    def measured(self) -> dict[str, Any]:
        """What the process has measured, by way."""
        printed, _ = self.process.communicate("\n" if self.process.poll() is None else None)
        lines = [line for line in printed.splitlines() if line.startswith("{")]
        if lines:
            return json.loads(lines[-1])
        return {self.name: {"failed": self.log.read_text()[-600:] or "ended"}}


def _environment(threads: int) -> dict[str, str]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    # Inductor tries each set of vector instructions in a process of its own: minutes where
    # processes start slowly.
    environment["TORCHINDUCTOR_VEC_ISA_OK"] = "1"
    return environment


def measure(part: str, folder: Path, case: Block, threads: int) -> dict[str, Any]:
    """Milliseconds and errors of the programs, or of PyTorch's ways, by name."""
    import torch

    # Says where it stood, and ends.
    faulthandler.dump_traceback_later(PART_SECONDS, exit=True)
    torch.set_num_threads(threads)
    with torch.no_grad():
        return _measure(part, folder, case, threads)


def _measure(part: str, folder: Path, case: Block, threads: int) -> dict[str, Any]:
    from bench.models.blocks import block_of, fill

    block = block_of(case.model, case.sizes, torch_type(case.kind), "cpu")
    fill(block)
    inputs = _inputs(case)
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
            found[way] = {"error": _error(call(), wanted)}
            calls[way] = call
        except Exception as problem:
            found[way] = {"failed": f"{type(problem).__name__}: {problem}"[:400]}
    print(READY, end="", flush=True)
    faulthandler.cancel_dump_traceback_later()
    sys.stdin.readline()
    faulthandler.dump_traceback_later(PART_SECONDS, exit=True)
    for way, seconds in _in_turns(calls).items():
        found[way] |= {
            "ms": round(1e3 * statistics.median(seconds), 3),
            "best": round(1e3 * min(seconds), 3),
            "rounds": len(seconds),
        }
    return found


def write_reference(folder: Path, case: Block) -> None:
    """Writes the block's results in float64, by all cores, where they are not there yet."""
    import torch

    from bench.models.blocks import block_of, fill

    if _reference(folder, case).exists():
        return
    block = block_of(case.model, case.sizes, torch_type(case.kind), "cpu")
    fill(block)
    wide = block_of(case.model, case.sizes, torch_type("f64"), "cpu")
    wide.load_state_dict(block.state_dict())
    with torch.no_grad():
        results = wide(*(x.double() if x.is_floating_point() else x for x in _inputs(case)))
    np.savez(_reference(folder, case), *[one.numpy() for one in _listed(results)])


def _reference(folder: Path, case: Block) -> Path:
    return folder / f"{_number(case)}.npz"


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

    def program(path: Path) -> Callable[[], Any]:
        if ".constants" in path.name:
            function = _with_parameters(device, path, weights)
            return lambda: function(*given)
        function = load(runtime.Config(device=device), path)["main"]
        return lambda: function(*given, *as_arguments)

    paths = sorted(folder.glob(f"{_number(case)}.*.vmfb"))
    return {path.name.split(".")[1]: lambda path=path: program(path) for path in paths}


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


def _in_turns(calls: Mapping[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Seconds of calls; in a turn each program is called once that is not counted, then some."""
    times: dict[str, list[float]] = {way: [] for way in calls}
    for _ in range(MOST // 4):
        for way, call in calls.items():
            if len(times[way]) >= LEAST and sum(times[way]) > SECONDS:
                continue
            call()
            for _ in range(4 if not times[way] or max(times[way]) < SECONDS / 8 else 1):
                start = time.perf_counter()
                call()
                times[way].append(time.perf_counter() - start)
    return times


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple | list) else [results]


def _error(results: Any, wanted: list[Any]) -> float:
    """The largest relative L2 distance of the results."""
    worst = 0.0
    for got, right in zip(_listed(results), wanted, strict=True):
        worst = max(worst, relative_error(_numbers(got), right))
    return worst


def _numbers(value: Any) -> np.ndarray[Any, Any]:
    if hasattr(value, "detach"):
        return value.float().numpy()
    return np.array(value.to_host()).astype(np.float32)


def _inputs(case: Block) -> list[Any]:
    import torch

    torch.manual_seed(0)
    kind, made = torch_type(case.kind), []
    for shape, what in case.inputs:
        if what == "random":
            made.append(torch.randn(shape).to(kind))
        elif what == "place":
            made.append(torch.tensor([case.inputs[-1][0][2] - 96]))
        else:
            made.append((torch.arange(shape[1]) < shape[1] * 3 // 4).long().expand(shape).clone())
    return made


if __name__ == "__main__":
    chosen = cases()[int(sys.argv[3])]
    print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]), chosen, int(sys.argv[4]))), flush=True)
