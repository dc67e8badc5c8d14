"""attn-use-products: kernels of providers in place of IREE's own products with weights."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Refusal, collect, erase_dead
from ..machines import DEFAULT_TARGET, Target
from ..report.records import Report
from . import (
    KernelProvider,
    ProductOffer,
    best_product_offer,
    providers_for,
)
from .groups import read_groups
from .products import ProductFacts, read_product
from .use_kernels import KernelPass

_KIND = "product"


def use_products(module: ir.Operation, target: Target | None, mode: str, report: Report) -> bool:
    """Returns whether IR changed. Needs a current context."""
    found = providers_for(module, target)
    taken: list[ir.Operation] = []
    done: set[ir.Operation] = set()
    ops = collect(module, lambda op: op.name.startswith("linalg."), bodies=False)
    # The last first: what stands behind a product may be another product's.
    for op in reversed(ops):
        facts = None if op in done else read_groups(op) or read_product(op)
        if facts is None:
            continue
        offer = _offer(facts, found, target or DEFAULT_TARGET)
        why = offer if isinstance(offer, Refusal) else offer.why_not(mode)
        if isinstance(offer, Refusal) or isinstance(facts, Refusal) or why:
            report.record(op, "no-kernel", why or "", kind=_KIND)
            continue
        # Of rows in groups the op that keeps each row's own product is none itself.
        for each in offer.also if facts.groups else (op, *offer.also):
            report.record(each, "kernel", str(offer), kind=_KIND)
        done.update(offer.also)
        taken += offer.replace(facts)
    erase_dead(taken)
    return bool(taken)


def _offer(
    facts: ProductFacts | Refusal, sources: tuple[KernelProvider, ...] | Refusal, target: Target
) -> ProductOffer | Refusal:
    """The best offer for a product, or why there is none."""
    if isinstance(facts, Refusal):
        return facts
    if isinstance(sources, Refusal):
        return sources
    return best_product_offer(sources, facts, target)


class UseProducts(KernelPass):
    """Replaces products of rows with weights by the best kernel that a provider offers, with the
    elementwise ops behind them that it can do: ours are precompiled ones for Hopper, for 16 bits,
    e4m3 and f32.

    `mode` and `target` are as for attn-use-kernels. The module runs on such devices only.
    """

    name = "attn-use-products"
    summary = "replace products by precompiled Hopper kernels where they win"
    taken_for = "products"
    switch = "products"

    def take(self, module: ir.Operation, target: Target | None, mode: str, report: Report) -> bool:
        return use_products(module, target, mode, report)
