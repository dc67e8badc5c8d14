# type: ignore (Triton compiles this file; Python never runs it)
"""Attention forward for Hopper (sm_90a) with 8-bit operands (e4m3), in Gluon (triton 3.6.0).

`tools/build_kernels.py` compiles this file ahead of time; nothing imports it at run time. What
it shares with hopper_attention.py, for 16 bits, is the online softmax in units of log2. It
differs where the exponentials, not the products, take most of the time:

- One program stays on each multiprocessor and takes every 132nd block of 128 rows (the number
  of programs, to be exact). TMA descriptors are made once, and the next block's tiles arrive
  while the last one's result is written.
- A warpgroup starts Q.K of a tile and P.V of the last one, and computes the new tile's weights
  under P.V. `weighed` keeps the compiler from waiting for P.V too early.
- The output shrinks only when a row's maximum has grown (`shrunk`; the idea: FlashAttention-4),
  and threads add up their own weights, which are summed across threads at the end alone.
- Warps signal empty buffers by named barriers, where only those wait who fill them.

wgmma reads 8-bit operands only with the reduced dim innermost, so that V^T is what the kernel
wants. From row-major V (V_TRANSPOSED false) four more warps make it, tile by tile, in shared
memory. The number of keys must be a multiple of 16.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# Named barriers (0 to 3 are Triton's): a K or V tile of each stage, and each of two Q tiles,
# is free. Both multiplying warpgroups arrive, whoever fills the buffer waits.
K_FREE = gl.constexpr(4)
V_FREE = gl.constexpr(8)
Q_FREE = gl.constexpr(12)
RAW_FREE = gl.constexpr(14)
# Threads that take part: of two warpgroups, with a warp or another warpgroup.
WITH_WARP = gl.constexpr(288)
WITH_GROUP = gl.constexpr(384)
GROUP_WITH_WARP = gl.constexpr(160)
# How much a row's maximum may grow, in powers of two, until the weights take note. e4m3 has
# room for 0.8 above 256; more slack costs accuracy where few keys have all the weight.
SLACK = gl.constexpr(0.25)
# Stages of row-major V, where V must be transposed.
RAW_STAGES = gl.constexpr(2)


@gluon.jit
def wait_for(barrier, THREADS: gl.constexpr):
    """Waits until `THREADS` threads, these among them, have come to a named barrier."""
    gl.inline_asm_elementwise(
        "bar.sync $1, $2; mov.b32 $0, 0;", "=r,r,r", [barrier, THREADS], gl.int32, False, 1
    )


@gluon.jit
def arrive_at(barrier, THREADS: gl.constexpr):
    """Counts these threads at a named barrier, which has `THREADS`, and goes on."""
    gl.inline_asm_elementwise(
        "bar.arrive $1, $2; mov.b32 $0, 0;", "=r,r,r", [barrier, THREADS], gl.int32, False, 1
    )


@gluon.jit
def place_of(item, blocks, keys, diagonal, KEYS: gl.constexpr, CAUSAL: gl.constexpr):
    """Head, first row and number of key tiles of a block of rows."""
    head = item // blocks
    block = item % blocks
    end = keys
    if CAUSAL:
        block = blocks - 1 - block
        end = gl.minimum(keys, block * 128 + 128 + diagonal)
    return head, block * 128, gl.maximum((end + KEYS - 1) // KEYS, 1)


@gluon.jit
def load_tiles(
    query,
    key,
    value,
    q_tiles,
    k_tiles,
    v_tiles,
    q_full,
    k_full,
    v_full,
    rows,
    keys,
    group,
    diagonal,
    heads,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    V_TRANSPOSED: gl.constexpr,
    STAGES: gl.constexpr,
):
    """The loading warp: for each block Q once, then K and V tile by tile. V goes to `v_tiles`,
    V^T or not. What lies behind a head's rows or keys may be the next head's: it is hidden."""
    dtype: gl.constexpr = k_tiles.dtype
    V_STAGES: gl.constexpr = STAGES if V_TRANSPOSED else RAW_STAGES
    kv_heads = heads // group
    q_desc = tma.make_tensor_descriptor(
        query, [heads * rows, HEAD], [HEAD, 1], [64, HEAD], q_tiles.index(0).layout
    )
    # K's rows in the order of `key_of`.
    K_BLOCK: gl.constexpr = [KEYS // 16, 2, 4, 2, HEAD]
    k_desc = tma.make_tensor_descriptor(
        key,
        [kv_heads * (keys // 16), 2, 4, 2, HEAD],
        [16 * HEAD, 2 * HEAD, 4 * HEAD, HEAD, 1],
        K_BLOCK,
        gl.NVMMASharedLayout.get_default_for(K_BLOCK, dtype),
    )
    if V_TRANSPOSED:
        v_desc = tma.make_tensor_descriptor(
            value, [kv_heads * HEAD, keys], [keys, 1], [HEAD, KEYS], v_tiles.index(0).layout
        )
    else:
        v_desc = tma.make_tensor_descriptor(
            value, [kv_heads * keys, HEAD], [HEAD, 1], [KEYS, HEAD], v_tiles.index(0).layout
        )
    blocks = (rows + 127) // 128
    done = 0
    loaded = 0
    for item in range(gl.program_id(0), heads * blocks, gl.num_programs(0)):
        head, first_row, tiles = place_of(item, blocks, keys, diagonal, KEYS, CAUSAL)
        half = done & 1
        if done >= 2:
            wait_for(Q_FREE + half, WITH_WARP)
        mbarrier.expect(q_full.index(half), 2 * q_desc.block_type.nbytes)
        for part in gl.static_range(2):
            tma.async_copy_global_to_shared(
                q_desc,
                [head * rows + first_row + 64 * part, 0],
                q_full.index(half),
                q_tiles.index(2 * half + part),
            )
        done += 1
        kv_head = head // group
        for tile in range(tiles):
            stage = loaded % STAGES
            v_stage = loaded % V_STAGES
            if loaded >= STAGES:
                wait_for(K_FREE + stage, WITH_WARP)
            mbarrier.expect(k_full.index(stage), k_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(
                k_desc,
                [kv_head * (keys // 16) + tile * (KEYS // 16), 0, 0, 0, 0],
                k_full.index(stage),
                k_tiles.index(stage)._reinterpret(dtype, K_BLOCK, k_desc.layout),
            )
            if loaded >= V_STAGES:
                if V_TRANSPOSED:
                    wait_for(V_FREE + v_stage, WITH_WARP)
                else:
                    wait_for(RAW_FREE + v_stage, GROUP_WITH_WARP)
            mbarrier.expect(v_full.index(v_stage), v_desc.block_type.nbytes)
            if V_TRANSPOSED:
                place = [kv_head * HEAD, tile * KEYS]
            else:
                place = [kv_head * keys + tile * KEYS, 0]
            tma.async_copy_global_to_shared(
                v_desc, place, v_full.index(v_stage), v_tiles.index(v_stage)
            )
            loaded += 1
    # Every arrival is waited for: a barrier that is left half full would be so at the next use.
    for old in range(gl.maximum(done - 2, 0), done):
        wait_for(Q_FREE + (old & 1), WITH_WARP)
    for old in range(gl.maximum(loaded - STAGES, 0), loaded):
        wait_for(K_FREE + old % STAGES, WITH_WARP)
        if V_TRANSPOSED:
            wait_for(V_FREE + old % STAGES, WITH_WARP)
    if not V_TRANSPOSED:
        for old in range(gl.maximum(loaded - RAW_STAGES, 0), loaded):
            wait_for(RAW_FREE + old % RAW_STAGES, GROUP_WITH_WARP)


@gluon.jit
def turn_tiles(
    raw_tiles,
    v_tiles,
    raw_full,
    v_full,
    rows,
    keys,
    diagonal,
    heads,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Four warps that transpose tiles of row-major V from one buffer into another.

    A thread turns squares of 4 x 4 bytes in registers, so that it writes words.
    """
    SQUARES: gl.constexpr = gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [1, 0], [2, 0], [16, 0], [32, 0], [64, 0]],
        lane_bases=[[0, 4], [0, 8], [4, 0], [8, 0], [0, 16]],
        warp_bases=[[0, 32], [0, 64]],
        block_bases=[],
        shape=[KEYS, HEAD],
    )
    blocks = (rows + 127) // 128
    turned = 0
    for item in range(gl.program_id(0), heads * blocks, gl.num_programs(0)):
        _, _, tiles = place_of(item, blocks, keys, diagonal, KEYS, CAUSAL)
        for _ in range(tiles):
            raw = turned % RAW_STAGES
            stage = turned % STAGES
            mbarrier.wait(raw_full.index(raw), (turned // RAW_STAGES) & 1)
            tile = raw_tiles.index(raw).load(SQUARES)
            if turned >= STAGES:
                wait_for(V_FREE + stage, WITH_GROUP)
            v_tiles.index(stage).store(tile.permute([1, 0]))
            arrive_at(RAW_FREE + raw, GROUP_WITH_WARP)
            fence_async_shared()
            mbarrier.arrive(v_full.index(stage), count=1)
            turned += 1
    for old in range(gl.maximum(turned - STAGES, 0), turned):
        wait_for(V_FREE + old % STAGES, WITH_GROUP)


@gluon.jit
def key_of(column):
    """The key, in its tile, that a column of the scores belongs to.

    An 8-bit operand of wgmma has 4 neighbouring columns in a thread, an accumulator has 2. K's
    rows come in such an order that what a thread has of the scores of 16 columns is what it
    must give of the weights of 16 keys: no data moves between threads.
    """
    return (column & -16) | ((column & 6) << 1) | ((column & 8) >> 2) | (column & 1)


@gluon.jit
def hide_keys(
    scores,
    tile,
    first_row,
    keys,
    diagonal,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    LAYOUT: gl.constexpr,
):
    """Scores of keys behind the end or above the diagonal become -1e30. Only the tiles that
    have such keys pay for it. -1e30 instead of -inf keeps the running maximum finite."""
    last_key = (tile + 1) * KEYS - 1
    needed = last_key >= keys
    if CAUSAL:
        needed = needed | (last_key > first_row + diagonal)
    if needed:
        column = tile * KEYS + key_of(gl.arange(0, KEYS, layout=gl.SliceLayout(0, LAYOUT)))
        if CAUSAL:
            row = first_row + gl.arange(0, 64, layout=gl.SliceLayout(1, LAYOUT))
            limit = gl.minimum(row + diagonal, keys - 1)
            scores = gl.where(limit[:, None] >= column[None, :], scores, -1.0e30)
        else:
            scores = gl.where((column < keys)[None, :], scores, -1.0e30)
    return scores


@gluon.jit
def row_max(scores, KEYS: gl.constexpr, LAYOUT: gl.constexpr):
    """The maxima of rows, by way of four in each thread, which do not wait for each other."""
    parts = gl.max(scores.reshape([64, 4, KEYS // 4]), 1)
    return gl.convert_layout(gl.max(parts, 1), gl.SliceLayout(1, LAYOUT))


@gluon.jit
def own_sums(weights, KEYS: gl.constexpr):
    """The sums of what a thread has of each row: (64, 4), for the four threads of a row."""
    return gl.sum(gl.sum(weights.reshape([64, KEYS // 8, 4, 2]), 1), 2)


@gluon.jit
def soften(
    scores,
    peak,
    total,
    tile,
    first_row,
    keys,
    diagonal,
    factor,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    LAYOUT: gl.constexpr,
):
    """A tile's weights, the new maxima and sums of rows, and what the old ones shrink by.

    Weights lie between 0 and 256 (with SLACK, 304) instead of 0 and 1, which uses the range of
    e4m3 (largest value 448); the row sums have the same factor, so it cancels.
    """
    scores = hide_keys(scores, tile, first_row, keys, diagonal, KEYS, CAUSAL, LAYOUT)
    new_peak = row_max(scores, KEYS, LAYOUT) * factor
    new_peak = gl.where(new_peak > peak + SLACK, new_peak, peak)
    weights = gl.exp2(scores * factor - (new_peak - 8.0)[:, None])
    shrink = gl.exp2(peak - new_peak)
    total = total * gl.convert_layout(shrink, gl.SliceLayout(1, total.type.layout))[:, None]
    total += own_sums(weights, KEYS)
    return weights, new_peak, total, shrink


@gluon.jit
def weighed(total):
    """The sums of rows, and what follows in the code stays behind them.

    ptxas would move the wait for P.V up, before the softmax that should run under P.V. It moves
    nothing above a barrier, even one that is never come to: sums are not negative.
    """
    return gl.inline_asm_elementwise(
        """{
        .reg .pred never;
        .reg .f32 both;
        add.f32 both, $2, $3;
        setp.lt.f32 never, both, 0fC0000000;
        @never bar.sync 15, 128;
        mov.b32 $0, $2;
        mov.b32 $1, $3;
        }""",
        "=f,=f,f,f",
        [total],
        dtype=gl.float32,
        is_pure=False,
        pack=2,
    )


@gluon.constexpr_function
def shrink_code(count):
    """PTX that multiplies `count` accumulators by as many factors, unless all of the warp's are
    1. A thread has two rows of accumulators, and two of each in turn."""
    lines = ["{", ".reg .pred less, any;"]
    lines += [f"setp.lt.f32 less, ${2 * count}, 0f3F800000;"]
    lines += [f"@!less setp.lt.f32 less, ${2 * count + 2}, 0f3F800000;"]
    lines += ["vote.sync.any.pred any, less, -1;", "@!any bra same;"]
    lines += [f"mul.f32 ${i}, ${count + i}, ${2 * count + i};" for i in range(count)]
    return "\n".join([*lines, "same:", "}"])


@gluon.constexpr_function
def shrink_operands(count):
    """Results, then accumulators in their places, then factors."""
    names = ["=f"] * count + [str(i) for i in range(count)] + ["f"] * count
    return ",".join(names)


@gluon.jit
def shrunk(out, shrink, HEAD: gl.constexpr):
    """The output so far, times what its rows shrink by."""
    factors, _ = gl.broadcast(shrink[:, None], out)
    CODE: gl.constexpr = shrink_code(HEAD // 2)
    OPERANDS: gl.constexpr = shrink_operands(HEAD // 2)
    return gl.inline_asm_elementwise(
        CODE, OPERANDS, [out, factors], dtype=gl.float32, is_pure=True, pack=HEAD // 2
    )


@gluon.jit
def packed(weights, KEYS: gl.constexpr):
    """Weights as e4m3, those of four neighbouring keys in an i32: (64, KEYS // 16, 4). As a
    tensor of e4m3 they would take a register each where the loop carries them."""
    weights = weights.reshape([64, KEYS // 16, 2, 4, 2]).permute([0, 1, 3, 2, 4])
    even, odd = gl.split(weights)
    first, third = gl.split(even)
    second, fourth = gl.split(odd)
    return gl.inline_asm_elementwise(
        """{
        .reg .b16 low, high;
        cvt.rn.satfinite.e4m3x2.f32 low, $2, $1;
        cvt.rn.satfinite.e4m3x2.f32 high, $4, $3;
        mov.b32 $0, {low, high};
        }""",
        "=r,f,f,f,f",
        [first, second, third, fourth],
        dtype=gl.int32,
        is_pure=True,
        pack=1,
    )


@gluon.jit
def as_operand(words, KEYS: gl.constexpr, LAYOUT: gl.constexpr):
    """Packed weights as left operand of P.V. Each word stands for all four of its weights, and
    is taken once."""
    words = gl.expand_dims(gl.expand_dims(words, 3), 4)
    shape: gl.constexpr = [64, KEYS // 16, 4, 2, 2]
    spread, _ = gl.broadcast(words, gl.full(shape, 0, gl.int32, words.type.layout))
    return gl.inline_asm_elementwise(
        "mov.b32 $0, $1;",
        "=r,r,r,r,r",
        [gl.convert_layout(spread.reshape([64, KEYS]), LAYOUT)],
        dtype=gl.float8e4nv,
        is_pure=True,
        pack=4,
    )


@gluon.jit
def attend(
    output,
    q_tiles,
    k_tiles,
    v_tiles,
    q_full,
    k_full,
    v_full,
    factor,
    rows,
    keys,
    diagonal,
    heads,
    PART: gl.constexpr,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    STAGES: gl.constexpr,
    V_USERS: gl.constexpr,
    EARLY: gl.constexpr,
):
    """A multiplying warpgroup: rows 64 * PART to 64 * PART + 63 of each block. `V_USERS` is how
    many threads meet where a tile of V is free. EARLY turns weights to e4m3 at the end of their
    own tile, instead of under the next one's Q.K: which is faster depends on what ptxas makes
    of it, and was measured for each kernel."""
    SCORES: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, KEYS, 32]
    )
    OUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, HEAD, 32]
    )
    WEIGHTS: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=OUT, k_width=4)
    ROWS: gl.constexpr = gl.SliceLayout(1, SCORES)
    OUT_ROWS: gl.constexpr = gl.SliceLayout(1, OUT)
    zero = gl.zeros([64, KEYS], gl.float32, SCORES)
    blocks = (rows + 127) // 128
    done = 0
    used = 0
    for item in range(gl.program_id(0), heads * blocks, gl.num_programs(0)):
        head, block_row, tiles = place_of(item, blocks, keys, diagonal, KEYS, CAUSAL)
        first_row = block_row + 64 * PART
        half = done & 1
        q = q_tiles.index(2 * half + PART)
        out = gl.zeros([64, HEAD], gl.float32, OUT)
        peak = gl.full([64], -1.0e30, gl.float32, ROWS)
        total = own_sums(zero, KEYS)
        stage = used % STAGES
        mbarrier.wait(q_full.index(half), (done >> 1) & 1)
        mbarrier.wait(k_full.index(stage), (used // STAGES) & 1)
        scores = warpgroup_mma(q, k_tiles.index(stage).permute((1, 0)), zero, use_acc=False)
        arrive_at(K_FREE + stage, WITH_WARP)
        weights, peak, total, shrink = soften(
            scores, peak, total, 0, first_row, keys, diagonal, factor, KEYS, CAUSAL, SCORES
        )
        if EARLY:
            weights = packed(weights, KEYS)
        for tile in range(1, tiles):
            before = stage
            filled = (used // STAGES) & 1
            used += 1
            stage = used % STAGES
            mbarrier.wait(k_full.index(stage), (used // STAGES) & 1)
            next_scores = warpgroup_mma(
                q, k_tiles.index(stage).permute((1, 0)), zero, use_acc=False, is_async=True
            )
            words = weights if EARLY else packed(weights, KEYS)
            mbarrier.wait(v_full.index(before), filled)
            next_out = warpgroup_mma(
                as_operand(words, KEYS, WEIGHTS),
                v_tiles.index(before).permute((1, 0)),
                out,
                is_async=True,
            )
            scores = warpgroup_mma_wait(num_outstanding=1, deps=(next_scores,))
            arrive_at(K_FREE + stage, WITH_WARP)
            weights, peak, total, shrink = soften(
                scores, peak, total, tile, first_row, keys, diagonal, factor, KEYS, CAUSAL, SCORES
            )
            total = weighed(total)
            out = warpgroup_mma_wait(num_outstanding=0, deps=(next_out,))
            arrive_at(V_FREE + before, V_USERS)
            shrink = gl.convert_layout(shrink, OUT_ROWS)
            out = shrunk(out, shrink, HEAD)
            if EARLY:
                weights = packed(weights, KEYS)
        arrive_at(Q_FREE + half, WITH_WARP)
        words = weights if EARLY else packed(weights, KEYS)
        mbarrier.wait(v_full.index(stage), (used // STAGES) & 1)
        out = warpgroup_mma(
            as_operand(words, KEYS, WEIGHTS), v_tiles.index(stage).permute((1, 0)), out
        )
        arrive_at(V_FREE + stage, V_USERS)
        used += 1
        done += 1  # noqa: SIM113 (Gluon has no enumerate)
        out = out * gl.convert_layout(1.0 / gl.sum(total, 1), OUT_ROWS)[:, None]
        row = first_row + gl.arange(0, 64, layout=OUT_ROWS)
        place = row[:, None] * HEAD + gl.arange(0, HEAD, layout=gl.SliceLayout(0, OUT))[None, :]
        inside = (row < rows)[:, None] & (gl.full([1, HEAD], 1, gl.int1, OUT))
        start = output + head.to(gl.int64) * rows * HEAD
        gl.store(start + place, out.to(output.dtype.element_ty), mask=inside)


@gluon.jit
def attention(
    query,
    key,
    value,
    output,
    scratch,
    rows,
    keys,
    group,
    diagonal,
    heads,
    scale,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    V_TRANSPOSED: gl.constexpr,
    STAGES: gl.constexpr,
    REGISTERS: gl.constexpr,
    EARLY: gl.constexpr,
):
    """softmax(scale * Q K^T) V for every head.

    query and output: (heads, rows, HEAD); key: (heads / group, keys, HEAD); value: the same,
    or (heads / group, HEAD, keys) if V_TRANSPOSED; all dense and 16-byte aligned. Row i sees
    keys 0 to i + diagonal if CAUSAL, where diagonal >= 0. The grid is any number of programs
    in one dim; more than blocks of 128 rows, of all heads, have nothing to do. `scratch` is
    not read: the build puts the memory of the TMA descriptors in its place.
    """
    dtype: gl.constexpr = query.dtype.element_ty
    Q_TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, HEAD], dtype)
    K_TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([KEYS, HEAD], dtype)
    VT_TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([HEAD, KEYS], dtype)
    v_tiles = gl.allocate_shared_memory(dtype, [STAGES, HEAD, KEYS], VT_TILE)
    q_tiles = gl.allocate_shared_memory(dtype, [4, 64, HEAD], Q_TILE)
    k_tiles = gl.allocate_shared_memory(dtype, [STAGES, KEYS, HEAD], K_TILE)

    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [2, 1], BARRIER)
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for half in gl.static_range(2):
        mbarrier.init(q_full.index(half), count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_full.index(stage), count=1)
        mbarrier.init(v_full.index(stage), count=1)
    if not V_TRANSPOSED:
        raw_tiles = gl.allocate_shared_memory(dtype, [RAW_STAGES, KEYS, HEAD], K_TILE)
        raw_full = gl.allocate_shared_memory(gl.int64, [RAW_STAGES, 1], BARRIER)
        for stage in gl.static_range(RAW_STAGES):
            mbarrier.init(raw_full.index(stage), count=1)
    fence_async_shared()

    factor = scale * 1.4426950408889634
    # A part is listed for each of its numbers, because each compiled part knows its rows.
    if V_TRANSPOSED:
        gl.warp_specialize(
            [
                (
                    attend,
                    (output, q_tiles, k_tiles, v_tiles, q_full, k_full, v_full, factor, rows,
                     keys, diagonal, heads, 0, HEAD, KEYS, CAUSAL, STAGES, WITH_WARP, EARLY),
                ),
                (
                    attend,
                    (output, q_tiles, k_tiles, v_tiles, q_full, k_full, v_full, factor, rows,
                     keys, diagonal, heads, 1, HEAD, KEYS, CAUSAL, STAGES, WITH_WARP, EARLY),
                ),
                (
                    load_tiles,
                    (query, key, value, q_tiles, k_tiles, v_tiles, q_full, k_full, v_full, rows,
                     keys, group, diagonal, heads, HEAD, KEYS, CAUSAL, True, STAGES),
                ),
            ],
            [4, 1],
            [REGISTERS, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (
                    attend,
                    (output, q_tiles, k_tiles, v_tiles, q_full, k_full, v_full, factor, rows,
                     keys, diagonal, heads, 0, HEAD, KEYS, CAUSAL, STAGES, WITH_GROUP, EARLY),
                ),
                (
                    attend,
                    (output, q_tiles, k_tiles, v_tiles, q_full, k_full, v_full, factor, rows,
                     keys, diagonal, heads, 1, HEAD, KEYS, CAUSAL, STAGES, WITH_GROUP, EARLY),
                ),
                (
                    turn_tiles,
                    (raw_tiles, v_tiles, raw_full, v_full, rows, keys, diagonal, heads, HEAD,
                     KEYS, CAUSAL, STAGES),
                ),
                (
                    load_tiles,
                    (query, key, value, q_tiles, k_tiles, raw_tiles, q_full, k_full, raw_full,
                     rows, keys, group, diagonal, heads, HEAD, KEYS, CAUSAL, False, STAGES),
                ),
            ],
            [4, 4, 1],
            [REGISTERS, 72, 24],
        )  # fmt: skip
