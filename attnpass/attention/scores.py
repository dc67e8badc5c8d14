"""Score functions: what the region of an attention op makes of a score, and of positions.

The region is given the scaled score of a query row and a key (a mask comes in behind it), and
`iree_linalg_ext.index` in it reads an iteration dim, as `linalg.index` does. What IREE 3.13
makes of either is said in the passes that use this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    Builder,
    Refusal,
    body_of,
    body_ops,
    copy_steps,
    defining_op,
    element_bytes,
    element_type,
    erase_dead,
    index_dim,
    index_ops,
    is_float,
    is_ranked_tensor,
    is_used,
    maps,
    ranked_shape,
    scalar_number,
    yielded,
)
from ..ir.bodies import depending, needed_ops
from ..ir.limits import HIDES_ADDED, LOG2_E, LOG2E_LOWEST, LOG2E_OVERFLOWS
from .edit import Score, iteration_size
from .facts import AttentionFacts

_QUERY, _SCALE = 0, 3
# On an op whose region `rescale` has rewritten: twice would be wrong.
NATURAL_SCORES = "attnpass.natural_scores"
_FIXED_POINTS = (0.0, float("inf"), float("-inf"))
_LIMITS = ("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf")
_RANK_0 = ("tensor.empty", "tensor.from_elements", "linalg.fill", "linalg.generic")


@dataclass(frozen=True)
class PositionStep:
    """What positions do to a score: `value` is added (`sign` 1) or subtracted (-1); or `value`
    is a condition under which (`sign` 1), or unless which (-1), the score stays: else it becomes
    `hidden`."""

    value: ir.Value
    sign: int
    hidden: float | None = None


def score(op: ir.Operation) -> ir.Value:
    """The region's argument."""
    return body_of(op).arguments[0]


def is_homogeneous(op: ir.Operation) -> bool:
    """Whether the region makes c times as much of a score that is c times as large, c > 0."""
    depends, scaled = depending(op, [score(op)]), {score(op)}
    for inner in body_ops(op):
        if _keeps_factor(inner, depends, scaled):
            scaled.update(inner.results)
    return yielded(op) in scaled


def _keeps_factor(op: ir.Operation, depends: set[ir.Value], scaled: set[ir.Value]) -> bool:
    """Whether a positive factor of the `scaled` operands becomes one of the result."""
    kept = [operand in scaled for operand in op.operands]
    plain = [operand not in depends for operand in op.operands]
    if op.name == "arith.mulf":
        return (kept[0] and plain[1]) or (plain[0] and kept[1])
    if op.name == "arith.divf":
        return kept[0] and plain[1]
    if op.name in ("arith.negf", "math.absf", "arith.addf", "arith.subf"):
        return all(kept)
    fixed = [scalar_number(operand) in _FIXED_POINTS for operand in op.operands]
    either = [keeps or fixes for keeps, fixes in zip(kept, fixed, strict=True)]
    if op.name in _LIMITS:
        return all(either)
    return op.name == "arith.select" and plain[0] and all(either[1:])


def rescale(op: ir.Operation) -> None:
    """Makes the region work on the scaled score, where IREE 3.13 gives it that times log2(e) and
    takes what it yields for such; of 8-bit queries, what has not been scaled, and scales what it
    yields. Numbers that log2(e) would make infinite become the lowest that it does not: a row of
    nothing else is the mean of V. Needs a current context."""
    inside = body_ops(op)
    for inner in inside:
        for place, operand in enumerate(inner.operands):
            held = scalar_number(operand)
            if held is not None and -math.inf < held < LOG2E_OVERFLOWS:
                inner.operands[place] = Builder(inner).constant_float(LOG2E_LOWEST, operand.type)
    given, kind = score(op), score(op).type
    build, last = Builder(inside[0]), Builder(inside[-1])
    if element_bytes(op.operands[_QUERY]) > 1:
        factor = build.constant_float(1 / LOG2_E, kind)
        inside[-1].operands[0] = last.mulf(inside[-1].operands[0], LOG2_E)
    else:
        scale = op.operands[_SCALE]
        factor = build.cast_float(scale, kind)
        op.operands[_SCALE] = Builder(op).constant_float(1.0, scale.type)
    scaled = build.mulf(given, factor)
    given.replace_all_uses_except(scaled, defining_op(scaled))


def make_scalar(op: ir.Operation) -> bool:
    """Rewrites a region that computes with tensors of rank 0, as importers write it, to one of
    scalars; returns whether IR changed. One that holds other tensors, calls or loops stays.
    Needs a current context."""
    inside = body_ops(op)
    results = [result for inner in inside for result in inner.results]
    if not any(map(is_ranked_tensor, results)) or not all(map(_has_scalar_form, inside)):
        return False
    scalars = _Scalars(Builder(inside[-1]))
    inside[-1].operands[0] = scalars.copy(inside)
    erase_dead(inside[:-1])
    return True


class _Scalars:
    """Copies ops on scalars and rank-0 tensors, each tensor as its element."""

    def __init__(self, build: Builder):
        self._build = build
        self._names: dict[ir.Value, ir.Value] = {}

    def copy(self, ops: Sequence[ir.Operation]) -> ir.Value:
        """Copies all ops but the last, a terminator; returns what that yields."""
        for op in ops[:-1]:
            self._copy_one(op)
        return self._element(ops[-1].operands[0])

    def _copy_one(self, op: ir.Operation) -> None:
        if op.name == "tensor.empty":
            return
        if op.name in ("tensor.from_elements", "linalg.fill") or _reads_rank_0(op):
            self._names[op.results[0]] = self._element(op.operands[0])
            return
        if op.name == "linalg.generic":
            for argument, operand in zip(body_of(op).arguments, op.operands, strict=True):
                if is_used(argument):
                    self._names[argument] = self._element(operand)
            self._names[op.results[0]] = self.copy(body_ops(op))
            return
        if op.name == "arith.constant":
            self._names[op.results[0]] = self._element(op.results[0])
            return
        copy = self._build.copy(op, [self._names.get(x, x) for x in op.operands])
        self._names.update(zip(op.results, copy.results, strict=True))

    def _element(self, value: ir.Value) -> ir.Value:
        """A value as a scalar; tensors from outside of the region are read."""
        if value in self._names:
            return self._names[value]
        op = defining_op(value, "arith.constant")
        if op is not None:
            attribute, kind = op.attributes["value"], element_type(value)
            if isinstance(attribute, ir.DenseElementsAttr):
                attribute = attribute.get_splat_value()
            return self._build.constant(attribute, kind)
        return self._build.extract(value, []) if is_ranked_tensor(value) else value


def _reads_rank_0(op: ir.Operation) -> bool:
    return op.name == "tensor.extract" and len(op.operands) == 1


def _has_scalar_form(op: ir.Operation) -> bool:
    """Whether an op is one of scalars, or of tensors that have one element."""
    values = [*op.operands, *op.results]
    if op.name == "tensor.extract":  # perhaps of a table from outside
        return True
    if any(ranked_shape(value) for value in values):
        return False
    if op.name == "linalg.generic":
        single = len(op.results) == 1 and all(is_ranked_tensor(value) for value in values)
        return single and all(map(_has_scalar_form, body_ops(op)))
    if len(op.regions) and op.name != "linalg.fill":
        return False
    return (
        not any(is_ranked_tensor(value) for value in values)
        or op.name in (*_RANK_0, "arith.constant")
        or op.name.endswith(".yield")
    )


def holds_regions(op: ir.Operation) -> Refusal | None:
    """Why a region is not one of scalars, or None."""
    nested = [inner.name for inner in body_ops(op) if len(inner.regions)]
    return Refusal(f"its region holds a {nested[0]}") if nested else None


def split_region(op: ir.Operation) -> tuple[ir.Value, list[PositionStep]] | Refusal:
    """A region of scalars as one of its values that reads no position, and what positions do to
    that, in their order; or why they cannot be had apart."""
    indices = [inner.results[0] for inner in index_ops(op)]
    on_score, on_place = depending(op, [score(op)]), depending(op, indices)
    value, steps = yielded(op), []
    while value in on_place:
        found = _outermost(value, on_score)
        if isinstance(found, Refusal):
            return found
        value, step = found
        steps.insert(0, step)
    return value, steps


def _outermost(value: ir.Value, on_score: set[ir.Value]) -> tuple[ir.Value, PositionStep] | Refusal:
    """The value of a score before the last step on its way to `value`, and that step."""
    op = defining_op(value)
    if value not in on_score or op is None:
        return Refusal("its scores are positions alone")
    plain = [operand not in on_score for operand in op.operands]
    if op.name == "arith.addf" and any(plain):
        place = plain.index(True)
        return op.operands[1 - place], PositionStep(op.operands[place], 1)
    if op.name == "arith.subf" and plain[1]:
        return op.operands[0], PositionStep(op.operands[1], -1)
    if op.name == "arith.select" and plain[0]:
        for place, sign in ((2, 1), (1, -1)):
            hidden = scalar_number(op.operands[place])
            if hidden is not None and hidden <= HIDES_ADDED:
                return op.operands[3 - place], PositionStep(op.operands[0], sign, hidden)
    return Refusal(f"positions decide what its {op.name} makes of a score")


def position_mask(
    facts: AttentionFacts, steps: Sequence[PositionStep]
) -> tuple[ir.Value, maps.Positions]:
    """A mask operand that does what `steps` do, and what the op's own mask does, with the
    iteration dims that it has. Needs a current context."""
    own = facts.map_of("mask") if facts.has_mask else ()
    used = {dim for dim in own if dim is not None} | _dims_read(facts.op, steps)
    # Kernels are made for masks that tell keys apart.
    dims = tuple(dim for dim in range(facts.num_dims) if dim in used or dim in facts.k2)
    loops = {dim: loop for loop, dim in enumerate(dims)}
    places = tuple(None if dim is None else loops[dim] for dim in own)
    given = [(facts.value("mask"), places)] if facts.has_mask else []
    boolean = all(step.hidden == float("-inf") for step in steps) and (
        not given or facts.element_types["mask"] == "i1"
    )
    build = Builder(facts.op)
    kind = ir.IntegerType.get_signless(1) if boolean else score(facts.op).type

    def body(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        wanted = [step.value for step in steps]
        values = copied(facts.op, wanted, inner, lambda dim: inner.loop_index(loops[dim]))
        mask = x[0] if given else None
        if boolean:
            return _all_hold(inner, mask, zip(steps, values, strict=True))
        return _sum(inner, mask, kind, zip(steps, values, strict=True))

    sizes = [iteration_size(facts, dim) for dim in dims]
    return build.computed(sizes, kind, body, *given), dims


def _dims_read(op: ir.Operation, steps: Sequence[PositionStep]) -> set[int]:
    """The iteration dims that steps depend on."""
    found = set()
    for inner in index_ops(op):
        depends = depending(op, [inner.results[0]])
        if any(step.value in depends for step in steps):
            found.add(index_dim(inner))
    return found


def copied(
    op: ir.Operation,
    wanted: Sequence[ir.Value],
    build: Builder,
    index: Callable[[int], ir.Value],
    names: Mapping[ir.Value, ir.Value] | None = None,
) -> list[ir.Value]:
    """Values of a region of scalars, computed anew where `build` stands; `index` gives iteration
    dims there, `names` what stands for the score."""
    found = copy_steps(needed_ops(op, wanted), build, names or {}, index)
    return [found.get(value, value) for value in wanted]


def keep_only(op: ir.Operation, value: ir.Value) -> Score:
    """The region that yields no more than `value`, one of its own that reads no position."""

    def made(inner: Builder, given: ir.Value) -> ir.Value:
        return copied(op, [value], inner, inner.loop_index, {score(op): given})[0]

    return made


def _all_hold(
    build: Builder, mask: ir.Value | None, steps: Iterable[tuple[PositionStep, ir.Value]]
) -> ir.Value:
    """Whether a key is seen."""
    for step, value in steps:
        if step.sign < 0:
            value = build.xori(value, 1)
        if mask is not None:
            value = build.andi(mask, value)
        mask = value
    assert mask is not None, "a mask of nothing"
    return mask


def _sum(
    build: Builder,
    mask: ir.Value | None,
    kind: ir.Type,
    steps: Iterable[tuple[PositionStep, ir.Value]],
) -> ir.Value:
    """What is added to a score."""
    total = build.constant_float(0.0, kind)
    for step, value in steps:
        if step.hidden is None:
            name = "arith.addf" if step.sign > 0 else "arith.subf"
            total = build.create(name, [kind], [total, value]).results[0]
            continue
        hidden = build.constant_float(step.hidden, kind)
        total = build.select(value, *((total, hidden) if step.sign > 0 else (hidden, total)))
    if mask is None:
        return total
    if not is_float(mask.type):
        return build.select(mask, total, build.constant_float(float("-inf"), kind))
    return build.addf(total, build.cast_float(mask, kind))
