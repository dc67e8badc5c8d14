"""Sums (and maxima, and so on) as loops of threads that lie side by side in what they read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..codegen.kernel import STORES
from ..ir import (
    Builder,
    Refusal,
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
from .moves import source_of, target_of
from .shared_loops import combines

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
    """A kernel that sums by one op what elementwise ops make, `before`, and has others make its
    result of the sums, `rest`. What is made before may be a result, too, by its place in `stored`.
    `parts` threads of a workgroup share a sum: side by side along what is summed where that lies so
    in memory, `along`, else a line apart."""

    op: ir.Operation
    before: tuple[ir.Operation, ...]
    rest: tuple[ir.Operation, ...]
    stored: Mapping[ir.Value, tuple[ir.Operation, ir.Value]]
    end: ir.Operation
    written: ir.Value
    kept: tuple[int, ...]
    summed: tuple[int, ...]
    sizes: Mapping[int, int]
    along: bool
    parts: int

    @property
    def words(self) -> str:
        return f"{self.parts} threads of a workgroup share each of its sums"

    @property
    def count(self) -> int:
        """How many numbers a sum has."""
        return math.prod(self.sizes[loop] for loop in self.summed)

    def emit(self) -> None:
        """Puts loops in the ops' place."""
        each = THREADS // self.parts
        total = math.prod(self.sizes[loop] for loop in self.kept)
        kind = element_type(self.op.results[0])

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
            sums = self._sum(build, indices, part)
            if self.parts > 1:
                shared = build.shared(self.parts, each, kind)
                build.put(sums, shared, [part, own])
                half = self.parts // 2
                while half:
                    build.barrier()
                    self._add(build, shared, part, own, half)
                    half //= 2
                build.barrier()
                sums = build.get(shared, [build.number(0), own])
            first = None if self.parts == 1 else build.below(part, 1)
            inside = build.both(first, None if whole else build.below(place, total))
            self._store(build, indices, sums, inside)

        emit(self.end, -(-total // each), body)
        ends = [self.end, *(end for end, _ in self.stored.values())]
        lane_bodies.erase(ends, [*reversed(self.rest), self.op, *reversed(self.before)])

    def _sum(self, build: LaneLoops, indices: Mapping[int, ir.Value], part: ir.Value) -> ir.Value:
        """The sum of what is at `part`, and every so many places behind it."""
        start = filled_with(self.op.operands[len(self.op.operands) - 1])
        assert start is not None, "it has been read before"
        turns = self.count // self.parts
        sizes = [self.sizes[loop] for loop in self.summed]

        def add(lanes: LaneLoops, number: ir.Value, sums: ir.Value) -> ir.Value:
            places = dict(zip(self.summed, lanes.split(number, sizes), strict=True))
            return self._made(lanes, {**indices, **places}, sums)

        def turn(lanes: LaneLoops, first: ir.Value, sums: ir.Value, count: int) -> ir.Value:
            for at in range(count):
                number = lanes.add(first, lanes.number(at * self.parts))
                sums = add(lanes, number, sums)
            return sums

        sums, rounds = start, turns // _AT_ONCE
        if rounds > 1:
            bounds = [build.number(0), build.number(rounds), build.number(1)]

            def step(inner: Builder, at: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
                lanes = build.inside(inner)
                first = lanes.add(part, lanes.times(at, _AT_ONCE * self.parts))
                return [turn(lanes, first, carried[0], _AT_ONCE)]

            (sums,) = build.build.loop(bounds, [sums], step)
        else:
            rounds = 0
        first = build.add(part, build.number(rounds * _AT_ONCE * self.parts))
        sums = turn(build, first, sums, turns - rounds * _AT_ONCE)
        if self.count % self.parts:
            number = build.add(part, build.number(turns * self.parts))
            more = add(build, build.least(number, build.number(self.count - 1)), sums)
            sums = build.build.select(build.below(number, self.count), more, sums)
        return sums

    def _made(self, build: LaneLoops, indices: Mapping[int, ir.Value], sums: ir.Value) -> ir.Value:
        known: dict[ir.Value, ir.Value] = {}
        for op in self.before:
            known[op.results[0]] = value = _made(op, build, indices, known)
            if op.results[0] in self.stored:
                _, memref = self.stored[op.results[0]]
                build.put(value, memref, [indices[loop] for loop in loops_written(op)])
        return _made(self.op, build, indices, known, sums)

    def _add(
        self, build: LaneLoops, shared: ir.Value, part: ir.Value, own: ir.Value, half: int
    ) -> None:
        combine = defining_op(yielded(self.op))
        assert combine is not None

        def then(inner: Builder) -> list[ir.Value]:
            lanes = build.inside(inner)
            one = lanes.get(shared, [part, own])
            other = lanes.get(shared, [lanes.add(part, lanes.number(half)), own])
            lanes.put(inner.apply(combine.name, one, other), shared, [part, own])
            return []

        build.build.conditional(build.below(part, half), [], then, lambda _: [])

    def _store(
        self,
        build: LaneLoops,
        indices: Mapping[int, ir.Value],
        sums: ir.Value,
        inside: ir.Value | None,
    ) -> None:
        positions = loops_written(self.op)
        at = [indices[loop] for loop in positions]
        known: dict[ir.Value, ir.Value] = {self.op.results[0]: sums}

        def store(inner: Builder) -> list[ir.Value]:
            lanes = build.inside(inner)
            for op in self.rest:
                known[op.results[0]] = _made(op, lanes, dict(enumerate(at)), known)
            last = self.rest[-1] if self.rest else self.op
            lanes.store(known[last.results[0]], self.written, at, None)
            return []

        if inside is None:
            store(build.build)
        else:
            build.build.conditional(inside, [], store, lambda _: [])


def _made(
    op: ir.Operation,
    build: LaneLoops,
    indices: Mapping[int, ir.Value],
    known: Mapping[ir.Value, ir.Value],
    sums: ir.Value | None = None,
) -> ir.Value:
    """What the body of an op makes at these indices: of what is `known` of the ops in front of it,
    of what is in buffers, and of the `sums` so far."""
    *arguments, last = lane_bodies.arguments(op)
    given = {} if sums is None else {last: sums}
    for argument, (value, dims) in zip(arguments, loops_read(op), strict=False):
        memref = source_of(value)
        if value in known:
            given[argument] = known[value]
        elif memref is not None:
            places = [build.number(0) if loop is None else indices[loop] for loop in dims]
            given[argument] = build.get(memref, places)
    return lane_bodies.made(op, build, indices, given)


def loops_written(op: ir.Operation) -> list[int]:
    """The loop of each dim of the result of a generic."""
    *_, (_, dims) = loops_read(op)
    return [loop for loop in dims if loop is not None]


def read(function: ir.Operation) -> LaneSums | Refusal:
    """The sums of a kernel; why it is left to IREE."""
    ops = [
        op
        for op in collect(
            function, lambda op: op.name.startswith(("linalg.", "iree_linalg_ext.")), bodies=False
        )
        if op.name != "linalg.fill"
    ]
    sums = [op for op in ops if op.name == "linalg.generic" and reduces(op)]
    if len(sums) != 1 or any(len(op.results) != 1 for op in ops):
        return Refusal("it is not one sum, what it sums, and what is made of it")
    (op,) = sums
    before, rest = ops[: ops.index(op)], ops[ops.index(op) + 1 :]
    start, last = filled_with(op.operands[len(op.operands) - 1]), defining_op(yielded(op))
    if not loops_read(op) or is_contraction(op) or not combines(op) or start is None:
        return Refusal("it does not just sum")
    assert last is not None
    zero = 0 in (scalar_number(start), whole_number(start))
    if last.name not in _LARGEST and not (last.name in _ADDS and zero):
        return Refusal("it does not just sum")
    if (refusal := _why_not(before, op, rest)) is not None:
        return refusal
    target, stored = target_of(rest[-1] if rest else op), {}
    for one in before:
        ends = [user for user in users(one.results[0]) if user not in ops]
        if ends:
            stored[one.results[0]] = (ends[0], ends[0].operands[1])
        if len(ends) > 1 or any(end.name != STORES[0] for end in ends):
            return Refusal("its results are not stored alone")
    written = [memref for _, memref in stored.values()]
    if target is None or not all(map(lane_bodies.is_known, (target[1], *written))):
        return Refusal("its results are not stored alone")
    sizes = {loop: size or 0 for loop, size in loop_sizes(op).items()}
    if not all(sizes.values()) or math.prod(sizes.values()) >= 1 << 31:
        return Refusal("sizes are known only at run time")
    along, parts, order = _plan([*before, op], sizes)
    kept = tuple(loop for loop in order if loop in loops_written(op))
    summed = tuple(loop for loop in order if loop not in kept)
    around = (tuple(before), tuple(rest), stored, *target)
    return LaneSums(op, *around, kept, summed, sizes, along, parts)


def _plan(ops: list[ir.Operation], sizes: Mapping[int, int]) -> tuple[bool, int, list[int]]:
    """Whether threads lie along what is summed, how many share a sum, and loops from those of far
    elements to those of near ones."""
    kinds = iterator_kinds(ops[-1])
    reads = [dims for op in ops for value, dims in loops_read(op)[:-1] if dims and is_whole(value)]
    whole = max(reads, key=lambda dims: len({*dims} - {None}), default=())
    order = sorted(sizes, key=lambda loop: whole.index(loop) if loop in whole else -1)
    along = not whole or whole[-1] is None or kinds[whole[-1]] == _REDUCTION
    count = math.prod(size for loop, size in sizes.items() if kinds[loop] == _REDUCTION)
    # Each thread reads a few numbers.
    parts = 1 << max(count // 4, 1).bit_length() - 1
    return along, min(parts, THREADS if along else THREADS // _LANES), order


def _why_not(
    before: Sequence[ir.Operation], op: ir.Operation, rest: Sequence[ir.Operation]
) -> Refusal | None:
    """What keeps the ops of a kernel from being loops of ours."""
    written, kinds = loops_written(op), iterator_kinds(op)
    if sorted(written) != [at for at, kind in enumerate(kinds) if kind != _REDUCTION]:
        return Refusal("its result has not the loops that are left")
    made: set[ir.Value] = set()
    for one in (*before, op, *rest):
        if one.name != "linalg.generic" or not loops_read(one):
            return Refusal("one of its ops is no loop")
        if (refusal := lane_bodies.why_not(one)) is not None:
            return refusal
        if one == op or one not in rest:
            everywhere = tuple(range(len(kinds)))
        else:
            everywhere = tuple(range(len(written)))
        alike = len(iterator_kinds(one)) == len(everywhere)
        if one != op and (reduces(one) or tuple(loops_written(one)) != everywhere or not alike):
            return Refusal("one of its ops has other loops")
        for value, dims in loops_read(one)[:-1]:
            if value in made and dims != everywhere:
                return Refusal("one of its ops reads another in another order")
            if value not in made and not is_whole(value):
                return Refusal("it reads what is in no buffer")
        # What is behind the sum is made once, of sums.
        made = {one.results[0]} if one == op else {*made, one.results[0]}
    for one in (op, *rest)[:-1]:
        if any(user not in rest for user in users(one.results[0])):
            return Refusal("it has several results of its sums")
    return None


def is_whole(value: ir.Value) -> bool:
    """Whether a value is in a buffer of a known shape."""
    memref = source_of(value)
    return memref is not None and lane_bodies.is_known(memref)
