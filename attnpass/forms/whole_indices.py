"""Indices that a body computes in floats, written as quotients of whole numbers.

`interpolate(mode="nearest")` reads the pixel at floor(i / 2.0), bounded and cast: IREE gathers
pixels one by one. Of a dim of known size all values are known, and i / 2 is read in runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from iree.compiler import ir

from ..ir import Builder, erase_dead, index_dim, next_op, sizes_of
from ..ir.bodies import body_ops, constant_number, index_ops, needed_ops

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, Any]

_TO_FLOAT = "arith.sitofp"
# Larger dims are no image's.
_MOST = 1 << 16
_NUMPY = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "index": "int64"}
_BINARY = {
    "arith.addf": "add", "arith.subf": "subtract", "arith.mulf": "multiply",
    "arith.divf": "divide", "arith.maximumf": "maximum", "arith.minimumf": "minimum",
    "arith.addi": "add", "arith.subi": "subtract", "arith.muli": "multiply",
    "arith.maxsi": "maximum", "arith.minsi": "minimum",
}  # fmt: skip
_UNARY = {"math.floor": "floor", "math.ceil": "ceil"}
_CASTS = (_TO_FLOAT, "arith.fptosi", "arith.index_cast", "arith.extsi", "arith.extf")


def make_whole(loop: ir.Operation) -> bool:
    """Writes the indices of a loop's own body that floats compute of one dim's, and that come to a
    quotient by a number that divides the dim, as that; whether there were any."""
    dead: list[ir.Operation] = []
    for op in body_ops(loop):
        if op.name != "tensor.extract":
            continue
        for place in list(op.operands)[1:]:
            found = _quotient_of(loop, place)
            if found is None:
                continue
            index, by = found
            build = Builder(next_op(index))
            whole = index.results[0]
            place.replace_all_uses_with(build.apply("arith.divsi", whole, by))
            dead.append(place.owner.operation)
    erase_dead(dead)
    return bool(dead)


def _quotient_of(loop: ir.Operation, place: ir.Value) -> tuple[ir.Operation, int] | None:
    """The index op, and the number by which its value is divided, that a value in floats is; None
    for other values."""
    steps = needed_ops(loop, [place])
    indices = [op for op in steps if op in index_ops(loop)]
    if len(indices) != 1 or not any(op.name == _TO_FLOAT for op in steps):
        return None
    (index,) = indices
    size = sizes_of(loop.results[0])[index_dim(index)]
    if not isinstance(size, int) or not 1 < size <= _MOST:
        return None
    values = _computed(steps, index, size)
    if values is None:
        return None
    by = int((values == 0).sum())
    whole = 1 < by < size and size % by == 0 and all(values == _ramp(size) // by)
    return (index, by) if whole else None


def _computed(steps: Sequence[ir.Operation], index: ir.Operation, size: int) -> Numbers | None:
    """What the last of some steps gives for each value of an index, as IEEE's arithmetic has it;
    None where a step is another."""
    import numpy as np

    made: dict[ir.Value, Numbers] = {index.results[0]: _ramp(size)}

    def value(operand: ir.Value) -> Numbers | None:
        number = constant_number(operand)
        kind = _NUMPY.get(str(operand.type))
        if operand in made or number is None or kind is None:
            return made.get(operand)
        return np.full(size, number, kind)

    for op in steps:
        if op == index or op.name == "arith.constant":
            continue
        given = [value(operand) for operand in op.operands]
        kind = _NUMPY.get(str(op.results[0].type))
        known = [each for each in given if each is not None]
        if kind is None or len(known) != len(given):
            return None
        if op.name in _CASTS and np.isfinite(known[0]).all():
            made[op.results[0]] = known[0].astype(kind)
        elif op.name in _BINARY or op.name in _UNARY:
            function = getattr(np, (_BINARY | _UNARY)[op.name])
            with np.errstate(all="ignore"):
                made[op.results[0]] = function(*known)
        else:
            return None
    return made.get(steps[-1].results[0])


def _ramp(size: int) -> Numbers:
    import numpy as np

    return np.arange(size, dtype="int64")
