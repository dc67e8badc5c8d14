"""attn-launch-constants: numbers that kernels are told at their launch are constants again."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, collect, replace_op, set_attribute
from ..ir.builder import OPTIMIZATION_BARRIER
from ..passes import Pass, PassContext

_MARK = "attnpass.launch_constant"


def launch_constant(build: Builder, number: int, kind: ir.Type) -> ir.Value:
    """A number that a kernel is told when it is launched, so that one kernel serves where only this
    number differs."""
    constant = build.splat(number, kind)
    barrier = build.create(OPTIMIZATION_BARRIER, [kind], [constant])
    set_attribute(barrier, _MARK, "unit")
    return barrier.results[0]


class LaunchConstants(Pass):
    """Has launches hand over constants where `launch_constant` kept these out of kernels.

    Behind `flow` kernels are what they are. With a number that IREE does not know, a call would
    write its list of commands anew, and wait behind each of them.
    """

    name = "attn-launch-constants"
    summary = "one kernel for all steps of a sort"
    why = "IREE has a kernel for each step of a sort"
    phase = "flow"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        found = collect(
            module, lambda op: op.name == OPTIMIZATION_BARRIER and _MARK in op.attributes
        )
        if found:
            said = f"launches hand kernels {len(found)} numbers by which alone these differ"
            context.report.record(found[0], "fitted", said)
        for op in found:
            replace_op(op, op.operands[0])
        return bool(found)
