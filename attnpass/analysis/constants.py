"""The elements of constant tensors as functions of their indices: numbers, ramps, triangles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from iree.compiler import ir

from ..ir import Refusal
from ..ir.constants import elements_of
from . import values as symbolic
from .values import ALWAYS, NEVER, Condition, Indices, Linear, Value

if TYPE_CHECKING:
    import numpy as np

_NUMPY = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8"}


def constant(attribute: Any) -> Value | None:
    """The value of a scalar constant, an attribute or None."""
    if isinstance(attribute, ir.FloatAttr):
        return float(attribute.value)
    if isinstance(attribute, ir.BoolAttr):
        return ALWAYS if attribute.value else NEVER
    if isinstance(attribute, ir.IntegerAttr):
        if str(attribute.type) == "i1":
            return ALWAYS if attribute.value else NEVER
        return Linear(attribute.value)
    return None


def pattern(op: ir.Operation, indices: Indices) -> Value | None:
    """A constant tensor's element, where the elements are a function of the indices."""
    array = array_of(op)
    if array is None:
        return None
    axes: list[Linear | None] = []
    for index in reversed(indices):
        axis = array.ndim - 1 - len(axes)
        if index is not None and not index.terms and 0 <= index.constant < array.shape[axis]:
            array = array.take([index.constant], axis)
        if (array == array.take([0], axis)).all():
            array = array.take([0], axis)
        axes.insert(0, index)
    varying = [axis for axis in range(array.ndim) if array.shape[axis] > 1]
    places = [axes[axis] for axis in varying]
    array = array.reshape([array.shape[axis] for axis in varying])
    if None in places:
        return None
    if array.ndim == 0:
        return _item(array[()])
    if array.ndim == 1:
        return _ramp(array, places[0])
    return _triangle(array, places) if array.ndim == 2 else None


def _ramp(array: np.ndarray[Any, Any], place: Linear | None) -> Value | None:
    """Integers that rise by the same step."""
    if array.dtype.kind != "i" or place is None:
        return None
    step = int(array[1]) - int(array[0])
    if any(int(b) - int(a) != step for a, b in itertools.pairwise(array)):
        return None
    return place.times(step).plus(Linear(int(array[0])))


def _triangle(array: np.ndarray[Any, Any], places: Sequence[Linear | None]) -> Value | None:
    """One number up to a diagonal, another behind it."""
    import numpy as np

    row, column = places
    inside, outside = array[0, 0], array[0, -1]
    if row is None or column is None or inside == outside:
        return None
    diagonal = int((array[0] == inside).sum()) - 1
    rows, columns = np.indices(array.shape, sparse=True)
    if not (array == np.where(columns <= rows + diagonal, inside, outside)).all():
        return None
    seen = Condition(frozenset({row.plus(column, -1).plus(Linear(diagonal))}))
    return symbolic.choose(seen, _item(inside), _item(outside))


def _item(item: Any) -> Value | None:
    kind = item.dtype.kind
    if kind == "b":
        return ALWAYS if item else NEVER
    value = int(item) if kind == "i" else float(item)
    if isinstance(value, float):
        return None if math.isnan(value) else value
    return Linear(value)


def array_of(op: ir.Operation) -> np.ndarray[Any, Any] | None:
    """The elements of a constant as numbers; None for types that masks do not have."""
    import numpy as np

    elements = elements_of(op)
    if isinstance(elements, Refusal):
        return None
    kind = str(elements.kind)
    if kind == "i1" and not elements.blob:
        return np.array(elements.attribute).astype(bool).reshape(elements.shape)
    if kind == "i1":
        return elements.array().view("u1").astype(bool)
    if kind == "bf16":
        return (elements.array().view("u2").astype("u4") << 16).view("f4")
    return elements.array().view(_NUMPY[kind]) if kind in _NUMPY else None
