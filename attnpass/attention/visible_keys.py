"""Which keys an attention lets each query row see, and its soft-cap, whatever ops say so."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..analysis import values as symbolic
from ..analysis.trace import Tracer
from ..analysis.values import SCORE, Condition, Linear, Score, Select, Value
from ..attention.scores import score
from ..ir import (
    Refusal,
    ranked_shape,
    yielded,
)
from ..ir.bodies import Scope
from .facts import AttentionFacts


@dataclass(frozen=True)
class Mask:
    """Which keys row i sees, by `kind`: all of them (`none`), keys 0 to i + diagonal
    (`causal`), keys i - behind to i + diagonal (`window`), what a tensor says (`operand`). A
    score s becomes cap * tanh(s / cap) where `cap` is not 0."""

    kind: str
    diagonal: int = 0
    behind: int = 0
    cap: float = 0.0


def find_mask(facts: AttentionFacts, row: int) -> Mask | Refusal:
    """The mask of this attention, its score region included, or why the kernels have none.

    `row` is the iteration dim of the query's rows. Masks that are traced: of i1 (true: seen)
    and of floats (0 where seen, -infinity or as good as that where not), computed from
    indices or constant, through whatever moves and combines them. Others stay operands.
    """
    sizes = dict(enumerate(facts.sizes))
    tracer = Tracer(sizes)
    scores = _score(facts, tracer)
    seen, cap = _seen(scores), _cap(scores)
    if seen is None or cap is None:
        return Refusal("its region changes the scores, other than by a soft-cap")
    if not facts.has_mask:
        found = _classified(facts, seen, row)
        return (
            replace(found, cap=cap) if found else Refusal("its region hides keys as no kernel does")
        )
    given = _mask_condition(facts, tracer)
    together = None if given is None else symbolic.both(seen, given)
    known = None if together is None else _classified(facts, together, row)
    if known is None and not seen.always:
        return Refusal(f"its region and its mask ({mask_words(facts)}) both hide keys")
    return replace(known or Mask("operand"), cap=cap)


def hides_nothing(facts: AttentionFacts) -> bool:
    """Whether the mask, constant or computed from indices, shows each row every key."""
    if not facts.has_mask:
        return True
    seen = _mask_condition(facts, Tracer(dict(enumerate(facts.sizes))))
    return seen is not None and seen.always


def _score(facts: AttentionFacts, tracer: Tracer) -> Value | None:
    """What the region makes of a score."""
    loops = {dim: Linear(0, ((dim, 1),)) for dim in range(facts.num_dims)}
    return tracer.scalar(yielded(facts.op), Scope({}, loops, {score(facts.op): SCORE}))


def _mask_condition(facts: AttentionFacts, tracer: Tracer) -> Condition | None:
    indices = tuple(
        Linear(0) if dim is None else Linear(0, ((dim, 1),)) for dim in facts.map_of("mask")
    )
    value = tracer.element(facts.value("mask"), indices)
    if isinstance(value, Condition):
        return value
    return _seen(symbolic.apply(symbolic.add, SCORE, value))


def _seen(scores: Value | None) -> Condition | None:
    """Where a masked score is the score itself; it must be as good as -infinity elsewhere."""
    if isinstance(scores, Score):
        return symbolic.ALWAYS
    if not isinstance(scores, Select):
        return None
    if isinstance(scores.then, Score) and symbolic.is_hidden(scores.other):
        return scores.where
    if isinstance(scores.other, Score) and symbolic.is_hidden(scores.then):
        return scores.where.inverse()
    return None


def _cap(scores: Value | None) -> float | None:
    """The soft-cap of what a region makes of a score, 0 for none; None if it does other things."""
    if isinstance(scores, Select):
        scores = scores.then if isinstance(scores.then, Score) else scores.other
    return scores.cap if isinstance(scores, Score) else None


def _classified(facts: AttentionFacts, seen: Condition, row: int) -> Mask | None:
    """The kind of mask that shows the keys where `seen` holds, if there is one."""
    if seen.always:
        return Mask("none")
    if not seen.holds or len(seen.bounds) > 2:
        return None
    key = facts.k2[0]
    ahead = tuple(sorted([(row, 1), (key, -1)]))
    behind = tuple(sorted([(row, -1), (key, 1)]))
    limits = {bound.terms: bound.constant for bound in seen.bounds}
    if len(limits) != len(seen.bounds) or limits.get(ahead, -1) < 0:
        return None
    if len(limits) == 1:
        return Mask("causal", limits[ahead])
    return Mask("window", limits[ahead], limits[behind]) if behind in limits else None


def mask_words(facts: AttentionFacts) -> str:
    """The mask's shape and type for a reason: `1x8x?x? i1`."""
    shape = "x".join(
        "?" if size is None else str(size) for size in ranked_shape(facts.value("mask"))
    )
    return f"{shape} {facts.element_types['mask']}"
