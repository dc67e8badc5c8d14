"""attn-split-sums: sums of many numbers into few are sums of parts first, for CUDA."""

from __future__ import annotations

import math
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    Builder,
    copy_generic,
    defining_op,
    element_type,
    filled_with,
    index_ops,
    is_float,
    iterator_kinds,
    loop_sizes,
    maps,
    reduces,
    scalar_number,
    sizes_of,
    yielded,
)
from ..ir.contractions import is_contraction
from ..passes import OpPass
from .shared_loops import combines

_REDUCTION = "reduction"
_COMBINES = ("arith.addf", "arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf")
# Of fewer numbers one workgroup is as fast; with as many workgroups there are enough.
_LEAST, _FEW, _MANY = 1 << 19, 66, 528
# Sums that a workgroup makes where they lie side by side.
_SIDE_BY_SIDE = 32
_FEWEST_PARTS = 4


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
    2. where sizes are unknown, numbers few, or sums as many as keep a GPU busy;
    3. where no loop has whole parts.
    """
    positions = maps.positions_of(op.attributes["indexing_maps"])
    if positions is None or not combines(op) or is_contraction(op) or index_ops(op):
        return None
    last, start = defining_op(yielded(op)), filled_with(op.operands[len(op.operands) - 1])
    if last is None or last.name not in _COMBINES or not is_float(element_type(op.results[0])):
        return None
    if start is None or (last.name == _COMBINES[0] and scalar_number(start) != 0):
        return None
    sizes, kinds = loop_sizes(op), iterator_kinds(op)
    known = {loop: size for loop, size in sizes.items() if size}
    whole = [dims for dims in positions[:-1] if {*dims} == {*range(len(kinds))}]
    if len(known) != len(kinds) or not whole or any(None in dims for dims in positions):
        return None
    groups = math.prod(known[loop] for loop, kind in enumerate(kinds) if kind != _REDUCTION)
    if kinds[whole[0][-1] or 0] != _REDUCTION:
        groups = -(-groups // _SIDE_BY_SIDE)
    if groups >= _FEW or math.prod(known.values()) < _LEAST:
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


def _in_parts(op: ir.Operation, split: _Parts) -> ir.Value:
    """The result of a sum, made of its parts."""
    positions, build = maps.positions_of(op.attributes["indexing_maps"]), Builder(op)
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
    sums = copy_generic(op, reads, kinds, build).results[0]
    rank = len(positions[-1])
    combine = defining_op(yielded(op))
    assert combine is not None
    everywhere = tuple(range(rank))
    return build.generic(
        [sums],
        [init],
        [(rank, *everywhere), everywhere],
        lambda inner, x: [inner.create(combine.name, [x[1].type], [x[0], x[1]]).results[0]],
    )[0]
