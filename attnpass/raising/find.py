"""Attention that is written out: its parts, from the product with V upwards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from iree.compiler import ir

from ..ir import body_names, defining_op, element_type, has_one_use, maps, ranked_shape, users
from ..ir.bodies import predicate
from ..ir.contractions import is_contraction
from ..ir.expressions import Leaf, Number, ScalarStep, leaves_of
from ..ir.limits import HIDES_BESIDE_SEEN
from ..layout.axes import Axes, Dims, result_of
from .elements import AxisReader, Expression, without_casts
from .products import Product, axes_of, read_product
from .readers import Made, made_of
from .reductions import IS_EQUAL, all_hidden, is_largest, is_sum, summed, unshifted
from .scores import (
    Condition,
    NotRaised,
    Scores,
    Shown,
    addable,
    given_of,
    read_scores,
    times,
    without_term,
    zeroed,
)
from .sinks import (
    Behind,
    Part,
    Sink,
    find_behind,
    find_part,
    find_rescaling,
    scores_beside,
    sink_in_sum,
)

# What holds for a NaN beside itself.
_IS_NAN = ("une", "uno")
# By which factor the exponent of a power is that of e.
_POWERS = {"math.exp": 1.0, "math.exp2": math.log(2)}


@dataclass(frozen=True)
class Written:
    """Attention that is written out. `result` is what the op is to stand for, a view of the
    product with V. `more` are Q and K of another product that is added to the scores: more of
    their head dim, behind what `query` and `key` have. Axes by role: `batch` in all operands,
    `rows` in the query only, `depth` of query and key, `keys` of key and value, `width` of the
    value and the result."""

    elements: AxisReader
    query: Leaf
    key: Leaf
    value: Leaf
    scores: Scores
    product: ir.Operation
    result: Leaf
    more: tuple[Leaf, Leaf] | None
    batch: frozenset[int]
    rows: frozenset[int]
    depth: frozenset[int]
    keys: frozenset[int]
    width: frozenset[int]
    sink: Sink | None = None
    # Other products that read what is made of the scores.
    beside: tuple[ir.Operation, ...] = ()

    @property
    def axes(self) -> Axes:
        return self.elements.axes


def read_attention(op: ir.Operation, joins_heads: bool = False) -> Written:
    """The attention whose product with V is `op`; NotRaised where it is none. With `joins_heads`
    scores that are the sum of two products, of which one reads V, are those of a longer head
    dim."""
    elements = AxisReader(Axes())
    product = read_product(op, elements)
    if product is None:
        raise NotRaised("the product with V is no plain matrix product")
    for weights, value in (product.factors(), product.factors()[::-1]):
        given = elements.element(*weights)
        part = find_part(elements, given)
        makers = [defining_op(leaf.value) for leaf in leaves_of(part.whole if part else given)]
        if any(_is_softmax(op) or is_sum(op) for op in makers):
            return _with_weights(elements, product, given, part, value, joins_heads)
        if (late := _divided_late(elements, product, given)) is not None:
            return _with_weights(elements, product, given, None, value, joins_heads, late)
    raise NotRaised("no factor of the product is a softmax")


def _with_weights(
    elements: AxisReader,
    product: Product,
    weights: Expression,
    part: Part | None,
    value: tuple[ir.Value, Dims],
    joins_heads: bool,
    late: Behind | None = None,
) -> Written:
    axes = elements.axes
    keys = elements.axes_of(weights) - axes_of(product.result, axes)
    whole = frozenset(part.wide) if part else keys
    divided = part.whole if part else late.whole if late else weights
    powers = _exponent(elements, divided, whole)
    # What reads the weights may have cut axes.
    keys = frozenset(axes.now(sorted(keys)))
    exponent, sink = powers.exponent, None
    if part is not None:
        exponent, score = scores_beside(elements, exponent, part)
        sink = Sink(score, powers.factor)
    elif powers.beside is not None:
        exponent, score = sink_in_sum(elements, exponent, powers.beside, powers.name, keys)
        sink = Sink(score, powers.factor)
    behind = late.result if late else Leaf(product.op.results[0], product.result)
    result, rescaling = _last_view(elements, behind), None
    last = late.op if late else None
    if sink is None and not powers.shown and powers.name == "math.exp" and late is None:
        rescaling = find_rescaling(elements, result, exponent, keys)
    if rescaling is not None:
        last, exponent, sink = rescaling.op, rescaling.scores, Sink(rescaling.sink, 1.0)
        result = _last_view(elements, rescaling.result)
    if sink is not None and (powers.shown or (part and powers.beside)):
        raise NotRaised("it has a sink, and a condition or another sink beside its softmax")
    scores, scored = _scores(elements, without_casts(exponent), keys)
    joined = _joined(elements, scores, scored, keys, value) if joins_heads else None
    if joined is not None:
        scores, scored = joined.scores, joined.scored
    if sink is not None and scores.shifted:
        raise NotRaised("the scores of a row are all shifted, and the sink beside them is not")
    scores = times(addable(zeroed(scores, powers.zeroed, elements)), powers.factor)
    for where, holds in powers.shown:
        scores = replace(scores, mask=Shown(where, holds, scores.mask, -math.inf))
    first = _product_of(elements, scored)
    made = made_of(scored.value, last)
    _check_made(made, sink, powers.shown)
    keys = frozenset(axes.now(sorted(keys)))
    factors = _query_and_key(first, keys, axes)
    result = Leaf(result.value, axes.dims(result.places))
    operands = _operands(elements, *factors, value)
    more: tuple[Leaf, Leaf] | None = None
    if joined is not None:
        own_query, own_key = _query_and_key(joined.other, keys, axes)
        more = _keeping(elements, *own_query), elements.below_views(*own_key)
    if not scores.row_factors:
        operands, more = _narrowed(elements, operands, more, _rounded(weights, part))
    written = _sorted(elements, operands, more, scores, product, result, keys)
    if sink is not None and not elements.axes_of(sink.score) <= written.batch | written.rows:
        raise NotRaised("its sink has a dim that the result lacks")
    beside = tuple(op for op in made.products if op != product.op)
    return replace(written, sink=sink, beside=beside)


def _check_made(made: Made, sink: Sink | None, shown: Iterable[Condition]) -> None:
    """NotRaised where what is `made` of the scores is read beside the attention."""
    if sink is not None and any(leaf.value in made for leaf in leaves_of(sink.score)):
        raise NotRaised("it has a sink that is made of its scores")
    if any(leaf.value in made for where, _ in shown for leaf in leaves_of(where)):
        raise NotRaised("what hides keys is made of the scores")
    if made.others:
        raise NotRaised(
            f"{made.others[0].name} reads what is made of the scores, too: they are needed in "
            "memory"
        )


def _divided_late(elements: AxisReader, product: Product, weights: Expression) -> Behind | None:
    """What alone reads the product of exponentials with V and divides it, as if it divided the
    exponentials; None where these are none."""
    _, powers = _shown(without_casts(weights))
    if not isinstance(powers, ScalarStep) or powers.name not in _POWERS:
        return None
    result = _last_view(elements, Leaf(product.op.results[0], product.result))
    behind = find_behind(elements, result)
    if behind is None or not isinstance(behind.whole, ScalarStep):
        return None
    inputs = tuple(
        weights if elements.same(one, behind.given) else one for one in behind.whole.inputs
    )
    return replace(behind, whole=replace(behind.whole, inputs=inputs, whole=None))


def _query_and_key(
    product: Product, keys: frozenset[int], axes: Axes
) -> tuple[tuple[ir.Value, Dims], tuple[ir.Value, Dims]]:
    """The factors of the scores, the one with the keys last."""
    one, other = product.factors()
    if keys & axes_of(one[1], axes):
        one, other = other, one
    if keys & axes_of(one[1], axes) or not keys <= axes_of(other[1], axes):
        raise NotRaised("both factors of the scores have dims of the keys, or none has all")
    return one, other


@dataclass(frozen=True)
class _Joined:
    """Scores made of the product `scored`, the one that reads what V is, to which `other` is
    added before all else."""

    scores: Scores
    scored: Leaf
    other: Product


def _joined(
    elements: AxisReader,
    scores: Scores,
    scored: Leaf,
    keys: frozenset[int],
    value: tuple[ir.Value, Dims],
) -> _Joined | None:
    """Two products that are added to each other, where one of them reads what V is."""
    if scores.mask is None:
        return None
    cache = elements.below_views(*value).value
    for given in given_of(scores.mask):
        leaf = without_casts(given)
        if not isinstance(leaf, Leaf) or not is_contraction(defining_op(leaf.value)):
            continue
        alone = without_term(scores, leaf, elements)
        if alone is None or elements.axes_of(leaf) != elements.axes_of(scored):
            continue
        for first, second in ((scored, leaf), (leaf, scored)):
            product = _product_of(elements, first)
            key = _query_and_key(product, keys, elements.axes)[1]
            if elements.below_views(*key).value == cache:
                return _Joined(alone, first, _product_of(elements, second))
    return None


def _operands(
    elements: AxisReader,
    query: tuple[ir.Value, Dims],
    key: tuple[ir.Value, Dims],
    value: tuple[ir.Value, Dims],
) -> tuple[Leaf, Leaf, Leaf]:
    """What Q, K and V are views of: K and V without repeats, where both are repeated alike."""
    axes = elements.axes
    whole = [_keeping(elements, *given) for given in (query, key, value)]
    bare = [elements.below_views(*given) for given in (key, value)]
    lost = [
        axes_of(leaf.places, axes) - axes_of(below.places, axes)
        for leaf, below in zip(whole[1:], bare, strict=True)
    ]
    alike = lost[0] == lost[1] and lost[0] <= axes_of(query[1], axes)
    key_leaf, value_leaf = bare if alike else whole[1:]
    return whole[0], key_leaf, value_leaf


def _keeping(elements: AxisReader, value: ir.Value, dims: Dims) -> Leaf:
    """The tensor that `value` is a view of, repeats left in place."""
    leaf = Leaf(value, dims)
    while True:
        below = elements.one_view(leaf)
        if below is None or axes_of(below.places, elements.axes) != axes_of(
            leaf.places, elements.axes
        ):
            return Leaf(leaf.value, elements.axes.dims(leaf.places))
        leaf = below


def _sorted(
    elements: AxisReader,
    operands: tuple[Leaf, Leaf, Leaf],
    more: tuple[Leaf, Leaf] | None,
    scores: Scores,
    product: Product,
    result: Leaf,
    keys: frozenset[int],
) -> Written:
    """The attention with its axes by role, all of which are cut by now."""
    axes = elements.axes
    query, key, value = (axes_of(leaf.places, axes) for leaf in operands)
    out = axes_of(result.places, axes)
    keys = frozenset(axes.now(sorted(keys)))
    batch, rows = query & key & value & out, (query & out) - key - value
    depth, width = (query & key) - out - value, (value & out) - query - key
    if not depth or not width or not keys:
        raise NotRaised("it has no dim of keys, of Q and K, or of V")
    if not all(isinstance(axes.size(axis), int) for axis in depth):
        raise NotRaised("its head dim is known only at run time: IREE's attention is wrong then")
    if query != batch | rows | depth or key != batch | keys | depth:
        raise NotRaised("Q or K has a dim that the others lack")
    if more is not None:
        query, key = (axes_of(leaf.places, axes) for leaf in more)
        if query - key != rows or key - query != keys or not batch <= query & key:
            raise NotRaised("the products that are added to each other differ in their dims")
    if value != batch | keys | width or out != batch | rows | width:
        raise NotRaised("V or the result has a dim that the others lack")
    kind = str(element_type(operands[0].value))
    if scores.row_factors and kind not in ("f32", scores.rounded):
        raise NotRaised(
            f"the scores are multiplied by a tensor, and not rounded to {kind}, as Q times it is"
        )
    return Written(
        elements, *operands, scores, product.op, result, more, batch, rows, depth, keys, width
    )


def _rounded(weights: Expression, part: Part | None) -> Expression:
    """The weights below casts to a wider type, and below the slice that drops the sink's."""
    weights = _below_widening(weights)
    return part.whole if part and isinstance(weights, Leaf) else weights


def _below_widening(expression: Expression) -> Expression:
    while isinstance(expression, ScalarStep) and expression.name == "arith.extf":
        expression = expression.inputs[0]
    return expression


def _narrowed(
    elements: AxisReader,
    operands: tuple[Leaf, Leaf, Leaf],
    more: tuple[Leaf, Leaf] | None,
    weights: Expression,
) -> tuple[tuple[Leaf, Leaf, Leaf], tuple[Leaf, Leaf] | None]:
    """The operands before they are cast to a wider type, where the weights are rounded to the
    type that all had."""
    query, key, value, *others = (_before_cast(elements, at) for at in (*operands, *(more or ())))
    kinds = {str(element_type(leaf.value)) for leaf in (query, key, value, *others)}
    rounded = _below_widening(weights)
    if not isinstance(rounded, ScalarStep) or {str(rounded.op.results[0].type)} != kinds:
        return operands, more
    return (query, key, value), (others[0], others[1]) if others else None


def _before_cast(elements: AxisReader, leaf: Leaf) -> Leaf:
    expression = elements.element(leaf.value, leaf.places)
    if isinstance(expression, ScalarStep) and expression.name == "arith.extf":
        (given,) = expression.inputs
        source = given.whole if isinstance(given, ScalarStep) else given
        same = isinstance(source, Leaf) and elements.axes_of(source) == elements.axes_of(leaf)
        if same and isinstance(source, Leaf) and len(source.places):
            return source
    return leaf


@dataclass(frozen=True)
class _Powers:
    """Weights that are exp(factor * exponent), 0 where not all conditions of `shown` hold,
    divided by their sum over the keys and what stands `beside` it; `name` is the op of the powers.
    Keys that conditions of `zeroed` hide in the exponent have the weight 0 in all rows."""

    exponent: Expression
    factor: float = 1.0
    shown: tuple[Condition, ...] = ()
    zeroed: tuple[Condition, ...] = ()
    beside: Expression | None = None
    name: str = "math.exp"


def _exponent(elements: AxisReader, weights: Expression, keys: frozenset[int]) -> _Powers:
    """The exponentials that the weights are made of."""
    blind, expression = _guarded_rows(elements, without_casts(weights), keys)
    largest, expression = _guarded(_unguarded(elements, expression))
    outside, expression = _shown(expression)
    if isinstance(expression, Leaf) and _is_softmax(op := defining_op(expression.value)):
        assert op is not None
        along = expression.places[ir.IntegerAttr(op.attributes["dimension"]).value]
        if set(elements.axes.now(along)) != keys:
            raise NotRaised("its softmax is not over the keys")
        exponent = elements.element(op.operands[0], expression.places)
        outside, zeros = _counted(elements, outside, exponent)
        if outside or largest is not None:
            raise NotRaised("a condition makes some weights 0 that their sum counts")
        _refuse_other_rows(elements, blind, exponent, keys)
        return _Powers(exponent, zeroed=zeros)
    if not isinstance(expression, ScalarStep):
        raise NotRaised("the weights are no quotient of exponentials")
    numerator, total = _quotient(expression)
    inside, numerator = _shown(without_casts(numerator))
    total = without_casts(total)
    if not isinstance(numerator, ScalarStep) or numerator.name not in _POWERS:
        raise NotRaised("what is divided are no exponentials")
    beside: Expression | None = None

    def wanted(given: Expression) -> bool:
        return elements.same(_shown(without_casts(given))[1], numerator)

    counted_all = summed(elements, total, keys, wanted)
    if counted_all is None and isinstance(total, ScalarStep) and total.name == "arith.addf":
        for part, other in (total.inputs, total.inputs[::-1]):
            if counted_all is None:
                counted_all, beside = summed(elements, without_casts(part), keys, wanted), other
    if counted_all is None:
        raise NotRaised("the exponentials are not divided by their own sum over the keys")
    counted, _ = _shown(without_casts(counted_all))
    exponent = numerator.inputs[0]
    _refuse_other_rows(elements, blind, exponent, keys)
    if largest is not None and not _hides_rows(elements, largest, exponent, keys):
        raise NotRaised("a condition makes the weights of some rows 0")
    outside, zeros = _counted(elements, outside, exponent)
    hidden = _hiding(exponent)
    seen, known = [*outside, *inside, *hidden], [*counted, *hidden]
    if not (_among(elements, seen, known) and _among(elements, known, seen)):
        raise NotRaised("a condition makes some weights 0 that their sum counts")
    rest = tuple(one for one in counted if not _among(elements, [one], hidden))
    return _Powers(exponent, _POWERS[numerator.name], rest, zeros, beside, numerator.name)


def _unguarded(elements: AxisReader, expression: Expression) -> Expression:
    """x where the expression is 0 instead of NaN, else x: rows that see no key are 0 in any
    case."""
    if not isinstance(expression, ScalarStep) or expression.name != "arith.select":
        return expression
    test, then, other = expression.inputs
    is_test = isinstance(test, ScalarStep) and test.name == "arith.cmpf"
    if not is_test or not isinstance(then, Number) or then.number != 0:
        return expression
    assert isinstance(test, ScalarStep)
    nan = predicate(test.op) in _IS_NAN
    alike = all(elements.same(given, other) for given in test.inputs)
    return without_casts(other) if nan and alike else expression


def _guarded_rows(
    elements: AxisReader, expression: Expression, keys: frozenset[int]
) -> tuple[Expression | None, Expression]:
    """(y, x) where the expression is 0 in rows all of whose y are -inf, and x elsewhere; else
    (None, itself)."""
    if isinstance(expression, ScalarStep) and expression.name == "arith.select":
        test, then, other = expression.inputs
        scores = all_hidden(elements, test, keys)
        if scores is not None and isinstance(then, Number) and then.number == 0:
            return scores, without_casts(other)
    return None, expression


def _refuse_other_rows(
    elements: AxisReader, blind: Expression | None, exponent: Expression, keys: frozenset[int]
) -> None:
    """NotRaised where the rows that `_guarded_rows` found are not those that see no key, which are
    0 in any case."""
    if blind is None:
        return
    scores, _ = unshifted(elements, exponent, keys)
    if not elements.same(blind, scores):
        raise NotRaised("a condition makes the weights of some rows 0")


def _guarded(expression: Expression) -> tuple[Expression | None, Expression]:
    """(y, x) where the expression is 0 where y is -inf, and x elsewhere; else (None, itself)."""
    if isinstance(expression, ScalarStep) and expression.name == "arith.select":
        test, then, other = expression.inputs
        is_zero = isinstance(then, Number) and then.number == 0
        if is_zero and isinstance(test, ScalarStep) and test.name == "arith.cmpf":
            equal = predicate(test.op) in IS_EQUAL
            value, least = test.inputs
            if equal and isinstance(least, Number) and least.number == -math.inf:
                return without_casts(value), without_casts(other)
    return None, expression


def _hides_rows(
    elements: AxisReader, largest: Expression, exponent: Expression, keys: frozenset[int]
) -> bool:
    """Whether the largest number over the keys of what is added to scores is given: where it is
    -inf the row sees no key, and is 0 in any case."""
    while isinstance(inner := without_casts(exponent), ScalarStep) and inner.name == "arith.subf":
        exponent = inner.inputs[0]
    # Not the maximum of seen keys alone: where none is seen, hidden ones may still weigh.
    return isinstance(largest, Leaf) and any(
        is_largest(elements, largest, keys, partial(elements.same, term))
        for term in _added(without_casts(exponent))
    )


def _added(expression: Expression) -> Iterator[Expression]:
    """A sum, and what it adds up."""
    yield expression
    if isinstance(expression, ScalarStep) and expression.name == "arith.addf":
        for given in expression.inputs:
            yield from _added(without_casts(given))


def _shown(expression: Expression) -> tuple[list[Condition], Expression]:
    """(conditions, x) where the expression is x, or 0 where a condition does not hold."""
    conditions: list[Condition] = []
    while (chosen := _chosen(expression)) is not None and chosen[2] == 0:
        conditions.append(chosen[0])
        expression = without_casts(chosen[1])
    return conditions, expression


def _chosen(expression: Expression) -> tuple[Condition, Expression, float] | None:
    """(condition, x, number) where the expression is x, or the number where it does not hold."""
    if not isinstance(expression, ScalarStep) or expression.name != "arith.select":
        return None
    where, *sides = expression.inputs
    for holds, (shown, hidden) in ((True, sides), (False, sides[::-1])):
        if isinstance(hidden, Number):
            return (where, holds), shown, hidden.number
    return None


def _hiding(exponent: Expression, least: float = -math.inf) -> list[Condition]:
    """Conditions that, where they do not hold, make the exponent so low that its power is 0: as low
    as `least`."""
    exponent = without_casts(exponent)
    while isinstance(exponent, ScalarStep) and exponent.name == "arith.subf":
        exponent = without_casts(exponent.inputs[0])
    chosen = _chosen(exponent)
    return [chosen[0]] if chosen is not None and chosen[2] <= least else []


def _counted(
    elements: AxisReader, outside: Sequence[Condition], exponent: Expression
) -> tuple[list[Condition], tuple[Condition, ...]]:
    """The conditions that make weights 0, and those of them that hide the same keys in the
    exponent: their sum counts these keys in rows that see no other, which are 0."""
    hidden = _hiding(exponent, HIDES_BESIDE_SEEN)
    zeros = tuple(one for one in outside if _among(elements, [one], hidden))
    return [one for one in outside if one not in zeros], zeros


def _among(elements: AxisReader, some: Sequence[Condition], others: Sequence[Condition]) -> bool:
    """Whether each of `some` is one of `others`."""
    return all(
        any(elements.same(one, other) and holds == as_there for other, as_there in others)
        for one, holds in some
    )


def _quotient(step: ScalarStep) -> tuple[Expression, Expression]:
    if step.name == "arith.divf":
        return step.inputs[0], step.inputs[1]
    for one, other in (step.inputs, step.inputs[::-1]) if len(step.inputs) == 2 else ():
        inverse = without_casts(other)
        if step.name != "arith.mulf" or not isinstance(inverse, ScalarStep):
            continue
        above = inverse.inputs[0]
        if inverse.name == "arith.divf" and isinstance(above, Number) and above.number == 1:
            return one, inverse.inputs[1]
    raise NotRaised(f"the weights are made by {step.name}, not divided by their sum")


def _is_softmax(op: ir.Operation | None) -> bool:
    return op is not None and op.name == "linalg.softmax"


def _scores(
    elements: AxisReader, exponent: Expression, keys: frozenset[int]
) -> tuple[Scores, Leaf]:
    """What becomes of a product before it is the exponent, and that product."""
    wanted = elements.axes_of(exponent)
    why = NotRaised("the scores are no product")
    for leaf in leaves_of(exponent):
        if not is_contraction(defining_op(leaf.value)) or elements.axes_of(leaf) != wanted:
            continue
        try:
            return read_scores(exponent, leaf, elements, keys), leaf
        except NotRaised as reason:
            why = reason
    raise why


def _product_of(elements: AxisReader, scored: Leaf) -> Product:
    op = defining_op(scored.value)
    product = None if op is None else read_product(op, elements, scored.places)
    if product is None:
        raise NotRaised("the scores are no plain matrix product")
    return product


def _last_view(elements: AxisReader, behind: Leaf) -> Leaf:
    """The last of the views behind the product with V, and of what rounds it to fewer bits, each
    read by the next alone."""
    value, dims = behind.value, behind.places
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
    positions = maps.positions(op)
    everywhere = tuple(range(len(ranked_shape(op.results[0]))))
    return positions is not None and set(positions) == {everywhere}
