"""attn-integer-products: products of integers of 8 bits are those of f16, added up exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from ..ir import (
    Builder,
    Refusal,
    body_names,
    collect,
    defining_op,
    element_type,
    element_type_name,
    erase_dead,
    maps,
    product,
    sizes_of,
)
from ..ir.contractions import ContractionFacts, is_contraction, read_contraction
from ..passes import Pass, PassContext

# f32 holds all integers up to 2^24: as many products of two numbers down to -128 add up exactly.
_MOST_DEPTH = (1 << 24) // (128 * 128)
# What divides the depth of a kernel's products.
_UNIT = 8
# Of fewer rows, or columns, it is memory that takes long: operands in 8 bits are read as they are.
_FEW = 16
# Bytes of the sums that are added up.
_MOST_BYTES = 1 << 31
_SIGNED = ["arith.extsi", "arith.extsi", "arith.muli", "arith.addi", "linalg.yield"]


class IntegerProducts(Pass):
    """Writes a product of signed integers of 8 bits, summed in 32 (`torch._int_mm`), as

        parts[c, m, n] = sum of f16(left[m, c, k]) * f16(right[n, c, k]) in f32
        result[m, n] = sum of i32(parts[c, m, n])

    where each part adds up to 1024 products: the sums are integers below 2^24, which f32 holds.

    IREE 3.13 has no instructions of tensor cores for integers on NVIDIA GPUs: 512 x 22016 x 4096
    and 512 x 4096 x 11008 take an H200 17.1 ms, PyTorch's 0.17 (as here 0.47, with all copies).
    """

    name = "attn-integer-products"
    summary = "NVIDIA GPUs: products of 8-bit integers are those of f16, added up exactly"
    why = "IREE multiplies integers without tensor cores"
    backends = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if not self.is_for(module):
            return False
        replaced: list[ir.Operation] = []
        for op in collect(module, is_contraction, bodies=False):
            facts = read_contraction(op)
            if facts is None or not _is_of_integers(facts):
                continue
            parts = _parts(facts)
            if isinstance(parts, Refusal):
                context.report.record(op, "left", parts)
                continue
            several = f"is {parts} products of f16, added up in 32 bits"
            context.report.record(op, "fitted", several if parts > 1 else "is a product of f16")
            op.results[0].replace_all_uses_with(_made(facts, parts))
            replaced.append(op)
        erase_dead(replaced)
        return bool(replaced)


def _is_of_integers(facts: ContractionFacts) -> bool:
    """Whether it multiplies signed integers of 8 bits and adds up in 32."""
    if [element_type_name(value) for value in facts.op.operands] != ["i8", "i8", "i32"]:
        return False
    if facts.op.name == "linalg.generic":
        return body_names(facts.op) == _SIGNED
    return "cast" not in facts.op.attributes


def _parts(facts: ContractionFacts) -> int | Refusal:
    """Of how many products the sums are made, or why of none."""
    rows, columns = (product([facts.sizes[loop] for loop in loops]) for loops in (facts.m, facts.n))
    for name, size in (("rows", rows), ("columns", columns)):
        if isinstance(size, int) and size <= _FEW:
            return Refusal(f"so few {name} ({size}) take as long as its operands do in memory")
    if len(facts.k) != 1 or not facts.shares_sums or None in facts.result:
        return Refusal("it sums over several dims, or its operands repeat")
    depth = facts.sizes[facts.k[0]]
    if not isinstance(depth, int):
        return Refusal("how many products it adds up is known only at run time")
    if depth <= _MOST_DEPTH:
        return 1
    whole = [
        parts
        for parts in range(2, depth // _UNIT + 1)
        if depth % (parts * _UNIT) == 0 and depth // parts <= _MOST_DEPTH
    ]
    if not whole:
        return Refusal(f"its depth ({depth}) has no parts of up to {_MOST_DEPTH}, multiples of 8")
    known = [size for loop in facts.kept if isinstance(size := facts.sizes[loop], int)]
    if 4 * whole[0] * math.prod(known) > _MOST_BYTES:
        return Refusal(f"the sums of {whole[0]} parts are more than a GPU should hold")
    return whole[0]


def _made(facts: ContractionFacts, parts: int) -> ir.Value:
    """The sums, added to what the product is added to."""
    build, i32 = Builder(facts.op), element_type(facts.op.results[0])
    sums, of_parts = _sums(facts, parts, build), [len(facts.kept)] if parts > 1 else []

    def add(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        part = inner.create("arith.fptosi", [i32], [x[0]]).results[0]
        return [*inner.create("arith.addi", [i32], [part, x[1]]).results]

    loops = tuple(range(len(facts.kept)))
    return build.generic([sums], [facts.op.operands[2]], [(*of_parts, *loops), loops], add)[0]


def _sums(facts: ContractionFacts, parts: int, build: Builder) -> ir.Value:
    """The sums in f32; where there are several parts, one of each in front of the others' dims."""
    (depth,), extra = facts.k, len(facts.sizes)
    operands, positions = list[ir.Value](), list[maps.Positions]()
    for value, dims in zip([*facts.op.operands][:2], (facts.left, facts.right), strict=True):
        whole, places, pieces = _widened(build, value), [*dims], [[x] for x in sizes_of(value)]
        if parts > 1:
            at, size = places.index(depth), facts.sizes[depth]
            assert isinstance(size, int), "parts are of known depths"
            places[at : at + 1], pieces[at] = [extra, depth], [parts, size // parts]
            whole = build.split_dims(whole, pieces)
        operands.append(whole)
        positions.append(tuple(places))
    lead = [extra] if parts > 1 else []
    f32 = ir.F32Type.get(facts.op.context)
    sizes = [*[parts][: len(lead)], *(facts.sizes[loop] for loop in facts.kept)]
    zeros = build.fill(build.splat(0, f32), build.empty(sizes, f32))

    def add(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        one, other = (inner.cast_float(value, f32) for value in x[:2])
        return [inner.addf(x[2], inner.mulf(one, other))]

    return build.generic(operands, [zeros], [*positions, (*lead, *facts.kept)], add)[0]


def _widened(build: Builder, value: ir.Value) -> ir.Value:
    """An operand in f16, in front of a transpose: kernels read it behind one as it lies."""
    turned = defining_op(value, "linalg.transpose")
    if turned is not None:
        order = list(ir.DenseI64ArrayAttr(turned.attributes["permutation"]))
        return build.transpose(_widened(build, turned.operands[0]), order)
    f16 = ir.F16Type.get(value.context)

    def widen(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        return inner.create("arith.sitofp", [f16], [x[0]]).results[0]

    return build.computed(sizes_of(value), f16, widen, value)
