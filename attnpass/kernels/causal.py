"""Recognises masks that hide the keys behind the query's own position."""

from __future__ import annotations

import math

from iree.compiler import ir

from .. import maps
from ..attention import AttentionFacts
from ..ir import defining_op, ranked_shape

_CASTS = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.trunci")
# arith.cmpi predicates by number: signed and unsigned, row first.
_KEEPS = {5: "sge", 9: "uge"}
_KEEPS_SWAPPED = {3: "sle", 7: "ule"}
_HIDES = {2: "slt", 6: "ult"}
_HIDES_SWAPPED = {4: "sgt", 8: "ugt"}


def is_causal(facts: AttentionFacts, row: int) -> bool:
    """Whether the mask lets row i of iteration dim `row` see keys 0 to i and no others.

    Known are a linalg.generic that compares the two indices: an i1 mask (true: seen), or a
    float mask that is 0 where seen and -infinity (or the type's lowest) where not.
    """
    op = defining_op(facts.value("mask"))
    if op is None or op.name != "linalg.generic" or len(facts.k2) != 1:
        return False
    positions = maps.positions_of(op.attributes["indexing_maps"])
    if positions is None:
        return False
    out, mask = positions[-1], facts.map_of("mask")
    # Loop of the generic -> iteration dim of attention.
    dim_of = {loop: mask[axis] for axis, loop in enumerate(out) if loop is not None}
    body = op.regions[0].blocks[0]
    yielded = list(body.operations)[-1].operands[0]
    seen = _seen_condition(yielded)
    if seen is None:
        return False
    compare, holds_where_seen = seen
    dims = [_index_dim(value, dim_of) for value in compare.operands]
    predicate = ir.IntegerAttr(compare.attributes["predicate"]).value
    if dims == [row, facts.k2[0]]:
        wanted = _KEEPS if holds_where_seen else _HIDES
    elif dims == [facts.k2[0], row]:
        wanted = _KEEPS_SWAPPED if holds_where_seen else _HIDES_SWAPPED
    else:
        return False
    return predicate in wanted


def _seen_condition(yielded: ir.Value) -> tuple[ir.Operation, bool] | None:
    """The comparison behind a yielded mask element, and whether it holds where a key is seen."""
    op = defining_op(yielded)
    if op is None:
        return None
    if op.name == "arith.cmpi":
        return op, True
    if op.name != "arith.select":
        return None
    compare = defining_op(op.operands[0])
    values = [_constant(value) for value in list(op.operands)[1:]]
    if compare is None or compare.name != "arith.cmpi":
        return None
    if values[0] == 0 and _is_lowest(values[1], yielded.type):
        return compare, True
    if values[1] == 0 and _is_lowest(values[0], yielded.type):
        return compare, False
    return None


def _is_lowest(number: float | None, kind: ir.Type) -> bool:
    lowest = {"f16": -65504.0, "bf16": -3.38e38, "f32": -3.4e38}.get(str(kind), -math.inf)
    return number is not None and number <= lowest


def _constant(value: ir.Value) -> float | None:
    op = defining_op(value)
    if op is None or op.name != "arith.constant":
        return None
    attribute = op.attributes["value"]
    return attribute.value if isinstance(attribute, ir.FloatAttr) else None


def _index_dim(value: ir.Value, dim_of: dict[int, int | None]) -> int | None:
    """The iteration dim of attention whose index this scalar is."""
    while (op := defining_op(value)) is not None and op.name in _CASTS:
        value = op.operands[0]
    if op is None or op.name != "linalg.index":
        return None
    return dim_of.get(ir.IntegerAttr(op.attributes["dim"]).value)


def mask_words(facts: AttentionFacts) -> str:
    """The mask's shape and type for a reason: `1x8x?x? i1`."""
    shape = "x".join(
        "?" if size is None else str(size) for size in ranked_shape(facts.value("mask"))
    )
    return f"{shape} {facts.element_types['mask']}"
