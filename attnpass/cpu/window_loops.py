"""Convolutions on a CPU that read the image where it lies, with the pixels of a line in the lanes.

Rows of sums, of some channels or lines of the result, and two vectors of pixels beside them, stay
in registers over all channels and taps. Pixels are read once for all rows that they are added to,
and weights, one number each, are spread over vectors. IREE 3.13 makes one line of 8 pixels a step
and reads a vector of weights for each; a product of patches writes each pixel once for each tap.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    Builder,
    defining_op,
    element_type_name,
    filled_with,
    iterator_kinds,
    maps,
    ranked_shape,
)
from ..ir.contractions import adds_products
from ..ir.refusal import Refusal
from ..machines.cpu.window_tiles import STEPS, WindowTiles, pixel_vectors
from .product_loops import sums_products_in_f32
from .vectors import Vectors

# More taps than that are not written out one by one: where rows are lines, which read the same
# lines of the image by other taps, and where each has a channel's weights.
_MOST_TAPS = {True: 64, False: 12}

# Numbers of loops by loop: of a dim that is a sum of loops times numbers.
Factors = Mapping[int, int]


@dataclass(frozen=True)
class WindowSums:
    """A sum of an image's pixels times weights: `image` says of each dim of the image by which
    loops, times which numbers, it is read, `weights` and `result` which loops theirs are; `sizes`
    are those of the loops, 0 for unknown ones."""

    op: ir.Operation
    image: tuple[Factors, ...]
    weights: tuple[int, ...]
    result: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def pixel(self) -> int:
        """The loop along the pixels of a line."""
        return self.result[-1]

    @property
    def step(self) -> int:
        """How far apart the pixels are that neighbours in the result read."""
        return self.image[-1][self.pixel]

    @property
    def taps(self) -> tuple[int, ...]:
        """Summed loops beside one of the result in a dim of the image."""
        return tuple(
            loop for dim in self.image if len(dim) > 1 for loop in dim if loop not in self.result
        )

    @property
    def depth(self) -> tuple[int, ...]:
        """Summed loops that are no taps: channels of the image."""
        found = range(len(self.sizes))
        return tuple(loop for loop in found if loop not in (*self.result, *self.taps))

    @property
    def channels(self) -> tuple[int, ...]:
        """Loops of the result that only weights have."""
        read = {loop for dim in self.image for loop in dim}
        return tuple(loop for loop in self.result if loop not in read)

    @property
    def lines(self) -> tuple[int, ...]:
        """Loops of the result beside taps in a dim of the image, but for the pixels."""
        moved = {loop for dim in self.image if len(dim) > 1 for loop in dim}
        return tuple(loop for loop in self.result[:-1] if loop in moved)


def read_convolution(op: ir.Operation) -> WindowSums | None:
    """The convolution that `op` is; None for another op, and for one whose result has another dim
    innermost than the image."""
    if op.name != "linalg.generic" or not adds_products(op):
        return None
    image, *others = ir.ArrayAttr(op.attributes["indexing_maps"])
    read = [dim for dim in maps.loop_factors(ir.AffineMapAttr(image).value) if dim is not None]
    lies = maps.positions_of(ir.ArrayAttr.get(others))
    if lies is None or len(read) != len(ranked_shape(op.operands[0])) or not lies[1]:
        return None
    weights, result = (tuple(loop for loop in dims if loop is not None) for dims in lies)
    sizes = _sizes(op, (weights, result))
    if sizes is None:
        return None
    found = WindowSums(op, tuple(read), weights, result, sizes)
    return found if _is_plain(found) else None


def _sizes(op: ir.Operation, lies: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Of the loops, 0 for those that are unknown; None if one is no dim of the weights or the
    result, or a dim of these no loop."""
    sizes: dict[int, int] = {}
    for value, dims in zip(list(op.operands)[1:], lies, strict=True):
        shape = ranked_shape(value)
        if len(shape) != len(dims):
            return None
        sizes |= {loop: size or 0 for loop, size in zip(dims, shape, strict=True)}
    loops = len(iterator_kinds(op))
    return tuple(sizes[loop] for loop in range(loops)) if len(sizes) == loops else None


def _is_plain(conv: WindowSums) -> bool:
    """Whether each dim of the image is a loop, or one of the result and a tap, and pixels lie
    innermost."""
    loops = [loop for dim in conv.image for loop in dim]
    if len(set(loops)) != len(loops) or any(len(dim) > 2 for dim in conv.image):
        return False
    pairs = [dim for dim in conv.image if len(dim) == 2]
    if any(sum(loop in conv.result for loop in dim) != 1 for dim in pairs):
        return False
    last = conv.image[-1]
    return len(last) == 2 and conv.pixel in last and conv.pixel not in conv.weights


def misfit(conv: WindowSums) -> Refusal | None:
    """Why a convolution cannot have loops; None if it can."""
    kinds = [element_type_name(value) for value in conv.op.operands]
    if kinds[2] != "f32" or not {*kinds} <= {"f32", "f16", "bf16"}:
        return Refusal(f"its types are {', '.join(kinds)}")
    if not sums_products_in_f32(conv.op):
        return Refusal("it does not sum up products in f32")
    if conv.step not in STEPS:
        return Refusal(f"its pixels are {conv.step} apart")
    images = [loop for loop in conv.result if loop not in conv.weights]
    images = [loop for loop in images if loop not in (*conv.lines, conv.pixel)]
    if not all(size for loop, size in enumerate(conv.sizes) if loop not in images):
        return Refusal("it has sizes that are known only at run time")
    if filled_with(conv.op.operands[2]) is None:
        return Refusal("its sums do not begin at a number")
    return None


def _shared_out(vectors: list[tuple[int, int]], count: int) -> list[list[tuple[int, int]]]:
    """So many groups of vectors, of about as many, those of more first."""
    found: list[list[tuple[int, int]]] = []
    for left in range(count, 0, -1):
        size = -(-(len(vectors) - sum(map(len, found))) // left)
        start = sum(map(len, found))
        found.append(vectors[start : start + size])
    return found


def places(loops: Sequence[int], size: Callable[[int], int]) -> list[dict[int, int]]:
    """The indices of these loops, of the known sizes that `size` gives, by loop."""
    every = itertools.product(*(range(size(loop)) for loop in loops))
    return [dict(zip(loops, each, strict=True)) for each in every]


class WindowLoops:
    """The vector code of a tile of a convolution, of some channels and lines of the result."""

    def __init__(self, conv: WindowSums, tiles: WindowTiles):
        self.conv, self.op, self.tiles = conv, conv.op, tiles
        self.rows = self._places(conv.result[:-1])
        shares = any(conv.sizes[loop] != 1 for loop in conv.lines)
        taps = list(conv.taps)
        while len(self._places(taps[1:])) > 1 and len(self._places(taps)) > _MOST_TAPS[shares]:
            taps.pop(0)
        # Loops, and what is written out in their bodies.
        self.looped = [loop for loop in (*conv.depth, *conv.taps) if loop not in taps]
        self.written = self._places(taps)

    def _places(self, loops: Sequence[int]) -> list[dict[int, int]]:
        return places(loops, self.conv.sizes.__getitem__)

    def emit(self) -> ir.Value:
        """The op's result."""
        v, pixels = Vectors(Builder(self.op)), self.conv.sizes[self.conv.pixel]
        fill = defining_op(self.op.operands[2])
        assert fill is not None, "misfit has seen them"
        output = fill.operands[1]
        vectors = pixel_vectors(pixels, self.tiles.lanes)
        # Of a vector that is longer than a line some lanes are left out.
        self.inside = [vectors[-1][1] <= pixels]
        groups = _shared_out(vectors, -(-len(vectors) // self.tiles.across))
        first, wide = groups[0], sum(width for _, width in groups[0])
        alike = 0
        while groups and groups[0] == [(alike * wide + at, n) for at, n in first]:
            groups.pop(0)
            alike += 1

        def several(v: Vectors, at: ir.Value, x: list[ir.Value]) -> list[ir.Value]:
            return [self.sums(v, [(v.at(at, low), n) for low, n in first], x[0])]

        (output,) = v.loop(0, alike * wide, wide, [output], several)
        for group in groups:
            output = self.sums(v, [(v.number(low), n) for low, n in group], output)
        return output

    def sums(self, v: Vectors, pixels: list[tuple[ir.Value, int]], output: ir.Value) -> ir.Value:
        """Makes vectors of pixels of the result, from some on so many, of all rows."""
        places = [
            [v.number(row[loop]) for loop in self.conv.result[:-1]] + [at]
            for row in self.rows
            for at, _ in pixels
        ]
        number = filled_with(self.op.operands[2])
        assert number is not None, "misfit has seen it"
        start = [v.spread(number, width) for _, width in pixels] * len(self.rows)
        sizes = {loop: self.conv.sizes[loop] for loop in self.looped}
        sums = v.nest(sizes, start, lambda v, at, sums: self.taps(v, at, pixels, sums))
        for place, value in zip(places, sums, strict=True):
            output = v.write(value, output, place, [len(place) - 1], self.inside)
        return output

    def taps(
        self,
        v: Vectors,
        at: Mapping[int, ir.Value],
        pixels: list[tuple[ir.Value, int]],
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """Adds the products of taps, by the pixels that they read."""
        reads: dict[tuple[int, ...], list[tuple[int, dict[int, int]]]] = {}
        for (number, row), tap in itertools.product(enumerate(self.rows), self.written):
            known = row | tap
            offsets = tuple(
                sum(factor * known.get(loop, 0) for loop, factor in dim.items())
                for dim in self.conv.image
            )
            reads.setdefault(offsets, []).append((number, known))
        for offsets in sorted(reads):
            vectors = [self.pixels(v, at, offsets, *each) for each in pixels]
            for number, known in reads[offsets]:
                weight = v.wide(self.weight(v, at, known))
                for i, vector in enumerate(vectors):
                    place = number * len(vectors) + i
                    factor = v.spread(weight, vector.type.shape[0])
                    sums[place] = v.fma(vector, factor, sums[place])
        return sums

    def weight(self, v: Vectors, at: Mapping[int, ir.Value], known: dict[int, int]) -> ir.Value:
        place = [
            at[loop] if loop in at else v.number(known.get(loop, 0)) for loop in self.conv.weights
        ]
        return v.build.extract(self.op.operands[1], place)

    def pixels(
        self,
        v: Vectors,
        at: Mapping[int, ir.Value],
        offsets: tuple[int, ...],
        pixel: ir.Value,
        width: int,
    ) -> ir.Value:
        """So many pixels of a line, `step` apart, in f32."""
        image, step = self.op.operands[0], self.conv.step
        values = {**at, self.conv.pixel: pixel}
        place = []
        for dim, offset in zip(self.conv.image, offsets, strict=True):
            moved = v.number(offset)
            for loop, factor in dim.items():
                if loop in values:
                    moved = v.build.multiply_add(values[loop], factor, moved)
            place.append(moved)
        last = len(place) - 1
        if step == 1:
            return v.wide(v.read(image, place, [last], [width], self.inside))
        # Behind the last pixel a line may end: but for the first, what stands in front is read.
        before = min(offsets[-1], 1)
        place[-1] = v.at(place[-1], -before)
        both = v.wide(v.read(image, place, [last], [step * width], self.inside))
        return v.shuffle(both, both, range(before, step * width, step))
