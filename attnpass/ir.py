"""The one module that creates, clones and erases ops, and that knows what bites there.

Everything else reads the IR or asks a `Builder` for new ops. Handles to erased ops are
never kept: `erase_dead` is the last step of a rewrite.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iree.compiler import ir

from . import maps

if TYPE_CHECKING:
    from .elements import Elements
    from .layout.layout import Layout

DYNAMIC = ir.ShapedType.get_dynamic_size()

# What a dynamic size is taken as wherever bytes and times are estimated.
ASSUMED_EXTENT = 1024

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

# Ops without side effects that a rewrite may leave without uses.
_PURE_PREFIXES = ("linalg.", "tensor.", "arith.", "math.", "iree_linalg_ext.", "affine.apply")


@dataclass(frozen=True)
class DynamicSize:
    """A size known only at run time: dim `dim` of `value`, or the index `value` itself."""

    value: ir.Value
    dim: int | None = None


@dataclass(frozen=True)
class SizeProduct:
    """A product of sizes, at least one of them dynamic."""

    factors: tuple[int | DynamicSize, ...]


Size = int | DynamicSize | SizeProduct


def location_text(location: ir.Location) -> str:
    """`file:line:col` of the first file location inside `location`, else 'unknown'."""
    if isinstance(location, ir.FileLineColLoc):
        return f"{location.filename}:{location.start_line}:{location.start_col}"
    if isinstance(location, ir.NameLoc):
        return location_text(location.child_loc)
    if isinstance(location, ir.CallSiteLoc):
        return location_text(location.callee)
    if isinstance(location, ir.FusedLoc):
        texts = (location_text(inner) for inner in location.locations)
        return next((text for text in texts if text != "unknown"), "unknown")
    return "unknown"


def defining_op(value: ir.Value) -> ir.Operation | None:
    """The op that makes `value`; None for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def is_ranked_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def ranked_shape(value: ir.Value) -> tuple[int | None, ...]:
    """Shape with None for dynamic dims; the empty tuple for scalars and unranked tensors."""
    tensor = value.type
    if not isinstance(tensor, ir.RankedTensorType):
        return ()
    return tuple(None if size == DYNAMIC else size for size in tensor.shape)


def is_scalar(value: ir.Value) -> bool:
    """Whether `value` is no tensor, vector or memref."""
    return not isinstance(value.type, ir.ShapedType)


def is_float(kind: ir.Type) -> bool:
    """Whether this is a floating-point type."""
    return isinstance(kind, ir.FloatType)


def element_type(value: ir.Value) -> ir.Type:
    tensor = value.type
    return tensor.element_type if isinstance(tensor, ir.ShapedType) else tensor


def element_type_name(value: ir.Value) -> str:
    return str(element_type(value))


def element_bytes(value: ir.Value) -> int:
    """Bytes of one element, at least one."""
    kind = element_type(value)
    if isinstance(kind, ir.IntegerType | ir.FloatType):
        return max(1, kind.width // 8)
    return 8


def tensor_bytes(value: ir.Value) -> int:
    """Bytes of a tensor; a dynamic dim counts as ASSUMED_EXTENT."""
    total = element_bytes(value)
    for size in ranked_shape(value):
        total *= ASSUMED_EXTENT if size is None else size
    return total


def with_element(kind: ir.Type, element: ir.Type) -> ir.Type:
    """A scalar or vector type like `kind`, of another element type."""
    if isinstance(kind, ir.VectorType):
        return ir.VectorType.get(kind.shape, element, loc=ir.Location.unknown(kind.context))
    return element


def descendants(op: ir.Operation, *names: str) -> Iterator[ir.Operation]:
    """The ops called names[-1] inside those called names[-2], and so on up to `op`."""
    if not names:
        yield op
        return
    inside = [child.operation for region in op.regions for block in region for child in block]
    for child in inside:
        if child.name == names[0]:
            yield from descendants(child, *names[1:])


def operations(module: ir.Operation, name: str) -> list[ir.Operation]:
    """The ops of this name under `module`, in the order they stand."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == name:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def has_one_use(value: ir.Value) -> bool:
    uses = iter(value.uses)
    return next(uses, None) is not None and next(uses, None) is None


def replace_reads(value: ir.Value, new: ir.Value) -> None:
    """Makes all who read `value` read `new`. Who asks for a size only, perhaps to make `new`,
    keeps asking `value`: that keeps nothing alive when the program runs."""
    for use in list(value.uses):
        if use.owner.operation.name != "tensor.dim":
            use.owner.operation.operands[use.operand_number] = new


def users(value: ir.Value) -> list[ir.Operation]:
    """The ops that use `value`, each once."""
    found: list[ir.Operation] = []
    for use in value.uses:
        if use.owner.operation not in found:
            found.append(use.owner.operation)
    return found


def index_array(attribute: ir.Attribute) -> list[list[int]]:
    """A reassociation attribute as lists of ints."""
    return [
        [ir.IntegerAttr(dim).value for dim in ir.ArrayAttr(group)]
        for group in ir.ArrayAttr(attribute)
    ]


def sizes_of(value: ir.Value) -> tuple[Size, ...]:
    """The sizes of a ranked tensor, dynamic ones traced up to where they come from."""
    return tuple(
        _trace_size(value, dim) if size is None else size
        for dim, size in enumerate(ranked_shape(value))
    )


def _trace_size(value: ir.Value, dim: int) -> Size:
    """Where a dynamic size comes from, so that equal sizes compare equal.

    It is never an int, even where a constant is found: types made of sizes must be dynamic
    where the types of the values are.
    """
    while (op := defining_op(value)) is not None:
        size = _size_operand(op, dim)
        if size is not None:
            return _index_size(size)
        source = _same_size(op, value, dim)
        if source is None:
            break
        value, dim = source
        if ranked_shape(value)[dim] is not None:
            break
    return DynamicSize(value, dim)


def _size_operand(op: ir.Operation, dim: int) -> ir.Value | None:
    """The index operand that says how large dynamic dim `dim` of the result is, if any."""
    if op.name == "tensor.empty":
        return op.operands[_dynamic_rank(ranked_shape(op.results[0]), dim)]
    if op.name == "tensor.expand_shape":
        return op.operands[1 + _dynamic_rank(list(op.attributes["static_output_shape"]), dim)]
    if op.name == "tensor.extract_slice":
        # Dims that are dropped are static, so the dynamic ones stand in the same order.
        offsets = sum(offset == DYNAMIC for offset in op.attributes["static_offsets"])
        return op.operands[1 + offsets + _dynamic_rank(ranked_shape(op.results[0]), dim)]
    if op.name == "tensor.reshape":
        shape = defining_op(op.operands[1])
        if shape is not None and shape.name == "tensor.from_elements":
            return shape.operands[dim]
    return None


def _same_size(op: ir.Operation, value: ir.Value, dim: int) -> tuple[ir.Value, int] | None:
    """A dim of an operand that is as large as dim `dim` of `value`, a result of `op`."""
    if op.name == "tensor.cast" and dim < len(ranked_shape(op.operands[0])):
        return op.operands[0], dim
    if op.name == "tensor.insert_slice":
        return op.operands[1], dim
    if op.name == "tensor.concat" and ir.IntegerAttr(op.attributes["dim"]).value != dim:
        return op.operands[0], dim
    if op.name == "tensor.pad":
        padding = (op.attributes["static_low"][dim], op.attributes["static_high"][dim])
        return (op.operands[0], dim) if padding == (0, 0) else None
    if op.name == "tensor.collapse_shape":
        shape = ranked_shape(op.operands[0])
        inner = [d for d in index_array(op.attributes["reassociation"])[dim] if shape[d] != 1]
        return (op.operands[0], inner[0]) if len(inner) == 1 else None
    if op.name.startswith(("linalg.", "iree_linalg_ext.")) and len(op.results):
        # Destination style: result i has the shape of output operand i.
        number = list(op.results).index(value)
        return op.operands[len(op.operands) - len(op.results) + number], dim
    return None


def _dynamic_rank(shape: Sequence[int | None], dim: int) -> int:
    """How many dynamic dims stand before `dim`: its place among dynamic-size operands."""
    return sum(size is None or size == DYNAMIC for size in shape[:dim])


def _index_size(value: ir.Value) -> Size:
    op = defining_op(value)
    if op is not None and op.name == "tensor.dim":
        where = defining_op(op.operands[1])
        if where is not None and where.name == "arith.constant":
            dim = ir.IntegerAttr(where.attributes["value"]).value
            source = op.operands[0]
            static = ranked_shape(source)[dim] is not None
            return DynamicSize(source, dim) if static else _trace_size(source, dim)
    return DynamicSize(value)


class Builder:
    """Creates ops before `anchor`, at its location unless another is given.

    Values that the new ops read must be defined before `anchor`; `after_operands` moves
    the builder behind those that are not.
    """

    def __init__(self, anchor: ir.Operation, location: ir.Location | None = None):
        self.anchor = anchor
        self.location = location or anchor.location

    def after_operands(self, values: Iterable[ir.Value]) -> Builder:
        """This builder, moved down in its block until every one of `values` is defined."""
        anchor = self.anchor
        for value in values:
            op = defining_op(value)
            if op is None or op.block != anchor.block:
                continue
            if op == anchor or not op.is_before_in_block(anchor):
                anchor = next_op(op)
        return Builder(anchor, self.location)

    def below(self, anchors: Iterable[ir.Operation]) -> Builder:
        """This builder, moved down to those of `anchors` that stand below it."""
        anchor = self.anchor
        for other in anchors:
            if other.block == anchor.block and anchor.is_before_in_block(other):
                anchor = other
        return Builder(anchor, self.location)

    def create(
        self,
        name: str,
        results: Sequence[ir.Type],
        operands: Sequence[ir.Value],
        attributes: dict[str, ir.Attribute] | None = None,
        regions: int = 0,
    ) -> ir.Operation:
        return ir.Operation.create(
            name,
            results=results,
            operands=operands,
            attributes=attributes or {},
            regions=regions,
            ip=ir.InsertionPoint(self.anchor),
            loc=self.location,
        )

    def tensor_type(self, sizes: Sequence[Size], element: ir.Type) -> ir.RankedTensorType:
        shape = [size if isinstance(size, int) else DYNAMIC for size in sizes]
        return ir.RankedTensorType.get(shape, element, loc=self.location)

    def constant_index(self, number: int) -> ir.Value:
        index = ir.IndexType.get(self.anchor.context)
        attribute = ir.IntegerAttr.get(index, number)
        return self.create("arith.constant", [index], [], {"value": attribute}).results[0]

    def size(self, size: Size) -> ir.Value:
        """`size` as an index value."""
        if isinstance(size, int):
            return self.constant_index(size)
        index = ir.IndexType.get(self.anchor.context)
        if isinstance(size, SizeProduct):
            total = self.size(size.factors[0])
            for factor in size.factors[1:]:
                total = self.create("arith.muli", [index], [total, self.size(factor)]).results[0]
            return total
        if size.dim is None:
            return size.value
        operands = [size.value, self.constant_index(size.dim)]
        return self.create("tensor.dim", [index], operands).results[0]

    def size_op(self, name: str, left: Size, right: Size) -> Size:
        """`arith.<name>` of two sizes, a number where both are: one of `_SIZE_OPS`."""
        if isinstance(left, int) and isinstance(right, int):
            return _SIZE_OPS[name](left, right)
        index = ir.IndexType.get(self.anchor.context)
        operands = [self.size(left), self.size(right)]
        return DynamicSize(self.create(f"arith.{name}", [index], operands).results[0])

    def loop_index(self, loop: int) -> ir.Value:
        """`linalg.index`, for the body of a linalg op."""
        i64 = ir.IntegerType.get_signless(64, self.anchor.context)
        attributes: dict[str, ir.Attribute] = {"dim": ir.IntegerAttr.get(i64, loop)}
        index = ir.IndexType.get(self.anchor.context)
        return self.create("linalg.index", [index], [], attributes).results[0]

    def to_index(self, scalar: ir.Value) -> ir.Value:
        """An integer as an index."""
        index = ir.IndexType.get(self.anchor.context)
        if scalar.type == index:
            return scalar
        return self.create("arith.index_cast", [index], [scalar]).results[0]

    def extract(self, tensor: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
        """`tensor.extract`: one element."""
        operands = [tensor, *indices]
        return self.create("tensor.extract", [element_type(tensor)], operands).results[0]

    def compare(self, predicate: str, left: ir.Value, right: ir.Value) -> ir.Value:
        """`arith.cmpi` of two integers or indices: `ult`, `eq`, and so on."""
        predicates = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
        context = self.anchor.context
        i64, i1 = (ir.IntegerType.get_signless(width, context) for width in (64, 1))
        attributes: dict[str, ir.Attribute] = {
            "predicate": ir.IntegerAttr.get(i64, predicates.index(predicate))
        }
        return self.create("arith.cmpi", [i1], [left, right], attributes).results[0]

    def compare_floats(self, predicate: str, left: ir.Value, right: ir.Value) -> ir.Value:
        """`arith.cmpf` of two floats, false where one is NaN: `ogt` and so on."""
        predicates = ("false", "oeq", "ogt", "oge", "olt", "ole", "one")
        context = self.anchor.context
        i64, i1 = (ir.IntegerType.get_signless(width, context) for width in (64, 1))
        attributes: dict[str, ir.Attribute] = {
            "predicate": ir.IntegerAttr.get(i64, predicates.index(predicate))
        }
        return self.create("arith.cmpf", [i1], [left, right], attributes).results[0]

    def select(self, condition: ir.Value, true: ir.Value, false: ir.Value) -> ir.Value:
        """`arith.select` of two scalars of the same type."""
        return self.create("arith.select", [true.type], [condition, true, false]).results[0]

    def multiply_add(self, value: ir.Value, factor: int, addend: ir.Value | int) -> ir.Value:
        """value * factor + addend of indices."""
        kinds = [value.type]
        if factor != 1:
            operands = [value, self.constant_index(factor)]
            value = self.create("arith.muli", kinds, operands).results[0]
        if addend == 0:
            return value
        other = self.constant_index(addend) if isinstance(addend, int) else addend
        return self.create("arith.addi", kinds, [value, other]).results[0]

    def constant(self, attribute: ir.Attribute, kind: ir.Type) -> ir.Value:
        """`arith.constant` with this value attribute, of type `kind`."""
        return self.create("arith.constant", [kind], [], {"value": attribute}).results[0]

    def constant_number(self, number: float, kind: ir.Type) -> ir.Value:
        """A scalar constant of an integer or float type."""
        if is_float(kind):
            return self.constant_float(number, kind)
        return self.constant(ir.IntegerAttr.get(kind, int(number)), kind)

    def constant_float(self, number: float, kind: ir.Type) -> ir.Value:
        return self.constant(ir.FloatAttr.get(kind, number, loc=self.location), kind)

    def cast_float(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """A float scalar in another float type."""
        if value.type == kind:
            return value
        wider = ir.FloatType(kind).width > ir.FloatType(value.type).width
        return self.create("arith.extf" if wider else "arith.truncf", [kind], [value]).results[0]

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

    def empty(self, sizes: Sequence[Size], element: ir.Type) -> ir.Value:
        dynamic = [self.size(size) for size in sizes if not isinstance(size, int)]
        return self.create("tensor.empty", [self.tensor_type(sizes, element)], dynamic).results[0]

    def transpose(self, value: ir.Value, permutation: Sequence[int]) -> ir.Value:
        """`linalg.transpose`: dim i of the result is dim permutation[i] of `value`."""
        if maps.is_identity(permutation):
            return value
        sizes = sizes_of(value)
        init = self.empty([sizes[dim] for dim in permutation], element_type(value))
        attributes = {
            "permutation": ir.DenseI64ArrayAttr.get(list(permutation), self.anchor.context)
        }
        op = self.create("linalg.transpose", [init.type], [value, init], attributes, regions=1)
        fill_builtin_region(op)
        return op.results[0]

    def fill(self, scalar: ir.Value, init: ir.Value) -> ir.Value:
        attributes = {"operandSegmentSizes": self._segments(1, 1)}
        op = self.create("linalg.fill", [init.type], [scalar, init], attributes, regions=1)
        fill_builtin_region(op)
        return op.results[0]

    def all_true(self, sizes: Sequence[Size]) -> ir.Value:
        """A mask that hides nothing: an i1 tensor of these sizes."""
        i1 = ir.IntegerType.get_signless(1, self.anchor.context)
        return self.fill(self.constant(ir.IntegerAttr.get(i1, 1), i1), self.empty(sizes, i1))

    def softmax(self, value: ir.Value) -> ir.Value:
        """`linalg.softmax` over the last dim."""
        init = self.empty(sizes_of(value), element_type(value))
        i64 = ir.IntegerType.get_signless(64, self.anchor.context)
        last = ir.IntegerAttr.get(i64, len(ranked_shape(value)) - 1)
        operands = [value, init]
        return self.create("linalg.softmax", [init.type], operands, {"dimension": last}).results[0]

    def generic(
        self,
        inputs: Sequence[ir.Value],
        inits: Sequence[ir.Value],
        positions: Sequence[maps.Positions],
        body: Callable[[Builder, Sequence[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """`linalg.generic`: one map per input and init, loops numbered without gaps.

        Loops that no init has are reductions. `body` gets a builder inside the region and
        the scalars, inputs first, and returns the scalars to yield.
        """
        context, operands = self.anchor.context, [*inputs, *inits]
        loops = 1 + max((dim for m in positions for dim in m if dim is not None), default=-1)
        kept = {dim for m in positions[len(inputs) :] for dim in m}
        kinds = ["parallel" if loop in kept else "reduction" for loop in range(loops)]
        iterators = [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
        attributes: dict[str, ir.Attribute] = {
            "indexing_maps": maps.maps_attribute(loops, positions),
            "iterator_types": ir.ArrayAttr.get(iterators, context),
            "operandSegmentSizes": self._segments(len(inputs), len(inits)),
        }
        results = [init.type for init in inits]
        op = self.create("linalg.generic", results, operands, attributes, regions=1)
        scalars = [element_type(value) for value in operands]
        block = op.regions[0].blocks.append(*scalars, arg_locs=[self.location] * len(scalars))
        self.fill_block(block, "linalg.yield", lambda inner: body(inner, list(block.arguments)))
        return list(op.results)

    def dispatch_region(
        self,
        results: Sequence[tuple[Sequence[Size], ir.Type]],
        body: Callable[[Builder], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """`flow.dispatch.region`: `body`'s ops become one dispatch, whatever they are.

        `results` are the sizes and element types of the tensors that `body` returns.
        """
        sizes = [size for shape, _ in results for size in shape]
        dynamic = [self.size(size) for size in sizes if not isinstance(size, int)]
        types = [self.tensor_type(shape, element) for shape, element in results]
        attributes = {"operandSegmentSizes": self._segments(len(dynamic), 0)}
        op = self.create("flow.dispatch.region", types, dynamic, attributes, regions=2)
        self.fill_block(op.regions[0].blocks.append(), "flow.return", body)
        return list(op.results)

    def conditional(
        self,
        condition: ir.Value,
        types: Sequence[ir.Type],
        then: Callable[[Builder], Sequence[ir.Value]],
        otherwise: Callable[[Builder], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """`scf.if`: the values, of `types`, that `then` or `otherwise` makes."""
        op = self.create("scf.if", types, [condition], regions=2)
        for region, body in zip(op.regions, (then, otherwise), strict=True):
            self.fill_block(region.blocks.append(), "scf.yield", body)
        return list(op.results)

    def copy(self, op: ir.Operation, operands: Sequence[ir.Value] | None = None) -> ir.Operation:
        """The same op again, here, on the same operands or on those given."""
        copy = op.clone(ip=ir.InsertionPoint(self.anchor)).operation
        for number, operand in enumerate(operands or ()):
            copy.operands[number] = operand
        return copy

    def fill_block(
        self, block: ir.Block, terminator: str, body: Callable[[Builder], Sequence[ir.Value]]
    ) -> None:
        """Builds an empty block: the ops that `body` makes, and a terminator for its values."""
        point = ir.InsertionPoint(block)
        anchor = ir.Operation.create(terminator, ip=point, loc=self.location)
        inner = Builder(anchor, self.location)
        inner.create(terminator, [], body(inner))
        anchor.erase()

    def collapse(self, value: ir.Value, groups: Sequence[Sequence[int]]) -> ir.Value:
        """`tensor.collapse_shape`; each group lists the dims that become one."""
        if all(len(group) == 1 for group in groups) and len(groups) == len(ranked_shape(value)):
            return value
        sizes = sizes_of(value)
        merged = [product([sizes[dim] for dim in group]) for group in groups]
        result = self.tensor_type(merged, element_type(value))
        source = defining_op(value)
        if source is not None and source.name == "tensor.expand_shape":
            inner = source.operands[0]
            if inner.type == result and index_array(source.attributes["reassociation"]) == [
                list(group) for group in groups
            ]:
                return inner
        attributes = {"reassociation": self._reassociation(groups)}
        return self.create("tensor.collapse_shape", [result], [value], attributes).results[0]

    def expand(
        self, value: ir.Value, groups: Sequence[Sequence[int]], sizes: Sequence[Size]
    ) -> ir.Value:
        """`tensor.expand_shape` to `sizes`; each group lists the new dims of one old dim."""
        if all(len(group) == 1 for group in groups) and len(sizes) == len(ranked_shape(value)):
            return value
        result = self.tensor_type(sizes, element_type(value))
        source = defining_op(value)
        if source is not None and source.name == "tensor.collapse_shape":
            inner = source.operands[0]
            same = index_array(source.attributes["reassociation"]) == [list(g) for g in groups]
            if same and inner.type == result and sizes_of(inner) == tuple(sizes):
                return inner
        dynamic = [self.size(size) for size in sizes if not isinstance(size, int)]
        static = [size if isinstance(size, int) else DYNAMIC for size in sizes]
        attributes: dict[str, ir.Attribute] = {
            "reassociation": self._reassociation(groups),
            "static_output_shape": ir.DenseI64ArrayAttr.get(static, self.anchor.context),
        }
        operands = [value, *dynamic]
        return self.create("tensor.expand_shape", [result], operands, attributes).results[0]

    def split_dims(self, value: ir.Value, pieces: Sequence[Sequence[Size]]) -> ir.Value:
        """Splits dim d of `value` into dims of sizes pieces[d]; an empty list drops a unit dim."""
        units = [dim for dim, sizes in enumerate(pieces) if not sizes]
        if units:
            keep = [dim for dim, sizes in enumerate(pieces) if sizes]
            value = self.collapse(value, _attach_units(len(pieces), keep))
        wanted = [list(sizes) for sizes in pieces if sizes]
        flat = [size for sizes in wanted for size in sizes]
        return self.expand(value, _consecutive([len(sizes) for sizes in wanted]), flat)

    def split_and_slice(
        self, value: ir.Value, parts: Sequence[Sequence[tuple[Size, tuple[int, int] | None]]]
    ) -> ir.Value:
        """Like `split_dims`, where a part (size, (offset, full size)) is a slice of its factor."""
        full = [
            [size if window is None else window[1] for size, window in group] for group in parts
        ]
        value = self.split_dims(value, full)
        flat = [part for group in parts for part in group]
        if not any(window for _, window in flat):
            return value
        offsets = [0 if window is None else window[0] for _, window in flat]
        return self.extract_slice(value, offsets, [size for size, _ in flat])

    def extract_slice(
        self, value: ir.Value, offsets: Sequence[Size], sizes: Sequence[Size]
    ) -> ir.Value:
        """`tensor.extract_slice` with unit strides."""
        context = self.anchor.context
        static_offsets = [offset if isinstance(offset, int) else DYNAMIC for offset in offsets]
        static_sizes = [size if isinstance(size, int) else DYNAMIC for size in sizes]
        moved = [self.size(offset) for offset in offsets if not isinstance(offset, int)]
        sized = [self.size(size) for size in sizes if not isinstance(size, int)]
        segments = [1, len(moved), len(sized), 0]
        attributes: dict[str, ir.Attribute] = {
            "static_offsets": ir.DenseI64ArrayAttr.get(static_offsets, context),
            "static_sizes": ir.DenseI64ArrayAttr.get(static_sizes, context),
            "static_strides": ir.DenseI64ArrayAttr.get([1] * len(static_sizes), context),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments, context),
        }
        result = self.tensor_type(sizes, element_type(value))
        operands = [value, *moved, *sized]
        return self.create("tensor.extract_slice", [result], operands, attributes).results[0]

    def slice_again(self, op: ir.Operation, source: ir.Value, dim: int, low: int) -> ir.Value:
        """The `tensor.extract_slice` op on `source`, which starts at `low` of the old dim."""
        if source.type == op.results[0].type:
            return source
        offsets = list(op.attributes["static_offsets"])
        offsets[dim] -= low
        attributes = copied_attributes(op)
        attributes["static_offsets"] = ir.DenseI64ArrayAttr.get(offsets, self.anchor.context)
        operands = [source, *list(op.operands)[1:]]
        return self.create(op.name, [op.results[0].type], operands, attributes).results[0]

    def pad(
        self,
        source: ir.Value,
        result: ir.Type,
        low: Sequence[int | ir.Value],
        high: Sequence[int | ir.Value],
        padding: ir.Value,
    ) -> ir.Value:
        """`tensor.pad` with the same padding value everywhere."""
        context = self.anchor.context
        dynamic = [[size for size in sizes if isinstance(size, ir.Value)] for sizes in (low, high)]
        static = [[s if isinstance(s, int) else DYNAMIC for s in sizes] for sizes in (low, high)]
        segments = [1, len(dynamic[0]), len(dynamic[1])]
        attributes: dict[str, ir.Attribute] = {
            "static_low": ir.DenseI64ArrayAttr.get(static[0], context),
            "static_high": ir.DenseI64ArrayAttr.get(static[1], context),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments, context),
        }
        operands = [source, *dynamic[0], *dynamic[1]]
        op = self.create("tensor.pad", [result], operands, attributes, regions=1)
        index = ir.IndexType.get(context)
        block = op.regions[0].blocks.append(
            *([index] * len(low)), arg_locs=[self.location] * len(low)
        )
        ir.Operation.create(
            "tensor.yield", operands=[padding], ip=ir.InsertionPoint(block), loc=self.location
        )
        return op.results[0]

    def insert_slice_like(
        self, op: ir.Operation, source: ir.Value, destination: ir.Value, order: Sequence[int]
    ) -> ir.Value:
        """The `tensor.insert_slice` op with all its dims in `order`."""
        context = self.anchor.context
        rest = iter(list(op.operands)[2:])
        attributes: dict[str, ir.Attribute] = {}
        operands = [source, destination]
        segments = [1, 1]
        for name in ("static_offsets", "static_sizes", "static_strides"):
            values = [next(rest) if s == DYNAMIC else s for s in op.attributes[name]]
            moved = [values[dim] for dim in order]
            dynamic = [value for value in moved if isinstance(value, ir.Value)]
            static = [DYNAMIC if isinstance(value, ir.Value) else value for value in moved]
            attributes[name] = ir.DenseI64ArrayAttr.get(static, context)
            operands += dynamic
            segments.append(len(dynamic))
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(segments, context)
        return self.create(op.name, [destination.type], operands, attributes).results[0]

    def constant_in_layout(self, elements: Elements, layout: Layout) -> ir.Value:
        """An `arith.constant` tensor with one dim per axis of `layout`."""
        from .elements import in_layout

        result = self.tensor_type(layout.sizes, elements.kind)
        return self.constant(in_layout(elements, layout, result), result)

    def cast(self, value: ir.Value, sizes: Sequence[Size]) -> ir.Value:
        """`value`, with `tensor.cast` where its type says more or less of these sizes."""
        wanted = self.tensor_type(sizes, element_type(value))
        if value.type == wanted:
            return value
        return self.create("tensor.cast", [wanted], [value]).results[0]

    def join_dims(self, value: ir.Value, counts: Sequence[int], sizes: Sequence[Size]) -> ir.Value:
        """Joins counts[d] consecutive dims into dim d of `sizes`; a count of 0 adds a unit dim."""
        value = self.collapse(value, _consecutive([count for count in counts if count]))
        keep = [dim for dim, count in enumerate(counts) if count]
        if len(keep) == len(counts):
            return value
        return self.expand(value, _attach_units(len(counts), keep), sizes)

    def string(self, text: str) -> ir.StringAttr:
        return ir.StringAttr.get(text, self.anchor.context)

    def _reassociation(self, groups: Sequence[Sequence[int]]) -> ir.ArrayAttr:
        i64 = ir.IntegerType.get_signless(64, self.anchor.context)
        rows = [
            ir.ArrayAttr.get([ir.IntegerAttr.get(i64, dim) for dim in group], self.anchor.context)
            for group in groups
        ]
        return ir.ArrayAttr.get(rows, self.anchor.context)

    def _segments(self, inputs: int, outputs: int) -> ir.Attribute:
        return ir.DenseI32ArrayAttr.get([inputs, outputs], self.anchor.context)

    def segments(self, inputs: int, outputs: int) -> ir.Attribute:
        """`operandSegmentSizes` of a destination-style op."""
        return self._segments(inputs, outputs)


class StandIn:
    """What `name` will be once it is a tensor of `sizes`: until `settle`, `value` stands for
    that, and the program keeps reading `name` itself as it always was."""

    def __init__(self, name: ir.Value, sizes: Sequence[Size]):
        op = defining_op(name)
        below = ir.BlockArgument(name).owner.operations[0] if op is None else next_op(op)
        build = Builder(below.operation, name.location)
        kind = build.tensor_type(sizes, element_type(name))
        self.name = name
        self._op = build.create("builtin.unrealized_conversion_cast", [kind], [name])

    @property
    def value(self) -> ir.Value:
        return self._op.results[0]

    def settle(self, restore: Callable[[ir.Value, Builder], ir.Value]) -> None:
        """Gives `name` its new type. Who still reads it as it was gets what `restore` makes
        of the new value. This stand-in must not be used again."""
        if not has_one_use(self.name):
            old = restore(self.value, Builder(next_op(self._op), self._op.location))
            self.name.replace_all_uses_except(old, self._op)
        kind = self.value.type
        self._op.operands[0] = self.name
        self.value.replace_all_uses_with(self.name)
        self.name.set_type(kind)
        self._op.erase()


def set_function_type(function: ir.Operation, returns: Sequence[ir.Operation]) -> None:
    """Makes the type of a function that of its arguments and of what `returns` return."""
    arguments = [argument.type for argument in function.regions[0].blocks[0].arguments]
    results = [value.type for value in returns[0].operands] if returns else []
    kind = ir.FunctionType.get(arguments, results, context=function.context)
    function.attributes["function_type"] = ir.TypeAttr.get(kind)


def fill_builtin_region(op: ir.Operation) -> None:
    """Gives a named linalg op its body."""
    from iree.compiler._mlir_libs import _mlirDialectsLinalg

    _mlirDialectsLinalg.fill_builtin_region(op)


def print_alone(op: ir.Operation) -> str:
    """The text of a copy of `op` alone in a module, with the resources that it names."""
    with op.context, op.location:
        module = ir.Module.create()
        op.clone(ip=ir.InsertionPoint(module.body))
        return module.operation.get_asm()


def append_op(module: ir.Module, name: str, attributes: dict[str, ir.Attribute]) -> ir.Operation:
    """Appends an op with one region, still empty, to the body of a module."""
    location = ir.Location.unknown(module.context)
    point = ir.InsertionPoint(module.body)
    return ir.Operation.create(name, attributes=attributes, regions=1, ip=point, loc=location)


def fill_region(
    op: ir.Operation,
    arguments: Sequence[ir.Type],
    terminator: str,
    fill: Callable[[Builder, Sequence[ir.Value]], Sequence[ir.Value]],
) -> Sequence[ir.Value]:
    """Gives the first region of `op` a block: `fill` makes its ops of a builder and the block's
    arguments, and gives what the terminator takes, which is returned."""
    location = op.location
    block = op.regions[0].blocks.append(*arguments, arg_locs=[location] * len(arguments))
    # A builder stands before an op: this one, until it is known what the terminator takes.
    end = ir.Operation.create(terminator, ip=ir.InsertionPoint(block), loc=location)
    taken = fill(Builder(end), list(block.arguments))
    ir.Operation.create(terminator, operands=taken, ip=ir.InsertionPoint(end), loc=location)
    end.erase()
    return taken


def add_function(
    module: ir.Module,
    name: str,
    arguments: Sequence[ir.Type],
    fill: Callable[[Builder, Sequence[ir.Value]], Sequence[ir.Value]],
) -> None:
    """Appends `func.func @name` to a module: `fill` makes its body of a builder and the
    arguments and gives what it returns."""
    context = module.context
    attributes: dict[str, ir.Attribute] = {
        "sym_name": ir.StringAttr.get(name, context),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [], context)),
    }
    function = append_op(module, "func.func", attributes)
    returned = fill_region(function, arguments, "func.return", fill)
    kind = ir.FunctionType.get(arguments, [value.type for value in returned], module.context)
    function.attributes["function_type"] = ir.TypeAttr.get(kind)


def print_as_function(op: ir.Operation) -> str:
    """The text of a module whose function `main` is a copy of `op`, its operands arguments."""
    with op.context, op.location:
        module = ir.Module.create()
        kinds = [operand.type for operand in op.operands]
        kind = ir.FunctionType.get(kinds, [result.type for result in op.results])
        attributes: dict[str, ir.Attribute] = {
            "sym_name": ir.StringAttr.get("main"),
            "function_type": ir.TypeAttr.get(kind),
        }
        point = ir.InsertionPoint(module.body)
        function = ir.Operation.create("func.func", attributes=attributes, regions=1, ip=point)
        block = function.regions[0].blocks.append(*kinds, arg_locs=[op.location] * len(kinds))
        point = ir.InsertionPoint(block)
        copy = op.clone(ip=point).operation
        for number, argument in enumerate(block.arguments):
            copy.operands[number] = argument
        ir.Operation.create("func.return", operands=list(copy.results), ip=point)
        return module.operation.get_asm()


def set_attribute(op: ir.Operation, name: str, text: str) -> None:
    """Sets an attribute of `op` from its text."""
    op.attributes[name] = ir.Attribute.parse(text, op.context)


def remove_attributes(op: ir.Operation, *names: str) -> None:
    for name in names:
        del op.attributes[name]


def copied_attributes(op: ir.Operation, *without: str) -> dict[str, ir.Attribute]:
    """The attributes of `op` but for those named."""
    attributes: Any = op.attributes
    return {name: attributes[name] for name in attributes if name not in without}


def copy_body(
    source: ir.Block,
    target: ir.Block,
    argument_order: Sequence[int],
    index_dims: dict[int, int],
    compute_index: Callable[[int, Builder], ir.Value] | None = None,
) -> None:
    """Copies the flat body of a linalg or attention op.

    Argument i of `target` stands for argument argument_order[i] of `source`; a
    `linalg.index d` becomes `linalg.index index_dims[d]`, and so does attention's own. The
    index of a dim that `index_dims` lacks is what `compute_index` makes of it.
    """
    values: dict[ir.Value, ir.Value] = {
        source.arguments[old]: target.arguments[new] for new, old in enumerate(argument_order)
    }
    point = ir.InsertionPoint(target)
    for op in source.operations:
        copy = op.operation.clone(ip=point).operation
        for number, operand in enumerate(op.operands):
            if operand in values:
                copy.operands[number] = values[operand]
        if op.operation.name in ("linalg.index", "iree_linalg_ext.index"):
            attribute = ir.IntegerAttr(op.operation.attributes["dim"])
            if attribute.value not in index_dims:
                assert compute_index is not None, "the index of a dim that is gone"
                values[op.operation.results[0]] = compute_index(attribute.value, Builder(copy))
                copy.erase()
                continue
            copy.attributes["dim"] = ir.IntegerAttr.get(attribute.type, index_dims[attribute.value])
        for old, new in zip(op.operation.results, copy.results, strict=True):
            values[old] = new


def copy_region(op: ir.Operation, new: ir.Operation) -> None:
    """Gives `new` the only block of the first region of `op`, whose body is flat; both have the
    same iteration dims."""
    block = op.regions[0].blocks[0]
    kinds = [argument.type for argument in block.arguments]
    copy = new.regions[0].blocks.append(*kinds, arg_locs=[new.location] * len(kinds))
    looped = "indexing_maps" in op.attributes
    dims = range(maps.num_dims(op.attributes["indexing_maps"]) if looped else 0)
    copy_body(block, copy, range(len(kinds)), {dim: dim for dim in dims})


def erase_dead(ops: Iterable[ir.Operation]) -> None:
    """Erases those of `ops`, and of what they alone used, that have no uses left.

    No handle of an erased op may be used again: a pass calls this once, at its end.
    """
    pending = dict.fromkeys(ops)
    while pending:
        op, _ = pending.popitem()
        if not op.name.startswith(_PURE_PREFIXES) or not len(op.results):
            continue
        if any(next(iter(result.uses), None) is not None for result in op.results):
            continue
        producers = [producer for operand in op.operands if (producer := defining_op(operand))]
        op.erase()
        pending.update(dict.fromkeys(producers))


def erase_unused(ops: Sequence[ir.Operation]) -> None:
    """Erases ops, users first, none of whose results may be in use any more."""
    for op in ops:
        assert not any(users(result) for result in op.results), "an op in use"
        op.erase()


def detached_copy(op: ir.Operation) -> ir.Operation:
    """A copy of `op` that stands nowhere: the way back from a rewrite that may not work out."""
    return op.clone(ip=False).operation


def restore(op: ir.Operation, copy: ir.Operation) -> None:
    """Puts a detached copy in the place of `op`, whose handle must not be used again."""
    ir.InsertionPoint(op).insert(copy)
    op.erase()


def erase(op: ir.Operation) -> None:
    """Erases one op whose results have no uses; its handle must not be used again."""
    op.erase()


def product(sizes: Sequence[Size]) -> Size:
    """Product of sizes: an int, a single dynamic size, or a SizeProduct."""
    static, dynamic = 1, []
    for size in sizes:
        if isinstance(size, int):
            static *= size
        else:
            dynamic += size.factors if isinstance(size, SizeProduct) else [size]
    if not dynamic:
        return static
    factors = ([static] if static != 1 else []) + dynamic
    return dynamic[0] if factors == dynamic[:1] else SizeProduct(tuple(factors))


def static_size(size: Size) -> int:
    """A size that is known to be static, as an int."""
    assert isinstance(size, int), "a dynamic size where a static one was made sure of"
    return size


def size_values(sizes: Iterable[Size]) -> list[ir.Value]:
    """The values that must be defined where `sizes` are computed."""
    found: list[ir.Value] = []
    for size in sizes:
        if isinstance(size, SizeProduct):
            found += size_values(size.factors)
        elif isinstance(size, DynamicSize):
            found.append(size.value)
    return found


def _consecutive(counts: Sequence[int]) -> list[list[int]]:
    """Groups of consecutive dims with the given lengths."""
    groups, start = [], 0
    for count in counts:
        groups.append(list(range(start, start + count)))
        start += count
    return groups


def _attach_units(rank: int, keep: Sequence[int]) -> list[list[int]]:
    """Groups of `rank` dims, one for each dim in `keep`; the others join the one before."""
    starts = [0, *keep[1:], rank] if keep else []
    return [list(range(a, b)) for a, b in itertools.pairwise(starts)]


def next_op(op: ir.Operation) -> ir.Operation:
    """The op behind `op` in its block; a defining op always has one, the terminator."""
    behind = ir.InsertionPoint.after(op).ref_operation
    assert behind is not None, "a terminator defines no value"
    return behind.operation
