"""Vector code in f32: arithmetic, loops, reads and writes, made in front of an op."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from iree.compiler import ir

from ..ir import (
    Builder,
    body_of,
    body_ops,
    copied_attributes,
    element_bytes,
    element_type,
    ranked_shape,
)
from ..ir.limits import LOG2_E

# 2^f for f in [-1/2, 1/2]: least relative error, 2e-9, with the first coefficient kept at 1.
_EXP2 = (
    1.0,
    0.6931471824645996,
    0.24022647738456726,
    0.055503323674201965,
    0.00961843691766262,
    0.0013398875016719103,
    0.00015353361959569156,
)
# Adding this to a number of small size rounds it to an integer, which its last bits hold.
_ROUND = 1.5 * 2.0**23
_SECOND_LEVEL = 2
# Sums of a vector of pairs of products.
PAIR_LANES = 16


Body = Callable[["Vectors", ir.Value, list[ir.Value]], Sequence[ir.Value]]


class Vectors:
    """Makes vector code in f32 in front of an op."""

    def __init__(self, build: Builder):
        self.build = build
        context = build.anchor.context
        self.f32 = ir.F32Type.get(context)
        self.i32 = ir.IntegerType.get_signless(32, context)
        self.index = ir.IndexType.get(context)

    def kind(self, *sizes: int, element: ir.Type | None = None) -> ir.VectorType:
        return ir.VectorType.get(sizes, element or self.f32, loc=self.build.location)

    def number(self, value: int) -> ir.Value:
        return self.build.constant_index(value)

    def op(self, name: str, first: ir.Value, *others: ir.Value | float) -> ir.Value:
        """`name` of values of one type; numbers become constants of it."""
        return self.build.apply(name, first, *others)

    def at(self, base: ir.Value, offset: int) -> ir.Value:
        """The index base + offset."""
        return base if not offset else self.build.multiply_add(base, 1, offset)

    def dim(self, tensor: ir.Value, where: int) -> ir.Value:
        """The size of a dim of a tensor."""
        operands = [tensor, self.number(where)]
        return self.build.create("tensor.dim", [self.index], operands).results[0]

    def index_of(self, size: int | ir.Value) -> ir.Value:
        return size if isinstance(size, ir.Value) else self.number(size)

    def loop(
        self,
        low: int | ir.Value,
        high: int | ir.Value,
        step: int,
        values: Sequence[ir.Value],
        body: Body,
    ) -> list[ir.Value]:
        """`scf.for` that carries `values`; what `body` returned last."""
        bounds = self.index_of(low), self.index_of(high), self.number(step)

        def fill(
            inner: Builder, position: ir.Value, carried: Sequence[ir.Value]
        ) -> Sequence[ir.Value]:
            return body(Vectors(inner), position, list(carried))

        return self.build.loop(bounds, values, fill)

    def nest(
        self,
        sizes: Mapping[int, int],
        values: Sequence[ir.Value],
        body: Callable[[Vectors, dict[int, ir.Value], list[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """Loops of these sizes by their numbers, the outermost first, that carry `values` through
        `body`, which gets the index of each."""

        def within(v: Vectors, loops: list[int], at: dict[int, ir.Value], x: list[ir.Value]):
            if not loops:
                return body(v, at, x)
            loop, *inner = loops
            return v.loop(
                0, sizes[loop], 1, x, lambda v, i, x: within(v, inner, {**at, loop: i}, x)
            )

        return list(within(self, list(sizes), {}, list(values)))

    def in_steps(
        self, count: int | ir.Value, step: int, values: Sequence[ir.Value], body: Callable
    ) -> list[ir.Value]:
        """Runs `body(vectors, position, values, size)` over [0, count): as often as it fits
        with `step` as the size, over the rest with 1."""
        values = list(values)
        whole = whole_steps(self, count, step)
        if whole != 0:
            values = self.loop(0, whole, step, values, lambda v, i, x: body(v, i, x, step))
        if step > 1 and not (isinstance(count, int) and count % step == 0):
            values = self.loop(whole, count, 1, values, lambda v, i, x: body(v, i, x, 1))
        return values

    def in_chunks(
        self, count: int | ir.Value, step: int, values: Sequence[ir.Value], body: Callable
    ) -> list[ir.Value]:
        """Like `in_steps`, but with a rest of known size as one step."""
        if not isinstance(count, int) or count % step == 0:
            return self.in_steps(count, step, values, body)
        values = self.in_steps(count - count % step, step, values, body)
        return list(body(self, self.number(count - count % step), values, count % step))

    def sums_over(
        self, count: int, lanes: int, most: int, vectors: int, add: Callable[..., list[ir.Value]]
    ) -> list[ir.Value]:
        """So many vectors of sums over `count` elements. `add(vectors, start, offset, sums, width)`
        adds `width` of them, those `offset` behind `start`: in a step of the loop some times the
        lanes, a power of two up to `most`; then the rest."""
        whole, rest = count - count % lanes, count % lanes
        unrolled = math.gcd(whole // lanes, most)

        def several(v: Vectors, start: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            for i in range(unrolled):
                sums = add(v, start, i * lanes, sums, lanes)
            return sums

        sums = [self.zeros(lanes)] * vectors
        if whole:
            sums = self.loop(0, whole, lanes * unrolled, sums, several)
        if not rest:
            return sums
        more = add(self, self.number(whole), 0, [self.zeros(rest)] * vectors, rest)
        pairs = zip(sums, more, strict=True)
        return [self.op("arith.addf", x, self.widened(y, lanes)) for x, y in pairs]

    def add_outer(
        self,
        factors: Iterable[ir.Value],
        parts: Sequence[ir.Value],
        sums: list[ir.Value],
        add: Callable[[ir.Value, ir.Value, ir.Value], ir.Value] | None = None,
    ) -> list[ir.Value]:
        """Adds the products of each factor with all parts, by `fma` or by another; factors are made
        one by one."""
        for number, factor in enumerate(factors):
            for i, part in enumerate(parts, number * len(parts)):
                sums[i] = (add or self.fma)(factor, part, sums[i])
        return sums

    def scratch(self, *sizes: int, element: ir.Type | None = None) -> ir.Value:
        """A buffer on the stack."""
        kind = ir.MemRefType.get(sizes, element or self.f32, loc=self.build.location)
        segments = self.build.segments(0, 0)
        attributes = {"alignment": self.build.integer(64), "operandSegmentSizes": segments}
        return self.build.create("memref.alloca", [kind], [], attributes).results[0]

    def load(self, buffer: ir.Value, lanes: int, *place: ir.Value) -> ir.Value:
        kind = self.kind(lanes, element=element_type(buffer))
        return self.build.create("vector.load", [kind], [buffer, *place]).results[0]

    def store(self, value: ir.Value, buffer: ir.Value, *place: ir.Value) -> None:
        self.build.create("vector.store", [], [value, buffer, *place])

    def store_one(self, scalar: ir.Value, buffer: ir.Value, *place: ir.Value) -> None:
        self.build.create("memref.store", [], [scalar, buffer, *place])

    def load_one(self, buffer: ir.Value, *place: ir.Value) -> ir.Value:
        kind = element_type(buffer)
        return self.build.create("memref.load", [kind], [buffer, *place]).results[0]

    def wide(self, value: ir.Value) -> ir.Value:
        """A scalar or vector of narrower floats in f32."""
        if element_type(value) == self.f32:
            return value
        kind = value.type
        kind = self.kind(*kind.shape) if isinstance(kind, ir.VectorType) else self.f32
        return self.build.convert("arith.extf", value, kind)

    def insert(self, scalar: ir.Value, tensor: ir.Value, place: Sequence[ir.Value]) -> ir.Value:
        operands = [scalar, tensor, *place]
        return self.build.create("tensor.insert", [tensor.type], operands).results[0]

    def spread(self, scalar: ir.Value, lanes: int) -> ir.Value:
        kind = self.kind(lanes, element=scalar.type)
        return self.build.create("vector.broadcast", [kind], [scalar]).results[0]

    def fma(self, x: ir.Value, y: ir.Value | float, z: ir.Value | float) -> ir.Value:
        """x * y + z, in one instruction where the CPU has it: IREE allows LLVM to contract."""
        return self.op("arith.addf", self.op("arith.mulf", x, y), z)

    def zeros(self, lanes: int) -> ir.Value:
        return self.build.splat(0.0, self.kind(lanes))

    def lanewise(self, op: ir.Operation, lanes: ir.Value) -> ir.Value:
        """What the body of `op`, of one scalar, yields for each lane of a vector of such."""
        (count,) = lanes.type.shape
        values = {body_of(op).arguments[0]: lanes}

        def value_of(scalar: ir.Value) -> ir.Value:
            return values[scalar] if scalar in values else self.spread(scalar, count)

        *steps, last = body_ops(op)
        for step in steps:
            (result,) = step.results
            if step.name == "arith.constant":
                number = step.attributes["value"].value
                values[result] = self.build.splat(number, self.kind(count, element=result.type))
                continue
            kind = self.kind(count, element=result.type)
            operands = [value_of(given) for given in step.operands]
            made = self.build.create(step.name, [kind], operands, copied_attributes(step))
            values[result] = made.results[0]
        return value_of(last.operands[0])

    def larger(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """The larger one, `y` where one is NaN: a single instruction."""
        return self.build.select(self.build.compare_floats("ogt", x, y), x, y)

    def shuffle(self, x: ir.Value, y: ir.Value, order: Sequence[int]) -> ir.Value:
        """The lanes of `x` and then `y` that `order` names."""
        kind, mask = self.kind(len(order), element=element_type(x)), self.build.integers(*order)
        return self.build.create("vector.shuffle", [kind], [x, y], {"mask": mask}).results[0]

    def widened(self, x: ir.Value, lanes: int) -> ir.Value:
        """`x` with zeros behind it."""
        (width,) = x.type.shape
        zeros = self.zeros(width)
        return self.shuffle(x, zeros, [*range(width), *[width] * (lanes - width)])

    def across(self, name: str, x: ir.Value) -> ir.Value:
        """All lanes of `x` combined by an op, or by `larger`, in every lane."""
        (lanes,) = x.type.shape
        distance = 1
        while distance < lanes:
            other = self.shuffle(x, x, [lane ^ distance for lane in range(lanes)])
            x = self.larger(x, other) if name == "larger" else self.op(name, x, other)
            distance *= 2
        return x

    def lane_sums(self, vectors: Sequence[ir.Value]) -> ir.Value:
        """A vector whose lane i holds the sum over the lanes of vectors[i].

        Two vectors are folded into one by adding neighbours, first those of one, then those of
        the other, until there is one; there are at most as many as lanes.
        """
        (lanes,) = vectors[0].type.shape
        found = list(vectors)
        even, odd = range(0, 2 * lanes, 2), range(1, 2 * lanes, 2)
        for _ in range(lanes.bit_length() - 1):
            found += found[-1:] * (len(found) % 2)
            found = [
                self.op("arith.addf", self.shuffle(x, y, even), self.shuffle(x, y, odd))
                for x, y in zip(found[::2], found[1::2], strict=True)
            ]
        return found[0]

    def to(self, name: str, element: ir.Type, x: ir.Value) -> ir.Value:
        """A cast of a vector's elements."""
        kind = self.kind(*x.type.shape, element=element)
        return self.build.create(name, [kind], [x]).results[0]

    def pairs(self, x: ir.Value, y: ir.Value | None) -> ir.Value:
        """Vectors of bf16 as one of i32 with an element of `x` in the lower half of each lane
        and of `y`, or 0, in the upper."""
        i16 = ir.IntegerType.get_signless(16)
        low, *rest = [
            self.to("arith.extui", self.i32, self.to("arith.bitcast", i16, part))
            for part in (x, y)
            if part is not None
        ]
        return self.op("arith.ori", low, self.op("arith.shli", rest[0], 16)) if rest else low

    def add_pair_products(self, x: ir.Value, y: ir.Value, sums: ir.Value) -> ir.Value:
        """`sums`, 16 of them, plus the two products in each lane of vectors of `pairs`: an
        instruction of CPUs that have avx512bf16, which sums up in f32."""
        bf16 = ir.BF16Type.get(self.build.anchor.context)
        kind = self.kind(2 * PAIR_LANES, element=bf16)
        parts = [self.build.create("vector.bitcast", [kind], [part]).results[0] for part in (x, y)]
        attributes = {
            "intrin": self.build.string("llvm.x86.avx512bf16.dpbf16ps.512"),
            "op_bundle_sizes": self.build.segments(),
            "operandSegmentSizes": self.build.segments(3, 0),
        }
        operands = [sums, *parts]
        call = self.build.create("llvm.call_intrinsic", [sums.type], operands, attributes)
        return call.results[0]

    def bits_in_f32(self, x: ir.Value) -> ir.Value:
        """A vector's bits as fewer, wider lanes of f32, or as many: to be moved alone."""
        *outer, last = x.type.shape
        kind = self.kind(*outer, last * element_bytes(x) // 4)
        return self.build.create("vector.bitcast", [kind], [x]).results[0]

    def exp2(self, x: ir.Value) -> ir.Value:
        """2^x for x <= 0, exactly 0 below -127; NaN stays."""
        x = self.larger(self.build.splat(-127.0, x.type), x)
        shifted = self.op("arith.addf", x, _ROUND)
        whole = self.op("arith.subf", shifted, _ROUND)
        part = self.op("arith.subf", x, whole)
        power = self.build.splat(_EXP2[-1], x.type)
        for coefficient in reversed(_EXP2[:-1]):
            power = self.fma(power, part, coefficient)
        integers = self.kind(*x.type.shape, element=self.i32)
        exponent, bits = (
            self.build.convert("arith.bitcast", v, integers) for v in (shifted, power)
        )
        exponent = self.op("arith.shli", exponent, 23)
        bits = self.op("arith.addi", bits, exponent)
        return self.build.convert("arith.bitcast", bits, x.type)

    def read(
        self,
        tensor: ir.Value,
        place: Sequence[ir.Value],
        dims: Sequence[int],
        sizes: Sequence[int],
        inside: Sequence[bool],
    ) -> ir.Value:
        """A vector whose dim i runs along dim dims[i] of `tensor`, zero beyond its end."""
        element = element_type(tensor)
        padding = self.build.constant_number(0, element)
        attributes = self._transfer(tensor, dims, inside, 1, len(place), 1, 0)
        kind, operands = self.kind(*sizes, element=element), [tensor, *place, padding]
        return self.build.create("vector.transfer_read", [kind], operands, attributes).results[0]

    def write(
        self,
        value: ir.Value,
        tensor: ir.Value,
        place: Sequence[ir.Value],
        dims: Sequence[int],
        inside: Sequence[bool],
    ) -> ir.Value:
        """`tensor` with a vector whose dim i runs along dim dims[i], but for what is beyond its
        end."""
        attributes = self._transfer(tensor, dims, inside, 1, 1, len(place), 0)
        kinds, operands = [tensor.type], [value, tensor, *place]
        return self.build.create("vector.transfer_write", kinds, operands, attributes).results[0]

    def buffer(self, tensor: ir.Value, space: ir.Attribute | None) -> ir.Value:
        """The buffer in a memory space that `tensor` is loaded from, or a piece of it; to be
        read only."""
        unknown = ir.ShapedType.get_dynamic_stride_or_offset()
        shape, where = tensor.type.shape, self.build.location
        layout = ir.StridedLayoutAttr.get(unknown, [unknown] * len(shape))
        kind = ir.MemRefType.get(shape, element_type(tensor), layout, space, loc=where)
        only = {"read_only": ir.UnitAttr.get()}
        return self.build.create("bufferization.to_buffer", [kind], [tensor], only).results[0]

    def prefetch(self, buffer: ir.Value, place: Sequence[ir.Value]) -> None:
        """Has a line of memory fetched into the second-level cache. It may lie beyond the end."""
        attributes = {
            "isWrite": ir.BoolAttr.get(False),
            "isDataCache": ir.BoolAttr.get(True),
            "localityHint": self.build.integer(_SECOND_LEVEL, 32),
        }
        self.build.create("memref.prefetch", [], [buffer, *place], attributes)

    def _transfer(
        self, tensor: ir.Value, dims: Sequence[int], inside: Sequence[bool], *segments: int
    ) -> dict[str, ir.Attribute]:
        rank = len(ranked_shape(tensor))
        order = ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(dim) for dim in dims])
        return {
            "permutation_map": ir.AffineMapAttr.get(order),
            "in_bounds": ir.ArrayAttr.get([ir.BoolAttr.get(known) for known in inside]),
            "operandSegmentSizes": self.build.segments(*segments),
        }

    def bias(self, mask: ir.Value) -> ir.Value:
        """What a vector of a mask adds to scores in base 2: minus infinity where a truth value
        is false, or the number itself."""
        kind = self.kind(*mask.type.shape)
        if isinstance(element_type(mask), ir.FloatType):
            return self.op("arith.mulf", self.wide(mask), LOG2_E)
        i1 = ir.IntegerType.get_signless(1)
        if element_type(mask) != i1:
            bits = self.kind(*mask.type.shape, element=i1)
            mask = self.build.convert("arith.trunci", mask, bits)
        values = [self.build.splat(number, kind) for number in (0.0, -math.inf)]
        return self.build.create("arith.select", [kind], [mask, *values]).results[0]

    def transposed(self, value: ir.Value) -> ir.Value:
        rows, columns = value.type.shape
        kind = self.kind(columns, rows, element=element_type(value))
        turned = {"permutation": self.build.integers(1, 0)}
        return self.build.create("vector.transpose", [kind], [value], turned).results[0]

    def stack(self, rows: Sequence[ir.Value]) -> ir.Value:
        """A vector of two dims with these rows."""
        (lanes,) = rows[0].type.shape
        stacked = self.build.splat(0.0, self.kind(len(rows), lanes))
        for number, row in enumerate(rows):
            kinds, place = [stacked.type], {"static_position": self.build.integers(number)}
            stacked = self.build.create("vector.insert", kinds, [row, stacked], place).results[0]
        return stacked

    def row(self, value: ir.Value, number: int) -> ir.Value:
        """Row `number` of a vector of two dims, or that element of a vector."""
        element, shape = element_type(value), value.type.shape
        kind = self.kind(*shape[1:], element=element) if len(shape) > 1 else element
        place = {"static_position": self.build.integers(number)}
        return self.build.create("vector.extract", [kind], [value], place).results[0]


def whole_steps(v: Vectors, count: int | ir.Value, step: int) -> int | ir.Value:
    """The largest multiple of `step` up to `count`."""
    if isinstance(count, int):
        return count - count % step
    if step == 1:
        return count
    times = v.op("arith.divui", count, v.number(step))
    return v.op("arith.muli", times, v.number(step))
