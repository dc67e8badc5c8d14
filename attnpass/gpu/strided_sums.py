"""Configurations of reductions over other dims than the innermost, for CUDA.

IREE 3.13 gives such sums to single threads, of which few are busy (the sums over the rows of
8192 x 4096: 16 workgroups of 32 threads), or lays the lanes of a subgroup along what is summed,
where each reads a line of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from ..codegen.kernel import CONFIGURATION, set_threads
from ..ir import (
    body_names,
    element_bytes,
    element_type,
    is_float,
    iterator_kinds,
    loop_sizes,
    printed,
    reduces,
    set_attribute,
)
from ..ir.contractions import shares_factors
from ..ir.limits import ASSUMED_EXTENT
from .shared_loops import SharedLoops, combines, is_in_memory, tensors_of

_REDUCTION, _PIPELINE = "reduction", "VectorDistribute"
_LANES = 32
# What a lane reads at once, and how often before it adds up.
_READ_BYTES, _READS = 16, 4
# Bytes that a subgroup reads of a line that is not summed, and where workgroups are few.
_LINE_BYTES, _SECTOR_BYTES, _LEAST_BYTES = 64, 32, 16
_MOST_SUBGROUPS = 16
# Of so few rows a thread reads all at once.
_FEW_ROWS = 8
# As many workgroups keep the multiprocessors of a large GPU busy.
_WORKGROUPS = 132


@dataclass(frozen=True)
class _LaneSteps:
    """What lanes, subgroups and a thread take along each of the root's loops; what is not there is
    one. `step` is what a workgroup takes at once."""

    lanes: Mapping[int, int]
    subgroups: Mapping[int, int]
    thread: Mapping[int, int]

    def step(self, loop: int) -> int:
        return math.prod(part.get(loop, 1) for part in (self.lanes, self.subgroups, self.thread))

    @property
    def threads(self) -> int:
        return math.prod((*self.lanes.values(), *self.subgroups.values()))


def configure(function: ir.Operation, ops: Sequence[ir.Operation]) -> int:
    """Configures a kernel that sums (or the like) for lanes that lie side by side in what they
    read, and returns the threads of a workgroup; 0 where it is left:

    1. where not just one of its `ops` says what a workgroup takes, a sum; or lanes lie along the
       innermost dim already;
    2. where an op is no loop of floats with one result, or has loops that the root has not;
    3. where a tensor has the root's innermost dim in front of others, or a thread would have less
       than two reads.
    """
    roots = [op for op in ops if _numbers(op, "workgroup")]
    if len(roots) != 1 or not all(map(_is_plain, ops)) or not reduces(roots[0]):
        return 0
    (root,), loops = roots, SharedLoops(function)
    sizes = {loop: size or ASSUMED_EXTENT for loop, size in loop_sizes(root).items()}
    line = _line(root)
    if line is None or not loop_sizes(root)[line] or _has_lanes_along(root, line):
        return 0
    shared = [[loops.along_the_same(root, loop, op) for loop in sorted(sizes)] for op in ops]
    for op, places in zip(ops, shared, strict=True):
        own = [loop for each in places for loop in each]
        if sorted(own) != list(range(len(iterator_kinds(op)))):
            return 0
        if any({*places[line]} & {*dims[:-1]} for _, dims in tensors_of(op)):
            return 0
    plan = _plan(root, line, sizes, max(map(element_bytes, _whole(root))))
    if plan is None:
        return 0
    for op, places in zip(ops, shared, strict=True):
        if reduces(op) or (is_in_memory(op.results[0]) and all(places)):
            text = _text(
                plan,
                [_owner(places, at) for at in range(len(iterator_kinds(op)))],
                op == root,
                iterator_kinds(root),
                reduces(op),
            )
            set_attribute(op, CONFIGURATION, text)
    set_threads(function, plan.threads, _PIPELINE)
    return plan.threads


def _owner(places: Sequence[Sequence[int]], at: int) -> int:
    """The root's loop along whose dim loop `at` of an op runs."""
    return next(loop for loop, own in enumerate(places) if at in own)


def _numbers(op: ir.Operation, name: str) -> list[Any]:
    if CONFIGURATION not in op.attributes:
        return []
    return printed.numbers(op.attributes[CONFIGURATION], name)


def _is_plain(op: ir.Operation) -> bool:
    """Whether an op is a generic of floats with one result, whose body is scalars only, and that
    IREE can reduce in parts."""
    if op.name != "linalg.generic" or len(op.results) != 1 or not tensors_of(op):
        return False
    # IREE 3.13 has one thread for loops in bodies, where it cannot make vectors of these.
    plain = all(name.startswith(("arith.", "math.", "linalg.yield")) for name in body_names(op))
    floats = all(is_float(element_type(value)) for value, _ in tensors_of(op))
    known = not reduces(op) or combines(op)
    return plain and floats and known and not shares_factors(op)


def _line(root: ir.Operation) -> int | None:
    """The loop along whose dim the elements that the root reads lie side by side: that of what has
    all of its loops."""
    whole = _whole(root)
    lines = {dims[-1] for value, dims in tensors_of(root) if value in whole}
    return lines.pop() if len(lines) == 1 else None


def _whole(root: ir.Operation) -> list[ir.Value]:
    """The inputs of an op that have all of its loops."""
    rank = len(iterator_kinds(root))
    inputs = tensors_of(root)[: len(root.operands) - len(root.results)]
    return [value for value, dims in inputs if len({*dims} - {None}) == rank]


def _has_lanes_along(root: ir.Operation, line: int) -> bool:
    """Whether IREE lays the lanes of subgroups along this loop."""
    lanes = _numbers(root, "lane_basis")
    return bool(lanes) and lanes[0][line] > 1


def _plan(root: ir.Operation, line: int, sizes: Mapping[int, int], each: int) -> _LaneSteps | None:
    """What a workgroup takes of loops of these sizes, in which elements of `each` bytes lie along
    `line`."""
    kinds = iterator_kinds(root)
    summed = sorted((sizes[loop], loop) for loop, kind in enumerate(kinds) if kind == _REDUCTION)
    width = math.gcd(sizes[line], _READ_BYTES // each)
    others = [loop for _, loop in summed if loop != line]
    if not others:
        return None
    along = others[-1]
    reads = math.prod(sizes[loop] for loop in others)
    groups = max((at for at in (4, 2, 1) if sizes[line] % (_LANES * width * at) == 0), default=0)
    if kinds[line] != _REDUCTION and len(others) == 1 and 1 < reads <= _FEW_ROWS and groups:
        return _LaneSteps({line: _LANES}, {line: groups}, {line: width, along: reads})
    if kinds[line] == _REDUCTION:
        across = min(_LANES, _power_from(-(-sizes[line] // width)))
    else:
        across = _lanes_across(sizes[line], width, width * each, sizes, kinds)
    if not across:
        return None
    rows = _LANES // across
    # IREE 3.13 adds up no more subgroups than have lanes along what is summed (attn-lone-lanes).
    able = min(_MOST_SUBGROUPS, _LANES if kinds[line] == _REDUCTION else rows)
    times, subgroups = _steps(sizes[along], rows, able)
    if reads < 2:
        return None
    lanes = {line: across, along: rows}
    return _LaneSteps(lanes, {along: subgroups}, {line: width, along: times})


def _steps(size: int, rows: int, most: int) -> tuple[int, int]:
    """How many rows a lane reads at once, of `size` for `rows` lanes, and how many subgroups share
    them, `most` at most: so many that whole steps are left, if that keeps half of them busy. Of a
    step that is not whole LLVM reads each element by itself."""
    ways = [(times, 1 << at) for times in (_READS, 2, 1) for at in range(most.bit_length())]
    fit = [way for way in ways if math.prod(way) * rows <= size]
    whole = [way for way in fit if size % (math.prod(way) * rows) == 0]
    best = max(whole, key=lambda way: (min(math.prod(way), most * 2), way[1]), default=(1, 1))
    if 2 * math.prod(best) >= min(most, size // rows):
        return best
    return max(fit, key=lambda way: (way[1], way[0]), default=(1, 1))


def _lanes_across(
    size: int, width: int, each: int, sizes: Mapping[int, int], kinds: Sequence[str]
) -> int:
    """How many lanes lie along a line of this size that is not summed, each with `width` elements
    or `each` bytes; 0 where whole ones are too few. IREE 3.13 copies tiles that a line has no whole
    number of to memory of each thread."""
    kept = math.prod(sizes[loop] for loop, kind in enumerate(kinds) if kind != _REDUCTION)
    counts = [_LANES >> at for at in range(_LANES.bit_length())]
    able = [
        count
        for count in counts
        if size % (count * width) == 0 and _LEAST_BYTES <= count * each <= _LINE_BYTES
    ]
    busy = [count for count in able if kept >= count * width * _WORKGROUPS]
    few = [count for count in able if count * each >= _SECTOR_BYTES]
    return max(busy, default=min(few, default=max(able, default=0)))


def _power_from(number: int) -> int:
    """The least power of two that is no less."""
    return 1 << (number - 1).bit_length()


def _text(
    plan: _LaneSteps, loops: Sequence[int], is_root: bool, kinds: Sequence[str], sums: bool
) -> str:
    """The configuration of an op whose loops run along these of the root, of such `kinds`."""
    numbers = list(range(len(loops)))
    steps = [plan.step(loop) if kinds[loop] == _REDUCTION else 0 for loop in loops]
    lists = {
        "lane_basis": [[plan.lanes.get(loop, 1) for loop in loops], numbers],
        "partial_reduction" if sums else "serial": steps,
        "subgroup_basis": [[plan.subgroups.get(loop, 1) for loop in loops], numbers],
        "thread": [plan.thread.get(loop, 0) for loop in loops],
    }
    tile = [0 if kinds[loop] == _REDUCTION else plan.step(loop) for loop in loops]
    return printed.gpu_lowering(**lists, **({"workgroup": tile} if is_root else {}))
