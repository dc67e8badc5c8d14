"""attn-tensor-and: `a & b` of two tensors, as PyTorch's masks are joined, has a program; and `^`,
`<<`, `>>`."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder
from ..passes import OpPass

_AND = "torch.aten.__and__.Tensor"
_UNKNOWN = "torch.operator"
# By what operators are called, the ops that they are.
_KNOWN = {
    _AND: "torch.aten.bitwise_and.Tensor",
    "torch.aten.__xor__.Tensor": "torch.aten.bitwise_xor.Tensor",
    "torch.aten.__lshift__.Tensor": "torch.aten.bitwise_left_shift.Tensor",
    "torch.aten.__rshift__.Tensor": "torch.aten.bitwise_right_shift.Tensor",
    "torch.aten.rsub.Tensor": "torch.aten.sub.Tensor",
}


class TensorAnd(OpPass):
    """Makes each `torch.aten.__and__.Tensor` a `torch.aten.bitwise_and.Tensor`, which it is, and
    alike of `^`, `<<`, `>>` and `rsub`, for which the dialect has no op.

    IREE 3.13 imports the second alone: of the first it says that it cannot legalize what the op
    reads. Works on the torch dialect, before IREE imports it.
    """

    name = "attn-tensor-and"
    summary = "PyTorch's `&`, `^`, `<<`, `>>`"
    ops = (_AND, _UNKNOWN)
    phase = "start"
    mends = "`a & b`, `a ^ b` and `a << b` of two tensors of PyTorch do not compile"

    erases = True

    def change(self, op: ir.Operation) -> str:
        is_unknown = op.name == _UNKNOWN
        known = _KNOWN.get(ir.StringAttr(op.attributes["name"]).value if is_unknown else op.name)
        if known is None:
            return ""
        x, y, *more = op.operands
        given = [y, x] if known.endswith("sub.Tensor") else [x, y]
        both = Builder(op).create(known, [op.results[0].type], [*given, *more])
        op.results[0].replace_all_uses_with(both.results[0])
        return f"is `{known.split('.')[2]}`, which IREE's import knows"
