"""attn-shared-memory: attention's tiles in shared memory as tensor cores read them fastest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class SharedMemory(Pass):
    """Rewrites how CUDA attention kernels (sm_80 and later) use shared memory.

    Rows of K, V and Q get a distance at which no two threads read one bank; tensor cores'
    fragments are read with `ldmatrix`, in each step where registers cannot hold them; a loop over
    the keys copies its next tile asynchronously while it computes on this one, and once what
    stays the same; masks of rows that are never stored are dropped. Numbers stay the same to the
    last bit. A kernel, or the part of it, that has another form than expected is left as it was,
    with the reason in the report.
    """

    name: ClassVar[str] = "attn-shared-memory"
    summary: ClassVar[str] = "CUDA: attention's tiles in shared memory as tensor cores read them"
    phase: ClassVar[str] = "executable-configurations"
    backends: ClassVar[tuple[str, ...]] = ("cuda",)

    rows: bool = option(True, "space rows so that no two threads read one bank at once")
    ldmatrix: bool = option(True, "read the fragments of tensor cores with ldmatrix")
    ahead: bool = option(True, "copy the next tile while this one is computed on")
    masks: bool = option(True, "drop masks of rows beyond the end, which are never stored")
    fp8: bool = option(True, "rewrite kernels with 8-bit factors, too")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..lowered.shared_drive import Rewrites, improve_shared_memory

        with module.context:
            wanted = Rewrites(self.rows, self.ldmatrix, self.ahead, self.masks, self.fp8)
            return improve_shared_memory(module, wanted, context.report)
