"""attn-wide-arithmetic: what a kernel computes of numbers of 16 bits is rounded once."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import (
    Builder,
    body_of,
    body_ops,
    copied_attributes,
    defining_op,
    has_ancestor,
    next_op,
    scalar_number,
    users,
)
from ..ir.bodies import depending
from ..ir.rewrite import erase
from ..passes import OpPass

# What gives one of the numbers it gets, or an integer near to it.
_EXACT = (
    "arith.cmpf",
    "arith.maximumf",
    "arith.maxnumf",
    "arith.minimumf",
    "arith.minnumf",
    "arith.negf",
    "arith.select",
    "math.absf",
    "math.ceil",
    "math.copysign",
    "math.floor",
    "math.round",
    "math.roundeven",
    "math.trunc",
)
_ROUNDED = ("arith.addf", "arith.divf", "arith.mulf", "arith.remf", "arith.subf")


class WideArithmetic(OpPass):
    """Computes in f32 what the body of a `linalg.generic` in a kernel makes of f16 or bf16, where a
    step reads another's result; that of the last is rounded. Sums, products and maxima that a
    reduction carries stay in their type, and so does what a cast rounds.

    PyTorch computes each of its functions so, and its compiler what it fuses. IREE 3.13's import
    makes several steps of one function (SiLU has four), and kernels for f16 round each.
    """

    name = "attn-wide-arithmetic"
    summary = "what kernels compute of numbers of 16 bits is rounded once"
    phase = "flow"
    mends = "functions of f16 are rounded after each of their steps"
    kind = "elementwise op"
    ops = ("linalg.generic",)

    def wanted(self, op: ir.Operation) -> bool:
        return super().wanted(op) and has_ancestor(op, "flow.executable")

    def change(self, op: ir.Operation) -> str:
        steps = _steps(op)
        rounded = {x for step in steps if step.name not in _EXACT for x in step.results}
        if not any(_below(operand) in rounded for step in steps for operand in step.operands):
            return ""
        _widen(op, steps)
        return "what it makes of 16 bits is rounded once, not after each step"


def _steps(op: ir.Operation) -> list[ir.Operation]:
    """The arithmetic of 16 bits in a body, but for what a reduction carries."""
    results = body_of(op).arguments[len(op.operands) - len(op.results) :]
    carried = depending(op, list(results))
    return [
        step
        for step in body_ops(op)
        if (step.name in (*_EXACT, *_ROUNDED) or step.name.startswith("math."))
        and any(map(_is_narrow, (*step.operands, *step.results)))
        and not any(result in carried for result in step.results)
    ]


def _is_narrow(value: ir.Value) -> bool:
    return isinstance(value.type, ir.F16Type | ir.BF16Type)


def _below(value: ir.Value) -> ir.Value:
    """What a value is widened from."""
    op = defining_op(value, "arith.extf")
    return op.operands[0] if op is not None else value


def _widen(op: ir.Operation, steps: list[ir.Operation]) -> None:
    wide, f32 = dict[ir.Value, ir.Value](), ir.F32Type.get(op.context)

    def widened(value: ir.Value, build: Builder) -> ir.Value:
        if not _is_narrow(value):
            return value
        if value not in wide:
            number = scalar_number(value)
            is_constant = number is not None
            wide[value] = (
                build.constant_float(number, f32) if is_constant else build.cast_float(value, f32)
            )
        return wide[value]

    for step in steps:
        build = Builder(step)
        operands = [widened(operand, build) for operand in step.operands]
        kinds = [f32 if _is_narrow(result) else result.type for result in step.results]
        new = build.create(step.name, kinds, operands, copied_attributes(step))
        for old, result in zip(step.results, new.results, strict=True):
            if _is_narrow(old):
                wide[old] = result
            else:
                old.replace_all_uses_with(result)
    for step in steps:
        for old in filter(_is_narrow, step.results):
            _read_wide(old, wide[old], steps)
    for step in reversed(steps):
        erase(step)


def _read_wide(old: ir.Value, wide: ir.Value, steps: list[ir.Operation]) -> None:
    """Gives those behind the steps the wide number, where they cast to it, or a rounded one."""
    for use in list(old.uses):
        user = use.owner.operation
        if user.name == "arith.extf" and user.results[0].type == wide.type:
            user.results[0].replace_all_uses_with(wide)
            erase(user)
    if any(user not in steps for user in users(old)):
        old.replace_all_uses_with(Builder(next_op(wide.owner)).cast_float(wide, old.type))
