"""attn-store-gathers: rows that are taken by index stand in memory where several ops read them."""

from __future__ import annotations

from iree.compiler import ir

from ..attention.barrier import barrier_behind
from ..ir import body_names, has_one_use, is_elementwise, users
from ..ir.views import view_of
from ..passes import OpPass


class StoreGathers(OpPass):
    """Puts a compute barrier behind rows that are taken by index, with what elementwise ops make of
    them, where several ops read them: a sum of embeddings that a norm and a residual read.

    IREE 3.13 fuses the rows into the kernel of the norm, of which they are a second result, and
    fails to distribute its loops over threads of a GPU ("'func.func' op failed to distribute").
    """

    name = "attn-store-gathers"
    summary = "GPUs: rows taken by index stand in memory where several ops read them"
    mends = "kernels of a norm whose rows are taken by index do not compile for GPUs"
    backends = ("cuda", "rocm")

    def wanted(self, op: ir.Operation) -> bool:
        return is_elementwise(op) and "tensor.extract" in body_names(op)

    def change(self, op: ir.Operation) -> str:
        end = _end(op)
        stored = len(users(end.results[0])) > 1 and barrier_behind(end)
        return "the rows that it takes are put in memory: several ops read them" if stored else ""


def _end(op: ir.Operation) -> ir.Operation:
    """The last of the elementwise ops and views behind `op` that alone read what is in front of
    them."""
    while has_one_use(op.results[0]):
        (reader,) = users(op.results[0])
        if not is_elementwise(reader) and view_of(reader) is None:
            return op
        op = reader
    return op
