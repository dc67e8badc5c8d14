"""What an index in a lowered kernel is in each thread, where thread ids and constants alone
make it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from iree.compiler import ir

from ...ir import DYNAMIC, Refusal, defining_op, reached

WARP = 32
_BINARY: dict[str, Callable[[int, int], int]] = {
    "arith.addi": lambda left, right: left + right,
    "arith.subi": lambda left, right: left - right,
    "arith.muli": lambda left, right: left * right,
}

# Ops that make indices: they may be repeated for another step of a loop.
_INDEX_OPS = ("affine.", "arith.")

Values = tuple[int, ...]


def places_refusal(
    places: Sequence[ir.Value], body: ir.Block, position: ir.Value | None = None
) -> Refusal | None:
    """Why indices in the body of a loop cannot be computed for another step, of its `position` if
    that is given, or None."""

    def read(value: ir.Value) -> list[ir.Value]:
        op = defining_op(value)
        return list(op.operands) if op is not None and op.block == body else []

    for value in reached(places, read):
        op = defining_op(value)
        is_step = position is not None and value == position
        if op is None and value.owner == body and not is_step:
            return Refusal("where its tiles lie depends on the step before")
        if op is not None and op.block == body and not op.name.startswith(_INDEX_OPS):
            return Refusal(f"where its tiles lie is computed by {op.name}")
    return None


class Threads:
    """The threads of a workgroup that is `count` x 1 x 1, and index values in each of them."""

    def __init__(self, count: int):
        self.count = count
        self._known: dict[ir.Value, Values | None] = {}

    def values(self, value: ir.Value) -> Values | None:
        """`value` in threads 0, 1, ...; None where more than thread ids decides it."""
        if value not in self._known:
            self._known[value] = self._compute(value)
        return self._known[value]

    def _compute(self, value: ir.Value) -> Values | None:
        op = defining_op(value)
        if op is None:
            return None
        if op.name == "arith.constant":
            attribute = op.attributes["value"]
            number = attribute.value if isinstance(attribute, ir.IntegerAttr) else None
            return None if number is None else (number,) * self.count
        if op.name == "gpu.thread_id":
            along_x = op.attributes["dimension"] == dimension_x(op.context)
            return tuple(range(self.count)) if along_x else (0,) * self.count
        operands = [self.values(operand) for operand in op.operands]
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands):
            return None
        if op.name == "affine.delinearize_index":
            return self._delinearize(op, known[0], list(op.results).index(value))
        if op.name == "affine.linearize_index":
            return _linearize(op, known)
        if op.name in _BINARY:
            return tuple(_BINARY[op.name](*pair) for pair in zip(*known, strict=True))
        return None

    def _delinearize(self, op: ir.Operation, linear: Values, number: int) -> Values | None:
        sizes = _basis(op, len(op.results))
        if sizes is None or (sizes[0] is not None and max(linear) >= _product(sizes)):
            return None
        inner = _product(sizes[number + 1 :])
        size = sizes[number]
        # The outermost result is what is left, whether or not it has a bound.
        return tuple(x // inner if number == 0 else x // inner % (size or 1) for x in linear)


def dimension_x(context: ir.Context) -> ir.Attribute:
    """The attribute of `gpu.thread_id x`."""
    return ir.Attribute.parse("#gpu.dim<x>", context)


def _linearize(op: ir.Operation, indices: list[Values]) -> Values | None:
    sizes = _basis(op, len(indices))
    if sizes is None:
        return None
    strides = [_product(sizes[number + 1 :]) for number in range(len(sizes))]
    return tuple(
        sum(index * stride for index, stride in zip(row, strides, strict=True))
        for row in zip(*indices, strict=True)
    )


def _basis(op: ir.Operation, count: int) -> list[int | None] | None:
    """The sizes of `count` dims, the outermost None where it has no bound; None where one is
    known only at run time."""
    static: list[int] = list(op.attributes["static_basis"])
    if DYNAMIC in static:
        return None
    return [None] * (count - len(static)) + static


def _product(sizes: list[int | None]) -> int:
    return math.prod(size or 1 for size in sizes)
