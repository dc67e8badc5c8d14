"""attn-signed-powers: CPUs: powers of negative numbers, and of 0 by 0, are numbers."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, scalar_number
from ..passes import OpPass

_POWER = "math.powf"
# From here on all floats are even numbers.
_ALL_EVEN = 2.0**53


class SignedPowers(OpPass):
    """Makes a power of two numbers that are known only at run time one of the base's size, with
    the sign that a whole exponent gives it.

    For CPUs IREE 3.13 computes `exp(y log(x))`, which is no number below 0, nor where both are 0.

    1. Any base by 0, and 1 and -1 by an infinite exponent, is 1.
    2. A negative base by a whole exponent has its sign where that is odd; by another it is NaN.
    """

    name = "attn-signed-powers"
    summary = "CPUs: powers of negative numbers"
    backends = ("llvm-cpu",)
    mends = "powers of negative numbers by computed exponents are NaN on CPUs"

    in_bodies = True

    def wanted(self, op: ir.Operation) -> bool:
        if op.name != _POWER or not isinstance(op.operands[0].type, ir.FloatType):
            return False
        base, exponent = (scalar_number(value) for value in op.operands)
        return exponent is None and (base is None or base <= 0)

    def change(self, op: ir.Operation) -> str:
        build = Builder(op)
        base, exponent = op.operands
        kind = base.type

        def unary(name: str, value: ir.Value) -> ir.Value:
            return build.create(name, [kind], [value]).results[0]

        size = unary("math.absf", base)
        power = build.create(_POWER, [kind], [size, exponent]).results[0]
        one = build.constant_float(1.0, kind)
        for operand, number in ((exponent, 0.0), (size, 1.0)):
            power = build.select(build.compare_floats("oeq", operand, number), one, power)
        is_whole, is_odd = _whole_and_odd(build, exponent)
        signed = build.select(is_odd, unary("arith.negf", power), power)
        signed = build.select(is_whole, signed, build.constant_float(float("nan"), kind))
        value = build.select(build.compare_floats("olt", base, 0.0), signed, power)
        op.results[0].replace_all_uses_with(value)
        return "has the sign of its base: IREE's power of a negative number is NaN"


def _whole_and_odd(build: Builder, number: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Whether a float is a whole number, and an odd one if so. By way of integers: IREE links no
    `floor` for the least CPUs."""
    f64, i64 = (
        ir.F64Type.get(build.anchor.context),
        ir.IntegerType.get_signless(64, build.anchor.context),
    )
    wide = number if number.type == f64 else build.cast_float(number, f64)
    near = build.apply("arith.minimumf", wide, _ALL_EVEN)
    near = build.apply("arith.maximumf", near, -_ALL_EVEN)
    whole = build.convert("arith.fptosi", near, i64)
    is_whole = build.compare_floats("oeq", build.convert("arith.sitofp", whole, f64), near)
    return is_whole, build.compare("eq", build.apply("arith.andi", whole, 1), 1)
