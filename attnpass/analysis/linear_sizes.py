"""Sizes as sums of others: what a dim is more than a multiple of another is then a number."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import DynamicSize, Size, SizeProduct, defining_op, index_size, whole_number
from .arithmetic import compute
from .values import Linear, multiply


class LinearSizes:
    """Reads sizes as linear expressions, whose variables are the sizes that nothing is known of,
    by numbers that are this reader's own."""

    # Arithmetic deeper than this is no size's.
    deepest = 40

    def __init__(self) -> None:
        self._numbers: dict[Size, int] = {}
        self._known: dict[ir.Value, Linear] = {}

    def of(self, size: Size) -> Linear:
        if isinstance(size, int):
            return Linear(size)
        if isinstance(size, SizeProduct):
            made = Linear(1)
            for factor in size.factors:
                product = multiply(made, self.of(factor))
                if not isinstance(product, Linear):
                    return self._variable(size)
                made = product
            return made
        return self._variable(size) if size.dim is not None else self._index(size.value, 0)

    def _index(self, value: ir.Value, depth: int) -> Linear:
        if value not in self._known:
            self._known[value] = self._made(value, depth)
        return self._known[value]

    def _made(self, value: ir.Value, depth: int) -> Linear:
        number, op = whole_number(value), defining_op(value)
        if number is not None:
            return Linear(number)
        size = DynamicSize(value)
        traced = index_size(value) if isinstance(value.type, ir.IndexType) else size
        if traced != size:
            return self.of(traced)
        if op is not None and op.name.startswith("arith.") and depth < self.deepest:
            given = [self._index(operand, depth + 1) for operand in op.operands]
            made = compute(op, given, {})
            if isinstance(made, Linear):
                return made
        return self._variable(size)

    def _variable(self, size: Size) -> Linear:
        number = self._numbers.setdefault(size, len(self._numbers))
        return Linear(0, ((number, 1),))
