"""Single ops as text: copies in modules of their own."""

from __future__ import annotations

from iree.compiler import ir

from .regions import add_function


def print_alone(op: ir.Operation) -> str:
    """The text of a copy of `op` alone in a module, with the resources that it names."""
    with op.context, op.location:
        module = ir.Module.create()
        op.clone(ip=ir.InsertionPoint(module.body))
        return module.operation.get_asm()


def print_as_function(op: ir.Operation) -> str:
    """The text of a module whose function `main` is a copy of `op`, its operands arguments."""
    with op.context, op.location:
        module = ir.Module.create()
        kinds = [operand.type for operand in op.operands]
        add_function(module, "main", kinds, lambda build, values: build.copy(op, values).results)
        return module.operation.get_asm()
