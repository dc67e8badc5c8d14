"""Convolutions on a Hopper GPU by the kernels that read patches where their images lie, launched by
themselves, beside PyTorch's: all kernels with all of their tiles.

The images are channels last, as both want them. Errors are relative L2 distances to float64 (f32
of the largest images), the worst of all tiles; what lies around the result must stay as it was.
Times are the GPU's, from CUPTI through torch's profiler, in turns, with a bias, operands in the
cache where they fit: of the tile that attnpass chooses, and of the best (`figures`).
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
import ctypes
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.device import torch_type
from bench.results import Row, row
from bench.timing import gpu_microseconds

KERNELS = "kernels.json"
TURNS = 7
# More than this is too much for float64.
_MOST_WIDE = 3e7
# Elements around a result.
_AROUND = 4096
_UNITS = 132
_DYNAMIC_SHARED_MEMORY = 8
_ALL = ("sd320", "taps5x3", "odd", "odd_gaps", "odd_steps", "resnet14")


@dataclass(frozen=True)
class Convolution:
    """Of images (count, channels, *size) to `columns` channels; pairs are of y and x."""

    name: str
    count: int
    channels: int
    size: tuple[int, int]
    columns: int
    taps: tuple[int, int]
    step: int
    gap: int
    pad: int

    @property
    def steps(self) -> tuple[int, int]:
        return (1 if self.size[0] == 1 else self.step, self.step)

    @property
    def pads(self) -> tuple[int, int]:
        y, x = (self.pad if taps > 1 else 0 for taps in self.taps)
        return y, x

    @property
    def result(self) -> tuple[int, int]:
        each = zip(self.size, self.pads, self.taps, self.steps, strict=True)
        y, x = (
            (n + 2 * pad - self.gap * (taps - 1) - 1) // step + 1 for n, pad, taps, step in each
        )
        return y, x

    @property
    def depth(self) -> int:
        return math.prod(self.taps) * math.ceil(self.channels / 64) * 64

    def numbers(self, shape: int) -> dict[str, int]:
        """What a kernel is told."""
        rows, depth = self.count * math.prod(self.result), math.prod(self.taps) * self.channels
        found = {"m": rows, "n": self.columns, "k": depth, "shape": shape}
        found |= {"channels": self.channels, "gap_x": self.gap, "gap_y": self.gap}
        found |= {"taps": math.prod(self.taps), "taps_across": self.taps[1]}
        pairs = {("image_height", "image_width"): self.size, ("height", "width"): self.result}
        pairs |= {("step_y", "step_x"): self.steps, ("top", "left"): self.pads}
        for names, pair in pairs.items():
            found |= dict(zip(names, pair, strict=True))
        return found


def cases() -> list[Convolution]:
    lines = Path(__file__).with_suffix(".txt").read_text().splitlines()
    return [_read(line) for line in lines if not line.startswith("#")]


def _read(line: str) -> Convolution:
    name, count, channels, size, columns, taps, *rest = line.replace(":", "").split()
    pairs = [[*map(int, text.split("x"))] for text in (size, taps)]
    (y, x), (down, across) = pairs
    sizes = (int(count), int(channels), (y, x), int(columns), (down, across))
    return Convolution(name, *sizes, *map(int, rest))


def compile(folder: Path, wanted: list[Convolution], _: argparse.Namespace) -> None:
    """Writes the kernels, and the tiles of each case."""
    from attnpass.kernels.hopper.manifest import load_products
    from attnpass.kernels.hopper.product_speed import tile_seconds
    from attnpass.kernels.hopper.tiles import boxed_tiles

    kernels = [kernel for kernel in load_products() if kernel.imaged]
    told: dict[str, Any] = {"kernels": {}, "tiles": {}}
    for kernel in kernels:
        (folder / f"{kernel.name}.cubin").write_bytes(kernel.image())
        own = ("constants", "shared_memory", "workgroup_size", "scratch_per_workgroup")
        own += ("element_type", "bias", "activation", "other")
        told["kernels"][kernel.name] = {name: getattr(kernel, name) for name in own}
    for case in wanted:
        rows = case.count * math.prod(case.result)
        size = (kernels[0], rows, (case.columns,), case.depth, _UNITS)
        tiles = boxed_tiles(kernels[0], case.result, case.steps)
        tiles = sorted(tiles, key=lambda tile: tile_seconds(tile, *size))
        told["tiles"][case.name] = [
            [tile.shape, _workgroups(case, tile), f"{tile.rows}x{tile.columns}"] for tile in tiles
        ]
    (folder / KERNELS).write_text(json.dumps(told))


def _workgroups(case: Convolution, tile: Any) -> int:
    lines, (height, width) = tile.height // tile.box * tile.blocks, case.result
    boxes = case.count * math.ceil(height / lines) * math.ceil(width / tile.box)
    return min(_UNITS, boxes * math.ceil(case.columns / tile.columns))


def run(folder: Path, case: Convolution, _: argparse.Namespace) -> Iterator[Row]:
    import torch

    torch.backends.cudnn.benchmark = True
    told = json.loads((folder / KERNELS).read_text())
    for kind in ("f16", "bf16"):
        operands = _Operands(case, torch_type(kind))
        worst, calls = 0.0, dict[str, Callable[[], Any]]()
        for name, kernel in told["kernels"].items():
            timed = kernel["bias"] and kernel["activation"] == kernel["other"] == "none"
            if kernel["element_type"] != kind or not (timed or case.name in _ALL):
                continue
            wanted = operands.wanted(kernel)
            for shape, workgroups, words in told["tiles"][case.name]:
                launch = operands.launch(folder / f"{name}.cubin", kernel, shape, workgroups)
                worst = max(worst, operands.error(launch, wanted))
                if timed:
                    calls[words] = launch
        torch_error = operands.distance(operands.torch(), operands.right)
        chosen = next(iter(calls))
        spent = gpu_microseconds({**calls, "torch": operands.torch}, TURNS)
        best = min(calls, key=lambda words: spent[words])
        own = {"us": spent[chosen], "best": spent[best], "tile": chosen, "best_tile": best}
        yield row(case.name, f"torch {kind}", {"error": torch_error, "us": spent["torch"]})
        yield row(case.name, f"kernel {kind}", {"error": worst, **own, "tiles": len(calls)})


class _Operands:
    """Of a case in one type: images and weights as kernels want them, and the right results."""

    def __init__(self, case: Convolution, kind: Any):
        import torch

        torch.manual_seed(0)
        self.case, self.kind = case, kind
        wide = torch.randn(case.count, case.channels, *case.size, device="cuda")
        depth = case.channels * math.prod(case.taps)
        weights = torch.randn(case.columns, case.channels, *case.taps, device="cuda") / depth**0.5
        self.image = wide.to(kind).to(memory_format=torch.channels_last)
        self.weights, self.bias = (
            weights.to(kind),
            torch.randn(case.columns, device="cuda").to(kind),
        )
        self.rows = self.image.permute(0, 2, 3, 1).contiguous()
        self.lines = self.weights.permute(0, 2, 3, 1).contiguous()
        size = case.count * math.prod(case.result) * case.columns
        self.memory = torch.empty(size + 2 * _AROUND, device="cuda", dtype=kind)
        self.out = self.memory[_AROUND : _AROUND + size]
        self.other = torch.randn(size, device="cuda").to(kind)
        exact = torch.float32 if self.image.numel() > _MOST_WIDE else torch.float64
        self.right = self._convolved(*(x.to(exact) for x in (self.image, self.weights, self.bias)))

    def _convolved(self, *operands: Any) -> Any:
        import torch

        case = self.case
        sizes = {"stride": case.steps, "padding": case.pads, "dilation": case.gap}
        return torch.nn.functional.conv2d(*operands, **sizes).permute(0, 2, 3, 1).flatten()

    def torch(self) -> Any:
        return self._convolved(self.image, self.weights, self.bias)

    def wanted(self, kernel: dict[str, Any]) -> Any:
        """What a kernel makes of the sums."""
        from torch.nn import functional

        rows = self.right.view(-1, self.case.columns)
        made = (rows if kernel["bias"] else rows - self.bias.to(rows.dtype)).flatten()
        if kernel["activation"] != "none":
            made = getattr(functional, kernel["activation"])(made)
        return made + self.other.to(made.dtype) if kernel["other"] == "add" else made

    def error(self, launch: Callable[[], Any], wanted: Any) -> float:
        """Of a launch; infinite where it writes beside the result."""
        self.memory.fill_(float("nan"))
        launch()
        around = (self.memory[:_AROUND], self.memory[-_AROUND:])
        kept = all(bool(one.isnan().all()) for one in around)
        return self.distance(self.out, wanted) if kept else math.inf

    @staticmethod
    def distance(made: Any, wanted: Any) -> float:
        found = ((made.double() - wanted.double()).norm() / wanted.double().norm()).item()
        return found if math.isfinite(found) else math.inf

    def launch(
        self, path: Path, kernel: dict[str, Any], shape: int, workgroups: int
    ) -> Callable[[], Any]:
        import torch

        scratch = torch.empty(
            _UNITS * kernel["scratch_per_workgroup"], device="cuda", dtype=torch.int8
        )
        read = [self.rows, self.lines]
        read += [self.bias] if kernel["bias"] else []
        read += [self.other] if kernel["other"] != "none" else []
        tensors = [*read, self.out, scratch]
        numbers = self.case.numbers(shape)
        given = [ctypes.c_void_p(one.data_ptr()) for one in tensors]
        given += [ctypes.c_int(numbers[name]) for name in kernel["constants"]]
        places = (ctypes.c_void_p * len(given))(*(ctypes.addressof(one) for one in given))
        function, size = _function(path, kernel["shared_memory"]), kernel["workgroup_size"]

        def call(kept: Sequence[Any] = (given, tensors)) -> None:
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            grid = (workgroups, 1, 1, size, 1, 1, kernel["shared_memory"])
            _must(_driver().cuLaunchKernel(function, *grid, stream, places, None))

        return call


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@cache
def _function(path: Path, shared_memory: int) -> ctypes.c_void_p:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _must(_driver().cuModuleLoadData(ctypes.byref(module), path.read_bytes()))
    name = path.stem.encode()
    _must(_driver().cuModuleGetFunction(ctypes.byref(function), module, name))
    _must(_driver().cuFuncSetAttribute(function, _DYNAMIC_SHARED_MEMORY, shared_memory))
    return function


def _must(code: int) -> None:
    if code:
        raise RuntimeError(f"the driver's error {code}")
