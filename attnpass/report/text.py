"""The report as text for a person: what was gained, what was decided, what could be changed."""

from __future__ import annotations

from collections.abc import Sequence

from .advice import advice_of
from .entries import AttentionRecord, Entries, OperandRecord, Record
from .gains import lines_of, size_words
from .groups import LayerGroup, layer_groups, places_of, record_groups, stretch, without_places
from .ops import located
from .words import EVENTS, NOT_DONE


def render(report: Entries) -> str:
    """The whole report; ends in a newline."""
    lines = [_head(report)]
    if report.attentions or report.records:
        lines += [f"  {line}" for line in lines_of(report) if report.mode != "disabled"]
    for event in report.events:
        place = f" at {event.location}" if event.location else ""
        lines.append(f"  {event.kind}{place}: {event.reason}")
    for group in layer_groups(report):
        lines += _attention(group)
    records = [record for record in report.records if record.what not in EVENTS]
    lines += _notes(report, [one for one in records if one.what not in NOT_DONE])
    lines += _notes(report, [one for one in records if one.what in NOT_DONE])
    lines += [f"  not done: {words}" for words in _not_done(report)]
    lines += [f"  you could change: {advice}" for advice in advice_of(report)]
    return "\n".join(lines) + "\n"


def sentences(report: Entries) -> list[str]:
    """What a reader is told besides events and what was decided for each operand."""
    return [str(record) for record in report.records if record.what not in EVENTS]


def _head(report: Entries) -> str:
    count = len(report.attentions)
    head = f"attnpass report: {count} attention op{'' if count == 1 else 's'}"
    facts = (("target", report.target), ("mode", report.mode), ("level", report.level))
    return head + "".join(f", {name} {value}" for name, value in facts if value)


def _notes(report: Entries, records: Sequence[Record]) -> list[str]:
    return [f"  note: {group.text}" for group in record_groups(report, records)]


def _not_done(report: Entries) -> list[str]:
    """Where V keeps its order, in a line."""
    kept = [group for group in layer_groups(report) if is_row_major_v(group.first)]
    count = sum(len(group.attentions) for group in kept)
    if not count:
        return []
    return [f"V keeps its order in {count} of {len(report.attentions)} attention ops"]


def is_row_major_v(attention: AttentionRecord) -> bool:
    """Whether V was asked for as V^T, and stays as it was."""
    of_value = [one for one in attention.operands if one.operand == "value"]
    return bool(of_value) and not any(
        one.decision == "absorbed" or one.cause == "innermost" for one in of_value
    )


def _attention(group: LayerGroup) -> list[str]:
    record, count = group.first, len(group.attentions)
    shapes = ", ".join(
        f"{name} {tensor_words(shape, record.element_types[name])}"
        for name, shape in record.shapes.items()
    )
    place = located(record.location, record.number)
    if count > 1:
        place = stretch(places_of(group))
    name = f"{group.name}, {count} times: " if count > 1 else ""
    lines = [f"@{record.function}: {name}{record.op} at {place}", f"  {shapes}"]
    decisions = [operand_words(operand) for operand in record.operands]
    if count > 1 and any(without_places(one) != one for one in decisions):
        lines.append(f"  (places are those of the first, at {record.location})")
    return lines + [f"  {one}" for one in decisions]


def tensor_words(shape: Sequence[int | None], element: str) -> str:
    """A tensor as `8x?x16xf32`."""
    return "x".join([*("?" if size is None else str(size) for size in shape), element])


def operand_words(record: OperandRecord) -> str:
    """A decision in one line, with what it changed."""
    line = f"{record.operand} {record.decision}: {record.reason}"
    facts = []
    if record.map_after and record.map_after != record.map_before:
        facts.append(f"map {record.map_before} -> {record.map_after}")
    if record.bytes_before is not None and record.bytes_after is not None:
        before, after = size_words(record.bytes_before), size_words(record.bytes_after)
        facts.append(f"moved {before} -> {after}")
    if record.launches:
        facts.append(f"launches {record.launches:+d}")
    if record.producers:
        facts.append(f"changed {', '.join(record.producers)}")
    return line + (f" [{'; '.join(facts)}]" if facts else "")
