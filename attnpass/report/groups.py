"""Equal layers of a report as one, and their names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .entries import AttentionRecord, Entries, Record
from .ops import Op, Place, located

# As many records of one meaning as are said one by one.
_SAID_APART = 2
# Where an op stands, within a sentence.
_PLACE = re.compile(r"[^\s(),;]+:\d+:\d+(?: \(number \d+ there\))?")
_MOST_SPANS = 4


@dataclass(frozen=True)
class LayerGroup:
    """Attention ops of one function for which the same was decided. `numbers` counts them within
    the function, from 0; where they are all of it, they are called layers."""

    attentions: tuple[AttentionRecord, ...]
    numbers: tuple[int, ...]
    is_all: bool

    @property
    def first(self) -> AttentionRecord:
        return self.attentions[0]

    @property
    def name(self) -> str:
        """`layers 0 to 31`, `attention ops 0, 2, 4 to 7`; of one alone ''."""
        if len(self.numbers) == 1:
            return "" if self.is_all else f"attention op {self.numbers[0]}"
        return f"{'layers' if self.is_all else 'attention ops'} {spans(self.numbers)}"


@dataclass(frozen=True)
class RecordGroup:
    """Records that say the same of several ops."""

    records: tuple[Record, ...]
    text: str

    @property
    def first(self) -> Record:
        return self.records[0]


def layer_groups(report: Entries) -> list[LayerGroup]:
    """The attention ops of a report, equal ones together, in the order of the first of each."""
    functions: dict[str, list[AttentionRecord]] = {}
    for attention in report.attentions:
        functions.setdefault(attention.function, []).append(attention)
    found: list[LayerGroup] = []
    for attentions in functions.values():
        groups: dict[object, list[tuple[int, AttentionRecord]]] = {}
        for number, attention in enumerate(attentions):
            groups.setdefault(_meaning(attention), []).append((number, attention))
        for members in groups.values():
            numbers, records = zip(*members, strict=True)
            found.append(LayerGroup(records, numbers, len(groups) == 1))
    return found


def record_groups(report: Entries, records: Sequence[Record]) -> list[RecordGroup]:
    """Records with what a reader is told of them; those that say the same as one."""
    layers = _Layers(report)
    groups: dict[object, list[Record]] = {}
    for record in records:
        said = without_places(record.reason), tuple(record.details.items())
        groups.setdefault((record.op.kind, record.what, said, record.pass_name), []).append(record)
    found: list[RecordGroup] = []
    for members in groups.values():
        if members[0].op.kind == "module" and len(members) > _SAID_APART:
            found.append(RecordGroup(tuple(members), f"{members[0]} ({len(members)} times)"))
        elif len(members) > _SAID_APART or len(members[0].op.places) > _SAID_APART:
            text = members[0].said_of(layers.name_of([one.op for one in members]))
            found.append(RecordGroup(tuple(members), text))
        else:
            found += [RecordGroup((one,), str(one)) for one in members]
    return found


def without_places(text: str) -> str:
    """A sentence without what tells equal layers apart."""
    return _PLACE.sub("@", text)


def spans(numbers: Sequence[int]) -> str:
    """`0 to 31`, `0, 2, 5 to 7`, `0 to 30 by 2`; the first few where there are many."""
    steps = {b - a for a, b in itertools.pairwise(numbers)}
    if len(numbers) > _SAID_APART and len(steps) == 1 and (step := steps.pop()) > 1:
        return f"{numbers[0]} to {numbers[-1]} by {step}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    left = sum(len(run) for run in runs[_MOST_SPANS:])
    return ", ".join(words[:_MOST_SPANS]) + (f" and {left} more" if left else "")


def stretch(places: Sequence[Place]) -> str:
    """Where several ops stand: `m.mlir:12:3 to 90:3`, if they are of one file."""
    first, last = places[0].location, places[-1].location
    file, _, rest = first.partition(":")
    if first == last or last.partition(":")[0] != file or not rest:
        return located(first, places[0].number)
    return f"{first} to {last.partition(':')[2]}"


def places_of(group: LayerGroup) -> list[Place]:
    """Where the attention ops of a group stand."""
    return [Place(one.location, one.number, one.path) for one in group.attentions]


def _meaning(attention: AttentionRecord) -> object:
    """What equal layers have in common: all but where they stand."""
    operands = tuple(
        (
            *(without_places(text) for text in (one.reason, *one.producers)),
            *(one.operand, one.decision, one.map_before, one.map_after),
            *(one.bytes_before, one.bytes_after, one.launches, one.pass_name),
        )
        for one in attention.operands
    )
    shapes = tuple((name, tuple(shape)) for name, shape in attention.shapes.items())
    return attention.op, shapes, tuple(attention.element_types.items()), operands


class _Layers:
    """Names of ops by the layers in which they stand."""

    def __init__(self, report: Entries):
        self._numbers: dict[tuple[str, int], int] = {}
        functions = {one.function for one in report.attentions}
        self._function = functions.pop() if len(functions) == 1 else ""
        if self._function:
            for number, one in enumerate(report.attentions):
                self._numbers[one.location, one.number] = number

    def name_of(self, ops: Sequence[Op]) -> str:
        """What several ops, or one that stands for several, are called together."""
        places = list(dict.fromkeys(place for op in ops for place in op.places))
        numbers = {self._numbers.get((place.location, place.number)) for place in places}
        known = sorted(number for number in numbers if number is not None)
        kind = ops[0].kind if len(ops) == 1 else f"each of {len(ops)} {ops[0].kind}s"
        if len(ops) == 1 and ops[0].kind == "kernel":
            kind = f"kernel {ops[0].function}"
        if known and len(known) == len(numbers):
            return f"{ops[0].kind} in layers {spans(known)}"
        return f"{kind} at {stretch(places)}" if places else kind
