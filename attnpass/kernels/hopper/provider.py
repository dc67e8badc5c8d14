"""The precompiled kernels of this folder, as a provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ir import Refusal
from ...machines import resolve_target
from .. import KernelProvider, Offer, ProductOffer

if TYPE_CHECKING:
    from iree.compiler import ir

    from ...attention.facts import AttentionFacts
    from ...ir import maps
    from ...machines import Target
    from ..products import ProductFacts


class Hopper(KernelProvider):
    """NVIDIA's sm_90a; with `elsewhere` other CUDA devices run IREE's own attention."""

    backends = ("cuda",)

    def unfit_target(self, module: ir.Operation, target: Target | None) -> Refusal | None:
        if target is None:
            return Refusal("the target is unknown; say target=sm_90 if the module runs on Hopper")
        own = resolve_target(module)
        if own is not None and own.backend != "cuda":
            return Refusal(f"the module is compiled for {own.name}, the kernels are CUDA's")
        if target.backend != "cuda" or not target.arch.startswith("sm_90"):
            return Refusal(
                f"the kernels need sm_90; the target is {target.name} (say target=sm_90 if it is)"
            )
        return None

    def offers(
        self, facts: AttentionFacts, target: Target, value_map: maps.Positions | None = None
    ) -> Sequence[Offer] | Refusal:
        from .offers import offers

        return offers(facts, target, value_map)

    def product_offers(
        self, facts: ProductFacts, target: Target
    ) -> Sequence[ProductOffer] | Refusal:
        from .joined import offers_beside

        return offers_beside(facts, target)

    def launches_in(self, module: ir.Operation) -> bool:
        from .extern import launches_in

        return launches_in(module)
