"""Whether attention reads K and V at `flow` in the order that the layout pass reported.

IREE folds transposes in front of attention into its maps when it forms dispatches; one that the
planner could not follow to its end (behind a product whose result JAX transposes, below O2) changes
an order that the report has as kept.
"""

from __future__ import annotations

from ..attention.facts import AttentionFacts
from ..report.entries import AttentionRecord, OperandRecord
from ..report.ops import op_of
from ..report.records import Report

PASS = "attn-configure"


def report_folds(facts: AttentionFacts, report: Report) -> None:
    """Adds a decision for K or V of an attention at `flow` whose innermost dim IREE changed, to
    all attentions that IREE has merged in it."""
    places = {(place.location, place.number) for place in op_of(facts.op).places}
    for record in report.attentions:
        if (record.location, record.number) in places:
            _report_folds(facts, record)


def _report_folds(facts: AttentionFacts, record: AttentionRecord) -> None:
    for operand, planned in _planned(record).items():
        now = _innermost(facts, operand)
        if now and now != planned:
            reason = (
                "IREE has folded a transpose in front of attention since: the innermost dim of "
                f"the {operand} is {now}, no longer {planned}"
            )
            record.decide(OperandRecord(operand, "folded", reason, pass_name=PASS))


def _planned(record: AttentionRecord) -> dict[str, str]:
    """The kind of the innermost dim that the last decision on K and on V says."""
    dims = {one.operand: one.map_after.strip("()").split(", ") for one in record.operands}
    if not all(dims.get(name, [""])[0] for name in ("query", "key", "value")):
        return {}
    return {
        "key": "k2" if dims["key"][-1] in dims["value"] else "k1",
        "value": "k2" if dims["value"][-1] in dims["key"] else "n",
    }


def _innermost(facts: AttentionFacts, operand: str) -> str:
    kinds = {"k1": facts.k1, "k2": facts.k2, "n": facts.n}
    return next((name for name, dims in kinds.items() if facts.is_innermost(operand, dims)), "")
