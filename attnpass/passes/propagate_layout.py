"""attn-propagate-layout: plan and commit the layouts that pay. The pass people use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext, option
from .use_kernels import UseKernels

if TYPE_CHECKING:
    from iree.compiler import ir

OPERANDS = {"v": "value", "k": "key", "q": "query", "mask": "mask"}


@dataclass(frozen=True)
class PropagateLayout(Pass):
    """Puts k2 innermost in V where V's producers absorb that and it pays; with
    `operands=v,k,q,mask` also k1 in K and Q, and k2 in the mask.

    `mode=cost` decides by price, `always` commits whatever can be fully absorbed, `never`
    changes nothing and only reports.

    `cache=transposed` changes what callers pass and get: a V cache that comes in as an
    argument and goes out as a result, or V that is returned, gets k2 as its last dim. The
    report and the attribute `attnpass.transposed_caches` of the function name each.

    Where attn-use-kernels follows, V^T is worth to an attention what it is worth to the
    kernel that will be taken for it.
    """

    name: ClassVar[str] = "attn-propagate-layout"
    summary: ClassVar[str] = "plan layouts for attention operands by cost and commit those that pay"

    mode: str = option("cost", "what is committed", ("cost", "always", "never"))
    operands: tuple[str, ...] = option(("v",), "operands to plan", tuple(OPERANDS))
    cache: str = option("kept", "layout of V caches for the caller", ("kept", "transposed"))
    target: str = option("", "target to price for, instead of the module's own")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find
        from ..kernels.demand import KernelTarget, with_kernels
        from ..kernels.drive import note_priced_out
        from ..layout.propagate import propagate

        target = context.target_for(module, self.target)
        report = context.report
        report.mode = self.mode
        if target is not None:
            report.target = target.name
        with module.context:
            for later in context.later:
                if isinstance(later, UseKernels):
                    device = later.device(module, context)
                    target = with_kernels(module, target, device, later.mode)
                    if isinstance(target, KernelTarget):
                        note_priced_out(module, target.device, later.mode, report, later.name)
            return propagate(
                find(module),
                mode=self.mode,
                operands=[OPERANDS[word] for word in self.operands],
                target=target,
                report=report,
                pass_name=self.name,
                cache=self.cache,
            )
