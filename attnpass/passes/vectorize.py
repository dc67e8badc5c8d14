"""attn-vectorize: attention on CPUs as vector loops of our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class Vectorize(Pass):
    """Lowers attention that `attn-configure` marked, on llvm-cpu, to loops of our own: with many
    rows a row of the query stands in each lane of a vector, with few the head dim does.

    IREE unrolls a whole tile of attention and puts keys, then columns across the lanes, so
    that its tiles stay small and shuffle much. What cannot be lowered so is left to IREE and
    its configuration, with the reason in the report.
    """

    name: ClassVar[str] = "attn-vectorize"
    summary: ClassVar[str] = "CPUs: attention as vector loops of our own"
    phase: ClassVar[str] = "executable-configurations"
    backends: ClassVar[tuple[str, ...]] = ("llvm-cpu",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..lowered.cpu_drive import use_loops

        with module.context:
            return use_loops(module, context.report)
