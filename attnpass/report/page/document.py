"""The page: what was gained, the layers, the steps, and what could be changed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import PurePath

from ..advice import advice_of
from ..entries import AttentionRecord, OperandRecord, Record, StepRecord
from ..gains import Gains, counted, gains_of, size_words, time_words
from ..groups import LayerGroup, layer_groups, places_of, record_groups, stretch, without_places
from ..ops import located
from ..profile import Profile
from ..records import Report
from ..text import tensor_words
from ..words import EVENTS, NOT_DONE
from .drawing import HUES, lane, prices, strip
from .html import Html, el, escaped, join

# Groups that are drawn; of others only the name and what was decided are there.
_DRAWN = 40
_PLACES = 100
_GOOD = ("absorbed", "folded", "kernel", "split")
# Nothing is fetched, whatever a report holds.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(report: Report, profile: Profile | None = None) -> str:
    """The whole page, as HTML that needs no other file."""
    title = f"{_input_of(report)}: what attnpass did"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", title),
        el("style", Html(_file("page.css"))),
    )
    sections = [
        _warnings(report),
        _gains(report, profile),
        _layers(report),
        _measured(profile),
        _steps(report.steps),
        _ops(report),
        _changes(report),
    ]
    body = el(
        "body",
        el("a", "Skip to the report", href="#main", class_="skip"),
        _header(report, sections),
        el("main", *sections, id="main", tabindex=-1),
        el("footer", el("p", f"attnpass report, version {report.version} of its form")),
        el("script", Html(_file("page.js"))),
    )
    return f"<!doctype html>\n{_short_paths(el('html', head, body, lang='en'), report)}\n"


def _short_paths(text: str, report: Report) -> str:
    """The page with files called by their names alone, where that tells them apart."""
    paths = {path for path in _files_of(report) if "/" in path}
    for path in sorted(paths, key=len, reverse=True):
        name = PurePath(path).name
        if [PurePath(other).name for other in paths].count(name) == 1:
            text = text.replace(escaped(f"{path}:"), escaped(f"{name}:"))
    return text


def _file(name: str) -> str:
    return files("attnpass.report.page").joinpath(name).read_text(encoding="utf-8")


def _files_of(report: Report) -> list[str]:
    """The files that a report names places in, the first first."""
    places = [one.location for one in report.attentions]
    places += [place.location for record in report.records for place in record.op.places]
    return list(dict.fromkeys(one.rsplit(":", 2)[0] for one in places if one.count(":") >= 2))


def _input_of(report: Report) -> str:
    """The name of the file that was compiled, as far as a report tells."""
    return PurePath(next(iter(_files_of(report)), "module")).name


_SECTIONS = {
    "warnings": "Warnings",
    "gains": "Gained",
    "layers": "Layers",
    "measured": "Measured",
    "steps": "Steps",
    "ops": "Other ops",
    "changes": "Not done",
}


def _header(report: Report, sections: Sequence[Html]) -> Html:
    facts = [report.target, report.mode and f"mode {report.mode}", report.level]
    there = [key for key in _SECTIONS if any(f'id="{key}"' in one[:60] for one in sections)]
    links = [el("li", el("a", _SECTIONS[key], href=f"#{key}")) for key in there]
    count = len(report.attentions)
    facts.insert(0, f"{count} attention op{'' if count == 1 else 's'}")
    return el(
        "header",
        el(
            "div",
            el("p", "attnpass", class_="brand"),
            el("button", "Theme: as the system", type="button", id="theme", hidden=True),
            class_="top",
        ),
        el("h1", _input_of(report)),
        el("p", " · ".join(fact for fact in facts if fact), class_="facts"),
        el("nav", el("ul", *links), aria_label="Sections"),
    )


def _section(key: str, heading: str, *children: str) -> Html:
    title = el("h2", heading, id=f"{key}-title")
    return el("section", title, *children, id=key, aria_labelledby=f"{key}-title")


def _warnings(report: Report) -> Html:
    if not report.events:
        return Html("")
    lines = [
        el("li", el("b", event.kind), " ", event.reason, *_at(event.location))
        for event in report.events
    ]
    return _section("warnings", "Warnings", el("ul", *lines, class_="alerts"))


def _at(location: str) -> list[Html]:
    return [el("code", location)] if location else []


def _gains(report: Report, profile: Profile | None) -> Html:
    gains = gains_of(report)
    cards = [_dispatches(report, gains)]
    less = "less" if gains.bytes >= 0 else "more"
    moved = size_words(abs(gains.bytes)) if gains.bytes else "as before"
    cards.append(_card("Bytes moved a call", moved, f"{less} than without" if gains.bytes else ""))
    count = len(report.attentions)
    cards.append(_card("Attention that reads V^T", f"{gains.transposed} of {count}", ""))
    if profile and profile.before and profile.after:
        ratio = profile.before / profile.after
        faster = f"was {time_words(profile.before)}: {ratio:.2f} times as fast"
        cards.append(_card("Measured a call", time_words(profile.after), faster))
    done = [
        el("li", el("b", str(number)), counted(number, words).removeprefix(str(number)))
        for words, number in gains.done.items()
    ]
    rest = el("ul", *done, class_="done") if done else Html("")
    return _section("gains", "What was gained", el("dl", *cards, class_="cards"), rest)


def _dispatches(report: Report, gains: Gains) -> Html:
    saved, after = gains.dispatches, report.dispatches
    words = f"{abs(saved)} {'fewer' if saved > 0 else 'more'}" if saved else "as before"
    if after is None:
        return _card("Dispatches a call", words, "")
    bars = _bars(after + saved, after) if saved else Html("")
    below = f"{words}; {after + saved} without" if saved else words
    return _card("Dispatches a call", str(after), below, bars)


def _bars(before: int, after: int) -> Html:
    most = max(before, after, 1)
    rects = [
        el("rect", x=0, y=y, width=f"{100 * number / most:.1f}", height=5, class_=name)
        for y, number, name in ((0, before, "was"), (7, after, "is"))
    ]
    return el("svg", *rects, class_="bars", viewBox="0 0 100 12", preserveAspectRatio="none",
              aria_hidden="true")  # fmt: skip


def _card(name: str, value: str, below: str, drawing: str = Html("")) -> Html:
    return el("div", el("dt", name), el("dd", el("b", value), el("small", below), drawing))


def _layers(report: Report) -> Html:
    groups = layer_groups(report)
    if not groups:
        return _section("layers", "Layers", el("p", "No attention op was found."))
    functions: dict[str, list[LayerGroup]] = {}
    for group in groups:
        functions.setdefault(group.first.function, []).append(group)
    parts: list[Html] = []
    for name, members in functions.items():
        parts.append(el("h3", el("code", f"@{name}")) if len(functions) > 1 else Html(""))
        if sum(len(group.attentions) for group in members) > 1:
            parts.append(strip(members))
        for index, group in enumerate(members):
            drawn = len(parts) < 2 * _DRAWN
            parts.append(_group(report, group, index, drawn, is_open=group is groups[0]))
    controls = el("button", "Open all", type="button", id="toggle-all", hidden=True)
    return _section("layers", "The model, as groups of equal layers", controls, *parts)


def _group(report: Report, group: LayerGroup, index: int, drawn: bool, is_open: bool) -> Html:
    first, count = group.first, len(group.attentions)
    chips = [
        el("span", f"{one.operand} {one.decision}", class_=f"chip {_tone(one)}")
        for one in first.operands
        if _is_told_apart(one)
    ]
    name = (group.name or "the only layer").capitalize()
    times = f"{count} times" if count > 1 else "once"
    summary = el(
        "summary",
        el("span", class_=f"swatch hue{index % HUES}", aria_hidden="true"),
        el("h3", name),
        el("span", times, class_="times"),
        el("span", *chips, class_="chips"),
    )
    place = stretch(places_of(group)) if count > 1 else located(first.location, first.number)
    parts = [el("p", f"{first.op} at ", el("code", place), class_="where"), _shapes(first)]
    parts += [_operand(first, one, drawn) for one in first.operands if _is_told_apart(one)]
    parts += [_records_of(report, group), _places(group)]
    return el("details", summary, el("div", *parts, class_="inside"), class_="group", open=is_open)


def _is_told_apart(record: OperandRecord) -> bool:
    """Whether a decision has a part of its own: it changed something, or its chain is known."""
    return bool(record.chain) or _tone(record) != "calm"


def _tone(record: OperandRecord) -> str:
    if record.decision in _GOOD:
        return "good"
    return "warn" if record.decision == "refused" else "calm"


def _shapes(attention: AttentionRecord) -> Html:
    items = [
        el("div", el("dt", name), el("dd", tensor_words(shape, attention.element_types[name])))
        for name, shape in attention.shapes.items()
    ]
    return el("dl", *items, class_="shapes")


def _operand(attention: AttentionRecord, record: OperandRecord, drawn: bool) -> Html:
    chip = el("span", record.decision, class_=f"chip {_tone(record)}")
    parts = [el("h4", record.operand.capitalize(), " ", chip), el("p", _sentence(record.reason))]
    if drawn and record.chain:
        parts.append(lane(attention, record))
    return el("div", *parts, prices(record), class_="operand")


def _sentence(text: str) -> str:
    # Not of k1 and k2, which are names.
    return text if text[1:2].isdigit() else text[:1].upper() + text[1:]


def _records_of(report: Report, group: LayerGroup) -> Html:
    """What else was done to the first attention of a group."""
    place = group.first.location, group.first.number
    found = [
        record
        for record in report.records
        if record.what not in EVENTS
        and any((one.location, one.number) == place for one in record.op.places)
    ]
    lines = [
        el("li", _sentence(without_places(record.said_of(_short(record))))) for record in found
    ]
    return el("div", el("h4", "Also"), el("ul", *lines), class_="also") if lines else Html("")


def _short(record: Record) -> str:
    return "its kernel" if record.op.kind == "kernel" else record.op.kind.replace("_", " ")


def _places(group: LayerGroup) -> Html:
    if len(group.attentions) < 2:
        return Html("")
    places = places_of(group)
    shown = [
        el("li", el("code", str(place)), f" {place.path}" if place.path else "")
        for place in places[:_PLACES]
    ]
    more = len(places) - len(shown)
    rest = el("p", f"and {more} more") if more > 0 else Html("")
    return el("details", el("summary", f"All {len(places)} places"), el("ul", *shown), rest,
              class_="small")  # fmt: skip


def _measured(profile: Profile | None) -> Html:
    if profile is None or not profile.kernels:
        return Html("")
    total = sum(profile.kernels.values()) or 1.0
    ranked = sorted(profile.kernels.items(), key=lambda one: -one[1])
    rows = [
        el(
            "tr",
            el("th", el("code", name), scope="row"),
            el("td", time_words(seconds), class_="number"),
            el("td", f"{100 * seconds / total:.1f} %", class_="number"),
        )
        for name, seconds in ranked[:_DRAWN]
    ]
    head = el("tr", *(el("th", word, scope="col") for word in ("Kernel", "Time", "Share")))
    caption = el("caption", f"{len(ranked)} kernels, {time_words(total)} in all")
    table = el("table", caption, el("thead", head), el("tbody", *rows))
    words = "Measured times of kernels"
    region = el("div", table, class_="scroll", role="region", tabindex=0, aria_label=words)
    return _section("measured", "Measured", region)


def _steps(steps: Sequence[StepRecord]) -> Html:
    if not steps:
        return Html("")
    changed = [step for step in steps if step.changed]
    idle = [
        el("li", el("code", step.name), f" {step.summary}") for step in steps if not step.changed
    ]
    count = f"{len(idle)} step{'' if len(idle) == 1 else 's'} left the module as it was"
    rest = el("details", el("summary", count), el("ul", *idle), class_="small")
    done = f"{len(changed)} of {len(steps)} steps changed the module"
    words = el("p", f"{done}. Open one for what it did to the IR.")
    return _section(
        "steps", "The pipeline's steps", words, *map(_step, changed), rest if idle else Html("")
    )


def _step(step: StepRecord) -> Html:
    counts = [
        el("span", f"+{step.added}", class_="plus", title="lines added"),
        el("span", f"-{step.removed}", class_="minus", title="lines removed"),
    ]
    summary = el(
        "summary",
        el("code", step.name),
        *(counts if step.diff else []),
        el("span", step.summary, class_="why"),
        el("span", "behind ", el("code", step.phase), class_="phase"),
    )
    lines = [el("span", line, class_=_LINES.get(line[:1])) for line in step.diff]
    diff = el("pre", *lines, tabindex=0, role="region", aria_label=f"What {step.name} changed")
    left = step.added + step.removed - sum(line[:1] in "+-" for line in step.diff)
    more = el("p", f"The first lines; {left} more were changed.") if left > 0 else Html("")
    inside = diff if step.diff else el("p", "The module is too large for a diff.")
    return el("details", summary, inside, more, class_="step")


_LINES = {"+": "add", "-": "del", "@": "cut"}


def _ops(report: Report) -> Html:
    """What was done to ops that are no attention, and what is said of the module."""
    places = {(one.location, one.number) for one in report.attentions}
    done = [
        record
        for record in report.records
        if record.what not in (*EVENTS, *NOT_DONE)
        and not any((one.location, one.number) in places for one in record.op.places)
    ]
    lines = [el("li", _sentence(group.text)) for group in record_groups(report, done)]
    return _section("ops", "What was done to other ops", el("ul", *lines)) if lines else Html("")


def _changes(report: Report) -> Html:
    not_done = [record for record in report.records if record.what in NOT_DONE]
    lines = [el("li", _sentence(group.text)) for group in record_groups(report, not_done)]
    advice = [
        el("li", el("b", _sentence(one.what)), join(": ", one.how)) for one in advice_of(report)
    ]
    parts = [el("ul", *lines)] if lines else []
    if advice:
        parts += [el("h3", "What you could change"), el("ul", *advice)]
    if not parts:
        parts = [el("p", "Nothing was left out that a flag could change.")]
    return _section("changes", "What was not done", *parts)
