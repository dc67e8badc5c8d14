"""Elementwise kernels whose lines stay lines and lie in another order: heads in front of rows,
windows of an image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    DYNAMIC,
    Builder,
    DynamicSize,
    Refusal,
    Size,
    body_of,
    body_ops,
    copy_steps,
    element_bytes,
    maps,
    printed,
    users,
)
from . import lane_bodies
from .lane_loops import THREADS, VECTOR_BYTES, LaneLoops, emit, size_value, start_of

# What a thread loads before it stores, and the least that it moves at once.
_BYTES, _LEAST_BYTES = 32, 4


@dataclass(frozen=True)
class _Buffer:
    """A memref, whose dims run along these loops."""

    memref: ir.Value
    loops: tuple[int, ...]

    @property
    def kind(self) -> ir.MemRefType:
        return ir.MemRefType(self.memref.type)


@dataclass(frozen=True)
class ReorderedLines:
    """A kernel that is one elementwise op over loops of these `sizes`; a thread makes `width`
    neighbours at once."""

    op: ir.Operation
    end: ir.Operation
    reads: tuple[_Buffer, ...]
    written: _Buffer
    sizes: tuple[int | ir.Value, ...]
    width: int

    @property
    def words(self) -> str:
        return f"each thread moves {self.width} neighbours at once to where their line lies"

    @property
    def line(self) -> int:
        return self.written.loops[-1]

    def emit(self) -> None:
        """Puts loops in the op's place."""
        widest = max(element_bytes(one.memref) for one in (*self.reads, self.written))
        count = max(1, _BYTES // (widest * self.width))
        part = THREADS * count
        workgroups = self._workgroups(Builder(self.end), part)

        def body(build: LaneLoops) -> None:
            sizes = [build.to_number(self.sizes[loop]) for loop in self.written.loops[:-1]]
            sizes.append(self._line_size() // self.width)
            total = self._total(build, sizes)
            moved = []
            for place in build.places(count):
                if isinstance(total, int):
                    inside = build.is_within(place, total, part)
                    kept = build.within(place, total, part)
                else:
                    last = build.build.apply("arith.subi", total, build.number(1))
                    inside, kept = build.less(place, total), build.least(place, last)
                *far, near = build.split(kept, sizes)
                places = (*far, build.times(near, self.width))
                index = {
                    loop: build.as_index(one)
                    for loop, one in zip(self.written.loops, places, strict=True)
                }
                moved.append((inside, index, [self._load(build, one, index) for one in self.reads]))
            for inside, index, values in moved:
                made, at = self._made(build, values), [index[loop] for loop in self.written.loops]
                build.store_vector(made, self.written.memref, at, inside)

        emit(self.end, workgroups, body)
        lane_bodies.erase([self.end] if self.end != self.op else [], [self.op])

    def _line_size(self) -> int:
        size = self.sizes[self.line]
        assert isinstance(size, int), "it has been read before"
        return size

    def _workgroups(self, build: Builder, part: int) -> int | ir.Value:
        vectors: Size = self._line_size() // self.width
        for loop in self.written.loops[:-1]:
            size = self.sizes[loop]
            vectors = build.size_op(
                "muli", vectors, size if isinstance(size, int) else DynamicSize(size)
            )
        count = build.size_op("ceildivui", vectors, part)
        return count if isinstance(count, int) else build.size(count)

    def _total(self, build: LaneLoops, sizes: Sequence[int | ir.Value]) -> int | ir.Value:
        """How many vectors there are."""
        known = math.prod(size for size in sizes if isinstance(size, int))
        total: int | ir.Value = known
        for size in sizes:
            if not isinstance(size, int):
                number = build.number(total) if isinstance(total, int) else total
                total = build.build.muli(number, size)
        return total

    def _load(self, build: LaneLoops, read: _Buffer, index: dict[int, ir.Value]) -> ir.Value:
        """A vector of what lies along the line, or one element."""
        at = [index[loop] for loop in read.loops]
        if self.line in read.loops:
            return build.load_vector(read.memref, at, self.width)
        return build.get(read.memref, at)

    def _made(self, build: LaneLoops, values: Sequence[ir.Value]) -> ir.Value:
        """The neighbours that a body makes of what is loaded."""
        *steps, last = body_ops(self.op)
        arguments = list(body_of(self.op).arguments)
        kind = build.vector(self.written.kind.element_type, self.width)
        given = dict(zip(arguments, values, strict=False))
        result = last.operands[0]
        if not steps and given[result].type == kind:
            return given[result]
        lanes = [
            build.elements(value) if isinstance(value.type, ir.VectorType) else [value] * self.width
            for value in values
        ]
        made = []
        for one in zip(*lanes, strict=True):
            names = dict(zip(arguments, one, strict=False))
            made.append(copy_steps(steps, build.build, names)[result])
        return build.build.create("vector.from_elements", [kind], made).results[0]


def read(
    op: ir.Operation,
    end: ir.Operation,
    inputs: Sequence[ir.Value],
    written: ir.Value,
    positions: Sequence[maps.Positions],
) -> ReorderedLines | Refusal:
    """The lines that an elementwise op moves, whose operands' dims run along loops at these
    `positions`; why it is left to others."""
    buffers = [
        _Buffer(memref, tuple(loop for loop in loops if loop is not None))
        for memref, loops in zip((*inputs, written), positions, strict=True)
    ]
    *reads, target = buffers
    if users(body_of(op).arguments[len(reads)]):
        return Refusal("it reads what its result holds")
    if not all(lane_bodies.is_plain(one.memref) for one in buffers):
        return Refusal("there are no vectors of its elements")
    order, made = target.loops, body_ops(op)[-1].operands[0]
    if not order or len(order) != len({loop for one in buffers for loop in one.loops}):
        return Refusal("its loops are not those of its result")
    values = [*body_of(op).arguments, *(value for one in body_ops(op) for value in one.results)]
    if made not in values:
        return Refusal("it writes what it does not make")
    if all(one.loops == tuple(loop for loop in order if loop in one.loops) for one in reads):
        return Refusal("its lines are in one order")
    if any(order[-1] in one.loops[:-1] for one in reads):
        return Refusal("its lines are turned")
    sizes = _sizes(buffers, len(order))
    if sizes is None or not isinstance(sizes[order[-1]], int):
        return Refusal("the size of its lines is known only at run time")
    width = _width([one for one in buffers if order[-1] in one.loops])
    width = math.gcd(width, VECTOR_BYTES // max(element_bytes(one.memref) for one in buffers))
    if width * element_bytes(written) < _LEAST_BYTES or width == 1:
        return Refusal("what lies side by side in its lines is no vector")
    return ReorderedLines(op, end, tuple(reads), target, sizes, width)


def _sizes(buffers: Sequence[_Buffer], count: int) -> tuple[int | ir.Value, ...] | None:
    """The sizes of loops by the buffers with that dim; None where one is nowhere."""
    sizes: dict[int, int | ir.Value] = {}
    for buffer in buffers:
        for dim, (loop, size) in enumerate(zip(buffer.loops, buffer.kind.shape, strict=True)):
            found = size_value(buffer.memref, dim) if size == DYNAMIC else size
            if found is not None and (loop not in sizes or isinstance(found, int)):
                sizes[loop] = found
    return tuple(sizes[loop] for loop in range(count)) if len(sizes) == count else None


def _width(buffers: Sequence[_Buffer]) -> int:
    """Elements that lie side by side at an alignment of as many, wherever a line begins."""
    width = 0
    for buffer in buffers:
        kind, start = buffer.kind, start_of(buffer.memref)
        if start is None:
            return 1
        width = math.gcd(width, start, kind.shape[-1])
        if printed.is_strided(kind):
            strides, _ = kind.get_strides_and_offset()
            if strides[-1] != 1 or any(kind.is_dynamic_stride_or_offset(one) for one in strides):
                return 1
            width = math.gcd(width, *strides[:-1])
    return width
