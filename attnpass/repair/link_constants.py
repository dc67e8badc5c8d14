"""attn-link-constants: what IREE computes while it compiles gets the repairs of CPUs."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import (
    collect,
    defining_op,
    enclosing,
    erase_dead,
    is_ranked_tensor,
    outer_reads,
    ranked_shape,
    reached,
    tensor_bytes,
)
from ..passes import Pass, PassContext
from ..report.ops import op_of
from .half_maxima import HalfMaxima
from .integers_to_bf16 import IntegersToBf16
from .linked_functions import LinkedFunctions
from .safe_divisions import SafeDivisions

_REPAIRS = (SafeDivisions(), LinkedFunctions(), HalfMaxima(), IntegersToBf16())
_PURE = frozenset({"arith", "linalg", "math", "tensor"})
# What a constant may be larger than what it is computed of: IREE's default.
_MOST_GROWTH = 1 << 20


class LinkConstants(Pass):
    """Rewrites, for every target, functions of constants that IREE has no code for on CPUs.

    IREE's constant evaluation compiles them for the CPU that it runs on, before the phases at
    which other repairs of CPUs run and whatever the target is. Left alone is what it would not
    evaluate: constants that grow by more than a megabyte, such as weights in integers.
    """

    name = "attn-link-constants"
    summary = "functions of constants have a program on the CPU that compiles"
    mends = "log10, maxima of f16 and bf16 of integers do not link where IREE evaluates constants"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        changed: list[ir.Operation] = []
        for repair in _REPAIRS:
            if repair.phase == self.phase and repair.is_for(module):
                continue  # It has seen all functions, those of constants, too.
            for op in collect(module, repair.wanted):
                if not _is_evaluated(op):
                    continue
                about = op_of(op)
                if said := repair.change(op):
                    context.report.record(about, "repaired", said)
                    changed.append(op)
        erase_dead(changed)
        return bool(changed)


def _is_evaluated(op: ir.Operation) -> bool:
    """Whether an op is in a tensor op that only constants reach, and IREE computes at once."""
    outer = [one for one in enclosing(op) if one.name.startswith("linalg.")]
    whole = outer[-1] if outer else op
    if len(whole.results) != 1 or not _bytes(whole.results[0]):
        return False

    def sources(made: ir.Operation | None) -> list[ir.Operation | None]:
        return [] if made is None else [defining_op(value) for value in outer_reads(made)]

    given = 0
    for one in reached([whole], sources):
        if one is None or one.name.partition(".")[0] not in _PURE:
            return False
        given += _bytes(one.results[0]) if one.name == "arith.constant" else 0
    return _bytes(whole.results[0]) <= given + _MOST_GROWTH


def _bytes(value: ir.Value) -> int:
    """The bytes of a tensor of known sizes, else 0."""
    known = is_ranked_tensor(value) and None not in ranked_shape(value)
    return tensor_bytes(value) if known else 0
