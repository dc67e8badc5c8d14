"""attn-narrow-scalars: elements of 8 and 16 bits are compared in kernels, not between them."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, defining_op
from ..passes import OpPass

_COMPARISONS = ("arith.cmpi", "arith.cmpf")
_ELEMENT = "tensor.extract"
_FUNCTIONS = ("func.func", "util.func")
_MOST_BITS = 16


class NarrowScalars(OpPass):
    """Makes a comparison of scalars of 8 or 16 bits outside of ops on tensors (for `scf.if`) the
    element of a tensor, with the arithmetic that it reads.

    IREE's VM has no such types: it loads an i16 as one without a sign, so that -1 is more than 2,
    and f16 has no program. Scalars that are no elements of tensors stay.
    """

    name = "attn-narrow-scalars"
    summary = "elements of 8 and 16 bits are compared in kernels"
    mends = "branches by elements of 8 or 16 bits go the wrong way, or do not compile"

    def wanted(self, op: ir.Operation) -> bool:
        is_narrow = op.name in _COMPARISONS and _is_narrow(op.operands[0].type)
        return is_narrow and _is_between_kernels(op)

    def change(self, op: ir.Operation) -> str:
        if not _is_of_elements(op):
            return ""
        build, i1 = Builder(op), op.results[0].type
        truth = build.computed([], i1, lambda inner, _: _again(inner, op.results[0]))
        op.results[0].replace_all_uses_with(build.extract(truth, []))
        return "is compared in a kernel: IREE's VM has no numbers of 8 or 16 bits"


def _is_between_kernels(op: ir.Operation) -> bool:
    """Whether only functions, branches and loops hold an op."""
    parent = op.parent
    while parent is not None and parent.operation.name.startswith("scf."):
        parent = parent.operation.parent
    return parent is not None and parent.operation.name in _FUNCTIONS


def _is_narrow(kind: ir.Type) -> bool:
    if isinstance(kind, ir.F16Type | ir.BF16Type):
        return True
    return isinstance(kind, ir.IntegerType) and 1 < kind.width <= _MOST_BITS


def _is_arithmetic(op: ir.Operation) -> bool:
    return op.name.startswith(("arith.", "math.")) and not op.regions


def _is_of_elements(op: ir.Operation) -> bool:
    """Whether what an op computes comes of elements of tensors, numbers and wider scalars."""
    for operand in op.operands:
        made = defining_op(operand)
        if made is not None and _is_arithmetic(made):
            if not _is_of_elements(made):
                return False
        elif _is_narrow(operand.type) and defining_op(operand, _ELEMENT) is None:
            return False
    return True


def _again(build: Builder, value: ir.Value) -> ir.Value:
    """The value, computed where `build` stands."""
    op = defining_op(value)
    if op is None or not (op.name == _ELEMENT or _is_arithmetic(op)):
        return value
    if op.name == _ELEMENT:
        return build.extract(op.operands[0], list(op.operands)[1:])
    return build.copy(op, [_again(build, operand) for operand in op.operands]).results[0]
