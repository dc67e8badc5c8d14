"""attn-sum-scans: running sums are sums of their own, side by side, for GPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from ..ir import (
    Builder,
    body_names,
    body_of,
    body_ops,
    element_type,
    is_used,
    known_attribute,
    sizes_of,
)
from ..passes import OpPass

_SCAN = "iree_linalg_ext.scan"
# Sums of more numbers in all than this are faster one after the other, many side by side.
_MOST = 1 << 20


class SumScans(OpPass):
    """Makes element i of a running sum the sum of the elements 0 to i.

    Experts' capacities and positions of padded rows are running sums (`cumsum`). IREE 3.13 has one
    thread for each, which reads and writes one number after the other. n numbers take n x n / 2
    additions here, of which a GPU does thousands at once.
    """

    name = "attn-sum-scans"
    summary = "GPUs: running sums are made side by side"
    backends = ("cuda", "rocm")
    what = "fitted"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == _SCAN and _adds(op) and not is_used(op.results[1]) and _is_short(op)

    def change(self, op: ir.Operation) -> str:
        value, build = op.operands[0], Builder(op)
        kind, sizes = element_type(value), sizes_of(value)
        dim, loop = _dim(op), len(sizes)
        add = body_names(op)[0]

        def body(inner: Builder, scalars: Sequence[ir.Value]) -> Sequence[ir.Value]:
            is_summed = inner.compare("ule", inner.loop_index(loop), inner.loop_index(dim))
            given = inner.select(is_summed, scalars[0], inner.splat(0, kind))
            return [inner.apply(add, scalars[1], given)]

        own = tuple(range(loop))
        other = (*own[:dim], loop, *own[dim + 1 :])
        init = build.fill(build.splat(0, kind), build.empty(sizes, kind))
        (made,) = build.generic([value], [init], [other, own], body)
        op.results[0].replace_all_uses_with(made)
        return "computes the sum of each place by itself"


def _dim(op: ir.Operation) -> int:
    return ir.IntegerAttr(op.attributes["dimension"]).value


def _adds(op: ir.Operation) -> bool:
    """Whether a scan is a running sum that has the number at each place in it."""
    inclusive = known_attribute(op, "inclusive")
    steps, block = body_ops(op), body_of(op)
    if inclusive is None or not ir.BoolAttr(inclusive).value or len(steps) != 2:
        return False
    sums = steps[0].name in ("arith.addf", "arith.addi")
    return sums and {*steps[0].operands} == {*block.arguments}


def _is_short(op: ir.Operation) -> bool:
    """Whether there are few numbers; batches and lengths known only at run time are."""
    known = [size for size in sizes_of(op.operands[0]) if isinstance(size, int)]
    return math.prod(known) <= _MOST
