"""Sums (and maxima, and so on) as loops of threads that lie side by side in what they read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..codegen.kernel import STORES
from ..ir import (
    Builder,
    Refusal,
    body_of,
    collect,
    defining_op,
    element_type,
    filled_with,
    iterator_kinds,
    loop_sizes,
    loops_read,
    reduces,
    scalar_number,
    users,
    whole_number,
    yielded,
)
from ..ir.contractions import is_contraction
from . import lane_bodies
from .lane_loops import THREADS, LaneLoops, emit
from .moves import source_of
from .shared_loops import SharedLoops, combines

_REDUCTION, _LANES = "reduction", 32
# What a thread reads before it adds that up.
_AT_ONCE = 8
_ADDS = ("arith.addf", "arith.addi")
_LARGEST = tuple(
    f"arith.{name}"
    for name in (
        *("maximumf", "minimumf", "maxnumf", "minnumf"),
        *("maxsi", "minsi", "maxui", "minui"),
    )
)


@dataclass(frozen=True)
class LaneSums:
    """A kernel of `sums` along the same dims, of elementwise ops that make what these add, and of
    others that make results of them: a mean, a softmax, a norm. `loops` has for each op the loops
    of the first sum that run along the dims of its own; `ends` has the results' stores and their
    memrefs. `parts` threads of a workgroup share a sum: side by side along what is summed where
    that lies so in memory, `along`, else a line apart."""

    ops: tuple[ir.Operation, ...]
    loops: tuple[tuple[int, ...], ...]
    ends: Mapping[ir.Value, tuple[ir.Operation, ir.Value]]
    kept: tuple[int, ...]
    summed: tuple[int, ...]
    sizes: Mapping[int, int]
    along: bool
    parts: int

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

    def emit(self) -> None:
        """Puts loops in the ops' place."""
        each = THREADS // self.parts
        total = math.prod(self.sizes[loop] for loop in self.kept)

        def body(build: LaneLoops) -> None:
            if self.along:
                own, part = build.split(build.thread, [each, self.parts])
            else:
                part, own = build.split(build.thread, [self.parts, each])
            place = build.add(build.times(build.workgroup, each), own)
            whole = total % each == 0
            inner = place if whole else build.least(place, build.number(total - 1))
            found = build.split(inner, [self.sizes[loop] for loop in self.kept])
            indices = dict(zip(self.kept, found, strict=False))
            first = None if self.parts == 1 else build.below(part, 1)
            inside = build.both(first, None if whole else build.below(place, total))
            known: dict[ir.Value, ir.Value] = {}
            for op in self.ops:
                if self._is_full(op):
                    continue
                if reduces(op):
                    known[op.results[0]] = self._sum(op, build, indices, known, part, own)
                else:
                    known[op.results[0]] = self._made(op, build, indices, known)
                if op.results[0] in self.ends:
                    at = [indices[loop] for loop in self._written(op)]
                    build.store(known[op.results[0]], self.ends[op.results[0]][1], at, inside)
            lines = [op for op in self._stored() if self._is_full(op)]
            if lines:
                self._store(lines, build, indices, known, part)

        stores = [end for end, _ in self.ends.values()]
        last = stores[0]
        for store in stores:
            last = store if last.is_before_in_block(store) else last
        emit(last, -(-total // each), body)
        lane_bodies.erase(stores, [*reversed(self.ops)])

    def _sum(
        self,
        op: ir.Operation,
        build: LaneLoops,
        indices: Mapping[int, ir.Value],
        known: Mapping[ir.Value, ir.Value],
        part: ir.Value,
        own: ir.Value,
    ) -> ir.Value:
        """What all threads know of a sum then: that of what is at `part`, and every so many places
        behind it, and of what the others have added up."""
        start = filled_with(op.operands[len(op.operands) - 1])
        assert start is not None, "it has been read before"

        def add(
            lanes: LaneLoops,
            places: Mapping[int, ir.Value],
            inside: ir.Value | None,
            sums: Sequence[ir.Value],
        ) -> list[ir.Value]:
            made = self._line([op], lanes, {**indices, **places}, known, sums[0])[0]
            return [made if inside is None else lanes.build.select(inside, made, sums[0])]

        (sums,) = self._walk(build, part, [start], add)
        if self.parts == 1:
            return sums
        shared = build.shared(self.parts, THREADS // self.parts, element_type(op.results[0]))
        build.put(sums, shared, [part, own])
        combine = defining_op(yielded(op))
        assert combine is not None
        half = self.parts // 2
        while half:
            build.barrier()

            def then(inner: Builder, half: int = half) -> list[ir.Value]:
                lanes = build.inside(inner)
                one = lanes.get(shared, [part, own])
                other = lanes.get(shared, [lanes.add(part, lanes.number(half)), own])
                lanes.put(inner.apply(combine.name, one, other), shared, [part, own])
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
    ) -> None:
        """Makes and stores results that have the dims that are summed."""

        def put(
            lanes: LaneLoops,
            places: Mapping[int, ir.Value],
            inside: ir.Value | None,
            _: Sequence[ir.Value],
        ) -> list[ir.Value]:
            everywhere = {**indices, **places}
            made = self._line(lines, lanes, everywhere, known)
            for op, value in zip(lines, made, strict=True):
                at = [everywhere[loop] for loop in self._written(op)]
                lanes.store(value, self.ends[op.results[0]][1], at, inside)
            return []

        self._walk(build, part, [], put)

    def _walk(
        self,
        build: LaneLoops,
        part: ir.Value,
        carried: list[ir.Value],
        visit: Callable[
            [LaneLoops, Mapping[int, ir.Value], ir.Value | None, Sequence[ir.Value]],
            list[ir.Value],
        ],
    ) -> list[ir.Value]:
        """Visits what is at `part` of what is summed, and every so many places behind it."""
        sizes = [self.sizes[loop] for loop in self.summed]

        def places(lanes: LaneLoops, number: ir.Value) -> dict[int, ir.Value]:
            return dict(zip(self.summed, lanes.split(number, sizes), strict=True))

        def turn(
            lanes: LaneLoops, first: ir.Value, values: Sequence[ir.Value], count: int
        ) -> list[ir.Value]:
            for at in range(count):
                number = lanes.add(first, lanes.number(at * self.parts))
                values = visit(lanes, places(lanes, number), None, values)
            return list(values)

        turns = self.count // self.parts
        rounds = turns // _AT_ONCE if turns >= 2 * _AT_ONCE else 0
        if rounds:
            bounds = [build.number(0), build.number(rounds), build.number(1)]

            def step(inner: Builder, at: ir.Value, values: Sequence[ir.Value]) -> list[ir.Value]:
                lanes = build.inside(inner)
                first = lanes.add(part, lanes.times(at, _AT_ONCE * self.parts))
                return turn(lanes, first, values, _AT_ONCE)

            carried = build.build.loop(bounds, carried, step)
        first = build.add(part, build.number(rounds * _AT_ONCE * self.parts))
        carried = turn(build, first, carried, turns - rounds * _AT_ONCE)
        if self.count % self.parts:
            number = build.add(part, build.number(turns * self.parts))
            last = build.least(number, build.number(self.count - 1))
            carried = visit(build, places(build, last), build.below(number, self.count), carried)
        return carried

    def _line(
        self,
        wanted: list[ir.Operation],
        build: LaneLoops,
        indices: Mapping[int, ir.Value],
        known: Mapping[ir.Value, ir.Value],
        sums: ir.Value | None = None,
    ) -> list[ir.Value]:
        """What these ops make at one place of what is summed, each op in front of them once."""
        made = dict(known)

        def make(op: ir.Operation, so_far: ir.Value | None) -> ir.Value:
            for value in op.operands:
                maker = defining_op(value)
                if value not in made and maker in self.ops:
                    made[value] = make(maker, None)
            return self._made(op, build, indices, made, so_far)

        for op in wanted:
            if op.results[0] not in made:
                made[op.results[0]] = make(op, sums)
        return [made[op.results[0]] for op in wanted]

    def _made(
        self,
        op: ir.Operation,
        build: LaneLoops,
        indices: Mapping[int, ir.Value],
        known: Mapping[ir.Value, ir.Value],
        sums: ir.Value | None = None,
    ) -> ir.Value:
        """What the body of an op makes at these indices: of what is `known` of the ops in front of
        it, of what is in buffers, and of the `sums` so far."""
        own = {at: indices[loop] for at, loop in enumerate(self._loops(op)) if loop in indices}
        *arguments, last = body_of(op).arguments
        given = {} if sums is None else {last: sums}
        for argument, (value, dims) in zip(arguments, loops_read(op), strict=False):
            memref = source_of(value)
            if value in known:
                given[argument] = known[value]
            elif memref is not None:
                places = [build.number(0) if loop is None else own[loop] for loop in dims]
                given[argument] = build.get(memref, places)
        return lane_bodies.made(op, build, own, given)

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
    if not all(sizes.values()) or math.prod(sizes.values()) >= 1 << 31:
        return Refusal("sizes are known only at run time")
    loops = []
    for op in ops:
        places = [shared.along_the_same(root, loop, op) for loop in sorted(sizes)]
        owner = {at: loop for loop, own in enumerate(places) for at in own}
        if any(len(own) > 1 for own in places) or len(owner) != len(iterator_kinds(op)):
            return Refusal("its ops have other loops")
        loops.append(tuple(owner[at] for at in range(len(owner))))
    summed = {loop for loop, kind in enumerate(iterator_kinds(root)) if kind == _REDUCTION}
    for op, own in zip(ops, loops, strict=True):
        over = {own[at] for at, kind in enumerate(iterator_kinds(op)) if kind == _REDUCTION}
        fits = {*own} == {*sizes} if reduces(op) else {*own} in ({*sizes}, {*sizes} - summed)
        if not fits or (reduces(op) and over != summed):
            return Refusal("its ops have other loops")
    ends: dict[ir.Value, tuple[ir.Operation, ir.Value]] = {}
    for op in ops:
        stores = [user for user in users(op.results[0]) if user not in ops]
        if any(store.name != STORES[0] for store in stores) or len(stores) > 1:
            return Refusal("its results are not stored alone")
        for store in stores:
            ends[op.results[0]] = (store, store.operands[1])
    if not ends or not all(lane_bodies.is_known(memref) for _, memref in ends.values()):
        return Refusal("its results are not stored alone")
    along, parts, order = _plan(ops, loops, sizes, summed)
    for op, own in zip(ops, loops, strict=True):
        line = [own[loop] for loop in loops_written(op)]
        if op.results[0] in ends and summed & {*line} and line[-1] != order[-1]:
            return Refusal("lanes would write its result across")
    kept = tuple(loop for loop in order if loop not in summed)
    last = tuple(loop for loop in order if loop in summed)
    return LaneSums(tuple(ops), tuple(loops), ends, kept, last, sizes, along, parts)


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
    if is_contraction(op) or not combines(op) or start is None or last is None:
        return Refusal("it does not just sum")
    zero = 0 in (scalar_number(start), whole_number(start))
    plain = last.name in _LARGEST or (last.name in _ADDS and zero)
    return None if plain else Refusal("it does not just sum")


def _plan(
    ops: Sequence[ir.Operation],
    loops: Sequence[Sequence[int]],
    sizes: Mapping[int, int],
    summed: set[int],
) -> tuple[bool, int, list[int]]:
    """Whether threads lie along what is summed, how many share a sum, and loops from those of far
    elements to those of near ones."""
    whole: list[int] = []
    for op, own in zip(ops, loops, strict=True):
        for value, dims in loops_read(op)[:-1]:
            read = [own[loop] for loop in dims if loop is not None]
            if is_whole(value) and len(read) > len(whole):
                whole = read
    order = sorted(sizes, key=lambda loop: whole.index(loop) if loop in whole else -1)
    along = not whole or whole[-1] in summed
    count = math.prod(sizes[loop] for loop in summed)
    # Each thread reads a few numbers.
    parts = 1 << max(count // 4, 1).bit_length() - 1
    return along, min(parts, THREADS if along else THREADS // _LANES), order


def is_whole(value: ir.Value) -> bool:
    """Whether a value is in a buffer of a known shape."""
    memref = source_of(value)
    return memref is not None and lane_bodies.is_known(memref)
