# type: ignore (Triton compiles this file; Python never runs it)
"""Attention of few query rows over a long cache for Hopper (sm_90a), in Gluon (triton 3.6.0).

`tools/build_kernels.py` compiles this file ahead of time; nothing imports it at run time.

Decode reads K and V once and computes little, so the kernel's one aim is to keep loads in
flight. The tiles of all heads stand in one line, and each program takes an equal, contiguous
piece of it, whatever heads that touches: no multiprocessor waits for another at the end. One
thread keeps the tensor memory accelerator (TMA) `STAGES` tiles ahead, across the heads' borders.

What a program finds for a head, an output with its running maximum and sum, is a partial
result; a second kernel, `combine`, adds them up (Flash-Decoding; the running maximum:
Milakov and Gimelshein, arXiv 1805.02867). Piece and head give the slot that a partial result
is written to, by the same arithmetic in both kernels.

Rows that share K and V, those of a group of query heads, are computed together, 16 at a time:
as many as an `mma.sync` instruction has. 8-bit K and V are widened to 16 bits in registers, so
that V may stay row-major, and the weights keep 16 bits.
"""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma


@gluon.jit
def load_tile(
    k_desc,
    v_desc,
    k_tiles,
    v_tiles,
    full,
    number,
    count,
    head,
    block,
    place,
    first_tile,
    tiles,
    blocks,
    KEYS: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Starts the loads of a program's `number`-th tile, number `place` of a block of rows, if
    it has so many. Returns where the tile after it is: counting saves three divisions a tile."""
    if number < count:
        stage = number % STAGES
        key = (first_tile + place) * KEYS
        bar = full.index(stage)
        mbarrier.expect(bar, k_desc.block_type.nbytes + v_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(k_desc, [head, key, 0], bar, k_tiles.index(stage))
        tma.async_copy_global_to_shared(v_desc, [head, key, 0], bar, v_tiles.index(stage))
    place += 1
    block = gl.where(place == tiles, block + 1, block)
    place = gl.where(place == tiles, 0, place)
    head = gl.where(block == blocks, head + 1, head)
    block = gl.where(block == blocks, 0, block)
    return head, block, place


@gluon.jit
def attention(
    query,
    key,
    value,
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
    mask_stride,
    mask_divisor,
    mask_count,
    scale,
    cap,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    MASK: gl.constexpr,
    STAGES: gl.constexpr,
    WARPS: gl.constexpr,
):
    """Partial results of softmax(scale * Q K^T) V for every head.

    query: (heads, group * rows, HEAD); key and value: (heads, keys, HEAD); all dense and
    16-byte aligned. Row i of a query head sees keys i - behind to i + diagonal. Where cap > 0,
    a scaled score s becomes cap * tanh(s / cap), before the mask. MASK and the
    three numbers of masks are as in hopper_attention.py. A head's group * rows rows are
    `blocks` blocks of 16; a unit is such a block. Of the keys, tiles `first_tile` to
    `first_tile + tiles - 1` are read. Tile t of unit u is number u * tiles + t in the line of
    all; program p takes numbers p * per_program to (p + 1) * per_program - 1.

    partial: (units, slots, 16, HEAD) f32, sums of weights times V, and stats: (units, slots,
    2, 16) f32, the maxima in units of log2 and the sums of weights. A unit's slots are its
    programs, in order. `scratch` is not read: the build puts the memory of the TMA descriptors
    in its place.
    """
    program = gl.program_id(0)
    dtype: gl.constexpr = query.dtype.element_ty
    cache: gl.constexpr = key.dtype.element_ty
    NARROW: gl.constexpr = cache.primitive_bitwidth == 8
    # Hopper widens e4m3 to f16 in one instruction, to bf16 in many.
    wide: gl.constexpr = gl.float16 if NARROW else dtype
    # Elements of 8 bits are read 8 at a time; the product does not mind the order of its dim.
    K_WIDTH: gl.constexpr = 8 if NARROW else 2
    MMA: gl.constexpr = gl.NVMMADistributedLayout(
        version=[2, 0], warps_per_cta=[1, WARPS], instr_shape=[16, 8]
    )
    Q_OPERAND: gl.constexpr = gl.DotOperandLayout(0, MMA, K_WIDTH)
    K_OPERAND: gl.constexpr = gl.DotOperandLayout(1, MMA, K_WIDTH)
    P_OPERAND: gl.constexpr = gl.DotOperandLayout(0, MMA, 2)
    V_OPERAND: gl.constexpr = gl.DotOperandLayout(1, MMA, 2)
    ROWS: gl.constexpr = gl.SliceLayout(1, MMA)
    COLUMNS: gl.constexpr = gl.SliceLayout(0, MMA)
    Q_LOAD: gl.constexpr = gl.BlockedLayout([1, 8], [2, 16], [WARPS, 1], [1, 0])
    TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([1, KEYS, HEAD], cache)
    k_desc = tma.make_tensor_descriptor(
        key, [heads, keys, HEAD], [keys.to(gl.int64) * HEAD, HEAD, 1], [1, KEYS, HEAD], TILE
    )
    v_desc = tma.make_tensor_descriptor(
        value, [heads, keys, HEAD], [keys.to(gl.int64) * HEAD, HEAD, 1], [1, KEYS, HEAD], TILE
    )
    k_tiles = gl.allocate_shared_memory(cache, [STAGES, 1, KEYS, HEAD], TILE)
    v_tiles = gl.allocate_shared_memory(cache, [STAGES, 1, KEYS, HEAD], TILE)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for first in gl.static_range(STAGES):
        mbarrier.init(full.index(first), count=1)
    fence_async_shared()
    gl.thread_barrier()

    begin = program * per_program
    end = gl.minimum(begin + per_program, heads * blocks * tiles)
    count = end - begin
    next_head = begin // tiles // blocks
    next_block = begin // tiles % blocks
    next_place = begin % tiles
    for ahead in gl.static_range(STAGES):
        next_head, next_block, next_place = load_tile(
            k_desc, v_desc, k_tiles, v_tiles, full, ahead, count, next_head, next_block,
            next_place, first_tile, tiles, blocks, KEYS, STAGES,
        )  # fmt: skip
    row = gl.arange(0, 16, layout=ROWS)
    column = gl.arange(0, KEYS, layout=COLUMNS)
    place = gl.arange(0, HEAD, layout=COLUMNS)
    if NARROW:
        # See the load of V: where its columns are.
        place = place % (8 * WARPS) * (HEAD // 8 // WARPS) + place // (8 * WARPS)
    scale_log2 = scale * 1.4426950408889634
    cap_log2 = cap * 1.4426950408889634
    zero = gl.zeros([16, KEYS], gl.float32, MMA)
    start = begin
    while start < end:
        unit = start // tiles
        head = unit // blocks
        base = unit % blocks * 16
        stop = gl.minimum(end, (unit + 1) * tiles)
        q_row = base + gl.arange(0, 16, layout=gl.SliceLayout(1, Q_LOAD))
        q_column = gl.arange(0, HEAD, layout=gl.SliceLayout(0, Q_LOAD))
        q_place = (head.to(gl.int64) * group * rows + q_row)[:, None] * HEAD + q_column[None, :]
        # Rows behind the last hold anything: they are computed, and never stored.
        q = gl.load(query + q_place, mask=(q_row < group * rows)[:, None])
        factor = scale_log2
        if wide != dtype:
            # A power of two brings the row into the range of f16.
            largest = gl.maximum(gl.max(gl.abs(q.to(gl.float32)), 1), 1.0e-30)
            power = gl.exp2(gl.ceil(gl.log2(largest)))
            q = q.to(gl.float32) / power[:, None]
            factor = (gl.convert_layout(power, ROWS) * scale_log2)[:, None]
        q = gl.convert_layout(q.to(wide), Q_OPERAND)
        own_row = (base + row) % rows
        last_key = gl.minimum(own_row + diagonal, keys - 1)
        first_key = own_row - behind
        if MASK:
            member = head * group + (base + row) // rows
            own_mask = (member // mask_divisor % mask_count).to(gl.int64)
            size = keys.to(gl.int64)
            if mask_stride != 0:
                size = size * rows
            mask_row = own_mask * size + own_row.to(gl.int64) * mask_stride
        # Far above hidden scores and below all others: hidden keys weigh 0 in rows that have
        # seen none yet.
        peak = gl.full([16], -1.0e20, gl.float32, ROWS)
        total = gl.zeros([16], gl.float32, ROWS)
        out = gl.zeros([16, HEAD], gl.float32, MMA)
        for tile in range(start, stop):
            number = tile - begin
            stage = number % STAGES
            key_number = (first_tile + tile - unit * tiles) * KEYS + column
            if MASK:
                inside = (base + row < group * rows)[:, None] & (key_number < keys)[None, :]
                given = gl.load(
                    mask + mask_row[:, None] + key_number[None, :], mask=inside, other=0
                )
            mbarrier.wait(full.index(stage), (number // STAGES) & 1)
            k = k_tiles.index(stage).reshape([KEYS, HEAD]).permute((1, 0)).load(K_OPERAND)
            scores = mma_v2(q, k.to(wide), zero) * factor
            if cap > 0.0:
                # tanh(x) is 1 - 2 / (1 + exp(2 x)).
                scores = cap_log2 - 2.0 * cap_log2 / (gl.exp2(scores * (2.0 / cap)) + 1.0)
            if MASK == 2:
                scores = gl.where(given != 0, scores, -1.0e30)
            if MASK == 1:
                scores += given.to(gl.float32) * 1.4426950408889634
                scores = gl.maximum(scores, -1.0e30)
            seen = key_number[None, :] <= last_key[:, None]
            seen = seen & (key_number[None, :] >= first_key[:, None])
            scores = gl.where(seen, scores, -1.0e30)
            new_peak = gl.maximum(peak, gl.max(scores, 1))
            weights = gl.exp2(scores - new_peak[:, None])
            shrink = gl.exp2(peak - new_peak)
            total = total * shrink + gl.sum(weights, 1)
            peak = new_peak
            packed = gl.convert_layout(weights.to(wide), P_OPERAND)
            v_tile = v_tiles.index(stage)
            if NARROW:
                # A thread of mma.sync wants single columns, 8 * WARPS apart. Any order of the
                # columns will do, so each thread gets some that stand together in memory.
                v_tile = v_tile.reshape([KEYS, 8 * WARPS, HEAD // 8 // WARPS]).permute((0, 2, 1))
            v = v_tile.reshape([KEYS, HEAD]).load(V_OPERAND)
            out = mma_v2(packed, v.to(wide), out * shrink[:, None])
            # All warps have read the stage: it may be filled again.
            gl.thread_barrier()
            next_head, next_block, next_place = load_tile(
                k_desc, v_desc, k_tiles, v_tiles, full, number + STAGES, count, next_head,
                next_block, next_place, first_tile, tiles, blocks, KEYS, STAGES,
            )  # fmt: skip
        slot = unit * slots + program - unit * tiles // per_program
        wanted = base + row < group * rows
        at = slot.to(gl.int64) * 16 + row
        gl.store(partial + at[:, None] * HEAD + place[None, :], out, mask=wanted[:, None])
        at = slot * 32 + row
        gl.store(stats + at, peak, mask=wanted)
        gl.store(stats + at + 16, total, mask=wanted)
        start = stop


@triton.jit
def add_slots(
    state,
    place,
    start,
    count,
    height,
    HEAD: tl.constexpr,
    SLOTS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Adds SLOTS partial results of a row, from number `start` on, those of them that there are."""
    peak, total, out = state
    values, stats, column = place
    slot = start + tl.arange(0, SLOTS)
    there = slot < count
    at_row = stats + slot * (2 * height)
    own_peak = tl.load(at_row, mask=there, other=-1.0e30)
    own_total = tl.load(at_row + height, mask=there, other=0.0)
    at = (slot.to(tl.int64) * height * HEAD)[:, None] + column[None, :]
    own = tl.load(values + at, mask=there[:, None], other=0.0)
    new_peak = tl.maximum(peak, tl.max(own_peak, 0))
    weight = tl.math.exp2(own_peak - new_peak)
    shrink = tl.math.exp2(peak - new_peak)
    total = total * shrink + tl.sum(own_total * weight, 0)
    out = out * shrink + tl.sum(own * weight[:, None], 0)
    return new_peak, total, out


@triton.jit
def combine(
    partial,
    stats,
    sinks,
    output,
    rows,
    blocks,
    height,
    tiles,
    per_program,
    slots,
    sink_rows,
    sink_count,
    HEAD: tl.constexpr,
    FEW: tl.constexpr,
    SLOTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SINK: tl.constexpr,
):
    """Adds up the partial results of `attention`, or of another kernel whose units have `height`
    rows each; `rows` are those of a group of query heads. SLOTS results are read at a time, or
    FEW where there are no more: those that are not there take time, too.

    If SINK, the weight of a score that belongs to no key is added to a row's sum of weights:
    `sink_rows` rows are a query head's, and head h has number h % sink_count of `sinks`, in f32.

    output: (heads, rows, HEAD); the grid is heads * rows * (HEAD / COLUMNS) programs.
    """
    parts: tl.constexpr = HEAD // COLUMNS
    program = tl.program_id(0) // parts
    row = program % rows
    unit = program // rows * blocks + row // height
    first = unit * tiles // per_program
    count = ((unit + 1) * tiles - 1) // per_program - first + 1
    column = tl.program_id(0) % parts * COLUMNS + tl.arange(0, COLUMNS)
    at = unit * slots
    values = partial + (at.to(tl.int64) * height + row % height) * HEAD
    place = (values, stats + at * (2 * height) + row % height, column)
    peak = tl.full([], -1.0e20, tl.float32)
    state = (peak, tl.zeros([], tl.float32), tl.zeros([COLUMNS], tl.float32))
    if count <= FEW:
        state = add_slots(state, place, 0, count, height, HEAD, FEW, COLUMNS)
    else:
        for start in range(0, count, SLOTS):
            state = add_slots(state, place, start, count, height, HEAD, SLOTS, COLUMNS)
    peak, total, out = state
    if SINK:
        # Where the sink is far above all scores, infinity: the result is 0.
        sink = tl.load(sinks + program // sink_rows % sink_count)
        total += tl.math.exp2(sink * 1.4426950408889634 - peak)
    # A row that has seen no key is 0.
    total = tl.where(total == 0.0, 1.0, total)
    place = program.to(tl.int64) * HEAD + column
    tl.store(output + place, (out / total).to(output.dtype.element_ty))
