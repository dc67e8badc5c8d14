"""Writes the layouts that were chosen for operands of attention, all together."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..attention.facts import AttentionFacts, describe
from ..ir import defining_op, erase_dead
from .attention_rewrite import DeadOps, commit_attention, find_result_fold, fold_result
from .choose import Choice, epilogue_products
from .commit import Committer
from .residual_uses import ResidualUses
from .rules.contraction import drop_unit_dims
from .sources import find_source, fold_through_reshapes


def commit_choices(choices: Sequence[Choice], residual: ResidualUses, dead_ops: DeadOps) -> None:
    """Writes what was chosen, and what residual uses it leaves; `dead_ops` are ops that the plans,
    or what went before, leave without users."""
    committer = Committer()
    operands = [value for choice in choices for value in choice.facts.op.operands]
    dead_ops += [op for value in operands if (op := defining_op(value)) is not None]
    residual.commit(committer, dead_ops)
    for group in _by_attention(choices):
        facts = group[0].facts
        rank = facts.num_dims
        group_plans = [plan for choice in group for plan in choice.plans]
        if group_plans:
            facts = describe(commit_attention(group_plans, committer, dead_ops))
        for choice in group:
            if choice.reads_source:
                dead_ops += _without_unit_dims(facts, choice.record.operand)
                new = fold_through_reshapes(facts, choice.record.operand, dead_ops)
                facts = facts if new is None else describe(new)
        # With its heads split, attention can write the order that a transpose behind it
        # makes; IREE no longer finds that through the finer iteration space.
        fold = find_result_fold(facts) if facts.num_dims != rank else None
        if fold is not None:
            fold_result(fold, dead_ops)
    committer.finish(dead_ops)
    erase_dead(dead_ops)


def _without_unit_dims(facts: AttentionFacts, operand: str) -> list[ir.Operation]:
    """Drops unit dims of the product that an operand's source is an elementwise op on; returns
    what is left behind. IREE would drop them from that op alone, and then not fuse the two."""
    source = find_source(facts, operand)
    products = epilogue_products(source.value) if source is not None else []
    return [op for op in products if drop_unit_dims(op)]


def _by_attention(choices: Sequence[Choice]) -> list[list[Choice]]:
    groups: dict[int, list[Choice]] = {}
    for choice in choices:
        groups.setdefault(id(choice.facts), []).append(choice)
    return list(groups.values())
