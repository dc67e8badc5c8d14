"""What the kernels want of V: the worth of V^T to the layout planner where kernels are taken."""

from __future__ import annotations

from dataclasses import dataclass, fields

from iree.compiler import ir

from ..attention.facts import AttentionFacts
from ..ir import Refusal, maps
from ..machines import DEFAULT_TARGET, Target, Worth
from ..passes import PassContext
from . import KernelProvider, Offer, best_offer, mode_for, providers_for
from .use_kernels import UseKernels, note_priced_out


@dataclass(frozen=True)
class KernelTarget(Target):
    """A target whose attentions may be given to kernels of `sources` for `device` by `mode`.

    `base` is the target itself, which prices what no kernel takes.
    """

    base: Target = DEFAULT_TARGET
    device: Target = DEFAULT_TARGET
    sources: tuple[KernelProvider, ...] = ()
    mode: str = "cost"

    def worth_of_transposed_v(self, facts: AttentionFacts) -> Worth:
        own = self.base.worth_of_transposed_v(facts)
        given = facts.map_of("value")
        turned = (*(dim for dim in given if dim not in facts.k2), *facts.k2)
        before, after = self._offer(facts), self._offer(facts, turned)
        saved = [self._saved(before), self._saved(after)]
        if saved == [None, None] or isinstance(before, Refusal) or isinstance(after, Refusal):
            return own
        both = None not in saved and "value" not in (*before.moved, *after.moved)
        if both and before.as_fast_as(after):
            return Worth(0.0, "there are kernels for both layouts")
        seconds = (saved[1] or 0.0) - (saved[0] or 0.0)
        best, layout = (after, "V^T") if seconds > 0 else (before, "row-major V")
        words = f"the kernel {best.name} reads {layout}"
        words += ", the one for the other layout is slower" if both else " only"
        return Worth(seconds, words + f" (to have it so saves {abs(seconds) * 1e6:.0f} us)")

    def kernel_for(self, facts: AttentionFacts) -> str:
        offer = self._offer(facts)
        if isinstance(offer, Refusal) or self._saved(offer) is None:
            return ""
        return offer.name

    def _offer(
        self, facts: AttentionFacts, value_map: maps.Positions | None = None
    ) -> Offer | Refusal:
        return best_offer(self.sources, facts, self.device, value_map)

    def _saved(self, offer: Offer | Refusal) -> float | None:
        """What the kernel saves against IREE's code; None where it is not taken."""
        if isinstance(offer, Refusal) or (self.mode == "cost" and offer.seconds <= 0):
            return None
        return offer.seconds


def with_later_kernels(
    module: ir.Operation, target: Target | None, context: PassContext
) -> Target | None:
    """`target`, with V^T's worth to the kernels of attn-use-kernels where that follows in the same
    run; records what no kernel wins before layouts change. Needs a current context."""
    for later in context.later:
        if isinstance(later, UseKernels):
            device = later.target_for(module, context)
            mode = mode_for(later.mode, module, device) or "never"
            target = with_kernels(module, target, device, mode)
            if isinstance(target, KernelTarget):
                note_priced_out(
                    module, target.sources, target.device, mode, context.report, later.name
                )
    return target


def with_kernels(
    module: ir.Operation, target: Target | None, device: Target | None, mode: str
) -> Target | None:
    """`target`, with V^T's worth to the kernels where they can be used."""
    if mode == "never" or device is None:
        return target
    sources = providers_for(module, device)
    if isinstance(sources, Refusal):
        return target
    base = target or DEFAULT_TARGET
    known = {field.name: getattr(base, field.name) for field in fields(Target)}
    return KernelTarget(**known, base=base, device=device, sources=sources, mode=mode)
