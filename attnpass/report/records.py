"""The report that every pass writes to; text, JSON and remarks are made from its records alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .entries import AttentionRecord, Entries, Link, OperandRecord, PricedLayout, Record, StepRecord
from .ops import MODULE, Op, Place, op_from_dict, op_of
from .text import render
from .topics import tell, topic_of
from .words import What

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..ir import Refusal


@dataclass
class Report(Entries):
    """All records of one run, as passes write them. `to_json` and `to_text` show the same facts."""

    def __post_init__(self) -> None:
        self._places = {(a.location, a.function, a.number): a for a in self.attentions}
        # The pass that writes; who runs passes says so.
        self.pass_name = ""

    def record_of(self, attention: AttentionRecord) -> AttentionRecord:
        """The record of the attention that stands where this one does: itself at its first use."""
        place = attention.location, attention.function, attention.number
        if place not in self._places:
            self._places[place] = attention
            self.attentions.append(attention)
        return self._places[place]

    def extend(self, other: Report) -> None:
        """Takes over the records of another run, of another part of a file, behind its own."""
        self.target = self.target or other.target
        self.level = self.level or other.level
        self.attentions += other.attentions
        self.records += other.records
        self.steps = self.steps or other.steps
        if other.dispatches is not None:
            self.dispatches = (self.dispatches or 0) + other.dispatches
        self._places |= other._places

    def note(self, text: str, **details: int | float | str) -> None:
        """Says something of the whole module."""
        self.record(MODULE, "note", text, kind=MODULE.kind, **details)

    def not_run(self, reason: str, **details: str) -> None:
        """Says which passes do not run, and why."""
        self.record(MODULE, "not-run", f"not run: {reason}", kind=MODULE.kind, **details)

    def record(
        self,
        op: ir.Operation | Op,
        what: What,
        reason: str | Refusal = "",
        *,
        kind: str = "",
        **details: int | float | str,
    ) -> None:
        """Says what the pass that runs has done to an op (a `kind` of), or has not. To be called
        while the op stands in its module; an `Op` outlives it."""
        about = op if isinstance(op, Op) else op_of(op, kind)
        made = Record(about, what, str(reason), details, self.pass_name)
        self.records.append(made)
        tell(topic_of(self.pass_name), "%s", made)

    def is_left(self, op: ir.Operation) -> bool:
        """Whether it is said already that no pass takes this op."""
        place = op_of(op).places[0]
        return any(place in record.op.places for record in self.found("left"))

    def known_wrong(self, reason: str | Refusal, op: ir.Operation | Op = MODULE) -> None:
        """Says that the numbers an op computes are wrong and that nothing avoids it."""
        self._happened(op, "known-wrong", reason)

    def fallback(self, reason: str, location: str = "") -> None:
        """Says what was left out of the compile because it failed with that, at `location`."""
        places = (Place(location),) if location else ()
        self._happened(replace(MODULE, places=places), "fallback", reason)

    def ignored(self, reason: str) -> None:
        """Says which flag of the user's has no effect, and which one has."""
        self._happened(MODULE, "ignored", reason)

    def _happened(self, op: ir.Operation | Op, what: What, reason: str | Refusal) -> None:
        self.record(op, what, reason)
        if self.records[-1] in self.records[:-1]:
            self.records.pop()

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def to_text(self) -> str:
        """One paragraph per attention, one line per decision, with its reason."""
        return render(self)


def report_from_dict(data: dict[str, Any]) -> Report:
    """The report that `to_dict` made `data` from."""
    attentions = [
        AttentionRecord(
            **{**record, "operands": [_operand_from_dict(one) for one in record["operands"]]}
        )
        for record in data["attentions"]
    ]
    records = [Record(**{**one, "op": op_from_dict(one["op"])}) for one in data["records"]]
    steps = [StepRecord(**one) for one in data["steps"]]
    kept = {key: value for key, value in data.items() if key != "events"}
    return Report(**{**kept, "attentions": attentions, "records": records, "steps": steps})


def _operand_from_dict(data: dict[str, Any]) -> OperandRecord:
    chain = [Link(**one) for one in data["chain"]]
    alternatives = [PricedLayout(**one) for one in data["alternatives"]]
    return OperandRecord(**{**data, "chain": chain, "alternatives": alternatives})
