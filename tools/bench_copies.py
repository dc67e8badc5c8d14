"""Measures copies beside attention on a CUDA GPU: IREE's, and as attn-configure has them.

    python tools/bench_copies.py compile build/copies      (needs attnpass)
    python tools/bench_copies.py run build/copies --json copies.json
                                  (needs a GPU, torch and iree-base-runtime only)

Heads are moved in front of rows or behind them, repeated, and cut out of a packed projection; one
copy is rounded, too. Times are the GPU's, from CUPTI through torch's profiler, programs taking
turns; results must be equal to PyTorch's. The traffic is what is read and written once.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_configure import kernels_of
from bench_product_tiles import ATTENTION
from iree_device import load, to_iree, to_torch

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
        import torch

        kind = {"f16": torch.float16, "f32": torch.float32}[self.kind]
        if self.cut:
            return x[..., self.cut[0] : self.cut[0] + self.cut[1]].contiguous()
        if self.repeats:
            return x[:, :, None].expand(self.result).contiguous()
        return x.permute(self.order).contiguous().to(kind)


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


def compile_all(folder: Path) -> None:
    """Writes a .vmfb for each way."""
    folder.mkdir(parents=True, exist_ok=True)
    query, source = "tensor<1x128x64xf16>", folder / "source.mlir"
    # Without attention beside them copies stay as they are.
    main = f"func.func @main(%q: {query}) -> {query} {{{ATTENTION}  return %a : {query}\n}}\n"
    source.write_text(main + "".join(copy.text(f"c{i}") for i, copy in enumerate(COPIES)))
    for name, flags in WAYS.items():
        tool = [sys.executable, "-m", "attnpass.cli.attn_compile", str(source), *flags]
        target = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
        subprocess.run([*tool, *target, "-o", str(folder / f"{name}.vmfb")], check=True)


def run_all(folder: Path, path: Path) -> None:
    """Checks and measures all."""
    import torch
    from iree import runtime

    config = runtime.Config("cuda")
    ways = {name: load(config, folder / f"{name}.vmfb") for name in WAYS}
    rows: list[dict[str, Any]] = []
    for i, copy in enumerate(COPIES):
        source = {"f16": torch.float16, "f32": torch.float32}[copy.source]
        x = torch.randn(copy.sizes, device="cuda").to(source)
        wanted, placed = copy.wanted(x), to_iree(config.device, x)
        row: dict[str, Any] = {"copy": copy.name, "megabytes": round(copy.bytes / 1e6, 1)}
        spent: dict[str, list[float]] = {name: [] for name in ways}
        for name, functions in ways.items():
            got = to_torch(functions[f"c{i}"](placed), wanted.dtype)
            assert torch.equal(got.reshape(wanted.shape), wanted), f"{name}: {copy.name}"
        for turn in range(TURNS):
            for name in random.Random(turn).sample(list(ways), len(ways)):
                kernels = kernels_of(lambda f=ways[name][f"c{i}"], a=placed: f(a).to_host())
                spent[name].append(sum(us for _, us in kernels))
        row |= {name: round(statistics.median(times), 2) for name, times in spent.items()}
        rows.append(row)
        print(json.dumps(row), flush=True)
    result = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "rows": rows}
    path.write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("compile", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, default=Path("copies.json"))
    arguments = parser.parse_args()
    if arguments.what == "compile":
        compile_all(arguments.folder)
    else:
        run_all(arguments.folder, arguments.json)


if __name__ == "__main__":
    main()
