// Products of f32 for Hopper (sm_90a): out = f(a x weights), each by three products of tf32.
//
// A number is its first 11 bits and the rest; what is left out, the product of both rests, is below
// the last bit of f32. The smaller products come first, and sums of 32 of the depth are added in f32,
// since tensor cores cut sums off where f32 would round them.
//
// Persistent and warp-specialised, as product.cu is: one thread loads tiles (TMA), two warpgroups
// multiply 64 rows each, whose parts they make in registers, and a third one makes those of the
// weights, in shared memory, along the depth: tensor cores take tf32 in no other order. A *full*
// barrier says that a tile has arrived, a *ready* one that its weights are in two parts, an *empty*
// one that it was read. Where infinities or what f32 holds at most made no number of a sum, it is
// summed again, one by one, in f32.
//
// Where SPLITS is more than 1, workgroups of a cluster divide the depth of one tile; in the end each
// adds up its share of the columns out of the shared memory of all, always in the same order.
//
// Set by the build: COLUMNS (of a tile: 64 or 128), STAGES, BAND, SPLITS, WEIGHTS_KN, BATCHED, NAME,
// as in product.cu; all are GENERAL and WIDE, and told at run time what to do behind the product.

#include "epilogue.h"
#include "tma.h"
#include "wgmma.h"
#include "tf32.h"

constexpr int ROWS = 128;  // of a tile, 64 for each of two warpgroups
constexpr int DEPTH = 32;  // 128 bytes of a row, one swizzled line
constexpr int HALVES = 2;  // multiplying warpgroups
constexpr int A_BYTES = ROWS * DEPTH * 4;
constexpr int B_BYTES = COLUMNS * DEPTH * 4;
// Rows, the weights' first bits and rests, and weights that lie across the depth.
constexpr int STAGE_BYTES = A_BYTES + (WEIGHTS_KN ? 3 : 2) * B_BYTES;
constexpr int LOADED_BYTES = A_BYTES + B_BYTES;
constexpr int LOADED_AT = WEIGHTS_KN ? A_BYTES + 2 * B_BYTES : A_BYTES;
constexpr int OUT_COLUMNS = COLUMNS;
constexpr int CHUNK = 32;  // columns that are written at once, 128 bytes
constexpr int CHUNKS = COLUMNS / CHUNK;
constexpr int CHUNK_BYTES = 64 * 128;
constexpr int OUT_BYTES = HALVES * 2 * CHUNK_BYTES;
constexpr int KIND = 7;  // f32, the memory engine's number
constexpr int MAPS = 4;  // a, weights, other, out
static_assert(GENERAL && WIDE && !GATED && ELEMENT == 3);
static_assert(CHUNKS % 2 == 0);
static_assert(SPLITS == 1 || !BATCHED);
constexpr int BAR = COLUMNS + 4;  // floats of a row of partial sums; keeps banks apart
constexpr int SHARE = COLUMNS / SPLITS;  // columns that a workgroup of a cluster adds up
static_assert(SPLITS == 1 || ROWS * BAR * 4 <= STAGES * STAGE_BYTES);
#if SPLITS > 1
#define CLUSTER __cluster_dims__(SPLITS, 1, 1)
#else
#define CLUSTER
#endif

#include "tiles.h"

// The first 11 bits of a number, rounded, and the rest, of which tensor cores read 11, all but the
// last one at most. By whole numbers: conversions are a fourth as fast. What is no number leaves none
// in the rest, and so do infinities, and what becomes one.
__device__ inline void in_two(float x, uint32_t &first, uint32_t &rest) {
    first = (__float_as_uint(x) + 0x1000) & 0xffffe000;
    rest = __float_as_uint(x - __uint_as_float(first));
}

__device__ inline void in_two(const float (&x)[4], uint32_t first, uint32_t rest) {
    uint32_t firsts[4], rests[4];
#pragma unroll
    for (int each = 0; each < 4; ++each) in_two(x[each], firsts[each], rests[each]);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(first), "r"(firsts[0]),
                 "r"(firsts[1]), "r"(firsts[2]), "r"(firsts[3])
                 : "memory");
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(rest), "r"(rests[0]),
                 "r"(rests[1]), "r"(rests[2]), "r"(rests[3])
                 : "memory");
}

// Makes both parts of a stage's weights, lines of 128 bytes along the depth, swizzled; by 128 threads.
__device__ inline void make_parts(uint32_t stage, int thread) {
    const uint32_t first = stage + A_BYTES, rest = first + B_BYTES, loaded = stage + LOADED_AT;
    if constexpr (WEIGHTS_KN) {
        const int column = thread % COLUMNS;
        const uint32_t from = loaded + column / 32 * (DEPTH * 128) + column % 4 * 4;
        constexpr int PIECES = 8 * COLUMNS / 128, TOGETHER = 4;
        float x[TOGETHER][4];
        for (int done = 0; done < PIECES; done += TOGETHER) {
#pragma unroll
            for (int part = 0; part < 4 * TOGETHER; ++part) {
                const int depth = 4 * (thread / COLUMNS * PIECES + done) + part;
                const uint32_t at = from + depth * 128 + ((column % 32 / 4 ^ depth % 8) << 4);
                asm volatile("ld.shared.f32 %0, [%1];"
                             : "=f"(x[part / 4][part % 4])
                             : "r"(at)
                             : "memory");
            }
#pragma unroll
            for (int each = 0; each < TOGETHER; ++each) {
                const int piece = thread / COLUMNS * PIECES + done + each;
                const uint32_t to = column * 128 + ((piece ^ column % 8) << 4);
                in_two(x[each], first + to, rest + to);
            }
        }
    } else {
        constexpr int TOGETHER = 4;
        float x[TOGETHER][4];
        for (int done = 0; done < B_BYTES / (128 * 16); done += TOGETHER) {
#pragma unroll
            for (int each = 0; each < TOGETHER; ++each)
                asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                             : "=f"(x[each][0]), "=f"(x[each][1]), "=f"(x[each][2]), "=f"(x[each][3])
                             : "r"(loaded + 16 * (thread + 128 * (done + each)))
                             : "memory");
#pragma unroll
            for (int each = 0; each < TOGETHER; ++each) {
                const uint32_t at = 16 * (thread + 128 * (done + each));
                in_two(x[each], first + at, rest + at);
            }
        }
    }
}

// Loads a tile of weights; `batch` says of which product.
template <typename... Batch>
__device__ inline void load_weights(uint32_t to, const char *map, uint32_t barrier, int depth,
                                    int column, Batch... batch) {
    if constexpr (WEIGHTS_KN) {
#pragma unroll
        for (int box = 0; box < COLUMNS / 32; ++box)
            load(to + box * (DEPTH * 128), map, barrier, column + 32 * box, depth, batch...);
    } else {
        load(to, map, barrier, depth, column, batch...);
    }
}

// All threads of a cluster have come here, and see what others wrote before.
__device__ inline void meet() {
    if constexpr (SPLITS > 1)
        asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                         : "memory");
}

// A sum of products one by one, of numbers `step` apart in the weights.
__device__ inline float summed_again(const float *line, const float *column, size_t step, int k) {
    float sum = 0;
    for (int depth = 0; depth < k; ++depth)
        sum = fmaf(__ldg(line + depth), __ldg(column + depth * step), sum);
    return sum;
}

extern "C" __global__ void __launch_bounds__(512, 1) CLUSTER NAME(PARAMETERS) {
    UNREAD
    extern __shared__ char memory[];
#if BATCHED
    a += UNIT<Element> * static_cast<size_t>(a_start);
    weights += UNIT<Element> * static_cast<size_t>(weights_start);
    const size_t a_pitch = UNIT<Element> * static_cast<size_t>(a_row);
    const size_t weights_pitch = UNIT<Element> * static_cast<size_t>(weights_row);
#else
    const size_t a_pitch = k, weights_pitch = WEIGHTS_KN ? n : k;
#endif
    const uint32_t tiles = (shared_address(memory) + 1023) & ~1023u;
    const uint32_t staging = tiles + STAGES * STAGE_BYTES;
    const uint32_t making = staging + OUT_BYTES;
    const uint32_t full = making + MAPS * 128;
    const uint32_t ready = full + 8 * STAGES;
    const uint32_t empty = ready + 8 * STAGES;
    const uint32_t arrived = empty + 8 * STAGES;  // of `other`: two for each warpgroup
    // Uniform for the compiler, too: else no part gets more registers than the kernel starts with.
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    const int group = warp / 4;
#if BATCHED
    Behind behind(REQUESTED);
#else
    const Behind behind(REQUESTED);
#endif
    const bool with_other = behind.reads_other();
    char *maps = scratch + static_cast<size_t>(blockIdx.x) * (MAPS * 128);
    constexpr int BOX_COLUMNS = 32, BOX_ROWS = WEIGHTS_KN ? DEPTH : COLUMNS;
    const int there = WEIGHTS_KN || BATCHED ? n : behind.weights_columns();  // columns of weights
    const int weights_columns = WEIGHTS_KN ? n : k, weights_rows = WEIGHTS_KN ? k : there;
    if (warp == 0 || warp == 1) {
        const int at = 128 * warp;
        const Element *from = warp ? weights : a;
        const int columns = warp ? weights_columns : k, rows = warp ? weights_rows : m;
        describe<KIND>(maps + at, making + at, from, columns, rows, BOX_COLUMNS,
                       warp ? BOX_ROWS : ROWS, 4 * (warp ? weights_pitch : a_pitch), [&] {
#if BATCHED
                           describe_dim<2>(making + at, inner, warp ? weights_inner : a_inner);
                           describe_dim<3>(making + at, outer, warp ? weights_outer : a_outer);
#endif
                       });
    }
    if (warp == 3 || (with_other && warp == 2)) {
        const int at = 128 * warp;
        const void *from = warp == 3 ? out : other;
#if BATCHED
        describe<KIND>(maps + at, making + at, from, out_width, m, CHUNK, 64,
                       16 * static_cast<size_t>(out_row), [&] {
                           describe_dim<2>(making + at, n / out_width, out_part);
                           describe_dim<3>(making + at, inner, out_inner);
                           describe_dim<4>(making + at, outer, out_outer);
                       });
#else
        describe<KIND>(maps + at, making + at, from, n, m, CHUNK, 64);
#endif
    }
    if (threadIdx.x == 160) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(full + 8 * stage, 1);
            barrier_init(ready + 8 * stage, 4);           // each warp
            barrier_init(empty + 8 * stage, HALVES * 4);
        }
        for (int each = 0; each < 2 * HALVES; ++each) barrier_init(arrived + 8 * each, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    const int first = blockIdx.x / SPLITS, step = gridDim.x / SPLITS, rank = blockIdx.x % SPLITS;
    const int all_depths = (k + DEPTH - 1) / DEPTH;
    const int begin = rank * all_depths / SPLITS, depths = (rank + 1) * all_depths / SPLITS - begin;
    const Tiles all(m, n);
#if BATCHED
    const int count = all.count * inner * outer;
#else
    const int count = all.count;
#endif
    const int turns = (count - first + step - 1) / step;
    Place place;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
        if (threadIdx.x == 0) {
            acquire(maps);
            acquire(maps + 128);
            for (int turn = 0; turn < turns; ++turn) {
                int row, column;
                const int tile = first + turn * step;
#if BATCHED
                const InBatch batch(tile / all.count, inner);
                all.at(tile % all.count, row, column);
#else
                all.at(tile, row, column);
#endif
                for (int depth = begin; depth < begin + depths; ++depth) {
                    const uint32_t barrier = full + 8 * place.stage;
                    const uint32_t to = tiles + place.stage * STAGE_BYTES;
                    barrier_wait(empty + 8 * place.stage, place.phase ^ 1);
                    barrier_expect(barrier, LOADED_BYTES);
#if BATCHED
                    load(to, maps, barrier, depth * DEPTH, row, a_inner ? batch.inner : 0,
                         a_outer ? batch.outer : 0);
                    load_weights(to + LOADED_AT, maps + 128, barrier, depth * DEPTH, column,
                                 weights_inner ? batch.inner : 0, weights_outer ? batch.outer : 0);
#else
                    load(to, maps, barrier, depth * DEPTH, row);
                    load_weights(to + LOADED_AT, maps + 128, barrier, depth * DEPTH, column);
#endif
                    place.next();
                }
            }
        }
        __syncwarp();
        meet(), meet();
    } else if (group == 3) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 64;");
        for (int turn = 0; turn < turns; ++turn) {
            for (int depth = 0; depth < depths; ++depth) {
                barrier_wait(full + 8 * place.stage, place.phase);
                make_parts(tiles + place.stage * STAGE_BYTES, threadIdx.x % 128);
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                __syncwarp();
                if (threadIdx.x % 32 == 0) barrier_arrive(ready + 8 * place.stage);
                place.next();
            }
        }
        __syncwarp();
        meet(), meet();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 208;");
        const int half = group - 1;
        const int lane = threadIdx.x % 32;
        const int in_group = threadIdx.x % 128;
        const bool leads = in_group == 0;
        const uint32_t biases_at = arrived + 16 * HALVES + 512 * half;  // of a tile, 512 bytes
        const uint32_t buffers = staging + half * 2 * CHUNK_BYTES;
        const uint32_t others = arrived + 16 * half;
        // Where a lane's 8 rows of 16 bytes begin in a tile of rows, and the parity of its place there.
        const int matrix_row = warp % 4 * 16 + lane % 16;
        const int rows_at = half * (64 * 128) + matrix_row * 128;
        const int flip = matrix_row % 8;
        uint32_t other_phase = 0;
        if (leads) {
            acquire(maps + 384);
            if (with_other) acquire(maps + 256);
        }
        // Defined from the start: else ptxas 12 has each product wait for the one before.
        Accumulators<COLUMNS> sums, made_now;
#pragma unroll
        for (int each = 0; each < COLUMNS / 2; ++each) made_now.values[each] = 0;
        for (int turn = 0; turn < turns; ++turn) {
            int row, column;
            const int tile = first + turn * step;
#if BATCHED
            const InBatch batch(tile / all.count, inner);
            all.at(tile % all.count, row, column);
            behind.bias_at = static_cast<size_t>(batch.number) * bias_step;
            behind.factor_at = static_cast<size_t>(batch.number) * factor_step;
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
            all.at(tile, row, column);
            const auto load_other = [&](uint32_t to, uint32_t barrier, int at) {
                load(to, maps + 256, barrier, at, row);
            };
            const auto store_out = [&](uint32_t from, int at) {
                store(maps + 384, from, at, row);
            };
#endif
            row += 64 * half;
            float2 shift = make_float2(0, 0), factor = shift;  // of two columns
            if (2 * in_group < COLUMNS && column + 2 * in_group < n) {
                shift = behind.shift(column + 2 * in_group);
                factor = behind.factor(min(row, m - 1), column + 2 * in_group);
            }
            // Tiles of `other` for the first two chunks, once the tile before is written.
            const auto load_others = [&] {
                wait_for_stores<0>();
                for (int chunk = 0; chunk < min(2, CHUNKS); ++chunk) {
                    const uint32_t barrier = others + 8 * (chunk % 2);
                    barrier_expect(barrier, CHUNK_BYTES);
                    load_other(buffers + chunk % 2 * CHUNK_BYTES, barrier, column + CHUNK * chunk);
                }
            };
#pragma unroll
            for (int each = 0; each < COLUMNS / 2; ++each) sums.values[each] = 0;
            // The rows of the next stage are read while those of one are multiplied.
            uint32_t words[4][4];
            const auto read_rows = [&] {
                barrier_wait(full + 8 * place.stage, place.phase);
                const uint32_t rows = tiles + place.stage * STAGE_BYTES + rows_at;
#pragma unroll
                for (int part = 0; part < 4; ++part)
                    load_matrices(words[part], rows + ((2 * part + lane / 16 ^ flip) << 4));
            };
            if (SPLITS == 1 || depths) read_rows();
            for (int depth = 0; depth < depths; ++depth) {
                const int stage = place.stage;
                const uint32_t at = tiles + stage * STAGE_BYTES;
                uint32_t firsts[4][4], rests[4][4];
#pragma unroll
                for (int each = 0; each < 16; ++each)
                    in_two(__uint_as_float(words[each / 4][each % 4]), firsts[each / 4][each % 4],
                           rests[each / 4][each % 4]);
#pragma unroll
                for (int each = 0; each < 16; ++each)  // All parts are made by here.
                    asm volatile("" : "+r"(firsts[each / 4][each % 4]), "+r"(rests[each / 4][each % 4]));
                barrier_wait(ready + 8 * stage, place.phase);
                const uint64_t right = descriptor(at + A_BYTES, 1, 64);
                const uint64_t right_rest = descriptor(at + A_BYTES + B_BYTES, 1, 64);
                wgmma_begin();
#pragma unroll
                for (int part = 0; part < 4; ++part) {
                    multiply_tf32(made_now, rests[part], right + 2 * part, part);
                    multiply_tf32(made_now, firsts[part], right_rest + 2 * part, 1);
                }
#pragma unroll
                for (int part = 0; part < 4; ++part)
                    multiply_tf32(made_now, firsts[part], right + 2 * part, 1);
                wgmma_commit();
                if (SPLITS == 1 && with_other && leads && depth == min(2, depths - 1)) load_others();
                place.next();
                if (depth + 1 < depths) read_rows();
                wgmma_wait<0>(made_now);
                if (lane == 0) barrier_arrive(empty + 8 * stage);
#pragma unroll
                for (int each = 0; each < COLUMNS / 2; ++each)
                    sums.values[each] += made_now.values[each];
            }
#if SPLITS > 1
            asm volatile("bar.sync 3, 256;" ::: "memory");  // Nobody reads the ring any more.
#pragma unroll
            for (int each = 0; each < COLUMNS / 4; ++each) {
                const int line = 64 * half + warp % 4 * 16 + lane / 4 + each % 2 * 8;
                put_two(tiles + 4 * (line * BAR + each / 2 * 8 + lane % 4 * 2),
                        make_float2(sums.values[2 * each], sums.values[2 * each + 1]));
            }
            meet();
            row -= 64 * half;
            for (int item = threadIdx.x - 128; item < ROWS * SHARE / 2; item += 256) {
                const int line = item / (SHARE / 2), at = rank * SHARE + item % (SHARE / 2) * 2;
                if (row + line >= m || column + at >= n) continue;
                float2 sum = make_float2(0, 0);
#pragma unroll
                for (int part = 0; part < SPLITS; ++part) {
                    float2 two;
                    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %2, %3;\n"
                                 "ld.shared::cluster.v2.f32 {%0, %1}, [there];\n}"
                                 : "=f"(two.x), "=f"(two.y)
                                 : "r"(tiles + 4 * (line * BAR + at)), "r"(part)
                                 : "memory");
                    sum.x += two.x, sum.y += two.y;
                }
                const float *left = a + (row + line) * a_pitch;
                const float *right = weights + (column + at) * (WEIGHTS_KN ? 1 : weights_pitch);
                if (sum.x != sum.x && column + at < there)
                    sum.x = summed_again(left, right, WEIGHTS_KN ? n : 1, k);
                if (sum.y != sum.y && column + at + 1 < there)
                    sum.y = summed_again(left, right + (WEIGHTS_KN ? 1 : k), WEIGHTS_KN ? n : 1, k);
                const size_t to = static_cast<size_t>(row + line) * n + column + at;
                write_two(out, to, behind.done(sum, row + line, column + at, to));
            }
            meet();  // Nobody ends while others read its shared memory.
            continue;
#endif
            // Sums that are no numbers: a mask of this lane's.
            uint64_t lost = 0;
#pragma unroll
            for (int each = 0; each < COLUMNS / 2; ++each)
                lost |= static_cast<uint64_t>(sums.values[each] != sums.values[each]) << each;
            while (lost) {
                const int number = __ffsll(lost) - 1;
                lost &= lost - 1;
                const int line = row + warp % 4 * 16 + lane / 4 + number / 2 % 2 * 8;
                const int across = column + number / 4 * 8 + lane % 4 * 2 + number % 2;
                if (line >= m || across >= there) continue;
                const float *left = a, *right = weights;
#if BATCHED
                left += batch.before<Element>(0, a_inner, a_outer);
                right += batch.before<Element>(0, weights_inner, weights_outer);
#endif
                left += line * a_pitch, right += across * (WEIGHTS_KN ? 1 : weights_pitch);
                const float again = summed_again(left, right, WEIGHTS_KN ? weights_pitch : 1, k);
#pragma unroll
                for (int each = 0; each < COLUMNS / 2; ++each)
                    if (each == number) sums.values[each] = again;
            }
            __syncwarp();
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                const uint32_t buffer = buffers + chunk % 2 * CHUNK_BYTES;
                // Those of a chunk lie side by side; all have read those of the one before.
                const uint32_t factors_at = biases_at + 4 * CHUNK;
                if (in_group / (CHUNK / 2) == chunk) {
                    put_two(biases_at + 8 * (in_group % (CHUNK / 2)), shift);
                    put_two(factors_at + 8 * (in_group % (CHUNK / 2)), factor);
                }
                if (with_other) {
                    barrier_wait(others + 8 * (chunk % 2), other_phase >> (chunk % 2) & 1);
                    other_phase ^= 1 << (chunk % 2);
                } else if (leads) {
                    wait_for_stores<1>();
                }
                sync_warpgroup(half);
#pragma unroll
                for (int each = 0; each < CHUNK / 4; ++each) {
                    // Two columns of a row: rows lane / 4 and 8 more in turns.
                    const int number = chunk * CHUNK / 2 + 2 * each;
                    const int at = 4 * (each / 2 * 8) + lane % 4 * 8;
                    float2 made = make_float2(sums.values[number], sums.values[number + 1]);
                    made = behind.activated(made, get_two(biases_at + at));
                    const float2 by = get_two(factors_at + at);
                    made.x *= by.x, made.y *= by.y;
                    const int line = warp % 4 * 16 + lane / 4 + 8 * (each % 2);
                    const int unit = 2 * (each / 2) + lane % 4 / 2;
                    const uint32_t to = buffer + line * 128 + ((unit ^ line % 8) << 4) + lane % 2 * 8;
                    if (with_other) made = behind.with(made, get_two(to));
                    put_two(to, made);
                }
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                sync_warpgroup(half);
                if (leads) {
                    const int at = column + CHUNK * chunk;
                    if (row < m && at < n) store_out(buffer, at);
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
