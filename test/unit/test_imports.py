"""Imports run one way: a room imports only from rooms below it, also inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "attnpass"
# From the bottom up; rooms of one line may import one another.
ROOMS = (
    ("errors",),
    ("plugins",),
    ("ir",),
    ("report",),
    ("analysis",),
    ("attention",),
    ("machines",),
    ("passes",),
    ("kernels",),
    ("forms", "layout", "raising", "split_k", "repair", "gpu", "cpu", "configure"),
    ("runner", "phases", "pipeline"),
    ("driver",),
    ("tuning", "verify", "program"),
    ("cli", "torch", "onnx", "jax"),
)
LEVELS = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
# Compiles an attention kernel alone, as a user would, to ask ptxas about it.
EXCEPTIONS = {("machines/nvidia/ptxas.py", "driver")}


def test_every_room_has_its_place() -> None:
    found = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or _is_room(path)}
    assert found - {"__init__"} == set(LEVELS)


def test_imports_run_one_way() -> None:
    upwards = {
        (str(path.relative_to(ROOT)), room)
        for path in sorted(ROOT.rglob("*.py"))
        for room in _imported(path)
        if path.parent != ROOT or path.stem in LEVELS
        if LEVELS[room] > LEVELS[_room(path)]
    }
    assert upwards == EXCEPTIONS


def _is_room(path: Path) -> bool:
    return (path / "__init__.py").exists()


def _room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def _imported(path: Path) -> Iterator[str]:
    """The rooms that a file imports from at run time; what only types name is no dependency."""
    package = ("attnpass", *path.relative_to(ROOT).parent.parts)
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            names = (*base, *(node.module or "").split(".")) if node.module else base
            for alias in node.names:
                room = [*names, alias.name][1]
                if room in LEVELS:
                    yield room


def test_a_class_name_has_one_meaning() -> None:
    found: dict[str, str] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                name = node.name.lstrip("_")
                assert name not in found, f"{name} is a class of {path} and of {found[name]}"
                found[name] = str(path)
