"""attn-signed-powers: powers of negative numbers, and of 0, are those of mathematics."""

from __future__ import annotations

import math

from iree.compiler import ir

from ..ir import Builder, is_narrow_float, scalar_number, whole_number
from ..machines import is_for_cpus
from ..passes import OpPass
from .linked_functions import ComputedFloat

_POWER, _WHOLE_POWER = "math.powf", "math.fpowi"
# From here on all floats of 32 and 64 bits are even numbers.
_ALL_EVEN = {32: 2.0**24, 64: 2.0**53}
# Exponents that IREE has products for, and the largest that gets them here.
_RIGHT = (-1, -0.5, 0, 0.5, 1, 2, 3)
_MOST_PRODUCTS = 64


class SignedPowers(OpPass):
    """Makes powers that IREE 3.13 gets wrong others.

    For CPUs it computes `exp(y log(x))`, which is no number below 0, nor where both are 0.

    1. A power by a number that is known only at run time, an integer too, is one of the base's
       size, with the sign that a whole exponent gives it. Any base by 0, and 1 and -1 by an
       infinite exponent, is 1. A negative base by a fraction is NaN. Those of 16 bits are made in
       f32.
    2. One by a known whole number is products, one of minus infinity by a known fraction infinity
       or 0. By 1/2 and -1/2 it is a square root, as PyTorch's is.

    For all targets it takes 0 to the power of a negative integer for minus infinity:

    3. That is 1 by the power of the positive one.

    Of 16 bits it rounds each product:

    4. Known whole powers above 3 are made in f32.
    """

    name = "attn-signed-powers"
    summary = "powers of negative numbers, and of 0 by negative integers"
    mends = "powers of negative numbers are NaN on CPUs, 1 / 0 is minus infinity"

    in_bodies = True

    def wanted(self, op: ir.Operation) -> bool:
        if op.name == _WHOLE_POWER:
            exponent = whole_number(op.operands[1])
            if exponent is None:
                return isinstance(op.results[0].type, ir.FloatType) and is_for_cpus(op)
            # A cube is rounded twice: as GELU has it, it stays as it is.
            return exponent < 0 or (exponent > max(_RIGHT) and is_narrow_float(op.results[0].type))
        if op.name != _POWER or not isinstance(op.operands[0].type, ir.FloatType):
            return False
        base, exponent = (scalar_number(value) for value in op.operands)
        is_plain = base is not None and 0 < base < math.inf and base != 1
        return exponent not in _RIGHT and not is_plain and is_for_cpus(op)

    def change(self, op: ir.Operation) -> str:
        build = Builder(op)
        base, exponent = op.operands
        number = whole_number(exponent)
        if op.name == _WHOLE_POWER and number is not None:
            op.results[0].replace_all_uses_with(_products(build, base, number, exponent.type))
            if number > 0:
                return "is made in f32: IREE rounds each of its products"
            return "is 1 by a power: IREE's of 0 by a negative integer is minus infinity"
        number = scalar_number(exponent)
        if number is not None and math.isfinite(number) and not float(number).is_integer():
            power = build.create(_POWER, [base.type], [base, exponent]).results[0]
            end = build.constant_float(math.inf if number > 0 else 0.0, base.type)
            value = build.select(build.compare_floats("oeq", base, -math.inf), end, power)
            op.results[0].replace_all_uses_with(value)
            return "has a number for minus infinity: IREE's is NaN"
        if number is not None and abs(number) <= _MOST_PRODUCTS:
            i64 = ir.IntegerType.get_signless(64, op.context)
            op.results[0].replace_all_uses_with(_products(build, base, int(number), i64))
            return "is products: IREE's power of a negative number is NaN"
        kind = base.type
        wide = ir.F32Type.get(op.context) if is_narrow_float(kind) else kind
        base = build.cast_float(base, wide)
        if op.name == _WHOLE_POWER:
            exponent = build.convert("arith.sitofp", exponent, wide)
        else:
            exponent = build.cast_float(exponent, wide)
        size = build.create("math.absf", [wide], [base]).results[0]
        power = build.create(_POWER, [wide], [size, exponent]).results[0]
        one = build.constant_float(1.0, wide)
        for operand, special in ((exponent, 0.0), (size, 1.0)):
            power = build.select(build.compare_floats("oeq", operand, special), one, power)
        is_whole, is_odd = _whole_and_odd(build, exponent)
        mirrored = build.create("math.copysign", [wide], [power, base]).results[0]
        signed = build.select(build.apply("arith.andi", is_whole, is_odd), mirrored, power)
        below = build.select(is_whole, signed, build.constant_float(float("nan"), wide))
        # Minus infinity by a fraction is infinity, or 0.
        is_below = build.apply(
            "arith.andi",
            build.compare_floats("olt", base, 0.0),
            build.compare_floats("ogt", base, -math.inf),
        )
        value = build.select(is_below, below, signed)
        op.results[0].replace_all_uses_with(build.cast_float(value, kind))
        return "has the sign of its base: IREE's power of a negative number is NaN"


def _products(build: Builder, base: ir.Value, exponent: int, kind: ir.Type) -> ir.Value:
    """The power by a known integer, which IREE makes products of; of narrow types in f32."""
    narrow = base.type
    wide = ir.F32Type.get(narrow.context) if is_narrow_float(narrow) else narrow
    number = build.constant_number(abs(exponent), kind)
    power = build.cast_float(base, wide)
    power = build.create(_WHOLE_POWER, [wide], [power, number]).results[0]
    if exponent < 0:
        power = build.apply("arith.divf", build.constant_float(1.0, wide), power)
    return build.cast_float(power, narrow)


def _whole_and_odd(build: Builder, number: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Whether a float is a whole number, and an odd one if so. By way of integers: IREE links no
    `floor` for the least CPUs."""
    width = ir.FloatType(number.type).width
    kind = ir.IntegerType.get_signless(width, number.context)
    near = ComputedFloat(build, number).within(_ALL_EVEN[width]).value
    whole = build.convert("arith.fptosi", near, kind)
    is_whole = build.compare_floats("oeq", build.convert("arith.sitofp", whole, number.type), near)
    return is_whole, build.compare("eq", build.apply("arith.andi", whole, 1), 1)
