"""Results: what a bench measured, and on which machine, when, by which commit.

A file of results is JSON as `schema.json` says: `about` the measurement, the settings of `cases` by
name, and `rows`, one for each way that a case was measured. A row has numbers that all benches
share (`error`, `ms` or `us`, ...); what else was found stands under `figures`.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(__file__).parent / "results"
SCHEMA = Path(__file__).parent / "schema.json"
# What a row has of its own, in this order; the rest are figures.
KEYS = ("part", "case", "way", "threads", "date", "commit", "error", "ms", "us", "best", "rounds")
KEYS += ("failed", "said")

Row = dict[str, Any]


def row(case: str, way: str, found: Row, **more: Any) -> Row:
    """A row of `found` and `more`; what no key names is a figure, NaN and infinity are null."""
    given = _finite({"case": case, "way": way, **found, **more})
    figures = {name: value for name, value in given.items() if name not in KEYS}
    made = {name: given[name] for name in KEYS if name in given}
    return made | ({"figures": figures} if figures else {})


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    is_number = not isinstance(value, float) or abs(value) < float("inf")
    return value if is_number else None


@dataclass
class Results:
    """One file of results."""

    bench: str
    about: dict[str, Any]
    rows: list[Row]
    cases: dict[str, dict[str, Any]] = field(default_factory=dict)

    def by_case(
        self, part: str = "", where: Callable[[Row], bool] = lambda _: True
    ) -> dict[str, dict[str, Row]]:
        """The rows of a part, by case and way, each with its figures beside its numbers."""
        found: dict[str, dict[str, Row]] = {}
        for one in self.flat(part):
            if where(one):
                found.setdefault(one["case"], {})[one["way"]] = one
        return found

    def flat(self, part: str = "") -> list[Row]:
        """The rows of a part, figures beside numbers."""
        rows = (one for one in self.rows if one.get("part", "") == part)
        return [{**one, **one.get("figures", {})} for one in rows]

    def replaced(self, rows: Iterable[Row], order: list[str]) -> None:
        """Takes new rows in place of those of the same cases; cases stand in `order`."""
        rows = list(rows)
        fresh = {(one.get("part", ""), one["case"], one.get("threads")) for one in rows}
        kept = [
            one
            for one in self.rows
            if (one.get("part", ""), one["case"], one.get("threads")) not in fresh
        ]
        places = {name: place for place, name in enumerate(order)}
        self.rows = sorted(kept + rows, key=lambda one: places.get(one["case"], len(places)))

    def measured_again(self, about: dict[str, Any]) -> None:
        """What comes from now on is of this run; rows that are there keep their day and commit."""
        if self.about and self.about["machine"] != about["machine"]:
            raise SystemExit(f"these results are of another machine: {self.about['machine']}")
        for name in ("date", "commit") if self.about else ():
            if self.about[name] != about[name]:
                self.rows = [{name: self.about[name], **one} for one in self.rows]
        self.about = {**self.about, **about}

    def write(self, path: Path) -> None:
        """One line a row, so that files and their differences can be read."""
        lines = [f' "bench": {_json(self.bench)}', f' "about": {_json(self.about)}']
        if self.cases:
            pairs = self.cases.items()
            listed = ",\n".join(f"  {_json(name)}: {_json(one)}" for name, one in pairs)
            lines.append(f' "cases": {{\n{listed}\n }}')
        listed = ",\n".join(f"  {_json(one)}" for one in self.rows)
        lines.append(f' "rows": [\n{listed}\n ]')
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def load(name: str | Path) -> Results:
    """A file of results by its name in bench/results, or by its path."""
    path = name if isinstance(name, Path) else FOLDER / f"{name}.json"
    data = json.loads(path.read_text())
    return Results(data["bench"], data["about"], data["rows"], data.get("cases", {}))


def about(machine: str = "") -> dict[str, Any]:
    """What is measured now: `machine` (this CPU if not said), the day, the commit, versions."""
    found: dict[str, Any] = {"machine": machine or cpu_name()}
    if not machine:
        found["cores"] = os.cpu_count()
    found |= {"date": str(datetime.date.today()), "commit": commit(), "dated_by": "run"}
    names = {"iree": "iree-base-runtime", "torch": "torch", "triton": "triton"}
    versions = {word: _version(package) for word, package in names.items()}
    return found | {"versions": {word: one for word, one in versions.items() if one}}


def cpu_name() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit() -> str:
    """Of the tree that this file is in; "unknown" where there is no git, or other changes."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    said = done.stdout.strip()
    return "unknown" if done.returncode or said.endswith("-dirty") else said


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
