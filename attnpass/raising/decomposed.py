"""Attention that is no attention op but products and a softmax: found, for `attn-raise` and to
tell the user."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..attention.facts import find_ops
from ..ir import (
    below_casts,
    body_names,
    body_of,
    collect,
    defining_op,
    is_elementwise,
    ranked_shape,
    reduces,
    users,
    yielded,
)
from ..ir.contractions import is_contraction
from ..ir.views import SLICE, WHOLE, repeat_of
from ..report.ops import op_of
from ..report.records import Report

# What records call a product with V.
DECOMPOSED = "products and a softmax"
_POWERS = ("math.exp", "math.exp2")
_MOVES = (*WHOLE, SLICE, "tensor.reshape")
# From the exponentials to the product: a division, casts, and views of the result.
_MOST_STEPS = 24
# From the exponentials to their sum: conditions that hide keys, and views.
_MOST_CHOICES = 8


def tell_what_is_missing(module: ir.Operation, report: Report, raises: bool) -> None:
    """Says in the report that there is no attention op, and what is written out; with `raises`,
    attn-raise will tell of that."""
    sums = decomposed_sums(module)
    if not raises:
        why = "attn-raise, which makes attention ops, is off"
        leave_decomposed(sums, report, why, switch="--attn-raise")
    if not sums and not find_ops(module):
        report.note(
            "no entry point reaches an attention op, and no product reads a softmax: what passes "
            "change here is no attention"
        )


def leave_decomposed(
    sums: Sequence[ir.Operation], report: Report, why: str, **details: str
) -> None:
    """Records for each product with V behind these softmaxes why no attention op is made of it."""
    for product in dict.fromkeys(product for total in sums for product in products_behind(total)):
        report.record(op_of(product, DECOMPOSED), "not-raised", why, **details)


def decomposed_sums(module: ir.Operation) -> list[ir.Operation]:
    """Each softmax whose result a product reads: `linalg.softmax`, or the sum of exponentials."""
    sums = collect(module, _is_softmax, bodies=False)
    return [op for op in sums if products_behind(op)]


def _is_softmax(op: ir.Operation) -> bool:
    if op.name == "linalg.softmax":
        return True
    if op.name != "linalg.generic" or len(op.operands) != 2 or not reduces(op):
        return False
    return "arith.addf" in body_names(op) and _powers(op.operands[0]) is not None


def _powers(value: ir.Value) -> ir.Value | None:
    """The exponentials that `value` holds, is a view or a cast of, or chooses by conditions."""
    for _ in range(_MOST_CHOICES):
        op = defining_op(value)
        if op is not None and (op.name in _MOVES or repeat_of(op)):
            value = op.operands[0]
            continue
        if op is None or op.name != "linalg.generic" or reduces(op):
            return None
        if any(name in _POWERS for name in body_names(op)):
            return value
        chosen = _chosen(op)
        if chosen is None:
            return None
        value = chosen
    return None


def _chosen(op: ir.Operation) -> ir.Value | None:
    """The operand that an elementwise generic has elements of, cast to another float, or where a
    condition holds."""
    chosen = yielded(op)
    select = defining_op(chosen, "arith.select")
    if select is not None:
        chosen = select.operands[1]
    operands = zip(body_of(op).arguments, op.operands, strict=True)
    below = below_casts(chosen)
    return next((value for argument, value in operands if argument == below), None)


def products_behind(total: ir.Operation) -> list[ir.Operation]:
    """The matmuls that read the exponentials that `total` sums, or the result of a softmax,
    behind elementwise ops and views: not what they weight in other ways, as the experts of a
    mixture."""
    softmax = total.name == "linalg.softmax"
    exponentials = total.results[0] if softmax else total.operands[0]
    values, seen = [exponentials], 0
    powers = None if softmax else _powers(exponentials)
    if powers is not None and powers != exponentials:
        values.append(powers)
    counts = {_count(value) for value in values}
    found: list[ir.Operation] = []
    while values and seen < _MOST_STEPS:
        value, seen = values.pop(), seen + 1
        for user in users(value):
            if is_contraction(user) and user not in found:
                found.append(user)
            elif user.name in _MOVES or (
                is_elementwise(user) and _count(user.results[0]) in counts
            ):
                if user.name == SLICE:
                    # Weights without those of a sink.
                    counts.add(_count(user.results[0]))
                values.append(user.results[0])
    return found


def _count(value: ir.Value) -> tuple[int, int]:
    """The product of the static sizes, and the number of dynamic ones: the same for tensors with
    the same elements, in any shape, where dynamic dims are taken to be alike."""
    static, dynamic = 1, 0
    for size in ranked_shape(value):
        static, dynamic = (static, dynamic + 1) if size is None else (static * size, dynamic)
    return static, dynamic
