"""attn-half-maxima: maxima of f16 that leave NaN out link on CPUs."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder
from ..passes import OpPass

# How the number that is wanted compares with the other.
_WANTED = {"arith.maxnumf": "ogt", "arith.minnumf": "olt"}


class HalfMaxima(OpPass):
    """Makes `maxnumf` and `minnumf` of two f16 a comparison and a choice.

    For them LLVM calls functions of a library (`fmaxf`) that IREE 3.13 does not link. IREE's own
    `linalg.softmax` holds one, which begins with NaN: f16 softmaxes have no program on CPUs.
    """

    name = "attn-half-maxima"
    summary = "CPUs: maxima of f16 that leave NaN out have a program"
    phase = "executable-configurations"
    backends = ("llvm-cpu",)
    mends = "softmaxes of f16 do not link on CPUs"

    in_bodies = True

    def wanted(self, op: ir.Operation) -> bool:
        return op.name in _WANTED and op.results[0].type == ir.F16Type.get(op.context)

    def change(self, op: ir.Operation) -> str:
        build = Builder(op)
        one, other = op.operands
        is_wanted = build.compare_floats(_WANTED[op.name], one, other)
        is_alone = build.compare_floats("une", other, other)
        takes_one = build.apply("arith.ori", is_wanted, is_alone)
        op.results[0].replace_all_uses_with(build.select(takes_one, one, other))
        return "is a comparison and a choice: IREE links no program of f16 maxima"
