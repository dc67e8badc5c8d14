"""The bytes of constant tensors, whatever their element type, and constants made of bytes.

numpy takes neither bf16 nor fp8 from the bindings, and a `dense_resource` shows no bytes at
all. So dense elements are read through MLIR's C API, and a resource from its printed form:
a blob's alignment as four bytes, then its elements (64 MB take about a second).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iree.compiler import ir

from . import printed
from .attributes import known_attribute
from .printing import print_alone
from .refusal import Refusal

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[tuple[int, ...], np.dtype[np.void]]


@dataclass(frozen=True)
class Elements:
    """A constant tensor whose elements can be read: `attribute` is its value, `blob` what a
    resource holds, empty for dense elements."""

    attribute: ir.Attribute
    shape: tuple[int, ...]
    kind: ir.Type
    blob: bytes = b""

    def array(self) -> Array:
        """The elements as opaque items of their size in bytes."""
        import numpy as np

        width = _item_bytes(self.kind)
        data = self.blob or raw_data(self.attribute, width * math.prod(self.shape))
        return np.frombuffer(data, f"V{width}").reshape(self.shape)


def elements_of(op: ir.Operation) -> Elements | Refusal:
    """What an `arith.constant` tensor or a `util.global` holds at first, or why that cannot be
    read."""
    is_global = op.name == "util.global"
    attribute = known_attribute(op, "initial_value" if is_global else "value")
    kind = ir.TypeAttr(op.attributes["type"]).value if is_global else op.results[0].type
    kind = ir.RankedTensorType(kind)
    shape, element = tuple(kind.shape), kind.element_type
    if attribute is not None and isinstance(attribute, ir.DenseElementsAttr):
        if attribute.is_splat or isinstance(element, ir.IntegerType | ir.FloatType | ir.IndexType):
            return Elements(attribute, shape, element)
        return Refusal(f"it is a constant whose {element} elements cannot be read")
    if attribute is None or not printed.is_resource(attribute):
        return Refusal(f"it is a constant whose {element} elements cannot be read")
    if not isinstance(element, ir.IntegerType | ir.FloatType):
        return Refusal(f"it is a resource whose {element} elements cannot be read")
    blob = resource_bytes(op)
    if blob is None:
        return Refusal("it is a resource whose bytes are not in the module")
    if len(blob) != _item_bytes(element) * math.prod(shape):
        return Refusal(f"it is a resource whose {element} elements are packed")
    return Elements(attribute, shape, element, blob)


def attribute_of(array: Array, kind: ir.RankedTensorType, like: Elements) -> ir.Attribute:
    """The constant of type `kind` with these elements, kept as `like` is: dense or a resource."""
    import numpy as np

    data = np.ascontiguousarray(array).view(np.uint8)
    if like.blob:
        return ir.DenseResourceElementsAttr.get_from_buffer(
            data, "transposed", kind, alignment=_item_bytes(like.kind)
        )
    # The bindings bit-cast one item to one element, and look at the item's size only.
    items = data.view(f"u{_item_bytes(like.kind)}")
    return ir.DenseElementsAttr.get(items, type=kind)


def _item_bytes(kind: ir.Type) -> int:
    """Bytes of one element in memory: sub-byte types take one, i1 too."""
    if isinstance(kind, ir.IndexType):
        return 8
    assert isinstance(kind, ir.IntegerType | ir.FloatType)
    return -(-kind.width // 8)


def raw_data(attribute: ir.Attribute, count: int) -> bytes:
    """`count` bytes of dense elements that are no splat, as MLIR stores them."""
    import ctypes

    from iree.compiler.api import ctypes_dl

    if not count:
        return b""
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    read = ctypes_dl._dylib.mlirDenseElementsAttrGetRawData
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    capsule = attribute._CAPIPtr  # type: ignore[attr-defined]
    return ctypes.string_at(read(pointer(capsule, name(capsule))), count)


def resource_bytes(op: ir.Operation) -> bytes | None:
    """The blob that the value of a constant names, None if the module lacks it."""
    return printed.first_blob(print_alone(op))
