"""attn-vectorize-scans: CPUs: running sums and products as vector loops.

Along the last dim a vector's own running sums are made in as many steps as its lanes have doubled,
and the sum of all vectors before is added to them; along another dim columns stand in the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    Builder,
    Refusal,
    collect,
    defining_op,
    element_bytes,
    element_type,
    iterator_kinds,
    ranked_shape,
    reduces,
)
from ..ir.running import SCAN, running_step, scanned_dim
from ..machines.cpu.machine import Cpu
from ..machines.cpu.window_tiles import line_vectors
from ..machines.cpu.workgroups import divisors
from ..report.records import Report
from .lowering import LoopPass, in_pieces, lower_kernel, lower_tiles, put_loops
from .vectors import Vectors

_NEUTRAL = {"arith.addf": 0.0, "arith.addi": 0, "arith.mulf": 1.0, "arith.muli": 1}
# Elements of a workgroup, about, and vectors of columns that go together.
_WORKGROUP, _VECTORS = 1 << 14, 4


def _scans(function: ir.Operation) -> list[ir.Operation]:
    return collect(function, lambda op: op.name == SCAN)


def _lower(function: ir.Operation, target: str, register_bytes: int) -> Refusal | None:
    (op,) = _scans(function)
    others = collect(function, lambda op: bool(iterator_kinds(op)), bodies=False)
    if any(map(reduces, others)):
        return Refusal("its kernel sums up something else, too")
    if running_step(op) not in _NEUTRAL:
        return Refusal("it is no running sum or product alone")
    wide = max(element_bytes(op.operands[0]), 4)
    lanes = register_bytes // wide

    def put(function: ir.Operation) -> Refusal | None:
        scans = _scans(function)
        if len(scans) != 1:
            return Refusal("IREE made several scans of one")
        put_loops(scans[0], ScanLoops(scans[0], lanes).emit)
        return None

    return lower_tiles(function, op, _configuration(op, lanes), put, lanes, target, others=others)


def _configuration(op: ir.Operation, lanes: int) -> str:
    """Tiles of one row, or of whole columns; workgroups of some."""
    sizes, dim = ranked_shape(op.operands[0]), scanned_dim(op)
    last = len(sizes) - 1
    tiles = [0 if at in (dim, last) else 1 for at in range(last + 1)]
    workgroup = list(tiles)
    length, columns = sizes[dim] or _WORKGROUP, sizes[last]
    if dim == last:
        rows = list(range(last))
    else:
        step = _VECTORS * lanes
        if columns is None or columns % lanes == 0:
            whole = [n for n in divisors(columns or step) if n % lanes == 0 and n <= 4 * step]
            tiles[last] = workgroup[last] = max(whole)
        length *= tiles[last] or columns or step
        rows = [at for at in range(last) if at != dim]
    for at in rows[-1:]:
        workgroup[at] = max(min(_WORKGROUP // length, sizes[at] or _WORKGROUP), 1)
    return in_pieces(workgroup, tiles)


@dataclass(frozen=True)
class ScanLoops:
    """The vector code of a scan of one row, or of columns, whose other dims have size one."""

    op: ir.Operation
    lanes: int

    @property
    def rank(self) -> int:
        return len(ranked_shape(self.op.operands[0]))

    @property
    def combine(self) -> str:
        return running_step(self.op)

    def emit(self) -> ir.Value:
        """The op's first result."""
        v, output = Vectors(Builder(self.op)), self.op.operands[1]
        fill = defining_op(output)
        if fill is not None and fill.name == "linalg.fill":
            output = fill.operands[1]
        dim = scanned_dim(self.op)
        return self.along(v, output) if dim == self.rank - 1 else self.columns(v, output)

    def size(self, v: Vectors, dim: int) -> int | ir.Value:
        return ranked_shape(self.op.operands[0])[dim] or v.dim(self.op.operands[0], dim)

    def kind(self, v: Vectors) -> ir.Type:
        """The type of sums: f32 of 16 bits."""
        element = element_type(self.op.operands[0])
        narrow = isinstance(element, ir.FloatType) and element.width < 32
        return v.f32 if narrow else element

    def neutral(self, v: Vectors, lanes: int) -> ir.Value:
        number = v.build.splat(_NEUTRAL[self.combine], self.kind(v))
        return v.spread(number, lanes)

    def read(self, v: Vectors, place: Sequence[ir.Value], lanes: int) -> ir.Value:
        found = v.read(self.op.operands[0], place, [self.rank - 1], [lanes], [True])
        return v.wide(found) if self.kind(v) == v.f32 else found

    def write(
        self, v: Vectors, sums: ir.Value, output: ir.Value, place: Sequence[ir.Value]
    ) -> ir.Value:
        element = element_type(output)
        if element_type(sums) != element:
            sums = v.to("arith.truncf", element, sums)
        return v.write(sums, output, place, [self.rank - 1], [True])

    def along(self, v: Vectors, output: ir.Value) -> ir.Value:
        """Running sums of a row."""
        size = self.size(v, self.rank - 1)
        lanes = self.lanes
        while isinstance(size, int) and lanes > size:
            lanes //= 2

        def step(v: Vectors, at: ir.Value, values: list[ir.Value], width: int) -> list[ir.Value]:
            output, before = values
            place = [*[v.number(0)] * (self.rank - 1), at]
            own = self.own(v, self.read(v, place, width))
            ahead = before if width == lanes else v.shuffle(before, before, range(width))
            output = self.write(v, v.op(self.combine, ahead, own), output, place)
            total = v.shuffle(own, own, [width - 1] * lanes)
            return [output, v.op(self.combine, before, total)]

        output, _ = v.in_steps(size, lanes, [output, self.neutral(v, lanes)], step)
        return output

    def own(self, v: Vectors, x: ir.Value) -> ir.Value:
        """The running sums of a vector's lanes."""
        (lanes,) = x.type.shape
        neutral, distance = self.neutral(v, lanes), 1
        while distance < lanes:
            order = [*range(lanes - distance, lanes), *range(lanes, 2 * lanes - distance)]
            x = v.op(self.combine, x, v.shuffle(neutral, x, order))
            distance *= 2
        return x

    def columns(self, v: Vectors, output: ir.Value) -> ir.Value:
        """Running sums down columns."""
        size = self.size(v, self.rank - 1)
        if not isinstance(size, int):

            def step(v: Vectors, at: ir.Value, x: list[ir.Value], width: int) -> list[ir.Value]:
                return [self.down(v, [(at, width)], x[0])]

            return v.in_steps(size, self.lanes, [output], step)[0]
        found = [(v.number(first), width) for first, width in line_vectors(size, self.lanes)]
        for low in range(0, len(found), _VECTORS):
            output = self.down(v, found[low : low + _VECTORS], output)
        return output

    def down(
        self, v: Vectors, vectors: Sequence[tuple[ir.Value, int]], output: ir.Value
    ) -> ir.Value:
        """Those of some vectors of columns, from one on so many."""
        dim = scanned_dim(self.op)

        def step(v: Vectors, at: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
            output, *sums = values
            made = []
            for (column, width), before in zip(vectors, sums, strict=True):
                place = [v.number(0)] * self.rank
                place[dim], place[-1] = at, column
                made.append(v.op(self.combine, before, self.read(v, place, width)))
                output = self.write(v, made[-1], output, place)
            return [output, *made]

        start = [self.neutral(v, width) for _, width in vectors]
        return v.loop(0, self.size(v, dim), 1, [output, *start], step)[0]


class VectorizeScans(LoopPass):
    """Lowers running sums and products, on llvm-cpu, to vector loops; those of 16 bits in f32. IREE
    3.13 makes one number after the other, and reads each sum again from memory.
    """

    name = "attn-vectorize-scans"
    summary = "CPUs: running sums as vector loops of our own"
    why = "IREE makes running sums number by number"

    def rewrite(self, function: ir.Operation, target: str, machine: Cpu, report: Report) -> bool:
        if len(_scans(function)) != 1:
            return False
        lower = lambda function: _lower(function, target, machine.vector_bytes)  # noqa: E731
        return lower_kernel(function, [("elements", lower)], report)
