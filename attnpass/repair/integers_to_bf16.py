"""attn-integers-to-bf16: whole numbers become bf16 by way of f32, for CPUs."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, element_type_name, is_ranked_tensor
from ..ir.types import with_element
from ..passes import OpPass

_CONVERSIONS = ("arith.sitofp", "arith.uitofp")


class IntegersToBf16(OpPass):
    """Makes a conversion of an integer to bf16 one to f32, whose bits are then rounded to bf16.

    For the first LLVM calls a function of a library (`__truncsfbf2`) that IREE 3.13 does not link,
    where the CPU has no instruction for it. `arith.truncf` behind a conversion would be folded to
    the first again. No integer is infinite or no number in f32, so that no bits need be told apart.
    Runs behind all that reads masks and codes.
    """

    name = "attn-integers-to-bf16"
    summary = "CPUs: integers become bf16 by way of f32"
    why = "IREE links no program that makes bf16 of integers on CPUs; behind loops that read codes"
    phase = "executable-configurations"
    backends = ("llvm-cpu",)
    mends = "integers and masks that become bf16 do not link on CPUs"

    in_bodies = True

    def wanted(self, op: ir.Operation) -> bool:
        if op.name not in _CONVERSIONS or is_ranked_tensor(op.results[0]):
            return False
        return element_type_name(op.results[0]) == "bf16"

    def change(self, op: ir.Operation) -> str:
        integer = ir.IntegerType.get_signless
        elements = (ir.F32Type.get(op.context), integer(32, op.context), integer(16, op.context))
        # Loops of ours hold vectors.
        f32, i32, i16 = (with_element(op.results[0].type, element) for element in elements)
        build = Builder(op)
        exact = build.convert(op.name, op.operands[0], f32)
        bits = build.convert("arith.bitcast", exact, i32)
        # To the nearest, of two that are as near to the even one.
        half, one, low = (build.splat(number, i32) for number in (0x7FFF, 1, 16))
        odd = build.andi(build.apply("arith.shrui", bits, low), one)
        total = build.addi(bits, build.addi(half, odd))
        short = build.convert("arith.trunci", build.apply("arith.shrui", total, low), i16)
        rounded = build.convert("arith.bitcast", short, op.results[0].type)
        op.results[0].replace_all_uses_with(rounded)
        return "goes by way of f32: IREE links no program of the direct conversion"
