"""The recipes of docs/doors.md, as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[3] / "docs/doors.md").read_text()
RECIPES = {
    f"{title} {number}": code
    for title, section in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", section, re.M | re.S), 1)
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = RECIPES[name]
    front_end = re.search(r"^import (torch|onnx|jax)$", code, re.M)
    assert front_end
    pytest.importorskip(front_end[1], reason=f"the recipe {name} is not run: no {front_end[1]}")
    if 'backend="attnpass"' in code:
        _register()
    monkeypatch.chdir(tmp_path)
    exec(compile(code, f"docs/doors.md: {name}", "exec"), {})


def _register() -> None:
    """What the entry point of an installed attnpass does."""
    import torch

    from attnpass.torch.dynamo import backend

    if "attnpass" not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(backend, name="attnpass")
