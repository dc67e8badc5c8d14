"""What each step of the pipeline does to the module, for the report: a diff of the printed IR."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir.printed import comparable, lines_without_maps
from ..report.entries import StepRecord
from ..report.records import Report
from ..runner import Instrumentation, Stage, stage_name

if TYPE_CHECKING:
    from iree.compiler import ir

# Modules of more lines are not printed again and again.
_MOST_LINES = 60_000
# As much of a change as is compared, and as is kept.
_WINDOW, _KEPT, _CONTEXT, _WIDTH = 700, 60, 2, 200
# Elements of a constant that are printed.
_ELEMENTS = 8


class StepWatch:
    """Writes to a report what steps do to a module at `phase`. Text is made of the module at first
    and behind each step that changed it."""

    def __init__(self, report: Report, phase: str, stages: Sequence[Stage]):
        self.report, self.phase = report, phase
        self._summaries = {stage_name(stage): getattr(stage, "summary", "") for stage in stages}
        self._lines: list[str] | None = None

    def before(self, module: ir.Operation) -> None:
        """To be called before each step."""
        if self._lines is None:
            self._lines = _lines_of(module)

    def after(self, name: str, module: ir.Operation, watch: Instrumentation) -> None:
        """To be called behind the step `name`."""
        changed = bool(watch.changed) and stage_name(watch.changed[-1]) == name
        step = StepRecord(name, self.phase, changed, self._summaries.get(name, ""))
        if changed and self._lines is not None and len(self._lines) <= _MOST_LINES:
            old, self._lines = self._lines, _lines_of(module)
            step = _with_diff(step, old, self._lines)
        self.report.steps.append(step)


def _lines_of(module: ir.Operation) -> list[str]:
    text = module.get_asm(large_elements_limit=_ELEMENTS, large_resource_limit=_ELEMENTS)
    return [line[:_WIDTH] for line in lines_without_maps(text)]


def _with_diff(step: StepRecord, old: list[str], new: list[str]) -> StepRecord:
    before, after = [comparable(line) for line in old], [comparable(line) for line in new]
    less, more = Counter(before), Counter(after)
    removed, added = (less - more).total(), (more - less).total()
    first = _common(before, after)
    start = max(0, first - _CONTEXT)
    end = _common(before[first:][::-1], after[first:][::-1])
    spans = [
        slice(start, min(len(lines) - end + _CONTEXT, start + _WINDOW)) for lines in (old, new)
    ]
    diff = _diff(before[spans[0]], after[spans[1]], old[spans[0]], new[spans[1]])
    return StepRecord(step.name, step.phase, True, step.summary, removed, added, diff[:_KEPT])


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines two texts begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    least = min(len(one), len(other))
    return next((number for number, (a, b) in pairs if a != b), least)


def _diff(
    before: Sequence[str], after: Sequence[str], old: Sequence[str], new: Sequence[str]
) -> list[str]:
    """Lines that begin with ' ', '-' or '+'; '@' where lines were left out. What lies behind the
    last common lines of a window that was cut is no change."""
    found: list[str] = []
    is_cut = _WINDOW in (len(before), len(after))
    matcher = difflib.SequenceMatcher(None, before, after)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        found += ["@"] if found else []
        for tag, i, j, k, m in group:
            if tag == "equal":
                found += [f" {line}" for line in old[i:j]]
            elif not found or not is_cut or (j, m) != (len(before), len(after)):
                found += [f"-{line}" for line in old[i:j]]
                found += [f"+{line}" for line in new[k:m]]
        if len(found) > _KEPT:
            break
    return found
