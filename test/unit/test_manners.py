"""Names, files and folders that users get wrong: a line that says what, and nothing spoilt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import attnpass.cli.diagnostics as diagnostics
from attnpass.driver.files import check_writable, sole_user, write_output
from attnpass.driver.flags import parse_arguments
from attnpass.errors import AttnError
from attnpass.tuning.measure import FORMAT, VERSION, FolderError, read_manifest

ROOT = Path(__file__).parents[2]
GOOD = "func.func @f() {\n  return\n}\n"
# Latin-1, as an old archive may hold it.
NAME = os.fsdecode(b"caf\xe9.mlir")


@pytest.mark.parametrize("files", [{"a": "@a"}, {"a": "x.mlir @b", "b": "-o y @a"}])
def test_files_of_flags_that_name_themselves(files, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(AttnError, match="'@a' names itself"):
        parse_arguments(["@a"])


def test_files_of_flags_that_are_named_twice(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("--iree-opt-level=O3")
    options = parse_arguments(["x.mlir", f"@{tmp_path}/a", f"@{tmp_path}/a"])
    assert options.compiler_flags == ["--iree-opt-level=O3"] * 2


@pytest.mark.parametrize(
    ("data", "why"), [(b'"', "no closing quotation"), (b"\xff", "0xff is no UTF-8")]
)
def test_files_of_flags_that_are_none(data: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(AttnError, match=why):
        parse_arguments([f"@{tmp_path}/a"])


def test_links_that_lead_to_themselves(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    for write in (check_writable, lambda path: write_output(path, b"x")):
        with pytest.raises(AttnError, match="cannot write it: too many levels"):
            write(str(link))
    assert os.listdir(tmp_path) == ["link"]


@pytest.mark.parametrize("tool", ["attn_opt", "attn_compile"])
def test_names_that_are_no_utf_8(tool: str, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", f"attnpass.cli.{tool}", NAME, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            timeout=300,
            check=False,
        )

    (tmp_path / NAME).write_text(GOOD)
    flags = ["--compile-to=input"] if tool == "attn_compile" else []
    done = run(*flags, "-o", "out")
    assert (done.returncode, done.stderr) == (0, b"")
    (tmp_path / NAME).write_text("bad")
    done = run(*flags, "-o", "out")
    assert done.returncode == 1
    assert done.stderr.startswith(b"caf\\xe9.mlir:1:1: error: custom op 'bad' is unknown")


def test_a_folder_has_one_user_at_a_time(tmp_path: Path) -> None:
    held = pytest.raises(AttnError, match="another command works in it")
    with sole_user(tmp_path), held, sole_user(tmp_path):
        pass
    with sole_user(tmp_path), sole_user(tmp_path / "missing"):
        pass


@pytest.mark.parametrize("key", ["file", "id", "path"])
@pytest.mark.parametrize("path", ["../x", "/x", "compiled/../../x"])
def test_paths_in_a_manifest_stay_in_its_folder(key: str, path: str, tmp_path: Path) -> None:
    manifest = {"format": FORMAT, "version": VERSION, "model": "../model.mlir", "runs": []}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    assert read_manifest(tmp_path) == manifest
    manifest["runs"] = [{"id": "a"}, {key: path}]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FolderError, match=f"names '{path}', which is not in the folder"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("command", ["attn_compile", "attn_explain", "attn_opt", "attn_tune"])
def test_without_iree(command: str, tmp_path: Path) -> None:
    (tmp_path / "attnpass.py").write_text("raise ImportError('IREE is missing')")
    done = subprocess.run(
        [sys.executable, "-c", f"from attnpass_commands import {command} as m; exit(m())"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        timeout=300,
        check=False,
        text=True,
    )
    name = command.replace("_", "-")
    assert (done.returncode, done.stderr) == (1, f"{name}: error: IREE is missing\n")


def test_with_another_iree(capsys, monkeypatch) -> None:
    def body() -> int:
        raise ImportError("cannot import name 'ir' from 'iree.compiler'", name="iree.compiler")

    monkeypatch.setattr(diagnostics, "untested", "was tested with another one")
    assert diagnostics.run_tool("tool", body) == 1
    wanted = "tool: error: attnpass was tested with another one (cannot import name 'ir'"
    assert capsys.readouterr().err.startswith(wanted)
