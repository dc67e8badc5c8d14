"""Matrix products: which axes their loops run along."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from ..ir import maps, ranked_shape, sizes_of
from ..ir.contractions import read_contraction
from ..ir.expressions import Number
from ..layout.axes import Axes, Dims
from .elements import AxisReader


@dataclass(frozen=True)
class Product:
    """A matrix product of `left` and `right` that starts from zero, and the axes of all dims."""

    op: ir.Operation
    left: Dims
    right: Dims
    result: Dims

    def factors(self) -> tuple[tuple[ir.Value, Dims], tuple[ir.Value, Dims]]:
        return (self.op.operands[0], self.left), (self.op.operands[1], self.right)


def read_product(
    op: ir.Operation, elements: AxisReader, result: Dims | None = None
) -> Product | None:
    """The product `op`, its result with dims `result` or new ones; None where its maps are not
    those of a matrix product, or it adds to something."""
    facts = read_contraction(op)
    start = elements.element(op.operands[2], tuple(() for _ in ranked_shape(op.operands[2])))
    if facts is None or not (isinstance(start, Number) and start.number == 0):
        return None
    loops: dict[int | None, tuple[int, ...]] = {None: ()}
    if result is not None:
        loops.update(zip(facts.result, result, strict=True))
    operands = (facts.left, facts.right, facts.result)
    for value, places in zip(op.operands, operands, strict=True):
        for loop, size in zip(places, sizes_of(value), strict=True):
            if loop not in loops:
                loops[loop] = elements.axes.new(size)

    def dims(places: maps.Positions) -> Dims:
        return tuple(loops[loop] for loop in places)

    return Product(op, dims(facts.left), dims(facts.right), dims(facts.result))


def axes_of(dims: Dims, axes: Axes) -> frozenset[int]:
    return frozenset(axis for dim in axes.dims(dims) for axis in dim)
