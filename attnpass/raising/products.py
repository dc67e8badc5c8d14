"""Matrix products: which axes their loops run along."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from ..ir import maps, ranked_shape, sizes_of
from ..layout.rules.loop_nest import is_contraction
from .axes import Axes, Dims
from .elements import Elements, Number

# Named ops whose maps are implied.
_MAPS: dict[str, tuple[maps.Positions, maps.Positions, maps.Positions]] = {
    "linalg.matmul": ((0, 2), (2, 1), (0, 1)),
    "linalg.batch_matmul": ((0, 1, 3), (0, 3, 2), (0, 1, 2)),
    "linalg.matvec": ((0, 1), (1,), (0,)),
    "linalg.vecmat": ((1,), (1, 0), (0,)),
    "linalg.batch_matvec": ((0, 1, 2), (0, 2), (0, 1)),
    "linalg.batch_vecmat": ((0, 2), (0, 2, 1), (0, 1)),
}


@dataclass(frozen=True)
class Product:
    """A matrix product of `left` and `right` that starts from zero, and the axes of all dims."""

    op: ir.Operation
    left: Dims
    right: Dims
    result: Dims

    def factors(self) -> tuple[tuple[ir.Value, Dims], tuple[ir.Value, Dims]]:
        return (self.op.operands[0], self.left), (self.op.operands[1], self.right)


def is_product(op: ir.Operation | None) -> bool:
    return op is not None and (op.name in _MAPS or is_contraction(op))


def read_product(
    op: ir.Operation, elements: Elements, result: Dims | None = None
) -> Product | None:
    """The product `op`, its result with dims `result` or new ones; None where its maps are not
    those of a matrix product, or it adds to something."""
    positions = _positions(op)
    start = elements.element(op.operands[2], tuple(() for _ in ranked_shape(op.operands[2])))
    if positions is None or not (isinstance(start, Number) and start.number == 0):
        return None
    left, right, out = positions
    loops: dict[int | None, tuple[int, ...]] = {None: ()}
    if result is not None:
        loops.update(zip(out, result, strict=True))
    for value, places in zip(op.operands, positions, strict=True):
        for loop, size in zip(places, sizes_of(value), strict=True):
            if loop not in loops:
                loops[loop] = elements.axes.new(size)

    def dims(places: maps.Positions) -> Dims:
        return tuple(loops[loop] for loop in places)

    return Product(op, dims(left), dims(right), dims(out))


def _positions(op: ir.Operation) -> tuple[maps.Positions, ...] | None:
    if "indexing_maps" in op.attributes:
        return maps.positions_of(op.attributes["indexing_maps"])
    return _MAPS.get(op.name)


def axes_of(dims: Dims, axes: Axes) -> frozenset[int]:
    return frozenset(axis for dim in axes.dims(dims) for axis in dim)
