"""Score functions in a narrow type, computed in f32.

IREE 3.13 keeps scores in f32 whatever attention's operands are, and cannot lower a region whose
argument is of another type.
"""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, body_ops, erase_dead, is_narrow_float, scalar_number
from .scores import score

# What keeps its meaning in a wider type, besides all of `math`.
_WIDENED = frozenset(
    f"arith.{name}"
    for name in (
        *("addf", "subf", "mulf", "divf", "remf", "negf", "cmpf", "select"),
        *("maximumf", "minimumf", "maxnumf", "minnumf", "sitofp", "uitofp"),
    )
)


def compute_in_f32(op: ir.Operation) -> bool:
    """Makes the region of an attention op take and yield f32, and compute in it what it can,
    where it is one of f16 or bf16; returns whether IR changed. Needs a current context."""
    given = score(op)
    if not is_narrow_float(given.type):
        return False
    region = _InF32(Builder(body_ops(op)[-1], op.location), given)
    *inside, last = body_ops(op)
    given.set_type(region.wide_type)
    for inner in inside:
        region.take(inner)
    last.operands[0] = region.wide(last.operands[0])
    erase_dead(inside)
    return True


class _InF32:
    """Copies the ops of a region whose argument `given` becomes one of f32, with f32 for narrow
    floats. Made while the argument has its old type."""

    def __init__(self, build: Builder, given: ir.Value):
        self.wide_type = ir.F32Type.get()
        self._build = build
        self._given, self._given_type = given, given.type
        # What stands for a value: as it was, and in f32.
        self._same: dict[ir.Value, ir.Value] = {}
        self._wide: dict[ir.Value, ir.Value] = {given: given}

    def take(self, op: ir.Operation) -> None:
        """Copies one op; those before it are copied."""
        if op.name == "arith.extf" and is_narrow_float(self._type(op.operands[0])):
            wide = self.wide(op.operands[0])
            self._same[op.results[0]] = self._build.cast_float(wide, op.results[0].type)
        elif op.name == "arith.truncf" and op.operands[0].type == self.wide_type:
            self._wide[op.results[0]] = self._as_it_was(op.operands[0])
        elif op.name in _WIDENED or op.name.startswith("math."):
            self._copy_widened(op)
        else:
            copy = self._build.copy(op, [self._as_it_was(operand) for operand in op.operands])
            self._same.update(zip(op.results, copy.results, strict=True))

    def wide(self, value: ir.Value) -> ir.Value:
        """A float in f32."""
        if value not in self._wide:
            # Constants stand inside or, as IREE hoists them, outside.
            known = scalar_number(value)
            if known is None:
                wide = self._build.cast_float(self._as_it_was(value), self.wide_type)
            else:
                wide = self._build.constant_float(known, self.wide_type)
            self._wide[value] = wide
        return self._wide[value]

    def _copy_widened(self, op: ir.Operation) -> None:
        operands = [
            self.wide(x) if is_narrow_float(self._type(x)) else self._as_it_was(x)
            for x in op.operands
        ]
        copy = self._build.copy(op, operands)
        for old, new in zip(op.results, copy.results, strict=True):
            if is_narrow_float(old.type):
                new.set_type(self.wide_type)
                self._wide[old] = new
            else:
                self._same[old] = new

    def _as_it_was(self, value: ir.Value) -> ir.Value:
        if value not in self._same and value in self._wide:
            self._same[value] = self._build.cast_float(self._wide[value], self._type(value))
        return self._same.get(value, value)

    def _type(self, value: ir.Value) -> ir.Type:
        """The type that a value of the old region has."""
        return self._given_type if value == self._given else value.type
