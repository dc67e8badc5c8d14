"""Whole numbers in the order of what a sort compares, for CPUs.

What says which of two floats comes first, of which one may be NaN, is six comparisons joined bit by
bit: LLVM packs 64 of those into bytes, and unpacks them one by one. Of whole numbers it is two, and
a subtraction.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..ir import Builder, Size, element_type, sizes_of

_INDEX = "arith.index_cast"


def falling_keys(build: Builder, value: ir.Value, rising: bool) -> ir.Value:
    """For each element a signed whole number, larger for what stands in front: for a larger
    element, or, if order is `rising`, a smaller one. NaN is larger than all numbers, and zeros are
    equal. Floats, of up to 64 bits, have no key that is the least of its type."""
    kind = element_type(value)
    bits = kind.width if isinstance(kind, ir.IntegerType) else max(kind.width, 32)
    whole = ir.IntegerType.get_signless(bits, value.context)
    most = 2 ** (bits - 1) - 1

    def key(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        made = x[0]
        if isinstance(kind, ir.FloatType):
            wide = ir.F64Type.get() if bits == 64 else ir.F32Type.get()
            number = inner.cast_float(x[0], wide)
            made = inner.convert("arith.bitcast", number, whole)
            # Of negative numbers the bits below the sign count down.
            sign = inner.apply("arith.shrsi", made, bits - 1)
            made = inner.xori(made, inner.andi(sign, inner.splat(most, whole)))
            zero, nan = (inner.splat(each, whole) for each in (0, most - 1))
            made = inner.select(inner.compare_floats("oeq", number, 0.0), zero, made)
            made = inner.select(inner.compare_floats("uno", number, number), nan, made)
        return inner.xori(made, inner.splat(-1, whole)) if rising else made

    dims = tuple(range(len(sizes_of(value))))
    return build.computed(sizes_of(value), whole, key, (value, dims))


def ranks_of_keys(
    build: Builder, keys: ir.Value, dim: int, numbers: ir.Value | None = None, *, any_key: bool
) -> ir.Value:
    """For each of `keys` along `dim` how many stand in front of it (i32), of equal ones those that
    have less `numbers`: their places, if they have none. Unless there may be `any_key`, none is the
    least of its type."""
    dims = tuple(range(len(sizes_of(keys))))
    last = len(dims)
    other = (*dims[:dim], last, *dims[dim + 1 :])
    i32 = ir.IntegerType.get_signless(32, keys.context)
    given = [keys] if numbers is None else [keys, numbers]

    def body(inner: Builder, x: Sequence[ir.Value]) -> Sequence[ir.Value]:
        own, others = x[0], x[len(given)]
        if numbers is None:
            places = (inner.convert(_INDEX, inner.loop_index(at), i32) for at in (last, dim))
            earlier = inner.compare("slt", *places)
        else:
            earlier = inner.compare("slt", x[len(given) + 1], x[1])
        if any_key:
            orders = (inner.compare(order, others, own) for order in ("sge", "sgt"))
            counts = inner.select(earlier, *orders)
        else:
            less = inner.subi(own, inner.convert("arith.extui", earlier, own.type))
            counts = inner.compare("sgt", others, less)
        return [inner.addi(x[-1], inner.convert("arith.extui", counts, i32))]

    sizes: list[Size] = list(sizes_of(keys))
    init = build.fill(build.splat(0, i32), build.empty(sizes, i32))
    reads = [*[dims] * len(given), *[other] * len(given), dims]
    return build.generic([*given, *given], [init], reads, body)[0]
