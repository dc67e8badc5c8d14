"""attn-store-vectors: vectors that a softmax and others read are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iree.compiler import ir

from ..attention.barrier import barrier_behind
from ..ir import (
    collect,
    defining_op,
    is_elementwise,
    is_ranked_tensor,
    outer_reads,
    ranked_shape,
    reached,
    users,
)
from ..ir.views import view_of
from ..passes import Pass, PassContext


class StoreVectors(Pass):
    """Puts a compute barrier behind what elementwise ops make, of fewer dims than a softmax whose
    scores hang on it, where ops beside those of the softmax read it: places of rows that are
    masks of two attentions, factors of rows. What is made of constants alone stays: IREE computes
    that before.

    IREE 3.13 makes it in the softmax's kernel, as a result beside that, and fails to distribute its
    loop ("restricted to workgroup distributed contexts").
    """

    name = "attn-store-vectors"
    summary = "vectors that a softmax and others read stand in memory"
    mends = "kernels of a softmax of which a vector is a second result do not compile"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        found = [
            op
            for softmax in collect(module, lambda op: op.name == "linalg.softmax", bodies=False)
            for op in _made_elementwise(softmax)
            if _rank(op.results[0]) < _rank(softmax.results[0])
            and len(users(op.results[0])) > 1
            and not _is_constant(op)
        ]
        stored = [op for op in dict.fromkeys(found) if barrier_behind(op)]
        for op in stored:
            why = "is put in memory: a softmax and others read it"
            context.report.record(op, "stored", why)
        return bool(stored)


def _made_elementwise(softmax: ir.Operation) -> Iterator[ir.Operation]:
    """The elementwise ops of which the scores of a softmax are made, below views."""

    def makers(values: Iterable[ir.Value]) -> list[ir.Operation]:
        return [op for op in map(defining_op, values) if op is not None]

    def sources(op: ir.Operation) -> list[ir.Operation]:
        if is_elementwise(op):
            return makers(filter(is_ranked_tensor, op.operands))
        return makers([op.operands[0]] if view_of(op) is not None else [])

    return filter(is_elementwise, reached(makers([softmax.operands[0]]), sources))


def _rank(value: ir.Value) -> int:
    """How many dims are not of size one."""
    return sum(size != 1 for size in ranked_shape(value))


def _is_constant(op: ir.Operation) -> bool:
    """Whether an op hangs on no argument, and on no global."""

    def sources(made: ir.Operation | None) -> list[ir.Operation | None]:
        return [] if made is None else [defining_op(value) for value in outer_reads(made)]

    return all(
        made is not None and made.name != "util.global.load" for made in reached([op], sources)
    )
