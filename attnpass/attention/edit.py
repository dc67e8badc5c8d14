"""The one way to make an attention op again: changed in what is said, and in nothing else.

    edit(facts).operand("key", key).mask(mask, dims).replace()

An edit stands for the op as it is. Each method returns one with one thing changed; nothing is
written before the last one:

- `build` makes the new op and leaves the old one as it is;
- `replace` makes it, and gives the users of the old results the new ones in their old form;
- `in_place` changes the old op itself.

What no method names stays: location, attributes and with them configurations, the score region
whatever it holds, operands and their maps. A configuration counts the op's dims, so that a caller
asks `may_cut` before it changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from iree.compiler import ir

from ..ir import (
    Builder,
    Size,
    body_of,
    collect,
    copied_attributes,
    copy_region,
    defining_op,
    element_type,
    fill_region,
    maps,
    replace_op,
    sizes_of,
)
from ..ir.limits import LOWEST
from .facts import CONFIGURATION_ATTRIBUTES, INDEX, AttentionFacts

INPUTS = ("query", "key", "value", "scale", "mask")
RESULTS = ("output", "max", "sum")
# What each result of online attention is where no key has been seen.
STARTS = {"output": 0.0, "max": LOWEST, "sum": 0.0}

# A value and the iteration dim that each of its dims is.
Operand = tuple[ir.Value, maps.Positions]
# What a score becomes, of a builder in the region and the scaled score.
Score = Callable[[Builder, ir.Value], ir.Value]


@dataclass(frozen=True)
class Dims:
    """What becomes of iteration dims: dim d is the new dims of[d], outermost first, of sizes
    sizes[d], which are needed where there are several; `count` new dims there are in all."""

    of: Mapping[int, Sequence[int]]
    count: int
    sizes: Mapping[int, Sequence[Size]] = field(default_factory=dict)

    def map_of(self, positions: maps.Positions) -> maps.Positions:
        """The map of an operand whose dims are cut as the iteration dims are."""
        return tuple(new for old in positions for new in ((None,) if old is None else self.of[old]))


def cut_dims(cuts: Sequence[Sequence[Size]]) -> Dims:
    """The dims where dim d becomes several of sizes cuts[d]; none where d, of size one, is gone."""
    first = first_dims(cuts)
    of = {dim: range(first[dim], first[dim + 1]) for dim in range(len(cuts))}
    return Dims(of, first[-1], dict(enumerate(cuts)))


def renumbered(new: Sequence[int]) -> Dims:
    """The dims where dim d becomes new[d]."""
    return Dims({old: (dim,) for old, dim in enumerate(new)}, len(new))


def first_dims(cuts: Sequence[Sequence[Size]]) -> list[int]:
    """The first new dim of each old one, and, last, the number of new dims."""
    first = [0]
    for parts in cuts:
        first.append(first[-1] + len(parts))
    return first


def may_cut(facts: AttentionFacts, cuts: Sequence[Sequence[Size]]) -> bool:
    """Whether the iteration dims may be cut into dims of these sizes: the score function must not
    read those that are, and a configuration says how many dims there are."""
    split = {dim for dim, sizes in enumerate(cuts) if len(sizes) > 1}
    return not split or not (facts.own_configuration or split & facts.score_index_dims)


def iteration_size(facts: AttentionFacts, dim: int) -> Size:
    """The size of an iteration dim, traced to where it comes from."""
    for name in facts.tensor_operands:
        positions = facts.map_of(name)
        if dim in positions:
            return sizes_of(facts.value(name))[positions.index(dim)]
    raise AssertionError("an iteration dim that no operand has")


def edit(facts: AttentionFacts, build: Builder | None = None) -> AttentionEdit:
    """The op as it is, to be made again where `build` stands, or in front of itself. Needs a
    current context."""
    dims = renumbered(range(facts.num_dims))
    attributes = copied_attributes(facts.op)
    return AttentionEdit(facts, build or Builder(facts.op), dims, facts.result_names, attributes)


@dataclass(frozen=True)
class AttentionEdit:
    """One attention op, and what changes of it."""

    facts: AttentionFacts
    _build: Builder
    _dims: Dims
    _results: tuple[str, ...]
    _attributes: Mapping[str, ir.Attribute]
    _given: Mapping[str, Operand] = field(default_factory=dict)
    _score: Score | None = None
    _lost: frozenset[str] = frozenset()

    def map_of(self, name: str) -> maps.Positions:
        """The map of an operand as it is, over the new dims."""
        return self._dims.map_of(self.facts.map_of(name))

    def operand(
        self, name: str, value: ir.Value, positions: maps.Positions | None = None
    ) -> AttentionEdit:
        """Another value for an operand, inputs and starts of results alike, with its map over the
        new dims; without one it has the dims that the old value's have become."""
        if positions is None:
            positions = self.map_of(name)
        return replace(self, _given={**self._given, name: (value, positions)})

    def mask(self, value: ir.Value, positions: maps.Positions) -> AttentionEdit:
        """Another mask, or one where there was none."""
        return self.operand("mask", value, positions)

    def without_mask(self) -> AttentionEdit:
        """No mask."""
        return replace(self, _lost=self._lost | {"mask"})

    def starts(
        self, values: Sequence[ir.Value], positions: Sequence[maps.Positions]
    ) -> AttentionEdit:
        """Other results, that start from these values: of attention one, of online attention three.
        Maps are over the new dims."""
        names = RESULTS[: len(values)]
        kept = {name: each for name, each in self._given.items() if name not in RESULTS}
        given = dict(zip(names, zip(values, positions, strict=True), strict=True))
        return replace(self, _given={**kept, **given}, _results=names)

    def over(self, dims: Dims) -> AttentionEdit:
        """Other iteration dims. Said before operands whose maps follow from them."""
        return replace(self, _dims=dims)

    def cut(self, cuts: Sequence[Sequence[Size]]) -> AttentionEdit:
        """Iteration dim d as dims of sizes cuts[d], and so in all operands; none drops it."""
        return self.over(cut_dims(cuts))

    def renumber(self, new: Sequence[int]) -> AttentionEdit:
        """Iteration dim d as number new[d]."""
        return self.over(renumbered(new))

    def score(self, made: Score) -> AttentionEdit:
        """Another score region: what `made` makes of the scaled score."""
        return replace(self, _score=made)

    def attribute(self, name: str, value: ir.Attribute) -> AttentionEdit:
        return replace(self, _attributes={**self._attributes, name: value})

    def without_configuration(self) -> AttentionEdit:
        kept = {k: v for k, v in self._attributes.items() if k not in CONFIGURATION_ATTRIBUTES}
        return replace(self, _attributes=kept)

    def build(self) -> ir.Operation:
        """The new op. The old one stands, and has its users."""
        values, indexing = self._operands()
        here = Builder(self._build.anchor, self.facts.op.location)
        attributes = {**self._attributes, "indexing_maps": indexing}
        new = attention_op(here, values, len(self._results), attributes)
        if self._score is not None:
            fill_score(new, body_of(self.facts.op).arguments[0].type, self._score)
            return new
        copy_region(self.facts.op, new)
        self._follow_dims(new)
        return new

    def replace(self, *but: str) -> ir.Operation:
        """The new op, whose results, all `but` those named, the users of the old ones read, in
        their old order and sizes. The old op is left for the caller to erase."""
        new = self.build()
        for name, old, value in zip(
            self.facts.result_names, self.facts.op.results, new.results, strict=True
        ):
            if name not in but:
                old.replace_all_uses_with(self._as_before(name, value, old))
        return new

    def in_place(self) -> ir.Operation:
        """The old op, changed: its operands keep their number, its results their types."""
        values, indexing = self._operands()
        op = self.facts.op
        assert self._score is None, "another region: a new op"
        assert len(values) == len(op.operands), "a mask more, or other results: a new op"
        for number, value in enumerate(values):
            if op.operands[number] != value:
                op.operands[number] = value
        op.attributes["indexing_maps"] = indexing
        self._follow_dims(op)
        return op

    def _operands(self) -> tuple[list[ir.Value], ir.ArrayAttr]:
        """The new operands, and their maps."""
        old = self.facts.operand_names
        names = [name for name in INPUTS if name in self._given or name in old]
        names = [name for name in names if name not in self._lost]
        names += self._results
        operands = [self._given.get(name) or self._cut(name) for name in names]
        indexing = maps.maps_attribute(self._dims.count, [positions for _, positions in operands])
        return [value for value, _ in operands], indexing

    def _cut(self, name: str) -> Operand:
        """An operand as it is, its dims cut as the iteration dims are."""
        value, positions = self.facts.value(name), self.facts.map_of(name)
        new = self.map_of(name)
        if all(dim is None or len(self._dims.of[dim]) == 1 for dim in positions):
            return value, new
        sizes = sizes_of(value)
        parts = [
            [sizes[at]] if dim is None or len(self._dims.of[dim]) == 1 else self._dims.sizes[dim]
            for at, dim in enumerate(positions)
        ]
        producer = defining_op(value, "tensor.empty")
        if producer is not None:
            flat = [size for parts in parts for size in parts]
            return self._build.empty(flat, element_type(value)), new
        return self._build.split_dims(value, parts), new

    def _follow_dims(self, op: ir.Operation) -> None:
        """Gives the reads of positions in a region the new dims: of one in parts the sum of their
        positions, of one that is gone 0."""
        of = self._dims.of
        for inner in collect(op, lambda each: each.name == INDEX):
            old = ir.IntegerAttr(inner.attributes["dim"])
            if len(of[old.value]) == 1:
                inner.attributes["dim"] = ir.IntegerAttr.get(old.type, of[old.value][0])
                continue
            position = self._position(Builder(inner), Builder(op), old)
            replace_op(inner, position)

    def _position(self, build: Builder, outside: Builder, old: ir.IntegerAttr) -> ir.Value:
        """The position in an old dim, in the region of the new op; sizes come from `outside`."""
        position = build.constant_index(0)
        kinds, dims = [position.type], self._dims
        parts = zip(dims.of[old.value], dims.sizes.get(old.value, ()), strict=True)
        for number, (dim, size) in enumerate(parts):
            where = {"dim": ir.IntegerAttr.get(old.type, dim)}
            part = build.create(INDEX, kinds, [], where).results[0]
            if number:
                part = build.addi(build.muli(position, outside.size(size)), part)
            position = part
        return position

    def _as_before(self, name: str, value: ir.Value, old: ir.Value) -> ir.Value:
        """A new result in the order and the sizes of the old one."""
        build, sizes, cut = self._build, sizes_of(old), self.map_of(name)
        _, written = self._given.get(name, (value, cut))
        value = build.transpose(value, _order(written, cut))
        counts = [1 if dim is None else len(self._dims.of[dim]) for dim in self.facts.map_of(name)]
        value = build.join_dims(value, counts, sizes)
        if value.type == old.type:
            return value
        return build.extract_slice(value, [0] * len(sizes), sizes)


def _order(have: maps.Positions, want: maps.Positions) -> list[int]:
    """Which dim of `have` each dim of `want` is; dims of size one that have no loop in turn."""
    left = list(enumerate(have))
    found: list[int] = []
    for dim in want:
        number = next(place for place, (_, other) in enumerate(left) if other == dim)
        found.append(left.pop(number)[0])
    return found


def attention_op(
    build: Builder,
    operands: Sequence[ir.Value],
    results: int,
    attributes: Mapping[str, ir.Attribute],
) -> ir.Operation:
    """An attention op, online where it has three results, that lacks its score region. Operands
    are those of `INPUTS`, a mask or none, and what the results start from."""
    name = "attention" if results == 1 else "online_attention"
    types = [value.type for value in operands[-results:]]
    return build.create(f"iree_linalg_ext.{name}", types, operands, attributes, regions=1)


def fill_score(op: ir.Operation, kind: ir.Type, made: Score) -> None:
    """Gives an attention op the score region that `made` makes of a score of this type."""
    fill_region(op, [kind], "iree_linalg_ext.yield", lambda inner, x: [made(inner, x[0])])


def no_key_seen(build: Builder, sizes: Sequence[Sequence[Size]]) -> list[ir.Value]:
    """What the results of online attention, of these sizes, start from, in f32."""
    f32 = ir.F32Type.get(build.anchor.context)
    return [
        build.fill(build.constant_float(STARTS[name], f32), build.empty(of, f32))
        for name, of in zip(RESULTS, sizes, strict=True)
    ]
