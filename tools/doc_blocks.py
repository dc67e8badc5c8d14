"""Generated parts of the docs: tables from measured numbers, between two marks in a page."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS, RESULTS = ROOT / "docs", ROOT / "tools" / "results"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; the first column is text, the others are set to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)


def text_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table of text."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)


def write_block(page: str, name: str, text: str) -> None:
    """Puts `text` between the marks called `name` in docs/<page>."""
    path = DOCS / page
    old = path.read_text()
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    head, found, rest = old.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{path}: has no block '{name}'")
    path.write_text(head + begin + text.rstrip() + "\n" + end + tail)


def machine() -> dict[str, Any]:
    """What numbers were measured on."""
    names = [
        line.partition(":")[2].strip()
        for line in _lines("/proc/cpuinfo")
        if line.startswith("model name")
    ]
    return {
        "machine": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        # The runtime's, which is all that a machine to measure on needs.
        "iree": version("iree-base-runtime"),
    }


def size(count: int | None) -> str:
    """Bytes for a reader."""
    if count is None:
        return "?"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []
