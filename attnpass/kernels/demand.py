"""What the kernels want of V: the worth of V^T to the layout planner where kernels are taken."""

from __future__ import annotations

from dataclasses import dataclass, fields

from iree.compiler import ir

from ..attention.facts import AttentionFacts
from ..machines import DEFAULT_TARGET, Target, Worth
from .choose import KernelPlan, choose
from .speed import equally_fast
from .use_kernels import unfit_target


@dataclass(frozen=True)
class KernelTarget(Target):
    """A target whose attentions may be given to the kernels of `device` by `mode`.

    `base` is the target itself, which prices what no kernel takes.
    """

    base: Target = DEFAULT_TARGET
    device: Target = DEFAULT_TARGET
    mode: str = "cost"

    def worth_of_transposed_v(self, facts: AttentionFacts) -> Worth:
        own = self.base.worth_of_transposed_v(facts)
        given = facts.map_of("value")
        turned = (*(dim for dim in given if dim not in facts.k2), *facts.k2)
        before, after = choose(facts, self.device), choose(facts, self.device, turned)
        saved = [self._saved(before), self._saved(after)]
        if saved == [None, None] or isinstance(before, str) or isinstance(after, str):
            return own
        both = None not in saved and "value" not in (*before.moved, *after.moved)
        if both and equally_fast(before.kernel, after.kernel):
            return Worth(0.0, "there are kernels for both layouts")
        seconds = (saved[1] or 0.0) - (saved[0] or 0.0)
        best, layout = (after, "V^T") if seconds > 0 else (before, "row-major V")
        words = f"the kernel {best.kernel.name} reads {layout}"
        words += ", the one for the other layout is slower" if both else " only"
        return Worth(seconds, words + f" (to have it so saves {abs(seconds) * 1e6:.0f} us)")

    def kernel_for(self, facts: AttentionFacts) -> str:
        plan = choose(facts, self.device)
        if isinstance(plan, str) or self._saved(plan) is None:
            return ""
        return plan.kernel.name

    def _saved(self, plan: KernelPlan | str) -> float | None:
        """What the kernel saves against IREE's code; None where it is not taken."""
        if isinstance(plan, str) or (self.mode == "cost" and plan.seconds <= 0):
            return None
        return plan.seconds


def with_kernels(
    module: ir.Operation, target: Target | None, device: Target | None, mode: str
) -> Target | None:
    """`target`, with V^T's worth to the kernels where they can be used."""
    if mode == "never" or device is None or unfit_target(module, device):
        return target
    base = target or DEFAULT_TARGET
    known = {field.name: getattr(base, field.name) for field in fields(Target)}
    return KernelTarget(**known, base=base, device=device, mode=mode)
