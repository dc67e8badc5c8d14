"""attn-signed-bounds: largest and least signed integers of rows, right on GPUs."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import (
    Builder,
    defining_op,
    element_type,
    filled_with,
    iterator_kinds,
    next_op,
    replace_op,
    sizes_of,
    terminator,
)
from ..passes import OpPass

# What finds them, and what does among integers without a sign.
_UNSIGNED = {"arith.maxsi": "arith.maxui", "arith.minsi": "arith.minui"}


class SignedBounds(OpPass):
    """Finds the largest or least signed integer of a row as one without a sign, with the sign's bit
    turned in all of them.

    IREE 3.13's kernels for GPUs begin at what changes nothing among integers without a sign: the
    least of positive numbers is -1, the largest of negative ones 0.
    """

    name = "attn-signed-bounds"
    summary = "GPUs: the largest and least signed integers of rows"
    backends = ("cuda", "rocm")
    mends = "the least of positive integers is -1, the largest of negative ones 0"

    def wanted(self, op: ir.Operation) -> bool:
        is_reduction = op.name == "linalg.reduce" or (
            op.name == "linalg.generic" and "reduction" in iterator_kinds(op)
        )
        return is_reduction and any(map(_bound, op.results))

    def change(self, op: ir.Operation) -> str:
        for result in op.results:
            if bound := _bound(result):
                _turn(op, result, bound)
        return "is found without a sign: IREE begins at -1 or 0"


def _bound(result: ir.OpResult) -> ir.Operation | None:
    """The op that finds the largest or least of what a result has had so far and an element."""
    body = result.owner.regions[0].blocks[0]
    found = terminator(body).operands[result.result_number]
    so_far = body.arguments[len(body.arguments) - len(result.owner.results) + result.result_number]
    op = defining_op(found, *_UNSIGNED)
    if op is None or not isinstance(found.type, ir.IntegerType):
        return None
    is_alone = len(list(found.uses)) == len(list(so_far.uses)) == 1
    return op if is_alone and so_far in op.operands and op.block == body else None


def _turn(op: ir.Operation, result: ir.OpResult, bound: ir.Operation) -> None:
    """Turns the sign's bit of what a result begins with and of each element, and back behind it."""
    place = len(op.operands) - len(op.results) + result.result_number
    op.operands[place] = _turned(Builder(op), op.operands[place])
    so_far = op.regions[0].blocks[0].arguments[place]
    build = Builder(bound)
    (element,) = (each for each in bound.operands if each != so_far)
    element = build.apply("arith.xori", element, _sign(build, element.type))
    found = build.apply(_UNSIGNED[bound.name], element, so_far)
    replace_op(bound, found)
    users = list(result.uses)
    right = _turned(Builder(next_op(op)), result)
    for use in users:
        use.owner.operands[use.operand_number] = right


def _turned(build: Builder, value: ir.Value) -> ir.Value:
    """A tensor of integers with the bit of the sign turned in each."""
    kind, sizes = element_type(value), sizes_of(value)
    scalar = filled_with(value)
    if scalar is not None:
        scalar = build.apply("arith.xori", scalar, _sign(build, kind))
        return build.fill(scalar, build.empty(sizes, kind))
    return build.computed(sizes, kind, lambda inner, x: inner.xori(x[0], _sign(inner, kind)), value)


def _sign(build: Builder, kind: ir.Type) -> ir.Value:
    return build.constant(ir.IntegerAttr.get(kind, -(1 << (ir.IntegerType(kind).width - 1))), kind)
