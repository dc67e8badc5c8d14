"""attn-lone-factors: factors without summed dims multiply sums, on GPUs."""

from __future__ import annotations

from iree.compiler import ir

from ..attention.facts import configured_by
from ..ir import (
    Builder,
    element_bytes,
    element_number,
    element_type,
    has_ancestor,
    is_float,
    is_narrow_float,
    maps,
    sizes_of,
)
from ..ir.contractions import ContractionFacts, read_contraction
from ..passes import OpPass


class LoneFactors(OpPass):
    """Writes a contraction one of whose factors has none of the summed dims as a sum of the other,
    in f32 or wider, that is multiplied then. Integers and contractions with a configuration stay.

    A mean of tokens behind a norm is one once IREE has fused the norm's weight into it. IREE 3.13
    takes it for a product with a vector and has no program for it ("failed to distribute").
    """

    name = "attn-lone-factors"
    summary = "GPUs: factors without summed dims multiply the sum"
    phase = "flow"
    mends = "means of what a norm without bias gives do not compile for GPUs"
    backends = ("cuda", "rocm")

    kind = "contraction"

    def wanted(self, op: ir.Operation) -> bool:
        return has_ancestor(op, "flow.executable") and not configured_by(op)

    def change(self, op: ir.Operation) -> str:
        product = read_contraction(op)
        lone = None if product is None else _lone_factor(product)
        if product is None or lone is None or element_number(op.operands[2]) != 0:
            return ""
        _multiply_behind(product, lone)
        return "its factor without summed dims multiplies the sum, not each element"


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


def _multiply_behind(product: ContractionFacts, lone: int) -> None:
    op, build = product.op, Builder(product.op)
    summed, factor = op.operands[1 - lone], op.operands[lone]
    dims = (product.left, product.right)[1 - lone]
    factor_dims = (product.left, product.right)[lone]
    kept = [loop for loop in product.kept if loop in dims]
    sizes, narrow = sizes_of(op.results[0]), element_type(op.results[0])
    wide = ir.F32Type.get(op.context) if is_narrow_float(narrow) else narrow
    zero = build.constant_float(0.0, wide)
    init = build.fill(zero, build.empty([sizes[product.kept.index(one)] for one in kept], wide))
    loops = [*kept, *product.k]
    positions: list[maps.Positions] = [
        tuple(loops.index(loop) for loop in dims if loop is not None),
        tuple(range(len(kept))),
    ]
    (total,) = build.generic(
        [summed],
        [init],
        positions,
        lambda inner, x: [inner.addf(x[1], inner.cast_float(x[0], wide))],
    )
    result = build.computed(
        sizes,
        narrow,
        lambda inner, x: inner.cast_float(inner.mulf(x[0], inner.cast_float(x[1], wide)), narrow),
        (total, tuple(product.kept.index(loop) for loop in kept)),
        (factor, tuple(product.kept.index(loop) for loop in factor_dims if loop is not None)),
    )
    op.results[0].replace_all_uses_with(result)
