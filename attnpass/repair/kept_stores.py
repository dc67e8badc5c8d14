"""attn-kept-stores: what is loaded from one global and stored in another, or back, is stored."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, defining_op
from ..passes import OpPass

LOAD, STORE, BARRIER = "util.global.load", "util.global.store", "util.optimization_barrier"


class KeptStores(OpPass):
    """Stores in a global what is loaded from one behind a barrier.

    IREE 3.13 takes a global, such as the row of the last call, that always gets what another holds
    for that other, though that changes later; and a store of what the same global held for
    nothing, though something else was stored in it since. attn-own-buffers makes a copy of it.
    """

    name = "attn-kept-stores"
    summary = "what globals hold is stored in other globals"
    phase = "start"
    mends = "a global that gets what another holds changes with the other"

    def wanted(self, op: ir.Operation) -> bool:
        made = defining_op(op.operands[0]) if op.name == STORE else None
        return made is not None and made.name == LOAD

    def change(self, op: ir.Operation) -> str:
        op.operands[0] = barred(Builder(op), op.operands[0])
        return "stores what is behind a barrier: IREE 3.13 takes the two globals for one"


def barred(build: Builder, value: ir.Value) -> ir.Value:
    """The same value, of which IREE does not know where it is from."""
    return build.create(BARRIER, [value.type], [value]).results[0]


def loaded(value: ir.Value) -> ir.Operation | None:
    """The op that loads a value from a global, behind barriers."""
    made = defining_op(value)
    while made is not None and made.name == BARRIER:
        made = defining_op(made.operands[0])
    return made if made is not None and made.name == LOAD else None
