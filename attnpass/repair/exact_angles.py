"""attn-exact-angles: sines and cosines of large angles have all their digits."""

from __future__ import annotations

import math

from iree.compiler import ir

from ..ir import Builder
from ..passes import OpPass
from .linked_functions import ComputedFloat

# Added to a number below 2^51 it leaves the nearest integer in the last digits.
_TO_INTEGER = 1.5 * 2.0**52


class ExactAngles(OpPass):
    """Writes sines, cosines and tangents in f32 and less out, with the quarters of a turn taken off
    the angle in f64.

    IREE 3.13 takes them off in f32: errors are 2.7e-8 times the angle (3e-5 at 1000, as of a time
    step in diffusion or a position in rotary embedding), and what is above 1e11 has no sine at all.
    Here they are below 2e-7 up to angles of 1e9; above, the value is between -1 and 1.
    """

    name = "attn-exact-angles"
    summary = "sines and cosines of large angles"
    backends = ("cuda", "llvm-cpu", "rocm")
    mends = "sines and cosines of large angles are wrong from the 5th digit on"

    in_bodies = True

    def wanted(self, op: ir.Operation) -> bool:
        if op.name not in ("math.cos", "math.sin", "math.tan"):
            return False
        kind = op.results[0].type
        return isinstance(kind, ir.FloatType) and ir.FloatType(kind).width <= 32

    def change(self, op: ir.Operation) -> str:
        build, kind = Builder(op), op.results[0].type
        sine = _Sine(build, op.operands[0])
        if op.name == "math.tan":
            value = sine.turned(0) / sine.turned(1)
        else:
            value = sine.turned(1 if op.name == "math.cos" else 0)
        op.results[0].replace_all_uses_with(build.cast_float(value.value, kind))
        return "takes turns off its angle in f64: IREE's error grows with the angle"


class _Sine:
    """The sine, in f32, of an angle of at most 32 bits and of those quarters of a turn ahead."""

    def __init__(self, build: Builder, angle: ir.Value):
        context = build.anchor.context
        f32, f64 = ir.F32Type.get(context), ir.F64Type.get(context)
        i32, i64 = (ir.IntegerType.get_signless(bits, context) for bits in (32, 64))
        wide = ComputedFloat(build, build.cast_float(angle, f64))
        count = wide * (2 / math.pi) + _TO_INTEGER
        rest = wide - (count - _TO_INTEGER) * (math.pi / 2)
        # More than an eighth of a turn is left of angles that f64 counts no turns of.
        rest = rest.of("arith.minimumf", 0.8).of("arith.maximumf", -0.8)
        digits = build.convert("arith.bitcast", count.value, i64)
        self.build, self.quarters = build, build.convert("arith.trunci", digits, i32)
        near = ComputedFloat(build, build.cast_float(rest.value, f32))
        square = near * near
        self.sine = near * square.powers([(-1) ** n / math.factorial(2 * n + 1) for n in range(5)])
        self.cosine = square.powers([(-1) ** n / math.factorial(2 * n) for n in range(6)])

    def turned(self, ahead: int) -> ComputedFloat:
        build = self.build
        quarters = build.apply("arith.addi", self.quarters, ahead) if ahead else self.quarters
        is_odd, is_past_half = (
            build.compare("ne", build.apply("arith.andi", quarters, bit), 0) for bit in (1, 2)
        )
        size = build.select(is_odd, self.cosine.value, self.sine.value)
        minus = build.apply("arith.negf", size)
        return ComputedFloat(build, build.select(is_past_half, minus, size))
