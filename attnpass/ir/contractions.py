"""Matrix products, whatever op they are written as: the one place that says which ops are one, and
what their loops do."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from . import maps
from .bodies import below_casts, body_of, element_number, summand
from .queries import defining_op
from .sizes import Size, sizes_of
from .views import WHOLE, below_views

# Named ops that carry their maps.
NAMED = ("linalg.matmul", "linalg.batch_matmul", "linalg.contract")
# Named ops whose maps are implied: left, right, result.
_IMPLIED: dict[str, tuple[maps.Positions, maps.Positions, maps.Positions]] = {
    "linalg.matmul": ((0, 2), (2, 1), (0, 1)),
    "linalg.batch_matmul": ((0, 1, 3), (0, 3, 2), (0, 1, 2)),
    "linalg.matvec": ((0, 1), (1,), (0,)),
    "linalg.vecmat": ((1,), (1, 0), (0,)),
    "linalg.batch_matvec": ((0, 1, 2), (0, 2), (0, 1)),
    "linalg.batch_vecmat": ((0, 2), (0, 2, 1), (0, 1)),
}
# Products of so many rows take as long as it takes to read their weights.
FEW_ROWS = 8
_PRODUCTS = ("arith.mulf", "arith.muli")


@dataclass(frozen=True)
class ContractionFacts:
    """A sum of products of two factors: `left`, `right` and `result` are the loops of their dims
    (None: one element of the dim is read), `sizes` those of the loops."""

    op: ir.Operation
    left: maps.Positions
    right: maps.Positions
    result: maps.Positions
    sizes: tuple[Size, ...]

    @property
    def batch(self) -> tuple[int, ...]:
        """Loops of the result that both factors have, in the result's order."""
        return tuple(loop for loop in self.kept if loop in self.left and loop in self.right)

    @property
    def m(self) -> tuple[int, ...]:
        """Loops of the result that only the left factor has."""
        return tuple(loop for loop in self.kept if loop in self.left and loop not in self.right)

    @property
    def n(self) -> tuple[int, ...]:
        """Loops of the result that only the right factor has."""
        return tuple(loop for loop in self.kept if loop in self.right and loop not in self.left)

    @property
    def k(self) -> tuple[int, ...]:
        """Loops that are summed over."""
        return tuple(loop for loop in range(len(self.sizes)) if loop not in self.result)

    @property
    def shares_sums(self) -> bool:
        """Whether both factors have all loops that are summed over."""
        return all(loop in self.left and loop in self.right for loop in self.k)

    @property
    def kept(self) -> tuple[int, ...]:
        """Loops of the result: those of batches, m and n, and those along which it repeats, which
        neither factor has."""
        return tuple(loop for loop in self.result if loop is not None)


def is_contraction(op: ir.Operation | None) -> bool:
    """Whether `op` is a matrix product, named or generic."""
    return op is not None and (op.name in NAMED or op.name in _IMPLIED or adds_products(op))


def starts_at_zero(op: ir.Operation) -> bool:
    """Whether a contraction adds its products to zeros."""
    return element_number(below_views(op.operands[2], WHOLE)) == 0


def shares_factors(op: ir.Operation | None) -> bool:
    """Whether `op` is a matrix product, but for sums of what two tensors have at the same places,
    multiplied: elements of a factor are in several sums."""
    facts = read_contraction(op)
    if facts is None:
        return is_contraction(op)
    loops = set(range(len(facts.sizes)))
    return not {*facts.left} == {*facts.right} == loops


def read_contraction(op: ir.Operation | None) -> ContractionFacts | None:
    """The matrix product that `op` is; None for another op, or for maps that are no projected
    permutations."""
    if op is None or not is_contraction(op):
        return None
    if "indexing_maps" in op.attributes:
        indexing = maps.positions(op)
        loops = maps.loop_count(op)
    else:
        indexing = _IMPLIED.get(op.name)
        loops = 1 + max(loop for dims in indexing or () for loop in dims if loop is not None)
    if indexing is None:
        return None
    left, right, result = indexing
    return ContractionFacts(op, left, right, result, _loop_sizes(op, indexing, loops))


def _loop_sizes(
    op: ir.Operation, indexing: tuple[maps.Positions, ...], loops: int
) -> tuple[Size, ...]:
    sizes: list[Size] = [1] * loops
    for value, dims in zip(op.operands, indexing, strict=True):
        for loop, size in zip(dims, sizes_of(value), strict=True):
            if loop is not None:
                sizes[loop] = size
    return tuple(sizes)


def adds_products(op: ir.Operation) -> bool:
    """Whether a generic adds up the products of its two inputs, casts left out."""
    added = summand(op) if len(op.operands) == 3 else None
    product = None if added is None else defining_op(added, *_PRODUCTS)
    if product is None:
        return False
    factors = [below_casts(operand) for operand in product.operands]
    inputs = list(body_of(op).arguments)[:2]
    return factors in (inputs, inputs[::-1])
