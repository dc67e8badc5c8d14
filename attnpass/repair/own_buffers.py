"""attn-own-buffers: mutable globals that begin with equal numbers have a buffer each.

IREE 3.13 makes the initial values of globals as it makes any tensors: those with the same bytes are
computed once, and the globals that hold them begin as one buffer. A program that writes one of them
in place, as caches of K and V are, writes the other too. So each is filled with a number that IREE
cannot tell to be equal. And a global that only constants are stored to has them from the start.
Globals that are stored alike at the top of functions it takes for one, whatever is stored in one of
them within an op; and what is loaded behind such an op for what was loaded before. It stores behind
an op what is stored in front of it, though it is loaded within. Of two stores in a block within an
op it has the first. What one branch stores of what stands outside, it loads behind all branches.

It also writes in place to the buffer of an argument, as a scatter does, that the program gives back
as it was. And to what stands outside a loop, each time round, where nothing reads it behind, or
outside a branch, where another branch reads it. And to rows that it reads in the same kernel, where
what is written is made of the tensor that it is written to: a cache that moves up by a row, or
whose new rows are a norm of old ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce
from itertools import islice
from operator import or_

from iree.compiler import ir

from ..analysis.boundary import is_held
from ..attention.barrier import BARRIER, compute_barrier
from ..ir import (
    DYNAMIC,
    Builder,
    body_ops,
    collect,
    defining_op,
    element_bytes,
    element_type,
    enclosing,
    fill_region,
    fill_unrun,
    has_ancestor,
    is_inside,
    is_ranked_tensor,
    known_attribute,
    next_op,
    ranked_shape,
    remove_attributes,
    sizes_of,
    symbol_name,
    users,
)
from ..ir.builder import fill_builtin_region
from ..ir.rewrite import erase
from ..ir.views import IN_PLACE, REORDERS, WHOLE, below_views
from ..passes import Pass, PassContext
from ..report.ops import MODULE, Op
from .kept_stores import LOAD, STORE, barred, behind_barriers, held

_VALUE = "initial_value"
_INITIALIZER = "util.initializer"
_CALLS = ("func.call", "util.call")
_LOOPS, _BRANCH = ("scf.for", "scf.while"), "scf.if"
_SCATTER, _INSERT = "iree_linalg_ext.scatter", "tensor.insert_slice"
_CONCAT = "tensor.concat"
_SORT = "iree_linalg_ext.sort"
# A precompiled kernel, whose threads write so many bytes at once.
_KERNEL, _VECTOR_BYTES = "hal.dispatch.extern", 16
_REGION = "flow.dispatch.region"
_COMPUTES = ("linalg.", "iree_linalg_ext.")
# IREE makes these anew wherever they are written.
_REMADE = ("arith.constant", "linalg.fill", "tensor.empty")
# Ops whose last operands are where their results begin.
_WRITES = ("iree_linalg_ext.scatter", "iree_linalg_ext.map_store", "linalg.generic")


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
    stored = {_global_of(op) for op in stores}
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
    """Has each store to a global of what another global holds, of what it held itself before
    something else was stored in it, or of a constant, store a copy; returns those ops. Needs a
    current context."""
    stores = collect(module, lambda op: op.name == STORE, bodies=False)
    counts = Counter(map(_global_of, stores))
    found: list[ir.Operation] = []
    for op in stores:
        value = behind_barriers(op.operands[0])
        if not is_ranked_tensor(value) or has_ancestor(op, _INITIALIZER):
            continue
        made = held(value)
        if any(_is_held_elsewhere(one, _global_of(op), counts) for one in made):
            # What IREE knows while it compiles, it would copy then.
            build = Builder(op)
            op.operands[0] = _copied(build, barred(build, value))
            found.append(op)
        elif not made:
            op.operands[0] = value
    return found


def keep_branches(module: ir.Operation) -> list[ir.Operation]:
    """Has each store to a global within an op of a tensor from outside its block store that behind
    a barrier; returns those ops. Needs a current context."""
    found: list[ir.Operation] = []
    for op in collect(module, lambda op: op.name == STORE, bodies=False):
        value = op.operands[0]
        made = defining_op(value)
        home = value.owner if made is None else made.block
        is_top = op.parent is None or "sym_name" in op.parent.attributes
        if is_ranked_tensor(value) and home != op.block and not is_top:
            op.operands[0] = barred(Builder(op), value)
            found.append(op)
    return found


def _is_held_elsewhere(made: ir.Operation, name: str, counts: Counter[str]) -> bool:
    """Whether what is stored in a global, made by a load or a constant, another may hold, too. All
    that is the same constant is one for IREE, but for a number everywhere."""
    if made.name != LOAD:
        value = made.attributes["value"]
        is_splat = isinstance(value, ir.DenseElementsAttr) and value.is_splat
        return not is_splat
    return _global_of(made) != name or counts[name] > 1


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


def keep_returned(module: ir.Operation) -> list[str]:
    """Has functions return copies of arguments that they give back and also write in place;
    returns the functions' names. Needs a current context."""
    names = []
    for function in collect(module, lambda op: op.name == "util.func"):
        for block in function.regions[0].blocks if function.regions else ():
            end = block.operations[len(block.operations) - 1].operation
            for number, value in enumerate(end.operands):
                imported = _written_import(value) if end.name == "util.return" else None
                if imported is not None:
                    end.operands[number] = _exported(Builder(end), imported, value.type)
                    names.append(symbol_name(function))
    return names


def keep_outside(module: ir.Operation) -> list[ir.Operation]:
    """Has each loop that writes to a tensor from outside read it last of all, so that it writes to
    a copy, and each branch that does so to what others read, too; returns those ops. Needs a
    current context."""
    found: list[ir.Operation] = []
    for write in collect(module, lambda op: op.name in (*_WRITES, "tensor.insert_slice")):
        for value in _targets(write):
            body = _body_around(write, value)
            if body is not None:
                end = body.operations[len(body.operations) - 1].operation
                barred(Builder(end), value)
                found.append(body.owner.operation)
    return list(dict.fromkeys(found))


def keep_read(module: ir.Operation) -> list[ir.Operation]:
    """Has each op that writes to a tensor what is made of it read that from memory of its own;
    returns those ops. Needs a current context."""
    ops = collect(module, lambda op: True, bodies=False)
    targets = [_target(op) for op in ops]
    made_of = _MadeOf(target for target in targets if target is not None)
    found: list[ir.Operation] = []
    for op, target in zip(ops, targets, strict=True):
        for number in range(_target_place(op) if target is not None else 0):
            value = op.operands[number]
            if made_of.has(value, target):
                own = _inserted if op.name == _INSERT else _in_memory
                op.operands[number] = own(Builder(op), value)
                found.append(op)
        made_of.add(op)
    return list(dict.fromkeys(found))


def _target_place(write: ir.Operation) -> int:
    """Which operand an op writes to; what it reads stands in front of that."""
    return 1 if write.name == _INSERT else len(write.operands) - 1


def _target(op: ir.Operation) -> ir.Value | None:
    """What an op writes to, if it is such an op."""
    if op.name not in (_SCATTER, _INSERT):
        return None
    return below_views(op.operands[_target_place(op)], IN_PLACE)


def keep_aligned(module: ir.Operation) -> list[ir.Operation]:
    """Has each op that joins what a precompiled kernel writes, at a place in memory that may be no
    whole vector, join a copy of it; returns those ops. Needs a current context."""
    found: list[ir.Operation] = []
    for op in collect(module, lambda op: op.name in (_INSERT, _CONCAT), bodies=False):
        for number, value in enumerate(list(op.operands)[: 1 if op.name == _INSERT else None]):
            maker = defining_op(below_views(value, IN_PLACE))
            is_kernel = maker is not None and maker.name == _KERNEL
            if is_kernel and not _stands_at_a_vector(op, number):
                op.operands[number] = _copied(Builder(op), value)
                found.append(op)
    return list(dict.fromkeys(found))


def _stands_at_a_vector(op: ir.Operation, number: int) -> bool:
    """Whether an operand of a concat or an insertion begins at a multiple of 16 bytes, or is copied
    there line by line."""
    unit, whole = element_bytes(op.results[0]), ranked_shape(op.results[0])
    starts: list[int | None] = [0] * len(whole)
    if op.name == _INSERT:
        if not _may_be_one_range(op):
            return True
        starts = [None if at == DYNAMIC else at for at in op.attributes["static_offsets"]]
    else:
        dim = ir.IntegerAttr(op.attributes["dim"]).value
        if any(size != 1 for size in whole[:dim]):
            return True
        before = [ranked_shape(value)[dim] for value in list(op.operands)[:number]]
        starts[dim] = None if None in before else sum(size or 0 for size in before)
    for start, size in reversed([*zip(starts, whole, strict=True)]):
        if (unit if start is None else unit * start) % _VECTOR_BYTES:
            return False
        # Of an unknown number of elements nothing more is known.
        unit *= size or 1
    return True


def keep_given(module: ir.Operation) -> list[ir.Operation]:
    """Has each op that sorts a tensor where it lies sort a copy of what a caller or a global holds;
    returns those ops. Needs a current context."""
    found: list[ir.Operation] = []
    for op in collect(module, lambda op: op.name == _SORT, bodies=False):
        for number, value in enumerate(list(op.operands)):
            if is_ranked_tensor(value) and is_held(below_views(value, IN_PLACE)):
                op.operands[number] = _copied(Builder(op), value)
                found.append(op)
    return list(dict.fromkeys(found))


class _MadeOf:
    """Which of some tensors others are made of, once `add` has had the ops in their order. Each
    tensor has a number of bits, one for each source: all are told in one walk."""

    def __init__(self, sources: Iterable[ir.Value]) -> None:
        self._bits = {value: 1 << number for number, value in enumerate(dict.fromkeys(sources))}
        self._found: dict[ir.Value, int] = {}

    def add(self, op: ir.Operation) -> None:
        """Notes what an op makes its results of; those of a kernel have memory of their own."""
        if self._bits and op.name != _REGION and len(op.results):
            read = reduce(or_, map(self._of, _tensors_read(op)), 0)
            self._found.update(dict.fromkeys(op.results, read))

    def has(self, value: ir.Value, source: ir.Value | None) -> bool:
        """Whether a tensor is made of a source, or is it."""
        return source is not None and bool(self._of(value) & self._bits[source])

    def _of(self, value: ir.Value) -> int:
        return self._found.get(value, 0) | self._bits.get(value, 0)


def _tensors_read(op: ir.Operation) -> list[ir.Value]:
    """The tensors that an op reads, by `tensor.extract` in its body, too."""
    inside = body_ops(op) if op.name == "linalg.generic" else []
    return [x for one in (op, *inside) for x in one.operands if is_ranked_tensor(x)]


def _in_memory(build: Builder, value: ir.Value) -> ir.Value:
    """`value` as the result of a kernel: of that which computes it, or of one that copies it."""
    if not _is_computed(value):
        return _copied(build, value)
    made = defining_op(below_views(value, WHOLE))
    stored = made is not None and made.name == BARRIER
    return value if stored else compute_barrier(build, value)


def _inserted(build: Builder, value: ir.Value) -> ir.Value:
    """`value` as the result of a kernel that reads none of what it is inserted in. IREE has that
    kernel write it where it is to stand, if that is one range of memory: then a part of a tensor is
    copied twice."""
    once = _is_computed(value) or not _may_be_one_range(build.anchor)
    return _copied(build, value if once else _copied(build, value))


def _may_be_one_range(insert: ir.Operation) -> bool:
    """Whether what is inserted may lie in one piece: of the dims behind its first, all is."""
    sizes = [None if size == DYNAMIC else size for size in insert.attributes["static_sizes"]]
    first = next((dim for dim, size in enumerate(sizes) if size != 1), len(sizes))
    return sizes[first + 1 :] == list(ranked_shape(insert.results[0]))[first + 1 :]


def _is_computed(value: ir.Value) -> bool:
    """Whether a kernel makes a tensor, and it is no part of another."""
    maker = defining_op(below_views(value, WHOLE))
    if maker is not None and maker.name == BARRIER:
        maker = defining_op(below_views(maker.operands[0], WHOLE))
    return maker is not None and maker.name.startswith(_COMPUTES)


def _copied(build: Builder, value: ir.Value) -> ir.Value:
    """`value` as the result of a kernel that copies it."""
    sizes, element = sizes_of(value), element_type(value)
    i1, i8 = (ir.IntegerType.get_signless(bits, build.anchor.context) for bits in (1, 8))
    if element == i1:
        # IREE compiles no copy of truth values.
        wide = build.computed(
            sizes, i8, lambda inner, x: inner.convert("arith.extui", x[0], i8), value
        )
        narrow = build.computed(
            sizes,
            i1,
            lambda inner, x: inner.convert("arith.trunci", x[0], i1),
            _copied(build, wide),
        )
        return compute_barrier(build, narrow)
    init = build.empty(sizes, element)

    def copy(inner: Builder) -> Sequence[ir.Value]:
        # A generic that only hands on its input is folded.
        segments = {"operandSegmentSizes": inner.segments(1, 1)}
        op = inner.create("linalg.copy", [init.type], [value, init], segments, regions=1)
        fill_builtin_region(op)
        return op.results

    return build.dispatch_region([(sizes, element)], copy)[0]


def _targets(write: ir.Operation) -> list[ir.Value]:
    """What an op writes to, below views."""
    if write.name == "tensor.insert_slice":
        values = [write.operands[1]]
    else:
        values = list(write.operands)[len(write.operands) - len(write.results) :]
    found: list[ir.Value] = []
    for target in values:
        value = below_views(target, IN_PLACE)
        made = defining_op(value)
        if is_ranked_tensor(value) and (made is None or made.name not in _REMADE):
            found.append(value)
    return found


def _body_around(write: ir.Operation, value: ir.Value) -> ir.Block | None:
    """The body of the loop closest to a write, or the branch, where `value` has other users, if
    `value` is from outside it."""
    made = defining_op(value)
    home = value.owner if made is None else made.block
    block: ir.Block = write.block
    while block != home:
        parent = block.owner.operation
        if parent.name in _LOOPS or (parent.name == _BRANCH and len(users(value)) > 1):
            return None if is_inside(home, parent) else block
        if parent.parent is None:
            return None
        block = parent.block
    return None


def _written_import(value: ir.Value) -> ir.Value | None:
    """The tensor that an argument is read as, if something is written to it."""
    if defining_op(value) is not None:
        return None
    reads = [user.results[0] for user in users(value) if user.name == "hal.tensor.import"]
    return next((read for read in reads if _is_written(read)), None)


def _is_written(value: ir.Value) -> bool:
    """Whether an op, or one that reads a view, has the value as the start of its result."""
    for use in value.uses:
        op = use.owner.operation
        if op.name in REORDERS and any(_is_written(result) for result in op.results):
            return True
        if op.name in _WRITES and use.operand_number >= len(op.operands) - len(op.results):
            return True
        if op.name == "tensor.insert_slice" and use.operand_number == 1:
            return True
    return False


def _exported(build: Builder, tensor: ir.Value, kind: ir.Type) -> ir.Value:
    """A buffer of its own with what the tensor holds; without the barrier IREE sees through it."""
    own = barred(build, tensor)
    dynamic = [build.size(size) for size in sizes_of(tensor) if not isinstance(size, int)]
    attributes = {"source_encoding": ir.TypeAttr.get(tensor.type)}
    return build.create("hal.tensor.export", [kind], [own, *dynamic], attributes).results[0]


_Repair = Callable[[ir.Operation], Sequence[ir.Operation | str]]
# What is written otherwise, in order, by functions that return the ops that they changed, or the
# names of globals and functions: a kind of these, and why.
_REPAIRS: dict[_Repair, tuple[str, str]] = {
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
        "stores a copy: IREE 3.13 takes the global that it was loaded from for this one",
    ),
    keep_branches: (
        "",
        "stores what is behind a barrier: IREE 3.13 loads behind all branches what one stores",
    ),
    keep_returned: (
        "function",
        "an argument that is written and returned as it was is copied: IREE 3.13 writes to its "
        "buffer",
    ),
    keep_outside: (
        "loop",
        "what it writes to stands outside, and is copied each time: IREE 3.13 writes to the same "
        "buffer",
    ),
    keep_read: (
        "",
        "what it writes is made of what it writes to, and put in memory before: IREE 3.13 reads "
        "and writes it in one kernel",
    ),
    keep_given: ("", "sorts a copy of what it is given: IREE 3.13 sorts the caller's own tensor"),
    keep_aligned: ("", "joins a copy of what a kernel writes: IREE 3.13 has it write to any byte"),
}


class OwnBuffers(Pass):
    """Fills each mutable global in an initializer of its own, with a number that IREE does not
    know, where several begin with one number everywhere.

    IREE 3.13 gives such globals, the natural way to write caches of K and V, one buffer: what is
    stored in V appears in K. One that only constants are stored to, it takes for the last of them.
    An argument that is returned as it was, and written in place, is returned as a copy; what stands
    outside a loop that writes to it is copied each time round. What a write reads of the tensor
    that it writes to is put in memory first. What is sorted where it lies is a copy of an argument
    or a global. What a precompiled kernel writes is copied where it would stand behind a part of no
    whole vectors: to write there is an illegal address.
    """

    name = "attn-own-buffers"
    summary = "mutable globals with equal initial values do not share a buffer"
    mends = "what is stored in one global appears in another, or is there from the start"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        changed = {repair: repair(module) for repair in _REPAIRS}
        if names := changed.pop(separate):
            _, why = _REPAIRS[separate]
            why = f"{len(names)} {why}"
            context.report.record(MODULE, "repaired", why, globals=len(names))
        for repair, ops in changed.items():
            kind, why = _REPAIRS[repair]
            for one in ops:
                if isinstance(one, str):
                    context.report.record(Op(kind, one), "repaired", why)
                else:
                    named = "branch" if one.name == _BRANCH else kind
                    context.report.record(one, "repaired", why, kind=named)
        return bool(names) or any(changed.values())
