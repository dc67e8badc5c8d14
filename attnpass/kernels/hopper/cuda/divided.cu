// Attention of few rows over many keys for Hopper (sm_90a), f16 or bf16 with f32 sums.
//
// Few rows occupy few multiprocessors, and what they read could come faster: a cluster of PARTS
// workgroups divides the keys of a block of rows. Each has an output of its keys, with its running
// maximum and sum; in the end each adds up its share of the block's elements out of the shared
// memory of all: one launch, no partial results in memory, always the same order.
//
// The rows of all query heads that share K and V are rows of one matrix, `group * rows` of them.
// Two warps load tiles of K and V with the tensor memory accelerator (TMA), which bounds keys and
// columns, STAGES tiles ahead. Two warpgroups multiply 64 rows each: with ROWS 64 the same rows and
// every other tile, with ROWS 128 other rows and the same tiles. A warpgroup starts the next tile's
// scores, and the sums of this one, whose time is that of the next weights.
//
// Set by the build: ELEMENT (0 f16, 1 bf16), HEAD (64, 128: columns in shared memory; there may
// be fewer), ROWS, PARTS, KEYS (of a tile), STAGES, MASK (attend.h), NAME.
//
// Head h of Q reads mask number h / mask_divisor % mask_count, each of (rows, keys), or of (keys)
// if mask_stride, the distance of its rows, is 0.

#include "attend.h"

constexpr int THREADS = 256;  // that multiply; two warps of 128 more load
constexpr int BOXES = HEAD / 64;  // of 64 columns, 128 bytes
constexpr int BOX_BYTES = KEYS * 128;
constexpr int TILE_BYTES = BOXES * BOX_BYTES;
constexpr int STAGE_BYTES = 2 * TILE_BYTES;
constexpr int QUERY_BYTES = ROWS * HEAD * 2;
constexpr bool TURNS = ROWS == 64;  // the warpgroups take turns with the tiles
constexpr bool HELD = HEAD <= 128;  // Q in registers
constexpr int BAR = HEAD + 8;       // floats of a row of partial results; keeps banks apart
constexpr int PARTIAL_BYTES = 64 * BAR * 4;  // of a warpgroup
constexpr int RESULTS = PARTS * (TURNS ? 2 : 1);  // of a row
static_assert(ROWS == 64 || ROWS == 128);
// Partial results lie where Q and the tiles were.
static_assert(2 * PARTIAL_BYTES <= STAGES * STAGE_BYTES + QUERY_BYTES);
// A stage's barriers have one parity bit: each must always be the same warpgroup's, which else may
// take the other one's tile for its own.
static_assert(TURNS ? STAGES % 2 == 0 && STAGES >= 4 : STAGES >= 2);

__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

// Writes a descriptor of (batches, heads, keys, columns) in boxes of (1, 1, KEYS, 64) to `there`;
// by a warp.
__device__ inline void describe(char *there, uint32_t made, const Element *tensor, int batches,
                                int heads, int keys, int columns, const Strides &strides) {
    const int lane = threadIdx.x % 32;
    asm volatile("st.shared.b32 [%0], 0;" ::"r"(made + 4 * lane) : "memory");
    __syncwarp();
    if (lane == 0) {
        const Element *start = tensor + 8 * static_cast<size_t>(strides.start);
        asm volatile(
            "{\n.reg .b64 map;\ncvt.u64.u32 map, %0;\n"
            "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [map], %1;\n"
            "tensormap.replace.tile.rank.shared::cta.b1024.b32 [map], 3;\n"
            "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 0, 64;\n"
            "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 1, %9;\n"
            "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 2, 1;\n"
            "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 3, 1;\n"
            "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], 0, %2;\n"
            "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], 1, %3;\n"
            "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], 2, %4;\n"
            "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], 3, %5;\n"
            "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [map], 0, %6;\n"
            "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [map], 1, %7;\n"
            "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [map], 2, %8;\n"
            "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [map], 0, 1;\n"
            "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [map], 1, 1;\n"
            "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [map], 2, 1;\n"
            "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [map], 3, 1;\n"
            "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [map], %10;\n"
            "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [map], 0;\n"
            "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [map], 3;\n"
            "tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [map], 0;\n}" ::"r"(made),
            "l"(start), "r"(columns), "r"(keys), "r"(heads), "r"(batches),
            "l"(16ull * strides.row), "l"(16ull * strides.head), "l"(16ull * strides.batch),
            "n"(KEYS), "n"(ELEMENT ? 10 : 6)
            : "memory");
    }
    __syncwarp();
    asm volatile("{\n.reg .b64 to, from;\ncvta.to.global.u64 to, %0;\ncvt.u64.u32 from, %1;\n"
                 "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu"
                 ".sync.aligned [to], [from], 128;\n}" ::"l"(there),
                 "r"(made)
                 : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(there) : "memory");
}

// The boxes of a tile.
__device__ inline void load(uint32_t to, const char *map, uint32_t barrier, int key, int head,
                            int batch) {
    barrier_expect(barrier, TILE_BYTES);
#pragma unroll
    for (int box = 0; box < BOXES; ++box)
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to + box * BOX_BYTES),
            "l"(map), "r"(barrier), "r"(64 * box), "r"(key), "r"(head), "r"(batch)
            : "memory");
}

#if MASK
#define MASK_ROWS , const MaskRows &masks
// The mask's numbers of the two rows that a thread has; null behind the last row.
struct MaskRows {
    const Given *row[2];
};

// Scores, scaled by then, with the mask.
__device__ inline void add_mask(float *s, const MaskRows &masks, int key, int keys) {
    constexpr int AT_ONCE = 16;  // as registers allow
#pragma unroll
    for (int first = 0; first < KEYS / 2; first += AT_ONCE) {
        Given given[AT_ONCE];
#pragma unroll
        for (int each = 0; each < AT_ONCE; ++each) {
            const int number = first + each, row = number / 2 % 2;
            const int at = key + number / 4 * 8 + number % 2;
            const bool there = masks.row[row] != nullptr && at < keys;
            given[each] = there ? masks.row[row][at] : Given(0.0f);
        }
        asm volatile("" ::: "memory");
#pragma unroll
        for (int each = 0; each < AT_ONCE; ++each) {
            s[first + each] = masked(s[first + each], given[each]);
        }
    }
}
#else
#define MASK_ROWS
#endif

// Scores become weights, exp2(factor * (score - peak)); `shrink` is what sums so far are worth.
__device__ inline void weigh(Accumulators<KEYS> &scores, Running &running, float (&shrink)[2],
                             float factor, float bend, float cap, bool bounded, const Limits &limits,
                             int key MASK_ROWS) {
    float *s = scores.values;
#if MASK
    if (bend == 0) {
#pragma unroll
        for (int each = 0; each < KEYS / 2; ++each) s[each] *= factor;
        factor = 1;
    }
#endif
    if (bend > 0) {
#pragma unroll
        for (int each = 0; each < KEYS / 2; ++each) s[each] = capped(s[each], bend, cap);
    }
#if MASK
    add_mask(s, masks, key, limits.keys);
#endif
    if (bounded) hide_keys(s, limits, key);
    weights_of(s, running, shrink, factor);
}

extern "C" __global__ void __launch_bounds__(THREADS + 128, 1) __cluster_dims__(PARTS, 1, 1)
    NAME(const Element *query, const Element *key, const Element *value, MASK_POINTER Element *output,
         char *scratch, int rows, int keys, int group, int diagonal, int heads, int behind,
         MASK_NUMBERS int batch_heads, STRIDES(query), STRIDES(key), STRIDES(value), int output_batch,
         int output_head, int output_row, int columns_by_8, float scale, float cap) {
    extern __shared__ char memory[];
    const uint32_t ring = (shared_address(memory) + 1023) & ~1023u;
    const uint32_t queries = ring + STAGES * STAGE_BYTES;
    const uint32_t making = queries + QUERY_BYTES;
    const uint32_t full_k = making + 256, full_v = full_k + 8 * STAGES;
    const uint32_t empty_k = full_v + 8 * STAGES, empty_v = empty_k + 8 * STAGES;
    const uint32_t stats = empty_v + 8 * STAGES;  // [2][2][64]: maxima and sums of a warpgroup
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    const int lane = threadIdx.x % 32;
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));

    const int columns = 8 * columns_by_8, own_rows = group * rows;
    const int blocks = (own_rows + ROWS - 1) / ROWS;
    const int kv_head = blockIdx.x / PARTS / blocks;
    const int batch = kv_head / batch_heads, head = kv_head % batch_heads;
    const int base = blockIdx.x / PARTS % blocks * ROWS;
    const int end = min(base + ROWS, own_rows);
    // The least and the largest of the rows of its query heads that a block has.
    const bool within = base / rows == (end - 1) / rows;
    const int lowest = within ? base % rows : 0;
    const int highest = within ? (end - 1) % rows : rows - 1;
    const int seen_end = min(keys, highest + diagonal + 1);
    const int first_tile = max(0, lowest - behind) / KEYS;
    const int tiles = max(0, (seen_end + KEYS - 1) / KEYS - first_tile);
    const int begin = first_tile + static_cast<int>(rank) * tiles / PARTS;
    const int count = first_tile + (static_cast<int>(rank) + 1) * tiles / PARTS - begin;

    if (warp >= THREADS / 32) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        // One warp loads K, one V.
        const int part = warp - THREADS / 32;
        if (part < 2) {
            if (part == 0) {
                if (lane == 0) {
                    for (int stage = 0; stage < STAGES; ++stage) {
                        barrier_init(full_k + 8 * stage, 1);
                        barrier_init(full_v + 8 * stage, 1);
                        barrier_init(empty_k + 8 * stage, TURNS ? 4 : 8);  // each warp
                        barrier_init(empty_v + 8 * stage, TURNS ? 4 : 8);
                    }
                    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
                }
                __syncwarp();
                asm volatile("bar.arrive 1, %0;" ::"n"(THREADS + 32) : "memory");
                asm volatile("bar.arrive 3, 64;" ::: "memory");
            } else {
                asm volatile("bar.sync 3, 64;" ::: "memory");
            }
            char *map = scratch + static_cast<size_t>(blockIdx.x) * 256 + 128 * part;
            const Strides lies = {part ? value_start : key_start, part ? value_batch : key_batch,
                                  part ? value_head : key_head, part ? value_row : key_row};
            describe(map, making + 128 * part, part ? value : key, heads / (batch_heads * group),
                     batch_heads, keys, columns, lies);
            if (lane == 0) {
                const uint32_t full = part ? full_v : full_k, empty = part ? empty_v : empty_k;
                int stage = 0;
                uint32_t phase = 1;
                for (int tile = 0; tile < count; ++tile) {
                    barrier_wait(empty + 8 * stage, phase);
                    load(ring + stage * STAGE_BYTES + part * TILE_BYTES, map, full + 8 * stage,
                         (begin + tile) * KEYS, head, batch);
                    if (++stage == STAGES) stage = 0, phase ^= 1;
                }
            }
            __syncwarp();
        }
        cluster_sync();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        // Q by 16 bytes; what lies outside is zero.
        const Strides of_query = {query_start, query_batch, query_head, query_row};
#pragma unroll
        for (int item = threadIdx.x; item < ROWS * HEAD / 8; item += THREADS) {
            const int row = item / (HEAD / 8), piece = item % (HEAD / 8);
            uint4 words = make_uint4(0, 0, 0, 0);
            if (base + row < own_rows && piece < columns_by_8) {
                const int member = (base + row) / rows;
                const size_t at = of_query.at(batch, head * group + member, base + row - member * rows);
                words = __ldg(reinterpret_cast<const uint4 *>(query) + at + piece);
            }
            const uint32_t to =
                queries + piece / 8 * (ROWS * 128) + row * 128 + ((piece % 8 ^ row % 8) << 4);
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words.x),
                         "r"(words.y), "r"(words.z), "r"(words.w)
                         : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("bar.sync 1, %0;" ::"n"(THREADS + 32) : "memory");

        const int half = warp / 4, place = warp % 4 * 16 + lane / 4;  // and the row 8 below
        Limits limits = {{}, behind, diagonal, keys};
#pragma unroll
        for (int each = 0; each < 2; ++each)
            limits.row[each] = (base + (TURNS ? 0 : 64 * half) + place + 8 * each) % rows;
#if MASK
        MaskRows masks;
#pragma unroll
        for (int each = 0; each < 2; ++each) {
            const int row = base + (TURNS ? 0 : 64 * half) + place + 8 * each;
            const int number = (kv_head * group + row / rows) / mask_divisor % mask_count;
            const size_t size = static_cast<size_t>(keys) * (mask_stride ? rows : 1);
            const size_t at = number * size + static_cast<size_t>(row % rows) * mask_stride;
            masks.row[each] = row < own_rows ? mask + at : nullptr;
        }
#endif
        // Tiles within these limits are seen by all rows.
        const int all_first = highest - behind, all_last = min(lowest + diagonal, keys - 1);
        const float bend = cap > 0 ? scale * LOG2E * 2 / cap : 0;
        const float factor = cap > 0 ? 1 : scale * LOG2E;
        const float cap_log2 = cap * LOG2E;
        const float unit = MASK ? 1 : factor;  // of the maxima
        const int own = TURNS ? (count - half + 1) / 2 : count;

        Accumulators<KEYS> scores;
        Accumulators<HEAD> sums;
        uint32_t weights[KEYS / 16][4];
        Running running = {{NEVER, NEVER}, {0, 0}};
        float shrink[2];
#pragma unroll
        for (int each = 0; each < HEAD / 2; ++each) sums.values[each] = 0;

        const uint32_t query_at = queries + (TURNS ? 0 : half * 8192);
        uint32_t held[HELD ? HEAD / 16 : 1][4];
        if (HELD) {
            const int row = warp % 4 * 16 + lane % 16;
#pragma unroll
            for (int part = 0; part < HEAD / 16; ++part) {
                const int piece = part % 4 * 2 + lane / 16;
                load_matrices(held[part], query_at + part / 4 * (ROWS * 128) + row * 128 +
                                              ((piece ^ row % 8) << 4));
            }
        }
        const auto tile_of = [&](int number) { return TURNS ? 2 * number + half : number; };
        const auto start_scores = [&](int tile) {
            const uint32_t at = ring + tile % STAGES * STAGE_BYTES;
            barrier_wait(full_k + 8 * (tile % STAGES), tile / STAGES & 1);
            wgmma_begin();
#pragma unroll
            for (int part = 0; part < HEAD / 16; ++part) {
                const uint32_t left = query_at + part / 4 * (ROWS * 128) + part % 4 * 32;
                const uint32_t right = at + part / 4 * BOX_BYTES + part % 4 * 32;
                if constexpr (HELD)
                    multiply_held<ELEMENT>(scores, held[part], descriptor(right, 1, 64), part);
                else
                    multiply<ELEMENT>(scores, descriptor(left, 1, 64), descriptor(right, 1, 64), part);
            }
            wgmma_commit();
        };
        const auto start_sums = [&](int tile) {
            const uint32_t at = ring + tile % STAGES * STAGE_BYTES + TILE_BYTES;
            barrier_wait(full_v + 8 * (tile % STAGES), tile / STAGES & 1);
            wgmma_begin();
#pragma unroll
            for (int part = 0; part < KEYS / 16; ++part)
                multiply_weights<ELEMENT>(sums, weights[part], descriptor(at + part * 2048, BOX_BYTES / 16, 64));
            wgmma_commit();
        };
        const auto weigh_tile = [&](int tile) {
            const int first = (begin + tile) * KEYS;
            const bool bounded = first < all_first || first + KEYS - 1 > all_last;
            weigh(scores, running, shrink, factor, bend, cap_log2, bounded, limits,
                  first + lane % 4 * 2
#if MASK
                  ,
                  masks
#endif
            );
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
        if (own > 0) {
            start_scores(tile_of(0));
            wgmma_wait<0>(scores);
            if (lane == 0) barrier_arrive(empty_k + 8 * (tile_of(0) % STAGES));
            weigh_tile(tile_of(0));
            pack_weights();
            for (int number = 0; number + 1 < own; ++number) {
                const int tile = tile_of(number), next = tile_of(number + 1);
                start_scores(next);
                start_sums(tile);
                wait_for_first(scores);
                if (lane == 0) barrier_arrive(empty_k + 8 * (next % STAGES));
                weigh_tile(next);
                // Never so: that weights are computed here, and not behind the products.
                if (running.total[0] + running.total[1] < 0) __nanosleep(1);
                wgmma_wait<0>(sums);
                if (lane == 0) barrier_arrive(empty_v + 8 * (tile % STAGES));
#pragma unroll
                for (int each = 0; each < HEAD / 2; ++each)
                    sums.values[each] *= shrink[each / 2 % 2];
                pack_weights();
            }
            start_sums(tile_of(own - 1));
            wgmma_wait<0>(sums);
        }
        // Both are done with the ring, where partial results lie from now on.
        asm volatile("bar.sync 2, %0;" ::"n"(THREADS) : "memory");
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            running.total[row] += __shfl_xor_sync(0xffffffff, running.total[row], 1);
            running.total[row] += __shfl_xor_sync(0xffffffff, running.total[row], 2);
            const uint32_t to = stats + 4 * (128 * half + place + 8 * row);
            if (lane % 4 == 0)
                asm volatile("st.shared.f32 [%0], %1;\nst.shared.f32 [%0 + 256], %2;" ::"r"(to),
                             "f"(running.peak[row] * unit), "f"(running.total[row])
                             : "memory");
        }
        const uint32_t partial = ring + half * PARTIAL_BYTES + 4 * (place * BAR + lane % 4 * 2);
#pragma unroll
        for (int each = 0; each < HEAD / 2; each += 2)
            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(partial + 4 * (each / 2 % 2 * 8 * BAR + each / 4 * 8)), "f"(sums.values[each]), "f"(sums.values[each + 1]) : "memory");
        cluster_sync();
        const int items = (end - base) * (columns / 4);
        for (int item = rank * THREADS + threadIdx.x; item < items; item += PARTS * THREADS) {
            const int row = item / (columns / 4), column = item % (columns / 4) * 4;
            const int half = row / 64;
            float peaks[RESULTS], totals[RESULTS];
            float4 parts[RESULTS];
            float most = NEVER;
#pragma unroll
            for (int each = 0; each < RESULTS; ++each) {
                const int from = TURNS ? each % 2 : half;
                const uint32_t at = stats + 4 * (128 * from + row % 64);
                const uint32_t partial = ring + from * PARTIAL_BYTES + 4 * (row % 64 * BAR + column);
                asm volatile("{\n.reg .b32 there, lies;\n"
                             "mapa.shared::cluster.u32 there, %6, %8;\n"
                             "mapa.shared::cluster.u32 lies, %7, %8;\n"
                             "ld.shared::cluster.f32 %0, [there];\n"
                             "ld.shared::cluster.f32 %1, [there + 256];\n"
                             "ld.shared::cluster.v4.f32 {%2, %3, %4, %5}, [lies];\n}"
                             : "=f"(peaks[each]), "=f"(totals[each]), "=f"(parts[each].x), "=f"(parts[each].y), "=f"(parts[each].z), "=f"(parts[each].w)
                             : "r"(at), "r"(partial), "r"(TURNS ? each / 2 : each)
                             : "memory");
                most = fmaxf(most, peaks[each]);
            }
            float total = 0;
            float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
            for (int each = 0; each < RESULTS; ++each) {
                const float share = peaks[each] == NEVER ? 0.0f : exp2_of(peaks[each] - most);
                total += share * totals[each];
                sum.x += share * parts[each].x, sum.y += share * parts[each].y;
                sum.z += share * parts[each].z, sum.w += share * parts[each].w;
            }
            // A row that sees no key is zero.
            const float by = total == 0 ? 0.0f : __fdividef(1.0f, total);
            uint2 words = make_uint2(pack(sum.x * by, sum.y * by), pack(sum.z * by, sum.w * by));
            const int member = (base + row) / rows;
            const Strides of_output = {0, output_batch, output_head, output_row};
            const size_t to = of_output.at(batch, head * group + member, base + row - member * rows);
            *reinterpret_cast<uint2 *>(output + 8 * to + column) = words;
        }
    }
    // Nobody may end while others read its shared memory.
    cluster_sync();
}
