"""attn-half-maxima: maxima of f16 that leave NaN out link on CPUs."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, defining_op, element_type_name, next_op, printed
from ..ir.types import with_element
from ..passes import OpPass

# How the number that is wanted compares with the other.
_WANTED = {"arith.maxnumf": "ogt", "arith.minnumf": "olt"}
_REDUCTIONS, _MASK = ("vector.reduction", "vector.multi_reduction"), "vector.mask"


class HalfMaxima(OpPass):
    """Makes `maxnumf` and `minnumf` of two f16, or vectors of them, a comparison and a choice, and
    the largest and least of a vector those of its numbers in f32.

    For them LLVM calls functions of a library (`fmaxf`) that IREE 3.13 does not link. IREE's own
    `linalg.softmax` holds one, which begins with NaN: f16 softmaxes have no program on CPUs. Loops
    of ours have made vectors of some by now.
    """

    name = "attn-half-maxima"
    summary = "CPUs: maxima of f16 that leave NaN out have a program"
    phase = "executable-configurations"
    backends = ("llvm-cpu",)
    mends = "softmaxes of f16 do not link on CPUs"

    in_bodies = True

    def wanted(self, op: ir.Operation) -> bool:
        if op.name in _REDUCTIONS:
            return printed.leaves_nan_out(op) and element_type_name(op.results[0]) == "f16"
        return op.name in _WANTED and all(map(_is_half, op.operands))

    def change(self, op: ir.Operation) -> str:
        if op.name in _REDUCTIONS:
            _widen(op)
            return "is found in f32: IREE links no program of f16 maxima"
        build = Builder(op)
        one, other = op.operands
        is_wanted = build.compare_floats(_WANTED[op.name], one, other)
        is_alone = build.compare_floats("une", other, other)
        takes_one = build.apply("arith.ori", is_wanted, is_alone)
        op.results[0].replace_all_uses_with(build.select(takes_one, one, other))
        return "is a comparison and a choice: IREE links no program of f16 maxima"


def _is_half(value: ir.Value) -> bool:
    """Whether a number, or vector, is of f16, or was: LLVM narrows the maximum of two such."""
    if element_type_name(value) == "f16":
        return True
    made = defining_op(value, "arith.extf")
    return made is not None and _is_half(made.operands[0])


def _widen(op: ir.Operation) -> None:
    """Has a reduction go over f32, in its mask, if it has one."""
    f32, holder = ir.F32Type.get(op.context), op.parent.operation if op.parent else None
    masked = holder if holder is not None and holder.name == _MASK else None
    build = Builder(masked or op)
    for number, value in enumerate(op.operands):
        wide = with_element(value.type, f32)
        op.operands[number] = build.create("arith.extf", [wide], [value]).results[0]
    narrow = op.results[0].type
    for one in (op, *([masked] if masked is not None else [])):
        one.results[0].set_type(with_element(narrow, f32))
    result = (masked or op).results[0]
    cast = Builder(next_op(masked or op)).create("arith.truncf", [narrow], [result])
    result.replace_all_uses_except(cast.results[0], cast)
