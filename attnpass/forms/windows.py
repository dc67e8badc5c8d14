"""Sums and maxima of windows of an image: each element of the result is made of its own taps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import (
    Builder,
    body_names,
    body_ops,
    defining_op,
    element_type,
    filled_with,
    is_elementwise,
    is_float,
    maps,
    ranked_shape,
    sizes_of,
    users,
)
from ..ir.bodies import padded_by_number

POOLS = {
    "linalg.pooling_ncw_max": "arith.maximumf",
    "linalg.pooling_nchw_max": "arith.maximumf",
    "linalg.pooling_ncw_sum": "arith.addf",
    "linalg.pooling_nchw_sum": "arith.addf",
}
DEPTHWISE = "linalg.depthwise_conv_2d_nchw_chw"
# Of more taps a body is longer than it should be.
_MOST_TAPS = 64
_WIDER = "arith.extf"


@dataclass(frozen=True)
class Windows:
    """A pool, or a depthwise convolution with `weights`, over the dims behind (batch, channels) of
    an `image`, which has `low` elements of `padding` in front of it in each: the tap at `i` of an
    element at `y` is what stands at y * step + i * gap - low."""

    op: ir.Operation
    image: ir.Value
    weights: ir.Value | None
    start: ir.Value
    padding: ir.Value | None
    low: tuple[int, ...]
    kernel: tuple[int, ...]
    steps: tuple[int, ...]
    gaps: tuple[int, ...]

    def made(self) -> ir.Value:
        """The result, in one loop of its elements, which reads the image where it lies: padded or
        transposed copies of it would take longer than all else."""
        build = Builder(self.op)
        barred = (value and compute_barrier(build, value) for value in (self.image, self.weights))
        image, weights = barred
        result = self.op.results[0]
        kind = element_type(result)
        sizes, known = ([size or 0 for size in ranked_shape(x)] for x in (result, image))

        def place(inner: Builder, dim: int, tap: int) -> tuple[ir.Value, ir.Value | None]:
            """Where a tap is in the image, and whether it is there, where that is not known."""
            size, step = known[2 + dim], self.steps[dim]
            first = tap * self.gaps[dim] - self.low[dim]
            last = first + (sizes[2 + dim] - 1) * step
            at = inner.multiply_add(inner.loop_index(2 + dim), step, inner.constant_index(first))
            kept = at
            if first < 0:
                kept = inner.apply("arith.maxsi", kept, inner.constant_index(0))
            if last >= size:
                kept = inner.apply("arith.minsi", kept, inner.constant_index(size - 1))
            return kept, None if kept is at else inner.compare("eq", at, kept)

        def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
            loops = [inner.loop_index(loop) for loop in range(len(sizes))]
            biased = isinstance(self.start.type, ir.RankedTensorType)
            total = inner.extract(self.start, [loops[1]]) if biased else self.start
            axes = [
                [place(inner, dim, tap) for tap in range(size)]
                for dim, size in enumerate(self.kernel)
            ]
            for tap in itertools.product(*map(range, self.kernel)):
                found = [axes[dim][at] for dim, at in enumerate(tap)]
                value = inner.extract(image, [*loops[:2], *(at for at, _ in found)])
                tests = [test for _, test in found if test is not None]
                if tests and self.padding is not None:
                    inside = tests[0] if len(tests) == 1 else inner.andi(*tests)
                    value = inner.cast_float(value, self.padding.type)
                    value = inner.select(inside, value, self.padding)
                value = inner.cast_float(value, kind)
                if weights is not None:
                    taps = [loops[1], *map(inner.constant_index, tap)]
                    weight = inner.cast_float(inner.extract(weights, taps), kind)
                    value = inner.mulf(value, weight)
                total = inner.apply(self.combine, total, value)
            return total

        return build.computed(sizes, kind, body)

    @property
    def is_turned(self) -> bool:
        """Whether channels lie last below a transpose, as they do for what follows then."""
        op = defining_op(self.image, "linalg.transpose")
        return op is not None and self.weights is not None

    @property
    def combine(self) -> str:
        return POOLS.get(self.op.name, "arith.addf")


def find(op: ir.Operation) -> Windows | None:
    """The windows that a pool or a depthwise convolution of floats takes; None for other ops, and
    where sizes are unknown, taps are many, or sums begin at other tensors than numbers or a
    bias."""
    if op.name not in (DEPTHWISE, *POOLS):
        return None
    image, window, start = op.operands
    shapes = [ranked_shape(value) for value in (image, window, op.results[0])]
    kinds = [element_type(value) for value in op.operands]
    if any(size is None for shape in shapes for size in shape) or not all(map(is_float, kinds)):
        return None
    weights = window if op.name == DEPTHWISE else None
    number = filled_with(start)
    if weights is not None and number is None:
        number = bias_of(start)
    kernel = tuple(size or 0 for size in shapes[1][-(len(shapes[0]) - 2) :])
    narrow = kinds[2].width < 32 and op.name.endswith("_sum")
    if number is None or math.prod(kernel) > _MOST_TAPS or narrow:
        return None
    low: Sequence[int] = [0] * len(shapes[0])
    image, padding = _narrow(image), None
    if (padded := padded_by_number(image)) is not None:
        image, (low, _), padding = padded
        image = _narrow(image)
    if any(low[:2]) or sizes_of(image)[:2] != sizes_of(op.operands[0])[:2]:
        return None
    steps, gaps = (
        tuple(ir.DenseIntElementsAttr(op.attributes[name])) for name in ("strides", "dilations")
    )
    return Windows(op, image, weights, number, padding, tuple(low[2:]), kernel, steps, gaps)


def end_of(op: ir.Operation) -> ir.Operation:
    """The last of the elementwise ops of one input that follow an op alone: a mean's division, a
    cast."""
    while len(readers := users(op.results[0])) == 1 and _is_of_one(readers[0]):
        op = readers[0]
    return op


def rounding_behind(op: ir.Operation) -> ir.Operation | None:
    """The only reader of what an op makes, if all that it does is to cast to fewer bits."""
    readers = users(op.results[0])
    if len(readers) != 1 or not _is_of_one(readers[0]):
        return None
    return readers[0] if body_names(readers[0]) == ["arith.truncf", "linalg.yield"] else None


def bias_of(start: ir.Value) -> ir.Value | None:
    """The numbers of channels that what a convolution begins with repeats."""
    op = defining_op(start, "linalg.broadcast")
    if op is None or len(ranked_shape(op.operands[0])) != 1:
        return None
    repeated = list(op.attributes["dimensions"])
    return op.operands[0] if 1 not in repeated else None


def _narrow(value: ir.Value) -> ir.Value:
    """What a tensor widens, if it does no more."""
    op = defining_op(value)
    if op is None or not _is_of_one(op) or body_names(op)[:-1] != [_WIDER]:
        return value
    return op.operands[0]


def _is_of_one(op: ir.Operation) -> bool:
    """Whether an op makes each element of that of one tensor at the same place."""
    if op.name != "linalg.generic" or not is_elementwise(op) or len(op.operands) != 2:
        return False
    positions = maps.positions(op)
    same = positions is not None and all(one == tuple(range(len(one))) for one in positions)
    return same and all(one.name.startswith(("arith.", "math.")) for one in body_ops(op)[:-1])
