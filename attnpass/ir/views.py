"""What view ops do to indices: the one place that knows reshapes, transposes, casts, repeats and
slices. A new one is taught here, and known to all that read views.

An op is a view if each element of its result is one of its first operand, the *source*, and
indices alone say which. `View.runs` says so: along a run, dims of the source and dims of the
result hold the same elements, row-major on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from . import maps
from .attributes import index_array
from .bodies import body_names, body_of, read_elementwise
from .queries import below_ops, defining_op
from .types import DYNAMIC, element_type, is_ranked_tensor, ranked_shape

# Reshapes that say which dims belong together.
RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")
# All elements of the source, in its order.
IN_PLACE = (*RESHAPES, "tensor.cast")
# All elements of the source, each once: those that IREE takes into attention, and with casts.
REORDERS = (*RESHAPES, "linalg.transpose")
WHOLE = (*REORDERS, "tensor.cast")
SLICE = "tensor.extract_slice"


@dataclass(frozen=True)
class DimRun:
    """Dims of a source and of a result, major to minor, along which the same elements lie.

    Without dims of the source the result is repeated; without dims of the result one element of
    the source's dim is read. Of a dim that is sliced element `start` + `step` * i is element i of
    the result (None: known at run time only)."""

    source: tuple[int, ...]
    result: tuple[int, ...]
    start: int | None = 0
    step: int | None = 1


@dataclass(frozen=True)
class View:
    """A view `op` of `source`; each dim of the source and of the result is in one of `runs`."""

    op: ir.Operation
    source: ir.Value
    runs: tuple[DimRun, ...]

    @property
    def result(self) -> ir.Value:
        return self.op.results[0]

    @property
    def projection(self) -> maps.Positions | None:
        """For each dim of the source the dim of the result that runs along it (None: one element
        is read); None for a reshape that cuts or joins dims."""
        found: dict[int, int | None] = {}
        for run in self.runs:
            if len(run.source) > 1 or len(run.result) > 1:
                return None
            for dim in run.source:
                found[dim] = run.result[0] if run.result else None
        return tuple(found[dim] for dim in sorted(found))

    def places_below(self, places: maps.Positions) -> maps.Positions | None:
        """For each dim of the source the place of what stands at `places` in the result (None: the
        dim's only element); None for slices, and where dims are cut or joined, but those of size
        one."""
        shape, below = ranked_shape(self.result), ranked_shape(self.source)
        found: list[int | None] = [None] * len(below)
        for run in self.runs:
            result = [dim for dim in run.result if shape[dim] != 1]
            source = [dim for dim in run.source if below[dim] != 1]
            if len(result) > 1 or len(source) > 1 or (run.start, run.step) != (0, 1):
                return None
            if source and result:
                found[source[0]] = places[result[0]]
        return tuple(found)

    @property
    def keeps_order(self) -> bool:
        """Whether the dims of the source lie in the result in their order."""
        joined = sorted(self.runs, key=lambda run: run.source)
        order = [dim for run in joined if run.source for dim in run.result]
        return order == sorted(order)


def view_of(op: ir.Operation | None) -> View | None:
    """What `op` shows of its first operand; None for what is no view, or casts unranked tensors."""
    rule = None if op is None else _RULES.get(op.name)
    if op is None or rule is None:
        return None
    if not is_ranked_tensor(op.operands[0]) or not is_ranked_tensor(op.results[0]):
        return None
    runs = rule(op)
    return None if runs is None else View(op, op.operands[0], runs)


def repeat_of(op: ir.Operation | None) -> View | None:
    """The view that a `linalg.broadcast` is, or a `linalg.generic` that only hands on its input:
    each dim of the result is one of the input's, or repeats it."""
    return view_of(op) if op is not None and op.name in REPEATS else None


def view_before(value: ir.Value) -> View | None:
    """The reshape, transpose or repeat that makes `value`: what attention could read itself."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    op = owner.operation
    return view_of(op) if op.name in REORDERS else repeat_of(op)


def views_above(value: ir.Value, names: Sequence[str]) -> Iterator[View]:
    """The views of these names that make `value`, the nearest first."""
    while (view := _made_by(value, names)) is not None:
        yield view
        value = view.source


def below_views(value: ir.Value, names: Sequence[str]) -> ir.Value:
    """What `value` is, through views of these names."""
    for view in views_above(value, names):
        value = view.source
    return value


def is_widened_integer(value: ir.Value) -> bool:
    """Whether the elements of a tensor of i64 are widened from fewer bits, and fit into 32 with
    their sign."""
    value = below_views(value, WHOLE)
    made = read_elementwise(defining_op(value))
    if made is None or str(element_type(value)) != "i64":
        return False
    scalar = below_ops(made.scalar, *_SIGNED_CASTS)
    unsigned = defining_op(scalar, "arith.extui")
    kind = scalar.type if unsigned is None else unsigned.operands[0].type
    bits = kind.width if isinstance(kind, ir.IntegerType) else 64
    return bits < 32 or (bits == 32 and unsigned is None)


def _made_by(value: ir.Value, names: Sequence[str]) -> View | None:
    owner = value.owner
    named = not isinstance(owner, ir.Block) and owner.operation.name in names
    return view_of(owner.operation) if named else None


_SIGNED_CASTS = ("arith.extsi", "arith.index_cast")
Runs = tuple[DimRun, ...]


def _cast(op: ir.Operation) -> Runs:
    return tuple(DimRun((dim,), (dim,)) for dim in range(len(ranked_shape(op.results[0]))))


def _transpose(op: ir.Operation) -> Runs:
    order = op.attributes["permutation"]
    return tuple(DimRun((dim,), (place,)) for place, dim in enumerate(order))


def _expand(op: ir.Operation) -> Runs:
    groups = index_array(op.attributes["reassociation"])
    runs = [DimRun((dim,), tuple(group)) for dim, group in enumerate(groups)]
    return (*runs, *(DimRun((), (dim,)) for dim in _rest(op.results[0], groups)))


def _collapse(op: ir.Operation) -> Runs:
    groups = index_array(op.attributes["reassociation"])
    runs = [DimRun(tuple(group), (dim,)) for dim, group in enumerate(groups)]
    return (*runs, *(DimRun((dim,), ()) for dim in _rest(op.operands[0], groups)))


def _rest(value: ir.Value, groups: Sequence[Sequence[int]]) -> range:
    """The dims that no group has: all, of size one, where the other side has rank 0."""
    return range(0 if groups else len(ranked_shape(value)))


def _reshape(op: ir.Operation) -> Runs:
    source, result = (range(len(ranked_shape(x))) for x in (op.operands[0], op.results[0]))
    return (DimRun(tuple(source), tuple(result)),)


def _broadcast(op: ir.Operation) -> Runs:
    added = {*op.attributes["dimensions"]}
    rank = len(ranked_shape(op.results[0]))
    return _projected([dim for dim in range(rank) if dim not in added], rank)


def _generic(op: ir.Operation) -> Runs | None:
    """A generic that hands on the elements of its only input."""
    if len(op.operands) != 2 or body_names(op) != ["linalg.yield"]:
        return None
    made = read_elementwise(op)
    rank = len(ranked_shape(op.results[0]))
    if made is None or made.scalar != body_of(op).arguments[0] or len(made.dim_of) != rank:
        return None
    return _projected(made.reads[0].dims, rank)


def _projected(dims: Sequence[int | None], rank: int) -> Runs:
    """Dim j of the source is dim dims[j] of the result (None: one element is read)."""
    runs = [DimRun((dim,), () if place is None else (place,)) for dim, place in enumerate(dims)]
    return (*runs, *(DimRun((), (place,)) for place in range(rank) if place not in dims))


def _slice(op: ir.Operation) -> Runs | None:
    kept = _kept_dims(list(op.attributes["static_sizes"]), ranked_shape(op.results[0]))
    if kept is None:
        return None
    place = {dim: place for place, dim in enumerate(kept)}
    starts, steps = (
        [None if number == DYNAMIC else number for number in op.attributes[name]]
        for name in ("static_offsets", "static_strides")
    )
    return tuple(
        DimRun((dim,), (place[dim],) if dim in place else (), start, step)
        for dim, (start, step) in enumerate(zip(starts, steps, strict=True))
    )


def _kept_dims(sizes: Sequence[int], shape: Sequence[int | None]) -> list[int] | None:
    """Which dims of a slice of these sizes its result has; the others are of size one."""
    kept, dim = [], 0
    for size in shape:
        while dim < len(sizes) and sizes[dim] == 1 and size != 1:
            dim += 1
        kept.append(dim)
        dim += 1
    return kept if not kept or kept[-1] < len(sizes) else None


REPEATS = ("linalg.broadcast", "linalg.generic")
_RULES: dict[str, Callable[[ir.Operation], Runs | None]] = {
    "linalg.broadcast": _broadcast,
    "linalg.generic": _generic,
    "linalg.transpose": _transpose,
    "tensor.cast": _cast,
    "tensor.collapse_shape": _collapse,
    "tensor.expand_shape": _expand,
    "tensor.extract_slice": _slice,
    "tensor.reshape": _reshape,
}
