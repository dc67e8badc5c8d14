"""attn-safe-divisions: CPUs: no integer that is divided ends the process."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..ir import Builder, element_type, sizes_of, whole_number
from ..passes import OpPass

_SIGNED_QUOTIENTS = ("arith.divsi", "arith.floordivsi", "arith.ceildivsi")
_QUOTIENTS = (*_SIGNED_QUOTIENTS, "arith.divui", "arith.ceildivui")
_SIGNED = (*_SIGNED_QUOTIENTS, "arith.remsi")


class SafeDivisions(OpPass):
    """Divides integers by 1 where the divisor is 0, or -1 with a sign, and puts the result right.

    x86 has no quotient by 0, nor one of the least integer by -1: it ends the process, of IREE's
    program, too. By 0 the quotient is -1 and the rest is all of the number, by -1 the least integer
    is itself: as GPUs and XLA have it.
    """

    name = "attn-safe-divisions"
    summary = "CPUs: integers divided by 0 have a quotient"
    backends = ("llvm-cpu",)
    mends = "integers divided by 0 end the process on CPUs"

    in_bodies = True

    def wanted(self, op: ir.Operation) -> bool:
        if op.name not in (*_QUOTIENTS, "arith.remsi", "arith.remui"):
            return False
        kind = op.results[0].type
        element = element_type(op.results[0]) if isinstance(kind, ir.RankedTensorType) else kind
        return isinstance(element, ir.IntegerType) and not whole_number(op.operands[1])

    def change(self, op: ir.Operation) -> str:
        build, old, given = Builder(op), op.results[0], [*op.operands]

        def divide(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
            return _divided(inner, op.name, scalars[0], scalars[1])

        if isinstance(old.type, ir.RankedTensorType):
            result = build.computed(sizes_of(given[0]), element_type(old), divide, *given)
        else:
            result = divide(build, given)
        old.replace_all_uses_with(result)
        return "divides by 1 where it would by 0: CPUs end the process there"


def _divided(build: Builder, name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """The scalar that the op of this name makes of two, without a division by 0."""
    kind = x.type
    one = build.constant_number(1, kind)
    is_zero = build.compare("eq", y, 0)
    safe = build.select(is_zero, one, y)
    is_minus = build.compare("eq", y, -1) if name in _SIGNED else None
    if is_minus is not None:
        safe = build.select(is_minus, one, safe)
    result = build.create(name, [kind], [x, safe]).results[0]
    if name not in _QUOTIENTS:
        return build.select(is_zero, x, result)
    if is_minus is not None:
        opposite = build.apply("arith.subi", build.constant_number(0, kind), x)
        result = build.select(is_minus, opposite, result)
    return build.select(is_zero, build.constant_number(-1, kind), result)
