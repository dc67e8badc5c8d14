// Attention of whole blocks of rows over few keys for Hopper (sm_90a), f16 or bf16 with f32 sums.
//
// As short.cu it has no descriptors: four warps load tiles of keys, 16 bytes a thread (cp.async), and
// PARTS warpgroups multiply 64 rows each, of those that share K and V, `group * rows` of them. A
// workgroup takes one block of rows after the other (with one warpgroup two workgroups share a
// multiprocessor), and loads the next one's while it computes. A ring of STAGES tiles stands between
// loading and multiplying warps: for each of K and V a full barrier says that a tile is there, an empty
// one that all warps are done with it. A warpgroup loads its own rows of Q, the next block's as soon as
// it has these in registers.
//
// Set by the build: ELEMENT (0 f16, 1 bf16), HEAD (columns; there may be fewer), PARTS (1, 2), KEYS (of
// a tile), STAGES, NAME.

#include "attend.h"

constexpr int RESIDENT = PARTS == 1 ? 2 : 1;  // workgroups on a multiprocessor
constexpr int ROWS = 64 * PARTS, LOADERS = 128, THREADS = 128 * PARTS + LOADERS;
constexpr int BOXES = (HEAD + 63) / 64;  // of 64 columns, 128 bytes
constexpr int BOX_BYTES = KEYS * 128;
constexpr int TILE_BYTES = BOXES * BOX_BYTES;
constexpr int QUERY_BYTES = BOXES * ROWS * 128;
constexpr int PIECES = HEAD / 8;        // of 16 bytes in a row
constexpr int TURN = LOADERS / PIECES;  // rows that are loaded at a time
constexpr int WARPS = 4 * PARTS;
static_assert(KEYS % 16 == 0 && HEAD % 16 == 0);

// Products read what ordinary instructions wrote before this.
__device__ inline void share_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// A thread's copies so far arrive at a barrier when they are over.
__device__ inline void copies_arrive(uint32_t barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
// Where a piece of a row lies in boxes of so many rows.
template <int BOX_ROWS> __device__ inline uint32_t piece_at(uint32_t row, uint32_t piece) {
    return piece / 8 * (BOX_ROWS * 128) + row * 128 + ((piece % 8 ^ row % 8) << 4);
}

// A block of rows: of which head, from which row; tiles of keys that it sees.
struct Block {
    int batch, head, base, first_tile, tiles;
};

// A division of numbers that are not negative. One of integers takes as long as a product of matrices,
// and its code is read from memory by every launch: most often there is none, else two products by the
// reciprocal are at most one beside it.
__device__ inline int quotient(int number, int by) {
    if (number < by) return 0;
    const float inverse = __fdividef(1.0f, static_cast<float>(by));
    int found = __float2int_rd(number * inverse);
    found += __float2int_rd((number - found * by) * inverse);
    const int left = number - found * by;
    return found + (left >= by) - (left < 0);
}

// Rows from `base` to `end` of a head of K and V: the least and the largest of the rows of its query
// heads, and whether all are of one.
struct Span {
    int first_member, lowest, highest;
    bool within;
    __device__ inline Span(int base, int end, int rows, int group) {
        first_member = group == 1 ? 0 : base / rows;
        within = group == 1 || first_member == (end - 1) / rows;
        lowest = within ? base - first_member * rows : 0;
        highest = within ? end - 1 - first_member * rows : rows - 1;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    NAME(const Element *query, const Element *key, const Element *value, Element *output, int rows,
         int keys, int group, int diagonal, int heads, int behind, int batch_heads, STRIDES(query),
         STRIDES(key), STRIDES(value), int output_batch, int output_head, int output_row,
         int columns_by_8, float scale) {
    extern __shared__ char memory[];
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const uint32_t queries = (shared_address(memory) + 1023) & ~1023u, ring = queries + QUERY_BYTES;
    const uint32_t barriers = ring + STAGES * 2 * TILE_BYTES;
    const auto key_full = [&](int stage) { return barriers + stage * 32; };
    const auto key_empty = [&](int stage) { return barriers + 8 + stage * 32; };
    const auto value_full = [&](int stage) { return barriers + 16 + stage * 32; };
    const auto value_empty = [&](int stage) { return barriers + 24 + stage * 32; };
    if (threadIdx.x == 0) {
        for (int each = 0; each < 2 * STAGES; ++each) {
            barrier_init(barriers + 16 * each, LOADERS);
            barrier_init(barriers + 16 * each + 8, WARPS);
        }
    }
    const int own_rows = group * rows, blocks = (own_rows + ROWS - 1) / ROWS;
    const int kv_heads = quotient(heads, group), items = kv_heads * blocks;
    const bool causal = diagonal < keys - 1;
    // Where rows see some keys only, the longest blocks of all heads come first.
    const auto block_of = [&](int item) {
        Block block;
        const int by = causal ? kv_heads : blocks, turn = quotient(item, by), left = item - turn * by;
        const int kv_head = causal ? left : turn;
        block.batch = quotient(kv_head, batch_heads), block.head = kv_head - block.batch * batch_heads;
        block.base = (causal ? blocks - 1 - turn : left) * ROWS;
        const Span span(block.base, min(block.base + ROWS, own_rows), rows, group);
        const int end = min(keys, span.highest + diagonal + 1);
        block.first_tile = max(0, span.lowest - behind) / KEYS;
        block.tiles = max(0, (end + KEYS - 1) / KEYS - block.first_tile);
        return block;
    };
    // Where a row of a block lies.
    const auto place_of = [&](const Strides &strides, const Block &block, int row) {
        const int member = quotient(row, rows);
        return strides.at(block.batch, block.head * group + member, row - member * rows);
    };
    // Where a thread of a warpgroup begins to load.
    const int thread = threadIdx.x % 128, first_row = thread / PIECES, piece = thread - first_row * PIECES;
    const bool idle = first_row >= TURN, column = piece < columns_by_8;
    const auto copy_queries = [&](const Block &block) {
        const Strides of_query = {query_start, query_batch, query_head, query_row};
        const uint4 *from_query = reinterpret_cast<const uint4 *>(query);
        const int first = 64 * (warp / 4), end = min(own_rows, block.base + first + 64);
        const Span span(block.base + first, max(end, block.base + first + 1), rows, group);
        if (idle) {
        } else if (span.within) {
            const uint4 *at = from_query + place_of(of_query, block, min(block.base + first, own_rows - 1)) + piece;
            at += static_cast<long long>(first_row) * query_row;
            const long long turn = static_cast<long long>(TURN) * query_row;
#pragma unroll 4
            for (int row = first_row; row < 64; row += TURN, at += turn) {
                const bool there = column && block.base + first + row < own_rows;
                copy(queries + piece_at<ROWS>(first + row, piece), there ? at : from_query, there);
            }
        } else {
#pragma unroll 1
            for (int row = first_row; row < 64; row += TURN) {
                const bool there = column && block.base + first + row < own_rows;
                const size_t at = there ? place_of(of_query, block, block.base + first + row) + piece : 0;
                copy(queries + piece_at<ROWS>(first + row, piece), from_query + at, there);
            }
        }
        copies_commit();
    };
    const auto sync_part = [&] { asm volatile("bar.sync %0, 128;" ::"r"(PARTS == 1 ? 1 : 1 + warp / 4) : "memory"); };
    Block block = block_of(blockIdx.x);
    __syncthreads();
    if (warp < WARPS) copy_queries(block);

    uint32_t count = 0;  // tiles before
    if (warp >= WARPS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(56));
        const Strides of_key = {key_start, key_batch, key_head, key_row};
        const Strides of_value = {value_start, value_batch, value_head, value_row};
        const auto copy_tile = [&](uint32_t to, const uint4 *from, int step, int first) {
            if (idle) return;
            const uint4 *at = from + static_cast<long long>(first + first_row) * step;
            const long long turn = static_cast<long long>(TURN) * step;
#pragma unroll 8
            for (int row = first_row; row < KEYS; row += TURN, at += turn) {
                const bool there = column && first + row < keys;
                copy(to + piece_at<KEYS>(row, piece), there ? at : from, there);
            }
        };
        for (int item = blockIdx.x; item < items; item += gridDim.x, block = block_of(min(item, items - 1))) {
            const uint4 *from_key = reinterpret_cast<const uint4 *>(key) + of_key.at(block.batch, block.head, 0) + piece;
            const uint4 *from_value = reinterpret_cast<const uint4 *>(value) + of_value.at(block.batch, block.head, 0) + piece;
            for (int tile = 0; tile < block.tiles; ++tile, ++count) {
                const uint32_t stage = count % STAGES, phase = ~(count / STAGES) & 1;
                const uint32_t to = ring + stage * 2 * TILE_BYTES;
                const int first = (block.first_tile + tile) * KEYS;
                barrier_wait(key_empty(stage), phase);
                copy_tile(to, from_key, key_row, first);
                copies_arrive(key_full(stage));
                barrier_wait(value_empty(stage), phase);
                copy_tile(to + TILE_BYTES, from_value, value_row, first);
                copies_arrive(value_full(stage));
            }
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(PARTS == 1 ? 200 : 224));
    const int part = warp / 4;
    const float factor = scale * LOG2E;
    const auto release = [&](uint32_t barrier) {
        __syncwarp();
        if (lane == 0) barrier_arrive(barrier);
    };
    Accumulators<KEYS> scores;
    Accumulators<HEAD> sums;
    uint32_t weights[KEYS / 16][4], held[HEAD / 16][4];
    for (int item = blockIdx.x; item < items; item += gridDim.x) {
        const int base = block.base + 64 * part, end = min(base + 64, own_rows);
        const Span span(base, end, rows, group);
        const int place = warp % 4 * 16 + lane / 4;  // and the row 8 below
        Limits limits = {{}, behind, diagonal, keys};
#pragma unroll
        for (int each = 0; each < 2; ++each) {
            const int row = base + place + 8 * each;
            limits.row[each] = span.within ? row - span.first_member * rows : row % rows;
        }
        // Tiles within these limits are seen by all rows of this warpgroup, others by none.
        const int all_first = span.highest - behind, all_last = min(span.lowest + diagonal, keys - 1);
        const int seen_end = min(keys, span.highest + diagonal + 1);
        const int begin = max(0, max(0, span.lowest - behind) / KEYS - block.first_tile);
        const int stop = base < end ? min(block.tiles, (max(seen_end, 0) + KEYS - 1) / KEYS - block.first_tile) : 0;

        Running running = {{NEVER, NEVER}, {0, 0}};
        float shrink[2];
#pragma unroll
        for (int each = 0; each < HEAD / 2; ++each) sums.values[each] = 0;
        copies_wait<0>();
        sync_part();
#pragma unroll
        for (int each = 0; each < HEAD / 16; ++each)
            load_matrices(held[each], queries + piece_at<ROWS>(warp * 16 + lane % 16, 2 * each + lane / 16));
        Block next = block;
        if (item + gridDim.x < items) {
            sync_part();
            next = block_of(item + gridDim.x);
            copy_queries(next);
        }

        const auto stage_of = [&](int tile) { return (count + tile) % STAGES; };
        const auto phase_of = [&](int tile) { return (count + tile) / STAGES & 1; };
        const auto wait_for_key = [&](int tile) { barrier_wait(key_full(stage_of(tile)), phase_of(tile)); };
        const auto wait_for_value = [&](int tile) { barrier_wait(value_full(stage_of(tile)), phase_of(tile)); };
        const auto start_scores = [&](int tile) {
            const uint32_t at = ring + stage_of(tile) * 2 * TILE_BYTES;
            wgmma_begin();
#pragma unroll
            for (int each = 0; each < HEAD / 16; ++each) {
                const uint32_t right = at + each / 4 * BOX_BYTES + each % 4 * 32;
                multiply_held<ELEMENT>(scores, held[each], descriptor(right, 1, 64), each);
            }
            wgmma_commit();
        };
        const auto start_sums = [&](int tile) {
            const uint32_t at = ring + (stage_of(tile) * 2 + 1) * TILE_BYTES;
            wgmma_begin();
#pragma unroll
            for (int each = 0; each < KEYS / 16; ++each)
                multiply_weights<ELEMENT>(sums, weights[each], descriptor(at + each * 2048, BOX_BYTES / 16, 64));
            wgmma_commit();
        };
        const auto weigh_tile = [&](int tile) {
            const int first = (block.first_tile + tile) * KEYS;
            if (first < all_first || first + KEYS - 1 > all_last)
                hide_keys(scores.values, limits, first + lane % 4 * 2);
            weights_of(scores.values, running, shrink, factor);
        };
        const auto pack_weights = [&] {
#pragma unroll
            for (int each = 0; each < KEYS / 16; ++each)
#pragma unroll
                for (int one = 0; one < 4; ++one) {
                    const float *pair = scores.values + 8 * each + 2 * one;
                    weights[each][one] = pack(pair[0], pair[1]);
                }
        };
        const auto pass = [&](int tile) {
            wait_for_key(tile);
            release(key_empty(stage_of(tile)));
            wait_for_value(tile);
            release(value_empty(stage_of(tile)));
        };
        int tile = 0;
        for (; tile < min(begin, block.tiles); ++tile) pass(tile);
        if (tile < stop) {
            wait_for_key(tile);
            share_copies();
            start_scores(tile);
            wgmma_wait<0>(scores);
            release(key_empty(stage_of(tile)));
            weigh_tile(tile);
            pack_weights();
            for (; tile + 1 < stop; ++tile) {
                wait_for_key(tile + 1);
                wait_for_value(tile);
                share_copies();
                start_scores(tile + 1);
                start_sums(tile);
                wait_for_first(scores);
                release(key_empty(stage_of(tile + 1)));
                weigh_tile(tile + 1);
                // Never so: that weights are computed here, and not behind the products.
                if (running.total[0] + running.total[1] < 0) __nanosleep(1);
                wgmma_wait<0>(sums);
                release(value_empty(stage_of(tile)));
#pragma unroll
                for (int each = 0; each < HEAD / 2; ++each) sums.values[each] *= shrink[each / 2 % 2];
                pack_weights();
            }
            wait_for_value(tile);
            share_copies();
            start_sums(tile);
            wgmma_wait<0>(sums);
            release(value_empty(stage_of(tile)));
            ++tile;
        }
        for (; tile < block.tiles; ++tile) pass(tile);
        count += block.tiles;

        float by[2];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float total = running.total[row];
            total += __shfl_xor_sync(0xffffffff, total, 1);
            total += __shfl_xor_sync(0xffffffff, total, 2);
            // A row that sees no key is zero.
            by[row] = total == 0 ? 0.0f : __fdividef(1.0f, total);
        }
        // Four threads have the columns of a row in turns of two: each gets those of one group of 8.
        const Strides of_output = {0, output_batch, output_head, output_row};
        const bool odd = lane & 1, high = lane & 2;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const int at = base + place + 8 * row;
            uint4 *to = reinterpret_cast<uint4 *>(output) + place_of(of_output, block, min(at, own_rows - 1));
#pragma unroll
            for (int first = 0; first < PIECES; first += 4) {
                uint32_t words[4];
#pragma unroll
                for (int one = 0; one < 4; ++one) {
                    const float *pair = sums.values + 4 * (first + one) + 2 * row;
                    words[one] = first + one < PIECES ? pack(pair[0] * by[row], pair[1] * by[row]) : 0;
                }
#pragma unroll
                for (int one = 0; one < 4; one += 2) {
                    const uint32_t got = __shfl_xor_sync(0xffffffff, odd ? words[one] : words[one + 1], 1);
                    (odd ? words[one] : words[one + 1]) = got;
                }
#pragma unroll
                for (int one = 0; one < 2; ++one) {
                    const uint32_t got = __shfl_xor_sync(0xffffffff, high ? words[one] : words[one + 2], 2);
                    (high ? words[one] : words[one + 2]) = got;
                }
                const int piece = first + lane % 4;
                if (at < own_rows && piece < columns_by_8)
                    to[piece] = make_uint4(words[0], words[1], words[2], words[3]);
            }
        }
        block = next;
    }
}
