"""Traces an element of a tensor to what computes it, as a function of the element's indices.

Nothing is changed, and what is not understood is None: a rule here may be missing, never
wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from iree.compiler import ir

from ..ir import (
    body_names,
    body_ops,
    concat_dim,
    is_ranked_tensor,
    known_attribute,
    module_of,
    ranked_shape,
    symbol_name,
)
from ..ir.bodies import Scope
from ..ir.expressions import ElementReader
from ..ir.globals import GLOBAL, global_of
from ..ir.views import DimRun, View
from .arithmetic import compute
from .constants import constant, pattern
from .values import Indices, Linear, Value

# A buffer of more is no mask but a weight, and takes seconds to read.
_MOST_ELEMENTS = 1 << 24


class Tracer(ElementReader["Linear | None", Value]):
    """Traces values that depend on variables of the given sizes (None: known at run time).

    An index that is None may be any. It becomes a variable of its own: what does not depend on it
    is found, and a condition that does holds a variable that is no dim of attention.
    """

    single = Linear(0)

    def __init__(self, sizes: Mapping[int, int | None]):
        super().__init__()
        self._sizes = dict(sizes)

    def made(self, op: ir.Operation, value: ir.Value, places: Indices) -> Value | None:
        places = tuple(
            self._any(size) if index is None else index
            for index, size in zip(places, ranked_shape(value), strict=True)
        )
        rule = _RULES.get(op.name)
        return super().made(op, value, places) if rule is None else rule(self, op, places)

    def below(self, view: View, places: Indices) -> Indices:
        return places_below(view, places)

    def _any(self, size: int | None) -> Linear:
        if size == 1:
            return Linear(0)
        variable = min(self._sizes, default=0) - 1
        self._sizes[variable] = size
        return Linear(0, ((variable, 1),))

    def constant(self, op: ir.Operation) -> Value | None:
        return constant(known_attribute(op, "value")) if op.name == "arith.constant" else None

    def index(self, place: Linear | None) -> Value | None:
        return place

    def step(
        self, value: ir.Value, op: ir.Operation, scope: Scope[Linear | None, Value]
    ) -> Value | None:
        given = self.inputs(op, scope)
        if op.name == "tensor.extract":
            places = tuple(place if isinstance(place, Linear) else None for place in given[1:])
            return self.element(op.operands[0], places)
        return compute(op, given, self._sizes)

    # Tensors: one rule an operation.

    def _barrier(self, op: ir.Operation, indices: Indices) -> Value | None:
        return self.element(op.operands[0], indices)

    def _tensor_concat(self, op: ir.Operation, indices: Indices) -> Value | None:
        """An expression that all pieces agree on, each where it stands."""
        dim = concat_dim(op)
        index = indices[dim]
        ends = None if index is None else pieces_at(op, index, self._sizes)
        if index is None or ends is None:
            return None
        whole = None
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
        return _held(op, "value", indices) if is_ranked_tensor(op.results[0]) else None

    def _util_global_load(self, op: ir.Operation, indices: Indices) -> Value | None:
        """A buffer of the model, as exporters keep triangular masks."""
        if math.prod(size or 0 for size in ranked_shape(op.results[0])) > _MOST_ELEMENTS:
            return None
        source = _defined(op)
        if source is None or "is_mutable" in source.attributes:
            return None
        return _held(source, "initial_value", indices)


_RULES: dict[str, Callable[[Tracer, ir.Operation, Indices], Value | None]] = {
    "arith.constant": Tracer._arith_constant,
    "iree_linalg_ext.scan": Tracer._iree_linalg_ext_scan,
    "iree_tensor_ext.compute_barrier.end": Tracer._barrier,
    "iree_tensor_ext.compute_barrier.start": Tracer._barrier,
    "tensor.concat": Tracer._tensor_concat,
    "util.global.load": Tracer._util_global_load,
}


def pieces_at(
    concat: ir.Operation, index: Linear, sizes: Mapping[int, int | None]
) -> list[tuple[int, int, ir.Value]] | None:
    """(start, size, piece) for each piece of a `tensor.concat` in which `index` along its dim may
    be, of variables of these sizes; None where that is not known."""
    dim = concat_dim(concat)
    low, high = index.range(sizes)
    found, start = [], 0
    for piece in concat.operands:
        if start > high:
            break
        size = ranked_shape(piece)[dim]
        if size is None:
            return None
        if low < start + size:
            found.append((start, size, piece))
        start += size
    return found


def _defined(load: ir.Operation) -> ir.Operation | None:
    """The global of this module that is loaded."""
    name = global_of(load)
    found = (op for op in body_ops(module_of(load)) if op.name == GLOBAL)
    return next((op for op in found if symbol_name(op) == name), None)


def _held(op: ir.Operation, name: str, indices: Indices) -> Value | None:
    """An element of a constant or of a global, whose attribute `name` has the elements."""
    if name not in op.attributes:
        return None
    attribute = op.attributes[name]
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        return constant(attribute.get_splat_value())
    return pattern(op, indices)


def places_below(view: View, indices: Indices) -> Indices:
    """Where an element of a view is in what it shows; None for a dim along which it is not known,
    or not linear in `indices`."""
    places: list[Linear | None] = [None] * len(ranked_shape(view.source))
    for run in view.runs:
        for dim, index in zip(run.source, _below(view, run, indices), strict=True):
            places[dim] = index
    return tuple(places)


def _below(view: View, run: DimRun, indices: Indices) -> Indices:
    """The indices along a run of what a view shows, at these indices of the view."""
    if len(run.result) == 1:
        index = indices[run.result[0]]
    else:
        index = _joined(run.result, indices, ranked_shape(view.result))
    if len(run.source) != 1:
        return _parts(run.source, index, ranked_shape(view.source))
    if index is None or run.start is None or run.step is None:
        return (None,)
    return (index.times(run.step).plus(Linear(run.start)),)


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
    places: dict[int, Linear | None] = {dim: None if dim in long else Linear(0) for dim in group}
    for dim in reversed(long):
        size = None if dim == long[0] else sizes[dim]
        if index is None or size is None:
            places[dim] = index if dim == long[0] else None
            break
        if any(factor % size for _, factor in index.terms):
            break
        places[dim] = Linear(index.constant % size)
        terms = tuple((variable, factor // size) for variable, factor in index.terms)
        index = Linear(index.constant // size, terms)
    return tuple(places.values())


def _where(value: Value | None, index: Linear, place: int) -> Value | None:
    """`value` at the one place where `index` is `place`; `index` has one variable."""
    if not isinstance(value, Linear) or len(index.terms) != 1 or index.terms[0][1] != 1:
        return value if isinstance(value, float) or value == Linear(0) else None
    variable = index.terms[0][0]
    at = Linear(place - index.constant)
    factor = value.factor_of(variable)
    return value.plus(Linear(0, ((variable, 1),)), -factor).plus(at, factor)
