"""attn-small-halves: numbers of f16 below its normal ones, on CPUs without casts to f16."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import (
    Builder,
    collect,
    element_type_name,
    enclosing,
    erase_dead,
    is_ranked_tensor,
    printed,
)
from ..ir.types import with_element
from ..machines import target_texts
from ..passes import Pass, PassContext
from ..report.ops import op_of

# The least normal number of f16, and 0.5 in f32, whose last bit is worth f16's least number.
_NORMAL, _HALF, _HALF_BITS = 2.0**-14, 0.5, 0x3F000000
_SIZE, _SIGN = 0x7FFFFFFF, -0x8000
_WHY = "what becomes f16 is rounded by its bits below 2^-14; IREE makes it 0 there"
_ARITHMETIC = ("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "math.")


class SmallHalves(Pass):
    """Rounds what becomes f16 below 2^-14 by its bits, and computes in f16 by way of f32.

    An x86 CPU without F16C, as IREE's default is, has no cast to f16. The function that IREE 3.13
    links for it makes 0 of what is no normal number of f16. Casts from f64 are attn-double-halves';
    products that are summed in f16 stay.
    """

    name = "attn-small-halves"
    summary = "CPUs without F16C: small numbers of f16 are not 0"
    phase = "executable-configurations"
    backends = ("llvm-cpu",)
    mends = "numbers of f16 below 2^-14 are 0 on CPUs without F16C"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if not self.is_for(module) or all(map(printed.casts_to_halves, target_texts(module))):
            return False
        kernels: set[ir.Operation] = set()
        found = collect(module, _is_made, bodies=True)
        for op in found:
            _compute(op)
            kernel = next((one for one in enclosing(op) if one.name == "func.func"), op)
            if kernel not in kernels:
                kernels.add(kernel)
                context.report.record(op_of(op), "repaired", _WHY)
        erase_dead(found)
        return bool(found)


def _is_made(op: ir.Operation) -> bool:
    """Whether op makes f16 of f32, or computes in f16."""
    if not op.name.startswith(("arith.truncf", *_ARITHMETIC)) or len(op.results) != 1:
        return False
    if is_ranked_tensor(op.results[0]) or element_type_name(op.results[0]) != "f16":
        return False
    # Bodies of named ops say what the names do.
    holder = op.parent.operation.name if op.parent else ""
    if holder.startswith("linalg.") and holder != "linalg.generic":
        return False
    given = {element_type_name(value) for value in op.operands}
    return given == ({"f32"} if op.name == "arith.truncf" else {"f16"})


def _compute(op: ir.Operation) -> None:
    build, kind = Builder(op), op.results[0].type
    f32 = with_element(kind, ir.F32Type.get(op.context))
    wide = op.operands[0]
    if op.name != "arith.truncf":
        operands = [build.create("arith.extf", [f32], [one]).results[0] for one in op.operands]
        wide = build.create(op.name, [f32], operands).results[0]
    op.results[0].replace_all_uses_with(_rounded(build, wide, kind))


def _rounded(build: Builder, wide: ir.Value, kind: ir.Type) -> ir.Value:
    """Numbers of f32 in f16."""
    integer = ir.IntegerType.get_signless
    i32, i16 = (with_element(kind, integer(width, wide.context)) for width in (32, 16))
    f32 = wide.type
    bits = build.convert("arith.bitcast", wide, i32)
    size = build.convert("arith.bitcast", build.andi(bits, _SIZE), f32)
    # Rounded to the nearest by the addition.
    moved = build.convert("arith.bitcast", build.addf(size, _HALF), i32)
    count = build.subi(moved, _HALF_BITS)
    high = build.apply("arith.shrui", bits, 16)
    sign = build.andi(build.convert("arith.trunci", high, i16), _SIGN)
    small = build.apply("arith.ori", build.convert("arith.trunci", count, i16), sign)
    is_small = build.compare_floats("olt", size, _NORMAL)
    normal = build.convert("arith.truncf", wide, kind)
    return build.select(is_small, build.convert("arith.bitcast", small, kind), normal)
