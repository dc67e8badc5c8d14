"""`iree_linalg_ext.gather` and `scatter`: embeddings, paged caches, static caches.

Both address the first dims of a tensor (the source of a gather, the original of a scatter)
by indices and move slices over its other dims. So indexed dims can change places among
themselves, which `dimension_map` says, and so can the dims of the slice; a dim of the slice
cannot go in front of an indexed one.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ...ir import (
    Builder,
    copied_attributes,
    copy_region,
    element_type,
    indexed_dims,
    maps,
    sizes_of,
    tensor_bytes,
)
from ..cost import FREE, Cost
from ..layout import Layout, permuted
from . import Alternative, Demand, Operands, Refusal, Request, Rule, Ways
from .concat import ConcatDims, drop_units, piece_value, whole_dims
from .loop_nest import NestRewrite, can_compute_index, finish, old_index, plan_nest, read_as_it_is


def grouped_dims(layout: Layout, leading: int, op: ir.Operation) -> ConcatDims | Refusal:
    """The dims in their new order, given that the first `leading` dims stay in front."""
    dims = whole_dims(layout, op)
    if isinstance(dims, Refusal):
        return dims
    wanted = [dim for dim in dims.order if layout.dims[dim]]
    front = [dim for dim in dims.order if dim < leading]
    behind = [dim for dim in dims.order if dim >= leading]
    if wanted != [dim for dim in (*front, *behind) if layout.dims[dim]]:
        return Refusal("a dim of the slices that it moves would go before an indexed dim", op)
    return ConcatDims((*front, *behind))


def _batch(op: ir.Operation) -> int:
    """How many dims of a gather's result come from the indices."""
    return len(sizes_of(op.results[0])) - (len(sizes_of(op.operands[0])) - indexed_dims(op))


class Gather(Rule):
    """`iree_linalg_ext.gather`: where the slices stay behind, of a source with permuted
    slices; in any other order, at the price of a copy, as a loop nest that reads the source
    element by element."""

    ops = ("iree_linalg_ext.gather",)

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        slices, elements = self._by_slices(op, demand), self._by_elements(op, demand)
        taken = [way for way in (slices, elements) if isinstance(way, Alternative)]
        return elements if isinstance(elements, Refusal) and not taken else taken

    def _by_slices(self, op: ir.Operation, demand: Demand) -> Alternative | Refusal:
        source, indices = op.operands[0], op.operands[1]
        depth, batch = indexed_dims(op), _batch(op)
        dims = grouped_dims(demand.layout, batch, op)
        if isinstance(dims, Refusal):
            return dims
        slices = [dim - batch + depth for dim in dims.order[batch:]]
        layout = permuted(sizes_of(source), [*range(depth), *slices])
        requests = (
            Request(0, Demand(layout)),
            Request(len(op.operands) - 1, Demand(demand.layout)),
        )
        moved = not maps.is_identity(dims.order[:batch])
        cost = Cost(2 * tensor_bytes(indices), 1) if moved else FREE
        return Alternative(requests, cost, data=dims)

    def _by_elements(self, op: ir.Operation, demand: Demand) -> Alternative | Refusal:
        if len(op.operands) != 3:
            return Refusal("its mask leaves it no other order of its dims", op)
        loops = len(sizes_of(op.results[0]))
        nest = plan_nest(tuple(range(loops)), loops, demand.layout)
        if not all(can_compute_index(nest, loop) for loop in range(_batch(op), loops)):
            return Refusal("a dim of its slices would be split by a dynamic size", op)
        # IREE makes a gather part of the attention that reads it, so that no page is copied;
        # this loop nest is a dispatch of its own, which writes what a copy would.
        return Alternative((), Cost(2 * tensor_bytes(op.results[0]), 1), data=nest)

    def rewrite(
        self, op: ir.Operation, demand: Demand, way: Alternative, operands: Operands, build: Builder
    ) -> ir.Value:
        if isinstance(way.data, NestRewrite):
            return _gather_elements(op, way.data, demand, build)
        dims: ConcatDims = way.data
        indices, depth, batch = op.operands[1], indexed_dims(op), _batch(op)
        order = dims.order[:batch]
        inner = range(batch, len(sizes_of(indices)))
        slices = ConcatDims((*range(depth), *(dim - batch + depth for dim in dims.order[batch:])))
        new = [
            piece_value(operands[0], op.operands[0], slices, build),
            build.transpose(indices, [*order, *inner]),
            *(build.transpose(mask, order) for mask in list(op.operands)[2:-1]),
            piece_value(operands[1], op.operands[-1], dims, build),
        ]
        result = build.create(op.name, [new[-1].type], new, copied_attributes(op)).results[0]
        return drop_units(result, demand.layout, dims, build)


def _gather_elements(
    op: ir.Operation, nest: NestRewrite, demand: Demand, build: Builder
) -> ir.Value:
    """The loop nest over the demanded order that reads the source at the indices."""
    source, indices = op.operands[0], op.operands[1]
    places = list(op.attributes["dimension_map"])
    batch, sizes = _batch(op), sizes_of(indices)
    components = [indices]
    if len(sizes) > batch:
        components = [
            build.split_dims(
                build.extract_slice(indices, [0] * batch + [i], [*sizes[:batch], 1]),
                [*([size] for size in sizes[:batch]), []],
            )
            for i in range(len(places))
        ]
    reads = [read_as_it_is(nest, component, tuple(range(batch)), build) for component in components]
    init = build.empty(nest.result_sizes(), element_type(op.results[0]))
    result = tuple(range(len(nest.result)))

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> Sequence[ir.Value]:
        at = {dim: inner.to_index(scalars[i]) for i, dim in enumerate(places)}
        for dim in range(len(places), len(sizes_of(source))):
            at[dim] = old_index(nest, dim - len(places) + batch, inner)
        return [inner.extract(source, [at[dim] for dim in sorted(at)])]

    (new,) = build.generic(
        [value for value, _ in reads], [init], [*(m for _, m in reads), result], body
    )
    return finish(nest, new, demand, build)


class Scatter(Rule):
    """`iree_linalg_ext.scatter`: the original in the layout, and the updates' slices."""

    ops = ("iree_linalg_ext.scatter",)

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        depth, updates = indexed_dims(op), op.operands[0]
        dims = grouped_dims(demand.layout, depth, op)
        if isinstance(dims, Refusal):
            return dims
        order = _update_order(updates, dims, depth)
        layout = permuted(sizes_of(updates), order.order)
        copy = Cost(2 * tensor_bytes(updates), 1)
        requests = (
            Request(0, Demand(layout), copy),
            Request(len(op.operands) - 1, Demand(demand.layout)),
        )
        return [Alternative(requests, data=dims)]

    def rewrite(
        self, op: ir.Operation, demand: Demand, way: Alternative, operands: Operands, build: Builder
    ) -> ir.Value:
        dims: ConcatDims = way.data
        order = _update_order(op.operands[0], dims, indexed_dims(op))
        updates = piece_value(operands[0], op.operands[0], order, build)
        original = piece_value(operands[1], op.operands[-1], dims, build)
        places = [dims.places[dim] for dim in op.attributes["dimension_map"]]
        attributes = copied_attributes(op)
        attributes["dimension_map"] = ir.DenseI64ArrayAttr.get(places, op.context)
        new_operands = [updates, *list(op.operands)[1:-1], original]
        new = build.create(op.name, [original.type], new_operands, attributes, regions=1)
        copy_region(op, new)
        return drop_units(new.results[0], demand.layout, dims, build)


def _update_order(updates: ir.Value, dims: ConcatDims, depth: int) -> ConcatDims:
    """The dims of the updates: the batch as it stands, the slices as in the original."""
    batch = len(sizes_of(updates)) - (len(dims.order) - depth)
    return ConcatDims((*range(batch), *(dim - depth + batch for dim in dims.order[depth:])))
