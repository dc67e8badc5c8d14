"""attn-lone-factors: factors without summed dims multiply sums, on GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..attention.facts import configured_by
from ..ir import (
    Builder,
    body_of,
    body_ops,
    defining_op,
    element_bytes,
    element_number,
    element_type,
    erase,
    has_ancestor,
    is_float,
    is_narrow_float,
    is_ranked_tensor,
    iterator_kinds,
    maps,
    sizes_of,
)
from ..ir.contractions import ContractionFacts, read_contraction, starts_at_zero
from ..passes import OpPass

# A value, and the loops at which its dims are read.
_Read = tuple[ir.Value, maps.Positions]


class LoneFactors(OpPass):
    """Writes a contraction one of whose factors has none of the summed dims as a sum of the other,
    in f32 or wider, that is multiplied then. Integers and contractions with a configuration stay.

    A mean of tokens behind a norm is one once IREE has fused the norm's weight into it. IREE 3.13
    takes it for a product with a vector and has no program for it ("failed to distribute"). Such a
    factor may be a number: that of a product with a matrix of zeros, with which a state begins.

    Where each factor has summed dims, and one has some that the other has not, IREE's compiler
    crashes, or takes a wrong dim for them: with -0 added to each they are no products to it.
    """

    name = "attn-lone-factors"
    summary = "GPUs: factors without summed dims multiply the sum"
    phase = "flow"
    mends = (
        "means of what a norm without bias gives, and sums over dims that one factor alone has, do "
        "not compile or are wrong, on GPUs"
    )
    backends = ("cuda", "rocm")

    kind = "contraction"

    def wanted(self, op: ir.Operation) -> bool:
        return has_ancestor(op, "flow.executable") and not configured_by(op)

    def change(self, op: ir.Operation) -> str:
        number = _number(op)
        if number is not None:
            dims, result = maps.positions(op) or ((), ())
            factor = Builder(op).copy(number).results[0]
            _multiply_behind(op, result, (op.operands[0], dims), (factor, ()))
            return "the number that all its elements are multiplied by multiplies the sum"
        product = read_contraction(op)
        if product is not None and _sums_one_alone(product):
            _multiply_and_add_nothing(op)
            return "is no product to IREE, which has none with such sums: -0 is added to each"
        lone = None if product is None else _lone_factor(product)
        if product is None or lone is None or not starts_at_zero(op):
            return ""
        summed, factor = zip(op.operands[:2], (product.left, product.right), strict=True)
        if lone == 0:
            summed, factor = factor, summed
        _multiply_behind(op, product.result, summed, factor)
        return "its factor without summed dims multiplies the sum, not each element"


def _number(op: ir.Operation) -> ir.Operation | None:
    """The constant by which all elements of a tensor are multiplied that is summed up."""
    if (
        op.name != "linalg.generic"
        or len(op.operands) != 2
        or "reduction" not in iterator_kinds(op)
    ):
        return None
    if element_number(op.operands[1]) != 0:
        return None
    positions = maps.positions(op)
    element, total = body_of(op).arguments
    if positions is None or None in (*positions[0], *positions[1]):
        return None
    if {*range(len(iterator_kinds(op)))} != {*positions[0], *positions[1]}:
        return None
    added = _operands(body_ops(op)[-1].operands[0], "arith.addf")
    product = next((value for value in added if value != total), None)
    if product is None or total not in added:
        return None
    factors = _operands(product, "arith.mulf")
    made = [one for one in map(defining_op, factors) if one is not None]
    number = next((one for one in made if one.name == "arith.constant"), None)
    if number is None:
        return None
    read = [value for value in factors if value != number.results[0]]
    read += [below for value in read for below in _operands(value, "arith.extf")]
    return number if element in read else None


def _operands(value: ir.Value, name: str) -> list[ir.Value]:
    """What the op `name` makes a value of; nothing where another does."""
    op = defining_op(value, name)
    return list(op.operands) if op is not None else []


def _lone_factor(product: ContractionFacts) -> int | None:
    """Which factor has none of the summed dims, if the other has them all, and all is floats no
    wider than the result."""
    factors = product.left, product.right
    if None in (*product.left, *product.right, *product.result) or not product.k:
        return None
    operands = list(product.op.operands)
    bytes_of = [element_bytes(value) for value in operands]
    if not is_float(element_type(operands[2])) or max(bytes_of) > bytes_of[2]:
        return None
    lone = [i for i, dims in enumerate(factors) if not {*product.k} & {*dims}]
    return lone[0] if len(lone) == 1 and {*product.k} <= {*factors[1 - lone[0]]} else None


def _sums_one_alone(product: ContractionFacts) -> bool:
    """Whether both factors, of floats, have summed dims, and not the same."""
    of_floats = is_float(element_type(product.op.results[0]))
    if product.op.name != "linalg.generic" or not of_floats or product.shares_sums:
        return False
    return all({*dims} & {*product.k} for dims in (product.left, product.right))


def _multiply_and_add_nothing(op: ir.Operation) -> None:
    multiply = next(one for one in body_ops(op) if one.name == "arith.mulf")
    build, kind = Builder(multiply), multiply.results[0].type
    operands = [*multiply.operands, build.constant_float(-0.0, kind)]
    made = build.create("math.fma", [kind], operands).results[0]
    multiply.results[0].replace_all_uses_with(made)
    erase(multiply)


def _multiply_behind(
    op: ir.Operation, result: maps.Positions, summed: _Read, factor: _Read
) -> None:
    """Sums up one tensor, and multiplies by another, or by a number, then; both are read at these
    loops of `op`, and `result` are those of its result."""
    build, (tensor, dims) = Builder(op), summed
    kept = [loop for loop in result if loop in dims]
    sizes, narrow = sizes_of(op.results[0]), element_type(op.results[0])
    wide = ir.F32Type.get(op.context) if is_narrow_float(narrow) else narrow
    zero = build.constant_float(0.0, wide)
    init = build.fill(zero, build.empty([sizes[result.index(one)] for one in kept], wide))
    summed_up = {loop for loop in dims if loop is not None and loop not in kept}
    loops = [*kept, *sorted(summed_up)]
    positions: list[maps.Positions] = [
        tuple(loops.index(loop) for loop in dims if loop is not None),
        tuple(range(len(kept))),
    ]
    (total,) = build.generic(
        [tensor],
        [init],
        positions,
        lambda inner, x: [inner.addf(x[1], inner.cast_float(x[0], wide))],
    )
    value, places = factor
    reads = [(total, tuple(result.index(loop) for loop in kept))]
    is_tensor = is_ranked_tensor(value)
    if is_tensor:
        reads.append((value, tuple(result.index(loop) for loop in places if loop is not None)))

    def multiplied(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        by = inner.cast_float(x[1] if is_tensor else value, wide)
        return inner.cast_float(inner.mulf(x[0], by), narrow)

    op.results[0].replace_all_uses_with(build.computed(sizes, narrow, multiplied, *reads))
