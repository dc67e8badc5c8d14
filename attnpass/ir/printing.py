"""Single ops as text: copies in modules of their own."""

from __future__ import annotations

from iree.compiler import ir


def print_alone(op: ir.Operation) -> str:
    """The text of a copy of `op` alone in a module, with the resources that it names."""
    with op.context, op.location:
        module = ir.Module.create()
        op.clone(ip=ir.InsertionPoint(module.body))
        return module.operation.get_asm()
