"""Runs the modules of test/e2e/known on a GPU, compiled for it at three levels.

    python tools/check_known_cuda.py compile FOLDER              # anywhere
    python tools/check_known_cuda.py run FOLDER results.json     # where the GPU is

`compile` needs attnpass and the tests' packages; `run` needs numpy, ml_dtypes and iree.runtime. A
row of the results has the relative error against float64 (none where there is no program, or it
fails), the tolerance, and whether the compile said that the numbers are wrong.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parents[1] / "test" / "e2e"
LEVELS = ("O0", "O2", "O3")
TARGET = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90")
F32_TOLERANCE = 3e-4
SECONDS = 120


def compile_all(folder: Path) -> None:
    """Writes a module and a file of inputs and results for each case and level."""
    sys.path.insert(0, str(TESTS))
    import known_cases

    folder.mkdir(parents=True, exist_ok=True)
    names = [name for name in known_cases.names() if name not in known_cases.UNCALLED]
    # One after the other: IREE's bindings are not made for threads, its commands are.
    cases = {name: _case(name) for name in names}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [(folder, name, cases[name], level) for name in names for level in LEVELS]
        list(pool.map(lambda job: _compile_one(*job), jobs))


def _case(name: str) -> dict[str, Any]:
    import known_cases
    from helpers import compile_text, run_module

    case = known_cases.known(name)
    if case.is_interpreted:
        wanted: Any = case.wanted()
    else:
        wanted = run_module(compile_text(case.text), case.inputs, case.function)
        wanted = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
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


def run_one(path: Path) -> float | None:
    """The relative error of one case, here."""
    sys.path.insert(0, str(Path(__file__).parent))
    import iree_device
    from iree import runtime

    row = pickle.loads(path.read_bytes())
    config = runtime.Config("cuda")
    functions = iree_device.load(config, row["module"])
    given = [
        iree_device.to_iree(config.device, one) if isinstance(one, np.ndarray) else one
        for one in row["inputs"]
    ]
    results = functions[row["function"]](*given)
    results = results if isinstance(results, list | tuple) else [results]
    worst = 0.0
    for result, wanted in zip(results, row["wanted"], strict=True):
        got, wanted = np.array(result.to_host()).astype(np.float64), np.asarray(wanted, np.float64)
        if got.shape != wanted.shape or not np.isfinite(got[np.isfinite(wanted)]).all():
            return math.inf
        norm = max(float(np.linalg.norm(wanted)), 1e-2 * math.sqrt(max(1, wanted.size)))
        worst = max(worst, float(np.linalg.norm(got - wanted)) / norm)
    return worst


def run_all(folder: Path, output: Path) -> None:
    """Runs each case in a process of its own and writes the results."""

    def judged(path: Path) -> dict[str, Any]:
        row = pickle.loads(path.read_bytes())
        found: float | None = None
        if row["module"]:
            command = [sys.executable, __file__, "one", str(path)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
                words = done.stdout.split()
                found = float(words[-1]) if done.returncode == 0 and words else None
            except subprocess.TimeoutExpired:
                pass
        finite = None if found is None or not math.isfinite(found) else found
        kept = {key: row[key] for key in ("case", "level", "tolerance", "said", "events")}
        return kept | {"error": finite}

    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(judged, sorted(folder.glob("*.pickle"))))
    data = {"device": "NVIDIA H200", "date": str(datetime.date.today()), "rows": rows}
    output.write_text(json.dumps(data, indent=1) + "\n")
    for row in rows:
        if row["error"] is None or row["error"] > row["tolerance"]:
            print(row["case"], row["level"], row["error"], "said" if row["said"] else "SILENT")
    print(f"{len(rows)} rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("step", choices=("compile", "run", "one"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path, nargs="?")
    options = parser.parse_args()
    if options.step == "compile":
        compile_all(options.folder)
    elif options.step == "one":
        print(run_one(options.folder))
    elif options.output is None:
        parser.error("run needs a file for the results")
    else:
        run_all(options.folder, options.output)


if __name__ == "__main__":
    main()
