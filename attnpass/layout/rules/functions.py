"""CarriedValues of functions: arguments and results of a private function with known callers."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from ...ir import set_function_type, terminator
from ..layout import Layout
from . import Refusal
from .carried_values import CarriedValue, owner_of
from .control_flow import block_argument
from .symbols import Symbol, Symbols

_RETURNS = ("func.return", "util.return")


@dataclass(eq=False)
class Signature(CarriedValue):
    """A carried value that stands in the signature of `function`."""

    function: ir.Operation | None = None

    def finalize(self, layout: Layout) -> None:
        assert self.function is not None
        set_function_type(self.function, returns_of(self.function))


def argument(value: ir.Value, symbols: Symbols) -> CarriedValue | Refusal:
    """An argument of a function: fed by every call; of a later block: by the branches to it."""
    function, place = owner_of(value), ir.BlockArgument(value)
    if place.owner != function.regions[0].blocks[0]:
        return block_argument(value)
    symbol = symbols.defined_by(function)
    why = _why_fixed(symbol)
    if why:
        return Refusal(
            f"it is an argument of {symbol.name}, which {why} and keeps its signature",
            None,
            "handed-in",
        )
    sources = tuple((call, place.arg_number) for call in symbol.uses)
    # A copy for one call is not offered: IREE 3.13 does not compile a function to which one
    # call passes what came from outside and another what was computed here.
    return Signature((value,), sources, frozenset(range(len(sources))), function=function)


def call_result(value: ir.Value, symbols: Symbols) -> CarriedValue | Refusal:
    """A result of a call: every call of the function names what the function returns."""
    call = owner_of(value)
    symbol = symbols.used_by(call)
    if symbol is None:
        return Refusal("it is what a function unknown here returns", call)
    why = _why_fixed(symbol)
    if why:
        return Refusal(
            f"it is what {symbol.name} returns, which {why} and keeps its signature", call
        )
    number = list(call.results).index(value)
    aliases = tuple(use.results[number] for use in symbol.uses)
    sources = tuple((end, number) for end in returns_of(symbol.op))
    return Signature(aliases, sources, function=symbol.op)


def _why_fixed(symbol: Symbol) -> str:
    if symbol.fixed:
        return symbol.fixed
    if not len(symbol.op.regions[0].blocks):
        return "is defined elsewhere"
    if not symbol.uses:
        return "is never called"
    if any(ties(op) for op in (symbol.op, *symbol.uses)):
        return "ties a result to an argument"
    return ""


def returns_of(function: ir.Operation) -> list[ir.Operation]:
    """The ops that a function returns by."""
    ends = [terminator(block) for block in function.regions[0].blocks]
    return [end for end in ends if end.name in _RETURNS]


def ties(op: ir.Operation) -> bool:
    """Whether a function or a call writes a result over one of its arguments."""
    if "tied_operands" not in op.attributes:
        return False
    tied = ir.ArrayAttr(op.attributes["tied_operands"])
    return any(ir.IntegerAttr(number).value >= 0 for number in tied)
