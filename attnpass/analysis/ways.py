"""In which ways tensors, and the ops that read them, hang on what reductions make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from iree.compiler import ir

from ..ir import is_elementwise, is_ranked_tensor, loops_read, maps, ranked_shape
from ..ir.contractions import read_contraction
from ..ir.views import View, view_of

# For each dim of a reduction's result the dims of a tensor, or the loops of an op, that run along
# it, major to minor; None where they are lost. Those of size one count nowhere.
Way = tuple["tuple[int, ...] | None", ...]
# The ways from the results of reductions, and of other ops of which IREE makes kernels.
Ways = dict[ir.Value, set[Way]]
Rename = Callable[[tuple[int, ...]], "tuple[int, ...] | None"]

_COMPUTES = ("linalg.", "iree_linalg_ext.")
# On tensors these compute each element for itself.
_SCALARWISE = ("arith.", "math.")
# A residual stream hangs on all layers before it: a kernel has no more reductions than these.
_LATEST = 16


class Trail:
    """The ways of tensors, once `add` has had the ops that make them, in their order."""

    def __init__(self) -> None:
        self._of: dict[ir.Value, Ways] = {}

    def add(self, op: ir.Operation) -> None:
        """Notes the ways of what an op makes."""
        view = view_of(op)
        if view is not None:
            before = self._of.get(view.source, {})
            after = _renamed(before, _below(view))
            # Behind a reshape that joins or cuts what a reduction makes, it begins anew.
            lost = any(map(_lost, before.values(), after.values()))
            self._note(view.result, [after, _anew(view.result) if lost else {}])
        elif op.name.startswith((*_COMPUTES, *_SCALARWISE)) and op.name != "linalg.fill":
            for number, result in enumerate(op.results):
                if is_ranked_tensor(result):
                    self._note(result, self._made(op, number))

    def read(self, op: ir.Operation) -> list[Ways]:
        """The ways from reductions to the loops of an op, by each of its operands."""
        return [_renamed(self._of.get(value, {}), _by(dims)) for value, dims in _reads(op)]

    def _made(self, op: ir.Operation, number: int) -> Iterator[Ways]:
        """The ways of a result, which begin anew where IREE has a kernel for it."""
        reads = [] if is_apart(op) else _reads(op)
        if reads:
            # What ops on tensors make is no operand.
            out = min(len(op.operands) - len(op.results) + number, len(reads) - 1)
            dims = reads[out][1]
            places = {loop: place for place, loop in enumerate(dims) if loop is not None}
            for ways in self.read(op):
                yield _renamed(ways, _by(places))
        if not is_elementwise(op) and not op.name.startswith(_SCALARWISE):
            yield _anew(op.results[number])

    def _note(self, value: ir.Value, found: Sequence[Ways] | Iterator[Ways]) -> None:
        joined: Ways = {}
        for ways in found:
            for source, several in ways.items():
                joined[source] = joined.get(source, set()) | several
        if joined:
            self._of[value] = dict(list(joined.items())[-_LATEST:])


def differ(a: Ways, b: Ways) -> bool:
    """Whether elements of two operands hang on different elements of one reduction's result."""
    return any(
        one is not None and other is not None and one != other
        for source in a.keys() & b.keys()
        for left in a[source]
        for right in b[source]
        for one, other in zip(left, right, strict=True)
    )


def is_apart(op: ir.Operation) -> bool:
    """Whether IREE computes an op in no kernel of what it reads: attention, a product that adds up
    more than one number."""
    product = read_contraction(op)
    if product is None:
        return not op.name.startswith(("linalg.", *_SCALARWISE))
    return any(product.sizes[loop] != 1 for loop in product.k)


def _reads(op: ir.Operation) -> list[tuple[ir.Value, maps.Positions]]:
    """The operands of an op with the loops of their dims; none where they cannot be told."""
    if "indexing_maps" in op.attributes:
        return loops_read(op)
    values = list(op.operands)
    if not values or not all(map(is_ranked_tensor, values)):
        return []
    shapes = {tuple(ranked_shape(value)) for value in values}
    # Named ops without maps that have one shape, such as `linalg.add` and `linalg.softmax`.
    return [(value, tuple(range(len(*shapes)))) for value in values] if len(shapes) == 1 else []


def _anew(value: ir.Value) -> Ways:
    """The way from a tensor to itself."""
    shape = ranked_shape(value)
    return {value: {tuple(() if size == 1 else (dim,) for dim, size in enumerate(shape))}}


def _lost(before: set[Way], after: set[Way]) -> bool:
    """Whether dims that could be told cannot any more."""
    known = [max(sum(dims is not None for dims in way) for way in ways) for ways in (before, after)]
    return known[0] > known[1]


def _renamed(ways: Ways, rename: Rename) -> Ways:
    return {
        source: {tuple(None if dims is None else rename(dims) for dims in way) for way in several}
        for source, several in ways.items()
    }


def _by(names: maps.Positions | dict[int, int]) -> Rename:
    """Dims by the names of single ones."""
    known = names if isinstance(names, dict) else dict(enumerate(names))

    def rename(dims: tuple[int, ...]) -> tuple[int, ...] | None:
        found = [known.get(dim) for dim in dims]
        return None if None in found else tuple(dim for dim in found if dim is not None)

    return rename


def _below(view: View) -> Rename:
    """Dims of a view's source as dims of its result."""
    above, below = (ranked_shape(value) for value in (view.source, view.result))
    runs = [
        (
            tuple(dim for dim in run.source if above[dim] != 1),
            tuple(dim for dim in run.result if below[dim] != 1),
        )
        for run in view.runs
    ]
    starts = {source[0]: (source, result) for source, result in runs if source}

    def rename(dims: tuple[int, ...]) -> tuple[int, ...] | None:
        found: list[int] = []
        while dims:
            source, result = starts.get(dims[0], ((), ()))
            if not source or not result or dims[: len(source)] != source:
                return None
            found += result
            dims = dims[len(source) :]
        return tuple(found)

    return rename
