"""Bodies of scalars, as `linalg.generic` and the score region of attention have one: what they
read, what each value in them depends on, and what they compute.

This is the one place that takes a body apart. `ScalarReader` walks it; what a scalar is to its
reader (an expression, a value that is known, ...) subclasses say. `regions.py` copies bodies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from iree.compiler import ir

from . import maps
from .attributes import known_attribute
from .queries import collect, defining_op, reduces
from .types import is_float, is_ranked_tensor

# Read which iteration dim the body computes for.
INDEX_OPS = ("linalg.index", "iree_linalg_ext.index")
# What `arith.cmpi` and `arith.cmpf` ask, by their numbers. Of floats those with `o` are false where
# one is NaN, those with `u` true.
INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
_SCALAR_DIALECTS = ("arith.", "math.")

Place = TypeVar("Place")
Made = TypeVar("Made")


def body_of(op: ir.Operation) -> ir.Block:
    """The first block of an op's first region."""
    return op.regions[0].blocks[0]


def body_ops(op: ir.Operation) -> list[ir.Operation]:
    """The ops of the body, the terminator last."""
    return [inner.operation for inner in body_of(op).operations]


def body_names(op: ir.Operation) -> list[str]:
    """The names of the ops of the body, the terminator's too."""
    return [inner.name for inner in body_ops(op)]


def yielded(op: ir.Operation, number: int = 0) -> ir.Value:
    """What the body gives for result `number`."""
    return body_ops(op)[-1].operands[number]


def index_dim(op: ir.Operation) -> int:
    """The iteration dim that one of `INDEX_OPS` reads."""
    return ir.IntegerAttr(op.attributes["dim"]).value


def index_ops(op: ir.Operation) -> list[ir.Operation]:
    """The ops of the body that read an iteration dim."""
    return [inner for inner in body_ops(op) if inner.name in INDEX_OPS]


def is_arithmetic(op: ir.Operation) -> bool:
    """Whether an op of a body computes with scalars alone, or reads an iteration dim."""
    return op.name.startswith(_SCALAR_DIALECTS) or op.name in INDEX_OPS


def takes_by_index(op: ir.Operation | None) -> bool:
    """Whether an op takes elements or rows of a tensor by indices that another has."""
    if op is None or op.name != "linalg.generic":
        return op is not None and op.name == "iree_linalg_ext.gather"
    return "tensor.extract" in body_names(op)


def depending(op: ir.Operation, sources: Sequence[ir.Value]) -> set[ir.Value]:
    """The values of the body that depend on `sources`, these included."""
    found = set(sources)
    for inner in body_ops(op):
        if any(operand in found for operand in inner.operands):
            found.update(inner.results)
    return found


def needed_ops(op: ir.Operation, wanted: Sequence[ir.Value]) -> list[ir.Operation]:
    """The ops of the body that compute `wanted`, in the order they stand."""
    needed, found = set(wanted), list[ir.Operation]()
    for inner in reversed(body_ops(op)):
        if any(result in needed for result in inner.results):
            found.insert(0, inner)
            needed.update(x for each in collect(inner, lambda _: True) for x in each.operands)
    return found


def constant_number(value: ir.Value) -> float | int | None:
    """The number that a constant, or each element of one, is, an int of integers; None for all
    other values."""
    op = defining_op(value, "arith.constant")
    if op is None:
        return None
    attribute = known_attribute(op, "value")
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        attribute = attribute.get_splat_value()
    return attribute.value if isinstance(attribute, ir.FloatAttr | ir.IntegerAttr) else None


def whole_number(value: ir.Value) -> int | None:
    """The integer that a constant, or each element of one, is; None for all other values."""
    number = constant_number(value)
    return number if isinstance(number, int) else None


def constant_truth(value: ir.Value) -> bool | None:
    """The truth that a constant is; None for all other values."""
    op = defining_op(value)
    if op is None or op.name != "arith.constant":
        return None
    attribute = known_attribute(op, "value")
    return bool(attribute.value) if isinstance(attribute, ir.BoolAttr) else None


def splat_number(value: ir.Value) -> float | None:
    """The float that a constant, or each element of one, is; None for all other values."""
    number = constant_number(value)
    return number if isinstance(number, float) else None


def scalar_number(value: ir.Value) -> float | None:
    """What a float constant is; None for all other values, tensors too."""
    return splat_number(value) if is_float(value.type) else None


def predicate(op: ir.Operation) -> str:
    """What a comparison of scalars asks, by one of `INTEGER_PREDICATES` or `FLOAT_PREDICATES`."""
    names = INTEGER_PREDICATES if op.name == "arith.cmpi" else FLOAT_PREDICATES
    return names[ir.IntegerAttr(op.attributes["predicate"]).value]


def filled_with(value: ir.Value) -> ir.Value | None:
    """The scalar that a `linalg.fill` makes a tensor of; None for all other values."""
    op = defining_op(value, "linalg.fill")
    return op.operands[0] if op is not None else None


def padded_by_number(
    image: ir.Value,
) -> tuple[ir.Value, Sequence[list[int]], ir.Value] | None:
    """What is padded on sides of known sizes with a number, these and that; None for no such."""
    op = defining_op(image, "tensor.pad")
    if op is None or len(op.operands) > 1:
        return None
    sides = [list(op.attributes[f"static_{side}"]) for side in ("low", "high")]
    number = yielded(op)
    made = defining_op(number, "arith.constant")
    if made is None or made.block == op.regions[0].blocks[0]:
        return None
    return (op.operands[0], sides, number) if min(map(min, sides)) >= 0 else None


def element_number(value: ir.Value) -> float | None:
    """The float that each element of a constant or filled tensor is; None for all others."""
    scalar = filled_with(value)
    return splat_number(value if scalar is None else scalar)


def below_casts(value: ir.Value) -> ir.Value:
    """What a scalar is a cast of, between widths of its kind."""
    op = defining_op(value)
    while op is not None and op.name.startswith(("arith.ext", "arith.trunc")):
        value = op.operands[0]
        op = defining_op(value)
    return value


def combined(op: ir.Operation, names: Sequence[str], number: int = 0) -> ir.Value | None:
    """The scalar that the body of a reducing `linalg.generic` combines with its result `number`
    so far, by an op of one of `names`, casts left out; None where it does anything else."""
    if op.name != "linalg.generic" or not reduces(op):
        return None
    total = body_of(op).arguments[len(op.operands) - len(op.results) + number]
    combines = defining_op(below_casts(yielded(op, number)), *names)
    if combines is None:
        return None
    terms = [below_casts(operand) for operand in combines.operands]
    return terms[1 - terms.index(total)] if terms.count(total) == 1 else None


def summand(op: ir.Operation) -> ir.Value | None:
    """The scalar in the body of a `linalg.generic` that its only result adds up, casts left out;
    None where the body does anything but add to the result."""
    return combined(op, ("arith.addf", "arith.addi")) if len(op.results) == 1 else None


@dataclass(frozen=True)
class ElementRead:
    """What a body gets as `argument`: elements of `operand`, at dim dims[j] of the result along
    its dim j (None: one element of that dim is read). A scalar has no dims."""

    argument: ir.Value
    operand: ir.Value
    dims: maps.Positions


@dataclass(frozen=True)
class ElementwiseFacts:
    """A `linalg.generic` that gives a result the elements `scalar`, made of `reads`, one for each
    operand; `dim_of` says along which dim of the result a loop runs."""

    scalar: ir.Value
    reads: tuple[ElementRead, ...]
    dim_of: dict[int, int]


def read_elementwise(op: ir.Operation | None, number: int = 0) -> ElementwiseFacts | None:
    """How `op` makes each element of its result `number`; None for an op that is no generic, that
    reduces or repeats what it makes, or whose maps are no projected permutations."""
    if op is None or op.name != "linalg.generic" or reduces(op):
        return None
    positions = maps.positions(op)
    if positions is None:
        return None
    out = positions[len(op.operands) - len(op.results) + number]
    dim_of = {loop: dim for dim, loop in enumerate(out) if loop is not None}
    if len(dim_of) != maps.loop_count(op):
        return None
    reads = tuple(
        ElementRead(
            argument, operand, tuple(None if loop is None else dim_of[loop] for loop in loops)
        )
        for argument, operand, loops in zip(
            body_of(op).arguments, op.operands, positions, strict=True
        )
    )
    return ElementwiseFacts(yielded(op, number), reads, dim_of)


@dataclass(frozen=True)
class Scope(Generic[Place, Made]):
    """What a scalar may read: elements of `operands`, each at a place for each of its dims, by the
    block arguments that stand for them; values that are `known`; the places of `loops`."""

    operands: Mapping[ir.Value, tuple[ir.Value, tuple[Place, ...]]]
    loops: Mapping[int, Place]
    known: Mapping[ir.Value, Made | None]

    @classmethod
    def outside(cls) -> Scope[Place, Made]:
        """Of scalars in no body."""
        return cls({}, {}, {})


class ScalarReader(Generic[Place, Made]):
    """Reads scalars, in bodies and outside, as what its subclass makes of elements, constants,
    indices and steps; None for what it does not understand, which is all that it does not say."""

    # The place of the only element along a dim.
    single: Any = None

    def element(self, value: ir.Value, places: tuple[Place, ...], /) -> Made | None:
        """The element of a tensor at these places."""
        return None

    def argument(self, value: ir.Value) -> Made | None:
        """A block argument that nothing in scope stands for."""
        return None

    def constant(self, op: ir.Operation) -> Made | None:
        """An op that is a constant to this reader; None for all others."""
        return None

    def index(self, place: Place | None) -> Made | None:
        """What an index op reads, where the body computes for `place`."""
        return None

    def step(self, value: ir.Value, op: ir.Operation, scope: Scope[Place, Made]) -> Made | None:
        """A result of any other op; `inputs` reads its operands."""
        return None

    def inputs(self, op: ir.Operation, scope: Scope[Place, Made]) -> list[Made | None]:
        """The operands of a step; None for tensors."""
        return [None if is_ranked_tensor(x) else self.scalar(x, scope) for x in op.operands]

    def computed(
        self, op: ir.Operation | None, places: Sequence[Place], number: int = 0
    ) -> Made | None:
        """The element at these places of result `number` of an op, as its body computes it; None
        where `read_elementwise` does not read the op."""
        made = read_elementwise(op, number)
        return None if made is None else self.scalar(made.scalar, self.scope(made, places))

    def scope(self, made: ElementwiseFacts, places: Sequence[Place]) -> Scope[Place, Made]:
        """What may be read in the body that makes an element at these places."""
        operands = {
            read.argument: (
                read.operand,
                tuple(self.single if dim is None else places[dim] for dim in read.dims),
            )
            for read in made.reads
        }
        return Scope(operands, {loop: places[dim] for loop, dim in made.dim_of.items()}, {})

    def scalar(self, value: ir.Value, scope: Scope[Place, Made]) -> Made | None:
        """A scalar that stands where `scope` says."""
        if value in scope.known:
            return scope.known[value]
        if value in scope.operands:
            operand, places = scope.operands[value]
            if is_ranked_tensor(operand):
                return self.element(operand, places)
            return self.scalar(operand, Scope.outside())
        op = defining_op(value)
        if op is None:
            return self.argument(value)
        constant = self.constant(op)
        if constant is not None:
            return constant
        if op.name in INDEX_OPS:
            return self.index(scope.loops.get(index_dim(op)))
        return self.step(value, op, scope)
