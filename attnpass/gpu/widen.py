"""attn-widen: attention on 8-bit operands as attention on 16-bit ones, where that is faster.

A GPU whose tensor cores multiply 16 bits as fast as 8, or code that is there for 16 bits only,
makes attention on widened operands the faster one. The scores stay what they are; the weights,
which attention with an 8-bit V rounds to 8 bits, are rounded to 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from iree.compiler import ir

from ..attention.facts import AttentionFacts
from ..ir import (
    Builder,
    defining_op,
    element_bytes,
    element_type_name,
    maps,
    ranked_shape,
    sizes_of,
)
from ..passes import Pass, PassContext, option

if TYPE_CHECKING:
    from ..machines import Target

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


def widened_from(value: ir.Value) -> ir.Value | None:
    """The tensor of 8 bits that an op does nothing but widen to `value`; None if none does."""
    op = defining_op(value)
    if op is None or (op.name != "arith.extf" and not _only_widens(op)):
        return None
    source = op.operands[0]
    return source if element_bytes(source) == 1 else None


def _only_widens(op: ir.Operation) -> bool:
    """Whether a generic yields each element of its one input, widened, in its place."""
    if op.name != "linalg.generic" or len(op.operands) != 2:
        return False
    block = op.regions[0].blocks[0]
    inner = list(block.operations)
    in_place = tuple(range(len(ranked_shape(op.results[0]))))
    return (
        maps.positions_of(op.attributes["indexing_maps"]) == (in_place, in_place)
        and [each.operation.name for each in inner] == ["arith.extf", "linalg.yield"]
        and inner[0].operands[0] == block.arguments[0]
    )


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


@dataclass(frozen=True)
class Widen(Pass):
    """Casts 8-bit operands of attention to a 16-bit type that holds them exactly, in front of it.

    Which type that is, `attnpass.gpu.widen` says, and where it pays, the target
    (`worth_of_widening`). A compute barrier behind each cast keeps IREE from computing it within
    attention, which would go on reading 8 bits from shared memory; casts that the model has
    there get one, too. `mode=always` does so wherever there are 8 bits.
    """

    name: ClassVar[str] = "attn-widen"
    summary: ClassVar[str] = (
        "GPUs: 8-bit operands of attention cast to 16 bits where that is faster"
    )
    backends: ClassVar[tuple[str, ...]] = ("cuda", "rocm")

    target: str = option("", "target to decide for, instead of the module's own")
    mode: str = option("cost", "where operands are widened", ("cost", "always", "never"))

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..machines import DEFAULT_TARGET

        target = context.target_for(module, self.target) or DEFAULT_TARGET

        def replace(facts: AttentionFacts) -> str | None:
            wide, casts = wide_type(facts), cast_operands(facts)
            if facts.own_configuration or not (wide or casts):
                return None
            worth = target.worth_of_widening(facts)
            if self.mode == "never" or (self.mode == "cost" and not (worth.seconds or 0) > 0):
                why = "mode=never" if self.mode == "never" else worth.reason
                if wide:
                    place = f"{facts.kind} at {facts.location}"
                    context.report.note(f"{place} keeps its 8-bit operands: {why}")
                return None
            names = narrow_operands(facts) if wide else []
            _widen(facts, names, wide, casts)
            done = [f"the {' and the '.join(names)} are widened to {wide}"] if names else []
            if casts:
                done.append(f"the {' and the '.join(casts)} are widened before it, not within")
            return ", ".join(done) + (f": {worth.reason}" if self.mode == "cost" else "")

        return context.replace_attention(module, replace)


def _widen(facts: AttentionFacts, names: list[str], wide: str, casts: list[str]) -> None:
    """Gives the users of an attention the same one with operands `names` in a wider type, and
    these and `casts` behind barriers."""
    from ..ir import Builder
    from ..ir.barrier import compute_barrier

    build, operands = Builder(facts.op), list(facts.op.operands)
    for name in (*names, *casts):
        number = facts.index(name)
        value = widen(build, operands[number], wide) if name in names else operands[number]
        operands[number] = compute_barrier(build, value)
    new = build.copy(facts.op, operands)
    for old, result in zip(facts.op.results, new.results, strict=True):
        old.replace_all_uses_with(result)
