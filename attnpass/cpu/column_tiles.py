"""Elementwise ops behind a product on tiles of its columns, as (rows, tiles, columns of a tile)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import (
    Builder,
    body_of,
    copy_generic,
    defining_op,
    element_type,
    index_ops,
    is_ranked_tensor,
    is_used,
    maps,
    readers_behind,
    reduces,
)
from ..ir.views import RESHAPES

Read = tuple[ir.Value, maps.Positions]


def static_sizes(value: ir.Value) -> list[int]:
    """The sizes of a tensor, which are known."""
    return list(ir.RankedTensorType(value.type).shape)


def elementwise_behind(result: ir.Value) -> list[ir.Operation]:
    """The elementwise ops that read a product's result, or what such ops make of it, and beside it
    nothing but values for each element, for each column or for all; each behind those that it
    reads."""
    made = [result]
    found: list[ir.Operation] = []
    # What `made` gets meanwhile is walked, too.
    for value in made:
        for op in readers(value):
            if op not in found and _is_elementwise(op, made):
                found.append(op)
                made.append(op.results[0])
    return _in_order(found)


def _in_order(ops: list[ir.Operation]) -> list[ir.Operation]:
    """Ops behind those that they read."""
    ordered: list[ir.Operation] = []
    while len(ordered) < len(ops):
        made = {op.results[0] for op in ops if op not in ordered}
        ordered += [
            op
            for op in ops
            if op not in ordered and not any(_below(value) in made for value in op.operands)
        ]
    return ordered


def readers(value: ir.Value) -> list[ir.Operation]:
    """What reads a value, by reshapes that join or cut rows or not."""
    return list(readers_behind(value, _keeps_columns))


def _keeps_columns(op: ir.Operation) -> bool:
    """Whether an op is a reshape of rows."""
    if op.name not in RESHAPES:
        return False
    before, after = static_sizes(op.operands[0]), static_sizes(op.results[0])
    return before[-1:] == after[-1:] != []


def _below(value: ir.Value) -> ir.Value:
    """What a value is below reshapes of rows."""
    while (op := defining_op(value)) is not None and _keeps_columns(op):
        value = op.operands[0]
    return value


def _is_elementwise(op: ir.Operation, made: Sequence[ir.Value]) -> bool:
    """Whether an op computes each element of a tensor for itself, of `made`, of values that stand
    in memory for that element, for its column or for all."""
    if op.name != "linalg.generic" or len(op.results) != 1 or reduces(op) or index_ops(op):
        return False
    positions = maps.positions(op)
    arguments = body_of(op).arguments
    sizes = static_sizes(op.results[0])
    if positions is None or positions[-1] != tuple(range(len(sizes))):
        return False
    if _matrix_sizes(sizes) != _matrix_sizes(static_sizes(made[0])):
        return False
    if is_used(arguments[len(arguments) - 1]):
        return False
    inputs = zip(list(op.operands)[:-1], positions, strict=False)
    return all(_is_read_intile_sizes(value, dims, sizes, made) for value, dims in inputs)


def _is_read_intile_sizes(
    value: ir.Value, dims: maps.Positions, sizes: list[int], made: Sequence[ir.Value]
) -> bool:
    if dims in ((), (len(sizes) - 1,)):
        return True
    # Of a norm that makes the value IREE would cut the dims, too, and fuse less.
    return _is_whole(dims, sizes) and (_below(value) in made or not _is_of_norm(value))


def _is_whole(dims: maps.Positions, sizes: list[int]) -> bool:
    """Whether loops of these sizes read an element of its own each."""
    whole = [loop for loop, size in enumerate(sizes) if size != 1]
    return None not in dims and [loop for loop in dims if loop in whole] == whole


def _is_of_norm(value: ir.Value) -> bool:
    """Whether elementwise ops make a value of a number a row, as a norm's mean, and one value."""
    while (op := defining_op(_below(value))) is not None and op.name == "linalg.generic":
        whole = {_below(each) for each in list(op.operands)[:-1] if _has_shape_of(each, value)}
        if _reads_by_row(op) or any(_reads_by_row(defining_op(each)) for each in whole):
            return True
        if len(whole) != 1:
            return False
        (value,) = whole
    return False


def _reads_by_row(op: ir.Operation | None) -> bool:
    """Whether an op is a generic that repeats or reads numbers for all columns of a row."""
    if op is None or op.name != "linalg.generic" or reduces(op):
        return False
    positions = maps.positions(op)
    if positions is None:
        return False
    last = positions[-1][-1]
    return any(dims and last not in dims for dims in positions[:-1])


def _has_shape_of(value: ir.Value, other: ir.Value) -> bool:
    return is_ranked_tensor(value) and prod(static_sizes(value)) == prod(static_sizes(other))


def on_tiles(op: ir.Operation, found: Mapping[ir.Value, ir.Value], width: int) -> ir.Value:
    """An elementwise op on tiles of columns; `found` has what stands for values there."""
    build = Builder(op)
    positions = maps.positions(op)
    assert positions is not None
    reads: list[Read] = []
    for value, dims in zip(list(op.operands)[:-1], positions, strict=False):
        if not dims:
            reads.append((value, ()))
        elif len(dims) == 1:
            (columns,) = static_sizes(value)
            cut = build.split_dims(value, [[columns // width, width]])
            reads.append((cut, (1, 2)))
        else:
            reads.append((found.get(_below(value)) or _cut(build, value, width), (0, 1, 2)))
    init = build.empty(tile_sizes(op.results[0], width), element_type(op.results[0]))
    return copy_generic(op, [*reads, (init, (0, 1, 2))], ["parallel"] * 3, build).results[0]


def hand_out(op: ir.Operation, value: ir.Value) -> None:
    """Gives the users of an op a value in tiles of columns, in the shape that they know. Behind a
    barrier: else IREE cuts the dims of all that follows, and fuses less."""
    build, old = Builder(op), op.results[0]
    matrix = compute_barrier(build, build.collapse(value, [[0], [1, 2]]))
    old.replace_all_uses_with(build.expand(matrix, _row_groups(old), static_sizes(old)))


def as_matrix(build: Builder, value: ir.Value) -> ir.Value:
    """A value as (rows, columns)."""
    return build.collapse(value, _row_groups(value))


def _row_groups(value: ir.Value) -> list[list[int]]:
    last = len(static_sizes(value)) - 1
    return [list(range(last)), [last]]


def _cut(build: Builder, value: ir.Value, width: int) -> ir.Value:
    """A value as (rows, tiles of columns, columns)."""
    matrix = as_matrix(build, value)
    rows, columns = static_sizes(matrix)
    return build.split_dims(matrix, [[rows], [columns // width, width]])


def _matrix_sizes(sizes: Sequence[int]) -> tuple[int, list[int]]:
    return prod(sizes[:-1]), list(sizes[-1:])


def tile_sizes(value: ir.Value, width: int) -> list[int]:
    """The sizes of a value in tiles of so many columns."""
    *rows, columns = static_sizes(value)
    return [prod(rows), columns // width, width]
