// Products for Hopper (sm_90a): out = f(a x weights), f16, bf16 or e4m3 with f32 sums.
//
// Persistent and warp-specialised. One thread loads tiles of `a` and of the weights with the
// tensor memory accelerator (TMA), which bounds rows, columns and depth, so that any number of
// rows will do. Two warpgroups multiply 64 rows each (wgmma), and write through shared memory.
// A ring of STAGES tiles stands between them: a *full* barrier says that a tile has arrived, an
// *empty* one that all warps that read it are done. While a result is written, the next tiles
// arrive.
//
// Set by the build: ELEMENT (0 f16, 1 bf16, 2 e4m3), COLUMNS (of a tile: 128 or 256), STAGES,
// WEIGHTS_KN (weights are (k, n), else (n, k)), GATED (two weights; out = act(first) * second), BIAS,
// ACTIVATION (0 none, 1 GELU, 2 GELU by tanh, 3 SiLU), OTHER (0 none, 1 adds a tensor like `out`, 2
// multiplies with it), BAND (blocks of 128 rows that are gone through together), NAME. GENERAL kernels
// are told at run time what to do behind the product, see epilogue.h; where they are WIDE, too, `out`
// and `other` are f32. Those of e4m3 are GENERAL; with PROMOTE their sums of 128 products, which the
// hardware adds up with 14 bits, are added in f32. BATCHED ones compute many products, each of tensors
// that lie where strides say: descriptors have more dims for these. GROUPED ones multiply rows, which
// lie group by group, with the weights of their group, see groups.h. JOINED ones compute so many
// products of the same rows, see joined.h.

#include "epilogue.h"
#include "tma.h"
#include "wgmma.h"

#ifndef STAGGER
#define STAGGER 0
#endif
#ifndef PROMOTE
#define PROMOTE 0
#endif

constexpr int ROWS = 128;             // of a tile, 64 for each of two warpgroups
#if GROUPED
#include "groups.h"
#endif
#if JOINED
#include "joined.h"
#endif
#define OPERAND_BYTES (ELEMENT == 2 ? 1 : 2)
constexpr int DEPTH = 128 / OPERAND_BYTES;  // 128 bytes of a row, one swizzled line
constexpr int HALVES = 2;             // multiplying warpgroups
constexpr int A_BYTES = ROWS * DEPTH * OPERAND_BYTES;
constexpr int B_BYTES = COLUMNS * DEPTH * OPERAND_BYTES;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int OUT_COLUMNS = GATED ? COLUMNS / 2 : COLUMNS;
constexpr int CHUNK = WIDE ? 32 : 64;  // columns that are written at once, 128 bytes
constexpr int CHUNKS = OUT_COLUMNS / CHUNK;
constexpr int CHUNK_BYTES = 64 * 128;
constexpr int OUT_BYTES = HALVES * 2 * CHUNK_BYTES;
// The memory engine's numbers for types of elements.
#define KIND_OF_16 (WRITTEN ? 10 : 6)
#define OPERAND_KIND (ELEMENT == 2 ? 0 : KIND_OF_16)
#define RESULT_KIND (WIDE ? 7 : KIND_OF_16)
// a, weights, other, out, second weights; of joined ones a, and weights and out of each.
constexpr int MAPS = JOINED ? 1 + 2 * JOINED : 5;
static_assert(ELEMENT != 2 || (GENERAL && !WEIGHTS_KN && !GATED && !WIDE));
static_assert(!BATCHED || ELEMENT != 2);
static_assert(!GROUPED || (!BATCHED && !GENERAL && !BIAS && !OTHER && !GATED && ELEMENT != 2));
static_assert(!GENERAL || COLUMNS % 128 == 0);
static_assert(!JOINED || (BIAS && !BATCHED && !GROUPED && !GENERAL && !OTHER && !GATED));

#include "tiles.h"

// Loads a tile of weights; `batch` says of which product.
template <typename... Batch>
__device__ inline void load_weights(uint32_t to, const char *map, const char *second,
                                    uint32_t barrier, int depth, int column, Batch... batch) {
    if constexpr (WEIGHTS_KN) {
        constexpr int BOXES = COLUMNS / 64;
#pragma unroll
        for (int box = 0; box < BOXES; ++box) {
            const uint32_t place = to + box * (64 * DEPTH * OPERAND_BYTES);
            if constexpr (GATED)
                load(place, box < BOXES / 2 ? map : second, barrier,
                     column + 64 * (box % (BOXES / 2)), depth, batch...);
            else
                load(place, map, barrier, column + 64 * box, depth, batch...);
        }
    } else {
        load(to, map, barrier, depth, column, batch...);
        if constexpr (GATED)
            load(to + COLUMNS / 2 * DEPTH * OPERAND_BYTES, second, barrier, depth, column, batch...);
    }
}

#if PROMOTE
// Waits until all but the last products are done, whose sums `before` has.
__device__ inline void wgmma_wait_but_last(Accumulators<COLUMNS> &before) {
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
#pragma unroll
    for (int each = 0; each < COLUMNS / 2; ++each)
        asm volatile("" : "+f"(before.values[each])::"memory");
}

__device__ inline void add(Accumulators<COLUMNS> &to, const Accumulators<COLUMNS> &more) {
#pragma unroll
    for (int each = 0; each < COLUMNS / 2; ++each) to.values[each] += more.values[each];
}
#endif

extern "C" __global__ void __launch_bounds__(384, 1) NAME(PARAMETERS) {
    UNREAD
#if BATCHED
    a += UNIT<Element> * static_cast<size_t>(a_start);
    weights += UNIT<Element> * static_cast<size_t>(weights_start);
#if GATED
    second += UNIT<Element> * static_cast<size_t>(weights_start);
#endif
#endif
    extern __shared__ char memory[];
    const uint32_t tiles = (shared_address(memory) + 1023) & ~1023u;
    const uint32_t staging = tiles + STAGES * STAGE_BYTES;
    const uint32_t making = staging + OUT_BYTES;
    const uint32_t full = making + MAPS * 128;
    const uint32_t empty = full + 8 * STAGES;
    const uint32_t arrived = empty + 8 * STAGES;  // of `other`: two for each warpgroup
    // Uniform for the compiler, too: else no part gets more registers than the kernel starts with.
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    const int group = warp / 4;

#if GENERAL
#if BATCHED
    Behind behind(REQUESTED);
#else
    const Behind behind(REQUESTED);
#endif
    const bool with_other = !GATED && behind.reads_other();
#if GATED
#if BATCHED
    const int half_row = WEIGHTS_KN ? 1 : weights_row * UNIT<Element>;
#else
    const int half_row = k;
#endif
    if (flags & 512) weights += static_cast<size_t>(n) * half_row;
    if (flags & 1024) second += static_cast<size_t>(n) * half_row;
#endif
#else
    constexpr bool with_other = OTHER;
#endif
    char *maps = scratch + static_cast<size_t>(blockIdx.x) * (MAPS * 128);
    constexpr int B_ROWS = GATED ? COLUMNS / 2 : COLUMNS;
#if BATCHED
    if (warp == 0)
        describe<OPERAND_KIND>(maps, making, a, k, m, DEPTH, ROWS,
                               16 * static_cast<size_t>(a_row), [&] {
                                   describe_dim<2>(making, inner, a_inner);
                                   describe_dim<3>(making, outer, a_outer);
                               });
    if (warp == 1 || (GATED && warp == 4)) {
        const int at = warp == 1 ? 128 : 512;
        const Element *from = warp == 1 ? weights : second;
        describe<OPERAND_KIND>(maps + at, making + at, from, WEIGHTS_KN ? n : k,
                               WEIGHTS_KN ? k : n, WEIGHTS_KN ? 64 : DEPTH,
                               WEIGHTS_KN ? DEPTH : B_ROWS,
                               16 * static_cast<size_t>(weights_row), [&] {
                                   describe_dim<2>(making + at, inner, weights_inner);
                                   describe_dim<3>(making + at, outer, weights_outer);
                               });
    }
    if (warp == 3 || (with_other && warp == 2)) {
        const int at = 128 * warp;
        const void *from = warp == 3 ? out : other;
        describe<RESULT_KIND>(maps + at, making + at, from, out_width, m, CHUNK, 64,
                              16 * static_cast<size_t>(out_row), [&] {
                                  describe_dim<2>(making + at, n / out_width, out_part);
                                  describe_dim<3>(making + at, inner, out_inner);
                                  describe_dim<4>(making + at, outer, out_outer);
                              });
    }
#else
    if (warp == 0) describe<OPERAND_KIND>(maps, making, a, k, m, DEPTH, ROWS);
#if JOINED
    if (warp && warp < MAPS) {
        const int own = (warp - 1) / 2, at = 128 * warp, columns = OWN(own, n);
        if (warp % 2 == 0)
            describe<RESULT_KIND>(maps + at, making + at, OWN(own, out), columns, m, CHUNK, 64);
        else if (WEIGHTS_KN)
            describe<OPERAND_KIND>(maps + at, making + at, OWN(own, weights), columns, k, 64, DEPTH);
        else
            describe<OPERAND_KIND>(maps + at, making + at, OWN(own, weights), k, columns, DEPTH, B_ROWS);
    }
#else
#if GENERAL
    const int weights_columns = behind.weights_columns();
#else
    const int weights_columns = n;
#endif
#if GROUPED
    if (warp == 1) {
        const int columns = WEIGHTS_KN ? n : k;
        describe<OPERAND_KIND>(maps + 128, making + 128, weights, columns, WEIGHTS_KN ? k : n,
                               WEIGHTS_KN ? 64 : DEPTH, WEIGHTS_KN ? DEPTH : B_ROWS,
                               static_cast<size_t>(columns) * OPERAND_BYTES,
                               [&] { describe_dim<2>(making + 128, groups, n / 8 * k); });
    }
#else
    if (warp == 1) {
        if (WEIGHTS_KN)
            describe<OPERAND_KIND>(maps + 128, making + 128, weights, n, k, 64, DEPTH);
        else
            describe<OPERAND_KIND>(maps + 128, making + 128, weights, k, weights_columns, DEPTH, B_ROWS);
    }
#endif
    if (with_other && warp == 2)
        describe<RESULT_KIND>(maps + 256, making + 256, other, n, m, CHUNK, 64);
    if (warp == 3) describe<RESULT_KIND>(maps + 384, making + 384, out, n, m, CHUNK, 64);
    if (GATED && warp == 4) {
        if (WEIGHTS_KN)
            describe<OPERAND_KIND>(maps + 512, making + 512, second, n, k, 64, DEPTH);
        else
            describe<OPERAND_KIND>(maps + 512, making + 512, second, k, weights_columns, DEPTH, B_ROWS);
    }
#endif
#endif
    if (threadIdx.x == 160) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(full + 8 * stage, 1);
            barrier_init(empty + 8 * stage, HALVES * 4);  // each warp
        }
        for (int each = 0; each < 2 * HALVES; ++each) barrier_init(arrived + 8 * each, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    const int first = blockIdx.x, step = gridDim.x;
    const int depths = (k + DEPTH - 1) / DEPTH;
#if GROUPED
    // Descriptors have been made, and there are no biases: both places are free.
    const Groups all(making, arrived + 16 * HALVES, ends, groups, m);
    const int column_tiles = (n + OUT_COLUMNS - 1) / OUT_COLUMNS;
    const int count = all.row_tiles() * column_tiles;
#else
#if JOINED
    const Widths widths = WIDTHS;
    const Tiles all(m, widths.all(OUT_COLUMNS));
#else
    const Tiles all(m, n);
#endif
#if BATCHED
    const int count = all.count * inner * outer;
#else
    const int count = all.count;
#endif
#endif
    const int turns = (count - first + step - 1) / step;
    Place place;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            acquire(maps);
            for (int own = 0; own < (JOINED ? JOINED : 1); ++own) acquire(maps + 128 + 256 * own);
            if (GATED) acquire(maps + 512);
            for (int turn = 0; turn < turns; ++turn) {
                int row, column;
                const int tile = first + turn * step;
#if BATCHED
                const InBatch batch(tile / all.count, inner);
                all.at(tile % all.count, row, column);
#elif GROUPED
                const Group own = all.of_tile(tile, column_tiles);
                Tiles(own.end - own.start, n).at(tile - own.first_tile, row, column);
                row += own.start;
                if (own.number == groups) continue;
#else
                all.at(tile, row, column);
#endif
#if JOINED
                const char *weights_map = maps + 128 + 256 * widths.find(column, OUT_COLUMNS);
#else
                const char *weights_map = maps + 128;
#endif
                for (int depth = 0; depth < depths; ++depth) {
                    const uint32_t barrier = full + 8 * place.stage;
                    const uint32_t to = tiles + place.stage * STAGE_BYTES;
                    barrier_wait(empty + 8 * place.stage, place.phase ^ 1);
                    barrier_expect(barrier, STAGE_BYTES);
#if BATCHED
                    load(to, maps, barrier, depth * DEPTH, row, a_inner ? batch.inner : 0,
                         a_outer ? batch.outer : 0);
                    load_weights(to + A_BYTES, weights_map, maps + 512, barrier, depth * DEPTH,
                                 column, weights_inner ? batch.inner : 0,
                                 weights_outer ? batch.outer : 0);
#else
                    load(to, maps, barrier, depth * DEPTH, row);
#if GROUPED
                    load_weights(to + A_BYTES, weights_map, maps + 512, barrier, depth * DEPTH,
                                 column, own.number);
#else
                    load_weights(to + A_BYTES, weights_map, maps + 512, barrier, depth * DEPTH,
                                 column);
#endif
#endif
                    place.next();
                }
            }
        }
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int half = group - 1;
        const int lane = threadIdx.x % 32;
        const int in_group = threadIdx.x % 128;
        const bool leads = in_group == 0;
        const uint32_t biases_at = arrived + 16 * HALVES + 512 * half;  // of a tile, 512 bytes
        const uint32_t buffers = staging + half * 2 * CHUNK_BYTES;
        const uint32_t others = arrived + 16 * half;
        // Where a lane's 8 x 8 matrix lies in a chunk: its row, and the parity of its place there.
        const int matrix_row = warp % 4 * 16 + lane % 16;
        const uint32_t row_bytes = matrix_row * 128;
        const int flip = matrix_row % 8;
        uint32_t other_phase = 0;
        if (leads) {
            if (JOINED)
                for (int own = 0; own < JOINED; ++own) acquire(maps + 256 + 256 * own);
            else
                acquire(maps + 384);
            if (with_other) acquire(maps + 256);
        }
        if (STAGGER && half == 1) {
            // Half a ring behind the other warpgroup, so that one multiplies while one writes.
            const int behind = min(STAGES, depths) - 1;
#if GROUPED
            // Of the rows that are left nothing is loaded.
            const bool loads = turns > 0 && all.of_tile(first, column_tiles).number < groups;
            if (loads) barrier_wait(full + 8 * behind, 0);
#else
            if (turns) barrier_wait(full + 8 * behind, 0);
#endif
        }
        // Defined from the start: else ptxas 12 has each product wait for the one before.
        Accumulators<COLUMNS> sums;
#pragma unroll
        for (int each = 0; each < COLUMNS / 2; ++each) sums.values[each] = 0;
        for (int turn = 0; turn < turns; ++turn) {
            int row, column;
            const int tile = first + turn * step;
#if BATCHED
            const InBatch batch(tile / all.count, inner);
            all.at(tile % all.count, row, column);
#if GENERAL
            behind.bias_at = static_cast<size_t>(batch.number) * bias_step;
            behind.factor_at = static_cast<size_t>(batch.number) * factor_step;
#endif
            // Columns of the result from `at` on, in its part.
            const auto load_other = [&](uint32_t to, uint32_t barrier, int at) {
                const int part = at / out_width;
                load(to, maps + 256, barrier, at - part * out_width, row, part, batch.inner,
                     batch.outer);
            };
            const auto store_out = [&](uint32_t from, int at) {
                const int part = at / out_width;
                store(maps + 384, from, at - part * out_width, row, part, batch.inner,
                      batch.outer);
            };
#else
#if GROUPED
            const Group own = all.of_tile(tile, column_tiles);
            Tiles(own.end - own.start, n).at(tile - own.first_tile, row, column);
            row += own.start;
            if (own.number == groups) {
                write_zeros(out, row + 64 * half, m, column, min(column + OUT_COLUMNS, n), n,
                            in_group);
                continue;
            }
#else
            all.at(tile, row, column);
#endif
#if JOINED
            const int own = widths.find(column, OUT_COLUMNS);
            const int columns = OWN(own, n);
            const char *out_map = maps + 256 + 256 * own;
#else
            const char *out_map = maps + 384;
#endif
            const auto load_other = [&](uint32_t to, uint32_t barrier, int at) {
                load(to, maps + 256, barrier, at, row);
            };
            const auto store_out = [&](uint32_t from, int at) { store(out_map, from, at, row); };
#endif
#if !JOINED
            const int columns = n;
#endif
            row += 64 * half;
#if GENERAL
            float2 shift = make_float2(0, 0), factor = shift;  // of two columns
            if (2 * in_group < OUT_COLUMNS && column + 2 * in_group < n) {
                shift = behind.shift(column + 2 * in_group);
                factor = behind.factor(min(row, m - 1), column + 2 * in_group);
            }
#if ELEMENT == 2
            float row_factors_here[2];
#pragma unroll
            for (int each = 0; each < 2; ++each) {
                const int line = row + warp % 4 * 16 + lane / 4 + 8 * each;
                row_factors_here[each] = behind.row_factor(row_factors, min(line, m - 1));
            }
#endif
#else
            uint32_t biases = 0;  // of two columns
#if JOINED
            const Element *line = OWN(own, bias);
            const bool has_bias = biased >> own & 1;
#else
            const Element *line = bias;
            constexpr bool has_bias = BIAS;
#endif
            if (has_bias && 2 * in_group < OUT_COLUMNS && column + 2 * in_group < columns)
                biases = __ldg(reinterpret_cast<const uint32_t *>(line + column) + in_group);
#endif
            // Tiles of `other` for the first two chunks, once the tile before is written.
            const auto load_others = [&] {
                wait_for_stores<0>();
                for (int chunk = 0; chunk < min(2, CHUNKS); ++chunk) {
                    const uint32_t barrier = others + 8 * (chunk % 2);
                    barrier_expect(barrier, CHUNK_BYTES);
                    load_other(buffers + chunk % 2 * CHUNK_BYTES, barrier, column + CHUNK * chunk);
                }
            };
            const auto multiply_tile = [&](Accumulators<COLUMNS> &to, bool more) {
                const uint32_t at = tiles + place.stage * STAGE_BYTES;
                barrier_wait(full + 8 * place.stage, place.phase);
                const uint64_t left = descriptor(at + half * (64 * DEPTH * OPERAND_BYTES), 1, 64);
                const uint64_t right = WEIGHTS_KN
                                           ? descriptor(at + A_BYTES, 64 * DEPTH * OPERAND_BYTES / 16, 64)
                                           : descriptor(at + A_BYTES, 1, 64);
                wgmma_begin();
#pragma unroll
                for (int part = 0; part < 128 / 32; ++part) {
                    constexpr int NEXT = WEIGHTS_KN ? 16 * 128 / 16 : 2;
                    multiply<ELEMENT, WEIGHTS_KN>(to, left + 2 * part, right + NEXT * part,
                                                  more || part);
                }
                wgmma_commit();
            };
            int last = 0;
#if PROMOTE
            // The sums of one tile are added while those of the next are made.
#pragma unroll
            for (int each = 0; each < COLUMNS / 2; ++each) sums.values[each] = 0;
            Accumulators<COLUMNS> even = sums, odd = sums;
            const auto step = [&](Accumulators<COLUMNS> &now, Accumulators<COLUMNS> &before, int depth) {
                multiply_tile(now, false);
                if (depth) {
                    wgmma_wait_but_last(before);
                    if (lane == 0) barrier_arrive(empty + 8 * last);
                    add(sums, before);
                }
                if (with_other && leads && depth == min(2, depths - 1)) load_others();
                last = place.stage;
                place.next();
            };
            for (int depth = 0; depth < depths; depth += 2) {
                step(even, odd, depth);
                if (depth + 1 < depths) step(odd, even, depth + 1);
            }
            if (depths % 2) {
                wgmma_wait<0>(even);
                add(sums, even);
            } else {
                wgmma_wait<0>(odd);
                add(sums, odd);
            }
            if (lane == 0) barrier_arrive(empty + 8 * last);
#else
            for (int depth = 0; depth < depths; ++depth) {
                multiply_tile(sums, depth);
                wgmma_wait<1>(sums);
                if (depth) {
                    if (lane == 0) barrier_arrive(empty + 8 * last);
                }
                if (with_other && leads && depth == min(2, depths - 1)) load_others();
                last = place.stage;
                place.next();
            }
            wgmma_wait<0>(sums);
            if (lane == 0) barrier_arrive(empty + 8 * last);
#endif
#if BIAS
            sync_warpgroup(half);  // All have read those of the tile before.
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(biases_at + 4 * in_group), "r"(biases)
                         : "memory");
            sync_warpgroup(half);
#endif
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                const uint32_t buffer = buffers + chunk % 2 * CHUNK_BYTES;
#if GENERAL
                // Those of a chunk lie as f32 side by side; all have read those of the one before.
                const uint32_t factors_at = biases_at + 4 * CHUNK;
                if (in_group / (CHUNK / 2) == chunk) {
                    put_two(biases_at + 8 * (in_group % (CHUNK / 2)), shift);
                    put_two(factors_at + 8 * (in_group % (CHUNK / 2)), factor);
                }
#endif
#if BIAS
                float2 added[CHUNK / 8];
#pragma unroll
                for (int each = 0; each < CHUNK / 8; ++each) {
                    uint32_t two;
                    asm volatile("ld.shared.b32 %0, [%1];"
                                 : "=r"(two)
                                 : "r"(biases_at + 2 * (CHUNK * chunk + 8 * each) + lane % 4 * 4)
                                 : "memory");
                    added[each] = unpack(two);
                }
#endif
                if (with_other) {
                    barrier_wait(others + 8 * (chunk % 2), other_phase >> (chunk % 2) & 1);
                    other_phase ^= 1 << (chunk % 2);
                } else {
                    // An odd number of chunks ends with the buffer that the next tile begins with.
                    if (leads) {
                        if (CHUNKS % 2 && chunk == 0)
                            wait_for_stores<0>();
                        else
                            wait_for_stores<1>();
                    }
                    if (!GENERAL) sync_warpgroup(half);
                }
                if (GENERAL) sync_warpgroup(half);
#pragma unroll
                for (int pair = 0; pair < CHUNK / 16; ++pair) {
                    const int column16 = 2 * pair + lane / 16;
                    const uint32_t place_of = buffer + row_bytes + ((column16 ^ flip) << 4);
                    uint32_t words[4], given[4];
#if GENERAL
                    if (with_other && !WIDE) load_matrices(given, place_of);
                    float2 shifts[2], factors[2];
#pragma unroll
                    for (int each = 0; each < 2; ++each) {
                        const int at = 4 * (16 * pair + 8 * each) + lane % 4 * 8;
                        shifts[each] = get_two(biases_at + at);
                        factors[each] = get_two(factors_at + at);
                    }
#pragma unroll
                    for (int each = 0; each < 4; ++each) {
                        const int number = (chunk * CHUNK + 16 * pair) / 2 + 2 * each;
                        float2 made = make_float2(sums.values[number], sums.values[number + 1]);
#if ELEMENT == 2
                        const float2 by = factors[each / 2];
                        made.x *= row_factors_here[each % 2] * by.x;
                        made.y *= row_factors_here[each % 2] * by.y;
                        made = behind.activated(made, shifts[each / 2]);
#else
                        made = behind.activated(made, shifts[each / 2]);
                        if (GATED) {
                            const int at = (number + COLUMNS / 4) % (COLUMNS / 2);
                            made.x *= sums.values[at] + factors[each / 2].x;
                            made.y *= sums.values[at + 1] + factors[each / 2].y;
                        } else {
                            made.x *= factors[each / 2].x, made.y *= factors[each / 2].y;
                        }
#endif
                        if (WIDE) {
                            const int line = warp % 4 * 16 + lane / 4 + 8 * (each % 2);
                            const int unit = 4 * pair + 2 * (each / 2) + lane % 4 / 2;
                            const uint32_t to =
                                buffer + line * 128 + ((unit ^ line % 8) << 4) + lane % 2 * 8;
                            if (with_other) made = behind.with(made, get_two(to));
                            put_two(to, made);
                        } else {
                            if (with_other) made = behind.with(made, unpack(given[each]));
                            words[each] = pack(made.x, made.y);
                        }
                    }
                    if (!WIDE) store_matrices(place_of, words);
#else
                    if (OTHER) load_matrices(given, place_of);
#pragma unroll
                    for (int each = 0; each < 4; ++each) {
                        const int number = (chunk * CHUNK + 16 * pair) / 2 + 2 * each;
                        float x = sums.values[number], y = sums.values[number + 1];
#if BIAS
                        x += added[2 * pair + each / 2].x;
                        y += added[2 * pair + each / 2].y;
#endif
                        x = activate(x), y = activate(y);
                        if (GATED) {
                            x *= sums.values[(number + COLUMNS / 4) % (COLUMNS / 2)];
                            y *= sums.values[(number + COLUMNS / 4 + 1) % (COLUMNS / 2)];
                        }
                        if (OTHER) {
                            const float2 there = unpack(given[each]);
                            x = OTHER == 1 ? x + there.x : x * there.x;
                            y = OTHER == 1 ? y + there.y : y * there.y;
                        }
                        words[each] = pack(x, y);
                    }
                    store_matrices(place_of, words);
#endif
                }
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                sync_warpgroup(half);
#if GROUPED
                // The memory engine would write the rows of the next group, too.
                const bool whole = row + 64 <= own.end;
                if (!whole) {
                    const char *bytes = memory + (buffer - shared_address(memory));
                    write_some(bytes, out, row, own.end, column + CHUNK * chunk, n, in_group);
                }
#else
                constexpr bool whole = true;
#endif
                if (leads) {
                    const int at = column + CHUNK * chunk;
                    if (whole && row < m && at < columns) store_out(buffer, at);
                    commit_store();  // Of nothing, too: waits count groups, one for each chunk.
                    if (with_other && chunk + 2 < CHUNKS) {
                        wait_for_stores<0>();
                        barrier_expect(others + 8 * (chunk % 2), CHUNK_BYTES);
                        load_other(buffer, others + 8 * (chunk % 2), at + 2 * CHUNK);
                    }
                }
            }
        }
        if (leads) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        __syncwarp();
    }
}
