"""attn-double-halves: numbers of f64 become f16 by way of f32, rounded once, on CPUs."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, element_type_name, is_ranked_tensor
from ..ir.types import with_element
from ..passes import OpPass


class DoubleHalves(OpPass):
    """Makes a cast from f64 to f16 one to f32 that never rounds to an even last bit where it
    rounds, and one to f16, which is exact then.

    No x86 CPU casts so at once, and the function that IREE 3.13 links for it makes 0 of what is
    below 2^-14 and rounds twice.
    """

    name = "attn-double-halves"
    summary = "CPUs: casts from f64 to f16 go by way of f32"
    phase = "executable-configurations"
    backends = ("llvm-cpu",)
    mends = "numbers of f64 below 2^-14 become 0 in f16 on CPUs"

    in_bodies = True

    def wanted(self, op: ir.Operation) -> bool:
        if op.name != "arith.truncf" or is_ranked_tensor(op.results[0]):
            return False
        kinds = [element_type_name(value) for value in (op.operands[0], op.results[0])]
        return kinds == ["f64", "f16"]

    def change(self, op: ir.Operation) -> str:
        build, kind = Builder(op), op.results[0].type
        short = _rounded_to_odd(build, op.operands[0])
        half = build.convert("arith.truncf", short, kind)
        op.results[0].replace_all_uses_with(half)
        return "is a cast to f32 before: IREE makes 0 of numbers below 2^-14"


def _rounded_to_odd(build: Builder, wide: ir.Value) -> ir.Value:
    """Numbers of f64 in f32: of the two next to one that is none, that whose last bit is 1."""
    context = build.anchor.context
    f32 = with_element(wide.type, ir.F32Type.get(context))
    i32 = with_element(wide.type, ir.IntegerType.get_signless(32, context))
    near = build.convert("arith.truncf", wide, f32)
    back = build.convert("arith.extf", near, wide.type)
    bits = build.convert("arith.bitcast", near, i32)
    one = build.splat(1, i32)
    # Without its sign the next smaller number has the next smaller bits.
    sizes = (build.apply("math.absf", number) for number in (back, wide))
    is_above = build.compare_floats("ogt", *sizes)
    below = build.subi(bits, one)
    odd = build.apply("arith.ori", build.select(is_above, below, bits), one)
    is_rounded = build.compare_floats("one", back, wide)
    return build.convert("arith.bitcast", build.select(is_rounded, odd, bits), f32)
