"""attn-gelu-tanh: GELU by tanh has PyTorch's constant."""

from __future__ import annotations

import math

import numpy as np
from iree.compiler import ir

from ..ir import Builder, defining_op, scalar_number
from ..passes import OpPass

# What IREE's import multiplies by, and what PyTorch does.
_GIVEN, _MEANT = 0.797724, math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_PRODUCT = "arith.mulf"


class GeluTanh(OpPass):
    """Makes the factor 0.797724 of tanh(0.797724 (x + 0.044715 x^3)) the root of 2 / pi.

    IREE 3.13 imports `gelu(x, approximate="tanh")` of PyTorch with the first: an error of 5e-5,
    a hundred times that of f32.
    """

    name = "attn-gelu-tanh"
    summary = "GELU by tanh with PyTorch's constant"
    ops = ("math.tanh",)
    phase = "preprocessing"
    mends = "GELU by tanh is imported from PyTorch with a factor of three digits"

    in_bodies = True

    def change(self, op: ir.Operation) -> str:
        why = "the factor of GELU by tanh is the root of 2 / pi, where IREE's import has 0.797724"
        return why if _give_factor(op) else ""


def _give_factor(tanh: ir.Operation) -> bool:
    """Whether a tanh was GELU's, with the wrong factor, which it now has right."""
    product = defining_op(tanh.operands[0], _PRODUCT)
    pair = None if product is None else _factor(product, _GIVEN)
    if product is None or pair is None or not _is_cubic(product.operands[1 - pair]):
        return False
    product.operands[pair] = Builder(product).splat(_MEANT, tanh.operands[0].type)
    return True


def _is_cubic(value: ir.Value) -> bool:
    """Whether a value is the sum of two, of which one is a multiple by 0.044715."""
    total = defining_op(value, "arith.addf")
    parts = () if total is None else (defining_op(part, _PRODUCT) for part in total.operands)
    return any(part is not None and _factor(part, _CUBIC) is not None for part in parts)


def _factor(op: ir.Operation, number: float) -> int | None:
    """Which operand of a product of scalars is this number, rounded to their type."""
    for place, operand in enumerate(op.operands):
        found = scalar_number(operand)
        if found is not None and np.float32(found) == np.float32(number):
            return place
    return None
