"""attn-order-products: products in registers whose dims IREE pairs right, on CUDA.

IREE takes the dims of a `vector.contract` by their places once it has folded transposes of its
operands. Like attn-lower-cuda, which does the same in the kernels that it lowers, the pass
stands between two parts of one of IREE's phases: it runs the first itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.facts import OP_NAMES
from ..codegen import ptx
from ..codegen.kernel import KernelsPass, rewrite_lowered
from ..ir import Builder, collect, defining_op, maps
from ..ir.contractions import read_contraction
from ..report.ops import Op, op_of
from ..report.records import Report

# What gives a vector more dims.
_ADDS_DIMS = ("vector.shape_cast", "vector.broadcast")


@dataclass(frozen=True)
class Ordered:
    """How many products had loops in another order than their results' dims, how many had factors
    with the dims that are summed over in different orders, and how many summed dims of size one
    there were beside others."""

    loops: int = 0
    sums: int = 0
    units: int = 0

    def __bool__(self) -> bool:
        return bool(self.loops or self.sums or self.units)

    def tell(self, kernel: Op, report: Report) -> None:
        if self.loops:
            report.record(
                kernel,
                "repaired",
                f"{self.loops} product(s) have their loops put in the order of the result's dims: "
                "of another order IREE 3.13 makes wrong numbers",
                products=self.loops,
            )
        if self.sums:
            report.record(
                kernel,
                "repaired",
                f"{self.sums} product(s) have a factor transposed in registers: IREE 3.13 "
                "multiplies other numbers where summed dims stand in another order there",
                products=self.sums,
            )
        if self.units:
            report.record(
                kernel,
                "repaired",
                f"{self.units} summed dim(s) of size one are taken from products first: IREE 3.13 "
                "takes them from one factor, and sums over another of its dims in their place",
                dims=self.units,
            )


def contractions(function: ir.Operation) -> list[ir.Operation]:
    """The products of vectors in a lowered kernel, but for those under a mask."""
    return [
        op
        for op in collect(function, lambda op: op.name == "vector.contract")
        if op.parent is None or op.parent.name != "vector.mask"
    ]


def order_products(function: ir.Operation) -> Ordered:
    """Gives the products of a lowered kernel loops and factors whose dims IREE pairs right."""
    loops = sums = units = 0
    for op in contractions(function):
        units += _drop_units(op)
        loops += _order_loops(op)
        sums += _order_sums(op)
        _hold_start(op)
    return Ordered(loops, sums, units)


class OrderProducts(KernelsPass):
    """Lowers CUDA kernels of attention, and those of products that sum over several dims or have
    loops in another order than their result's dims, where they hold products in registers which
    IREE 3.13 gets wrong: of such loops, of several summed dims that the factors have in different
    orders, and of summed dims of size one that a factor was given. Other kernels are left for IREE
    to lower.
    """

    name = "attn-order-products"
    summary = "CUDA: products whose summed dims IREE pairs by their places"
    why = "IREE pairs summed dims by their places; in kernels left so far"
    mends = "products multiply the wrong numbers where dims are in other orders"
    backends = ("cuda",)

    def change(self, function: ir.Operation, target: str, report: Report) -> bool:
        if not collect(function, lambda op: op.name in OP_NAMES or _is_ordered_wrong(op)):
            return False
        kernel = op_of(function)

        def order(lowered: ir.Operation) -> bool:
            products = order_products(lowered)
            products.tell(kernel, report)
            return bool(products)

        return rewrite_lowered(function, report, order)


def _is_ordered_wrong(op: ir.Operation) -> bool:
    """Whether it is a product that sums over several dims, or whose loops have another order than
    its result's dims."""
    facts = read_contraction(op)
    if facts is None:
        return False
    loops = [loop for loop in facts.result if loop is not None]
    return len(facts.k) > 1 or loops != sorted(loops)


def _drop_units(op: ir.Operation) -> int:
    """Takes summed dims of size one from both factors of a `vector.contract` where a factor was
    given some, but for one where no other is summed; returns how many. IREE folds those that it was
    given away; its lowering counts summed dims once for both factors, and takes others instead."""
    positions = maps.positions(op)
    if positions is None:
        return 0
    left, right, result = positions
    made = [defining_op(_untransposed(op.operands[n], positions[n])[0]) for n in (0, 1)]
    if not any(one is not None and one.name in _ADDS_DIMS for one in made):
        return 0
    sums = [dim for dim in left if dim in right and dim not in result]
    sizes = dict(zip(left, ir.VectorType(op.operands[0].type).shape, strict=True))
    units = [dim for dim in sums if sizes[dim] == 1]
    dropped = units[1:] if len(units) == len(sums) else units
    if not dropped:
        return 0
    for place, dims in enumerate((left, right)):
        kind = ir.VectorType(op.operands[place].type)
        shape = [size for dim, size in zip(dims, kind.shape, strict=True) if dim not in dropped]
        kept = ir.VectorType.get(shape, kind.element_type, loc=op.location)
        cast = Builder(op).create("vector.shape_cast", [kept], [op.operands[place]])
        op.operands[place] = cast.results[0]
    loops = range(maps.loop_count(op))
    _renumber(op, positions, [loop for loop in loops if loop not in dropped])
    return len(dropped)


def _order_loops(op: ir.Operation) -> bool:
    """Puts the loops of a `vector.contract` in the order of its result's dims, reductions last;
    returns whether that is another. IREE's lowering counts on it."""
    positions = maps.positions(op)
    if positions is None:
        return False
    result = [dim for dim in positions[2] if dim is not None]
    if result == sorted(result):
        return False
    loops = range(maps.loop_count(op))
    _renumber(op, positions, list(dict.fromkeys([*result, *loops])))
    return True


def _renumber(op: ir.Operation, positions: Sequence[maps.Positions], loops: Sequence[int]) -> None:
    """Leaves a `vector.contract` of these `positions` these loops, in this order; its vectors have
    no dims of others."""
    kinds = list(ir.ArrayAttr(op.attributes["iterator_types"]))
    new: dict[int | None, int | None] = {None: None}
    new |= {loop: place for place, loop in enumerate(loops)}
    indexing = [tuple(new[dim] for dim in dims if dim in new) for dims in positions]
    op.attributes["indexing_maps"] = maps.maps_attribute(len(loops), indexing)
    op.attributes["iterator_types"] = ir.ArrayAttr.get([kinds[loop] for loop in loops])


def _order_sums(op: ir.Operation) -> bool:
    """Gives the factors of a `vector.contract` the dims that are summed over in one order, where
    they have them in different ones; returns whether they did. IREE's lowering takes them by
    their places, once it has folded transposes of factors."""
    positions = maps.positions(op)
    if positions is None:
        return False
    sizes = ir.VectorType(op.operands[0].type).shape
    wide = {dim for dim, size in zip(positions[0], sizes, strict=True) if size != 1}
    sums = wide - {*positions[2]}
    factors = [_untransposed(op.operands[number], positions[number]) for number in (0, 1)]
    orders = {
        tuple(dim for dim in one if dim in sums)
        for one in (*positions[:2], *(place for _, place in factors))
    }
    if len(orders) == 1:
        return False
    (left, left_dims), (right, right_dims) = factors
    ordered = iter([dim for dim in left_dims if dim in sums])
    turned = tuple(next(ordered) if dim in sums else dim for dim in right_dims)
    op.operands[0] = left
    op.operands[1] = ptx.transpose(Builder(op), right, [right_dims.index(dim) for dim in turned])
    count = len(op.attributes["iterator_types"])
    op.attributes["indexing_maps"] = maps.maps_attribute(count, (left_dims, turned, positions[2]))
    return True


def _untransposed(value: ir.Value, dims: maps.Positions) -> tuple[ir.Value, maps.Positions]:
    """What a vector is a transpose of, and where its dims stand there."""
    while (op := defining_op(value, "vector.transpose")) is not None:
        order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
        value, dims = op.operands[0], tuple(dims[place] for place in maps.inverse(order))
    return value, dims


def _hold_start(op: ir.Operation) -> None:
    """Keeps IREE from giving a `vector.contract` other dims of its result, as it does where that
    and what is added to are transposed."""
    start = defining_op(op.operands[2], "vector.transpose")
    users = [use.owner.name for use in op.results[0].uses]
    if start is not None and start.name in users:
        order = list(ir.DenseI64ArrayAttr(start.attributes["permutation"]))
        op.operands[2] = ptx.transpose(Builder(op), start.operands[0], order)
