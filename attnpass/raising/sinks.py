"""Attention sinks that are written out: a score beside those of the keys, which has no value.

It takes its share of the softmax and gives nothing. As gpt-oss writes it, it is one more column of
the scores, whose weights are dropped again; others add its exponential to the sum of the keys', as
does a softmax with 1 beside its sum, whose sink is 0. Or the result without it is multiplied by the
share of the keys, which the logarithm of their sum gives: sigmoid(lse - sink), as behind
FlexAttention.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from iree.compiler import ir

from ..analysis.arithmetic import compute
from ..analysis.values import Linear, Value, add, apply
from ..ir import (
    DYNAMIC,
    DynamicSize,
    Size,
    concat_dim,
    defining_op,
    has_one_use,
    maps,
    sizes_of,
    users,
    whole_number,
)
from ..ir.expressions import Leaf, Number, ScalarStep, leaves_of
from .elements import AxisReader, Expression, without_casts
from .reductions import summed, unshifted
from .scores import NotRaised

# Ops from a size in the program to the sizes that it is computed of.
_DEEPEST = 20


@dataclass(frozen=True)
class Sink:
    """A sink's score: `score` times `factor`, as the keys' are scaled and masked; it has axes of
    rows and of the batch only."""

    score: Expression
    factor: float


@dataclass(frozen=True)
class Part:
    """Weights that are `count` of those of `whole`, from number `first` on, along axes `wide`
    instead of `keys`."""

    whole: Expression
    keys: tuple[int, ...]
    wide: tuple[int, ...]
    first: int | ir.Value
    count: Size


def find_part(elements: AxisReader, weights: Expression) -> Part | None:
    """What weights are a slice of, along one dim; None where they are none."""
    below = without_casts(weights)
    op = defining_op(below.value) if isinstance(below, Leaf) else None
    if op is None or not isinstance(below, Leaf) or op.name != "tensor.extract_slice":
        return None
    full, small = sizes_of(op.operands[0]), sizes_of(below.value)
    if len(full) != len(small) or any(stride != 1 for stride in op.attributes["static_strides"]):
        return None
    offsets = list(op.attributes["static_offsets"])
    cut = [dim for dim, size in enumerate(full) if size != small[dim]]
    if len(cut) != 1 or any(offset != 0 for dim, offset in enumerate(offsets) if dim != cut[0]):
        return None
    (dim,) = cut
    wide = elements.axes.new(full[dim])
    dims = tuple(wide if d == dim else axes for d, axes in enumerate(below.places))
    whole = elements.element(op.operands[0], dims)
    first = offsets[dim] if offsets[dim] != DYNAMIC else op.operands[1]
    return Part(whole, below.places[dim], wide, first, small[dim])


def scores_beside(
    elements: AxisReader, exponent: Expression, part: Part
) -> tuple[Expression, Expression]:
    """(scores, sink) where an exponent is both side by side, shifted alike, and the weights that
    are kept are those of the scores."""
    wide = elements.axes.now(part.wide)
    inner, _ = unshifted(elements, exponent, frozenset(wide))
    joined = _pieces(inner.value) if isinstance(inner, Leaf) else None
    if joined is None or not isinstance(inner, Leaf):
        raise NotRaised("the product reads a part of a softmax that is not scores beside a sink")
    dim, pieces = joined
    if elements.axes.now(inner.places[dim]) != wide:
        raise NotRaised("the scores and their sink do not stand side by side along the keys")
    sinks = [number for number, piece in enumerate(pieces) if sizes_of(piece)[dim] == 1]
    if len(pieces) != 2 or len(sinks) != 1:
        raise NotRaised("the softmax has more than one sink beside the keys")
    sink, scores = pieces[sinks[0]], pieces[1 - sinks[0]]
    keys = sizes_of(scores)[dim]
    variables: list[Size] = []
    every = _as_sum(keys, variables) or _variable(keys, variables)
    first, count = _as_sum(part.first, variables), _as_sum(part.count, variables)
    if first != Linear(1 - sinks[0]) or count != every:
        raise NotRaised("the weights that are kept are not those of the scores")
    kept = elements.axes.cut_alike(part.keys, keys)
    if kept is None:
        raise NotRaised("the weights that are kept are not those of the scores")

    def along(axes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        return tuple(axes if d == dim else own for d, own in enumerate(inner.places))

    return elements.element(scores, along(kept)), elements.element(sink, along(()))


def _pieces(whole: ir.Value) -> tuple[int, list[ir.Value]] | None:
    """(dim, pieces) where a tensor is pieces side by side along a dim."""
    op = defining_op(whole, "tensor.concat")
    return _inserted(whole) if op is None else (concat_dim(op), list(op.operands))


def _inserted(value: ir.Value) -> tuple[int, list[ir.Value]] | None:
    """`_pieces` of two pieces of known sizes that are inserted into nothing."""
    full, pieces, dims = sizes_of(value), dict[int, ir.Value](), set[int]()
    while (last := defining_op(value, "tensor.insert_slice")) is not None:
        sizes, offsets = sizes_of(last.operands[0]), list(last.attributes["static_offsets"])
        strides = set(last.attributes["static_strides"])
        cut = [d for d, size in enumerate(sizes) if size != full[d]]
        if len(sizes) != len(full) or len(cut) != 1 or strides != {1}:
            return None
        if any(offset != 0 for d, offset in enumerate(offsets) if d != cut[0]):
            return None
        dims.add(cut[0])
        pieces[offsets[cut[0]]] = last.operands[0]
        value = last.operands[1]
    if defining_op(value, "tensor.empty") is None or len(dims) != 1 or len(pieces) != 2:
        return None
    (dim,) = dims
    values = [pieces[offset] for offset in sorted(pieces)]
    first, second = (sizes_of(value)[dim] for value in values)
    if not isinstance(first, int) or not isinstance(second, int) or first + second != full[dim]:
        return None
    return (dim, values) if sorted(pieces) == [0, first] else None


def _as_sum(number: ir.Value | Size, variables: list[Size]) -> Linear | None:
    """A number of elements as a sum of constants and of sizes that are known at run time only,
    which are numbered as in `variables`."""
    found = _traced(number, variables, _DEEPEST)
    return found if isinstance(found, Linear) else None


def _variable(size: Size, variables: list[Size]) -> Linear:
    if size not in variables:
        variables.append(size)
    return Linear(0, ((variables.index(size), 1),))


def _traced(number: ir.Value | Size, variables: list[Size], depth: int) -> Value | None:
    if isinstance(number, int):
        return Linear(number)
    size = DynamicSize(number) if isinstance(number, ir.Value) else number
    if size in variables:
        return _variable(size, variables)
    if not isinstance(size, DynamicSize) or depth == 0:
        return None
    if size.dim is not None:
        return _variable(size, variables)
    op, known = defining_op(size.value), whole_number(size.value)
    if known is not None or op is None:
        return None if known is None else Linear(known)
    if op.name == "hal.buffer_view.dim":
        return _variable(size, variables)
    if op.name == "tensor.dim":
        where = whole_number(op.operands[1])
        below = size if where is None else sizes_of(op.operands[0])[where]
        return _traced(below, variables, depth - 1)
    given = [_traced(operand, variables, depth - 1) for operand in op.operands]
    if op.name == "affine.apply":
        return _applied(ir.AffineMapAttr(op.attributes["map"]).value, given)
    return compute(op, given, {})


def _applied(formula: ir.AffineMap, given: Sequence[Value | None]) -> Value | None:
    """An affine map of one result, a sum of its operands and constants, of values."""

    def value(expression: ir.AffineExpr) -> Value | None:
        if isinstance(expression, ir.AffineConstantExpr):
            return Linear(expression.value)
        if isinstance(expression, ir.AffineDimExpr):
            return given[expression.position]
        if isinstance(expression, ir.AffineSymbolExpr):
            return given[formula.n_dims + expression.position]
        if not isinstance(expression, ir.AffineAddExpr):
            return None
        return apply(add, value(expression.lhs), value(expression.rhs))

    return value(formula.results[0])


def sink_in_sum(
    elements: AxisReader,
    exponent: Expression,
    beside: Expression,
    name: str,
    keys: frozenset[int],
) -> tuple[Expression, Expression]:
    """(scores, sink) where the sum of the powers `name` of an exponent has `beside` added, which
    is the power of a sink that is shifted as the scores are."""
    beside = without_casts(beside)
    scores, shifts = unshifted(elements, exponent, keys, list(leaves_of(beside)))
    if isinstance(beside, Number) and beside.number > 0 and not shifts:
        logarithm = math.log if name == "math.exp" else math.log2
        return scores, Number(logarithm(beside.number), beside.value)
    if not isinstance(beside, ScalarStep) or beside.name != name:
        raise NotRaised("what is added to the sum of the exponentials is no sink's, shifted alike")
    sink = without_casts(beside.inputs[0])
    if isinstance(sink, ScalarStep) and sink.name == "arith.negf":
        sunk = sink.inputs[0]
        zero: Expression = Number(0.0, sink.op.results[0])
        if len(shifts) == 1 and elements.same(sunk, shifts[0]):
            return scores, zero
    while shifts and isinstance(sink, ScalarStep) and sink.name == "arith.subf":
        alike = [shift for shift in shifts if elements.same(shift, sink.inputs[1])]
        if not alike:
            break
        shifts.remove(alike[0])
        sink = without_casts(sink.inputs[0])
    if shifts:
        raise NotRaised("what is added to the sum of the exponentials is no sink's, shifted alike")
    return scores, sink


@dataclass(frozen=True)
class Rescaling:
    """A product with V times the keys' share of weights that count a sink's, too: the op that
    multiplies, its result, and the scores of the keys and of the sink."""

    op: ir.Operation
    result: Leaf
    scores: Expression
    sink: Expression


def find_rescaling(
    elements: AxisReader, given: Leaf, exponent: Expression, keys: frozenset[int]
) -> Rescaling | None:
    """What alone reads `given`, a product of V with the softmax of an exponent, and multiplies it
    by a sigmoid of the logarithm of the sum of its exponentials less a sink, in whatever words."""
    behind = find_behind(elements, given)
    if behind is None:
        return None
    scores, _ = unshifted(elements, exponent, keys)
    for one, share in _ways(behind.whole, "arith.mulf"):
        if not elements.same(one, behind.given):
            continue
        sink = _sink_of_share(elements, share, scores, keys)
        if sink is not None:
            return Rescaling(behind.op, behind.result, scores, sink)
    return None


@dataclass(frozen=True)
class Behind:
    """An elementwise op that alone reads a tensor: its result, an element of that as an
    expression, and of the tensor."""

    op: ir.Operation
    result: Leaf
    whole: Expression
    given: Expression


def find_behind(elements: AxisReader, given: Leaf) -> Behind | None:
    """The op that alone reads `given`, if its result has dims of `given` alone."""
    op = users(given.value)[0] if has_one_use(given.value) else None
    positions = None if op is None else maps.positions_of(_maps_of(op))
    if op is None or not positions or len(op.results) != 1:
        return None
    place = list(op.operands).index(given.value)
    loops = dict(zip(positions[place], given.places, strict=True))
    if any(loop not in loops for loop in positions[-1]):
        return None
    result = Leaf(op.results[0], tuple(loops[loop] for loop in positions[-1]))
    whole = without_casts(elements.element(result.value, result.places))
    return Behind(op, result, whole, elements.element(given.value, given.places))


def _maps_of(op: ir.Operation) -> ir.Attribute:
    is_generic = op.name == "linalg.generic"
    return op.attributes["indexing_maps"] if is_generic else ir.ArrayAttr.get([], op.context)


def _ways(expression: Expression, name: str) -> list[tuple[Expression, Expression]]:
    """The inputs of the op `name`, below casts, both ways round."""
    step = without_casts(expression)
    if not isinstance(step, ScalarStep) or step.name != name:
        return []
    one, other = map(without_casts, step.inputs)
    return [(one, other), (other, one)]


def _input(expression: Expression, name: str) -> Expression | None:
    """The one input of the op `name`, below casts."""
    step = without_casts(expression)
    if not isinstance(step, ScalarStep) or step.name != name:
        return None
    return without_casts(step.inputs[0])


def _sink_of_share(
    elements: AxisReader, share: Expression, scores: Expression, keys: frozenset[int]
) -> Expression | None:
    """The sink that leaves the keys this share of all weights:

    1. 1 / (1 + exp(sink - lse)), where lse is the logarithm of the sum of the scores' exponentials;
    2. exp(lse - the same logarithm of lse and the sink side by side).
    """
    is_lse = _lse_test(elements, scores, keys)
    quotient = without_casts(share)
    if isinstance(quotient, ScalarStep) and quotient.name == "arith.divf":
        above, below = quotient.inputs
        for one, power in _ways(below, "arith.addf"):
            exponent = _input(power, "math.exp")
            if not _is_one(above) or not _is_one(one) or exponent is None:
                continue
            negated = _input(exponent, "arith.negf")
            for first, second in _ways(negated or exponent, "arith.subf")[:1]:
                lse, sink = (first, second) if negated else (second, first)
                return sink if is_lse(lse) else None
    exponent = _input(share, "math.exp")
    for lse, both in _ways(exponent, "arith.subf")[:1] if exponent else ():
        return _beside_lse(elements, lse, both) if is_lse(lse) else None
    return None


def _without_factors(expression: Expression) -> tuple[Expression, float]:
    """(x, factor) where an expression is x times numbers, or divided by them."""
    step, factor = without_casts(expression), 1.0
    while isinstance(step, ScalarStep) and step.name in ("arith.mulf", "arith.divf"):
        one, other = map(without_casts, step.inputs)
        if step.name == "arith.mulf" and isinstance(one, Number):
            one, other = other, one
        if not isinstance(other, Number) or other.number == 0:
            break
        factor = factor * other.number if step.name == "arith.mulf" else factor / other.number
        step = one
    return step, factor


def _is_one(expression: Expression) -> bool:
    number = without_casts(expression)
    return isinstance(number, Number) and number.number == 1


def _lse_test(
    elements: AxisReader, scores: Expression, keys: frozenset[int]
) -> Callable[[Expression], bool]:
    """Whether an expression is the logarithm of the sum of the scores' exponentials."""

    def alike(given: Expression) -> bool:
        return elements.same(unshifted(elements, given, keys)[0], scores)

    return lambda expression: _log_of_sum(elements, expression, keys, alike)


def _log_of_sum(
    elements: AxisReader,
    expression: Expression,
    along: frozenset[int],
    wanted: Callable[[Expression], bool],
) -> bool:
    """Whether an expression is log(sum(exp(x - shift))) + shift over axes, with an x as wanted."""

    def shifted(shift: Expression, given: Expression) -> bool:
        below = _input(given, "math.exp")
        ways = _ways(below, "arith.subf")[:1] if below is not None else []
        return any(elements.same(by, shift) and wanted(x) for x, by in ways)

    sum_of_both, factor = _without_factors(expression)
    if not math.isclose(factor, 1, rel_tol=1e-5):
        return False
    for logarithm, shift in _ways(sum_of_both, "arith.addf"):
        total = _input(logarithm, "math.log")
        # JAX takes the absolute value of the sum, which is positive.
        total = total and (_input(total, "math.absf") or total)
        if total is not None and elements.axes_of(shift).isdisjoint(along):
            found = summed(elements, total, along, partial(shifted, shift))
            if found is not None:
                return True
    return False


def _beside_lse(elements: AxisReader, lse: Expression, both: Expression) -> Expression | None:
    """What stands beside `lse` in a tensor, where `both` is the logarithm of the sum of their
    exponentials."""
    (axis,) = elements.axes.new(2)
    found: list[Expression] = []

    def pair(given: Expression) -> bool:
        joined = _pieces(given.value) if isinstance(given, Leaf) else None
        if joined is None or not isinstance(given, Leaf) or len(joined[1]) != 2:
            return False
        dim, pieces = joined
        if elements.axes.now(given.places[dim]) != (axis,):
            return False
        dims = tuple(() if d == dim else axes for d, axes in enumerate(given.places))
        parts = [elements.element(piece, dims) for piece in pieces]
        rest = [part for part in parts if not elements.same(part, lse)]
        found[:] = rest
        return len(rest) == 1

    return found[0] if _log_of_sum(elements, both, frozenset({axis}), pair) else None
