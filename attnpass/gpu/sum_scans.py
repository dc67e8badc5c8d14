"""attn-sum-scans: running sums are sums of their own, side by side, for GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import (
    Builder,
    body_names,
    element_type,
    is_float,
    sizes_of,
)
from ..ir.running import running_step, scanned_dim
from ..passes import OpPass

# Rows as short are added up from their start; blocks of rows of unknown length are as long.
_SHORT, _BLOCK = 64, 128


class SumScans(OpPass):
    """Makes element i of a running sum, in blocks of about sqrt(n) elements,

        own[i] = the sum of the elements of its block, up to i
        sum[i] = own[i] + the sum of the last own of each block before

    in f32 for 16 bits. Experts' capacities, positions of padded rows and the likeliest words up to
    a sum are running sums (`cumsum`). IREE 3.13 has one thread for each row, which reads and
    writes one number after the other. Here a thread adds up to 2 sqrt(n) for its element, beside
    all others.
    """

    name = "attn-sum-scans"
    summary = "GPUs: running sums are made side by side"
    why = "IREE adds up a running sum in one thread"
    backends = ("cuda", "rocm")
    what = "fitted"

    def wanted(self, op: ir.Operation) -> bool:
        return running_step(op) in ("arith.addf", "arith.addi")

    def change(self, op: ir.Operation) -> str:
        scan = _Scan(op)
        # IREE 3.13 has no program for some loops that also read what stands beside the sums.
        sums = compute_barrier(scan.build, scan.sums())
        op.results[0].replace_all_uses_with(sums)
        return f"computes the sum of each place by itself, in blocks of {scan.block}"


class _Scan:
    """A running sum along `dim`, of `wide` numbers, with blocks of `block` of them."""

    def __init__(self, op: ir.Operation):
        self.build, self.dim, self.add = Builder(op), scanned_dim(op), body_names(op)[0]
        self.sizes = sizes_of(op.operands[0])
        self.kind = element_type(op.operands[0])
        self.wide = ir.F32Type.get(op.context) if str(self.kind) in ("f16", "bf16") else self.kind
        # In a kernel of what makes them, elements would be made for each that reads them.
        self.given = compute_barrier(self.build, op.operands[0])
        n = self.sizes[self.dim]
        self.is_short = isinstance(n, int) and n <= _SHORT
        self.block = 1 << math.ceil(math.log2(n) / 2) if isinstance(n, int) and n else _BLOCK
        if self.is_short:
            self.block = _SHORT

    def sums(self) -> ir.Value:
        build = self.build
        if self.is_short:
            return build.computed(
                self.sizes, self.kind, lambda inner, x: _as(inner, self._own(inner, x), self.kind)
            )
        self.given = compute_barrier(build, build.computed(self.sizes, self.wide, self._own))
        return build.computed(self.sizes, self.kind, self._whole)

    def _own(self, build: Builder, _: Sequence[ir.Value]) -> ir.Value:
        """The sum from the start of an element's block up to it."""
        place = build.loop_index(self.dim)
        start = build.subi(place, build.apply("arith.remui", place, self.block))
        bounds = [start, build.addi(place, 1)]
        return self._total(build, bounds, lambda _, number: number)

    def _whole(self, build: Builder, _: Sequence[ir.Value]) -> ir.Value:
        """The sum up to an element, of its own and that at the end of each block before its."""
        blocks = build.apply("arith.divui", build.loop_index(self.dim), self.block)
        bounds = [build.constant_index(0), blocks]
        before = self._total(
            build, bounds, lambda b, number: b.multiply_add(number, self.block, self.block - 1)
        )
        # Not as an input: IREE 3.13 joins the dims of a loop with inputs, and has no program.
        own = build.extract(self.given, [build.loop_index(loop) for loop in range(len(self.sizes))])
        return _as(build, build.apply(self.add, before, own), self.kind)

    def _total(
        self,
        build: Builder,
        bounds: Sequence[ir.Value],
        at: Callable[[Builder, ir.Value], ir.Value],
    ) -> ir.Value:
        """The sum of `given` along the row at the places that `at` makes of the numbers between."""
        places = [build.loop_index(loop) for loop in range(len(self.sizes))]

        def step(inner: Builder, number: ir.Value, x: Sequence[ir.Value]) -> list[ir.Value]:
            place = [*places[: self.dim], at(inner, number), *places[self.dim + 1 :]]
            given = _as(inner, inner.extract(self.given, place), self.wide)
            return [inner.apply(self.add, x[0], given)]

        steps = [*bounds, build.constant_index(1)]
        return build.loop(steps, [build.splat(0, self.wide)], step)[0]


def _as(build: Builder, scalar: ir.Value, kind: ir.Type) -> ir.Value:
    return build.cast_float(scalar, kind) if is_float(kind) else scalar
