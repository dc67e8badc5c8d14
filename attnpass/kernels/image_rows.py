"""Rows of a product that are patches of images, for kernels that read these where they lie."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import BARRIER
from ..ir import below_ops, defining_op, element_bytes, ranked_shape
from ..ir.bodies import (
    body_names,
    index_dim,
    padded_by_number,
    splat_number,
    whole_number,
    yielded,
)
from ..ir.limits import ASSUMED_HEADS
from ..ir.queries import readers_behind

_COLLAPSE = "tensor.collapse_shape"
_BODY = {"linalg.index", "arith.constant", "arith.addi", "arith.muli", "tensor.extract"}
# Channels of a step of the depth, and what divides them; pixels of a box along a dim, at most.
_STEP, _UNIT, _MOST_IN_BOX = 64, 8, 256
# Seconds of a copy, and its bytes a second.
_START, _RATE = 4e-6, 3e12

# The number of each loop in a sum of loops times numbers, and what is added.
_Terms = tuple[dict[int, int], int]
# Of y and x.
_Pair = tuple[int, int]


@dataclass(frozen=True)
class ImageRows:
    """Rows (image, y, x) of depth (tap y, tap x, channel) that are

        images[image, y * step + tap y * gap - low, x * step + tap x * gap - low, channel]

    and 0 beyond an image's sides. `images` lie so, without y where they have one line; `result` is
    how many rows are of an image. `copied` are patches, and the padded images that they are of."""

    images: ir.Value
    channels: int
    size: _Pair
    result: _Pair
    taps: _Pair
    steps: _Pair
    gaps: _Pair
    low: _Pair
    copied: tuple[ir.Value, ...]

    @property
    def depth(self) -> int:
        """With the channels that fill a kernel's steps."""
        return math.prod(self.taps) * math.ceil(self.channels / _STEP) * _STEP

    @property
    def copy_seconds(self) -> float:
        """What the copies take that are saved, a share of them where others read the patches."""
        patches, *padded = self.copied
        moved = _bytes(patches) + sum(2 * _bytes(value) for value in padded)
        readers = [*readers_behind(patches, lambda op: op.name in (BARRIER, _COLLAPSE))]
        return (len(self.copied) * _START + moved / _RATE) / len(readers)

    @property
    def assumed_rows(self) -> int:
        """Rows of an unknown number of images."""
        return ASSUMED_HEADS * math.prod(self.result)

    def numbers(self) -> dict[str, int]:
        """What kernels are told, see hopper/cuda/image.h."""
        pairs = {
            ("image_height", "image_width"): self.size,
            ("height", "width"): self.result,
            ("step_y", "step_x"): self.steps,
            ("gap_y", "gap_x"): self.gaps,
            ("top", "left"): self.low,
        }
        each = (zip(names, pair, strict=True) for names, pair in pairs.items())
        found = {"channels": self.channels, "taps": math.prod(self.taps)}
        return found | {"taps_across": self.taps[1]} | dict(itertools.chain(*each))


def image_rows(rows: ir.Value) -> ImageRows | None:
    """The images that rows (m, k) are patches of, as `attn-conv-products` copies them; None for
    other rows."""
    joined = defining_op(below_ops(rows, BARRIER), _COLLAPSE)
    patches = None if joined is None else defining_op(joined.operands[0], "linalg.generic")
    if joined is None or patches is None or len(patches.operands) > 1:
        return None
    if not {*body_names(patches)} <= {*_BODY, "linalg.yield"}:
        return None
    taken = defining_op(yielded(patches), "tensor.extract")
    places = [] if taken is None else [_terms(value) for value in [*taken.operands][1:]]
    if taken is None or None in places:
        return None
    below = below_ops(taken.operands[0], BARRIER)
    lines = defining_op(below, _COLLAPSE)
    image = below_ops(below if lines is None else lines.operands[0], BARRIER)
    sizes, known = _known(patches.results[0]), _known(image)
    dims = len(known) - 2
    unknown = None in (*ranked_shape(patches.results[0])[1:], *ranked_shape(image)[1:])
    if dims not in (1, 2) or unknown or known[-1] % _UNIT:
        return None
    if [math.prod(sizes[dims + 1 :])] != [*ranked_shape(rows)][1:]:
        return None
    read = _read(places, sizes, known)
    return None if read is None else _of_images(image, patches.results[0], *read)


def box_of(result: _Pair, steps: _Pair, rows: int, blocks: int) -> tuple[int, float] | None:
    """How many pixels of a line a block of so many rows has, so that as few rows of tiles as there
    can be are beyond the sides of a `result`, and the share of the others; None for none. A tile
    has so many blocks, one below the other."""
    (height, width), (down, across) = result, steps
    found: list[tuple[float, int]] = []
    for pixels in range(1, rows + 1):
        lines = rows // pixels * blocks
        if rows % pixels or max(pixels * across, lines * down) > _MOST_IN_BOX:
            continue
        boxes = math.ceil(width / pixels) * math.ceil(height / lines)
        found.append((height * width / (boxes * rows * blocks), pixels))
    share, pixels = max(found, default=(0.0, 0))
    return (pixels, share) if found else None


def _read(
    places: list[_Terms | None], sizes: list[int], image: list[int]
) -> tuple[list[int], list[int], list[int]] | None:
    """Taps, steps and gaps along each dim of pixels; None where patches are taken otherwise."""
    dims, channels = len(image) - 2, image[-1]
    wanted: list[_Terms] = [({0: 1}, 0)]
    taps, steps, gaps = list[int](), list[int](), list[int]()
    # Else taps of a line and their channels are one dim.
    apart = len(places) == len(image)
    if len(sizes) != 1 + 2 * dims + apart or len(places) < len(image) - 1:
        return None
    for dim in range(dims):
        cell, tap, terms = 1 + dim, 1 + dims + dim, places[1 + dim]
        assert terms is not None
        step, gap = (terms[0].get(loop, 0) for loop in (cell, tap))
        if apart or dim + 1 < dims:
            wanted.append(({cell: step, tap: gap}, 0))
            taps.append(sizes[tap])
        else:
            wanted.append(({cell: step, tap: 1}, 0))
            taps.append(sizes[tap] // channels)
            step, rest = divmod(step, channels)
            if rest or sizes[tap] % channels:
                return None
        # Indices of loops of one step may be missing.
        steps.append(step or 1)
        gaps.append(gap or 1)
        if (not step and sizes[cell] > 1) or (not gap and sizes[tap] > 1):
            return None
    if apart:
        wanted.append(({len(sizes) - 1: 1}, 0))
    found = [({loop: by for loop, by in terms.items() if by}, more) for terms, more in wanted]
    return (taps, steps, gaps) if found == places and min(*steps, *gaps) > 0 else None


def _of_images(
    image: ir.Value, patches: ir.Value, taps: list[int], steps: list[int], gaps: list[int]
) -> ImageRows:
    """The same of images that zeros are around: for a kernel they are 0 beyond their sides."""
    dims, copied = len(taps), (patches,)
    low, padded = [0] * dims, padded_by_number(image)
    if padded is not None and splat_number(padded[2]) == 0:
        inner, (lows, highs), _ = padded
        pixels_alone = not any((lows[0], highs[0], lows[-1], highs[-1]))
        if pixels_alone and None not in ranked_shape(inner)[1:]:
            copied, image, low = (patches, image), below_ops(inner, BARRIER), lows[1:-1]
    *size, channels = _known(image)[1:]
    result = _known(patches)[1 : 1 + dims]

    def pair(numbers: list[int], other: int) -> _Pair:
        y, x = numbers if dims == 2 else (other, *numbers)
        return y, x

    return ImageRows(
        images=image,
        channels=channels,
        size=pair(size, 1),
        result=pair(result, 1),
        taps=pair(taps, 1),
        steps=pair(steps, 1),
        gaps=pair(gaps, 1),
        low=pair(low, 0),
        copied=copied,
    )


def _known(value: ir.Value) -> list[int]:
    """Sizes, 1 for unknown ones."""
    return [1 if size is None else size for size in ranked_shape(value)]


def _terms(value: ir.Value) -> _Terms | None:
    """An index that is a sum of loops times numbers, and of a number; None for others."""
    op = defining_op(value)
    if op is None:
        return None
    if op.name == "linalg.index":
        return {index_dim(op): 1}, 0
    number = whole_number(value)
    if number is not None:
        return {}, number
    if op.name not in ("arith.addi", "arith.muli"):
        return None
    left, right = (_terms(operand) for operand in op.operands)
    if left is None or right is None:
        return None
    if op.name == "arith.addi":
        loops = {loop: left[0].get(loop, 0) + right[0].get(loop, 0) for loop in left[0] | right[0]}
        return {loop: by for loop, by in loops.items() if by}, left[1] + right[1]
    (loops, more), (others, by) = (left, right) if left[0] else (right, left)
    scaled = {loop: by * factor for loop, factor in loops.items() if by}
    return None if others else (scaled, more * by)


def _bytes(value: ir.Value) -> float:
    return float(math.prod(_known(value))) * element_bytes(value)
