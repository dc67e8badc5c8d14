"""attn-empty-dispatches: what has no workgroup is not dispatched, for CUDA."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, collect, defining_op, erase
from ..passes import Pass, PassContext
from ..report.records import Report

_DISPATCH = "hal.command_buffer.dispatch"
# Of the op's operands: command buffer, executable and function stand in front of the three.
_WORKGROUPS = slice(3, 6)


class EmptyDispatches(Pass):
    """Puts a dispatch whose number of workgroups is known only at run time behind a test that
    there is one.

    IREE 3.13's CUDA driver hands a grid of size 0 to the GPU's, which refuses it: a cache
    that holds no key yet ends in INVALID_ARGUMENT.
    """

    name = "attn-empty-dispatches"
    summary = "CUDA: dispatches of no workgroup are skipped"
    phase = "hal"
    mends = "tensors of no element end in an error at run time, on CUDA"
    backends = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if not self.is_for(module):
            return False
        found = collect(module, lambda op: op.name == _DISPATCH)
        return any([_skip_where_empty(dispatch, context.report) for dispatch in found])


def _skip_where_empty(dispatch: ir.Operation, report: Report) -> bool:
    """Whether the number of workgroups is not known."""
    makers = ((count, defining_op(count)) for count in dispatch.operands[_WORKGROUPS])
    counts = [count for count, op in makers if op is None or op.name != "arith.constant"]
    if not counts:
        return False
    report.record(dispatch, "repaired", "is skipped where it has no workgroup")
    build = Builder(dispatch)
    product = counts[0]
    for count in counts[1:]:
        product = build.muli(product, count)
    build.conditional(
        build.compare("ne", product, build.constant_index(0)),
        [],
        lambda inner: inner.copy(dispatch).results,
        lambda _: [],
    )
    erase(dispatch)
    return True
