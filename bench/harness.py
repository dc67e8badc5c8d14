"""The harness of all benches: modules are compiled here, carried to where they run, and measured.

A bench is a module in bench/cases: its cases as data (`cases()`, each with a `name`), `compile`,
which writes modules into a folder, and `run`, which measures one case of that folder beside its
peers and gives rows (`bench.results.row`). Cases are run in a process of their own, and in another
one what comes behind a case that ends it or takes too long; results are written as they come.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from bench import results
from bench.results import ROOT, Results, Row

BENCHES = (
    "beside",
    "blocks",
    "configure",
    "convolutions",
    "cpu",
    "kernels",
    "known",
    "models_on_cpu",
    "peers",
    "product_kernels",
)
# Seconds that a case may be silent, where its bench says nothing else.
CASE_SECONDS = 120
# The exit code of a process whose last case failed with a row that says so.
FAILED = 3


class Case(Protocol):
    @property
    def name(self) -> str: ...


@dataclass(frozen=True)
class Named:
    """A case that is all in its name."""

    name: str


class Bench(Protocol):
    """What a module in bench/cases has, and `compile`, where there is something to carry. It may
    say CASE_SECONDS, that it IS_ON_CPU, which `cases_in` a folder there are to run, more `about`
    the modules of a folder, and what `settings` of a case the results keep."""

    @staticmethod
    def cases() -> Sequence[Case]: ...

    @staticmethod
    def run(folder: Path, case: Any, options: argparse.Namespace) -> Iterator[Row]: ...


def bench_of(name: str) -> Any:
    return importlib.import_module(f"bench.cases.{name}")


def chosen(bench: Any, options: argparse.Namespace, folder: Path | None = None) -> list[Any]:
    """The cases (those of a folder, where a bench finds them there) whose name contains one of the
    words of `only`, which semicolons separate, or with `exact` is one."""
    words = options.only.split(";")
    if options.exact:
        return [case for case in cases(bench, folder) if case.name in words]
    return [case for case in cases(bench, folder) if any(word in case.name for word in words)]


def cases(bench: Any, folder: Path | None) -> Sequence[Case]:
    if folder and hasattr(bench, "cases_in"):
        return bench.cases_in(folder)
    return bench.cases()


# compiling


def attn_compile(source: Path, output: Path, *flags: str, seconds: int = 300) -> str:
    """Compiles in a process of its own, since a crash of IREE must not end the others; why it
    failed, or ''."""
    command = [sys.executable, "-m", "attnpass.cli.attn_compile", str(source), *flags]
    try:
        done = subprocess.run(
            [*command, "-o", str(output)], capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return f"no end within {seconds} s"
    if not done.returncode:
        return ""
    line = next((line for line in done.stderr.splitlines() if "error: " in line), "")
    return line.rpartition("error: ")[2] or done.stderr.strip()[-300:] or "failed"


def must_compile(source: Path, output: Path, *flags: str) -> None:
    """The same; stops where it does not compile."""
    if failed := attn_compile(source, output, *flags):
        raise SystemExit(f"{output.stem}: {failed}")


class Manifest:
    """What was compiled into a folder: an entry for each case and way, in manifest.json."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.path = folder / "manifest.json"
        self.entries: list[dict[str, Any]] = []
        if self.path.exists():
            self.entries = json.loads(self.path.read_text())

    def add(self, case: str, way: str, **more: Any) -> dict[str, Any]:
        """An entry in place of the one that there was; its `file` is new for each."""
        self.entries = [one for one in self.entries if (one["case"], one["way"]) != (case, way)]
        numbers = {int(one["file"].partition(".")[0]) for one in self.entries}
        free = next(number for number in range(len(numbers) + 1) if number not in numbers)
        entry = {"case": case, "way": way, "file": f"{free}.vmfb", **more}
        self.entries.append(entry)
        return entry

    def write(self) -> None:
        self.path.write_text(json.dumps(self.entries, indent=1) + "\n")

    def of(self, case: str) -> list[dict[str, Any]]:
        return [one for one in self.entries if one["case"] == case]


# running


def run(name: str, folder: Path, path: Path, options: argparse.Namespace) -> Results:
    """Runs the chosen cases and writes the results; what is not run again keeps its rows."""
    bench = bench_of(name)
    wanted = chosen(bench, options, folder)
    made = results.load(path) if path.exists() else Results(name, {}, [])
    order = [case.name for case in cases(bench, folder)]
    settings = getattr(bench, "settings", None)
    rows: list[Row] = []
    for line in _isolated(name, bench, folder, [case.name for case in wanted], options):
        if "about" in line:
            made.measured_again(line["about"])
            continue
        print(json.dumps(line), flush=True)
        rows.append(line)
        made.replaced(rows, order)
        if settings:
            done = {row["case"] for row in made.rows}
            kept = {case.name: settings(case) for case in wanted if case.name in done}
            made.cases = made.cases | kept
        made.write(path)
    return made


def _isolated(
    name: str, bench: Any, folder: Path, left: list[str], options: argparse.Namespace
) -> Iterator[Row]:
    """What the cases of these names print; a row that says so for a case that ends its process."""
    seconds = getattr(bench, "CASE_SECONDS", CASE_SECONDS)
    while left:
        command = [sys.executable, "-m", "bench", "some", name, str(folder), *_flags(options)]
        command += ["--only", ";".join(left), "--exact"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            for line in _lines(process, seconds):
                if "begin" in line:
                    left = left[left.index(line["begin"]) :]
                    continue
                yield line
            process.kill()
            code = process.wait()
        if code not in (0, FAILED):
            yield results.row(left[0], "", {"failed": "the process ended, or took too long"})
        left = left[1:] if code else []


def _flags(options: argparse.Namespace) -> list[str]:
    """The options of a run, for the process that runs cases."""
    flags = ["--threads", *map(str, options.threads), "--processes", str(options.processes)]
    return [*flags, *(["--numbers"] if options.numbers else [])]


def _lines(process: subprocess.Popen[str], seconds: int) -> Iterator[Row]:
    """What a process prints, until it ends or is silent for so long."""
    assert process.stdout is not None
    lines: queue.Queue[str] = queue.Queue()

    def read(stream: IO[str]) -> None:
        for line in stream:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, args=(process.stdout,), daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=seconds)
        except queue.Empty:
            return
        if not line:
            process.wait()
            return
        if line.startswith("{"):
            yield json.loads(line)


def run_some(name: str, folder: Path, options: argparse.Namespace) -> None:
    """Prints a row a line for the chosen cases, and a line at the beginning of each."""
    bench = bench_of(name)
    more = bench.about(folder) if hasattr(bench, "about") else {}
    print(json.dumps({"about": results.about(machine(bench)) | more}), flush=True)
    for case in chosen(bench, options, folder):
        print(json.dumps({"begin": case.name}), flush=True)
        try:
            for row in bench.run(folder, case, options):
                print(json.dumps(row, allow_nan=False), flush=True)
        except Exception as problem:
            failed = f"{type(problem).__name__}: {problem}"[:300]
            print(json.dumps(results.row(case.name, "", {"failed": failed})), flush=True)
            # A fault of a GPU's kernel stays with its process, which may not even end by itself.
            sys.stdout.flush()
            os._exit(FAILED)


def machine(bench: Any) -> str:
    """The GPU's name where a bench runs on one, '' where it runs on this CPU."""
    if getattr(bench, "IS_ON_CPU", False):
        return ""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else "unknown"
