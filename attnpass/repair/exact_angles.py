"""attn-exact-angles: sines and cosines of large angles have all their digits."""

from __future__ import annotations

import math

from iree.compiler import ir

from ..ir import Builder
from ..passes import OpPass
from .linked_functions import ComputedFloat

# Added to a number below 2^51 it leaves the nearest integer in the last digits.
_TO_INTEGER = 1.5 * 2.0**52
# sin(x) / x by powers of x^2, for x up to 1.6, to 8e-9: Chebyshev's.
_SINE = (
    0.999999994857711, -0.16666656604836239, 0.008333018041417516, -0.00019806627538745012,
    2.599667648026988e-06,
)  # fmt: skip


class ExactAngles(OpPass):
    """Writes sines, cosines and tangents in f32 and less out, with the half turns taken off the
    angle in f64.

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
        value = _sine(build, op.operands[0], 0.5 if op.name == "math.cos" else 0.0)
        if op.name == "math.tan":
            value = value / _sine(build, op.operands[0], 0.5)
        op.results[0].replace_all_uses_with(build.cast_float(value.value, kind))
        return "takes turns off its angle in f64: IREE's error grows with the angle"


def _sine(build: Builder, angle: ir.Value, ahead: float) -> ComputedFloat:
    """The sine, in f32, of an angle of at most 32 bits that is so many half turns ahead."""
    context = build.anchor.context
    f32, f64 = ir.F32Type.get(context), ir.F64Type.get(context)
    i32, i64 = (ir.IntegerType.get_signless(bits, context) for bits in (32, 64))
    wide = ComputedFloat(build, build.cast_float(angle, f64))
    count = wide * (1 / math.pi)
    count = (count + ahead if ahead else count) + _TO_INTEGER
    half_turns = count - _TO_INTEGER
    rest = wide - (half_turns - ahead if ahead else half_turns) * math.pi
    # More than a quarter of a turn is left of angles that f64 counts no turns of.
    near = ComputedFloat(build, build.cast_float(rest.value, f32)).within(1.6)
    sine = near * (near * near).powers(_SINE)
    # An odd number of half turns is one sign.
    digits = build.convert("arith.trunci", build.convert("arith.bitcast", count.value, i64), i32)
    signed = build.convert("arith.bitcast", sine.value, i32)
    signed = build.apply("arith.xori", signed, build.apply("arith.shli", digits, 31))
    return ComputedFloat(build, build.convert("arith.bitcast", signed, f32))
