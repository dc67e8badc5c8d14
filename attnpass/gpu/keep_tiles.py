"""attn-keep-tiles: 16-bit products whose rows are tiles of an unknown number keep those tiles."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from ..ir import (
    collect,
    copied_attributes,
    element_type_name,
    put_in_place,
    ranked_shape,
)
from ..ir.contractions import is_contraction
from ..passes import Pass, PassContext

_KINDS = ("f16", "bf16")


@dataclass(frozen=True)
class KeepTiles(Pass):
    """Writes a product as `linalg.contract` where a dim of unknown size stands before one of known
    size in its result, for CUDA.

    From `--iree-opt-level=O2` on IREE 3.13 writes products as generics, and joins such dims when
    it forms dispatches: the rows, whole kernel tiles by `attn-tile-products` or of a known length
    in an unknown number of sequences, are unknown then, and multiplied without tensor cores. It
    joins no dims of a `linalg.contract`.
    """

    name: ClassVar[str] = "attn-keep-tiles"
    summary: ClassVar[str] = "NVIDIA GPUs: known rows of products are not joined to unknown dims"
    phase: ClassVar[str] = "global-optimization"
    backends: ClassVar[tuple[str, ...]] = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if not self.is_for(module):
            return False
        found = collect(module, _would_lose_tiles, bodies=False)
        for op in found:
            put_in_place(op, "linalg.contract", copied_attributes(op, "iterator_types"))
        return bool(found)


def _would_lose_tiles(op: ir.Operation) -> bool:
    if op.name != "linalg.generic" or not is_contraction(op):
        return False
    if any(element_type_name(value) not in _KINDS for value in list(op.operands)[:2]):
        return False
    shape = ranked_shape(op.results[0])
    rows = shape[:-1]
    return any(a is None and b is not None for a, b in itertools.pairwise(rows))
