"""attn-moves: copies with gaps, and transposes, as loops of ours, for CUDA."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from iree.compiler import ir

from ..codegen.kernel import STORES, KernelsPass, load_of, mark_lowered, set_threads
from ..ir import (
    Builder,
    Refusal,
    body_names,
    body_ops,
    collect,
    copy_steps,
    iterator_kinds,
    maps,
    printed,
    users,
)
from ..report.ops import op_of
from ..report.records import Report
from . import computed_elements, indexed_lines, lane_bodies, reordered_lines
from .lane_loops import THREADS, VECTOR_BYTES, LaneLoops, emit, start_of

_LANES = 32
# What a thread loads before it stores, at least; the elements of a copy that a thread moves.
_BYTES, _MOST = 32, 16
# A side of a tile, and the longest dim that is as well moved by lanes along the result alone.
_SIDE, _SHORT = 64, 12
_SHARED_BYTES = 40 * 1024
_DISTRIBUTE = "Distribute"


class Moves(KernelsPass):
    """Moves elements by lanes that lie side by side in what they read and in what they write.

    IREE 3.13 copies what has gaps in it (slices, parts of concats and pads) one element a thread
    where lines have no whole number of vectors, in workgroups of 64 threads or less; and transposes
    by lanes that lie side by side in the result alone, unless both dims are multiples of 32. Here
    threads of a copy have several elements on their way, and transposes go through shared memory,
    in tiles that need not be whole, together with the elementwise ops in their kernels. Lines that
    stay lines, and lie in another order, are vectors.
    """

    name = "attn-moves"
    summary = "CUDA: copies and transposes at memory speed"
    why = "IREE copies lines of no whole vectors one element a thread"
    backends = ("cuda",)

    def change(self, function: ir.Operation, target: str, report: Report) -> bool:
        move = _read(function)
        if isinstance(move, Refusal):
            return False
        about, what = op_of(function), move.words
        move.emit()
        set_threads(function, THREADS)
        mark_lowered(function)
        report.record(about, "fitted", what, threads=THREADS)
        return True


@dataclass(frozen=True)
class _Strides:
    """Where elements lie: in a memref, whose dims run along these loops; the innermost is that of
    the loop with the least stride."""

    memref: ir.Value
    loops: tuple[int, ...]
    strides: tuple[int, ...]

    def at(self, index: dict[int, ir.Value]) -> list[ir.Value]:
        """The indices of the element at these places of loops."""
        return [index[loop] for loop in self.loops]

    @property
    def innermost(self) -> int | None:
        return min(zip(self.strides, self.loops, strict=True))[1] if self.loops else None


@dataclass(frozen=True)
class _Move:
    """A kernel that is one elementwise op: loops of these `sizes`, what is read, what is written;
    `turned` are the inputs that lie along another loop than the result."""

    op: ir.Operation
    end: ir.Operation
    sizes: tuple[int, ...]
    reads: tuple[_Strides, ...]
    written: _Strides
    turned: tuple[int, ...]

    @property
    def words(self) -> str:
        if self.turned and self.tile:
            return f"it is turned in tiles of {self.tile[0]} x {self.tile[1]}"
        return f"{THREADS} threads of a workgroup copy {self.count} elements each"

    @property
    def bytes(self) -> int:
        """Of the largest element that is moved."""
        return max(_bytes(buffer) for buffer in (*self.reads, self.written))

    @property
    def count(self) -> int:
        return max(1, min(_MOST, _BYTES // self.bytes))

    @property
    def line(self) -> int:
        line = self.written.innermost
        assert line is not None
        return line

    @property
    def across(self) -> int:
        across = self.reads[self.turned[0]].innermost
        assert across is not None
        return across

    @property
    def tile(self) -> tuple[int, int] | None:
        """The sides of a tile along the loops `across` and `line`; none where one is short."""
        sizes = [self.sizes[self.across], self.sizes[self.line]]
        if min(sizes) <= _SHORT:
            return None
        sides = [_SIDE if size > _LANES else _LANES for size in sizes]
        shared = sum(
            sides[1] * self._pitch(at, sides[0]) * _bytes(self.reads[at]) for at in self.turned
        )
        if shared > _SHARED_BYTES:
            sides = [_LANES, _LANES]
        return sides[0], sides[1]

    def _pitch(self, at: int, side: int) -> int:
        """Elements from line to line of a tile, so that lanes of a column are in banks of their
        own."""
        return side + max(1, 4 // _bytes(self.reads[at]))

    def emit(self) -> None:
        """Puts loops in the op's place."""
        if self.turned and self.tile:
            self._emit_tiles(*self.tile)
        elif self.is_plain:
            _joined(self)._emit_plain()
        else:
            self._emit_copy()
        lane_bodies.erase([self.end] if self.end != self.op else [], [self.op])

    def _emit_copy(self) -> None:
        total, count = math.prod(self.sizes), self.count
        part = THREADS * count
        order = self._order()

        def body(build: LaneLoops) -> None:
            places = list(build.places(count))
            kept = [build.within(place, total, part) for place in places]
            found = [build.split(one, [self.sizes[loop] for loop in order]) for one in kept]
            indices = [dict(zip(order, one, strict=True)) for one in found]
            made = self._compute(build, indices, {})
            for value, place, index in zip(made, places, indices, strict=True):
                inside = build.is_within(place, total, part)
                build.store(value, self.written.memref, self.written.at(index), inside)

        emit(self.end, -(-total // part), body)

    @property
    def is_plain(self) -> bool:
        """Whether it is a copy without a change, whose dims are in one order."""
        orders = {buffer.loops for buffer in (*self.reads, self.written)}
        return len(orders) == 1 and len(self.reads) == 1 and len(body_ops(self.op)) == 1

    def _emit_plain(self) -> None:
        width = self._width()
        if width == 1:
            self._emit_copy()
            return
        *outer, line = self.sizes
        sizes = [*outer, line // width]
        total, count = math.prod(sizes), max(1, self.count // width)
        part = THREADS * count

        def body(build: LaneLoops) -> None:
            places = list(build.places(count))
            found, loaded = [], []
            for place in places:
                *far, near = build.split(build.within(place, total, part), sizes)
                found.append([*far, build.times(near, width)])
                loaded.append(build.load_vector(self.reads[0].memref, found[-1], width))
            for value, place, indices in zip(loaded, places, found, strict=True):
                inside = build.is_within(place, total, part)
                build.store_vector(value, self.written.memref, indices, inside)

        emit(self.end, -(-total // part), body)

    def _width(self) -> int:
        """Elements that lie side by side at an alignment of as many, wherever a line begins."""
        buffers = (*self.reads, self.written)
        if any(buffer.strides[-1] != 1 for buffer in buffers):
            return 1
        starts = [start for one in buffers if (start := start_of(one.memref)) is not None]
        if len(starts) != len(buffers):
            return 1
        far = [stride for buffer in buffers for stride in buffer.strides[:-1]]
        return math.gcd(VECTOR_BYTES // self.bytes, self.sizes[-1], *far, *starts)

    def _order(self) -> list[int]:
        """The loops, those outermost in the result first."""
        pairs = sorted(zip(self.written.strides, self.written.loops, strict=True), reverse=True)
        return [loop for _, loop in pairs]

    def _emit_tiles(self, tall: int, wide: int) -> None:
        across, line = self.across, self.line
        others = [loop for loop in self._order() if loop not in (across, line)]
        rows, columns = -(-self.sizes[across] // tall), -(-self.sizes[line] // wide)
        counts = [*(self.sizes[loop] for loop in others), rows, columns]
        each = tall * wide // THREADS

        def body(build: LaneLoops) -> None:
            *outer, row, column = build.split(build.workgroup, counts)
            fixed = dict(zip(others, outer, strict=True))
            starts = {across: build.times(row, tall), line: build.times(column, wide)}

            def at(number: int, size: int) -> list[ir.Value]:
                """The thread's place of this number in a tile: the line, of so many elements, and
                where it is there."""
                flat = build.add(build.thread, build.number(number * THREADS))
                return build.split(flat, [tall * wide // size, size])

            def place(loop: int, own: ir.Value) -> tuple[ir.Value, ir.Value]:
                """Where an element of the tile is along a loop, and the last place for those beyond
                the end."""
                index, side = build.add(starts[loop], own), tall if loop == across else wide
                return index, build.within(index, self.sizes[loop], side)

            tiles = {
                number: build.shared(wide, self._pitch(number, tall), _element(self.reads[number]))
                for number in self.turned
            }
            loaded = []
            for number in range(each):
                own_line, own_across = at(number, tall)
                index = {
                    **fixed,
                    across: place(across, own_across)[1],
                    line: place(line, own_line)[1],
                }
                for which in self.turned:
                    value = _load(build, self.reads[which], index)
                    loaded.append((value, tiles[which], own_line, own_across))
            for value, buffer, own_line, own_across in loaded:
                build.put(value, buffer, [own_line, own_across])
            build.barrier()
            indices, given, inside = [], {}, []
            for number in range(each):
                own_across, own_line = at(number, wide)
                (x, last_x), (y, last_y) = place(across, own_across), place(line, own_line)
                indices.append({**fixed, across: last_x, line: last_y})
                for which in self.turned:
                    given[which, number] = build.get(tiles[which], [own_line, own_across])
                sides = ((x, self.sizes[across], tall), (y, self.sizes[line], wide))
                inside.append(build.both(*(build.is_within(*side) for side in sides)))
            made = self._compute(build, indices, given)
            for value, index, kept in zip(made, indices, inside, strict=True):
                build.store(value, self.written.memref, self.written.at(index), kept)

        emit(self.end, math.prod(counts), body)

    def _compute(
        self,
        build: LaneLoops,
        indices: Sequence[dict[int, ir.Value]],
        given: dict[tuple[int, int], ir.Value],
    ) -> list[ir.Value]:
        """The elements at these places: all that they are made of is loaded first."""
        block = self.op.regions[0].blocks[0]
        *steps, last = body_ops(self.op)
        loaded = [
            [
                given[number, at] if (number, at) in given else _load(build, buffer, index)
                for number, buffer in enumerate(self.reads)
            ]
            for at, index in enumerate(indices)
        ]
        made = []
        for values in loaded:
            names = dict(zip(block.arguments, values, strict=False))
            names = copy_steps(steps, build.build, names)
            result = last.operands[0]
            made.append(names.get(result, result))
        return made


def _joined(move: _Move) -> _Move:
    """A copy with the dims as one that lie behind one another in both buffers."""
    buffers = (*move.reads, move.written)
    sizes = [move.sizes[loop] for loop in move.written.loops]
    groups = [[0]]
    for dim in range(1, len(sizes)):
        behind = all(one.strides[dim - 1] == one.strides[dim] * sizes[dim] for one in buffers)
        groups = [*groups[:-1], [*groups[-1], dim]] if behind else [*groups, [dim]]
    shape = [math.prod(sizes[dim] for dim in group) for group in groups]
    loops, build = tuple(range(len(groups))), Builder(move.end)

    def join(buffer: _Strides) -> _Strides:
        strides = tuple(buffer.strides[group[-1]] for group in groups)
        if len(groups) == len(sizes):
            return _Strides(buffer.memref, loops, strides)
        old = ir.MemRefType(buffer.memref.type)
        layout = None
        if printed.is_strided(old):
            _, start = old.get_strides_and_offset()
            layout = ir.StridedLayoutAttr.get(start, strides)
        kind = ir.MemRefType.get(
            shape, old.element_type, layout, old.memory_space, loc=build.location
        )
        return _Strides(build.collapse_memref(buffer.memref, kind, groups), loops, strides)

    made = [join(buffer) for buffer in buffers]
    return replace(move, sizes=tuple(shape), reads=tuple(made[:-1]), written=made[-1])


def _load(build: LaneLoops, buffer: _Strides, index: dict[int, ir.Value]) -> ir.Value:
    return build.get(buffer.memref, buffer.at(index))


def _bytes(buffer: _Strides) -> int:
    return _width(_element(buffer)) // 8


def _element(buffer: _Strides) -> ir.Type:
    return ir.MemRefType(buffer.memref.type).element_type


def _width(kind: ir.Type) -> int:
    return kind.width if isinstance(kind, ir.IntegerType | ir.FloatType) else 0


_Loops = (
    _Move
    | indexed_lines.IndexedLines
    | computed_elements.ComputedElements
    | reordered_lines.ReorderedLines
)


def _read(function: ir.Operation) -> _Loops | Refusal:
    """The move that a kernel is; why it is left to IREE."""
    ops = collect(
        function, lambda op: op.name.startswith(("linalg.", "iree_linalg_ext.")), bodies=False
    )
    if len(ops) != 1 or ops[0].name != "linalg.generic":
        return Refusal("it is not one loop")
    (op,) = ops
    if {*iterator_kinds(op)} != {"parallel"}:
        return Refusal("it sums")
    if len(op.operands) == 1 and "tensor.extract" in body_names(op):
        return _read_lines(op)
    plain = ("arith.", "math.", "linalg.yield")
    if not all(name.startswith(plain) for name in body_names(op)):
        return Refusal("its body is more than scalars")
    if any(lane_bodies.computes_with_bytes(one) for one in body_ops(op)[:-1]):
        return Refusal("IREE 3.13 cannot translate its casts of 8-bit floats")
    positions = maps.positions(op)
    if positions is None or any(None in dims or len({*dims}) != len(dims) for dims in positions):
        return Refusal("its elements are not at their loops' places")
    target = target_of(op)
    if target is None:
        return Refusal("its result is not stored alone")
    end, memref = target
    sources = [source_of(value) for value in list(op.operands)[:-1]]
    inputs = [one for one in sources if one is not None]
    if len(inputs) != len(positions) - 1:
        return Refusal("it reads what is in no buffer")
    lines = reordered_lines.read(op, end, inputs, memref, positions)
    if not isinstance(lines, Refusal):
        return lines
    buffers = [
        _buffer(value, dims) for value, dims in zip((*inputs, memref), positions, strict=True)
    ]
    known = [one for one in buffers if one is not None]
    if len(known) != len(buffers):
        return Refusal("strides are known only at run time")
    *reads, written = known
    sizes = _sizes(known, len(iterator_kinds(op)))
    if sizes is None or math.prod(sizes) >= 1 << 31 or len(written.loops) != len(sizes):
        return Refusal("its loops are not those of its result")
    turned = tuple(at for at, one in enumerate(reads) if _is_turned(one, written))
    info = printed.pipeline(function.attributes["translation_info"])
    move = _Move(op, end, sizes, tuple(reads), written, turned)
    if turned:
        alike = len({reads[at].innermost for at in turned}) == 1
        short = sizes[move.line] <= _SHORT
        return move if short or (alike and move.tile) else Refusal("no tile fits it")
    return move if _DISTRIBUTE in info else Refusal("IREE has vectors for it")


def _read_lines(op: ir.Operation) -> _Loops | Refusal:
    target, positions = target_of(op), maps.positions(op)
    if target is None or positions is None or positions[0] != tuple(range(len(positions[0]))):
        return Refusal("its result is not stored alone, in its loops' order")
    sizes = ir.MemRefType(target[1].type).shape
    if not ir.MemRefType(target[1].type).has_static_shape or math.prod(sizes) >= 1 << 31:
        return Refusal("sizes are known only at run time")
    lines = indexed_lines.read(op, *target, tuple(sizes))
    if not isinstance(lines, Refusal):
        return lines
    return computed_elements.read(op, *target, tuple(sizes))


def target_of(op: ir.Operation) -> tuple[ir.Operation, ir.Value] | None:
    """The op that ends a kernel's work, and the memref that it writes to."""
    if not op.results:
        last = op.operands[len(op.operands) - 1]
        return (op, last) if isinstance(last.type, ir.MemRefType) else None
    if len(op.results) != 1:
        return None
    stores = users(op.results[0])
    if len(stores) != 1 or stores[0].name != STORES[0]:
        return None
    return stores[0], stores[0].operands[1]


def source_of(value: ir.Value) -> ir.Value | None:
    """The memref that a value is, or is loaded from."""
    if isinstance(value.type, ir.MemRefType):
        return value
    load = load_of(value)
    whole = load is not None and load.results[0] == value and load.name.startswith("iree_codegen")
    return load.operands[0] if load is not None and whole else None


def _buffer(memref: ir.Value | None, loops: maps.Positions) -> _Strides | None:
    if memref is None or not isinstance(memref.type, ir.MemRefType):
        return None
    kind = ir.MemRefType(memref.type)
    if not kind.has_static_shape or _width(kind.element_type) < 8:
        return None
    strides, _ = kind.get_strides_and_offset()
    if any(kind.is_dynamic_stride_or_offset(one) for one in strides):
        return None
    return _Strides(memref, tuple(loop for loop in loops if loop is not None), tuple(strides))


def _sizes(buffers: Sequence[_Strides], count: int) -> tuple[int, ...] | None:
    """The sizes of loops by the shapes of buffers."""
    sizes = [0] * count
    for buffer in buffers:
        for loop, size in zip(buffer.loops, ir.MemRefType(buffer.memref.type).shape, strict=True):
            sizes[loop] = size
    return tuple(sizes) if all(sizes) else None


def _is_turned(read: _Strides, written: _Strides) -> bool:
    """Whether what is read lies along another loop than what is written, and has both."""
    across, line = read.innermost, written.innermost
    return across != line and across is not None and line in read.loops
