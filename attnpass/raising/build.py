"""The attention op for attention that is written out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..analysis.boundary import is_held
from ..attention.barrier import store_operand, without_views
from ..attention.edit import attention_op, fill_score, no_key_seen
from ..attention.facts import describe
from ..attention.visible_keys import Mask, find_mask
from ..ir import (
    Builder,
    Size,
    copied_attributes,
    defining_op,
    element_type,
    is_elementwise,
    is_float,
    is_ranked_tensor,
    known_attribute,
    maps,
    product,
    ranked_shape,
    reached,
    sizes_of,
)
from ..ir.contractions import is_contraction
from ..ir.expressions import Index, Leaf, Number, ScalarStep, leaves_of
from ..ir.limits import LOG2_E, LOG2E_OVERFLOWS_IN_SUMS, ROW_FACTORS_IN_F16
from ..ir.views import WHOLE, below_views
from ..layout.axes import Axes, Dims
from .elements import AxisReader, Expression
from .find import Written
from .scores import Function, Given, Hiding, MaskTerm, Scores, Shown, Sum, lowering

Names = dict[Expression, ir.Value]


@dataclass(frozen=True)
class _IterationDims:
    """Attention's iteration dims: the axes of each, in their order."""

    batch: Dims
    rows: Dims
    width: Dims
    depth: Dims
    keys: Dims

    def all(self) -> Dims:
        return (*self.batch, *self.rows, *self.width, *self.depth, *self.keys)

    def places(self, dims: Dims) -> maps.Positions:
        return tuple(self.all().index(axes) for axes in dims)


def build_attention(written: Written) -> tuple[ir.Operation, ir.Value]:
    """An attention op beside one that is written out, and what can stand for `written.result`."""
    below = defining_op(written.result.value)
    assert below is not None
    build = Builder(below, written.product.location)
    loops = _loops(written)
    scale, functions, factor = _scale(written.scores)
    rows, keys = (*loops.batch, *loops.rows), (*loops.batch, *loops.keys)
    query = _whole(build, written, 0, rows, loops.depth)
    key = _whole(build, written, 1, keys, loops.depth)
    value = _arranged_leaf(build, written, written.value, (*keys, *loops.width))
    dims = (*loops.batch, *loops.rows, *loops.depth)
    query, left = _times_row_factors(build, written, query, dims)
    f32 = ir.F32Type.get(below.context)
    inputs = [query, key, value, build.constant_float(scale * left, f32)]
    positions = [
        loops.places(dims),
        loops.places((*loops.batch, *loops.keys, *loops.depth)),
        loops.places((*loops.batch, *loops.keys, *loops.width)),
        (),
    ]
    if written.scores.mask is not None:
        mask, dims = _mask(build, written, loops, written.scores.mask)
        inputs.append(mask)
        positions.append(loops.places(dims))
    results = _results(build, written, loops)
    positions += [loops.places(dims) for dims, _ in results]
    attributes = {"indexing_maps": maps.maps_attribute(len(loops.all()), positions)}
    starts = [start for _, start in results]
    op = attention_op(build, [*inputs, *starts], len(starts), attributes)
    fill_score(op, f32, lambda inner, given: _score(inner, given, functions, factor))
    made, out = op.results[0], results[0][0]
    if written.sink is not None:
        made, out = _with_sink(build, written, loops, op)
    result = written.result
    new = _arranged(build, written.axes, made, out, written.axes.dims(result.places))
    return op, build.cast(new, sizes_of(result.value))


def _whole(build: Builder, written: Written, which: int, dims: Dims, depth: Dims) -> ir.Value:
    """Q or K with these dims and its head dim, which two tensors may have parts of."""
    first = _arranged_leaf(build, written, (written.query, written.key)[which], (*dims, *depth))
    if written.more is None:
        return first
    leaf = written.more[which]
    own = frozenset(axis for dim in dims for axis in dim)
    lie = [axis for dim in written.axes.dims(leaf.places) for axis in dim]
    rest = tuple(axis for axis in lie if axis not in own)
    return build.concat([first, _arranged_leaf(build, written, leaf, (*dims, rest))], len(dims))


def _arranged_leaf(build: Builder, written: Written, leaf: Leaf, dims: Dims) -> ir.Value:
    return _arranged(build, written.axes, leaf.value, written.axes.dims(leaf.places), dims)


def _results(
    build: Builder, written: Written, loops: _IterationDims
) -> list[tuple[Dims, ir.Value]]:
    """The dims of what the op gives, and what it starts with: of attention the result, of online
    attention the sums, maxima and weights of no key."""
    rows = (*loops.batch, *loops.rows)
    out = (*rows, *loops.width)
    if written.sink is None:
        kind = element_type(written.result.value)
        return [(out, build.empty([_size(written.axes, axes) for axes in out], kind))]
    sizes = [[_size(written.axes, axes) for axes in dims] for dims in (out, rows, rows)]
    return list(zip((out, rows, rows), no_key_seen(build, sizes), strict=True))


def _with_sink(
    build: Builder, written: Written, loops: _IterationDims, op: ir.Operation
) -> tuple[ir.Value, Dims]:
    """What online attention has summed up, divided by all weights, the sink's among them:
    exp2(log2(e) * sink - max), since its maxima are of scores times log2(e). The division writes
    its dims, which are returned, in the order in which the result is read."""
    sink = written.sink
    assert sink is not None
    f32 = ir.F32Type.get(build.anchor.context)
    output, largest, total = op.results
    rows = (*loops.batch, *loops.rows)
    scale = sink.factor * LOG2_E
    inputs, places = [largest, total], [tuple(range(len(rows)))] * 2
    number = sink.score.number if isinstance(sink.score, Number) else None
    if number is None:
        have = written.elements.axes_of(sink.score)
        dims = tuple(dim for dim in rows if have.intersection(dim))
        flat = tuple((axis,) for dim in dims for axis in dim)
        value = _computed(
            build, written, [sink.score], flat, (), lambda body, _: body.float(sink.score)
        )
        inputs.append(_arranged(build, written.axes, value, flat, dims))
        places.append(tuple(rows.index(dim) for dim in dims))

    def weights(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        score = x[2] if number is None else inner.constant_float(number, f32)
        score = _multiplied(inner, score, scale)
        below = inner.subf(score, x[0])
        power = inner.apply("math.exp2", below)
        return [inner.addf(x[1], power)]

    def quotient(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        return inner.cast_float(inner.divf(x[0], x[1]), kind)

    init = build.empty(sizes_of(total), f32)
    (total,) = build.generic(inputs, [init], [*places, places[0]], weights)
    have = (*rows, *loops.width)
    lie = [axis for dim in written.axes.dims(written.result.places) for axis in dim]
    out = tuple(sorted(have, key=lambda dim: lie.index(dim[0]) if dim else -1))
    kind = element_type(written.result.value)
    sizes = [_size(written.axes, dim) for dim in out]
    read = [(output, tuple(map(out.index, have))), (total, tuple(map(out.index, rows)))]
    return build.computed(sizes, kind, quotient, *read), out


def keep_mask_in_memory(op: ir.Operation, of_positions: bool) -> None:
    """Has a mask that is computed of tensors, or `of_positions` alone as well, stored before
    attention reads it. IREE would compute it anew in each head and tile, where i1 elements are
    read one by one, and a CPU's vector loops read masks from memory alone: 2.4 times as slow.
    GPUs best compute what depends on positions alone within."""
    facts = describe(op)
    if not facts.has_mask:
        return
    row = next(dim for dim in reversed(facts.map_of("query")) if dim in facts.m)
    found = find_mask(facts, row)
    known = isinstance(found, Mask) and found.kind != "operand"
    if known and not of_positions and not _reads_elements(facts.value("mask")):
        return
    reader, number = without_views(op, facts.index("mask"))
    made = defining_op(reader.operands[number], "linalg.generic")
    if made is not None:
        store_operand(reader, number)
        for place, given in enumerate(made.operands):
            # Or IREE makes the mask in the tiles of a product that it repeats.
            if len(ranked_shape(given)) < len(ranked_shape(made.results[0])) and _is_product(given):
                store_operand(made, place)


def _is_product(value: ir.Value) -> bool:
    """Whether a tensor is a product's result, cast or seen through views."""
    value = below_views(value, WHOLE)
    op = defining_op(value)
    while op is not None and is_elementwise(op) and len(op.operands) == 2:
        op = defining_op(below_views(op.operands[0], WHOLE))
    return op is not None and is_contraction(op)


def _reads_elements(mask: ir.Value) -> bool:
    """Whether a mask is made of a tensor that is in memory, as a triangle kept as a buffer is, not
    of positions and numbers alone."""

    def is_in_memory(value: ir.Value) -> bool:
        op = defining_op(value)
        if op is None or op.name != "arith.constant" or not is_ranked_tensor(value):
            return is_held(value)
        attribute = known_attribute(op, "value")
        return not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat

    def operands(value: ir.Value) -> Sequence[ir.Value]:
        op = defining_op(value)
        return [] if op is None else list(op.operands)

    return any(map(is_in_memory, reached([mask], operands)))


def _scale(scores: Scores) -> tuple[float, tuple[Function, ...], float]:
    """The scale before the score functions, these, and the factor behind them."""
    functions = scores.functions
    if not functions:
        return scores.factor, (), 1.0
    first, cap = functions[0], scores.factor
    if len(functions) == 1 and first.name == "math.tanh" and cap > 0:
        # As a soft-cap is usually written: cap * tanh(s / cap).
        return first.factor * cap, (Function("math.tanh", 1 / cap),), cap
    return 1.0, functions, scores.factor


def _score(
    build: Builder, score: ir.Value, functions: Sequence[Function], factor: float
) -> ir.Value:
    for function in functions:
        score = _multiplied(build, score, function.factor)
        operands = [score]
        if function.number is not None:
            operands.append(build.constant_float(function.number, score.type))
        score = build.create(function.name, [score.type], operands).results[0]
    return _multiplied(build, score, factor)


def _multiplied(build: Builder, value: ir.Value, factor: float) -> ir.Value:
    if factor == 1:
        return value
    return build.mulf(value, factor)


def _size(axes: Axes, dim: Sequence[int]) -> Size:
    return product([axes.size(axis) for axis in dim])


def _arranged(build: Builder, axes: Axes, value: ir.Value, have: Dims, want: Dims) -> ir.Value:
    """`value`, whose dims have the axes `have`, with dims that have the same axes as `want`."""
    follows = {a: b for dim in want for a, b in itertools.pairwise(dim)}
    parts: list[list[tuple[int, ...]]] = []
    for dim in have:
        runs: list[tuple[int, ...]] = []
        for axis in dim:
            if runs and follows.get(runs[-1][-1]) == axis:
                runs[-1] = (*runs[-1], axis)
            else:
                runs.append((axis,))
        parts.append(runs)
    flat = [run for runs in parts for run in runs]
    owner = {axis: number for number, run in enumerate(flat) for axis in run}
    order = [list(dict.fromkeys(owner[axis] for axis in dim)) for dim in want]
    value = build.split_dims(value, [[_size(axes, run) for run in runs] for runs in parts])
    value = build.transpose(value, [number for dim in order for number in dim])
    sizes = [_size(axes, dim) for dim in want]
    return build.join_dims(value, [len(dim) for dim in order], sizes)


def _times_row_factors(
    build: Builder, written: Written, query: ir.Value, dims: Dims
) -> tuple[ir.Value, float]:
    """The query, times what the scores are multiplied by alike for all keys, and what is left to
    multiply them by: f16 has it in smaller numbers, since Q may be larger than the scores."""
    factors = written.scores.row_factors
    if not factors:
        return query, 1.0
    flat = tuple((axis,) for dim in dims for axis in dim)
    kind = element_type(query)
    shrunk = ROW_FACTORS_IN_F16 if str(kind) == "f16" else 1.0

    def make(body: _Body, given: Sequence[ir.Value]) -> ir.Value:
        (query,) = given
        build, value = body.build, _multiplied(body.build, body.widened(query), shrunk)
        for factor in factors:
            by = body.float(factor.what)
            value = build.divf(value, by) if factor.divides else build.mulf(value, by)
        return build.cast_float(value, kind)

    whole = _arranged(build, written.axes, query, dims, flat)
    leaves = [factor.what for factor in factors]
    made = _computed(build, written, leaves, flat, [whole], make, kind)
    return _arranged(build, written.axes, made, flat, dims), 1 / shrunk


# Iteration dims.


def _loops(written: Written) -> _IterationDims:
    axes = written.axes
    lies = [
        [axis for dim in axes.dims(leaf.places) for axis in dim]
        for leaf in (written.query, written.key, written.value, written.result)
    ]
    masked = _axes_of_mask(written)
    sunk = frozenset() if written.sink is None else written.elements.axes_of(written.sink.score)

    def ordered(wanted: frozenset[int], tensor: int) -> list[int]:
        return [axis for axis in lies[tensor] if axis in wanted]

    def grouped(wanted: list[int]) -> list[tuple[int, ...]]:
        """Neighbours everywhere as one dim."""
        groups: list[tuple[int, ...]] = []
        for axis in wanted:
            if groups and _neighbours(groups[-1][-1], axis, lies, (masked, sunk)):
                groups[-1] = (*groups[-1], axis)
            else:
                groups.append((axis,))
        return groups

    rows = grouped(ordered(written.rows, 0)) or [()]
    crowded = _beside(written, written.batch)
    # Rows proper last: heads that share keys and values stand beside the heads that do not.
    rows.sort(key=lambda group: (not crowded.intersection(group), bool(masked.intersection(group))))
    return _IterationDims(
        tuple(grouped(ordered(written.batch, 3))),
        tuple(rows),
        (tuple(ordered(written.width, 2)),),
        (tuple(ordered(written.depth, 1)),),
        (tuple(ordered(written.keys, 1)),),
    )


def _neighbours(
    a: int, b: int, lies: Sequence[Sequence[int]], given: Sequence[frozenset[int]]
) -> bool:
    if any((a in axes) != (b in axes) for axes in given):
        return False
    return all(line.index(b) == line.index(a) + 1 for line in lies if a in line)


def _beside(written: Written, wanted: frozenset[int]) -> frozenset[int]:
    """Axes that share a dim of the query or the result with one of `wanted`."""
    dims = [*written.query.places, *written.result.places]
    shared = [dim for dim in map(written.axes.now, dims) if wanted.intersection(dim)]
    return frozenset(axis for dim in shared for axis in dim)


# The mask.


def _axes_of_mask(written: Written) -> frozenset[int]:
    if written.scores.mask is None:
        return frozenset()
    given = map(written.elements.axes_of, _given(written.scores.mask))
    # What is added to a row may round its scores away, and is a mask as long as the keys, too.
    return written.keys.union(*given)


def _given(mask: MaskTerm) -> Iterator[Expression]:
    """The expressions of the program that a mask is made of."""
    if isinstance(mask, Given):
        yield mask.what
    elif isinstance(mask, Sum):
        for _, term in mask.terms:
            yield from _given(term)
    elif isinstance(mask, Hiding):
        yield from _given(mask.mask)
    else:
        yield mask.where
        if mask.mask is not None:
            yield from _given(mask.mask)


def _mask(
    build: Builder, written: Written, loops: _IterationDims, mask: MaskTerm
) -> tuple[ir.Value, Dims]:
    """The mask as a tensor, and the loops that its dims are."""
    whole = _as_it_is(written.elements, mask)
    everything = (*loops.batch, *loops.rows, *loops.keys)
    if whole is not None:
        dims = written.axes.dims(whole.places)
        have = tuple(dim for dim in dims if dim)
        if loops.keys[0] in have and all(dim in everything for dim in have):
            if loops.keys[0] in have[:-1]:
                have = tuple(dim for dim in everything if dim in have)
            return _arranged(build, written.axes, whole.value, dims, have), have
    masked = _axes_of_mask(written)
    dims = tuple(dim for dim in everything if masked.intersection(dim))
    flat = tuple((axis,) for dim in dims for axis in dim)
    given = list(_given(mask))
    if _is_choice(mask) and any(True for what in given for _ in leaves_of(what)):
        # A byte for each element of what is put in memory.
        kind = ir.IntegerType.get_signless(1, build.anchor.context)
        value = _computed(build, written, given, flat, (), lambda body, _: _seen(body, mask), kind)
        return _arranged(build, written.axes, value, flat, dims), dims
    query = element_type(written.query.value)
    # Rounded to what the operands are of, it needs no more.
    kind = query if _rounded_to(mask, str(query)) else ir.F32Type.get(build.anchor.context)
    value = _computed(
        build,
        written,
        given,
        flat,
        (),
        lambda body, _: body.build.cast_float(_added(body, mask), kind),
        kind,
    )
    return _arranged(build, written.axes, value, flat, dims), dims


def _is_choice(mask: MaskTerm) -> bool:
    """Whether a mask hides keys wholly, or leaves their scores as they are."""
    if not isinstance(mask, Shown) or mask.hidden != -math.inf:
        return False
    return mask.mask is None or _is_choice(mask.mask)


def _rounded_to(mask: MaskTerm, kind: str) -> bool:
    """Whether a mask has numbers of a type of floats alone."""
    if isinstance(mask, Shown) and mask.hidden == -math.inf and mask.mask is not None:
        return _rounded_to(mask.mask, kind)
    return isinstance(mask, Sum) and mask.kind == kind


def _as_it_is(elements: AxisReader, mask: MaskTerm) -> Leaf | None:
    """The tensor that says the same as the mask."""
    if isinstance(mask, Sum) and len(mask.terms) == 1 and mask.terms[0][0] == 1:
        term = mask.terms[0][1]
        return elements.tensor(term.what) if isinstance(term, Given) else None
    if isinstance(mask, Shown) and mask.holds and mask.mask is None and mask.hidden == -math.inf:
        return elements.tensor(mask.where)
    return None


def _computed(
    build: Builder,
    written: Written,
    expressions: Sequence[Expression],
    dims: Dims,
    first: Sequence[ir.Value],
    make: Callable[[_Body, Sequence[ir.Value]], ir.Value],
    kind: ir.Type | None = None,
) -> ir.Value:
    """A tensor in f32, or of `kind`, with one axis a dim: what `make` makes, in the body of a
    generic, of `expressions` and of the elements of `first`, which have all dims."""
    elements, axes = written.elements, written.axes
    loop = {axis: number for number, (axis,) in enumerate(dims)}
    everywhere = tuple(range(len(dims)))
    leaves = list(dict.fromkeys(leaf for what in expressions for leaf in _inputs(elements, what)))
    inputs = list(first)
    positions: list[maps.Positions] = [everywhere for _ in first]
    for leaf in leaves:
        have = axes.dims(leaf.places)
        flat = tuple((axis,) for dim in have for axis in dim)
        inputs.append(_arranged(build, axes, leaf.value, have, flat))
        positions.append(tuple(loop[axis] for (axis,) in flat))
    kind = kind or ir.F32Type.get(build.anchor.context)
    init = build.empty([_size(axes, dim) for dim in dims], kind)
    dynamic = [axis for axis in loop if not isinstance(axes.size(axis), int)]
    sizes = {axis: build.size(axes.size(axis)) for axis in dynamic}

    def body(inner: Builder, given: Sequence[ir.Value]) -> list[ir.Value]:
        names: Names = dict(zip(leaves, given[len(first) :], strict=False))
        return [make(_Body(inner, names, elements, loop, sizes), given[: len(first)])]

    return build.generic(inputs, [init], [*positions, everywhere], body)[0]


def _inputs(elements: AxisReader, expression: Expression) -> Iterator[Leaf]:
    """The tensors that an expression is computed of."""
    leaf = elements.tensor(expression)
    if leaf is not None:
        yield leaf
    elif isinstance(expression, ScalarStep):
        for given in expression.inputs:
            yield from _inputs(elements, given)


@dataclass(frozen=True)
class _Body:
    """The body of the generic that computes a mask."""

    build: Builder
    names: Names
    elements: AxisReader
    loop: dict[int, int]
    # Those of axes that are known only at run time.
    sizes: dict[int, ir.Value]

    def float(self, expression: Expression) -> ir.Value:
        """An expression of floats, in f32."""
        return self.widened(self.value(expression))

    def widened(self, value: ir.Value) -> ir.Value:
        return self.build.cast_float(value, ir.F32Type.get(self.build.anchor.context))

    def value(self, expression: Expression) -> ir.Value:
        leaf = self.elements.tensor(expression)
        if leaf is not None:
            return self.names[leaf]
        if isinstance(expression, ScalarStep):
            inputs = [self.value(given) for given in expression.inputs]
            kinds = [result.type for result in expression.op.results]
            attributes = copied_attributes(expression.op)
            return self.build.create(expression.name, kinds, inputs, attributes).results[0]
        if isinstance(expression, Number):
            return self.build.constant_float(expression.number, element_type(expression.value))
        if isinstance(expression, Index):
            return self._index(expression)
        return expression.value

    def _index(self, index: Index) -> ir.Value:
        axes = self.elements.axes.now(index.place)
        if not axes:
            return self.build.constant_index(0)
        total = self.build.loop_index(self.loop[axes[0]])
        for axis in axes[1:]:
            size = self.sizes.get(axis) or self.build.size(self.elements.axes.size(axis))
            above = self.build.muli(total, size)
            place = self.build.loop_index(self.loop[axis])
            total = self.build.addi(above, place)
        return total


def _seen(body: _Body, mask: MaskTerm) -> ir.Value:
    """Whether a key is seen under a mask that is a choice."""
    assert isinstance(mask, Shown)
    build, where = body.build, body.value(mask.where)
    i1 = ir.IntegerType.get_signless(1, build.anchor.context)
    yes, no = (build.constant_number(number, i1) for number in (1, 0))
    inner = yes if mask.mask is None else _seen(body, mask.mask)
    return build.select(where, *((inner, no) if mask.holds else (no, inner)))


def _added(body: _Body, mask: MaskTerm) -> ir.Value:
    """What is added to a score, in f32."""
    build = body.build
    f32 = ir.F32Type.get(build.anchor.context)
    if isinstance(mask, Given):
        value = body.value(mask.what)
        return build.cast_float(value, f32) if is_float(value.type) else value
    if isinstance(mask, Sum):
        return _sum(body, mask)
    if isinstance(mask, Hiding):
        return _hiding(build, _added(body, mask.mask), mask.start)
    shown = build.constant_float(0.0, f32) if mask.mask is None else _added(body, mask.mask)
    hidden = build.constant_float(mask.hidden, f32)
    where = body.value(mask.where)
    return build.select(where, *((shown, hidden) if mask.holds else (hidden, shown)))


def _sum(body: _Body, mask: Sum) -> ir.Value:
    build = body.build
    terms = [_multiplied(build, _added(body, term), factor) for factor, term in mask.terms]
    total, f32 = terms[0], terms[0].type
    for term in terms[1:]:
        total = build.addf(total, term)
    if mask.kind == "f32":
        return total
    return build.cast_float(build.cast_float(total, ir.Type.parse(mask.kind)), f32)


def _hiding(build: Builder, value: ir.Value, start: float) -> ir.Value:
    """`lowered` of a value."""
    least = build.addf(build.mulf(value, 0.5), LOG2E_OVERFLOWS_IN_SUMS / 2)
    low = build.maximumf(_multiplied(build, value, lowering(start)), least)
    return build.select(build.compare_floats("ogt", value, start), value, low)
