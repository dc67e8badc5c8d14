"""What a write by index makes of the element that stands and of the new one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import Builder, body_of, body_ops, defining_op, filled_with
from ..ir.bodies import constant_number

# What leaves the other operand as it is: of floats, and of integers by their bits.
_OF_FLOATS = {
    "arith.addf": -0.0,
    "arith.mulf": 1.0,
    "arith.maximumf": -math.inf,
    "arith.minimumf": math.inf,
}
_OF_INTEGERS = {
    "arith.addi": lambda bits: 0,
    "arith.muli": lambda bits: 1,
    "arith.maxsi": lambda bits: -(2 ** (bits - 1)),
    "arith.minsi": lambda bits: 2 ** (bits - 1) - 1,
    "arith.maxui": lambda bits: 0,
    "arith.minui": lambda bits: -1,
    "arith.andi": lambda bits: -1,
    "arith.ori": lambda bits: 0,
    "arith.xori": lambda bits: 0,
}
_COUNTS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}
_VERBS = {"add": "adds up", "mul": "multiplies", "max": "finds the largest of"}
_VERBS |= {"min": "finds the least of"}


@dataclass(frozen=True)
class Combination:
    """An op on scalars whose operands may stand in any order, and be taken in any: of what stands
    and each new element, or `each` in place of that (counts)."""

    name: str
    each: float | None = None

    def __str__(self) -> str:
        return _VERBS.get(self.name.removeprefix("arith.")[:3], "combines")

    def of_rows(self, updates: ir.Value) -> Combination:
        """The same of these new elements: where all are one number, that is counted."""
        number = _element_number(updates)
        if self.name not in _COUNTS or self.each is not None or number is None:
            return self
        return Combination(self.name, number)

    def none(self, build: Builder, kind: ir.Type) -> ir.Value:
        """What changes nothing."""
        if isinstance(kind, ir.IntegerType):
            return build.splat(_OF_INTEGERS[self.name](kind.width), kind)
        return build.splat(_OF_FLOATS[self.name], kind)

    def times(self, build: Builder, count: ir.Value, kind: ir.Type) -> ir.Value:
        """`each`, combined as many times as `count`, an index, says."""
        assert self.each is not None, "a combination of new elements has no number"
        number = build.convert("arith.index_cast", count, ir.IntegerType.get_signless(64))
        if isinstance(kind, ir.FloatType):
            number = build.convert("arith.sitofp", number, kind)
        elif kind != number.type:
            number = build.convert("arith.trunci", number, kind)
        return number if self.each == 1 else build.apply(_COUNTS[self.name], number, self.each)


def combination_of(op: ir.Operation) -> Combination | None:
    """What the body of a scatter does, if that is one."""
    *steps, end = body_ops(op)
    if len(steps) != 1 or steps[0].name not in {**_OF_FLOATS, **_OF_INTEGERS}:
        return None
    step, (new, old) = steps[0], body_of(op).arguments
    if end.operands[0] != step.results[0] or old not in [*step.operands]:
        return None
    (other,) = [value for value in step.operands if value != old] or [old]
    if other == new:
        return Combination(step.name)
    each = constant_number(other)
    return Combination(step.name, each) if each is not None and step.name in _COUNTS else None


def written_number(op: ir.Operation) -> float | None:
    """The number that a scatter writes to all its places, if it is one."""
    *steps, end = body_ops(op)
    updates = op.operands[0]
    if steps or end.operands[0] != body_of(op).arguments[0]:
        return None
    return _element_number(updates)


def writes_one_number(op: ir.Operation) -> bool:
    """Whether a scatter writes the same to all its places, known or not: which it writes last to
    one makes no difference."""
    *steps, end = body_ops(op)
    updates = op.operands[0]
    if steps or end.operands[0] != body_of(op).arguments[0]:
        return False
    made = defining_op(updates, "linalg.generic")
    if made is None:
        return filled_with(updates) is not None or constant_number(updates) is not None
    body = body_of(made)
    *_, last = body_ops(made)
    given = last.operands[ir.OpResult(updates).result_number]
    source = defining_op(given)
    inside = given in list(body.arguments) if source is None else source.block == body
    return not inside or (source is not None and source.name == "arith.constant")


def _element_number(value: ir.Value) -> float | None:
    """The number that all elements of a tensor are."""
    scalar = filled_with(value)
    return constant_number(value if scalar is None else scalar)
