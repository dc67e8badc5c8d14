"""The report as text for a person."""

from __future__ import annotations

from .ops import located
from .records import AttentionRecord, OperandRecord, Report
from .words import EVENTS


def render(report: Report) -> str:
    """The whole report; ends in a newline."""
    head = f"attnpass report: {_count(len(report.attentions), 'attention op')}"
    if report.target:
        head += f", target {report.target}"
    if report.mode:
        head += f", mode {report.mode}"
    if report.level:
        head += f", level {report.level}"
    lines = [head]
    for event in report.events:
        place = f" at {event.location}" if event.location else ""
        lines.append(f"  {event.kind}{place}: {event.reason}")
    lines += [f"  note: {sentence}" for sentence in sentences(report)]
    for record in report.attentions:
        lines += _attention(record)
    return "\n".join(lines) + "\n"


def sentences(report: Report) -> list[str]:
    """What a reader is told besides events and what was decided for each operand."""
    return [str(record) for record in report.records if record.what not in EVENTS]


def _attention(record: AttentionRecord) -> list[str]:
    shapes = ", ".join(
        f"{name} {_tensor(shape, record.element_types[name])}"
        for name, shape in record.shapes.items()
    )
    place = located(record.location, record.number)
    lines = [f"@{record.function}: {record.op} at {place}", f"  {shapes}"]
    return lines + [_operand(operand) for operand in record.operands]


def _tensor(shape: list[int | None], element: str) -> str:
    return "x".join([*("?" if size is None else str(size) for size in shape), element])


def _operand(record: OperandRecord) -> str:
    line = f"  {record.operand} {record.decision}: {record.reason}"
    facts = []
    if record.map_after and record.map_after != record.map_before:
        facts.append(f"map {record.map_before} -> {record.map_after}")
    if record.bytes_before is not None and record.bytes_after is not None:
        facts.append(f"bytes moved {record.bytes_before} -> {record.bytes_after}")
    if record.launches:
        facts.append(f"launches {record.launches:+d}")
    if record.producers:
        facts.append(f"changed {', '.join(record.producers)}")
    return line + (f" [{'; '.join(facts)}]" if facts else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
