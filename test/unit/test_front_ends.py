"""Front ends are optional: what is said without them, and that the core never imports them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import iree.compiler.tools
import pytest

import attnpass
from attnpass.program.front_ends import TESTED, require

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("door", TESTED)
def test_a_missing_front_end(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    words = rf"attnpass.{door} needs {door} >=.*: pip install 'attnpass\[{door}\]'"
    arguments = ("model",) if door == "onnx" else ("model", ())
    with pytest.raises(ImportError, match=words):
        getattr(attnpass, door).compile(*arguments)


def test_another_version_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr("attnpass.program.front_ends.version", lambda name: "2.4.1+cpu")
    with pytest.warns(RuntimeWarning, match=r"tested with torch >=2.13,<2.14, but 2.4.1\+cpu is"):
        require("torch")


@pytest.mark.parametrize("door", TESTED)
def test_the_extras_are_what_was_tested(door: str) -> None:
    _, low, high = TESTED[door]
    assert [text.partition(">=")[2] for text in EXTRAS[door]] == [f"{low},<{high}"]


def test_the_core_imports_no_front_end() -> None:
    code = (
        "import sys, attnpass, attnpass.torch, attnpass.onnx, attnpass.jax, attnpass.driver.tools\n"
        "sys.exit(len({'torch', 'onnx', 'jax'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_names_of_irees_tools_are_here() -> None:
    names = {*iree.compiler.tools.core.__all__, "CompilerToolError", "TempFileSaver"}
    assert names <= set(attnpass.__all__)
    for name in names - {"compile_file", "compile_str"}:
        assert getattr(attnpass, name) is getattr(iree.compiler.tools, name)
