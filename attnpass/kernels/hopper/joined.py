"""Products of the same rows by one launch: those that make Q, K and V, where each has its weights.

A launch takes the driver's thread 3 to 6 us, the GPU waits 1 to 3 us between two kernels, and the
last workgroups of a kernel leave some of its units idle. So a kernel takes the columns of two or
three products for those of one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ...ir import Builder, Refusal, defining_op, element_type, element_type_name, reached, users
from ...ir.limits import ASSUMED_ROWS
from ...ir.scalars import is_before
from ...machines import Target
from .. import ProductOffer
from ..products import ProductFacts, read_product
from .extern import launch
from .few_columns import few_columns_offers
from .filled import has_columns_behind, has_depth_behind
from .manifest import ProductKernel, load_products
from .product_speed import ProductWork, product_seconds
from .products import (
    ProductPart,
    ProductPlan,
    bias_line,
    divides,
    flat_rows,
    hand_on,
    most_rows,
    product_offers,
    result_sizes,
    weights_of,
)
from .streamed import division
from .tiles import told_shape

# Users of the rows that are looked at, and products of one launch.
_MOST_USERS, _MOST = 16, 3
# Of tiles that kernels for many rows have.
_TILE_COLUMNS = 128


@dataclass(frozen=True, kw_only=True)
class JoinedPlan(ProductOffer):
    """A kernel for the products of these plans, in the order of their ops."""

    kernel: ProductKernel
    plans: tuple[ProductPlan, ...]

    def replace(self, facts: ProductFacts) -> list[ir.Operation]:
        parts = [plan.parts[0] for plan in self.plans]
        lasts = [_last(part) for part in parts]
        build, first = Builder(lasts[0]), parts[0].facts
        rows = flat_rows(build, first.rows)
        weights = [weights_of(build, part, self.kernel) for part in parts]
        biases = [part.epilogue.bias for part in parts]
        lines = [rows if bias is None else bias_line(build, bias) for bias in biases]
        numbers = {"m": first.m, "k": first.k}
        numbers |= dict(zip(("n", "n2", "n3"), (part.facts.n for part in parts), strict=False))
        numbers["biased"] = sum((bias is not None) << at for at, bias in enumerate(biases))
        units = self.plans[0].units
        workgroups = units
        if self.kernel.most_blocks:
            divided = division(self.kernel, _columns(self.kernel, self.plans), units)
            assert divided is not None, "a kernel that fits"
            numbers["division"], workgroups = divided.number, divided.workgroups
        if self.kernel.tiles:
            widths = [part.facts.n for part in parts if isinstance(part.facts.n, int)]
            assert isinstance(first.k, int)
            numbers["shape"] = told_shape(build, self.kernel, first.m, widths, first.k, units)
        kind = element_type(parts[0].epilogue.result)
        results = [((first.m, part.facts.n), kind) for part in parts]
        given = [rows, *weights, *lines]
        made = launch(build, self.kernel, (workgroups, 1), numbers, given, results)
        for part, last, value in zip(parts, lasts, made, strict=False):
            sizes = result_sizes(part.facts, part.epilogue)
            hand_on(Builder(last), value, part.epilogue.result, sizes)
        return lasts


def offers_beside(facts: ProductFacts, target: Target) -> list[ProductOffer] | Refusal:
    """The plans for a product, alone and, where its best plan adds a bias at most, beside others of
    its rows of which that is true; or why no kernel fits."""
    single = offers_alone(facts, target)
    own = _plain_best(single)
    if isinstance(single, Refusal) or own is None:
        return single
    group, found = [own], list[ProductOffer]()
    for other in _beside(facts, target):
        if len(group) < _MOST and _may_join([*group, other]):
            group.append(other)
            found += [_joined(group, kernel, target) for kernel in _kernels(group)]
    return [*single, *found]


def offers_alone(facts: ProductFacts, target: Target) -> list[ProductOffer] | Refusal:
    """The plans for one product, or why no kernel fits."""
    plans, turned = product_offers(facts, target), few_columns_offers(facts, target)
    if isinstance(plans, Refusal):
        return [*turned] or plans
    return [*plans, *turned]


def _plain_best(plans: Sequence[ProductOffer] | Refusal) -> ProductPlan | None:
    """The best plan for one product, if it is one of those that are joined."""
    best = None if isinstance(plans, Refusal) else max(plans, key=lambda plan: plan.seconds)
    return best if isinstance(best, ProductPlan) and _is_plain(best) else None


def _is_plain(plan: ProductPlan) -> bool:
    """Whether a plan is that of one product of all rows, and a bias at most."""
    (part, *others), epilogue = plan.parts, plan.parts[0].epilogue
    facts, bias = part.facts, epilogue.bias
    if others or part.place is not None or facts.loops is not None or facts.groups is not None:
        return False
    if has_columns_behind(facts) or has_depth_behind(facts):
        return False
    kinds = {facts.element_type, element_type_name(epilogue.result), plan.kernel.element_type}
    kinds |= set() if bias is None else {element_type_name(bias)}
    plain = epilogue.kind[1:] == ("none", "none") and not epilogue.is_scaled
    return plain and len(kinds) == 1 and not epilogue.start and not epilogue.bias_share


def _beside(facts: ProductFacts, target: Target) -> Iterator[ProductPlan]:
    """The best plans for other products of a product's rows that are joined, the nearest first."""
    block, own = facts.op.block, facts.op
    ops = [op for op in dict.fromkeys(users(facts.rows)) if op != own and op.block == block]
    behind = [op for op in ops if own.is_before_in_block(op)]
    before = [op for op in ops if not own.is_before_in_block(op)]
    for op in [*behind, *before][:_MOST_USERS]:
        read = read_product(op) if op.name.startswith("linalg.") else None
        if not isinstance(read, ProductFacts) or read.rows != facts.rows:
            continue
        plan = _plain_best(offers_alone(read, target))
        if plan is not None and _is_alive(op.results[0]):
            yield plan


def _is_alive(value: ir.Value) -> bool:
    """Whether something reads a value in the end. What another launch computes by now nothing does:
    the ops behind it are left until the pass ends."""

    def readers(op: ir.Operation) -> list[ir.Operation]:
        return [user for made in op.results for user in users(made)]

    moves = ("linalg.", "tensor.")
    return any(not op.name.startswith(moves) for op in reached(users(value), readers))


def _may_join(plans: Sequence[ProductPlan]) -> bool:
    """Whether these products' weights lie alike, and all that is read is there where the first of
    them ends."""
    parts = [plan.parts[0] for plan in plans]
    first = _in_order(plans)[0].parts[0]
    read = [value for part in parts for value in (part.facts.weights, part.epilogue.bias)]
    kinds = {(part.facts.by_columns, part.facts.element_type, part.facts.k) for part in parts}
    last = _last(first)
    return len(kinds) == 1 and all(value is None or is_before(value, last) for value in read)


def _in_order(plans: Sequence[ProductPlan]) -> list[ProductPlan]:
    """Plans in the order of the ops that make what their kernels write."""

    def compare(one: ProductPlan, other: ProductPlan) -> int:
        return -1 if _last(one.parts[0]).is_before_in_block(_last(other.parts[0])) else 1

    return sorted(plans, key=functools.cmp_to_key(compare))


def _last(part: ProductPart) -> ir.Operation:
    """The op that makes what a kernel writes."""
    op = defining_op(part.epilogue.result)
    assert op is not None, "the result of a product"
    return op


def _kernels(plans: Sequence[ProductPlan]) -> Iterator[ProductKernel]:
    """The kernels that compute the products of these plans together."""
    facts, units = plans[0].parts[0].facts, plans[0].units
    weights = "nk" if facts.by_columns else "kn"
    for kernel in load_products():
        own = (kernel.joined, kernel.element_type, kernel.weights)
        if own != (len(plans), facts.element_type, weights):
            continue
        columns = _columns(kernel, plans)
        few = isinstance(facts.m, int) and facts.m <= most_rows()
        if divides(kernel, facts.m, columns, units) if kernel.most_blocks else not few:
            yield kernel


def _columns(kernel: ProductKernel, plans: Sequence[ProductPlan]) -> int:
    """The columns of all products, each of which begins a tile: of few rows the widest that there
    is."""
    tile = kernel.columns_per_workgroup * kernel.most_blocks or _TILE_COLUMNS
    columns = [plan.parts[0].facts.n for plan in plans]
    return sum(math.ceil(n / tile) * tile for n in columns if isinstance(n, int))


def _joined(plans: Sequence[ProductPlan], kernel: ProductKernel, target: Target) -> JoinedPlan:
    """The plan for these products, of which the first is the one that asks."""
    facts = plans[0].parts[0].facts
    assert isinstance(facts.k, int)
    known = isinstance(facts.m, int)
    rows = facts.m if isinstance(facts.m, int) else ASSUMED_ROWS
    work = ProductWork(rows, _columns(kernel, plans), facts.k, known)
    taken, apart = product_seconds(work, kernel, target), sum(plan.taken for plan in plans)
    replaced = sum(plan.replaced for plan in plans)
    times = f"about {taken * 1e6:.0f} us instead of {replaced * 1e6:.0f}"
    alone = f"{apart * 1e6:.0f} by a launch for each"
    assumed = "" if known else f" (for {rows} rows; their number is known only at run time)"
    words = f"{times} ({alone}), with {len(plans) - 1} more of the products of its rows{assumed}"
    return JoinedPlan(
        name=kernel.name,
        # All that is saved: the others have their own plans, else.
        seconds=plans[0].seconds + apart - taken,
        reason=words,
        kernel=kernel,
        plans=tuple(_in_order(plans)),
        also=tuple(plan.parts[0].facts.op for plan in plans[1:]),
    )
