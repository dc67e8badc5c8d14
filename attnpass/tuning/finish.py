"""What a tuning found: the best configuration of each attention, and the files that hold it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import AttnError
from ..ir import printed
from ..machines.search import BUILT_IN
from ..machines.table import Entry, table_text
from .folder import IREES_OWN, SPEC, TABLE, CandidateRun, Manifest
from .measure import read_json

# The built-in configuration stays where another is faster by less than this share, or by less
# than what the times of the two vary by.
NOISE = 0.02


@dataclass
class GroupResult:
    """What was found for a group: the best run, if any was right, and milliseconds by run.

    `ms` and `spread` (a share of them) are those of the last round, in turns; `failures` are
    runs that were not right, by status and reason.
    """

    problem: dict[str, Any]
    group: str
    best: CandidateRun | None
    ms: dict[str, float]
    spread: dict[str, float]
    errors: dict[str, float]
    device: str
    checked: int
    failures: Counter[tuple[str, str]]
    baselines: dict[str, str]

    def milliseconds(self, choice: str) -> float | None:
        """Those of IREES_OWN or BUILT_IN; None where it is wrong, or was not to be had."""
        return self.ms.get(self.baselines.get(choice, ""))


def outcomes(manifest: Manifest, folder: Path) -> dict[str, GroupResult]:
    """The outcome of each group; AttnError where runs are not measured yet."""
    problems = {problem["key"]: problem for problem in manifest.problems}
    found: dict[str, GroupResult] = {}
    missing = 0
    for group in dict.fromkeys(run.group for run in manifest.runs):
        runs = [run for run in manifest.runs if run.group == group]
        outcome = GroupResult(
            problems[runs[0].problem], group, None, {}, {}, {}, "", 0, Counter(), {}
        )
        found[group] = outcome
        for run in runs:
            result = _result(run, folder)
            if result is None:
                missing += 1
                continue
            if run.baseline:
                outcome.baselines[run.choice] = run.id
            outcome.checked += run.status == "compiled"
            outcome.device = result.get("device", outcome.device)
            if result["status"] == "right":
                outcome.errors[run.id] = result["error"]
            else:
                outcome.failures[result["status"], result.get("reason", "")] += 1
        final = read_json(folder / "results" / f"final-{group}.json") or {}
        outcome.ms = {
            name: ms for name, ms in final.get("ms", {}).items() if name in outcome.errors
        }
        outcome.spread = final.get("spread", {})
        missing += bool(outcome.errors) and not outcome.ms
        outcome.best = _best(outcome, {run.id: run for run in runs})
    if missing:
        raise AttnError(
            f"{missing} results are missing: run 'attn-tune --run={folder}' (or 'python "
            "measure.py .' in a copy of it) on the machine with the device first",
            str(folder),
        )
    return found


def _result(run: CandidateRun, folder: Path) -> dict[str, Any] | None:
    if run.status != "compiled":
        return {"status": f"{run.status} to compile", "reason": run.reason}
    result = read_json(folder / "results" / f"{run.id}.json")
    return result if isinstance(result, dict) and "status" in result else None


def _best(outcome: GroupResult, runs: dict[str, CandidateRun]) -> CandidateRun | None:
    if not outcome.ms:
        return None
    fastest = min(outcome.ms, key=lambda name: outcome.ms[name])
    built_in = outcome.baselines.get(BUILT_IN, "")
    known = outcome.ms.get(built_in)
    noise = max(NOISE, *(outcome.spread.get(name, 0) for name in (built_in, fastest)))
    if known is not None and known <= outcome.ms[fastest] * (1 + noise):
        fastest = built_in
    return runs[fastest]


def write_table(manifest: Manifest, found: dict[str, GroupResult]) -> bytes:
    """The table of the groups that are tuned for it."""
    entries: list[Entry] = []
    for group in manifest.groups.get(TABLE, ()):
        outcome = found[group]
        if outcome.best is None:
            continue
        entries.append(
            Entry(
                outcome.problem["target"],
                outcome.problem["attention"],
                outcome.best.configuration,
                outcome.best.choice,
                measured(outcome),
            )
        )
    return table_text(entries).encode()


def measured(outcome: GroupResult) -> dict[str, Any]:
    """For readers of the table: times in milliseconds, the error, the device."""
    assert outcome.best is not None
    values: dict[str, Any] = {
        "device": outcome.device,
        "ms": outcome.ms[outcome.best.id],
        "spread": outcome.spread.get(outcome.best.id),
        "error": outcome.errors[outcome.best.id],
    }
    for name, choice in (("ms_built_in", BUILT_IN), ("ms_iree", IREES_OWN)):
        values[name] = outcome.milliseconds(choice)
    if outcome.problem["assumed"]:
        values["sizes"] = outcome.problem["sizes"]
    return values


def write_spec(manifest: Manifest, found: dict[str, GroupResult], folder: Path) -> bytes:
    """The tuning spec of the groups that are tuned for it. Where IREE's own configuration is the
    best, the rule attaches nothing; AttnError where there is no rule at all."""
    from iree.compiler import ir

    from .spec import SpecEntry, spec_text

    rules: list[SpecEntry] = []
    for group in manifest.groups.get(SPEC, ()):
        outcome = found[group]
        if outcome.best is None:
            continue
        text = (folder / "problems" / f"{outcome.problem['key']}.mlir").read_text()
        words = f"{outcome.best.choice}; {times_text(outcome)}"
        rules.append(SpecEntry(text, outcome.best.configuration, words))
    if not rules:
        raise AttnError("no candidate of any attention is right: there is no spec to write")
    with ir.Context() as context:
        context.load_all_available_dialects()
        return spec_text(rules, context).encode()


def times_text(outcome: GroupResult) -> str:
    """`0.41 ms on NVIDIA H200 (built-in 0.52, IREE's own 1.9)`."""
    assert outcome.best is not None
    others = []
    for choice in (BUILT_IN, IREES_OWN):
        ms = outcome.milliseconds(choice)
        if ms is not None and outcome.baselines[choice] != outcome.best.id:
            others.append(f"{choice} {_ms(ms)}")
        elif choice in outcome.baselines and ms is None:
            others.append(f"{choice} is wrong or does not run")
    behind = f" ({', '.join(others)})" if others else ""
    return f"{_ms(outcome.ms[outcome.best.id])} ms on {outcome.device}{behind}"


def _ms(value: float) -> str:
    return f"{value:.4g}"


def summary(manifest: Manifest, found: dict[str, GroupResult]) -> str:
    """What was tuned and found, for a person to read."""
    lines: list[str] = []
    for outcome in found.values():
        problem = outcome.problem
        output = next(name for name, groups in manifest.groups.items() if outcome.group in groups)
        lines.append(f"{_title(problem)}, for the {output}")
        lines += [f"  {place}" for place in problem["places"]]
        if outcome.best is None:
            lines.append("  no candidate is right: nothing is written for it")
        else:
            lines.append(f"  {outcome.best.choice}: {times_text(outcome)}")
            lines.append(f"  relative error {outcome.errors[outcome.best.id]:.1e}")
        pruned = manifest.pruned[outcome.group]
        lines.append(
            f"  {outcome.checked} compiled and checked, {len(outcome.errors)} right, "
            f"{sum(pruned.values())} pruned"
        )
        lines += [f"    {count} pruned: {why}" for why, count in pruned.items()]
        for (status, why), count in outcome.failures.items():
            lines.append(f"    {count} {status}: {why}")
    lines += [f"not tuned: {words}" for words in manifest.passed]
    return "\n".join(lines) + "\n"


def _title(problem: dict[str, Any]) -> str:
    operands = problem["attention"]["operands"]
    shapes = " x ".join(
        printed.inside(operands[name]["type"])
        for name in ("query", "key", "value", "mask")
        if name in operands
    )
    return f"{problem['attention']['kind']} of {shapes} on {problem['target']}"
