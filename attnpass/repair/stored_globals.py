"""What IREE 3.13 gets wrong of globals, and how they are written otherwise (attn-own-buffers).

Globals that begin with the same bytes begin as one buffer, which is computed once: a program that
writes one of them in place, as caches of K and V are, writes the other too. So each is filled with
a number that IREE cannot tell to be equal. And a global that only constants are stored to has them
from the start. Globals that are stored alike at the top of functions it takes for one, whatever is
stored in one of them within an op; and what is loaded behind such an op for what was loaded before.
It stores behind an op what is stored in front of it, though it is loaded within. Of two stores in a
block within an op it has the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import islice

from iree.compiler import ir

from ..ir import (
    DYNAMIC,
    Builder,
    collect,
    defining_op,
    enclosing,
    fill_region,
    fill_unrun,
    is_ranked_tensor,
    known_attribute,
    next_op,
    outer_reads,
    remove_attributes,
    symbol_name,
)
from ..ir.rewrite import erase
from .copies import copied
from .kept_stores import LOAD, STORE, loaded

_VALUE = "initial_value"
_INITIALIZER = "util.initializer"
_CALLS = ("func.call", "util.call")


def separate_starts(module: ir.Operation) -> list[str]:
    """Has each of several mutable globals that begin with a number everywhere begin with one of its
    own; returns their names. Needs a current context."""
    found = collect(module, _begins_with_number, bodies=False)
    if len(found) < 2:
        return []
    for op in found:
        _initialize(op, _made)
    return [symbol_name(op) for op in found]


def keep_begun(module: ir.Operation) -> list[str]:
    """Has each mutable global that only constants are stored to begin in an initializer; returns
    their names. Needs a current context."""
    stores = collect(module, lambda op: op.name == STORE, bodies=False)
    stored = {_global_of(op) for op in stores}
    changing = {_global_of(op) for op in stores if not _is_known(op.operands[0], stored)}
    begun = collect(module, _begins, bodies=False)
    found = [op for op in begun if symbol_name(op) in stored - changing]
    for op in found:
        _initialize(op, lambda build, kind, value: build.constant(value, kind))
    return [symbol_name(op) for op in found]


def keep_told_apart(module: ir.Operation) -> list[str]:
    """Has ops with a region in which globals are stored have a call behind them of a function that
    could store in them, too, and those in which globals are loaded or stored one in front, where
    others of their block store in them before; returns the globals' names. Needs a current
    context."""
    found = {symbol_name(op): op for op in collect(module, _holds_numbers, bodies=False)}
    accesses = collect(module, lambda op: op.name in (LOAD, STORE, *_CALLS), bodies=False)
    every = dict.fromkeys(_global_of(op) for op in accesses if op.name == STORE)
    behind: dict[ir.Operation, dict[str, None]] = {}
    front: dict[ir.Operation, dict[str, None]] = {}
    for op in accesses:
        # IREE puts what is called in the place of the call.
        names = every if op.name in _CALLS else [_global_of(op)]
        known = {name: None for name in names if name in found and name in every}
        for outer in islice(enclosing(op), 1, None):
            if outer.name == _INITIALIZER or "sym_name" in outer.attributes:
                break
            for places in (front,) if op.name == LOAD else (front, behind):
                places.setdefault(outer, {}).update(known)
    stored = _stored_before(front)
    calls = [
        (Builder(outer), name)
        for outer, names in front.items()
        for name in names
        if not stored[outer].isdisjoint((name, ""))
    ]
    calls += [
        (Builder(next_op(outer), outer.location), name)
        for outer, names in behind.items()
        for name in names
    ]
    for build, name in calls:
        callee = {"callee": ir.FlatSymbolRefAttr.get(_storing(found[name]), module.context)}
        build.create("util.call", [], [], callee)
    return list(dict.fromkeys(name for _, name in calls))


def keep_last_stores(module: ir.Operation) -> list[ir.Operation]:
    """Leaves the last of several stores to a global in a block of an op, with nothing between that
    could read it but loads of the block, which get what is stored; returns the ops with the blocks.
    Needs a current context."""
    accesses = collect(module, lambda op: op.name in (LOAD, STORE, *_CALLS), bodies=False)
    outer = {one for op in accesses for one in islice(enclosing(op), 1, None)}
    found: list[ir.Operation] = []
    blocks = {op.block: op.parent for op in accesses if op.name == STORE}
    for block, parent in blocks.items():
        if parent is None or parent.name == _INITIALIZER or "sym_name" in parent.attributes:
            continue
        last: dict[str, ir.Operation] = {}
        for op in [view.operation for view in block]:
            name = _global_of(op) if op.name in (LOAD, STORE) else ""
            if op.name in _CALLS or op in outer:
                last.clear()
            elif op.name == LOAD and name in last:
                op.results[0].replace_all_uses_with(last[name].operands[0])
                erase(op)
            elif op.name == STORE:
                if name in last:
                    erase(last[name])
                    found.append(parent)
                last[name] = op
    return list(dict.fromkeys(found))


def _stored_before(ops: Collection[ir.Operation]) -> dict[ir.Operation, set[str]]:
    """The globals in which the ops in front of each of these, in its block, store, '' where they
    call a function."""
    found: dict[ir.Operation, set[str]] = {}
    for block in {op.block: None for op in ops}:
        stored = set[str]()
        for view in block:
            op = view.operation
            if op in ops:
                found[op] = set(stored)
            if op.name == STORE:
                stored.add(_global_of(op))
            elif op.name in _CALLS:
                stored.add("")
    return found


def _holds_numbers(op: ir.Operation) -> bool:
    """Whether an op is a mutable global of numbers, or of a tensor of them."""
    if op.name != "util.global" or "is_mutable" not in op.attributes:
        return False
    kind = ir.TypeAttr(op.attributes["type"]).value
    return isinstance(_element(kind), ir.FloatType | ir.IntegerType | ir.IndexType)


def _element(kind: ir.Type) -> ir.Type:
    return kind.element_type if isinstance(kind, ir.RankedTensorType) else kind


def _storing(op: ir.Operation) -> str:
    """The name of a function behind a global that stores zeros in it, if a number is not 0 that
    is, which IREE cannot know; it stands where it is called."""
    name, context, function = f"__attn_store_{symbol_name(op)}", op.context, next_op(op)
    kind = ir.TypeAttr(op.attributes["type"]).value
    if function.name == "util.func" and symbol_name(function) == name:
        return name

    def zeros(build: Builder) -> None:
        value = build.constant_number(0, _element(kind))
        if isinstance(kind, ir.RankedTensorType):
            sizes = [build.constant_index(1)] * list(kind.shape).count(DYNAMIC)
            value = build.fill(value, build.create("tensor.empty", [kind], sizes).results[0])
        _store(build, op, value)

    attributes = {
        "sym_name": ir.StringAttr.get(name, context),
        "sym_visibility": ir.StringAttr.get("private", context),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [], context)),
        "inlining_policy": ir.Attribute.parse("#util.inline.never", context),
    }
    made = Builder(function, op.location).create("util.func", [], [], attributes, regions=1)
    fill_unrun(made, "util.return", zeros)
    return name


def keep_loaded(module: ir.Operation) -> list[ir.Operation]:
    """Has each store to a global of what another global holds, or of what it held itself before
    something else was stored in it, store a copy; returns those ops. Needs a current context."""
    stores = collect(module, lambda op: op.name == STORE, bodies=False)
    counts = Counter(map(_global_of, stores))
    found: list[ir.Operation] = []
    for op in stores:
        made = loaded(op.operands[0])
        if made is None or not is_ranked_tensor(op.operands[0]):
            continue
        if _global_of(made) != _global_of(op) or counts[_global_of(op)] > 1:
            op.operands[0] = copied(Builder(op), made.results[0])
            found.append(op)
    return found


def _is_known(value: ir.Value, stored: Collection[str]) -> bool:
    """Whether IREE may compute a value while it compiles: it hangs on no argument, and on no global
    of those `stored`."""
    left, seen = [value], {value}
    while left:
        made = defining_op(left.pop())
        if made is None or (made.name == LOAD and _global_of(made) in stored):
            return False
        new = set(outer_reads(made)) - seen
        seen |= new
        left.extend(new)
    return True


def _global_of(op: ir.Operation) -> str:
    """The name of the global that an op loads or stores."""
    return ir.FlatSymbolRefAttr(op.attributes["global"]).value


def _begins_with_number(op: ir.Operation) -> bool:
    value = known_attribute(op, _VALUE)
    return _begins(op) and isinstance(value, ir.DenseElementsAttr) and value.is_splat


def _begins(op: ir.Operation) -> bool:
    """Whether an op is a mutable global of a tensor that begins with numbers of the module: IREE
    keeps those of parameters."""
    if op.name != "util.global" or "is_mutable" not in op.attributes:
        return False
    value = known_attribute(op, _VALUE)
    has_numbers = isinstance(value, ir.DenseElementsAttr | ir.DenseResourceElementsAttr)
    return has_numbers and isinstance(ir.TypeAttr(op.attributes["type"]).value, ir.RankedTensorType)


def _initialize(
    op: ir.Operation,
    made: Callable[[Builder, ir.RankedTensorType, ir.Attribute], ir.Value],
) -> None:
    """Moves the value of a global into an initializer behind it, which stores what is `made`."""
    kind, value = ir.TypeAttr(op.attributes["type"]).value, op.attributes[_VALUE]

    def body(build: Builder, _: Sequence[ir.Value]) -> list[ir.Value]:
        _store(build, op, made(build, ir.RankedTensorType(kind), value))
        return []

    fill_region(_initializer(op), [], "util.return", body)
    remove_attributes(op, _VALUE)


def _initializer(op: ir.Operation) -> ir.Operation:
    """An initializer behind a global, still empty."""
    nothing = ir.TypeAttr.get(ir.FunctionType.get([], [], op.context))
    build = Builder(next_op(op), op.location)
    return build.create(_INITIALIZER, [], [], {"function_type": nothing}, regions=1)


def _store(build: Builder, op: ir.Operation, value: ir.Value) -> None:
    """Stores a value in a global."""
    target = ir.FlatSymbolRefAttr.get(symbol_name(op), op.context)
    build.create(STORE, [], [value], {"global": target})


def _made(build: Builder, kind: ir.RankedTensorType, value: ir.Attribute) -> ir.Value:
    """The tensor `value`, whose number hangs on another that IREE does not know."""
    element, i32 = kind.element_type, ir.IntegerType.get_signless(32, build.anchor.context)
    known = build.constant_number(0, i32)
    # Of i32, since IREE's host code has no scalars of 16 bits.
    unknown = build.create("util.optimization_barrier", [i32], [known]).results[0]
    number = ir.DenseElementsAttr(value).get_splat_value()

    def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        other = inner.constant_number(0 if number.value else 1, element)
        same = inner.compare("eq", unknown, inner.constant_number(0, i32))
        return inner.select(same, inner.constant(number, element), other)

    return build.computed(list(kind.shape), element, body)
