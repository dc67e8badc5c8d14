"""attn-compared-numbers: what PyTorch compares tensors with is of their kind."""

from __future__ import annotations

import math

import numpy as np
from iree.compiler import ir

from ..ir.printed import torch_element
from ..ir.torch_ops import TorchBuilder, constant_number
from ..passes import OpPass

_COMPARISONS = ("gt", "ge", "lt", "le", "eq", "ne")
# The operands that are compared with a tensor, or multiply it before.
_NUMBERS = {
    **{f"torch.aten.{word}.Scalar": (1,) for word in _COMPARISONS},
    "torch.aten.softplus": (1, 2),
}
# Whole numbers compare alike as f32 up to here.
_LARGEST = 2**24


class ComparedNumbers(OpPass):
    """Gives comparisons of floats a float, and those of integers and bools an integer.

    IREE 3.13 computes comparisons of constants at compile time, where it reads the constant as
    what the number is: `3.0 > 2` is false, others crash the compiler or do not end. softplus
    becomes such a comparison. Works on the torch dialect, before IREE imports it. Integers that are
    equal to half a number stay.
    """

    name = "attn-compared-numbers"
    summary = "PyTorch compares constants right"
    phase = "start"
    mends = "comparisons of constants of floats with integers are wrong, crash or do not end"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name in _NUMBERS

    def change(self, op: ir.Operation) -> str:
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


def _whole(name: str, number: float, build: TorchBuilder) -> ir.Value | None:
    """The integer that integers compare alike with; None where there is none."""
    number = float(np.float32(number))
    if not abs(number) < _LARGEST or (name.endswith(("eq.Scalar", "ne.Scalar")) and number % 1):
        return None
    down = name.endswith(("gt.Scalar", "le.Scalar"))
    return build.number(math.floor(number) if down else math.ceil(number))
