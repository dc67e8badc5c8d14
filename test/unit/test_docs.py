"""The README and the docs name only passes, options, files and links that are there."""

from __future__ import annotations

import dataclasses
import re
import shutil
import textwrap
from pathlib import Path

import pytest

from attnpass.cli import attn_compile, attn_opt, attn_tune, attn_verify
from attnpass.passes import ALIASES, load_pass, pass_names

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# `attn-pass{option=value ...}` or `--attn-pass=option=value`.
OPTIONS = r"(attn-[a-z0-9-]+)(?:=?\{([^}]*)\}|=([a-z-]+=))"
TOOLS = ("attn-opt", "attn-compile", "attn-tune", "attn-verify")


@pytest.fixture(params=PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def page(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_options_of_tools(page: Path) -> None:
    known = attn_compile.USAGE + attn_opt.USAGE + attn_tune.USAGE + attn_verify.USAGE
    options = set(re.findall(r"(?<![\w-])--attn-[a-z0-9-]+", page.read_text()))
    missing = {option for option in options if option not in known}
    assert {option[2:] for option in missing} <= set(pass_names())


def test_passes_and_their_options(page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(r"(?<![\w/-])attn-[a-z0-9-]+", text)) - set(TOOLS)
    assert named <= {*pass_names(), *ALIASES}
    for name, braced, single in re.findall(OPTIONS, text):
        fields = {field.name.replace("_", "-") for field in dataclasses.fields(load_pass(name))}
        given = {word.partition("=")[0] for word in (braced or single).split()}
        assert given <= fields, name


def test_files(page: Path) -> None:
    text = page.read_text()
    for path in re.findall(r"\b(?:bench|tools|attnpass|test)/[\w./]*\w\.(?:py|json|md)\b", text):
        assert (ROOT / path).exists(), path
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_the_readme_lists_every_pass() -> None:
    listed = re.findall(r"^\| `(attn-[a-z0-9-]+)` \|", (ROOT / "README.md").read_text(), re.M)
    assert sorted(listed) == pass_names()


def test_the_readmes_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "README.md").read_text()
    found = re.search(r"\*\*From Python\*\*:\n\n((?:    .*\n|\n)+)", text)
    assert found
    shutil.copy(ROOT / "docs/layer.mlir", tmp_path / "model.mlir")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(textwrap.dedent(found[1]), names)
    assert isinstance(names["vmfb"], bytes)
    assert "value absorbed" in capsys.readouterr().out
    assert (tmp_path / "report.json").exists()
