"""attn-compared-numbers: what PyTorch compares tensors with, or adds to them, is of their kind."""

from __future__ import annotations

import math

import numpy as np
from iree.compiler import ir

from ..ir import defining_op, users
from ..ir.printed import torch_element, torch_shape, torch_tensor
from ..ir.torch_ops import TorchBuilder, constant_number
from ..passes import OpPass

_COMPARISONS = ("gt", "ge", "lt", "le", "eq", "ne")
# The operands that are compared with a tensor, or multiply it before.
_NUMBERS = {
    **{f"torch.aten.{word}.Scalar": (1,) for word in _COMPARISONS},
    "torch.aten.softplus": (1, 2),
}
# Those that are added to a tensor of floats, or multiply one: wrong below 0.
_TERMS = {
    "torch.aten.mul.Scalar": (1,),
    **{f"torch.aten.{word}.Scalar": (1, 2) for word in ("add", "sub", "rsub")},
    **{f"torch.aten.{word}.Tensor": (2,) for word in ("add", "sub")},
}
_REMAINDERS = ("torch.aten.remainder.Scalar", "torch.aten.remainder.Tensor")
# Whole numbers compare alike as f32 up to here.
_LARGEST = 2**24
# Ops that are looked at for whether a tensor is a constant.
_MOST_OPS = 64


class ComparedNumbers(OpPass):
    """Gives comparisons of floats a float, and those of integers and bools an integer; sums and
    products of floats a float in place of an integer below 0. Remainders of constants get the sign
    of what divides.

    IREE 3.13 computes all this of constants at compile time, where it reads the constant as what
    the number is, and integers without a sign: `3.0 > 2` is false, `ones * -3` is 2^64 - 3, others
    crash the compiler or do not end; remainders are those of C. softplus becomes such a comparison.
    Works on the torch dialect, before IREE imports it. Integers that are equal to half a number
    stay.
    """

    name = "attn-compared-numbers"
    summary = "PyTorch's constants are compared, and computed with, right"
    phase = "start"
    mends = (
        "comparisons of constants of floats with integers are wrong, crash or do not end, as sums "
        "and products with integers below 0, and remainders, are wrong"
    )

    erases = True

    def wanted(self, op: ir.Operation) -> bool:
        return op.name in _NUMBERS or op.name in _TERMS or op.name in _REMAINDERS

    def change(self, op: ir.Operation) -> str:
        if op.name in _NUMBERS:
            return _compared(op)
        return _signed_rest(op) if op.name in _REMAINDERS else _of_floats(op)


def _compared(op: ir.Operation) -> str:
    element, build, changed = torch_element(op.operands[0].type), TorchBuilder(op), False
    for place in _NUMBERS[op.name]:
        number = constant_number(op.operands[place])
        if number is None:
            continue
        if "f" in element:
            new = build.real(float(number)) if isinstance(number, int) else None
        else:
            new = _whole(op.name, number, build) if isinstance(number, float) else None
        if new is not None:
            op.operands[place], changed = new, True
    if element == "i1" and isinstance(constant_number(op.operands[1]), int):
        op.operands[0], changed = build.wide(op.operands[0]), True
    return "compares numbers of one kind" if changed else ""


def _of_floats(op: ir.Operation) -> str:
    """An op on floats reads no integer below 0."""
    build, changed = TorchBuilder(op), False
    for place in _TERMS[op.name] if "f" in torch_element(op.operands[0].type) else ():
        number = constant_number(op.operands[place])
        if isinstance(number, int) and number < 0:
            op.operands[place], changed = build.real(float(number)), True
    return "computes with numbers of one kind" if changed else ""


def _signed_rest(op: ir.Operation) -> str:
    """A rest of constants whose sign is not that of what divides is moved by that."""
    kind, (x, y), form = op.results[0].type, op.operands, op.name.rpartition(".")[2]
    number = constant_number(y)
    if _is_moved(op.results[0]) or not _is_constant(x) or (number is None and not _is_constant(y)):
        return ""
    build, truths = TorchBuilder(op), torch_tensor(torch_shape(kind), "i1")
    is_float = "f" in torch_element(kind)
    zero = build.real(0.0) if is_float else build.number(0)
    if number is not None and is_float:
        y = build.real(float(number))
    rest = build.op(f"aten.remainder.{form}", kind, x, y)
    moved = build.op(f"aten.add.{form}", kind, rest, y, build.number(1))
    if number is not None:
        word = "gt" if number < 0 else "lt"
        is_other = build.op(f"aten.{word}.Scalar", truths, rest, zero)
    else:
        shape = torch_tensor(torch_shape(y.type), "i1")
        signs = [
            build.op("aten.lt.Scalar", truths, rest, zero),
            build.op("aten.lt.Scalar", shape, y, zero),
        ]
        differ = build.op("aten.ne.Tensor", truths, *signs)
        is_rest = build.op("aten.ne.Scalar", truths, rest, zero)
        is_other = build.op("aten.logical_and", truths, differ, is_rest)
    found = build.op("aten.where.self", kind, is_other, moved, rest)
    op.results[0].replace_all_uses_with(found)
    return "the rest of constants has the sign of what divides"


def _is_moved(rest: ir.Value) -> bool:
    """Whether a choice between a rest and what is added to it reads the rest: that was written."""
    for user in users(rest):
        made = defining_op(user.operands[1]) if user.name == "torch.aten.where.self" else None
        is_sum = made is not None and made.name.startswith("torch.aten.add.")
        if made is not None and is_sum and (made.operands[0], user.operands[2]) == (rest, rest):
            return True
    return False


def _is_constant(value: ir.Value) -> bool:
    """Whether only numbers, and tensors made of them, are computed with."""
    known, left = set(), [value]
    while left:
        op = defining_op(left.pop())
        if op is None or not op.name.startswith("torch.") or len(known) > _MOST_OPS:
            return False
        if op not in known:
            known.add(op)
            left += op.operands
    return True


def _whole(name: str, number: float, build: TorchBuilder) -> ir.Value | None:
    """The integer that integers compare alike with; None where there is none."""
    number = float(np.float32(number))
    if not abs(number) < _LARGEST or (name.endswith(("eq.Scalar", "ne.Scalar")) and number % 1):
        return None
    down = name.endswith(("gt.Scalar", "le.Scalar"))
    return build.number(math.floor(number) if down else math.ceil(number))
