"""An unknown number of keys and rows as whole kernel tiles: IREE 3.13 has tensor-core kernels for
a known tile of keys only.

A dim of unknown size N becomes two: ceil(N / size) tiles, and a place in the tile. Each
operand is copied by an op that reads its element, or the last one where the place lies
beyond N: such keys are masked, such rows are dropped from the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ...attention.edit import Dims, edit, iteration_size
from ...attention.facts import AttentionFacts, start_number
from ...ir import (
    Builder,
    Refusal,
    Size,
    element_type,
    is_float,
    maps,
    sizes_of,
)
from ...machines import Target


@dataclass(frozen=True)
class Tiles:
    """What an iteration dim of `length` becomes: new dim `tile` counts its tiles of `size`,
    `place` the places in one.

    IREE joins the two again where every operand has them side by side in the same order: so
    the operand `apart_in` has the tile in front of all its dims where one of `others` is
    between, else behind the place.
    """

    apart_in: str
    others: frozenset[int | None]
    size: int
    length: ir.Value
    count: Size
    tile: int
    place: int

    def position(self, tile: ir.Value, place: ir.Value, build: Builder) -> ir.Value:
        """The position in the old dim; it may lie beyond the end."""
        return build.multiply_add(tile, self.size, place)

    def inside(self, position: ir.Value, build: Builder) -> ir.Value:
        """Whether a position is before the end, as an i1."""
        return build.compare("ult", position, self.length)


@dataclass(frozen=True)
class Axis:
    """A dim of an operand in tiles: its old dim, and what of it: `whole`, `tile` or `place`."""

    dim: int
    part: str


@dataclass(frozen=True)
class Space:
    """New numbers of the iteration dims that stay as they are, and the dims in tiles."""

    numbers: Mapping[int, int]
    tiles: Mapping[int, Tiles]
    num_dims: int

    @property
    def dims(self) -> Dims:
        """What becomes of all iteration dims."""
        whole = {dim: (number,) for dim, number in self.numbers.items()}
        cut = {dim: (tiles.tile, tiles.place) for dim, tiles in self.tiles.items()}
        sizes = {dim: (tiles.count, tiles.size) for dim, tiles in self.tiles.items()}
        return Dims(whole | cut, self.num_dims, sizes)

    def axes(self, name: str, positions: maps.Positions) -> list[Axis]:
        """The dims of the operand `name`, which has this map, in tiles."""
        axes: list[Axis] = []
        for dim, position in enumerate(positions):
            parts = ("tile", "place") if position in self.tiles else ("whole",)
            axes += [Axis(dim, part) for part in parts]
        for tile in [axis for axis in axes if axis.part == "tile"]:
            position = positions[tile.dim]
            if position is not None and name == self.tiles[position].apart_in:
                axes.remove(tile)
                place = axes.index(Axis(tile.dim, "place"))
                others = {positions[axis.dim] for axis in axes[:place]}
                front = others & self.tiles[position].others
                axes.insert(0 if front else place + 1, tile)
        return axes

    def map_of(self, axes: Sequence[Axis], positions: maps.Positions) -> maps.Positions:
        """The new indexing map of an operand."""
        found: list[int | None] = []
        for axis in axes:
            position = positions[axis.dim]
            if position is None or axis.part == "whole":
                found.append(None if position is None else self.numbers[position])
            else:
                tiles = self.tiles[position]
                found.append(tiles.tile if axis.part == "tile" else tiles.place)
        return tuple(found)

    def sizes(
        self, axes: Sequence[Axis], positions: maps.Positions, old: Sequence[Size]
    ) -> list[Size]:
        found: list[Size] = []
        for axis in axes:
            position = positions[axis.dim]
            if position is None or axis.part == "whole":
                found.append(old[axis.dim])
            else:
                tiles = self.tiles[position]
                found.append(tiles.count if axis.part == "tile" else tiles.size)
        return found


def tile_unknown_sizes(facts: AttentionFacts, target: Target) -> str | None:
    """Gives attention over a number of keys known only at run time tiles of a known size; rows of
    grouped queries, of an unknown number or of one that leaves a tile incomplete, too."""
    sizes = target.dynamic_tiles(facts)
    if isinstance(sizes, Refusal) or not sizes:
        return None
    view_as_tiles(facts, sizes)
    keys = [
        f"keys is viewed as tiles of {sizes[dim]}, the last one masked"
        for dim in facts.k2
        if dim in sizes
    ]
    viewed = {dim: f"viewed as tiles of {sizes[dim]}" for dim in facts.m if dim in sizes}
    unknown = [f"rows is {how}" for dim, how in viewed.items() if facts.sizes[dim] is None]
    known = [f", rows are {how}" for dim, how in viewed.items() if facts.sizes[dim]]
    return f"the unknown number of {', that of '.join([*keys, *unknown])}{''.join(known)}"


def view_as_tiles(facts: AttentionFacts, sizes: Mapping[int, int]) -> None:
    """Gives the users of an attention the same one with tiles of `sizes` along the m and k2
    dims named, at most one of each. The caller erases the old op."""
    build = Builder(facts.op)
    space = _space(facts, sizes, build)
    made = edit(facts).over(space.dims)
    for name in facts.tensor_operands:
        if name == "output" and not facts.has_mask and facts.k2[0] in space.tiles:
            keys = space.tiles[facts.k2[0]]
            made = made.mask(_mask(keys, build), (keys.place, keys.tile))
        positions = facts.map_of(name)
        axes = space.axes(name, positions)
        value = _in_tiles(facts, name, axes, space, build)
        made = made.operand(name, value, space.map_of(axes, positions))
    results = zip(facts.op.results, made.build().results, strict=True)
    for name, (old, value) in zip(facts.result_names, results, strict=True):
        axes = space.axes(name, facts.map_of(name))
        old.replace_all_uses_with(_whole(facts, name, value, axes, space, build))


def _space(facts: AttentionFacts, sizes: Mapping[int, int], build: Builder) -> Space:
    """The new dims: a tile stands before all dims of its kind, since IREE may join the others."""
    before = {min(group): dim for group in (facts.m, facts.k2) for dim in group if dim in sizes}
    order: list[tuple[int, str]] = []
    for dim in range(facts.num_dims):
        order += [(before[dim], "tile")] if dim in before else []
        order.append((dim, "place" if dim in sizes else "whole"))
    numbers = {key: number for number, key in enumerate(order)}
    tiles: dict[int, Tiles] = {}
    for dim, size in sizes.items():
        length = iteration_size(facts, dim)
        count = build.size_op("ceildivui", length, size)
        places = numbers[dim, "tile"], numbers[dim, "place"]
        # Rows of Q lie apart in memory anyway; a mask is best read along its keys.
        apart_in = "query" if dim in facts.m else "mask"
        between = () if dim in facts.m else (*facts.batch, *facts.m)
        others = frozenset(other for other in between if facts.sizes[other] != 1)
        tiles[dim] = Tiles(apart_in, others, size, build.size(length), count, *places)
    whole = {dim: number for (dim, part), number in numbers.items() if part == "whole"}
    return Space(whole, tiles, len(order))


def _in_tiles(
    facts: AttentionFacts, name: str, axes: Sequence[Axis], space: Space, build: Builder
) -> ir.Value:
    """An operand with these dims."""
    value, positions = facts.value(name), facts.map_of(name)
    if all(axis.part == "whole" for axis in axes):
        return value
    init = build.empty(space.sizes(axes, positions, sizes_of(value)), element_type(value))
    if name in facts.result_names:
        return _begun(facts, name, init, build)

    def body(inner: Builder, _: Sequence[ir.Value]) -> list[ir.Value]:
        loops = {axis: inner.loop_index(loop) for loop, axis in enumerate(axes)}
        indices: list[ir.Value] = []
        hidden: list[ir.Value] = []
        for dim, position in enumerate(positions):
            if position is None or position not in space.tiles:
                indices.append(loops[Axis(dim, "whole")])
                continue
            tiles = space.tiles[position]
            wanted = tiles.position(loops[Axis(dim, "tile")], loops[Axis(dim, "place")], inner)
            inside = tiles.inside(wanted, inner)
            last = inner.multiply_add(tiles.length, 1, -1)
            indices.append(inner.select(inside, wanted, last))
            # Of a mask, rows behind the end may say anything.
            hidden += [inside] if position in facts.k2 or name != "mask" else []
        element = inner.extract(value, indices)
        hides = float("-inf") if name == "mask" and is_float(element.type) else 0
        for inside in hidden:
            element = inner.select(inside, element, inner.constant_number(hides, element.type))
        return [element]

    return build.generic([], [init], [tuple(range(len(axes)))], body)[0]


def _begun(facts: AttentionFacts, name: str, init: ir.Value, build: Builder) -> ir.Value:
    """What a result of another shape starts from."""
    filler = start_number(facts, name)
    return init if filler is None else build.fill(filler, init)


def _mask(tiles: Tiles, build: Builder) -> ir.Value:
    """A mask (place, tile) of the keys that there are."""
    i1 = ir.IntegerType.get_signless(1, build.anchor.context)

    def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        wanted = tiles.position(inner.loop_index(1), inner.loop_index(0), inner)
        return tiles.inside(wanted, inner)

    return build.computed([tiles.size, tiles.count], i1, body)


def _whole(
    facts: AttentionFacts,
    name: str,
    value: ir.Value,
    axes: Sequence[Axis],
    space: Space,
    build: Builder,
) -> ir.Value:
    """A result with its old dims."""
    if all(axis.part == "whole" for axis in axes):
        return value
    positions, old = facts.map_of(name), facts.value(name)

    def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        indices: list[ir.Value] = []
        for axis in axes:
            index, position = inner.loop_index(axis.dim), positions[axis.dim]
            if axis.part != "whole" and position is not None:
                size = inner.constant_index(space.tiles[position].size)
                step = "arith.divui" if axis.part == "tile" else "arith.remui"
                index = inner.create(step, [index.type], [index, size]).results[0]
            indices.append(index)
        return inner.extract(value, indices)

    return build.computed(sizes_of(old), element_type(old), body)
