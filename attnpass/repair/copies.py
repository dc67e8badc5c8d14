"""Copies that IREE keeps."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import Builder, element_type, sizes_of
from ..ir.builder import fill_builtin_region


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
