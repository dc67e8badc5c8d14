"""The sign of attention's scale. Kernels find the largest score of a row before they scale, which
is right for scales above zero: others give their sign to the query."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ...ir import Builder, constant_number, defining_op, element_type, sizes_of

# Zero times the infinity of a hidden key is no number.
_SMALLEST = 1e-30
_NOT_NEGATIVE = ("math.absf", "math.exp", "math.exp2", "math.rsqrt", "math.sqrt", "arith.uitofp")
# Not negative where their operands are not.
_KEEPING = ("arith.addf", "arith.divf", "arith.extf", "arith.mulf", "arith.truncf")
_KEEPING_INTEGERS = ("arith.index_cast", "arith.index_castui", "arith.sitofp")
_SIZES = ("tensor.dim", "hal.buffer_view.dim")
_DEEPEST = 8


def sign_of(scale: ir.Value) -> int | None:
    """1 for a scale that is not negative, -1 for one below zero, 0 for the constant 0; None where
    only the run tells."""
    number = constant_number(scale)
    if number is not None:
        return (number > 0) - (number < 0)
    return 1 if _is_not_negative(scale, _DEEPEST) else None


def _is_not_negative(value: ir.Value, depth: int) -> bool:
    op, number = defining_op(value), constant_number(value)
    if number is not None:
        return number >= 0
    if op is None or depth == 0:
        return False
    if op.name in _NOT_NEGATIVE or op.name in _SIZES:
        return True
    if op.name not in _KEEPING and op.name not in _KEEPING_INTEGERS:
        return False
    return all(_is_not_negative(operand, depth - 1) for operand in op.operands)


def signed_query(build: Builder, query: ir.Value, scale: ir.Value) -> ir.Value:
    """The query, negated where the scale is below zero. Where only the run tells, a branch does:
    scales that models compute are mostly above zero, and then nothing is copied."""
    sign = sign_of(scale)
    if sign == 1:
        return query
    if sign is not None:
        return _negated(build, query)
    below = build.compare_floats("olt", scale, build.constant_float(0.0, scale.type))
    types = [query.type]
    return build.conditional(below, types, lambda b: [_negated(b, query)], lambda _: [query])[0]


def _negated(build: Builder, tensor: ir.Value) -> ir.Value:
    """The tensor times -1; of 8 bits, for which GPUs have no arithmetic, by the bit of the sign."""
    kind = element_type(tensor)
    i8 = ir.IntegerType.get_signless(8, tensor.context)

    def body(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        if ir.FloatType(kind).width > 8:
            return inner.apply("arith.negf", x[0])
        bits = inner.convert("arith.bitcast", x[0], i8)
        return inner.convert("arith.bitcast", inner.xori(bits, -128), kind)

    return build.computed(sizes_of(tensor), kind, body, tensor)


def magnitude(build: Builder, scale: ir.Value) -> ir.Value:
    """The scale without its sign, above zero."""
    number, f32 = constant_number(scale), ir.F32Type.get(scale.context)
    if number is not None:
        return scale if number > 0 else build.constant_float(-number, scale.type)
    if sign_of(scale) == 1:
        return scale
    positive = build.create("math.absf", [f32], [build.cast_float(scale, f32)]).results[0]
    smallest = build.constant_float(_SMALLEST, f32)
    return build.create("arith.maximumf", [f32], [positive, smallest]).results[0]
