"""attn-use-kernels: precompiled Hopper kernels in place of IREE's own attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..targets import Target


@dataclass(frozen=True)
class UseKernels(Pass):
    """Replaces attention by a `hal.dispatch.extern` of a kernel from the manifest.

    `mode=cost` takes a kernel where it is estimated to win, `always` wherever one fits,
    `never` only reports. A module that is compiled for an older architecture says
    `target=sm_90` to promise that it runs on Hopper. With `elsewhere=iree` it runs elsewhere,
    too: it asks the device at run time, and holds IREE's own attention beside the kernel.
    `kernel` is for measuring one kernel where another would be taken.
    """

    name: ClassVar[str] = "attn-use-kernels"
    summary: ClassVar[str] = "replace attention by precompiled Hopper kernels where they win"
    backends: ClassVar[tuple[str, ...]] = ("cuda",)

    target: str = option("", "device the module will run on, instead of the module's target")
    mode: str = option("cost", "where a kernel is taken", ("cost", "always", "never"))

    elsewhere: str = option(
        "refuse",
        "what a device without the kernels does: refuse to load, or run IREE's code",
        ("refuse", "iree"),
    )

    kernel: str = option("", "the name of the one kernel that may be taken; empty: any")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..kernels.drive import use_kernels

        target = self.device(module, context)
        with module.context:
            return use_kernels(
                module,
                target,
                self.mode,
                context.report,
                self.name,
                self.elsewhere == "iree",
                self.kernel,
            )

    def device(self, module: ir.Operation, context: PassContext) -> Target | None:
        """The target whose kernels are taken."""
        return context.target_for(module, self.target)
