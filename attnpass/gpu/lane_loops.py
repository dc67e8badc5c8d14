"""Loops of a kernel as each of its threads does them, in front of what IREE makes of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence

from iree.compiler import ir

from ..ir import DYNAMIC, Builder, below_ops, defining_op, element_bytes
from .lowered.async_tiles import is_assumed_multiple
from .lowered.threads import dimension_x

# Threads of a workgroup of such loops, and bytes that one reads or writes at once, at most.
THREADS, VECTOR_BYTES = 256, 16
# Bytes that a place in a buffer may be a multiple of: those of a vector, and less.
_UNITS = (16, 8, 4, 2, 1)
_SAME_START = ("memref.assume_alignment", "memref.collapse_shape", "memref.expand_shape")


class LaneLoops:
    """Builds what each thread of a workgroup does, in numbers of 32 bits."""

    def __init__(self, build: Builder, workgroup: ir.Value):
        self.build, self.i32 = build, ir.IntegerType.get_signless(32)
        self.index = ir.IndexType.get()
        self.workgroup = build.convert("arith.index_castui", workgroup, self.i32)
        dimension = {"dimension": dimension_x(build.anchor.context)}
        thread = build.create("gpu.thread_id", [self.index], [], dimension).results[0]
        self.thread = build.convert("arith.index_castui", thread, self.i32)

    def inside(self, build: Builder) -> LaneLoops:
        """The same thread in a branch or a turn of a loop, which `build` builds."""
        inner = copy.copy(self)
        inner.build = build
        return inner

    def number(self, number: int) -> ir.Value:
        return self.build.constant(ir.IntegerAttr.get(self.i32, number), self.i32)

    def add(self, one: ir.Value, other: ir.Value) -> ir.Value:
        return self.build.addi(one, other)

    def times(self, one: ir.Value, number: int) -> ir.Value:
        return self.build.muli(one, self.number(number))

    def least(self, one: ir.Value, other: ir.Value) -> ir.Value:
        return self.build.apply("arith.minui", one, other)

    def below(self, one: ir.Value, number: int) -> ir.Value:
        return self.less(one, self.number(number))

    def less(self, one: ir.Value, other: ir.Value) -> ir.Value:
        return self.build.compare("ult", one, other)

    def first(self, part: int) -> ir.Value:
        """This thread's place in its workgroup's part, of so many elements, of all."""
        return self.add(self.times(self.workgroup, part), self.thread)

    def places(self, count: int) -> Iterator[ir.Value]:
        """So many places of this thread, each beside those of the workgroup's other threads."""
        first = self.first(THREADS * count)
        for at in range(count):
            yield self.add(first, self.number(at * THREADS))

    def within(self, place: ir.Value, total: int, part: int) -> ir.Value:
        """A place, or the last of `total` elements where that lies behind them: in none of `part`
        that divide them."""
        return place if total % part == 0 else self.least(place, self.number(total - 1))

    def is_within(self, place: ir.Value, total: int, part: int) -> ir.Value | None:
        """Whether a place lies in front of the end of `total` elements; None where each of the
        `part` that divide them does."""
        return None if total % part == 0 else self.below(place, total)

    def to_number(self, size: int | ir.Value) -> int | ir.Value:
        """A number that is known, or 32 bits of an index."""
        if isinstance(size, int):
            return size
        return self.build.convert("arith.index_castui", size, self.i32)

    def both(self, one: ir.Value | None, other: ir.Value | None) -> ir.Value | None:
        if one is None or other is None:
            return other if one is None else one
        return self.build.andi(one, other)

    def split(self, flat: ir.Value, sizes: Sequence[int | ir.Value]) -> list[ir.Value]:
        """The indices of element `flat` of a tensor of these sizes."""
        found: list[ir.Value] = []
        for size in reversed(sizes[1:]):
            number = self.number(size) if isinstance(size, int) else size
            found.append(self.build.apply("arith.remui", flat, number))
            flat = self.build.apply("arith.divui", flat, number)
        return [flat, *reversed(found)]

    def get(self, memref: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
        kind = ir.MemRefType(memref.type).element_type
        operands = [memref, *self._indices(indices)]
        return self.build.create("memref.load", [kind], operands).results[0]

    def put(self, value: ir.Value, memref: ir.Value, indices: Sequence[ir.Value]) -> None:
        self.build.create("memref.store", [], [value, memref, *self._indices(indices)])

    def vector(self, element: ir.Type, width: int) -> ir.Type:
        return ir.VectorType.get([width], element, loc=self.build.location)

    def load_vector(self, memref: ir.Value, indices: Sequence[ir.Value], width: int) -> ir.Value:
        """So many neighbours, aligned as their number wants it."""
        kind = self.vector(ir.MemRefType(memref.type).element_type, width)
        operands = [memref, *self._indices(indices)]
        return self.build.create("vector.load", [kind], operands, _aligned(kind)).results[0]

    def store_vector(
        self,
        value: ir.Value,
        memref: ir.Value,
        indices: Sequence[ir.Value],
        inside: ir.Value | None,
    ) -> None:
        operands = [value, memref, *self._indices(indices)]
        self._store("vector.store", operands, inside, _aligned(value.type))

    def store(
        self,
        value: ir.Value,
        memref: ir.Value,
        indices: Sequence[ir.Value],
        inside: ir.Value | None,
    ) -> None:
        """Stores a value, where `inside` is true if that is given."""
        self._store("memref.store", [value, memref, *self._indices(indices)], inside)

    def _store(
        self,
        name: str,
        operands: Sequence[ir.Value],
        inside: ir.Value | None,
        attributes: dict[str, ir.Attribute] | None = None,
    ) -> None:
        if inside is None:
            self.build.create(name, [], operands, attributes)
            return

        def then(inner: Builder) -> list[ir.Value]:
            inner.create(name, [], operands, attributes)
            return []

        self.build.conditional(inside, [], then, lambda _: [])

    def shared(self, rows: int, columns: int, kind: ir.Type) -> ir.Value:
        text = f"memref<{rows}x{columns}x{kind}, #gpu.address_space<workgroup>>"
        made = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])}
        return self.build.create("memref.alloc", [ir.Type.parse(text)], [], made).results[0]

    def elements(self, vector: ir.Value) -> list[ir.Value]:
        kind = ir.VectorType(vector.type)
        kinds = [kind.element_type] * kind.shape[0]
        return list(self.build.create("vector.to_elements", kinds, [vector]).results)

    def over_lanes(self, combine: str, value: ir.Value, count: int) -> ir.Value:
        """What an op (`arith.addf`, say) makes of the values of `count` lanes side by side, in each
        of them."""
        name = combine.removeprefix("arith.")
        name = "add" if name in ("addf", "addi") else name
        size = ir.IntegerAttr.get(self.i32, count)
        attributes = {
            "op": ir.Attribute.parse(f"#gpu<all_reduce_op<{name}>>"),
            "uniform": ir.UnitAttr.get(),
            "cluster_size": size,
        }
        return self.build.create("gpu.subgroup_reduce", [value.type], [value], attributes).results[
            0
        ]

    def barrier(self) -> None:
        self.build.create("gpu.barrier", [], [])

    def _indices(self, indices: Sequence[ir.Value]) -> list[ir.Value]:
        return [one if one.type == self.index else self.as_index(one) for one in indices]

    def as_index(self, number: ir.Value) -> ir.Value:
        return self.build.convert("arith.index_castui", number, self.index)


def size_value(memref: ir.Value, dim: int) -> ir.Value | None:
    """The value of a memref's unknown size, as what makes the memref has it; None for other ops."""
    op = defining_op(below_ops(memref, "memref.assume_alignment"))
    shape = ir.MemRefType(memref.type).shape
    if op is None or shape[dim] != DYNAMIC:
        return None
    if op.name not in ("hal.interface.binding.subspan", "memref.expand_shape"):
        return None
    behind = sum(size == DYNAMIC for size in shape[dim:])
    return op.operands[len(op.operands) - behind]


def start_of(memref: ir.Value) -> int | None:
    """A number of elements that a memref begins at a whole multiple of; None where none is known.
    Buffers begin at vectors, and what is bound of them at any byte: a part of a concat of dim 0."""
    memref = below_ops(memref, *_SAME_START)
    op = defining_op(memref)
    if op is None:
        return 0
    if op.name == "hal.interface.binding.subspan":
        known = [unit for unit in _UNITS if is_assumed_multiple(op.operands[0], unit)]
        return max(known, default=0) // element_bytes(memref) or None
    if op.name != "memref.subview":
        return None
    offsets, below = list(op.attributes["static_offsets"]), op.operands[0]
    strides, _ = ir.MemRefType(below.type).get_strides_and_offset()
    first = start_of(below)
    if first is None or any(each == DYNAMIC for each in (*offsets, *strides)):
        return None
    return math.gcd(first, sum(at * stride for at, stride in zip(offsets, strides, strict=True)))


def _aligned(kind: ir.Type) -> dict[str, ir.Attribute]:
    """What says that a vector of this type lies at a multiple of its bytes, or of those of the
    longest that a thread reads at once."""
    vector = ir.VectorType(kind)
    size = min(vector.shape[0] * vector.element_type.width // 8, VECTOR_BYTES)
    return {"alignment": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), size)}


def emit(before: ir.Operation, count: int | ir.Value, body: Callable[[LaneLoops], None]) -> None:
    """So many workgroups that do what `body` builds, in front of an op."""
    build = Builder(before)
    number, unknown = ir.DenseI64ArrayAttr.get, [] if isinstance(count, int) else [count]
    attributes = {
        "staticLowerBound": number([0]),
        "staticUpperBound": number([count if isinstance(count, int) else DYNAMIC]),
        "staticStep": number([1]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, len(unknown), 0, 0]),
        "mapping": ir.Attribute.parse("[#iree_codegen.workgroup_mapping<x>]"),
    }
    loop = build.create("scf.forall", [], unknown, attributes, regions=1)
    block = loop.regions[0].blocks.append(ir.IndexType.get(), arg_locs=[build.location])
    end = build.create("scf.forall.in_parallel", [], [], regions=1)
    end.regions[0].blocks.append()
    end.detach_from_parent()
    block.append(end)
    body(LaneLoops(Builder(end), block.arguments[0]))
