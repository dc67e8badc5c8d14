"""attn-arg-maxima: the place of a row's largest element is the least at which one stands."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import (
    INDEX_OPS,
    Builder,
    Size,
    body_of,
    constant_number,
    defining_op,
    element_type,
    filled_with,
    index_dim,
    is_float,
    iterator_kinds,
    maps,
    ranked_shape,
    sizes_of,
    yielded,
)
from ..ir.bodies import ScalarReader, Scope, predicate, read_elementwise
from ..machines import names_backend
from ..passes import OpPass

_ARG_COMPARE = "iree_linalg_ext.arg_compare"
# What comparisons say, of numbers none of which is NaN, by how their predicates end, and other ops.
_COMPARISONS = ("arith.cmpf", "arith.cmpi")
_ENDS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ge": operator.ge, "gt": operator.gt,
    "le": operator.le, "lt": operator.lt, "ne": operator.ne,
}  # fmt: skip
_STEPS: dict[str, Callable[..., object]] = {
    **dict.fromkeys(("arith.maximumf", "arith.maxnumf", "arith.maxsi"), max),
    **dict.fromkeys(("arith.minimumf", "arith.minnumf", "arith.minsi"), min),
    **dict.fromkeys(("arith.index_cast", "arith.extsi", "arith.trunci"), lambda x: x),
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.select": lambda condition, one, other: one if condition else other,
}
_MOST = 2**31 - 1


class ArgMaxima(OpPass):
    """Makes of an argmax or argmin along a dim, with its result of the largest elements,

        largest = max(x)
        place   = the least i of those with x[i] == largest, or x[i] NaN

    It takes `iree_linalg_ext.arg_compare`, as `torch.argmax` is imported, and a `linalg.generic` of
    both results, as `torch.max` of a dim and JAX's `argmax` are, whatever their bodies look like:
    they are tried with smaller, equal and larger numbers.

    For CUDA IREE 3.13 comes to no end with `arg_compare` over rows of other sizes than multiples of
    32 (a vocabulary of 50257), has no program for many others and for sizes known only at run time,
    and a thread a row for the generic. It takes no NaN, which PyTorch, JAX and ONNX call the
    largest and the smallest, and on GPUs any of equal elements. For AMD it comes to no end with
    the two reductions of such rows in one kernel: the largest elements stand in memory.
    """

    name = "attn-arg-maxima"
    summary = "argmax looks for the first largest element"
    mends = "argmax takes no NaN; CUDA: the compile comes to no end, or any of equal elements"

    def wanted(self, op: ir.Operation) -> bool:
        return len(op.results) == 2

    def change(self, op: ir.Operation) -> str:
        found = _compared(op) if op.name == _ARG_COMPARE else _reduced(op)
        if found is None:
            return ""
        build, (values, places) = Builder(op), op.results
        largest, place = largest_places(build, found)
        values.replace_all_uses_with(largest)
        places.replace_all_uses_with(_cast(build, place, element_type(places)))
        extremum = "largest" if found.is_max else "smallest"
        return f"looks for its {extremum} element's place behind that element"


@dataclass(frozen=True)
class ComparedRows:
    """A tensor whose largest (else smallest) element is looked for along `dim`; `order` has the
    other dims as the results have them."""

    value: ir.Value
    dim: int
    order: tuple[int, ...]
    is_max: bool


def largest_places(build: Builder, rows: ComparedRows) -> tuple[ir.Value, ir.Value]:
    """The largest element of each row, NaN before all others, and the first place of one, in
    i32."""
    kind = element_type(rows.value)
    i32 = ir.IntegerType.get_signless(32, kind.context)
    all_dims = tuple(range(len(ranked_shape(rows.value))))
    sizes: list[Size] = [sizes_of(rows.value)[dim] for dim in rows.order]
    name = f"arith.{'max' if rows.is_max else 'min'}{'imumf' if is_float(kind) else 'si'}"

    def largest(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        return [inner.apply(name, x[0], x[1])]

    def place(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        if is_float(kind):
            same = inner.compare_floats("oeq", x[0], x[1])
            same = inner.apply("arith.ori", same, inner.compare_floats("uno", x[0], x[0]))
        else:
            same = inner.compare("eq", x[0], x[1])
        own = inner.convert("arith.index_cast", inner.loop_index(rows.dim), i32)
        here = inner.select(same, own, inner.splat(_MOST, i32))
        return [inner.apply("arith.minui", here, x[2])]

    def filled(number: float, element: ir.Type) -> ir.Value:
        return build.fill(build.constant_number(number, element), build.empty(sizes, element))

    least = filled(_least(kind, rows.is_max), kind)
    (values,) = build.generic([rows.value], [least], [all_dims, rows.order], largest)
    if names_backend(build.anchor, "rocm"):
        values = compute_barrier(build, values)
    read = [all_dims, rows.order, rows.order]
    (places,) = build.generic([rows.value, values], [filled(_MOST, i32)], read, place)
    return values, places


def _least(kind: ir.Type, is_max: bool) -> float:
    """What every element of a type is at least (at most, for the smallest)."""
    if is_float(kind):
        return -math.inf if is_max else math.inf
    most = 1 << ir.IntegerType(kind).width - 1
    return -most if is_max else most - 1


def _cast(build: Builder, places: ir.Value, kind: ir.Type) -> ir.Value:
    if element_type(places) == kind:
        return places
    if isinstance(kind, ir.IndexType):
        name = "arith.index_cast"
    else:
        name = "arith.extsi" if ir.IntegerType(kind).width > 32 else "arith.trunci"
    return build.computed(sizes_of(places), kind, lambda b, x: b.convert(name, x[0], kind), places)


# What is an argmax ------------------------------------------------------------------------------


def _compared(op: ir.Operation) -> ComparedRows | None:
    """What an `arg_compare` looks for; None where it is told places, or that of the first element,
    or takes the last of equal elements."""
    if len(op.operands) != 3:
        return None
    one, other = body_of(op).arguments

    def taken(trial: _ComparedPair) -> tuple[object, object]:
        takes = trial.scalar(yielded(op), _known({one: trial.new, other: trial.best}))
        return (trial.new, trial.number) if takes else (trial.best, trial.of_best)

    value, dim = op.operands[0], ir.IntegerAttr(op.attributes["dimension"]).value
    order = tuple(each for each in range(len(ranked_shape(value))) if each != dim)
    return _rows(op, value, dim, order, taken)


def _reduced(op: ir.Operation) -> ComparedRows | None:
    """What a `linalg.generic` looks for along its only summed dim, where it reads whole rows, and
    their elements' places as `linalg.index` or from a tensor that counts."""
    kinds = iterator_kinds(op)
    if op.name != "linalg.generic" or kinds.count("reduction") != 1 or len(op.operands) > 4:
        return None
    positions = maps.positions(op)
    if positions is None or {*positions[0]} != {*range(len(kinds))}:
        return None
    (*_, read), (*_, order, same) = positions[:-2], positions
    loop = kinds.index("reduction")
    value, dim = op.operands[0], positions[0].index(loop)
    counted = len(op.operands) == 3 or (
        loop in read and counts_along(op.operands[1], read.index(loop))
    )
    if not counted or order != same:
        return None
    element, *number, best, of_best = body_of(op).arguments

    def taken(trial: _ComparedPair) -> tuple[object, object]:
        known = {element: trial.new, best: trial.best, of_best: trial.of_best}
        scope = _known({**known, **dict.fromkeys(number, trial.number)}, loop)
        return trial.scalar(yielded(op), scope), trial.scalar(yielded(op, 1), scope)

    dims = tuple(positions[0].index(each) for each in order if each in positions[0])
    return _rows(op, value, dim, dims, taken)


def _rows(
    op: ir.Operation,
    value: ir.Value,
    dim: int,
    order: tuple[int, ...],
    taken: Callable[[_ComparedPair], tuple[object, object]],
) -> ComparedRows | None:
    """The rows, where `taken` of two elements and their numbers is the larger, or the smaller, of
    equal ones the first, and there is none before the first element."""
    kind, places = element_type(value), element_type(op.results[1])
    is_integer = isinstance(kind, ir.IntegerType) and kind.width > 1
    are_rows = ranked_shape(value)[dim] != 0 and element_type(op.results[0]) == kind
    if not (is_float(kind) or is_integer) or not are_rows or is_float(places):
        return None
    scalar = filled_with(op.operands[-2])
    first = None if scalar is None else constant_number(scalar)
    for is_max in (True, False):
        if first == _least(kind, is_max) and all(
            taken(trial) == trial.wanted(is_max) for trial in _TRIALS
        ):
            return ComparedRows(value, dim, order, is_max)
    return None


def counts_along(value: ir.Value, dim: int) -> bool:
    """Whether each element of a tensor is the number of its place along a dim."""
    made = read_elementwise(defining_op(value))
    scalar = None if made is None else defining_op(made.scalar, "arith.index_cast")
    index = None if scalar is None else defining_op(scalar.operands[0], *INDEX_OPS)
    return made is not None and index is not None and made.dim_of.get(index_dim(index)) == dim


def _known(values: Mapping[ir.Value, object], loop: int = -1) -> Scope[int, object]:
    return Scope({}, {loop: loop}, values)


@dataclass(frozen=True)
class _ComparedPair(ScalarReader[int, object]):
    """Reads what a body of comparisons and choices makes of an element and its number, and of the
    best so far and its number."""

    new: int
    best: int
    number: int
    of_best: int

    def wanted(self, is_max: bool) -> tuple[object, object]:
        is_better = self.new > self.best if is_max else self.new < self.best
        return (self.new, self.number) if is_better else (self.best, self.of_best)

    def index(self, place: int | None) -> object | None:
        return None if place is None else self.number

    def step(self, value: ir.Value, op: ir.Operation, scope: Scope[int, object]) -> object | None:
        if op.name not in _STEPS and op.name not in _COMPARISONS:
            return None
        inputs: list[Any] = self.inputs(op, scope)
        if None in inputs:
            return None
        if op.name in _COMPARISONS:
            asked = predicate(op)
            is_unsigned = op.name == "arith.cmpi" and asked.startswith("u")
            compares = None if is_unsigned else _ENDS.get(asked[1:] if len(asked) > 2 else asked)
            return None if compares is None else compares(*inputs)
        return _STEPS[op.name](*inputs)


# All that two numbers can be to each other, the later one's place behind the other; and before it
# where they are not equal.
_TRIALS = (_ComparedPair(1, 0, 1, 0), _ComparedPair(0, 1, 1, 0), _ComparedPair(0, 0, 1, 0))
_TRIALS += (_ComparedPair(1, 0, 0, 1), _ComparedPair(0, 1, 0, 1))
