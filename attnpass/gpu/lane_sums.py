"""Sums (and maxima, and so on) as loops of threads that lie side by side in what they read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

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
    maps,
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
    """A kernel that sums by one op and has elementwise ops make its result of the sums, `rest`.
    `parts` threads of a workgroup share a sum: side by side along what is summed where that lies
    so in memory, `along`, else a line apart."""

    op: ir.Operation
    rest: tuple[ir.Operation, ...]
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
        lane_bodies.erase(self.end, [*reversed(self.rest), self.op])

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
        arguments = lane_bodies.arguments(self.op)
        given = {arguments[-1]: sums}
        for argument, (value, dims) in zip(arguments[:-1], loops_read(self.op), strict=False):
            given[argument] = _loaded(build, value, dims, indices)
        return lane_bodies.made(self.op, build, indices, given)

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
                own, given = dict(enumerate(at)), {}
                for argument, (value, dims) in zip(
                    lane_bodies.arguments(op), loops_read(op), strict=False
                ):
                    if value in known:
                        given[argument] = known[value]
                    elif argument != lane_bodies.arguments(op)[-1]:
                        given[argument] = _loaded(lanes, value, dims, own)
                known[op.results[0]] = lane_bodies.made(op, lanes, own, given)
            last = self.rest[-1] if self.rest else self.op
            lanes.store(known[last.results[0]], self.written, at, None)
            return []

        if inside is None:
            store(build.build)
        else:
            build.build.conditional(inside, [], store, lambda _: [])


def _loaded(
    build: LaneLoops, value: ir.Value, dims: maps.Positions, indices: Mapping[int, ir.Value]
) -> ir.Value:
    memref = source_of(value)
    assert memref is not None, "it has been read before"
    places = [build.number(0) if loop is None else indices[loop] for loop in dims]
    return build.get(memref, places)


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
    if len(sums) != 1 or ops[0] != sums[0] or any(len(op.results) != 1 for op in ops):
        return Refusal("it is not one sum, and what is made of it")
    (op,), rest = sums, ops[1:]
    start, last = filled_with(op.operands[len(op.operands) - 1]), defining_op(yielded(op))
    if not loops_read(op) or is_contraction(op) or not combines(op) or start is None:
        return Refusal("it does not just sum")
    assert last is not None
    zero = 0 in (scalar_number(start), whole_number(start))
    if last.name not in _LARGEST and not (last.name in _ADDS and zero):
        return Refusal("it does not just sum")
    if (refusal := _why_not(op, rest)) is not None:
        return refusal
    target = target_of(rest[-1] if rest else op)
    if target is None or not lane_bodies.is_known(target[1]):
        return Refusal("its result is not stored alone")
    sizes = {loop: size or 0 for loop, size in loop_sizes(op).items()}
    kinds = iterator_kinds(op)
    if not all(sizes.values()) or math.prod(sizes.values()) >= 1 << 31:
        return Refusal("sizes are known only at run time")
    return _plan(op, tuple(rest), target, sizes, kinds)


def _plan(
    op: ir.Operation,
    rest: tuple[ir.Operation, ...],
    target: tuple[ir.Operation, ir.Value],
    sizes: Mapping[int, int],
    kinds: Sequence[str],
) -> LaneSums | Refusal:
    reads = [(value, dims) for value, dims in loops_read(op)[:-1] if dims]
    whole = max(reads, key=lambda one: len({*one[1]} - {None}), default=None)
    line = whole[1][-1] if whole is not None else None
    summed = [loop for loop, kind in enumerate(kinds) if kind == _REDUCTION]
    kept = [loop for loop, kind in enumerate(kinds) if kind != _REDUCTION]
    if whole is not None:
        order = {loop: at for at, loop in enumerate(whole[1])}
        summed.sort(key=lambda loop: order.get(loop, -1))
        kept.sort(key=lambda loop: order.get(loop, -1))
    along = line is None or kinds[line] == _REDUCTION
    count = math.prod(sizes[loop] for loop in summed)
    if along:
        # Each thread reads a few numbers, if others lie in the same row.
        parts = min(THREADS, max(1, 1 << (max(count // 4, 1)).bit_length() - 1))
    else:
        parts = min(THREADS // _LANES, 1 << (max(count // 4, 1)).bit_length() - 1)
    return LaneSums(op, rest, *target, tuple(kept), tuple(summed), sizes, along, parts)


def _why_not(op: ir.Operation, rest: Sequence[ir.Operation]) -> Refusal | None:
    """What keeps the ops of a kernel from being loops of ours."""
    written = loops_written(op)
    if sorted(written) != [at for at, kind in enumerate(iterator_kinds(op)) if kind != _REDUCTION]:
        return Refusal("its result has not the loops that are left")
    made = {op.results[0]}
    everywhere = tuple(range(len(written)))
    for one in (op, *rest):
        if (refusal := lane_bodies.why_not(one)) is not None:
            return refusal
        if one.name != "linalg.generic" or not loops_read(one):
            return Refusal("one of its ops is no loop")
        if one is not op and (reduces(one) or len(iterator_kinds(one)) != len(written)):
            return Refusal("what is made of its sums has other loops")
        for value, dims in loops_read(one)[:-1]:
            if value in made:
                if dims != everywhere:
                    return Refusal("what is made of its sums has another order")
            elif not is_whole(value):
                return Refusal("it reads what is in no buffer")
        if one is not op and tuple(loops_written(one)) != everywhere:
            return Refusal("what is made of its sums has another order")
        made.add(one.results[0])
        if any(user not in rest for user in users(one.results[0])) and one is not [op, *rest][-1]:
            return Refusal("it has several results")
    return None


def is_whole(value: ir.Value) -> bool:
    """Whether a value is in a buffer of a known shape."""
    memref = source_of(value)
    return memref is not None and lane_bodies.is_known(memref)
