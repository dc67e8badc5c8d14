"""Lowers kernels that take lines of a tensor by index, as embeddings do, and may sum them up.

IREE 3.13 reads an index for each element, and elements one by one. A step along a line here has one
number for each index, which is read in front of it: MLIR sees that the line is read as it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from ..codegen.kernel import CONFIGURATION, reconfigure
from ..ir import (
    Builder,
    body_of,
    collect,
    is_elementwise,
    is_used,
    iterator_kinds,
    maps,
    ranked_shape,
    reduces,
)
from ..ir.bodies import body_ops, depending, index_dim, index_ops, takes_by_index
from ..ir.contractions import is_contraction
from ..ir.refusal import Refusal
from .lowering import in_pieces, lower_tiles

_SUMMED = "vector_reduction"
_LEVELS = ("distribution", "vector_common_parallel", _SUMMED, "vector_inner_parallel")
# Elements of a workgroup, about, and vectors of a step.
_WORKGROUP, _VECTORS = 1 << 14, 4


def takes_lines(function: ir.Operation) -> bool:
    """Whether a kernel of linalg ops without products has one that takes lines by index."""
    ops = _structured(function)
    return any(map(_takes_lines, ops)) and not any(map(is_contraction, ops))


def _structured(function: ir.Operation) -> list[ir.Operation]:
    return collect(function, lambda op: bool(iterator_kinds(op)), bodies=False)


def _takes_lines(op: ir.Operation) -> bool:
    """Whether an op takes elements along its result's last dim, and a tensor's, at places that have
    nothing to do with that dim."""
    if not takes_by_index(op) or op.name != "linalg.generic" or len(op.results) != 1:
        return False
    positions = maps.positions(op)
    if positions is None or len(positions[-1]) < 2 or not ranked_shape(op.results[0])[-1]:
        return False
    line = positions[-1][-1]
    pairs = zip(body_of(op).arguments, positions, strict=True)
    varying = [argument for argument, dims in pairs if line in dims]
    named = [one for one in body_ops(op) if one.name == "linalg.index"]
    along = [one.results[0] for one in named if index_dim(one) == line]
    changing = depending(op, [*varying, *along])
    taken = [one for one in body_ops(op) if one.name == "tensor.extract"]
    return all(
        one.operands[-1] in along
        and not any(place in changing for place in list(one.operands)[1:-1])
        for one in taken
    )


def sum_line_by_line(function: ir.Operation) -> None:
    """Configures ops that sum up lines which they take by index for one line a step, with the loop
    along lines innermost, as MLIR wants it of what lies side by side."""
    for op in filter(_takes_lines, _structured(function)):
        if CONFIGURATION in op.attributes and reduces(op):
            loops = len(iterator_kinds(op))
            found = maps.positions(op)
            assert found is not None, "_takes_lines has read them"
            line = found[-1][-1]
            order_loops(op, found, [*(loop for loop in range(loops) if loop != line), line or 0])
            names = iterator_kinds(op)
            one = {
                _SUMMED: lambda steps, names=names: [
                    min(step, 1) if kind == "reduction" else step
                    for step, kind in zip(steps, names, strict=True)
                ]
            }
            reconfigure(op, one)


def order_loops(
    op: ir.Operation, positions: Sequence[maps.Positions], order: Sequence[int]
) -> None:
    """Puts the loops of an op with a configuration into an order, by their numbers."""
    now = {loop: place for place, loop in enumerate(order)}
    moved = [tuple(None if dim is None else now[dim] for dim in dims) for dims in positions]
    kinds = list(ir.ArrayAttr(op.attributes["iterator_types"]))
    with op.context:
        op.attributes["indexing_maps"] = maps.maps_attribute(len(order), moved)
        op.attributes["iterator_types"] = ir.ArrayAttr.get([kinds[loop] for loop in order])
        for one in index_ops(op):
            number = ir.IntegerAttr(one.attributes["dim"])
            one.attributes["dim"] = ir.IntegerAttr.get(number.type, now[number.value])

    def turn(steps: list[Any]) -> list[Any]:
        return [steps[loop] for loop in order]

    reconfigure(op, {level: turn for level in _LEVELS})


def lower_lines(function: ir.Operation, target: str, lanes: int) -> Refusal | None:
    """Lowers a kernel of one elementwise op; why IREE cannot, with the kernel in any state."""
    ops = _structured(function)
    if len(ops) != 1 or not is_elementwise(ops[0]):
        return Refusal("it has several ops")
    (op,) = ops
    *lead, rows, width = ranked_shape(op.results[0])
    assert width is not None, "takes_lines has seen it"
    step = next((n * lanes for n in range(_VECTORS, 0, -1) if width % (n * lanes) == 0), 0)
    if not step:
        return Refusal(f"lines of {width} elements are no whole vectors")
    high = max(_WORKGROUP // width, 1)
    pieces, steps = [*[1] * len(lead), min(high, rows or high), width], [*[1] * len(lead), 1, step]
    return lower_tiles(function, op, in_pieces(pieces, steps), read_in_front, lanes, target)


def read_in_front(function: ir.Operation) -> None:
    """Has the numbers that all elements of a line's step read be read in front of it."""
    for op in filter(takes_by_index, _structured(function)):
        build, arguments = Builder(op), list(body_of(op).arguments)
        for value, argument in zip(list(op.operands)[:-1], arguments, strict=False):
            sizes = ranked_shape(value) if isinstance(value.type, ir.RankedTensorType) else [None]
            if all(size == 1 for size in sizes) and is_used(argument):
                place = [build.constant_index(0)] * len(sizes)
                argument.replace_all_uses_with(build.extract(value, place))
