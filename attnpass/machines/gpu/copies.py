"""Configurations for the copies in front of and behind attention on GPUs.

Heads are moved in front of rows, and parts are cut out of packed projections;
attn-fit-tiles makes loops that read another tensor by index. IREE 3.13 gives
such a loop workgroups of 32 or 64 threads, which read 8 bytes each at most: a GPU does not start
workgroups as fast as they end (1344 keys of 32 heads of 128: 27 us on an H200; 2 x 1024 x 16 x 128
f16 to heads first 21 us, the same cut out of a packed projection 41).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from iree.compiler import ir

from ...attention.facts import configured_by
from ...ir import (
    Builder,
    body_names,
    body_ops,
    element_bytes,
    element_type,
    is_float,
    iterator_kinds,
    maps,
    printed,
    ranked_shape,
    set_attribute,
    sizes_of,
)

# What a thread reads at once, and a workgroup writes at most.
_THREAD_BYTES, _WORKGROUP_BYTES = 16, 4096
_LOOPS = ("linalg.", "iree_linalg_ext.")
# Threads that read a line, at least; tiles that are looked at.
_LINE_LANES, _TRIES = 16, 200


def configure(function: ir.Operation, subgroup: int, all_copies: bool) -> None:
    """Configures the dispatch for subgroups of so many threads if it does little but copy a tensor:
    read it by index or, with `all_copies`, store it in another order, with repeats, in another
    type, where a value a row says so, or as it was loaded."""
    loops = [op for op in body_ops(function) if op.name.startswith(_LOOPS)]
    if not loops:
        if all_copies:
            configure_move(function, subgroup)
        return
    (loop, *others) = loops
    if others or loop.name != "linalg.generic" or "reduction" in iterator_kinds(loop):
        return
    if configured_by(loop):
        return
    names = [name for name in body_names(loop) if not name.startswith(("arith.", "linalg."))]
    by_index = len(loop.operands) == 1 and {*names} == {"tensor.extract"}
    plain = len(loop.operands) > 1 and not names and "linalg.index" not in body_names(loop)
    if not by_index and not (plain and all_copies):
        return
    sizes = _sizes(loop)
    if sizes:
        _attach(loop, sizes, subgroup)


def _sizes(loop: ir.Operation) -> list[int | None]:
    """The sizes of the dims of a loop that reads and writes neighbours, of one tensor each."""
    positions = maps.positions(loop)
    if positions is None:
        return []  # windows, read at sums of loops
    *reads, written = positions
    sizes: dict[int, int | None] = {
        dim: size
        for dim, size in zip(
            written, ranked_shape(loop.operands[len(loop.operands) - 1]), strict=True
        )
        if dim is not None
    }
    last = len(written) - 1
    lines = [dims for dims in reads if last in dims]
    if len(lines) > 1 or len(sizes) != len(written):
        return []
    if any(dims[-1] != last for dims in (*lines, written) if dims):
        return []
    return [sizes[dim] for dim in range(len(written))]


def configure_move(function: ir.Operation, subgroup: int) -> None:
    """Configures a dispatch that does nothing but load a tensor and store it, where sizes are known
    only at run time: puts a loop in between. What is known attn-moves copies."""
    ops = body_ops(function)
    if any(op.name.startswith(_LOOPS) for op in ops):
        return
    moves = [op for op in ops if op.name.startswith("iree_tensor_ext.dispatch.tensor.")]
    if [op.name.rpartition(".")[2] for op in moves] != ["load", "store"]:
        return
    load, store = moves
    (value,) = load.results
    if not isinstance(value.type, ir.RankedTensorType) or store.operands[0] != value:
        return
    sizes = ranked_shape(value)
    places = (load.operands[0], store.operands[1])
    if not sizes or all(printed.is_known(place.type) for place in places):
        return
    for op in moves:
        lines = [list(op.attributes[name])[-1] for name in ("static_sizes", "static_strides")]
        if lines != [sizes[-1], 1]:
            return
    tile, width = _tile(sizes, value, subgroup), _THREAD_BYTES // element_bytes(value)
    # What is loaded may have gaps between its lines: IREE 3.13 reads elements of several as if it
    # had none.
    if not tile or _thread(tile, width)[-1] != width:
        return
    build = Builder(store)

    def read(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        # By index: IREE drops a loop that hands on what it is given.
        return inner.extract(value, [inner.loop_index(dim) for dim in range(len(sizes))])

    copy = build.computed(sizes_of(value), element_type(value), read)
    store.operands[0] = copy
    _attach(copy.owner, sizes, subgroup)


def attach(loop: ir.Operation, subgroup: int) -> None:
    """Configures a loop over the dims of its result, for subgroups of so many threads, if its
    sizes leave tiles: a thread makes neighbours."""
    _attach(loop, ranked_shape(loop.results[0]), subgroup)


def _attach(loop: ir.Operation, sizes: Sequence[int | None], subgroup: int) -> None:
    tile = _tile(sizes, loop.results[0], subgroup)
    if not tile:
        return
    thread = _thread(tile, _THREAD_BYTES // element_bytes(loop.results[0]))
    threads = math.prod(tile) // math.prod(thread)
    lowering = printed.gpu_lowering(thread=thread, workgroup=tile)
    pipeline = "#iree_gpu.pipeline<TileAndFuse>"
    info = printed.compilation_info(lowering, pipeline, threads, subgroup)
    set_attribute(loop, "compilation_info", info)


def _tile(sizes: Sequence[int | None], written: ir.Value, subgroup: int) -> list[int]:
    """What a workgroup copies of dims of these sizes; nothing where they leave no tile."""
    if not is_float(element_type(written)):
        return []
    width = _THREAD_BYTES // element_bytes(written)
    found: list[list[int]] = []
    for tile in itertools.islice(_tiles(sizes, _WORKGROUP_BYTES // element_bytes(written)), _TRIES):
        threads, rest = divmod(math.prod(tile), width)
        if not rest and threads % subgroup == 0 and math.prod(_thread(tile, width)) == width:
            if not _is_cut_by_threads(tile, width):
                return tile
            found.append(tile)
    return found[0] if found else []


def _is_cut_by_threads(tile: Sequence[int], width: int) -> bool:
    """Whether threads that stand side by side are at the end of one line and the start of the next
    without a power of two in between, behind which LLVM sees no alignment; or a line is short."""
    lanes = tile[-1] // width
    return math.prod(tile[:-1]) > 1 and (lanes & lanes - 1 != 0 or lanes < _LINE_LANES)


def _tiles(sizes: Sequence[int | None], most: int) -> Iterator[list[int]]:
    """Tiles of at most so many elements that divide dims of these sizes, with the largest parts of
    the last ones first. A dim of unknown size, or none, has parts of one."""
    if not sizes:
        yield []
        return
    *outer, size = sizes
    for part in range(min(size or 1, most), 0, -1):
        if (size or 1) % part == 0:
            for tile in _tiles(outer, most // part):
                yield [*tile, part]


def _thread(tile: Sequence[int], width: int) -> list[int]:
    """The part of a tile that a thread makes: so many neighbours, of several dims where the last
    ones are smaller."""
    thread = [1] * len(tile)
    for dim in reversed(range(len(tile))):
        thread[dim] = math.gcd(tile[dim], width)
        width //= thread[dim]
        if thread[dim] != tile[dim]:
            break
    return thread
