"""attn-keep-tiles: products whose rows are tiles of an unknown number keep those tiles."""

from __future__ import annotations

import itertools

from iree.compiler import ir

from ..ir import copied_attributes, element_type_name, put_in_place, ranked_shape
from ..ir.contractions import is_contraction, read_contraction
from ..machines.nvidia.f32_products import LEAST_DEPTH, LEAST_SIDE
from ..passes import OpPass

_KINDS = ("f16", "bf16", "f32")


class KeepTiles(OpPass):
    """Writes a product as `linalg.contract` where a dim of unknown size stands before one of known
    size in its result, for CUDA.

    From `--iree-opt-level=O2` on IREE 3.13 writes products as generics, and joins such dims when
    it forms dispatches: the rows, whole kernel tiles by `attn-tile-products` or of a known length
    in an unknown number of sequences, are unknown then, and multiplied without tensor cores. It
    joins no dims of a `linalg.contract`.
    """

    name = "attn-keep-tiles"
    summary = "NVIDIA GPUs: known rows of products are not joined to unknown dims"
    phase = "global-optimization"
    backends = ("cuda",)

    what = "fitted"
    kind = "contraction"

    def wanted(self, op: ir.Operation) -> bool:
        if op.name != "linalg.generic" or not is_contraction(op):
            return False
        if any(element_type_name(value) not in _KINDS for value in list(op.operands)[:2]):
            return False
        if element_type_name(op.operands[0]) == "f32" and not _has_tiles(op):
            return False
        rows = ranked_shape(op.results[0])[:-1]
        return any(a is None and b is not None for a, b in itertools.pairwise(rows))

    def change(self, op: ir.Operation) -> str:
        put_in_place(op, "linalg.contract", copied_attributes(op, "iterator_types"))
        return "its known rows stay apart from its unknown dims"


def _has_tiles(op: ir.Operation) -> bool:
    """Whether attn-configure has tiles for a product in f32: IREE gets others wrong that are
    named."""
    facts = read_contraction(op)
    if facts is None or not (facts.m and facts.n and facts.k):
        return False
    pairs = ((facts.m[-1], LEAST_SIDE), (facts.n[-1], LEAST_SIDE), (facts.k[-1], LEAST_DEPTH))
    sizes = [(facts.sizes[loop], step) for loop, step in pairs]
    return all(isinstance(size, int) and size % step == 0 for size, step in sizes)
