"""Attention with a sink, as attn-raise writes it: online attention, and what divides its sums by
the weights of all keys and one more, of a score that belongs to none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    Builder,
    below_ops,
    body_of,
    defining_op,
    element_number,
    element_type,
    element_type_name,
    is_float,
    maps,
    scalar_number,
    sizes_of,
    users,
    yielded,
)
from ..ir.limits import ABSORBS, LOG2_E
from .facts import AttentionFacts


@dataclass(frozen=True)
class SinkScores:
    """Scores without keys: the elements of `scores`, whose dims are the iteration dims `dims`, or
    `number` where that is None; times `factor` they are in units of log2."""

    scores: ir.Value | None
    number: float
    dims: maps.Positions
    factor: float

    def in_order(self, build: Builder, facts: AttentionFacts, dims: tuple[int, ...]) -> ir.Value:
        """The scores in f32, natural ones, as a tensor that has these dims, those of the sink and
        perhaps others; of one element where there are none."""
        f32, factor = ir.F32Type.get(), self.factor / LOG2_E
        alike = math.isclose(factor, 1, rel_tol=1e-6)
        if self.scores is None:
            scalar = build.constant_float(self.number * factor, f32)
            return build.fill(scalar, build.empty([1], f32))
        if self.dims == dims and alike and element_type_name(self.scores) == "f32":
            return self.scores
        output = facts.map_of("output")
        sizes = dict(zip(output, sizes_of(facts.value("output")), strict=True))

        def body(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
            score = inner.cast_float(x[0], f32)
            return score if alike else inner.mulf(score, factor)

        own = tuple(None if dim is None else dims.index(dim) for dim in self.dims)
        return build.computed([sizes[dim] for dim in dims] or [1], f32, body, (self.scores, own))


@dataclass(frozen=True)
class AttentionWithSink(AttentionFacts):
    """Online attention (`op`) and what is behind it as one attention, whose result is that of
    `division`, in its order and its type; `total` adds the sink's weight to the keys'."""

    total: ir.Operation
    division: ir.Operation
    sink: SinkScores

    @property
    def kind(self) -> str:
        return "attention"

    @property
    def last_op(self) -> ir.Operation:
        return self.division

    def value(self, operand: str) -> ir.Value:
        if operand == "output":
            return self.division.operands[2]
        return super().value(operand)

    def rebuilt(self, build: Builder) -> ir.Value:
        """The same ops where `build` stands."""
        copies: dict[ir.Value, ir.Value] = {}
        last = self.op
        for op in (self.op, self.total, self.division):
            last = build.copy(op, [copies.get(operand, operand) for operand in op.operands])
            copies |= dict(zip(op.results, last.results, strict=True))
        return last.results[0]


def with_sink(facts: AttentionFacts) -> AttentionFacts:
    """Online attention that starts from nothing, and the division behind it, as one attention with
    a sink, if nobody reads what stands between; other attention as it is."""
    if facts.kind != "online_attention":
        return facts
    output, largest, total = (users(result) for result in facts.op.results)
    starts = [element_number(facts.value(name)) for name in facts.result_names]
    if starts[0] != 0 or starts[1] is None or starts[1] > ABSORBS or starts[2] != 0:
        return facts
    if len(output) != 1 or len(total) != 1 or largest != total:
        return facts
    (division,), (total,) = output, total
    sink = _read_total(facts, total)
    # Where that is none it may have no result: all three may be yielded.
    places = None if sink is None else _read_division(facts, division, total)
    if sink is None or places is None:
        return facts
    own = len(facts.operand_names) - len(facts.op.results)
    given = {
        "op": facts.op,
        "maps": (*facts.maps[:own], places),
        "operand_names": (*facts.operand_names[:own], "output"),
        "num_dims": facts.num_dims,
        **{name: getattr(facts, name) for name in ("batch", "m", "k1", "k2", "n")},
    }
    return AttentionWithSink(**given, total=total, division=division, sink=sink)


def _dims_read(
    op: ir.Operation, operands: dict[ir.Value, maps.Positions]
) -> tuple[maps.Positions, ...] | None:
    """The iteration dims of attention that the dims of a generic's operands are, where all of its
    loops are parallel and it reads each of `operands`, which have these dims, once and whole."""
    if op.name != "linalg.generic" or len(op.results) != 1:
        return None
    positions = maps.positions(op)
    inputs = list(op.operands)
    if positions is None or any(inputs.count(operand) != 1 for operand in operands):
        return None
    loops: dict[int, int] = {}
    for operand, dims in operands.items():
        for loop, dim in zip(positions[inputs.index(operand)], dims, strict=True):
            if loop is None or dim is None or loops.setdefault(loop, dim) != dim:
                return None
    if len({*loops.values()}) != len(loops) or {*positions[-1]} != {*loops}:
        return None
    read = [tuple(None if at is None else loops.get(at) for at in each) for each in positions]
    known = all(at is None or at in loops for each in positions for at in each)
    return tuple(read) if known else None


def _read_division(
    facts: AttentionFacts, op: ir.Operation, total: ir.Operation
) -> maps.Positions | None:
    """The dims of a division's result, in its order, if it is the sums over the weights."""
    output, below = facts.op.results[0], total.results[0]
    rows = facts.map_of("sum")
    read = _dims_read(op, {output: facts.map_of("output"), below: rows})
    if read is None or len(op.operands) != 3:
        return None
    elements = dict(zip(op.operands, body_of(op).arguments, strict=True))
    quotient = defining_op(below_ops(yielded(op), "arith.truncf"), "arith.divf")
    if quotient is None:
        return None
    return read[2] if list(quotient.operands) == [elements[output], elements[below]] else None


def _read_total(facts: AttentionFacts, op: ir.Operation) -> SinkScores | None:
    """The sink whose weight op adds to the sums of the keys'."""
    largest, total = facts.op.results[1:]
    rows = facts.map_of("sum")
    read = _dims_read(op, {largest: facts.map_of("max"), total: rows})
    # The sums of weights are in the order of the maxima, so that the division knows them.
    if read is None or read[-1] != rows or len(op.operands) > 4:
        return None
    elements = dict(zip(op.operands, body_of(op).arguments, strict=True))
    added = _other_term(yielded(op), elements[total])
    power = None if added is None else defining_op(added, "math.exp2")
    below = None if power is None else defining_op(power.operands[0], "arith.subf")
    if below is None or below.operands[1] != elements[largest]:
        return None
    score, factor = _without_factor(below.operands[0])
    number = scalar_number(score)
    if number is not None:
        return SinkScores(None, number, (), factor)
    for place, (operand, element) in enumerate(elements.items()):
        if element == score and operand not in (largest, total) and is_float(element_type(operand)):
            return SinkScores(operand, 0.0, read[place], factor)
    return None


def _other_term(value: ir.Value, one: ir.Value) -> ir.Value | None:
    """What stands beside `one` in a sum."""
    op = defining_op(value, "arith.addf")
    if op is None or one not in list(op.operands):
        return None
    return op.operands[1 - list(op.operands).index(one)]


def _without_factor(value: ir.Value) -> tuple[ir.Value, float]:
    """(value, factor) of a product with a constant."""
    op = defining_op(value, "arith.mulf")
    if op is not None:
        for place in (0, 1):
            factor = scalar_number(op.operands[place])
            if factor is not None and factor > 0:
                return op.operands[1 - place], factor
    return value, 1.0
