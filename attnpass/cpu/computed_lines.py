"""K and V that a kernel computes element by element, as loops read them: codes of a quantised cache
lie in memory, and their numbers are made in registers, of a vector of codes at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    body_ops,
    defining_op,
    element_bytes,
    element_type,
    element_type_name,
    is_used,
    ranked_shape,
)
from ..ir.bodies import ElementRead, ScalarReader, Scope, constant_number, read_elementwise
from .vectors import Vectors

# What is computed of vectors as it is of scalars.
_STEPS = frozenset(
    f"arith.{name}"
    for name in (
        "addf", "subf", "mulf", "divf", "negf",
        "addi", "subi", "muli", "extsi", "extui", "trunci", "sitofp", "uitofp",
    )
)  # fmt: skip
# Between numbers that are f32 here: narrower floats are not rounded to.
_CASTS = frozenset(("arith.extf", "arith.truncf"))
_FLOATS = ("f16", "bf16", "f32")
_INTEGERS = ("i8", "i16", "i32")


@dataclass(frozen=True)
class Along:
    """The place of a vector's elements along a dim, by the first one's."""

    start: ir.Value


def sources_of(value: ir.Value) -> list[ElementRead] | None:
    """What the elements of a tensor are made of: tensors that no elementwise op makes, with the
    dims of `value` along theirs. None where vectors cannot be computed as the elements are."""
    made = read_elementwise(defining_op(value))
    if made is None or len(made.dim_of) != len(ranked_shape(value)):
        return None
    op = defining_op(value)
    assert op is not None
    *steps, _ = body_ops(op)
    if not all(_is_lanewise(step) for step in steps):
        return None
    found: list[ElementRead] = []
    for read in made.reads:
        if not is_used(read.argument):
            continue
        if not isinstance(read.operand.type, ir.RankedTensorType):
            return None
        if element_type_name(read.operand) not in (*_FLOATS, *_INTEGERS):
            return None
        inner = sources_of(read.operand)
        if inner is None:
            found.append(read)
            continue
        for each in inner:
            dims = tuple(None if dim is None else read.dims[dim] for dim in each.dims)
            found.append(ElementRead(each.argument, each.operand, dims))
    return found


def widened_from(value: ir.Value) -> ElementRead | None:
    """The one of its sources that has an element, of fewer bytes, for each of a tensor's; None
    where a tensor has no such source, or one in which its last dim is not the last."""
    last = len(ranked_shape(value)) - 1
    sources = sources_of(value) or []
    whole = [each for each in sources if len({*each.dims} - {None}) == last + 1]
    narrow = [each for each in whole if element_bytes(each.operand) < element_bytes(value)]
    inner = all(last not in each.dims[:-1] for each in sources)
    return narrow[0] if len(whole) == len(narrow) == 1 and inner else None


def _is_lanewise(op: ir.Operation) -> bool:
    if constant_number(op.results[0]) is None and op.name not in _STEPS | _CASTS:
        return False
    kinds = [str(each.type) for each in (*op.operands, *op.results)]
    return all(kind in (*_FLOATS, *_INTEGERS) for kind in kinds)


class LineReader(ScalarReader[ir.Value | Along, ir.Value]):
    """Makes vectors of so many elements of computed tensors."""

    def __init__(self, v: Vectors, width: int):
        self.v, self.width = v, width

    @property
    def single(self) -> ir.Value:
        return self.v.number(0)

    def element(self, value: ir.Value, places: Sequence[ir.Value | Along]) -> ir.Value | None:
        """Elements of a tensor from these places on, along the dim whose place is that of lanes,
        floats in f32; the same one in all lanes where none is."""
        v, made = self.v, read_elementwise(defining_op(value))
        if made is not None:
            return self.scalar(made.scalar, self.scope(made, places))
        dims = [dim for dim, place in enumerate(places) if isinstance(place, Along)]
        starts = [place.start if isinstance(place, Along) else place for place in places]
        if dims:
            read = v.read(value, starts, dims, [self.width], [True])
        else:
            read = v.spread(v.build.extract(value, starts), self.width)
        return v.wide(read) if isinstance(element_type(value), ir.FloatType) else read

    def constant(self, op: ir.Operation) -> ir.Value | None:
        number = constant_number(op.results[0])
        return None if number is None else self.v.build.splat(number, self.kind(op.results[0]))

    def step(
        self, value: ir.Value, op: ir.Operation, scope: Scope[ir.Value | Along, ir.Value]
    ) -> ir.Value | None:
        inputs = [each for each in self.inputs(op, scope) if each is not None]
        assert len(inputs) == len(op.operands), "sources_of has read it"
        if op.name in _CASTS:
            return inputs[0]
        return self.v.build.create(op.name, [self.kind(value)], inputs).results[0]

    def kind(self, scalar: ir.Value) -> ir.VectorType:
        is_float = isinstance(scalar.type, ir.FloatType)
        return self.v.kind(self.width, element=self.v.f32 if is_float else scalar.type)


def read_line(
    v: Vectors,
    tensor: ir.Value,
    place: Sequence[ir.Value],
    dim: int,
    width: int,
    inside: bool = True,
) -> ir.Value:
    """Elements of a tensor in f32, `width` of them along a dim from a place on, zero where they are
    not `inside`; of one that is widened from codes computed of these."""
    if widened_from(tensor) is None:
        return v.wide(v.read(tensor, place, [dim], [width], [inside]))
    places = [Along(at) if number == dim else at for number, at in enumerate(place)]
    made = LineReader(v, width).element(tensor, places)
    assert made is not None, "widened_from has read it"
    return made
