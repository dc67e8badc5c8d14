"""Constants: transposed at compile time, where their elements can be read."""

from __future__ import annotations

from dataclasses import replace

from iree.compiler import ir

from ...ir import Builder, maps, static_size
from ...ir.constants import Elements, attribute_of, elements_of
from ..layout import Layout
from . import Alternative, Demand, Operands, Refusal, Rule, Ways


class Constant(Rule):
    """`arith.constant` of dense elements or a resource, of any integer or float type."""

    ops = ("arith.constant",)

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        elements = elements_of(op)
        if isinstance(elements, Refusal):
            return replace(elements, op=op)
        return [Alternative((), data=elements)]

    def rewrite(
        self, op: ir.Operation, demand: Demand, way: Alternative, operands: Operands, build: Builder
    ) -> ir.Value:
        elements = way.data
        kind = build.tensor_type(demand.layout.sizes, elements.kind)
        return build.constant(in_layout(elements, demand.layout, kind), kind)


def in_layout(elements: Elements, layout: Layout, kind: ir.RankedTensorType) -> ir.Attribute:
    """The constant of type `kind` that has these elements with one dim per axis of `layout`."""
    value = elements.attribute
    if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
        return ir.DenseElementsAttr.get_splat(kind, value.get_splat_value())
    axes = [axis for group in layout.dims for axis in group]
    full = [static_size(layout.full_size(axis)) for axis in axes]
    starts = [(layout.window(axis) or (0, 0))[0] for axis in axes]
    sizes = [static_size(layout.sizes[axis]) for axis in axes]
    cut = tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))
    array = elements.array().reshape(full)[cut].transpose(maps.inverse(axes))
    return attribute_of(array, kind, elements)
