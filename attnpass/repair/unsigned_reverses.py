"""attn-unsigned-reverses: unsigned integers are reversed as signed ones, of the same bits."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, element_type
from ..passes import OpPass

_CAST = "stablehlo.bitcast_convert"


class UnsignedReverses(OpPass):
    """Reverses (`jnp.flip`, `x[::-1]`) unsigned integers as signless ones of the same bits: IREE
    3.13 imports no others. Works on StableHLO, before IREE imports it."""

    name = "attn-unsigned-reverses"
    summary = "JAX's reverses of unsigned integers"
    phase = "start"
    erases = True
    mends = "reverses of unsigned integers of JAX do not compile"

    def wanted(self, op: ir.Operation) -> bool:
        if op.name != "stablehlo.reverse":
            return False
        element = element_type(op.results[0])
        return isinstance(element, ir.IntegerType) and element.is_unsigned

    def change(self, op: ir.Operation) -> str:
        build, result = Builder(op), op.results[0]
        kind = ir.IntegerType.get_signless(element_type(result).width, op.context)
        shape = ir.RankedTensorType(result.type).shape
        bits = ir.RankedTensorType.get(shape, kind, loc=op.location)
        given = build.create(_CAST, [bits], [op.operands[0]]).results[0]
        turned = build.copy(op, [given]).results[0]
        turned.set_type(bits)
        back = build.create(_CAST, [result.type], [turned]).results[0]
        result.replace_all_uses_with(back)
        return "reverses the bits of unsigned integers"
