"""attn-fuse-transpose: transposes that feed attention are pushed into their producers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.facts import AttentionFacts, find
from ..ir import erase_dead, location_text, maps, sizes_of
from ..ir.views import view_before
from ..passes import Pass, PassContext, option
from ..report.entries import OperandRecord
from .commit import Committer
from .layout import permuted
from .planner import Node, Planner, graph_cost, nodes_of
from .propagate_layout import OPERANDS
from .residual_uses import residual_uses_of
from .rules import Demand, Refusal


@dataclass(frozen=True)
class Push:
    """A transpose, and the plan that makes its result without it."""

    transpose: ir.Operation
    node: Node


def fuse_transposes(
    found: Sequence[AttentionFacts],
    operands: Sequence[str],
    context: PassContext,
    pass_name: str,
) -> bool:
    """Absorbs the transposes that make `operands` (q, k, v, mask); returns whether IR changed."""
    planner = Planner(context.target)
    pushes: dict[ir.Operation, Push] = {}
    records: list[tuple[ir.Operation, OperandRecord]] = []
    for facts in found:
        for name in [OPERANDS[word] for word in operands]:
            if name in facts.operand_names:
                _plan(facts, name, planner, pushes, records, context, pass_name)
    left = residual_uses_of([(push.node, op, 0) for op, push in pushes.items()], planner).costs
    for op, push in list(pushes.items()):
        kept = [node for node in nodes_of([push.node]) if id(node) in left]
        if kept or graph_cost([push.node]).launches > 0:
            del pushes[op]
    for op, record in records:
        if op in pushes:
            record.decision = "absorbed"
            record.reason = f"the transpose at {location_text(op.location)} is absorbed"
        elif not record.reason:
            record.reason = "others read what makes it; a copy for them would be needed"
    if not pushes:
        return False
    committer = Committer()
    for push in pushes.values():
        result = push.transpose.results[0]
        sizes = sizes_of(result)
        value = committer.value(push.node, push.transpose)
        build = committer.builder(push.node, push.transpose)
        counts = [0 if size == 1 else 1 for size in sizes]
        result.replace_all_uses_with(build.join_dims(value, counts, sizes))
    dead_ops = [push.transpose for push in pushes.values()]
    committer.finish(dead_ops)
    erase_dead(dead_ops)
    return True


def _plan(
    facts: AttentionFacts,
    operand: str,
    planner: Planner,
    pushes: dict[ir.Operation, Push],
    records: list[tuple[ir.Operation, OperandRecord]],
    context: PassContext,
    pass_name: str,
) -> None:
    view = view_before(facts.value(operand))
    if view is None or view.op.name != "linalg.transpose":
        return
    op = view.op
    shown = maps.show(facts.map_of(operand))
    record = OperandRecord(operand, "refused", "", shown, shown, pass_name=pass_name)
    facts.record_in(context.report).decide(record)
    records.append((op, record))
    sizes = sizes_of(op.results[0])
    found = permuted(sizes, range(len(sizes))).through(view.runs, sizes_of(view.source))
    assert found is not None, "a transpose cuts no dim"
    plan = planner.plan(view.source, Demand(found.layout))
    if isinstance(plan, Refusal):
        record.reason = f"the transpose cannot be absorbed: {plan}"
    else:
        pushes[op] = Push(op, plan)


@dataclass(frozen=True)
class FuseTranspose(Pass):
    """Absorbs each `linalg.transpose` that makes an operand of attention into what makes its
    input, where that can be done whole and nothing else has to be copied for it; a
    transpose that cannot be absorbed stays, with the reason in the report."""

    name = "attn-fuse-transpose"
    summary = "push transposes that feed attention up into their producers"

    operands: tuple[str, ...] = option(
        ("q", "k", "v", "mask"), "operands whose transposes are pushed", ("q", "k", "v", "mask")
    )

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        return fuse_transposes(find(module), self.operands, context, self.name)
