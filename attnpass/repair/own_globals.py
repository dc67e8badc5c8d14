"""attn-own-globals: mutable globals hold what was stored in them, each for itself.

IREE 3.13 makes the initial values of globals as it makes any tensors: those with the same bytes are
computed once, and the globals that hold them begin as one buffer. A program that writes one of them
in place, as caches of K and V are, writes the other too. So each is filled with a number that IREE
cannot tell to be equal. And a global that only constants are stored to has them from the start.
Globals that are stored alike at the top of functions it takes for one, whatever is stored in one of
them within an op; and what is loaded behind such an op for what was loaded before. It stores behind
an op what is stored in front of it, though it is loaded within. Of two stores in a block within an
op it has the first. What one branch stores of what stands outside, it loads behind all branches.

What a branch or a loop hands on and a global gets, or a constant beside what a global holds, has no
program: its buffer is of two kinds. And what hangs on a number that the host reads of a tensor is
moved behind loads and stores that follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import islice

from iree.compiler import ir

from ..attention.barrier import copied
from ..ir import (
    DYNAMIC,
    Builder,
    DynamicSize,
    below_ops,
    collect,
    defining_op,
    enclosing,
    fill_unrun,
    has_ancestor,
    is_ranked_tensor,
    known_attribute,
    next_op,
    remove_attributes,
    symbol_name,
    users,
)
from ..ir.globals import (
    GLOBAL,
    INITIALIZER,
    LOAD,
    STORE,
    declare_global,
    global_of,
    global_type,
    initialize,
    load_global,
    store_global,
)
from ..ir.rewrite import erase
from ..passes import Pass, PassContext
from ..report.ops import MODULE
from .kept_stores import BARRIERS, held, is_handed_on
from .own_buffers import ENDS, LOOPS, Repair, is_written, record

_VALUE = "initial_value"
_CALLS = ("func.call", "util.call")
_READ, _CONSTANT = "tensor.extract", "arith.constant"


def keep_sizes(module: ir.Operation) -> list[str]:
    """Keeps the unknown sizes of globals that are stored within ops in globals of ours; returns the
    names of those globals. Needs a current context."""
    accesses = collect(module, lambda op: op.name in (LOAD, STORE), bodies=False)
    found = {symbol_name(op): op for op in collect(module, _has_unknown_size, bodies=False)}
    names = dict.fromkeys(global_of(op) for op in accesses if op.name == STORE and _is_within(op))
    names = [name for name in names if name in found]
    sizes = {name: _size_globals(found[name]) for name in names}
    for op in accesses:
        made = sizes.get(global_of(op), {})
        if not made:
            continue
        build = Builder(op if op.name == STORE else next_op(op), op.location)
        if op.name == STORE:
            for dim, name in made.items():
                store_global(build, name, build.size(DynamicSize(op.operands[0], dim)))
            continue
        value, index = op.results[0], ir.IndexType.get(module.context)
        own = [load_global(build, name, index) for name in made.values()]
        tied = build.create("flow.tensor.tie_shape", [value.type], [value, *own])
        value.replace_all_uses_except(tied.results[0], tied)
    return names


def _is_within(op: ir.Operation) -> bool:
    """Whether an op stands within another of a function."""
    return op.parent is not None and not _is_home(op.parent)


def _is_home(op: ir.Operation) -> bool:
    """Whether an op is a function or an initializer."""
    return op.name == INITIALIZER or "sym_name" in op.attributes


def _has_unknown_size(op: ir.Operation) -> bool:
    if op.name != GLOBAL:
        return False
    kind = global_type(op)
    return isinstance(kind, ir.RankedTensorType) and DYNAMIC in kind.shape


def _size_globals(op: ir.Operation) -> dict[int, str]:
    """The names of globals, in front of another, for each of its unknown sizes."""
    kind, index = global_type(op), ir.IndexType.get(op.context)
    unknown = [dim for dim in range(kind.rank) if kind.is_dynamic_dim(dim)]
    names = {dim: f"__attn_size_{dim}_{symbol_name(op)}" for dim in unknown}
    for name in names.values():
        declare_global(Builder(op), name, index, initial=ir.IntegerAttr.get(index, 1))
    return names


def separate(module: ir.Operation) -> list[str]:
    """Has each of several mutable globals that begin with a number everywhere begin with one of its
    own; returns their names. Needs a current context."""
    found = collect(module, _begins_with_number, bodies=False)
    if len(found) < 2:
        return []
    for op in found:
        _initialize(op, _made)
    return [symbol_name(op) for op in found]


def keep_begun(module: ir.Operation) -> list[str]:
    """Has each mutable global that is stored to, and begins with numbers, begin in an initializer;
    returns their names. Needs a current context."""
    stores = collect(module, lambda op: op.name == STORE, bodies=False)
    stored = {global_of(op) for op in stores}
    found = [op for op in collect(module, _begins, bodies=False) if symbol_name(op) in stored]
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
    every = dict.fromkeys(global_of(op) for op in accesses if op.name == STORE)
    behind: dict[ir.Operation, dict[str, None]] = {}
    front: dict[ir.Operation, dict[str, None]] = {}
    for op in accesses:
        # IREE puts what is called in the place of the call.
        names = every if op.name in _CALLS else [global_of(op)]
        known = {name: None for name in names if name in found and name in every}
        for outer in islice(enclosing(op), 1, None):
            if _is_home(outer):
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
        if parent is None or parent.name == INITIALIZER:
            continue
        last: dict[str, ir.Operation] = {}
        for op in [view.operation for view in block]:
            name = global_of(op) if op.name in (LOAD, STORE) else ""
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
                stored.add(global_of(op))
            elif op.name in _CALLS:
                stored.add("")
    return found


def _holds_numbers(op: ir.Operation) -> bool:
    """Whether an op is a mutable global of numbers, or of a tensor of them."""
    if op.name != GLOBAL or "is_mutable" not in op.attributes:
        return False
    kind = global_type(op)
    return isinstance(_element(kind), ir.FloatType | ir.IntegerType | ir.IndexType)


def _element(kind: ir.Type) -> ir.Type:
    return kind.element_type if isinstance(kind, ir.RankedTensorType) else kind


def _storing(op: ir.Operation) -> str:
    """The name of a function behind a global that stores zeros in it, if a number is not 0 that
    is, which IREE cannot know; it stands where it is called."""
    name, context, function = f"__attn_store_{symbol_name(op)}", op.context, next_op(op)
    kind = global_type(op)
    if function.name == "util.func" and symbol_name(function) == name:
        return name

    def zeros(build: Builder) -> None:
        value = build.constant_number(0, _element(kind))
        if isinstance(kind, ir.RankedTensorType):
            sizes = [build.constant_index(1)] * list(kind.shape).count(DYNAMIC)
            value = build.fill(value, build.create("tensor.empty", [kind], sizes).results[0])
        store_global(build, symbol_name(op), value)

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
    """Has each store to a global of what another global holds, of what it held itself before
    something else was stored in it, of a constant, of what a branch, a loop or a function hands on,
    or within an op of what others have, too, store a copy; returns those ops. Needs a
    current context."""
    stores = collect(module, lambda op: op.name == STORE, bodies=False)
    counts = Counter(map(global_of, stores))
    found: list[ir.Operation] = []
    for op in stores:
        given = op.operands[0]
        value = below_ops(given, *BARRIERS)
        if not is_ranked_tensor(value) or has_ancestor(op, INITIALIZER):
            continue
        made = held(value)
        is_elsewhere = any(_is_held_elsewhere(one, global_of(op), counts) for one in made)
        if is_elsewhere or is_handed_on(value) or _is_others(op, value):
            build = Builder(op)
            # What IREE knows while it compiles, it would copy then.
            is_known = any(_is_constant(one, counts) for one in made)
            op.operands[0] = copied(build, build.barred(value) if is_known else value)
            found.append(op)
        elif not made:
            op.operands[0] = value
        _erase_barriers(given)
    return found


def _erase_barriers(value: ir.Value) -> None:
    """Erases the barriers in front of a value that nothing reads."""
    while not users(value) and (made := defining_op(value, *BARRIERS)) is not None:
        value = made.operands[0]
        erase(made)


def keep_constants(module: ir.Operation) -> list[ir.Operation]:
    """Has branches and loops hand on copies of constants, where the module stores in globals;
    returns those ops. Needs a current context."""
    stored = {global_of(op) for op in collect(module, lambda op: op.name == STORE, bodies=False)}
    found: list[ir.Operation] = []
    for op in (
        collect(module, lambda op: op.name in (*LOOPS, *ENDS), bodies=False) if stored else ()
    ):
        for number, value in enumerate(list(op.operands)):
            made = defining_op(below_ops(value, *BARRIERS))
            if is_ranked_tensor(value) and made is not None and _is_constant(made, stored):
                build = Builder(op)
                op.operands[number] = copied(build, build.barred(value))
                found.append(op if op.name in LOOPS else op.block.owner.operation)
    return list(dict.fromkeys(found))


def _is_constant(made: ir.Operation, stored: Collection[str]) -> bool:
    """Whether an op makes what IREE holds as a constant: numbers that are not all one, or a global
    in which nothing is stored."""
    if made.name == LOAD:
        return global_of(made) not in stored
    return made.name == _CONSTANT and not _is_splat(made)


def _is_splat(constant: ir.Operation) -> bool:
    value = constant.attributes["value"]
    return isinstance(value, ir.DenseElementsAttr) and value.is_splat


def _is_others(op: ir.Operation, value: ir.Value) -> bool:
    """Whether a value that is stored within an op is made outside of the store's block, written to,
    or handed on."""
    made = defining_op(value)
    home = value.owner if made is None else made.block
    handed = any(user.name in (*ENDS, *LOOPS) for user in users(value))
    return _is_within(op) and (home != op.block or handed or is_written(value))


def _is_held_elsewhere(made: ir.Operation, name: str, counts: Counter[str]) -> bool:
    """Whether what is stored in a global, made by a load or a constant, another may hold, too. All
    that is the same constant is one for IREE, but for a number everywhere."""
    if made.name != LOAD:
        return not _is_splat(made)
    return global_of(made) != name or counts[name] > 1


def keep_order(module: ir.Operation) -> list[ir.Operation]:
    """Puts what the host reads of tensors behind barriers, where the module stores in globals;
    returns the ops that read. Needs a current context."""
    if not collect(module, lambda op: op.name == STORE, bodies=False):
        return []
    found = collect(module, lambda op: op.name == _READ and not _is_known(op), bodies=False)
    for op in found:
        value = op.results[0]
        own = Builder(next_op(op), op.location).barred(value)
        value.replace_all_uses_except(own, own.owner.operation)
    return found


def _is_known(read: ir.Operation) -> bool:
    return defining_op(read.operands[0], _CONSTANT) is not None


def _begins_with_number(op: ir.Operation) -> bool:
    value = known_attribute(op, _VALUE)
    return _begins(op) and isinstance(value, ir.DenseElementsAttr) and value.is_splat


def _begins(op: ir.Operation) -> bool:
    """Whether an op is a mutable global of a tensor that begins with numbers of the module: IREE
    keeps those of parameters."""
    if op.name != GLOBAL or "is_mutable" not in op.attributes:
        return False
    value = known_attribute(op, _VALUE)
    has_numbers = isinstance(value, ir.DenseElementsAttr | ir.DenseResourceElementsAttr)
    return has_numbers and isinstance(global_type(op), ir.RankedTensorType)


def _initialize(
    op: ir.Operation,
    made: Callable[[Builder, ir.RankedTensorType, ir.Attribute], ir.Value],
) -> None:
    """Moves the value of a global into an initializer behind it, which stores what is `made`."""
    kind, value = global_type(op), op.attributes[_VALUE]

    def store(build: Builder) -> None:
        store_global(build, symbol_name(op), made(build, ir.RankedTensorType(kind), value))

    initialize(Builder(next_op(op), op.location), store)
    remove_attributes(op, _VALUE)


def _made(build: Builder, kind: ir.RankedTensorType, value: ir.Attribute) -> ir.Value:
    """The tensor `value`, whose number hangs on another that IREE does not know."""
    element, i32 = kind.element_type, ir.IntegerType.get_signless(32, build.anchor.context)
    # Of i32, since IREE's host code has no scalars of 16 bits.
    unknown = build.barred(build.constant_number(0, i32))
    number = ir.DenseElementsAttr(value).get_splat_value()

    def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        other = inner.constant_number(0 if number.value else 1, element)
        same = inner.compare("eq", unknown, inner.constant_number(0, i32))
        return inner.select(same, inner.constant(number, element), other)

    return build.computed(list(kind.shape), element, body)


# What is written otherwise, in order, by functions that return the ops that they changed, or the
# names of globals: a kind of these, and why.
_REPAIRS: dict[Repair, tuple[str, str]] = {
    keep_sizes: (
        "global",
        "its sizes are kept beside it: IREE 3.13 forgets those of what is stored within ops",
    ),
    keep_last_stores: (
        "",
        "only the last of its stores to a global is left: IREE 3.13 has the first",
    ),
    keep_told_apart: (
        "global",
        "a function is called beside ops within which it is loaded or stored, which IREE 3.13 "
        "does not see",
    ),
    separate: (
        MODULE.kind,
        "mutable globals are filled at the start, each for itself: IREE 3.13 lets those that begin "
        "equal share a buffer",
    ),
    keep_begun: (
        "global",
        "it begins in an initializer: IREE 3.13 forgets how a global begins that only constants "
        "are stored to in the end",
    ),
    keep_loaded: (
        "",
        "stores a copy: IREE 3.13 takes what another holds, or hands on, for the same tensor",
    ),
    keep_constants: (
        "loop",
        "hands on copies of constants: IREE 3.13 has no program where globals are handed on beside",
    ),
    keep_order: (
        "read",
        "reads behind a barrier: IREE 3.13 moves what hangs on it behind later loads and stores",
    ),
}


class OwnGlobals(Pass):
    """Fills each mutable global in an initializer of its own, with a number that IREE does not
    know, where several begin with one number everywhere.

    IREE 3.13 gives such globals, the natural way to write caches of K and V, one buffer: what is
    stored in V appears in K. One that only constants are stored to, it takes for the last of them.
    What is stored is a copy, where it is of another global, or a branch, a loop or a function hands
    it on.
    """

    name = "attn-own-globals"
    summary = "globals hold what was stored in them"
    mends = "what is stored in one global appears in another"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        changed = {repair: repair(module) for repair in _REPAIRS}
        if names := changed.pop(separate):
            _, why = _REPAIRS[separate]
            why = f"{len(names)} {why}"
            context.report.record(MODULE, "repaired", why, globals=len(names))
        for repair, ops in changed.items():
            record(context, ops, *_REPAIRS[repair])
        return bool(names) or any(changed.values())
