"""attn-exact-integers: integers that PyTorch divides and rounds down or negates stay integers."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import defining_op
from ..ir.printed import torch_element, torch_shape, torch_tensor
from ..ir.torch_ops import TorchBuilder
from ..passes import OpPass

_NEGATION = "torch.aten.neg"
_FLOOR = ("torch.aten.floor_divide", "torch.aten.floor_divide.Scalar")
_MODES = ("torch.aten.div.Tensor_mode", "torch.aten.div.Scalar_mode")


class ExactIntegers(OpPass):
    """Makes of `x // y` of integers

        q = trunc(x / y)
        q - (x - q * y != remainder(x, y))

    both of which IREE 3.13 imports as divisions of integers; `//` itself it imports as one of
    f32, of 24 bits: 123456789 // 1 is 123456792 then. On GPUs that is also slower, where rows are
    taken by `place // experts`. `-x` of 32 bits and more is `x * -1`: it imports that in f32, too.
    Works on the torch dialect, before IREE imports it.
    """

    name = "attn-exact-integers"
    summary = "`//` and `-` of PyTorch's integers are exact"
    phase = "start"
    mends = "`x // y` and `-x` of integers of PyTorch are rounded to 24 bits"

    erases = True

    def wanted(self, op: ir.Operation) -> bool:
        if op.name == _NEGATION:
            return torch_element(op.results[0].type) in ("si64", "si32")
        return (op.name in _FLOOR or _rounds_down(op)) and _is_of_integers(op)

    def change(self, op: ir.Operation) -> str:
        build, kind = TorchBuilder(op), op.results[0].type
        if op.name == _NEGATION:
            found = build.op("aten.mul.Scalar", kind, op.operands[0], build.number(-1))
            op.results[0].replace_all_uses_with(found)
            return "negates integers, not floats of 24 bits"
        x, y = list(op.operands)[:2]
        form = "Tensor" if torch_element(y.type) else "Scalar"
        quotient = build.op(f"aten.div.{form}_mode", kind, x, y, build.word("trunc"))
        whole = build.op(f"aten.mul.{form}", kind, quotient, y)
        rests = [
            build.op("aten.sub.Tensor", kind, x, whole, build.number(1)),
            build.op(f"aten.remainder.{form}", kind, x, y),
        ]
        truths = torch_tensor(torch_shape(kind), "i1")
        differ = build.op("aten.ne.Tensor", truths, *rests)
        lower = build.op("aten.sub.Scalar", kind, quotient, build.number(1), build.number(1))
        found = build.op("aten.where.self", kind, differ, lower, quotient)
        op.results[0].replace_all_uses_with(found)
        return "divides integers, not floats of 24 bits"


def _rounds_down(op: ir.Operation) -> bool:
    mode = defining_op(op.operands[2], "torch.constant.str") if op.name in _MODES else None
    return mode is not None and ir.StringAttr(mode.attributes["value"]).value == "floor"


def _is_of_integers(op: ir.Operation) -> bool:
    return torch_element(op.results[0].type) in ("si64", "si32", "si16", "si8")
