// Attention of up to 16 rows over a cache for Hopper (sm_90a), f16 or bf16 with f32 sums.
//
// What such a kernel takes beside its bytes is its start and its end. So there is one launch, without
// descriptors, and few divisions: a cluster of PARTS workgroups divides a head's keys, and the warps of a
// workgroup take turns with its tiles. Each warp loads its own tiles, 16 bytes a thread (cp.async),
// STAGES of them ahead, and waits for no other warp before it has seen all of them. Then a workgroup
// adds up what its warps have, and gives each other one of the cluster the elements that this is to
// write, through its shared memory.
//
// The rows of all query heads that share K and V are rows of one matrix, `group * rows` of them.
//
// A cluster has eight workgroups at most: where heads are few SPLIT kernels have `splits` workgroups for
// each, without clusters. These write sums, maxima and sums of weights as decode kernels do
// (hopper_decode.py), a slot of 16 rows for each workgroup, which `combine` adds up.
//
// Where heads are many and their keys few, a workgroup is one warp (LONE), which has 16 of a head's rows,
// however many there are: then a multiprocessor runs as many of them as its shared memory holds.
//
// Set by the build: ELEMENT (0 f16, 1 bf16), HEAD (32, 64, 128, 256: columns; there may be fewer), PARTS,
// WARPS, KEYS (of a tile), STAGES, RESIDENT (workgroups that share a multiprocessor), MASK (attend.h),
// SINK (1: `sinks` have scores that belong to no key; `sink_rows` rows share one), SPLIT (1: as above,
// with heads of HEAD columns), NAME.

#include "attend.h"

#if SINK
#define SINK_POINTER const float *sinks,
#define SINK_NUMBERS int sink_rows, int sink_count,
#else
#define SINK_POINTER
#define SINK_NUMBERS
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#define LONE (WARPS == 1 && PARTS == 1 && !SPLIT)
#if SPLIT
static_assert(PARTS == 1);
#define RESULT_POINTERS float *partial, float *partial_stats
#define SPLIT_NUMBERS int splits,
#define RESULT_NUMBERS
#else
#define RESULT_POINTERS Element *output
#define SPLIT_NUMBERS
#define RESULT_NUMBERS int output_batch, int output_head, int output_row, int columns_by_8,
#endif

constexpr int ROWS = 16, THREADS = 32 * WARPS;
constexpr int PIECES = HEAD / 8;        // of 16 bytes in a row
constexpr int ROW_BYTES = HEAD * 2;
constexpr int TILE_BYTES = KEYS * ROW_BYTES;
constexpr int RING_BYTES = STAGES * 2 * TILE_BYTES;  // of a warp
constexpr int BAR = HEAD + 8;           // floats of a row of a warp's sums; keeps banks apart
constexpr int ITEMS = ROWS * HEAD / 4;  // of 4 columns
static_assert(LONE || ROWS * BAR * 4 <= RING_BYTES);
static_assert(32 % PIECES == 0 && KEYS % 16 == 0);

__device__ inline void load_turned(uint32_t (&words)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from)
                 : "memory");
}
__device__ inline void multiply_small(float *sums, const uint32_t (&left)[4], uint32_t low, uint32_t high) {
#if ELEMENT
#define SMALL "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define SMALL "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#endif
    asm volatile(SMALL " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(low), "r"(high));
}
// What two numbers have beside their rounded ones, rounded.
__device__ inline uint32_t lost(uint32_t rounded, float x, float y) {
#if ELEMENT
    const float2 two = __bfloat1622float2(reinterpret_cast<__nv_bfloat162 &>(rounded));
#else
    const float2 two = __half22float2(reinterpret_cast<__half2 &>(rounded));
#endif
    return pack(x - two.x, y - two.y);
}
// Where a piece of a row lies: eight rows' pieces of one number, in as many places of 128 bytes.
__device__ inline uint32_t piece_at(uint32_t row, uint32_t piece) {
    constexpr int SHORT = PIECES < 8 ? 8 / PIECES : 1;  // rows in 128 bytes
    return row * ROW_BYTES + ((piece ^ row / SHORT % (8 / SHORT)) << 4);
}

// a / b of numbers up to 512, by 1 / b: a division of integers takes long.
__device__ inline int quotient(int a, float inverse) { return __float2int_rd((a + 0.5f) * inverse); }

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
#if PARTS > 1
    __cluster_dims__(PARTS, 1, 1)
#endif
    NAME(const Element *query, const Element *key, const Element *value, MASK_POINTER SINK_POINTER
         RESULT_POINTERS, int rows, int keys, int group, int diagonal, int heads, int behind,
         MASK_NUMBERS SINK_NUMBERS SPLIT_NUMBERS int batch_heads,
         STRIDES(query), STRIDES(key), STRIDES(value), RESULT_NUMBERS float scale, float cap) {
    extern __shared__ char memory[];
    const uint32_t rings = shared_address(memory);
    const uint32_t queries = rings + WARPS * RING_BYTES;
    const uint32_t stats = queries + ROWS * ROW_BYTES;       // [WARPS][16]: a row's maximum and sum
    const uint32_t given_stats = stats + WARPS * 128;        // [PARTS][16]
    const uint32_t given_sums = given_stats + PARTS * 128;   // [PARTS][share] of 4 columns
    const uint32_t arrived = given_sums + PARTS * 16 + ITEMS * 16;
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const uint32_t ring = rings + warp * RING_BYTES;
#if SPLIT
    constexpr int columns_by_8 = PIECES, rank = 0;
    const int kv_head = blockIdx.x / splits, part = blockIdx.x - kv_head * splits, parts = splits;
#else
    const int rank = blockIdx.x % PARTS, part = rank, parts = PARTS;
    int kv_head = blockIdx.x / PARTS;
#endif
    const int own_rows = group * rows;
    // The first row, and how many there are from it on.
    int base = 0;
#if LONE
    if (own_rows > ROWS) {
        const int blocks = (own_rows + ROWS - 1) / ROWS;
        kv_head = blockIdx.x / blocks;
        base = (blockIdx.x - kv_head * blocks) * ROWS;
    }
#endif
    const int left_rows = LONE ? min(own_rows - base, ROWS) : own_rows;
#if PARTS > 1
    if (threadIdx.x == 0) {
        barrier_init(arrived, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif

    // Rows and heads of Q are told apart by small numbers, and batches only where there are some.
    int batch = 0;
    if (kv_head >= batch_heads) {
        asm volatile("" ::: "memory");
        batch = kv_head / batch_heads;
    }
    const int head = kv_head - batch * batch_heads;
    const float by_rows = __fdividef(1.0f, static_cast<float>(rows));
    const auto member_of = [&](int row) { return quotient(row, by_rows); };
    const int seen_end = min(keys, rows + diagonal);
    const int first_tile = max(0, -behind) / KEYS;
    const int tiles = max(0, (seen_end + KEYS - 1) / KEYS - first_tile);
    const int begin = first_tile + part * tiles / parts;
    const int count = first_tile + (part + 1) * tiles / parts - begin;
    const int own = (count - warp + WARPS - 1) / WARPS;
    const auto key_of = [&](int tile) { return (begin + warp + tile * WARPS) * KEYS; };

    const Strides of_key = {key_start, key_batch, key_head, key_row};
    const Strides of_value = {value_start, value_batch, value_head, value_row};
    // The first piece of a tile that a lane loads.
    const int own_key = lane / PIECES, own_piece = lane % PIECES;
    const bool own_column = own_piece < columns_by_8;
    const uint4 *from_key = reinterpret_cast<const uint4 *>(key) + of_key.at(batch, head, 0) + own_piece;
    const uint4 *from_value = reinterpret_cast<const uint4 *>(value) + of_value.at(batch, head, 0) + own_piece;
    constexpr int STEP = 32 / PIECES;  // rows that a warp loads at once
    const auto load = [&](int tile, uint32_t to, const uint4 *from, int step) {
        if (tile < own) {
            const int first = key_of(tile) + own_key;
            const uint4 *at = from + static_cast<size_t>(first) * step;
#pragma unroll
            for (int each = 0; each < KEYS / STEP; ++each) {
                const bool there = own_column && first + each * STEP < keys;
                copy(to + piece_at(own_key + each * STEP, own_piece), at, there);
                at += static_cast<size_t>(STEP) * step;
            }
        }
        copies_commit();
    };
    const Strides of_query = {query_start, query_batch, query_head, query_row};
    const auto load_query = [&] {
#pragma unroll 1
        for (int item = threadIdx.x; item < ROWS * PIECES; item += THREADS) {
            const int row = item / PIECES, piece = item % PIECES, member = member_of(base + row);
            const bool there = row < left_rows && piece < columns_by_8;
            const size_t at = of_query.at(batch, head * group + member, base + row - member * rows) + piece;
            copy(queries + piece_at(row, piece), reinterpret_cast<const uint4 *>(query) + at, there);
        }
        copies_commit();
    };
#pragma unroll 1
    for (int stage = 0; stage < STAGES; ++stage) {
        load(stage, ring + stage * 2 * TILE_BYTES, from_key, key_row);
        if (stage == 0) load_query();
        load(stage, ring + stage * 2 * TILE_BYTES + TILE_BYTES, from_value, value_row);
    }

    const int place = lane / 4;  // and the row 8 below
    Limits limits = {{}, behind, diagonal, keys};
#pragma unroll
    for (int each = 0; each < 2; ++each) {
        const int row = base + place + 8 * each;
        limits.row[each] = row - member_of(row) * rows;
    }
#if MASK
    const Given *mask_row[2];
#pragma unroll
    for (int each = 0; each < 2; ++each) {
        const int row = base + place + 8 * each, member = member_of(row);
        const int which = (kv_head * group + member) / mask_divisor % mask_count;
        const size_t size = static_cast<size_t>(keys) * (mask_stride ? rows : 1);
        mask_row[each] = row < own_rows ? mask + which * size + static_cast<size_t>(row - member * rows) * mask_stride : nullptr;
    }
    Given given[KEYS / 2];
    const auto load_mask = [&](int tile) {
        const int first = key_of(tile) + lane % 4 * 2;
#pragma unroll
        for (int each = 0; each < KEYS / 2; ++each) {
            const int row = each / 2 % 2, at = first + each / 4 * 8 + each % 2;
            given[each] = mask_row[row] != nullptr && at < keys ? mask_row[row][at] : Given(0.0f);
        }
    };
    if (own > 0) load_mask(0);
#endif
    // Tiles within these limits are seen by all rows.
    const int all_first = rows - 1 - behind, all_last = min(diagonal, keys - 1);
    const float bend = cap > 0 ? scale * LOG2E * 2 / cap : 0;
    const float factor = cap > 0 ? 1 : scale * LOG2E;
    const float cap_log2 = cap * LOG2E;
    const float unit = MASK ? 1 : factor;  // of the maxima
    // Up to 8 rows leave as many of an instruction's free: for what is lost where weights are rounded.
    const bool exact = own_rows <= 8;

    uint32_t held[HEAD / 16][4];
    float sums[HEAD / 2];
    Running running = {{NEVER, NEVER}, {0, 0}};
#pragma unroll
    for (int each = 0; each < HEAD / 2; ++each) sums[each] = 0;

    copies_wait<2 * STAGES - 1>();  // the first tile of K and Q are there
    __syncthreads();
#pragma unroll
    for (int part = 0; part < HEAD / 16; ++part)
        load_matrices(held[part], queries + piece_at(lane % 16, 2 * part + lane / 16));
    // Where a lane's addresses of matrices are, without the stage.
    const uint32_t k_row = lane / 16 * 8 + lane % 8, k_piece = lane / 8 % 2;
    const uint32_t v_row = lane % 16, v_piece = lane / 16;
    int stage = 0;
#pragma unroll 1
    for (int tile = 0; tile < own; ++tile) {
        const uint32_t k_tile = ring + stage * 2 * TILE_BYTES, v_tile = k_tile + TILE_BYTES;
        copies_wait<2 * STAGES - 1>();
        __syncwarp();
        // Two sums of each score, as each waits for itself.
        float scores[KEYS / 2], others[KEYS / 2];
#pragma unroll
        for (int each = 0; each < KEYS / 2; ++each) scores[each] = others[each] = 0;
#pragma unroll
        for (int part = 0; part < HEAD / 16; ++part)
#pragma unroll
            for (int some = 0; some < KEYS / 16; ++some) {
                uint32_t words[4];
                float *to = (part % 2 ? others : scores) + 8 * some;
                load_matrices(words, k_tile + piece_at(16 * some + k_row, 2 * part + k_piece));
                multiply_small(to, held[part], words[0], words[1]);
                multiply_small(to + 4, held[part], words[2], words[3]);
            }
#pragma unroll
        for (int each = 0; each < KEYS / 2; ++each) scores[each] += others[each];
        __syncwarp();
        load(tile + STAGES, k_tile, from_key, key_row);
#if MASK
        if (bend == 0) {
#pragma unroll
            for (int each = 0; each < KEYS / 2; ++each) scores[each] *= factor;
        }
#endif
        if (bend > 0) {
#pragma unroll
            for (int each = 0; each < KEYS / 2; ++each) scores[each] = capped(scores[each], bend, cap_log2);
        }
#if MASK
#pragma unroll
        for (int each = 0; each < KEYS / 2; ++each) scores[each] = masked(scores[each], given[each]);
        if (tile + 1 < own) load_mask(tile + 1);
#endif
        const int first = key_of(tile);
        if (first < all_first || first + KEYS - 1 > all_last) hide_keys(scores, limits, first + lane % 4 * 2);
        float shrink[2];
        weights_of(scores, running, shrink, unit);
        if (exact) shrink[1] = shrink[0];
        if (__any_sync(0xffffffff, shrink[0] != 1 || shrink[1] != 1)) {
#pragma unroll
            for (int each = 0; each < HEAD / 2; ++each) sums[each] *= shrink[each / 2 % 2];
        }
        copies_wait<2 * STAGES - 1>();
        __syncwarp();
#pragma unroll
        for (int some = 0; some < KEYS / 16; ++some) {
            uint32_t weights[4];
#pragma unroll
            for (int each = 0; each < 4; ++each)
                weights[each] = pack(scores[8 * some + 2 * each], scores[8 * some + 2 * each + 1]);
            if (exact) {
                weights[1] = lost(weights[0], scores[8 * some], scores[8 * some + 1]);
                weights[3] = lost(weights[2], scores[8 * some + 4], scores[8 * some + 5]);
            }
#pragma unroll
            for (int part = 0; part < HEAD / 16; ++part) {
                uint32_t words[4];
                load_turned(words, v_tile + piece_at(16 * some + v_row, 2 * part + v_piece));
                multiply_small(sums + 8 * part, weights, words[0], words[1]);
                multiply_small(sums + 8 * part + 4, weights, words[2], words[3]);
            }
        }
        __syncwarp();
        load(tile + STAGES, v_tile, from_value, value_row);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    copies_wait<0>();
    __syncwarp();
    if (exact) {
#pragma unroll
        for (int each = 0; each < HEAD / 2; ++each)
            if (each / 2 % 2 == 0) sums[each] += sums[each + 2];
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        running.total[row] += __shfl_xor_sync(0xffffffff, running.total[row], 1);
        running.total[row] += __shfl_xor_sync(0xffffffff, running.total[row], 2);
    }
#if SINK
    // Where a sink is far above all scores, infinity: the result is zero.
    const auto sink_of = [&](int row, float most) {
        const int which = (kv_head * own_rows + base + row) / sink_rows % sink_count;
        return most == NEVER ? 0.0f : exp2_of(fmaf(sinks[which], LOG2E, -most));
    };
#endif
#if LONE
    // By way of where Q was, so that rows are written in whole lines.
    float by[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#if SINK
        running.total[row] += sink_of(min(place + 8 * row, left_rows - 1), running.peak[row] * unit);
#endif
        // A row that sees no key is zero.
        by[row] = running.total[row] == 0 ? 0.0f : __fdividef(1.0f, running.total[row]);
    }
#pragma unroll
    for (int part = 0; part < HEAD / 16; ++part) {
        uint32_t words[4];
#pragma unroll
        for (int each = 0; each < 4; ++each) {
            const float *pair = sums + 8 * part + 2 * each;
            words[each] = pack(pair[0] * by[each % 2], pair[1] * by[each % 2]);
        }
        store_matrices(queries + piece_at(lane % 16, 2 * part + lane / 16), words);
    }
    __syncwarp();
    const Strides of_output = {0, output_batch, output_head, output_row};
#pragma unroll
    for (int each = 0; each < ROWS * PIECES / 32; ++each) {
        const int row = each * (32 / PIECES) + lane / PIECES, member = member_of(base + row);
        uint4 words;
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                     : "r"(queries + piece_at(row, own_piece))
                     : "memory");
        const size_t to = of_output.at(batch, head * group + member, base + row - member * rows);
        if (row < left_rows && own_column) reinterpret_cast<uint4 *>(output)[to + own_piece] = words;
    }
#else
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        const uint32_t to = stats + 128 * warp + 8 * (place + 8 * row);
        if (lane % 4 == 0)
            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to),
                         "f"(running.peak[row] * unit), "f"(running.total[row])
                         : "memory");
        if (place + 8 * row < own_rows) {
            const uint32_t partial = ring + 4 * ((place + 8 * row) * BAR + lane % 4 * 2);
#pragma unroll
            for (int each = 0; each < HEAD / 8; ++each)
                asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(partial + 32 * each), "f"(sums[4 * each + 2 * row]), "f"(sums[4 * each + 2 * row + 1]) : "memory");
        }
    }
    const int quads = 2 * columns_by_8, items = own_rows * quads;
    const int share = (items + PARTS - 1) / PARTS;
    const float by_quads = __fdividef(1.0f, static_cast<float>(quads));
#if PARTS > 1
    // What all workgroups give this one.
    const int first_item = rank * share, last = min(share, items - first_item);
    if (threadIdx.x == 0) {
        const int some_rows = last > 0 ? quotient(first_item + last - 1, by_quads) - quotient(first_item, by_quads) + 1 : 0;
        barrier_expect(arrived, PARTS * (16 * max(last, 0) + 8 * some_rows));
    }
#endif
    __syncthreads();
#if PARTS > 1
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif

    // Adds up results of a row, in order: their maxima, sums and a quad of columns.
    const auto add_up = [&](int results, uint32_t of_stats, uint32_t lies, uint32_t step, float &most, float &total) {
        most = NEVER;
#pragma unroll
        for (int each = 0; each < (PARTS > WARPS ? PARTS : WARPS); ++each) {
            float peak;
            if (each >= results) break;
            asm volatile("ld.shared.f32 %0, [%1];" : "=f"(peak) : "r"(of_stats + 128 * each) : "memory");
            most = fmaxf(most, peak);
        }
        float4 sum = make_float4(0, 0, 0, 0);
        total = 0;
#pragma unroll
        for (int each = 0; each < (PARTS > WARPS ? PARTS : WARPS); ++each) {
            float peak, own_total;
            float4 part;
            if (each >= results) break;
            asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(peak), "=f"(own_total) : "r"(of_stats + 128 * each) : "memory");
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(part.x), "=f"(part.y), "=f"(part.z), "=f"(part.w) : "r"(lies + step * each) : "memory");
            const float worth = peak == NEVER ? 0.0f : exp2_of(peak - most);
            total += worth * own_total;
            sum.x += worth * part.x, sum.y += worth * part.y;
            sum.z += worth * part.z, sum.w += worth * part.w;
        }
        return sum;
    };
    const auto write = [&](int item, const float4 &sum, float most, float total) {
        const int row = quotient(item, by_quads), column = (item - row * quads) * 4;
#if SPLIT
        const size_t slot = blockIdx.x;
        *reinterpret_cast<float4 *>(partial + (slot * ROWS + row) * HEAD + column) = sum;
        if (column == 0) {
            partial_stats[slot * 2 * ROWS + row] = most;
            partial_stats[(slot * 2 + 1) * ROWS + row] = total;
        }
#else
        const int member = member_of(row);
#if SINK
        total += sink_of(row, most);
#endif
        // A row that sees no key is zero.
        const float by = total == 0 ? 0.0f : __fdividef(1.0f, total);
        const Strides of_output = {0, output_batch, output_head, output_row};
        const size_t to = of_output.at(batch, head * group + member, row - member * rows);
        *reinterpret_cast<uint2 *>(output + 8 * to + column) =
            make_uint2(pack(sum.x * by, sum.y * by), pack(sum.z * by, sum.w * by));
#endif
    };
    const float by_share = __fdividef(1.0f, static_cast<float>(share));
    float most, total;
    for (int item = threadIdx.x; item < items; item += THREADS) {
        const int row = quotient(item, by_quads), column = (item - row * quads) * 4;
        const float4 sum = add_up(WARPS, stats + 8 * row, rings + 4 * (row * BAR + column), RING_BYTES, most, total);
        if (PARTS == 1) {
            write(item, sum, most, total);
            continue;
        }
        const int owner = quotient(item, by_share);
        const uint32_t to = given_sums + 16 * (rank * share + item - owner * share);
        asm volatile("{\n.reg .b32 there, done;\nmapa.shared::cluster.u32 there, %0, %2;\n"
                     "mapa.shared::cluster.u32 done, %1, %2;\n"
                     "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%3, %4, %5, %6}, [done];\n}" ::"r"(to),
                     "r"(arrived), "r"(owner), "f"(sum.x), "f"(sum.y), "f"(sum.z), "f"(sum.w)
                     : "memory");
        // The first quad of a row, and the first that an owner has of it, take along its numbers.
        if (column == 0 || item == owner * share)
            asm volatile("{\n.reg .b32 there, done;\nmapa.shared::cluster.u32 there, %0, %2;\n"
                         "mapa.shared::cluster.u32 done, %1, %2;\n"
                         "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [there], {%3, %4}, [done];\n}" ::"r"(given_stats + 128 * rank + 8 * row),
                         "r"(arrived), "r"(owner), "f"(most), "f"(total)
                         : "memory");
    }
#if PARTS > 1
    barrier_wait(arrived, 0);
    for (int each = threadIdx.x; each < last; each += THREADS) {
        const int item = first_item + each, row = quotient(item, by_quads);
        const float4 sum = add_up(PARTS, given_stats + 8 * row, given_sums + 16 * each, 16 * share, most, total);
        write(item, sum, most, total);
    }
#endif
#endif
}
