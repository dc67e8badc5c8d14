"""New ops on tensors, and those with regions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from iree.compiler import ir

from . import maps, printed
from .attributes import copied_attributes, index_array
from .queries import defining_op
from .scalars import ScalarBuilder
from .sizes import Size, product, sizes_of
from .types import DYNAMIC, element_type, is_ranked_tensor, ranked_shape

OPTIMIZATION_BARRIER = "util.optimization_barrier"


class Builder(ScalarBuilder):
    """`ScalarBuilder` for tensors too, and for ops with regions."""

    def empty(self, sizes: Sequence[Size], element: ir.Type) -> ir.Value:
        dynamic = [self.size(size) for size in sizes if not isinstance(size, int)]
        return self.create("tensor.empty", [self.tensor_type(sizes, element)], dynamic).results[0]

    def transpose(self, value: ir.Value, permutation: Sequence[int]) -> ir.Value:
        """`linalg.transpose`: dim i of the result is dim permutation[i] of `value`."""
        if maps.is_identity(permutation):
            return value
        sizes = sizes_of(value)
        init = self.empty([sizes[dim] for dim in permutation], element_type(value))
        attributes = {"permutation": self.integers(*permutation)}
        op = self.create("linalg.transpose", [init.type], [value, init], attributes, regions=1)
        fill_builtin_region(op)
        return op.results[0]

    def broadcast(self, value: ir.Value, init: ir.Value, dims: Sequence[int]) -> ir.Value:
        """`linalg.broadcast` to the shape of `init`, along its `dims`."""
        attributes = {"dimensions": self.integers(*dims)}
        op = self.create("linalg.broadcast", [init.type], [value, init], attributes, regions=1)
        fill_builtin_region(op)
        return op.results[0]

    def fill(self, scalar: ir.Value, init: ir.Value) -> ir.Value:
        attributes = {"operandSegmentSizes": self.segments(1, 1)}
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
        last = {"dimension": self.integer(len(ranked_shape(value)) - 1)}
        return self.create("linalg.softmax", [init.type], [value, init], last).results[0]

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
        operands = [*inputs, *inits]
        loops = 1 + max((dim for m in positions for dim in m if dim is not None), default=-1)
        kept = {dim for m in positions[len(inputs) :] for dim in m}
        kinds = ["parallel" if loop in kept else "reduction" for loop in range(loops)]
        attributes = {
            "indexing_maps": maps.maps_attribute(loops, positions),
            "iterator_types": printed.iterators(kinds),
            "operandSegmentSizes": self.segments(len(inputs), len(inits)),
        }
        results = [init.type for init in inits]
        op = self.create("linalg.generic", results, operands, attributes, regions=1)
        scalars = [element_type(value) for value in operands]
        block = op.regions[0].blocks.append(*scalars, arg_locs=[self.location] * len(scalars))
        self.fill_block(block, "linalg.yield", lambda inner: body(inner, list(block.arguments)))
        return list(op.results)

    def computed(
        self,
        sizes: Sequence[Size],
        element: ir.Type,
        body: Callable[[Builder, Sequence[ir.Value]], ir.Value],
        *inputs: ir.Value | tuple[ir.Value, maps.Positions],
    ) -> ir.Value:
        """A tensor of these sizes, each element of which `body` makes: a `linalg.generic` that
        reduces nothing. Inputs are read at the element's own place, or where their positions
        say."""
        everywhere = tuple(range(len(sizes)))
        pairs = [one if isinstance(one, tuple) else (one, everywhere) for one in inputs]
        init = self.empty(sizes, element)
        values, positions = (
            [value for value, _ in pairs],
            [*(dims for _, dims in pairs), everywhere],
        )
        return self.generic(values, [init], positions, lambda inner, x: [body(inner, x)])[0]

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
        attributes = {"operandSegmentSizes": self.segments(len(dynamic), 0)}
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

    def count_while(self, condition: Callable[[Builder, ir.Value], ir.Value]) -> ir.Value:
        """`scf.while` that counts from 0 while `condition` of a builder and the count is true; the
        count that it ends with."""
        op = self.create("scf.while", [ir.IndexType.get()], [self.constant_index(0)], regions=2)
        kinds, where = [ir.IndexType.get()], [self.location]
        test, step = (region.blocks.append(*kinds, arg_locs=where) for region in op.regions)
        count = test.arguments[0]
        self.fill_block(test, "scf.condition", lambda inner: [condition(inner, count), count])

        def next_count(inner: Builder) -> list[ir.Value]:
            return [inner.addi(step.arguments[0], inner.constant_index(1))]

        self.fill_block(step, "scf.yield", next_count)
        return op.results[0]

    def loop(
        self,
        bounds: Sequence[ir.Value],
        values: Sequence[ir.Value],
        body: Callable[[Builder, ir.Value, Sequence[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """`scf.for` over `bounds`, low, high and step, that carries `values`; what `body` made
        last of a builder, the index and the values before it."""
        kinds = [value.type for value in values]
        op = self.create("scf.for", kinds, [*bounds, *values], regions=1)
        where = [self.location] * (1 + len(kinds))
        block = op.regions[0].blocks.append(bounds[0].type, *kinds, arg_locs=where)
        index, *carried = block.arguments
        self.fill_block(block, "scf.yield", lambda inner: body(inner, index, carried))
        return list(op.results)

    def fill_block(
        self, block: ir.Block, terminator: str, body: Callable[[Builder], Sequence[ir.Value]]
    ) -> Sequence[ir.Value]:
        """Builds an empty block: the ops that `body` makes, and a terminator for the values that
        it returns, which are returned."""
        point = ir.InsertionPoint(block)
        # A builder stands before an op: this one, until it is known what the terminator takes.
        anchor = ir.Operation.create(terminator, ip=point, loc=self.location)
        inner = Builder(anchor, self.location)
        values = body(inner)
        inner.create(terminator, [], values)
        anchor.erase()
        return values

    def copy(self, op: ir.Operation, operands: Sequence[ir.Value] | None = None) -> ir.Operation:
        """The same op again, here, on the same operands or on those given."""
        copy = op.clone(ip=ir.InsertionPoint(self.anchor)).operation
        for number, operand in enumerate(operands or ()):
            copy.operands[number] = operand
        return copy

    def cast(self, value: ir.Value, sizes: Sequence[Size]) -> ir.Value:
        """`value`, with `tensor.cast` where its type says more or less of these sizes."""
        wanted = self.tensor_type(sizes, element_type(value))
        if value.type == wanted:
            return value
        return self.create("tensor.cast", [wanted], [value]).results[0]

    def tied(self, value: ir.Value, sizes: Sequence[Size]) -> ir.Value:
        """`value`, with a word of its sizes where IREE finds those that are unknown nowhere."""
        dynamic = [self.size(size) for size in sizes if not isinstance(size, int)]
        if not dynamic:
            return value
        return self.create("flow.tensor.tie_shape", [value.type], [value, *dynamic]).results[0]

    def barred(self, value: ir.Value) -> ir.Value:
        """The same value, of which IREE does not know where it is from, but its sizes."""
        own = self.create(OPTIMIZATION_BARRIER, [value.type], [value]).results[0]
        return self.tied(own, sizes_of(value)) if is_ranked_tensor(value) else own

    def collapse(self, value: ir.Value, groups: Sequence[Sequence[int]]) -> ir.Value:
        """`tensor.collapse_shape`; each group lists the dims that become one."""
        if all(len(group) == 1 for group in groups) and len(groups) == len(ranked_shape(value)):
            return value
        sizes = sizes_of(value)
        merged = [product([sizes[dim] for dim in group]) for group in groups]
        result = self.tensor_type(merged, element_type(value))
        source = defining_op(value, "tensor.expand_shape")
        if source is not None:
            inner = source.operands[0]
            if inner.type == result and index_array(source.attributes["reassociation"]) == [
                list(group) for group in groups
            ]:
                return inner
        attributes = {"reassociation": self._reassociation(groups)}
        return self.create("tensor.collapse_shape", [result], [value], attributes).results[0]

    def collapse_memref(
        self, memref: ir.Value, kind: ir.Type, groups: Sequence[Sequence[int]]
    ) -> ir.Value:
        """The memref as one of type `kind`, whose dims are these groups of dims."""
        attributes = {"reassociation": self._reassociation(groups)}
        return self.create("memref.collapse_shape", [kind], [memref], attributes).results[0]

    def expand(
        self, value: ir.Value, groups: Sequence[Sequence[int]], sizes: Sequence[Size]
    ) -> ir.Value:
        """`tensor.expand_shape` to `sizes`; each group lists the new dims of one old dim."""
        if all(len(group) == 1 for group in groups) and len(sizes) == len(ranked_shape(value)):
            return value
        result = self.tensor_type(sizes, element_type(value))
        source = defining_op(value, "tensor.collapse_shape")
        if source is not None:
            inner = source.operands[0]
            same = index_array(source.attributes["reassociation"]) == [list(g) for g in groups]
            if same and inner.type == result and sizes_of(inner) == tuple(sizes):
                return inner
        dynamic = [self.size(size) for size in sizes if not isinstance(size, int)]
        static = [size if isinstance(size, int) else DYNAMIC for size in sizes]
        attributes = {
            "reassociation": self._reassociation(groups),
            "static_output_shape": self.integers(*static),
        }
        operands = [value, *dynamic]
        return self.create("tensor.expand_shape", [result], operands, attributes).results[0]

    def split_dims(self, value: ir.Value, parts: Sequence[Sequence[Size]]) -> ir.Value:
        """Splits dim d of `value` into dims of sizes parts[d]; an empty list drops a unit dim."""
        units = [dim for dim, sizes in enumerate(parts) if not sizes]
        if units:
            keep = [dim for dim, sizes in enumerate(parts) if sizes]
            value = self.collapse(value, _attach_units(len(parts), keep))
        wanted = [list(sizes) for sizes in parts if sizes]
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

    def join_dims(self, value: ir.Value, counts: Sequence[int], sizes: Sequence[Size]) -> ir.Value:
        """Joins counts[d] consecutive dims into dim d of `sizes`; a count of 0 adds a unit dim."""
        value = self.collapse(value, _consecutive([count for count in counts if count]))
        keep = [dim for dim, count in enumerate(counts) if count]
        if len(keep) == len(counts):
            return value
        return self.expand(value, _attach_units(len(counts), keep), sizes)

    def concat(self, values: Sequence[ir.Value], dim: int) -> ir.Value:
        """`tensor.concat`; the joined dim's size is known where those of all values are."""
        shape = ranked_shape(values[0])
        sizes = [ranked_shape(value)[dim] for value in values]
        joined = None if None in sizes else sum(size or 0 for size in sizes)
        whole = [*shape[:dim], joined, *shape[dim + 1 :]]
        known = [DYNAMIC if size is None else size for size in whole]
        kind = self.tensor_type(known, element_type(values[0]))
        return self.create("tensor.concat", [kind], values, {"dim": self.integer(dim)}).results[0]

    def extract_slice(
        self, value: ir.Value, offsets: Sequence[Size], sizes: Sequence[Size]
    ) -> ir.Value:
        """`tensor.extract_slice` with unit strides."""
        kind = self.tensor_type(sizes, element_type(value))
        lists = {"offsets": offsets, "sizes": sizes, "strides": [1] * len(sizes)}
        return self._with_lists("tensor.extract_slice", kind, [value], lists).results[0]

    def insert_slice(
        self, value: ir.Value, destination: ir.Value, offsets: Sequence[Size] | None = None
    ) -> ir.Value:
        """`tensor.insert_slice` at these offsets, or at the start of each dim."""
        sizes = sizes_of(value)
        offsets = offsets or [0] * len(sizes)
        lists = {"offsets": offsets, "sizes": sizes, "strides": [1] * len(sizes)}
        given = [value, destination]
        return self._with_lists("tensor.insert_slice", destination.type, given, lists).results[0]

    def slice_again(self, op: ir.Operation, source: ir.Value, dim: int, low: int) -> ir.Value:
        """The `tensor.extract_slice` op on `source`, which starts at `low` of the old dim."""
        if source.type == op.results[0].type:
            return source
        offsets = list(op.attributes["static_offsets"])
        offsets[dim] -= low
        attributes = copied_attributes(op)
        attributes["static_offsets"] = self.integers(*offsets)
        operands = [source, *list(op.operands)[1:]]
        return self.create(op.name, [op.results[0].type], operands, attributes).results[0]

    def insert_slice_like(
        self, op: ir.Operation, source: ir.Value, destination: ir.Value, order: Sequence[int]
    ) -> ir.Value:
        """The `tensor.insert_slice` op with all its dims in `order`."""
        rest = iter(list(op.operands)[2:])
        lists: dict[str, Sequence[int | ir.Value]] = {}
        for name in ("offsets", "sizes", "strides"):
            given = op.attributes[f"static_{name}"]
            values = [next(rest) if size == DYNAMIC else size for size in given]
            lists[name] = [values[dim] for dim in order]
        given = [source, destination]
        return self._with_lists(op.name, destination.type, given, lists).results[0]

    def pad(
        self,
        source: ir.Value,
        result: ir.Type,
        low: Sequence[int | ir.Value],
        high: Sequence[int | ir.Value],
        padding: ir.Value,
    ) -> ir.Value:
        """`tensor.pad` with the same padding value everywhere."""
        op = self._with_lists("tensor.pad", result, [source], {"low": low, "high": high}, regions=1)
        index = ir.IndexType.get(self.anchor.context)
        block = op.regions[0].blocks.append(
            *([index] * len(low)), arg_locs=[self.location] * len(low)
        )
        ir.Operation.create(
            "tensor.yield", operands=[padding], ip=ir.InsertionPoint(block), loc=self.location
        )
        return op.results[0]

    def _with_lists(
        self,
        name: str,
        result: ir.Type,
        operands: Sequence[ir.Value],
        lists: Mapping[str, Sequence[Size | ir.Value]],
        regions: int = 0,
    ) -> ir.Operation:
        """An op with lists of numbers, as attributes `static_<name>` where they are known and as
        operands where they are not."""
        attributes: dict[str, ir.Attribute] = {}
        given, segments = [*operands], [1] * len(operands)
        for which, sizes in lists.items():
            static = [size if isinstance(size, int) else DYNAMIC for size in sizes]
            attributes[f"static_{which}"] = self.integers(*static)
            unknown = [size for size in sizes if not isinstance(size, int)]
            given += [one if isinstance(one, ir.Value) else self.size(one) for one in unknown]
            segments.append(len(unknown))
        attributes["operandSegmentSizes"] = self.segments(*segments)
        return self.create(name, [result], given, attributes, regions=regions)

    def segments(self, *counts: int) -> ir.Attribute:
        """`operandSegmentSizes`: the numbers of inputs, of outputs and of other operands."""
        return ir.DenseI32ArrayAttr.get(counts, self.anchor.context)

    def _reassociation(self, groups: Sequence[Sequence[int]]) -> ir.ArrayAttr:
        context = self.anchor.context
        rows = [ir.ArrayAttr.get([*map(self.integer, group)], context) for group in groups]
        return ir.ArrayAttr.get(rows, context)


def fill_builtin_region(op: ir.Operation) -> None:
    """Gives a named linalg op its body."""
    from iree.compiler._mlir_libs import _mlirDialectsLinalg

    _mlirDialectsLinalg.fill_builtin_region(op)


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
