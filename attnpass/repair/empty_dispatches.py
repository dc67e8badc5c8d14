"""attn-empty-dispatches: what has no workgroup is not dispatched, for CUDA."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, defining_op
from ..passes import OpPass

_DISPATCH = "hal.command_buffer.dispatch"
# Of the op's operands: command buffer, executable and function stand in front of the three.
_WORKGROUPS = slice(3, 6)


class EmptyDispatches(OpPass):
    """Puts a dispatch whose number of workgroups is known only at run time behind a test that
    there is one.

    IREE 3.13's CUDA driver hands a grid of size 0 to the GPU's, which refuses it: a cache
    that holds no key yet ends in INVALID_ARGUMENT.
    """

    name = "attn-empty-dispatches"
    summary = "CUDA: dispatches of no workgroup are skipped"
    phase = "hal"
    mends = "tensors of no element end in an error at run time, on CUDA"
    ops = (_DISPATCH,)
    backends = ("cuda",)
    erases = True

    def change(self, op: ir.Operation) -> str:
        makers = ((count, defining_op(count)) for count in op.operands[_WORKGROUPS])
        counts = [count for count, made in makers if made is None or made.name != "arith.constant"]
        if not counts:
            return ""
        build = Builder(op)
        product = counts[0]
        for count in counts[1:]:
            product = build.muli(product, count)
        build.conditional(
            build.compare("ne", product, build.constant_index(0)),
            [],
            lambda inner: inner.copy(op).results,
            lambda _: [],
        )
        return "is skipped where it has no workgroup"
