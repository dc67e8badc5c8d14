"""attn-whole-sums: sums that IREE loses or adds terms to are one thread's each, for CUDA."""

from __future__ import annotations

from iree.compiler import ir

from ..codegen.kernel import (
    CONFIGURATION,
    GPU_LOWERING,
    KernelsPass,
    configured,
    run_passes,
    set_threads,
)
from ..ir import collect, detached_copy, loop_sizes, maps, printed, restore, set_attribute
from ..report.ops import op_of
from ..report.records import Report

_PARTS = "partial_reduction"
_PADDING = "padding"
_FACTORS = 2
# Threads of a workgroup, each with an element of the result's last dim.
_THREADS = 32


class WholeSums(KernelsPass):
    """Gives the sums of a kernel to a thread each, where IREE's lowering keeps what the threads of
    a workgroup have added up in memory that each has of its own.

    IREE 3.13 does so for products over dims that are known only at run time whose rows or columns
    are, too (a head dim of unknown size): every thread then adds up the zeros that are there for
    the others, and one of them writes its part as the sum.

    The same goes for products whose sums fill no tile of matrix instructions, where other dims
    stand behind the summed one in both factors, and which have a batch in each or sum over other
    dims, too: IREE 3.13 fills up tiles with what it reads behind the end of that dim, in place of
    zeros.
    """

    name = "attn-whole-sums"
    summary = "CUDA: sums that kernels lose or add terms to are one thread's each"
    mends = "products over dims that fill no tile or are unknown are wrong, on CUDA"
    backends = ("cuda",)

    def change(self, function: ir.Operation, target: str, report: Report) -> bool:
        ops = configured(function)
        why, mended = "", function
        if any(_sums_beyond(op) for op in ops):
            why = "adds to them what stands behind the last term"
        elif any(_sums_unknown_parts(op) for op in ops):
            mended = detached_copy(function)
            why = "loses parts of them" if _keeps_parts_apart(mended, function) else ""
        if not why:
            return False
        about = op_of(mended)
        if len(ops) == 1 and _give_whole_sums(mended):
            report.record(about, "repaired", f"each sum is one thread's, since IREE 3.13 {why}")
            return True
        report.known_wrong(f"its sums are wrong, since IREE 3.13 {why}", about)
        return False


def _sums_beyond(op: ir.Operation) -> bool:
    """Whether tiles of a product are filled up along a summed dim behind which both factors have
    others, and which is not the only one of both."""
    padding = printed.numbers(op.attributes[CONFIGURATION], _PADDING)
    if not padding or "indexing_maps" not in op.attributes:
        return False
    positions = maps.positions(op)
    if positions is None or len(positions) != _FACTORS + 1:
        return False
    left, right, result = positions
    if not left or not right:
        return False
    sizes = loop_sizes(op)
    around = {*left} & {*right} - {None}
    filled = [
        dim
        for dim, tile in enumerate(padding)
        if tile > 1 and dim not in result and _leaves_over(sizes.get(dim), tile)
    ]
    return any(around - {dim} and dim not in (left[-1], right[-1]) for dim in filled)


def _leaves_over(size: int | None, tile: int) -> bool:
    return size is None or size % tile != 0


def _sums_unknown_parts(op: ir.Operation) -> bool:
    """Whether threads add up parts of a dim whose size is known only at run time."""
    parts = printed.numbers(op.attributes[CONFIGURATION], _PARTS)
    sizes = loop_sizes(op) if parts else {}
    return bool(sizes) and any(part > 1 and sizes[dim] is None for dim, part in enumerate(parts))


def _keeps_parts_apart(copy: ir.Operation, function: ir.Operation) -> bool:
    """Lowers a kernel, in whose place the copy is put then: whether threads have memory of their
    own for parts of a sum."""
    is_lowered = not run_passes(function, GPU_LOWERING)
    apart = collect(
        function, lambda op: op.name == "memref.alloca" and printed.is_private(op.results[0].type)
    )
    restore(function, copy)
    return is_lowered and bool(apart)


def _give_whole_sums(function: ir.Operation) -> bool:
    """Configures a kernel of one sum so that a thread computes each element of its result."""
    (op,) = configured(function)
    positions = maps.positions(op)
    assert positions is not None, "only such sums are taken"
    result = positions[-1]
    if not result or None in result:
        return False
    loops = range(maps.loop_count(op))
    tiles = {dim: _THREADS if dim == result[-1] else 1 for dim in result}
    lowering = printed.gpu_lowering(
        reduction=[0 if loop in tiles else 1 for loop in loops],
        thread=[1 if loop in tiles else 0 for loop in loops],
        workgroup=[tiles.get(loop, 0) for loop in loops],
    )
    set_attribute(op, CONFIGURATION, lowering)
    set_threads(function, _THREADS, "TileAndFuse")
    return True
