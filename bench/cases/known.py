"""The modules of test/e2e/known on a GPU, compiled for it at three levels.

`compile` needs attnpass and the tests' packages; `run` needs numpy, ml_dtypes and iree.runtime. A
row has the relative error against float64 (none where there is no program, or it fails), the
tolerance, and whether the compile said that the numbers are wrong.
"""

from __future__ import annotations

import argparse
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import gpu, load, several, to_iree
from bench.harness import Named
from bench.results import ROOT, Row, row

TESTS = ROOT / "test" / "e2e"
LEVELS = ("O0", "O2", "O3")
TARGET = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90")
F32_TOLERANCE = 3e-4
SECONDS = 120
CASE_SECONDS = len(LEVELS) * SECONDS + 30


def cases() -> list[Named]:
    return [Named(path.stem) for path in sorted((TESTS / "known").glob("*.mlir"))]


def cases_in(folder: Path) -> list[Named]:
    return [
        Named(name) for name in sorted({one.name.split(".")[0] for one in folder.glob("*.pickle")})
    ]


def compile(folder: Path, wanted: list[Named], _: argparse.Namespace) -> None:
    """Writes a file with the module, the inputs and the results for each case and level."""
    sys.path.insert(0, str(TESTS))
    import known_cases

    names = [case.name for case in wanted if case.name not in known_cases.UNCALLED]
    # One after the other: IREE's bindings are not made for threads, its commands are.
    found = {name: _case(name) for name in names}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [(folder, name, found[name], level) for name in names for level in LEVELS]
        list(pool.map(lambda job: _compile_one(*job), jobs))


def _case(name: str) -> dict[str, Any]:
    import known_cases
    from helpers import compile_text, run_module

    case = known_cases.known(name)
    if case.is_interpreted:
        wanted: Any = case.wanted()
    else:
        wanted = several(run_module(compile_text(case.text), case.inputs, case.function))
    tolerance = case.tolerance(F32_TOLERANCE)
    kept = {"function": case.function, "inputs": case.inputs, "wanted": wanted}
    return kept | {"case": name, "tolerance": tolerance, "text": case.text}


def _compile_one(folder: Path, name: str, case: dict[str, Any], level: str) -> None:
    import attnpass
    from attnpass.report.records import Report

    report, flags = Report(), [*TARGET, f"--iree-opt-level={level}"]
    try:
        vmfb = attnpass.compile_str(case["text"], extra_args=flags, report=report)
    except Exception as error:  # a row without an error says that there is no program
        print(f"{name} {level}: {str(error).splitlines()[0]}", file=sys.stderr)
        vmfb = b""
    row = case | {
        "level": level,
        "events": [str(event) for event in report.events],
        "said": any(event.kind == "known-wrong" for event in report.events),
        "module": vmfb,
    }
    (folder / f"{name}.{level}.pickle").write_bytes(pickle.dumps(row))


def run(folder: Path, case: Named, _: argparse.Namespace) -> Iterator[Row]:
    """Each level in a process of its own: what a kernel breaks stays broken in its process."""
    for level in LEVELS:
        path = folder / f"{case.name}.{level}.pickle"
        if not path.exists():
            continue
        made = pickle.loads(path.read_bytes())
        found = {"tolerance": made["tolerance"], "warned": made["said"], "events": made["events"]}
        found["error"] = _error_of(path) if made["module"] else None
        yield row(case.name, level, found)


def _error_of(path: Path) -> float | None:
    command = [sys.executable, "-m", "bench.cases.known", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return None
    words = done.stdout.split()
    return float(words[-1]) if done.returncode == 0 and words else None


def _error(made: dict[str, Any]) -> float:
    """The worst relative error of the results of a module."""
    config = gpu()
    functions = load(config, made["module"])
    given = [to_iree(config.device, one) for one in made["inputs"]]
    results = several(functions[made["function"]](*given))
    worst = 0.0
    for result, wanted in zip(results, made["wanted"], strict=True):
        got, wanted = np.array(result.to_host()).astype(np.float64), np.asarray(wanted, np.float64)
        if got.shape != wanted.shape or not np.isfinite(got[np.isfinite(wanted)]).all():
            return math.inf
        norm = max(float(np.linalg.norm(wanted)), 1e-2 * math.sqrt(max(1, wanted.size)))
        worst = max(worst, float(np.linalg.norm(got - wanted)) / norm)
    return worst


if __name__ == "__main__":
    print(_error(pickle.loads(Path(sys.argv[1]).read_bytes())))
