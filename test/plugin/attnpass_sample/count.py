"""attn-sample-count: says how many attention ops have got a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from attnpass.attention.facts import find_ops
from attnpass.passes import Pass, PassContext


@dataclass(frozen=True)
class Count(Pass):
    """Counts, and changes nothing; behind attn-configure, at IREE's phase flow."""

    name: ClassVar[str] = "attn-sample-count"
    summary: ClassVar[str] = "how many attention ops have a configuration"
    phase: ClassVar[str] = "flow"
    after: ClassVar[str] = "attn-configure"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        ops = find_ops(module)
        configured = [op for op in ops if "compilation_info" in op.attributes]
        context.report.note(f"{len(configured)} of {len(ops)} attention ops are configured")
        return False
