"""attn-degenerate-loops: windows that stand at one place read the whole of their image, nothing is
added up over a dim of size 0 or written by no index, and nothing is read backwards."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..ir import Builder, element_type, maps_of, ranked_shape, sizes_of
from ..ir.maps import loop_factors, loop_terms, sum_of_loops
from ..passes import OpPass

_SCATTER = "iree_linalg_ext.scatter"


class DegenerateLoops(OpPass):
    """Cuts off what a convolution or pooling does not read of a dim in which its window stands at
    one place: the last row of four, of which a window of three rows in steps of two reads three.

    IREE 3.13 drops the loop over places, has rows of the image run with those of the window, and
    says that their numbers differ: a ResNet of 32 x 32 pixels, or a pooling of 3 x 3 by 2 x 2, do
    not compile. Dims known only at run time stay.

    An op that adds up over a dim of size 0 (a product of 4 x 0 by 0 x 6) is what it adds to: of
    products and sums of several results IREE divides by that size, and crashes. So it does by the
    number of updates of a scatter that writes none.

    What an op reads from the last element to the first (`affine_map<(i) -> (-i + 7)>`), of dims of
    known size, is turned before: IREE crashes where it looks for a convolution, and says of tiles
    that they are too small.
    """

    name = "attn-degenerate-loops"
    summary = "windows with one result along a dim, sums over dims of size 0, reads backwards"
    mends = (
        "convolutions with one result along a dim, sums over dims of size 0, and loops that read "
        "backwards do not compile"
    )

    def wanted(self, op: ir.Operation) -> bool:
        return (op.name.startswith("linalg.") or op.name == _SCATTER) and len(op.results) > 0

    def change(self, op: ir.Operation) -> str:
        if op.name == _SCATTER:
            if 0 not in ranked_shape(op.operands[0]):
                return ""
            op.results[0].replace_all_uses_with(op.operands[len(op.operands) - 1])
            return "is what it writes to: it writes nothing"
        factors = [loop_factors(one) for one in maps_of(op)]
        if not factors:
            return ""
        sizes = _loop_sizes(op, factors)
        inputs = len(op.operands) - len(op.results)
        kept = {loop for by_dim in factors[inputs:] for one in by_dim for loop in one or ()}
        if any(size == 0 and loop not in kept for loop, size in sizes.items()):
            for result, start in zip(op.results, list(op.operands)[inputs:], strict=True):
                result.replace_all_uses_with(start)
            return "is what it adds to: it goes over a dim of size 0"
        turned = [number for number in range(inputs) if _turn(op, number)]
        if turned:
            return "what it reads backwards is turned before"
        cut = [
            number
            for number, by_dim in enumerate(factors[:inputs])
            if _cut(op, number, by_dim, sizes)
        ]
        return "it reads a slice of its image: its window stands at one place" if cut else ""


def _loop_sizes(
    op: ir.Operation, factors: Sequence[Sequence[dict[int, int] | None]]
) -> dict[int, int | None]:
    """How long the loops of an op run, by the dims that run along one of them."""
    return {
        loop: size
        for value, by_dim in zip(op.operands, factors, strict=True)
        for one, size in zip(by_dim, ranked_shape(value) if by_dim else (), strict=True)
        if one is not None and list(one.values()) == [1]
        for loop in one
    }


def _cut(
    op: ir.Operation,
    number: int,
    by_dim: Sequence[dict[int, int] | None],
    sizes: dict[int, int | None],
) -> bool:
    """Whether an operand had more along a dim than the single loop that is left reads, and has it
    no more."""
    value = op.operands[number]
    read = sizes_of(value) if by_dim else ()
    kept = list(read)
    for dim, one in enumerate(by_dim):
        if one is None or len(one) < 2:
            continue
        left = {loop: factor for loop, factor in one.items() if sizes.get(loop) != 1}
        size = sizes.get(*left) if list(left.values()) == [1] else None
        whole = read[dim]
        if size is not None and isinstance(whole, int) and size < whole:
            kept[dim] = size
    if kept == list(read):
        return False
    op.operands[number] = Builder(op).extract_slice(value, [0] * len(kept), kept)
    return True


def _turn(op: ir.Operation, number: int) -> bool:
    """Turns an operand along the dims that are read backwards alone; whether there are any."""
    affine_maps, value = maps_of(op), op.operands[number]
    terms = [loop_terms(result) for result in affine_maps[number].results]
    shape = ranked_shape(value) if terms else ()
    dims = {
        dim: size
        for dim, (found, size) in enumerate(zip(terms, shape, strict=True))
        if found and found[0] and all(factor < 0 for factor in found[0].values())
        if size is not None
    }
    if op.name != "linalg.generic" or not dims:
        return False

    def element(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        places = [inner.loop_index(dim) for dim in range(len(shape))]
        for dim, size in dims.items():
            places[dim] = inner.subi(inner.constant_index(size - 1), places[dim])
        return inner.extract(value, places)

    with op.location:
        exprs = [
            sum_of_loops({loop: -n for loop, n in found[0].items()}, dims[dim] - 1 - found[1])
            if dim in dims and found is not None
            else expr
            for dim, (found, expr) in enumerate(
                zip(terms, affine_maps[number].results, strict=True)
            )
        ]
        affine_maps[number] = ir.AffineMap.get(affine_maps[number].n_dims, 0, exprs)
        attributes = [ir.AffineMapAttr.get(one) for one in affine_maps]
        op.attributes["indexing_maps"] = ir.ArrayAttr.get(attributes)
    op.operands[number] = Builder(op).computed(sizes_of(value), element_type(value), element)
    return True
