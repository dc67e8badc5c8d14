"""Takes what widens weights out of the products of a kernel, where IREE 3.13 has put it into their
bodies: loops of ours read products of two factors, one of which elementwise ops may make.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..ir import (
    Builder,
    below_casts,
    body_of,
    collect,
    defining_op,
    erase,
    index_ops,
    maps,
    reduces,
    sizes_of,
    summand,
)
from ..ir.bodies import needed_ops
from ..ir.regions import copy_steps

_ROWS_FIRST = (0, 1)


def split_widening(function: ir.Operation) -> bool:
    """Makes each sum of products in a kernel, one factor of which is computed of several numbers
    or of integers, a product with what elementwise ops make; returns whether there was one."""
    found = [op for op in collect(function, reduces, bodies=False) if _split(op)]
    for op in found:
        erase(op)
    return bool(found)


def _split(op: ir.Operation) -> bool:
    """Gives the users of an op the sums of products with a factor that is made before; returns
    whether there is such a factor."""
    is_plain = op.name == "linalg.generic" and not index_ops(op)
    added = summand(op) if is_plain else None
    product = None if added is None else defining_op(added)
    if product is None or product.name != "arith.mulf":
        return False
    positions = maps.positions(op)
    if positions is None:
        return False
    arguments = list(body_of(op).arguments)
    if product.operands[0].type != arguments[-1].type:
        return False
    for number in _ROWS_FIRST:
        rows, weights = product.operands[number], product.operands[1 - number]
        if below_casts(rows) in arguments[:-1] and below_casts(weights) not in arguments:
            steps = needed_ops(op, [weights])
            used = {value for step in steps for value in step.operands}
            read = [place for place, argument in enumerate(arguments) if argument in used]
            whole = _whole(positions, read)
            row = arguments.index(below_casts(rows))
            if whole is not None and row not in read and len(arguments) - 1 not in read:
                _write(op, rows, row, weights, read, whole)
                return True
    return False


def _whole(positions: Sequence[maps.Positions], read: list[int]) -> maps.Positions | None:
    """The loops of the one of these operands that has all loops of them."""
    loops = {loop for place in read for loop in positions[place]}
    each = [positions[place] for place in read]
    return next((dims for dims in each if None not in dims and {*dims} == loops), None)


def _write(
    op: ir.Operation,
    rows: ir.Value,
    row: int,
    weights: ir.Value,
    read: list[int],
    whole: maps.Positions,
) -> None:
    build, operands, arguments = Builder(op), list(op.operands), list(body_of(op).arguments)
    positions = maps.positions(op)
    assert positions is not None
    source = next(place for place in read if positions[place] == whole)

    def widen(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
        names = dict(zip([arguments[place] for place in read], scalars, strict=False))
        return copy_steps(needed_ops(op, [weights]), inner, names, no_index)[weights]

    pairs = [
        (operands[place], tuple(whole.index(loop) for loop in positions[place])) for place in read
    ]
    made = build.computed(sizes_of(operands[source]), weights.type, widen, *pairs)

    def add(inner: Builder, scalars: Sequence[ir.Value]) -> list[ir.Value]:
        given = {arguments[row]: scalars[0]}
        factor = copy_steps(needed_ops(op, [rows]), inner, given, no_index)[rows]
        term = inner.apply("arith.mulf", factor, scalars[1])
        return [inner.apply("arith.addf", scalars[2], term)]

    dims = (positions[row], whole, positions[-1])
    (value,) = build.generic([operands[row], made], [operands[-1]], dims, add)
    op.results[0].replace_all_uses_with(value)


def no_index(dim: int) -> ir.Value:
    """For bodies that read no index."""
    raise AssertionError(f"a body reads the index of dim {dim}")
