"""Dims along which all elements of a tensor are the same, and the tensor without them.

A mask that says which keys are padding is mostly made for every row: repeated first, then
compared, inverted and filled. None of those ops looks at the row, so each can be made for one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iree.compiler import ir

from ..ir import (
    Builder,
    defining_op,
    element_type,
    index_array,
    index_dim,
    index_ops,
    is_used,
    maps,
    ranked_shape,
    sizes_of,
)
from ..ir.bodies import ElementwiseFacts, read_elementwise
from ..ir.views import REORDERS, RESHAPES, view_of
from .trace import Tracer
from .values import Condition

Dims = frozenset[int]

# Programs deeper than this are no masks, and Python's stack ends.
_DEEPEST = 100


class InvariantDims:
    """Answers for the values of one module; those that `without` makes are made once."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, Dims] = {}
        self._made: dict[tuple[ir.Value, Dims], ir.Value] = {}

    def of(self, tensor: ir.Value, depth: int = _DEEPEST) -> Dims:
        """The dims of `tensor` that its elements do not depend on, as far as can be seen; those
        of size one are among them."""
        if tensor not in self._known:
            units = {dim for dim, size in enumerate(ranked_shape(tensor)) if size == 1}
            self._known[tensor] = self._find(tensor, depth) | units
        return self._known[tensor]

    def without(self, tensor: ir.Value, dims: Dims) -> ir.Value:
        """The elements of `tensor`, of size one along `dims`, which must be among its invariant
        ones."""
        lost = frozenset(dim for dim in dims if ranked_shape(tensor)[dim] != 1)
        if not lost:
            return tensor
        key = tensor, lost
        if key not in self._made:
            op = defining_op(tensor)
            assert op is not None, "a dim of what nothing makes is not invariant"
            self._made[key] = self._make(op, tensor, lost)
        return self._made[key]

    def _find(self, tensor: ir.Value, depth: int) -> Dims:
        op = defining_op(tensor)
        if op is None or depth == 0:
            return frozenset()
        if _truth(tensor) is not None:
            return frozenset(range(len(ranked_shape(tensor))))
        given = _OPS.get(op.name)
        return given(op, lambda value: self.of(value, depth - 1)) if given else frozenset()

    def _make(self, op: ir.Operation, tensor: ir.Value, lost: Dims) -> ir.Value:
        build = Builder(op)
        sizes = [1 if dim in lost else size for dim, size in enumerate(sizes_of(tensor))]
        truth = _truth(tensor)
        if truth is not None:
            kind = element_type(tensor)
            return build.fill(build.constant_number(int(truth), kind), build.empty(sizes, kind))
        view = view_of(op)
        if view is not None and op.name in RESHAPES:
            below = frozenset(d for run in view.runs if lost & {*run.result} for d in run.source)
            source = self.without(view.source, below)
            groups = index_array(op.attributes["reassociation"])
            if op.name == "tensor.expand_shape":
                return build.expand(source, groups, sizes)
            return build.collapse(source, groups)
        given = [
            self.without(operand, frozenset(at for at, dim in enumerate(dims) if dim in lost))
            for operand, dims in _inputs(op)
        ]
        init = build.empty(sizes, element_type(tensor))
        new = build.copy(op, [*given, init])
        new.results[0].set_type(init.type)
        return new.results[0]


Invariant = Callable[[ir.Value], Dims]


def _truth(tensor: ir.Value) -> bool | None:
    """The truth value that all elements of `tensor` are, where it can be told: transformers asks
    whether the number of each row is not negative."""
    if str(element_type(tensor)) != "i1":
        return None
    somewhere = (None,) * len(ranked_shape(tensor))
    found = Tracer({}).element(tensor, somewhere)
    return found.holds if isinstance(found, Condition) and not found.bounds else None


def _made(op: ir.Operation) -> ElementwiseFacts | None:
    """How a `linalg.generic` makes each element of its only result, all of them anew."""
    made = read_elementwise(op) if len(op.results) == 1 else None
    if made is None or len(made.dim_of) != len(ranked_shape(op.results[0])):
        return None
    return made if not is_used(made.reads[-1].argument) else None


def _inputs(op: ir.Operation) -> list[tuple[ir.Value, maps.Positions]]:
    """What a linalg op without an invariant dim reads, with the dim of its result that stands at
    each dim of that; None for none."""
    if op.name == "linalg.fill":
        return [(op.operands[0], ())]
    view = view_of(op)
    if view is not None and view.projection is not None:
        return [(view.source, view.projection)]
    made = _made(op)
    assert made is not None, "only such generics have an invariant dim"
    return [(read.operand, read.dims) for read in made.reads[:-1]]


def _viewed(op: ir.Operation, invariant: Invariant) -> Dims:
    """A dim that is cut into several stays, since they may not all be wanted."""
    view = view_of(op)
    if view is None:
        return frozenset()
    sizes, found = ranked_shape(view.result), invariant(view.source)
    long = {run: [dim for dim in run.result if sizes[dim] != 1] for run in view.runs}
    return frozenset(
        dims[0] for run, dims in long.items() if {*run.source} <= found and len(dims) == 1
    )


def _computed(op: ir.Operation, invariant: Invariant) -> Dims:
    """Of a generic that computes each element of the result for itself."""
    made = _made(op)
    if made is None:
        return frozenset()
    needed = {
        dim
        for read in made.reads[:-1]
        for at, dim in enumerate(read.dims)
        if at not in invariant(read.operand)
    }
    needed |= {made.dim_of[index_dim(inner)] for inner in index_ops(op)}
    return frozenset(dim for dim in range(len(made.dim_of)) if dim not in needed)


def _filled(op: ir.Operation, invariant: Invariant) -> Dims:
    return frozenset(range(len(ranked_shape(op.results[0]))))


_OPS: dict[str, Callable[[ir.Operation, Invariant], Any]] = {
    "linalg.generic": _computed,
    "linalg.fill": _filled,
    **dict.fromkeys((*REORDERS, "linalg.broadcast"), _viewed),
}
