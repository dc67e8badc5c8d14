"""What a module gained by the decisions of a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .entries import Entries, OperandRecord

# Decisions that change what moves data; the rest leave the module as it was in this respect.
_TAKEN = ("absorbed", "folded", "kernel")
_UNITS = ("bytes", "KB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Gains:
    """A call of the module after the passes against before: dispatches and bytes that are no
    longer there (negative: more), attention ops that read V^T, and ops by what was done."""

    dispatches: int
    bytes: int
    transposed: int
    done: dict[str, int]


def gains_of(report: Entries) -> Gains:
    """The gains of all records."""
    operands = [one for attention in report.attentions for one in attention.operands]
    taken = [one for one in operands if one.decision in _TAKEN]
    moved = [saved_bytes(one) for one in taken]
    absorbed = [one for one in taken if (one.operand, one.decision) == ("value", "absorbed")]
    return Gains(-sum(one.launches for one in taken), sum(moved), len(absorbed), _done(report))


def saved_bytes(record: OperandRecord) -> int:
    """Bytes that are no longer read and written; 0 where that is not known."""
    if record.bytes_before is None or record.bytes_after is None:
        return 0
    return record.bytes_before - record.bytes_after


# What was done to ops, in a reader's words: the record's word, the end of its op's kind.
_DEEDS: tuple[tuple[str, str, str], ...] = (
    ("raised", "", "attention op raised"),
    ("configured", "attention", "attention op configured"),
    ("configured", "contraction", "product configured"),
    ("loops", "", "kernel in vector loops"),
    ("lowered", "", "kernel lowered further"),
    ("repaired", "", "op repaired"),
)


# The same of operands' decisions.
_DECIDED = (("kernel", "kernel taken precompiled"), ("split", "attention op cut into chunks"))


def _done(report: Entries) -> dict[str, int]:
    """How many ops something was done to, by what was done."""
    found: dict[str, int] = {}
    for what, kind, words in _DEEDS:
        ops = {one.op for one in report.records if one.what == what and one.op.kind.endswith(kind)}
        places = {place for op in ops for place in op.places}
        if count := len(places) or len(ops):
            found[words] = count
    operands = [one for attention in report.attentions for one in attention.operands]
    for decision, words in _DECIDED:
        if count := sum(one.decision == decision for one in operands):
            found[words] = count
    return found


def lines_of(report: Entries) -> list[str]:
    """What was gained, for a person."""
    gains = gains_of(report)
    found = [
        _less(gains.dispatches, "dispatch", "dispatches", str, "no longer made"),
        _less(gains.bytes, "", "", size_words, "no longer moved"),
    ]
    if gains.transposed:
        found.append(f"{gains.transposed} of {len(report.attentions)} attention ops read V^T")
    words = ", ".join(line for line in found if line)
    done = ", ".join(counted(number, what) for what, number in gains.done.items())
    if words:
        return [f"gained: {words} (a call)", *([f"done: {done}"] if done else [])]
    return [f"gained: {done or 'nothing'}; no byte and no dispatch less"]


def counted(number: int, words: str) -> str:
    """`2 kernels lowered further`, of `kernel lowered further`."""
    noun, _, rest = words.replace("attention op", "attention-op").partition(" ")
    plural = "" if number == 1 else "s"
    return f"{number} {noun.replace('-', ' ')}{plural} {rest}"


def _less(number: int, one: str, many: str, show: Callable[[int], str], gone: str) -> str:
    if not number:
        return ""
    noun = f" {one if abs(number) == 1 else many}" if one else ""
    return f"{show(abs(number))}{noun} {gone if number > 0 else 'more'}"


def size_words(number: int) -> str:
    """A number of bytes for a reader: `512 bytes`, `12.6 MB`."""
    size, unit = float(number), 0
    while abs(size) >= 1000 and unit + 1 < len(_UNITS):
        size, unit = size / 1000, unit + 1
    return f"{number} bytes" if not unit else f"{size:.3g} {_UNITS[unit]}"


def time_words(seconds: float) -> str:
    """A time for a reader: `1.25 ms`."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(seconds) >= unit:
            return f"{seconds / unit:.3g} {name}"
    return "0 s" if not seconds else f"{seconds / 1e-9:.3g} ns"
