"""attn-loop-starts: what a loop begins with is another value to what reads it behind the loop."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, defining_op, enclosing, is_ranked_tensor, next_op
from ..ir.builder import OPTIMIZATION_BARRIER
from ..ir.globals import LOAD
from ..passes import OpPass
from .own_buffers import LOOPS

# What runs in no partition, and what each has its own of.
_KEPT = ("hal.tensor.import", LOAD, OPTIMIZATION_BARRIER, "flow.tensor.splat")


class LoopStarts(OpPass):
    """Has what stands behind a loop read what that begins with behind a barrier.

    IREE 3.13 puts the kernel that makes such a tensor, and one that reads it and the loop's result,
    in one partition, which then has to run before the loop and behind it: "circular dependency".
    So ends each program that adds to a loop's result what the loop began with, as residuals do.
    What only the body reads, or a branch, is right, and so is what a caller gives. Done once flow
    has made kernels: barriers keep nothing from being fused.
    """

    name = "attn-loop-starts"
    summary = "what loops begin with is read behind them through a barrier"
    ops = LOOPS
    phase = "flow"
    mends = "programs that read again what a loop began with do not compile"

    kind = "loop"

    def change(self, op: ir.Operation) -> str:
        changed = False
        for value in dict.fromkeys(filter(is_ranked_tensor, op.operands)):
            made = defining_op(value)
            if made is None or made.name in _KEPT or made.block != op.block:
                continue
            uses = [use for use in value.uses if use.owner.operation.name != OPTIMIZATION_BARRIER]
            later = [use for use in uses if _is_behind(use.owner.operation, op)]
            if later:
                build = Builder(next_op(op))
                own = build.create(OPTIMIZATION_BARRIER, [value.type], [value]).results[0]
                for use in later:
                    use.owner.operation.operands[use.operand_number] = own
                changed = True
        why = "what it begins with is read behind a barrier: IREE 3.13 runs both at once"
        return why if changed else ""


def _is_behind(op: ir.Operation, loop: ir.Operation) -> bool:
    """Whether an op, or one around it, stands behind a loop in its block."""
    here = next((outer for outer in enclosing(op) if outer.block == loop.block), None)
    return here is not None and here != loop and loop.is_before_in_block(here)
