"""attn-gather-slices: slices that are read by computed indices stand in memory."""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import Builder, collect, defining_op, erase_dead, sizes_of
from ..ir.views import REPEATS, SLICE, WHOLE, below_views
from ..layout.rules.transposes import is_transposed
from ..machines import backends
from ..passes import Pass, PassContext

_READ = "tensor.extract"
# Where single elements are read, one at a time.
_FUNCTION = "func.func"


class GatherSlices(Pass):
    """Puts a compute barrier behind a slice whose elements do not lie side by side in what it is
    cut from, where `tensor.extract` reads it by indices that are computed, also through reshapes,
    transposes and repeats (V^T in tiles, with dims of one in front). A slice of what is transposed
    comes to lie so: IREE moves the transpose behind it.

    IREE 3.13 takes such a slice as a view into the kernel. For GPUs it numbers the elements as
    they lie in the slice, and reads by these numbers as if there were no gaps between them. For
    CPUs it compiles none whose neighbours along the last dim are not neighbours in memory; others
    stay there.
    """

    name = "attn-gather-slices"
    summary = "slices that are read by computed indices stand in memory"
    mends = "slices that are read by computed indices have other numbers, on GPUs"
    backends = ("cuda", "rocm", "llvm-cpu")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if not self.is_for(module):
            return False
        reads = collect(module, lambda op: op.name == _READ and op.parent.name != _FUNCTION)
        may_fail = _has_gaps if {"cuda", "rocm"} & backends(module) else _has_strides
        found = [_slice_with_gaps(read.operands[0], may_fail) for read in reads]
        pieces = list(dict.fromkeys(piece for piece in found if piece is not None))
        for piece in pieces:
            why = "is put in memory, since it is read by computed indices"
            context.report.record(piece, "repaired", why)
            _store(piece)
        return bool(pieces)


def _slice_with_gaps(
    value: ir.Value, may_fail: Callable[[ir.Operation], bool]
) -> ir.Operation | None:
    """The slice that is read last before `value`, if it or one that it is cut from `may_fail`."""
    last = piece = _slice_before(value)
    while piece is not None:
        if may_fail(piece):
            return last
        piece = _slice_before(piece.operands[0])
    return None


def _slice_before(value: ir.Value) -> ir.Operation | None:
    """The slice that a value is, through reshapes, transposes and repeats, or None."""
    return defining_op(below_views(value, (*WHOLE, *REPEATS)), SLICE)


def _has_gaps(piece: ir.Operation) -> bool:
    """Whether a slice may leave elements out between its first and its last one: it takes more
    than one turn of a dim outside one that it does not take whole, or is of what is transposed."""
    sizes = list(piece.attributes["static_sizes"])
    if any(stride != 1 for stride in piece.attributes["static_strides"]):
        return True
    # A size that is known only at run time is no int here: never whole.
    whole = [size == full for size, full in zip(sizes, sizes_of(piece.operands[0]), strict=True)]
    cut = [dim for dim, is_whole in enumerate(whole) if not is_whole]
    outside = bool(cut) and any(size != 1 for size in sizes[: cut[-1]])
    return outside or (bool(cut) and is_transposed(piece.operands[0]))


def _has_strides(piece: ir.Operation) -> bool:
    """Whether neighbours along a slice's last dim may not be neighbours in what it is cut from: of
    the last dim there of more than one turn it takes every other turn, or one."""
    wide = [dim for dim, size in enumerate(sizes_of(piece.operands[0])) if size != 1]
    last = wide[-1] if wide else None
    strides, sizes = piece.attributes["static_strides"], piece.attributes["static_sizes"]
    return last is not None and (strides[last] != 1 or sizes[last] == 1)


def _store(piece: ir.Operation) -> None:
    build = Builder(piece)
    stored = compute_barrier(build, build.copy(piece).results[0])
    piece.results[0].replace_all_uses_with(stored)
    erase_dead([piece])
