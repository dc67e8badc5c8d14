# type: ignore (Triton compiles this file; Python never runs it)
"""Attention forward for Hopper (sm_90a) with 8-bit operands (e4m3), in Gluon (triton 3.6.0).

`tools/build_kernels.py` compiles this file ahead of time; nothing imports it at run time. What
it shares with hopper_attention.py, for 16 bits, is the online softmax in units of log2. It
differs where the exponentials, not the products, take most of the time:

- One program stays on each multiprocessor and takes every 132nd block of 128 rows (the number
  of programs, to be exact; `place_of`: which, if causal). TMA descriptors are made once, and the
  next block's tiles arrive while the last one's result is written.
- A warpgroup starts Q.K of a tile and P.V of the last one, and computes the new tile's weights
  under P.V and the other warpgroup's products. They take turns: the other starts its maxima and
  exponentials when this one is HANDED_OVER with its own (the idea: FlashAttention-3).
- The memory engine writes the result, under which the next block's first scores are computed.
- Rows mostly keep the maximum that they have. A thread compares its own scores with it, and only
  where one is too large for e4m3 do threads ask each other, and does the output shrink (the
  idea: FlashAttention-4). Sums, too, are added up across threads at the end alone.
- Warps signal empty buffers by named barriers, where only those wait who fill them.

wgmma reads 8-bit operands only with the reduced dim innermost, so that V^T is what the kernel
wants. From row-major V (V_TRANSPOSED false) four more warps make it, tile by tile, in shared
memory. The number of keys must be a multiple of 16.
"""

from hopper_common import PRODUCT, hide_keys, key_tiles, spread
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# Named barriers (0 to 3 are Triton's): it is a multiplying warpgroup's turn; each of two Q tiles
# is free, a K tile of each of up to three stages, a V tile of each, and one of row-major V. Both
# multiplying warpgroups arrive, whoever fills the buffer waits.
TURN = gl.constexpr(4)
Q_FREE = gl.constexpr(6)
K_FREE = gl.constexpr(8)
V_FREE = gl.constexpr(11)
RAW_FREE = gl.constexpr(14)
# Threads that take part: of two warpgroups, with a warp or another warpgroup.
WITH_WARP = gl.constexpr(288)
WITH_GROUP = gl.constexpr(384)
GROUP_WITH_WARP = gl.constexpr(160)
WITH_OTHER = gl.constexpr(256)
# A row's largest weight, as a power of two, when its first tile sets the maximum, and when a later
# tile does: where weights exceed the limit, below 448, where e4m3 ends. The first leaves room for
# the growth that most rows have; more would cost accuracy where few keys have all the weight.
FIRST_TOP = gl.constexpr(6.585)
TOP = gl.constexpr(8.0)
LIMIT = gl.constexpr(8.75)
# Eighths of a tile's keys after whose exponentials it is the other warpgroup's turn.
HANDED_OVER = gl.constexpr(6)
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
def section_of(heads, keys, group, HEAD: gl.constexpr):
    """How many heads a causal kernel takes rows of at a time: those that have their K and V in
    32 MB of the L2 cache, or fewer, that all sections be as large."""
    SHARE: gl.constexpr = 32 * 1024 * 1024 // (2 * HEAD)
    most = gl.maximum(SHARE // keys, 1) * group
    sections = (heads + most - 1) // most
    return (heads + sections - 1) // sections


@gluon.jit
def item_of(turn):
    """The number of a causal program's block of rows. Programs take turns there and back, so that
    each gets as many of the long ones."""
    place = gl.program_id(0)
    place += (turn & 1) * (gl.num_programs(0) - 1 - 2 * place)
    return turn * gl.num_programs(0) + place


@gluon.jit
def turns_of(items, CAUSAL: gl.constexpr):
    """What a program counts its blocks of rows by: first, end and step. A causal one counts turns,
    for `item_of`, others the blocks themselves."""
    first, end, step = gl.program_id(0), items, gl.num_programs(0)
    if CAUSAL:
        full = items // gl.num_programs(0)
        first, end, step = 0, full + (item_of(full) < items).to(gl.int32), 1
    return first, end, step


@gluon.jit
def place_of(
    turn,
    blocks,
    heads,
    section,
    keys,
    limits,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
):
    """Head, first row, first key tile and number of key tiles of a block of rows.

    The blocks of a causal kernel are numbered by section, then by length, then by head. Every
    other section begins with its shortest: neighbouring turns have about the same lengths, and
    the last section ends with its shortest.
    """
    diagonal, behind = limits
    if CAUSAL:
        item = item_of(turn)
        number = item // (section * blocks)
        item -= number * section * blocks
        width = gl.minimum(section, heads - number * section)
        head = number * section + item % width
        block = item // width
        if (((heads - 1) // section - number) & 1) == 0:
            block = blocks - 1 - block
    else:
        head = turn // blocks
        block = turn % blocks
    first_row = block * 128
    first_tile, tiles = key_tiles(first_row, keys, diagonal, behind, 128, KEYS, CAUSAL, WINDOW)
    return head, first_row, first_tile, tiles


@gluon.jit
def load_tiles(
    query,
    key,
    value,
    q_tiles,
    k_tiles,
    v_tiles,
    k_full,
    v_full,
    rows,
    keys,
    group,
    limits,
    heads,
    columns,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    V_TRANSPOSED: gl.constexpr,
    STAGES: gl.constexpr,
):
    """The loading warp: K and V tile by tile, Q with a block's first tile of K. V goes to
    `v_tiles`, V^T or not. What lies behind a head's rows of Q and K may be the next head's: its
    scores are hidden. V has zeros there, for a weight of 0 does not hide NaN."""
    dtype: gl.constexpr = k_tiles.dtype
    V_STAGES: gl.constexpr = STAGES if V_TRANSPOSED else RAW_STAGES
    kv_heads = heads // group
    q_desc = tma.make_tensor_descriptor(
        query, [heads * rows, columns], [columns, 1], [64, HEAD], q_tiles.index(0).layout
    )
    # K's rows in the order of `key_of`.
    K_BLOCK: gl.constexpr = [KEYS // 16, 2, 4, 2, HEAD]
    k_desc = tma.make_tensor_descriptor(
        key,
        [kv_heads * (keys // 16), 2, 4, 2, columns],
        [16 * columns, 2 * columns, 4 * columns, columns, 1],
        K_BLOCK,
        gl.NVMMASharedLayout.get_default_for(K_BLOCK, dtype),
    )
    if V_TRANSPOSED:
        v_desc = tma.make_tensor_descriptor(
            value, [kv_heads * columns, keys], [keys, 1], [HEAD, KEYS], v_tiles.index(0).layout
        )
    else:
        V_BLOCK: gl.constexpr = [1, KEYS, HEAD]
        v_desc = tma.make_tensor_descriptor(
            value,
            [kv_heads, keys, columns],
            [keys.to(gl.int64) * columns, columns, 1],
            V_BLOCK,
            gl.NVMMASharedLayout.get_default_for(V_BLOCK, dtype),
        )
    blocks = (rows + 127) // 128
    section = section_of(heads, keys, group, HEAD)
    done = 0
    loaded = 0
    first, end, step = turns_of(heads * blocks, CAUSAL)
    for turn in range(first, end, step):
        head, first_row, first_tile, tiles = place_of(
            turn, blocks, heads, section, keys, limits, KEYS, CAUSAL, WINDOW
        )
        half = done & 1
        if done >= 2:
            wait_for(Q_FREE + half, WITH_WARP)
        done += 1
        kv_head = head // group
        for tile in range(first_tile, first_tile + tiles):
            stage = loaded % STAGES
            v_stage = loaded % V_STAGES
            if loaded >= STAGES:
                wait_for(K_FREE + stage, WITH_WARP)
            if tile == first_tile:
                mbarrier.expect(
                    k_full.index(stage), k_desc.block_type.nbytes + 2 * q_desc.block_type.nbytes
                )
                for part in gl.static_range(2):
                    tma.async_copy_global_to_shared(
                        q_desc,
                        [head * rows + first_row + 64 * part, 0],
                        k_full.index(stage),
                        q_tiles.index(2 * half + part),
                    )
            else:
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
            v_tile = v_tiles.index(v_stage)
            if V_TRANSPOSED:
                tma.async_copy_global_to_shared(
                    v_desc, [kv_head * columns, tile * KEYS], v_full.index(v_stage), v_tile
                )
            else:
                tma.async_copy_global_to_shared(
                    v_desc,
                    [kv_head, tile * KEYS, 0],
                    v_full.index(v_stage),
                    v_tile._reinterpret(dtype, V_BLOCK, v_desc.layout),
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


@gluon.constexpr_function
def squares(keys, head):
    """The layout of a tile of V of which threads have squares of 4 x 4 elements. Warps have 32
    columns each, or, where there are fewer than four times as many, other keys."""
    further_keys = [[16 << i, 0] for i in range((keys // 16).bit_length() - 1)]
    further_columns = [[0, 32 << i] for i in range((head // 32).bit_length() - 1)]
    apart = [*further_columns, *further_keys]
    return gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [1, 0], [2, 0], *apart[2:]],
        lane_bases=[[0, 4], [0, 8], [4, 0], [8, 0], [0, 16]],
        warp_bases=apart[:2],
        block_bases=[],
        shape=[keys, head],
    )


@gluon.jit
def turn_tiles(
    raw_tiles,
    v_tiles,
    raw_full,
    v_full,
    rows,
    keys,
    group,
    limits,
    heads,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Four warps that transpose tiles of row-major V from one buffer into another.

    A thread turns squares of 4 x 4 bytes in registers, so that it writes words.
    """
    SQUARES: gl.constexpr = squares(KEYS, HEAD)
    blocks = (rows + 127) // 128
    section = section_of(heads, keys, group, HEAD)
    turned = 0
    first, end, step = turns_of(heads * blocks, CAUSAL)
    for turn in range(first, end, step):
        _, _, _, tiles = place_of(turn, blocks, heads, section, keys, limits, KEYS, CAUSAL, WINDOW)
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


@gluon.constexpr_function
def weight_code(groups, first, mine, other):
    """PTX of `weigh`, for tiles of 16 * groups keys.

    A thread has two rows, and of each group of 16 keys four scores of both: eight operands, of
    which numbers 0, 1, 4, 5 are those of one row and 2, 3, 6, 7 those of the other. The results
    of a row are 0: its four weights, 1: its new maximum, 4: what it shrinks by, 5: the thread's
    sum of weights. More operands are the scores, the maxima and the factor of the scores.
    """
    count = 8 * groups
    rows = [
        [[8 * group + 2 * row + i for i in (0, 1, 4, 5)] for group in range(groups)]
        for row in range(2)
    ]
    scores, peaks, factor = count, 2 * count, f"${3 * count}"
    code = ["{", ".reg .f32 w<4>, most<2>, peak<2>, less<2>, shrink<2>, sum<2>;"]
    code += [".reg .pred yes;", ".reg .b16 low, high;", f"bar.sync {mine}, {WITH_OTHER.value};"]
    for row, own in enumerate(rows):
        # By way of four maxima, which do not wait for each other.
        values = [f"${scores + i}" for group in own for i in group]
        code += [f"mov.f32 w{i}, {values[i]};" for i in range(4)]
        code += [f"max.f32 w{i % 4}, w{i % 4}, {x};" for i, x in enumerate(values) if i >= 4]
        code += ["max.f32 w0, w0, w1;", "max.f32 w2, w2, w3;", f"max.f32 most{row}, w0, w2;"]
        code += [f"mul.f32 most{row}, most{row}, {factor};"]
        # Far above hidden scores and below all others: hidden keys weigh 0 in rows that have seen
        # none yet.
        code += [f"max.f32 most{row}, most{row}, {-1e20:.1f};"] if first else []
        code += [f"mov.f32 peak{row}, ${peaks + own[0][0]};", f"mov.f32 shrink{row}, 1.0;"]
    if not first:
        code += [f"sub.f32 w{row}, most{row}, peak{row};" for row in range(2)]
        code += ["max.f32 w0, w0, w1;", f"setp.gt.f32 yes, w0, {LIMIT.value};"]
        code += ["vote.sync.any.pred yes, yes, -1;", "@!yes bra same;"]
    for lane in (1, 2):
        code += [f"shfl.sync.bfly.b32 w{row}, most{row}, {lane}, 0x1f, -1;" for row in range(2)]
        code += [f"max.f32 most{row}, most{row}, w{row};" for row in range(2)]
    top = (FIRST_TOP if first else TOP).value
    for row in range(2):
        code += [f"mov.f32 w{row}, peak{row};", f"sub.f32 peak{row}, most{row}, {top};"]
        code += [] if first else [f"max.f32 peak{row}, peak{row}, w{row};"]
        code += [f"sub.f32 shrink{row}, w{row}, peak{row};"]
        code += [f"ex2.approx.ftz.f32 shrink{row}, shrink{row};"]
    code += ["same:", "neg.f32 less0, peak0;", "neg.f32 less1, peak1;"]
    for group in range(groups):
        for row in range(2):
            own = rows[row][group]
            for i, x in enumerate(own):
                code += [f"fma.rn.f32 w{i}, ${scores + x}, {factor}, less{row};"]
                code += [f"ex2.approx.ftz.f32 w{i}, w{i};"]
            code += ["cvt.rn.satfinite.e4m3x2.f32 low, w1, w0;"]
            code += ["cvt.rn.satfinite.e4m3x2.f32 high, w3, w2;"]
            code += [f"mov.b32 ${own[0]}, {{low, high}};"]
            code += ["add.f32 w0, w0, w1;", "add.f32 w2, w2, w3;", "add.f32 w0, w0, w2;"]
            code += [f"add.f32 sum{row}, sum{row}, w0;" if group else f"mov.f32 sum{row}, w0;"]
        if group == groups * HANDED_OVER.value // 8 - 1:
            # Always, but only when the sums are there, which are not negative.
            code += ["add.f32 w0, sum0, sum1;", "setp.geu.f32 yes, w0, -1.0;"]
            code += [f"@yes bar.arrive {other}, {WITH_OTHER.value};"]
    for row, own in enumerate(rows):
        for group in own:
            names = (f"peak{row}", f"shrink{row}", f"sum{row}")
            code += [f"mov.b32 ${i}, {name};" for i, name in zip(group[1:], names, strict=True)]
    return "\n".join([*code, "}"])


@gluon.constexpr_function
def shrink_code(count):
    """PTX of `shrink_rows`: each two operands of four are those of one row."""
    code = ["{", ".reg .f32 less;", ".reg .pred yes;", f"min.f32 less, ${count}, ${count + 2};"]
    code += ["setp.lt.f32 yes, less, 1.0;", "vote.sync.any.pred yes, yes, -1;", "@!yes bra same;"]
    code += [f"mul.f32 ${i}, ${i}, ${count + i};" for i in range(count)]
    return "\n".join([*code, "same:", "}"])


@gluon.constexpr_function
def operands(results, kind, others, in_place=0):
    """What an inline assembly has of operands: results, others (f32), results in their place."""
    names = [f"={kind}"] * results + ["f"] * others + [str(i) for i in range(in_place)]
    return ",".join(names)


@gluon.jit
def one_copy(x, COPIES: gl.constexpr):
    """What stands in each of the copies: (64, COPIES, 4) to (64, 4)."""
    x = x.permute([0, 2, 1])
    HALVINGS: gl.constexpr = COPIES.bit_length() - 1
    for halving in gl.static_range(1, HALVINGS):
        x, _ = gl.split(x.reshape([64, 4, COPIES >> halving, 2]))
    x, _ = gl.split(x)
    return x


@gluon.jit
def by_kind(results, KEYS: gl.constexpr):
    """The results of `weight_code`: weights, (64, KEYS // 16, 4), and what each thread has of
    its rows, (64, 4): maxima, what rows shrink by, sums."""
    COPIES: gl.constexpr = KEYS // 16
    results = results.reshape([64, COPIES, 2, 4, 2]).permute([0, 1, 3, 2, 4])
    even, odd = gl.split(results)
    words, shrink = gl.split(even)
    peak, total = gl.split(odd)
    return words, one_copy(peak, COPIES), one_copy(shrink, COPIES), one_copy(total, COPIES)


@gluon.jit
def shrink_rows(out, shrink, COLUMNS: gl.constexpr, LAYOUT: gl.constexpr):
    """The output so far in terms of new maxima: only warps whose rows have any multiply."""
    return gl.inline_asm_elementwise(
        shrink_code(COLUMNS // 2),
        operands(COLUMNS // 2, "f", COLUMNS // 2, COLUMNS // 2),
        [spread(shrink, COLUMNS, LAYOUT), out],
        dtype=gl.float32,
        is_pure=False,
        pack=COLUMNS // 2,
    )


@gluon.jit
def weigh(
    scores,
    peak,
    factor,
    KEYS: gl.constexpr,
    FIRST: gl.constexpr,
    MINE: gl.constexpr,
    OTHER: gl.constexpr,
    LAYOUT: gl.constexpr,
):
    """A tile's weights, the rows' new maxima, what they shrink by and the thread's sums.

    Weights lie between 0 and 430 (LIMIT) instead of 0 and 1, which uses the range of e4m3
    (largest value 448); the row sums have the same factor, so it cancels. `peak` is what has a
    weight of 1, in units of log2. Weights are e4m3, those of four neighbouring
    keys in an i32: (64, KEYS // 16, 4). The first tile of a row sets its maximum.

    All wait for the warpgroup's turn at the barrier MINE; the exponentials give the other its turn.
    """
    CODE: gl.constexpr = weight_code(KEYS // 16, FIRST, MINE, OTHER)
    results = gl.inline_asm_elementwise(
        CODE,
        operands(KEYS // 2, "r", 3 * KEYS // 2),
        [scores, spread(peak, KEYS, LAYOUT), gl.full([64, KEYS], factor, gl.float32, LAYOUT)],
        dtype=gl.int32,
        is_pure=False,
        pack=KEYS // 2,
    )
    words, peak, shrink, total = by_kind(results, KEYS)
    peak = peak.to(gl.float32, bitcast=True)
    shrink = shrink.to(gl.float32, bitcast=True)
    return words, peak, shrink, total.to(gl.float32, bitcast=True)


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
def wait_for_next(used, more, k_full, STAGES: gl.constexpr):
    """Waits for the tile of K that comes after tile number `used`, if there are more."""
    following = used + more.to(gl.int32)
    mbarrier.wait(k_full.index(following % STAGES), (following // STAGES) & 1)


@gluon.jit
def attend(
    output,
    sinks,
    sink_count,
    q_tiles,
    k_tiles,
    v_tiles,
    o_tiles,
    k_full,
    v_full,
    factor,
    rows,
    keys,
    group,
    limits,
    heads,
    columns,
    PART: gl.constexpr,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    STAGES: gl.constexpr,
    SINK: gl.constexpr,
    V_USERS: gl.constexpr,
):
    """A multiplying warpgroup: rows 64 * PART to 64 * PART + 63 of each block. `V_USERS` is how
    many threads meet where a tile of V is free."""
    MINE: gl.constexpr = TURN + PART
    OTHER: gl.constexpr = TURN + 1 - PART
    SCORES: gl.constexpr = PRODUCT(KEYS, k_tiles.dtype)
    OUT: gl.constexpr = PRODUCT(HEAD, k_tiles.dtype)
    WEIGHTS: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=OUT, k_width=4)
    OUT_ROWS: gl.constexpr = gl.SliceLayout(1, OUT)
    OUT_TYPE: gl.constexpr = output.dtype.element_ty
    O_BLOCK: gl.constexpr = [1, 64, HEAD]
    diagonal, behind = limits
    zero = gl.zeros([64, KEYS], gl.float32, SCORES)
    blocks = (rows + 127) // 128
    done = 0
    used = 0
    if PART == 1:
        arrive_at(OTHER, WITH_OTHER)
    section = section_of(heads, keys, group, HEAD)
    first, end, step = turns_of(heads * blocks, CAUSAL)
    head, block_row, first_tile, tiles = place_of(
        first, blocks, heads, section, keys, limits, KEYS, CAUSAL, WINDOW
    )
    if HEAD <= 128:
        o_tile = o_tiles.index(PART)
        o_desc = tma.make_tensor_descriptor(
            output,
            [heads, rows, columns],
            [rows.to(gl.int64) * columns, columns, 1],
            O_BLOCK,
            gl.NVMMASharedLayout.get_default_for(O_BLOCK, OUT_TYPE),
        )
    if first < end:
        mbarrier.wait(k_full.index(0), 0)
    stage = 0
    scores = warpgroup_mma(
        q_tiles.index(PART), k_tiles.index(0).permute((1, 0)), zero, use_acc=False
    )
    if first < end:
        arrive_at(K_FREE, WITH_WARP)
    for turn in range(first, end, step):
        first_row = block_row + 64 * PART
        another = turn + step < end
        half = done & 1
        q = q_tiles.index(2 * half + PART)
        _, peak, _, _ = by_kind(zero, KEYS)
        wait_for_next(used, (tiles > 1) | another, k_full, STAGES)
        scores = hide_keys(
            scores, first_tile, first_row, keys, diagonal, behind, KEYS, CAUSAL, WINDOW, SCORES,
            key_of
        )  # fmt: skip
        out = gl.zeros([64, HEAD], gl.float32, OUT)
        words, peak, _, total = weigh(scores, peak, factor, KEYS, True, MINE, OTHER, SCORES)
        mbarrier.wait(v_full.index(stage), (used // STAGES) & 1)
        last = first_tile + tiles - 1
        for tile in range(first_tile + 1, last + 1):
            before = stage
            used += 1
            stage = used % STAGES
            next_scores = warpgroup_mma(
                q, k_tiles.index(stage).permute((1, 0)), zero, use_acc=False, is_async=True
            )
            words_before = words
            next_out = warpgroup_mma(
                as_operand(words, KEYS, WEIGHTS),
                v_tiles.index(before).permute((1, 0)),
                out,
                is_async=True,
            )
            mbarrier.wait(v_full.index(stage), (used // STAGES) & 1)
            wait_for_next(used, (tile < last) | another, k_full, STAGES)
            if HEAD <= 128:
                scores = warpgroup_mma_wait(num_outstanding=1, deps=(next_scores,))
            else:
                # There are no registers for the weights of two tiles.
                scores, out = warpgroup_mma_wait(num_outstanding=0, deps=(next_scores, next_out))
                arrive_at(V_FREE + before, V_USERS)
            arrive_at(K_FREE + stage, WITH_WARP)
            scores = hide_keys(
                scores, tile, first_row, keys, diagonal, behind, KEYS, CAUSAL, WINDOW, SCORES,
                key_of
            )  # fmt: skip
            words, peak, shrink, more = weigh(
                scores, peak, factor, KEYS, False, MINE, OTHER, SCORES
            )
            if HEAD <= 128:
                # Naming the weights as a dependence keeps their registers until P.V has read them.
                waited = warpgroup_mma_wait(num_outstanding=0, deps=(next_out, words_before))
                arrive_at(V_FREE + before, V_USERS)
                out = waited[0]
            out = shrink_rows(out, shrink, HEAD, OUT)
            total = total * shrink + more
        arrive_at(Q_FREE + half, WITH_WARP)
        # The last P.V, and behind it the next block's first Q.K, or one that nobody reads.
        before = stage
        used += 1
        stage = used % STAGES
        done += 1  # noqa: SIM113 (Gluon has no enumerate)
        next_out = warpgroup_mma(
            as_operand(words, KEYS, WEIGHTS),
            v_tiles.index(before).permute((1, 0)),
            out,
            is_async=True,
        )
        next_scores = warpgroup_mma(
            q_tiles.index(2 - 2 * half + PART),
            k_tiles.index(stage).permute((1, 0)),
            zero,
            use_acc=False,
            is_async=True,
        )
        own = head
        head, block_row, first_tile, tiles = place_of(
            turn + step, blocks, heads, section, keys, limits, KEYS, CAUSAL, WINDOW
        )
        sums = gl.sum(total, 1)
        if SINK:
            # Where the sink is far above all scores, infinity: the result is 0.
            sink = gl.load(sinks + own % sink_count) * 1.4426950408889634
            sums += gl.exp2(sink - gl.max(peak, 1))
        if WINDOW:
            # A row that has seen no key is 0.
            sums = gl.where(sums == 0.0, 1.0, sums)
        waited = warpgroup_mma_wait(num_outstanding=1, deps=(next_out, words))
        arrive_at(V_FREE + before, V_USERS)
        found = (waited[0] * gl.convert_layout(1.0 / sums, OUT_ROWS)[:, None]).to(OUT_TYPE)
        if HEAD <= 128:
            # The last block's tile has been read.
            tma.store_wait(0)
            o_tile.store(found)
            fence_async_shared()
            place = o_tile._reinterpret(OUT_TYPE, O_BLOCK, o_desc.layout)
            tma.async_copy_shared_to_global(o_desc, [own, first_row, 0], place)
        else:
            row = first_row + gl.arange(0, 64, layout=OUT_ROWS)
            column = gl.arange(0, HEAD, layout=gl.SliceLayout(0, OUT))
            inside = (row < rows)[:, None] & (column < columns)[None, :]
            start = output + own.to(gl.int64) * rows * columns
            gl.store(start + row[:, None] * columns + column[None, :], found, mask=inside)
        scores = warpgroup_mma_wait(num_outstanding=0, deps=(next_scores,))
        if another:
            arrive_at(K_FREE + stage, WITH_WARP)
    if HEAD <= 128:
        tma.store_wait(0)
    if PART == 0:
        wait_for(MINE, WITH_OTHER)


@gluon.jit
def attention(
    query,
    key,
    value,
    sinks,
    output,
    scratch,
    rows,
    keys,
    group,
    diagonal,
    behind,
    heads,
    sink_count,
    columns,
    scale,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    V_TRANSPOSED: gl.constexpr,
    STAGES: gl.constexpr,
    REGISTERS: gl.constexpr,
    SINK: gl.constexpr,
):
    """softmax(scale * Q K^T) V for every head.

    query and output: (heads, rows, head dim); key: (heads / group, keys, head dim); value: the
    same, or (heads / group, head dim, keys) if V_TRANSPOSED; all dense and 16-byte aligned. The
    head dim is 16 * columns, HEAD or less: the memory engine fills tiles up with zeros. Row i sees
    keys 0 to i + diagonal if CAUSAL, where diagonal >= 0; if WINDOW too, none before key i -
    behind. If SINK, the weight of a score that belongs to no key is added to a row's sum of
    weights: head h has number h % sink_count of `sinks`, in f32. The grid is any number of programs
    in one dim; more than blocks of 128 rows, of all heads, have nothing to do. `scratch` is not
    read: the build puts the memory of the TMA descriptors in its place.
    """
    gl.static_assert(STAGES <= 3)
    dtype: gl.constexpr = query.dtype.element_ty
    Q_TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, HEAD], dtype)
    K_TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([KEYS, HEAD], dtype)
    VT_TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([HEAD, KEYS], dtype)
    v_tiles = gl.allocate_shared_memory(dtype, [STAGES, HEAD, KEYS], VT_TILE)
    q_tiles = gl.allocate_shared_memory(dtype, [4, 64, HEAD], Q_TILE)
    k_tiles = gl.allocate_shared_memory(dtype, [STAGES, KEYS, HEAD], K_TILE)
    # Of the result; for heads of 256 there is no room.
    OUT_TYPE: gl.constexpr = output.dtype.element_ty
    o_tiles = q_tiles
    if HEAD <= 128:
        O_TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, HEAD], OUT_TYPE)
        o_tiles = gl.allocate_shared_memory(OUT_TYPE, [2, 64, HEAD], O_TILE)

    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
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
    columns = columns * 16
    limits = (diagonal, behind)
    # A part is listed for each of its numbers, because each compiled part knows its rows.
    if V_TRANSPOSED:
        gl.warp_specialize(
            [
                (
                    attend,
                    (output, sinks, sink_count, q_tiles, k_tiles, v_tiles, o_tiles, k_full,
                     v_full, factor, rows, keys, group, limits, heads, columns, 0, HEAD, KEYS,
                     CAUSAL, WINDOW, STAGES, SINK, WITH_WARP),
                ),
                (
                    attend,
                    (output, sinks, sink_count, q_tiles, k_tiles, v_tiles, o_tiles, k_full,
                     v_full, factor, rows, keys, group, limits, heads, columns, 1, HEAD, KEYS,
                     CAUSAL, WINDOW, STAGES, SINK, WITH_WARP),
                ),
                (
                    load_tiles,
                    (query, key, value, q_tiles, k_tiles, v_tiles, k_full, v_full, rows,
                     keys, group, limits, heads, columns, HEAD, KEYS, CAUSAL, WINDOW, True,
                     STAGES),
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
                    (output, sinks, sink_count, q_tiles, k_tiles, v_tiles, o_tiles, k_full,
                     v_full, factor, rows, keys, group, limits, heads, columns, 0, HEAD, KEYS,
                     CAUSAL, WINDOW, STAGES, SINK, WITH_GROUP),
                ),
                (
                    attend,
                    (output, sinks, sink_count, q_tiles, k_tiles, v_tiles, o_tiles, k_full,
                     v_full, factor, rows, keys, group, limits, heads, columns, 1, HEAD, KEYS,
                     CAUSAL, WINDOW, STAGES, SINK, WITH_GROUP),
                ),
                (
                    turn_tiles,
                    (raw_tiles, v_tiles, raw_full, v_full, rows, keys, group, limits, heads,
                     HEAD, KEYS, CAUSAL, WINDOW, STAGES),
                ),
                (
                    load_tiles,
                    (query, key, value, q_tiles, k_tiles, raw_tiles, k_full, raw_full,
                     rows, keys, group, limits, heads, columns, HEAD, KEYS, CAUSAL, WINDOW,
                     False, STAGES),
                ),
            ],
            [4, 4, 1],
            [REGISTERS, 72, 24],
        )  # fmt: skip
