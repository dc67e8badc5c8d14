"""Sizes of tensors, those known only at run time too.

Dynamic sizes are traced up to where they come from, so that equal sizes compare equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from .bodies import whole_number
from .queries import concat_dim, defining_op
from .types import DYNAMIC, ranked_shape
from .views import IN_PLACE, view_of


@dataclass(frozen=True)
class DynamicSize:
    """A size known only at run time: dim `dim` of `value`, or the index `value` itself."""

    value: ir.Value
    dim: int | None = None


@dataclass(frozen=True)
class SizeProduct:
    """A product of sizes, at least one of them dynamic."""

    factors: tuple[int | DynamicSize, ...]


Size = int | DynamicSize | SizeProduct


def product(sizes: Sequence[Size]) -> Size:
    """Product of sizes: an int, a single dynamic size, or a SizeProduct."""
    factors = [f for s in sizes for f in (s.factors if isinstance(s, SizeProduct) else (s,))]
    static = math.prod(factor for factor in factors if isinstance(factor, int))
    dynamic = [factor for factor in factors if not isinstance(factor, int)]
    if not dynamic:
        return static
    factors = ([static] if static != 1 else []) + dynamic
    return dynamic[0] if factors == dynamic[:1] else SizeProduct(tuple(factors))


def completed(parts: Sequence[Size], whole: Size) -> list[Size]:
    """The sizes of the parts of a dim of size `whole`, from which an only unknown one follows."""
    known = [size for size in parts if isinstance(size, int)]
    if not isinstance(whole, int) or len(known) != len(parts) - 1:
        return list(parts)
    return [size if isinstance(size, int) else whole // math.prod(known) for size in parts]


def static_size(size: Size) -> int:
    """A size that is known to be static, as an int."""
    assert isinstance(size, int), "a dynamic size where a static one was made sure of"
    return size


def size_values(sizes: Iterable[Size]) -> list[ir.Value]:
    """The values that must be defined where `sizes` are computed."""
    found: list[ir.Value] = []
    for size in sizes:
        if isinstance(size, SizeProduct):
            found += size_values(size.factors)
        elif isinstance(size, DynamicSize):
            found.append(size.value)
    return found


def sizes_of(value: ir.Value) -> tuple[Size, ...]:
    """The sizes of a ranked tensor, dynamic ones traced up to where they come from."""
    return tuple(
        _trace_size(value, dim) if size is None else size
        for dim, size in enumerate(ranked_shape(value))
    )


def _trace_size(value: ir.Value, dim: int) -> Size:
    """Where a dynamic size comes from, so that equal sizes compare equal.

    It is never an int, even where a constant is found: types made of sizes must be dynamic
    where the types of the values are.
    """
    while (op := defining_op(value)) is not None:
        size = _size_operand(op, dim)
        if size is not None:
            return index_size(size)
        source = _same_size(op, value, dim)
        if source is None:
            break
        value, dim = source
        if ranked_shape(value)[dim] is not None:
            break
    return DynamicSize(value, dim)


def _size_operand(op: ir.Operation, dim: int) -> ir.Value | None:
    """The index operand that says how large dynamic dim `dim` of the result is, if any."""
    if op.name == "tensor.empty":
        return op.operands[_dynamic_rank(ranked_shape(op.results[0]), dim)]
    if op.name == "hal.tensor.import":
        return op.operands[1 + _dynamic_rank(ranked_shape(op.results[0]), dim)]
    if op.name == "tensor.expand_shape":
        return op.operands[1 + _dynamic_rank(list(op.attributes["static_output_shape"]), dim)]
    if op.name == "tensor.extract_slice":
        # Dims that are dropped are static, so the dynamic ones stand in the same order.
        offsets = sum(offset == DYNAMIC for offset in op.attributes["static_offsets"])
        return op.operands[1 + offsets + _dynamic_rank(ranked_shape(op.results[0]), dim)]
    if op.name == "iree_tensor_ext.dispatch.tensor.load":
        sizes, segments = list(op.attributes["static_sizes"]), op.attributes["operandSegmentSizes"]
        # The tensor, its sizes and offsets stand in front.
        first = sum(list(segments)[:3])
        known = len(sizes) == len(ranked_shape(op.results[0]))
        return op.operands[first + _dynamic_rank(sizes, dim)] if known else None
    if op.name == "tensor.reshape":
        shape = defining_op(op.operands[1], "tensor.from_elements")
        if shape is not None:
            return _as_index(shape.operands[dim])
    return None


def _as_index(value: ir.Value) -> ir.Value | None:
    """The index that a size of integer type is cast from, if any: torch's sizes are i64."""
    if isinstance(value.type, ir.IndexType):
        return value
    cast = defining_op(value, "arith.index_cast")
    if cast is None:
        return None
    return cast.operands[0] if isinstance(cast.operands[0].type, ir.IndexType) else None


def _same_size(op: ir.Operation, value: ir.Value, dim: int) -> tuple[ir.Value, int] | None:
    """A dim of an operand that is as large as dim `dim` of `value`, a result of `op`."""
    view = view_of(op) if op.name in IN_PLACE else None
    if view is not None:
        shape = ranked_shape(view.source)
        (run,) = (run for run in view.runs if dim in run.result)
        inner = [at for at in run.source if shape[at] != 1]
        return (view.source, inner[0]) if len(inner) == len(run.result) == 1 else None
    if op.name == "tensor.insert_slice":
        return op.operands[1], dim
    if op.name == "tensor.concat" and concat_dim(op) != dim:
        return op.operands[0], dim
    if op.name == "tensor.pad":
        padding = (op.attributes["static_low"][dim], op.attributes["static_high"][dim])
        return (op.operands[0], dim) if padding == (0, 0) else None
    if op.name.startswith(("linalg.", "iree_linalg_ext.")) and len(op.results):
        # Destination style: result i has the shape of output operand i.
        number = list(op.results).index(value)
        return op.operands[len(op.operands) - len(op.results) + number], dim
    return None


def _dynamic_rank(shape: Sequence[int | None], dim: int) -> int:
    """How many dynamic dims stand before `dim`: its place among dynamic-size operands."""
    return sum(size is None or size == DYNAMIC for size in shape[:dim])


def index_size(value: ir.Value) -> Size:
    """The size that an index is, traced up to where it comes from."""
    op = defining_op(value, "tensor.dim")
    if op is not None:
        dim = whole_number(op.operands[1])
        if dim is not None:
            source = op.operands[0]
            static = ranked_shape(source)[dim] is not None
            return DynamicSize(source, dim) if static else _trace_size(source, dim)
    return DynamicSize(value)
