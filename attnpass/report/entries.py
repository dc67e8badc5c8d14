"""The entries of a report: what was decided for each operand of an attention, what was done to
each op, which steps ran. Passes write them through `Report`; its views read them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .ops import MODULE, Op
from .topics import tell, topic_of
from .words import EVENTS, EventKind, What, sentence

if TYPE_CHECKING:
    from ..ir.refusal import Cause

VERSION = 4

Decision = Literal["absorbed", "kept", "folded", "split", "kernel", "refused"]
Fate = Literal["stays", "goes", "changes", "absorbs", "fuses"]


@dataclass(frozen=True)
class Link:
    """An op between attention and what an operand is made of: the tensor that it gives before the
    passes and after them (`8x64xf16`; '' where the op goes), and what becomes of it."""

    op: str
    location: str
    before: str
    after: str
    fate: Fate = "stays"


@dataclass(frozen=True)
class PricedLayout:
    """A layout that an operand could have: what it adds (bytes, launches), what it is worth and
    what it costs in all, in seconds (negative: it gains; None: not known), and why it cannot be."""

    layout: str
    bytes: int | None = None
    launches: int | None = None
    worth: float | None = None
    seconds: float | None = None
    refusal: str = ""
    taken: bool = False


@dataclass
class OperandRecord:
    """What was decided for one operand (or the result) of one attention, and why.

    `bytes_before` and `bytes_after` count the bytes that data movement on the operand's
    producer chain reads and writes; `launches` is the number of dispatches added
    (negative: saved). `chain` has the producers, attention's own first; `alternatives` the
    layouts that were priced; `cause` is why it was not changed, in a word.
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
    chain: list[Link] = field(default_factory=list)
    alternatives: list[PricedLayout] = field(default_factory=list)
    cause: Cause = ""


@dataclass(frozen=True)
class StepRecord:
    """A step of the pipeline: its pass, IREE's phase behind which it ran, whether it changed the
    module, how many printed lines it took away and put there, and the first of them as a diff."""

    name: str
    phase: str
    changed: bool
    summary: str = ""
    removed: int = 0
    added: int = 0
    diff: list[str] = field(default_factory=list)


@dataclass
class AttentionRecord:
    """One attention op: where it stands, what it computes, what was decided.

    `number` counts, from 1, the attention ops of the function at the same location; `path` is
    what the input names that place.
    """

    location: str
    function: str
    op: str
    shapes: dict[str, list[int | None]]
    element_types: dict[str, str]
    operands: list[OperandRecord] = field(default_factory=list)
    number: int = 1
    path: str = ""

    def decide(self, record: OperandRecord) -> None:
        """Adds a decision; a later decision of the same pass on an operand replaces it."""
        self.operands = [old for old in self.operands if not _about_the_same(old, record)]
        self.operands.append(record)
        words = (self.location, record.operand, record.decision, record.reason)
        tell(topic_of(record.pass_name), "%s: %s %s: %s", *words)

    def is_absorbed(self, operand: str) -> bool:
        """Whether a pass has put another layout of this operand into its producers."""
        return any((old.operand, old.decision) == (operand, "absorbed") for old in self.operands)

    def has_decision(self, record: OperandRecord) -> bool:
        """Whether the pass of this record has decided about its operand before."""
        return any(_about_the_same(old, record) for old in self.operands)


def _about_the_same(one: OperandRecord, other: OperandRecord) -> bool:
    return (one.operand, one.pass_name) == (other.operand, other.pass_name)


@dataclass(frozen=True)
class Record:
    """What was done to one op, or was not, and why.

    `details` are its numbers and words by name: bytes, launches, a configuration, a target.
    """

    op: Op
    what: What
    reason: str = ""
    details: dict[str, int | float | str] = field(default_factory=dict)
    pass_name: str = ""

    def __str__(self) -> str:
        """The record in words."""
        return self.said_of("" if self.op.kind == MODULE.kind else str(self.op))

    def said_of(self, about: str) -> str:
        """The record in words, with what it is about called `about`; '' for the module."""
        return sentence(self.what, about, self.reason, self.details)


@dataclass(frozen=True)
class Event:
    """A record that a user must hear of: what happened, why, and where (`file:line:col`, or
    empty for the whole module)."""

    kind: EventKind
    reason: str
    location: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


@dataclass
class Entries:
    """All that was told in one run.

    `level` is the optimisation level of a compile (`O0` to `O3`); `dispatches` counts those of the
    compiled module's functions; `steps` are kept where the compile was asked for a report."""

    target: str = ""
    mode: str = ""
    level: str = ""
    attentions: list[AttentionRecord] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    dispatches: int | None = None
    steps: list[StepRecord] = field(default_factory=list)
    version: int = VERSION

    def found(self, *what: What, of: str = "") -> list[Record]:
        """The records of these words, in the order in which they were made; those `of` ops whose
        kind ends so only."""
        return [one for one in self.records if one.what in what and one.op.kind.endswith(of)]

    @property
    def notes(self) -> list[str]:
        """What is said of the whole module."""
        return [record.reason for record in self.found("note")]

    @property
    def events(self) -> list[Event]:
        """The records that a user must hear of, as such."""
        return [
            Event(record.what, str(record), record.op.location)
            for record in self.records
            if record.what in EVENTS
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data as schema.json has it, keys in a fixed order, so that two runs can be
        diffed; `events` are the records that a user must hear of, for those who read no other."""
        data = asdict(self)
        events = [asdict(event) for event in self.events]
        return {"version": data.pop("version"), **data, "events": events}
