"""How an attention's keys are cut into chunks, or why they are not. Reads the IR only.

`splits=auto` follows one formula. With `groups` = product of the batch dims (batch x heads
of K and V; a dynamic one counts as 1) and `length` = number of keys:

    wish = min(waves * compute_units / groups, length / minimum chunk, 64)

`waves` is how many workgroups a compute unit wants: 8 on GPUs, 1 on CPUs (`Target.chunk_waves`).
A wish below 2 leaves the op alone. Chunks are whole kernel tiles of 64 keys: equal ones if a count
from 3/4 to 3/2 of the wish divides the length so, else `length / wish` rounded down, and the keys
that fill no chunk form a shorter tail. A length known only at run time is cut into chunks of the
size that `wish` gives at 8192 keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..attention.facts import AttentionFacts
from ..ir import Refusal, body_of
from ..ir.limits import ASSUMED_KEYS
from ..machines import Target

# Keys that a kernel takes at once: a chunk of whole tiles needs no masked keys.
TILE = 64
# Fewer keys in a chunk are not worth a workgroup and a partial result.
MINIMUM_CHUNK = 256
MAXIMUM_SPLITS = 64


@dataclass(frozen=True)
class SplitPlan:
    """Chunks of dim `dim` (a k2 dim): how many there are and how many keys each has.

    Where the length is dynamic one of the two is None: it follows from the length. The keys
    beyond `splits * chunk` are the tail.
    """

    dim: int
    length: int | None
    splits: int | None
    chunk: int | None
    reason: str

    @property
    def is_exact(self) -> bool:
        """Whether every key is in a chunk for certain."""
        if self.length is None or self.splits is None or self.chunk is None:
            return False
        return self.length == self.splits * self.chunk


def refusal(facts: AttentionFacts, rows: int) -> Refusal | None:
    """Why this attention is not one that the pass splits, or None."""
    if facts.own_configuration:
        return Refusal(f"it has its own {facts.own_configuration}, which a split would make wrong")
    if "split_k" in facts.op.attributes:
        return Refusal("it is part of a split attention already")
    if facts.op.parent is not None and facts.op.parent.name == "flow.dispatch.region":
        return Refusal("it stands in a dispatch region already")
    count = facts.extent(facts.m)
    if count is None:
        return Refusal("the number of query rows is known only at run time")
    if count > rows:
        return Refusal(f"it has {count} query rows, more than rows={rows}: this is no decode step")
    dim = split_dim(facts)
    if dim not in facts.map_of("key"):
        return Refusal("K does not have V's outermost key dim")
    if dim in facts.score_index_dims:
        return Refusal(f"its score region reads the key's index (iree_linalg_ext.index {dim})")
    argument = str(body_of(facts.op).arguments[0].type)
    results = [facts.element_types[name] for name in facts.result_names]
    partial = [argument] if facts.kind == "attention" else [argument, *results]
    if odd := [kind for kind in partial if kind != "f32"]:
        return Refusal(f"it accumulates in {odd[0]}; only f32 is combined")
    return None


def split_dim(facts: AttentionFacts) -> int:
    """The k2 dim to split: the outermost one in V."""
    return next(dim for dim in facts.map_of("value") if dim in facts.k2)


def make_plan(
    facts: AttentionFacts, splits: int | None, target: Target, repeats: int = 1
) -> SplitPlan | Refusal:
    """The chunks for `splits` (None: auto), or why there are none.

    `repeats` is how often the batch dims repeat the same K and V (a grouped-query
    broadcast that will be folded): those heads become rows of one workgroup.
    """
    dim = split_dim(facts)
    length = facts.sizes[dim]
    if length is None and splits is None and target.refuses_empty_grids:
        return Refusal(
            "the number of keys is known only at run time: chunks of a fixed size can be none, "
            "an empty dispatch that the CUDA driver refuses; splits=N cuts it into N"
        )
    if splits is not None:
        plan = fixed_plan(dim, length, splits)
    else:
        plan = auto_plan(facts, dim, length, target, repeats)
    if isinstance(plan, Refusal) or plan.is_exact or facts.extent((*facts.batch, *facts.m)) != 1:
        return plan
    return _without_tail(plan)


def _without_tail(plan: SplitPlan) -> SplitPlan | Refusal:
    """The nearest plan without a tail: llvm-cpu cannot compile partial attention whose max
    and sum have one element."""
    why = "one head with one row cannot have a tail"
    if plan.length is None:
        return Refusal(f"the number of keys is known only at run time, and {why}")
    wish = (plan.splits or 1) + 1
    divisors = [n for n in range(wish, 1, -1) if plan.length % n == 0]
    if not divisors:
        return Refusal(f"{plan.length} keys have no divisor from 2 to {wish}, and {why}")
    splits = divisors[0]
    return replace(plan, splits=splits, chunk=plan.length // splits)


def fixed_plan(dim: int, length: int | None, splits: int) -> SplitPlan | Refusal:
    if splits < 2:
        return Refusal(f"splits={splits} leaves it whole")
    if length is not None and length < splits:
        return Refusal(f"{length} keys are fewer than splits={splits}")
    chunk = None if length is None else length // splits
    return SplitPlan(dim, length, splits, chunk, f"splits={splits}")


def auto_plan(
    facts: AttentionFacts, dim: int, length: int | None, target: Target, repeats: int
) -> SplitPlan | Refusal:
    groups = max(1, math.prod(facts.sizes[batch] or 1 for batch in facts.batch) // repeats)
    slots = target.chunk_waves * target.compute_units
    others = [facts.sizes[k2] or 1 for k2 in facts.k2 if k2 != dim]
    tile, minimum = TILE, MINIMUM_CHUNK
    for size in others:
        # The chunk's keys are those of the other key dims as well.
        tile, minimum = max(1, tile // size), max(1, minimum // size)
    wish = min(slots / groups, MAXIMUM_SPLITS)
    where = f"{target.name} with {target.compute_units} compute units"
    if wish < 2:
        return Refusal(f"{groups} batch x heads fill {where} without a split")
    if length is not None and length < 2 * minimum:
        return Refusal(f"{length} keys are fewer than two chunks of {minimum}")
    reason = f"{groups} batch x heads on {where}"
    if length is None:
        chunk = _round_down(max(minimum, ASSUMED_KEYS // int(wish)), tile)
        return SplitPlan(dim, None, None, chunk, reason)
    wish = min(wish, length / minimum)
    splits = _exact_splits(length, wish, tile)
    chunk = length // splits if splits else _round_down(length // int(wish), tile)
    return SplitPlan(dim, length, length // chunk, chunk, reason)


def _exact_splits(length: int, wish: float, tile: int) -> int | None:
    """The number of equal chunks of whole tiles nearest to the wish, if it is near."""
    near = range(max(2, math.ceil(0.75 * wish)), int(1.5 * wish) + 1)
    exact = [splits for splits in near if length % (splits * tile) == 0]
    return min(exact, key=lambda splits: abs(splits - wish), default=None)


def _round_down(keys: int, tile: int) -> int:
    return max(tile, keys // tile * tile)
