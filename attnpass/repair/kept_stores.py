"""attn-kept-stores: what is loaded from one global and stored in another, or back, is stored."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import (
    Builder,
    below_ops,
    defining_op,
    printed,
    reached,
    terminator,
)
from ..ir.builder import OPTIMIZATION_BARRIER
from ..ir.globals import LOAD, STORE
from ..passes import OpPass

_CONSTANT = "arith.constant"
# What stands in front of a value, and of one of unknown sizes.
BARRIERS = (OPTIMIZATION_BARRIER, "flow.tensor.tie_shape")
_CALLS = ("func.call", "util.call")
_BRANCH, _FOR, _WHILE = "scf.if", "scf.for", "scf.while"
_HANDS_ON = (*_CALLS, _BRANCH, _FOR, _WHILE)


class KeptStores(OpPass):
    """Stores in a global what is loaded from one behind a barrier.

    IREE 3.13 takes a global, such as the row of the last call, that always gets what another holds
    for that other, though that changes later; and a store of what the same global held for
    nothing, though something else was stored in it since. What a branch, a loop or a function hands
    on may be such a value, as IREE sees once it has folded them. attn-own-globals makes a copy of
    it.
    """

    name = "attn-kept-stores"
    summary = "what globals hold is stored in other globals"
    phase = "start"
    mends = "a global that gets what another holds changes with the other"

    def wanted(self, op: ir.Operation) -> bool:
        if op.name != STORE:
            return False
        return defining_op(op.operands[0], LOAD) is not None or is_handed_on(op.operands[0])

    def change(self, op: ir.Operation) -> str:
        op.operands[0] = Builder(op).barred(op.operands[0])
        return "stores what is behind a barrier: IREE 3.13 takes the two globals for one"


def is_handed_on(value: ir.Value) -> bool:
    """Whether a branch, a loop or a function hands a value on, out of it or into it."""
    made = defining_op(value)
    if made is not None:
        return made.name in _HANDS_ON
    owner = value.owner.owner.operation
    return owner.name in _HANDS_ON or printed.is_hidden(owner)


def held(value: ir.Value) -> list[ir.Operation]:
    """The loads of globals and the constants that a value may be, where it can be nothing else:
    branches and loops hand it on as it is. None of them where something computes it."""
    found: list[ir.Operation] = []
    further = lambda one: (below_ops(each, *BARRIERS) for each in _sources(one))  # noqa: E731
    for one in reached([below_ops(value, *BARRIERS)], further):
        made = defining_op(one, LOAD, _CONSTANT)
        if made is not None:
            found.append(made)
        elif not _sources(one):
            return []
    return found


def _sources(value: ir.Value) -> list[ir.Value]:
    """What a result of a branch or a loop, or what a loop hands to its body, may be; nothing for
    another value."""
    made = defining_op(value)
    if made is not None:
        number = ir.OpResult(value).result_number
        if made.name == _BRANCH:
            return [_end(region).operands[number] for region in made.regions if len(region.blocks)]
        if made.name == _FOR:
            return [made.operands[3 + number], _end(made.regions[0]).operands[number]]
        return [_end(made.regions[0]).operands[1 + number]] if made.name == _WHILE else []
    block, number = value.owner, ir.BlockArgument(value).arg_number
    loop = block.owner.operation
    if loop.name == _FOR and number:
        return [loop.operands[2 + number], _end(loop.regions[0]).operands[number - 1]]
    if loop.name != _WHILE:
        return []
    if block == loop.regions[1].blocks[0]:
        return [_end(loop.regions[0]).operands[1 + number]]
    return [loop.operands[number], _end(loop.regions[1]).operands[number]]


def _end(region: ir.Region) -> ir.Operation:
    """The terminator of a region of one block."""
    return terminator(region.blocks[0])
