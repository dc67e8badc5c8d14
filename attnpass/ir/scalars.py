"""New ops on scalars, and what every new op needs: a place, a location, types and sizes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

from iree.compiler import ir

from .bodies import FLOAT_PREDICATES, INTEGER_PREDICATES
from .queries import defining_op, next_op
from .sizes import DynamicSize, Size, SizeProduct
from .types import DYNAMIC, element_type, is_float, with_element

# What `arith` ops on indices that are not negative do.
_SIZE_OPS: dict[str, Callable[[int, int], int]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "divui": operator.floordiv,
    "ceildivui": lambda left, right: -(-left // right),
    "minui": min,
    "maxui": max,
}


# Ops without side effects that compute sizes.
_OF_SIZES = ("arith.", "tensor.dim")


def _binary(name: str) -> Callable[[ScalarBuilder, ir.Value, ir.Value | float], ir.Value]:
    def create(self: ScalarBuilder, first: ir.Value, second: ir.Value | float) -> ir.Value:
        return self.apply(name, first, second)

    return create


def is_before(value: ir.Value, anchor: ir.Operation) -> bool:
    """Whether a value is defined before an op; outside of the op's block it is taken to be."""
    op = defining_op(value)
    return (
        op is None or op.block != anchor.block or (op != anchor and op.is_before_in_block(anchor))
    )


def _raised(size: ir.Value, anchor: ir.Operation) -> bool:
    """Moves what computes a size to before an op, and returns whether it could: who reads what is
    made there of that size stays where it is."""
    op = defining_op(size)
    if op is None or not op.name.startswith(_OF_SIZES):
        return False
    below = [value for value in op.operands if not is_before(value, anchor)]
    if not all(_raised(value, anchor) for value in below):
        return False
    op.move_before(anchor)
    return True


class ScalarBuilder:
    """Creates ops before `anchor`, at its location unless another is given.

    Values that the new ops read must be defined before `anchor`; `after_sizes` moves sizes that
    are not, or the builder behind them.
    """

    def __init__(self, anchor: ir.Operation, location: ir.Location | None = None):
        self.anchor = anchor
        self.location = location or anchor.location

    def after_sizes(self, sizes: Iterable[ir.Value]) -> Self:
        """This builder, where every one of `sizes` is defined: they are computed before it, or it
        moves down in its block to those that cannot be."""
        anchor = self.anchor
        for size in sizes:
            if not is_before(size, anchor) and not _raised(size, anchor):
                op = defining_op(size)
                anchor = anchor if op is None else next_op(op)
        return type(self)(anchor, self.location)

    def below(self, anchors: Iterable[ir.Operation]) -> Self:
        """This builder, moved down to those of `anchors` that stand below it."""
        anchor = self.anchor
        for other in anchors:
            if other.block == anchor.block and anchor.is_before_in_block(other):
                anchor = other
        return type(self)(anchor, self.location)

    def create(
        self,
        name: str,
        results: Sequence[ir.Type],
        operands: Sequence[ir.Value],
        attributes: Mapping[str, ir.Attribute] | None = None,
        regions: int = 0,
    ) -> ir.Operation:
        return ir.Operation.create(
            name,
            results=results,
            operands=operands,
            attributes=dict(attributes or {}),
            regions=regions,
            ip=ir.InsertionPoint(self.anchor),
            loc=self.location,
        )

    def integer(self, number: int, bits: int = 64) -> ir.IntegerAttr:
        """An attribute that is a number of so many bits."""
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(bits, self.anchor.context), number)

    def integers(self, *numbers: int) -> ir.Attribute:
        """An attribute that is an array of numbers of 64 bits."""
        return ir.DenseI64ArrayAttr.get(numbers, self.anchor.context)

    def apply(self, name: str, first: ir.Value, *others: ir.Value | float) -> ir.Value:
        """An op such as `arith.addf` of values of one type, which its result has; numbers become
        constants of it."""
        return self.create(name, [first.type], self._all_values(first, *others)).results[0]

    def _all_values(self, first: ir.Value, *others: ir.Value | float) -> list[ir.Value]:
        """Values, and numbers as constants of the type of the first."""
        return [
            first,
            *(x if isinstance(x, ir.Value) else self.splat(x, first.type) for x in others),
        ]

    # Of two values of one type, or of one and a number.
    addf = _binary("arith.addf")
    subf = _binary("arith.subf")
    mulf = _binary("arith.mulf")
    divf = _binary("arith.divf")
    maximumf = _binary("arith.maximumf")
    addi = _binary("arith.addi")
    subi = _binary("arith.subi")
    muli = _binary("arith.muli")
    andi = _binary("arith.andi")
    xori = _binary("arith.xori")

    def convert(self, name: str, value: ir.Value, kind: ir.Type) -> ir.Value:
        """An op such as `arith.extf` that makes of a value one of type `kind`."""
        return self.create(name, [kind], [value]).results[0]

    def tensor_type(self, sizes: Sequence[Size], element: ir.Type) -> ir.RankedTensorType:
        shape = [size if isinstance(size, int) else DYNAMIC for size in sizes]
        return ir.RankedTensorType.get(shape, element, loc=self.location)

    def constant(self, attribute: ir.Attribute, kind: ir.Type) -> ir.Value:
        """`arith.constant` with this value attribute, of type `kind`."""
        return self.create("arith.constant", [kind], [], {"value": attribute}).results[0]

    def constant_index(self, number: int) -> ir.Value:
        index = ir.IndexType.get(self.anchor.context)
        attribute = ir.IntegerAttr.get(index, number)
        return self.create("arith.constant", [index], [], {"value": attribute}).results[0]

    def constant_number(self, number: float, kind: ir.Type) -> ir.Value:
        """A scalar constant of an integer or float type."""
        if is_float(kind):
            return self.constant_float(number, kind)
        return self.constant(ir.IntegerAttr.get(kind, int(number)), kind)

    def constant_float(self, number: float, kind: ir.Type) -> ir.Value:
        return self.constant(ir.FloatAttr.get(kind, number, loc=self.location), kind)

    def splat(self, number: float, kind: ir.Type) -> ir.Value:
        """A constant of scalar or vector type `kind`, every element of which is `number`."""
        element = kind.element_type if isinstance(kind, ir.VectorType) else kind
        if isinstance(element, ir.FloatType):
            scalar = ir.FloatAttr.get(element, number, loc=self.location)
        else:
            scalar = ir.IntegerAttr.get(element, int(number))
        if not isinstance(kind, ir.VectorType):
            return self.constant(scalar, kind)
        return self.constant(ir.DenseElementsAttr.get_splat(kind, scalar), kind)

    def size(self, size: Size) -> ir.Value:
        """`size` as an index value."""
        if isinstance(size, int):
            return self.constant_index(size)
        index = ir.IndexType.get(self.anchor.context)
        if isinstance(size, SizeProduct):
            total = self.size(size.factors[0])
            for factor in size.factors[1:]:
                total = self.muli(total, self.size(factor))
            return total
        if size.dim is None:
            return size.value
        operands = [size.value, self.constant_index(size.dim)]
        return self.create("tensor.dim", [index], operands).results[0]

    def size_op(self, name: str, left: Size, right: Size) -> Size:
        """`arith.<name>` of two sizes, a number where both are: one of `_SIZE_OPS`."""
        if isinstance(left, int) and isinstance(right, int):
            return _SIZE_OPS[name](left, right)
        return DynamicSize(self.apply(f"arith.{name}", self.size(left), self.size(right)))

    def loop_index(self, loop: int) -> ir.Value:
        """`linalg.index`, for the body of a linalg op."""
        index = ir.IndexType.get(self.anchor.context)
        return self.create("linalg.index", [index], [], {"dim": self.integer(loop)}).results[0]

    def to_index(self, scalar: ir.Value) -> ir.Value:
        """An integer as an index."""
        index = ir.IndexType.get(self.anchor.context)
        return scalar if scalar.type == index else self.convert("arith.index_cast", scalar, index)

    def compare(self, predicate: str, left: ir.Value, right: ir.Value | int) -> ir.Value:
        """`arith.cmpi` of two integers or indices, or vectors of them: `ult`, `eq`, and so on."""
        return self._compare("arith.cmpi", INTEGER_PREDICATES.index(predicate), left, right)

    def compare_floats(self, predicate: str, left: ir.Value, right: ir.Value | float) -> ir.Value:
        """`arith.cmpf` of two floats or vectors of them: `ogt`, false where one is NaN, and so
        on; `uno` says whether one is."""
        return self._compare("arith.cmpf", FLOAT_PREDICATES.index(predicate), left, right)

    def _compare(
        self, name: str, predicate: int, left: ir.Value, right: ir.Value | float
    ) -> ir.Value:
        kind = with_element(left.type, ir.IntegerType.get_signless(1, self.anchor.context))
        attributes = {"predicate": self.integer(predicate)}
        return self.create(name, [kind], self._all_values(left, right), attributes).results[0]

    def select(self, condition: ir.Value, true: ir.Value, false: ir.Value) -> ir.Value:
        """`arith.select` of two values of the same type."""
        return self.create("arith.select", [true.type], [condition, true, false]).results[0]

    def multiply_add(
        self, value: ir.Value, factor: ir.Value | int, addend: ir.Value | int
    ) -> ir.Value:
        """value * factor + addend of indices."""
        value = value if factor == 1 else self.muli(value, factor)
        return value if addend == 0 else self.addi(value, addend)

    def cast_float(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """A float scalar in another float type."""
        if value.type == kind:
            return value
        wider = ir.FloatType(kind).width > ir.FloatType(value.type).width
        return self.convert("arith.extf" if wider else "arith.truncf", value, kind)

    def extract(self, tensor: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
        """`tensor.extract`: one element."""
        operands = [tensor, *indices]
        return self.create("tensor.extract", [element_type(tensor)], operands).results[0]

    def string(self, text: str) -> ir.StringAttr:
        return ir.StringAttr.get(text, self.anchor.context)
