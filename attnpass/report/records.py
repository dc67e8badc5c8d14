"""The records that every pass writes; text, JSON and remarks are made from them alone."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ..attention.facts import AttentionFacts

VERSION = 2

Decision = Literal["absorbed", "kept", "folded", "split", "kernel", "refused"]
# What a user may want a compile to fail on: wrong numbers that nothing avoids, and steps that
# were left out because the compile failed with them, and flags that have no effect.
EventKind = Literal["known-wrong", "fallback", "ignored"]


@dataclass
class OperandRecord:
    """What was decided for one operand (or the result) of one attention, and why.

    `bytes_before` and `bytes_after` count the bytes that data movement on the operand's
    producer chain reads and writes; `launches` is the number of dispatches added
    (negative: saved).
    """

    operand: str
    decision: Decision
    reason: str
    map_before: str = ""
    map_after: str = ""
    producers: list[str] = field(default_factory=list)
    bytes_before: int | None = None
    bytes_after: int | None = None
    launches: int = 0
    pass_name: str = ""


@dataclass
class AttentionRecord:
    """One attention op: where it stands, what it computes, what was decided.

    `number` counts, from 1, the attention ops of the function at the same location.
    """

    location: str
    function: str
    op: str
    shapes: dict[str, list[int | None]]
    element_types: dict[str, str]
    operands: list[OperandRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    number: int = 1

    def decide(self, record: OperandRecord) -> None:
        """Adds a decision; a later decision of the same pass on an operand replaces it."""
        self.operands = [old for old in self.operands if not _about_the_same(old, record)]
        self.operands.append(record)

    def has_decision(self, record: OperandRecord) -> bool:
        """Whether the pass of this record has decided about its operand before."""
        return any(_about_the_same(old, record) for old in self.operands)


def _about_the_same(one: OperandRecord, other: OperandRecord) -> bool:
    return (one.operand, one.pass_name) == (other.operand, other.pass_name)


@dataclass(frozen=True)
class Event:
    """Something that a user must hear of: what happened, why, and where (`file:line:col`, or
    empty for the whole module)."""

    kind: EventKind
    reason: str
    location: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


@dataclass
class Report:
    """All records of one run. `to_json` and `to_text` show the same facts.

    `level` is the optimisation level of a compile (`O0` to `O3`)."""

    target: str = ""
    mode: str = ""
    level: str = ""
    attentions: list[AttentionRecord] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    version: int = VERSION

    def __post_init__(self) -> None:
        self._places = {(a.location, a.function, a.number): a for a in self.attentions}

    def record_of(self, facts: AttentionFacts) -> AttentionRecord:
        """The record of this attention, made at its first use."""
        place = facts.location, facts.function, facts.number
        record = self._places.get(place)
        if record is None:
            record = self._places[place] = AttentionRecord(
                facts.location,
                facts.function,
                facts.kind,
                facts.shapes,
                facts.element_types,
                number=facts.number,
            )
            self.attentions.append(record)
        return record

    def extend(self, other: Report) -> None:
        """Takes over the records of another run, of another part of a file, behind its own."""
        self.target = self.target or other.target
        self.level = self.level or other.level
        self.attentions += other.attentions
        self.events += other.events
        self.notes += other.notes
        self._places |= other._places

    def note(self, text: str) -> None:
        """Adds a sentence about the whole module."""
        self.notes.append(text)

    def known_wrong(self, reason: str, location: str = "") -> None:
        """Says that the numbers computed at `location` are wrong and that nothing avoids it."""
        self._happened(Event("known-wrong", reason, location))

    def fallback(self, reason: str, location: str = "") -> None:
        """Says what was left out of the compile because it failed with that."""
        self._happened(Event("fallback", reason, location))

    def ignored(self, reason: str) -> None:
        """Says which flag of the user's has no effect, and which one has."""
        self._happened(Event("ignored", reason))

    def _happened(self, event: Event) -> None:
        if event not in self.events:
            self.events.append(event)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, keys in a fixed order, so that two runs can be diffed."""
        data = asdict(self)
        return {"version": data.pop("version"), **data}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def to_text(self) -> str:
        """One paragraph per attention, one line per decision, with its reason."""
        from .text import render

        return render(self)


def located(location: str, number: int) -> str:
    """The place of an attention for a reader: its location, and its number if above 1."""
    return f"{location} (number {number} there)" if number > 1 else location


def report_from_dict(data: dict[str, Any]) -> Report:
    """The report that `to_dict` made `data` from."""
    attentions = [
        AttentionRecord(
            **{**record, "operands": [OperandRecord(**operand) for operand in record["operands"]]}
        )
        for record in data["attentions"]
    ]
    events = [Event(**event) for event in data["events"]]
    return Report(**{**data, "attentions": attentions, "events": events})
