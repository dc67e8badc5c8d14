"""attn-whole-sums: sums that IREE loses or adds terms to are one thread's each, for CUDA."""

from __future__ import annotations

from iree.compiler import ir

from ..codegen.kernel import (
    CONFIGURATION,
    GPU_LOWERING,
    KernelsPass,
    configured,
    rewrite_lowered,
    run_passes,
    set_threads,
)
from ..ir import (
    DYNAMIC,
    Builder,
    collect,
    defining_op,
    detached_copy,
    loop_sizes,
    maps,
    next_op,
    printed,
    restore,
    set_attribute,
)
from ..report.ops import op_of
from ..report.records import Report

_PARTS = "partial_reduction"
_PADDING = "padding"
_READ = "vector.transfer_read"
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
    zeros. Where they stand behind it in one factor only, the other's zeros are multiplied by that,
    which is no number behind the last batch, which one factor may have alone (experts of the same
    rows): such kernels are lowered here, and read zeros.
    """

    name = "attn-whole-sums"
    summary = "CUDA: sums that kernels lose or add terms to are one thread's each"
    mends = "products over dims that fill no tile or are unknown are wrong, on CUDA"
    backends = ("cuda",)

    def change(self, function: ir.Operation, target: str, report: Report) -> bool:
        ops = configured(function)
        why, mended = "", function
        beyond = any(_sums_beyond(op, in_both=False) for op in ops)
        if any(_sums_beyond(op, in_both=True) for op in ops):
            why = "adds to them what stands behind the last term"
        elif any(_sums_unknown_parts(op) for op in ops):
            mended = detached_copy(function)
            why = "loses parts of them" if _keeps_parts_apart(mended, function) else ""
        if not why:
            return beyond and _read_zeros(mended, report)
        about = op_of(mended)
        if len(ops) == 1 and _give_whole_sums(mended):
            report.record(about, "repaired", f"each sum is one thread's, since IREE 3.13 {why}")
            return True
        report.known_wrong(f"its sums are wrong, since IREE 3.13 {why}", about)
        return False


def _sums_beyond(op: ir.Operation, in_both: bool) -> bool:
    """Whether tiles of a product are filled up along a summed dim behind which both factors have
    others, or one, and which is not the only one of both; or, of one, not its first."""
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
    if not in_both and any(dim in one[1:-1] for dim in filled for one in (left, right)):
        return True
    found = all if in_both else any
    return any(around - {dim} and found(dim != one[-1] for one in (left, right)) for dim in filled)


def _read_zeros(function: ir.Operation, report: Report) -> bool:
    """Lowers a kernel, in which what is read of memory behind the end of a dim is 0 then."""
    kernel = op_of(function)

    def bound(lowered: ir.Operation) -> bool:
        reads = collect(lowered, lambda op: op.name == _READ and _is_of_memory(op))
        count = sum(map(_bound, reads))
        if count:
            why = "IREE 3.13 multiplies zeros by what stands behind the last term"
            report.record(kernel, "repaired", f"{count} read(s) end with their dims: {why}")
        return count > 0

    return rewrite_lowered(function, report, bound)


def _is_of_memory(op: ir.Operation) -> bool:
    kind = op.operands[0].type
    return not printed.is_shared(kind) and not printed.is_private(kind)


def _bound(op: ir.Operation) -> bool:
    """Has a read of a vector give zeros where it begins behind the end of a dim that it has one
    place of; returns whether it might."""
    buffer, kind = op.operands[0], ir.VectorType(op.results[0].type)
    order = maps.positions_of(ir.ArrayAttr.get([op.attributes["permutation_map"]]))
    build, condition = Builder(op), None
    for dim, size in enumerate(ir.MemRefType(buffer.type).shape):
        index = op.operands[1 + dim]
        if order is None or dim in order[0] or not _is_least(index):
            continue
        end = build.constant_index(dim if size == DYNAMIC else size)
        if size == DYNAMIC:
            end = build.create("memref.dim", [end.type], [buffer, end]).results[0]
        inside = build.compare("ult", index, end)
        op.operands[1 + dim] = build.select(inside, index, build.constant_index(0))
        condition = inside if condition is None else build.andi(condition, inside)
    if condition is None:
        return False
    build = Builder(next_op(op))
    read = op.results[0]
    chosen = build.select(condition, read, build.splat(0.0, kind))
    read.replace_all_uses_except(chosen, defining_op(chosen))
    return True


def _is_least(index: ir.Value) -> bool:
    """Whether an index is, or is made of, the least of some, such as an end."""
    op = defining_op(index)
    if op is not None and op.name == "affine.apply":
        return any(map(_is_least, op.operands))
    return op is not None and op.name == "affine.min"


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
