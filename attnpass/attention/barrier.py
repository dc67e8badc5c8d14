"""Values that IREE moves and fuses nothing across: behind barriers, and copies.

A barrier keeps IREE from moving a V that we left, where its flag for that cannot be set.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..ir import (
    Builder,
    defining_op,
    element_type,
    fill_builtin_region,
    next_op,
    sizes_of,
)
from ..ir.views import REORDERS, view_before
from .facts import find

BARRIER = "iree_tensor_ext.compute_barrier.start"


def keep_v_layouts(module: ir.Operation) -> bool:
    """Puts a compute barrier below V, for each attention whose V has k2 not innermost; returns
    whether it put any.

    IREE's pass gives up at a barrier. The barrier stands before the reshapes, transposes and
    repeats in front of attention, which IREE then still folds into attention.
    """
    changed = False
    with module.context:
        for facts in find(module):
            if facts.is_innermost("value", facts.k2):
                continue
            source, reader = _source(facts.op, facts.index("value"))
            producer = defining_op(source)
            if producer is None or producer.name == BARRIER:
                continue
            store_operand(reader, list(reader.operands).index(source))
            changed = True
    return changed


def compute_barrier(build: Builder, value: ir.Value) -> ir.Value:
    """`value`, behind a barrier that IREE neither moves nor fuses compute across until its
    dispatches are formed."""
    dynamic = [build.size(size) for size in sizes_of(value) if not isinstance(size, int)]
    return build.create(BARRIER, [value.type], [value, *dynamic]).results[0]


def copied(build: Builder, value: ir.Value) -> ir.Value:
    """`value` as the result of a kernel that copies it."""
    sizes, element = sizes_of(value), element_type(value)
    i1, i8 = (ir.IntegerType.get_signless(bits, build.anchor.context) for bits in (1, 8))
    if element == i1:
        # IREE compiles no copy of truth values.
        wide = build.computed(
            sizes, i8, lambda inner, x: inner.convert("arith.extui", x[0], i8), value
        )
        narrow = build.computed(
            sizes,
            i1,
            lambda inner, x: inner.convert("arith.trunci", x[0], i1),
            copied(build, wide),
        )
        return compute_barrier(build, narrow)
    init = build.empty(sizes, element)

    def copy(inner: Builder) -> Sequence[ir.Value]:
        # A generic that only hands on its input is folded.
        segments = {"operandSegmentSizes": inner.segments(1, 1)}
        op = inner.create("linalg.copy", [init.type], [value, init], segments, regions=1)
        fill_builtin_region(op)
        return op.results

    return build.dispatch_region([(sizes, element)], copy)[0]


def store_operand(op: ir.Operation, number: int) -> None:
    """Has an op read an operand behind a barrier."""
    op.operands[number] = compute_barrier(Builder(op), op.operands[number])


def barrier_behind(op: ir.Operation) -> bool:
    """Puts a barrier between the results of an op and all that read their elements."""
    no_readers = (BARRIER, "tensor.dim")

    changed = False
    for result in op.results:
        uses = [(use.owner.operation, use.operand_number) for use in result.uses]
        readers = [(user, number) for user, number in uses if user.name not in no_readers]
        if not readers:
            continue
        value = compute_barrier(Builder(next_op(op), op.location), result)
        for user, number in readers:
            user.operands[number] = value
        changed = True
    return changed


def without_views(op: ir.Operation, number: int) -> tuple[ir.Operation, int]:
    """The op, and the number of its operand, that reads what an operand shows below reshapes,
    transposes and repeats."""
    while (view := view_before(op.operands[number])) is not None:
        op, number = view.op, 0
    return op, number


def _source(op: ir.Operation, number: int) -> tuple[ir.Value, ir.Operation]:
    """The value below the views and repeats before an operand, and the op that reads it.

    A repeat counts only where a transpose stands below it: else IREE would push its own
    transpose of V into the repeat.
    """
    value, reader = op.operands[number], op
    while (view := view_before(value)) is not None:
        if view.op.name not in REORDERS:
            below = defining_op(view.source, "linalg.transpose")
            if below is None:
                break
        value, reader = view.source, view.op
    return value, reader
