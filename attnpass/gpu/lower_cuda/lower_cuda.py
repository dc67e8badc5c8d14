"""CUDA kernels of attention lowered with the GPU's own instructions and tiles: passes of
attn-lower-cuda, which lower kernels to vectors and rewrite them before IREE makes LLVM of them."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from ...passes import Pass, PassContext
from .hardware_math import translate_fp8, use_hardware_math
from .shared_memory import improve_shared_memory


@dataclass(frozen=True)
class HardwareExp2(Pass):
    """Kernels that hold attention or fp8 casts get the GPU's instructions. `math.exp2` on f32
    becomes `ex2.approx.ftz.f32`, which IREE expands into a polynomial, and `math.tanh` that and a
    reciprocal: its error is at most 5e-7 absolutely, as scores need it. Rounding to bf16, integer
    arithmetic in IREE, becomes `cvt.rn.bf16x2.f32`; NaN stays NaN. What cannot be replaced is left
    as it was, with the reason in the report; a kernel in which nothing is replaced is left for IREE
    to lower. Products are put in order, too: see attn-order-products.
    """

    name = "attn-hardware-exp2"
    summary = "CUDA: the GPU's instructions for exp2, tanh and casts"
    why = "IREE makes polynomials of exp2 and tanh"
    phase = "executable-configurations"
    backends = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        return use_hardware_math(module, context.report)


@dataclass(frozen=True)
class Fp8Casts(Pass):
    """Kernels left so far that compute with f8E4M3FN or f8E5M2, which IREE 3.13 cannot translate
    for CUDA, do so in f32; the casts become `cvt` from sm_89 on and integer arithmetic below it,
    with the numbers of a CPU. attn-hardware-exp2 does that in its kernels, too.
    """

    name = "attn-fp8-casts"
    summary = "CUDA: arithmetic on fp8 in f32, in kernels left so far"
    phase = "executable-configurations"
    mends = "IREE has no program for arithmetic on fp8 numbers"
    backends = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        return translate_fp8(module, context.report)


@dataclass(frozen=True)
class SharedMemory(Pass):
    """Rows of K, V and Q get a distance at which no two threads read one bank (sm_80 and later);
    tensor cores' fragments are read with `ldmatrix`, in each step where registers cannot hold them;
    a loop over the keys copies its next tile asynchronously while it computes on this one, and once
    what stays the same; masks of rows that are never stored are dropped. Numbers stay the same to
    the last bit. A kernel, or the part of it, that has another form than expected is left as it
    was, with the reason in the report.
    """

    name = "attn-shared-memory"
    summary = "CUDA: tiles in shared memory as tensor cores read them"
    why = "IREE's tiles meet in one bank of memory; behind what orders products of kernels so far"
    phase = "executable-configurations"
    backends = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        return improve_shared_memory(module, context.report)
