"""Products whose columns or depth the memory engine cannot read in whole pieces of 16 bytes: zeros
fill them up, and the columns that come of these are cut off again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from iree.compiler import ir

from ...analysis.boundary import is_made_once
from ...ir import (
    Builder,
    Size,
    defining_op,
    element_bytes,
    element_type,
    maps,
    ranked_shape,
    sizes_of,
    users,
)
from ...ir.limits import ASSUMED_ROWS
from ...ir.padding import is_padded_in_place, padded_to
from ...ir.views import IN_PLACE, below_views
from ..epilogues import Epilogue
from ..products import ProductFacts
from .manifest import ProductKernel
from .product_speed import IREE_FEW_ROWS
from .sources import unaligned_slice

# Bytes a second of copies, read and written, and of zeros written; a launch of each.
_COPY_RATE, _FILL_RATE, _LAUNCH = 3e12, 2.5e12, 2.5e-6
# Elements of an operand in 16 bytes.
_IN_A_PIECE = {"f32": 4, "f8E4M3FN": 16}
# How much longer IREE's products take whose columns or depth fill none of its tiles (H100: 230 us
# for 110 of 4616 x 2730 x 1024, 503 for 147 of 4616 x 1024 x 2730, 1989 for 640 of 4096 x 30522 x
# 1024).
_OF_COLUMNS, _OF_DEPTH = 2.0, 3.0


def multiple_of(facts: ProductFacts) -> int:
    """What divides the columns and the depth of a product that a kernel reads: 16 bytes of them."""
    return _IN_A_PIECE.get(facts.element_type, 8)


def filled(facts: ProductFacts) -> ProductFacts:
    """The same product with columns and depth that whole pieces hold; unknown ones stay."""
    multiple, loops = multiple_of(facts), facts.loops
    n, k = _whole(facts.n, multiple), _whole(facts.k, multiple)
    if loops is not None:
        new = {loops.result[-1]: n, loops.depth: k}
        sizes = tuple(new.get(loop, size) for loop, size in enumerate(loops.sizes))
        loops = replace(loops, sizes=sizes)
    return replace(facts, n=n, k=k, loops=loops)


def _whole(size: Size, multiple: int) -> Size:
    return math.ceil(size / multiple) * multiple if isinstance(size, int) else size


def columns_of(facts: ProductFacts) -> Size:
    """The columns of a product, or of half of one, without those that fill it up."""
    whole = sizes_of(facts.op.results[0])[-1]
    if isinstance(facts.n, int) and isinstance(whole, int):
        return min(facts.n, whole)
    return facts.n


def has_columns_behind(facts: ProductFacts) -> bool:
    return columns_of(facts) != facts.n


def has_depth_behind(facts: ProductFacts) -> bool:
    dim = facts.loops.rows.index(facts.loops.depth) if facts.loops else -1
    return sizes_of(facts.rows)[dim] != facts.k


def filled_sizes(value: ir.Value, dims: maps.Positions, loops: Sequence[Size]) -> list[Size] | None:
    """The sizes of an operand of a batch, whose dims are these loops, with the zeros behind it;
    None where none are. `loops` are the sizes of all loops."""
    own = sizes_of(value)
    sizes = list(own)
    for dim, loop in enumerate(dims):
        # What is not known is not filled up.
        if loop is not None and isinstance(own[dim], int) and isinstance(loops[loop], int):
            sizes[dim] = loops[loop]
    return sizes if sizes != list(own) else None


def fill_up(build: Builder, value: ir.Value, sizes: Sequence[Size]) -> ir.Value:
    """A tensor with zeros behind what it has, up to these sizes."""
    larger = [dim for dim, size in enumerate(sizes_of(value)) if size != sizes[dim]]
    if not larger:
        return value
    zero = build.constant_number(0.0, element_type(value))
    # A constant is filled up once, when the program is loaded.
    in_place = is_made_once(below_views(value, IN_PLACE)) or is_padded_in_place(value, larger)
    if not in_place and not _is_known(value):
        value, in_place = _looped(build, value), True
    return padded_to(build, value, sizes, zero, in_place)


def _is_known(value: ir.Value) -> bool:
    """Whether the sizes of a tensor are known: a loop that reads it by index is a copy at memory's
    speed then (`attn-moves`)."""
    return None not in ranked_shape(value)


def _looped(build: Builder, value: ir.Value) -> ir.Value:
    """What a loop that computes nothing makes of a tensor: it writes where it is told, which IREE
    does faster than it copies odd lines of an unknown number."""
    last, columns = len(ranked_shape(value)) - 1, sizes_of(value)[-1]

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
        # Always: without a condition there would be no loop.
        end = inner.addi(inner.size(columns), inner.constant_index(-1))
        inside = inner.compare("ule", inner.loop_index(last), end)
        zero = inner.constant_number(0.0, element_type(value))
        return inner.select(inside, scalars[0], zero)

    return build.computed(sizes_of(value), element_type(value), body, value)


def fill_last(build: Builder, value: ir.Value, size: Size) -> ir.Value:
    """The same for the last dim alone."""
    return fill_up(build, value, [*sizes_of(value)[:-1], size])


def cut_columns(build: Builder, made: ir.Value, facts: ProductFacts, result: ir.Value) -> ir.Value:
    """The columns that a product has, of (rows, columns) with those that fill it up: as a slice
    where ops with loops read it in place of `result`, else by a loop: IREE copies a slice of odd
    size by 64 elements a workgroup."""
    columns = columns_of(facts)
    rows, *_ = sizes_of(made)
    if not _is_read_in_place(result) and _is_known(made):
        return _taken(build, made, [rows, columns])
    cut = build.extract_slice(made, [0, 0], [rows, columns])
    return cut if _is_read_in_place(result) else _looped(build, cut)


def _taken(build: Builder, value: ir.Value, sizes: Sequence[Size]) -> ir.Value:
    """The first elements of a tensor, by a loop that reads it by index."""

    def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        return inner.extract(value, [inner.loop_index(loop) for loop in range(len(sizes))])

    return build.computed(sizes, element_type(value), body)


def _is_read_in_place(result: ir.Value) -> bool:
    reading = [user for user in users(result) if user.name != "tensor.dim"]
    return all(user.name == "linalg.generic" for user in reading)


def unfilled_factor(facts: ProductFacts) -> float:
    """How much longer IREE's own code takes than that of whole tiles, which few rows have not."""
    if isinstance(facts.m, int) and facts.m <= IREE_FEW_ROWS:
        return 1.0
    return (
        _OF_DEPTH if has_depth_behind(facts) else _OF_COLUMNS if has_columns_behind(facts) else 1.0
    )


def fills_columns(facts: ProductFacts, kernel: ProductKernel) -> bool:
    """Whether the columns of a product's weights are filled up for a kernel: one that is told how
    many there are reads them where they lie, if rows of weights are aligned."""
    bounded = kernel.bounds_columns and not unaligned_slice(facts.weights)
    return has_columns_behind(facts) and not bounded


def filling_seconds(facts: ProductFacts, epilogue: Epilogue, kernel: ProductKernel) -> float:
    """The time in which what a product reads and writes is filled up and cut for a kernel."""
    seconds, behind = 0.0, has_columns_behind(facts)
    dims = _larger_dims(facts, fills_columns(facts, kernel))
    for value, larger in zip((facts.rows, facts.weights), dims, strict=True):
        if larger and not is_made_once(below_views(value, IN_PLACE)):
            seconds += _filling(value, larger)
    if behind and epilogue.operand is not None:
        seconds += _filling(epilogue.operand, [len(ranked_shape(epilogue.operand)) - 1])
    if behind and not _is_read_in_place(epilogue.result):
        seconds += _LAUNCH + 2 * _bytes(epilogue.result) / _COPY_RATE
    return seconds


def _larger_dims(facts: ProductFacts, columns: bool) -> tuple[list[int], list[int]]:
    """The dims of the rows, and of the weights, that are filled up; `columns` says whether those
    of the weights are."""
    depth = has_depth_behind(facts)
    if facts.loops is None:
        of_weights = (columns, depth) if facts.by_columns else (depth, columns)
        rows = [len(ranked_shape(facts.rows)) - 1] if depth else []
        return rows, [dim for dim, larger in enumerate(of_weights) if larger]
    loops = {facts.loops.result[-1]} if columns else set[int]()
    loops |= {facts.loops.depth} if depth else set()
    rows, weights = (
        [dim for dim, loop in enumerate(dims) if loop in loops]
        for dims in (facts.loops.rows, facts.loops.weights)
    )
    return rows, weights


def _filling(value: ir.Value, dims: Sequence[int]) -> float:
    """The time in which zeros come behind a value's elements."""
    producer, moved = defining_op(value), _bytes(value)
    if producer is not None and producer.name.startswith("linalg."):
        # That writes them between zeros.
        return _LAUNCH + moved / _FILL_RATE
    seconds = _LAUNCH + 2 * moved / _COPY_RATE
    if is_padded_in_place(value, dims) or _is_known(value):
        return seconds
    return seconds + _LAUNCH + moved / _FILL_RATE


def _bytes(value: ir.Value) -> float:
    sizes = [ASSUMED_ROWS if size is None else size for size in ranked_shape(value)]
    return float(math.prod(sizes) * element_bytes(value))
