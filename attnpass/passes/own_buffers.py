"""attn-own-buffers: mutable globals that begin with equal numbers have a buffer each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class OwnBuffers(Pass):
    """Fills each mutable global in an initializer of its own, with a number that IREE does not
    know, where several begin with one number everywhere.

    IREE 3.13 gives such globals, the natural way to write caches of K and V, one buffer: what is
    stored in V appears in K. An argument that is returned as it was, and written in place, is
    returned as a copy; what stands outside a loop that writes to it is copied each time round.
    """

    name: ClassVar[str] = "attn-own-buffers"
    summary: ClassVar[str] = "mutable globals with equal initial values do not share a buffer"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..ir import location_text
        from ..own_buffers import keep_outside_loops, keep_returned, separate

        with module.context:
            names = separate(module)
            returned = keep_returned(module)
            loops = keep_outside_loops(module)
        if names:
            context.report.note(
                f"{len(names)} mutable globals are filled at the start, each for itself: "
                "IREE 3.13 lets those that begin equal share a buffer"
            )
        for name in returned:
            context.report.note(
                f"{name}: an argument that is written and returned as it was is copied: IREE 3.13 "
                "writes to its buffer"
            )
        for loop in loops:
            context.report.note(
                f"loop at {location_text(loop.location)}: what it writes to stands outside, and is "
                "copied each time: IREE 3.13 writes to the same buffer"
            )
        return bool(names or returned or loops)
