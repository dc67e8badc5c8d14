// Batches of products of few rows for Hopper: out = f(a x weights), 1 to ROWS rows; bound by memory.
//
// The product is turned: 64 columns of the result for each warpgroup are the 64 rows of wgmma,
// the rows of `a` its columns (16 or 64). Tiles of weights and of `a` come by cp.async, 16 bytes a
// thread, through STAGES stages; what lies outside is filled with zeros. Depth is divided among
// the SPLITS workgroups of a cluster; in the end each adds up its share of the columns out of the
// shared memory of all: one launch, no scratch, always the same order.
//
// Set by the build: ELEMENT, WEIGHTS_KN, ROWS (16, 64), GROUPS (warpgroups), SPLITS, STAGES,
// LINES (of 64 elements along the depth in a stage), GENERAL and what it needs, NAME.

#include "epilogue.h"
#include "wgmma.h"

constexpr int THREADS = 128 * GROUPS;
constexpr int DEPTH = 64 * LINES;
constexpr int WIDTH = 64 * GROUPS;        // columns of a workgroup's result
constexpr int LEFT_BYTES = 64 * DEPTH * 2;  // of a warpgroup
constexpr int RIGHT_BYTES = ROWS * DEPTH * 2;
constexpr int STAGE_BYTES = GROUPS * LEFT_BYTES + RIGHT_BYTES;
constexpr int BAR = WIDTH + 4;            // floats of a row of sums; keeps banks apart
constexpr int SHARE = WIDTH / SPLITS;     // columns a workgroup adds up
static_assert(ROWS * BAR * 4 <= STAGES * STAGE_BYTES);

__device__ inline uint32_t shared_address(const void *pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// 16 bytes, or zeros where there are none.
__device__ inline void copy_once(uint32_t to, const Element *from, bool there) {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}

__device__ inline void copy_often(uint32_t to, const Element *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}

// Where 16 bytes of a line of 128 lie in a tile with the 128-byte swizzle.
__device__ inline uint32_t swizzled(int line, int piece) {
    return line * 128 + ((piece ^ (line % 8)) << 4);
}

extern "C" __global__ void __launch_bounds__(THREADS) __cluster_dims__(SPLITS, 1, 1)
    NAME(PARAMETERS) {
    UNREAD
    extern __shared__ char memory[];
    const uint32_t ring = (shared_address(memory) + 1023) & ~1023u;
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    const int group = warp / 4, lane = threadIdx.x % 32, in_group = threadIdx.x % 128;
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const Places places((n + WIDTH - 1) / WIDTH * SPLITS BATCH_ARGUMENTS);
    a += places.a, weights += places.weights;
    const int first = places.workgroup / SPLITS * WIDTH;

    const int steps = (k + DEPTH - 1) / DEPTH;
    const int begin = static_cast<int>(rank) * steps / SPLITS;
    const int count = (static_cast<int>(rank) + 1) * steps / SPLITS - begin;

    // A thread always copies the same 16 bytes of a line.
    const int piece = in_group % 8, line0 = in_group / 8;
    const auto fetch = [&](int step) {
        if (step < count) {
            const uint32_t stage = ring + step % STAGES * STAGE_BYTES;
            const uint32_t left = stage + group * LEFT_BYTES;
            const int depth = (begin + step) * DEPTH;
            if constexpr (WEIGHTS_KN) {
                const int column = first + 64 * group + 8 * piece;
#pragma unroll
                for (int line = line0; line < DEPTH; line += 16) {
                    const bool there = depth + line < k && column < n;
                    const int pitch = places.weights_pitch;
                    const size_t place =
                        there ? static_cast<size_t>(depth + line) * pitch + column : 0;
                    copy_once(left + swizzled(line, piece), weights + place, there);
                }
            } else {
#pragma unroll
                for (int row = line0; row < 64; row += 16) {
                    const int column = first + 64 * group + row;
#pragma unroll
                    for (int part = 0; part < LINES; ++part) {
                        const int at = depth + 64 * part + 8 * piece;
                        const bool there = column < n && at < k;
                        const int pitch = places.weights_pitch;
                        const size_t place = there ? static_cast<size_t>(column) * pitch + at : 0;
                        copy_once(left + part * 8192 + swizzled(row, piece), weights + place, there);
                    }
                }
            }
            const uint32_t right = stage + GROUPS * LEFT_BYTES;
            for (int line = threadIdx.x / 8; line < ROWS * LINES; line += THREADS / 8) {
                const int row = line % ROWS, part = line / ROWS;
                const int at = depth + 64 * part + 8 * piece;
                const bool there = row < m && at < k;
                const int pitch = places.a_pitch;
                const size_t place = there ? static_cast<size_t>(row) * pitch + at : 0;
                copy_often(right + part * (ROWS * 128) + swizzled(row, piece), a + place, there);
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");  // Of nothing, too: waits count them.
    };

    Accumulators<ROWS> sums;
#pragma unroll
    for (int each = 0; each < ROWS / 2; ++each) sums.values[each] = 0;
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) fetch(step);
    for (int step = 0; step < count; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();  // The tile is whole, and all are done with the one before.
        const uint32_t stage = ring + step % STAGES * STAGE_BYTES;
        const uint32_t left_at = stage + group * LEFT_BYTES;
        const uint32_t right_at = stage + GROUPS * LEFT_BYTES;
        wgmma_begin();
#pragma unroll
        for (int part = 0; part < DEPTH / 16; ++part) {
            const uint32_t left = left_at + (WEIGHTS_KN ? part * 2048 : part / 4 * 8192 + part % 4 * 32);
            const uint32_t right = right_at + part / 4 * (ROWS * 128) + part % 4 * 32;
            multiply_turned<ELEMENT, WEIGHTS_KN>(
                sums, WEIGHTS_KN ? descriptor(left, 512, 64) : descriptor(left, 1, 64),
                descriptor(right, 1, 64), 1);
        }
        wgmma_commit();
        fetch(step + STAGES - 1);
        wgmma_wait<0>(sums);
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();

    const uint32_t partial = ring;  // [ROWS][BAR] sums
    const int column = 64 * group + warp % 4 * 16 + lane / 4;
#pragma unroll
    for (int each = 0; each < ROWS / 2; ++each) {
        const int row = each / 4 * 8 + lane % 4 * 2 + each % 2;
        const int at = column + (each % 4 >= 2 ? 8 : 0);
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(partial + 4 * (row * BAR + at)),
                     "f"(sums.values[each])
                     : "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
    for (int item = threadIdx.x; item < ROWS * SHARE / 2; item += THREADS) {
        const int row = item / (SHARE / 2), at = rank * SHARE + item % (SHARE / 2) * 2;
        const int to = first + at;
        if (row >= m || to >= n) continue;
        float x = 0, y = 0;
#pragma unroll
        for (int part = 0; part < SPLITS; ++part) {
            float left, right;
            asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %2, %3;\n"
                         "ld.shared::cluster.v2.f32 {%0, %1}, [there];\n}"
                         : "=f"(left), "=f"(right)
                         : "r"(partial + 4 * (row * BAR + at)), "r"(part)
                         : "memory");
            x += left, y += right;
        }
        const size_t place = places.of_result(row, to);
#if GENERAL
        const auto &behind = places.of_product(Behind(REQUESTED));
        write_two(out, place, behind.done(make_float2(x, y), row, to, place));
#else
        *reinterpret_cast<uint32_t *>(out + place) = pack(x, y);
#endif
    }
    // Nobody may end while others read its shared memory.
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}
