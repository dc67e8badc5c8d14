"""Products whose columns or depth the memory engine cannot read in whole pieces of 16 bytes: zeros
fill them up, and the columns that come of these are cut off again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from iree.compiler import ir

from ...ir import (
    Builder,
    Size,
    defining_op,
    element_bytes,
    element_type,
    ranked_shape,
    sizes_of,
    users,
)
from ...ir.limits import ASSUMED_ROWS
from ...ir.padding import is_padded_in_place, padded_to
from ...ir.views import IN_PLACE, below_views
from ..products import Epilogue, ProductFacts

# Bytes a second of a copy, read and written, and of zeros written; a launch of either.
_COPY_RATE, _FILL_RATE, _LAUNCH = 2e12, 2.5e12, 3e-6


def filled(facts: ProductFacts, multiple: int) -> ProductFacts:
    """The same product with columns and depth that have this multiple; unknown ones, and those of
    batches, stay as they are."""
    if facts.loops is not None:
        return facts
    return replace(facts, n=_whole(facts.n, multiple), k=_whole(facts.k, multiple))


def _whole(size: Size, multiple: int) -> Size:
    return math.ceil(size / multiple) * multiple if isinstance(size, int) else size


def columns_of(facts: ProductFacts) -> Size:
    """The columns of a product, or of half of one, without those that fill it up."""
    whole = facts.n if facts.loops else sizes_of(facts.op.results[0])[-1]
    if isinstance(facts.n, int) and isinstance(whole, int):
        return min(facts.n, whole)
    return facts.n


def has_columns_behind(facts: ProductFacts) -> bool:
    return columns_of(facts) != facts.n


def has_depth_behind(facts: ProductFacts) -> bool:
    return facts.loops is None and sizes_of(facts.rows)[-1] != facts.k


def fill_up(build: Builder, value: ir.Value, sizes: Sequence[Size]) -> ir.Value:
    """A tensor with zeros behind what it has, up to these sizes."""
    larger = [dim for dim, size in enumerate(sizes_of(value)) if size != sizes[dim]]
    if not larger:
        return value
    zero = build.constant_number(0.0, element_type(value))
    # A constant is filled up once, when the program is loaded.
    in_place = _is_constant(value) or is_padded_in_place(value, larger)
    return padded_to(build, value, sizes, zero, in_place)


def fill_last(build: Builder, value: ir.Value, size: Size) -> ir.Value:
    """The same for the last dim alone."""
    return fill_up(build, value, [*sizes_of(value)[:-1], size])


def filling_seconds(facts: ProductFacts, epilogue: Epilogue) -> float:
    """The time in which what a product reads and writes is filled up and cut."""
    seconds, behind = 0.0, has_columns_behind(facts)
    if has_depth_behind(facts):
        # The op that makes the rows writes them between zeros.
        in_place = is_padded_in_place(facts.rows, [len(ranked_shape(facts.rows)) - 1])
        moved = _bytes(facts.rows)
        seconds += _LAUNCH + (moved / _FILL_RATE if in_place else 2 * moved / _COPY_RATE)
    weights_behind = behind or has_depth_behind(facts)
    if weights_behind and not _is_constant(facts.weights):
        seconds += _LAUNCH + 2 * _bytes(facts.weights) / _COPY_RATE
    if behind and epilogue.operand is not None:
        seconds += _LAUNCH + 2 * _bytes(epilogue.operand) / _COPY_RATE
    # Ops with loops read where the columns are.
    reading = [user for user in users(epilogue.result) if user.name != "tensor.dim"]
    if behind and not all(user.name == "linalg.generic" for user in reading):
        seconds += _LAUNCH + 2 * _bytes(epilogue.result) / _COPY_RATE
    return seconds


def _bytes(value: ir.Value) -> float:
    sizes = [ASSUMED_ROWS if size is None else size for size in ranked_shape(value)]
    return float(math.prod(sizes) * element_bytes(value))


def _is_constant(value: ir.Value) -> bool:
    """Whether IREE makes what is made of a value alone once, when the program is loaded."""
    op = defining_op(below_views(value, IN_PLACE))
    if op is None or op.name != "util.global.load":
        return op is not None and op.name == "arith.constant"
    name = ir.FlatSymbolRefAttr(op.attributes["global"]).value
    module = op
    while module.parent is not None:
        module = module.parent.operation
    table = ir.SymbolTable(module)
    return name in table and "is_mutable" not in table[name].operation.attributes
