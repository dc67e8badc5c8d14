"""8-bit operands of attention as 16-bit ones: which type holds them exactly, and the cast."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import (
    Builder,
    body_names,
    body_of,
    body_ops,
    defining_op,
    element_bytes,
    element_type_name,
    maps,
    ranked_shape,
    sizes_of,
)
from .facts import AttentionFacts

# Both 8-bit types of the OCP standard fit, with subnormals, infinities and NaN, into each of the
# 16-bit types: f16 has no fewer bits of exponent and mantissa than e5m2, bf16 has a mantissa of 7
# bits, and the range of f32.
NARROW = ("f8E4M3FN", "f8E5M2")
WIDE = ("f16", "bf16")
_OPERANDS = ("query", "key", "value")


def wide_type(facts: AttentionFacts) -> str:
    """The 16-bit type that holds Q, K and V exactly, where one of them has 8 bits: that of the
    others or, where all have 8, of the output, else f16. Empty if there is none."""
    types = facts.element_types
    kinds = {types[name] for name in _OPERANDS}
    others = kinds - set(NARROW)
    if len(others) == len(kinds):
        return ""
    if not others:
        others = {types["output"]} & set(WIDE) or {"f16"}
    wide = others.pop()
    return wide if not others and wide in WIDE else ""


def narrow_operands(facts: AttentionFacts) -> list[str]:
    """Which of Q, K and V have 8 bits."""
    return [name for name in _OPERANDS if facts.element_types[name] in NARROW]


def cast_operands(facts: AttentionFacts) -> list[str]:
    """Which of Q, K and V the model itself widens from 8 bits to 16, in front of attention."""
    wide = [name for name in _OPERANDS if facts.element_types[name] in WIDE]
    return [name for name in wide if widened_from(facts.value(name)) is not None]


def widened_from(value: ir.Value, size: int = 1) -> ir.Value | None:
    """The tensor of elements of `size` bytes that an op does nothing but widen to `value`; None if
    none does."""
    op = defining_op(value)
    if op is None or (op.name != "arith.extf" and not _only_widens(op)):
        return None
    source = op.operands[0]
    return source if element_bytes(source) == size else None


def below_widening(value: ir.Value) -> ir.Value:
    """What a value is widened from, if that has 16 bits: products of these are exact in f32."""
    source = widened_from(value, 2)
    return value if source is None else source


def _only_widens(op: ir.Operation) -> bool:
    """Whether a generic yields each element of its one input, widened, in its place."""
    if op.name != "linalg.generic" or len(op.operands) != 2:
        return False
    in_place = tuple(range(len(ranked_shape(op.results[0]))))
    return (
        maps.positions(op) == (in_place, in_place)
        and body_names(op) == ["arith.extf", "linalg.yield"]
        and body_ops(op)[0].operands[0] == body_of(op).arguments[0]
    )


def widen(build: Builder, value: ir.Value, kind: str) -> ir.Value:
    """A tensor with its elements in the wider type `kind`."""
    if element_type_name(value) == kind:
        return value
    return cast_elements(build, value, ir.Type.parse(kind, value.type.context), "arith.extf")


def cast_elements(build: Builder, value: ir.Value, kind: ir.Type, op: str) -> ir.Value:
    """A tensor with the cast `op` to `kind` of each element of `value`, in a `linalg.generic` that
    IREE can fuse with what makes `value`."""
    return build.computed(
        sizes_of(value), kind, lambda inner, x: inner.convert(op, x[0], kind), value
    )
