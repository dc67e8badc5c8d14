"""Why something is left as it is: what stands in place of a result that was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from iree.compiler import ir

from .locations import location_text

# What a reader may want to change: nothing was to be changed, an operand has its layout, its caller
# (or a global) has the layout, its worth was never measured on this target, or it costs more than
# it saves.
Cause = Literal["", "mode", "innermost", "handed-in", "unmeasured", "costs"]


@dataclass(frozen=True)
class Refusal:
    """The reason, as the end of a sentence, the op that it is about if not the one that was asked
    about, and the `cause`."""

    reason: str
    op: ir.Operation | None = None
    cause: Cause = ""

    def __str__(self) -> str:
        where = f" ({self.op.name} at {location_text(self.op.location)})" if self.op else ""
        return self.reason + where
