"""Mutable globals with a buffer of their own each.

IREE 3.13 makes the initial values of globals as it makes any tensors: those with the same bytes are
computed once, and the globals that hold them begin as one buffer. A program that writes one of them
in place, as caches of K and V are, writes the other too. So each is filled with a number that IREE
cannot tell to be equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from .ir import Builder, collect, fill_region, next_op, remove_attributes

_VALUE = "initial_value"


def separate(module: ir.Operation) -> list[str]:
    """Has each of several mutable globals that begin with a number everywhere begin with one of its
    own; returns their names. Needs a current context."""
    found = collect(module, _begins_with_number, bodies=False)
    if len(found) < 2:
        return []
    for op in found:
        _initialize(op)
    return [ir.StringAttr(op.attributes["sym_name"]).value for op in found]


def _begins_with_number(op: ir.Operation) -> bool:
    if op.name != "util.global" or "is_mutable" not in op.attributes:
        return False
    kind = ir.TypeAttr(op.attributes["type"]).value
    if not isinstance(kind, ir.RankedTensorType) or _VALUE not in op.attributes:
        return False
    value = op.attributes[_VALUE]
    return isinstance(value, ir.DenseElementsAttr) and value.is_splat


def _initialize(op: ir.Operation) -> None:
    """Moves the value of a global into an initializer behind it."""
    context = op.context
    name = ir.StringAttr(op.attributes["sym_name"])
    kind, value = ir.TypeAttr(op.attributes["type"]).value, op.attributes[_VALUE]
    nothing = ir.TypeAttr.get(ir.FunctionType.get([], [], context))
    initializer = Builder(next_op(op), op.location).create(
        "util.initializer", [], [], {"function_type": nothing}, regions=1
    )

    def body(build: Builder, _: Sequence[ir.Value]) -> list[ir.Value]:
        made = _made(build, ir.RankedTensorType(kind), value)
        target = ir.FlatSymbolRefAttr.get(name.value, context)
        build.create("util.global.store", [], [made], {"global": target})
        return []

    fill_region(initializer, [], "util.return", body)
    remove_attributes(op, _VALUE)


def _made(build: Builder, kind: ir.RankedTensorType, value: ir.Attribute) -> ir.Value:
    """The tensor `value`, whose number hangs on another that IREE does not know."""
    element, i32 = kind.element_type, ir.IntegerType.get_signless(32, build.anchor.context)
    known = build.constant_number(0, i32)
    # Of i32, since IREE's host code has no scalars of 16 bits.
    unknown = build.create("util.optimization_barrier", [i32], [known]).results[0]
    number = ir.DenseElementsAttr(value).get_splat_value()

    def body(inner: Builder, _: Sequence[ir.Value]) -> list[ir.Value]:
        other = inner.constant_number(0 if number.value else 1, element)
        same = inner.compare("eq", unknown, inner.constant_number(0, i32))
        return [inner.select(same, inner.constant(number, element), other)]

    init = build.empty(list(kind.shape), element)
    return build.generic([], [init], [tuple(range(len(kind.shape)))], body)[0]
