"""A transformer block of a bench, its inputs, its program, its results in float64; and the lists of
them that benches have as data.

Models are those of bench/models/blocks.py. Without torch cases can be listed. A list has three
lines a block: its name and, behind a colon, what pages call it; the model, `kind` and `level`, if
not f16 and O2, and the model's sizes; the inputs, with names for sizes that the program leaves open
(`8(batch)x512`), and what is in them, if not random numbers (`8x512:padding`). Of the blocks below
`others:` the kernels' program alone is measured, beside eager PyTorch and its graph.
"""

# pyright: reportMissingImports=false
# (torch is an extra here, and on the machine that runs)

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import several, torch_type
from bench.harness import attn_compile


@dataclass(frozen=True)
class Input:
    """An argument: random numbers, `distances` (0 to 31), the `place` of a row in a cache, or a
    `padding` mask: each sequence is shorter than the one before, one alone fills three quarters.
    `unknown` names the sizes, by dim, that the program leaves open."""

    shape: tuple[int, ...]
    what: str = "random"
    unknown: Mapping[int, str] = field(default_factory=dict)

    def values(self, kind: Any, length: int, device: str) -> Any:
        """A tensor, of torch type `kind` if it is random, for caches of `length` rows."""
        import torch

        if self.what == "random":
            return torch.randn(self.shape, device=device).to(kind)
        if self.what == "distances":
            return torch.randint(32, self.shape, device=device)
        if self.what == "place":
            return torch.tensor([length - 96], device=device)
        batch, keys = self.shape
        kept = keys - torch.arange(batch, device=device) * (keys // (2 * batch))
        kept = kept if batch > 1 else kept * 3 // 4
        return (torch.arange(keys, device=device) < kept[:, None]).long()


@dataclass(frozen=True)
class Block:
    """`words` are what pages call it, `level` is that at which IREE alone compiles it. Of an
    `other` block the kernels' program alone is measured, beside eager PyTorch and its graph."""

    name: str
    model: str
    sizes: Mapping[str, Any]
    inputs: tuple[Input, ...]
    kind: str = "f16"
    words: str = ""
    level: str = "O2"
    other: bool = False

    def file(self, folder: Path, way: str) -> Path:
        return folder / f"{self.name}.{way}.vmfb"

    def made(self, device: str, kind: str = "") -> Any:
        """The block, in the case's type or another; its weights have any numbers."""
        from bench.models.programs import block_of

        return block_of(self.model, self.sizes, torch_type(kind or self.kind), device)

    def filled(self, device: str) -> Any:
        """The block with its weights."""
        from bench.models.programs import fill

        block = self.made(device)
        fill(block)
        return block

    def given(self, device: str) -> list[Any]:
        import torch

        torch.manual_seed(0)
        kind, last = torch_type(self.kind), self.inputs[-1].shape
        return [one.values(kind, last[2] if len(last) > 2 else 0, device) for one in self.inputs]

    def text(self) -> str:
        """The block in IREE's torch dialect, weights behind the inputs."""
        import torch

        from bench.models.programs import text_of

        names = {name for one in self.inputs for name in one.unknown.values()}
        dims = {name: torch.export.Dim(name, max=8192) for name in names}
        unknown = [{dim: dims[n] for dim, n in i.unknown.items()} or None for i in self.inputs]
        return text_of(self.made("cpu"), self.given("cpu"), unknown)

    def exact(self, block: Any, inputs: Sequence[Any]) -> list[Any]:
        """The results in float64, of this block with its weights."""
        wide = self.made(str(inputs[0].device), "f64")
        wide.load_state_dict(block.state_dict())
        return several(wide(*(x.double() if x.is_floating_point() else x for x in inputs)))


def listed_blocks(path: Path) -> list[Block]:
    """The blocks of a list."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    found, others = [], False
    while lines:
        title = lines.pop(0)
        if title == "others:":
            others = True
            continue
        name, _, words = title.partition(":")
        (model, *sizes), inputs = lines.pop(0).split(), lines.pop(0).split()
        given = dict(size.split("=") for size in sizes)
        kind, level = given.pop("kind", "f16"), given.pop("level", "O2")
        values = {name: ast.literal_eval(text) for name, text in given.items()}
        made = tuple(map(_input_of, inputs))
        found.append(Block(name, model, values, made, kind, words.strip(), level, others))
    return found


def _input_of(text: str) -> Input:
    shape, _, what = text.partition(":")
    sizes = re.findall(r"(\d+)(?:\((\w+)\))?", shape)
    unknown = {dim: name for dim, (_, name) in enumerate(sizes) if name}
    return Input(tuple(int(size) for size, _ in sizes), what or "random", unknown)


def compile_block(
    folder: Path,
    case: Block,
    ways: Mapping[str, Sequence[str]],
    with_constants: Collection[str] = (),
) -> None:
    """Writes a block as MLIR and a .vmfb for each way, with its flags, that compiles; weights of
    some are parameters."""
    from bench.models.programs import with_parameters

    text = case.text()
    for way, flags in ways.items():
        source = case.file(folder, way).with_suffix(".mlir")
        is_constant = way in with_constants
        source.write_text(with_parameters(text, len(case.inputs)) if is_constant else text)
        if failed := attn_compile(source, case.file(folder, way), *flags):
            print(f"{case.name} {way}: {failed}", flush=True)


def worst_error(results: Any, wanted: Sequence[Any]) -> float:
    """The largest relative L2 distance of tensors or arrays; infinite where one is not finite."""
    worst = 0.0
    for got, right in zip(several(results), wanted, strict=True):
        if isinstance(right, np.ndarray):
            error = float(np.linalg.norm(_array(got) - right) / np.linalg.norm(right))
        else:
            error = float((got.double() - right).norm() / right.norm())
        worst = max(worst, error if math.isfinite(error) else math.inf)
    return worst


def _array(value: Any) -> np.ndarray[Any, Any]:
    """float64 of a torch tensor or a device array."""
    if hasattr(value, "detach"):
        return value.double().numpy()
    return np.array(value.to_host()).astype(np.float64)
