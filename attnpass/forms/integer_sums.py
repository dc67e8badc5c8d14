"""attn-integer-sums: truths are counted in 32 bits; integers are widened before they are summed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from ..attention.barrier import compute_barrier
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

_YIELD, _ADD = "linalg.yield", "arith.addi"
# What a reduction of truths does, on what it starts, and what does the same to 0 and 1.
_OF_TRUTHS: dict[tuple[str, ...], tuple[int, str]] = {
    ("arith.extui", _ADD, _YIELD): (0, _ADD),
    ("arith.andi", _YIELD): (1, "arith.minui"),
    ("arith.ori", _YIELD): (0, "arith.maxui"),
}
_WIDENED: dict[tuple[str, ...], str] = {
    (name, _ADD, _YIELD): name for name in ("arith.extsi", "arith.extui")
}


class IntegerSums(OpPass):
    """Writes a reduction of truths as one of 0 and 1 in 32 bits: `mask.sum(-1)`, which PyTorch
    counts in 64, `mask.all(-1)` as the least of a row, `mask.any(-1)` as the largest. Other
    integers of an unknown number that are summed in 64 bits are put in memory as such.

    IREE 3.13 fails to distribute sums in 64 bits of what it reads in fewer, on CUDA (known numbers
    of them are loops of `attn-short-rows`), and has a thread a row for all and any, whose bodies
    turn bytes to truths and back (400 rows of 1024 take an H200 24 us). Of known sizes there must
    be fewer truths than 2^31; of unknown ones no memory holds as many.
    """

    name = "attn-integer-sums"
    summary = "CUDA: truths are counted in 32 bits, unknown numbers of integers widened first"
    mends = "the sum of a mask of rows of unknown or long size does not compile for CUDA"
    why = "IREE has a thread a row for all and any of truths"
    ops = ("linalg.generic",)
    backends = ("cuda",)
    what = "fitted"

    def change(self, op: ir.Operation) -> str:
        if not reduces(op) or len(op.operands) != 2 or maps.positions(op) is None:
            return ""
        body, (read, result) = tuple(body_names(op)), map(_bits, op.operands)
        truths, widen = _OF_TRUTHS.get(body), _WIDENED.get(body)
        if read == 1:
            if truths is None or 1 < result <= 32 or not _starts_with(op, truths[0]):
                return ""
            if math.prod(size or 1 for size in _summed(op)) >= 1 << 31:
                return ""
            _count(op, *truths)
            return "its truths are numbers of 32 bits"
        if widen is None or result <= 32 or None not in _summed(op):
            return ""
        _widen(op, widen)
        return "what it sums is widened first"


def _bits(value: ir.Value) -> int:
    kind = element_type(value)
    return kind.width if isinstance(kind, ir.IntegerType) else 0


def _summed(op: ir.Operation) -> list[int | None]:
    """The sizes of what an op reduces."""
    sizes, kinds = loop_sizes(op), iterator_kinds(op)
    return [sizes[loop] for loop, kind in enumerate(kinds) if kind == "reduction"]


def _starts_with(op: ir.Operation, number: int) -> bool:
    start = filled_with(op.operands[1])
    return start is not None and number in (constant_truth(start), whole_number(start))


def _count(op: ir.Operation, start: int, combine: str) -> None:
    build, (result,), positions = Builder(op), op.results, maps.positions(op)
    assert positions is not None, "it has been read before"
    i32 = ir.IntegerType.get_signless(32, result.context)

    def add(inner: Builder, scalars: Sequence[ir.Value]) -> list[ir.Value]:
        number = inner.convert("arith.extui", scalars[0], i32)
        return [inner.apply(combine, number, scalars[1])]

    def back(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
        if _bits(result) == 1:
            return inner.compare("ne", scalars[0], inner.splat(0, i32))
        return inner.convert("arith.extui", scalars[0], element_type(result))

    sizes = sizes_of(op.operands[1])
    init = build.fill(build.constant_number(start, i32), build.empty(sizes, i32))
    (made,) = build.generic([op.operands[0]], [init], positions, add)
    result.replace_all_uses_with(build.computed(sizes, element_type(result), back, made))


def _widen(op: ir.Operation, name: str) -> None:
    build, (result,), positions = Builder(op), op.results, maps.positions(op)
    assert positions is not None, "it has been read before"
    kind, sizes = element_type(result), sizes_of(op.operands[0])

    def widen(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
        return inner.convert(name, scalars[0], kind)

    def add(inner: Builder, scalars: Sequence[ir.Value]) -> list[ir.Value]:
        return [inner.apply(_ADD, scalars[0], scalars[1])]

    wide = compute_barrier(build, build.computed(sizes, kind, widen, op.operands[0]))
    (made,) = build.generic([wide], [op.operands[1]], positions, add)
    result.replace_all_uses_with(made)
