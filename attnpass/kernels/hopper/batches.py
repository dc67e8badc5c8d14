"""Where a batch of products finds its rows and weights, and writes its results: by strides.

A product with one matrix of weights is a batch, too, where its result is written with heads in
front of rows: of the rows of each sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ...ir import Builder, Refusal, Size, maps, product
from ..products import BatchLoops, ProductFacts
from .filled import filled_sizes, multiple_of
from .places import (
    Dim,
    HeadPlace,
    Strided,
    StridedAxis,
    common_batch,
    heads_of,
    in_units,
    joined,
    numbers_of,
    places_of,
    read_by,
)

_NAMES = {"rows": "a", "weights": "weights", "result": "out"}


@dataclass(frozen=True)
class BatchPlace:
    """A batch of `outer` times `inner` products of `m` rows. `by_columns` says whether weights lie
    as (n, k), `in_front` whether the dims of the batch are the first of the result's. `width`
    columns of the result lie side by side, and the next ones `part` elements behind. `reader` is
    the transpose whose result is written, where that is not the product's own."""

    places: Mapping[str, HeadPlace]
    by_columns: bool
    m: Size
    inner: Size
    outer: Size
    in_front: bool
    width: Size
    part: Size = 0
    reader: ir.Operation | None = None

    @property
    def rows(self) -> ir.Value:
        return self._source("rows")

    @property
    def weights(self) -> ir.Value:
        return self._source("weights")

    @property
    def count(self) -> Size:
        return product([self.inner, self.outer])

    def reads_like(self, other: BatchPlace) -> bool:
        """Whether another product's weights lie as these do, in a tensor of their own."""
        mine, theirs = self.places["weights"], other.places["weights"]
        same = (mine.starts, mine.heads, mine.row) == (theirs.starts, theirs.heads, theirs.row)
        return same and self.by_columns == other.by_columns

    def numbers(self, build: Builder, units: Mapping[str, int]) -> dict[str, Size]:
        """The kernel's words: distances in 16 bytes, of which `units` says how many elements of
        the rows, the weights and the result they are."""
        found = numbers_of(build, dict(self.places), self.inner, 1, dict(units))
        numbers: dict[str, Size] = {"inner": self.inner, "outer": self.outer}
        for name, word in _NAMES.items():
            numbers |= {f"{word}_outer": found[f"{name}_batch"]}
            numbers |= {f"{word}_inner": found[f"{name}_head"], f"{word}_row": found[f"{name}_row"]}
            if name != "result":
                numbers[f"{word}_start"] = found[f"{name}_start"]
        part = in_units(self.part, units["result"])
        assert part is not None, "a distance that was made sure of"
        return numbers | {"out_width": self.width, "out_part": part}

    def _source(self, name: str) -> ir.Value:
        source = self.places[name].source
        assert source is not None
        return source


def place_of_batch(facts: ProductFacts, result: ir.Value | None = None) -> BatchPlace | Refusal:
    """How a kernel finds its way through a batch; why it cannot. With `result`, that of what is
    behind the batch, it writes what a transpose makes of it that alone reads it.

    Of the loops of rows, the outermost may count products that share their weights, so that the
    others are at equal distances.
    """
    assert facts.loops is not None
    sizes = [facts.loops.sizes[loop] for loop in facts.loops.result[:-1]]
    written, reader = tuple(_dense([*sizes, facts.n])), None
    if result is not None:
        read = read_by(result)
        if read is None or len(read[1]) != len(written):
            return Refusal("no transpose reads it")
        written, reader = read[1], read[0].op
    cuts = range(max(1, len(facts.loops.lead)))
    lead = facts.loops.lead
    found = [_place(facts, facts.loops, lead[:cut], written, reader) for cut in cuts]
    return next((place for place in found if isinstance(place, BatchPlace)), found[0])


def _place(
    facts: ProductFacts,
    loops: BatchLoops,
    counted: Sequence[int],
    written: tuple[Dim, ...],
    reader: ir.Operation | None,
) -> BatchPlace | Refusal:
    """`place_of_batch`, where `counted` are loops of rows that count products, and the dims of the
    result lie as `written`."""
    batch = [loop for loop in loops.result if loop in (*loops.batch, *counted)]
    lead = [loop for loop in loops.lead if loop not in counted]
    last = loops.result[-1]
    found: dict[str, HeadPlace] = {}
    for by_columns in (True, False):
        inner = (last, loops.depth) if by_columns else (loops.depth, last)
        place = _find(facts.weights, loops.weights, batch, inner[:1], inner[1], loops)
        if place is not None:
            found["weights"] = place
            break
    if "weights" not in found:
        return Refusal("neither the columns nor the depth of its weights lie side by side")
    rows = _find(facts.rows, loops.rows, batch, lead, loops.depth, loops)
    if rows is None:
        return Refusal("its rows do not lie one behind the other")
    place = Strided(facts.op.results[0], (), written)
    result = _heads(place, loops.result, batch, lead, last, loops)
    if result is None:
        return Refusal("its result's rows are not at equal distances")
    found |= {"rows": rows, "result": result}
    sizes = _counts(found, product([loops.sizes[loop] for loop in batch]))
    if sizes is None:
        return Refusal("its batches lie in more than two dims")
    in_front = list(loops.result[: len(batch)]) == batch
    m = product([loops.sizes[loop] for loop in lead])
    return BatchPlace(found, by_columns, m, *sizes, in_front, facts.n, 0, reader)


def _counts(places: Mapping[str, HeadPlace], total: Size) -> tuple[Size, Size] | None:
    """How many products are at equal distances in all that lies in two axes, and how many times
    as many there are; None if that is no number for all of them."""
    if common_batch(dict(places), 1) is None or any(len(one.heads) > 2 for one in places.values()):
        return None
    split = [place.heads for place in places.values() if len(place.heads) == 2]
    return (split[0][1].size, split[0][0].size) if split else (total, 1)


# Heads in front of rows --------------------------------------------------------------------------


def place_of_heads(facts: ProductFacts, result: ir.Value) -> BatchPlace | None:
    """How a kernel writes what a transpose makes of `result`, that of a product with one matrix of
    weights and what is behind it; None if no transpose alone reads it, or strides do not say where
    its elements are."""
    found = read_by(result)
    if found is None:
        return None
    view, dims = found
    columns = joined(dims[-1])
    rows = joined(tuple(axis for dim in dims[:-1] for axis in dim))
    if not 1 <= len(columns) <= 2 or not 1 <= len(rows) <= 3 or columns[-1].stride != 1:
        return None
    *heads, row = rows
    behind = [product([one.size for one in rows[at + 1 :]]) for at in range(len(heads))]
    given = [
        StridedAxis(one.size, product([n, facts.k]), ())
        for one, n in zip(heads, behind, strict=True)
    ]
    shared = [StridedAxis(one.size, 0, ()) for one in heads]
    pitch = facts.k if facts.by_columns else facts.n
    places = {
        "rows": HeadPlace(facts.rows, (), joined(tuple(given)), facts.k),
        "weights": HeadPlace(facts.weights, (), joined(tuple(shared)), pitch),
        "result": HeadPlace(None, (), tuple(heads), row.stride),
    }
    sizes = _counts(places, product([one.size for one in heads]))
    part = columns[0].stride if len(columns) == 2 else 0
    strides, unit = [part, row.stride, *(one.stride for one in heads)], multiple_of(facts)
    if sizes is None or any(in_units(one, unit) is None for one in strides):
        return None
    return BatchPlace(
        places, facts.by_columns, row.size, *sizes, False, columns[-1].size, part, view.op
    )


def _find(
    value: ir.Value,
    dims: maps.Positions,
    batch: Sequence[int],
    row: Sequence[int],
    column: int,
    loops: BatchLoops,
) -> HeadPlace | None:
    """Where the rows of an operand lie, whose dims are these loops."""
    long = {loop for loop in (*dims, *row) if loop is not None and loops.sizes[loop] != 1}
    if not long <= {*batch, *row, column} or not {*row} & long <= {*dims}:
        return None
    larger = filled_sizes(value, dims, loops.sizes)
    # What is filled up is copied first.
    places = places_of(value) if larger is None else [Strided(value, (), tuple(_dense(larger)))]
    for place in places:
        found = _heads(place, dims, batch, row, column, loops)
        if found is not None:
            return found
    return None


def _heads(
    place: Strided,
    dims: maps.Positions,
    batch: Sequence[int],
    row: Sequence[int],
    column: int,
    loops: BatchLoops,
) -> HeadPlace | None:
    def runs(loop: int) -> Dim:
        if loop in dims:
            return place.dims[dims.index(loop)]
        # All of a batch have the same.
        size = loops.sizes[loop]
        return () if size == 1 else (StridedAxis(size, 0, ()),)

    rows = tuple(axis for loop in row for axis in runs(loop))
    ordered = (*map(runs, batch), rows, runs(column))
    numbers = range(len(batch))
    moved = Strided(place.source, place.starts, ordered)
    return heads_of(moved, numbers, len(batch), len(batch) + 1, loops.sizes[column])


def _dense(sizes: Sequence[Size]) -> Iterator[Dim]:
    for at, size in enumerate(sizes):
        yield () if size == 1 else (StridedAxis(size, product(sizes[at + 1 :]), (at,)),)
