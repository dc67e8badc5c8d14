"""Sums (and maxima, and so on) as loops of threads that lie side by side in what they read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir

from ..codegen.kernel import STORES
from ..ir import (
    DYNAMIC,
    Builder,
    DynamicSize,
    Refusal,
    Size,
    body_of,
    body_ops,
    collect,
    copy_steps,
    defining_op,
    element_bytes,
    element_type,
    erase,
    filled_with,
    iterator_kinds,
    loop_sizes,
    loops_read,
    maps,
    reduces,
    scalar_number,
    users,
    whole_number,
    yielded,
)
from ..ir.contractions import shares_factors
from . import lane_bodies
from .lane_loops import THREADS, VECTOR_BYTES, LaneLoops, emit, size_value, start_of
from .moves import source_of
from .shared_loops import LARGEST, SharedLoops, combines

_REDUCTION, _LANES = "reduction", 32
# What a thread reads before it adds that up: numbers, or vectors of them, of so many at most.
_AT_ONCE, _VECTORS_AT_ONCE, _WIDEST = 8, 4, 8
# Of a row that is read again, the most numbers that a thread has in registers.
_HELD = 32
# Of the turns of all threads that share a sum, the part in which they have something to add.
_BUSY = 0.85
# The numbers of a sum from which on a workgroup has so many threads.
_LONG = ((16384, 1024), (4097, 512))
# As many workgroups keep the multiprocessors of a large GPU busy.
_WORKGROUPS = 264
_ADDS = ("arith.addf", "arith.addi")
# Bits of what lanes of a subgroup hand one another.
_SHUFFLED = (16, 32)


@dataclass(frozen=True)
class _Neighbours:
    """Neighbours along what is summed, as many as a vector has: the `indices` of the first, whether
    they are `inside` (None: surely), what was `read` there, by memref, its loops and element, and
    what was `made` of it."""

    indices: Mapping[int, ir.Value]
    inside: ir.Value | None
    read: dict[tuple[ir.Value, tuple[int | None, ...], int], ir.Value] = field(default_factory=dict)
    made: dict[Any, ir.Value] = field(default_factory=dict)


@dataclass(frozen=True)
class LaneSums:
    """A kernel of `sums` along the same dims, of elementwise ops that make what these add, and of
    others that make results of them: a mean, a softmax, a norm. `loops` has for each op the loops
    of the first sum that run along the dims of its own; `ends` has the results' stores and their
    memrefs. Sizes of loops that are kept may be unknown, 0 in `sizes`, and `open` has their values.
    `parts` of a workgroup's `threads` share a sum: side by side along what is summed where that
    lies so in memory, `along`, `width` numbers each, else a line apart."""

    ops: tuple[ir.Operation, ...]
    loops: tuple[tuple[int, ...], ...]
    ends: Mapping[ir.Value, tuple[ir.Operation, ir.Value]]
    kept: tuple[int, ...]
    summed: tuple[int, ...]
    sizes: Mapping[int, int]
    open: Mapping[int, ir.Value]
    along: bool
    parts: int
    threads: int
    width: int

    @property
    def words(self) -> str:
        return f"{self.parts} threads of a workgroup share each of its sums"

    @property
    def sums(self) -> list[ir.Operation]:
        return [op for op in self.ops if reduces(op)]

    @property
    def count(self) -> int:
        """How many numbers a sum has."""
        return math.prod(self.sizes[loop] for loop in self.summed)

    @property
    def has_lines(self) -> bool:
        """Whether what is summed is read again for a result, or for another sum."""
        return len(self.sums) > 1 or any(map(self._is_full, self._stored()))

    @property
    def has_read_results(self) -> bool:
        """Whether what is summed is a result, too: IREE 3.13 fails to distribute both."""
        lines = [op for op in self._stored() if self._is_full(op)]
        return any(user in self.ops for op in lines for user in users(op.results[0]))

    @property
    def is_held(self) -> bool:
        """Whether threads have what they read again in registers."""
        return self.along and self.has_lines and self.count <= _HELD * self.parts

    def emit(self) -> None:
        """Puts loops in the ops' place."""
        each = self.threads // self.parts

        def body(build: LaneLoops) -> None:
            if self.along:
                own, part = build.split(build.thread, [each, self.parts])
            else:
                part, own = build.split(build.thread, [self.parts, each])
            place = build.add(build.times(build.workgroup, each), own)
            total = self._total(build)
            whole = each == 1 or (not self.open and math.prod(self._kept()) % each == 0)
            inner = place if whole else build.least(place, build.add(total, build.number(-1)))
            sizes = [build.to_number(self.open.get(loop, self.sizes[loop])) for loop in self.kept]
            found = build.split(inner, sizes)
            indices = dict(zip(self.kept, found, strict=False))
            first = None if self.parts == 1 else build.below(part, 1)
            inside = build.both(first, None if whole else build.less(place, total))
            held = self._held(build, part, indices) if self.is_held else None
            known: dict[ir.Value, ir.Value] = {}
            for op in self.ops:
                if self._is_full(op):
                    continue
                if reduces(op):
                    known[op.results[0]] = self._sum(op, build, indices, known, part, own, held)
                else:
                    known[op.results[0]] = self._made(
                        op, build, _Neighbours(indices, None), 0, known
                    )
                if op.results[0] in self.ends:
                    at = [indices[loop] for loop in self._written(op)]
                    build.store(known[op.results[0]], self.ends[op.results[0]][1], at, inside)
            lines = [op for op in self._stored() if self._is_full(op)]
            if lines:
                self._store(lines, build, indices, known, part, held)

        stores = [end for end, _ in self.ends.values()]
        last = stores[0]
        for store in stores:
            last = store if last.is_before_in_block(store) else last
        emit(last, self._workgroups(Builder(last), each), body)
        lane_bodies.erase(stores, [*reversed(self.ops)])

    def _kept(self) -> list[int]:
        return [self.sizes[loop] for loop in self.kept if loop not in self.open]

    def _total(self, build: LaneLoops) -> ir.Value:
        """How many sums there are."""
        total = build.number(math.prod(self._kept()))
        for value in self.open.values():
            total = build.build.muli(total, build.to_number(value))
        return total

    def _workgroups(self, build: Builder, each: int) -> int | ir.Value:
        total: Size = math.prod(self._kept())
        for value in self.open.values():
            total = build.size_op("muli", total, DynamicSize(value))
        count = build.size_op("ceildivui", total, each)
        return count if isinstance(count, int) else build.size(count)

    def _sum(
        self,
        op: ir.Operation,
        build: LaneLoops,
        indices: Mapping[int, ir.Value],
        known: Mapping[ir.Value, ir.Value],
        part: ir.Value,
        own: ir.Value,
        held: list[_Neighbours] | None,
    ) -> ir.Value:
        """What all threads know of a sum then: that of what is at `part`, and every so many places
        behind it, and of what the others have added up."""
        start = filled_with(op.operands[len(op.operands) - 1])
        assert start is not None, "it has been read before"

        def add(lanes: LaneLoops, place: _Neighbours, sums: Sequence[ir.Value]) -> list[ir.Value]:
            so_far = sums[0]
            for at in range(self.width):
                so_far = self._line([op], lanes, place, at, known, so_far)[0]
            inside = place.inside
            return [so_far if inside is None else lanes.build.select(inside, so_far, sums[0])]

        (sums,) = self._walk(build, part, indices, held, [start], add)
        combine = defining_op(yielded(op))
        assert combine is not None
        if self.parts == 1:
            return sums
        if self.along and element_type(op.results[0]).width in _SHUFFLED:
            return self._shuffled(build, sums, combine.name, part, own)
        return self._shared(build, sums, combine.name, part, own)

    def _shuffled(
        self, build: LaneLoops, sums: ir.Value, combine: str, part: ir.Value, own: ir.Value
    ) -> ir.Value:
        """What the lanes of subgroups add up, and then one lane for each subgroup."""
        sums = build.over_lanes(combine, sums, min(self.parts, _LANES))
        count = self.parts // _LANES
        if count <= 1:
            return sums
        shared = build.shared(self.threads // self.parts, count, sums.type)
        group, lane = build.split(part, [count, _LANES])
        build.store(sums, shared, [own, group], build.below(lane, 1))
        build.barrier()
        _, other = build.split(lane, [_LANES // count, count])
        return build.over_lanes(combine, build.get(shared, [own, other]), count)

    def _shared(
        self, build: LaneLoops, sums: ir.Value, combine: str, part: ir.Value, own: ir.Value
    ) -> ir.Value:
        """What threads add up in shared memory, half of them at a time."""
        shared = build.shared(self.parts, self.threads // self.parts, sums.type)
        build.put(sums, shared, [part, own])
        half = self.parts // 2
        while half:
            build.barrier()

            def then(inner: Builder, half: int = half) -> list[ir.Value]:
                lanes = build.inside(inner)
                one = lanes.get(shared, [part, own])
                other = lanes.get(shared, [lanes.add(part, lanes.number(half)), own])
                lanes.put(inner.apply(combine, one, other), shared, [part, own])
                return []

            build.build.conditional(build.below(part, half), [], then, lambda _: [])
            half //= 2
        build.barrier()
        return build.get(shared, [build.number(0), own])

    def _store(
        self,
        lines: list[ir.Operation],
        build: LaneLoops,
        indices: Mapping[int, ir.Value],
        known: Mapping[ir.Value, ir.Value],
        part: ir.Value,
        held: list[_Neighbours] | None,
    ) -> None:
        """Makes and stores results that have the dims that are summed."""

        def put(lanes: LaneLoops, place: _Neighbours, _: Sequence[ir.Value]) -> list[ir.Value]:
            made = [self._line(lines, lanes, place, at, known) for at in range(self.width)]
            for op, values in zip(lines, zip(*made, strict=True), strict=True):
                memref = self.ends[op.results[0]][1]
                at = [place.indices[loop] for loop in self._written(op)]
                if self.width == 1:
                    lanes.store(values[0], memref, at, place.inside)
                else:
                    kind = lanes.vector(values[0].type, self.width)
                    vector = lanes.build.create("vector.from_elements", [kind], [*values])
                    lanes.store_vector(vector.results[0], memref, at, place.inside)
            return []

        self._walk(build, part, indices, held, [], put)

    def _place(
        self,
        lanes: LaneLoops,
        number: ir.Value,
        indices: Mapping[int, ir.Value],
        is_last: bool = False,
    ) -> _Neighbours:
        """The `number`-th vector of what is summed; behind its end, if `is_last`, the last one."""
        vectors, inside = self.count // self.width, None
        if is_last:
            inside = lanes.below(number, vectors)
            number = lanes.least(number, lanes.number(vectors - 1))
        sizes = [self.sizes[loop] for loop in self.summed]
        found = lanes.split(number, [*sizes[:-1], sizes[-1] // self.width])
        found[-1] = lanes.times(found[-1], self.width) if self.width > 1 else found[-1]
        return _Neighbours({**indices, **dict(zip(self.summed, found, strict=True))}, inside)

    def _held(
        self, build: LaneLoops, part: ir.Value, indices: Mapping[int, ir.Value]
    ) -> list[_Neighbours]:
        """All places of a thread."""
        vectors = self.count // self.width
        numbers = range(0, vectors, self.parts)
        return [
            self._place(
                build, build.add(part, build.number(at)), indices, at + self.parts > vectors
            )
            for at in numbers
        ]

    def _walk(
        self,
        build: LaneLoops,
        part: ir.Value,
        indices: Mapping[int, ir.Value],
        held: list[_Neighbours] | None,
        carried: list[ir.Value],
        visit: Callable[[LaneLoops, _Neighbours, Sequence[ir.Value]], list[ir.Value]],
    ) -> list[ir.Value]:
        """Visits what is at `part` of what is summed, and every so many places behind it."""
        if held is not None:
            for place in held:
                carried = visit(build, place, carried)
            return carried

        def turn(
            lanes: LaneLoops, first: ir.Value, values: Sequence[ir.Value], count: int
        ) -> list[ir.Value]:
            for at in range(count):
                number = lanes.add(first, lanes.number(at * self.parts))
                values = visit(lanes, self._place(lanes, number, indices), values)
            return list(values)

        at_once = _AT_ONCE if self.width == 1 else _VECTORS_AT_ONCE
        vectors = self.count // self.width
        turns = vectors // self.parts
        rounds = turns // at_once if turns >= 2 * at_once else 0
        if rounds:
            bounds = [build.number(0), build.number(rounds), build.number(1)]

            def step(inner: Builder, at: ir.Value, values: Sequence[ir.Value]) -> list[ir.Value]:
                lanes = build.inside(inner)
                first = lanes.add(part, lanes.times(at, at_once * self.parts))
                return turn(lanes, first, values, at_once)

            carried = build.build.loop(bounds, carried, step)
        first = build.add(part, build.number(rounds * at_once * self.parts))
        carried = turn(build, first, carried, turns - rounds * at_once)
        if vectors % self.parts:
            number = build.add(part, build.number(turns * self.parts))
            carried = visit(build, self._place(build, number, indices, True), carried)
        return carried

    def _line(
        self,
        wanted: list[ir.Operation],
        build: LaneLoops,
        place: _Neighbours,
        at: int,
        known: Mapping[ir.Value, ir.Value],
        sums: ir.Value | None = None,
    ) -> list[ir.Value]:
        """What these ops make of element `at` of a place, each op in front of them once."""
        made = dict(known)

        def make(op: ir.Operation, so_far: ir.Value | None) -> ir.Value:
            for value in op.operands:
                maker = defining_op(value)
                if value not in made and maker in self.ops:
                    made[value] = make(maker, None)
            return self._made(op, build, place, at, made, so_far)

        for op in wanted:
            if op.results[0] not in made:
                made[op.results[0]] = make(op, sums)
        return [made[op.results[0]] for op in wanted]

    def _made(
        self,
        op: ir.Operation,
        build: LaneLoops,
        place: _Neighbours,
        at: int,
        known: Mapping[ir.Value, ir.Value],
        sums: ir.Value | None = None,
    ) -> ir.Value:
        """What the body of an op makes of element `at` of a place: of what is `known` of the ops in
        front of it, of what is in buffers, and of the `sums` so far."""
        loops = self._loops(op)
        indices = dict(place.indices)
        if at:
            line = self.summed[-1]
            indices[line] = build.add(indices[line], build.number(at))
        own = {one: indices[loop] for one, loop in enumerate(loops) if loop in indices}
        *arguments, last = body_of(op).arguments
        given = {} if sums is None else {last: sums}
        for argument, (value, dims) in zip(arguments, loops_read(op), strict=False):
            memref = source_of(value)
            if value in known:
                given[argument] = known[value]
            elif memref is not None:
                read = [None if loop is None else loops[loop] for loop in dims]
                given[argument] = self._read(build, memref, read, place, at, indices)
        return lane_bodies.made(op, build, own, given, place.made)

    def _read(
        self,
        build: LaneLoops,
        memref: ir.Value,
        loops: Sequence[int | None],
        place: _Neighbours,
        at: int,
        indices: Mapping[int, ir.Value],
    ) -> ir.Value:
        """Element `at` of a place in a buffer whose dims these loops run along."""
        line, own = self.summed[-1], tuple(loops)
        at = at if line in loops else 0
        if (memref, own, at) in place.read:
            return place.read[memref, own, at]
        vector = self.width > 1 and bool(own) and own[-1] == line and line not in own[:-1]
        found = place.indices if vector else indices
        places = [build.number(0) if loop is None else found[loop] for loop in loops]
        if not vector:
            place.read[memref, own, at] = build.get(memref, places)
            return place.read[memref, own, at]
        loaded = build.load_vector(memref, places, self.width)
        for one, element in enumerate(build.elements(loaded)):
            place.read[memref, own, one] = element
        return place.read[memref, own, at]

    def _loops(self, op: ir.Operation) -> tuple[int, ...]:
        return self.loops[self.ops.index(op)]

    def _is_full(self, op: ir.Operation) -> bool:
        """Whether an elementwise op has the dims that are summed."""
        return not reduces(op) and any(loop in self.summed for loop in self._loops(op))

    def _stored(self) -> list[ir.Operation]:
        return [op for op in self.ops if op.results[0] in self.ends]

    def _written(self, op: ir.Operation) -> list[int]:
        """The loop of each dim of an op's result."""
        return [self._loops(op)[loop] for loop in loops_written(op)]


def loops_written(op: ir.Operation) -> list[int]:
    """An op's own loop of each dim of its result."""
    *_, (_, dims) = loops_read(op)
    return [loop for loop in dims if loop is not None]


def read(function: ir.Operation) -> LaneSums | Refusal:
    """The sums of a kernel; why it is left to IREE."""
    names = ("linalg.", "iree_linalg_ext.")
    found = collect(function, lambda op: op.name.startswith(names), bodies=False)
    ops = [op for op in found if op.name != "linalg.fill"]
    if any(op.name != "linalg.generic" or len(op.results) != 1 for op in ops):
        return Refusal("one of its ops is no loop")
    sums = [op for op in ops if reduces(op)]
    if not sums:
        return Refusal("it does not sum")
    for op in ops:
        refusal = lane_bodies.why_not(op) or _why_not(op, ops)
        if refusal is not None:
            return refusal
    root, shared = sums[0], SharedLoops(function)
    sizes = {loop: size or 0 for loop, size in loop_sizes(root).items()}
    loops = []
    for op in ops:
        # What the first sum compares with itself it reads at loops of their own.
        places = [
            [loop] if op == root else shared.along_the_same(root, loop, op)
            for loop in sorted(sizes)
        ]
        owner = {at: loop for loop, own in enumerate(places) for at in own}
        count = len(iterator_kinds(op))
        if any(len(own) > 1 for own in places) or not len(owner) == sum(map(len, places)) == count:
            return Refusal("its ops have other loops")
        loops.append(tuple(owner[at] for at in range(len(owner))))
    summed = {loop for loop, kind in enumerate(iterator_kinds(root)) if kind == _REDUCTION}
    for op, own in zip(ops, loops, strict=True):
        over = {own[at] for at, kind in enumerate(iterator_kinds(op)) if kind == _REDUCTION}
        fits = {*own} == {*sizes} if reduces(op) else {*own} in ({*sizes}, {*sizes} - summed)
        if not fits or (reduces(op) and over != summed):
            return Refusal("its ops have other loops")
    unknown = [loop for loop, size in sizes.items() if not size]
    if summed & {*unknown} or math.prod(filter(None, sizes.values())) >= 1 << 31:
        return Refusal("sizes are known only at run time")
    ends: dict[ir.Value, tuple[ir.Operation, ir.Value]] = {}
    for op in ops:
        stores = [user for user in users(op.results[0]) if user not in ops]
        if any(store.name != STORES[0] for store in stores) or len(stores) > 1:
            return Refusal("its results are not stored alone")
        for store in stores:
            ends[op.results[0]] = (store, store.operands[1])
    if not ends or not all(lane_bodies.is_plain(memref) for _, memref in ends.values()):
        return Refusal("its results are not stored alone")
    values = {loop: _size_of(loop, ops, loops, ends) for loop in unknown}
    opened = {loop: value for loop, value in values.items() if value is not None}
    if len(opened) < len(unknown):
        return Refusal("sizes are known only at run time")
    along, order = _order(ops, loops, sizes, summed)
    for op, own in zip(ops, loops, strict=True):
        line = [own[loop] for loop in loops_written(op)]
        if op.results[0] in ends and summed & {*line} and line[-1] != order[-1]:
            return Refusal("lanes would write its result across")
    kept = tuple(loop for loop in order if loop not in summed)
    last = tuple(loop for loop in order if loop in summed)
    count = math.prod(sizes[loop] for loop in summed)
    threads = next((one for least, one in _LONG if along and count >= least), THREADS)
    width = _width(ops, loops, ends, last[-1], sizes[last[-1]]) if along else 1
    # Each thread reads a few numbers.
    parts = 1 << max(count // max(4, width), 1).bit_length() - 1
    parts = min(parts, threads if along else THREADS // _LANES)
    if along:
        parts = _busy_parts(count // width, width, parts)
    else:
        # As many threads as a GPU has, of lines of eight at least.
        total = math.prod(sizes[loop] for loop in kept)
        while not opened and parts < _LANES and 2 * parts * _AT_ONCE <= count:
            if total * parts >= THREADS * _WORKGROUPS:
                break
            parts *= 2
    return LaneSums(
        tuple(ops), tuple(loops), ends, kept, last, sizes, opened, along, parts, threads, width
    )


def take_apart(function: ir.Operation) -> bool:
    """Makes of each elementwise op of several results one a result, which makes it all anew;
    whether there was such an op."""

    def has_several(op: ir.Operation) -> bool:
        return op.name == "linalg.generic" and len(op.results) > 1 and not reduces(op)

    several = collect(function, has_several, bodies=False)
    for op in several:
        for number in range(len(op.results)):
            op.results[number].replace_all_uses_with(_alone(op, number))
        erase(op)
    return bool(several)


def _alone(op: ir.Operation, number: int) -> ir.Value:
    """A result of an elementwise op, made by an op of its own."""
    count, positions = len(op.results), maps.positions(op)
    assert positions is not None, "the maps of a kernel's loops"
    inputs = list(op.operands)[:-count]
    *steps, end = body_ops(op)

    def body(build: Builder, given: Sequence[ir.Value]) -> list[ir.Value]:
        names = dict(zip(body_of(op).arguments, given, strict=False))
        found = copy_steps(steps, build, names, build.loop_index)
        return [found.get(end.operands[number], end.operands[number])]

    own = [*positions[: len(inputs)], positions[len(inputs) + number]]
    init = op.operands[len(inputs) + number]
    return Builder(op).generic(inputs, [init], own, body)[0]


def _busy_parts(vectors: int, width: int, most: int) -> int:
    """How many threads, at most so many, share a sum of vectors of this width: as many as a last
    turn leaves few of idle, if they can have their numbers in registers."""
    for parts in (most >> at for at in range(most.bit_length())):
        turns = -(-vectors // parts)
        if vectors >= _BUSY * turns * parts and turns * width <= _HELD:
            return parts
    return most


def _size_of(
    loop: int,
    ops: Sequence[ir.Operation],
    loops: Sequence[Sequence[int]],
    ends: Mapping[ir.Value, tuple[ir.Operation, ir.Value]],
) -> ir.Value | None:
    """The value of an unknown size, by the buffers with that dim."""
    for op, own in zip(ops, loops, strict=True):
        *read, (_, written) = loops_read(op)
        buffers = [(source_of(value), dims) for value, dims in read]
        buffers += [(ends[op.results[0]][1], written)] if op.results[0] in ends else []
        for memref, dims in buffers:
            for at, one in enumerate(dims):
                if memref is not None and one is not None and own[one] == loop:
                    value = size_value(memref, at)
                    if value is not None:
                        return value
    return None


def _width(
    ops: Sequence[ir.Operation],
    loops: Sequence[Sequence[int]],
    ends: Mapping[ir.Value, tuple[ir.Operation, ir.Value]],
    line: int,
    size: int,
) -> int:
    """How many neighbours along loop `line` a thread reads and writes at once: as many as lie at
    multiples of a vector in all buffers with that dim last."""
    buffers: list[ir.Value] = []
    for op, own in zip(ops, loops, strict=True):
        for value, dims in loops_read(op)[:-1]:
            memref = source_of(value)
            if memref is not None and dims and dims[-1] is not None and own[dims[-1]] == line:
                buffers.append(memref)
        if op.results[0] in ends and line in [own[loop] for loop in loops_written(op)]:
            buffers.append(ends[op.results[0]][1])
    width = min(_WIDEST, VECTOR_BYTES // min(map(element_bytes, buffers), default=VECTOR_BYTES))
    while width > 1 and (size % width or not all(_is_aligned(one, width) for one in buffers)):
        width //= 2
    return width


def _is_aligned(memref: ir.Value, width: int) -> bool:
    """Whether the lines of a buffer begin at multiples of a vector of so many elements, or of the
    longest that a thread can read."""
    step = min(width, VECTOR_BYTES // element_bytes(memref))
    strides, _ = ir.MemRefType(memref.type).get_strides_and_offset()
    first = start_of(memref)
    whole = first is not None and first % step == 0 and DYNAMIC not in strides
    return whole and strides[-1] == 1 and all(stride % step == 0 for stride in strides[:-1])


def _why_not(op: ir.Operation, ops: Sequence[ir.Operation]) -> Refusal | None:
    """What keeps an op of a kernel from being a loop of ours."""
    if not loops_read(op):
        return Refusal("its elements are not at their loops' places")
    for value, _ in loops_read(op)[:-1]:
        if defining_op(value) not in ops and not is_whole(value):
            return Refusal("it reads what is in no buffer")
    if not reduces(op):
        return None
    start, last = filled_with(op.operands[len(op.operands) - 1]), defining_op(yielded(op))
    if shares_factors(op) or not combines(op) or start is None or last is None:
        return Refusal("it does not just sum")
    zero = 0 in (scalar_number(start), whole_number(start))
    plain = last.name in LARGEST or (last.name in _ADDS and zero)
    return None if plain else Refusal("it does not just sum")


def _order(
    ops: Sequence[ir.Operation],
    loops: Sequence[Sequence[int]],
    sizes: Mapping[int, int],
    summed: set[int],
) -> tuple[bool, list[int]]:
    """Whether threads lie along what is summed, and loops from those of far elements to those of
    near ones."""
    whole: list[int] = []
    for op, own in zip(ops, loops, strict=True):
        for value, dims in loops_read(op)[:-1]:
            read = [own[loop] for loop in dims if loop is not None]
            if is_whole(value) and len(read) > len(whole):
                whole = read
    # Loops that are not read from a buffer are farther, those that are summed the nearest of them.
    order = sorted(
        sizes, key=lambda loop: whole.index(loop) if loop in whole else (loop in summed) - 2
    )
    return not whole or whole[-1] in summed, order


def is_whole(value: ir.Value) -> bool:
    """Whether a value is in a buffer of plain numbers."""
    memref = source_of(value)
    return memref is not None and lane_bodies.is_plain(memref)
