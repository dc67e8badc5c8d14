"""attn-plain-pads: PyTorch's pads below 0 cut off what they should."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import defining_op
from ..ir.printed import torch_element, torch_shape, torch_tensor
from ..ir.torch_ops import TorchBuilder, constant_number
from ..passes import OpPass

_PADS = ("torch.aten.constant_pad_nd", "torch.aten.pad")
_LIST = "torch.prim.ListConstruct"
_SIZES = 1
_ALL = 2**63 - 1


class PlainPads(OpPass):
    """Makes a pad of PyTorch with sizes below 0 one with 0 in their place, and slices behind it.

    IREE 3.13 moves nothing for `pad(x, (0, 0, 1, -1))`, by which RWKV shifts its tokens, and has no
    program for others. Works on the torch dialect, before IREE imports it, on sizes that are
    constants.
    """

    name = "attn-plain-pads"
    summary = "PyTorch's pads below 0"
    phase = "start"
    mends = "pads below 0 of PyTorch move nothing"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name in _PADS

    def change(self, op: ir.Operation) -> str:
        made = defining_op(op.operands[_SIZES])
        if made is None or made.name != _LIST:
            return ""
        sizes = [constant_number(size) for size in made.operands]
        if all(size is None or size >= 0 for size in sizes):
            return ""
        kind, element = op.results[0].type, torch_element(op.results[0].type)
        shape, build = torch_shape(kind), TorchBuilder(op)
        # By dim, from the last on: in front, behind.
        cuts = [max(0, -int(size or 0)) for size in sizes]
        dims = [len(shape) - 1 - place // 2 for place in range(0, len(sizes), 2)]
        whole = list(shape)
        for dim, front, behind in zip(dims, cuts[::2], cuts[1::2], strict=True):
            known = whole[dim]
            whole[dim] = None if known is None else known + front + behind
        above = [
            given if size is None or size >= 0 else build.number(0)
            for given, size in zip(made.operands, sizes, strict=True)
        ]
        padding = build.create(_LIST, [made.results[0].type], above).results[0]
        operands = [op.operands[0], padding, *list(op.operands)[_SIZES + 1 :]]
        value = build.create(op.name, [torch_tensor(whole, element)], operands).results[0]
        for dim, front, behind in zip(dims, cuts[::2], cuts[1::2], strict=True):
            if front or behind:
                whole[dim] = shape[dim]
                bounds = (dim, front, -behind if behind else _ALL, 1)
                numbers = (build.number(bound) for bound in bounds)
                value = build.op("aten.slice.Tensor", torch_tensor(whole, element), value, *numbers)
        op.results[0].replace_all_uses_with(value)
        return "its pads below 0 are slices"
