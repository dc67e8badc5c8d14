"""Generated parts of the docs: tables between two marks in a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bench.results import ROOT

DOCS = ROOT / "docs"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], align: str = "---:") -> str:
    """A Markdown table; the first column is text, the others are set to the right."""
    lines = [head, ["---", *[align] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)


def text_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table of text."""
    return table(head, rows, "---")


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
