"""Destinations of linalg ops: tensor.empty and linalg.fill in any layout."""

from __future__ import annotations

from iree.compiler import ir

from ...ir import Builder, element_type
from . import Alternative, Demand, Operands, Request, Rule, Ways


class Empty(Rule):
    """`tensor.empty`: made anew in the shape wanted."""

    ops = ("tensor.empty",)

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        return [Alternative(())]

    def rewrite(
        self, op: ir.Operation, demand: Demand, way: Alternative, operands: Operands, build: Builder
    ) -> ir.Value:
        return build.empty(demand.layout.sizes, element_type(op.results[0]))


class Fill(Rule):
    """`linalg.fill`: the same scalar in a destination of the shape wanted."""

    ops = ("linalg.fill",)

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        return [Alternative((Request(1, Demand(demand.layout)),))]

    def rewrite(
        self, op: ir.Operation, demand: Demand, way: Alternative, operands: Operands, build: Builder
    ) -> ir.Value:
        (init,) = operands
        assert init is not None
        return build.fill(op.operands[0], init)
