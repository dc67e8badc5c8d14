"""attn-hardware-exp2: CUDA's own exp2, tanh and casts in attention kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class HardwareExp2(Pass):
    """Lowers CUDA kernels that hold attention or fp8 casts, and puts the GPU's instructions in.

    `math.exp2` on f32 becomes `ex2.approx.ftz.f32`, which IREE expands into a polynomial, and
    `math.tanh` that and a reciprocal: its error is at most 5e-7 absolutely, as scores need it.
    Rounding to bf16, integer arithmetic in IREE, becomes `cvt.rn.bf16x2.f32`; NaN stays NaN.
    Casts to and from f8E4M3FN and f8E5M2, which IREE 3.13 cannot translate for CUDA, become
    `cvt` from sm_89 on and integer arithmetic below it, with the numbers of a CPU. What
    cannot be replaced is left as it was, with the reason in the report; a kernel in which
    nothing is replaced is left for IREE to lower.

    Products without tensor cores get loops and factors whose dims IREE 3.13 pairs right.
    """

    name: ClassVar[str] = "attn-hardware-exp2"
    summary: ClassVar[str] = "CUDA: hardware exp2, tanh and casts in attention kernels"
    phase: ClassVar[str] = "executable-configurations"
    backends: ClassVar[tuple[str, ...]] = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..lowered.drive import use_hardware_math

        with module.context:
            return use_hardware_math(module, context.report)
