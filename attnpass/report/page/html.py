"""HTML from Python: text is escaped, elements are not escaped again."""

from __future__ import annotations

import html

# Elements that have no content.
_VOID = ("meta", "rect")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(text: str) -> Html:
    """Text for a page; control characters, which no page may hold, as they are written in C."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
    return Html(html.escape(shown))


def el(name: str, /, *children: str, **attributes: str | int | bool | None) -> Html:
    """An element. Attributes are spelled with `_` for `-`, and with one behind where Python has a
    word of that name (`class_`); those that are None or False are left out, True has no value."""
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.removesuffix("_").replace("_", "-")
        words.append(word if value is True else f'{word}="{escaped(str(value))}"')
    if name in _VOID:
        return Html(f"<{' '.join(words)} />")
    return Html(f"<{' '.join(words)}>{join(*children)}</{name}>")


def join(*children: str) -> Html:
    """Elements and text, one behind the other."""
    return Html("".join(one if isinstance(one, Html) else escaped(one) for one in children))
