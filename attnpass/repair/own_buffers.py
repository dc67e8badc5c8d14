"""attn-own-buffers: what is written in place is nobody else's.

Globals: `stored_globals.py`. IREE 3.13 also writes in place to the buffer of an argument, as a
scatter does, that the program gives back as it was. And to what stands outside a loop, each time
round, where nothing reads it behind. And to rows that it reads in the same kernel, where what is
written is made of the tensor that it is written to: a cache that moves up by a row, or whose new
rows are a norm of old ones. And it crashes on a `while` whose body does not read a tensor that it
is handed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
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
    is_inside,
    is_ranked_tensor,
    ranked_shape,
    sizes_of,
    symbol_name,
    users,
)
from ..ir.views import IN_PLACE, REORDERS, WHOLE, below_views
from ..passes import Pass, PassContext
from ..report.ops import MODULE, Op
from .copies import copied
from .kept_stores import barred
from .stored_globals import (
    keep_begun,
    keep_last_stores,
    keep_loaded,
    keep_told_apart,
    separate_starts,
)

_LOOPS = ("scf.for", "scf.while")
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


def keep_outside_loops(module: ir.Operation) -> list[ir.Operation]:
    """Has each loop that writes to a tensor from outside read it last of all, so that it writes to
    a copy; returns those loops. Needs a current context."""
    found: list[ir.Operation] = []
    for write in collect(module, lambda op: op.name in (*_WRITES, "tensor.insert_slice")):
        for value in _targets(write):
            body = _loop_body(write, value)
            if body is not None:
                end = body.operations[len(body.operations) - 1].operation
                barred(Builder(end), value)
                found.append(body.owner.operation)
    return list(dict.fromkeys(found))


def keep_carried(module: ir.Operation) -> list[ir.Operation]:
    """Has each `scf.while` whose body does not read a tensor that it is handed read it last of all;
    returns those loops. Needs a current context."""
    found: list[ir.Operation] = []
    for loop in collect(module, lambda op: op.name == "scf.while"):
        body = loop.regions[1].blocks[0]
        unread = [x for x in body.arguments if is_ranked_tensor(x) and not users(x)]
        for value in unread:
            end = body.operations[len(body.operations) - 1].operation
            barred(Builder(end), value)
            found.append(loop)
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
                op.operands[number] = copied(Builder(op), value)
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
                op.operands[number] = copied(Builder(op), value)
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
        return copied(build, value)
    made = defining_op(below_views(value, WHOLE))
    stored = made is not None and made.name == BARRIER
    return value if stored else compute_barrier(build, value)


def _inserted(build: Builder, value: ir.Value) -> ir.Value:
    """`value` as the result of a kernel that reads none of what it is inserted in. IREE has that
    kernel write it where it is to stand, if that is one range of memory: then a part of a tensor is
    copied twice."""
    once = _is_computed(value) or not _may_be_one_range(build.anchor)
    return copied(build, value if once else copied(build, value))


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


def _loop_body(write: ir.Operation, value: ir.Value) -> ir.Block | None:
    """The body of the loop closest to a write, if `value` is from outside it."""
    made = defining_op(value)
    home = value.owner if made is None else made.block
    block: ir.Block = write.block
    while block != home:
        parent = block.owner.operation
        if parent.name in _LOOPS:
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
    separate_starts: (
        MODULE.kind,
        "mutable globals are filled at the start, each for itself: IREE 3.13 lets those that begin "
        "equal share a buffer",
    ),
    keep_begun: (
        "global",
        "it begins in an initializer: IREE 3.13 forgets how a global begins that only constants "
        "are stored to",
    ),
    keep_loaded: (
        "",
        "stores a copy: IREE 3.13 takes the global that it was loaded from for this one",
    ),
    keep_returned: (
        "function",
        "an argument that is written and returned as it was is copied: IREE 3.13 writes to its "
        "buffer",
    ),
    keep_outside_loops: (
        "loop",
        "what it writes to stands outside, and is copied each time: IREE 3.13 writes to the same "
        "buffer",
    ),
    keep_carried: (
        "loop",
        "reads all tensors that it is handed: IREE 3.13 crashes where it does not",
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
        if names := changed.pop(separate_starts):
            _, why = _REPAIRS[separate_starts]
            why = f"{len(names)} {why}"
            context.report.record(MODULE, "repaired", why, globals=len(names))
        for repair, ops in changed.items():
            kind, why = _REPAIRS[repair]
            for one in ops:
                op = Op(kind, one) if isinstance(one, str) else one
                context.report.record(op, "repaired", why, kind=kind)
        return bool(names) or any(changed.values())
