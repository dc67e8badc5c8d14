"""How `math.floor` of a tensor, which attnpass has no rule for, takes a layout."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from attnpass.ir import Builder, element_type
from attnpass.layout.rules import Alternative, Demand, Operands, Refusal, Request, Rule


class Floor(Rule):
    """Each element is computed for itself: the operand is wanted as the result is."""

    ops = ("math.floor",)

    def match(
        self, op: ir.Operation, number: int, demand: Demand
    ) -> Sequence[Alternative] | Refusal:
        return [Alternative((Request(0, Demand(demand.layout)),))]

    def rewrite(
        self, op: ir.Operation, demand: Demand, way: Alternative, operands: Operands, build: Builder
    ) -> ir.Value:
        (value,) = operands
        assert value is not None
        kind = build.tensor_type(demand.layout.sizes, element_type(op.results[0]))
        given = build.cast(value, demand.layout.sizes)
        return build.create(op.name, [kind], [given]).results[0]
