"""8-bit operands of attention as 16-bit ones: which type holds them exactly, and the cast.

A GPU whose tensor cores multiply 16 bits as fast as 8, or code that is there for 16 bits only,
makes attention on widened operands the faster one. The scores stay what they are; the weights,
which attention with an 8-bit V rounds to 8 bits, are rounded to 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iree.compiler import ir

from .attention import AttentionFacts
from .ir import Builder, element_type_name, sizes_of

if TYPE_CHECKING:
    from .targets import Target

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


def widen(build: Builder, value: ir.Value, kind: str) -> ir.Value:
    """A tensor with its elements in the wider type `kind`."""
    if element_type_name(value) == kind:
        return value
    return cast_elements(build, value, ir.Type.parse(kind, value.type.context), "arith.extf")


def cast_elements(build: Builder, value: ir.Value, kind: ir.Type, op: str) -> ir.Value:
    """A tensor with the cast `op` to `kind` of each element of `value`, in a `linalg.generic` that
    IREE can fuse with what makes `value`."""
    sizes = sizes_of(value)
    axes = tuple(range(len(sizes)))

    def body(inner: Builder, elements: Sequence[ir.Value]) -> list[ir.Value]:
        return [inner.create(op, [kind], [elements[0]]).results[0]]

    return build.generic([value], [build.empty(sizes, kind)], [axes, axes], body)[0]


def widening_seconds(elements: float, target: Target) -> float:
    """What the cast of so many elements of 8 bits to 16 costs: a byte read and two written for
    each, and a launch. Less where IREE computes it with what makes the tensor."""
    return 3 * elements / target.bytes_per_second + target.launch_seconds
