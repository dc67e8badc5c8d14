"""attn-plain-pads: PyTorch's pads below 0 cut off what they should, and rolls go round."""

from __future__ import annotations

import math

from iree.compiler import ir

from ..ir import defining_op
from ..ir.printed import torch_element, torch_shape, torch_tensor
from ..ir.torch_ops import TorchBuilder, constant_number
from ..passes import OpPass

_PADS = ("torch.aten.constant_pad_nd", "torch.aten.pad")
_ROLL = "torch.aten.roll"
_LIST = "torch.prim.ListConstruct"
_SIZES = 1
_ALL = 2**63 - 1


class PlainPads(OpPass):
    """Makes a pad of PyTorch with sizes below 0 one with 0 in their place, and slices behind it,
    and a roll by as much as a dim's size or more one by the rest. One without dims, which rolls all
    elements in their order, is one of their row.

    IREE 3.13 moves nothing for `pad(x, (0, 0, 1, -1))`, by which RWKV shifts its tokens, and has no
    program for others. It cuts slices of rolls outside a tensor. Works on the torch dialect, before
    IREE imports it, on sizes that are constants.
    """

    name = "attn-plain-pads"
    summary = "PyTorch's pads below 0, and rolls beyond a dim"
    phase = "start"
    mends = "pads below 0 of PyTorch move nothing, rolls beyond a dim move other rows"

    # What is left of a roll without dims would still check its lists.
    erases = True

    def wanted(self, op: ir.Operation) -> bool:
        return op.name in (*_PADS, _ROLL)

    def change(self, op: ir.Operation) -> str:
        made = defining_op(op.operands[_SIZES], _LIST)
        if made is None:
            return ""
        sizes = [constant_number(size) for size in made.operands]
        if op.name == _ROLL:
            return _roll_by_rest(op, sizes)
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


def _roll_by_rest(op: ir.Operation, shifts: list[int | float | None]) -> str:
    """Rolls by what is left of shifts once dims are gone round; '' where they do not go round."""
    named = defining_op(op.operands[2], _LIST)
    if named is None:
        return ""
    kind, build = op.results[0].type, TorchBuilder(op)
    shape, dims = torch_shape(kind), [constant_number(dim) for dim in named.operands]
    if not dims and len(shifts) == 1:
        sizes = [build.size_of(op.operands[0], dim) for dim in range(len(shape))]
        count = None if None in shape else math.prod(size or 0 for size in shape)
        row = torch_tensor([count], torch_element(kind))
        value = build.op("aten.reshape", row, op.operands[0], build.numbers(-1))
        shift = shifts[0] if not shifts[0] or not count else shifts[0] % count
        by = op.operands[1] if shift is None else build.numbers(int(shift))
        value = build.op("aten.roll", row, value, by, build.numbers(0))
        value = build.op("aten.reshape", kind, value, build.listed(sizes))
        op.results[0].replace_all_uses_with(value)
        return "rolls all elements as one row"
    rests: list[int | float | None] = []
    for shift, dim in zip(shifts, dims, strict=True):
        size = None if dim is None else shape[int(dim)]
        goes_round = shift is not None and size and not -size < shift < size
        rests.append(shift % size if goes_round and shift is not None and size else shift)
    if rests == shifts:
        return ""
    given = defining_op(op.operands[1])
    assert given is not None
    pairs = zip(given.operands, rests, shifts, strict=True)
    values = [old if new == was else build.number(int(new or 0)) for old, new, was in pairs]
    op.operands[1] = build.listed(values)
    return "rolls by the rest of what goes round"
