"""Launches a decode kernel and the one that combines its partial results.

The tiles of keys of all heads stand in one line, which the programs cut into equal pieces;
the arithmetic of that is said in hopper_decode.py and done here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iree.compiler import ir

from ...ir import Builder, Size, product
from .extern import launch
from .manifest import Kernel, load_kernels

if TYPE_CHECKING:
    from .offers import KernelPlan


def launch_decode(
    build: Builder,
    plan: KernelPlan,
    numbers: dict[str, Size | ir.Value],
    tensors: Sequence[ir.Value],
    result: tuple[Sequence[Size], ir.Type],
    elsewhere: bool,
) -> ir.Value:
    """Attention of the heads, rows, group and keys that `numbers` says; the result, whose
    sizes and element type are given; `elsewhere` as in `launch`."""
    kernel, compute = plan.kernel, build.size_op
    rows, keys = _size(numbers["rows"]), _size(numbers["keys"])
    heads, group = _size(numbers["heads"]), _size(numbers["group"])
    own_rows = product([group, rows])
    blocks = compute("ceildivui", own_rows, kernel.rows_per_workgroup)
    start, end = 0, keys
    if plan.mask.kind in ("causal", "window"):
        end = compute("minui", keys, compute("addi", rows, plan.mask.diagonal))
    if plan.mask.kind == "window":
        # Row 0 sees no key before -behind, and later rows none before it either.
        start = max(0, -plan.mask.behind) // kernel.keys_per_tile
    last = compute("ceildivui", end, kernel.keys_per_tile)
    # A program may find no key that is seen; there is one tile at least.
    tiles = compute("subi", compute("maxui", last, start + 1), start)
    units = product([heads, blocks])
    pieces = compute("ceildivui", product([units, tiles]), plan.programs)
    # A unit's tiles lie in so many pieces at most: one, and one more for each whole or begun
    # piece that the tiles after the first can fill.
    slots = compute("addi", compute("ceildivui", compute("subi", tiles, 1), pieces), 1)
    numbers = {**numbers, "blocks": blocks, "first_tile": start, "tiles": tiles}
    numbers |= {"per_program": pieces, "slots": slots}
    f32, height = ir.F32Type.get(), kernel.rows_per_workgroup
    partial = [
        ([units, slots, height, kernel.head_dims[1]], f32),
        ([units, slots, 2, height], f32),
    ]
    found = launch(build, kernel, (plan.programs, 1), numbers, tensors, partial, elsewhere)[:2]
    combine = _combine(kernel)
    parts = combine.head_dims[1] // combine.columns_per_workgroup
    workgroups = (own_rows, product([heads, parts]))
    numbers["rows"] = own_rows
    return launch(build, combine, workgroups, numbers, found, [result], elsewhere)[0]


def _combine(kernel: Kernel) -> Kernel:
    """The kernel that combines the results of this one."""
    wanted = ("combine", kernel.output_type, kernel.head_dims)
    (found,) = [k for k in load_kernels() if (k.kind, k.output_type, k.head_dims) == wanted]
    return found


def _size(number: Size | ir.Value) -> Size:
    assert not isinstance(number, ir.Value), "a number of the kernel that is no size"
    return number
