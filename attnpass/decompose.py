"""Attention as two products and a softmax, where a CPU is faster so: facts, then the rewrite.

IREE 3.13 unrolls a tile of fused attention whole, so that on CPUs its tiles stay small; its
plain matrix products reach twice their speed. What that costs is memory: the scores of all
heads at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir

from . import maps
from .attention import AttentionFacts, find
from .ir import Builder, element_type, erase_dead, is_float, ranked_shape, replace_reads, sizes_of
from .layout.attention_rewrite import iteration_size
from .report.records import Report
from .scores import copied, score, yielded
from .targets import Target

# Below, fused attention is faster: few rows read K and V once, and up to head dim 256 there
# are the loops of attn-vectorize.
LEAST_ROWS = 64
LEAST_HEAD = 257
# Sizes that no whole vectors fill make IREE's products 5-8 times slower.
MULTIPLE = 16

Scalars = Sequence[ir.Value]


def decompose_all(
    module: ir.Operation, target: Target | None, most_bytes: int, report: Report
) -> bool:
    """Rewrites what pays, with a note for each attention; returns whether IR changed.

    Scores of more than `most_bytes` in all are not written out. Needs a current context.
    """
    done: list[ir.Operation] = []
    for facts in find(module):
        place = f"{facts.kind} at {facts.place}"
        why = _refusal(facts, target, most_bytes)
        if why:
            report.note(f"{place} stays fused: {why}")
            continue
        replace_reads(facts.op.results[0], decomposed(facts))
        done.append(facts.op)
        report.note(f"{place} is two products and a softmax: {_score_bytes(facts)} bytes of scores")
    erase_dead(done)
    return bool(done)


def _refusal(facts: AttentionFacts, target: Target | None, most_bytes: int) -> str:
    if target is None or target.backend != "llvm-cpu":
        return "only CPUs gain from it"
    return _unfit(facts) or _unprofitable(facts, most_bytes)


def _unfit(facts: AttentionFacts) -> str:
    """Why the rewrite does not know this attention."""
    if facts.kind != "attention":
        return f"{facts.kind} has three results"
    if facts.own_configuration:
        return f"it has its own {facts.own_configuration}"
    if facts.changes_scores:
        return "its region changes the scores"
    if any(len(dims) != 1 for dims in (facts.m, facts.k1, facts.k2, facts.n)):
        return "it has several dims of rows, keys or heads' elements, or none"
    if any(None in facts.map_of(name) for name in facts.tensor_operands):
        return "a map reads a dim at the constant 0"
    shared = set(facts.batch)
    if any(not shared <= set(facts.map_of(name)) for name in ("query", "key", "value")):
        return "an operand lacks a batch dim that others have"
    return ""


def _unprofitable(facts: AttentionFacts, most_bytes: int) -> str:
    """Why fused attention is faster, or may be."""
    if set(facts.element_types.values()) - {"f32", "i1"} or element_type(
        facts.value("scale")
    ) != ir.F32Type.get(facts.op.context):
        return "only f32 was measured"
    if None in facts.sizes:
        return "it has sizes known only at run time"
    rows, head, keys = (facts.extent(dims) or 0 for dims in (facts.m, facts.k1, facts.k2))
    width = facts.extent(facts.n) or 0
    if rows < LEAST_ROWS:
        return f"it has {rows} rows, below {LEAST_ROWS}"
    if min(head, width) < LEAST_HEAD:
        return f"its head dim is {min(head, width)}, below {LEAST_HEAD}"
    if any(size % MULTIPLE for size in (rows, head, keys, width)):
        return f"rows, keys and head dims are not all multiples of {MULTIPLE}"
    if _score_bytes(facts) > most_bytes:
        return f"its scores are {_score_bytes(facts)} bytes, above {most_bytes}"
    return ""


def _score_bytes(facts: AttentionFacts) -> int:
    return 4 * (facts.extent((*facts.batch, *facts.m, *facts.k2)) or 0)


def decomposed(facts: AttentionFacts) -> ir.Value:
    """The result of an `attention` with one k2 dim and no dim that its output reads at the
    constant 0, made of other ops in front of it: products and softmax in f32, the score function
    between them. Needs a current context."""
    build = Builder(facts.op, facts.op.location)
    kept = tuple(dim for dim in facts.map_of("output") if dim is not None and dim not in facts.n)
    score_dims = (*kept, *facts.k2)
    query, key, value = (
        (facts.value(name), facts.map_of(name)) for name in ("query", "key", "value")
    )
    scores = product(facts, build, query, key, score_dims, facts.k1)
    weights = build.softmax(_scaled_and_masked(facts, build, scores, score_dims))
    return _narrowed(
        product(facts, build, (weights, score_dims), value, facts.map_of("output"), facts.k2),
        facts,
        build,
    )


def product(
    facts: AttentionFacts,
    build: Builder,
    left: tuple[ir.Value, Sequence[int | None]],
    right: tuple[ir.Value, Sequence[int | None]],
    result: Sequence[int | None],
    reduced: Sequence[int],
) -> ir.Value:
    """The contraction of two (value, its dims) over `reduced`, in f32; dims are those of the
    attention."""
    f32 = ir.F32Type.get()
    sizes = [iteration_size(facts, dim) for dim in result if dim is not None]
    zeros = build.fill(build.constant_float(0.0, f32), build.empty(sizes, f32))
    loops = {dim: loop for loop, dim in enumerate((*result, *reduced)) if dim is not None}
    positions = [_through(loops, dims) for dims in (left[1], right[1], result)]

    def body(inner: Builder, x: Scalars) -> Scalars:
        factors = [inner.cast_float(factor, f32) for factor in x[:2]]
        term = inner.create("arith.mulf", [f32], factors).results[0]
        return [inner.create("arith.addf", [f32], [x[2], term]).results[0]]

    return build.generic([left[0], right[0]], [zeros], positions, body)[0]


def _scaled_and_masked(
    facts: AttentionFacts, build: Builder, scores: ir.Value, dims: Sequence[int]
) -> ir.Value:
    """What the region makes of scores * scale, plus the mask, or -infinity where an i1 mask is
    false."""
    loops = {dim: loop for loop, dim in enumerate(dims)}
    here = tuple(range(len(dims)))
    inputs: list[ir.Value] = [scores]
    positions: list[maps.Positions] = [here]
    if facts.has_mask:
        inputs.append(facts.value("mask"))
        positions.append(_through(loops, facts.map_of("mask")))
    kind = element_type(scores)

    def body(inner: Builder, x: Scalars) -> Scalars:
        factors = [x[0], inner.cast_float(facts.value("scale"), kind)]
        scaled = inner.create("arith.mulf", [kind], factors).results[0]
        given = inner.cast_float(scaled, score(facts.op).type)
        names = {score(facts.op): given}
        (made,) = copied(
            facts.op, [yielded(facts.op)], inner, lambda dim: inner.loop_index(loops[dim]), names
        )
        made = inner.cast_float(made, kind)
        return [masked(inner, made, x[1]) if facts.has_mask else made]

    init = build.empty(sizes_of(scores), kind)
    return build.generic(inputs, [init], [*positions, here], body)[0]


def masked(build: Builder, value: ir.Value, mask: ir.Value) -> ir.Value:
    """A score, a float, under an element of a mask: numbers are added, false hides."""
    if is_float(mask.type):
        operands = [value, build.cast_float(mask, value.type)]
        return build.create("arith.addf", [value.type], operands).results[0]
    hidden = build.constant_float(float("-inf"), value.type)
    return build.select(mask, value, hidden)


def _narrowed(result: ir.Value, facts: AttentionFacts, build: Builder) -> ir.Value:
    """The result in the op's element type."""
    kind = element_type(facts.value("output"))
    if element_type(result) == kind:
        return result
    here = tuple(range(len(ranked_shape(result))))
    init = build.empty(sizes_of(result), kind)

    def body(inner: Builder, x: Scalars) -> Scalars:
        return [inner.cast_float(x[0], kind)]

    return build.generic([result], [init], [here, here], body)[0]


def _through(loops: Mapping[int, int], dims: Sequence[int | None]) -> maps.Positions:
    """Dims of attention as loops."""
    return tuple(None if dim is None else loops[dim] for dim in dims)
