"""Lowers kernels that sum up where steps do not divide rows or columns.

Where the size of a step is open, IREE 3.13 takes what reads a sum for a reader of a part of it, and
sums up anew for each step of that reader: a softmax of 1001 columns 125 times. Behind a barrier it
is summed up once. And where steps leave a rest of a row, IREE masks them all; here the last.
"""

from __future__ import annotations

from iree.compiler import ir

from ..codegen.kernel import CONFIGURATION, configured, run_passes
from ..ir import (
    Builder,
    collect,
    iterator_kinds,
    loops_read,
    next_op,
    printed,
    ranked_shape,
    reduces,
    replace_op,
    replace_operand,
    users,
)
from ..ir.bodies import takes_by_index
from ..ir.contractions import is_contraction
from ..ir.refusal import Refusal
from .indexed_lines import read_in_front
from .lowering import lower_vectors, tile

_BARRIER = "iree_codegen.fusion_barrier"
# What IREE 3.13's pipeline DoubleTilingExpert does between its tiles and its buffers.
_SPLIT = "iree-llvmcpu-split-reduction{enable-fp-reduction-reordering=true},"
_STEPS = ",".join(
    (
        "iree-llvmcpu-tile-and-fuse-producer-consumer"
        "{only-fuse-producer-input-operands=true tiling-level=vector_reduction}",
        "iree-llvmcpu-tile{skip-root-op=true tiling-level=vector_reduction}",
        "iree-llvmcpu-tile-and-fuse-producer-consumer"
        "{anchor-on-root-op=false tiling-level=vector_inner_parallel}",
        "iree-codegen-forall-to-for",
        "iree-llvmcpu-peel",
    )
)
# Sums of squares down columns are no contractions: those are written out lane by lane.
_VECTORIZE = ",".join(
    (
        "iree-llvmcpu-tile-to-vector-size",
        "iree-codegen-generic-vectorization"
        "{enable-vector-masking=true enable-cleanup=true generate-contract=false}",
        "iree-codegen-optimize-tensor-insert-extract-slices",
        "canonicalize",
        "cse",
        "iree-llvmcpu-verify-vector-size-legality",
    )
)


def has_open_sums(function: ir.Operation) -> bool:
    """Whether a kernel of linalg ops without products reads a sum of its own, by steps that do not
    divide what they go over, or may not."""
    ops = configured(function)
    if any(not op.name.startswith("linalg.") or is_contraction(op) for op in ops):
        return False
    # Sums over windows, which no dim's loop alone reads, have steps of IREE's own.
    if not all(
        map(loops_read, collect(function, lambda op: bool(iterator_kinds(op)), bodies=False))
    ):
        return False
    if any(map(_sums_across_lanes, collect(function, reduces, bodies=False))):
        return False
    return bool(sums_read(function)) and any(map(_has_open_steps, ops))


def lower_open_sums(function: ir.Operation, target: str) -> Refusal | None:
    """Lowers such a kernel; why IREE cannot, with the kernel in any state."""
    why = tile(function)
    if why:
        return why
    for value, readers in sums_read(function):
        _hide(value, readers)
    # IREE divides by the step of the innermost loop, which is none of sums of lines.
    splits = not any(map(takes_by_index, collect(function, reduces, bodies=False)))
    why = run_passes(function, _SPLIT * splits + _STEPS)
    for barrier in collect(function, lambda op: op.name == _BARRIER):
        replace_op(barrier, barrier.operands[0])
    read_in_front(function)
    why = why or run_passes(function, _VECTORIZE)
    return Refusal(f"IREE says of its steps: {why}") if why else lower_vectors(function, target)


def sums_read(function: ir.Operation) -> list[tuple[ir.Value, list[ir.Operation]]]:
    """What a kernel sums up and reads in other linalg ops, with these."""
    sums = [value for op in collect(function, reduces, bodies=False) for value in op.results]
    read = [(value, [op for op in users(value) if iterator_kinds(op)]) for value in sums]
    return [(value, readers) for value, readers in read if readers]


def _hide(value: ir.Value, readers: list[ir.Operation]) -> None:
    """Puts a barrier between a value and ops that read it."""
    hidden = Builder(next_op(value.owner.operation)).apply(_BARRIER, value)
    for reader in readers:
        replace_operand(reader, value, hidden)


def _sums_across_lanes(op: ir.Operation) -> bool:
    """Whether an op sums up down columns and reads a vector along these: the steps of the vector's
    dim get the columns' mask."""
    *given, (_, kept) = loops_read(op)
    inputs = [loops for _, loops in given if loops]
    by_columns = [
        loops for loops in inputs if kept and loops[-1] == kept[-1] and {*loops} - {*kept}
    ]
    return bool(by_columns) and any(loops[-1] not in kept for loops in inputs)


def _has_open_steps(op: ir.Operation) -> bool:
    config = op.attributes[CONFIGURATION]
    levels = ("vector_common_parallel", "vector_reduction", "vector_inner_parallel")
    rows, *others = (printed.numbers(config, level) for level in levels)
    pieces = printed.numbers(config, "distribution")
    if any(step > 1 and piece % step for step, piece in zip(rows, pieces, strict=False)):
        return True
    sizes = {
        loop: size
        for value, dims in loops_read(op)
        for loop, size in zip(dims, ranked_shape(value), strict=True)
    } or dict(enumerate(ranked_shape(op.operands[len(op.operands) - 1])))  # A fill has no maps.
    return any(
        # One element is no part of a step: IREE's passes crash on kernels of nothing else.
        step > 1 and sizes.get(loop) != 1 and (not sizes.get(loop) or (sizes[loop] or 0) % step)
        for steps in (rows, *others)
        for loop, step in enumerate(steps)
    )
