"""attn-split-sums: sums of many numbers into few are sums of parts first, for CUDA."""

from __future__ import annotations

import math
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import (
    Builder,
    copy_generic,
    defining_op,
    element_type,
    filled_with,
    is_elementwise,
    iterator_kinds,
    loop_sizes,
    maps,
    reached,
    reduces,
    scalar_number,
    sizes_of,
    users,
    whole_number,
    yielded,
)
from ..ir.contractions import is_contraction, shares_factors
from ..ir.views import RESHAPES
from ..passes import OpPass
from .shared_loops import LARGEST, added_parts, combines

_REDUCTION = "reduction"
_ADDS = ("arith.addf", "arith.addi")
# Of fewer numbers one workgroup is as fast; with as many workgroups there are enough.
_LEAST, _FEW, _MANY = 1 << 19, 66, 528
# Of what is read again, as of a norm, the fewest numbers of a sum: one kernel has the others.
_LEAST_AGAIN = 1 << 16
# Sums that a workgroup makes where they lie side by side.
_SIDE_BY_SIDE = 32
_FEWEST_PARTS = 4
# Ops between what is summed and a product that reads it, at most.
_STEPS_TO_PRODUCT = 8


class SplitSums(OpPass):
    """Makes sums of many numbers, and maxima, of the sums of their parts, where there are few of
    them: a loss, the norm of a tensor, the mean of all places.

    IREE 3.13 has a workgroup for each sum: 16 million numbers take it 944 us on an H200.
    """

    name = "attn-split-sums"
    summary = "CUDA: long sums in parts"
    why = "IREE has a workgroup for a sum, however long"
    backends = ("cuda",)
    what = "fitted"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == "linalg.generic" and len(op.results) == 1 and reduces(op)

    def change(self, op: ir.Operation) -> str:
        split = _find(op)
        if split is None:
            return ""
        op.results[0].replace_all_uses_with(_in_parts(op, split))
        return f"is the sum of {split.parts} parts"


@dataclass(frozen=True)
class _Parts:
    """The loop that is cut into so many `parts` of `size` numbers each."""

    loop: int
    parts: int
    size: int


def _find(op: ir.Operation) -> _Parts | None:
    """How to cut a sum; None where it is left:

    1. where an op does more than sum, or start at 0, or is a product, or what it adds depends on
       the sum so far;
    2. where sizes are unknown, numbers few, or few of those of a sum that are read again, or sums
       as many as keep a GPU busy;
    3. where products are in front and behind, of attention that is written out;
    4. where no loop has whole parts.
    """
    positions = maps.positions(op)
    if positions is None or not combines(op) or shares_factors(op):
        return None
    last, start = defining_op(yielded(op)), filled_with(op.operands[len(op.operands) - 1])
    if last is None or start is None or last.name not in (*_ADDS, *LARGEST):
        return None
    if last.name in _ADDS and 0 not in (scalar_number(start), whole_number(start)):
        return None
    sizes, kinds = loop_sizes(op), iterator_kinds(op)
    known = {loop: size for loop, size in sizes.items() if size}
    whole = [dims for dims in positions[:-1] if {*dims} == {*range(len(kinds))}]
    if len(known) != len(kinds) or not whole:
        return None
    groups = math.prod(known[loop] for loop, kind in enumerate(kinds) if kind != _REDUCTION)
    if kinds[whole[0][-1] or 0] != _REDUCTION:
        groups = -(-groups // _SIDE_BY_SIDE)
    if groups >= _FEW or math.prod(known.values()) < _LEAST:
        return None
    summed = math.prod(known[loop] for loop, kind in enumerate(kinds) if kind == _REDUCTION)
    if summed < _LEAST_AGAIN and any(map(_is_read_again, op.operands)):
        return None
    if any(_is_of_product(value) and _is_for_product(value) for value in op.operands):
        return None
    wanted = _MANY // groups
    for loop in whole[0]:
        if loop is None or kinds[loop] != _REDUCTION:
            continue
        size = known[loop]
        if _FEWEST_PARTS <= size <= 4 * wanted and len(kinds) > kinds.count("parallel") + 1:
            return _Parts(loop, size, 1)
        parts = max(one for one in range(1, wanted + 1) if size % one == 0)
        if parts >= _FEWEST_PARTS:
            return _Parts(loop, parts, size // parts)
    return None


def _is_read_again(value: ir.Value) -> bool:
    """Whether others read what is summed, or what elementwise ops make it of."""
    op = defining_op(value)
    if len(users(value)) > 1 and filled_with(value) is None:
        return True
    return op is not None and is_elementwise(op) and any(map(_is_read_again, op.operands))


def _is_of_product(value: ir.Value) -> bool:
    """Whether elementwise ops and reshapes make a value of a product."""

    def read(value: ir.Value) -> list[ir.Value]:
        op = defining_op(value)
        return list(op.operands) if op is not None and _passes(op) else []

    return any(is_contraction(defining_op(one)) for one in reached([value], read))


def _is_for_product(value: ir.Value) -> bool:
    """Whether a product reads what a few elementwise ops and reshapes make of a value."""
    left = seen = {value}
    for _ in range(_STEPS_TO_PRODUCT):
        readers = [op for one in left for op in users(one)]
        if any(map(is_contraction, readers)):
            return True
        left = {op.results[0] for op in readers if _passes(op)} - seen
        seen = seen | left
    return False


def _passes(op: ir.Operation) -> bool:
    return is_elementwise(op) or op.name in RESHAPES


def _in_parts(op: ir.Operation, split: _Parts) -> ir.Value:
    """The result of a sum, made of its parts."""
    positions, build = maps.positions(op), Builder(op)
    assert positions is not None
    *inputs, init = op.operands
    kinds, part = iterator_kinds(op), len(iterator_kinds(op))
    reads: list[tuple[ir.Value, maps.Positions]] = []
    for value, dims in zip(inputs, positions[:-1], strict=True):
        if split.size == 1:
            reads.append((value, tuple(part if loop == split.loop else loop for loop in dims)))
            continue
        shape = zip(sizes_of(value), dims, strict=True)
        sizes = [
            [split.parts, split.size] if loop == split.loop else [size] for size, loop in shape
        ]
        cut = [one for loop in dims for one in ((part, loop) if loop == split.loop else (loop,))]
        reads.append((build.split_dims(value, sizes), tuple(cut)))
    start = filled_with(init)
    assert start is not None
    space = build.empty([split.parts, *sizes_of(init)], element_type(init))
    reads.append((build.fill(start, space), (part, *positions[-1])))
    kinds = [*kinds, "parallel"]
    if split.size == 1:
        # The cut loop is gone: others behind it move up.
        order = [loop for loop in range(part + 1) if loop != split.loop]
        kinds = [kinds[loop] for loop in order]
        reads = [
            (value, tuple(None if loop is None else order.index(loop) for loop in dims))
            for value, dims in reads
        ]
        own = {loop: at for at, loop in enumerate(order) if loop != part}
        own[split.loop] = order.index(part)
    else:
        own = {loop: loop for loop in range(part) if loop != split.loop}

    def index(loop: int, inner: Builder) -> ir.Value:
        first = inner.muli(inner.loop_index(part), inner.constant_index(split.size))
        return inner.addi(first, inner.loop_index(loop))

    sums = copy_generic(op, reads, kinds, build, index_dims=own, compute_index=index).results[0]
    combine = defining_op(yielded(op))
    assert combine is not None
    # IREE fuses it with an elementwise op of all that has been summed, which few threads make then.
    return compute_barrier(build, added_parts(build, sums, init, combine.name))
