"""`arith` and `math` ops on whole tensors, as modules that no exporter lowered to linalg have
them: the same op on its operands in the demanded layout."""

from __future__ import annotations

from iree.compiler import ir

from ...ir import Builder, copied_attributes, element_type, is_ranked_tensor
from . import Alternative, Demand, Operands, Refusal, Request, Rule, Ways


class Elementwise(Rule):
    """Casts and arithmetic of floats and integers, element by element."""

    ops = (
        "arith.addf",
        "arith.addi",
        "arith.bitcast",
        "arith.divf",
        "arith.extf",
        "arith.extsi",
        "arith.extui",
        "arith.fptosi",
        "arith.fptoui",
        "arith.maximumf",
        "arith.maxnumf",
        "arith.minimumf",
        "arith.minnumf",
        "arith.mulf",
        "arith.muli",
        "arith.negf",
        "arith.sitofp",
        "arith.subf",
        "arith.subi",
        "arith.truncf",
        "arith.trunci",
        "arith.uitofp",
        "math.absf",
        "math.erf",
        "math.exp",
        "math.fma",
        "math.rsqrt",
        "math.sqrt",
        "math.tanh",
    )

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        if not all(is_ranked_tensor(operand) for operand in op.operands):
            return Refusal("it computes on no ranked tensors", op)
        # Each operand has the result's shape, so each is wanted in the same layout.
        wanted = Demand(demand.layout)
        return [Alternative(tuple(Request(i, wanted) for i in range(len(op.operands))))]

    def rewrite(
        self, op: ir.Operation, demand: Demand, way: Alternative, operands: Operands, build: Builder
    ) -> ir.Value:
        given = [value for value in operands if value is not None]
        kind = build.tensor_type(demand.layout.sizes, element_type(op.results[0]))
        given = [build.cast(value, demand.layout.sizes) for value in given]
        return build.create(op.name, [kind], given, copied_attributes(op)).results[0]
