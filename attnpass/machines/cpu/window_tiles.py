"""Which convolutions on a CPU become vector loops that read the image where it lies, and how they
are cut.

Pixels of a line stand in the lanes, so a line should fill whole vectors: a rest of it goes by
narrower ones. Measured with AVX-512 and AVX2 (see docs/notes/cpu.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Refusal
from .workgroups import divisors

# Rows of sums, each of a channel or a line of the result, that go together at most, and all sums,
# of some vectors of pixels beside them, by bytes of a register.
MOST_ROWS, SUMS = {64: 8, 32: 6}, {64: 16, 32: 12}
MOST_VECTORS = 8
# The least part of a line's vectors that pixels fill.
LEAST_FILLED, LEAST_LANES, MOSTLY = 0.6, 8, 0.75
# How far apart the pixels of neighbours may be, and channels of an image whose every second pixel
# is read, of which a product has few to sum up.
STEPS, FEW_CHANNELS = (1, 2), 4
# Multiplications of a workgroup, about.
WORKGROUP = 1 << 22


@dataclass(frozen=True)
class WindowTiles:
    """How a convolution is cut: `lanes` of a vector, `channels` and `lines` of a tile, of whole
    lines of pixels, of which `across` vectors go together, and those of a workgroup."""

    lanes: int
    channels: int
    lines: int
    across: int
    workgroup: tuple[int, int]


def filled(length: int, lanes: int) -> float:
    """The part of the lanes that a line fills, of vectors of 32 bytes at least."""
    return length / sum(max(width, LEAST_LANES) for _, width in pixel_vectors(length, lanes))


def pixel_vectors(length: int, lanes: int) -> list[tuple[int, int]]:
    """Where the vectors of a line of pixels begin, and their lanes: one that is longer than the
    line where that fills most of it, else those of `line_vectors`."""
    width = 1 << (length - 1).bit_length()
    if width <= lanes and length >= MOSTLY * width:
        return [(0, width)]
    return line_vectors(length, lanes)


def line_vectors(length: int, lanes: int) -> list[tuple[int, int]]:
    """Where the vectors of a line begin, and their lanes: whole ones, and for the rest a narrower
    one, which begins before it if that is no power of two."""
    lanes = min(lanes, 1 << length.bit_length() - 1)
    whole, rest = length - length % lanes, length % lanes
    found = [(first, lanes) for first in range(0, whole, lanes)]
    width = 1 << (rest - 1).bit_length()
    return [*found, (length - width, width)] if rest else found


def window_tiles(
    channels: int, lines: int, pixels: int, taps: int, register_bytes: int
) -> WindowTiles | Refusal:
    """The tiles for a convolution with so many channels of its result that read the same pixels (1
    for a depthwise one), lines of `pixels`, and `taps` that are summed up for each of these, on
    vector registers of so many bytes; or why it gets no loops."""
    if register_bytes not in MOST_ROWS:
        return Refusal(f"nothing was measured for vector registers of {register_bytes} bytes")
    lanes, most = register_bytes // 4, MOST_ROWS[register_bytes]
    if len(pixel_vectors(pixels, lanes)) == 1:
        # Lines share the pixels that they read, and a channel's weights.
        most = SUMS[register_bytes]
        deep = max(size for size in divisors(lines) if size <= most)
        high = max(size for size in divisors(channels) if size * deep <= most)
    else:
        high = max(size for size in divisors(channels) if size <= most)
        deep = max(size for size in divisors(lines) if size * high <= most)
    if filled(pixels, lanes) < LEAST_FILLED:
        return Refusal(f"lines of {pixels} pixels fill no vectors")
    across = min(SUMS[register_bytes] // (high * deep), MOST_VECTORS)
    workgroup = _workgroup(channels, lines, pixels * taps, high, deep)
    return WindowTiles(lanes, high, deep, across, workgroup)


def _workgroup(channels: int, lines: int, work: int, high: int, deep: int) -> tuple[int, int]:
    """Channels and lines of a workgroup: all channels, which read the same pixels, of some lines,
    or of as few as are enough work."""
    wide = _enough(channels, high, deep * work)
    return wide, _enough(lines, deep, wide * work)


def _enough(count: int, step: int, work: int) -> int:
    """The fewest of `count`, whole steps, that are enough work of a workgroup, or all."""
    whole = [size for size in divisors(count) if size % step == 0]
    return next((size for size in whole if size * work >= WORKGROUP), count)
