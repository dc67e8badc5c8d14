# type: ignore (Triton compiles this file; Python never runs it)
"""Attention forward for Hopper (sm_90a), warp-specialised, written in Gluon (triton 3.6.0).

`tools/build_kernels.py` compiles this file ahead of time; nothing imports it at run time.

One program computes 64 * PARTS query rows of one head. One warp loads K and V tiles with the
tensor memory accelerator (TMA), and those of a mask that has aligned rows; PARTS warpgroups of
four warps own 64 rows each and multiply. A ring of `STAGES` tiles stands between them: for each
of K and V a *full* barrier says that a tile has arrived, an *empty* one that all warpgroups
are done with it. A warpgroup starts Q.K of the next tile before it waits for P.V of the last,
so the tensor cores work while the exponentials are computed. With small heads the exponentials
take as long as the products, and four warpgroups, whose turns interleave, beat two.

A program's start and end take as long as two or three tiles. Kernels that are PERSISTENT (all
without a mask of rows and a soft-cap) pay once: one program stays on each multiprocessor and
computes one block of rows after the other. Q, K and V have a loading warp each, which makes its
descriptor while the others make theirs, and goes on to the next block while the multiplying
warpgroups write their result.

Tiles have powers of two. Other head dims are taken in slabs of columns, 96 as 64 + 32: Q.K is the
sum over these, and P.V has an accumulator for each.

V has 16 bits, Q and K have as many or 8 (e4m3), whose products take half the time. Where V has 8
bits, too, the weights have: hopper_fp8.py is for these.

The running maximum is kept in units of log2, as FlashAttention does, so that one exp2 and one
multiply-add stand for scale, shift and exponential (online softmax: Milakov and Gimelshein,
arXiv 1805.02867; the tiling: Dao, arXiv 2307.08691 and 2407.08608).

LAZY kernels do not look for a tile's maximum. The first tile gives a row its maximum, and later
tiles their weights with that. Only where a thread's weights of a row add up to more than CEILING
is there a new maximum, the tile's weights are computed again, and sums and output shrink: what
grows by less has its place in the range of f16, and what is common to weights and their sum
cancels. Two warpgroups take turns with starting their products, so that one has the tensor cores
while the other computes weights (FlashAttention-3).
"""

from hopper_common import (
    OPERAND,
    PRODUCT,
    UNIT,
    elements,
    hide_keys,
    key_tiles,
    load_mask,
    longest_first,
    room_for,
    spread,
)
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# What a thread's weights of a row and a tile may add up to; one weight has to be less than 65504,
# where f16 ends.
CEILING = gl.constexpr(32768.0)
# Named barriers: it is the first, or the second warpgroup's turn. Triton's own are 0 to 5 here.
TURN = gl.constexpr(14)


@gluon.jit
def wait_for_turn(PART: gl.constexpr):
    """Waits until the other of two warpgroups has handed over."""
    gl.inline_asm_elementwise(
        "bar.sync $1, 256; mov.b32 $0, 0;", "=r,r", [TURN + PART], gl.int32, False, 1
    )


@gluon.jit
def hand_over(PART: gl.constexpr):
    """Makes it the other warpgroup's turn."""
    gl.inline_asm_elementwise(
        "bar.arrive $1, 256; mov.b32 $0, 0;", "=r,r", [TURN + 1 - PART], gl.int32, False, 1
    )


@gluon.jit
def stage_of(number, STAGES: gl.constexpr):
    """Where in a ring a tile is, by how many came before. PERSISTENT programs count without sign:
    then the remainder is a few bits."""
    return gl.to_tensor(number % STAGES).to(gl.int32)


@gluon.jit
def section_of(heads, keys, KEY_BITS: gl.constexpr):
    """How many heads' rows a causal kernel takes from the longest to the shortest before it comes
    to other heads: those that have their K and V (KEY_BITS a key) in 32 MB of the L2 cache, or
    fewer, that all sections be as large."""
    SHARE: gl.constexpr = 32 * 1024 * 1024 * 8 // KEY_BITS
    size = heads
    if heads * keys > SHARE:
        most = gl.maximum(SHARE // keys, 1)
        sections = (heads + most - 1) // most
        size = (heads + sections - 1) // sections
    return size


@gluon.jit
def item_of(turn, flipped):
    """Which block of rows of a section is a causal PERSISTENT program's. Programs take turns there
    and back, so that each gets as many of the long ones: it cannot know who is late."""
    place = gl.program_id(0)
    place += ((turn + flipped) & 1) * (gl.num_programs(0) - 1 - 2 * place)
    return turn * gl.num_programs(0) + place


@gluon.jit
def turns_of(
    first_head,
    section,
    heads,
    rows,
    ROWS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
):
    """What a PERSISTENT program counts its blocks of rows in a section by: first, end and step. A
    causal one counts turns, for `item_of`, others the blocks themselves."""
    items = (rows + ROWS - 1) // ROWS
    if CAUSAL and not WINDOW:
        items *= gl.minimum(section, heads - first_head)
    else:
        items *= heads
    first, end, step = gl.program_id(0), items, gl.num_programs(0)
    if CAUSAL:
        full = items // gl.num_programs(0)
        last = item_of(full, first_head // section)
        first, end, step = 0, full + (last < items).to(gl.int32), 1
    return first, end, step


@gluon.jit
def block_of(
    turn,
    first_head,
    section,
    limits,
    heads,
    rows,
    keys,
    ROWS: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
):
    """Head, first row, first tile of keys and number of these of a PERSISTENT program's block
    of rows."""
    diagonal, behind = limits
    blocks = (rows + ROWS - 1) // ROWS
    item = turn
    if CAUSAL:
        item = item_of(turn, first_head // section)
    if CAUSAL and not WINDOW:
        width = gl.minimum(section, heads - first_head)
        head = first_head + item % width
        block = blocks - 1 - item // width
    else:
        head = item // blocks
        block = item % blocks
    first_row = block * ROWS
    first_tile, tiles = key_tiles(first_row, keys, diagonal, behind, ROWS, KEYS, CAUSAL, WINDOW)
    return head, first_row, first_tile, tiles


@gluon.constexpr_function
def SLABS(head):
    """How many slabs of columns a head dim is taken in: tiles have powers of two, 96 is 64 + 32."""
    return bin(head).count("1")


@gluon.constexpr_function
def SENDS(persistent, q_stages, head, v_head):
    """Whether the memory engine writes results, of one slab: of more it takes up to 4% longer than
    warps do. They have a place beside two blocks of Q, or the one that a single block had."""
    fits = q_stages > 1 or WIDTH(head, 0) == v_head
    return persistent and SLABS(v_head) == 1 and fits


@gluon.constexpr_function
def FIRST(head, slab):
    """The first column of a slab."""
    first = 0
    for _ in range(slab):
        first += 1 << ((head - first).bit_length() - 1)
    return first


@gluon.constexpr_function
def WIDTH(head, slab):
    """How many columns a slab has."""
    return 1 << ((head - FIRST(head, slab)).bit_length() - 1)


@gluon.jit
def rows_of(pointer, strides, batch, head):
    """Where the rows of a head of a batch start."""
    units = gl.to_tensor(batch).to(gl.int64) * strides[0]
    units += gl.to_tensor(head).to(gl.int64) * strides[1]
    return pointer + units * UNIT(pointer.dtype.element_ty)


@gluon.jit
def describe(pointer, batches, heads, rows, columns, strides, tile):
    """A descriptor for tiles like `tile` of (batches, heads, rows, columns): what lies outside of
    a head is 0, even where another head follows."""
    BLOCK: gl.constexpr = [1, 1, tile.shape[0], tile.shape[1]]
    LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for(BLOCK, tile.dtype)
    steps = [elements(strides[0], tile.dtype), elements(strides[1], tile.dtype)]
    return tma.make_tensor_descriptor(
        pointer,
        [batches, heads, rows, columns],
        [steps[0], steps[1], elements(strides[2], tile.dtype), 1],
        BLOCK,
        LAYOUT,
    )


@gluon.jit
def load_tile(desc, batch, head, row, column, full, tile):
    """Starts to load a tile of what `describe` described."""
    BLOCK: gl.constexpr = desc.block_type.shape
    place = tile._reinterpret(tile.dtype, BLOCK, desc.layout)
    tma.async_copy_global_to_shared(desc, [batch, head, row, column], full, place)


@gluon.jit
def own_columns(columns, HEAD: gl.constexpr):
    """How many columns heads have: `columns`, which only PADDED kernels are told."""
    if not isinstance(columns, gl.tensor):
        columns = HEAD
    return columns


@gluon.jit
def of_number(tiles, number):
    """The tiles of this number, one of each slab."""
    found = ()
    for slab in gl.static_range(len(tiles)):
        found += (tiles[slab].index(number),)
    return found


@gluon.jit
def describe_slabs(
    pointer, batches, heads, rows, columns, strides, tiles, TRANSPOSED: gl.constexpr = False
):
    """A descriptor for each slab; TRANSPOSED: of (batches, heads, columns, rows)."""
    descs = ()
    for slab in gl.static_range(len(tiles)):
        tile = tiles[slab].index(0)
        if TRANSPOSED:
            descs += (describe(pointer, batches, heads, columns, rows, strides, tile),)
        else:
            descs += (describe(pointer, batches, heads, rows, columns, strides, tile),)
    return descs


@gluon.jit
def load_slabs(
    descs, batch, head, row, full, tiles, HEAD: gl.constexpr, TRANSPOSED: gl.constexpr = False
):
    """Starts to load all columns of some rows, a tile of each slab."""
    for slab in gl.static_range(len(tiles)):
        if TRANSPOSED:
            load_tile(descs[slab], batch, head, FIRST(HEAD, slab), row, full, tiles[slab])
        else:
            load_tile(descs[slab], batch, head, row, FIRST(HEAD, slab), full, tiles[slab])


@gluon.jit
def load_rows(
    given,
    columns,
    PARTS: gl.constexpr,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    Q_STAGES: gl.constexpr,
):
    """A loading warp if PERSISTENT: Q of one block after the other."""
    query, strides, q_tiles, q_full, q_empty, place, work = given
    rows, keys = place[3], place[4]
    heads, group, sections, limits, batch_heads = work
    own = batch_heads * group
    descs = describe_slabs(
        query, heads // own, own, rows, own_columns(columns, HEAD), strides, q_tiles
    )  # fmt: skip
    BYTES: gl.constexpr = 64 * PARTS * HEAD * q_tiles[0].dtype.primitive_bitwidth // 8
    loaded = gl.to_tensor(0).to(gl.uint32)
    for first_head in range(0, sections[0], sections[1]):
        first, end, step = turns_of(
            first_head, sections[1], heads, rows, 64 * PARTS, CAUSAL, WINDOW
        )
        for turn in range(first, end, step):
            head, first_row, _, _ = block_of(
                turn, first_head, sections[1], limits, heads, rows, keys, 64 * PARTS, KEYS,
                CAUSAL, WINDOW
            )  # fmt: skip
            stage = stage_of(loaded, Q_STAGES)
            mbarrier.wait(q_empty.index(stage), ((loaded // Q_STAGES) & 1) ^ 1)
            mbarrier.expect(q_full.index(stage), BYTES)
            for part in gl.static_range(PARTS):
                tiles = of_number(q_tiles, stage * PARTS + part)
                load_slabs(
                    descs, head // own, head % own, first_row + 64 * part, q_full.index(stage),
                    tiles, HEAD
                )  # fmt: skip
            loaded += 1


@gluon.jit
def load_keys(
    given,
    columns,
    PARTS: gl.constexpr,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    TRANSPOSED: gl.constexpr,
    STAGES: gl.constexpr,
    IS_V: gl.constexpr,
):
    """A loading warp if PERSISTENT: K or V of one block after the other, tile by tile. The first
    of V comes behind that of K (`k_first`), which is needed before it."""
    source, strides, tiles, full, empty, k_first, place, work = given
    rows, keys = place[3], place[4]
    heads, group, sections, limits, batch_heads = work
    batches = heads // (batch_heads * group)
    descs = describe_slabs(
        source, batches, batch_heads, keys, own_columns(columns, HEAD), strides, tiles, TRANSPOSED
    )  # fmt: skip
    loaded = gl.to_tensor(0).to(gl.uint32)
    for first_head in range(0, sections[0], sections[1]):
        first, end, step = turns_of(
            first_head, sections[1], heads, rows, 64 * PARTS, CAUSAL, WINDOW
        )
        for turn in range(first, end, step):
            head, _, first_tile, count = block_of(
                turn, first_head, sections[1], limits, heads, rows, keys, 64 * PARTS, KEYS,
                CAUSAL, WINDOW
            )  # fmt: skip
            kv_head = head // group
            batch = kv_head // batch_heads
            kv_head = kv_head % batch_heads
            for tile in range(count):
                first_key = (first_tile + tile) * KEYS
                load_next(
                    descs, tiles, full, empty, k_first, loaded, batch, kv_head, first_key,
                    HEAD, KEYS, TRANSPOSED, STAGES, IS_V
                )  # fmt: skip
                loaded += 1


@gluon.jit
def load_next(
    descs,
    tiles,
    full,
    empty,
    k_first,
    loaded,
    batch,
    head,
    first_key,
    HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    TRANSPOSED: gl.constexpr,
    STAGES: gl.constexpr,
    IS_V: gl.constexpr,
):
    """Starts to load a tile of K or V when its place in the ring is free."""
    stage = stage_of(loaded, STAGES)
    mbarrier.wait(empty.index(stage), ((loaded // STAGES) & 1) ^ 1)
    if IS_V:  # noqa: SIM102 (known to the compiler, what is in it to the GPU alone)
        if loaded == 0:
            mbarrier.wait(k_first.index(0), 0)
    mbarrier.expect(full.index(stage), KEYS * HEAD * tiles[0].dtype.primitive_bitwidth // 8)
    own = of_number(tiles, stage)
    load_slabs(descs, batch, head, first_key, full.index(stage), own, HEAD, TRANSPOSED)
    if not IS_V:  # noqa: SIM102
        if loaded == 0:
            mbarrier.arrive(k_first.index(0), count=1)


@gluon.jit
def describe_head(pointer, rows, columns, step, tiles, TRANSPOSED: gl.constexpr = False):
    """A descriptor for each slab of one head, (rows, columns); TRANSPOSED: (columns, rows)."""
    descs = ()
    for slab in gl.static_range(len(tiles)):
        sizes = [columns, rows] if TRANSPOSED else [rows, columns]
        tile = tiles[slab].index(0)
        desc = tma.make_tensor_descriptor(pointer, sizes, [step, 1], tile.shape, tile.layout)
        descs += (desc,)
    return descs


@gluon.jit
def load_head(
    descs, row, full, tiles, number, HEAD: gl.constexpr, TRANSPOSED: gl.constexpr = False
):
    """Starts to load all columns of some rows of one head, a tile of each slab."""
    for slab in gl.static_range(len(tiles)):
        first = FIRST(HEAD, slab)
        corner = [first, row] if TRANSPOSED else [row, first]
        tma.async_copy_global_to_shared(descs[slab], corner, full, tiles[slab].index(number))


@gluon.jit
def load_tiles(
    given,
    columns,
    PARTS: gl.constexpr,
    HEAD: gl.constexpr,
    V_HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    V_TRANSPOSED: gl.constexpr,
    STAGES: gl.constexpr,
    MASK_STAGES: gl.constexpr,
):
    """The loading warp of one block: Q once, then K, V and mask tile by tile. TMA fills what lies
    outside of a tensor with zeros, so the last tile needs no care here."""
    query, key, value, mask, shared, barriers, place, steps = given
    q_tiles, k_tiles, v_tiles, m_tiles, _ = shared
    q_full, _, k_full, k_empty, v_full, v_empty, m_full, m_empty = barriers
    first_row, first_tile, tiles, rows, keys, mask_stride = place
    q_step, k_step, v_step = steps
    BITS: gl.constexpr = q_tiles[0].dtype.primitive_bitwidth
    V_BITS: gl.constexpr = v_tiles[0].dtype.primitive_bitwidth
    own = own_columns(columns, HEAD)
    q_descs = describe_head(query, rows, own, q_step, q_tiles)
    mbarrier.expect(q_full.index(0), 64 * PARTS * HEAD * BITS // 8)
    for part in gl.static_range(PARTS):
        load_head(q_descs, first_row + 64 * part, q_full.index(0), q_tiles, part, HEAD)
    k_descs = describe_head(key, keys, own, k_step, k_tiles)
    v_columns = own_columns(columns, V_HEAD)
    v_descs = describe_head(value, keys, v_columns, v_step, v_tiles, V_TRANSPOSED)
    if MASK_STAGES:
        m_desc = tma.make_tensor_descriptor(
            mask, [rows, keys], [mask_stride, 1], [64, KEYS], m_tiles.index(0).layout
        )
    for tile in range(tiles):
        stage = tile % STAGES
        # A fresh barrier counts as having completed phase 1: the first round does not wait.
        phase = ((tile // STAGES) & 1) ^ 1
        first_key = (first_tile + tile) * KEYS
        mbarrier.wait(k_empty.index(stage), phase)
        mbarrier.expect(k_full.index(stage), KEYS * HEAD * BITS // 8)
        load_head(k_descs, first_key, k_full.index(stage), k_tiles, stage, HEAD)
        if MASK_STAGES:
            load_mask_tile(
                m_desc, m_tiles, m_full, m_empty, tile, first_row, first_key, PARTS, MASK_STAGES
            )
        mbarrier.wait(v_empty.index(stage), phase)
        mbarrier.expect(v_full.index(stage), KEYS * V_HEAD * V_BITS // 8)
        load_head(v_descs, first_key, v_full.index(stage), v_tiles, stage, V_HEAD, V_TRANSPOSED)


@gluon.jit
def load_mask_tile(
    m_desc,
    m_tiles,
    m_full,
    m_empty,
    tile,
    first_row,
    first_key,
    PARTS: gl.constexpr,
    MASK_STAGES: gl.constexpr,
):
    """Starts to load the mask of all rows and one tile of keys."""
    stage = tile % MASK_STAGES
    mbarrier.wait(m_empty.index(stage), ((tile // MASK_STAGES) & 1) ^ 1)
    mbarrier.expect(m_full.index(stage), PARTS * m_desc.block_type.nbytes)
    for part in gl.static_range(PARTS):
        tma.async_copy_global_to_shared(
            m_desc,
            [first_row + 64 * part, first_key],
            m_full.index(stage),
            m_tiles.index(stage * PARTS + part),
        )


@gluon.constexpr_function
def PAIRED(dtype):
    """The instruction that rounds two f32 to a pair of this type."""
    pair = "f16x2" if dtype == gl.float16 else "bf16x2"
    return f"cvt.rn.{pair}.f32 $0, $2, $1;"


@gluon.jit
def carried(weights, DTYPE: gl.constexpr, KEYS: gl.constexpr):
    """The weights as they go from one tile to the next: in pairs, as integers, because the
    compiler takes pairs of f16 apart and puts them together again between the tiles."""
    low, high = gl.split(weights.reshape([64, KEYS // 2, 2]))
    return gl.inline_asm_elementwise(
        PAIRED(DTYPE),
        "=r,f,f",
        [low, high],
        dtype=gl.int32,
        is_pure=True,
        pack=1,
    )


@gluon.jit
def as_operand(weights, DTYPE: gl.constexpr, KEYS: gl.constexpr, LAYOUT: gl.constexpr):
    """Carried weights as left operand of P.V."""
    low, high = gl.inline_asm_elementwise(
        "mov.b32 {$0, $1}, $2;",
        "=h,=h,r",
        [weights],
        dtype=(gl.int16, gl.int16),
        is_pure=True,
        pack=1,
    )
    pairs = gl.join(low.to(DTYPE, bitcast=True), high.to(DTYPE, bitcast=True))
    return gl.convert_layout(pairs.reshape([64, KEYS]), LAYOUT)


@gluon.jit
def row_sums(weights, KEYS: gl.constexpr):
    """For each row, sums of the weights that a thread has: (64, 4). The four threads that share
    a row add theirs up at the end."""
    return gl.sum(gl.sum(weights.reshape([64, KEYS // 8, 4, 2]), 3), 1)


@gluon.constexpr_function
def renewal_code(count, dtype):
    """PTX of `renewed`, for `count` pairs of weights, those of two rows in turn.

    Operands are, `count` of each: the pairs; results (what a row's maximum grows by, then its
    sum of weights: four that count); the pairs in their place; exponents of the first and of the
    second of each pair; the sums so far.
    """
    out, low, high, sums = count, 3 * count, 4 * count, 5 * count
    pair = "f16x2" if dtype == gl.float16 else "bf16x2"
    code = ["{", ".reg .pred yes;", ".reg .f32 a, b, most<2>, sum<2>;"]
    for row in range(2):
        code += [f"mov.f32 ${out + row}, 0.0;", f"mov.f32 ${out + 2 + row}, ${sums + row};"]
    code += [f"max.f32 a, ${sums}, ${sums + 1};", f"setp.gt.f32 yes, a, {CEILING.value};"]
    code += ["vote.sync.any.pred yes, yes, -1;", "@!yes bra same;"]
    for row in range(2):
        own = range(row, count, 2)
        code += [f"mov.f32 most{row}, 0.0;", f"mov.f32 sum{row}, 0.0;"]
        code += [f"max.f32 most{row}, most{row}, ${half + i};" for i in own for half in (low, high)]
        for lane in (1, 2):
            code += [f"shfl.sync.bfly.b32 a, most{row}, {lane}, 0x1f, -1;"]
            code += [f"max.f32 most{row}, most{row}, a;"]
        for i in own:
            code += [f"sub.f32 a, ${low + i}, most{row};", f"sub.f32 b, ${high + i}, most{row};"]
            code += ["ex2.approx.ftz.f32 a, a;", "ex2.approx.ftz.f32 b, b;"]
            code += [f"cvt.rn.{pair}.f32 ${i}, b, a;", "add.f32 a, a, b;"]
            code += [f"add.f32 sum{row}, sum{row}, a;"]
        code += [f"mov.f32 ${out + row}, most{row};", f"mov.f32 ${out + 2 + row}, sum{row};"]
    return "\n".join([*code, "same:", "}"])


@gluon.constexpr_function
def renewal_operands(count):
    """Constraints of `renewal_code`'s operands."""
    given = [str(i) for i in range(count)] + ["f"] * (3 * count)
    return ",".join(["=r"] * count + ["=&f"] * count + given)


@gluon.jit
def first_of(x, COUNT: gl.constexpr):
    """The first of what stands in the last dim: (64, 4, COUNT) to (64, 4)."""
    if COUNT == 8:
        x, _ = gl.split(x.reshape([64, 4, 4, 2]))
    if COUNT >= 4:
        x, _ = gl.split(x.reshape([64, 4, 2, 2]))
    x, _ = gl.split(x)
    return x


@gluon.jit
def renewed(packed, exponents, total, DTYPE: gl.constexpr, KEYS: gl.constexpr):
    """A tile's carried weights, what its rows' maxima grow by, and the thread's sums of weights.

    All as given, and nothing, where the sums are below CEILING in all rows of a warp. `exponents`
    are what the weights are powers of two of, which are infinite where they are too large.
    """
    low, high = gl.split(exponents.reshape([64, KEYS // 2, 2]))
    PAIRS: gl.constexpr = packed.type.layout
    like = gl.zeros([64, KEYS // 2], gl.float32, PAIRS).reshape([64, KEYS // 8, 4])
    sums = gl.convert_layout(total, gl.SliceLayout(1, like.type.layout))
    sums, _ = gl.broadcast(gl.expand_dims(sums, 1), like)
    packed, results = gl.inline_asm_elementwise(
        renewal_code(KEYS // 4, DTYPE),
        renewal_operands(KEYS // 4),
        [packed, low, high, gl.convert_layout(sums.reshape([64, KEYS // 2]), PAIRS)],
        dtype=(gl.int32, gl.float32),
        is_pure=False,
        pack=KEYS // 4,
    )
    results = results.reshape([64, KEYS // 8, 4]).permute([0, 2, 1])
    even, odd = gl.split(results.reshape([64, 4, KEYS // 16, 2]))
    growth = gl.convert_layout(first_of(even, KEYS // 16), total.type.layout)
    return packed, growth, gl.convert_layout(first_of(odd, KEYS // 16), total.type.layout)


@gluon.constexpr_function
def shrink_code(count):
    """PTX that multiplies `count` numbers by as many factors, those of two rows by two, unless
    all of the warp's are 1."""
    row = [f"${2 * count}", f"${2 * count + 2}"]
    code = ["{", ".reg .pred yes;", ".reg .f32 least;", f"min.f32 least, {row[0]}, {row[1]};"]
    code += ["setp.lt.f32 yes, least, 1.0;", "vote.sync.any.pred yes, yes, -1;", "@!yes bra same;"]
    code += [f"mul.f32 ${i}, ${i}, {row[i // 2 % 2]};" for i in range(count)]
    return "\n".join([*code, "same:", "}"])


@gluon.constexpr_function
def shrink_operands(count):
    """Constraints of `shrink_code`'s operands: results, the numbers in their place, factors."""
    return ",".join(["=f"] * count + [str(i) for i in range(count)] + ["f"] * count)


@gluon.jit
def shrunk(out, shrink):
    """The output times what a thread's rows shrink by, (64, 4)."""
    HEAD: gl.constexpr = out.shape[1]
    LAYOUT: gl.constexpr = out.type.layout
    return gl.inline_asm_elementwise(
        shrink_code(HEAD // 2),
        shrink_operands(HEAD // 2),
        [out, spread(shrink, HEAD, LAYOUT)],
        dtype=gl.float32,
        is_pure=True,
        pack=HEAD // 2,
    )


@gluon.jit
def load_mask_row(mask, tile, keys, KEYS: gl.constexpr):
    """A row of a mask of keys for one tile, a key a thread; 0 outside of it."""
    column = tile * KEYS + gl.arange(0, KEYS, layout=gl.BlockedLayout([1], [32], [4], [0]))
    return gl.load(mask + column, mask=column < keys, other=0)


@gluon.jit
def capped(scores, to_cap, cap_log2, DTYPE: gl.constexpr):
    """cap * tanh(scale * score / cap) in units of log2, where `to_cap` is 2 log2(e) scale / cap
    and `cap_log2` cap * log2(e).

    The GPU's own tanh has 11 bits: under a cap of 50 a score may be wrong by 0.02. That is lost
    in what rounding weights to bf16 costs, not so in f16: 1 - 2 / (1 + exp(2 x)) is right to
    2e-7, and a fifth slower.
    """
    if DTYPE == gl.bfloat16:
        bounded = gl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;",
            "=f,f",
            [scores * (to_cap * 0.34657359027997264)],
            dtype=gl.float32,
            is_pure=True,
            pack=1,
        )
        scores = bounded * cap_log2
    else:
        inverse = gl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;",
            "=f,f",
            [gl.exp2(scores * to_cap) + 1.0],
            dtype=gl.float32,
            is_pure=True,
            pack=1,
        )
        scores = cap_log2 - inverse * (2.0 * cap_log2)
    return scores


@gluon.jit
def masked(scores, given, unit, BOOLEAN: gl.constexpr):
    """Scores with a mask: `given` times `unit` is added, or, if BOOLEAN, -5.9e29 where it is 0
    and nothing where it is 1: bytes 0xF0F00000 of an f32, made for four keys at once. A number
    below -3.5e7, which f16 has none of, takes the score's place: a row of nothing else is even."""
    if BOOLEAN:
        bias = gl.inline_asm_elementwise(
            """{
            .reg .b32 t;
            mul.lo.u32 t, $4, 240;
            xor.b32 t, t, 0xF0F0F0F0;
            prmt.b32 $0, t, 0, 0x0044;
            prmt.b32 $1, t, 0, 0x1144;
            prmt.b32 $2, t, 0, 0x2244;
            prmt.b32 $3, t, 0, 0x3344;
            }""",
            "=r,=r,=r,=r,r",
            [given],
            dtype=gl.float32,
            is_pure=True,
            pack=4,
        )
        scores = scores + bias
    else:
        number = given.to(gl.float32)
        if given.dtype != gl.float16:
            scores = gl.where(number < -3.5e7, 0.0, scores)
        scores = scores + number * unit
    return scores


@gluon.jit
def no_product(columns: gl.constexpr, dtype: gl.constexpr):
    """A product of 64 rows that is 0 as yet."""
    return gl.zeros([64, columns], gl.float32, PRODUCT(columns, dtype))


@gluon.jit
def scaled(out, factors):
    """The output times a factor for each row."""
    ROWS: gl.constexpr = gl.SliceLayout(1, out.type.layout)
    return out * gl.convert_layout(factors, ROWS)[:, None]


@gluon.jit
def scores_of(q, k_tiles, stage, zero, ASYNC: gl.constexpr):
    """Q.K of a tile, the sum over slabs; `zero` gives the scores their layout."""
    scores = zero
    for slab in gl.static_range(len(q)):
        k = k_tiles[slab].index(stage).permute((1, 0))
        # What waits for the last waits for all.
        scores = warpgroup_mma(
            q[slab], k, scores, use_acc=slab > 0, is_async=ASYNC or slab + 1 < len(q)
        )
    return scores


@gluon.jit
def out_of(operand, v_tiles, stage, out, V_TRANSPOSED: gl.constexpr, ASYNC: gl.constexpr):
    """`out` and P.V of a tile, for each slab of V."""
    next_out = ()
    for slab in gl.static_range(len(v_tiles)):
        v = v_tiles[slab].index(stage)
        if V_TRANSPOSED:
            v = v.permute((1, 0))
        own = gl.convert_layout(operand, OPERAND(PRODUCT(v.shape[1], v.dtype)))
        next_out += (warpgroup_mma(own, v, out[slab], is_async=ASYNC),)
    return next_out


@gluon.jit
def attend(
    given,
    columns,
    PARTS: gl.constexpr,
    HEAD: gl.constexpr,
    V_HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    MASK: gl.constexpr,
    V_TRANSPOSED: gl.constexpr,
    STAGES: gl.constexpr,
    MASK_STAGES: gl.constexpr,
    CAP: gl.constexpr,
    PERSISTENT: gl.constexpr,
    Q_STAGES: gl.constexpr,
    LAZY: gl.constexpr,
    SINK: gl.constexpr,
    PART: gl.constexpr,
):
    """A multiplying warpgroup: rows 64 * PART to 64 * PART + 63 of the program's block, or, if
    PERSISTENT, of one block after the other."""
    (
        output, strides, mask, sinks, sink_count, shared, barriers, place, work, scale_log2,
        cap_log2
    ) = given  # fmt: skip
    heads, group, sections, limits, batch_heads = work
    own_mask = mask
    if PERSISTENT:
        own = batch_heads * group
        rows, keys, mask_stride = place[3], place[4], place[5]
        sent = ()
        if SENDS(PERSISTENT, Q_STAGES, HEAD, V_HEAD):
            sent = describe_slabs(
                output, heads // own, own, rows, own_columns(columns, V_HEAD), strides, shared[4]
            )
        done, used = gl.to_tensor(0).to(gl.uint32), gl.to_tensor(0).to(gl.uint32)
        if LAZY and PARTS == 2 and PART == 1:
            hand_over(PART)
        for first_head in range(0, sections[0], sections[1]):
            first, end, step = turns_of(
                first_head, sections[1], heads, rows, 64 * PARTS, CAUSAL, WINDOW
            )
            for turn in range(first, end, step):
                head, first_row, first_tile, tiles = block_of(
                    turn, first_head, sections[1], limits, heads, rows, keys, 64 * PARTS,
                    KEYS, CAUSAL, WINDOW
                )  # fmt: skip
                if MASK:
                    divisor, count = place[6], place[7]
                    own_mask = mask + gl.to_tensor(head // divisor % count).to(gl.int64) * keys
                sink = sinks
                if SINK:
                    sink += head % sink_count
                attend_block(
                    rows_of(output, strides, head // own, head % own), strides[2], sent,
                    (head // own, head % own), own_mask, sink, shared, barriers,
                    (first_row, first_tile, tiles, rows, keys, mask_stride), limits, done, used,
                    scale_log2, cap_log2, columns, PARTS, HEAD, V_HEAD, KEYS, CAUSAL, WINDOW, MASK,
                    V_TRANSPOSED, STAGES, MASK_STAGES, CAP, True, Q_STAGES, LAZY, SINK, PART
                )  # fmt: skip
                done += 1
                used += tiles
        if SENDS(PERSISTENT, Q_STAGES, HEAD, V_HEAD):
            tma.store_wait(0)
        if LAZY and PARTS == 2 and PART == 0:
            # Every turn is taken: a barrier that is left half full would be so at the next use.
            wait_for_turn(PART)
    else:
        attend_block(
            output, strides[2], (), (0, 0), mask, sinks, shared, barriers, place, limits, 0, 0,
            scale_log2, cap_log2, columns, PARTS, HEAD, V_HEAD, KEYS, CAUSAL, WINDOW, MASK,
            V_TRANSPOSED, STAGES, MASK_STAGES, CAP, False, Q_STAGES, False, SINK, PART
        )  # fmt: skip


@gluon.jit
def attend_block(
    output,
    row_stride,
    sent,
    own_head,
    mask,
    sink,
    shared,
    barriers,
    place,
    limits,
    done,
    used,
    scale_log2,
    cap_log2,
    columns,
    PARTS: gl.constexpr,
    HEAD: gl.constexpr,
    V_HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    MASK: gl.constexpr,
    V_TRANSPOSED: gl.constexpr,
    STAGES: gl.constexpr,
    MASK_STAGES: gl.constexpr,
    CAP: gl.constexpr,
    PERSISTENT: gl.constexpr,
    Q_STAGES: gl.constexpr,
    LAZY: gl.constexpr,
    SINK: gl.constexpr,
    PART: gl.constexpr,
):
    """64 rows of a block. `done` blocks and `used` tiles of K and of V came before. Where the
    memory engine writes the result `sent` describes it, by slabs; `own_head` is batch and head."""
    q_tiles, k_tiles, v_tiles, m_tiles, o_tiles = shared
    q_full, q_empty, k_full, k_empty, v_full, v_empty, m_full, m_empty = barriers
    program_row, first_tile, tiles, rows, keys, mask_stride = place
    diagonal, behind = limits
    dtype: gl.constexpr = v_tiles[0].dtype
    SCORES: gl.constexpr = PRODUCT(KEYS, k_tiles[0].dtype)
    WEIGHTS: gl.constexpr = OPERAND(PRODUCT(WIDTH(V_HEAD, 0), dtype))
    first_row = program_row + PART * 64
    BOOLEAN: gl.constexpr = MASK == 2
    # Scores are scaled together with the shift; what a mask adds must be in their units. Those
    # with a soft-cap are in units of log2 when it has been applied.
    factor = scale_log2
    mask_unit = 1.4426950408889634 / factor
    if CAP:
        factor = 1.0
        mask_unit = 1.4426950408889634
    if SINK:
        sink_log2 = gl.load(sink) * 1.4426950408889634
    q_stage = stage_of(done, Q_STAGES)
    q = of_number(q_tiles, q_stage * PARTS + PART)
    zero = gl.zeros([64, KEYS], gl.float32, SCORES)
    out = ()
    for slab in gl.static_range(SLABS(V_HEAD)):
        out += (no_product(WIDTH(V_HEAD, slab), dtype),)

    if MASK == 3:
        # Loaded a tile ahead: one register, and nobody waits for memory.
        row_ahead = load_mask_row(mask, first_tile, keys, KEYS)
    stage = stage_of(used, STAGES)
    mbarrier.wait(q_full.index(q_stage), (done // Q_STAGES) & 1)
    mbarrier.wait(k_full.index(stage), (used // STAGES) & 1)
    scores = scores_of(q, k_tiles, stage, zero, False)
    mbarrier.arrive(k_empty.index(stage), count=1)
    if MASK_STAGES:
        mbarrier.wait(m_full.index(0), 0)
        given = m_tiles.index(PART).load(SCORES)
        mbarrier.arrive(m_empty.index(0), count=1)
    elif MASK == 3:
        given = gl.convert_layout(row_ahead, gl.SliceLayout(0, SCORES))[None, :]
        row_ahead = load_mask_row(mask, first_tile + 1, keys, KEYS)
    elif MASK:
        given = load_mask(mask, first_tile, first_row, rows, keys, mask_stride, KEYS, SCORES)
    if CAP:
        scores = capped(scores, scale_log2, cap_log2, dtype)
    if MASK:
        scores = masked(scores, given, mask_unit, BOOLEAN)
    scores = hide_keys(
        scores, first_tile, first_row, keys, diagonal, behind, KEYS, CAUSAL, WINDOW, SCORES
    )
    peak = gl.max(scores, 1) * factor
    if MASK or WINDOW:
        # Far above hidden scores and below all others: hidden keys weigh 0 in rows that have
        # seen none yet.
        peak = gl.maximum(peak, -1.0e20)
    weights = gl.exp2(scores * factor - peak[:, None])
    total = row_sums(weights, KEYS)
    packed = carried(weights, dtype, KEYS)
    SUMS: gl.constexpr = total.type.layout
    if LAZY:
        peak = gl.convert_layout(peak, gl.SliceLayout(1, SUMS))[:, None]
        peak, _ = gl.broadcast(peak, total)
    # The first of many parts do not see the last keys that the last part sees.
    own_tiles = tiles
    if CAUSAL and PARTS > 2:
        own_tiles = gl.minimum(tiles, (first_row + 63 + diagonal) // KEYS + 1)
    for tile in range(1, own_tiles):
        stage = stage_of(used + tile, STAGES)
        before = stage_of(used + tile - 1, STAGES)
        mbarrier.wait(k_full.index(stage), ((used + tile) // STAGES) & 1)
        if LAZY and PARTS == 2:
            wait_for_turn(PART)
        next_scores = scores_of(q, k_tiles, stage, zero, True)
        operand = as_operand(packed, dtype, KEYS, WEIGHTS)
        mbarrier.wait(v_full.index(before), ((used + tile - 1) // STAGES) & 1)
        next_out = out_of(operand, v_tiles, before, out, V_TRANSPOSED, True)
        if LAZY and PARTS == 2:
            hand_over(PART)
        number = first_tile + tile
        if MASK_STAGES:
            mask_stage = tile % MASK_STAGES
            mbarrier.wait(m_full.index(mask_stage), (tile // MASK_STAGES) & 1)
            given = m_tiles.index(mask_stage * PARTS + PART).load(SCORES)
        elif MASK == 3:
            given = gl.convert_layout(row_ahead, gl.SliceLayout(0, SCORES))[None, :]
            row_ahead = load_mask_row(mask, number + 1, keys, KEYS)
        elif MASK:
            given = load_mask(mask, number, first_row, rows, keys, mask_stride, KEYS, SCORES)
        scores = warpgroup_mma_wait(num_outstanding=SLABS(V_HEAD), deps=(next_scores,))
        mbarrier.arrive(k_empty.index(stage), count=1)
        if MASK_STAGES:
            mbarrier.arrive(m_empty.index(mask_stage), count=1)
        if CAP:
            scores = capped(scores, scale_log2, cap_log2, dtype)
        if MASK:
            scores = masked(scores, given, mask_unit, BOOLEAN)
        scores = hide_keys(
            scores, number, first_row, keys, diagonal, behind, KEYS, CAUSAL, WINDOW, SCORES
        )
        if LAZY:
            exponents = scores * factor - spread(peak, KEYS, SCORES)
            weights = gl.exp2(exponents)
            packed, growth, own_total = renewed(
                carried(weights, dtype, KEYS), exponents, row_sums(weights, KEYS), dtype, KEYS
            )
            shrink = gl.exp2(-growth)
            total = total * shrink + own_total
            peak += growth
        else:
            new_peak = gl.maximum(peak, gl.max(scores, 1) * factor)
            weights = gl.exp2(scores * factor - new_peak[:, None])
            shrink = gl.exp2(peak - new_peak)
            own_shrink = gl.convert_layout(shrink, gl.SliceLayout(1, SUMS))
            total = total * own_shrink[:, None] + row_sums(weights, KEYS)
            peak = new_peak
        # Naming the weights as a dependence keeps their registers alive until P.V has read them.
        waited = next_out + (operand,)  # noqa: RUF005 (Triton has no such stars)
        done_out = warpgroup_mma_wait(num_outstanding=0, deps=waited)
        mbarrier.arrive(v_empty.index(before), count=1)
        out = ()
        for slab in gl.static_range(SLABS(V_HEAD)):
            if LAZY:
                out += (shrunk(done_out[slab], shrink),)
            else:
                out += (scaled(done_out[slab], shrink),)
        if not LAZY:
            packed = carried(weights, dtype, KEYS)
    SENT: gl.constexpr = SENDS(PERSISTENT, Q_STAGES, HEAD, V_HEAD)
    HIDES: gl.constexpr = MASK != 0 or WINDOW
    if PERSISTENT and not (SENT and Q_STAGES == 1):
        mbarrier.arrive(q_empty.index(q_stage), count=1)
    last = stage_of(used + own_tiles - 1, STAGES)
    mbarrier.wait(v_full.index(last), ((used + own_tiles - 1) // STAGES) & 1)
    operand = as_operand(packed, dtype, KEYS, WEIGHTS)
    out = out_of(operand, v_tiles, last, out, V_TRANSPOSED, False)
    if PERSISTENT or (CAUSAL and PARTS > 2):
        # The loading warp waits for all parts.
        mbarrier.arrive(v_empty.index(last), count=1)
    if CAUSAL and PARTS > 2:
        # The others still wait for tiles.
        for tile in range(own_tiles, tiles):
            stage = stage_of(used + tile, STAGES)
            mbarrier.wait(k_full.index(stage), ((used + tile) // STAGES) & 1)
            mbarrier.arrive(k_empty.index(stage), count=1)
            mbarrier.wait(v_full.index(stage), ((used + tile) // STAGES) & 1)
            mbarrier.arrive(v_empty.index(stage), count=1)
    sums = gl.sum(total, 1)
    if SINK:
        # Where the sink is far above all scores, infinity: the result is 0.
        sums += gl.exp2(sink_log2 - gl.convert_layout(peak, sums.type.layout))
    if SENT:
        send_slabs(
            out, sums, sent, of_number(o_tiles, PART), own_head, first_row, V_HEAD, HIDES
        )  # fmt: skip
        if Q_STAGES == 1:
            # It lies where Q was.
            tma.store_wait(0)
            mbarrier.arrive(q_empty.index(q_stage), count=1)
    else:
        for slab in gl.static_range(SLABS(V_HEAD)):
            store_slab(
                out[slab], sums, output, first_row, rows, columns, row_stride,
                FIRST(V_HEAD, slab), PERSISTENT, HIDES
            )  # fmt: skip


@gluon.jit
def send_slabs(
    out, total, descs, tiles, own_head, first_row, HEAD: gl.constexpr, HIDES: gl.constexpr
):
    """What `store_slab` does, of all slabs, by way of shared memory and the memory engine: warps go
    on at once. Their own stores, of 16 bytes of a row each, take 2 us a block."""
    if HIDES:
        total = gl.where(total == 0.0, 1.0, total)
    share = 1.0 / total
    # The last block's tiles have been read.
    tma.store_wait(0)
    for slab in gl.static_range(len(out)):
        fill_tile(out[slab], share, tiles[slab])
    fence_async_shared()
    for slab in gl.static_range(len(out)):
        send_tile(descs[slab], tiles[slab], own_head, first_row, FIRST(HEAD, slab))


@gluon.jit
def fill_tile(out, share, tile):
    """Writes 64 rows, each times its share, to shared memory."""
    ROWS: gl.constexpr = gl.SliceLayout(1, out.type.layout)
    tile.store((out * gl.convert_layout(share, ROWS)[:, None]).to(tile.dtype))


@gluon.jit
def send_tile(desc, tile, own_head, row, column):
    """Starts to write a tile of what `describe` described; what lies outside of a head is left."""
    BLOCK: gl.constexpr = desc.block_type.shape
    place = tile._reinterpret(tile.dtype, BLOCK, desc.layout)
    tma.async_copy_shared_to_global(desc, [own_head[0], own_head[1], row, column], place)


@gluon.jit
def store_slab(
    out, total, output, first_row, rows, columns, row_stride, FIRST_COLUMN: gl.constexpr,
    PERSISTENT: gl.constexpr, HIDES: gl.constexpr,
):  # fmt: skip
    """Writes a slab of 64 rows, divided by their sums of weights. A row that has seen no key is 0
    where a mask or a window HIDES keys."""
    OUT: gl.constexpr = out.type.layout
    OUT_ROWS: gl.constexpr = gl.SliceLayout(1, OUT)
    HEAD: gl.constexpr = out.shape[1]
    if HIDES:
        total = gl.where(total == 0.0, 1.0, total)
    if PERSISTENT:
        out = out * gl.convert_layout(1.0 / total, OUT_ROWS)[:, None]
    else:
        out = out / gl.convert_layout(total, OUT_ROWS)[:, None]
    row = first_row + gl.arange(0, 64, layout=OUT_ROWS)
    step = elements(row_stride, output.dtype.element_ty)
    column = gl.arange(0, HEAD, layout=gl.SliceLayout(0, OUT))
    if FIRST_COLUMN:
        column += FIRST_COLUMN
    place = row.to(gl.int64)[:, None] * step + column[None, :]
    inside = (row < rows)[:, None]
    if not isinstance(columns, gl.tensor):
        inside = inside & (gl.full([1, HEAD], 1, gl.int1, OUT))
    else:
        inside = inside & (column < columns)[None, :]
    gl.store(output + place, out.to(output.dtype.element_ty), mask=inside)


@gluon.jit
def tiles_of(
    dtype: gl.constexpr,
    count: gl.constexpr,
    rows: gl.constexpr,
    HEAD: gl.constexpr,
    TRANSPOSED: gl.constexpr,
):
    """Shared memory for so many tiles of some rows: those of each slab of columns."""
    tiles = ()
    for slab in gl.static_range(SLABS(HEAD)):
        if TRANSPOSED:
            tiles += (room_for(dtype, count, WIDTH(HEAD, slab), rows),)
        else:
            tiles += (room_for(dtype, count, rows, WIDTH(HEAD, slab)),)
    return tiles


@gluon.jit
def attention(
    query,
    key,
    value,
    mask,
    sinks,
    output,
    scratch,
    rows,
    keys,
    group,
    diagonal,
    heads,
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
    cap,
    HEAD: gl.constexpr,
    V_HEAD: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    MASK: gl.constexpr,
    CAP: gl.constexpr,
    V_TRANSPOSED: gl.constexpr,
    PARTS: gl.constexpr,
    STAGES: gl.constexpr,
    MASK_STAGES: gl.constexpr,
    REGISTERS: gl.constexpr,
    PERSISTENT: gl.constexpr,
    Q_STAGES: gl.constexpr,
    LAZY: gl.constexpr,
    PADDED: gl.constexpr,
    SINK: gl.constexpr,
):
    """softmax(scale * Q K^T) V for every head.

    query: (heads, rows, HEAD); key: (heads / group, keys, HEAD); value: (heads / group, keys,
    V_HEAD), or (heads / group, V_HEAD, keys) if V_TRANSPOSED; output: (heads, rows, V_HEAD). If
    PADDED, head dims are `columns`, in units of 16 bytes, HEAD or fewer: the memory engine fills
    them up with zeros. `batch_heads` heads of K and V make a batch.
    Each begins at its `_start` in its buffer, and batches, heads in a batch and rows have their
    strides, all in units of 16 bytes; the elements of a row are neighbours. Buffers are 16-byte
    aligned. Query and key have one type, value and output one of 16 bits. Row i sees keys 0 to i +
    diagonal if CAUSAL, where diagonal >= 0; if WINDOW too, none before key i - behind. MASK is 0
    for none, 1 for a mask that is added to the scaled scores (then scale > 0), 2 for bytes that
    are 1 where a key is seen and else 0, 3 for one that is added, too, and has one row of keys for
    all rows. Head h reads mask number h / mask_divisor % mask_count, each of (rows, keys), or of
    (keys) if mask_stride, the distance of its rows, is 0, or MASK is 3. MASK_STAGES
    is how many tiles of a mask are kept in shared memory; then its rows start at multiples of 16
    bytes; 0 for any mask. If CAP, a scaled score s becomes cap * tanh(s / cap), before the mask.
    If SINK, the weight of a score that belongs to no key is added to a row's sum of weights: head h
    has number h % sink_count of `sinks`, in f32. These are not LAZY.
    Arguments that a kernel does not need are not among its parameters.
    The grid is heads * ceil(rows / (64 * PARTS)) programs in one dim, or, if PERSISTENT, any
    number: each takes one block of rows after the other, and Q_STAGES blocks of Q have room in
    shared memory. Then MASK must be 0 or 3. LAZY kernels must be PERSISTENT, and have neither a
    window nor a cap.
    `scratch` is not read: the build puts the memory of the TMA descriptors in its place.
    """
    ROWS: gl.constexpr = 64 * PARTS
    dtype: gl.constexpr = query.dtype.element_ty
    v_dtype: gl.constexpr = value.dtype.element_ty
    KEY_BITS: gl.constexpr = HEAD * dtype.primitive_bitwidth + V_HEAD * v_dtype.primitive_bitwidth
    blocks = (rows + ROWS - 1) // ROWS
    gl.static_assert(not PERSISTENT or MASK == 0 or MASK == 3)
    gl.static_assert(not LAZY or (PERSISTENT and not WINDOW and not CAP and not SINK))
    if PADDED:
        columns = elements(columns, dtype).to(gl.int32)
    query += elements(query_start, dtype)
    key += elements(key_start, dtype)
    value += elements(value_start, v_dtype)
    q_strides = (query_batch, query_head, query_row)
    k_strides = (key_batch, key_head, key_row)
    v_strides = (value_batch, value_head, value_row)
    o_strides = (output_batch, output_head, output_row)
    first_row = 0
    if not PERSISTENT:
        program = gl.program_id(0)
        number = program // blocks
        block = program % blocks
        if WINDOW:
            block = blocks - 1 - block
        elif CAUSAL:
            number, block = longest_first(program, blocks, keys, KEY_BITS)
        head = number.to(gl.int64)
        first_row = block * ROWS
        kv_head = head // group
        batch = kv_head // batch_heads
        own_head = head - batch * batch_heads * group
        kv_head -= batch * batch_heads
        query = rows_of(query, q_strides, batch, own_head)
        output = rows_of(output, o_strides, batch, own_head)
        key = rows_of(key, k_strides, batch, kv_head)
        value = rows_of(value, v_strides, batch, kv_head)
        if SINK:
            sinks += number % sink_count
    v_tiles = tiles_of(v_dtype, STAGES, KEYS, V_HEAD, V_TRANSPOSED)
    q_tiles = tiles_of(dtype, Q_STAGES * PARTS, 64, HEAD, False)
    k_tiles = tiles_of(dtype, STAGES, KEYS, HEAD, False)

    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [Q_STAGES, 1], BARRIER)
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for stage in gl.static_range(Q_STAGES):
        mbarrier.init(q_full.index(stage), count=1)
    # Of one block none is waited for.
    q_empty, k_first = q_full, q_full
    if PERSISTENT:
        k_first = gl.allocate_shared_memory(gl.int64, [1, 1], BARRIER)
        mbarrier.init(k_first.index(0), count=1)
        q_empty = gl.allocate_shared_memory(gl.int64, [Q_STAGES, 1], BARRIER)
        for stage in gl.static_range(Q_STAGES):
            mbarrier.init(q_empty.index(stage), count=PARTS)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_full.index(stage), count=1)
        mbarrier.init(v_full.index(stage), count=1)
        mbarrier.init(k_empty.index(stage), count=PARTS)
        mbarrier.init(v_empty.index(stage), count=PARTS)
    # Without a mask in shared memory these are not read.
    m_tiles, m_full, m_empty = q_tiles[0], q_full, q_full
    if MASK_STAGES:
        mask_dtype: gl.constexpr = mask.dtype.element_ty
        M_TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, KEYS], mask_dtype)
        m_tiles = gl.allocate_shared_memory(mask_dtype, [MASK_STAGES * PARTS, 64, KEYS], M_TILE)
        m_full = gl.allocate_shared_memory(gl.int64, [MASK_STAGES, 1], BARRIER)
        m_empty = gl.allocate_shared_memory(gl.int64, [MASK_STAGES, 1], BARRIER)
        for stage in gl.static_range(MASK_STAGES):
            mbarrier.init(m_full.index(stage), count=1)
            mbarrier.init(m_empty.index(stage), count=PARTS)
    fence_async_shared()

    place = (0, 0, 0, rows, keys, mask_stride, mask_divisor, mask_count)
    if not PERSISTENT:
        first_tile, tiles = key_tiles(first_row, keys, diagonal, behind, ROWS, KEYS, CAUSAL, WINDOW)
        place = (first_row, first_tile, tiles, rows, keys, mask_stride)
    if MASK and not PERSISTENT:
        size = keys.to(gl.int64)
        if mask_stride != 0:
            size = size * rows
        mask += number // mask_divisor % mask_count * size
    scale_log2 = scale * 1.4426950408889634
    cap_log2 = 0
    if CAP:
        scale_log2 = 2.0 * scale_log2 / cap
        cap_log2 = cap * 1.4426950408889634
    # Where nothing is sent nobody reads these; else what is sent lies where Q was, or in its own.
    o_tiles = q_tiles
    if SENDS(PERSISTENT, Q_STAGES, HEAD, V_HEAD):
        o_tiles = (q_tiles[0],)
        if Q_STAGES > 1:
            o_tiles = tiles_of(output.dtype.element_ty, PARTS, 64, V_HEAD, False)
    # A part is listed for each of its numbers, because each compiled part knows its rows.
    shared = (q_tiles, k_tiles, v_tiles, m_tiles, o_tiles)
    barriers = (q_full, q_empty, k_full, k_empty, v_full, v_empty, m_full, m_empty)
    # Bound and step of the first heads of sections: without an order there is one.
    sections = (1, 1)
    if PERSISTENT and CAUSAL and not WINDOW:
        sections = (heads, section_of(heads, keys, KEY_BITS))
    work = (heads, group, sections, (diagonal, behind), batch_heads)
    steps = (
        elements(query_row, dtype),
        elements(key_row, dtype),
        elements(value_row, v_dtype),
    )
    own = (
        output, o_strides, mask, sinks, sink_count, shared, barriers, place, work, scale_log2,
        cap_log2
    )  # fmt: skip
    of_all = (query, key, value, mask, shared, barriers, place, steps)
    of_q = (query, q_strides, q_tiles, q_full, q_empty, place, work)
    of_k = (key, k_strides, k_tiles, k_full, k_empty, k_first, place, work)
    of_v = (value, v_strides, v_tiles, v_full, v_empty, k_first, place, work)
    # fmt: off
    if not PERSISTENT:
        gl.static_assert(PARTS == 2)
        gl.warp_specialize(
            [
                (attend, (own, columns, PARTS, HEAD, V_HEAD, KEYS, CAUSAL, WINDOW, MASK,
                          V_TRANSPOSED, STAGES, MASK_STAGES, CAP, PERSISTENT, Q_STAGES, LAZY, SINK,
                          0)),
                (attend, (own, columns, PARTS, HEAD, V_HEAD, KEYS, CAUSAL, WINDOW, MASK,
                          V_TRANSPOSED, STAGES, MASK_STAGES, CAP, PERSISTENT, Q_STAGES, LAZY, SINK,
                          1)),
                (load_tiles, (of_all, columns, PARTS, HEAD, V_HEAD, KEYS, V_TRANSPOSED, STAGES,
                              MASK_STAGES)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )
    elif PARTS == 2:
        gl.warp_specialize(
            [
                (attend, (own, columns, PARTS, HEAD, V_HEAD, KEYS, CAUSAL, WINDOW, MASK,
                          V_TRANSPOSED, STAGES, MASK_STAGES, CAP, PERSISTENT, Q_STAGES, LAZY, SINK,
                          0)),
                (attend, (own, columns, PARTS, HEAD, V_HEAD, KEYS, CAUSAL, WINDOW, MASK,
                          V_TRANSPOSED, STAGES, MASK_STAGES, CAP, PERSISTENT, Q_STAGES, LAZY, SINK,
                          1)),
                (load_rows, (of_q, columns, PARTS, HEAD, KEYS, CAUSAL, WINDOW, Q_STAGES)),
                (load_keys, (of_k, columns, PARTS, HEAD, KEYS, CAUSAL, WINDOW, False, STAGES,
                             False)),
                (load_keys, (of_v, columns, PARTS, V_HEAD, KEYS, CAUSAL, WINDOW, V_TRANSPOSED,
                             STAGES, True)),
            ],
            [4, 1, 1, 1],
            [REGISTERS, 24, 24, 24],
        )
    else:
        gl.warp_specialize(
            [
                (attend, (own, columns, PARTS, HEAD, V_HEAD, KEYS, CAUSAL, WINDOW, MASK,
                          V_TRANSPOSED, STAGES, MASK_STAGES, CAP, PERSISTENT, Q_STAGES, LAZY, SINK,
                          0)),
                (attend, (own, columns, PARTS, HEAD, V_HEAD, KEYS, CAUSAL, WINDOW, MASK,
                          V_TRANSPOSED, STAGES, MASK_STAGES, CAP, PERSISTENT, Q_STAGES, LAZY, SINK,
                          1)),
                (attend, (own, columns, PARTS, HEAD, V_HEAD, KEYS, CAUSAL, WINDOW, MASK,
                          V_TRANSPOSED, STAGES, MASK_STAGES, CAP, PERSISTENT, Q_STAGES, LAZY, SINK,
                          2)),
                (attend, (own, columns, PARTS, HEAD, V_HEAD, KEYS, CAUSAL, WINDOW, MASK,
                          V_TRANSPOSED, STAGES, MASK_STAGES, CAP, PERSISTENT, Q_STAGES, LAZY, SINK,
                          3)),
                (load_rows, (of_q, columns, PARTS, HEAD, KEYS, CAUSAL, WINDOW, Q_STAGES)),
                (load_keys, (of_k, columns, PARTS, HEAD, KEYS, CAUSAL, WINDOW, False, STAGES,
                             False)),
                (load_keys, (of_v, columns, PARTS, V_HEAD, KEYS, CAUSAL, WINDOW, V_TRANSPOSED,
                             STAGES, True)),
            ],
            [4, 4, 4, 1, 1, 1],
            [REGISTERS, REGISTERS, REGISTERS, 24, 24, 24],
        )
    # fmt: on
