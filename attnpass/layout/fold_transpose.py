"""attn-fold-transpose: transposes around attention become part of its indexing maps.

Transposes always; behind reshapes and broadcasts on request, which splits heads
that were collapsed.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from ..attention.edit import edit
from ..attention.facts import AttentionFacts, describe, find
from ..ir import Builder, defining_op, erase_dead, maps
from ..ir.views import views_above
from ..passes import Pass, PassContext, option
from ..report.entries import OperandRecord
from ..report.records import Report
from .attention_rewrite import DeadOps, find_result_fold, fold_result
from .choose import innermost
from .sources import fold_through_reshapes


def fold_direct(facts: AttentionFacts, operand: str, dead_ops: DeadOps) -> int:
    """Folds the transposes that directly make `operand` into its map; returns how many."""
    count = 0
    positions = list(facts.map_of(operand))
    value = facts.value(operand)
    for view in views_above(value, ("linalg.transpose",)):
        positions = [positions[dim] for dim in view.projection or () if dim is not None]
        value, count = view.source, count + 1
    if count:
        old = defining_op(facts.value(operand))
        edit(facts).operand(operand, value, tuple(positions)).in_place()
        dead_ops += [old] if old is not None else []
    return count


def fold_all(facts: AttentionFacts, through_reshapes: bool) -> list[str]:
    """Folds everything around one attention; returns what was folded, by operand name."""
    folded: list[str] = []
    dead_ops: DeadOps = []
    for operand in ("query", "key", "value", "mask"):
        if operand not in facts.operand_names:
            continue
        if fold_direct(facts, operand, dead_ops):
            folded.append(operand)
            facts = describe(facts.op)
        if (
            through_reshapes
            and (new := fold_through_reshapes(facts, operand, dead_ops)) is not None
        ):
            folded += [operand] if operand not in folded else []
            facts = describe(new)
    fold = find_result_fold(facts, through_reshapes)
    if fold is not None and fold_result(fold, dead_ops) is not None:
        folded.append("output")
    erase_dead(dead_ops)
    return folded


def fold_and_record(
    facts: AttentionFacts, through_reshapes: bool, report: Report, pass_name: str
) -> bool:
    """`fold_all`, with a record for each operand folded; returns whether IR changed."""
    before = {name: maps.show(facts.map_of(name)) for name in facts.tensor_operands}
    record = facts.record_in(report)
    what = "transposes, reshapes and broadcasts" if through_reshapes else "transposes"
    folded = fold_all(facts, through_reshapes)
    for name in folded:
        record.decide(
            OperandRecord(
                name,
                "folded",
                f"{what} around it are part of attention's maps now",
                before[name],
                pass_name=pass_name,
            )
        )
    if not folded:
        record.decide(
            OperandRecord(
                "value",
                "kept",
                f"no {what.split(',')[0].rstrip('s')} stands directly around attention",
                before["value"],
                before["value"],
                pass_name=pass_name,
            )
        )
    return bool(folded)


def bubble_value(facts: AttentionFacts, report: Report, pass_name: str) -> bool:
    """Puts a transpose before V so that k2 is innermost; returns whether IR changed."""
    before = maps.show(facts.map_of("value"))
    operand = OperandRecord("value", "kept", "", before, before, pass_name=pass_name)
    facts.record_in(report).decide(operand)
    if facts.is_innermost("value", facts.k2):
        operand.reason, operand.cause = "k2 is innermost in V already", "innermost"
        return False
    order = innermost(facts, "value", facts.k2)
    positions = tuple(facts.map_of("value")[dim] for dim in order)
    value = Builder(facts.op).transpose(facts.value("value"), order)
    edit(facts).operand("value", value, positions).in_place()
    operand.map_after = maps.show(positions)
    operand.reason = "a transpose in front of attention puts k2 innermost; nothing absorbs it yet"
    return True


@dataclass(frozen=True)
class FoldTranspose(Pass):
    """Folds the transposes that directly make Q, K, V or the mask, and one that directly
    takes the result, into attention's maps: the inverse of bubbling.

    With `through-reshapes`, also those behind reshapes and broadcasts: heads that were
    collapsed into one batch dim are split again, so the op's rank can change.
    """

    name = "attn-fold-transpose"
    summary = "fold transposes before and behind attention into its maps"

    through_reshapes: bool = option(False, "also fold behind reshapes and broadcasts")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        return any(
            [
                fold_and_record(facts, self.through_reshapes, context.report, self.name)
                for facts in find(module)
            ]
        )
