"""CarriedValues of globals: what a private `util.global` holds, for all its loads and stores.

An initial value is transposed here, at compile time. What a parameter file holds cannot be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from iree.compiler import ir

from ...ir import printed
from ...ir.constants import elements_of
from ..layout import Layout
from . import Refusal
from .carried_values import CarriedValue, owner_of
from .constant import in_layout
from .symbols import Symbols

_INITIAL = "initial_value"


@dataclass(eq=False)
class Global(CarriedValue):
    """What `holder` holds: its loads are the aliases, what is stored are the sources."""

    holder: ir.Operation | None = None

    def check(self, layout: Layout) -> Refusal | None:
        assert self.holder is not None
        initial = _initial_text(self.holder)
        if parameter := printed.parameter(initial):
            order = ", ".join(f"d{dim}" for dim in _order(layout))
            reason = f"the parameter {parameter} would have to be stored in the order ({order})"
            return Refusal(reason, self.holder)
        if not initial or printed.is_uninitialized(initial):
            return None
        elements = elements_of(self.holder)
        return replace(elements, op=self.holder) if isinstance(elements, Refusal) else None

    def finalize(self, layout: Layout) -> None:
        holder = self.holder
        assert holder is not None
        kind = ir.RankedTensorType(self.aliases[0].type)
        initial = _initial_text(holder)
        if printed.is_uninitialized(initial):
            holder.attributes[_INITIAL] = printed.uninitialized(kind)
        elif initial:
            elements = elements_of(holder)
            assert not isinstance(elements, Refusal)
            holder.attributes[_INITIAL] = in_layout(elements, layout, kind)
        holder.attributes["type"] = ir.TypeAttr.get(kind)


def loaded(value: ir.Value, symbols: Symbols) -> CarriedValue | Refusal:
    """A load of a global."""
    load = owner_of(value)
    symbol = symbols.used_by(load)
    if symbol is None:
        return Refusal("it is loaded from a global unknown here", load, "handed-in")
    if symbol.fixed:
        reason = f"it is loaded from {symbol.name}, which {symbol.fixed}"
        return Refusal(reason, load, "handed-in")
    aliases = tuple(use.results[0] for use in symbol.uses if len(use.results))
    sources = tuple((use, 0) for use in symbol.uses if not len(use.results))
    title = f"it is loaded from {symbol.name}: "
    return Global(aliases, sources, title=title, holder=symbol.op)


def _initial_text(holder: ir.Operation) -> str:
    """The initial value as text, cut where it is long: its kind is what counts."""
    attributes = holder.attributes
    if _INITIAL not in attributes:
        return ""
    value = attributes[_INITIAL]
    return "dense<" if isinstance(value, ir.DenseElementsAttr) else str(value)


def _order(layout: Layout) -> list[int]:
    """The dims of the value in the order wanted; a dim of several axes comes several times."""
    owners = {axis: dim for dim, axes in enumerate(layout.dims) for axis in axes}
    return [owners[axis] for axis in range(layout.rank)]
