"""attn-own-buffers: what is written in place is nobody else's.

IREE 3.13 writes in place to the buffer of an argument, as a scatter does, that the program gives
back as it was. And to what stands outside a loop, each time round, where nothing reads it behind,
or outside a branch, where another branch reads it; and to what a branch hands on as it is. And to
rows that it reads in the same kernel, where what is written is made of the tensor that it is
written to: a cache that moves up by a row, or whose new rows are a norm of old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import or_

from iree.compiler import ir

from ..analysis.boundary import is_held
from ..attention.barrier import BARRIER, compute_barrier, copied
from ..ir import (
    DYNAMIC,
    Builder,
    body_ops,
    collect,
    concat_dim,
    defining_op,
    element_bytes,
    is_inside,
    is_ranked_tensor,
    ranked_shape,
    reached,
    sizes_of,
    symbol_name,
    terminator,
    users,
)
from ..ir.views import IN_PLACE, REORDERS, WHOLE, below_views
from ..passes import Pass, PassContext
from ..report.ops import Op

LOOPS, ENDS = ("scf.for", "scf.while"), ("scf.yield", "scf.condition")
_BRANCH = "scf.if"
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
            end = terminator(block)
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
                Builder(terminator(body)).barred(value)
                found.append(body.owner.operation)
    return list(dict.fromkeys(found))


def keep_handed(module: ir.Operation) -> list[ir.Operation]:
    """Has each branch and loop hand on a copy of what has other users, or a caller or a global
    holds, where that is then written in place; returns those ops. Needs a current context."""
    found: list[ir.Operation] = []
    for op in collect(module, lambda op: op.name in ENDS, bodies=False):
        outer = op.block.owner.operation
        if outer.name not in (_BRANCH, *LOOPS):
            continue
        for number, value in enumerate(list(op.operands)):
            if not is_ranked_tensor(value) or _is_own(op, outer, number):
                continue
            if _is_written_then(op, number):
                op.operands[number] = copied(Builder(op), value)
                found.append(outer)
    return list(dict.fromkeys(found))


def _is_own(end: ir.Operation, outer: ir.Operation, number: int) -> bool:
    """Whether nobody but an op reads what the end of a block of it hands on, once."""
    value, chain = end.operands[number], list[ir.Value]()
    source = below_views(value, IN_PLACE)
    while value != source:
        chain.append(value)
        value = value.owner.operation.operands[0]
    made = defining_op(source)
    is_carried = made is None and source.owner.owner.operation.name in LOOPS
    if is_held(source) and not is_carried:
        return False
    readers = [user for one in (*chain, source) for user in users(one)]
    others = [user for user in readers if not is_inside(user.block, outer)]
    same = [one for one in end.operands if is_ranked_tensor(one)]
    return not others and sum(below_views(one, IN_PLACE) == source for one in same) == 1


def _is_written_then(op: ir.Operation, number: int) -> bool:
    """Whether what a loop begins with, or the end of a block hands on, is written in place by what
    it is handed to."""

    def handed(value: ir.Value) -> list[ir.Value]:
        found: list[ir.Value] = []
        for use in value.uses:
            user = use.owner.operation
            if user.name in IN_PLACE:
                found.append(user.results[0])
            elif user.name in (*LOOPS, *ENDS):
                found += _handed_to(user, use.operand_number)
        return found

    return any(map(is_written, reached(_handed_to(op, number), handed)))


def _handed_to(op: ir.Operation, number: int) -> list[ir.Value]:
    """What an operand of a loop, or of the end of a block of one or of a branch, becomes: arguments
    of blocks, and results."""
    if op.name in LOOPS:
        number -= 3 if op.name == "scf.for" else 0
        return _carried(op, number) if number >= 0 else []
    outer = op.block.owner.operation
    if op.name == "scf.condition":
        after = outer.regions[1].blocks[0].arguments
        return [outer.results[number - 1], after[number - 1]] if number else []
    if outer.name == _BRANCH:
        return [outer.results[number]]
    return _carried(outer, number) if outer.name in LOOPS else []


def _carried(loop: ir.Operation, number: int) -> list[ir.Value]:
    """The argument of a loop's first block for what it carries, and the result if it is that."""
    block = loop.regions[0].blocks[0]
    if loop.name == "scf.while":
        return [block.arguments[number]]
    return [block.arguments[1 + number], loop.results[number]]


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
            maker = defining_op(below_views(value, IN_PLACE), _KERNEL)
            if maker is not None and not _stands_at_a_vector(op, number):
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
        dim = concat_dim(op)
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
    made = defining_op(below_views(value, WHOLE), BARRIER)
    return value if made is not None else compute_barrier(build, value)


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
        if is_ranked_tensor(value) and defining_op(value, *_REMADE) is None:
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
        if parent.name in LOOPS or (parent.name == _BRANCH and len(users(value)) > 1):
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
    return next((read for read in reads if is_written(read)), None)


def is_written(value: ir.Value) -> bool:
    """Whether an op, or one that reads a view, has the value as the start of its result."""
    for use in value.uses:
        op = use.owner.operation
        if op.name in REORDERS and any(is_written(result) for result in op.results):
            return True
        if op.name in _WRITES and use.operand_number >= len(op.operands) - len(op.results):
            return True
        if op.name == "tensor.insert_slice" and use.operand_number == 1:
            return True
    return False


def _exported(build: Builder, tensor: ir.Value, kind: ir.Type) -> ir.Value:
    """A buffer of its own with what the tensor holds; without the barrier IREE sees through it."""
    own = build.barred(tensor)
    dynamic = [build.size(size) for size in sizes_of(tensor) if not isinstance(size, int)]
    attributes = {"source_encoding": ir.TypeAttr.get(tensor.type)}
    return build.create("hal.tensor.export", [kind], [own, *dynamic], attributes).results[0]


def keep_carried(module: ir.Operation) -> list[ir.Operation]:
    """Has loops that carry several tensors of unknown sizes begin with copies of them; returns the
    loops. Needs a current context."""
    loops = []
    for loop in collect(module, lambda op: op.name in LOOPS, bodies=False):
        carried = [number for number, value in enumerate(loop.operands) if _is_unknown(value)]
        if len(carried) > 1:
            for number in carried:
                loop.operands[number] = copied(Builder(loop), loop.operands[number])
            loops.append(loop)
    return loops


def _is_unknown(value: ir.Value) -> bool:
    return is_ranked_tensor(value) and None in ranked_shape(value)


Repair = Callable[[ir.Operation], Sequence[ir.Operation | str]]
# What is written otherwise, in order, by functions that return the ops that they changed, or the
# names of functions: a kind of these, and why.
_REPAIRS: dict[Repair, tuple[str, str]] = {
    keep_returned: (
        "function",
        "an argument that is written and returned as it was is copied: IREE 3.13 writes to its "
        "buffer",
    ),
    keep_carried: (
        "loop",
        "it begins with copies: IREE 3.13 reads one of several tensors of unknown sizes for "
        "another",
    ),
    keep_outside: (
        "loop",
        "what it writes to stands outside, and is copied each time: IREE 3.13 writes to the same "
        "buffer",
    ),
    keep_handed: (
        "loop",
        "hands on copies of what others read: IREE 3.13 writes in place to what it is handed",
    ),
    keep_read: (
        "",
        "what it writes is made of what it writes to, and put in memory before: IREE 3.13 reads "
        "and writes it in one kernel",
    ),
    keep_given: ("", "sorts a copy of what it is given: IREE 3.13 sorts the caller's own tensor"),
    keep_aligned: ("", "joins a copy of what a kernel writes: IREE 3.13 has it write to any byte"),
}


def record(
    context: PassContext, changed: Sequence[ir.Operation | str], kind: str, why: str
) -> None:
    """Tells the report of ops, or names, that a repair changed."""
    for one in changed:
        if isinstance(one, str):
            context.report.record(Op(kind, one), "repaired", why)
        else:
            named = "branch" if one.name == _BRANCH else kind
            context.report.record(one, "repaired", why, kind=named)


class OwnBuffers(Pass):
    """Copies what IREE 3.13 would write in place, though others read it.

    An argument that is returned as it was, and written in place, is returned as a copy; what stands
    outside a loop that writes to it is copied each time round; a branch hands on a copy of what has
    other users. What a write reads of the tensor that it writes to is put in memory first. What is
    sorted where it lies is a copy of an argument or a global. What a precompiled kernel writes is
    copied where it would stand behind a part of no whole vectors: to write there is an illegal
    address. A loop that carries several tensors of unknown sizes begins with copies of them: IREE
    allocates what it makes as one, and forgets where those behind the first begin.
    """

    name = "attn-own-buffers"
    summary = "what is written in place is nobody else's"
    mends = "IREE writes to what others read"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        changed = {repair: repair(module) for repair in _REPAIRS}
        for repair, ops in changed.items():
            record(context, ops, *_REPAIRS[repair])
        return any(changed.values())
