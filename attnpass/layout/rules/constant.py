"""Constants: transposed at compile time, where their elements can be read."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ...ir import Builder
from ...ir.constants import elements_of, in_layout
from . import Alternative, Demand, Refusal, Rule


class Constant(Rule):
    """`arith.constant` of dense elements or a resource, of any integer or float type."""

    ops = ("arith.constant",)

    def match(
        self, op: ir.Operation, number: int, demand: Demand
    ) -> Sequence[Alternative] | Refusal:
        elements = elements_of(op)
        if isinstance(elements, str):
            return Refusal(elements, op)
        return [Alternative((), data=elements)]

    def rewrite(
        self,
        op: ir.Operation,
        demand: Demand,
        alternative: Alternative,
        operands: Sequence[ir.Value | None],
        build: Builder,
    ) -> ir.Value:
        elements = alternative.data
        kind = build.tensor_type(demand.layout.sizes, elements.kind)
        return build.constant(in_layout(elements, demand.layout, kind), kind)
