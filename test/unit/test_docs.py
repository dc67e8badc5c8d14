"""The README and the docs name what is there: passes, options, files, links; examples run."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attnpass.cli import attn_compile, attn_opt, attn_tune, attn_verify
from attnpass.families import FAMILIES
from attnpass.passes import REGISTRY, load_pass, pass_names

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# `attn-pass{option=value ...}` or `--attn-pass=option=value`.
OPTIONS = r"(attn-[a-z0-9-]+)(?:=?\{([^}]*)\}|=([a-z-]+=))"
TOOLS = ("attn-compile", "attn-explain", "attn-opt", "attn-tune", "attn-verify")


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
    assert named <= {*pass_names()}
    for name, braced, single in re.findall(OPTIONS, text):
        fields = {field.name.replace("_", "-") for field in dataclasses.fields(load_pass(name))}
        given = {word.partition("=")[0] for word in (braced or single).split()}
        assert given <= fields, name


def test_files(page: Path) -> None:
    text = page.read_text()
    for path in re.findall(r"\b(?:bench|tools|attnpass|test)/[\w./]*\w\.(?:py|json|md)\b", text):
        assert (ROOT / path).exists(), path


def test_the_walk_names_files_that_are_there() -> None:
    """Paths in docs/architecture.md are those of a room, of the repository, or of the plugin; names
    alone are those of a file of a room."""
    text = (DOCS / "architecture.md").read_text()
    places = [ROOT / name for name in ("attnpass", "", "test/plugin")]
    for path in re.findall(r"`([\w/]+/\w+\.py)`", text):
        assert any((place / path).exists() for place in places), path
    for name in re.findall(r"`(\w+\.py)`", text):
        assert any((ROOT / "attnpass").rglob(name)), name


def test_the_walk_leads_to_every_pass() -> None:
    """Each pass is in a room that the walk describes; the walk fits on two pages."""
    text = (DOCS / "architecture.md").read_text()
    paths = [path for name, path in REGISTRY.items() if name not in FAMILIES]
    rooms = {re.sub(r"attnpass\.(\w+)\..*", r"\1", path) for path in paths}
    assert {room for room in rooms if f"`{room}/`" not in text} == set()
    assert len(text.split()) < 1_300


def test_links(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        if path.startswith("https://"):
            continue
        found = page.parent / path if path else page
        assert found.exists(), link
        # The site has the docs alone.
        assert page.name == "README.md" or DOCS in [found.resolve(), *found.resolve().parents], link
        assert not anchor or anchor in _anchors(found), link


def _anchors(page: Path) -> set[str]:
    """What the headings of a page are called, on the site and on GitHub alike."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    heads = re.findall(r"^#+ (.*)", text, re.M)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower()) for head in heads}


def test_the_site_has_every_page() -> None:
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in PAGES[1:])


def test_pages_for_users_are_short() -> None:
    """Beside the list of passes, which is as long as there are."""
    guide = "".join(page.read_text() for page in PAGES if page.parent.name != "notes")
    guide = re.sub("<!-- passes -->.*<!-- end of passes -->", "", guide, flags=re.S)
    assert len(re.findall(r"\S*\w\S*", guide)) < 11_310, (
        "measurements, and what was tried, stand in docs/notes"
    )


def test_the_list_has_every_pass() -> None:
    listed = re.findall(
        r"^\| (?:- )?`(attn-[a-z0-9-]+)` \|", (DOCS / "passes.md").read_text(), re.M
    )
    assert sorted(set(listed)) == pass_names()


def test_flags_of_iree() -> None:
    """IREE's flags, in commands and elsewhere, are those of its commands."""
    texts = [page.read_text() for page in PAGES if page.parent.name != "notes"]
    given = set(re.findall(r"--((?:iree|task)[\w-]*\w)", "".join(texts)))
    known = _output("iree-compile", "--help-hidden") + _output("iree-run-module", "--help")
    assert {flag for flag in given if flag not in known} == set()


def test_the_readmes_commands(clone: Path) -> None:
    blocks = _blocks(ROOT / "README.md", "sh")
    commands = [block for block in blocks if not block.startswith(("pip", "make"))]
    assert len(commands) == len(blocks) - 2
    done = _run("bash", "-e", "-c", "\n".join(commands), cwd=clone)
    assert done.returncode == 0, done.stderr
    assert "docs/layer.mlir:29:13" in done.stderr
    assert (clone / "page.html").exists()
    assert "result[0]: hal.buffer_view" in done.stdout
    assert "remark: value absorbed" in done.stderr


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("README.md", "attention at docs/layer.mlir:29:13"),
        ("docs/getting-started.md", "(8, 256, 64)"),
        ("docs/cookbook.md", "docs/layer.mlir:29:13 value kept"),
    ],
)
def test_python(name: str, printed: str, clone: Path) -> None:
    """Each block of a page runs by itself."""
    text = ""
    for block in _blocks(ROOT / name, "python"):
        done = _run(sys.executable, "-c", block, cwd=clone)
        assert done.returncode == 0, done.stderr
        text += done.stdout
    assert printed in text


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with what the examples read."""
    (tmp_path / "docs").mkdir()
    shutil.copy(DOCS / "layer.mlir", tmp_path / "docs")
    return tmp_path


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)


def _run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Runs a command with this environment's commands, and this package, first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120)


def _output(*command: str) -> str:
    return _run(*command).stdout
