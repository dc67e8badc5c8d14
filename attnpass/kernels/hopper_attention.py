# type: ignore (Triton compiles this file; Python never runs it)
"""Attention forward for Hopper (sm_90a), warp-specialised, written in Gluon (triton 3.6.0).

`tools/build_kernels.py` compiles this file ahead of time; nothing imports it at run time.

One program computes 128 query rows of one head. Three groups of warps share the work: one
warp loads K and V tiles with the tensor memory accelerator (TMA), two warpgroups of four
warps own 64 rows each and multiply. A ring of `STAGES` tiles stands between them: for each
of K and V a *full* barrier says that a tile has arrived, an *empty* one that both warpgroups
are done with it. A warpgroup starts Q.K of the next tile before it waits for P.V of the last,
so the tensor cores work while the exponentials are computed.

8-bit operands (e4m3) come with V^T, because wgmma reads them only with the reduced dim
innermost, and with `keys` a multiple of 16.

The running maximum is kept in units of log2, as FlashAttention does, so that one exp2 and one
multiply-add stand for scale, shift and exponential (online softmax: Milakov and Gimelshein,
arXiv 1805.02867; the tiling: Dao, arXiv 2307.08691 and 2407.08608).
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
    k_empty,
    v_full,
    v_empty,
    first_row,
    first_tile,
    tiles,
    rows,
    keys,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    V_TRANSPOSED: gl.constexpr,
    STAGES: gl.constexpr,
):
    """The loading warp: Q once, then K and V tile by tile. TMA fills what lies outside of a
    tensor with zeros, so the last tile needs no care here."""
    q_desc = tma.make_tensor_descriptor(
        query, [rows, HEAD], [HEAD, 1], [64, HEAD], q_tiles.index(0).layout
    )
    mbarrier.expect(q_full.index(0), 2 * q_desc.block_type.nbytes)
    for part in gl.static_range(2):
        tma.async_copy_global_to_shared(
            q_desc, [first_row + 64 * part, 0], q_full.index(0), q_tiles.index(part)
        )
    if SHUFFLED(k_tiles.dtype):
        k_desc = tma.make_tensor_descriptor(
            key,
            [keys // 16, 2, 4, 2, HEAD],
            [16 * HEAD, 2 * HEAD, 4 * HEAD, HEAD, 1],
            [KEYS // 16, 2, 4, 2, HEAD],
            gl.NVMMASharedLayout.get_default_for([KEYS // 16, 2, 4, 2, HEAD], k_tiles.dtype),
        )
    else:
        k_desc = tma.make_tensor_descriptor(
            key, [keys, HEAD], [HEAD, 1], [KEYS, HEAD], k_tiles.index(0).layout
        )
    if V_TRANSPOSED:
        v_desc = tma.make_tensor_descriptor(
            value, [HEAD, keys], [keys, 1], [HEAD, KEYS], v_tiles.index(0).layout
        )
    else:
        v_desc = tma.make_tensor_descriptor(
            value, [keys, HEAD], [HEAD, 1], [KEYS, HEAD], v_tiles.index(0).layout
        )
    for tile in range(tiles):
        stage = tile % STAGES
        # A fresh barrier counts as having completed phase 1: the first round does not wait.
        phase = ((tile // STAGES) & 1) ^ 1
        first_key = (first_tile + tile) * KEYS
        mbarrier.wait(k_empty.index(stage), phase)
        mbarrier.expect(k_full.index(stage), k_desc.block_type.nbytes)
        if SHUFFLED(k_tiles.dtype):
            target = k_tiles.index(stage)._reinterpret(
                k_tiles.dtype, [KEYS // 16, 2, 4, 2, HEAD], k_desc.layout
            )
            tma.async_copy_global_to_shared(
                k_desc, [first_key // 16, 0, 0, 0, 0], k_full.index(stage), target
            )
        else:
            tma.async_copy_global_to_shared(
                k_desc, [first_key, 0], k_full.index(stage), k_tiles.index(stage)
            )
        mbarrier.wait(v_empty.index(stage), phase)
        mbarrier.expect(v_full.index(stage), v_desc.block_type.nbytes)
        if V_TRANSPOSED:
            tma.async_copy_global_to_shared(
                v_desc, [0, first_key], v_full.index(stage), v_tiles.index(stage)
            )
        else:
            tma.async_copy_global_to_shared(
                v_desc, [first_key, 0], v_full.index(stage), v_tiles.index(stage)
            )


@gluon.constexpr_function
def SHUFFLED(dtype):
    """Whether K's rows are loaded in another order than that of the keys (see `key_of`)."""
    return dtype.primitive_bitwidth == 8


@gluon.jit
def key_of(column, DTYPE: gl.constexpr):
    """The key, in its tile, that a column of the scores belongs to.

    An 8-bit operand of wgmma has 4 neighbouring columns in a thread, an accumulator has 2. K's
    rows come in such an order that what a thread has of the scores of 16 columns is what it
    must give of the weights of 16 keys: no data moves between threads.
    """
    if SHUFFLED(DTYPE):
        column = (column & -16) | ((column & 6) << 1) | ((column & 8) >> 2) | (column & 1)
    return column


@gluon.jit
def carried(weights, DTYPE: gl.constexpr, KEYS: gl.constexpr, LAYOUT: gl.constexpr):
    """The weights as they go from one tile to the next: 16-bit ones as operand of P.V, others
    in f32, because the compiler would take a register for each of 8 bits."""
    if SHUFFLED(DTYPE):
        weights = weights.reshape([64, KEYS // 16, 2, 4, 2]).permute([0, 1, 3, 2, 4])
        weights = gl.convert_layout(weights.reshape([64, KEYS]), LAYOUT)
    else:
        weights = gl.convert_layout(weights.to(DTYPE), LAYOUT)
    return weights


@gluon.jit
def as_operand(weights, DTYPE: gl.constexpr):
    """Carried weights as left operand of P.V, their columns in the order of the keys."""
    if SHUFFLED(DTYPE):
        weights = gl.inline_asm_elementwise(
            """{
            .reg .b16 low, high;
            cvt.rn.satfinite.e4m3x2.f32 low, $2, $1;
            cvt.rn.satfinite.e4m3x2.f32 high, $4, $3;
            mov.b32 $0, {low, high};
            }""",
            "=r,f,f,f,f",
            [weights],
            dtype=gl.float8e4nv,
            is_pure=True,
            pack=4,
        )
    return weights


@gluon.jit
def load_mask(
    mask,
    tile,
    first_row,
    rows,
    keys,
    mask_stride,
    KEYS: gl.constexpr,
    LAYOUT: gl.constexpr,
):
    """The mask of 64 rows and one tile of keys; 0 outside of it."""
    row = first_row + gl.arange(0, 64, layout=gl.SliceLayout(1, LAYOUT))
    column = tile * KEYS + gl.arange(0, KEYS, layout=gl.SliceLayout(0, LAYOUT))
    place = row.to(gl.int64)[:, None] * mask_stride + column[None, :]
    inside = (row < rows)[:, None] & (column < keys)[None, :]
    return gl.load(mask + place, mask=inside, other=0)


@gluon.jit
def hide_keys(
    scores,
    tile,
    first_row,
    keys,
    diagonal,
    behind,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    DTYPE: gl.constexpr,
    LAYOUT: gl.constexpr,
):
    """Scores of keys behind the end, above the diagonal or before the window become -1e30.
    Only the tiles that have such keys pay for it. -1e30 instead of -inf keeps the running
    maximum finite."""
    last_key = (tile + 1) * KEYS - 1
    needed = last_key >= keys
    if CAUSAL:
        needed = needed | (last_key > first_row + diagonal)
    if WINDOW:
        needed = needed | (tile * KEYS < first_row + 63 - behind)
    if needed:
        column = tile * KEYS + key_of(gl.arange(0, KEYS, layout=gl.SliceLayout(0, LAYOUT)), DTYPE)
        if CAUSAL:
            row = first_row + gl.arange(0, 64, layout=gl.SliceLayout(1, LAYOUT))
            limit = gl.minimum(row + diagonal, keys - 1)
            scores = gl.where(limit[:, None] >= column[None, :], scores, -1.0e30)
            if WINDOW:
                scores = gl.where((row - behind)[:, None] <= column[None, :], scores, -1.0e30)
        else:
            scores = gl.where((column < keys)[None, :], scores, -1.0e30)
    return scores


@gluon.jit
def masked(scores, given, scale_log2, BOOLEAN: gl.constexpr):
    """Scores in units of log2 with a mask: `given` is added, or, if BOOLEAN, shows a key where
    it is not 0."""
    scores = scores * scale_log2
    if BOOLEAN:
        scores = gl.where(given != 0, scores, -1.0e30)
    else:
        scores = gl.maximum(scores + given.to(gl.float32) * 1.4426950408889634, -1.0e30)
    return scores


@gluon.jit
def attend(
    output,
    mask,
    q_tiles,
    k_tiles,
    v_tiles,
    q_full,
    k_full,
    k_empty,
    v_full,
    v_empty,
    program_row,
    first_tile,
    tiles,
    scale_log2,
    rows,
    keys,
    diagonal,
    behind,
    mask_stride,
    PART: gl.constexpr,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    MASK: gl.constexpr,
    V_TRANSPOSED: gl.constexpr,
    STAGES: gl.constexpr,
):
    """A multiplying warpgroup: rows 64 * PART to 64 * PART + 63 of the program's."""
    dtype: gl.constexpr = k_tiles.dtype
    DEPTH: gl.constexpr = 256 // dtype.primitive_bitwidth
    SCORES: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, KEYS, DEPTH]
    )
    OUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, HEAD, DEPTH]
    )
    WEIGHTS: gl.constexpr = gl.DotOperandLayout(
        operand_index=0, parent=OUT, k_width=32 // dtype.primitive_bitwidth
    )
    OUT_ROWS: gl.constexpr = gl.SliceLayout(1, OUT)
    # 8-bit weights lie between 0 and 256 instead of 0 and 1, which uses the range of e4m3
    # (largest value 448); the row sums have the same factor, so it cancels.
    LIFT: gl.constexpr = 8.0 if dtype.primitive_bitwidth == 8 else 0.0
    first_row = program_row + PART * 64
    BOOLEAN: gl.constexpr = MASK == 2
    # With a mask, scores are in units of log2 when it has been applied; else they are scaled
    # together with the shift.
    factor = scale_log2
    if MASK:
        factor = 1.0
    q = q_tiles.index(PART)
    zero = gl.zeros([64, KEYS], gl.float32, SCORES)
    out = gl.zeros([64, HEAD], gl.float32, OUT)

    mbarrier.wait(q_full.index(0), 0)
    mbarrier.wait(k_full.index(0), 0)
    scores = warpgroup_mma(q, k_tiles.index(0).permute((1, 0)), zero, use_acc=False)
    mbarrier.arrive(k_empty.index(0), count=1)
    if MASK:
        given = load_mask(mask, first_tile, first_row, rows, keys, mask_stride, KEYS, SCORES)
        scores = masked(scores, given, scale_log2, BOOLEAN)
    scores = hide_keys(
        scores, first_tile, first_row, keys, diagonal, behind, KEYS, CAUSAL, WINDOW, dtype, SCORES
    )
    peak = gl.max(scores, 1) * factor
    if MASK or WINDOW:
        # Far above hidden scores and below all others: hidden keys weigh 0 in rows that have
        # seen none yet. A row that never sees one is 0 / 0: NaN, as IREE's attention gives.
        peak = gl.maximum(peak, -1.0e20)
    weights = gl.exp2(scores * factor - (peak - LIFT)[:, None])
    total = gl.sum(weights, 1)
    packed = carried(weights, dtype, KEYS, WEIGHTS)
    for tile in range(1, tiles):
        stage = tile % STAGES
        before = (tile - 1) % STAGES
        mbarrier.wait(k_full.index(stage), (tile // STAGES) & 1)
        next_scores = warpgroup_mma(
            q, k_tiles.index(stage).permute((1, 0)), zero, use_acc=False, is_async=True
        )
        operand = as_operand(packed, dtype)
        mbarrier.wait(v_full.index(before), ((tile - 1) // STAGES) & 1)
        if V_TRANSPOSED:
            next_out = warpgroup_mma(
                operand, v_tiles.index(before).permute((1, 0)), out, is_async=True
            )
        else:
            next_out = warpgroup_mma(operand, v_tiles.index(before), out, is_async=True)
        place = first_tile + tile
        if MASK:
            given = load_mask(mask, place, first_row, rows, keys, mask_stride, KEYS, SCORES)
        scores = warpgroup_mma_wait(num_outstanding=1, deps=(next_scores,))
        mbarrier.arrive(k_empty.index(stage), count=1)
        if MASK:
            scores = masked(scores, given, scale_log2, BOOLEAN)
        scores = hide_keys(
            scores, place, first_row, keys, diagonal, behind, KEYS, CAUSAL, WINDOW, dtype, SCORES
        )
        new_peak = gl.maximum(peak, gl.max(scores, 1) * factor)
        weights = gl.exp2(scores * factor - (new_peak - LIFT)[:, None])
        shrink = gl.exp2(peak - new_peak)
        total = total * shrink + gl.sum(weights, 1)
        peak = new_peak
        # Naming the 16-bit weights as a dependence keeps their registers alive until P.V has
        # read them; for 8 bits the compiler copies them and refuses the name.
        if dtype.primitive_bitwidth == 16:
            out, packed = warpgroup_mma_wait(num_outstanding=0, deps=(next_out, operand))
        else:
            out = warpgroup_mma_wait(num_outstanding=0, deps=(next_out,))
        mbarrier.arrive(v_empty.index(before), count=1)
        out = out * gl.convert_layout(shrink, OUT_ROWS)[:, None]
        packed = carried(weights, dtype, KEYS, WEIGHTS)
    last = (tiles - 1) % STAGES
    mbarrier.wait(v_full.index(last), ((tiles - 1) // STAGES) & 1)
    operand = as_operand(packed, dtype)
    if V_TRANSPOSED:
        out = warpgroup_mma(operand, v_tiles.index(last).permute((1, 0)), out)
    else:
        out = warpgroup_mma(operand, v_tiles.index(last), out)
    out = out / gl.convert_layout(total, OUT_ROWS)[:, None]
    row = first_row + gl.arange(0, 64, layout=OUT_ROWS)
    place = row[:, None] * HEAD + gl.arange(0, HEAD, layout=gl.SliceLayout(0, OUT))[None, :]
    inside = (row < rows)[:, None] & (gl.full([1, HEAD], 1, gl.int1, OUT))
    gl.store(output + place, out.to(output.dtype.element_ty), mask=inside)


@gluon.jit
def attention(
    query,
    key,
    value,
    mask,
    output,
    scratch,
    rows,
    keys,
    group,
    diagonal,
    behind,
    mask_stride,
    mask_divisor,
    mask_count,
    scale,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    MASK: gl.constexpr,
    V_TRANSPOSED: gl.constexpr,
    STAGES: gl.constexpr,
    REGISTERS: gl.constexpr,
):
    """softmax(scale * Q K^T) V for every head.

    query and output: (heads, rows, HEAD); key: (heads / group, keys, HEAD); value: the same,
    or (heads / group, HEAD, keys) if V_TRANSPOSED; all dense, 16-byte aligned, and the rows
    of each a multiple of 16 bytes long. Row i sees keys 0 to i + diagonal if CAUSAL, where
    diagonal >= 0; if WINDOW too, none before key i - behind. MASK is 0 for none, 1 for a mask
    that is added to the scaled scores, 2 for bytes that are 0 where a key is not seen. Head h
    reads mask number h / mask_divisor % mask_count, each of (rows, keys), or of (keys) if
    mask_stride, the distance of its rows, is 0. Arguments that a kernel does not need are not
    among its parameters. The grid is heads * ceil(rows / 128) programs in one dim.
    `scratch` is not read: the build puts the memory of the TMA descriptors in its place.
    """
    blocks = (rows + 127) // 128
    program = gl.program_id(0)
    head = (program // blocks).to(gl.int64)
    block = program % blocks
    if CAUSAL:
        block = blocks - 1 - block  # the longest rows first, so that the tail is short
    first_row = block * 128
    kv_head = head // group
    query += head * rows * HEAD
    output += head * rows * HEAD
    key += kv_head * keys * HEAD
    value += kv_head * keys * HEAD
    dtype: gl.constexpr = query.dtype.element_ty
    Q_TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, HEAD], dtype)
    K_TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([KEYS, HEAD], dtype)
    VT_TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([HEAD, KEYS], dtype)
    if V_TRANSPOSED:
        v_tiles = gl.allocate_shared_memory(dtype, [STAGES, HEAD, KEYS], VT_TILE)
    else:
        v_tiles = gl.allocate_shared_memory(dtype, [STAGES, KEYS, HEAD], K_TILE)
    q_tiles = gl.allocate_shared_memory(dtype, [2, 64, HEAD], Q_TILE)
    k_tiles = gl.allocate_shared_memory(dtype, [STAGES, KEYS, HEAD], K_TILE)

    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [1, 1], BARRIER)
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    mbarrier.init(q_full.index(0), count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_full.index(stage), count=1)
        mbarrier.init(v_full.index(stage), count=1)
        mbarrier.init(k_empty.index(stage), count=2)
        mbarrier.init(v_empty.index(stage), count=2)
    fence_async_shared()

    end = keys
    if CAUSAL:
        end = gl.minimum(keys, first_row + 128 + diagonal)
    tiles = gl.maximum((end + KEYS - 1) // KEYS, 1)
    first_tile = 0
    if WINDOW:
        first_tile = gl.minimum(gl.maximum(first_row - behind, 0) // KEYS, tiles - 1)
        tiles = tiles - first_tile
    if MASK:
        number = (program // blocks) // mask_divisor % mask_count
        size = keys.to(gl.int64)
        if mask_stride != 0:
            size = size * rows
        mask += number * size
    scale_log2 = scale * 1.4426950408889634
    # A part is listed for each of its numbers, because each compiled part knows its rows.
    gl.warp_specialize(
        [
            (
                attend,
                (output, mask, q_tiles, k_tiles, v_tiles, q_full, k_full, k_empty, v_full,
                 v_empty, first_row, first_tile, tiles, scale_log2, rows, keys, diagonal,
                 behind, mask_stride,
                 0, HEAD, KEYS, CAUSAL, WINDOW, MASK, V_TRANSPOSED, STAGES),
            ),
            (
                attend,
                (output, mask, q_tiles, k_tiles, v_tiles, q_full, k_full, k_empty, v_full,
                 v_empty, first_row, first_tile, tiles, scale_log2, rows, keys, diagonal,
                 behind, mask_stride,
                 1, HEAD, KEYS, CAUSAL, WINDOW, MASK, V_TRANSPOSED, STAGES),
            ),
            (
                load_tiles,
                (query, key, value, q_tiles, k_tiles, v_tiles, q_full, k_full, k_empty, v_full,
                 v_empty, first_row, first_tile, tiles, rows, keys,
                 HEAD, KEYS, V_TRANSPOSED, STAGES),
            ),
        ],
        [4, 1],
        [REGISTERS, 24],
    )  # fmt: skip
