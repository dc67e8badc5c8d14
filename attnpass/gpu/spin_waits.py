"""attn-spin-waits: a call looks whether the GPU is done before it sleeps, for CUDA."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, whole_number
from ..passes import OpPass

_AWAIT, _QUERY = "hal.fence.await", "hal.fence.query"
# A wait without an end.
_FOREVER = -1
# What a query of a fence gives that is not signaled yet: IREE_STATUS_DEFERRED.
_PENDING = 17
# A query takes about 40 ns: behind 5 ms of them a thread's sleep is a small part of the call.
_QUERIES = 1 << 17


class SpinWaits(OpPass):
    """Has a call ask for some ms whether the GPU is done before its thread sleeps until it is.

    A thread that IREE's CUDA driver wakes runs again 40 to 200 us after the GPU's last kernel.
    PyTorch's synchronization asks without end, as CUDA's does by default. Waits that are to end
    after a time are left. `--attn-spin=false` leaves them all.
    """

    name = "attn-spin-waits"
    summary = "CUDA: calls ask for some ms whether the GPU is done, then sleep"
    phase = "hal"
    backends = ("cuda",)
    why = "a thread that IREE's CUDA driver wakes runs again long after the GPU's last kernel"
    kind = "wait"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == _AWAIT and whole_number(op.operands[0]) == _FOREVER

    def change(self, op: ir.Operation) -> str:
        spin_before(op)
        return "looks whether the GPU is done before it sleeps"


def spin_before(wait: ir.Operation) -> None:
    """Puts a loop in front of `wait`, a `hal.fence.await`, for each of its fences: it asks until
    the fence is signaled or has failed, `_QUERIES` times at most. Needs a current context."""
    build = Builder(wait)
    number = ir.IntegerType.get_signless(32)
    pending, most = build.constant_number(_PENDING, number), build.constant_index(_QUERIES)
    for fence in list(wait.operands)[1:]:

        def more(inner: Builder, count: ir.Value, fence: ir.Value = fence) -> ir.Value:
            status = inner.create(_QUERY, [number], [fence]).results[0]
            asked = inner.compare("eq", status, pending)
            return inner.andi(asked, inner.compare("ult", count, most))

        build.count_while(more)
