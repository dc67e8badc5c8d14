# type: ignore (Triton compiles this file; Python never runs it)
"""Attention forward for Hopper (sm_90a) of f32 operands with f32's errors, in Gluon (triton 3.6.0).

`tools/build_kernels.py` compiles this file ahead of time; nothing imports it at run time. Strides,
masks and the order of programs are those of hopper_attention.py.

Tensor cores multiply 16-bit numbers. Each f32 number is the sum of three of bf16, 8 bits each and
with f32's range, and a product is that of six pairs of parts: the other three are below what f32
rounds off. Tensor cores cut sums off where f32 would round them, which is an error to one side
that grows with the number of steps. So the small products are added up first, and P.V of each tile
of keys on its own, which f32 arithmetic adds to the output.

Four warps copy f32 rows to shared memory, 32 at a time and as many ahead, and write their parts
there; two warpgroups own 64 rows each and multiply. While one computes weights, the other has the
tensor cores. A tile of K has its place again when both are done with its scores, one of V when they
are done with its products, so that either is filled under products with the other.
"""

from hopper_common import (
    OPERAND,
    PRODUCT,
    elements,
    hide_keys,
    key_tiles,
    load_mask,
    longest_first,
)
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# Rows of a program: those of two warpgroups.
ROWS = gl.constexpr(128)
# How many parts a number has.
PIECES = gl.constexpr(3)
# Rows that the loading warps copy at a time, and have registers for.
COUNT = gl.constexpr(32)
# How many such copies are under way, or there, at once.
SLOTS = gl.constexpr(2)
LOG2E = gl.constexpr(1.4426950408889634)


@gluon.constexpr_function
def LOADED(columns):
    """How four warps load rows: 16 bytes a thread."""
    across = min(columns // 4, 32)
    return gl.BlockedLayout([1, 4], [32 // across, across], [4, 1], [1, 0])


@gluon.jit
def rows_of(pointer, strides, batch, head):
    """Where the rows of a head of a batch start."""
    batch_step, head_step = elements(strides[0], gl.float32), elements(strides[1], gl.float32)
    return pointer + (batch_step * batch + head_step * head)


@gluon.jit
def no_constant(tile):
    """0, which no compiler knows: what it adds to is computed where it is used, and has no
    register throughout the loop."""
    return gl.inline_asm_elementwise("shr.u32 $0, $1, 31;", "=r,r", [tile], gl.int32, True, 1)


@gluon.jit
def split(x):
    """The three parts of f32 numbers, the largest first: what is left of a rounded number is
    exact, and what the second leaves has so few bits that it is the third."""
    return gl.inline_asm_elementwise(
        """{
        .reg .b32 a, b;
        cvt.rn.bf16x2.f32 $0, $4, $3;
        shl.b32 a, $0, 16;
        and.b32 b, $0, 0xFFFF0000;
        sub.f32 a, $3, a;
        sub.f32 b, $4, b;
        cvt.rn.bf16x2.f32 $1, b, a;
        shl.b32 $2, $1, 16;
        sub.f32 a, a, $2;
        and.b32 $2, $1, 0xFFFF0000;
        sub.f32 b, b, $2;
        prmt.b32 $2, a, b, 0x7632;
        }""",
        "=&r,=&r,=&r,f,f",
        [x],
        dtype=(gl.bfloat16, gl.bfloat16, gl.bfloat16),
        is_pure=True,
        pack=2,
    )


@gluon.jit
def start_copy(source, first, columns, number, slots, HEAD: gl.constexpr):
    """Starts to copy rows of a head to their slot, zeros where it ends: of those from `first` on
    the number-th COUNT."""
    pointer, step, rows = source
    LAYOUT: gl.constexpr = LOADED(HEAD)
    row = first + number * COUNT + gl.arange(0, COUNT, layout=gl.SliceLayout(1, LAYOUT))
    column = gl.arange(0, HEAD, layout=gl.SliceLayout(0, LAYOUT))
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    place = row.to(gl.int64)[:, None] * step + column[None, :]
    async_copy.async_copy_global_to_shared(
        slots.index(number % SLOTS), pointer + place, mask=inside
    )
    async_copy.commit_group()


@gluon.jit
def write_tile(
    source, first, behind, columns, slots, tiles, number, full, empty, phase, HEAD: gl.constexpr,
    TILE: gl.constexpr,
):  # fmt: skip
    """Writes the parts of a tile, whose first copies have been started, when there is room for it;
    starts those of the tile `behind` it: where that is from, and its first row."""
    UNITS: gl.constexpr = TILE // COUNT
    for unit in gl.static_range(UNITS):
        async_copy.wait_group(SLOTS - 1)
        if unit == 0:
            mbarrier.wait(empty, phase)
        x = slots.index(unit % SLOTS).load(LOADED(HEAD))
        if unit + SLOTS < UNITS:
            start_copy(source, first, columns, unit + SLOTS, slots, HEAD)
        else:
            start_copy(behind[0], behind[1], columns, unit + SLOTS - UNITS, slots, HEAD)
        parts = split(x)
        for piece in gl.static_range(PIECES):
            tile = tiles.index(number * PIECES + piece)
            tile.slice(unit * COUNT, COUNT, 0).store(parts[piece])
    fence_async_shared()
    mbarrier.arrive(full, count=1)


@gluon.jit
def load_tiles(
    sources,
    steps,
    columns,
    shared,
    slots,
    barriers,
    place,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    STAGES: gl.constexpr,
):
    """The loading warps: Q, then K and V tile by tile. While the parts of a tile are written, the
    next is on its way."""
    query, key, value = sources
    q_tiles, k_tiles, v_tiles = shared
    q_full, k_full, k_empty, v_full, v_empty = barriers
    first_row, first_tile, tiles, rows, keys = place
    q_step, k_step, v_step = steps
    of_q, of_k, of_v = (query, q_step, rows), (key, k_step, keys), (value, v_step, keys)
    for slot in gl.static_range(SLOTS):
        start_copy(of_q, first_row, columns, slot, slots, HEAD)
    # A fresh barrier counts as having completed phase 1: the first round does not wait.
    write_tile(
        of_q, first_row, (of_q, first_row + 64), columns, slots, q_tiles, 0, q_full.index(0),
        k_empty.index(0), 1, HEAD, 64
    )  # fmt: skip
    write_tile(
        of_q, first_row + 64, (of_k, first_tile * KEYS), columns, slots, q_tiles, 1,
        q_full.index(1), k_empty.index(0), 1, HEAD, 64
    )  # fmt: skip
    for tile in range(tiles):
        stage = tile % STAGES + no_constant(tile)
        phase = ((tile // STAGES) & 1) ^ 1
        first = (first_tile + tile) * KEYS
        write_tile(
            of_k, first, (of_v, first), columns, slots, k_tiles, stage, k_full.index(stage),
            k_empty.index(stage), phase, HEAD, KEYS
        )  # fmt: skip
        write_tile(
            of_v, first, (of_k, first + KEYS), columns, slots, v_tiles, stage,
            v_full.index(stage), v_empty.index(stage), phase, HEAD, KEYS
        )  # fmt: skip
    async_copy.wait_group(0)


@gluon.constexpr_function
def LEFT(pair):
    """Of the pairs of parts that are multiplied, the left one: those that give least come first."""
    return (2, 0, 1, 1, 0, 0)[pair]


@gluon.constexpr_function
def RIGHT(pair):
    """The right one of a pair of parts."""
    return (0, 2, 1, 0, 1, 0)[pair]


@gluon.jit
def scores_of(q_tiles, k_tiles, part, stage, zero):
    """Q.K of a tile. A part of Q comes into registers once for all that it is multiplied with: with
    both operands in shared memory, reading them takes as long as the products."""
    scores = zero
    for left in gl.static_range(PIECES):
        q = q_tiles.index(part * PIECES + PIECES - 1 - left).load(OPERAND(PRODUCT(zero.shape[1])))
        for right in gl.static_range(left + 1):
            k = k_tiles.index(stage * PIECES + left - right).permute((1, 0))
            scores = warpgroup_mma(q, k, scores, use_acc=left + right > 0, is_async=True)
        found = warpgroup_mma_wait(num_outstanding=0, deps=(scores, q))
        scores = found[0]
    return scores


@gluon.jit
def values_of(weights, v_tiles, stage, zero):
    """P.V of a tile."""
    out = zero
    for pair in gl.static_range(6):
        v = v_tiles.index(stage * PIECES + RIGHT(pair))
        out = warpgroup_mma(weights[LEFT(pair)], v, out, use_acc=pair > 0, is_async=True)
    # Naming the weights as a dependence keeps their registers alive until P.V has read them.
    found = warpgroup_mma_wait(num_outstanding=0, deps=(out,) + weights)  # noqa: RUF005
    return found[0]


@gluon.jit
def attend(
    output,
    row_stride,
    mask,
    sink,
    columns,
    shared,
    barriers,
    place,
    limits,
    mask_stride,
    scale_log2,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    MASK: gl.constexpr,
    STAGES: gl.constexpr,
    SINK: gl.constexpr,
    PART: gl.constexpr,
):
    """A multiplying warpgroup: rows 64 * PART to 64 * PART + 63 of the program's block."""
    q_tiles, k_tiles, v_tiles = shared
    q_full, k_full, k_empty, v_full, v_empty = barriers
    block_row, first_tile, tiles, rows, keys = place
    diagonal, behind = limits
    first_row = block_row + 64 * PART
    SCORES: gl.constexpr = PRODUCT(KEYS)
    OUT: gl.constexpr = PRODUCT(HEAD)
    OUT_ROWS: gl.constexpr = gl.SliceLayout(1, OUT)
    zero = gl.zeros([64, KEYS], gl.float32, SCORES)
    none = gl.zeros([64, HEAD], gl.float32, OUT)
    out = none
    peak = gl.full([64], -1.0e30, gl.float32, gl.SliceLayout(1, SCORES))
    total = gl.full([64], 0.0, gl.float32, gl.SliceLayout(1, SCORES))
    mbarrier.wait(q_full.index(PART), 0)
    for tile in range(tiles):
        nothing = no_constant(tile)
        stage = tile % STAGES + nothing
        phase = (tile // STAGES) & 1
        number = first_tile + tile
        if MASK:
            given = load_mask(mask, number, first_row, rows, keys, mask_stride, KEYS, SCORES)
        mbarrier.wait(k_full.index(stage), phase)
        scores = scores_of(q_tiles, k_tiles, PART + nothing, stage, zero)
        mbarrier.arrive(k_empty.index(stage), count=1)
        # In units of log2, so that one exp2 is the exponential.
        factor = scale_log2
        if MASK:
            factor = 1.0
            scores = scores * scale_log2
            if MASK == 2:
                scores = gl.where(given != 0, scores, -5.9e29)
            else:
                # As in hopper_attention.py: a row of nothing but such numbers is even.
                scores = gl.where(given < -3.5e7, 0.0, scores) + given * LOG2E
        scores = hide_keys(
            scores, number, first_row, keys, diagonal, behind, KEYS, CAUSAL, WINDOW, SCORES
        )
        new_peak = gl.maximum(peak, gl.max(scores, 1) * factor)
        if MASK or WINDOW:
            # Far above hidden scores and below all others: hidden keys weigh 0 in rows that have
            # seen none yet.
            new_peak = gl.maximum(new_peak, -1.0e20)
        weights = gl.exp2(scores * factor - new_peak[:, None])
        shrink = gl.exp2(peak - new_peak)
        total = total * shrink + gl.sum(weights, 1)
        peak = new_peak
        high, middle, low = split(gl.convert_layout(weights, OPERAND(PRODUCT(HEAD))))
        out = out * gl.convert_layout(shrink, OUT_ROWS)[:, None]
        mbarrier.wait(v_full.index(stage), phase)
        own = values_of((high, middle, low), v_tiles, stage, none)
        mbarrier.arrive(v_empty.index(stage), count=1)
        out = out + own
    if MASK or WINDOW:
        # A row that has seen no key is 0.
        total = gl.where(total == 0.0, 1.0, total)
    if SINK:
        # Where the sink is far above all scores, infinity: the result is 0.
        total += gl.exp2(gl.load(sink) * LOG2E - peak)
    out = out / gl.convert_layout(total, OUT_ROWS)[:, None]
    row = first_row + gl.arange(0, 64, layout=OUT_ROWS)
    column = gl.arange(0, HEAD, layout=gl.SliceLayout(0, OUT))
    at = row.to(gl.int64)[:, None] * elements(row_stride, gl.float32) + column[None, :]
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    gl.store(output + at, out, mask=inside)


@gluon.jit
def attention(
    query,
    key,
    value,
    mask,
    sinks,
    output,
    rows,
    keys,
    group,
    diagonal,
    behind,
    mask_stride,
    mask_divisor,
    mask_count,
    sink_count,
    batch_heads,
    query_start,
    query_batch,
    query_head,
    query_row,
    key_start,
    key_batch,
    key_head,
    key_row,
    value_start,
    value_batch,
    value_head,
    value_row,
    output_batch,
    output_head,
    output_row,
    columns,
    scale,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    MASK: gl.constexpr,
    STAGES: gl.constexpr,
    REGISTERS: gl.constexpr,
    SINK: gl.constexpr,
):
    """softmax(scale * Q K^T) V for every head, all f32.

    Operands, masks and numbers are those of hopper_attention.py's kernel, with V in rows of keys;
    head dims are `columns`, in units of 16 bytes, HEAD or fewer. MASK is 0 for none, 1 for f32 and
    2 for bytes; if SINK it is 0 and there is a WINDOW. The grid is heads * ceil(rows / 128)
    programs in one dim.
    """
    blocks = (rows + ROWS - 1) // ROWS
    program = gl.program_id(0)
    number = program // blocks
    block = program % blocks
    if WINDOW:
        block = blocks - 1 - block
    elif CAUSAL:
        number, block = longest_first(program, blocks, keys, 64 * HEAD)
    head = number.to(gl.int64)
    first_row = block * ROWS
    kv_head = head // group
    batch = kv_head // batch_heads
    own_head = head - batch * batch_heads * group
    kv_head -= batch * batch_heads
    query = rows_of(
        query + elements(query_start, gl.float32), (query_batch, query_head), batch, own_head
    )
    key = rows_of(key + elements(key_start, gl.float32), (key_batch, key_head), batch, kv_head)
    value = rows_of(
        value + elements(value_start, gl.float32), (value_batch, value_head), batch, kv_head
    )
    output = rows_of(output, (output_batch, output_head), batch, own_head)
    columns = columns * 4
    if SINK:
        sinks += number % sink_count
    if MASK:
        size = keys.to(gl.int64)
        if mask_stride != 0:
            size = size * rows
        mask += number // mask_divisor % mask_count * size

    TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, HEAD], gl.bfloat16)
    q_tiles = gl.allocate_shared_memory(gl.bfloat16, [2 * PIECES, 64, HEAD], TILE)
    k_tiles = gl.allocate_shared_memory(gl.bfloat16, [STAGES * PIECES, KEYS, HEAD], TILE)
    v_tiles = gl.allocate_shared_memory(gl.bfloat16, [STAGES * PIECES, KEYS, HEAD], TILE)
    SLOT: gl.constexpr = gl.SwizzledSharedLayout(4, 1, 1, [1, 0])
    slots = gl.allocate_shared_memory(gl.float32, [SLOTS, COUNT, HEAD], SLOT)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [2, 1], BARRIER)
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for part in gl.static_range(2):
        mbarrier.init(q_full.index(part), count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_full.index(stage), count=1)
        mbarrier.init(v_full.index(stage), count=1)
        mbarrier.init(k_empty.index(stage), count=2)
        mbarrier.init(v_empty.index(stage), count=2)
    fence_async_shared()

    first_tile, tiles = key_tiles(first_row, keys, diagonal, behind, ROWS, KEYS, CAUSAL, WINDOW)
    place = (first_row, first_tile, tiles, rows, keys)
    limits = (diagonal, behind)
    shared = (q_tiles, k_tiles, v_tiles)
    barriers = (q_full, k_full, k_empty, v_full, v_empty)
    scale_log2 = scale * LOG2E
    sources = (query, key, value)
    steps = (
        elements(query_row, gl.float32),
        elements(key_row, gl.float32),
        elements(value_row, gl.float32),
    )
    # fmt: off
    gl.warp_specialize(
        [
            (attend, (output, output_row, mask, sinks, columns, shared, barriers, place, limits,
                      mask_stride, scale_log2, HEAD, KEYS, CAUSAL, WINDOW, MASK, STAGES, SINK,
                      0)),
            (attend, (output, output_row, mask, sinks, columns, shared, barriers, place, limits,
                      mask_stride, scale_log2, HEAD, KEYS, CAUSAL, WINDOW, MASK, STAGES, SINK,
                      1)),
            (load_tiles, (sources, steps, columns, shared, slots, barriers, place, HEAD, KEYS,
                          STAGES)),
        ],
        [4, 4],
        [REGISTERS, 504 - 2 * REGISTERS],
    )
    # fmt: on
