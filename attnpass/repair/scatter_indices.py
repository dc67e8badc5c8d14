"""attn-scatter-indices: what a scatter reads stays out of its kernel; on CPUs where it is large."""

from __future__ import annotations

from iree.compiler import ir

from ..attention.barrier import BARRIER, store_operand
from ..ir import defining_op, ranked_shape, tensor_bytes
from ..ir.views import IN_PLACE, SLICE, below_views
from ..machines import is_for_cpus
from ..passes import OpPass

_SCATTER = "iree_linalg_ext.scatter"
# IREE gives a kernel 32 KiB of the stack; half of it is left to all else.
_STACK = 1 << 14


class ScatterIndices(OpPass):
    """Puts a compute barrier behind what makes the indices, the updates and the mask of a scatter.

    From `--iree-opt-level=O2` on IREE 3.13 fuses it into the scatter's kernel. On CUDA that
    kernel reads indices that nobody wrote, and writes where they point: a decode step with a
    static cache (`index_put`) ends in an illegal address. On CPUs it makes them whole on the
    stack, where indices may meet, and has no program where they are too large for that; where no
    two indices meet it has none for a scatter to a slice.
    """

    name = "attn-scatter-indices"
    summary = "what a scatter reads is made before its kernel runs"
    ops = (_SCATTER,)
    mends = "scatters write where unwritten indices point, on CUDA; large ones fail on CPUs"
    backends = ("cuda", "llvm-cpu")

    def change(self, op: ir.Operation) -> str:
        cut = is_for_cpus(op) and _is_tiled(op) and _is_slice(op.operands[-1])
        if cut:
            store_operand(op, len(op.operands) - 1)
        return self._store_read(op) or "what it writes to is put in memory of its own" * cut

    def _store_read(self, op: ir.Operation) -> str:
        made = [number for number, value in enumerate([*op.operands][:-1]) if _is_made(value)]
        if is_for_cpus(op) and (_is_tiled(op) or _fits_stack([op.operands[n] for n in made])):
            return ""
        for number in made:
            store_operand(op, number)
        return "what it reads is put in memory before its kernel runs" if made else ""


def _is_made(value: ir.Value) -> bool:
    producer = defining_op(value)
    return producer is not None and producer.name not in (BARRIER, "arith.constant")


def _is_slice(value: ir.Value) -> bool:
    """Whether a tensor is a part of another, below reshapes."""
    return defining_op(below_views(value, IN_PLACE), SLICE) is not None


def _is_tiled(op: ir.Operation) -> bool:
    """Whether IREE cuts the rows of a scatter on CPUs: where no two write the same."""
    return ir.BoolAttr(op.attributes["unique_indices"]).value


def _fits_stack(values: list[ir.Value]) -> bool:
    known = all(None not in ranked_shape(value) for value in values)
    return known and sum(map(tensor_bytes, values)) <= _STACK
