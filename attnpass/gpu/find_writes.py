"""attn-find-writes: each element of a tensor finds what is written to it by index, for GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import (
    Builder,
    Size,
    body_of,
    body_ops,
    defining_op,
    element_type,
    filled_with,
    product,
    sizes_of,
)
from ..ir.bodies import constant_number
from ..passes import OpPass
from . import ordered_sums

_SCATTER = "iree_linalg_ext.scatter"
_ADDS = ("arith.addf", "arith.addi")
# Longer tensors, and more comparisons in all, take longer than one write after the other.
_LONGEST, _MOST = 1 << 16, 1 << 32
# More rows that are added, or comparisons in all, take longer than their order (9 us on an H200;
# comparisons with a row 40 ns); of the last number and more there is none.
_MOST_ADDED_ROWS, _MOST_ADDED, _MOST_ORDERED = 256, 1 << 20, 1 << 30
# As many elements by several indices one thread adds as fast.
_FEW_IN_TURN = 512


class FindWrites(OpPass):
    """Makes of writes of N rows by one index each to a tensor of E rows that is a constant

        last[e] = the last n with index[n] == e            (N comparisons for each e)
        result[e] = update[last[e]], or the constant where there is none

    and of what is added sums of those with index[n] == e, of 16 bits in f32: by N comparisons for
    each element, or, where these are many, of rows in the order of their places
    (`ordered_sums.py`), which may be of several indices and of unknown number. A tensor of
    numbers, without dims of rows, and one to which is added, may be any.

    IREE 3.13 writes one row after the other, on the GPU too: the inverse of a permutation of 2048
    tokens, `inverse[order] = arange(2048)`, takes some 180 us, and 32 rows of 2048 that are added
    (the experts' of 4 tokens) a millisecond. Comparisons are 239 ms for 65536 rows of 128 that are
    added to 4096.
    """

    name = "attn-find-writes"
    summary = "GPUs: elements find what is written to them"
    why = "IREE writes by index in one thread, whatever is written"
    backends = ("cuda", "rocm")
    what = "fitted"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == _SCATTER and len(op.results) == 1 and len(op.operands) in (3, 4)

    def change(self, op: ir.Operation) -> str:
        (add, *_), build = (*_added(op), ""), Builder(op)
        if _is_long_sum(op):
            op.results[0].replace_all_uses_with(_ordered_sums(op, add, build))
            return "adds up the rows of each place in the order of places"
        if not _is_cheap(op):
            return ""
        result = _sums(op, add, build) if add else _last(op, build)
        op.results[0].replace_all_uses_with(result)
        rows, length = sizes_of(op.operands[0])[0], sizes_of(op.operands[-1])[0]
        return f"each of {length} rows finds what is written to it among {rows}"


def _added(op: ir.Operation) -> list[str]:
    """The op that adds an update to the element that stands, if its body does nothing else."""
    *steps, _ = body_ops(op)
    return [step.name for step in steps if step.name in _ADDS]


def _only_adds(op: ir.Operation) -> bool:
    """Whether the body adds an update to what stands; not where rows differ, which IREE writes
    side by side."""
    *steps, end = body_ops(op)
    if len(steps) != 1 or steps[0].name not in _ADDS:
        return False
    is_row = len(sizes_of(op.operands[-1])) > 1
    alike = not (is_row and ir.BoolAttr(op.attributes["unique_indices"]).value)
    return (
        alike
        and end.operands[0] == steps[0].results[0]
        and {*steps[0].operands} == {*body_of(op).arguments}
    )


def _is_long_sum(op: ir.Operation) -> bool:
    """Whether it adds whole rows, and more than are found by comparisons."""
    updates, indices, original = op.operands[0], op.operands[1], op.operands[-1]
    places = list(op.attributes["dimension_map"])
    sizes, full = sizes_of(updates), sizes_of(original)
    if not _only_adds(op) or places != [*range(len(places))] or not 1 <= len(sizes_of(indices)) < 3:
        return False
    if sizes[1:] != full[len(places) :]:
        return False
    rows, length = sizes[0], product(full[: len(places)])
    if any(isinstance(size, int) and size > _MOST_ORDERED for size in (rows, length)):
        return False
    if rows in (0, 1):
        return False
    is_table = len(places) > 1
    work = product(sizes if is_table else [rows, *full])
    if is_table or not isinstance(work, int) or not isinstance(rows, int):
        return not isinstance(work, int) or work > _FEW_IN_TURN
    return rows > _MOST_ADDED_ROWS or work > _MOST_ADDED


def _is_cheap(op: ir.Operation) -> bool:
    updates, original = op.operands[0], op.operands[-1]
    *steps, end = body_ops(op)
    adds = _only_adds(op)
    writes = not steps and end.operands[0] == body_of(op).arguments[0]
    if list(op.attributes["dimension_map"]) != [0] or not (adds or writes):
        return False
    sizes, full = sizes_of(updates), sizes_of(original)
    rows, length = sizes[0], full[0]
    if not isinstance(rows, int) or not isinstance(length, int) or sizes[1:] != full[1:]:
        return False
    if any(not isinstance(size, int) for size in full):
        return False
    is_row = len(full) > 1
    if is_row and adds:
        return rows > 1
    is_new = _is_empty(original) or filled_with(original) is not None
    is_new = is_new or constant_number(original) is not None
    return (is_new if is_row else True) and _few(rows, length)


def _is_empty(value: ir.Value) -> bool:
    """Whether nothing is in a tensor yet: what is not written may be anything."""
    op = defining_op(value)
    return op is not None and op.name == "tensor.empty"


def _few(rows: int, length: int) -> bool:
    return rows > 1 and length <= _LONGEST and rows * length <= _MOST


def _hits(
    op: ir.Operation, build: Builder, loop: int
) -> tuple[list[ir.Value], list[tuple[int, ...]]]:
    """The indices, in 32 bits, and the mask, if there is one, read along a loop."""
    indices, *mask = list(op.operands)[1:-1]
    if len(sizes_of(indices)) == 2:
        indices = build.collapse(indices, [[0, 1]])
    i32 = ir.IntegerType.get_signless(32, op.context)
    if element_type(indices) != i32:
        indices = _narrow(build, indices, sizes_of(op.operands[-1])[0], i32)
    return [indices, *mask], [(loop,)] * (1 + len(mask))


def _narrow(build: Builder, indices: ir.Value, length: Size, i32: ir.Type) -> ir.Value:
    """Indices in 32 bits, which a GPU compares in one instruction; -1 where they are none of
    `length`."""

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> Sequence[ir.Value]:
        index = inner.to_index(scalars[0])
        # A negative one is beyond all where it counts as one without sign.
        inside = inner.compare("ult", index, inner.size(length))
        place = inner.convert("arith.index_cast", index, i32)
        return [inner.select(inside, place, inner.splat(-1, i32))]

    init = build.empty(sizes_of(indices), i32)
    (narrow,) = build.generic([indices], [init], [(0,), (0,)], body)
    # Else it is made anew for each row that looks for its index.
    return compute_barrier(build, narrow)


def _is_hit(inner: Builder, given: Sequence[ir.Value]) -> ir.Value:
    index, *mask = given
    place = inner.convert("arith.index_cast", inner.loop_index(0), index.type)
    hit = inner.compare("eq", index, place)
    return inner.andi(hit, mask[0]) if mask else hit


def _places(op: ir.Operation, build: Builder, sizes: Sequence[Size]) -> ir.Value:
    """For each update the number (i32) of the row that it is added to, of dims of these sizes; -1
    where that is none, or masked."""
    indices, *mask = list(op.operands)[1:-1]
    is_table = len(sizes_of(indices)) == 2
    i32 = ir.IntegerType.get_signless(32, op.context)

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
        at, inside = inner.constant_index(0), scalars[0] if mask else inner.splat(1, _i1(op))
        for column, size in enumerate(sizes):
            places = [inner.loop_index(0), inner.constant_index(column)]
            index = inner.to_index(inner.extract(indices, places[: 1 + is_table]))
            # A negative one is beyond all where it counts as one without sign.
            inside = inner.andi(inside, inner.compare("ult", index, inner.size(size)))
            at = inner.addi(inner.muli(at, inner.size(size)), index)
        place = inner.convert("arith.index_cast", at, i32)
        return inner.select(inside, place, inner.splat(-1, i32))

    return build.computed(sizes_of(indices)[:1], i32, body, *mask)


def _i1(op: ir.Operation) -> ir.Type:
    return ir.IntegerType.get_signless(1, op.context)


def _ordered_sums(op: ir.Operation, add: str, build: Builder) -> ir.Value:
    original, updates = op.operands[-1], compute_barrier(build, op.operands[0])
    full, indexed = sizes_of(original), len(list(op.attributes["dimension_map"]))
    places = _places(op, build, full[:indexed])
    groups = [[*range(indexed)], *([dim] for dim in range(indexed, len(full)))]
    rows = original if indexed == 1 else build.collapse(original, groups)
    sums = ordered_sums.added(build, rows, updates, places, add, _summed(element_type(original)))
    return sums if indexed == 1 else build.expand(sums, groups, full)


def _summed(kind: ir.Type) -> ir.Type:
    """The type in which elements are added up."""
    return ir.F32Type.get(kind.context) if str(kind) in ("f16", "bf16") else kind


def _sums(op: ir.Operation, add: str, build: Builder) -> ir.Value:
    original = op.operands[-1]
    everywhere, kind = tuple(range(len(sizes_of(original)))), element_type(original)
    rows = len(everywhere)
    read, reads = _hits(op, build, rows)
    summed = _summed(kind)

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> Sequence[ir.Value]:
        *given, update, total = scalars
        added = inner.select(_is_hit(inner, given), update, inner.splat(0, kind))
        return [inner.apply(add, total, _as(inner, added, summed))]

    maps = [*reads, (rows, *everywhere[1:]), everywhere]
    start = _cast(build, original, summed)
    (total,) = build.generic([*read, op.operands[0]], [start], maps, body)
    return _cast(build, total, kind)


def _as(build: Builder, scalar: ir.Value, kind: ir.Type) -> ir.Value:
    return scalar if scalar.type == kind else build.cast_float(scalar, kind)


def _cast(build: Builder, value: ir.Value, kind: ir.Type) -> ir.Value:
    if element_type(value) == kind:
        return value
    dims = tuple(range(len(sizes_of(value))))
    init = build.empty(sizes_of(value), kind)
    return build.generic([value], [init], [dims, dims], lambda b, x: [_as(b, x[0], kind)])[0]


def _last(op: ir.Operation, build: Builder) -> ir.Value:
    updates, original = op.operands[0], op.operands[-1]
    i32 = ir.IntegerType.get_signless(32, op.context)
    sizes, (read, reads) = sizes_of(original), _hits(op, build, 1)
    init = build.fill(build.splat(0, i32), build.empty(sizes[:1], i32))

    def find(inner: Builder, scalars: Sequence[ir.Value]) -> Sequence[ir.Value]:
        *given, last = scalars
        number = inner.addi(inner.loop_index(1), inner.constant_index(1))
        number = inner.convert("arith.index_cast", number, i32)
        found = inner.select(_is_hit(inner, given), number, inner.splat(0, i32))
        return [inner.apply("arith.maxsi", last, found)]

    (last,) = build.generic(read, [init], [*reads, (0,)], find)
    dims = tuple(range(len(sizes)))
    scalar = filled_with(original)
    if _is_empty(original):
        scalar = build.splat(0, element_type(original))

    def take(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
        found = inner.compare("sgt", scalars[0], inner.splat(0, i32))
        number = inner.select(found, inner.subi(scalars[0], 1), inner.splat(0, i32))
        places = [inner.to_index(number), *map(inner.loop_index, dims[1:])]
        other = scalars[1] if scalar is None else scalar
        return inner.select(found, inner.extract(updates, places), other)

    others = [] if scalar is not None else [original]
    return build.computed(sizes, element_type(original), take, (last, (0,)), *others)
