"""Imports run one way: a room imports only from rooms below it, also inside functions."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2] / "attnpass"
# From the bottom up, as docs/architecture.md has them.
ROOMS = (
    "errors",
    "plugins",
    "ir",
    "report",
    "analysis",
    "attention",
    "machines",
    "passes",
    "families",
    "kernels",
    "codegen",
    "layout",
    "forms",
    "repair",
    "raising",
    "split_k",
    "cpu",
    "gpu",
    "configure",
    "runner",
    "phases",
    "pipeline",
    "driver",
    "program",
    "tuning",
    "verify",
    "torch",
    "onnx",
    "jax",
    "cli",
)
LEVELS = {room: level for level, room in enumerate(ROOMS)}


def test_every_room_has_its_place() -> None:
    found = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or _is_room(path)}
    assert found - {"__init__"} == set(LEVELS)


def test_the_walk_has_the_rooms_in_this_order() -> None:
    text = (ROOT.parent / "docs" / "architecture.md").read_text()
    cells = re.findall(r"^\| (`\w+/`.*?) \|", text, re.M)
    listed = [room for cell in cells for room in re.findall(r"`(\w+)/`", cell)]
    assert listed == [room for room in ROOMS if _is_room(ROOT / room)]


def test_imports_run_one_way() -> None:
    upwards = {
        (str(path.relative_to(ROOT)), room)
        for path in sorted(ROOT.rglob("*.py"))
        for room in _imported(path)
        if path.parent != ROOT or path.stem in LEVELS
        if LEVELS[room] > LEVELS[_room(path)]
    }
    assert not upwards


def _is_room(path: Path) -> bool:
    return (path / "__init__.py").exists()


def _room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def _imported(path: Path) -> Iterator[str]:
    """The rooms that a file imports from."""
    package = ("attnpass", *path.relative_to(ROOT).parent.parts)
    for node in _imports(path):
        base = package[: len(package) - node.level + 1]
        names = (*base, *(node.module or "").split(".")) if node.module else base
        for alias in node.names:
            room = [*names, alias.name][1]
            if room in LEVELS:
                yield room


def _imports(path: Path) -> Iterator[ast.ImportFrom]:
    """The imports from ours in a file, those that only types name, too."""
    for node in _nodes(path):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node


@functools.cache
def _nodes(path: Path) -> list[ast.AST]:
    """The syntax of a file, outer nodes first."""
    return list(ast.walk(ast.parse(path.read_text())))


def test_imports_run_in_no_circle() -> None:
    """Also not by way of imports inside functions."""
    files = {_module(path): path for path in ROOT.rglob("*.py")}
    graph = {name: {*_imported_files(path, files)} - {name} for name, path in files.items()}
    TopologicalSorter(graph).prepare()


def _module(path: Path) -> str:
    return (
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").strip(".")
    )


def _imported_files(path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    """The files that a file imports from."""
    package = path.relative_to(ROOT).parent.parts
    for node in _imports(path):
        base = package[: len(package) - node.level + 1]
        module = ".".join([*base, *(node.module or "").split(".")]).strip(".")
        for alias in node.names:
            inner = f"{module}.{alias.name}".strip(".")
            yield inner if inner in files else module


def test_a_class_name_has_one_meaning() -> None:
    found: dict[str, str] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in _nodes(path):
            if isinstance(node, ast.ClassDef):
                name = node.name.lstrip("_")
                assert name not in found, f"{name} is a class of {path} and of {found[name]}"
                found[name] = str(path)


def test_the_room_of_the_ir_alone_erases_ops() -> None:
    """A handle of an erased op must not be used again: `ir/rewrite.py` says when that is safe."""
    for path in ROOT.rglob("*.py"):
        erased = [
            node.lineno
            for node in _nodes(path)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "erase"
            and not node.args
        ]
        assert _room(path) == "ir" or not erased, (path, erased)


def test_type_checks_need_no_front_end() -> None:
    """Each module of an optional front end has a stub, by which a fresh machine checks types."""
    stubs = ROOT.parent / "tools" / "typings"
    named = {
        name
        for path in ROOT.rglob("*.py")
        for node in _nodes(path)
        for name in _modules_of(node)
        if name.partition(".")[0] in ("torch", "onnx", "jax")
    }
    places = {name: stubs / name.replace(".", "/") for name in named}
    assert not {
        name
        for name, place in places.items()
        if not place.with_suffix(".pyi").exists() and not (place / "__init__.pyi").exists()
    }


def _modules_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
