"""attn-vectorize-windows: CPUs: convolutions as vector loops that read the image where it lies.

As `attn-vectorize-products` does of products: tiling, fusion, vectors and buffers of what surrounds
the convolution are IREE's, and a kernel that does not come out as it should is put back.
"""

from __future__ import annotations

from math import prod

from iree.compiler import ir

from ..codegen.kernel import load_of
from ..ir import (
    Builder,
    Refusal,
    collect,
    element_type,
    element_type_name,
    filled_with,
    iterator_kinds,
    next_op,
    reduces,
    replace_operand,
    sizes_of,
    users,
)
from ..machines.cpu.machine import Cpu
from ..machines.cpu.window_tiles import WindowTiles, window_tiles
from ..report.records import Report
from .lowering import LoopPass, in_pieces, lower_kernel, lower_tiles, put_loops, refuse_others
from .window_loops import WindowLoops, WindowSums, misfit, read_convolution

# Vectors of a tile that ops behind a convolution compute at once: IREE writes each of them out, and
# 500 take LLVM minutes.
_MOST_BEHIND = 128


def _begin_at_zero(conv: WindowSums) -> None:
    """Adds what sums begin with, if that is no number but a tensor, behind a convolution."""
    op, start = conv.op, conv.op.operands[2]
    if filled_with(start) is not None or element_type_name(start) != "f32":
        return
    build, behind = Builder(op), Builder(next_op(op))
    sizes, f32 = sizes_of(start), element_type(start)
    op.operands[2] = build.fill(build.splat(0, f32), build.empty(sizes, f32))
    whole = tuple(range(len(sizes)))
    made = behind.generic(
        [op.results[0], start],
        [build.empty(sizes, f32)],
        [whole] * 3,
        lambda inner, scalars: [inner.addf(*scalars[:2])],
    )[0]
    for user in users(op.results[0]):
        if user != made.owner.operation:
            replace_operand(user, op.results[0], made)


def _convolutions(function: ir.Operation) -> list[WindowSums]:
    found = map(read_convolution, collect(function, reduces, bodies=False))
    return [conv for conv in found if conv is not None]


def tiles_of(conv: WindowSums, machine: Cpu) -> WindowTiles | Refusal:
    """How a convolution is cut, or why it is not."""
    sizes = conv.sizes
    channels, lines = (
        prod(sizes[loop] for loop in loops[-1:]) for loops in (conv.channels, conv.lines)
    )
    taps = prod(sizes[loop] for loop in range(len(sizes)) if loop not in conv.result)
    return window_tiles(channels, lines, sizes[conv.pixel], taps, machine.vector_bytes)


def _refusal(function: ir.Operation, conv: WindowSums) -> Refusal | None:
    if why := refuse_others(_structured(function), conv.op):
        return why
    factors = zip(("image", "weights"), conv.op.operands, strict=False)
    computed = [name for name, value in factors if load_of(value) is None]
    return Refusal(f"its {computed[0]} are computed in the kernel") if computed else None


def _structured(function: ir.Operation) -> list[ir.Operation]:
    return collect(
        function, lambda op: bool(iterator_kinds(op)) or op.name.startswith("linalg."), bodies=False
    )


def _piece(conv: WindowSums, tiles: WindowTiles, others: list[ir.Operation]) -> int | Refusal:
    """How many pixels of a line a tile has: all, or a part, of whole vectors if there is such a
    one, where what is behind the sums would have too many at once."""
    pixels, rows = conv.sizes[conv.pixel], tiles.channels * tiles.lines
    most = _MOST_BEHIND * tiles.lanes // rows
    if pixels <= most or all(op == conv.op or op.name == "linalg.fill" for op in others):
        return pixels
    parts = [size for size in range(2 * tiles.lanes, most + 1) if pixels % size == 0]
    if not parts:
        return Refusal(f"its lines of {pixels} pixels are cut into no equal parts")
    return max(parts, key=lambda size: (size % tiles.lanes == 0, size))


def _configuration(conv: WindowSums, tiles: WindowTiles, piece: int) -> str:
    """Tiles and workgroups of some channels and lines of one image: workgroups have whole lines of
    pixels, tiles so many pixels of each."""
    cut = [1 if loop in conv.result else 0 for loop in range(len(conv.sizes))]
    workgroup = list(cut)
    cut[conv.pixel], workgroup[conv.pixel] = piece, conv.sizes[conv.pixel]
    for loops, size, whole in zip(
        (conv.channels, conv.lines), (tiles.channels, tiles.lines), tiles.workgroup, strict=True
    ):
        for loop in loops[-1:]:
            cut[loop], workgroup[loop] = size, whole
    return in_pieces(workgroup, cut)


def _put(function: ir.Operation, tiles: WindowTiles) -> Refusal | None:
    found = _convolutions(function)
    if len(found) != 1:
        return Refusal("IREE made several convolutions of one, or none of known size")
    (conv,) = found
    if why := misfit(conv):
        return why
    rows = [conv.sizes[loop] for loop in conv.result[:-1]]
    if prod(rows) != tiles.channels * tiles.lines:
        return Refusal(f"its tiles have rows of pixels in {rows}")
    put_loops(conv.op, WindowLoops(conv, tiles).emit)
    return None


class VectorizeWindows(LoopPass):
    """Lowers convolutions (batch, channels, lines, pixels) of known sizes, those of channels by
    themselves, too, on llvm-cpu, to loops that read the image where it lies, in f32, f16 and bf16,
    with sums in f32. Pixels of a line stand in the lanes; sums of some channels or lines stay in
    registers over all that is summed up.
    """

    name = "attn-vectorize-windows"
    summary = "CPUs: convolutions as vector loops of our own"
    why = "IREE adds up convolutions on CPUs by short vectors, of which it reads each many times"

    def rewrite(self, function: ir.Operation, target: str, machine: Cpu, report: Report) -> bool:
        if len(_convolutions(function)) != 1:
            return False

        def lower(function: ir.Operation) -> Refusal | None:
            _begin_at_zero(*_convolutions(function))
            (conv,) = _convolutions(function)
            if why := misfit(conv) or _refusal(function, conv):
                return why
            tiles = tiles_of(conv, machine)
            if isinstance(tiles, Refusal):
                return tiles
            others = _structured(function)
            piece = _piece(conv, tiles, others)
            if isinstance(piece, Refusal):
                return piece
            return lower_tiles(
                function,
                conv.op,
                _configuration(conv, tiles, piece),
                lambda function: _put(function, tiles),
                tiles.lanes,
                target,
                others=others,
            )

        return lower_kernel(function, [("pixels", lower)], report)
