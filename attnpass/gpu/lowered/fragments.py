"""Reads of tensor-core fragments from shared memory as `ldmatrix`.

A fragment is 8 rows of 16 bytes, of which each of the 32 threads of a warp holds 4 bytes:
thread l those at bytes 4 (l % 4) of row l / 4 or, transposed, column l / 4 of rows 2 (l % 4)
and 2 (l % 4) + 1 (PTX ISA, "ldmatrix"). IREE 3.13 reads them with one or two narrow loads a
thread. `ldmatrix` reads up to four fragments at once; for that, thread l names the place of
row l % 8 of fragment l / 8.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ...codegen.kernel import blocks_of
from ...ir import Builder, collect, element_bytes, printed, reached, users
from .shared_buffers import is_plain_transfer
from .threads import WARP, Threads, Values, dimension_x

_ROWS, _BYTES, _MOST = 8, 16, 4
# A block that holds one of these is run by all threads of a warp together, as ldmatrix must be.
_PRODUCT = "nvgpu.mma.sync"
_TOGETHER = ("gpu.barrier", _PRODUCT)
# What stands between Q K^T and P V, the second one by attn-lower-cuda.
_EXPONENTIALS = ("math.exp2", "llvm.inline_asm")
# Ops that write no memory and make no thread wait: a read may move above them.
_HARMLESS = ("arith.", "affine.", "math.", _PRODUCT, "gpu.subgroup_reduce", "ub.")


@dataclass(frozen=True)
class Fragment:
    """A read of one fragment: where its first row and first column are in each warp."""

    op: ir.Operation
    transposed: bool
    row_dim: int
    rows: Values
    columns: Values

    @property
    def slice(self) -> int:
        """Which part of the depth it has, of those that a product takes: two fragments."""
        size = element_bytes(self.op.operands[0])
        return (self.rows[0] // _ROWS if self.transposed else self.columns[0] * size // _BYTES) // 2

    @property
    def places(self) -> list[ir.Value]:
        """The indices of the read."""
        return list(self.op.operands)[1:-1]

    @property
    def family(self) -> tuple[object, ...]:
        """Equal for reads that one instruction can do: in all warps, their places differ by
        the same constants."""
        outer = [place for dim, place in enumerate(self.places[:-1]) if dim != self.row_dim]
        return (
            self.op.operands[0],
            *outer,
            self.transposed,
            self.op.results[0].type,
            tuple(row - self.rows[0] for row in self.rows),
            tuple(column - self.columns[0] for column in self.columns),
        )


def use_ldmatrix(function: ir.Operation, threads: Threads) -> int:
    """Replaces the reads of fragments in a kernel; returns how many. The old reads stay
    behind, without use."""
    count = 0
    masked = _has_mask(function)
    for block in blocks_of(function):
        if not any(op.operation.name in _TOGETHER for op in block):
            continue
        for group in list(_groups(block, threads, masked)):
            _load(_in_order_of_registers(group))
            count += len(group)
    return count


def _has_mask(function: ir.Operation) -> bool:
    """Whether an attention kernel has more tensors than Q, K, V and the result."""
    return len(collect(function, lambda op: op.name == "hal.interface.binding.subspan")) > 4


def _groups(block: ir.Block, threads: Threads, masked: bool) -> Iterator[list[Fragment]]:
    """The reads of fragments, up to four that one instruction can do together.

    They go slice by slice of the depth, but for K's in front of a mask. On an H200 that is 3%
    faster for K without one, and 3 to 17% slower with one (1333 keys of head dim 128).
    """
    weights = next((op.operation for op in block if op.operation.name in _EXPONENTIALS), None)
    run: list[Fragment] = []

    def parts() -> Iterator[list[Fragment]]:
        of_scores = bool(run) and weights is not None and run[0].op.is_before_in_block(weights)
        return _parts(run, by_slice=not (masked and of_scores))

    for view in block:
        op = view.operation
        fragment = _fragment(op, threads)
        if fragment is None and _is_harmless(op):
            continue
        if fragment is None or (run and fragment.family != run[0].family):
            yield from parts()
            run = []
        run += [fragment] if fragment else []
    yield from parts()


def _parts(run: list[Fragment], by_slice: bool) -> Iterator[list[Fragment]]:
    """A run of reads in fours, which one slice of the depth takes with `by_slice`, if slices are
    made of such: what a later slice takes need not wait in registers."""
    slices: dict[int, list[Fragment]] = {}
    for fragment in run:
        slices.setdefault(fragment.slice, []).append(fragment)
    # In each slice reads keep their order: the first of a group stands before the others.
    if by_slice and not any(len(fragments) % _MOST for fragments in slices.values()):
        run = [fragment for number in sorted(slices) for fragment in slices[number]]
    for start in range(0, len(run), _MOST):
        yield from _split(run[start : start + _MOST])


def _split(group: list[Fragment]) -> Iterator[list[Fragment]]:
    """The group as runs of 4, 2 and 1 whose offsets are linear in the bits of their number."""
    while group:
        size = next(n for n in (4, 2, 1) if len(group) >= n and _is_linear(group[:n]))
        yield group[:size]
        group = group[size:]


def _is_linear(group: Sequence[Fragment]) -> bool:
    if len(group) < _MOST:
        return True
    _, one, two, both = _offsets(group)
    return both == (one[0] + two[0], one[1] + two[1])


def _in_order_of_registers(group: list[Fragment]) -> list[Fragment]:
    """The group as tensor cores take its registers: of the first factor (16 x 16) the rows go
    first, of the second one (16 x 8) the depth. Other orders cost a move a register and use."""
    if _factors_of(group[0].op.results[0]) != {0}:
        return group
    ordered = sorted(group, key=lambda x: (x.rows if x.transposed else x.columns)[0])
    # Only what the first read names is known where all are read.
    return ordered if ordered[0] is group[0] else group


def _offsets(group: Sequence[Fragment]) -> list[tuple[int, int]]:
    """How many rows and columns each fragment is away from the first."""
    first = group[0]
    return [(x.rows[0] - first.rows[0], x.columns[0] - first.columns[0]) for x in group]


def _is_harmless(op: ir.Operation) -> bool:
    if len(op.regions):
        return False
    if op.name.startswith("vector."):
        return op.name not in ("vector.transfer_write", "vector.store", "vector.scatter")
    if op.name == "llvm.inline_asm":
        return "has_side_effects" not in op.attributes
    return op.name.startswith(_HARMLESS)


def _fragment(op: ir.Operation, threads: Threads) -> Fragment | None:
    """The fragment that an op reads from shared memory, if it reads one."""
    if op.name != "vector.transfer_read" or not is_plain_transfer(op):
        return None
    buffer, vector = op.operands[0], op.results[0].type
    size, rank = element_bytes(buffer), buffer.type.rank
    # Rows of a buffer without a layout follow each other at its width.
    if not printed.is_shared(buffer.type) or rank < 2 or not buffer.type.has_static_shape:
        return None
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank, op.context))
    if buffer.type.layout != identity or buffer.type.shape[-1] * size % _BYTES:
        return None
    # Rows are numbered by the last dim before the columns that is no unit dim.
    row_dim = next((dim for dim in range(rank - 2, 0, -1) if buffer.type.shape[dim] > 1), rank - 2)
    read = [1] * (rank - vector.rank) + list(vector.shape)
    # IREE does not translate 8-bit floats that ldmatrix makes, other than as factors.
    if size == 1 and _factors_of(op.results[0]) is None:
        return None
    transposed = (read[row_dim], read[-1], size) == (2, 1, 2)
    if math.prod(read) * size != 4 or not (transposed or read[-1] * size == 4):
        return None
    places = list(op.operands)[1:-1]
    row_parts, column_parts = _lane_parts(transposed, size)
    rows = _bases(threads.values(places[row_dim]), row_parts)
    columns = _bases(threads.values(places[-1]), column_parts)
    if rows is None or columns is None or any(base * size % _BYTES for base in columns):
        return None
    return Fragment(op, transposed, row_dim, rows, columns)


def _factors_of(value: ir.Value) -> set[int] | None:
    """Which factors of tensor cores the elements of a vector become; None if they become
    anything else, too."""

    def made(value: ir.Value) -> list[ir.Value]:
        others = (user for user in users(value) if user.name != _PRODUCT)
        return [result for user in others for result in user.results]

    found: set[int] = set()
    for one in reached([value], made):
        for user in users(one):
            if user.name == _PRODUCT:
                found.update(n for n, operand in enumerate(user.operands) if operand == one)
            elif not user.name.startswith("vector.") or not len(user.results):
                return None
    return found


def _lane_parts(transposed: bool, size: int) -> tuple[Values, Values]:
    """What each lane of a warp adds to the first row and the first column."""
    lanes = range(WARP)
    if transposed:
        return tuple(2 * (lane % 4) for lane in lanes), tuple(lane // 4 for lane in lanes)
    return tuple(lane // 4 for lane in lanes), tuple(4 // size * (lane % 4) for lane in lanes)


def _bases(values: Values | None, parts: Values) -> Values | None:
    """What is left in each warp without the lanes' parts; None where lanes disagree."""
    if values is None or len(values) % WARP:
        return None
    bases: list[int] = []
    for start in range(0, len(values), WARP):
        left = {values[start + lane] - part for lane, part in enumerate(parts)}
        if len(left) != 1:
            return None
        bases += left
    return tuple(bases)


def _load(group: Sequence[Fragment]) -> None:
    """One `ldmatrix` for a group, in front of the first read."""
    first = group[0]
    op, kind, context = first.op, first.op.results[0].type, first.op.context
    build = Builder(op)
    places = first.places
    row, column = places[first.row_dim], places[-1]
    width = 4 // element_bytes(op.operands[0])
    lane = _Lane(build)
    offsets = [*_offsets(group), (0, 0), (0, 0)][1:3]
    quad, octet = (lane.part(1, 4), 2 if first.transposed else width), (lane.part(4, 8), 1)
    row_part, column_part = (quad, octet) if first.transposed else (octet, quad)
    down, right = ([offset[i] for offset in offsets] for i in (0, 1))
    places[first.row_dim] = lane.place(lane.part(1, _ROWS), down, first.rows, row, row_part)
    places[-1] = lane.place(None, right, first.columns, column, column_part)
    loaded = ir.VectorType.get([len(group), width], kind.element_type, loc=op.location)
    attributes = {
        "transpose": ir.BoolAttr.get(first.transposed, context),
        "numTiles": build.integer(len(group), 32),
    }
    operands = [op.operands[0], *places]
    matrix = build.create("nvgpu.ldmatrix", [loaded], operands, attributes).results[0]
    one = ir.VectorType.get([width], kind.element_type, loc=op.location)
    for number, fragment in enumerate(group):
        position = {"static_position": build.integers(number)}
        part = build.create("vector.extract", [one], [matrix], position).results[0]
        shaped = build.create("vector.shape_cast", [kind], [part]).results[0]
        fragment.op.results[0].replace_all_uses_with(shaped)


class _Lane:
    """Index arithmetic on the thread's number."""

    def __init__(self, build: Builder):
        self.build = build
        index = ir.IndexType.get(build.anchor.context)
        attributes = {"dimension": dimension_x(build.anchor.context)}
        self.thread = build.create("gpu.thread_id", [index], [], attributes).results[0]

    def part(self, step: int, count: int) -> ir.Value:
        """(thread / step) % count."""
        value = self._op("arith.divui", self.thread, step) if step > 1 else self.thread
        return self._op("arith.remui", value, count)

    def place(
        self,
        own: ir.Value | None,
        offsets: Sequence[int],
        bases: Values,
        index: ir.Value,
        lane_part: tuple[ir.Value, int],
    ) -> ir.Value:
        """The row or column that a thread names: its own one, the offsets that the bits of its
        fragment's number stand for, and the warp's base. Where warps differ, the base is what
        `index` is without the lane's part, a value and a factor."""
        if len(set(bases)) == 1:
            base = self.build.constant_index(bases[0])
        else:
            base = self._op("arith.subi", index, self._op("arith.muli", *lane_part))
        terms = [
            self._op("arith.muli", self.part(step, 2), offset)
            for step, offset in zip((_ROWS, 2 * _ROWS), offsets, strict=True)
            if offset
        ]
        parts = [*([] if own is None else [own]), *terms, base]
        return functools.reduce(lambda left, right: self._op("arith.addi", left, right), parts)

    def _op(self, name: str, left: ir.Value, right: ir.Value | int) -> ir.Value:
        other = self.build.constant_index(right) if isinstance(right, int) else right
        return self.build.create(name, [left.type], [left, other]).results[0]
