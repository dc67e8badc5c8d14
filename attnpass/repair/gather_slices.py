"""attn-gather-slices: slices that are read by computed indices stand in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..passes import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir

_SLICE = "tensor.extract_slice"
_READ = "tensor.extract"
# Where single elements are read, one at a time.
_FUNCTION = "func.func"
_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast")


@dataclass(frozen=True)
class GatherSlices(Pass):
    """Puts a compute barrier behind a slice whose elements do not lie side by side in what it is
    cut from, where `tensor.extract` reads it by indices that are computed, also through reshapes.

    IREE 3.13 takes such a slice as a view into the kernel. For GPUs it numbers the elements as
    they lie in the slice, and reads by these numbers as if there were no gaps between them.
    """

    name: ClassVar[str] = "attn-gather-slices"
    summary: ClassVar[str] = "GPUs: slices that are read by computed indices stand in memory"
    mends: ClassVar[str] = "slices that are read by computed indices have other numbers, on GPUs"
    backends: ClassVar[tuple[str, ...]] = ("cuda", "rocm")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..ir import collect
        from ..targets import backends

        if not {"cuda", "rocm"} & {*backends(module)}:
            return False
        with module.context:
            reads = collect(module, lambda op: op.name == _READ and op.parent.name != _FUNCTION)
            found = [_slice_with_gaps(read.operands[0]) for read in reads]
            pieces = list(dict.fromkeys(piece for piece in found if piece is not None))
            for piece in pieces:
                _store(piece)
        return bool(pieces)


def _slice_with_gaps(value: ir.Value) -> ir.Operation | None:
    from ..ir import defining_op

    op = defining_op(value)
    while op is not None and op.name in _VIEWS:
        op = defining_op(op.operands[0])
    return op if op is not None and op.name == _SLICE and _has_gaps(op) else None


def _has_gaps(piece: ir.Operation) -> bool:
    """Whether a slice may leave elements out between its first and its last one: it takes more
    than one turn of a dim outside one that it does not take whole."""
    from ..ir import sizes_of

    sizes = list(piece.attributes["static_sizes"])
    if any(stride != 1 for stride in piece.attributes["static_strides"]):
        return True
    # A size that is known only at run time is no int here: never whole.
    whole = [size == full for size, full in zip(sizes, sizes_of(piece.operands[0]), strict=True)]
    cut = [dim for dim, is_whole in enumerate(whole) if not is_whole]
    return bool(cut) and any(size != 1 for size in sizes[: cut[-1]])


def _store(piece: ir.Operation) -> None:
    from ..ir import Builder, erase_dead
    from ..iree.barrier import compute_barrier

    build = Builder(piece)
    stored = compute_barrier(build, build.copy(piece).results[0])
    piece.results[0].replace_all_uses_with(stored)
    erase_dead([piece])
