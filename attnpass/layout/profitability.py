"""Takes choices back that do not pay with what they leave behind.

A choice is priced by itself first; values that others still read in the old layout add to that, and
depend on which other choices stay.
"""

from __future__ import annotations

from ..ir import location_text
from ..ir.refusal import Refusal
from ..machines import Target
from .choose import Choice
from .planner import Planner, price, total_cost
from .residual_uses import ResidualUses, residual_uses_of


def drop_what_does_not_pay(
    choices: list[Choice], target: Target | None, planner: Planner
) -> ResidualUses:
    """Prices what the plans would leave behind, values that others still read, and returns
    that for the plans that stay.

    A choice that does not pay any more is taken back, which changes what is left for the
    others, so this repeats until nothing changes; every round takes back at least one.
    """
    while True:
        taken = [choice for choice in choices if choice.plans]
        residual = residual_uses_of([plan.root for c in taken for plan in c.plans], planner)
        bad = [
            (choice, why)
            for choice in taken
            if (why := _why_not(choice, residual, target)) is not None
        ]
        if not bad:
            return residual
        for choice, why in bad:
            choice.plans = []
            record = choice.record
            record.decision, record.map_after = "refused", record.map_before
            record.producers, record.launches = [], 0
            record.bytes_before = record.bytes_after = None
            record.reason, record.cause = why.reason, why.cause


def _why_not(choice: Choice, residual: ResidualUses, target: Target | None) -> Refusal | None:
    """Why a choice costs more than it saves; None where it pays."""
    nodes, left = choice.nodes, residual.costs
    cost = total_cost(nodes)
    kept = [node for node in nodes if id(node) in left]
    for node in kept:
        cost += left[id(node)]
    choice.record.launches = cost.launches
    absorbed = choice.record.decision == "absorbed"
    if choice.mode == "always" and absorbed and cost.launches > 0:
        pays = False
    else:
        gain = choice.worth if absorbed else 0.0
        pays = (choice.mode == "always" and absorbed) or price(cost, target) < gain
    if pays:
        return None
    if kept and kept[0].op is not None:
        op = kept[0].op
        if kept[0] in residual.split:
            return Refusal(
                f"V^T cannot be absorbed: {op.name} at {location_text(op.location)} makes more "
                "than V, in one launch; a second one for V alone does not pay",
                cause="costs",
            )
        return Refusal(
            f"V^T cannot be absorbed: others read {op.name} at {location_text(op.location)} "
            "as it is, and a copy for them does not pay",
            cause="costs",
        )
    return Refusal(
        f"V^T costs {cost.launches:+d} launches and {cost.bytes:+d} bytes, more than it saves",
        cause="costs",
    )
