"""The order of a projection's step: copies and reads of fragments among the products.

Behind its barrier a step starts the copies of a later tile, then reads all fragments, then
computes: the reads wait behind the copies, and the products for both. Here products take one
slice of the depth while the fragments of the next slice are read and copies are started, a few
at a time. LLVM and `ptxas` keep the order of what touches shared memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from iree.compiler import ir

from ...ir import Builder, collect, defining_op, reached

_PRODUCT, _READ = "nvgpu.mma.sync", "nvgpu.ldmatrix"
_COPY, _GROUP = "nvgpu.device_async_copy", "nvgpu.device_async_create_group"
_PURE = ("affine.", "arith.", "vector.", "gpu.thread_id", "ub.")
_MEMORY = ("transfer_", "load", "store", "gather", "scatter")

# An element of a vector: the value that first held it, and its number there.
_Element = tuple[ir.Value, int]


def interleave(function: ir.Operation) -> int:
    """Orders the steps of the loops in a kernel that copy tiles ahead; returns how many."""
    loops = collect(function, lambda op: op.name == "scf.for")
    return sum(_interleave(loop) for loop in loops)


def _interleave(loop: ir.Operation) -> bool:
    body = [view.operation for view in loop.regions[0].blocks[0]]
    barriers = [number for number, op in enumerate(body) if op.name == "gpu.barrier"]
    if not barriers:
        return False
    step = body[barriers[-1] + 1 : -1]
    if not all(_may_move(op) for op in step):
        return False
    slices = _slices(step)
    if len(slices) < 2 or not any(op.name == _COPY for op in step):
        return False
    known_elements: dict[ir.Value, list[_Element]] = {}
    for product in (op for products in slices for op in products):
        for number in (0, 1):
            _take_from_reads(product, number, known_elements)
    body = [view.operation for view in loop.regions[0].blocks[0]]
    for op in _order(body[barriers[-1] + 1 : -1], slices):
        op.move_before(body[-1])
    return True


def _may_move(op: ir.Operation) -> bool:
    """Whether an op may change places with the copies and reads of a step: those use buffers
    of their own each."""
    if op.name in (_PRODUCT, _READ, _COPY, _GROUP):
        return True
    return op.name.startswith(_PURE) and not any(word in op.name for word in _MEMORY)


def _slices(step: Sequence[ir.Operation]) -> list[list[ir.Operation]]:
    """The products of a step by how many others of it they add to."""
    depths: dict[ir.Operation | None, int] = {}
    for op in step:
        if op.name == _PRODUCT:
            depths[op] = depths.get(defining_op(op.operands[2]), -1) + 1
    count = max(depths.values(), default=-1) + 1
    return [[op for op in depths if op and depths[op] == number] for number in range(count)]


def _take_from_reads(
    product: ir.Operation, number: int, known: dict[ir.Value, list[_Element]]
) -> None:
    """Makes a factor of what was read for it alone, where it is made of all that was read."""
    factor = product.operands[number]
    elements = _elements(factor, known)
    width = factor.type.shape[-1]
    rows = [elements[start : start + width] for start in range(0, len(elements), width)]
    for row in rows:
        source, first = row[0]
        op = defining_op(source)
        wanted = [(source, first + offset) for offset in range(width)]
        if op is None or op.name != _READ or row != wanted or first % width:
            return
    build = Builder(product)
    kind = ir.VectorType.get([width], factor.type.element_type, loc=product.location)
    vectors = []
    for row in rows:
        source, first = row[0]
        position = {"static_position": build.integers(first // width)}
        vectors.append(build.create("vector.extract", [kind], [source], position).results[0])
    parts = []
    for vector in vectors:
        parts += build.create("vector.to_elements", [kind.element_type] * width, [vector]).results
    new = build.create("vector.from_elements", [factor.type], parts)
    product.operands[number] = new.results[0]


def _elements(value: ir.Value, known: dict[ir.Value, list[_Element]]) -> list[_Element]:
    """Where the elements of a vector come from, in their order."""
    if value not in known:
        known[value] = list(_traced(value, known))
    return known[value]


def _traced(value: ir.Value, known: dict[ir.Value, list[_Element]]) -> Iterator[_Element]:
    op, shape = defining_op(value), list(value.type.shape)
    count = math.prod(shape)
    name = op.name if op is not None else ""
    if op is not None and name == "vector.shape_cast":
        yield from _elements(op.operands[0], known)
    elif op is not None and name == "vector.extract" and len(op.operands) == 1:
        sizes = op.operands[0].type.shape
        start = 0
        for place, size in zip(op.attributes["static_position"], sizes, strict=False):
            start = start * size + place
        yield from _elements(op.operands[0], known)[start * count : (start + 1) * count]
    elif op is not None and name == "vector.transpose":
        strides = _strides(op.operands[0].type.shape)
        strides = [strides[dim] for dim in op.attributes["permutation"]]
        source = _elements(op.operands[0], known)
        for places in _places(shape):
            yield source[sum(a * b for a, b in zip(places, strides, strict=True))]
    elif op is not None and name == "vector.insert_strided_slice":
        part, whole = (list(_elements(operand, known)) for operand in op.operands)
        offsets = [ir.IntegerAttr(x).value for x in ir.ArrayAttr(op.attributes["offsets"])]
        sizes = list(op.operands[0].type.shape)
        sizes = [1] * (len(shape) - len(sizes)) + sizes
        for element, places in zip(part, _places(sizes), strict=True):
            at = zip(places, offsets, _strides(shape), strict=True)
            whole[sum((place + offset) * stride for place, offset, stride in at)] = element
        yield from whole
    else:
        yield from ((value, number) for number in range(count))


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]


def _places(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The indices of a vector's elements, in their order."""
    return itertools.product(*map(range, shape))


def _order(
    step: Sequence[ir.Operation], slices: Sequence[Sequence[ir.Operation]]
) -> list[ir.Operation]:
    """The ops of a step in their new order."""
    placed: dict[ir.Operation, None] = {}
    inside = set(step)

    def place(op: ir.Operation | None) -> None:
        if op is None or op in placed or op not in inside:
            return
        for operand in op.operands:
            place(defining_op(operand))
        placed[op] = None

    reads = [_reads(products) for products in slices]
    copies = [op for op in step if op.name == _COPY]
    for op in reads[0]:
        place(op)
    # The copies have the second half of the step to arrive.
    shares = len(slices) // 2
    for number, products in enumerate(slices):
        others = [*(reads[number + 1] if number + 1 < len(slices) else [])]
        if number < shares:
            others += _share(copies, number, shares)
        for count, product in enumerate(products):
            for op in _share(others, count, len(products)):
                place(op)
            place(product)
    for op in step:
        place(op)
    return list(placed)


def _share(ops: Sequence[ir.Operation], number: int, count: int) -> Sequence[ir.Operation]:
    """Part `number` of `count` equal ones."""
    return ops[number * len(ops) // count : (number + 1) * len(ops) // count]


def _reads(products: Sequence[ir.Operation]) -> list[ir.Operation]:
    """The reads of fragments that products take as factors, in the order they do."""

    def makers(values: Sequence[ir.Value]) -> list[ir.Operation]:
        found = map(defining_op, reversed(values))
        names = (_READ, "vector.")
        return [op for op in found if op is not None and op.name.startswith(names)]

    factors = [factor for op in products for factor in list(op.operands)[:2]]
    made = reached(makers(factors), lambda op: makers([] if op.name == _READ else [*op.operands]))
    return [op for op in made if op.name == _READ]
