"""attn-plain-tests: whether a number is infinite, or a normal one, is asked by comparisons."""

from __future__ import annotations

import math

from iree.compiler import ir

from ..ir import Builder, element_type_name
from ..passes import OpPass

_INFINITE, _NORMAL = "math.isinf", "math.isnormal"
# Least normal numbers, by what the types are called.
_LEAST = {"f64": 2.0**-1022, "f32": 2.0**-126, "bf16": 2.0**-126, "f16": 2.0**-14}


class PlainTests(OpPass):
    """Makes `isinf` and `isnormal` comparisons of the number without its sign. IREE 3.13 has code
    for neither on CPUs, and for the first alone on GPUs; `isnan` and `isfinite` stay.
    """

    name = "attn-plain-tests"
    summary = "`isinf` and `isnormal` are comparisons"
    ops = (_INFINITE, _NORMAL)
    mends = "IREE has no program of `isinf` on CPUs, and none of `isnormal`"

    in_bodies = True

    def change(self, op: ir.Operation) -> str:
        least = _LEAST.get(element_type_name(op.operands[0]))
        if least is None:
            return ""
        build = Builder(op)
        size = build.apply("math.absf", op.operands[0])
        if op.name == _INFINITE:
            result = build.compare_floats("oeq", size, math.inf)
        else:
            is_large = build.compare_floats("oge", size, least)
            is_finite = build.compare_floats("olt", size, math.inf)
            result = build.apply("arith.andi", is_large, is_finite)
        op.results[0].replace_all_uses_with(result)
        return "is a comparison: IREE 3.13 has no code for it"
