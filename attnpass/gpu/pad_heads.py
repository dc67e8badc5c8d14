"""attn-pad-heads: head dims that have a kernel, the added elements zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..passes import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..attention.facts import AttentionFacts


@dataclass(frozen=True)
class PadHeads(Pass):
    """Pads the head dims of Q, K and V where attn-configure has a kernel for wider ones only.

    IREE 3.13 has scalar code for head dims that fill no tensor-core tile (40, 72, ...). Zeros
    add nothing to the scores; the columns that they make in the result are cut off.
    """

    name: ClassVar[str] = "attn-pad-heads"
    summary: ClassVar[str] = "GPUs: head dims without a kernel get zeros added"
    backends: ClassVar[tuple[str, ...]] = ("cuda", "rocm")

    target: str = option("", "target to decide for, instead of the module's own")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..machines.configurations import padded_heads

        target = context.target_for(module, self.target)
        if target is None:
            return False

        def replace(facts: AttentionFacts) -> str | None:
            heads = padded_heads(facts, target)
            if heads is None:
                return None
            _pad(facts, *heads)
            old = [facts.sizes[dim] for dim in (*facts.k1, *facts.n)]
            return (
                f"head dims {old[0]} and {old[1]} are padded with zeros to {heads[0]} and "
                f"{heads[1]}, which have a kernel"
            )

        return context.replace_attention(module, replace)


def _pad(facts: AttentionFacts, head: int, width: int) -> None:
    """Gives the users of an attention the same one with head dims `head` and `width`."""
    from ..ir import Builder, copied_attributes, copy_region, element_type, sizes_of
    from .padding import pad_behind

    op, build = facts.op, Builder(facts.op)
    wanted = {facts.k1[0]: head, facts.n[0]: width}
    operands = list(op.operands)
    for name in ("query", "key", "value"):
        value = facts.value(name)
        for dim, position in enumerate(facts.map_of(name)):
            old = facts.sizes[position] if position is not None else None
            if position in wanted and old is not None and old < wanted[position]:
                value = pad_behind(build, value, dim, wanted[position] - old, 0)
        operands[facts.index(name)] = value
    output = facts.value("output")
    sizes = [
        wanted.get(position, size) if position is not None else size
        for position, size in zip(facts.map_of("output"), sizes_of(output), strict=True)
    ]
    operands[facts.index("output")] = build.empty(sizes, element_type(output))
    new = build.create(op.name, [operands[-1].type], operands, copied_attributes(op), regions=1)
    copy_region(op, new)
    result, sizes = new.results[0], sizes_of(output)
    if result.type != op.results[0].type:
        result = build.extract_slice(result, [0] * len(sizes), sizes)
    op.results[0].replace_all_uses_with(result)
