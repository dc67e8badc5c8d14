"""Values that only name other values: what flows in comes out as it is.

A result of `scf.if` names what its branches yield, a loop's carried value its start and what
the body yields, an argument of a private function what its call sites pass, the load of a
global what was stored. Such aliases and what feeds them are one *carried value*: a demand on one
alias is a demand on every source, and all of them change layout together or not at all. Their
ops are not made anew: operands, results and block arguments change in place.

A kind of carried value is a function from a value to its `CarriedValue` (or a Refusal), named in
`_RESULTS` by the op that makes the value, or in `_ARGUMENTS` by the op that a block argument
belongs to.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass

from iree.compiler import ir

from ...ir import defining_op, is_ranked_tensor, sizes_of
from ..layout import Layout
from . import Refusal
from .symbols import Symbols

# An operand that feeds a carried value.
Source = tuple[ir.Operation, int]


@dataclass(eq=False)
class CarriedValue:
    """`aliases` are the values that read it, all of one type; `sources` the operands that
    define it. Those whose numbers are in `required` must be had in the layout; the others
    may be transposed on their way in, at the price of a copy. `title` comes before the reason
    where it cannot change."""

    aliases: tuple[ir.Value, ...]
    sources: tuple[Source, ...]
    required: frozenset[int] = frozenset()
    title: str = ""

    def check(self, layout: Layout) -> Refusal | None:
        """Why it cannot have this layout, whatever its sources say."""
        return None

    def finalize(self, layout: Layout) -> None:
        """Changes what else tells its type, once aliases and sources have theirs."""

    def layout_of(self, layout: Layout, value: ir.Value) -> Layout | None:
        """`layout`, wanted of an alias, as a layout of `value`, one or a source: the sizes
        of one are not to be seen where the other stands. None where that needs a factor of
        a dynamic size."""
        sizes, own = list(layout.sizes), sizes_of(value)
        for dim, axes in enumerate(layout.dims):
            if len(axes) == 1:
                sizes[axes[0]] = own[dim]
            elif any(not isinstance(sizes[axis], int) for axis in axes):
                return None
        if any(size == 1 for size in sizes):
            return None
        return Layout(tuple(sizes), layout.dims)


# From an alias to its carried value, why it cannot change, or None for a value that is none.
Finder = Callable[[ir.Value, Symbols], CarriedValue | Refusal | None]

_RESULTS = {
    "arith.select": "control_flow:selected",
    "func.call": "functions:call_result",
    "hal.tensor.barrier": "control_flow:passed_on",
    "scf.execute_region": "control_flow:branch_result",
    "scf.for": "control_flow:for_result",
    "scf.if": "control_flow:branch_result",
    "scf.index_switch": "control_flow:branch_result",
    "scf.while": "control_flow:while_result",
    "util.call": "functions:call_result",
    "util.global.load": "globals:loaded",
}
_ARGUMENTS = {
    "func.func": "functions:argument",
    "scf.for": "control_flow:for_argument",
    "scf.while": "control_flow:while_argument",
    "util.func": "functions:argument",
}


class CarriedValues:
    """The carried values of a module, each found once. The module must not change meanwhile."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, CarriedValue | Refusal | None] = {}
        self._symbols = Symbols()

    def of(self, value: ir.Value) -> CarriedValue | Refusal | None:
        """What `value` is an alias of, why it cannot change, or None where it is none."""
        if value not in self._known:
            found = self._find(value)
            aliases = found.aliases if isinstance(found, CarriedValue) else (value,)
            self._known.update(dict.fromkeys(aliases, found))
        return self._known[value]

    def _find(self, value: ir.Value) -> CarriedValue | Refusal | None:
        op = defining_op(value)
        table = _RESULTS if op is not None else _ARGUMENTS
        path = table.get(owner_of(value).name)
        if path is None or not is_ranked_tensor(value):
            return None
        return _load(path)(value, self._symbols)


def owner_of(value: ir.Value) -> ir.Operation:
    """The op that has `value` as a result or as an argument of a block."""
    return defining_op(value) or ir.BlockArgument(value).owner.owner.operation


@functools.cache
def _load(path: str) -> Finder:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(f"attnpass.layout.rules.{module}"), name)
