"""Lowers kernels that copy lines of a tensor into another order, as heads in front of their rows.

IREE 3.13 folds the op that copies, once it is cut into pieces, and has a loop of single elements
for what is left. Here a piece is read and written as a vector, and lines go as they lie in the
result.
"""

from __future__ import annotations

from math import prod

from iree.compiler import ir

from ..codegen.kernel import CONFIGURATION
from ..ir import (
    Builder,
    body_names,
    collect,
    element_type,
    is_elementwise,
    iterator_kinds,
    maps,
    ranked_shape,
)
from ..ir.refusal import Refusal
from ..machines.cpu.workgroups import divisors
from .indexed_lines import order_loops
from .lowering import in_pieces, lower_tiles
from .vectors import Vectors

_INSERT = "tensor.insert_slice"
_LISTS = ("static_offsets", "static_sizes", "static_strides")
# Elements of a workgroup, about, and the most, and fewest, of a step.
_WORKGROUP, _MOST, _FEWEST = 1 << 14, 128, 8


def copies_lines(function: ir.Operation) -> bool:
    """Whether a kernel is one op that copies lines of numbers into another order, or apart."""
    ops = collect(function, lambda op: bool(iterator_kinds(op)), bodies=False)
    if len(ops) != 1 or not is_elementwise(ops[0]) or body_names(ops[0]) != ["linalg.yield"]:
        return False
    positions = maps.positions(ops[0])
    kind = element_type(ops[0].results[0])
    if positions is None or len(positions) != 2 or None in positions[1]:
        return False
    if not isinstance(kind, ir.FloatType | ir.IntegerType):
        return False
    read, written = positions
    sizes = ranked_shape(ops[0].results[0])
    is_line = len(read) > 1 and read[-1] == written[-1] and read[-1] not in read[:-1]
    return is_line and len(written) == len(iterator_kinds(ops[0])) and bool(_step(sizes[-1]))


def _step(width: int | None) -> int:
    """Elements of a line that are a step: all, or a part of them that divides them; 0 for none."""
    whole = [size for size in divisors(width or 1) if _FEWEST <= size <= _MOST]
    return max((size for size in whole if size % 16 == 0), default=max(whole, default=0))


def lower_copies(function: ir.Operation, target: str, lanes: int) -> Refusal | None:
    """Lowers such a kernel; why IREE cannot, with the kernel in any state."""
    (op,) = collect(function, is_elementwise, bodies=False)
    positions = maps.positions(op)
    assert positions is not None, "copies_lines has read them"
    if CONFIGURATION in op.attributes:
        order_loops(op, positions, [dim or 0 for dim in positions[1]])
    *lead, width = ranked_shape(op.results[0])
    pieces, left = [width or 0], _WORKGROUP // (width or 1)
    for size in reversed(lead):
        pieces.insert(0, max(min(size or left, left), 1))
        left //= pieces[0]
    steps = [*[1] * len(lead), _step(width)]
    return lower_tiles(function, op, in_pieces(pieces, steps), _insert_vectors, lanes, target)


def _insert_vectors(function: ir.Operation) -> None:
    for insert in collect(function, lambda op: op.name == _INSERT):
        _write_vectors(insert)


def _write_vectors(insert: ir.Operation) -> None:
    """Has a line be inserted that a vector was written to."""
    source = insert.operands[0]
    sizes, kind = ranked_shape(source), insert.operands[0].type
    if None in sizes or prod(size or 0 for size in sizes) != sizes[-1] or not sizes[-1]:
        return
    v = Vectors(Builder(insert, insert.location))
    last, place = [len(sizes) - 1], [v.number(0)] * len(sizes)
    line = v.read(source, place, last, [sizes[-1]], [True])
    _, *operands = insert.operands
    attributes = {name: insert.attributes[name] for name in _LISTS}
    _, _, *counts = ir.DenseI32ArrayAttr(insert.attributes["operandSegmentSizes"])
    attributes["operandSegmentSizes"] = v.build.segments(1, *counts)
    there = v.build.create("tensor.extract_slice", [kind], operands, attributes).results[0]
    insert.operands[0] = v.write(line, there, place, last, [True])
