"""Tensors put together from pieces: concat, pad and insert_slice, piece by piece.

The dim that is put together must stay one axis of the demand; the other dims move freely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ...ir import (
    DYNAMIC,
    Builder,
    Size,
    body_names,
    element_type,
    sizes_of,
    tensor_bytes,
    yielded,
)
from ..cost import Cost
from ..layout import Layout, make_layout
from . import Alternative, Demand, Operands, Refusal, Request, Rule, Ways


@dataclass(frozen=True)
class ConcatDims:
    """The new value's dims: places[d] is where dim d of the old one went; `order` lists the
    old dims in their new order, those of size one, which no axis stands for, at the end."""

    order: tuple[int, ...]

    @property
    def places(self) -> dict[int, int]:
        return {dim: place for place, dim in enumerate(self.order)}


def whole_dims(layout: Layout, op: ir.Operation) -> ConcatDims | Refusal:
    """How to permute a value whose dims each have at most one axis, or why that is not so."""
    if layout.windows:
        return Refusal("a slice of it is wanted", op)
    if any(len(axes) > 1 for axes in layout.dims):
        return Refusal("a dim that it puts together would be split", op)
    by_axis = {axes[0]: dim for dim, axes in enumerate(layout.dims) if axes}
    units = [dim for dim, axes in enumerate(layout.dims) if not axes]
    return ConcatDims((*(by_axis[axis] for axis in range(layout.rank)), *units))


def piece_layout(layout: Layout, sizes: Sequence[Size]) -> Layout:
    """The layout for a piece of shape `sizes` that lies along the whole's dims."""
    axes = {axis: dim for dim, group in enumerate(layout.dims) for axis in group}
    kept = [axis for axis in range(layout.rank) if sizes[axes[axis]] != 1]
    number = {axis: i for i, axis in enumerate(kept)}
    dims = tuple(tuple(number[axis] for axis in group if axis in number) for group in layout.dims)
    return make_layout([sizes[axes[axis]] for axis in kept], dims, [None] * len(kept))


def piece_value(
    value: ir.Value | None, old: ir.Value, dims: ConcatDims, build: Builder
) -> ir.Value:
    """A piece with all its dims in the new order: delivered, or transposed here."""
    if value is None:
        return build.transpose(old, dims.order)
    sizes = sizes_of(old)
    wanted = [sizes[dim] for dim in dims.order]
    return build.join_dims(value, [0 if size == 1 else 1 for size in wanted], wanted)


def drop_units(value: ir.Value, layout: Layout, dims: ConcatDims, build: Builder) -> ir.Value:
    """The new whole without the dims of size one, which no axis stands for."""
    parts = [[layout.sizes[axis] for axis in layout.dims[dim]] for dim in dims.order]
    return build.split_dims(value, parts)


class Concat(Rule):
    """`tensor.concat`: every operand in the layout; one that cannot be had so (a cache that
    comes in as an argument) is transposed on its way in, at the price of a copy."""

    ops = ("tensor.concat",)

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        dims = whole_dims(demand.layout, op)
        if isinstance(dims, Refusal):
            return dims
        requests = [
            Request(
                i,
                Demand(piece_layout(demand.layout, sizes_of(operand))),
                Cost(2 * tensor_bytes(operand), 1),
            )
            for i, operand in enumerate(op.operands)
        ]
        return [Alternative(tuple(requests), data=dims)]

    def rewrite(
        self, op: ir.Operation, demand: Demand, way: Alternative, operands: Operands, build: Builder
    ) -> ir.Value:
        dims: ConcatDims = way.data
        pieces = [
            piece_value(value, old, dims, build)
            for value, old in zip(operands, op.operands, strict=True)
        ]
        old_dim = ir.IntegerAttr(op.attributes["dim"])
        sizes = sizes_of(op.results[0])
        result = build.tensor_type([sizes[d] for d in dims.order], element_type(op.results[0]))
        attribute = ir.IntegerAttr.get(old_dim.type, dims.places[old_dim.value])
        new = build.create(op.name, [result], pieces, {"dim": attribute})
        return drop_units(new.results[0], demand.layout, dims, build)


class Pad(Rule):
    """`tensor.pad` with one padding value: the padding moves with its dim."""

    ops = ("tensor.pad",)

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        dims = whole_dims(demand.layout, op)
        if isinstance(dims, Refusal):
            return dims
        if body_names(op)[0] != "tensor.yield":
            return Refusal("its padding value depends on the place", op)
        source = op.operands[0]
        layout = piece_layout(demand.layout, sizes_of(source))
        return [Alternative((Request(0, Demand(layout)),), data=dims)]

    def rewrite(
        self, op: ir.Operation, demand: Demand, way: Alternative, operands: Operands, build: Builder
    ) -> ir.Value:
        dims: ConcatDims = way.data
        source = piece_value(operands[0], op.operands[0], dims, build)
        rest = list(op.operands)[1:]
        low, high = (list(op.attributes[name]) for name in ("static_low", "static_high"))
        lows = _with_operands(low, rest[: low.count(DYNAMIC)])
        highs = _with_operands(high, rest[low.count(DYNAMIC) :])
        sizes = sizes_of(op.results[0])
        result = build.tensor_type([sizes[d] for d in dims.order], element_type(op.results[0]))
        padding = yielded(op)
        new = build.pad(
            source,
            result,
            [lows[dim] for dim in dims.order],
            [highs[dim] for dim in dims.order],
            padding,
        )
        return drop_units(new, demand.layout, dims, build)


class InsertSlice(Rule):
    """`tensor.insert_slice` of full rank and unit strides: destination and source permuted."""

    ops = ("tensor.insert_slice",)

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        dims = whole_dims(demand.layout, op)
        if isinstance(dims, Refusal):
            return dims
        source, destination = op.operands[0], op.operands[1]
        if len(sizes_of(source)) != len(sizes_of(destination)):
            return Refusal("it inserts a slice of lower rank", op)
        if any(stride != 1 for stride in op.attributes["static_strides"]):
            return Refusal("it inserts with a stride", op)
        copy = Cost(2 * tensor_bytes(source), 1)
        requests = (
            Request(0, Demand(piece_layout(demand.layout, sizes_of(source))), copy),
            Request(1, Demand(demand.layout)),
        )
        return [Alternative(requests, data=dims)]

    def rewrite(
        self, op: ir.Operation, demand: Demand, way: Alternative, operands: Operands, build: Builder
    ) -> ir.Value:
        dims: ConcatDims = way.data
        source = piece_value(operands[0], op.operands[0], dims, build)
        destination = piece_value(operands[1], op.operands[1], dims, build)
        new = build.insert_slice_like(op, source, destination, dims.order)
        return drop_units(new, demand.layout, dims, build)


def _with_operands(static: Sequence[int], dynamic: Sequence[ir.Value]) -> list[int | ir.Value]:
    values = iter(dynamic)
    return [next(values) if size == DYNAMIC else size for size in static]
