"""Kernels in place of IREE's own attention, and the door for those who have some.

A provider looks at an attention and offers what it has: a kernel that is built beforehand, a
function of its own, anything that gives the attention's result. attn-use-kernels takes the best
offer where it pays, and attn-propagate-layout asks in which layout V would be worth most.
`hopper/` is ours. Another package extends `KernelProvider` and registers it as an entry point of
the group `attnpass.kernels` (value `module:Class`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar, TypeVar

from .. import plugins
from ..ir import Refusal

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..attention.facts import AttentionFacts
    from ..ir import maps
    from ..machines import Target
    from ..report.records import Report
    from .products import ProductFacts


@dataclass(frozen=True, kw_only=True)
class AnyOffer:
    """A kernel: its name, the seconds that it saves against IREE's own code (negative: costs), what
    is done for it included, and in words what it is worth."""

    name: str
    seconds: float
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"

    def why_not(self, mode: str) -> Refusal | None:
        """Why it is not taken, though it fits; None if it is."""
        if mode == "never":
            return Refusal(f"{self}, not taken: mode=never")
        return Refusal(f"{self}, no win") if mode == "cost" and self.seconds <= 0 else None


@dataclass(frozen=True, kw_only=True)
class Offer(AnyOffer):
    """A kernel for one attention. `moved` are the operands that are transposed for it, `widened`
    those that are cast, with the type that they are cast to."""

    moved: tuple[str, ...] = ()
    widened: Mapping[str, str] = field(default_factory=dict)

    def replace(self, facts: AttentionFacts, elsewhere: bool) -> None:
        """Makes the users of the attention, in a current context, read the kernel's result, which
        has the same type; the attention is left without uses.

        With `elsewhere` the module also has to run on devices without the kernel.
        """
        raise NotImplementedError

    def as_fast_as(self, other: Offer) -> bool:
        """Whether this is the kernel of `other` for another layout of V, and as fast."""
        return self.name == other.name


@dataclass(frozen=True, kw_only=True)
class ProductOffer(AnyOffer):
    """A kernel for one product and for what is behind it. `also` are other products that it
    computes."""

    also: tuple[ir.Operation, ...] = ()

    def replace(self, facts: ProductFacts) -> Sequence[ir.Operation]:
        """Makes the users of the last op that the kernel takes, in a current context, read its
        result, which has the same type; of several products of each of them. Returns these ops,
        which are left without uses."""
        raise NotImplementedError


AnOffer = TypeVar("AnOffer", bound=AnyOffer)


class KernelProvider:
    """Where kernels come from. `backends` are those of IREE whose modules may get some."""

    backends: ClassVar[tuple[str, ...]] = ()

    def unfit_target(self, module: ir.Operation, target: Target | None) -> Refusal | None:
        """Why the kernels cannot run on the target; None if they can."""
        raise NotImplementedError

    def offers(
        self, facts: AttentionFacts, target: Target, value_map: maps.Positions | None = None
    ) -> Sequence[Offer] | Refusal:
        """The kernels for this attention, or the reason why none fits. Changes nothing.

        `value_map` stands for V's map, where V could have another layout than it has.
        """
        raise NotImplementedError

    def product_offers(
        self, facts: ProductFacts, target: Target
    ) -> Sequence[ProductOffer] | Refusal:
        """The kernels for this product, or the reason why none fits. Changes nothing."""
        return Refusal("there are no kernels for products")

    def launches_in(self, module: ir.Operation) -> bool:
        """Whether a module, at IREE's phase preprocessing or flow, launches one of the kernels
        for GPUs, so that there is attention in it, though no op."""
        return False


PROVIDERS = {"hopper": "attnpass.kernels.hopper.provider:Hopper"}


@functools.cache
def providers() -> tuple[KernelProvider, ...]:
    """All providers, ours first. PluginError for one of another package that is none."""
    found = plugins.entries("attnpass.kernels", PROVIDERS)
    return tuple(entry.make(KernelProvider) for entry in found.values())


def providers_for(
    module: ir.Operation, target: Target | None
) -> tuple[KernelProvider, ...] | Refusal:
    """Those whose kernels can run on the target; why there are none."""
    problems = {provider: provider.unfit_target(module, target) for provider in providers()}
    found = tuple(provider for provider, problem in problems.items() if not problem)
    return found or Refusal("; ".join(map(str, problems.values())))


# `auto` is `cost` where the target has kernels, `never` elsewhere.
MODES = ("auto", "cost", "always", "never")


def mode_for(mode: str, module: ir.Operation, target: Target | None) -> str:
    """What the mode `auto` of a pass is: `cost` if some kernels can run on the target, else ''."""
    if mode != "auto":
        return mode
    return "" if isinstance(providers_for(module, target), Refusal) else "cost"


def note_default(report: Report, what: str, option: str) -> None:
    """Tells that kernels were taken for `what` though nobody asked for them."""
    report.note(
        f"precompiled kernels compute {what} where they win, since there are some for the target: "
        f"the module runs on such devices alone (--attn-{option}=never leaves them)"
    )


def best_offer(
    sources: Sequence[KernelProvider],
    facts: AttentionFacts,
    target: Target,
    value_map: maps.Positions | None = None,
    only: str = "",
) -> Offer | Refusal:
    """The best offer of these providers, or the reasons why none has any. `only` is the name of
    the one kernel that may be taken, or a pattern of names, if not empty; for `value_map` see
    `KernelProvider`."""
    offers = _offered([provider.offers(facts, target, value_map) for provider in sources])
    if isinstance(offers, Refusal):
        return offers
    offers = [offer for offer in offers if not only or fnmatchcase(offer.name, only)]
    if not offers:
        return Refusal(f"it does not fit the kernel {only}, and no other may be taken")
    # What is widened is transposed for nothing, and better not.
    return max(offers, key=lambda offer: (offer.seconds, -len(offer.moved)))


def best_product_offer(
    sources: Sequence[KernelProvider], facts: ProductFacts, target: Target
) -> ProductOffer | Refusal:
    """The best offer for a product, or the reasons why there is none."""
    offers = _offered([provider.product_offers(facts, target) for provider in sources])
    return offers if isinstance(offers, Refusal) else max(offers, key=lambda offer: offer.seconds)


def _offered(answers: Sequence[Sequence[AnOffer] | Refusal]) -> list[AnOffer] | Refusal:
    """All that providers offer, or the reasons why that is nothing."""
    offers = [offer for answer in answers if not isinstance(answer, Refusal) for offer in answer]
    problems = [str(answer) for answer in answers if isinstance(answer, Refusal)]
    return offers or Refusal("; ".join(problems))


def kernels_in(module: ir.Operation) -> bool:
    """Whether a module launches kernels of any provider."""
    return any(provider.launches_in(module) for provider in providers())
