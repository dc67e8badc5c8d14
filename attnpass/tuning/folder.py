"""A tuning folder: problems, compiled candidates and results, each kept as soon as it is there.

    manifest.json     problems, runs (a candidate of a group each) and which outputs want them
    problems/         the module of each problem
    candidates/       the table that holds the configuration of each run
    compiled/         a .vmfb, and how the compile went, for each run
    measure.py        checks and times them; needs iree-base-runtime and numpy only
    references/, results/   made by measure.py

A run is named by a hash of all that its .vmfb comes from: what is there is not made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ..driver.children import error_place, first_error
from ..driver.tools import attn_compile_command
from ..errors import AttnError
from ..machines.cpu.loops import MARK
from ..machines.search import BUILT_IN, Candidate
from ..machines.table import Entry, table_text
from ..report.records import report_from_dict
from . import measure
from .compiles import (
    KeptCompile,
    as_user_errors,
    kept_state,
    make_folder,
    run_compiles,
    scratch_path,
)
from .measure import FORMAT, VERSION, write_json

IREES_OWN = "IREE's own"
# What may be made of a tuning: a table for attn-configure, a spec for plain iree-compile.
TABLE, SPEC = "table", "spec"


@dataclass(frozen=True)
class TuneSettings:
    """What to tune for: the device's driver, the compiler's flags, the layout passes' options;
    `tries` are configurations to try besides those that the search finds."""

    driver: str
    flags: tuple[str, ...]
    outputs: tuple[str, ...]
    mode: str = "cost"
    cache: str = "kept"
    assume: int = 512
    max_candidates: int = 0
    tries: tuple[Entry, ...] = ()
    jobs: int = 1
    compile_limit: float = 120
    quiet: bool = False


@dataclass
class CandidateRun:
    """One candidate of a group, which is a problem as one of the outputs wants it; `behind` are
    the passes that it is compiled with behind attn-configure."""

    id: str
    group: str
    problem: str
    choice: str
    configuration: dict[str, str]
    baseline: bool
    behind: str
    status: str = ""
    reason: str = ""

    @property
    def file(self) -> str:
        return f"compiled/{self.id}.vmfb"


@dataclass
class Manifest:
    """What a folder holds. `groups` are, for each output, the groups whose best it takes;
    `pruned` counts, for each group, what was not tried by the reason;
    `passed` says which attention is not tuned, and why."""

    model: str
    driver: str
    flags: list[str]
    problems: list[dict[str, Any]] = field(default_factory=list)
    runs: list[CandidateRun] = field(default_factory=list)
    groups: dict[str, list[str]] = field(default_factory=dict)
    pruned: dict[str, dict[str, int]] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        runs = [{**asdict(run), "file": run.file} for run in self.runs]
        data = {"format": FORMAT, "version": VERSION, **asdict(self), "runs": runs}
        write_json(folder / "manifest.json", data)


def load_manifest(folder: Path) -> Manifest:
    """The manifest in a folder; AttnError where there is none."""
    with as_user_errors():
        data = measure.read_manifest(folder)
    try:
        runs = [
            CandidateRun(**{k: v for k, v in run.items() if k != "file"}) for run in data["runs"]
        ]
        rest = {k: v for k, v in data.items() if k not in ("format", "version", "runs")}
        return Manifest(**rest, runs=runs)
    except (KeyError, TypeError, AttributeError):
        raise AttnError("manifest.json is not of this attn-tune", str(folder)) from None


def prepare(model: str, folder: Path, settings: TuneSettings) -> Manifest:
    """Finds the model's attentions and makes the folder, whose candidates are not compiled yet."""
    make_folder(folder, ("problems", "candidates", "compiled", "results"), [measure])
    manifest = Manifest(model, settings.driver, list(settings.flags))
    for output in settings.outputs:
        found = _extract(model, folder, settings, output)
        groups = manifest.groups[output] = []
        manifest.passed += [words for words in found["passed"] if words not in manifest.passed]
        for problem in found["problems"]:
            group = f"{problem['key']}-{output}"
            groups.append(group)
            manifest.runs += _runs(folder, settings, problem, output, group)
            manifest.pruned[group] = problem.pop("pruned")
            del problem["candidates"]
            if all(other["key"] != problem["key"] for other in manifest.problems):
                manifest.problems.append(problem)
    return manifest


def _passes(settings: TuneSettings) -> tuple[str, str]:
    """The passes of attn-compile before and behind attn-configure, as pipeline text."""
    from ..pipeline import default_pipeline

    text = default_pipeline(settings.mode, cache=settings.cache)
    before, _, behind = text.partition("attn-configure")
    return before, behind


def _extract(model: str, folder: Path, settings: TuneSettings, output: str) -> dict[str, Any]:
    """The problems of the model's attention, as attn-compile or iree-compile has it."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        extract = f"attn-extract{{folder={{{scratch}}} assume={settings.assume}}}"
        flags = list(settings.flags)
        passes = f"{_passes(settings)[0]}{extract}"
        if output == SPEC:
            passes = extract.replace("attn-extract{", "attn-extract{plain=true ")
            flags.append("--iree-global-opt-enable-attention-v-transpose=true")
        command = [
            model,
            *flags,
            f"--attn-pipeline={passes}",
            "--compile-to=flow",
            "-o",
            os.devnull,
        ]
        done = subprocess.run(
            attn_compile_command(*command), capture_output=True, text=True, check=False
        )
        path = Path(scratch) / "problems.json"
        if done.returncode or not path.exists():
            raise AttnError(first_error(done.stderr, done.returncode), error_place(done.stderr))
        for module in Path(scratch).glob("*.mlir"):
            shutil.copyfile(module, folder / "problems" / module.name)
        return json.loads(path.read_text())


def _runs(
    folder: Path, settings: TuneSettings, problem: dict[str, Any], output: str, group: str
) -> Iterable[CandidateRun]:
    from importlib.metadata import version

    module = (folder / "problems" / f"{problem['key']}.mlir").read_bytes()
    behind = _passes(settings)[1] if output == TABLE else ""
    common = [_hash(module), behind, list(settings.flags), version("iree-base-compiler")]
    own = Candidate(IREES_OWN, {})
    candidates = [Candidate(**raw) for raw in problem["candidates"]]
    candidates = candidates[: settings.max_candidates or None]
    wanted = (problem["target"], problem["attention"])
    given = [entry for entry in settings.tries if (entry.target, entry.attention) == wanted]
    given = [Candidate(entry.choice or "given", entry.configuration) for entry in given]
    known = {json.dumps(candidate.configuration) for candidate in [own, *candidates]}
    candidates += [c for c in given if json.dumps(c.configuration) not in known]
    for candidate in [own, *candidates]:
        name = _hash(json.dumps([*common, candidate.configuration], sort_keys=True).encode())
        entry = Entry(problem["target"], problem["attention"], candidate.configuration)
        path = folder / "candidates" / f"{name}.json"
        if not path.exists():
            path.write_text(table_text([entry]))
        baseline = candidate.choice in (IREES_OWN, BUILT_IN)
        yield CandidateRun(
            name,
            group,
            problem["key"],
            candidate.choice,
            candidate.configuration,
            baseline,
            behind,
        )


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def compile_all(manifest: Manifest, folder: Path, settings: TuneSettings) -> None:
    """Compiles what is not compiled yet, `jobs` at a time, each in a process of its own."""
    waiting: list[CandidateRun] = []
    for run in manifest.runs:
        state = kept_state(folder, run.id, settings.compile_limit)
        if state:
            run.status, run.reason = state["status"], state["reason"]
        else:
            waiting.append(run)
    starts = [partial(_CandidateCompile, run, folder, settings) for run in waiting]
    run_compiles(starts, settings.jobs, settings.quiet)


class _CandidateCompile(KeptCompile):
    """A candidate being compiled, by attn-compile."""

    def __init__(self, run: CandidateRun, folder: Path, settings: TuneSettings):
        self.run = run
        self.report = scratch_path(folder, run.id) / "report.json"
        source = folder / "problems" / f"{run.problem}.mlir"
        table = folder / "candidates" / f"{run.id}.json"
        passes = f"attn-configure{{source={{{table}}}}}{run.behind}"
        words = [str(source), *settings.flags, f"--attn-pipeline={passes}"]
        command = attn_compile_command(*words, f"--attn-report={self.report}")
        super().__init__(folder, run.id, run.choice, command, settings.compile_limit)

    def finish(self) -> None:
        """Says in the run, too, how it went."""
        super().finish()
        self.run.status, self.run.reason = self.status, self.reason

    def check(self) -> tuple[str, str]:
        """Whether every attention got the configuration (or, for IREE's own, none)."""
        report = report_from_dict(json.loads(self.report.read_text()))
        tried = report.found("configured", "not-configured", "left", of="attention")
        kept = [record.reason for record in tried if record.what != "configured"]
        if self.run.configuration and (kept or not tried):
            return "failed", f"not attached: {(kept or ['attention is gone'])[0]}"
        unmade = report.found("no-loops", of="kernel")
        if unmade and MARK in str(self.run.configuration) and not self.run.baseline:
            return "failed", f"no loops of ours: {unmade[0].reason}"
        return "compiled", ""
