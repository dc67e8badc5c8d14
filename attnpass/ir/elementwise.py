"""Generics that compute each element of a result for itself: what they read where."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from . import maps
from .queries import reduces


@dataclass(frozen=True)
class ElementRead:
    """What a body gets as `argument`: elements of `operand`, at dim dims[j] of the result along
    its dim j (None: one element of that dim is read). A scalar has no dims."""

    argument: ir.Value
    operand: ir.Value
    dims: maps.Positions


@dataclass(frozen=True)
class ElementwiseFacts:
    """A `linalg.generic` that gives a result the elements `scalar`, made of `reads`, one for each
    operand; `dim_of` says along which dim of the result a loop runs."""

    scalar: ir.Value
    reads: tuple[ElementRead, ...]
    dim_of: dict[int, int]


def read_elementwise(op: ir.Operation | None, number: int = 0) -> ElementwiseFacts | None:
    """How `op` makes each element of its result `number`; None for an op that is no generic, that
    reduces or repeats what it makes, or whose maps are no projected permutations."""
    if op is None or op.name != "linalg.generic" or reduces(op):
        return None
    positions = maps.positions_of(op.attributes["indexing_maps"])
    if positions is None:
        return None
    out = positions[len(op.operands) - len(op.results) + number]
    dim_of = {loop: dim for dim, loop in enumerate(out) if loop is not None}
    if len(dim_of) != maps.num_dims(op.attributes["indexing_maps"]):
        return None
    block = op.regions[0].blocks[0]
    reads = tuple(
        ElementRead(
            argument, operand, tuple(None if loop is None else dim_of[loop] for loop in loops)
        )
        for argument, operand, loops in zip(block.arguments, op.operands, positions, strict=True)
    )
    scalar = block.operations[len(block.operations) - 1].operands[number]
    return ElementwiseFacts(scalar, reads, dim_of)
