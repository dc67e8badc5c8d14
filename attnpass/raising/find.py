"""Attention that is written out: its parts, from the product with V upwards."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from iree.compiler import ir

from .. import maps
from ..ir import (
    Size,
    body_names,
    defining_op,
    element_type,
    has_one_use,
    ranked_shape,
    sizes_of,
    summand,
    users,
)
from .axes import Axes, Dims, result_of
from .elements import Elements, Expression, Leaf, Number, Step, without_casts
from .products import Product, axes_of, is_product, read_product
from .scores import Given, MaskTerm, NotRaised, Scores, Shown, Sum, read_scores, times
from .sinks import Part, Sink, find_part, scores_beside, sink_in_sum, unshifted

# cmpf predicates that hold for a NaN beside itself.
_IS_NAN = (13, 14)
# Ops from the product with K to that with V.
_MOST_STEPS = 200


@dataclass(frozen=True)
class Written:
    """Attention that is written out. `result` is what the op is to stand for, a view of the
    product with V. Axes by role: `batch` in all operands, `rows` in the query only, `depth` of
    query and key, `keys` of key and value, `width` of the value and the result."""

    elements: Elements
    query: Leaf
    key: Leaf
    value: Leaf
    scores: Scores
    product: ir.Operation
    result: Leaf
    batch: frozenset[int]
    rows: frozenset[int]
    depth: frozenset[int]
    keys: frozenset[int]
    width: frozenset[int]
    sink: Sink | None = None

    @property
    def axes(self) -> Axes:
        return self.elements.axes


def read_attention(op: ir.Operation) -> Written:
    """The attention whose product with V is `op`; NotRaised where it is none."""
    elements = Elements(Axes())
    product = read_product(op, elements)
    if product is None:
        raise NotRaised("the product with V is no plain matrix product")
    for weights, value in (product.factors(), product.factors()[::-1]):
        given = elements.element(*weights)
        part = find_part(elements, given)
        makers = [defining_op(leaf.value) for leaf in _leaves(part.whole if part else given)]
        if any(_is_softmax(op) or _is_sum(op) for op in makers):
            return _with_weights(elements, product, given, part, value)
    raise NotRaised("no factor of the product is a softmax")


def _with_weights(
    elements: Elements,
    product: Product,
    weights: Expression,
    part: Part | None,
    value: tuple[ir.Value, Dims],
) -> Written:
    axes = elements.axes
    keys = elements.axes_of(weights) - axes_of(product.result, axes)
    whole = frozenset(part.wide) if part else keys
    powers = _exponent(elements, part.whole if part else weights, whole)
    # What reads the weights may have cut axes.
    keys = frozenset(axes.now(sorted(keys)))
    exponent, sink = powers.exponent, None
    if part is not None:
        exponent, score = scores_beside(elements, exponent, part)
        sink = Sink(score, powers.factor)
    elif powers.beside is not None:
        exponent, score = sink_in_sum(elements, exponent, powers.beside, powers.name, keys)
        sink = Sink(score, powers.factor)
    if sink is not None and (powers.shown or (part and powers.beside)):
        raise NotRaised("it has a sink, and a condition or another sink beside its softmax")
    exponent, shifts = unshifted(elements, exponent, keys)
    scores, scored = _scores(elements, exponent, keys)
    scores = times(scores, powers.factor)
    alike = _without_rows(scores, elements, frozenset(axes.now(sorted(keys))))
    if sink is not None and (shifts or alike != scores):
        raise NotRaised("the scores of a row are all shifted, and the sink beside them is not")
    scores = alike
    for where in powers.shown:
        scores = replace(scores, mask=Shown(where, True, scores.mask, -math.inf))
    first = _product_of(elements, scored)
    if sink is not None and any(_depends(leaf.value, first.op) for leaf in _leaves(sink.score)):
        raise NotRaised("it has a sink that is made of its scores")
    _refuse_readers(first.op, product.op)
    keys = frozenset(axes.now(sorted(keys)))
    factors = first.factors()
    if keys & axes_of(factors[0][1], axes):
        factors = factors[::-1]
    if keys & axes_of(factors[0][1], axes) or not keys <= axes_of(factors[1][1], axes):
        raise NotRaised("both factors of the scores have dims of the keys, or none has all")
    result = _last_view(elements, product)
    query, key, value_leaf = _operands(elements, factors[0], factors[1], value)
    operands = query, key, value_leaf
    rounded = _rounded(weights, part)
    written = _sorted(elements, operands, scores, product, result, keys, rounded)
    if sink is not None and not elements.axes_of(sink.score) <= written.batch | written.rows:
        raise NotRaised("its sink has a dim that the result lacks")
    return replace(written, sink=sink)


def _operands(
    elements: Elements,
    query: tuple[ir.Value, Dims],
    key: tuple[ir.Value, Dims],
    value: tuple[ir.Value, Dims],
) -> tuple[Leaf, Leaf, Leaf]:
    """What Q, K and V are views of: K and V without repeats, where both are repeated alike."""
    axes = elements.axes
    whole = [_keeping(elements, *given) for given in (query, key, value)]
    bare = [elements.below_views(*given) for given in (key, value)]
    lost = [
        axes_of(leaf.dims, axes) - axes_of(below.dims, axes)
        for leaf, below in zip(whole[1:], bare, strict=True)
    ]
    alike = lost[0] == lost[1] and lost[0] <= axes_of(query[1], axes)
    key_leaf, value_leaf = bare if alike else whole[1:]
    return whole[0], key_leaf, value_leaf


def _keeping(elements: Elements, value: ir.Value, dims: Dims) -> Leaf:
    """The tensor that `value` is a view of, repeats left in place."""
    leaf = Leaf(value, dims)
    while True:
        below = elements.one_view(leaf)
        if below is None or axes_of(below.dims, elements.axes) != axes_of(leaf.dims, elements.axes):
            return Leaf(leaf.value, elements.axes.dims(leaf.dims))
        leaf = below


def _sorted(
    elements: Elements,
    operands: tuple[Leaf, Leaf, Leaf],
    scores: Scores,
    product: Product,
    result: Leaf,
    keys: frozenset[int],
    rounded: Expression,
) -> Written:
    """The attention with its axes by role; `rounded` are the weights as V is multiplied by them."""
    axes = elements.axes
    query, key, value = (axes_of(leaf.dims, axes) for leaf in operands)
    out = axes_of(result.dims, axes)
    keys = frozenset(axes.now(sorted(keys)))
    batch, rows = query & key & value & out, (query & out) - key - value
    depth, width = (query & key) - out - value, (value & out) - query - key
    if not depth or not width or not keys:
        raise NotRaised("it has no dim of keys, of Q and K, or of V")
    if not all(isinstance(axes.size(axis), int) for axis in depth):
        raise NotRaised("its head dim is known only at run time: IREE's attention is wrong then")
    if query != batch | rows | depth or key != batch | keys | depth:
        raise NotRaised("Q or K has a dim that the others lack")
    if value != batch | keys | width or out != batch | rows | width:
        raise NotRaised("V or the result has a dim that the others lack")
    if scores.row_factors and str(element_type(operands[0].value)) != "f32":
        raise NotRaised("the scores are multiplied by a tensor, which Q in fewer bits cannot be")
    narrow = operands if scores.row_factors else _narrowed(elements, operands, rounded)
    return Written(elements, *narrow, scores, product.op, result, batch, rows, depth, keys, width)


def _rounded(weights: Expression, part: Part | None) -> Expression:
    """The weights below casts to a wider type, and below the slice that drops the sink's."""
    while isinstance(weights, Step) and weights.name == "arith.extf":
        weights = weights.inputs[0]
    return part.whole if part and isinstance(weights, Leaf) else weights


def _narrowed(
    elements: Elements, operands: tuple[Leaf, Leaf, Leaf], weights: Expression
) -> tuple[Leaf, Leaf, Leaf]:
    """The operands before they are cast to a wider type, where the weights are rounded to the
    type that all had."""
    below = [_before_cast(elements, leaf) for leaf in operands]
    kinds = {str(element_type(leaf.value)) for leaf in below}
    rounded = weights
    while isinstance(rounded, Step) and rounded.name == "arith.extf":
        rounded = rounded.inputs[0]
    if not isinstance(rounded, Step) or {str(rounded.op.results[0].type)} != kinds:
        return operands
    return below[0], below[1], below[2]


def _before_cast(elements: Elements, leaf: Leaf) -> Leaf:
    expression = elements.element(leaf.value, leaf.dims)
    if isinstance(expression, Step) and expression.name == "arith.extf":
        (given,) = expression.inputs
        source = given.whole if isinstance(given, Step) else given
        same = isinstance(source, Leaf) and elements.axes_of(source) == elements.axes_of(leaf)
        if same and isinstance(source, Leaf) and len(source.dims):
            return source
    return leaf


@dataclass(frozen=True)
class _Powers:
    """Weights that are exp(factor * exponent), 0 where not all conditions of `shown` hold,
    divided by their sum over the keys and what stands `beside` it; `name` is the op of the powers.
    """

    exponent: Expression
    factor: float = 1.0
    shown: tuple[Expression, ...] = ()
    beside: Expression | None = None
    name: str = "math.exp"


def _exponent(elements: Elements, weights: Expression, keys: frozenset[int]) -> _Powers:
    """The exponentials that the weights are made of."""
    outside, expression = _shown(_unguarded(elements, without_casts(weights)))
    if isinstance(expression, Leaf) and _is_softmax(op := defining_op(expression.value)):
        assert op is not None
        along = expression.dims[ir.IntegerAttr(op.attributes["dimension"]).value]
        if set(elements.axes.now(along)) != keys:
            raise NotRaised("its softmax is not over the keys")
        if outside:
            raise NotRaised("a condition makes some weights 0 that their sum counts")
        return _Powers(elements.element(op.operands[0], expression.dims))
    if not isinstance(expression, Step):
        raise NotRaised("the weights are no quotient of exponentials")
    numerator, total = _quotient(expression)
    inside, numerator = _shown(without_casts(numerator))
    total = without_casts(total)
    powers = {"math.exp": 1.0, "math.exp2": math.log(2)}
    if not isinstance(numerator, Step) or numerator.name not in powers:
        raise NotRaised("what is divided are no exponentials")
    summed, beside = _summed(elements, total, keys, numerator), None
    if summed is None and isinstance(total, Step) and total.name == "arith.addf":
        for part, other in (total.inputs, total.inputs[::-1]):
            if summed is None:
                summed, beside = _summed(elements, without_casts(part), keys, numerator), other
    if summed is None:
        raise NotRaised("the exponentials are not divided by their own sum over the keys")
    counted, _ = _shown(without_casts(summed))
    exponent = numerator.inputs[0]
    hidden = _hiding(without_casts(exponent))
    seen, known = [*outside, *inside, *hidden], [*counted, *hidden]
    if not (_among(elements, seen, known) and _among(elements, known, seen)):
        raise NotRaised("a condition makes some weights 0 that their sum counts")
    rest = [where for where in counted if not _among(elements, [where], hidden)]
    return _Powers(exponent, powers[numerator.name], tuple(rest), beside, numerator.name)


def _unguarded(elements: Elements, expression: Expression) -> Expression:
    """x where the expression is 0 instead of NaN, else x: rows that see no key are 0 in any
    case."""
    if not isinstance(expression, Step) or expression.name != "arith.select":
        return expression
    test, then, other = expression.inputs
    is_test = isinstance(test, Step) and test.name == "arith.cmpf"
    if not is_test or not isinstance(then, Number) or then.number != 0:
        return expression
    assert isinstance(test, Step)
    nan = ir.IntegerAttr(test.op.attributes["predicate"]).value in _IS_NAN
    alike = all(elements.same(given, other) for given in test.inputs)
    return without_casts(other) if nan and alike else expression


def _shown(expression: Expression) -> tuple[list[Expression], Expression]:
    """(conditions, x) where the expression is x, or 0 where a condition does not hold."""
    conditions: list[Expression] = []
    while isinstance(expression, Step) and expression.name == "arith.select":
        where, then, other = expression.inputs
        if not isinstance(other, Number) or other.number != 0:
            break
        conditions.append(where)
        expression = without_casts(then)
    return conditions, expression


def _hiding(exponent: Expression) -> list[Expression]:
    """Conditions that, where they do not hold, make the exponent so low that its power is 0."""
    while isinstance(exponent, Step) and exponent.name == "arith.subf":
        exponent = without_casts(exponent.inputs[0])
    if not isinstance(exponent, Step) or exponent.name != "arith.select":
        return []
    where, _, other = exponent.inputs
    return [where] if isinstance(other, Number) and other.number == -math.inf else []


def _among(elements: Elements, some: Sequence[Expression], others: Sequence[Expression]) -> bool:
    """Whether each of `some` is one of `others`."""
    return all(any(elements.same(one, other) for other in others) for one in some)


def _quotient(step: Step) -> tuple[Expression, Expression]:
    if step.name == "arith.divf":
        return step.inputs[0], step.inputs[1]
    for one, other in (step.inputs, step.inputs[::-1]) if len(step.inputs) == 2 else ():
        inverse = without_casts(other)
        if step.name != "arith.mulf" or not isinstance(inverse, Step):
            continue
        above = inverse.inputs[0]
        if inverse.name == "arith.divf" and isinstance(above, Number) and above.number == 1:
            return one, inverse.inputs[1]
    raise NotRaised(f"the weights are made by {step.name}, not divided by their sum")


def _is_softmax(op: ir.Operation | None) -> bool:
    return op is not None and op.name == "linalg.softmax"


def _is_sum(op: ir.Operation | None) -> bool:
    """Whether op adds up elements of one tensor."""
    if op is None or len(op.operands) != 2:
        return False
    added = summand(op)
    return added is not None and added == op.regions[0].blocks[0].arguments[0]


def _summed(
    elements: Elements, total: Expression, keys: frozenset[int], wanted: Expression
) -> Expression | None:
    """What `total` is the sum of, over `keys`: `wanted`, or 0 where conditions do not hold."""
    op = defining_op(total.value) if isinstance(total, Leaf) else None
    if op is None or not isinstance(total, Leaf) or not _is_sum(op):
        return None
    if elements.axes_of(total) & frozenset(elements.axes.now(sorted(keys))):
        return None
    positions = maps.positions_of(op.attributes["indexing_maps"])
    start = elements.element(op.operands[1], tuple(() for _ in ranked_shape(op.operands[1])))
    if positions is None or not isinstance(start, Number) or start.number != 0:
        return None
    loops = {
        loop: axes for loop, axes in zip(positions[1], total.dims, strict=True) if loop is not None
    }
    free = [loop for loop in positions[0] if loop is not None and loop not in loops]
    shape = dict(zip(positions[0], sizes_of(op.operands[0]), strict=True))
    for along in _orders(elements.axes, keys, [shape[loop] for loop in free]):
        loops.update(zip(free, along, strict=True))
        dims = tuple(() if loop is None else loops[loop] for loop in positions[0])
        summed = elements.element(op.operands[0], dims)
        if elements.same(_shown(without_casts(summed))[1], wanted):
            return summed
    return None


def _orders(axes: Axes, keys: frozenset[int], sizes: Sequence[Size]) -> Iterator[Dims]:
    """Ways in which dims of these sizes can be all of `keys`: a sum may have them in any order."""
    now = axes.now(sorted(keys))
    if len(now) == len(sizes):
        for order in itertools.permutations(now):
            if [axes.size(axis) for axis in order] == list(sizes):
                yield tuple((axis,) for axis in order)
    cut = axes.cut(now, sizes)
    if cut is not None:
        yield cut


def _scores(elements: Elements, exponent: Expression, keys: frozenset[int]) -> tuple[Scores, Leaf]:
    """What becomes of a product before it is the exponent, and that product."""
    wanted = elements.axes_of(exponent)
    why = NotRaised("the scores are no product")
    for leaf in _leaves(exponent):
        if not is_product(defining_op(leaf.value)) or elements.axes_of(leaf) != wanted:
            continue
        try:
            return read_scores(exponent, leaf, elements, keys), leaf
        except NotRaised as reason:
            why = reason
    raise why


def _leaves(expression: Expression) -> Iterator[Leaf]:
    if isinstance(expression, Leaf):
        yield expression
    elif isinstance(expression, Step):
        for given in expression.inputs:
            yield from _leaves(given)


def _product_of(elements: Elements, scored: Leaf) -> Product:
    op = defining_op(scored.value)
    product = None if op is None else read_product(op, elements, scored.dims)
    if product is None:
        raise NotRaised("the scores are no plain matrix product")
    return product


def _without_rows(scores: Scores, elements: Elements, keys: frozenset[int]) -> Scores:
    """The scores without what is added alike to all keys of a row: softmax does not see it."""

    def reduced(mask: MaskTerm | None) -> MaskTerm | None:
        if isinstance(mask, Shown):
            return replace(mask, mask=reduced(mask.mask))
        if not isinstance(mask, Sum):
            return mask
        kept = [
            (factor, reduced(term))
            for factor, term in mask.terms
            if not isinstance(term, Given) or elements.axes_of(term.what) & keys
        ]
        return Sum(tuple((factor, term) for factor, term in kept if term)) if kept else None

    return replace(scores, mask=reduced(scores.mask))


def _depends(value: ir.Value, source: ir.Operation) -> bool:
    """Whether `value` is computed of what `source` makes."""
    pending, seen = [value], set[ir.Operation]()
    while pending:
        op = defining_op(pending.pop())
        if op is None or op in seen:
            continue
        if op == source or len(seen) > _MOST_STEPS:
            return True
        seen.add(op)
        pending += op.operands
    return False


def _refuse_readers(first: ir.Operation, last: ir.Operation) -> None:
    """NotRaised where something but the product with V reads what is made of the scores."""
    pending: list[ir.Value] = list(first.results)
    seen: set[ir.Operation] = set()
    while pending:
        for user in users(pending.pop()):
            if user == last or user in seen or user.name == "tensor.dim":
                continue
            seen.add(user)
            if not user.name.startswith(("linalg.", "tensor.")) or len(seen) > _MOST_STEPS:
                raise NotRaised(
                    f"{user.name} reads what is made of the scores, too: they are needed in memory"
                )
            pending += user.results


def _last_view(elements: Elements, product: Product) -> Leaf:
    """The last of the views behind the product with V, and of what rounds it to fewer bits, each
    read by the next alone."""
    value, dims = product.op.results[0], product.result
    while has_one_use(value):
        (user,) = users(value)
        if len(user.results) != 1 or user.operands[0] != value:
            break
        after = dims if _rounds(user) else result_of(user, dims, elements.axes)
        if after is None:
            break
        value, dims = user.results[0], after
    return Leaf(value, elements.axes.dims(dims))


def _rounds(op: ir.Operation) -> bool:
    """Whether op rounds each element of a tensor, in its place."""
    if op.name != "linalg.generic" or body_names(op) != ["arith.truncf", "linalg.yield"]:
        return False
    positions = maps.positions_of(op.attributes["indexing_maps"])
    everywhere = tuple(range(len(ranked_shape(op.results[0]))))
    return positions is not None and set(positions) == {everywhere}
