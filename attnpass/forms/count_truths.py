"""attn-count-truths: truths are counted, and all or any asked for, in numbers of 32 bits."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from ..ir import (
    Builder,
    body_names,
    constant_truth,
    element_type,
    filled_with,
    iterator_kinds,
    loop_sizes,
    maps,
    reduces,
    sizes_of,
    whole_number,
)
from ..passes import OpPass

_YIELD = "linalg.yield"
# What a reduction of truths does, on what it starts, and what does the same to 0 and 1.
_FORMS = {
    ("arith.extui", "arith.addi", _YIELD): (0, "arith.addi"),
    ("arith.andi", _YIELD): (1, "arith.minui"),
    ("arith.ori", _YIELD): (0, "arith.maxui"),
}


class CountTruths(OpPass):
    """Writes a reduction of truths as one of 0 and 1 in 32 bits: `mask.sum(-1)`, which PyTorch
    counts in 64, `mask.all(-1)` as the least of a row, `mask.any(-1)` as the largest.

    IREE 3.13 fails to distribute sums in 64 bits of what it reads in fewer, on CUDA, and has a
    thread a row for all and any, whose bodies turn bytes to truths and back (400 rows of 1024 take
    an H200 24 us). Of known sizes there must be fewer truths than 2^31; of unknown ones no memory
    holds as many.
    """

    name = "attn-count-truths"
    summary = "CUDA: truths are counted in 32 bits"
    mends = "the sum of a mask of rows of unknown or long size does not compile for CUDA"
    why = "IREE has a thread a row for all and any of truths"
    ops = ("linalg.generic",)
    backends = ("cuda",)
    what = "fitted"

    def change(self, op: ir.Operation) -> str:
        found = _FORMS.get(tuple(body_names(op))) if _is_of_truths(op) else None
        if found is None or 1 < _bits(op.results[0]) <= 32:
            return ""
        start = None if found is None else filled_with(op.operands[1])
        if (
            found is None
            or start is None
            or found[0]
            not in (
                constant_truth(start),
                whole_number(start),
            )
        ):
            return ""
        _rewrite(op, *found)
        return "its truths are numbers of 32 bits"


def _is_of_truths(op: ir.Operation) -> bool:
    """Whether an op reduces truths along loops without windows, fewer of known number than 2^31."""
    if not reduces(op) or len(op.operands) != 2 or maps.positions(op) is None:
        return False
    sizes, kinds = loop_sizes(op), iterator_kinds(op)
    summed = [sizes[loop] or 1 for loop, kind in enumerate(kinds) if kind == "reduction"]
    return _bits(op.operands[0]) == 1 and math.prod(summed) < 1 << 31


def _bits(value: ir.Value) -> int:
    kind = element_type(value)
    return kind.width if isinstance(kind, ir.IntegerType) else 0


def _rewrite(op: ir.Operation, start: int, combine: str) -> None:
    build, (result,) = Builder(op), op.results
    i32 = ir.IntegerType.get_signless(32, result.context)
    positions = maps.positions(op)
    assert positions is not None, "it has been read before"

    def add(inner: Builder, scalars: Sequence[ir.Value]) -> list[ir.Value]:
        number = inner.convert("arith.extui", scalars[0], i32)
        return [inner.apply(combine, number, scalars[1])]

    sizes = sizes_of(op.operands[1])
    init = build.fill(build.constant_number(start, i32), build.empty(sizes, i32))
    (made,) = build.generic([op.operands[0]], [init], positions, add)
    kind = element_type(result)

    def back(inner: Builder, scalars: Sequence[ir.Value]) -> list[ir.Value]:
        if _bits(result) == 1:
            return [inner.compare("ne", scalars[0], inner.splat(0, i32))]
        return [inner.convert("arith.extui", scalars[0], kind)]

    if kind != i32:
        own = tuple(range(len(sizes)))
        (made,) = build.generic([made], [build.empty(sizes, kind)], [own, own], back)
    result.replace_all_uses_with(made)
