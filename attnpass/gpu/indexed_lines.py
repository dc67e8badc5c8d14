"""Elementwise kernels that read tensors by index, as vectors along lines: patches of images, taps
of a convolution."""

from __future__ import annotations

import math
from dataclasses import dataclass

from iree.compiler import ir

from ..codegen.kernel import load_of
from ..ir import (
    Builder,
    Refusal,
    body_of,
    body_ops,
    copied_attributes,
    index_dim,
    whole_number,
)
from . import lane_bodies
from .lane_bodies import EXTRACT, INDEX
from .lane_loops import THREADS, VECTOR_BYTES, LaneLoops, emit, start_of

# Vectors that a thread makes of a plain copy.
_COPIES = 2


@dataclass(frozen=True)
class _IndexOfLine:
    """An index: how much more it is at the next element of a line, and what it is a multiple of
    where a line's place is one of the vectors' width (0: it is 0)."""

    slope: int
    multiple: int


@dataclass(frozen=True)
class IndexedLines:
    """A kernel that is one loop over `sizes`, whose result lies in `written`, and whose elements
    are made of what lies at computed places; a thread makes `width` neighbours at once."""

    op: ir.Operation
    end: ir.Operation
    written: ir.Value
    sizes: tuple[int, ...]
    width: int

    @property
    def words(self) -> str:
        return f"each thread makes {self.width} neighbours of what it reads by index"

    def emit(self) -> None:
        """Puts loops in the op's place."""
        *outer, line = self.sizes
        sizes = [*outer, line // self.width]
        total = math.prod(sizes)
        count = _COPIES if len(lane_bodies.extracts(self.op)) == 1 else 1
        part = THREADS * count

        def body(build: LaneLoops) -> None:
            made = []
            for place in build.places(count):
                *far, near = build.split(build.within(place, total, part), sizes)
                indices = [build.as_index(one) for one in (*far, build.times(near, self.width))]
                made.append((place, indices, self._made(build, indices)))
            for place, indices, value in made:
                inside = build.is_within(place, total, part)
                build.store_vector(value, self.written, indices, inside)

        emit(self.end, -(-total // part), body)
        lane_bodies.erase([self.end], [self.op])

    def _made(self, build: LaneLoops, indices: list[ir.Value]) -> ir.Value:
        """The vector at these indices of a line's part."""
        names: dict[ir.Value, ir.Value] = {}
        *steps, last = body_ops(self.op)
        places = _places(self.op, self.width)

        def named(value: ir.Value) -> ir.Value:
            return names.get(value, value)

        for op in steps:
            (result,) = op.results
            operands = [named(value) for value in op.operands]
            if op.name == INDEX:
                names[result] = indices[index_dim(op)]
            elif op.name == EXTRACT:
                load = load_of(op.operands[0])
                assert load is not None, "it has been read before"
                memref, at = load.operands[0], operands[1:]
                if places[op.operands[len(op.operands) - 1]].slope:
                    names[result] = build.load_vector(memref, at, self.width)
                else:
                    names[result] = _spread(build, build.get(memref, at), self.width)
            elif result in places:
                names[result] = _again(build.build, op, operands, result.type)
            else:
                operands = [_spread(build, value, self.width) for value in operands]
                kind = build.vector(result.type, self.width)
                names[result] = _again(build.build, op, operands, kind)
        return _spread(build, named(last.operands[0]), self.width)


def _spread(build: LaneLoops, value: ir.Value, width: int) -> ir.Value:
    """A vector of a scalar; a vector as it is."""
    if isinstance(value.type, ir.VectorType):
        return value
    kind = build.vector(value.type, width)
    return build.build.create("vector.broadcast", [kind], [value]).results[0]


def _again(build: Builder, op: ir.Operation, operands: list[ir.Value], kind: ir.Type) -> ir.Value:
    return build.create(op.name, [kind], operands, copied_attributes(op)).results[0]


def read(
    op: ir.Operation, end: ir.Operation, written: ir.Value, sizes: tuple[int, ...]
) -> IndexedLines | Refusal:
    """The lines that an elementwise op without inputs makes, whose loops are those of the result's
    dims; why it is left to IREE."""
    kind = ir.MemRefType(written.type)
    strides, _ = kind.get_strides_and_offset()
    if any(kind.is_dynamic_stride_or_offset(one) for one in strides) or strides[-1] != 1:
        return Refusal("lines of its result do not lie side by side")
    widths = _widths(op)
    if min(widths) < 8:
        return Refusal("there are no vectors of its elements")
    widest = VECTOR_BYTES * 8 // max(widths)
    start = start_of(written)
    if start is None:
        return Refusal("where its result begins is known only at run time")
    width = math.gcd(widest, sizes[-1], start, *strides[:-1])
    while width > 1:
        if _fits(op, width):
            return IndexedLines(op, end, written, sizes, width)
        width //= 2
    return Refusal("what it reads by index does not lie side by side")


def _widths(op: ir.Operation) -> list[int]:
    """The bits of the elements that are read, and of those that are made; 0 for those that are no
    integers or floats."""
    kinds = [one.results[0].type for one in lane_bodies.extracts(op)]
    kinds.append(body_of(op).arguments[0].type)
    return [one.width if isinstance(one, ir.IntegerType | ir.FloatType) else 0 for one in kinds]


def _fits(op: ir.Operation, width: int) -> bool:
    """Whether a line's elements can be made so many at once: each tensor is read along its last
    dim, at multiples of that, or at one place; and all else is scalars of floats."""
    places = _places(op, width)
    for one in body_ops(op)[:-1]:
        if one.name == EXTRACT:
            source = load_of(one.operands[0])
            if source is None or source.results[0] != one.operands[0]:
                return False
            kind, found = ir.MemRefType(source.operands[0].type), []
            for index in list(one.operands)[1:]:
                if index not in places:
                    return False
                found.append(places[index])
            if not kind.has_static_shape or any(place.slope for place in found[:-1]):
                return False
            strides, _ = kind.get_strides_and_offset()
            if any(kind.is_dynamic_stride_or_offset(stride) for stride in strides):
                return False
            if not found[-1].slope:
                continue
            pairs = zip(found, strides, strict=True)
            far = [place.multiple * stride for place, stride in pairs]
            start = start_of(source.operands[0])
            if start is None or start % width:
                return False
            if found[-1].slope != 1 or strides[-1] != 1 or math.gcd(*far) % width:
                return False
        elif one.results[0] not in places and not _is_scalar(one):
            return False
    return True


def _is_scalar(op: ir.Operation) -> bool:
    """Whether an op makes a float of floats."""
    floats = [*op.operands, *op.results]
    named = op.name.startswith(("arith.", "math.")) and op.name != "arith.constant"
    return (
        named
        and not lane_bodies.computes_with_bytes(op)
        and all(isinstance(value.type, ir.FloatType) for value in floats)
    )


def _places(op: ir.Operation, width: int) -> dict[ir.Value, _IndexOfLine]:
    """The indices that a body computes, where they can be told. Constants and what lies outside of
    the body are among them."""
    found: dict[ir.Value, _IndexOfLine] = {}
    block = body_of(op)
    last = len(ir.RankedTensorType(op.operands[0].type).shape) - 1

    def place(value: ir.Value) -> _IndexOfLine | None:
        if value in found:
            return found[value]
        number = whole_number(value)
        if number is not None:
            found[value] = _IndexOfLine(0, abs(number))
            return found[value]
        return None

    for one in block.operations:
        one = one.operation
        if one.name == INDEX:
            is_line = index_dim(one) == last
            found[one.results[0]] = _IndexOfLine(int(is_line), width if is_line else 1)
            continue
        if one.name not in ("arith.addi", "arith.muli") or not isinstance(
            one.results[0].type, ir.IndexType
        ):
            continue
        pair = [place(value) for value in one.operands]
        if pair[0] is None or pair[1] is None:
            continue
        left, right = pair[0], pair[1]
        if one.name == "arith.addi":
            made = _IndexOfLine(left.slope + right.slope, math.gcd(left.multiple, right.multiple))
        elif left.slope and right.slope:
            continue
        else:
            numbers = [whole_number(value) for value in one.operands]
            if (left.slope and numbers[1] is None) or (right.slope and numbers[0] is None):
                continue
            slope = left.slope * (numbers[1] or 0) + right.slope * (numbers[0] or 0)
            made = _IndexOfLine(slope, left.multiple * right.multiple)
        found[one.results[0]] = made
    for one in block.operations:
        for value in one.operation.operands:
            if isinstance(value.type, ir.IndexType):
                place(value)
    return found
