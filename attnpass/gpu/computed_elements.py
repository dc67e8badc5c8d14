"""Elementwise kernels that read elements at computed places: windows of images, pixels between
pixels, lines that are turned around or filled up."""

from __future__ import annotations

import math
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import Refusal, index_dim, index_ops
from ..ir.bodies import depending
from . import lane_bodies
from .lane_loops import THREADS, LaneLoops, emit

# Elements that a thread makes, what it reads for them, and workgroups, which are to be
# enough for the multiprocessors of a large GPU.
_MOST, _READS, _WORKGROUPS = 8, 512, 264


@dataclass(frozen=True)
class ComputedElements:
    """A kernel that is one loop over `sizes`, whose result lies in `written`, and each of whose
    elements is made of several at computed places. A thread makes `count` neighbours along loop
    `shared`, whose windows share what it reads."""

    op: ir.Operation
    end: ir.Operation
    written: ir.Value
    sizes: tuple[int, ...]
    shared: int
    count: int

    @property
    def words(self) -> str:
        return f"each thread makes {self.count} of what it reads at computed places"

    def emit(self) -> None:
        """Puts loops in the op's place."""
        counts = list(self.sizes)
        counts[self.shared] //= self.count
        total = math.prod(counts)

        def body(build: LaneLoops) -> None:
            place = build.first(THREADS)
            found = build.split(build.within(place, total, THREADS), counts)
            found[self.shared] = build.times(found[self.shared], self.count)
            made = []
            for at in range(self.count):
                indices = list(found)
                indices[self.shared] = build.add(found[self.shared], build.number(at))
                value = lane_bodies.made(self.op, build, dict(enumerate(indices)), {})
                made.append((indices, value))
            inside = build.is_within(place, total, THREADS)
            for indices, value in made:
                build.store(value, self.written, indices, inside)

        emit(self.end, -(-total // THREADS), body)
        lane_bodies.erase([self.end], [self.op])


def read(
    op: ir.Operation, end: ir.Operation, written: ir.Value, sizes: tuple[int, ...]
) -> ComputedElements | Refusal:
    """The elements that an elementwise op without inputs makes of several that it reads by index;
    why it is left to IREE."""
    if (refusal := lane_bodies.why_not(op)) is not None:
        return refusal
    reads = len(lane_bodies.extracts(op))
    if not reads or (reads == 1 and len(sizes) == 1):
        return Refusal("it has no lines whose elements are read at computed places")
    # One element has nothing to share: a thread makes those of any lines, for loads at once.
    loops = range(len(sizes) - 1) if reads == 1 else [_shared_loop(op, len(sizes))]
    ways = [
        (count, loop)
        for loop in loops
        for count in range(2, _MOST + 1)
        if sizes[loop] % count == 0
        and count * reads <= _READS
        and math.prod(sizes) // count >= _WORKGROUPS * THREADS
    ]
    count, shared = max(ways, default=(1, loops[-1]))
    return ComputedElements(op, end, written, sizes, shared, count)


def _shared_loop(op: ir.Operation, rank: int) -> int:
    """The loop along which a body reads at most places: beside the last, along which lanes lie, if
    there is one."""
    places = {index for one in lane_bodies.extracts(op) for index in list(one.operands)[1:]}
    counts = [0] * rank
    for one in index_ops(op):
        counts[index_dim(one)] = len(places & depending(op, one.results))
    return max(range(rank), key=lambda loop: (min(counts[loop], 2), loop < rank - 1, loop))
