"""attn-tensor-and: `a & b` of two tensors, as PyTorch's masks are joined, has a program."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder
from ..passes import OpPass

_AND = "torch.aten.__and__.Tensor"
_BITWISE_AND = "torch.aten.bitwise_and.Tensor"


class TensorAnd(OpPass):
    """Makes each `torch.aten.__and__.Tensor` a `torch.aten.bitwise_and.Tensor`, which it is.

    IREE 3.13 imports the second alone: of the first it says that it cannot legalize what the op
    reads. Works on the torch dialect, before IREE imports it.
    """

    name = "attn-tensor-and"
    summary = "PyTorch's `&`"
    ops = (_AND,)
    phase = "start"
    mends = "`a & b` of two tensors of PyTorch does not compile"

    erases = True

    def change(self, op: ir.Operation) -> str:
        both = Builder(op).create(_BITWISE_AND, [op.results[0].type], list(op.operands))
        op.results[0].replace_all_uses_with(both.results[0])
        return "is `bitwise_and`, which IREE's import knows"
