"""Where IREE's own code computes wrong numbers, and which attention will have to keep it.

That is decided while attention still stands in the open: once it is in a dispatch, where kernel
configurations are attached, nothing can take its place any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.facts import AttentionFacts, describe
from ..errors import AttnError
from ..ir import Refusal, body_of, maps, users
from ..ir.views import view_before
from . import Target
from .common_faults import begins_with_number


def nothing_is_right(
    facts: AttentionFacts, target: Target | None, configured: bool
) -> Refusal | None:
    """What is wrong with the code that an attention in the open will get, or None; whether or not
    it will be `configured`, and whatever `describe` makes of it."""
    if facts.own_configuration:
        return None
    if why := no_code(facts):
        return why
    why = None if target is None else target.own_is_wrong(as_in_dispatch(facts))
    if not why or target is None:
        return None
    return None if configured and _will_be_configured(facts.op, target) else why


def _will_be_configured(op: ir.Operation, target: Target) -> bool:
    try:
        facts = as_in_dispatch(describe(op))
    except AttnError:
        return False
    kinds = (facts.k1, facts.k2, facts.n)
    return all(kinds) and not isinstance(target.configuration(facts), Refusal)


def no_code(facts: AttentionFacts) -> Refusal | None:
    """Why IREE 3.13 compiles an attention for no target, however it is configured, or None."""
    read = {dim for name in ("query", "key", "value") for dim in facts.map_of(name)}
    written = {*facts.map_of("output")}
    if isinstance(body_of(facts.op).arguments[0].type, ir.F64Type):
        return Refusal("IREE 3.13 fails on scores of f64")
    if facts.kind == "online_attention":
        kinds = {facts.element_types[name] for name in facts.result_names}
        if len(kinds) > 1:
            return Refusal("IREE 3.13 fails on results of several types")
        return _no_code_of_one_row(facts)
    if not written >= {*facts.batch, *facts.m} or not written <= read | {None}:
        return Refusal(
            "IREE 3.13 crashes where the result lacks rows or batches, or has dims of its own"
        )
    return None


def _no_code_of_one_row(facts: AttentionFacts) -> Refusal | None:
    """Why IREE compiles no online attention of a single row, or None."""
    if facts.extent((*facts.batch, *facts.m)) != 1:
        return None
    results = zip(facts.result_names, facts.op.results, strict=True)
    if any(
        name != "output" and begins_with_number(facts, name) and users(r) for name, r in results
    ):
        return Refusal(
            "IREE 3.13 fails to store a single row's maximum or sum that begins with a number"
        )
    return None


def as_in_dispatch(facts: AttentionFacts) -> AttentionFacts:
    """An attention in the open as it will be in a dispatch: without dims of size one, those of a
    head apart, and with neighbours among head or key dims as one."""
    gone = _units(facts)
    known = list(facts.sizes)
    for group in (facts.k1, facts.k2, facts.n):
        kept = [dim for dim in group if dim not in gone]
        for left, right in itertools.pairwise(kept):
            if _stand_together(facts, left, right, gone):
                known[right] = _times(known[left], known[right])
                gone.add(left)
    groups = {
        name: tuple(dim for dim in getattr(facts, name) if dim not in gone)
        for name in ("batch", "m", "k1", "k2", "n")
    }
    indexing = tuple(tuple(dim for dim in each if dim not in gone) for each in facts.maps)
    names = facts.operand_names
    return _InDispatch(facts.op, indexing, names, facts.num_dims, **groups, known=tuple(known))


def _units(facts: AttentionFacts) -> set[int]:
    """The dims of size one that will be gone."""
    found = {dim for dim in range(facts.num_dims) if facts.sizes[dim] == 1}
    for head in (facts.k1, facts.n):
        if found.issuperset(head):
            found.difference_update(head[-1:])
    return found


def _times(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left * right


def _stand_together(facts: AttentionFacts, left: int, right: int, gone: set[int]) -> bool:
    """Whether two dims are neighbours, in this order, wherever one of them is: in each operand,
    and in what it is a transpose of, which attention will read itself."""
    for order in _orders(facts):
        dims = [dim for dim in order if dim not in gone]
        if (left in dims) != (right in dims):
            return False
        if left in dims and dims[dims.index(left) :][1:2] != [right]:
            return False
    return True


def _orders(facts: AttentionFacts) -> Iterator[maps.Positions]:
    """The dims of each operand, and of each value that it is a transpose or a repeat of."""
    for name in facts.tensor_operands:
        value, dims = facts.value(name), facts.map_of(name)
        yield dims
        while (view := view_before(value)) is not None and view.projection is not None:
            value = view.source
            dims = tuple(None if place is None else dims[place] for place in view.projection)
            yield dims


@dataclass(frozen=True)
class _InDispatch(AttentionFacts):
    """Facts with sizes of their own."""

    known: tuple[int | None, ...] = ()

    @property
    def sizes(self) -> tuple[int | None, ...]:  # type: ignore[override]
        return self.known

    @property
    def may_lose_dims(self) -> bool:  # type: ignore[override]
        return False
