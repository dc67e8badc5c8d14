"""attn-configure: kernel configurations for attention, attached where ranks are final."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..passes import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir

    from .configurations import Check


@dataclass(frozen=True)
class Configure(Pass):
    """Attaches a kernel configuration to each attention op that a table has one for.

    IREE's defaults tile V's head dim (by 16 columns on CPUs, 32 on NVIDIA GPUs) and compute Q K^T
    once for every tile; the tables take the head dim whole. On NVIDIA GPUs the f16 and bf16
    projections of a module with attention get tiles by their size too. The entries for AMD GPUs
    were compiled and run in an interpreter, not timed. An op that has a configuration keeps it,
    and one that no entry is known to be right for is left, with the reason in the report.
    `check=ptxas` compiles each attention for CUDA alone first and refuses kernels that spill
    registers: some seconds an op.
    """

    name: ClassVar[str] = "attn-configure"
    summary: ClassVar[str] = "attach kernel configurations to attention and projections"
    phase: ClassVar[str] = "flow"

    source: str = option("table", "where configurations come from: table, none or a file")
    contractions: bool = option(True, "configure projections too, on NVIDIA GPUs")
    check: str = option(
        "none", "what to ask of attention kernels for CUDA first", ("none", "ptxas")
    )
    target: str = option("", "target to configure for, instead of the module's own")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from .configurations import configure_all
        from .table import load_table

        if self.source == "none":
            return False
        target = context.target_for(module, self.target)
        with module.context as mlir:
            file = self.source.strip("{}")
            table = None if file == "table" else load_table(file, mlir)
            return configure_all(
                module,
                target,
                context.report,
                self.contractions,
                table,
                self._check(),
                context.specs,
            )

    def _check(self) -> Check | None:
        if self.check == "none":
            return None
        from .nvidia.ptxas import find_ptxas, spill_refusal

        find_ptxas()
        return spill_refusal
