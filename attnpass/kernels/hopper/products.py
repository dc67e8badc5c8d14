"""Which precompiled kernels fit a product, what they do behind it, what they save; their launch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from iree.compiler import ir

from ...ir import (
    Builder,
    Size,
    defining_op,
    element_type,
    ranked_shape,
    sizes_of,
)
from ...machines import Target
from .. import ProductOffer
from ..products import Epilogue, ProductFacts, read_product
from .extern import launch
from .manifest import ProductKernel, load_products
from .product_speed import ProductWork, iree_product_seconds, product_seconds, turn_seconds
from .sources import unaligned_slice

# What rows and columns have to divide by, for the memory engine: 16 bytes.
_MULTIPLE = 8
_TILE_ROWS = 128
# An unknown number of rows is taken to be this.
_ASSUMED_ROWS = 1024


# A product whose SiLU multiplies, and the one that is multiplied.
Pair = tuple[ProductFacts, ProductFacts]
_FACTORS = ((False, "silu", "multiply"), (False, "none", "multiply"))


@dataclass(frozen=True, kw_only=True)
class ProductPlan(ProductOffer):
    """A kernel, what it does behind the product, and how many workgroups it has at most; `pair`
    are both products where it computes two."""

    kernel: ProductKernel
    epilogue: Epilogue
    units: int
    pair: Pair | None = None

    def replace(self, facts: ProductFacts) -> ir.Operation:
        return _replace(facts, self)


def product_offers(facts: ProductFacts, target: Target) -> list[ProductPlan] | str:
    """The plans for this product, or the reason why no kernel fits. Changes nothing."""
    problem = _unfit(facts)
    if problem:
        return problem
    plans = [
        _plan(facts, kernel, epilogue, pair, target)
        for epilogue, pair in _epilogues(facts)
        for kernel in load_products()
        if _fits(kernel, facts, epilogue, pair is not None)
    ]
    return plans or _no_kernel(facts)


def _no_kernel(facts: ProductFacts) -> str:
    least = facts.epilogues[0].words
    return f"there is no kernel for {facts.element_type}" + (f" with {least}" if least else "")


def _unfit(facts: ProductFacts) -> str:
    """Why no kernel could ever do this product; empty if one might."""
    for name, size in (("columns", facts.n), ("depth", facts.k)):
        if not isinstance(size, int):
            return f"its {name} are known only at run time"
        if size % _MULTIPLE:
            return f"its {name} ({size}) must be a multiple of {_MULTIPLE}"
    for name, value in (("rows", facts.rows), ("weights", facts.weights)):
        offset = unaligned_slice(value)
        if offset:
            return f"the {name} are {offset}"
    return ""


def _epilogues(facts: ProductFacts) -> Iterator[tuple[Epilogue, Pair | None]]:
    """What may be done behind a product, and with which product in front of that."""
    for epilogue in facts.epilogues:
        if epilogue.operand is not None and unaligned_slice(epilogue.operand):
            return
        if epilogue.bias is not None and unaligned_slice(epilogue.bias):
            return
        yield epilogue, None
        pair = _pair(facts, epilogue)
        if pair is not None:
            yield epilogue, pair


def _pair(facts: ProductFacts, epilogue: Epilogue) -> Pair | None:
    """Both products of the same rows of which one's SiLU multiplies the other, and that nothing
    else reads."""
    if epilogue.kind not in _FACTORS or epilogue.operand is None:
        return None
    (wanted,) = {*_FACTORS} - {epilogue.kind}
    for op in _above(epilogue.operand):
        found = read_product(op)
        if not isinstance(found, ProductFacts) or _unfit(found):
            continue
        ends = [one for one in found.epilogues if one.result == epilogue.result]
        same = (found.rows, found.n, found.k) == (facts.rows, facts.n, facts.k)
        if same and [one.kind for one in ends] == [wanted]:
            return (facts, found) if epilogue.activation == "silu" else (found, facts)
    return None


def _above(value: ir.Value, steps: int = 8) -> Iterator[ir.Operation]:
    """The ops that elementwise ops make a value of."""
    op = defining_op(value)
    if op is None or not steps:
        return
    yield op
    if op.name == "linalg.generic" or op.name.startswith("tensor."):
        for operand in list(op.operands)[:1]:
            yield from _above(operand, steps - 1)


def _fits(kernel: ProductKernel, facts: ProductFacts, epilogue: Epilogue, gated: bool) -> bool:
    rows = facts.m
    kind = (False, "silu", "none") if gated else epilogue.kind
    same = (kernel.bias, kernel.activation, kernel.other) == kind and kernel.gated == gated
    if isinstance(rows, int) and rows <= _most_rows():
        # Two of them read their weights at memory's speed, where whole tiles do not.
        few = not gated and (not kernel.most_rows or rows <= kernel.most_rows)
    else:
        few = not kernel.most_rows
    return same and few and kernel.element_type == facts.element_type and _reads(kernel, facts)


def _reads(kernel: ProductKernel, facts: ProductFacts) -> bool:
    """Whether a kernel reads the weights as they lie or, where they are (k, n), turned."""
    return kernel.weights == "nk" or not facts.by_columns


def _turns(kernel: ProductKernel, facts: ProductFacts) -> bool:
    return kernel.weights == "nk" and not facts.by_columns


def _most_rows() -> int:
    """What kernels for few rows take at most."""
    return max(kernel.most_rows for kernel in load_products())


def _plan(
    facts: ProductFacts,
    kernel: ProductKernel,
    epilogue: Epilogue,
    pair: Pair | None,
    target: Target,
) -> ProductPlan:
    n, k = facts.n, facts.k
    assert isinstance(n, int) and isinstance(k, int)
    rows = facts.m if isinstance(facts.m, int) else _ASSUMED_ROWS
    behind = facts.epilogues[-1].activation
    work = ProductWork(rows, n, k, isinstance(facts.m, int), 2 if pair else 1, behind)
    own, taken = iree_product_seconds(work, target), product_seconds(work, kernel, target)
    left = _left_seconds(facts, epilogue, work)
    turned = [one for one in pair or (facts,) if _turns(kernel, one)]
    taken += len(turned) * turn_seconds(work)
    fused = epilogue.words and f", with {epilogue.words}"
    fused += ", and the product that it is multiplied with" if pair else ""
    fused += ", its weights turned from (k, n) to (n, k) first" if turned else ""
    words = f"about {taken * 1e6:.0f} us instead of {own * 1e6:.0f}{fused}"
    assumed = "" if work.known else f" (for {rows} rows; their number is known only at run time)"
    return ProductPlan(
        name=kernel.name,
        # Of each product: kernels for one compete.
        seconds=(own - taken - left) / work.count,
        reason=words + assumed,
        kernel=kernel,
        epilogue=epilogue,
        units=target.compute_units,
        pair=pair,
        also=tuple(one.op for one in pair or () if one.op != facts.op),
    )


def _left_seconds(facts: ProductFacts, epilogue: Epilogue, work: ProductWork) -> float:
    """The time of what a kernel could have done, and another dispatch does: it reads and writes
    the result."""
    last = facts.epilogues[-1]
    if epilogue == last:
        return 0.0
    activated = last.activation != epilogue.activation
    return 4e-6 + work.rows * work.n * (4 / 3e12 + (6e-13 if activated else 0))


def _replace(facts: ProductFacts, plan: ProductPlan) -> ir.Operation:
    last = defining_op(plan.epilogue.result)
    assert last is not None
    build = Builder(last)
    tensors = [_flat_rows(build, facts.rows)]
    tensors += [_weights(build, one, plan.kernel) for one in plan.pair or (facts,)]
    if plan.epilogue.bias is not None:
        tensors.append(_line(build, plan.epilogue.bias))
    if plan.epilogue.operand is not None and not plan.pair:
        tensors.append(_flat_rows(build, plan.epilogue.operand))
    kind = element_type(plan.epilogue.result)
    numbers: dict[str, Size | ir.Value] = {"m": facts.m, "n": facts.n, "k": facts.k}
    groups = (_workgroups(facts, plan), 1)
    results = [((facts.m, facts.n), kind)]
    made = launch(build, plan.kernel, groups, numbers, tensors, results)[0]
    wanted = _result_sizes(facts, plan.epilogue)
    lead = list(range(len(wanted) - 1))
    new = build.expand(made, [lead, [len(lead)]], wanted)
    # The program may leave open what the rows' type says.
    new = build.cast(new, ir.RankedTensorType(plan.epilogue.result.type).shape)
    plan.epilogue.result.replace_all_uses_with(new)
    return last


def _workgroups(facts: ProductFacts, plan: ProductPlan) -> int:
    """How many workgroups compute the product: those of tiles take one after the other."""
    kernel, n = plan.kernel, facts.n
    assert isinstance(n, int)
    if kernel.most_rows:
        return math.ceil(n / kernel.columns_per_workgroup) * kernel.cluster
    if not isinstance(facts.m, int):
        return plan.units
    columns = kernel.columns_per_tile // 2 if kernel.gated else kernel.columns_per_tile
    return min(plan.units, math.ceil(facts.m / _TILE_ROWS) * math.ceil(n / columns))


def _result_sizes(facts: ProductFacts, epilogue: Epilogue) -> tuple[Size, ...]:
    """The sizes of the last result: those of the product, or, behind a reshape, its own."""
    own = (*facts.lead, facts.n)
    same = len(ranked_shape(epilogue.result)) == len(own)
    return own if same else sizes_of(epilogue.result)


def _flat_rows(build: Builder, value: ir.Value) -> ir.Value:
    """All rows one behind the other."""
    last = len(ranked_shape(value)) - 1
    return build.collapse(value, [list(range(last)), [last]])


def _weights(build: Builder, facts: ProductFacts, kernel: ProductKernel) -> ir.Value:
    """Weights as the kernel reads them, without dims of size one beside their two."""
    value, sizes = facts.weights, sizes_of(facts.weights)
    units = len(sizes) - 2
    pieces = []
    for size in sizes:
        drop = size == 1 and units > 0
        units -= drop
        pieces.append([] if drop else [size])
    value = build.split_dims(value, pieces) if len(sizes) > 2 else value
    return build.transpose(value, [1, 0]) if _turns(kernel, facts) else value


def _line(build: Builder, value: ir.Value) -> ir.Value:
    """A bias as one dim."""
    return build.collapse(value, [list(range(len(ranked_shape(value))))])
