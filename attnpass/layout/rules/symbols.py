"""Who uses the symbols of a module: call sites of functions, accesses of globals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from iree.compiler import ir

from ...ir import module_of, walk

# The attribute by which an op of this kind names the one symbol that it is about.
_ABOUT = {
    "func.call": "callee",
    "util.call": "callee",
    "util.global.load": "global",
    "util.global.store": "global",
}
# Ops that name no symbol, by dialect: a walk that looks at their attributes takes long.
_WITHOUT_SYMBOLS = ("linalg.", "tensor.", "arith.", "iree_linalg_ext.", "math.")


@dataclass
class Symbol:
    """An op that defines a symbol, and the calls, loads and stores that are about it."""

    op: ir.Operation
    uses: list[ir.Operation] = field(default_factory=list)
    # What keeps its type from changing, as in `which <fixed>`; empty where nothing does.
    fixed: str = ""

    @property
    def name(self) -> str:
        """`@name`."""
        return "@" + ir.StringAttr(self.op.attributes["sym_name"]).value


class Symbols:
    """The symbols of a module. It is walked at the first question, and must not change."""

    def __init__(self) -> None:
        self._found: dict[str, Symbol] | None = None

    def defined_by(self, op: ir.Operation) -> Symbol:
        """The symbol that a function or a global defines."""
        return self._table(op)[_name(op.attributes["sym_name"])]

    def used_by(self, op: ir.Operation) -> Symbol | None:
        """The symbol that a call, a load or a store is about."""
        return self._table(op).get(_name(op.attributes[_ABOUT[op.name]]))

    def _table(self, op: ir.Operation) -> dict[str, Symbol]:
        if self._found is None:
            self._found = _symbols(module_of(op))
        return self._found


def _symbols(root: ir.Operation) -> dict[str, Symbol]:
    found: dict[str, Symbol] = {}
    uses: list[tuple[str, ir.Operation]] = []
    others: dict[str, str] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = op.name
        if name.startswith(_WITHOUT_SYMBOLS):
            return ir.WalkResult.SKIP
        attributes = op.attributes
        if "sym_name" in attributes:
            symbol = Symbol(op, fixed=_why_fixed(op))
            symbol = found.setdefault(_name(attributes["sym_name"]), symbol)
            if symbol.op != op:
                symbol.fixed = "shares its name with another symbol"
        if name in _ABOUT:
            uses.append((_name(attributes[_ABOUT[name]]), op))
        elif name != "util.global":
            values = (attributes[key] for key in attributes)
            others.update((word, name) for value in values for word in _references(value))
        return ir.WalkResult.ADVANCE

    walk(root, visit)
    for word, op in uses:
        if word in found:
            found[word].uses.append(op)
    for word, name in others.items():
        if word in found and not found[word].fixed:
            found[word].fixed = f"is named by {name}"
    return found


def _why_fixed(op: ir.Operation) -> str:
    attributes = op.attributes
    visibility = "sym_visibility"
    if visibility not in attributes or _name(attributes[visibility]) != "private":
        return "is public"
    return ""


def _references(attribute: ir.Attribute) -> Iterator[str]:
    """The names of the symbols that an attribute refers to."""
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        yield attribute.value
    elif isinstance(attribute, ir.SymbolRefAttr):
        yield from attribute.value
    elif isinstance(attribute, ir.ArrayAttr):
        for element in attribute:
            yield from _references(element)
    elif isinstance(attribute, ir.DictAttr):
        for named in attribute:
            yield from _references(named.attr)


def _name(attribute: ir.Attribute) -> str:
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        return attribute.value
    return ir.StringAttr(attribute).value
