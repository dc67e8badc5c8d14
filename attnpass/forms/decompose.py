"""attn-decompose: attention that is written out, all of it or what IREE gets wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.facts import AttentionFacts, find_ops
from ..attention.scores import make_scalar
from ..errors import AttnError
from ..ir import (
    erase_dead,
)
from ..machines import Target
from ..machines.known_faults import nothing_is_right
from ..passes import PassContext, TargetPass, option
from ..report.records import Report
from .decomposition import computed_type, decomposed, describe_any, refusal, score_bytes
from .score_blocks import decomposed_within


def decompose_all(
    module: ir.Operation,
    wanted: Callable[[AttentionFacts], str],
    report: Report,
    write: Callable[[AttentionFacts], list[ir.Value]] | None = None,
) -> bool:
    """Writes out every attention under `module` for which `wanted` gives a reason, with a note
    for each; returns whether IR changed. What cannot be written out stays, with a note. `write`
    makes the results of one, if not `decomposed` does. Needs a current context."""
    done: list[ir.Operation] = []
    for op in find_ops(module):
        make_scalar(op)
        try:
            facts = describe_any(op)
        except AttnError as error:
            report.record(op, "not-decomposed", error.message)
            continue
        reason = wanted(facts)
        if not reason:
            continue
        if why := refusal(facts):
            report.record(op, "not-decomposed", why)
            continue
        for old, new in zip(op.results, (write or decomposed)(facts), strict=True):
            old.replace_all_uses_with(new)
        done.append(op)
        report.record(op, "decomposed", reason, element_type=str(computed_type(facts)))
    erase_dead(done)
    return bool(done)


def may_be_decomposed(module: ir.Operation, megabytes: int) -> bool:
    """Whether there is attention under `module`, and the scores of each take at most so much of
    memory (2^20 bytes each)."""
    ops = find_ops(module)
    try:
        return bool(ops) and all(score_bytes(describe_any(op)) >> 20 <= megabytes for op in ops)
    except AttnError:
        return False


@dataclass(frozen=True)
class Decompose(TargetPass):
    """Writes attention out as plain `linalg.generic` ops: a product, the score function, the mask,
    a softmax and a product, in f32 (f64 where an operand has it), the results cast back.

    Any attention or online_attention on tensors: whatever the order, number and sizes of its dims,
    its types and its mask (packed, too), and where operands lack a dim or share one that IREE
    sorts as no other pass of ours knows. The scores go to memory, of all heads at once. What
    cannot be written out stays, with the reason in the report.

    `only=wrong` takes the attention for which neither a configuration of ours (with `configured`)
    nor IREE's own code computes right numbers on the target, such as wide heads in types that no
    configuration is for. Scores of more than `megabytes` (of 2^20 bytes), with 1024 for each size
    that is known only at run time, are computed in loops over batches and rows then, so much of
    them at a time.
    """

    name = "attn-decompose"
    summary = "attention as products and a softmax in f32: right, not fast"
    mends = "some attention is computed wrong by IREE's own code"

    only: str = option("all", "which attention: all, or what is computed wrong", ("all", "wrong"))
    configured: bool = option(False, "whether attn-configure comes behind")
    megabytes: int = option(4096, "most memory for scores at a time, with only=wrong")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.target_for(module, context)
        if self.only == "all":
            return decompose_all(module, lambda _: "as asked for", context.report)
        return decompose_all(
            module,
            lambda facts: self._wrong(facts, target, context),
            context.report,
            lambda facts: decomposed_within(facts, self.megabytes << 20),
        )

    def _wrong(self, facts: AttentionFacts, target: Target | None, context: PassContext) -> str:
        """Why an attention is to be written out; '' also where that cannot be."""
        why = nothing_is_right(facts, target, self.configured)
        kept = refusal(facts) if why else None
        if why and not kept and score_bytes(facts) > self.megabytes << 20:
            return f"{why}; {self.megabytes} MB of scores at a time"
        if not kept:
            return str(why or "")
        context.report.known_wrong(f"{why}, and it is not written out: {kept}", facts.op)
        return ""
