"""attn-widen: attention on 8-bit operands as attention on 16-bit ones, where that is faster.

A GPU whose tensor cores multiply 16 bits as fast as 8, or code that is there for 16 bits only,
makes attention on widened operands the faster one. The scores stay what they are; the weights,
which attention with an 8-bit V rounds to 8 bits, are rounded to 16.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..attention.edit import edit
from ..attention.facts import AttentionFacts
from ..attention.widening import cast_operands, narrow_operands, wide_type, widen
from ..ir import Builder
from ..machines import DEFAULT_TARGET
from ..passes import PassContext, TargetPass, option


@dataclass(frozen=True)
class Widen(TargetPass):
    """Casts 8-bit operands of attention to a 16-bit type that holds them exactly, in front of it.

    Which type that is, `attention/widening.py` says, and where it pays, the target
    (`worth_of_widening`). A compute barrier behind each cast keeps IREE from computing it within
    attention, which would go on reading 8 bits from shared memory; casts that the model has
    there get one, too. `mode=always` does so wherever there are 8 bits.
    """

    name = "attn-widen"
    summary = "GPUs: 8-bit operands of attention cast to 16 bits where that is faster"
    backends = ("cuda", "rocm")

    mode: str = option("cost", "where operands are widened", ("cost", "always", "never"))

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.target_for(module, context) or DEFAULT_TARGET

        def replace(facts: AttentionFacts) -> str | None:
            wide, casts = wide_type(facts), cast_operands(facts)
            if facts.own_configuration or not (wide or casts):
                return None
            worth = target.worth_of_widening(facts)
            if self.mode == "never" or (self.mode == "cost" and not (worth.seconds or 0) > 0):
                why = "mode=never" if self.mode == "never" else worth.reason
                if wide:
                    context.report.record(facts.op, "not-widened", why)
                return None
            names = narrow_operands(facts) if wide else []
            _widen(facts, names, wide, casts)
            done = [f"the {' and the '.join(names)} are widened to {wide}"] if names else []
            if casts:
                done.append(f"the {' and the '.join(casts)} are widened before it, not within")
            return ", ".join(done) + (f": {worth.reason}" if self.mode == "cost" else "")

        return context.replace_attention(module, replace, "widened")


def _widen(facts: AttentionFacts, names: list[str], wide: str, casts: list[str]) -> None:
    """Gives the users of an attention the same one with operands `names` in a wider type, and
    these and `casts` behind barriers."""
    build, made = Builder(facts.op), edit(facts)
    for name in (*names, *casts):
        value = facts.value(name)
        value = widen(build, value, wide) if name in names else value
        made = made.operand(name, compute_barrier(build, value))
    made.replace()
