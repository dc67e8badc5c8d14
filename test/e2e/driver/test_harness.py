"""The harness of bench/ on tiny models: rows as the schema says, also of what does not compile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np

from bench.models.trace import Trace
from bench.results import ROOT, SCHEMA, load


def _write_models(folder: Path) -> None:
    t = Trace(1)
    x = t.argument(1, 8, 16)
    model = t.finish(t.attention(*(t.split_heads(t.linear(x, 16), 2) for _ in range(3))))
    for name, text in (("broken", "func.func @main("), ("tiny", model.text)):
        (folder / name).mkdir()
        (folder / name / "input.mlir").write_text(text)
        given = {f"in{i}": array for i, array in enumerate(model.inputs)}
        wanted = {f"out{i}": array for i, array in enumerate(model.outputs)}
        np.savez(folder / name / "io.npz", **given, **wanted)


def _run(folder: Path, output: Path, *more: str) -> None:
    command = [sys.executable, "-m", "bench", "run", "models", str(folder), "--json", str(output)]
    subprocess.run([*command, *more], cwd=ROOT, check=True, timeout=300, capture_output=True)


def test_rows_of_tiny_models(tmp_path: Path) -> None:
    _write_models(tmp_path)
    output = tmp_path / "models.json"
    _run(tmp_path, output)
    jsonschema.validate(json.loads(output.read_text()), json.loads(SCHEMA.read_text()))
    found = load(output)
    assert found.bench == "models" and found.about["dated_by"] == "run"
    cases = found.by_case()
    assert cases["broken"][""]["failed"]
    assert set(cases["tiny"]) == {"module", "default", "off", "cost", "always"}
    assert all(row["error"] < 1e-5 for way, row in cases["tiny"].items() if way != "module")
    # What is not run again keeps its rows.
    _run(tmp_path, output, "--only", "broken")
    assert load(output).rows == found.rows
