"""Copies beside attention on a CUDA GPU: IREE's, and as attn-configure has them.

Heads are moved in front of rows or behind them, repeated, and cut out of a packed projection; one
copy is rounded, too. Times are the GPU's, from CUPTI through torch's profiler, programs taking
turns; results must be equal to PyTorch's. The traffic is what is read and written once.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cases.products import ATTENTION, SM_80
from bench.device import gpu, load, to_iree, to_torch, torch_type
from bench.harness import must_compile
from bench.results import Row, row
from bench.timing import gpu_microseconds

TURNS = 15
WAYS = {"iree": ["--attn-disable"], "attnpass": []}


@dataclass(frozen=True)
class Copy:
    """A tensor of these sizes: `order` of its dims in the result, which has `kind`; `cut` is the
    part of the last dim that is taken, as (first, size); `repeats` is a dim put behind the
    second."""

    sizes: tuple[int, ...]
    order: tuple[int, ...] = ()
    kind: str = "f16"
    source: str = "f16"
    cut: tuple[int, int] | None = None
    repeats: int = 0

    @property
    def name(self) -> str:
        what = f"{_tensor(self.sizes)} {self.source}"
        if self.cut:
            return f"{what}: {self.cut[1]} from {self.cut[0]} on"
        if self.repeats:
            return f"{what}: {self.repeats} times each head"
        rounded = f" as {self.kind}" if self.kind != self.source else ""
        return f"{what}: dims {', '.join(map(str, self.order))}{rounded}"

    @property
    def result(self) -> tuple[int, ...]:
        if self.cut:
            return (*self.sizes[:-1], self.cut[1])
        if self.repeats:
            return (*self.sizes[:2], self.repeats, *self.sizes[2:])
        return tuple(self.sizes[dim] for dim in self.order)

    @property
    def bytes(self) -> int:
        size = {"f16": 2, "f32": 4}
        given = math.prod(self.result) // max(self.repeats, 1) * size[self.source]
        return given + math.prod(self.result) * size[self.kind]

    def text(self, name: str) -> str:
        """A function that does it."""
        given, result = (
            f"tensor<{_tensor(sizes)}x{kind}>"
            for sizes, kind in ((self.sizes, self.source), (self.result, self.kind))
        )
        if self.cut:
            offsets = [0] * (len(self.sizes) - 1) + [self.cut[0]]
            ones = [1] * len(self.sizes)
            part = f"{offsets} {[*self.result]} {ones}"
            body = f"  %r = tensor.extract_slice %x{part} : {given} to {result}"
        else:
            loops = [f"d{dim}" for dim in range(len(self.result))]
            read = [loops[self.order.index(dim)] for dim in range(len(self.order))]
            if self.repeats:
                read = [*loops[:2], *loops[3:]]
            maps = ", ".join(
                f"affine_map<({', '.join(loops)}) -> ({', '.join(of)})>" for of in (read, loops)
            )
            kinds = ", ".join(['"parallel"'] * len(loops))
            cast = f"    %c = arith.truncf %a : {self.source} to {self.kind}\n"
            rounds = self.kind != self.source
            body = f"""  %e = tensor.empty() : {result}
  %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
      ins(%x : {given}) outs(%e : {result}) {{
  ^bb0(%a: {self.source}, %o: {self.kind}):
{cast if rounds else ""}    linalg.yield %{"c" if rounds else "a"} : {self.kind}
  }} -> {result}"""
        return (
            f"func.func @{name}(%x: {given}) -> {result} {{\n{body}\n  return %r : {result}\n}}\n"
        )

    def wanted(self, x: Any) -> Any:
        """What PyTorch makes of it."""
        if self.cut:
            return x[..., self.cut[0] : self.cut[0] + self.cut[1]].contiguous()
        if self.repeats:
            return x[:, :, None].expand(self.result).contiguous()
        return x.permute(self.order).contiguous().to(torch_type(self.kind))


def _tensor(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


HEADS_FIRST = (0, 2, 1, 3)
COPIES = (
    Copy((2, 1024, 16, 128), HEADS_FIRST),
    Copy((4, 4096, 32, 128), HEADS_FIRST),
    Copy((4, 4096, 32, 64), HEADS_FIRST),
    Copy((2, 16, 1024, 128), HEADS_FIRST),
    Copy((2, 1024, 16, 128), HEADS_FIRST, kind="f32", source="f32"),
    Copy((2, 1024, 16, 192), HEADS_FIRST, source="f32"),
    Copy((1, 512, 12, 64), HEADS_FIRST),
    Copy((2, 1024, 6144), cut=(2048, 2048)),
    Copy((1, 4096, 6144), cut=(5120, 1024)),
    Copy((4, 8, 4096, 128), repeats=4),
)


def cases() -> list[Copy]:
    return list(COPIES)


def settings(copy: Copy) -> dict[str, Any]:
    return {"megabytes": round(copy.bytes / 1e6, 1)}


def compile(folder: Path, wanted: list[Copy], _: argparse.Namespace) -> None:
    """Writes a .vmfb for each way, with a function for each copy."""
    query, source = "tensor<1x128x64xf16>", folder / "source.mlir"
    # Without attention beside them copies stay as they are.
    main = f"func.func @main(%q: {query}) -> {query} {{{ATTENTION}  return %a : {query}\n}}\n"
    source.write_text(main + "".join(copy.text(_function(copy)) for copy in wanted))
    for name, flags in WAYS.items():
        must_compile(source, folder / f"{name}.vmfb", *flags, *SM_80)


def _function(copy: Copy) -> str:
    return f"c{COPIES.index(copy)}"


def run(folder: Path, copy: Copy, _: argparse.Namespace) -> Iterator[Row]:
    import torch

    config = gpu()
    x = torch.randn(copy.sizes, device="cuda").to(torch_type(copy.source))
    wanted, placed = copy.wanted(x), to_iree(config.device, x)
    calls = {}
    for name in WAYS:
        function = load(config, folder / f"{name}.vmfb")[_function(copy)]
        got = to_torch(function(placed), wanted.dtype)
        assert torch.equal(got.reshape(wanted.shape), wanted), f"{name}: {copy.name}"
        calls[name] = lambda f=function: f(placed).to_host()
    for name, spent in gpu_microseconds(calls, TURNS, lambda _: True).items():
        yield row(copy.name, name, {"us": spent})
