"""attn-kept-nans: NaN stays NaN where it is bounded."""

from __future__ import annotations

import math

from iree.compiler import ir

from ..ir import Builder, defining_op, iterator_kinds, next_op, scalar_number
from ..ir.bodies import predicate
from ..ir.queries import enclosing
from ..ir.rewrite import erase_dead
from ..passes import OpPass

# What asks for an order, and alike for one that holds for NaN, too.
_ORDERS = ("ogt", "oge", "olt", "ole")
_HOLDING = ("ugt", "uge", "ult", "ule")
# What IREE's import from torch leaves on functions: they wait for fences.
_MODEL, _OF_TORCH = "iree.abi.model", "coarse-fences"


class KeptNans(OpPass):
    """Has the larger or smaller of two floats be NaN where one of them is.

    IREE 3.13's import from torch, and so from ONNX, compares them and takes the second where one is
    NaN, or the bound: of `clamp`, `relu6`, `leaky_relu`, `elu` and `maximum`. With a known bound
    another comparison does; of two tensors a second one asks whether the first is NaN. In modules
    from elsewhere a comparison is what it says, as is `torch.where`, which is an op of its own.
    """

    name = "attn-kept-nans"
    summary = "PyTorch, ONNX: bounds and maxima of NaN are NaN"
    mends = "of NaN `clamp` gives a bound, `maximum` the other operand"

    in_bodies = True

    def wanted(self, op: ir.Operation) -> bool:
        if op.name != "arith.select" or not isinstance(op.results[0].type, ir.FloatType):
            return False
        test = defining_op(op.operands[0], "arith.cmpf")
        return test is not None and test.block == op.block

    def change(self, op: ir.Operation) -> str:
        test = op.operands[0].owner
        asked = predicate(test)
        holds = asked in _HOLDING
        chosen, other = op.operands[1:]
        if not (holds or asked in _ORDERS) or {*test.operands} != {chosen, other}:
            return ""
        if chosen == other or not _is_imported(op):
            return ""
        # What stands where one is NaN, and what is lost if that is it.
        kept, lost = (chosen, other) if holds else (other, chosen)
        if _is_number(lost):
            return ""
        if _is_number(kept):
            build = Builder(op)
            opposite = _ORDERS[_HOLDING.index(asked)] if holds else _HOLDING[_ORDERS.index(asked)]
            op.operands[0] = build.compare_floats(opposite, *test.operands)
            erase_dead([test])
            return "keeps NaN: IREE's import gives the bound"
        build, result = Builder(next_op(op)), op.results[0]
        found = build.select(build.compare_floats("une", lost, lost), lost, result)
        result.replace_all_uses_except(found, defining_op(found))
        return "is NaN where one is: IREE's import gives the other"


def _is_number(value: ir.Value) -> bool:
    number = scalar_number(value)
    return number is not None and not math.isnan(number)


def _is_imported(op: ir.Operation) -> bool:
    """Whether an op is in a loop over elements, each by itself, in a function from torch."""
    loop, *outer = list(enclosing(op))[1:]
    if loop.name != "linalg.generic" or "reduction" in iterator_kinds(loop):
        return False
    return any(
        _MODEL in each.attributes and ir.StringAttr(each.attributes[_MODEL]).value == _OF_TORCH
        for each in outer
    )
