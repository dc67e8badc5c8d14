"""attn-short-rows: a workgroup reduces several short rows, or one that lanes do not divide, for
CUDA."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from ..codegen.kernel import (
    CONFIGURATION,
    STORES,
    KernelsPass,
    configured,
    mark_lowered,
    reconfigure,
    set_threads,
)
from ..ir import (
    Refusal,
    body_names,
    collect,
    defining_op,
    detached_copy,
    element_bytes,
    element_type,
    is_float,
    iterator_kinds,
    loop_sizes,
    maps,
    printed,
    product,
    reduces,
    set_attribute,
    users,
)
from ..ir.contractions import FEW_ROWS, read_contraction
from ..ir.limits import ASSUMED_EXTENT
from ..report.records import Report
from . import lane_sums, strided_sums
from .shared_loops import SharedLoops, combines, is_in_memory, tensors_of

_PIPELINE = "VectorDistribute"
_LANES = 32
# What a lane reads at once.
_READ_BYTES = 16
# Subgroups of a workgroup, and rows that each lane's part of a subgroup takes, at most.
_SUBGROUPS, _ROWS = 4, 4
# As many workgroups are left, to keep the multiprocessors of a large GPU busy.
_WORKGROUPS = 264
# Of a row that lanes do not divide: the fewest numbers, the bytes for each subgroup, of which there
# are so many at most, and the numbers from which on a lane reads four at once, not 4 bytes.
_LEAST_NUMBERS, _OF_A_SUBGROUP, _MOST_SUBGROUPS, _LONG = 48, 512, 16, 1024
_REDUCES_LAST = "reduction"
# Subgroups that have a row in registers, and its numbers: one of 1024 takes eight 115 us, one 72.
_OF_LONG_ROWS, _LONG_ROW = (8, 16), 2048
# Of a row of unknown size, subgroups that IREE has, and what is enough of those (4800 rows of 104:
# 128 us, now 14).
_MOST_OF_UNKNOWN, _OF_UNKNOWN = 32, 4
# Of fewer numbers a thread's sum is IREE's.
_LEAST_SUM = 24
# Of a row of more numbers, IREE's few subgroups are slow.
_LEAST_LONG = 4096


class ShortRows(KernelsPass):
    """Has a workgroup reduce many rows at once where each is a head or less, as norms of Q and K
    do (Qwen3, Flux, ViT-22B).

    IREE 3.13 gives each row a workgroup of one subgroup, whose lanes read 8 bytes of it: 98,304
    rows of 128 numbers in f16 take an H200 61 us, of which memory needs 12. Here lanes read 16
    bytes, the lanes that are left take other rows, and a workgroup has up to four subgroups that
    take up to four times as many.

    A row whose numbers 32 does not divide is one thread's for IREE (a norm of 4616 rows of 2730, of
    EVA-02: 509 us). Here it is a workgroup's, as one of unknown size would be: lanes read side by
    side, and those behind the end nothing.

    Sums that lanes take no whole steps of, over a row (the mean of 7 x 7 pixels) or a column of odd
    lines, are loops of ours (`lane_sums.py`): threads side by side share each, and meet in shared
    memory.

    A row of unknown size is one of 32 subgroups' for IREE, however short it is (a softmax of 4800
    rows of 104: 128 us). Here it has four, and a longer row more steps.

    A product of up to eight rows reads its weights once, not once a row (4 x 1024 times 50257 x
    1024 in f16: 123 -> 33 us, PyTorch 72).
    """

    name = "attn-short-rows"
    summary = "CUDA: workgroups that reduce many short rows, or one of odd size"
    why = "IREE has a workgroup for each row of a head's norm"
    backends = ("cuda",)

    def change(self, function: ir.Operation, target: str, report: Report) -> bool:
        what, numbers = _fit(function)
        if what:
            report.record(function, "fitted", what, **numbers)
        return bool(what)


def _fit(function: ir.Operation) -> tuple[str, dict[str, Any]]:
    """Configures or lowers a kernel in the first way that is for it: what it does then, and the
    numbers of that for the report; '' where it is left."""
    if few := _configure_few(function):
        return f"a workgroup of it multiplies {few} rows by what it reads, not one", {"rows": few}
    if rows := _configure(function):
        what = f"a workgroup of it reduces {rows.count} rows of {rows.size}, not one"
        return what, {"rows": rows.count}
    if subgroups := _configure_long(function):
        what = f"{subgroups} subgroups of a workgroup have a row in registers, not one"
        return what, {"subgroups": subgroups}
    if sums := _emit_sums(function, columns=True):
        return sums.words, {"threads": sums.threads}
    if threads := strided_sums.configure(function, _loops(function)):
        what = f"its {threads} threads a workgroup read side by side what they sum"
        return what, {"threads": threads}
    if threads := _configure_unknown(function):
        what = f"a workgroup of it has {threads} threads for a row of unknown size"
        return what, {"threads": threads}
    if sums := _emit_sums(function) or _emit_apart(function):
        return sums.words, {"threads": sums.threads}
    if size := _configure_odd(function):
        what = f"a workgroup of it takes a row of {size}, or a part of one, not a thread"
        return what, {"rows": 1}
    return "", {}


def _emit_apart(function: ir.Operation) -> lane_sums.LaneSums | None:
    """`_emit_sums` of a kernel whose elementwise ops have several results, each of which becomes an
    op of its own: a softmax, and what it is added to."""
    apart = detached_copy(function)
    if not lane_sums.take_apart(apart) or _wanted_sums(apart) is None:
        return None
    lane_sums.take_apart(function)
    return _emit_sums(function)


def _emit_sums(function: ir.Operation, columns: bool = False) -> lane_sums.LaneSums | None:
    """Puts loops of ours in the place of a kernel's sums where these are wanted."""
    sums = _wanted_sums(function, columns)
    if sums is None:
        return None
    sums.emit()
    info = printed.with_threads(function.attributes["translation_info"], sums.threads, _LANES)
    set_attribute(function, "translation_info", info)
    mark_lowered(function)
    return sums


def _wanted_sums(function: ir.Operation, columns: bool = False) -> lane_sums.LaneSums | None:
    """A kernel's sums; not where a thread adds up few numbers, or along rows that IREE's lanes take
    in whole steps if they are not long, nor results, too. With `columns`, what is summed down
    columns, or over several dims, and read again alone."""
    sums = lane_sums.read(function)
    if isinstance(sums, Refusal) or sums.count < _LEAST_SUM:
        return None
    row = sums.along and len(sums.summed) == 1 and not (sums.has_read_results or sums.open)
    if columns and (row or not sums.has_lines):
        return None
    is_taken = _has_whole_steps(sums.sums[0]) and not any(map(_widens, sums.sums))
    return None if row and sums.count <= _LEAST_LONG and is_taken else sums


def _has_whole_steps(op: ir.Operation) -> bool:
    """Whether IREE's lanes take a sum in whole steps."""
    if CONFIGURATION not in op.attributes:
        return False
    steps = printed.numbers(op.attributes[CONFIGURATION], "partial_reduction")
    sizes = loop_sizes(op)
    return bool(steps) and not any((sizes[at] or 0) % step for at, step in enumerate(steps) if step)


def _widens(op: ir.Operation) -> bool:
    """Whether a sum adds up whole numbers in 64 bits that it reads in fewer, as counts of truths:
    IREE 3.13 fails to distribute it."""
    kind = element_type(op.results[0])
    long = isinstance(kind, ir.IntegerType) and kind.width > 32
    return long and any(element_type(value) != kind for value in op.operands)


@dataclass(frozen=True)
class _Rows:
    """How a kernel takes rows of `size`: `lanes` of a subgroup have `width` elements each of one,
    and a workgroup of `subgroups` takes `count` of them."""

    size: int
    width: int
    subgroups: int
    count: int

    @property
    def lanes(self) -> int:
        return self.size // self.width


def _configure(function: ir.Operation) -> _Rows | None:
    """Configures a kernel for several rows a workgroup; None where it is left:

    1. where IREE does not have one subgroup take a row of each of its ops;
    2. where no dim of the op that cuts the work into workgroups has enough rows;
    3. where one of its ops has not just one loop along that dim.
    """
    ops = configured(function)
    if not ops or not _has_one_subgroup(function) or not all(map(_takes_a_row, ops)):
        return None
    roots = [op for op in ops if printed.numbers(op.attributes[CONFIGURATION], "workgroup")]
    loops = SharedLoops(function)
    along = _loop_over_rows(roots[0]) if len(roots) == 1 else None
    rows = None if along is None else _rows(roots[0], along, loops)
    if along is None or rows is None:
        return None
    places = [loops.along_the_same(roots[0], along, op) for op in ops]
    if any(len(each) != 1 for each in places):
        return None
    for op, (place,) in zip(ops, places, strict=True):
        reconfigure(op, _for_rows(place, rows))
    set_threads(function, _LANES * rows.subgroups)
    return rows


def _has_one_subgroup(function: ir.Operation) -> bool:
    return _has_subgroups(function, 1)


def _has_subgroups(function: ir.Operation, count: int) -> bool:
    info = function.attributes["translation_info"]
    as_many = printed.numbers(info, "workgroup_size") == [_LANES * count, 1, 1]
    return as_many and _PIPELINE in printed.pipeline(info)


def _takes_a_row(op: ir.Operation) -> bool:
    """Whether a subgroup takes a row of a generic, its last loop, at once, and nothing beside
    it."""
    if op.name != "linalg.generic" or not loop_sizes(op):
        return False  # windows are read at sums of loops
    config = op.attributes[CONFIGURATION]
    rank = maps.loop_count(op)
    outer, dims = [1] * (rank - 1), list(range(rank))
    lanes, subgroups = (printed.numbers(config, name) for name in ("lane_basis", "subgroup_basis"))
    parts = printed.numbers(config, "partial_reduction") or printed.numbers(config, "serial")
    return (
        lanes == [[*outer, _LANES], dims]
        and subgroups == [[*outer, 1], dims]
        and bool(parts)
        and parts[:-1] == [0] * (rank - 1)
    )


def _loop_over_rows(op: ir.Operation) -> int | None:
    """The loop along whose dim a workgroup can best take several rows: that with the most factors
    of two, the last of those."""
    *outer, _ = sorted(loop_sizes(op).items())
    known = [(size & -size, loop) for loop, size in outer if size]
    return max(known)[1] if known else None


def _rows(op: ir.Operation, along: int, loops: SharedLoops) -> _Rows | None:
    """How many rows a workgroup takes; None where a subgroup has no whole number of them, or where
    too few workgroups would be left."""
    sizes = loop_sizes(op)
    row = len(sizes) - 1
    size, number = sizes[row], sizes[along]
    parts = printed.numbers(op.attributes[CONFIGURATION], "partial_reduction")
    if not size or not number or parts[-1:] != [size]:
        return None
    stored = [value for value in loops.tensors(op, row) if is_in_memory(value)]
    width = _READ_BYTES // max(map(element_bytes, stored), default=_READ_BYTES)
    if size % width or _LANES % (size // width):
        return None
    beside = _LANES * width // size
    total = math.prod(each or ASSUMED_EXTENT for loop, each in sizes.items() if loop != row)
    ways = [
        _Rows(size, width, subgroups, beside * subgroups * each)
        for subgroups in _powers(_SUBGROUPS)
        for each in _powers(_ROWS)
    ]
    fit = [way for way in ways if not number % way.count and total // way.count >= _WORKGROUPS]
    best = max(fit, key=lambda way: (way.count, way.subgroups), default=None)
    return best if best is not None and best.count > 1 else None


def _powers(most: int) -> list[int]:
    return [1 << at for at in range(most.bit_length())]


def _for_rows(place: int, rows: _Rows) -> dict[str, Callable[[list[Any]], list[Any]]]:
    """What changes in the configuration of an op that takes rows along its loop `place`."""

    def put(numbers: Sequence[int], at_place: int, last: int) -> list[int]:
        return [*numbers[:place], at_place, *numbers[place + 1 : -1], last]

    # A basis is (counts, dims), a tile has a size a dim.
    return {
        "lane_basis": lambda basis: [put(basis[0], _LANES // rows.lanes, rows.lanes), basis[1]],
        "subgroup_basis": lambda basis: [put(basis[0], rows.subgroups, 1), basis[1]],
        "thread": lambda tile: put(tile, 1, rows.width),
        "workgroup": lambda tile: put(tile, rows.count, 0),
    }


# Long rows ----------------------------------------------------------------------------------------


def _configure_long(function: ir.Operation) -> int:
    """Configures a kernel in which one subgroup takes a long row in steps, more than once, for so
    many subgroups that they have the row in registers, and returns their number; 0 where it is
    left:

    1. where IREE does not have one subgroup take a row of each of its ops, or where that sums once
       and is done;
    2. where no number of subgroups that lanes can add up takes a whole row.
    """
    ops = configured(function)
    if len(ops) < 2 or not _has_one_subgroup(function) or not all(map(_takes_a_row, ops)):
        return 0
    sizes = {loop_sizes(op)[len(loop_sizes(op)) - 1] for op in ops}
    widths = {printed.numbers(op.attributes[CONFIGURATION], "thread")[-1] for op in ops}
    if len(sizes) != 1 or len(widths) != 1:
        return 0
    (size,), (width,) = sizes, widths
    subgroups = (size or 0) // (_LANES * width)
    if (
        (size or 0) < _LONG_ROW
        or subgroups not in _OF_LONG_ROWS
        or subgroups * _LANES * width != size
    ):
        return 0
    changes = {
        "subgroup_basis": lambda basis: [[*basis[0][:-1], subgroups], basis[1]],
        "partial_reduction": lambda steps: [*steps[:-1], size],
        "serial": lambda steps: [*steps[:-1], size],
    }
    for op in ops:
        reconfigure(op, changes)
    set_threads(function, _LANES * subgroups)
    return subgroups


# Rows of unknown size -----------------------------------------------------------------------------


def _configure_unknown(function: ir.Operation) -> int:
    """Configures a kernel whose rows are of unknown size for fewer subgroups than IREE has, and
    returns its threads; 0 where it is left: where an op takes anything but such a row."""
    ops = configured(function)
    if not _has_subgroups(function, _MOST_OF_UNKNOWN):
        return 0
    known = [loop_sizes(op).get(maps.loop_count(op) - 1) for op in ops if _is_row(op)]
    if not ops or len(known) != len(ops) or any(known):
        return 0
    changes: dict[str, Callable[[list[Any]], list[Any]]] = {
        "subgroup_basis": lambda basis: [[*basis[0][:-1], _OF_UNKNOWN], basis[1]],
        **dict.fromkeys(
            ("partial_reduction", "serial"),
            lambda steps: [*steps[:-1], steps[-1] * _OF_UNKNOWN // _MOST_OF_UNKNOWN],
        ),
    }
    for op in ops:
        reconfigure(op, changes)
    set_threads(function, _LANES * _OF_UNKNOWN)
    return _LANES * _OF_UNKNOWN


def _is_row(op: ir.Operation) -> bool:
    """Whether as many subgroups as IREE has at most take a row of a generic, its last loop."""
    if op.name != "linalg.generic" or maps.positions(op) is None or not loop_sizes(op):
        return False
    config, rank = op.attributes[CONFIGURATION], maps.loop_count(op)
    outer, dims = [1] * (rank - 1), list(range(rank))
    lanes, subgroups = (printed.numbers(config, name) for name in ("lane_basis", "subgroup_basis"))
    parts = printed.numbers(config, "partial_reduction") or printed.numbers(config, "serial")
    return (
        lanes == [[*outer, _LANES], dims]
        and subgroups == [[*outer, _MOST_OF_UNKNOWN], dims]
        and parts[:-1] == [0] * (rank - 1)
    )


# Products of few rows -----------------------------------------------------------------------------


def _configure_few(function: ir.Operation) -> int:
    """Configures a kernel that is a product of few rows, each of whose results is a subgroup's,
    for all rows in a workgroup, and returns their number; 0 where it is left:

    1. where IREE does not have one subgroup make one result, reading along the depth;
    2. where another op is configured beside the product;
    3. where its rows are all the same, of a factor without them (a query that a model learns,
       repeated): IREE 3.13 fails to distribute several;
    4. where they are multiplied by one vector, which there is once anyway: of two rows of 256 IREE
       3.13 adds up both in the first one's place (not of batches: `attn-order-products`).
    """
    ops = configured(function)
    if len(ops) != 1 or not _has_one_subgroup(function):
        return 0
    facts, config = read_contraction(ops[0]), ops[0].attributes[CONFIGURATION]
    if facts is None or not _takes_a_row(ops[0]):
        return 0
    if not {*facts.kept} <= {*facts.left, *facts.right}:
        return 0
    tile = printed.numbers(config, "workgroup")
    if tile != [int(loop not in facts.k) for loop in range(len(facts.sizes))]:
        return 0
    for side, other in ((facts.m, facts.n), (facts.n, facts.m)):
        others = (*other, *facts.batch)
        rows, columns = (product([facts.sizes[loop] for loop in loops]) for loops in (side, others))
        if isinstance(rows, int) and 1 < rows <= FEW_ROWS and columns != 1:
            whole = [facts.sizes[loop] if loop in side else size for loop, size in enumerate(tile)]
            reconfigure(ops[0], {"workgroup": lambda _, whole=whole: whole})
            return rows
    return 0


# Rows that lanes do not divide --------------------------------------------------------------------


def _configure_odd(function: ir.Operation) -> int:
    """Configures a kernel in which a thread reduces a row, or makes one element, so that a
    workgroup takes a row, or a part of one that nothing reduces, for rows whose size 32 does not
    divide; returns that size, or 0 where it is left:

    1. where not just one op is configured, a sum (or the like) over its last loop by single
       threads, or elementwise; or it is a product;
    2. where one of the ops is no loop over whole rows, elementwise or summing along them, whose
       tensors have the row's dim last, nor an elementwise one of what rows give; or has dims of
       its own;
    3. where what is summed is a result, too: IREE 3.13 cannot bufferize the masked tiles of both.
    """
    ops = _loops(function)
    roots = [op for op in ops if CONFIGURATION in op.attributes]
    if len(roots) != 1 or not (_is_a_threads(roots[0]) or _is_one_by_one(roots[0])):
        return 0
    (root,), loops = roots, SharedLoops(function)
    sizes = loop_sizes(root)
    row = len(iterator_kinds(root)) - 1
    size = sizes.get(row) or 0
    if size < _LEAST_NUMBERS or size % _LANES == 0:
        return 0
    shared = [[loops.along_the_same(root, loop, op) for loop in range(row + 1)] for op in ops]
    along = [op for op, places in zip(ops, shared, strict=True) if places[row]]
    if any(map(_is_summed_and_stored, along)):
        return 0
    for op, places in zip(ops, shared, strict=True):
        fits = _is_along(op, places[row]) if places[row] else _is_elementwise(op)
        if not fits or {*itertools.chain(*places)} != {*range(len(iterator_kinds(op)))}:
            return 0
    stored = [value for value in loops.tensors(root, row) if is_in_memory(value)]
    each = max(map(element_bytes, stored), default=4)
    width = 4 if size >= _LONG else max(1, 4 // each)
    if collect(function, _stores_across_a_dim):
        width = 1  # IREE 3.13 turns the mask of a write whose view leaves out an inner dim
    fitting = [count for count in _powers(_MOST_SUBGROUPS) if size * each >= _OF_A_SUBGROUP * count]
    subgroups = max(fitting, default=1)
    for op in along:
        if reduces(op) or is_in_memory(op.results[0]):
            rank = maps.loop_count(op)
            text = _of_a_workgroup(rank, reduces(op), op == root, width, subgroups)
            set_attribute(op, CONFIGURATION, text)
    set_threads(function, _LANES * subgroups, _PIPELINE)
    return size


def _is_summed_and_stored(op: ir.Operation) -> bool:
    readers = users(op.results[0])
    summed = any(reader.name == "linalg.generic" and reduces(reader) for reader in readers)
    return summed and any(reader.name in STORES for reader in readers)


def _stores_across_a_dim(op: ir.Operation) -> bool:
    """Whether an op stores to a part of a buffer that has dims of one element that the part leaves
    out, not all in front."""
    view = defining_op(op.operands[1], "memref.subview") if op.name in STORES else None
    if view is None:
        return False
    own, whole = (
        ir.MemRefType(value.type).get_strides_and_offset()[0]
        for value in (op.operands[1], view.operands[0])
    )
    return own != whole[len(whole) - len(own) :]


def _loops(function: ir.Operation) -> list[ir.Operation]:
    """The ops of a kernel that have loops, but for those that fill tensors."""
    ops = collect(function, lambda op: op.name.startswith(("linalg.", "iree_linalg_ext.")))
    return [op for op in ops if op.name not in ("linalg.fill", "linalg.yield", "linalg.index")]


def _is_a_threads(op: ir.Operation) -> bool:
    """Whether a thread reduces each row of a generic, along its last loop; not of a product, whose
    factors have loops of their own."""
    config = op.attributes[CONFIGURATION]
    thread, steps = (printed.numbers(config, name) for name in ("thread", _REDUCES_LAST))
    if op.name != "linalg.generic" or not thread or not steps:
        return False
    *outer, last = iterator_kinds(op)
    whole = {*range(len(outer) + 1)}
    reads = [{*dims} for _, dims in tensors_of(op)[: len(op.operands) - len(op.results)]]
    return (
        last == _REDUCES_LAST
        and _REDUCES_LAST not in outer
        and thread[-1] == 0
        and steps[-1] > 0
        and not any(steps[:-1])
        and any(dims == whole for dims in reads)
    )


def _is_one_by_one(op: ir.Operation) -> bool:
    """Whether threads make one element each of an elementwise generic."""
    thread = printed.numbers(op.attributes[CONFIGURATION], "thread")
    return _is_elementwise(op) and {*thread} == {1}


def _is_elementwise(op: ir.Operation) -> bool:
    return op.name == "linalg.generic" and {*iterator_kinds(op)} <= {"parallel"}


def _is_along(op: ir.Operation, places: Sequence[int]) -> bool:
    """Whether a generic of floats with one result runs along whole rows by its last loop, at these
    places, and reads them as they lie."""
    if op.name != "linalg.generic" or len(op.results) != 1 or not tensors_of(op):
        return False
    if reduces(op) and not combines(op):
        return False
    *outer, _ = iterator_kinds(op)
    row = len(outer)
    lie = all(row not in dims[:-1] for _, dims in tensors_of(op))
    # IREE 3.13 has one thread for loops in bodies, where it cannot make vectors of these.
    plain = all(name.startswith(("arith.", "math.", "linalg.")) for name in body_names(op))
    elements = [element_type(value) for value, _ in tensors_of(op)]
    # The first place of a row's largest number, too: the least of 32 bits.
    known = all(is_float(kind) or str(kind) == "i32" for kind in elements)
    return [*places] == [row] and {*outer} <= {"parallel"} and lie and plain and known


def _of_a_workgroup(rank: int, is_sum: bool, is_root: bool, width: int, subgroups: int) -> str:
    """The configuration of an op whose rows are a workgroup's, `width` numbers a lane at a time."""
    outer, dims = [0] * (rank - 1), list(range(rank))
    ones = [1] * (rank - 1)
    lists = {
        "lane_basis": [[*ones, _LANES], dims],
        "partial_reduction" if is_sum else "serial": [*outer, _LANES * subgroups * width],
        "subgroup_basis": [[*ones, subgroups], dims],
        "thread": [*outer, width],
    }
    # What nothing reduces is cut into as much as a workgroup takes at once.
    part = 0 if is_sum else _LANES * subgroups * width
    lists |= {"workgroup": [*ones, part]} if is_root else {}
    return printed.gpu_lowering(**lists)
