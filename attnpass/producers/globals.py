"""Variables of globals: what a private `util.global` holds, for all its loads and stores."""

from __future__ import annotations

from iree.compiler import ir

from . import Refusal
from .symbols import Symbols
from .variables import Variable, owner_of


def loaded(value: ir.Value, symbols: Symbols) -> Variable | Refusal:
    """A load of a global."""
    load = owner_of(value)
    symbol = symbols.used_by(load)
    if symbol is None:
        return Refusal("it is loaded from a global unknown here", load)
    return Refusal(f"it is loaded from {symbol.name}", load)
