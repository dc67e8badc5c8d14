"""attn-split-indices: loops whose bodies divide the number of an element have a dim a digit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from iree.compiler import ir

from ..attention.facts import configured_by
from ..ir import (
    Builder,
    DynamicSize,
    Size,
    SizeProduct,
    body_names,
    body_of,
    body_ops,
    collect,
    copy_generic,
    defining_op,
    element_type,
    enclosing,
    erase,
    erase_dead,
    has_one_use,
    index_dim,
    index_ops,
    iterator_kinds,
    maps,
    next_op,
    replace_op,
    sizes_of,
    symbol_name,
    users,
)
from ..ir.bodies import read_elementwise, whole_number
from ..machines import backends
from ..machines.gpu import copies
from ..passes import Pass, PassContext
from .whole_indices import make_whole

_QUOTIENT, _REST = "arith.divsi", "arith.remsi"
_ORDINAL = "iree_tensor_ext.dispatch.workload.ordinal"
_SUBGROUP = 32
_COMPUTES = ("linalg.", "iree_linalg_ext.")


class SplitIndices(Pass):
    """Splits a dim of n elements of a loop into n / c and c where the body takes its index by c
    and the rest, for CUDA and CPUs.

    Rotary embedding reads the other half of a head. IREE 3.13 makes a loop over halves of that,
    `x[.., 1 - half, i]`, then joins both dims with those that lie beside them: behind a division
    it no longer sees that neighbours are read, and a thread loads its elements one by one (2048
    rows of 32 heads of 128 in f16: 41 us on an H200, where memory takes 10). On a CPU it gathers
    them behind divisions of vectors: patches of 56 x 56 pixels, 3 x 3 of 64 channels in f32, 3.2 ms
    on one thread of a Zen 3, in runs 0.7. There indices that floats compute, as those of the
    nearest pixel, are made quotients first (64 x 112 x 112 of 56 x 56: 1.8 -> 0.36 ms).
    """

    name = "attn-split-indices"
    summary = "NVIDIA GPUs and CPUs: loops over numbers that are divided have a dim a digit"
    phase = "flow"
    backends = ("cuda", "llvm-cpu")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if not self.is_for(module):
            return False
        replaced: list[ir.Operation] = []
        cuda = "cuda" in backends(module)
        for cast in collect(module, _is_cast_for_loop, bodies=False):
            _cast_in_loop(cast)
        for loop in collect(module, _is_loop, bodies=False):
            if not cuda and (_gathers(loop) or _masks_bits(loop)):
                continue
            *before, last = _split_all(loop, whole=not cuda)
            if cuda and (before or _reads_by_index(loop)):
                copies.attach(last, _SUBGROUP)
            if before:
                why = "has a dim for each digit of the indices that it divides"
                context.report.record(loop, "fitted", why)
            replaced += before
        erase_dead(replaced)
        return bool(replaced)


def _is_loop(op: ir.Operation) -> bool:
    """Whether an op makes one tensor, element by element, in its own order, and no other op of
    its dispatch has loops: one alone may be configured."""
    if len(op.results) != 1 or read_elementwise(op) is None or not _is_alone(op):
        return False
    return not configured_by(op)


def _is_alone(op: ir.Operation) -> bool:
    others = (child.operation for child in op.block.operations)
    return not any(one.name.startswith(_COMPUTES) and one != op for one in others)


def _is_cast_for_loop(op: ir.Operation) -> bool:
    """Whether an op casts elements for one loop, which reads others by index: heads that a norm
    widens, too."""
    if op.name != "linalg.generic" or len(op.operands) != 2 or not has_one_use(op.results[0]):
        return False
    (reader,) = users(op.results[0])
    positions = maps.positions(op)
    casts = set(body_names(op)) <= {"arith.extf", "linalg.yield"} and read_elementwise(op)
    if not casts or not positions or positions[0] != tuple(range(len(positions[1]))):
        return False
    loops = reader.name == "linalg.generic" and reader.block == op.block
    return loops and read_elementwise(reader) is not None and _reads_by_index(reader)


def _cast_in_loop(cast: ir.Operation) -> None:
    """Casts in the body of the loop that reads what a cast makes."""
    (use,) = cast.results[0].uses
    loop, number = use.owner.operation, use.operand_number
    argument = body_of(loop).arguments[number]
    step, *_ = body_ops(cast)
    (first, *_) = body_ops(loop)
    copy = Builder(first).copy(step, [argument])
    argument.replace_all_uses_except(copy.results[0], copy)
    argument.set_type(element_type(cast.operands[0]))
    loop.operands[number] = cast.operands[0]
    erase(cast)


def _reads_by_index(loop: ir.Operation) -> bool:
    """Whether a loop takes elements by computed indices, and does arithmetic, but nothing else."""
    names = {name for name in body_names(loop) if not name.startswith(("arith.", "linalg."))}
    return names == {"tensor.extract"}


def _split_all(loop: ir.Operation, whole: bool) -> list[ir.Operation]:
    """The loop, and each loop that takes the place of the last, with one dim more, until no index
    is divided, in floats neither if these are made `whole`."""
    loops = [loop]
    while True:
        found = next(_divided(loops[-1]), None)
        if found is not None:
            loops.append(_split(loops[-1], *found))
        elif not whole or not make_whole(loops[-1]):
            return loops


def _gathers(loop: ir.Operation) -> bool:
    """Whether a body takes elements from where the elements that it is given say: they lie apart,
    and a CPU loads them one by one in any loop."""
    given: set[ir.Value] = set(body_of(loop).arguments)
    for op in body_ops(loop):
        if op.name == "tensor.extract" and given & set(list(op.operands)[1:]):
            return True
        if given & set(op.operands):
            given.update(op.results)
    return False


def _masks_bits(loop: ir.Operation) -> bool:
    """Whether a body divides by powers of two, and reads nothing by index: a CPU's vectors have
    these numbers by masks and shifts, and one long dim is fastest."""
    divisors = [
        whole_number(op.operands[1]) or 0 for op in body_ops(loop) if op.name in (_QUOTIENT, _REST)
    ]
    by_index = "tensor.extract" in body_names(loop)
    return not by_index and all(size & (size - 1) == 0 for size in divisors)


def _divided(loop: ir.Operation) -> Iterator[tuple[int, int]]:
    """Each dim whose index the body divides by a number that is known to divide the size of all
    that is read along it, with that number."""
    positions = maps.positions(loop)
    assert positions is not None
    for index in index_ops(loop):
        dim = index_dim(index)
        sizes = {
            size
            for value, read in zip(loop.operands, positions, strict=True)
            for size, at in zip(sizes_of(value) if read else (), read, strict=True)
            if at == dim
        }
        for user in users(index.results[0]):
            by = _divisor(user, index)
            if by and by > 1 and by not in sizes and all(_is_multiple(one, by) for one in sizes):
                yield dim, by


def _is_multiple(size: Size, of: int) -> bool:
    if isinstance(size, int):
        return size % of == 0
    if isinstance(size, SizeProduct):
        return any(_is_multiple(factor, of) for factor in size.factors)
    return size.dim is None and _is_multiple_of(size.value, of)


def _is_multiple_of(index: ir.Value, number: int) -> bool:
    """Whether an index is known to be a multiple: a product says so, for what a dispatch is given
    that of all who give it."""
    op = defining_op(index)
    if op is None:
        given = _given(index)
        return bool(given) and all(_is_multiple_of(value, number) for value in given)
    if op.name == _ORDINAL:
        return _is_multiple_of(op.operands[0], number)
    if op.name == "arith.divui":
        by = whole_number(op.operands[1])
        return by is not None and _is_multiple_of(op.operands[0], by * number)
    if op.name == "arith.muli":
        return any(_is_multiple_of(operand, number) for operand in op.operands)
    known = whole_number(index)
    return known is not None and known % number == 0


def _given(argument: ir.Value) -> list[ir.Value]:
    """What those who dispatch a kernel give it for an argument; nothing for other arguments."""
    block = ir.BlockArgument(argument)
    function = block.owner.owner.operation
    outer = (one for one in enclosing(function) if one.name == "flow.executable")
    executable = next(outer, None)
    if executable is None or executable.parent is None or function.name != "func.func":
        return []
    name = symbol_name(executable)
    found: list[ir.Value] = []
    for op in collect(executable.parent.operation, lambda op: op.name == "flow.dispatch"):
        entries = ir.ArrayAttr(op.attributes["entry_points"])
        if any(ir.SymbolRefAttr(entry).value[0] == name for entry in entries):
            workload, *_ = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
            found.append(op.operands[workload + block.arg_number])
    return found


def _divisor(op: ir.Operation, index: ir.Operation) -> int | None:
    """The number by which an op divides an index, or takes the rest."""
    if op.name not in (_QUOTIENT, _REST) or op.operands[0] != index.results[0]:
        return None
    return whole_number(op.operands[1])


def _split(loop: ir.Operation, dim: int, by: int) -> ir.Operation:
    """The loop again, with `dim` as two: its index divided by `by`, and the rest."""
    build = Builder(loop)
    positions = maps.positions(loop)
    assert positions is not None
    count = len(iterator_kinds(loop))
    _name_digits(loop, dim, by, count)
    new = {old: old + (old > dim) for old in range(count)} | {count: dim + 1}
    reads = [
        (_cut(value, read, dim, by, build), _with_rest(read, dim, new))
        for value, read in zip(loop.operands, positions, strict=True)
    ]
    kinds = iterator_kinds(loop)
    copy = copy_generic(loop, reads, [*kinds, kinds[0]], build, index_dims=new)
    whole = build.collapse(copy.results[0], _groups(positions[-1], dim))
    loop.results[0].replace_all_uses_with(whole)
    return copy


def _name_digits(loop: ir.Operation, dim: int, by: int, rest_dim: int) -> None:
    """Makes the index of `dim` in a body that of its quotient by `by`, and what was the rest the
    index of the dim `rest_dim`, which the copy of the loop will have; who reads the index itself
    gets it from both."""
    for index in [op for op in index_ops(loop) if index_dim(op) == dim]:
        quotient, readers = index.results[0], users(index.results[0])
        build = Builder(next_op(index))
        rest = build.loop_index(rest_dim)
        whole = build.multiply_add(quotient, by, rest)
        for op in readers:
            digit = quotient if op.name == _QUOTIENT else rest
            if _divisor(op, index) == by:
                replace_op(op, digit)
            else:
                for number, operand in enumerate(op.operands):
                    op.operands[number] = whole if operand == quotient else operand


def _cut(value: ir.Value, read: maps.Positions, dim: int, by: int, build: Builder) -> ir.Value:
    """What a loop reads or writes by `read`, with a dim for the quotient and one for the rest."""
    sizes = [
        [_quotient(size, by, build), by] if loop == dim else [size]
        for loop, size in zip(read, sizes_of(value), strict=True)
    ]
    return build.expand(value, _groups(read, dim), [size for pair in sizes for size in pair])


def _quotient(size: Size, by: int, build: Builder) -> Size:
    if isinstance(size, int):
        return size // by
    return DynamicSize(build.apply("arith.divui", build.size(size), by))


def _groups(read: maps.Positions, dim: int) -> list[list[int]]:
    """For each dim that a loop reads, the dims that stand for it once `dim` is two."""
    at = itertools.count()
    return [[next(at) for _ in range(1 + (loop == dim))] for loop in read]


def _with_rest(read: maps.Positions, dim: int, new: Mapping[int, int]) -> maps.Positions:
    found: list[int | None] = []
    for loop in read:
        found += [loop if loop is None else new[loop], *([dim + 1] if loop == dim else [])]
    return tuple(found)
