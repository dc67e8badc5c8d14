"""The report as remarks: a line an op and topic, in the form of clang's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .entries import AttentionRecord, Entries, Record
from .ops import MODULE
from .text import operand_words
from .topics import topic_of
from .words import EVENTS


@dataclass(frozen=True)
class Remark:
    """A line about the op at `location`; the whole input where that is ''."""

    location: str
    topic: str
    text: str

    def line(self, name: str) -> str:
        """In clang's form; `name` is what the input is called."""
        where = self.location or name
        return f"{where}: remark: {' '.join(self.text.split())} [-attn-{self.topic}]"

    @property
    def order(self) -> tuple[str, int, int]:
        """File, line and column; what has no place comes first."""
        file, *numbers = self.location.rsplit(":", 2)
        if len(numbers) == 2 and all(word.isdigit() for word in numbers):
            return file, int(numbers[0]), int(numbers[1])
        return self.location, 0, 0


def remarks(report: Entries) -> list[Remark]:
    """What a report says, in the order of places; without its events, which are warnings."""
    found = [one for attention in report.attentions for one in _of_attention(attention)]
    for record in report.records:
        if record.what not in EVENTS:
            found += _of_record(record)
    return sorted(found, key=lambda one: one.order)


def _of_attention(attention: AttentionRecord) -> Iterator[Remark]:
    topics: dict[str, list[str]] = {}
    for operand in attention.operands:
        topics.setdefault(topic_of(operand.pass_name), []).append(operand_words(operand))
    about = _about(attention.op, attention.number)
    for topic, said in topics.items():
        yield Remark(attention.location, topic, f"{about}: {'; '.join(said)}")


def _of_record(record: Record) -> Iterator[Remark]:
    topic = topic_of(record.pass_name)
    if not record.op.places:
        about = "" if record.op.kind == MODULE.kind else str(record.op)
        yield Remark("", topic, record.said_of(about))
    for place in record.op.places:
        yield Remark(place.location, topic, record.said_of(_about(record.op.kind, place.number)))


def _about(kind: str, number: int) -> str:
    return kind if number == 1 else f"{kind} (number {number} there)"
