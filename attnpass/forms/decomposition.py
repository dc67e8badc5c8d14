"""Attention as products and a softmax in f32, made for right numbers alone.

The meaning is that of IREE's own lowering. Scores have the dims of batches, rows and keys: all of
Q's and K's but those that only these two share. The softmax goes over the dims of the scores that
a row's maximum lacks, and a product sums over what its result lacks. All is computed in f32, or in
f64 where an operand has it, and cast to the types of the results. Rows that see no key are 0; where
finite numbers hide all keys, they are the mean of V. The maxima that `online_attention` takes and
gives are, as IREE's, of scores times log2(e).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..attention.edit import iteration_size
from ..attention.facts import AttentionFacts
from ..attention.scores import NATURAL_SCORES, copied, score
from ..errors import AttnError
from ..ir import (
    Builder,
    Refusal,
    element_bytes,
    element_type,
    is_float,
    location_text,
    maps,
    yielded,
)
from ..ir.limits import LOG2_E, LOG2E_LOWEST_SCORE
from .normal_form import truth_mask

# What an accumulator of `online_attention` has to read, its own dims apart.
_ROWS = ("max", "sum", "output")

Scalars = Sequence[ir.Value]
# A tensor and, for each of its dims, the iteration dim of attention that it runs along.
Operand = tuple[ir.Value, Sequence["int | None"]]
# Gives the value of an iteration dim.
Index = Callable[[int], ir.Value]
Body = Callable[[Builder, Scalars, Index], ir.Value]


def describe_any(op: ir.Operation) -> AttentionFacts:
    """Facts of any attention op on tensors, with its dims sorted as IREE sorts them: a group may
    be empty, and rows or V's own dims missing from the result. AttnError where maps are no
    projected permutations, or operands no tensors."""
    place = location_text(op.location)
    positions = maps.positions(op)
    if positions is None:
        raise AttnError(f"{op.name}: an indexing map is no projected permutation", place)
    if not len(op.results):
        raise AttnError(f"{op.name}: it works on buffers, not on tensors", place)
    inputs = len(op.operands) - len(op.results)
    names = ("query", "key", "value", "scale", "mask")[:inputs]
    names += ("output", "max", "sum")[: len(op.results)]
    dims = maps.loop_count(op)
    query, key, value, output = (set(positions[i]) for i in (0, 1, 2, inputs))
    groups: dict[str, tuple[int, ...]] = {"batch": (), "m": (), "k1": (), "k2": (), "n": ()}
    for dim in range(dims):
        if (dim in query and dim in value) or (dim in key and dim in output):
            kind = "batch"
        elif dim in query:
            kind = "k1" if dim in key else "m"
        else:
            kind = "k2" if dim in key else "n"
        groups[kind] += (dim,)
    return AttentionFacts(op, positions, names, dims, **groups)


def refusal(facts: AttentionFacts) -> Refusal | None:
    """Why an attention cannot be written out, or None."""
    scores = score_dims(facts)
    if not facts.score_index_dims <= {*scores}:
        return Refusal("its region reads the index of a dim that its scores lack")
    if any(not _is_number(element_type(facts.value(name))) for name in facts.tensor_operands):
        return Refusal("its elements are no numbers")
    if facts.kind == "attention":
        return None
    rows = {*facts.map_of("max")} - {None}
    if not rows <= {*scores} or any(not rows <= {*facts.map_of(name)} for name in _ROWS):
        return Refusal("its maxima have dims that its scores, sums or output lack")
    return None


def score_dims(facts: AttentionFacts) -> tuple[int, ...]:
    """The iteration dims of scores: those of the result first, in its order, and keys last."""
    rows = (*facts.batch, *facts.m)
    written = tuple(dim for dim in facts.map_of("output") if dim in rows)
    return (*written, *(dim for dim in rows if dim not in written), *facts.k2)  # type: ignore


def score_bytes(facts: AttentionFacts) -> int:
    """Bytes of all scores; a size known only at run time is taken as ASSUMED_EXTENT."""
    return facts.assumed_extent(score_dims(facts)) * (4 if computed_type(facts).width == 32 else 8)


def decomposed(
    facts: AttentionFacts, starts: Mapping[int, ir.Value] | None = None
) -> list[ir.Value]:
    """The results of an attention that `refusal` allows, made of other ops in front of it. Its
    region counts the dims of `starts` from those indices on. Needs a current context."""
    truth_mask(facts)
    build = Builder(facts.op, facts.op.location)
    writer = _Writer(facts, build, computed_type(facts), starts or {})
    results = [writer.attention()] if facts.kind == "attention" else writer.online()
    return [writer.cast(made, name) for made, name in zip(results, facts.result_names, strict=True)]


def product(
    facts: AttentionFacts,
    build: Builder,
    left: Operand,
    right: Operand,
    result: Sequence[int | None],
) -> ir.Value:
    """The contraction of two operands over the dims that `result` lacks, in f32; dims are those
    of the attention."""
    writer = _Writer(facts, build, ir.F32Type.get(), {})
    return writer.product(left, right, result)


def masked(build: Builder, value: ir.Value, mask: ir.Value) -> ir.Value:
    """A score, a float, under an element of a mask: a number is added, false hides."""
    if is_float(mask.type):
        return build.addf(value, build.cast_float(mask, value.type))
    hidden = build.constant_float(-math.inf, value.type)
    return build.select(mask, value, hidden)


@dataclass(frozen=True)
class _Writer:
    """Writes an attention out, in numbers of the type `kind`; dims of `starts` begin there."""

    facts: AttentionFacts
    build: Builder
    kind: ir.Type
    starts: Mapping[int, ir.Value]

    def attention(self) -> ir.Value:
        """The result of `attention`."""
        dims = score_dims(self.facts)
        rows = tuple(dim for dim in dims if dim not in self.facts.k2)
        scores = self.scores(), dims
        largest = self.reduced("arith.maximumf", -math.inf, scores, rows)
        weights = self.weights(scores, (largest, rows), "math.exp"), dims
        total = self.reduced("arith.addf", 0.0, weights, rows)
        shares = self.shares(weights, (total, rows)), dims
        return self.product(shares, self.operand("value"), self.facts.map_of("output"))

    def online(self) -> list[ir.Value]:
        """The output, the maxima and the sums of `online_attention`, of those that it gets."""
        dims, rows = score_dims(self.facts), self.facts.map_of("max")
        output, maxima, total = (self.given(name) for name in self.facts.result_names)
        scores = self.in_base_2(self.scores()), dims
        highest = self.reduced("arith.maximumf", -math.inf, scores, rows)
        # Apart from weights: where one kernel gives both (from `--iree-opt-level=O2` on), IREE 3.13
        # takes unknown sizes of the first result for those of the second, if it joins dims of it.
        largest = self.apart(self.larger((highest, rows), maxima)), rows
        weights = self.weights(scores, largest, "math.exp2"), dims
        factor = self.weights(maxima, largest, "math.exp2"), rows
        # What is given is added behind: IREE 3.13 fails on some reductions that begin with it.
        made = self.product(weights, self.operand("value"), output[1])
        sums = self.reduced("arith.addf", 0.0, weights, total[1])
        return [self.added(made, output, factor), largest[0], self.added(sums, total, factor)]

    def scores(self) -> ir.Value:
        """Scores as the softmax takes them: scaled, through the region, under the mask."""
        dims = score_dims(self.facts)
        dots = self.product(self.operand("query"), self.operand("key"), dims)
        scores = self.each([(dots, dims)], dims, lambda build, x, at: self.scaled(build, x[0], at))
        if not self.facts.has_mask:
            return self.apart(scores)
        # A mask with dims beside those of scores puts one after the other on each of them.
        hidden = _generic(
            self.build,
            [self.operand("mask")],
            (scores, dims),
            lambda build, x, at: masked(build, x[1], x[0]),
        )
        return self.apart(hidden)

    def apart(self, value: ir.Value) -> ir.Value:
        """A value in memory: fused with what reads it twice, IREE gives one of an unknown size room
        on the stack."""
        return compute_barrier(self.build, value)

    def scaled(self, build: Builder, dot: ir.Value, index: Index) -> ir.Value:
        """What the region makes of a product, scaled."""
        op, given = self.facts.op, score(self.facts.op)
        # Such a region takes and yields scores times log2(e), unless queries have 8 bits.
        converted = NATURAL_SCORES in op.attributes and element_bytes(op.operands[0]) > 1
        unit = LOG2_E if converted else 1.0
        scale = build.cast_float(self.facts.value("scale"), self.kind)
        scaled = build.mulf(dot, scale)
        names = {given: build.cast_float(self.times(build, scaled, unit), given.type)}

        def counted(dim: int) -> ir.Value:
            return build.multiply_add(index(dim), 1, self.starts.get(dim, 0))

        (made,) = copied(op, [yielded(op)], build, counted, names)
        return self.times(build, build.cast_float(made, self.kind), 1 / unit)

    def in_base_2(self, scores: ir.Value) -> ir.Value:
        """Scores times log2(e), finite where they were."""

        def body(build: Builder, x: Scalars, index: Index) -> ir.Value:
            hidden = build.constant_float(-math.inf, self.kind)
            finite = build.maximumf(self.times(build, x[0], LOG2_E), LOG2E_LOWEST_SCORE)
            return build.select(build.compare_floats("oeq", x[0], hidden), hidden, finite)

        dims = score_dims(self.facts)
        return self.apart(self.each([(scores, dims)], dims, body))

    def weights(self, scores: Operand, largest: Operand, power: str) -> ir.Value:
        """Powers of scores relative to the largest of their row, or to 0 where all are hidden."""

        def body(build: Builder, x: Scalars, index: Index) -> ir.Value:
            zero = build.constant_float(0.0, self.kind)
            shift = build.select(build.compare_floats("oeq", x[1], -math.inf), zero, x[1])
            return build.apply(power, build.subf(x[0], shift))

        return self.apart(self.each([scores, largest], scores[1], body))

    def shares(self, weights: Operand, total: Operand) -> ir.Value:
        """Weights over the sum of their row, 0 where that is 0."""

        def body(build: Builder, x: Scalars, index: Index) -> ir.Value:
            zero, share = build.constant_float(0.0, self.kind), build.divf(x[0], x[1])
            return build.select(build.compare_floats("oeq", x[1], zero), zero, share)

        return self.apart(self.each([weights, total], weights[1], body))

    def larger(self, left: Operand, right: Operand) -> ir.Value:
        def body(build: Builder, x: Scalars, index: Index) -> ir.Value:
            return build.maximumf(x[0], x[1])

        return self.each([left, right], left[1], body)

    def added(self, value: ir.Value, given: Operand, factor: Operand) -> ir.Value:
        """`value` plus `given` times `factor`, along the dims of `given`."""

        def body(build: Builder, x: Scalars, index: Index) -> ir.Value:
            return build.addf(x[0], build.mulf(x[1], x[2]))

        return self.each([(value, given[1]), given, factor], given[1], body)

    def product(self, left: Operand, right: Operand, dims: Sequence[int | None]) -> ir.Value:
        """The products of two operands over `dims`, summed over all others."""

        def body(build: Builder, x: Scalars, index: Index) -> ir.Value:
            left, right = (self.number(build, factor) for factor in x[:2])
            return build.addf(x[2], build.mulf(left, right))

        factors = [self.of_one_type(left, right), right]
        return _generic(self.build, factors, (self.filled(0.0, dims), dims), body)

    def of_one_type(self, value: Operand, other: Operand) -> Operand:
        """An operand, cast in memory where each of two would be cast from a type of its own: IREE
        3.13 multiplies the types that both have before, as if they were one, on GPUs."""
        kinds = {element_type(each) for each, _ in (value, other)} - {self.kind}
        if len(kinds) < 2:
            return value
        cast = self.each([value], value[1], lambda build, x, _: self.number(build, x[0]))
        return self.apart(cast), value[1]

    def reduced(
        self, name: str, start: float, value: Operand, dims: Sequence[int | None]
    ) -> ir.Value:
        """What the op `name` makes of `value` along all dims but `dims`, beginning with `start`."""

        def body(build: Builder, x: Scalars, index: Index) -> ir.Value:
            return build.create(name, [self.kind], [x[1], x[0]]).results[0]

        return _generic(self.build, [value], (self.filled(start, dims), dims), body)

    def given(self, name: str) -> Operand:
        """An operand as numbers of `kind`."""
        value, dims = self.operand(name)
        if element_type(value) == self.kind:
            return value, dims
        return self.each([(value, dims)], dims, lambda build, x, _: self.number(build, x[0])), dims

    def cast(self, value: ir.Value, name: str) -> ir.Value:
        """A result with elements of the type that the operand `name` has."""
        kind, dims = element_type(self.facts.value(name)), self.facts.map_of(name)
        if kind == self.kind:
            return value

        def body(build: Builder, x: Scalars, index: Index) -> ir.Value:
            if is_float(kind):
                return build.cast_float(x[0], kind)
            return build.convert("arith.fptosi", x[0], kind)

        return self.each([(value, dims)], dims, body, kind)

    def number(self, build: Builder, value: ir.Value) -> ir.Value:
        """A scalar in the type `kind`; integers have a sign."""
        if is_float(value.type):
            return build.cast_float(value, self.kind)
        return build.convert("arith.sitofp", value, self.kind)

    def times(self, build: Builder, value: ir.Value, factor: float) -> ir.Value:
        if factor == 1.0:
            return value
        return build.mulf(value, factor)

    def each(
        self,
        inputs: Sequence[Operand],
        dims: Sequence[int | None],
        body: Body,
        kind: ir.Type | None = None,
    ) -> ir.Value:
        """A tensor over `dims`, each element of which `body` makes of those of `inputs`."""
        return _generic(self.build, inputs, (self.empty(dims, kind or self.kind), dims), body)

    def filled(self, number: float, dims: Sequence[int | None]) -> ir.Value:
        return self.build.fill(
            self.build.constant_float(number, self.kind), self.empty(dims, self.kind)
        )

    def empty(self, dims: Sequence[int | None], kind: ir.Type) -> ir.Value:
        sizes = [1 if dim is None else iteration_size(self.facts, dim) for dim in dims]
        return self.build.empty(sizes, kind)

    def operand(self, name: str) -> Operand:
        return self.facts.value(name), self.facts.map_of(name)


def _generic(build: Builder, inputs: Sequence[Operand], written: Operand, body: Body) -> ir.Value:
    """`linalg.generic` over all dims of its operands: a reduction along those that are only read.
    What is written at the constant 0 has a loop of its own."""
    loops = [*written[1]]
    loops += dict.fromkeys(
        dim for _, dims in inputs for dim in dims if dim is not None and dim not in loops
    )
    read = [tuple(None if dim is None else loops.index(dim) for dim in dims) for _, dims in inputs]

    def scalar(inner: Builder, x: Scalars) -> Scalars:
        return [body(inner, x, lambda dim: inner.loop_index(loops.index(dim)))]

    values = [value for value, _ in inputs]
    positions = [*read, tuple(range(len(written[1])))]
    return build.generic(values, [written[0]], positions, scalar)[0]


def _is_number(kind: ir.Type) -> bool:
    return isinstance(kind, ir.FloatType | ir.IntegerType)


def computed_type(facts: AttentionFacts) -> ir.FloatType:
    """The type to compute in."""
    double = ir.F64Type.get(facts.op.context)
    kinds = [element_type(facts.value(name)) for name in facts.tensor_operands]
    return double if double in kinds else ir.F32Type.get(facts.op.context)
