"""Convolutions over an image that is spread over zeros (transposed ones) read the image itself.

With s - 1 zeros between pixels, and `low` zeros before them, the result at s q + r - d sums up the
taps s - 1 - r, 2 s - 1 - r, ... over the pixels from q - c on, for one c and d: a convolution of a
s-th of the taps for each r, whose results lie between one another. Where s does not divide the
kernel, some have a tap of 0 more: a pixel that is infinite or NaN makes NaN beside its window, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    DYNAMIC,
    Builder,
    defining_op,
    element_number,
    element_type,
    fill_builtin_region,
    ranked_shape,
    sizes_of,
)


@dataclass(frozen=True)
class _SpreadDim:
    """A dim of the image: its `pixels`, each `step` of the spread image, from `low` on, and the
    sizes of the kernel and of the result."""

    pixels: int
    step: int
    low: int
    kernel: int
    result: int

    @property
    def taps(self) -> int:
        """Of the kernel, that a result reads."""
        return math.ceil(self.kernel / self.step)

    @property
    def is_apart(self) -> bool:
        """Whether each result reads one pixel, and each pixel makes as many results as steps."""
        whole = self.step == self.kernel and self.low == self.step - 1
        return whole and self.result == self.pixels * self.step

    @property
    def skipped(self) -> int:
        """Results in front of the first."""
        return (self.step - 1 - self.low) % self.step

    @property
    def before(self) -> int:
        """Zeros before the pixels."""
        return (self.skipped + self.low - self.step + 1) // self.step

    @property
    def places(self) -> int:
        """Of a window over the image."""
        return math.ceil((self.skipped + self.result) / self.step)

    @property
    def behind(self) -> int:
        """Zeros behind the pixels; less than 0 where as many pixels are not read."""
        return self.places + self.taps - 1 - self.before - self.pixels


def read_spread(op: ir.Operation) -> tuple[ir.Value, list[_SpreadDim]] | None:
    """What a convolution (batch, channels, ...) with unit steps is made of, if its image is spread
    over zeros, and all sizes but the batch are known."""
    made = defining_op(op.operands[0])
    if made is None or made.name != "tensor.insert_slice":
        return None
    if element_number(made.operands[1]) != 0:
        return None
    image, weights, result = (
        ranked_shape(x) for x in (made.operands[0], op.operands[1], op.operands[2])
    )
    attributes = [list(made.attributes[f"static_{name}"]) for name in ("offsets", "strides")]
    numbers = [*image[1:], *weights, *result[1:], *attributes[0], *attributes[1]]
    known = [size for size in numbers if size is not None and size != DYNAMIC]
    units = (ir.DenseIntElementsAttr(op.attributes[name]) for name in ("strides", "dilations"))
    if len(known) < len(numbers) or any({*unit} != {1} for unit in units):
        return None
    lows, steps = attributes
    if len(image) != len(result) or any(lows[:2]) or {*steps[:2]} != {1}:
        return None
    each = zip(image[2:], steps[2:], lows[2:], weights[2:], result[2:], strict=True)
    return made.operands[0], [_SpreadDim(*(size or 0 for size in sizes)) for sizes in each]


def gather_pixels(op: ir.Operation, image: ir.Value, dims: Sequence[_SpreadDim]) -> ir.Operation:
    """The convolution of the image itself in the place of such a one."""
    build, rank = Builder(op), len(dims)
    start, kind = op.operands[2], element_type(op.operands[2])
    batch, channels = sizes_of(start)[0], ranked_shape(start)[1] or 0
    steps = [dim.step for dim in dims]
    sizes = [batch, channels * math.prod(steps), *(dim.places for dim in dims)]
    zeros = build.fill(build.splat(0, kind), build.empty(sizes, kind))
    names = ("strides", "dilations", "operandSegmentSizes")
    given = [_padded(build, image, dims), _weights(build, op.operands[1], dims), zeros]
    attributes = {name: op.attributes[name] for name in names}
    conv = build.create(op.name, [zeros.type], given, attributes, regions=1)
    fill_builtin_region(conv)
    # (b, f, r..., q...) as (b, f, q, r, ...).
    parts = [[batch], [channels, *steps], *([size] for size in sizes[2:])]
    split = build.split_dims(conv.results[0], parts)
    pairs = [(2 + rank + dim, 2 + dim) for dim in range(rank)]
    turned = build.transpose(split, [0, 1, *(loop for pair in pairs for loop in pair)])
    groups = [[0], [1], *([2 + 2 * dim, 3 + 2 * dim] for dim in range(rank))]
    joined = build.collapse(turned, groups)
    offsets = [0, 0, *(dim.skipped for dim in dims)]
    results = [batch, channels, *(dim.result for dim in dims)]
    if sizes_of(joined)[1:] != tuple(results[1:]):
        joined = build.extract_slice(joined, offsets, results)
    value = build.computed(results, kind, lambda inner, x: inner.addf(x[0], x[1]), joined, start)
    op.results[0].replace_all_uses_with(value)
    return conv


def _padded(build: Builder, image: ir.Value, dims: Sequence[_SpreadDim]) -> ir.Value:
    sizes = list(sizes_of(image))
    kept = [*sizes[:2], *(dim.pixels + min(dim.behind, 0) for dim in dims)]
    if kept[2:] != sizes[2:]:
        image = build.extract_slice(image, [0] * len(kept), kept)
    low = [0, 0, *(dim.before for dim in dims)]
    high = [0, 0, *(max(dim.behind, 0) for dim in dims)]
    if not any((*low, *high)):
        return image
    kind = element_type(image)
    result = [*kept[:2], *(dim.places + dim.taps - 1 for dim in dims)]
    return build.pad(image, build.tensor_type(result, kind), low, high, build.splat(0, kind))


def _weights(build: Builder, weights: ir.Value, dims: Sequence[_SpreadDim]) -> ir.Value:
    """The weights (f, c, ...) as (f r, c, taps)."""
    if all(dim.step == 1 for dim in dims):
        return weights
    kind, sizes = element_type(weights), [size or 0 for size in ranked_shape(weights)]
    whole = [*sizes[:2], *(dim.taps * dim.step for dim in dims)]
    if whole != sizes:
        low, high = [0] * len(whole), [a - b for a, b in zip(whole, sizes, strict=True)]
        padded = build.tensor_type(whole, kind)
        weights = build.pad(weights, padded, low, high, build.splat(0, kind))
    rank = len(dims)
    steps, taps = [dim.step for dim in dims], [dim.taps for dim in dims]

    def tap(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        loops = [inner.loop_index(loop) for loop in range(2 + 2 * rank)]
        places = []
        for step, r, t in zip(steps, loops[1 : 1 + rank], loops[2 + rank :], strict=True):
            last = inner.multiply_add(t, step, inner.constant_index(step - 1))
            places.append(inner.multiply_add(r, -1, last))
        return inner.extract(weights, [loops[0], loops[1 + rank], *places])

    made = build.computed([sizes[0], *steps, sizes[1], *taps], kind, tap)
    return build.collapse(made, [list(range(1 + rank)), *([1 + rank + i] for i in range(1 + rank))])
