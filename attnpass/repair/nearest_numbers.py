"""attn-nearest-numbers: numbers of PyTorch are the nearest of f32."""

from __future__ import annotations

import struct

from iree.compiler import ir

from ..ir import collect
from ..ir.printed import torch_element
from ..passes import Pass, PassContext
from ..report.ops import MODULE

_NUMBER = "torch.constant.float"


class NearestNumbers(Pass):
    """Makes numbers of the torch dialect, which have 64 bits, the nearest of f32.

    IREE 3.13 cuts them: 1 / 3 is less than any f32 makes of it, and a quotient that is 1 may be
    more, of which a floor or an index makes another number (the buckets of relative positions of
    T5 and DeBERTa). A module that has tensors of f64 keeps its numbers.
    """

    name = "attn-nearest-numbers"
    summary = "PyTorch's numbers are rounded to f32"
    phase = "start"
    mends = "numbers of PyTorch are cut to f32, not rounded"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        numbers = collect(module, lambda op: op.name == _NUMBER)
        if not numbers or collect(module, _has_doubles):
            return False
        changed = 0
        for op in numbers:
            value = ir.FloatAttr(op.attributes["value"])
            near = _nearest(value.value)
            if near != value.value:
                op.attributes["value"] = ir.FloatAttr.get(value.type, near, loc=op.location)
                changed += 1
        if changed:
            why = "its numbers are the nearest of f32: IREE 3.13 cuts those of f64"
            context.report.record(MODULE, "repaired", why, numbers=changed)
        return bool(changed)


def _has_doubles(op: ir.Operation) -> bool:
    values = (*op.operands, *op.results)
    return any(torch_element(value.type) == "f64" for value in values)


def _nearest(number: float) -> float:
    """The nearest number of f32; one that is NaN, or too large for f32, is itself."""
    try:
        near = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return number
    return number if number != number else near
