"""Products of few columns, as those of a router or of an adapter, by kernels for few rows.

A tile is 128 columns wide or more, so that few columns leave most units idle, and those that are
not go through the whole depth. So the product is turned: its columns are the rows that a kernel
streams the other factor by, at memory's speed, and what it writes is turned back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from iree.compiler import ir

from ...ir import Builder, defining_op, element_type, element_type_name
from ...machines import Target
from .. import ProductOffer
from ..epilogues import Epilogue
from ..products import ProductFacts
from .extern import launch
from .filled import filled, multiple_of
from .manifest import ProductKernel, load_products
from .product_speed import ProductWork, product_seconds, turn_seconds
from .products import (
    ProductPart,
    divides,
    epilogue_numbers,
    flat_rows,
    hand_on,
    iree_seconds,
    left_seconds,
    most_rows,
    result_sizes,
    turns,
    weights_of,
)
from .sources import unaligned_slice
from .streamed import division

# What writes a result again, beside 4 us: bytes a second.
_RATE, _START = 3e12, 4e-6


@dataclass(frozen=True, kw_only=True)
class FewColumnsPlan(ProductOffer):
    """A kernel for few rows that computes the turned product, and what is done behind it."""

    kernel: ProductKernel
    facts: ProductFacts
    epilogue: Epilogue
    units: int

    def replace(self, facts: ProductFacts) -> list[ir.Operation]:
        own, last = self.facts, defining_op(self.epilogue.result)
        assert last is not None and isinstance(own.m, int), "a plan for it"
        build = Builder(last)
        streamed = flat_rows(build, own.rows)
        rows = weights_of(build, ProductPart(own, self.epilogue), self.kernel)
        divided = division(self.kernel, own.m, self.units)
        assert divided is not None, "a kernel that fits"
        numbers = {"m": own.n, "n": own.m, "k": own.k, "division": divided.number}
        numbers |= epilogue_numbers(self.epilogue, 0)
        results = [((own.n, own.m), element_type(self.epilogue.result))]
        # In the place of a bias, a factor and a residual that there are not stand the rows.
        given = [rows, streamed, rows, rows, rows]
        made = launch(build, self.kernel, (divided.workgroups, 1), numbers, given, results)[0]
        turned = build.transpose(made, [1, 0])
        hand_on(build, turned, self.epilogue.result, result_sizes(own, self.epilogue))
        return [last]


def few_columns_offers(facts: ProductFacts, target: Target) -> list[FewColumnsPlan]:
    """The plans for a product of few columns and a known number of more rows; none for another."""
    m, n, k = facts.m, facts.n, facts.k
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int)):
        return []
    if facts.loops or facts.groups or m % multiple_of(facts) or k % multiple_of(facts):
        return []
    if not n <= most_rows() < m:
        return []
    if unaligned_slice(facts.rows) or unaligned_slice(facts.weights):
        return []
    plans = [_plan(facts, *pair, target) for pair in _pairs(facts, target.compute_units)]
    return plans[-1:]


def _pairs(facts: ProductFacts, units: int) -> Iterator[tuple[ProductKernel, Epilogue]]:
    """Kernels with what they do behind the product, which is a scale at most: a bias would be one
    of their rows."""
    for epilogue in facts.epilogues:
        if epilogue.kind != (False, "none", "none") or epilogue.halves or epilogue.start:
            continue
        if epilogue.scales or epilogue.factor is not None:
            continue
        kinds = (facts.element_type, element_type_name(epilogue.result))
        for kernel in load_products():
            told = kernel.most_blocks and kernel.activation == "clamp" and not kernel.joined
            own = (kernel.element_type, kernel.result_type, kernel.weights)
            if told and own == (*kinds, "nk") and divides(kernel, facts.n, facts.m, units):
                yield kernel, epilogue


def _plan(
    facts: ProductFacts, kernel: ProductKernel, epilogue: Epilogue, target: Target
) -> FewColumnsPlan:
    m, n, k = facts.m, facts.n, facts.k
    assert isinstance(m, int) and isinstance(n, int) and isinstance(k, int)
    last = facts.epilogues[-1]
    work = ProductWork(m, n, k, True, 1, last.activation, n)
    taken = product_seconds(ProductWork(n, m, k, True), kernel, target)
    taken += turn_seconds(work) if turns(kernel, facts) else 0.0
    left = _START + 8.0 * math.prod((m, n)) / _RATE + left_seconds(facts, epilogue, work)
    # Other kernels would fill the columns up, which IREE's code is as slow without.
    own = iree_seconds(filled(facts), work, target)
    words = f"about {taken * 1e6:.0f} us instead of {own * 1e6:.0f}"
    words += f", with {epilogue.words}" if epilogue.words else ""
    words += f", its {n} columns as rows of the turned product"
    words += f", and about {left * 1e6:.0f} us beside it"
    return FewColumnsPlan(
        name=kernel.name,
        seconds=own - taken - left,
        reason=words,
        kernel=kernel,
        facts=facts,
        epilogue=epilogue,
        units=target.compute_units,
    )
