"""attn-nearest-numbers: numbers of PyTorch are the nearest of f32."""

from __future__ import annotations

import struct

from iree.compiler import ir

from ..ir import collect, replace_operand, users
from ..ir.printed import torch_element
from ..ir.rewrite import erase_unused
from ..ir.torch_ops import TorchBuilder
from ..passes import Pass, PassContext
from ..report.ops import MODULE

_NUMBER = "torch.constant.float"
_SHORT = {"f32", "f16", "bf16"}


class NearestNumbers(Pass):
    """Makes numbers of the torch dialect, which have 64 bits, the nearest of f32 where ops on
    floats of at most 32 bits read them.

    IREE 3.13 cuts them: 1 / 3 is less than any f32 makes of it, and a quotient that is 1 may be
    more, of which a floor or an index makes another number (the buckets of relative positions of
    T5 and DeBERTa). Ops on tensors of f64 or of integers alone, and numbers made of numbers, such
    as sizes, keep theirs.
    """

    name = "attn-nearest-numbers"
    summary = "PyTorch's numbers are rounded to f32"
    phase = "start"
    mends = "numbers of PyTorch are cut to f32, not rounded"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        changed: list[ir.Operation] = []
        for op in collect(module, lambda op: op.name == _NUMBER):
            number = ir.FloatAttr(op.attributes["value"]).value
            near, readers = _nearest(number), list(filter(_is_short, users(op.results[0])))
            # Of NaN, too, there is nothing to round off.
            if not abs(near - number) > 0 or not readers:
                continue
            rounded = TorchBuilder(op).real(near)
            for reader in readers:
                replace_operand(reader, op.results[0], rounded)
            changed.append(op)
        if changed:
            why = "its numbers are the nearest of f32: IREE 3.13 cuts those of f64"
            context.report.record(MODULE, "repaired", why, numbers=len(changed))
        erase_unused([op for op in changed if not users(op.results[0])])
        return bool(changed)


def _is_short(op: ir.Operation) -> bool:
    """Whether an op of torch reads or makes tensors of floats, none of more than 32 bits."""
    found = {torch_element(value.type) for value in (*op.operands, *op.results)}
    return op.name.startswith("torch.") and not found.isdisjoint(_SHORT) and "f64" not in found


def _nearest(number: float) -> float:
    """The nearest number of f32; one that is too large for f32 is itself."""
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return number
