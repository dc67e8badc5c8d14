// Attention of few rows and keys for Hopper (sm_90a), f16 or bf16 with f32 sums.
//
// Such a kernel is over before others have begun: to describe tensors to the memory engine, and to
// read the descriptors, takes as long as all the rest. So the warps that multiply load by themselves,
// 16 bytes a thread (cp.async). A workgroup computes 64 rows of those that share K and V, `group *
// rows` of them. Two warpgroups take turns with the tiles of keys; each loads its own, STAGES of
// them ahead, and neither waits for the other until the end. Threads of the same number then have the
// same places of the result in both: each gives the other half of the columns.
//
// Set by the build: ELEMENT (0 f16, 1 bf16), HEAD (64, 96, 128: columns; there may be fewer), KEYS (of
// a tile), STAGES, NAME.

#include "attend.h"

constexpr int ROWS = 64, THREADS = 256;
constexpr int BOXES = (HEAD + 63) / 64;  // of 64 columns, 128 bytes
constexpr int BOX_BYTES = KEYS * 128;
constexpr int TILE_BYTES = BOXES * BOX_BYTES;
constexpr int STAGE_BYTES = 2 * TILE_BYTES;
constexpr int RING_BYTES = STAGES * STAGE_BYTES;  // of a warpgroup
constexpr int PIECES = HEAD / 8;                  // of 16 bytes in a row
constexpr int SHARE = HEAD / 4;                   // of a thread's sums: those of half of the columns
constexpr int GROUPS = HEAD / 16;                 // of 8 columns, in half of them
// A warpgroup may load where all its warps have been, one tile behind: STAGES - 1 tiles are ahead.
static_assert(STAGES >= 3);
static_assert(KEYS * PIECES % 128 == 0 && ROWS * PIECES % THREADS == 0 && GROUPS % 2 == 0);
// Sums for the other warpgroup lie where the tiles were.
static_assert(128 * SHARE * 4 <= RING_BYTES);

// Products read what ordinary instructions wrote before this; then warps meet.
__device__ inline void share_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void sync_all() { asm volatile("bar.sync 3, %0;" ::"n"(THREADS) : "memory"); }

// Where a piece of a row lies in boxes of so many rows.
template <int BOX_ROWS> __device__ inline uint32_t piece_at(uint32_t row, uint32_t piece) {
    return piece / 8 * (BOX_ROWS * 128) + row * 128 + ((piece % 8 ^ row % 8) << 4);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    NAME(const Element *query, const Element *key, const Element *value, Element *output, int rows,
         int keys, int group, int diagonal, int heads, int behind, int batch_heads, STRIDES(query),
         STRIDES(key), STRIDES(value), int output_batch, int output_head, int output_row,
         int columns_by_8, float scale) {
    extern __shared__ char memory[];
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int half = warp / 4;
    const uint32_t thread = threadIdx.x % 128;  // of the warpgroup
    const uint32_t rings = (shared_address(memory) + 1023) & ~1023u, ring = rings + half * RING_BYTES;
    const uint32_t queries = rings + 2 * RING_BYTES;
    const uint32_t stats = queries + BOXES * ROWS * 128;  // [2][128]: maxima and sums of two rows

    const int own_rows = group * rows;
    const int blocks = (own_rows + ROWS - 1) / ROWS;
    const int kv_head = blockIdx.x / blocks;
    const int base = (blockIdx.x - kv_head * blocks) * ROWS;
    const int batch = kv_head / batch_heads, head = kv_head - batch * batch_heads;
    const int end = min(base + ROWS, own_rows);
    // The least and the largest of the rows of its query heads that a block has.
    const int first_member = base / rows;
    const bool within = first_member == (end - 1) / rows;
    const int lowest = within ? base - first_member * rows : 0;
    const int highest = within ? end - 1 - first_member * rows : rows - 1;
    const int seen_end = min(keys, highest + diagonal + 1);
    const int first_tile = max(0, lowest - behind) / KEYS;
    const int tiles = max(0, (seen_end + KEYS - 1) / KEYS - first_tile);
    const int own = (tiles - half + 1) / 2;
    const auto key_of = [&](int number) { return (first_tile + 2 * number + half) * KEYS; };

    // Where a row of the block lies.
    const auto place_of = [&](const Strides &strides, int row) {
        const int member = within ? first_member : row / rows;
        return strides.at(batch, head * group + member, row - member * rows);
    };
    const Strides of_query = {query_start, query_batch, query_head, query_row};
#pragma unroll
    for (int each = 0; each < ROWS * PIECES / THREADS; ++each) {
        const uint32_t item = threadIdx.x + each * THREADS, row = item / PIECES, piece = item % PIECES;
        const bool there = base + static_cast<int>(row) < own_rows && piece < columns_by_8;
        const uint4 *from = reinterpret_cast<const uint4 *>(query);
        copy(queries + piece_at<ROWS>(row, piece), from + (there ? place_of(of_query, base + row) + piece : 0), there);
    }
    const Strides of_key = {key_start, key_batch, key_head, key_row};
    const Strides of_value = {value_start, value_batch, value_head, value_row};
    const uint4 *from_key = reinterpret_cast<const uint4 *>(key) + of_key.at(batch, head, 0);
    const uint4 *from_value = reinterpret_cast<const uint4 *>(value) + of_value.at(batch, head, 0);
    const auto copy_tile = [&](int number, uint32_t to, const uint4 *from, int step) {
        if (number < own) {
            const int first = key_of(number);
#pragma unroll
            for (int each = 0; each < KEYS * PIECES / 128; ++each) {
                const uint32_t item = thread + each * 128, row = item / PIECES, piece = item % PIECES;
                const bool there = piece < columns_by_8 && first + static_cast<int>(row) < keys;
                const size_t at = static_cast<size_t>(first + row) * step + piece;
                copy(to + piece_at<KEYS>(row, piece), from + (there ? at : 0), there);
            }
        }
        copies_commit();
    };
    const auto load = [&](int number, int stage) {
        copy_tile(number, ring + stage * STAGE_BYTES, from_key, key_row);
        copy_tile(number, ring + stage * STAGE_BYTES + TILE_BYTES, from_value, value_row);
    };
#pragma unroll 1
    for (int stage = 0; stage < STAGES; ++stage) load(stage, stage);

    const int place = warp % 4 * 16 + lane / 4;  // and the row 8 below
    Limits limits = {{}, behind, diagonal, keys};
#pragma unroll
    for (int each = 0; each < 2; ++each) {
        const int row = base + place + 8 * each;
        limits.row[each] = within ? row - first_member * rows : row % rows;
    }
    // Tiles within these limits are seen by all rows.
    const int all_first = highest - behind, all_last = min(lowest + diagonal, keys - 1);
    const float factor = scale * LOG2E;

    Accumulators<KEYS> scores;
    Accumulators<HEAD> sums;
    uint32_t weights[KEYS / 16][4], held[HEAD / 16][4];
    Running running = {{NEVER, NEVER}, {0, 0}};
    float shrink[2];
#pragma unroll
    for (int each = 0; each < HEAD / 2; ++each) sums.values[each] = 0;

    copies_wait<2 * STAGES - 1>();  // Q and the first tile of K are there
    share_copies();
    sync_all();
#pragma unroll
    for (int part = 0; part < HEAD / 16; ++part)
        load_matrices(held[part], queries + piece_at<ROWS>(warp % 4 * 16 + lane % 16, 2 * part + lane / 16));

    const auto start_scores = [&](int stage) {
        const uint32_t at = ring + stage * STAGE_BYTES;
        wgmma_begin();
#pragma unroll
        for (int part = 0; part < HEAD / 16; ++part) {
            const uint32_t right = at + part / 4 * BOX_BYTES + part % 4 * 32;
            multiply_held<ELEMENT>(scores, held[part], descriptor(right, 1, 64), part);
        }
        wgmma_commit();
    };
    const auto start_sums = [&](int stage) {
        const uint32_t at = ring + stage * STAGE_BYTES + TILE_BYTES;
        wgmma_begin();
#pragma unroll
        for (int part = 0; part < KEYS / 16; ++part)
            multiply_weights<ELEMENT>(sums, weights[part], descriptor(at + part * 2048, BOX_BYTES / 16, 64));
        wgmma_commit();
    };
    const auto weigh_tile = [&](int number) {
        const int first = key_of(number);
        if (first < all_first || first + KEYS - 1 > all_last)
            hide_keys(scores.values, limits, first + lane % 4 * 2);
        weights_of(scores.values, running, shrink, factor);
    };
    const auto pack_weights = [&] {
#pragma unroll
        for (int part = 0; part < KEYS / 16; ++part)
#pragma unroll
            for (int each = 0; each < 4; ++each) {
                const float *pair = scores.values + 8 * part + 2 * each;
                weights[part][each] = pack(pair[0], pair[1]);
            }
    };
    const auto sync_warpgroup = [&] { asm volatile("bar.sync %0, 128;" ::"r"(1 + half) : "memory"); };
    if (own > 0) {
        start_scores(0);
        wgmma_wait<0>(scores);
        weigh_tile(0);
        pack_weights();
        int stage = 0;
        for (int number = 0; number + 1 < own; ++number) {
            // V of this tile and K of the next: 2 * number + 3 of the groups that have begun, which
            // are those of STAGES tiles at first, and then of one more each time.
            if (number == 0)
                copies_wait<2 * STAGES - 3>();
            else
                copies_wait<2 * STAGES - 5>();
            share_copies();
            sync_warpgroup();
            const int next = stage + 1 == STAGES ? 0 : stage + 1;
            start_scores(next);
            start_sums(stage);
            if (number > 0) load(number - 1 + STAGES, stage == 0 ? STAGES - 1 : stage - 1);
            wait_for_first(scores);
            weigh_tile(number + 1);
            // Never so: that weights are computed here, and not behind the products.
            if (running.total[0] + running.total[1] < 0) __nanosleep(1);
            wgmma_wait<0>(sums);
#pragma unroll
            for (int each = 0; each < HEAD / 2; ++each) sums.values[each] *= shrink[each / 2 % 2];
            pack_weights();
            stage = next;
        }
        copies_wait<0>();
        share_copies();
        sync_warpgroup();
        start_sums(stage);
        wgmma_wait<0>(sums);
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        running.total[row] += __shfl_xor_sync(0xffffffff, running.total[row], 1);
        running.total[row] += __shfl_xor_sync(0xffffffff, running.total[row], 2);
    }
    // Its warps are done with the tiles, where the other warpgroup's half of the sums lies now.
    sync_warpgroup();
    const float *given = sums.values;
#pragma unroll
    for (int each = 0; each < SHARE; each += 4)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(ring + thread * 16 + each * 512),
                     "f"(half ? given[each] : given[SHARE + each]),
                     "f"(half ? given[each + 1] : given[SHARE + each + 1]),
                     "f"(half ? given[each + 2] : given[SHARE + each + 2]),
                     "f"(half ? given[each + 3] : given[SHARE + each + 3])
                     : "memory");
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(stats + half * 2048 + thread * 16),
                 "f"(running.peak[0] * factor), "f"(running.peak[1] * factor), "f"(running.total[0]),
                 "f"(running.total[1])
                 : "memory");
    sync_all();
    float peaks[2], totals[2], shares[2][2];
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(peaks[0]), "=f"(peaks[1]), "=f"(totals[0]), "=f"(totals[1])
                 : "r"(stats + (1 - half) * 2048 + thread * 16)
                 : "memory");
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        const float mine = running.peak[row] * factor, most = fmaxf(mine, peaks[row]);
        shares[0][row] = mine == NEVER ? 0.0f : exp2_of(mine - most);
        shares[1][row] = peaks[row] == NEVER ? 0.0f : exp2_of(peaks[row] - most);
        const float total = shares[0][row] * running.total[row] + shares[1][row] * totals[row];
        // A row that sees no key is zero.
        const float by = total == 0 ? 0.0f : __fdividef(1.0f, total);
        shares[0][row] *= by, shares[1][row] *= by;
    }
    float kept[SHARE];
#pragma unroll
    for (int each = 0; each < SHARE; each += 4) {
        float other[4];
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(other[0]), "=f"(other[1]), "=f"(other[2]), "=f"(other[3])
                     : "r"(rings + (1 - half) * RING_BYTES + thread * 16 + each * 512)
                     : "memory");
#pragma unroll
        for (int one = 0; one < 4; ++one) {
            const float mine = half ? given[SHARE + each + one] : given[each + one];
            kept[each + one] = shares[0][one / 2] * mine + shares[1][one / 2] * other[one];
        }
    }
    // By way of where Q was, so that warps write whole lines.
    const int first_row = warp % 4 * 16, first_group = half * GROUPS;
#pragma unroll
    for (int each = 0; each < GROUPS; each += 2) {
        uint32_t words[4];
#pragma unroll
        for (int one = 0; one < 4; ++one)
            words[one] = pack(kept[4 * each + 2 * one], kept[4 * each + 2 * one + 1]);
        store_matrices(queries + piece_at<ROWS>(first_row + lane % 16, first_group + each + lane / 16), words);
    }
    __syncwarp();
    const Strides of_output = {0, output_batch, output_head, output_row};
#pragma unroll
    for (int each = 0; each < 16 * GROUPS / 32; ++each) {
        const int item = each * 32 + lane, row = first_row + item / GROUPS;
        const int piece = first_group + item % GROUPS;
        uint4 words;
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                     : "r"(queries + piece_at<ROWS>(row, piece))
                     : "memory");
        if (base + row < own_rows && piece < columns_by_8)
            reinterpret_cast<uint4 *>(output)[place_of(of_output, base + row) + piece] = words;
    }
}
