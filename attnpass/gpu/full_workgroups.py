"""attn-full-workgroups: workgroups of several subgroups for elementwise kernels, for CUDA."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..codegen.kernel import (
    CONFIGURATION,
    KernelsPass,
    configured,
    reconfigure,
    set_threads,
)
from ..ir import body_ops, element_bytes, index_ops, loop_sizes, maps, printed, reduces
from ..report.records import Report

_PIPELINE = "TileAndFuse"
_LANES = 32
# Threads of a workgroup along lines of unknown size, and what one reads at once; how often, where
# there is one line.
_THREADS, _VECTOR_BYTES, _TURNS = 128, 16, 4
_LOOPS = ("scf.for", "scf.while")
# How many times as many lanes a workgroup may have, the best first.
_FACTORS = (4, 3, 5, 6, 7, 8, 2)
# Taps of a line that a thread may make.
_SHORT = 16
# As many workgroups are left, to keep the multiprocessors of a large GPU busy.
_WORKGROUPS = 528


class FullWorkgroups(KernelsPass):
    """Has elementwise kernels, and sums that single threads do, in workgroups of about 128 threads.

    IREE 3.13 gives them one subgroup, which makes 256 numbers, and a multiprocessor starts no more
    workgroups: 16384 x 2048 bf16 times a number a row take an H200 80 us, with four subgroups 33
    (memory's time is 28); a residual of 4096 x 4096 41 and 23.

    Where sizes are unknown, lanes lie across lines, or most are idle (4 x 100 x 1024 bytes of which
    4 alone is known: 62 us). There threads lie side by side along lines, or along several.

    Elements each of which a loop makes (a search of a sort, the sum of rows of one place) become
    one a thread: IREE has a thread make as many as fill a vector, one loop after the other.
    """

    name = "attn-full-workgroups"
    summary = "CUDA: workgroups of several subgroups for elementwise kernels"
    why = "IREE has a workgroup of 32 threads for 256 numbers, and few of these run at once"
    backends = ("cuda",)

    def change(self, function: ir.Operation, target: str, report: Report) -> bool:
        one_each = _one_each(function)
        if one_each:
            report.record(function, "fitted", "a thread of it does one element's loop")
        threads = _configure(function)
        if threads:
            what = f"a workgroup of it has {threads} threads, not {_LANES}"
            report.record(function, "fitted", what, threads=threads)
        return one_each or bool(threads)


def _one_each(function: ir.Operation) -> bool:
    """Whether threads got one element each: where they make tiles of one op with a loop in its
    body."""
    info = function.attributes["translation_info"]
    roots = configured(function)
    if len(roots) != 1 or roots[0].name != "linalg.generic" or not _is_tiled(info):
        return False
    config, size = roots[0].attributes[CONFIGURATION], printed.numbers(info, "workgroup_size")
    tile, thread = (printed.numbers(config, name) for name in ("workgroup", "thread"))
    loops = any(op.name in _LOOPS for op in body_ops(roots[0]))
    if not loops or math.prod(thread) < 2 or not _is_shared(tile, thread, math.prod(size)):
        return False
    less = [all_ // own for all_, own in zip(tile, thread, strict=True)]
    changes = {"workgroup": lambda _: less, "thread": lambda _: [1] * len(thread)}
    reconfigure(roots[0], changes)
    return True


def _is_tiled(info: ir.Attribute) -> bool:
    return _PIPELINE in printed.pipeline(info)


def _configure(function: ir.Operation) -> int:
    """The threads that a workgroup gets; 0 where a kernel is left:

    1. where IREE does not have one subgroup make a tile of one op, by threads;
    2. where a tensor does not lie along the loop that lanes go along, but for short lines;
    3. where no loop is divided by a longer tile, or too few workgroups would be left.
    """
    info = function.attributes["translation_info"]
    roots = configured(function)
    alone = printed.numbers(info, "workgroup_size") == [_LANES, 1, 1]
    if len(roots) != 1 or not alone or not _is_tiled(info):
        return 0
    (root,) = roots
    config = root.attributes[CONFIGURATION]
    tile, thread = (printed.numbers(config, name) for name in ("workgroup", "thread"))
    if root.name != "linalg.generic" or not _is_shared(tile, thread, _LANES):
        return 0
    whole = _turned_line(root, tile)
    if not whole and not _lies(root):
        return 0
    if not whole and (lines := _of_unknown(root, tile, thread)):
        reconfigure(root, {"workgroup": lambda _: lines.tile, "thread": lambda _: lines.thread})
        set_threads(function, lines.threads)
        return lines.threads
    place, factor = _longer(root, [*tile[:-1], 0] if whole else tile)
    if not factor:
        return 0
    longer = [*tile[:place], tile[place] * factor, *tile[place + 1 :]]
    if whole:
        longer[-1], thread = whole, [*thread[:-1], whole]
    reconfigure(root, {"workgroup": lambda _: longer, "thread": lambda _: thread})
    set_threads(function, _LANES * factor)
    return _LANES * factor


@dataclass(frozen=True)
class _Lines:
    """The tiles of a workgroup of so many threads, and of each of these."""

    tile: list[int]
    thread: list[int]
    threads: int


def _of_unknown(op: ir.Operation, tile: Sequence[int], thread: Sequence[int]) -> _Lines | None:
    """Tiles for loops of which some are unknown, whose lanes IREE has lie across, or idle behind
    lines of fewer elements than there are lanes: threads side by side along a line of unknown size,
    or on vectors of several short ones."""
    sizes, last = loop_sizes(op), len(tile) - 1
    known = [sizes.get(loop) or 0 for loop in range(len(tile))]
    if any(own != 1 for own in thread) or all(known) or reduces(op):
        return None
    ones = [1] * last
    if not known[last]:
        return _Lines([*ones, _THREADS * (1 if last else _TURNS)], [*ones, 1], _THREADS)
    if last == 0 or known[last] >= _LANES:
        return None
    size, bytes_ = known[last], max(element_bytes(value) for value in op.operands)
    width = 1 if index_ops(op) else math.gcd(size, _VECTOR_BYTES // bytes_)
    lanes = size // width
    least = _LANES // math.gcd(_LANES, lanes)
    rows = least * max(1, _THREADS // (least * lanes))
    return _Lines([*ones[1:], rows, size], [*ones, width], rows * lanes)


def _is_shared(tile: Sequence[int], thread: Sequence[int], threads: int) -> bool:
    """Whether so many threads make a workgroup's tile, each a part."""
    if len(tile) != len(thread) or not any(thread):
        return False
    pairs = [(all_, own) for all_, own in zip(tile, thread, strict=True) if own]
    whole = all(all_ and all_ % own == 0 for all_, own in pairs)
    return whole and math.prod(all_ // own for all_, own in pairs) == threads


def _lies(op: ir.Operation) -> bool:
    """Whether tensors that have a dim along the last of the loops that threads share have it
    last."""
    positions = maps.positions(op)
    if positions is None:
        return False
    last = positions[-1][-1] if positions[-1] else None
    return last is not None and all(last not in dims[:-1] for dims in positions)


def _turned_line(op: ir.Operation, tile: Sequence[int]) -> int:
    """The size of the last loop where lines of tensors are as short, and are written across: taps
    of weights, behind which the channels are to lie. A thread makes all of such a line, beside
    which lanes write side by side. 0 for other ops."""
    positions = maps.positions(op)
    size = loop_sizes(op).get(len(tile) - 1) or 0
    if not positions or tile[-1] != 1 or not 1 < size <= _SHORT or len(tile) < 2:
        return 0
    (*reads, written), last = positions, len(tile) - 1
    lanes = [loop for loop, part in enumerate(tile) if part > 1]
    across = lanes == [written[-1]] and any(dims and dims[-1] == last for dims in reads)
    return size if across and last in written else 0


def _longer(op: ir.Operation, tile: Sequence[int]) -> tuple[int, int]:
    """The loop along which a tile gets longer, the last that can, and how many times; (0, 0) where
    none can."""
    sizes = loop_sizes(op)
    known = [sizes.get(loop) or 0 for loop in range(len(tile))]
    counts = [
        math.ceil(size / part) if size and part else 1
        for size, part in zip(known, tile, strict=True)
    ]
    unknown = any(part and not size for size, part in zip(known, tile, strict=True))
    for place in reversed(range(len(tile))):
        if not tile[place] or not known[place] or known[place] % tile[place]:
            continue
        for factor in _FACTORS:
            enough = unknown or math.prod(counts) // factor >= _WORKGROUPS
            if counts[place] % factor == 0 and enough:
                return place, factor
    return 0, 0
