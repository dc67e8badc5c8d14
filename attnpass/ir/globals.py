"""Globals of a module: what they are called, of which type they are, and new ones, with what loads
them, stores in them and fills them at the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from .builder import Builder
from .regions import fill_region

GLOBAL, LOAD, STORE = "util.global", "util.global.load", "util.global.store"
INITIALIZER = "util.initializer"


def global_of(op: ir.Operation) -> str:
    """The name of the global that an op loads, or stores in."""
    return ir.FlatSymbolRefAttr(op.attributes["global"]).value


def global_type(op: ir.Operation) -> ir.Type:
    """The type of what a global holds."""
    return ir.TypeAttr(op.attributes["type"]).value


def declare_global(
    build: Builder,
    name: str,
    kind: ir.Type,
    *,
    visibility: str = "private",
    mutable: bool = True,
    initial: ir.Attribute | None = None,
) -> None:
    attributes: dict[str, ir.Attribute] = {
        "sym_name": build.string(name),
        "sym_visibility": build.string(visibility),
        "type": ir.TypeAttr.get(kind),
    }
    attributes |= {"is_mutable": ir.UnitAttr.get(kind.context)} if mutable else {}
    attributes |= {} if initial is None else {"initial_value": initial}
    build.create(GLOBAL, [], [], attributes)


def load_global(build: Builder, name: str, kind: ir.Type) -> ir.Value:
    return build.create(LOAD, [kind], [], {"global": _symbol(build, name)}).results[0]


def store_global(build: Builder, name: str, value: ir.Value) -> None:
    build.create(STORE, [], [value], {"global": _symbol(build, name)})


def initialize(build: Builder, fill: Callable[[Builder], None]) -> None:
    """What `fill` makes runs when the module is loaded."""
    nothing = ir.TypeAttr.get(ir.FunctionType.get([], [], build.anchor.context))
    op = build.create(INITIALIZER, [], [], {"function_type": nothing}, regions=1)

    def body(inner: Builder, _: Sequence[ir.Value]) -> list[ir.Value]:
        fill(inner)
        return []

    fill_region(op, [], "util.return", body)


def _symbol(build: Builder, name: str) -> ir.Attribute:
    return ir.FlatSymbolRefAttr.get(name, build.anchor.context)
