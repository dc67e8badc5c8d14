"""Gives elementwise kernels that turn a matrix square steps.

IREE 3.13 takes a vector of the result's columns a step, whose elements stand in as many rows of
what is turned and are read one by one. A square of as many rows and columns is turned in registers.
"""

from __future__ import annotations

from iree.compiler import ir

from ..codegen.kernel import CONFIGURATION, configured, reconfigure
from ..ir import element_bytes, is_elementwise, maps, printed, ranked_shape

_STEP = "vector_common_parallel"


def square_steps(function: ir.Operation, lanes: int) -> bool:
    """Configures a kernel of one elementwise op that turns numbers of 32 bits so that it goes by
    squares of `lanes`; whether it is one, and squares divide it."""
    ops = configured(function)
    if len(ops) != 1 or not is_elementwise(ops[0]):
        return False
    (op,) = ops
    positions = maps.positions(op)
    step = printed.numbers(op.attributes[CONFIGURATION], _STEP)
    if positions is None or len(op.results) != 1 or not step:
        return False
    *reads, written = positions
    sizes, last = ranked_shape(op.results[0]), len(written) - 1
    if written != tuple(range(len(written))) or step != [*[1] * last, lanes]:
        return False
    turned = {
        row
        for value, dims in zip(op.operands, reads, strict=False)
        if last in dims and (row := dims[-1]) is not None and row != last
        if element_bytes(value) == 4
    }
    if len(turned) != 1:
        return False
    (row,) = turned
    if any(not size or size % lanes for size in (sizes[row], sizes[last])):
        return False
    reconfigure(
        op, {_STEP: lambda step: [lanes if n == row else size for n, size in enumerate(step)]}
    )
    return True
