"""Launches a kernel that takes chunks of the keys, and the one that combines its partial results.

The tiles of keys of all heads stand in one line, which the programs cut into equal chunks;
the arithmetic of that is said in hopper_decode.py and hopper_latent.py, and done here.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ...ir import Builder, Size, product
from .extern import launch
from .manifest import Kernel, load_kernels
from .plan import KernelPlan

# Of whose partial results several programs add up one row's each.
_FEW_ROWS = 64
# Of latents: in how many chunks a head's tiles are cut at most, if chunks of so many tiles will do
# (of two, if there is one block of rows).
_CHUNKS, _FEW_TILES = 32, 4


def launch_chunks(
    build: Builder,
    plan: KernelPlan,
    numbers: dict[str, Size | ir.Value],
    tensors: Sequence[ir.Value],
    result: tuple[Sequence[Size], ir.Type],
    elsewhere: bool,
) -> ir.Value:
    """Attention of the heads, rows, group and keys that `numbers` says; the result, whose
    sizes and element type are given; `elsewhere` as in `launch`. The last of `tensors` are the
    sinks, if there are any.

    1. A decode kernel has a program for each chunk of the tiles of all blocks of rows.
    2. A kernel for latents cuts the tiles of all heads of K, and has a program for each block of
       rows of a chunk.
    3. One that splits the keys of each head has a program for each part of these.
    """
    kernel, compute = plan.kernel, build.size_op
    rows, heads = _size(numbers["rows"]), _size(numbers["heads"])
    own_rows = product([_size(numbers["group"]), rows])
    blocks = compute("ceildivui", own_rows, kernel.rows_per_workgroup)
    start, tiles = _seen_tiles(build, plan, rows, _size(numbers["keys"]))
    count: Size = plan.programs
    units, programs = product([heads, blocks]), (count, 1)
    height: Size = kernel.rows_per_workgroup
    combined: dict[str, Size | ir.Value] = {"rows": own_rows}
    if plan.latent is not None:
        count = compute("maxui", compute("divui", plan.programs, blocks), 1)
        units, programs = heads, (count, blocks)
        height = product([blocks, height])
        combined |= {"blocks": 1, "height": height}
    chunk = compute("ceildivui", product([units, tiles]), count)
    if plan.latent is not None:
        # Each chunk has partial results, of which many take longer than a few tiles.
        most = compute("minui", product([2, heads, blocks]), _FEW_TILES)
        fewest = compute("minui", compute("ceildivui", tiles, _CHUNKS), most)
        chunk = compute("maxui", chunk, fewest)
        programs = (compute("ceildivui", product([units, tiles]), chunk), blocks)
    slots = _slots(build, tiles, chunk)
    if kernel.kind == "split":
        slots = _splits(build, plan, heads, _size(numbers["keys"]))
        programs, tiles, chunk = (slots, heads), slots, 1
    numbers = {**numbers, "blocks": blocks, "first_tile": start, "tiles": tiles, "splits": slots}
    numbers |= {"per_program": chunk, "slots": slots}
    *tensors, sinks = tensors if plan.sink else (*tensors, None)
    f32 = ir.F32Type.get()
    partial = [
        ([units, slots, height, kernel.head_dims[1]], f32),
        ([units, slots, 2, height], f32),
    ]
    found = launch(build, kernel, programs, numbers, tensors, partial, elsewhere)[:2]
    found += [] if sinks is None else [sinks]
    return _combined(build, plan, numbers | combined, found, heads, result, elsewhere)


def _seen_tiles(build: Builder, plan: KernelPlan, rows: Size, keys: Size) -> tuple[int, Size]:
    """The first tile of keys that a row sees, and how many tiles there are from it on."""
    kernel, compute = plan.kernel, build.size_op
    start, end = 0, keys
    if plan.mask.kind in ("causal", "window"):
        end = compute("minui", keys, compute("addi", rows, plan.mask.diagonal))
    if plan.mask.kind == "window":
        # Row 0 sees no key before -behind, and later rows none before it either.
        start = max(0, -plan.mask.behind) // kernel.keys_per_tile
    last = compute("ceildivui", end, kernel.keys_per_tile)
    # A program may find no key that is seen; there is one tile at least.
    return start, compute("subi", compute("maxui", last, start + 1), start)


def _splits(build: Builder, plan: KernelPlan, heads: Size, keys: Size) -> Size:
    """In how many parts each head's keys are split: of as many as programs run at once for all
    heads, each with two tiles at least."""
    compute = build.size_op
    most = compute("divui", plan.programs, compute("maxui", heads, 1))
    most = compute("minui", most, compute("divui", keys, 2 * plan.kernel.keys_per_tile))
    return compute("maxui", most, 1)


def _slots(build: Builder, tiles: Size, chunk: Size) -> Size:
    """How many partial results a unit of so many tiles has: it lies in one chunk, and in one more
    for each whole or begun chunk that the tiles after the first can fill."""
    compute = build.size_op
    return compute("addi", compute("ceildivui", compute("subi", tiles, 1), chunk), 1)


def _combined(
    build: Builder,
    plan: KernelPlan,
    numbers: dict[str, Size | ir.Value],
    partial: Sequence[ir.Value],
    heads: Size,
    result: tuple[Sequence[Size], ir.Type],
    elsewhere: bool,
) -> ir.Value:
    """The partial results of a kernel, and sinks, added up; `rows` is all of a head's by now."""
    own_rows = _size(numbers["rows"])
    combine = _combine(plan, product([heads, own_rows]))
    parts = combine.head_dims[1] // combine.columns_per_workgroup
    workgroups = (own_rows, product([heads, parts]))
    return launch(build, combine, workgroups, numbers, partial, [result], elsewhere)[0]


def _combine(plan: KernelPlan, rows: Size) -> Kernel:
    """The kernel that combines the results of this one, of so many rows. One program for all of a
    row starts least; where rows are few each has many slots, which several programs read sooner."""
    kernel, sink = plan.kernel, plan.sink is not None
    wanted = ("combine", kernel.output_type, kernel.head_dims[1], sink)
    found = [k for k in load_kernels() if (k.kind, k.output_type, k.head_dims[1], k.sink) == wanted]
    narrow = isinstance(rows, int) and rows < _FEW_ROWS
    return sorted(found, key=lambda k: k.columns_per_workgroup, reverse=not narrow)[0]


def _size(number: Size | ir.Value) -> Size:
    assert not isinstance(number, ir.Value), "a number of the kernel that is no size"
    return number
