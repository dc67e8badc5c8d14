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
# Ops that have a number of their own where several share a place.
_TOLD_APART = ("attention", "online_attention")


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
        if not _are_many(members):
            found += [RecordGroup((one,), str(one)) for one in members]
        elif members[0].op.kind == "module":
            found.append(RecordGroup(tuple(members), f"{members[0]} ({len(members)} times)"))
        else:
            text = members[0].said_of(layers.name_of([one.op for one in members]))
            found.append(RecordGroup(tuple(members), text))
    return found


def _are_many(members: Sequence[Record]) -> bool:
    """Whether records of one meaning are said as one: two that read alike are."""
    if len(members) > _SAID_APART or len(members[0].op.places) > _SAID_APART:
        return True
    return len({str(one) for one in members}) < len(members)


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
        self._numbers: dict[Place, int] = {}
        # The layers at each location: a model's loop over layers has one line for all.
        self._at: dict[str, list[int]] = {}
        functions = {one.function for one in report.attentions}
        self._function = functions.pop() if len(functions) == 1 else ""
        if self._function:
            for number, one in enumerate(report.attentions):
                self._numbers[Place(one.location, one.number)] = number
                self._at.setdefault(one.location, []).append(number)

    def name_of(self, ops: Sequence[Op]) -> str:
        """What several ops, or one that stands for several, are called together."""
        places = list(dict.fromkeys(place for op in ops for place in op.places))
        kind = ops[0].kind
        if known := self._layers_of(ops, places):
            return f"{kind} in layer{'s' * (len(known) > 1)} {spans(known)}"
        if len(ops) == 1:
            name = f"kernel {ops[0].function}" if kind == "kernel" else kind
        else:
            name = _counted(len(ops), kind)
        return f"{name} at {stretch(places)}" if places else name

    def _layers_of(self, ops: Sequence[Op], places: Sequence[Place]) -> list[int]:
        """The layers in which ops stand; none unless that is sure for each. Attention ops alone are
        told apart where several share a line: what stands beside them there is of all its layers,
        or of an unknown one."""
        shared = {place.location for place in places if len(self._at.get(place.location, ())) > 1}
        if shared and ops[0].kind not in _TOLD_APART and all(one.number == 1 for one in places):
            found = self._at[shared.pop()]
            return found if len(places) == 1 and len(ops) == len(found) else []
        numbers = {self._numbers.get(Place(place.location, place.number)) for place in places}
        return [] if None in numbers else sorted(number for number in numbers if number is not None)


def _counted(count: int, kind: str) -> str:
    """`each of 3 copies`, `each of 2 cos`, `3 times products and a softmax`."""
    if " and " in kind:
        return f"{count} times {kind}"
    if kind.endswith("y"):
        return f"each of {count} {kind[:-1]}ies"
    ending = "" if kind.endswith("s") else "es" if kind.endswith(("ch", "x")) else "s"
    return f"each of {count} {kind}{ending}"
