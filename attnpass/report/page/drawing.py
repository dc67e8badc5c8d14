"""What the page draws: the strip of layers, and the chain of producers of an operand."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..entries import AttentionRecord, Link, OperandRecord, PricedLayout
from ..gains import size_words, time_words
from ..groups import LayerGroup
from .html import Html, el, join

# Colours of groups, before they repeat; page.css has as many.
HUES = 6
# Of more layers than this only runs of equal ones are drawn.
_DRAWN_APART = 96
_WIDTH = 960
_FATES = {
    "stays": "",
    "goes": "gone",
    "changes": "in the new order",
    "absorbs": "absorbs the change",
    "fuses": "fused into the product",
}


def strip(groups: Sequence[LayerGroup]) -> Html:
    """The attention ops of one function in their order, each in the colour of its group."""
    owner = {number: index for index, group in enumerate(groups) for number in group.numbers}
    count = len(owner)
    runs: list[list[int]] = []
    for number in range(count):
        apart = count <= _DRAWN_APART
        if apart or not runs or owner[runs[-1][0]] != owner[number]:
            runs.append([number, number])
        runs[-1][1] = number
    unit = _WIDTH / count
    gap = min(2.0, unit / 5)
    rects = [
        el(
            "rect",
            x=f"{first * unit:.2f}",
            y=0,
            width=f"{max((last - first + 1) * unit - gap, 0.5):.2f}",
            height=28,
            class_=f"hue{owner[first] % HUES}",
        )
        for first, last in runs
    ]
    words = "; ".join(
        f"{group.name or 'one layer'}: group {i + 1}" for i, group in enumerate(groups)
    )
    return el(
        "svg",
        *rects,
        class_="strip",
        viewBox=f"0 0 {_WIDTH} 28",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{count} attention ops in order: {words}",
    )


def lane(attention: AttentionRecord, record: OperandRecord) -> Html:
    """The producers of an operand from left to right as far as attention, before and after."""
    links = record.chain[::-1]
    same = all(link.fate == "stays" for link in links) and record.map_before == record.map_after
    before, after = (_order(attention, text) for text in (record.map_before, record.map_after))
    columns = [_column(link, same) for link in links]
    columns.append(_reads(before, after, same))
    labels = (
        ""
        if same
        else el(
            "li", el("span", "before"), el("span", "after"), class_="labels", aria_hidden="true"
        )
    )
    return el(
        "div",
        el("ol", labels or Html(""), *columns, class_="lane same" if same else "lane"),
        class_="scroll",
        role="region",
        tabindex=0,
        aria_label=f"Producers of the {record.operand}, from the first to attention",
    )


def _column(link: Link, same: bool) -> Html:
    node = _node(link.op, link.before, "both" if same else "before", link.location)
    if same:
        return el("li", node)
    if link.fate == "goes":
        gone = el("span", el("span", "gone", class_="hidden"), el("i"), class_="node gone")
        return el("li", node, gone, class_="goes")
    fate = _FATES[link.fate]
    if link.fate == "changes" and _elements(link.before) != _elements(link.after):
        fate = "without repeats"
    after = _node(link.op, link.after, "after", "", fate)
    return el("li", node, after, class_=link.fate)


def _node(name: str, shape: str, when: str, location: str, fate: str = "") -> Html:
    line = location.rsplit(":", 2)[1] if location.count(":") >= 2 else ""
    below = fate or (f"line {line}" if line else "")
    return el(
        "span",
        el("span", f"{when}: ", class_="hidden") if when != "both" else Html(""),
        el("b", name),
        el("code", _breakable(shape)),
        el("small", below) if below else Html(""),
        class_=f"node {when}",
        title=location or None,
    )


def _elements(shape: str) -> int:
    """How many elements a tensor has, as far as its sizes are known."""
    return math.prod(int(size) for size in shape.split("x")[:-1] if size.isdigit())


def _breakable(shape: str) -> Html:
    """A tensor's type that breaks between its sizes alone, if it must."""
    *sizes, element = shape.split("x")
    return join(*(join(f"{size}x", Html("<wbr>")) for size in sizes), element)


def _reads(before: str, after: str, same: bool) -> Html:
    def end(order: str, when: str) -> Html:
        hidden = el("span", f"{when}: ", class_="hidden") if when != "both" else Html("")
        return el("span", hidden, el("b", "attention reads"), el("code", order), class_="node end")

    ends = [end(before, "both")] if same else [end(before, "before"), end(after, "after")]
    return el("li", *ends, class_="reads")


def _order(attention: AttentionRecord, text: str) -> str:
    """A map in the names of attention's dims: `batch, k2, n` for `(d0, d5, d3)`."""
    roles = _roles(attention)
    names = [word.strip() for word in text.strip("()").split(",") if word.strip()]
    return ", ".join(roles.get(name, name) for name in names) or "a scalar"


def _roles(attention: AttentionRecord) -> dict[str, str]:
    """What attention's dims are, as far as Q, K and V tell."""
    maps: dict[str, set[str]] = {}
    for record in attention.operands:
        words = record.map_before.strip("()").split(",")
        maps.setdefault(record.operand, {word.strip() for word in words})
    if not {"query", "key", "value"} <= maps.keys():
        return {}
    q, k, v = (maps[name] for name in ("query", "key", "value"))
    found = dict.fromkeys(q & k & v, "batch") | dict.fromkeys((q & k) - v, "k1")
    found |= dict.fromkeys((k & v) - q, "k2") | dict.fromkeys(v - q - k, "n")
    return found | dict.fromkeys(q - k - v, "m") | dict.fromkeys((q & v) - k, "batch")


def prices(record: OperandRecord) -> Html:
    """The layouts that were priced for an operand, with the one that was taken."""
    if len(record.alternatives) < 2:
        return Html("")
    head = el("tr", *(el("th", name, scope="col") for name in _COLUMNS))
    rows = [_price(one) for one in record.alternatives]
    caption = el("caption", f"What was priced for the {record.operand}")
    table = el("table", caption, el("thead", head), el("tbody", *rows))
    return el(
        "div",
        table,
        class_="scroll",
        role="region",
        tabindex=0,
        aria_label=f"Prices of layouts of the {record.operand}",
    )


_COLUMNS = ("Layout", "Dispatches", "Bytes moved", "Worth to attention", "In all")


def _price(one: PricedLayout) -> Html:
    name = join(one.layout, el("span", "taken", class_="chip good")) if one.taken else one.layout
    first = el("th", name, scope="row")
    kind = "taken" if one.taken else None
    if one.refusal:
        return el("tr", first, el("td", f"cannot be: {one.refusal}", colspan=4), class_=kind)
    cells = (
        "" if one.launches is None else f"{one.launches:+d}" if one.launches else "0",
        "" if one.bytes is None else _signed(one.bytes),
        "unknown" if one.worth is None else _gain(-one.worth),
        "unknown" if one.seconds is None else _gain(one.seconds),
    )
    return el("tr", first, *(el("td", cell, class_="number") for cell in cells), class_=kind)


def _signed(size: int) -> str:
    return "0" if not size else f"{'+' if size > 0 else '-'}{size_words(abs(size))}"


def _gain(seconds: float) -> str:
    """Seconds that a layout costs (negative: gains), in words."""
    if not seconds:
        return "0"
    return f"{'costs' if seconds > 0 else 'gains'} {time_words(abs(seconds))}"
