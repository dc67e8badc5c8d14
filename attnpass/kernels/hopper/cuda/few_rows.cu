// Batches of products of few rows for Hopper: out = f(a x weights), weights (n, k); bound by memory.
//
// A warp multiplies 16 columns of the result with up to 8 * BLOCKS rows of `a` (mma.sync, the
// weights on the left). Weights go from memory to registers: a thread takes 16 bytes of a row at a
// time, which permutes the depth, and `a` is read in the same order. Depth is divided among the
// workgroups of a cluster (SPLITS) and DEPTH_WARPS of their warps; in the end each workgroup
// adds up its share of the columns out of the shared memory of all.
//
// Set by the build: ELEMENT, BLOCKS, SPLITS, DEPTH_WARPS, GENERAL and what it needs, RESIDENT
// (workgroups on a multiprocessor), UNROLL (steps of 32 elements), NAME.

#include "epilogue.h"

#ifndef PREFETCH
#define PREFETCH "128"
#endif

constexpr int WARPS = 8;
constexpr int COLUMN_WARPS = WARPS / DEPTH_WARPS;
constexpr int WIDTH = 16 * COLUMN_WARPS;  // columns of a workgroup's result
constexpr int LINE = WIDTH + 4;           // keeps banks apart
constexpr int SHARE = WIDTH / SPLITS;     // columns a workgroup adds up

__device__ inline uint4 read_once(const Element *from, bool there) {
    uint4 words = make_uint4(0, 0, 0, 0);
    if (there)
        asm volatile("ld.global.nc.L1::no_allocate.L2::" PREFETCH "B.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                     : "l"(from));
    return words;
}

__device__ inline uint4 read_often(const Element *from, bool there) {
    return there ? __ldg(reinterpret_cast<const uint4 *>(from)) : make_uint4(0, 0, 0, 0);
}

__device__ inline void multiply(float (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                uint32_t a3, uint32_t b0, uint32_t b1) {
#if ELEMENT
#define KIND "bf16.bf16"
#else
#define KIND "f16.f16"
#endif
    asm("mma.sync.aligned.m16n8k16.row.col.f32." KIND ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}


extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) __cluster_dims__(SPLITS, 1, 1)
    NAME(PARAMETERS) {
    UNREAD
    __shared__ __align__(GENERAL ? 16 : 4) float partial[DEPTH_WARPS][8 * BLOCKS][LINE];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int depth_warp = warp / COLUMN_WARPS, column_warp = warp % COLUMN_WARPS;
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const Places places((n + WIDTH - 1) / WIDTH * SPLITS BATCH_ARGUMENTS);
    a += places.a, weights += places.weights;
    const int first = places.workgroup / SPLITS * WIDTH;
    const int across = lane % 4 * 8, down = lane / 4;

    const int steps = (k + 31) / 32;
    const int each = (steps + SPLITS * DEPTH_WARPS - 1) / (SPLITS * DEPTH_WARPS);
    const int begin = 32 * each * (rank * DEPTH_WARPS + depth_warp);
    const int end = min(k, begin + 32 * each);

    // Rows and columns behind the last are read as the last, and not written.
    const Element *rows[BLOCKS];
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
        rows[block] = a + across +
                      static_cast<size_t>(min(8 * block + down, m - 1)) * places.a_pitch;
    float sums[BLOCKS][4] = {};
    const int column = first + 16 * column_warp + down;
    const Element *upper =
        weights + static_cast<size_t>(min(column, n - 1)) * places.weights_pitch + across;
    const Element *lower =
        weights + static_cast<size_t>(min(column + 8, n - 1)) * places.weights_pitch + across;
    for (int depth = begin; depth < end; depth += 32 * UNROLL) {
        uint4 high[UNROLL], low[UNROLL];
#pragma unroll
        for (int step = 0; step < UNROLL; ++step) {
            const int at = depth + 32 * step;
            high[step] = read_once(upper + at, at + across < end);
            low[step] = read_once(lower + at, at + across < end);
        }
#pragma unroll
        for (int step = 0; step < UNROLL; ++step) {
            const int at = depth + 32 * step;
            const uint4 &h = high[step], &l = low[step];
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block) {
                const uint4 x = read_often(rows[block] + at, at + across < end);
                multiply(sums[block], h.x, l.x, h.y, l.y, x.x, x.y);
                multiply(sums[block], h.z, l.z, h.w, l.w, x.z, x.w);
            }
        }
    }
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block) {
        const float(&sum)[4] = sums[block];
        float *to = &partial[depth_warp][8 * block + lane % 4 * 2][16 * column_warp + down];
        to[0] = sum[0], to[LINE] = sum[1];
        to[8] = sum[2], to[LINE + 8] = sum[3];
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#if GENERAL
    for (int item = threadIdx.x; item < 8 * BLOCKS * SHARE / 2; item += 32 * WARPS) {
        const int row = item / (SHARE / 2), at = rank * SHARE + item % (SHARE / 2) * 2;
        float2 sum = make_float2(0, 0);
#pragma unroll
        for (int part = 0; part < SPLITS; ++part) {
#pragma unroll
            for (int of = 0; of < DEPTH_WARPS; ++of) {
                const uint32_t mine =
                    static_cast<uint32_t>(__cvta_generic_to_shared(&partial[of][row][at]));
                float x, y;
                asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %2, %3;\n"
                             "ld.shared::cluster.v2.f32 {%0, %1}, [there];\n}"
                             : "=f"(x), "=f"(y)
                             : "r"(mine), "r"(part));
                sum.x += x, sum.y += y;
            }
        }
        const int to = first + at;
        if (row < m && to < n) {
            const size_t place = places.of_result(row, to);
            const auto &behind = places.of_product(Behind(REQUESTED));
            write_two(out, place, behind.done(sum, row, to, place));
        }
    }
#else
    for (int item = threadIdx.x; item < 8 * BLOCKS * SHARE; item += 32 * WARPS) {
        const int row = item / SHARE, at = rank * SHARE + item % SHARE;
        float sum = 0;
#pragma unroll
        for (int part = 0; part < SPLITS; ++part) {
#pragma unroll
            for (int of = 0; of < DEPTH_WARPS; ++of) {
                const uint32_t mine =
                    static_cast<uint32_t>(__cvta_generic_to_shared(&partial[of][row][at]));
                float found;
                asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %1, %2;\n"
                             "ld.shared::cluster.f32 %0, [there];\n}"
                             : "=f"(found)
                             : "r"(mine), "r"(part));
                sum += found;
            }
        }
        const int to = first + at;
        if (row < m && to < n) {
            const size_t place = places.of_result(row, to);
            out[place] = static_cast<Element>(sum);
        }
    }
#endif
    // Nobody may end while others read its shared memory.
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}
