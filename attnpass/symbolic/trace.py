"""Traces an element of a tensor to what computes it, as a function of the element's indices.

Nothing is changed, and what is not understood is None: a rule here may be missing, never
wrong. Integers are taken as exact: index arithmetic that wraps round is not looked for.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from iree.compiler import ir

from .. import maps
from ..elements import elements_of
from ..ir import DYNAMIC, body_names, defining_op, index_array, is_ranked_tensor, ranked_shape
from . import values as symbolic
from .values import ALWAYS, NEVER, Choice, Condition, Linear, Scalar, Score, Value

if TYPE_CHECKING:
    import numpy as np

Indices = tuple["Linear | None", ...]
Names = Mapping[ir.Value, "Value | None"]

# Programs deeper than this are no masks, and Python's stack ends.
_DEEPEST = 150
_NUMPY = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8"}
_SAME = {
    "arith.index_cast",
    "arith.index_castui",
    "arith.sitofp",
    "arith.uitofp",
    "arith.extf",
    "arith.truncf",
    "arith.extsi",
    "arith.extui",
    "arith.trunci",
}
_BARRIERS = {"iree_tensor_ext.compute_barrier.start", "iree_tensor_ext.compute_barrier.end"}
_BINARY: dict[str, Callable[[Scalar, Scalar], Value | None]] = {
    "arith.addi": symbolic.add,
    "arith.addf": symbolic.add,
    "arith.subi": symbolic.subtract,
    "arith.subf": symbolic.subtract,
    "arith.muli": symbolic.multiply,
    "arith.mulf": symbolic.multiply,
    "arith.divf": symbolic.divide,
}
# Of integers that are known and not negative: there all of them round the same way.
_DIVISIONS: dict[str, Callable[[int, int], int]] = {
    "arith.divsi": operator.floordiv,
    "arith.divui": operator.floordiv,
    "arith.floordivsi": operator.floordiv,
    "arith.remsi": operator.mod,
    "arith.remui": operator.mod,
}
_LOGIC = {
    "arith.andi": symbolic.both,
    "arith.ori": symbolic.either,
}
# Predicates by number: (name, whether the numbers are taken as unsigned).
_COMPARE_INTEGERS = {
    0: ("eq", False),
    1: ("ne", False),
    2: ("lt", False),
    3: ("le", False),
    4: ("gt", False),
    5: ("ge", False),
    6: ("lt", True),
    7: ("le", True),
    8: ("gt", True),
    9: ("ge", True),
}
_COMPARE_FLOATS = {
    1: "eq", 2: "gt", 3: "ge", 4: "lt", 5: "le", 6: "ne",
    8: "eq", 9: "gt", 10: "ge", 11: "lt", 12: "le", 13: "ne",
}  # fmt: skip


class Tracer:
    """Traces values that depend on variables of the given sizes (None: known at run time)."""

    def __init__(self, sizes: Mapping[int, int | None]):
        self._sizes = dict(sizes)
        self._depth = 0
        self._known: dict[tuple[ir.Value, Indices], Value | None] = {}

    def element(self, tensor: ir.Value, indices: Indices) -> Value | None:
        """The element of a tensor at these indices; one that is None may be any.

        It becomes a variable of its own: what does not depend on it is found, and a condition
        that does holds a variable that is no dim of attention.
        """
        key = (tensor, indices)
        if key not in self._known:
            op = defining_op(tensor)
            rule = None if op is None else getattr(self, f"_{op.name.replace('.', '_')}", None)
            if op is not None and op.name in _BARRIERS:
                rule = self._tensor_cast
            sizes = ranked_shape(tensor)
            places = (
                self._any(size) if index is None else index
                for index, size in zip(indices, sizes, strict=True)
            )
            self._known[key] = self._deeper(rule, op, tuple(places))
        return self._known[key]

    def _any(self, size: int | None) -> Linear:
        if size == 1:
            return Linear(0)
        variable = min(self._sizes, default=0) - 1
        self._sizes[variable] = size
        return Linear(0, ((variable, 1),))

    def scalar(
        self, value: ir.Value, names: Names, loops: Mapping[int, Linear | None]
    ) -> Value | None:
        """A scalar, where `names` are block arguments and `loops` what index ops read."""
        if value in names:
            return names[value]
        return self._deeper(self._scalar, defining_op(value), names, loops)

    def _deeper(self, rule: Callable[..., Value | None] | None, *arguments: Any) -> Value | None:
        if rule is None or arguments[0] is None or self._depth > _DEEPEST:
            return None
        self._depth += 1
        try:
            return rule(*arguments)
        finally:
            self._depth -= 1

    # Tensors: one rule an operation, named after it.

    def _linalg_generic(self, op: ir.Operation, indices: Indices) -> Value | None:
        terminator = list(op.regions[0].blocks[0].operations)[-1]
        return self.in_body(op, terminator.operands[0], indices)

    def in_body(self, op: ir.Operation, scalar: ir.Value, indices: Indices) -> Value | None:
        """A scalar in the body of a `linalg.generic`, where it computes the element at these
        indices of its only result."""
        positions = maps.positions_of(op.attributes["indexing_maps"])
        if positions is None or len(op.results) != 1:
            return None
        out = positions[-1]
        # The loops of a reduction are in no output map.
        if len({loop for loop in out if loop is not None}) != maps.num_dims(
            op.attributes["indexing_maps"]
        ):
            return None
        loops = {loop: index for loop, index in zip(out, indices, strict=True) if loop is not None}
        arguments = op.regions[0].blocks[0].arguments
        names = _Lazily(
            {
                argument: (operand, tuple(_at(loops, loop) for loop in places))
                for argument, operand, places in zip(arguments, op.operands, positions, strict=True)
            },
            self,
        )
        return self.scalar(scalar, names, loops)

    def _linalg_fill(self, op: ir.Operation, indices: Indices) -> Value | None:
        return self.scalar(op.operands[0], {}, {})

    def _linalg_transpose(self, op: ir.Operation, indices: Indices) -> Value | None:
        order = maps.inverse(list(op.attributes["permutation"]))
        return self.element(op.operands[0], tuple(indices[place] for place in order))

    def _linalg_broadcast(self, op: ir.Operation, indices: Indices) -> Value | None:
        added = list(op.attributes["dimensions"])
        kept = tuple(index for dim, index in enumerate(indices) if dim not in added)
        return self.element(op.operands[0], kept)

    def _tensor_cast(self, op: ir.Operation, indices: Indices) -> Value | None:
        return self.element(op.operands[0], indices)

    def _tensor_expand_shape(self, op: ir.Operation, indices: Indices) -> Value | None:
        sizes = ranked_shape(op.results[0])
        groups = index_array(op.attributes["reassociation"])
        return self.element(op.operands[0], tuple(_joined(g, indices, sizes) for g in groups))

    def _tensor_collapse_shape(self, op: ir.Operation, indices: Indices) -> Value | None:
        sizes = ranked_shape(op.operands[0])
        groups = index_array(op.attributes["reassociation"])
        parts = [_parts(g, i, sizes) for g, i in zip(groups, indices, strict=True)]
        return self.element(op.operands[0], tuple(itertools.chain(*parts)))

    def _tensor_extract_slice(self, op: ir.Operation, indices: Indices) -> Value | None:
        offsets, steps = op.attributes["static_offsets"], op.attributes["static_strides"]
        sizes = list(op.attributes["static_sizes"])
        shape = ranked_shape(op.results[0])
        kept = _kept_dims(sizes, shape)
        if kept is None:
            return None
        given = dict(zip(kept, indices, strict=True))
        places = []
        for dim, (offset, step) in enumerate(zip(offsets, steps, strict=True)):
            index = given.get(dim, Linear(0))
            known = DYNAMIC not in (offset, step) and index is not None
            places.append(index.times(step).plus(Linear(offset)) if index and known else None)
        return self.element(op.operands[0], tuple(places))

    def _tensor_concat(self, op: ir.Operation, indices: Indices) -> Value | None:
        """An expression that all pieces agree on, each where it stands."""
        dim = ir.IntegerAttr(op.attributes["dim"]).value
        index = indices[dim]
        if index is None:
            return None
        start, whole, ends = 0, None, []
        for piece in op.operands:
            size = ranked_shape(piece)[dim]
            if size is None:
                return None
            low, high = index.range(self._sizes)
            if start <= high and low < start + size:
                ends.append((start, size, piece))
            start += size
        # A piece of one element is a number: the others must say the same there.
        for start, size, piece in ends:
            if size == 1 and len(ends) > 1:
                continue
            value = self._piece(piece, indices, dim, index.plus(Linear(-start)))
            if value is None or (whole is not None and value != whole):
                return None
            whole = value
        for start, size, piece in ends:
            if size != 1 or len(ends) == 1:
                continue
            value = self._piece(piece, indices, dim, Linear(0))
            if value is None or value != _where(whole, index, start):
                return None
        return whole

    def _piece(self, piece: ir.Value, indices: Indices, dim: int, index: Linear) -> Value | None:
        return self.element(piece, (*indices[:dim], index, *indices[dim + 1 :]))

    def _iree_linalg_ext_scan(self, op: ir.Operation, indices: Indices) -> Value | None:
        """Sums of zeros that start at zero."""
        dim = ir.IntegerAttr(op.attributes["dimension"]).value
        body = body_names(op)
        if body[0] not in ("arith.addi", "arith.addf") or len(body) != 2:
            return None
        somewhere = (*indices[:dim], None, *indices[dim + 1 :])
        first = self.element(op.operands[2], (*indices[:dim], *indices[dim + 1 :]))
        zeros = self.element(op.operands[0], somewhere)
        return zeros if zeros in (Linear(0), 0.0) and first == zeros else None

    def _arith_constant(self, op: ir.Operation, indices: Indices) -> Value | None:
        if not is_ranked_tensor(op.results[0]):
            return None
        attribute = op.attributes["value"]
        if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
            return _constant(attribute.get_splat_value())
        return _pattern(op, indices)

    # Scalars.

    def _scalar(
        self, op: ir.Operation, names: Names, loops: Mapping[int, Linear | None]
    ) -> Value | None:
        if op.name == "arith.constant":
            return _constant(op.attributes["value"])
        if op.name in ("linalg.index", "iree_linalg_ext.index"):
            return loops.get(ir.IntegerAttr(op.attributes["dim"]).value)
        given = [
            None if is_ranked_tensor(operand) else self.scalar(operand, names, loops)
            for operand in op.operands
        ]
        if op.name == "tensor.extract":
            places = tuple(place if isinstance(place, Linear) else None for place in given[1:])
            return self.element(op.operands[0], places)
        if op.name in _SAME:
            return _cast(op, given[0])
        if op.name == "arith.select":
            return symbolic.choose(*given)
        if op.name == "arith.negf":
            return symbolic.apply(symbolic.multiply, -1.0, given[0])
        if op.name == "math.tanh":
            return symbolic.apply(lambda a, _: symbolic.tanh(a), given[0], 0.0)
        if op.name in _LOGIC and str(op.results[0].type) == "i1":
            return _logic(_LOGIC[op.name], given)
        if op.name == "arith.xori" and str(op.results[0].type) == "i1":
            return _exclusive(given)
        if op.name in _BINARY:
            return symbolic.apply(_BINARY[op.name], *given)
        if op.name in _DIVISIONS:
            return symbolic.apply(functools.partial(_divide, _DIVISIONS[op.name]), *given)
        if op.name == "arith.maxsi":
            return symbolic.apply(self._larger, *given)
        if op.name == "arith.minsi":
            return symbolic.apply(self._smaller, *given)
        if op.name in ("arith.cmpi", "arith.cmpf"):
            return self._compare(op, given)
        return None

    def _larger(self, a: Scalar, b: Scalar) -> Value | None:
        if not isinstance(a, Linear) or not isinstance(b, Linear):
            return None
        return symbolic.choose(symbolic.at_least_zero(a.plus(b, -1), self._sizes), a, b)

    def _smaller(self, a: Scalar, b: Scalar) -> Value | None:
        if not isinstance(a, Linear) or not isinstance(b, Linear):
            return None
        return symbolic.choose(symbolic.at_least_zero(a.plus(b, -1), self._sizes), b, a)

    def _compare(self, op: ir.Operation, given: Sequence[Value | None]) -> Value | None:
        number = ir.IntegerAttr(op.attributes["predicate"]).value
        floats = op.name == "arith.cmpf"
        name, unsigned = (
            (_COMPARE_FLOATS.get(number, ""), False) if floats else (_COMPARE_INTEGERS[number])
        )

        def compare(a: Scalar, b: Scalar) -> Condition | None:
            if isinstance(a, Condition) and isinstance(b, Condition):
                equal = _exclusive([a, b.inverse()])
                opposite = None if equal is None else equal.inverse()
                return {"eq": equal, "ne": opposite}.get(name)
            if isinstance(a, Linear) and isinstance(b, Linear):
                return self._compare_linear(name, unsigned, a, b)
            x, y = _number(a), _number(b)
            if x is None or y is None:
                return None
            truth = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y}
            return (ALWAYS if truth.get(name, x >= y) else NEVER) if name else None

        return symbolic.apply(compare, *given)

    def _compare_linear(self, name: str, unsigned: bool, a: Linear, b: Linear) -> Condition | None:
        if unsigned and min(a.range(self._sizes)[0], b.range(self._sizes)[0]) < 0:
            return None
        greater = symbolic.at_least_zero(a.plus(b, -1), self._sizes)
        less = symbolic.at_least_zero(b.plus(a, -1), self._sizes)
        if name in ("eq", "ne"):
            equal = symbolic.both(greater, less)
            return equal if equal is None or name == "eq" else equal.inverse()
        return {"ge": greater, "le": less, "lt": greater.inverse(), "gt": less.inverse()}.get(name)


class _Lazily(dict["ir.Value", Any]):
    """Block arguments of a linalg op by value, each traced when it is read."""

    def __init__(self, places: Mapping[ir.Value, tuple[ir.Value, Indices]], tracer: Tracer):
        super().__init__(places)
        self._tracer = tracer

    def __getitem__(self, argument: ir.Value) -> Value | None:
        operand, indices = super().__getitem__(argument)
        if is_ranked_tensor(operand):
            return self._tracer.element(operand, indices)
        return self._tracer.scalar(operand, {}, {})


def _at(loops: Mapping[int, Linear | None], loop: int | None) -> Linear | None:
    return Linear(0) if loop is None else loops[loop]


def _joined(group: Sequence[int], indices: Indices, sizes: Sequence[int | None]) -> Linear | None:
    """The index that the indices of `group` make together."""
    index, stride = Linear(0), 1
    for dim in reversed(group):
        part, size = indices[dim], sizes[dim]
        if size == 1:
            continue
        if part is None or stride is None:
            return None
        index = index.plus(part, stride)
        stride = None if size is None else stride * size
    return index


def _parts(group: Sequence[int], index: Linear | None, sizes: Sequence[int | None]) -> Indices:
    """The indices of `group` that make `index`; None where they are not linear in it."""
    long = [dim for dim in group if sizes[dim] != 1]
    if index is not None and len(long) == 1:
        return tuple(index if dim in long else Linear(0) for dim in group)
    if index is None or index.terms or None in [sizes[dim] for dim in long]:
        return tuple(None if dim in long else Linear(0) for dim in group)
    places, rest = [], index.constant
    for dim in reversed(group):
        size = sizes[dim] or 1
        places.append(Linear(rest % size))
        rest //= size
    return tuple(reversed(places))


def _kept_dims(sizes: Sequence[int], shape: Sequence[int | None]) -> list[int] | None:
    """Which dims of a slice of these sizes its result has; the others are of size one."""
    kept, dim = [], 0
    for size in shape:
        while dim < len(sizes) and sizes[dim] == 1 and size != 1:
            dim += 1
        kept.append(dim)
        dim += 1
    return kept if not kept or kept[-1] < len(sizes) else None


def _where(value: Value | None, index: Linear, place: int) -> Value | None:
    """`value` at the one place where `index` is `place`; `index` has one variable."""
    if not isinstance(value, Linear) or len(index.terms) != 1 or index.terms[0][1] != 1:
        return value if isinstance(value, float) or value == Linear(0) else None
    variable = index.terms[0][0]
    at = Linear(place - index.constant)
    factor = value.factor_of(variable)
    return value.plus(Linear(0, ((variable, 1),)), -factor).plus(at, factor)


def _constant(attribute: ir.Attribute) -> Value | None:
    if isinstance(attribute, ir.FloatAttr):
        return float(attribute.value)
    if isinstance(attribute, ir.BoolAttr):
        return ALWAYS if attribute.value else NEVER
    if isinstance(attribute, ir.IntegerAttr):
        if str(attribute.type) == "i1":
            return ALWAYS if attribute.value else NEVER
        return Linear(attribute.value)
    return None


def _cast(op: ir.Operation, value: Value | None) -> Value | None:
    to, source = str(op.results[0].type), str(op.operands[0].type)
    if isinstance(value, Condition):
        one: Scalar = -1.0 if op.name == "arith.sitofp" else 1.0
        if not to.startswith(("f", "bf")):
            one = Linear(-1 if op.name == "arith.extsi" else 1)
        zero = 0.0 if isinstance(one, float) else Linear(0)
        return symbolic.choose(value, one, zero)
    if to.startswith(("f", "bf")) and not source.startswith(("f", "bf")):
        return symbolic.apply(lambda a, _: _to_float(a), value, 0.0)
    return None if to == "i1" else value


def _to_float(value: Scalar) -> Value | None:
    """An integer as a float; one that varies stays what it is."""
    exact = symbolic.number(value)
    return value if exact is None else exact


def _divide(function: Callable[[int, int], int], a: Scalar, b: Scalar) -> Value | None:
    if not isinstance(a, Linear) or not isinstance(b, Linear) or a.terms or b.terms:
        return None
    if a.constant < 0 or b.constant <= 0:
        return None
    return Linear(function(a.constant, b.constant))


def _number(value: Scalar) -> float | None:
    return None if isinstance(value, Score | Condition) else symbolic.number(value)


def _logic(function: Any, given: Sequence[Value | None]) -> Condition | None:
    conditions = [value for value in given if isinstance(value, Condition)]
    if len(conditions) == 2:
        return function(*conditions)
    # What is not known does not matter beside a constant that decides.
    for condition in conditions:
        alone = function(condition, condition.inverse())
        if (condition.always or condition.never) and alone == condition:
            return condition
    return None


def _exclusive(given: Sequence[Value | None]) -> Condition | None:
    """Exclusive or, where one of the two is always the same."""
    for a, b in (given, tuple(reversed(given))):
        if isinstance(a, Condition) and isinstance(b, Condition) and (b.always or b.never):
            return a.inverse() if b.always else a
    return None


def _pattern(op: ir.Operation, indices: Indices) -> Value | None:
    """A constant tensor's element, where the elements are a function of the indices."""
    array = _array(op)
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


def _array(op: ir.Operation) -> np.ndarray[Any, Any] | None:
    """The elements as numbers; None for types that masks do not have."""
    import numpy as np

    elements = elements_of(op)
    if isinstance(elements, str):
        return None
    kind = str(elements.kind)
    if kind == "i1" and not elements.blob:
        return np.array(elements.attribute).astype(bool).reshape(elements.shape)
    if kind == "i1":
        return elements.array().view("u1").astype(bool)
    if kind == "bf16":
        return (elements.array().view("u2").astype("u4") << 16).view("f4")
    return elements.array().view(_NUMPY[kind]) if kind in _NUMPY else None


__all__ = ["Choice", "Indices", "Tracer"]
