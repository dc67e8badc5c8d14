"""Permutations and affine maps as plain tuples; pure functions.

A *positions* tuple stands for the results of a projected permutation: the loop dim of
each result, or None for the constant 0 that reads a dim of size one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iree.compiler import ir

Positions = tuple["int | None", ...]


def positions(op: ir.Operation) -> tuple[Positions, ...] | None:
    """Positions of each of the `indexing_maps` of an op; None if one is no projected
    permutation."""
    return positions_of(op.attributes["indexing_maps"])


def positions_of(attribute: ir.Attribute) -> tuple[Positions, ...] | None:
    """Positions of each map in an ArrayAttr of maps; None if one is no projected permutation."""
    found = [_positions(ir.AffineMapAttr(item).value) for item in ir.ArrayAttr(attribute)]
    return None if None in found else tuple(found)  # type: ignore[arg-type]


def _positions(affine_map: ir.AffineMap) -> Positions | None:
    if affine_map.n_symbols:
        return None
    positions: list[int | None] = []
    for result in affine_map.results:
        if isinstance(result, ir.AffineDimExpr):
            positions.append(result.position)
        elif isinstance(result, ir.AffineConstantExpr) and result.value == 0:
            positions.append(None)
        else:
            return None
    dims = [dim for dim in positions if dim is not None]
    return tuple(positions) if len(set(dims)) == len(dims) else None


def loop_factors(affine_map: ir.AffineMap) -> list[dict[int, int] | None]:
    """For each result that is a sum of loops times numbers, the number of each loop; None for
    others."""
    found = (loop_terms(result) for result in affine_map.results)
    return [None if terms is None or terms[1] else terms[0] for terms in found]


def loop_terms(expr: ir.AffineExpr) -> tuple[dict[int, int], int] | None:
    """The number of each loop in a sum of loops times numbers, and what is added to it; None for
    another expression."""
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position: 1}, 0
    if isinstance(expr, ir.AffineConstantExpr):
        return {}, expr.value
    if not isinstance(expr, ir.AffineAddExpr | ir.AffineMulExpr):
        return None
    left, right = loop_terms(expr.lhs), loop_terms(expr.rhs)
    if left is None or right is None:
        return None
    if isinstance(expr, ir.AffineMulExpr):
        loops, by = left[0], right[1]
        return None if right[0] else ({loop: n * by for loop, n in loops.items()}, left[1] * by)
    loops = {loop: left[0].get(loop, 0) + right[0].get(loop, 0) for loop in {**left[0], **right[0]}}
    return loops, left[1] + right[1]


def sum_of_loops(factors: dict[int, int], more: int) -> ir.AffineExpr:
    """What `loop_terms` reads."""
    found = ir.AffineExpr.get_constant(more)
    for loop, factor in factors.items():
        found = ir.AffineExpr.get_add(found, ir.AffineExpr.get_dim(loop) * factor)
    return found


def loop_count(op: ir.Operation) -> int:
    """Number of loops that the `indexing_maps` of an op are over."""
    return num_dims(op.attributes["indexing_maps"])


def num_dims(attribute: ir.Attribute) -> int:
    """Number of loop dims of an ArrayAttr of maps."""
    return ir.AffineMapAttr(ir.ArrayAttr(attribute)[0]).value.n_dims


def maps_attribute(dims: int, maps: Iterable[Positions]) -> ir.ArrayAttr:
    """The ArrayAttr of affine maps over `dims` loops; needs a current context."""
    return ir.ArrayAttr.get([ir.AffineMapAttr.get(_affine_map(dims, m)) for m in maps])


def _affine_map(dims: int, positions: Positions) -> ir.AffineMap:
    exprs = [
        ir.AffineExpr.get_constant(0) if dim is None else ir.AffineExpr.get_dim(dim)
        for dim in positions
    ]
    return ir.AffineMap.get(dims, 0, exprs)


def show(positions: Positions, names: dict[int, str] | None = None) -> str:
    """`(d0, d4, d2)`, or with the names given, `(b, k2, n)`."""
    words = ["0" if dim is None else (names or {}).get(dim, f"d{dim}") for dim in positions]
    return f"({', '.join(words)})"


def is_identity(permutation: Sequence[int]) -> bool:
    return all(i == dim for i, dim in enumerate(permutation))


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes this one."""
    result = [0] * len(permutation)
    for i, dim in enumerate(permutation):
        result[dim] = i
    return tuple(result)


def are_neighbours(positions: Sequence[int | None], dims: Sequence[int]) -> bool:
    """Whether a map names these dims one behind the other, in this order."""
    where = [at for at, dim in enumerate(positions) if dim in dims]
    return [positions[at] for at in where] == list(dims) and where[-1] - where[0] == len(dims) - 1
