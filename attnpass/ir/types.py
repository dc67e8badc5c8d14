"""Types of values: shapes, elements and bytes."""

from __future__ import annotations

import math

from iree.compiler import ir

from .limits import ASSUMED_EXTENT

DYNAMIC = ir.ShapedType.get_dynamic_size()


def is_ranked_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def ranked_shape(value: ir.Value) -> tuple[int | None, ...]:
    """Shape with None for dynamic dims; the empty tuple for scalars and unranked tensors."""
    tensor = value.type
    if not isinstance(tensor, ir.RankedTensorType):
        return ()
    return tuple(None if size == DYNAMIC else size for size in tensor.shape)


def is_scalar(value: ir.Value) -> bool:
    """Whether `value` is no tensor, vector or memref."""
    return not isinstance(value.type, ir.ShapedType)


def is_float(kind: ir.Type) -> bool:
    """Whether this is a floating-point type."""
    return isinstance(kind, ir.FloatType)


def is_narrow_float(kind: ir.Type) -> bool:
    """Whether this is a floating-point type of fewer than 32 bits."""
    return isinstance(kind, ir.FloatType) and kind.width < 32


def element_type(value: ir.Value) -> ir.Type:
    return element_of(value.type)


def element_of(kind: ir.Type) -> ir.Type:
    """The type of a tensor's, a vector's or a memref's elements; that of a scalar itself."""
    return kind.element_type if isinstance(kind, ir.ShapedType) else kind


def element_type_name(value: ir.Value) -> str:
    return str(element_type(value))


def element_bytes(value: ir.Value) -> int:
    """Bytes of one element, at least one."""
    kind = element_type(value)
    if isinstance(kind, ir.IntegerType | ir.FloatType):
        return max(1, kind.width // 8)
    return 8


def tensor_bytes(value: ir.Value, assumed: int = ASSUMED_EXTENT) -> int:
    """Bytes of a tensor; a dynamic dim counts as `assumed`."""
    sizes = (assumed if size is None else size for size in ranked_shape(value))
    return element_bytes(value) * math.prod(sizes)


def with_element(kind: ir.Type, element: ir.Type) -> ir.Type:
    """A scalar or vector type like `kind`, of another element type."""
    if isinstance(kind, ir.VectorType):
        unknown = ir.Location.unknown(kind.context)
        return ir.VectorType.get(kind.shape, element, scalable=kind.scalable_dims, loc=unknown)
    return element
