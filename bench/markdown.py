"""Generated parts of the docs: tables between two marks in a page, plots as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.results import ROOT

DOCS = ROOT / "docs"
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")
WIDTH, LEFT, STEP = 800, 300, 16


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


def ratios_plot(title: str, ratios: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> str:
    """SVG: a line for each case, with a dot for each name's ratio on a logarithmic axis."""

    def place(ratio: float) -> float:
        return LEFT + (math.log10(ratio) + 1) / 3.5 * (WIDTH - LEFT - 20)

    height = 90 + STEP * len(ratios)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text("60", "30", title),
    ]
    for tick in (0.1, 0.3, 1, 3, 10, 30, 100, 300):
        x, color = place(tick), "black" if tick == 1 else "#ddd"
        parts.append(f'<path d="M{x:.1f},60 V{height - 20}" stroke="{color}"/>')
        parts.append(_text(f"{x - 8:.1f}", "54", f"{tick:g}"))
    for i, (case, row) in enumerate(ratios.items()):
        y = 74 + STEP * i
        parts.append(_text("10", str(y + 4), case))
        for name, ratio in row.items():
            color = COLORS[names.index(name)]
            parts.append(f'<circle cx="{place(ratio):.1f}" cy="{y}" r="4" fill="{color}"/>')
    for i, name in enumerate(names):
        parts.append(_text(str(LEFT + 80 * i), str(height - 4), name, COLORS[i]))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _text(x: str, y: str, words: str, color: str = "black") -> str:
    return f'<text x="{x}" y="{y}" font-size="12" fill="{color}">{words}</text>'
