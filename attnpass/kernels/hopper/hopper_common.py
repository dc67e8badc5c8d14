# type: ignore (Triton compiles this file; Python never runs it)
"""What kernels of attention for Hopper (sm_90a) in Gluon (triton 3.6.0) have in common.

`tools/build_kernels.py` compiles it with each that imports it; nothing imports it at run time.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.constexpr_function
def PRODUCT(columns, dtype=gl.bfloat16):
    """The layout of a product of 64 rows; its operands have this type, or one as wide."""
    return gl.NVMMADistributedLayout(
        version=[3, 0],
        warps_per_cta=[4, 1],
        instr_shape=[16, columns, 256 // dtype.primitive_bitwidth],
    )


@gluon.constexpr_function
def OPERAND(product):
    """The layout of a product's left operand in registers."""
    return gl.DotOperandLayout(operand_index=0, parent=product, k_width=2)


@gluon.constexpr_function
def UNIT(dtype):
    """Elements in 16 bytes, the unit of strides: what the memory engine can step by."""
    return 128 // dtype.primitive_bitwidth


@gluon.jit
def elements(units, DTYPE: gl.constexpr):
    """A stride or a place in elements."""
    return gl.to_tensor(units).to(gl.int64) * UNIT(DTYPE)


@gluon.jit
def room_for(dtype: gl.constexpr, count: gl.constexpr, rows: gl.constexpr, columns: gl.constexpr):
    """Shared memory for so many tiles."""
    TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([rows, columns], dtype)
    return gl.allocate_shared_memory(dtype, [count, rows, columns], TILE)


@gluon.jit
def longest_first(program, blocks, keys, KEY_BITS: gl.constexpr):
    """The head and the block of rows of a program of a causal kernel: long rows before short
    ones, so that the last programs to start are soon over. Heads take turns within as many of
    them as have their K and V (KEY_BITS a key) in 32 MB of the L2 cache, one such section
    after the other."""
    heads = gl.num_programs(0) // blocks
    SHARE: gl.constexpr = 32 * 1024 * 1024 * 8 // KEY_BITS
    section = gl.minimum(gl.maximum(SHARE // keys, 1), heads)
    first = program // (section * blocks) * section
    place = program - first * blocks
    section = gl.minimum(section, heads - first)
    return first + place % section, blocks - 1 - place // section


@gluon.jit
def key_tiles(
    first_row,
    keys,
    diagonal,
    behind,
    ROWS: gl.constexpr,
    KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
):
    """The first tile of keys that a block of rows sees, and how many there are."""
    end = keys
    if CAUSAL:
        end = gl.minimum(keys, first_row + ROWS + diagonal)
    tiles = gl.maximum((end + KEYS - 1) // KEYS, 1)
    first_tile = 0
    if WINDOW:
        first_tile = gl.minimum(gl.maximum(first_row - behind, 0) // KEYS, tiles - 1)
        tiles = tiles - first_tile
    return first_tile, tiles


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
    """The mask of 64 rows and one tile of keys, from memory; 0 outside of it."""
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
    LAYOUT: gl.constexpr,
    key_of: gl.constexpr = None,
):
    """Scores of keys behind the end, above the diagonal or before the window become -1e30.
    Only the tiles that have such keys pay for it. -1e30 instead of -inf keeps the running
    maximum finite. `key_of` says which key of a tile a column of the scores belongs to, if not
    that of its number."""
    last_key = (tile + 1) * KEYS - 1
    needed = last_key >= keys
    if CAUSAL:
        needed = needed | (last_key > first_row + diagonal)
    if WINDOW:
        needed = needed | (tile * KEYS < first_row + 63 - behind)
    if needed:
        column = gl.arange(0, KEYS, layout=gl.SliceLayout(0, LAYOUT))
        if key_of is not None:
            column = key_of(column)
        column = tile * KEYS + column
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
def spread(x, COLUMNS: gl.constexpr, LAYOUT: gl.constexpr):
    """What a thread has of its rows, (64, 4), for each of the columns that it has of them."""
    like = gl.zeros([64, COLUMNS], x.dtype, LAYOUT).reshape([64, COLUMNS // 8, 4, 2])
    PLACES: gl.constexpr = gl.SliceLayout(1, gl.SliceLayout(3, like.type.layout))
    x = gl.expand_dims(gl.expand_dims(gl.convert_layout(x, PLACES), 1), 3)
    x, _ = gl.broadcast(x, like)
    return gl.convert_layout(x.reshape([64, COLUMNS]), LAYOUT)
