# type: ignore (Triton compiles this file; Python never runs it)
"""Attention forward for Hopper (sm_90a) with 8-bit operands, in plain Triton (3.6.0).

`tools/build_kernels.py` compiles this file ahead of time; nothing imports it at run time.

Q, K, V and the weights are e4m3. wgmma reads 8-bit operands only with the reduced dim
innermost, so V must come as V^T: (HEAD, keys). One program of eight warps computes 128 query
rows of one head; the compiler pipelines the TMA loads of K and V^T tiles. Automatic warp
specialisation is off: in triton 3.6.0 it gives wrong rows.
"""

import triton
import triton.language as tl


@triton.jit
def attend_tiles(
    q,
    k_desc,
    v_desc,
    out,
    peak,
    total,
    start,
    end,
    first_row,
    keys,
    diagonal,
    scale_log2,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    HIDE: tl.constexpr,
    CAUSAL: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One step of online softmax for each tile of keys in [start, end); with HIDE, keys behind
    the end and above the diagonal are left out."""
    for first_key in tl.range(start, end, KEYS, num_stages=STAGES):
        first_key = tl.multiple_of(first_key, KEYS)
        scores = tl.dot(q, k_desc.load([first_key, 0]).T)
        if HIDE:
            column = first_key + tl.arange(0, KEYS)
            seen = (column < keys)[None, :]
            if CAUSAL:
                row = first_row + tl.arange(0, ROWS)
                seen = seen & (row[:, None] + diagonal >= column[None, :])
            scores = tl.where(seen, scores, -1.0e30)
        new_peak = tl.maximum(peak, tl.max(scores, 1) * scale_log2)
        # Weights between 0 and 256 use the range of e4m3 (largest value 448); the factor is in
        # the row sums too, so it cancels.
        weights = tl.math.exp2(scores * scale_log2 - (new_peak - 8.0)[:, None])
        shrink = tl.math.exp2(peak - new_peak)
        total = total * shrink + tl.sum(weights, 1)
        out = out * shrink[:, None]
        v = v_desc.load([0, first_key]).T
        out = tl.dot(weights.to(v.dtype), v, out)
        peak = new_peak
    return out, peak, total


@triton.jit
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
    scale,
    HEAD: tl.constexpr,
    KEYS: tl.constexpr,
    CAUSAL: tl.constexpr,
    STAGES: tl.constexpr,
):
    """softmax(scale * Q K^T) V for every head; V^T in, the output in its own type.

    query and output: (heads, rows, HEAD); key: (heads / group, keys, HEAD); value:
    (heads / group, HEAD, keys), where `keys` is a multiple of 16. Row i sees keys 0 to
    i + diagonal if CAUSAL, where diagonal >= 0. The grid is heads * ceil(rows / 128) programs
    in one dim. `scratch` is not read: the build puts the memory of the TMA descriptors in its
    place.
    """
    ROWS: tl.constexpr = 128
    blocks = tl.cdiv(rows, ROWS)
    program = tl.program_id(0)
    head = (program // blocks).to(tl.int64)
    block = program % blocks
    if CAUSAL:
        block = blocks - 1 - block  # the longest rows first, so that the tail is short
    first_row = block * ROWS
    kv_head = head // group
    q_desc = tl.make_tensor_descriptor(
        query + head * rows * HEAD, [rows, HEAD], [HEAD, 1], [ROWS, HEAD]
    )
    k_desc = tl.make_tensor_descriptor(
        key + kv_head * keys * HEAD, [keys, HEAD], [HEAD, 1], [KEYS, HEAD]
    )
    v_desc = tl.make_tensor_descriptor(
        value + kv_head * keys * HEAD, [HEAD, keys], [keys, 1], [HEAD, KEYS]
    )
    q = q_desc.load([first_row, 0])
    peak = tl.full([ROWS], -1.0e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    out = tl.zeros([ROWS, HEAD], tl.float32)
    scale_log2 = scale * 1.4426950408889634
    end = keys
    clear = keys // KEYS * KEYS
    if CAUSAL:
        end = tl.minimum(keys, first_row + ROWS + diagonal)
        clear = tl.minimum(clear, (first_row + diagonal) // KEYS * KEYS)
    out, peak, total = attend_tiles(
        q, k_desc, v_desc, out, peak, total, 0, clear, first_row, keys, diagonal, scale_log2,
        ROWS, KEYS, False, CAUSAL, STAGES,
    )  # fmt: skip
    out, peak, total = attend_tiles(
        q, k_desc, v_desc, out, peak, total, clear, end, first_row, keys, diagonal, scale_log2,
        ROWS, KEYS, True, CAUSAL, STAGES if CAUSAL else 1,
    )  # fmt: skip
    out = (out / total[:, None]).to(output.dtype.element_ty)
    row = first_row + tl.arange(0, ROWS)
    place = output + head * rows * HEAD + row[:, None] * HEAD + tl.arange(0, HEAD)[None, :]
    tl.store(place, out, mask=row[:, None] < rows)
