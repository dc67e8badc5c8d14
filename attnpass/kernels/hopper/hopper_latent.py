# type: ignore (Triton compiles this file; Python never runs it)
"""Attention of few rows over a cache of latents (multi-head latent attention, absorbed: DeepSeek)
for Hopper (sm_90a), in Gluon (triton 3.6.0).

`tools/build_kernels.py` compiles this file ahead of time; nothing imports it at run time.

All query heads share one head of K and V, and V is the first LATENT columns of K: a key is read
once for both. With many heads there is as much to compute as in prefill, with few as little as in
other decode: heads and new tokens are rows of one matrix, in blocks of 64.

Two warpgroups share a block. The first computes scores and weights, and hands the weights over in
shared memory; then each multiplies them with half of V's columns: 64 x 256 sums are what a
warpgroup has registers for. While the second does so, the first comes to the next tile's scores.
Three parts of a tile of keys, V's halves and what only K has, have barriers of their own, so that
each is loaded again as soon as its last reader is done.

The tiles of keys of all heads of K stand in one line, which pieces of equal length cut, as in
hopper_decode.py. The blocks of rows of a piece are neighbouring programs: they read the same keys
at the same time, all but one from the L2 cache. `combine` of hopper_decode.py adds up what the
pieces of a head gave.
"""

from hopper_common import PRODUCT, room_for
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# The parts of a tile of keys: V's halves, and the columns that V lacks.
LEFT = gl.constexpr(0)
RIGHT = gl.constexpr(1)
REST = gl.constexpr(2)


@gluon.jit
def piece_of(work):
    """Of the line of tiles, where this program's piece begins and ends; its block of rows."""
    heads, _, _, blocks, _, tiles, per_program = work
    program = gl.program_id(0)
    begin = program // blocks * per_program
    return begin, gl.minimum(begin + per_program, heads * tiles), program % blocks


@gluon.jit
def place_in(number, STAGES: gl.constexpr):
    """Where in a ring a tile is, and the phase of the barrier that says that it is there, by how
    many came before."""
    return (number % STAGES).to(gl.int32), (number // STAGES) & 1


@gluon.jit
def describe(pointer, heads, rows, columns: gl.constexpr, steps, tile):
    """A descriptor for tiles like `tile` of (heads, rows, columns), heads and rows `steps` units of
    16 bytes apart: what lies outside of a head is 0, even where another head follows."""
    BLOCK: gl.constexpr = [1, tile.shape[0], tile.shape[1]]
    LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for(BLOCK, tile.dtype)
    head, row = steps
    head = gl.to_tensor(head).to(gl.int64) * 8
    row = gl.to_tensor(row).to(gl.int64) * 8
    return tma.make_tensor_descriptor(
        pointer, [heads, rows, columns], [head, row, 1], BLOCK, LAYOUT
    )


@gluon.jit
def load_tile(desc, head, row, column: gl.constexpr, full, tile):
    """Starts to load a tile of what `describe` described."""
    place = tile._reinterpret(tile.dtype, desc.block_type.shape, desc.layout)
    tma.async_copy_global_to_shared(desc, [head, row, column], full, place)


@gluon.jit
def load_rows(given, LATENT: gl.constexpr, REST_COLUMNS: gl.constexpr):
    """A loading warp: Q of one head of K after the other."""
    query, q_tiles, q_full, q_empty, work = given
    heads, own_rows, _, _, _, tiles, _ = work
    HALF: gl.constexpr = LATENT // 2
    COLUMNS: gl.constexpr = LATENT + REST_COLUMNS
    steps = (own_rows * (COLUMNS // 8), COLUMNS // 8)
    halves = describe(query, heads, own_rows, COLUMNS, steps, q_tiles[LEFT])
    rest = describe(query, heads, own_rows, COLUMNS, steps, q_tiles[REST])
    begin, end, block = piece_of(work)
    start = begin
    turn = gl.to_tensor(0)
    while start < end:
        head = start // tiles
        mbarrier.wait(q_empty, (turn & 1) ^ 1)
        mbarrier.expect(q_full, 64 * COLUMNS * 2)
        load_tile(rest, head, block * 64, LATENT, q_full, q_tiles[REST])
        load_tile(halves, head, block * 64, 0, q_full, q_tiles[LEFT])
        load_tile(halves, head, block * 64, HALF, q_full, q_tiles[RIGHT])
        turn += 1
        start = gl.minimum(end, (head + 1) * tiles)


@gluon.jit
def load_part(desc, head, key, column: gl.constexpr, number, full, empty, tiles, STAGES):
    """Starts to load a part of a tile of keys when its place in the ring is free."""
    stage, phase = place_in(number, STAGES)
    # A fresh barrier counts as having completed phase 1: the first round does not wait.
    mbarrier.wait(empty.index(stage), phase ^ 1)
    mbarrier.expect(full.index(stage), desc.block_type.nbytes)
    load_tile(desc, head, key, column, full.index(stage), tiles.index(stage))


@gluon.jit
def load_keys(
    given,
    LATENT: gl.constexpr,
    REST_COLUMNS: gl.constexpr,
    KEYS: gl.constexpr,
    STAGES: gl.constexpr,
):
    """A loading warp: the cache, tile by tile, in the order in which its parts become free."""
    latent, rest, steps, k_tiles, full, empty, work = given
    heads, _, keys, _, first_tile, tiles, _ = work
    HALF: gl.constexpr = LATENT // 2
    of_halves = describe(latent, heads, keys, LATENT, steps[0], k_tiles[LEFT].index(0))
    of_rest = describe(rest, heads, keys, REST_COLUMNS, steps[1], k_tiles[REST].index(0))
    begin, end, _ = piece_of(work)
    number = gl.to_tensor(0).to(gl.uint32)
    for place in range(begin, end):
        head = place // tiles
        key = (first_tile + place % tiles) * KEYS
        load_part(of_rest, head, key, 0, number, full[REST], empty[REST], k_tiles[REST], STAGES)
        load_part(of_halves, head, key, 0, number, full[LEFT], empty[LEFT], k_tiles[LEFT], STAGES)
        load_part(
            of_halves, head, key, HALF, number, full[RIGHT], empty[RIGHT], k_tiles[RIGHT], STAGES
        )
        number += 1


@gluon.jit
def scores_of(q_tiles, k_tiles, full, number, KEYS: gl.constexpr, STAGES: gl.constexpr):
    """Q.K of a tile, part by part as they arrive."""
    stage, phase = place_in(number, STAGES)
    zero = gl.zeros([64, KEYS], gl.float32, PRODUCT(KEYS))
    mbarrier.wait(full[REST].index(stage), phase)
    keys = k_tiles[REST].index(stage).permute((1, 0))
    scores = warpgroup_mma(q_tiles[REST], keys, zero, use_acc=False, is_async=True)
    for part in gl.static_range(2):
        mbarrier.wait(full[part].index(stage), phase)
        keys = k_tiles[part].index(stage).permute((1, 0))
        scores = warpgroup_mma(q_tiles[part], keys, scores, is_async=True)
    return scores


@gluon.jit
def capped(scores, cap):
    """cap * tanh(s / cap) of scores in units of log2: tanh(x) is 1 - 2 / (1 + exp(2 x))."""
    cap_log2 = cap * 1.4426950408889634
    return cap_log2 - 2.0 * cap_log2 / (gl.exp2(scores * (2.0 / cap)) + 1.0)


@gluon.jit
def masked(scores, given, MASK: gl.constexpr):
    """Scores with a mask that is added (1), or whose bytes say which keys are seen (2)."""
    if MASK == 2:
        scores = gl.where(given != 0, scores, -1.0e30)
    else:
        scores = gl.maximum(scores + given.to(gl.float32) * 1.4426950408889634, -1.0e30)
    return scores


@gluon.jit
def hide_keys(scores, first, limits, keys, KEYS: gl.constexpr):
    """Scores of keys that a row does not see become -1e30; `limits` are each row's last key and
    its first, and those that hold for all rows."""
    last_key, first_key, least_last, most_first = limits
    if (first + KEYS - 1 > least_last) | (first < most_first):
        column = first + gl.arange(0, KEYS, layout=gl.SliceLayout(0, scores.type.layout))
        seen = column[None, :] <= last_key[:, None]
        seen = seen & (column[None, :] >= first_key[:, None])
        scores = gl.where(seen, scores, -1.0e30)
    return scores


@gluon.jit
def slot_of(head, work, slots):
    """Where this program's partial result of a head of K goes."""
    blocks, tiles, per_program = work[3], work[5], work[6]
    return head * slots + gl.program_id(0) // blocks - head * tiles // per_program


@gluon.jit
def store_half(partial, slot, out, work, HALF: gl.constexpr, LATENT: gl.constexpr):
    """Writes the sums of half of V's columns of a block of rows."""
    _, own_rows, _, blocks, _, _, _ = work
    ROWS: gl.constexpr = gl.SliceLayout(1, out.type.layout)
    row = gl.program_id(0) % blocks * 64 + gl.arange(0, 64, layout=ROWS)
    column = gl.arange(0, LATENT // 2, layout=gl.SliceLayout(0, out.type.layout))
    at = slot.to(gl.int64) * (blocks * 64) + row
    place = at[:, None] * LATENT + (column + HALF * (LATENT // 2))[None, :]
    inside = (row < own_rows)[:, None] & gl.full([1, LATENT // 2], 1, gl.int1, out.type.layout)
    gl.store(partial + place, out, mask=inside)


@gluon.jit
def attend_first(
    given,
    LATENT: gl.constexpr,
    KEYS: gl.constexpr,
    MASK: gl.constexpr,
    STAGES: gl.constexpr,
):
    """The warpgroup of scores and weights, and of V's first half."""
    shared, barriers, work, slots, results, shape, masks, factors = given
    q_tiles, k_tiles, p_tile, shrinks = shared
    q_full, q_empty, full, empty, p_full, p_empty = barriers
    partial, stats = results
    rows, group, diagonal, behind = shape
    mask, mask_stride, mask_divisor, mask_count = masks
    scale_log2, cap = factors
    _, own_rows, keys, blocks, first_tile, tiles, _ = work
    dtype: gl.constexpr = p_tile.dtype
    SCORES: gl.constexpr = PRODUCT(KEYS)
    OUT: gl.constexpr = PRODUCT(LATENT // 2)
    WEIGHTS: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=OUT, k_width=2)
    ROWS: gl.constexpr = gl.SliceLayout(1, SCORES)

    begin, end, block = piece_of(work)
    row = block * 64 + gl.arange(0, 64, layout=ROWS)
    own_row = row % rows
    last_key = gl.minimum(own_row + diagonal, keys - 1)
    limits = (last_key, own_row - behind, gl.minimum(diagonal, keys - 1), rows - 1 - behind)
    number = gl.to_tensor(0).to(gl.uint32)
    turn = gl.to_tensor(0)
    start = begin
    while start < end:
        head = start // tiles
        stop = gl.minimum(end, (head + 1) * tiles)
        if MASK:
            member = head * group + row // rows
            size = keys.to(gl.int64)
            if mask_stride != 0:
                size = size * rows
            mask_row = (member // mask_divisor % mask_count).to(gl.int64) * size
            mask_row += own_row.to(gl.int64) * mask_stride
        # Far above hidden scores and below all others: hidden keys weigh 0 in rows that have
        # seen none yet.
        peak = gl.full([64], -1.0e20, gl.float32, ROWS)
        total = gl.zeros([64], gl.float32, ROWS)
        out = gl.zeros([64, LATENT // 2], gl.float32, OUT)
        mbarrier.wait(q_full, turn & 1)
        for place in range(start, stop):
            stage = place_in(number, STAGES)[0]
            first = (first_tile + place - head * tiles) * KEYS
            products = scores_of(q_tiles, k_tiles, full, number, KEYS, STAGES)
            if MASK:
                column = first + gl.arange(0, KEYS, layout=gl.SliceLayout(0, SCORES))
                inside = (row < own_rows)[:, None] & (column < keys)[None, :]
                bias = gl.load(mask + mask_row[:, None] + column[None, :], mask=inside, other=0)
            scores = warpgroup_mma_wait(num_outstanding=0, deps=(products,))
            gl.thread_barrier()
            mbarrier.arrive(empty[REST].index(stage), count=1)
            scores = scores * scale_log2
            if cap > 0.0:
                scores = capped(scores, cap)
            if MASK:
                scores = masked(scores, bias, MASK)
            scores = hide_keys(scores, first, limits, keys, KEYS)
            new_peak = gl.maximum(peak, gl.max(scores, 1))
            weights = gl.exp2(scores - new_peak[:, None])
            shrink = gl.exp2(peak - new_peak)
            total = total * shrink + gl.sum(weights, 1)
            peak = new_peak
            packed = weights.to(dtype)
            mbarrier.wait(p_empty, (number & 1) ^ 1)
            p_tile.store(packed)
            shrinks.store(shrink)
            fence_async_shared()
            gl.thread_barrier()
            mbarrier.arrive(p_full, count=1)
            out = out * gl.convert_layout(shrink, gl.SliceLayout(1, OUT))[:, None]
            operand = gl.convert_layout(packed, WEIGHTS)
            out = warpgroup_mma(operand, k_tiles[LEFT].index(stage), out)
            gl.thread_barrier()
            mbarrier.arrive(empty[LEFT].index(stage), count=1)
            number += 1
        mbarrier.arrive(q_empty, count=1)
        slot = slot_of(head, work, slots)
        store_half(partial, slot, out, work, 0, LATENT)
        at = slot.to(gl.int64) * (blocks * 128) + row
        gl.store(stats + at, peak, mask=row < own_rows)
        gl.store(stats + at + blocks * 64, total, mask=row < own_rows)
        turn += 1
        start = stop


@gluon.jit
def attend_second(given, LATENT: gl.constexpr, STAGES: gl.constexpr):
    """The warpgroup of V's second half."""
    shared, barriers, work, slots, results = given
    k_tiles, p_tile, shrinks = shared[1], shared[2], shared[3]
    full, empty, p_full, p_empty = barriers[2], barriers[3], barriers[4], barriers[5]
    tiles = work[5]
    OUT: gl.constexpr = PRODUCT(LATENT // 2)
    begin, end = piece_of(work)[0], piece_of(work)[1]
    number = gl.to_tensor(0).to(gl.uint32)
    start = begin
    while start < end:
        head = start // tiles
        stop = gl.minimum(end, (head + 1) * tiles)
        out = gl.zeros([64, LATENT // 2], gl.float32, OUT)
        for _place in range(start, stop):
            stage, phase = place_in(number, STAGES)
            mbarrier.wait(p_full, number & 1)
            out = out * shrinks.load(gl.SliceLayout(1, OUT))[:, None]
            # That the first has seen these keys does not say that this one would.
            mbarrier.wait(full[RIGHT].index(stage), phase)
            out = warpgroup_mma(p_tile, k_tiles[RIGHT].index(stage), out)
            gl.thread_barrier()
            mbarrier.arrive(p_empty, count=1)
            mbarrier.arrive(empty[RIGHT].index(stage), count=1)
            number += 1
        store_half(results[0], slot_of(head, work, slots), out, work, 1, LATENT)
        start = stop


@gluon.jit
def barriers_for(count: gl.constexpr):
    """Barriers that one thread arrives at."""
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    barriers = gl.allocate_shared_memory(gl.int64, [count, 1], BARRIER)
    for number in gl.static_range(count):
        mbarrier.init(barriers.index(number), count=1)
    return barriers


@gluon.jit
def attention(
    query,
    key,
    rest,
    mask,
    partial,
    stats,
    scratch,
    heads,
    rows,
    keys,
    group,
    diagonal,
    behind,
    blocks,
    first_tile,
    tiles,
    per_program,
    slots,
    key_start,
    key_head,
    key_row,
    rest_start,
    rest_head,
    rest_row,
    mask_stride,
    mask_divisor,
    mask_count,
    scale,
    cap,
    LATENT: gl.constexpr,
    REST_COLUMNS: gl.constexpr,
    KEYS: gl.constexpr,
    MASK: gl.constexpr,
    STAGES: gl.constexpr,
    REGISTERS: gl.constexpr,
):
    """Partial results of softmax(scale * Q K^T) V, where V is the first LATENT columns of K.

    query: (heads, group * rows, LATENT + REST_COLUMNS), dense. K's first LATENT columns lie in
    `key`, the others in `rest`, which may be one cache: from `_start` on, with heads and keys
    `_head` and `_row` apart, in units of 16 bytes. All are 16-byte aligned. Row i of a query head
    sees keys i - behind to i + diagonal. Where cap > 0, a scaled score s becomes cap * tanh(s /
    cap), before the mask. MASK and the three numbers of masks are as in hopper_attention.py. The
    group * rows rows of a head of K are `blocks` blocks of 64. Of the keys, tiles `first_tile` to
    `first_tile + tiles - 1` are read. Tile t of head h is number h * tiles + t in the line of all;
    program p takes numbers q * per_program to (q + 1) * per_program - 1, where q is p / blocks, for
    block p % blocks.

    partial: (heads, slots, 64 * blocks, LATENT) f32, sums of weights times V, and stats: (heads,
    slots, 2, 64 * blocks) f32, the maxima in units of log2 and the sums of weights. A head's slots
    are its pieces, in order. `scratch` is not read: the build puts the memory of the TMA
    descriptors in its place.
    """
    dtype: gl.constexpr = query.dtype.element_ty
    HALF: gl.constexpr = LATENT // 2
    q_halves = room_for(dtype, 2, 64, HALF)
    q_rest = room_for(dtype, 1, 64, REST_COLUMNS)
    q_tiles = (q_halves.index(0), q_halves.index(1), q_rest.index(0))
    left = room_for(dtype, STAGES, KEYS, HALF)
    right = room_for(dtype, STAGES, KEYS, HALF)
    k_tiles = (left, right, room_for(dtype, STAGES, KEYS, REST_COLUMNS))
    p_tile = room_for(dtype, 1, 64, KEYS).index(0)
    shrinks = gl.allocate_shared_memory(gl.float32, [64], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    single = barriers_for(4)
    q_full, q_empty, p_full, p_empty = (
        single.index(0), single.index(1), single.index(2), single.index(3)
    )  # fmt: skip
    full = (barriers_for(STAGES), barriers_for(STAGES), barriers_for(STAGES))
    empty = (barriers_for(STAGES), barriers_for(STAGES), barriers_for(STAGES))
    fence_async_shared()

    key += gl.to_tensor(key_start).to(gl.int64) * 8
    rest += gl.to_tensor(rest_start).to(gl.int64) * 8
    work = (heads, group * rows, keys, blocks, first_tile, tiles, per_program)
    shared = (q_tiles, k_tiles, p_tile, shrinks)
    barriers = (q_full, q_empty, full, empty, p_full, p_empty)
    results = (partial, stats)
    shape = (rows, group, diagonal, behind)
    masks = (mask, mask_stride, mask_divisor, mask_count)
    factors = (scale * 1.4426950408889634, cap)
    of_first = (shared, barriers, work, slots, results, shape, masks, factors)
    of_second = (shared, barriers, work, slots, results)
    of_keys = (key, rest, ((key_head, key_row), (rest_head, rest_row)), k_tiles, full, empty, work)
    of_rows = (query, q_tiles, q_full, q_empty, work)
    gl.warp_specialize(
        [
            (attend_first, (of_first, LATENT, KEYS, MASK, STAGES)),
            (attend_second, (of_second, LATENT, STAGES)),
            (load_keys, (of_keys, LATENT, REST_COLUMNS, KEYS, STAGES)),
            (load_rows, (of_rows, LATENT, REST_COLUMNS)),
        ],
        [4, 1, 1],
        [REGISTERS, 24, 24],
    )
