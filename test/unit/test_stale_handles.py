"""Passes that go through ops and erase others of them on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from iree.compiler import ir

import attnpass
from attnpass.forms import merge_copies
from attnpass.ir import collect

_COPIES = Path(__file__).parents[1] / "merge-copies" / "copies.mlir"


class _Standing(list[ir.Operation]):
    """Ops under a root that must all stand there still when it is their turn."""

    def __init__(self, root: ir.Operation, found: list[ir.Operation]):
        super().__init__(found)
        self._root = root

    def __iter__(self) -> Iterator[ir.Operation]:
        for op in super().__iter__():
            # Handles are equal that lead to one op; one that was erased must not be read.
            assert op in collect(self._root, lambda _: True), "an op that was erased is visited"
            yield op


def test_copies_whose_readers_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def checked(root: ir.Operation, *rest: Any, **named: Any) -> list[ir.Operation]:
        return _Standing(root, collect(root, *rest, **named))

    monkeypatch.setattr(merge_copies, "collect", checked)
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(_COPIES.read_text())
        attnpass.run(module, "attn-merge-copies")
        assert "_in_place" in str(module)
