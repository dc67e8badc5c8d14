"""The harness of bench/: rows as the schema says, also of a case that fails."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import jsonschema

from bench.results import ROOT, SCHEMA, load


def _run(folder: Path, output: Path, *more: str) -> None:
    command = [sys.executable, "-m", "bench", "run", "known", str(folder), "--json", str(output)]
    subprocess.run([*command, *more], cwd=ROOT, check=True, timeout=300, capture_output=True)


def test_rows_of_a_case_and_of_one_that_fails(tmp_path: Path) -> None:
    # What does not compile runs on no device.
    bare = {"module": b"", "tolerance": 1e-3, "said": True, "events": ["no program"]}
    (tmp_path / "bare.O2.pickle").write_bytes(pickle.dumps(bare))
    (tmp_path / "broken.O0.pickle").write_bytes(b"no pickle")
    output = tmp_path / "known.json"
    _run(tmp_path, output)
    jsonschema.validate(json.loads(output.read_text()), json.loads(SCHEMA.read_text()))
    found = load(output)
    assert found.bench == "known" and found.about["dated_by"] == "run"
    cases = found.by_case()
    assert cases["broken"][""]["failed"].startswith("UnpicklingError")
    assert set(cases["bare"]) == {"O2"} and cases["bare"]["O2"]["error"] is None
    # What is not run again keeps its rows.
    _run(tmp_path, output, "--only", "broken")
    assert load(output).rows == found.rows
