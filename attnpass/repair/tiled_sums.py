"""attn-tiled-sums: all sums of a kernel are tiled as the one that IREE configures, for ROCm."""

from __future__ import annotations

from iree.compiler import ir

from ..codegen.kernel import CONFIGURATION, KernelsPass
from ..ir import (
    collect,
    element_bytes,
    is_ranked_tensor,
    iterator_kinds,
    loop_sizes,
    printed,
    reduces,
    set_attribute,
)
from ..report.records import Report

_PIPELINE, _REDUCTION = "TileAndFuse", "reduction"


class TiledSums(KernelsPass):
    """Gives the sums and maxima of a kernel the tiles of the one that IREE configures.

    Where a thread has a row, as of odd widths and an unknown number, IREE 3.13 tiles one sum of the
    kernel, of two that a norm or a softmax has. It unrolls the other over whole rows of all
    threads: a norm of rows of 1000 of 16 bits, summed in f32, does not end. Tiles of odd sizes
    become single numbers: LLVM ends the process, or does not end, on vectors of five.
    """

    name = "attn-tiled-sums"
    summary = "AMD: each sum of a kernel is tiled"
    mends = "norms of rows of odd width and unknown number do not end for AMD GPUs"
    backends = ("rocm",)

    def change(self, function: ir.Operation, target: str, report: Report) -> bool:
        if _PIPELINE not in printed.pipeline(function.attributes["translation_info"]):
            return False
        count = _tile(function)
        if count:
            what = "its sums have the tiles of one: IREE 3.13 unrolls the others whole"
            report.record(function, "repaired", what, sums=count)
        return count > 0


def _tile(function: ir.Operation) -> int:
    """Tiles the reductions of a kernel that IREE has left untiled, which have the loops of the one
    that has tiles, and makes its odd tiles even; how many were changed."""
    ops = collect(function, lambda op: op.name == "linalg.generic", bodies=False)
    tiled = [op for op in ops if CONFIGURATION in op.attributes]
    if len(tiled) != 1 or not reduces(tiled[0]):
        return 0
    (first,) = tiled
    loops = iterator_kinds(first), loop_sizes(first)
    found = [op for op in ops if op != first and (iterator_kinds(op), loop_sizes(op)) == loops]
    config = first.attributes[CONFIGURATION]
    even = printed.with_numbers(config, {_REDUCTION: _even})
    tiles = {name: printed.numbers(even, name) for name in (_REDUCTION, "thread")}
    is_changed = even != str(config) and any(map(_is_narrow, ops))
    if not all(tiles.values()) or not (found or is_changed):
        return 0
    set_attribute(first, CONFIGURATION, even)
    for op in found:
        set_attribute(op, CONFIGURATION, printed.gpu_lowering(**tiles))
    return len(found) + is_changed


def _is_narrow(op: ir.Operation) -> bool:
    """Whether an op reads or makes a tensor of 16 bits or less."""
    values = [*op.operands, *op.results]
    return any(is_ranked_tensor(value) and element_bytes(value) < 4 for value in values)


def _even(tile: list[int]) -> list[int]:
    """A tile without sizes that are no powers of two: those are one."""
    return [size if not size & (size - 1) else 1 for size in tile]
