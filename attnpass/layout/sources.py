"""What an operand of attention is made of below reshapes, transposes and repeats, and
attention that reads it there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.edit import edit, first_dims, iteration_size, may_cut
from ..attention.facts import AttentionFacts
from ..ir import Builder, Size, defining_op, product, sizes_of
from ..ir.views import RESHAPES, View, view_before
from .attention_rewrite import (
    DeadOps,
    moves_nothing,
)
from .layout import Layout, Refinement, permuted


@dataclass(frozen=True)
class Source:
    """What an operand is made of below reshapes, transposes and repeats: `layout` says how
    the operand's row-major order reads `value`, parts[d] the axes of operand dim d (None
    for one that is only a repeat)."""

    value: ir.Value
    layout: Layout
    parts: tuple[tuple[int | None, ...], ...]
    sizes: tuple[tuple[Size, ...], ...]

    @property
    def is_repeated(self) -> bool:
        """Whether the operand repeats `value` along some part of a dim."""
        return any(axis is None for axes in self.parts for axis in axes)

    @property
    def order(self) -> list[int]:
        """The axes as they lie in `value`, major to minor."""
        return [axis for axes in self.layout.dims for axis in axes]

    @property
    def keeps_innermost(self) -> bool:
        """Whether what is innermost in `value` is so in the operand."""
        return self.order[-1] in self.parts[-1]


def find_source(facts: AttentionFacts, operand: str) -> Source | None:
    """The source of `operand` that attention could read itself; None if it does already."""
    found = [source for op, source in sources(facts, operand) if op.name not in RESHAPES]
    return found[-1] if found else None


def sources(facts: AttentionFacts, operand: str) -> Iterator[tuple[ir.Operation, Source]]:
    """The reshapes, transposes and repeats that make `operand`, the nearest first, each with
    what the operand is made of below it; no repeat along a dim that attention needs."""
    value = facts.value(operand)
    sizes = sizes_of(value)
    layout = permuted(sizes, range(len(sizes)))
    parts: list[list[int | None]] = [list(axes) for axes in layout.dims]
    part_sizes: list[list[Size]] = [[layout.sizes[a] for a in axes] for axes in layout.dims]
    while (view := view_before(value)) is not None:
        found = layout.through(view.runs, sizes_of(view.source))
        if found is None:
            return
        lost = [axis for axis, new in enumerate(found.groups) if not new]
        if lost and not _may_drop(facts, operand, parts, lost):
            return
        for dim, axes in enumerate(parts):
            old = zip(axes, part_sizes[dim], strict=True)
            fine = [part for axis, size in old for part in _refine(axis, size, found)]
            parts[dim] = [axis for axis, _ in fine]
            part_sizes[dim] = [size for _, size in fine]
        layout, value = found.layout, view.source
        yield (
            view.op,
            Source(value, layout, tuple(map(tuple, parts)), tuple(map(tuple, part_sizes))),
        )


def moved_into_place(facts: AttentionFacts, operand: str) -> dict[ir.Value, ir.Value]:
    """Where only a transpose in front of attention puts the innermost dim of `operand` last:
    the values from the operand up to that transpose's result, each with that result.

    IREE folds such a transpose back into attention's map: the layout is not there to stay.
    """
    source = find_source(facts, operand)
    if source is None:
        return {}
    if not source.order or source.keeps_innermost:
        return {}
    passed: list[ir.Value] = []
    value = facts.value(operand)
    while value != source.value and (view := view_before(value)) is not None:
        passed.append(value)
        if _reorders_dims(view):
            return dict.fromkeys(passed, value)
        value = view.source
    return {}


def _reorders_dims(view: View) -> bool:
    """Whether a view of `find_source` changes the order of dims."""
    if view.op.name == "linalg.transpose":
        return not moves_nothing(view.op)
    return not view.keeps_order


def _refine(axis: int | None, size: Size, found: Refinement) -> list[tuple[int | None, Size]]:
    """What a part of a dim is cut into; one that the view repeats is of no axis any more."""
    new = [] if axis is None else found.groups[axis]
    return [(one, found.layout.sizes[one]) for one in new] or [(None, size)]


def _may_drop(
    facts: AttentionFacts, operand: str, parts: Sequence[Sequence[int | None]], lost: list[int]
) -> bool:
    """Whether every lost axis is part of a batch dim, or of rows of a mask: attention needs its
    other dims."""
    positions = facts.map_of(operand)
    shared = {*facts.batch, *(facts.m if operand == "mask" else ())}
    return all(
        positions[dim] in shared for dim, axes in enumerate(parts) for axis in axes if axis in lost
    )


def fold_through_reshapes(
    facts: AttentionFacts, operand: str, dead_ops: DeadOps
) -> ir.Operation | None:
    """Lets attention read the source of `operand` itself; None where nothing stands before it.

    Iteration dims that the source has in parts are split, which changes the op's rank, so
    a configured op, or one whose score region reads such a dim's index, is left.
    """
    source = find_source(facts, operand)
    if source is None:
        return None
    positions = facts.map_of(operand)
    cuts: list[list[Size]] = [[iteration_size(facts, dim)] for dim in range(facts.num_dims)]
    runs: dict[int, list[list[int | None]]] = {}
    for dim, p in enumerate(positions):
        if p is None or not source.parts[dim]:
            continue
        groups = _runs(source, dim)
        runs[p] = [[axis for axis, _ in group] for group in groups]
        cuts[p] = [product([size for _, size in group]) for group in groups]
    if not may_cut(facts, cuts):
        return None
    first = first_dims(cuts)
    dim_of: dict[int, int] = {}
    for p, groups in runs.items():
        for part, axes in enumerate(groups):
            dim_of.update({axis: first[p] + part for axis in axes if axis is not None})
    build = Builder(facts.op)
    value = build.split_dims(source.value, source.layout.dim_sizes())
    order = [dim_of[axis] for axis in source.order]
    counts, new_map, sizes = _join_runs(order, cuts)
    for dim, p in enumerate(positions):
        if p is not None and not source.parts[dim]:
            # A dim of size one keeps its place: attention must know its roles by their dims.
            before = {new for q in positions[:dim] if q is not None for new in _new_dims(first, q)}
            place = sum(new in before for new in new_map)
            counts.insert(place, 0)
            new_map.insert(place, first[p])
            sizes.insert(place, 1)
    value = build.join_dims(value, counts, sizes)
    new = edit(facts).cut(cuts).operand(operand, value, tuple(new_map)).replace()
    old = defining_op(facts.value(operand))
    dead_ops += [facts.op, *([old] if old is not None else [])]
    return new


def _new_dims(first: Sequence[int], dim: int) -> range:
    """The new dims that an old iteration dim becomes."""
    return range(first[dim], first[dim + 1])


def _runs(source: Source, dim: int) -> list[list[tuple[int | None, Size]]]:
    """The parts of an operand dim, joined where the source has them side by side."""
    place = {axis: number for number, axis in enumerate(source.order)}
    groups: list[list[tuple[int | None, Size]]] = []
    for part in zip(source.parts[dim], source.sizes[dim], strict=True):
        last = groups[-1][-1][0] if groups else None
        axis = part[0]
        joins = bool(groups) and (
            (axis is None and last is None)
            or (axis is not None and last is not None and place[axis] == place[last] + 1)
        )
        if joins:
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _join_runs(
    order: list[int], cuts: Sequence[Sequence[Size]]
) -> tuple[list[int], list[int], list[Size]]:
    """Groups neighbouring axes of the same new dim: counts, the map, the sizes."""
    flat = [size for parts in cuts for size in parts]
    counts: list[int] = []
    new_map: list[int] = []
    for dim in order:
        if new_map and new_map[-1] == dim:
            counts[-1] += 1
        else:
            counts.append(1)
            new_map.append(dim)
    return counts, new_map, [flat[dim] for dim in new_map]
