"""The 8-bit floats of the OCP standard, and their casts as integer arithmetic.

`narrow` rounds to nearest even and gives what `arith.truncf` gives on a CPU: above the range
NaN for f8E4M3FN, which has no infinity, and infinity for f8E5M2. It runs on any machine.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import Builder, with_element

_MANTISSA = 23
_BIAS = 127


@dataclass(frozen=True)
class Fp8:
    """A format: `mantissa` bits, exponent `bias`, the `largest` finite number, the largest
    magnitude `last` that rounds to it, the code `above` it, and PTX's word for the format."""

    name: str
    mantissa: int
    bias: int
    largest: float
    last: float
    above: int
    ptx: str


FORMATS = {
    "f8E4M3FN": Fp8("f8E4M3FN", 3, 7, 448.0, 464.0, 0x7F, "e4m3"),
    # 61440 lies half way to the number behind the largest, and rounds up.
    "f8E5M2": Fp8("f8E5M2", 2, 15, 57344.0, 61440.0 - 2.0**-8, 0x7C, "e5m2"),
}
NAN = 0x7F


class VectorArithmetic:
    """Arithmetic on scalars or vectors of the shape of `like`."""

    def __init__(self, build: Builder, like: ir.Value):
        self.build = build
        self.like = like.type
        context = build.anchor.context
        self.f32, self.f16 = ir.F32Type.get(context), ir.F16Type.get(context)
        self.i32, self.i16, self.i8 = (
            ir.IntegerType.get_signless(bits, context) for bits in (32, 16, 8)
        )

    def to(self, name: str, element: ir.Type, value: ir.Value) -> ir.Value:
        """A cast: `arith.<name>` of `value` to this element type."""
        kind = with_element(self.like, element)
        if value.type == kind:
            return value
        return self.build.create(f"arith.{name}", [kind], [value]).results[0]

    def op(self, name: str, left: ir.Value, right: ir.Value | float) -> ir.Value:
        """`arith.<name>` of two values, the second of which may be a number."""
        return self.build.apply(f"arith.{name}", left, right)

    def magnitude(self, value: ir.Value) -> ir.Value:
        return self.build.apply("math.absf", value)

    def choose(
        self,
        predicate: str,
        left: ir.Value,
        right: ir.Value | float,
        then: ir.Value | float,
        other: ir.Value,
    ) -> ir.Value:
        """`then` where the float comparison holds, else `other`."""
        if not isinstance(right, ir.Value):
            right = self.build.splat(right, left.type)
        value = then if isinstance(then, ir.Value) else self.build.splat(then, other.type)
        holds = self.build.compare_floats(predicate, left, right)
        return self.build.select(holds, value, other)


def narrow(build: Builder, value: ir.Value, fp8: Fp8) -> ir.Value:
    """The i8 codes of f32 numbers."""
    e = VectorArithmetic(build, value)
    bits = e.to("bitcast", e.i32, value)
    sign = e.op("andi", e.op("shrui", bits, 24), 0x80)
    size = e.magnitude(value)
    number = e.to("bitcast", e.i32, size)
    drop = _MANTISSA - fp8.mantissa
    odd = e.op("andi", e.op("shrui", number, drop), 1)
    rounded = e.op("addi", e.op("addi", number, (1 << (drop - 1)) - 1), odd)
    code = e.op("subi", e.op("shrui", rounded, drop), (_BIAS - fp8.bias) << fp8.mantissa)
    # Subnormal: added to a power of two whose last bit is worth the format's smallest number,
    # the sum's low bits are the code, rounded by the addition.
    power = 2.0 ** (_MANTISSA + 1 - fp8.bias - fp8.mantissa)
    (power_bits,) = struct.unpack("<i", struct.pack("<f", power))
    small = e.op("subi", e.to("bitcast", e.i32, e.op("addf", size, power)), power_bits)
    code = e.choose("olt", size, 2.0 ** (1 - fp8.bias), small, code)
    code = e.choose("ogt", size, fp8.last, fp8.above, code)
    code = e.choose("uno", value, value, NAN, code)
    return e.to("trunci", e.i8, e.op("ori", code, sign))


def widen(build: Builder, codes: ir.Value, fp8: Fp8) -> ir.Value:
    """The numbers that i8 codes stand for as f16, which holds each of them exactly."""
    e = VectorArithmetic(build, codes)
    wide = e.to("extui", e.i16, codes)
    if fp8.bias == 15:
        # f8E5M2 is the upper half of f16.
        return e.to("bitcast", e.f16, e.op("shli", wide, 8))
    sign = e.op("shli", e.op("andi", wide, 0x80), 8)
    size = e.op("shli", e.op("andi", wide, 0x7F), 10 - fp8.mantissa)
    number = e.to("bitcast", e.f16, e.op("ori", size, sign))
    scaled = e.op("mulf", number, 2.0 ** (15 - fp8.bias))
    # The code above the largest number is NaN, where this made the next number.
    nan = build.splat(float("nan"), scaled.type)
    return e.choose("ogt", e.magnitude(scaled), fp8.largest, nan, scaled)
