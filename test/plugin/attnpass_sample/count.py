"""attn-sample-count: says how many attention ops have got a configuration."""

from __future__ import annotations

from iree.compiler import ir

from attnpass.attention.facts import find_ops
from attnpass.passes import Pass, PassContext


class Count(Pass):
    """Counts, and changes nothing; behind attn-configure, at IREE's phase flow."""

    name = "attn-sample-count"
    summary = "how many attention ops have a configuration"
    phase = "flow"
    after = "attn-configure"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        ops = find_ops(module)
        configured = [op for op in ops if "compilation_info" in op.attributes]
        context.report.note(f"{len(configured)} of {len(ops)} attention ops are configured")
        return False
