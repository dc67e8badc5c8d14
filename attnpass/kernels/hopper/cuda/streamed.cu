// Products of few rows for Hopper (sm_90a): out = f(a x weights), 1 to ROWS rows; memory's speed.
//
// The product is turned: 64 columns of the weights are the 64 rows of wgmma, the rows of `a` its
// columns. A workgroup takes a tile of G blocks of 64 columns, and a part of the depth. One warpgroup
// copies steps of 64 elements of depth, of the rows and of all blocks, into a ring (cp.async), as far
// ahead as there is shared memory, also those of the next tile; the other multiplies them. What lies
// outside is filled with zeros. Workgroups of a cluster may divide the depth of a tile: in the end they
// write their sums to the one that adds up these columns, always in the same order.
//
// `division` says how the work is divided: 1 to CLUSTER parts of the depth (bits 0 to 3), tiles of 1 or
// MOST blocks (4 to 7), and how many of these a workgroup takes one after the other (from 8 on; more
// than one of whole depths only).
//
// Set by the build: ELEMENT, WEIGHTS_KN, ROWS (16, 64), MOST, CLUSTER, RESIDENT (workgroups on a
// multiprocessor), ROOM (bytes of shared memory of one), ACTIVATION, WIDE, NAME. JOINED ones compute so
// many products of the same rows, see joined.h.

#include "epilogue.h"
#include "tma.h"
#include "turned.h"
#include "wgmma.h"
#if JOINED
#include "joined.h"
#endif

constexpr int DEPTH = 64;  // of a step: 128 bytes of a row, one swizzled line
constexpr int THREADS = 128;  // of each warpgroup
constexpr int BLOCK_BYTES = 64 * 128;
constexpr int ROW_BYTES = ROWS * 128;
constexpr int MOST_STAGES = 12;
constexpr int BARRIERS = 8 * (2 * MOST_STAGES + 1);
static_assert(ROWS % 16 == 0 && GENERAL && !BATCHED);

// 16 bytes, or zeros where there are none.
__device__ inline void copy(uint32_t to, const Element *from, bool there) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}

// An arrival when all copies of this thread are done.
__device__ inline void barrier_arrive_copied(uint32_t barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

__device__ inline uint32_t address_in(uint32_t address, uint32_t rank) {
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ inline void wait_for_cluster(uint32_t barrier) {
    uint32_t done;
    do {
        asm volatile("{\n.reg .pred done;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, done;\n}"
                     : "=r"(done)
                     : "r"(barrier)
                     : "memory");
    } while (!done);
}

// Which part of the work a workgroup has.
struct Division {
    int parts, rounds, part, teams, team, begin, steps;
    uint32_t first_rank;  // in the cluster, of its team
    __device__ Division(int division, int k) : parts(division & 15), rounds(division >> 8) {
        uint32_t rank;
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        part = rank % parts, first_rank = rank - part;
        teams = gridDim.x / parts;
        team = blockIdx.x / CLUSTER * (CLUSTER / parts) + rank / parts;
        const int all = (k + DEPTH - 1) / DEPTH;
        begin = part * all / parts, steps = (part + 1) * all / parts - begin;
    }
};

// A place in the ring, and the parity of the round.
template <int STAGES> struct Place {
    int stage = 0;
    uint32_t phase = 0;
    __device__ inline void next() {
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
};

// What one product has of its own.
struct Own {
    const Element *weights;
    Result *out;
    int n;
    Behind behind;
};

// `of_tile` finds the product that a tile of so many columns is of by its first column among all,
// which becomes that among its own; `all` are the columns of all tiles.
template <int G, typename OfTile>
__device__ inline void compute(const Element *a, const OfTile &of_tile, int m, int all, int k,
                               uint32_t memory, int division) {
    constexpr int STEP_BYTES = G * BLOCK_BYTES + ROW_BYTES;
    // Behind the ring: sums of all parts, [part][ROWS][columns and 4, which keep banks apart].
    constexpr int SUMS_BYTES = ROWS * (64 * G + 4 * CLUSTER) * 4;
    constexpr int FITTING = (ROOM - BARRIERS - SUMS_BYTES) / STEP_BYTES;
    constexpr int STAGES = FITTING > MOST_STAGES ? MOST_STAGES : FITTING;
    static_assert(STAGES >= 3);
    const uint32_t ring = memory, summed = ring + STAGES * STEP_BYTES;
    const uint32_t full = memory + ROOM - BARRIERS, empty = full + 8 * MOST_STAGES;
    const uint32_t written = empty + 8 * MOST_STAGES;
    const Division mine(division, k);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(full + 8 * stage, THREADS);
            barrier_init(empty + 8 * stage, 4);  // each warp
        }
        barrier_init(written, 4 * mine.parts);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (mine.parts > 1) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    const int lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    Place<STAGES> place;

    if (warp >= 4) {
        // A thread always copies the same 16 bytes of a line.
        const int piece = threadIdx.x % 8, line = threadIdx.x % THREADS / 8;
        const uint32_t within = line * 128 + ((piece ^ (line % 8)) << 4);
        for (int round = 0; round < mine.rounds; ++round) {
            int first = (round * mine.teams + mine.team) * 64 * G;
            if (first >= all) break;
            const Own own = of_tile(first, 64 * G);
            const Element *weights = own.weights;
            const int n = WEIGHTS_KN ? own.n : own.behind.weights_columns();
            for (int step = 0; step < mine.steps; ++step) {
                const int depth = (mine.begin + step) * DEPTH;
                const uint32_t to = ring + place.stage * STEP_BYTES + within;
                barrier_wait(empty + 8 * place.stage, place.phase ^ 1);
                const Element *row = a + static_cast<size_t>(line) * k + depth + 8 * piece;
#pragma unroll
                for (int each = 0; each < ROWS / 16; ++each) {
                    const bool there = line + 16 * each < m && depth + 8 * piece < k;
                    copy(to + 2048 * each, there ? row : a, there);
                    row += 16 * static_cast<size_t>(k);
                }
                if constexpr (WEIGHTS_KN) {
                    const Element *from =
                        weights + static_cast<size_t>(depth + line) * n + first + 8 * piece;
#pragma unroll
                    for (int each = 0; each < 4; ++each) {
#pragma unroll
                        for (int block = 0; block < G; ++block) {
                            const bool there = depth + line + 16 * each < k &&
                                               first + 64 * block + 8 * piece < n;
                            copy(to + ROW_BYTES + block * BLOCK_BYTES + 2048 * each,
                                 there ? from + 64 * block : weights, there);
                        }
                        from += 16 * static_cast<size_t>(n);
                    }
                } else {
                    const Element *from =
                        weights + static_cast<size_t>(first + line) * k + depth + 8 * piece;
#pragma unroll
                    for (int each = 0; each < 4 * G; ++each) {
                        const bool there = depth + 8 * piece < k && first + line + 16 * each < n;
                        copy(to + ROW_BYTES + 2048 * each, there ? from : weights, there);
                        from += 16 * static_cast<size_t>(k);
                    }
                }
                barrier_arrive_copied(full + 8 * place.stage);
                place.next();
            }
        }
        if (mine.parts > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        return;
    }

    for (int round = 0; round < mine.rounds; ++round) {
        int first = (round * mine.teams + mine.team) * 64 * G;
        if (first >= all) break;
        const Own own = of_tile(first, 64 * G);
        Result *const out = own.out;
        const int n = own.n;
        const Behind behind = own.behind;
        float sums[G][ROWS / 2];
#pragma unroll
        for (int block = 0; block < G; ++block) {
#pragma unroll
            for (int each = 0; each < ROWS / 2; ++each) sums[block][each] = 0;
        }
        int last = -1;
        for (int step = 0; step < mine.steps; ++step) {
            const uint32_t from = ring + place.stage * STEP_BYTES;
            barrier_wait(full + 8 * place.stage, place.phase);
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            const uint64_t right = descriptor(from, 1, 64);
            const uint64_t left = WEIGHTS_KN ? descriptor(from + ROW_BYTES, 512, 64)
                                             : descriptor(from + ROW_BYTES, 1, 64);
            wgmma_begin();
#pragma unroll
            for (int quarter = 0; quarter < 4; ++quarter) {
#pragma unroll
                for (int block = 0; block < G; ++block)
                    Turned<ELEMENT, WEIGHTS_KN, ROWS>::multiply(
                        sums[block], left + 512 * block + (WEIGHTS_KN ? 128 : 2) * quarter,
                        right + 2 * quarter, 1);
            }
            wgmma_commit();
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (last >= 0 && lane == 0) barrier_arrive(empty + 8 * last);
            last = place.stage;
            place.next();
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
        for (int block = 0; block < G; ++block) {
#pragma unroll
            for (int each = 0; each < ROWS / 2; ++each)
                asm volatile("" : "+f"(sums[block][each])::"memory");
        }
        if (last >= 0 && lane == 0) barrier_arrive(empty + 8 * last);

        const int share = 64 * G / mine.parts, pitch = share + 4;  // of columns that one adds up
        if (mine.parts > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#pragma unroll
        for (int block = 0; block < G; ++block) {
            const int column = 64 * block + 16 * warp, whose = column / share;
            const int at = (mine.part * ROWS + lane % 4 * 2) * pitch + column - whose * share + lane / 4;
            const uint32_t to = address_in(summed + 4 * at, mine.first_rank + whose);
#pragma unroll
            for (int each = 0; each < ROWS / 2; ++each) {
                const int row = each / 4 * 8 + each % 2, beside = each % 4 >= 2 ? 8 : 0;
                asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to + 4 * (row * pitch + beside)),
                             "f"(sums[block][each])
                             : "memory");
            }
        }
        if (mine.parts > 1) {
            __syncwarp();
            if (lane < mine.parts)
                asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                                 address_in(written, mine.first_rank + lane))
                             : "memory");
            wait_for_cluster(written);
        } else {
            sync_warpgroup(0);
        }
        const int fours = share / 4;
#pragma unroll 2
        for (int item = threadIdx.x; item < m * fours; item += THREADS) {
            const int row = item / fours, its = item % fours * 4;
            const int to = first + mine.part * share + its;
            if (to >= n) continue;
            float2 low = make_float2(0, 0), high = make_float2(0, 0);
#pragma unroll
            for (int each = 0; each < CLUSTER; ++each) {
                float4 sum = make_float4(0, 0, 0, 0);
                if (each < mine.parts)
                    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                                 : "=f"(sum.x), "=f"(sum.y), "=f"(sum.z), "=f"(sum.w)
                                 : "r"(summed + 4 * ((each * ROWS + row) * pitch + its))
                                 : "memory");
                low.x += sum.x, low.y += sum.y, high.x += sum.z, high.y += sum.w;
            }
            const size_t there = static_cast<size_t>(row) * n + to;
            write_two(out, there, behind.done(low, row, to, there));
            write_two(out, there + 2, behind.done(high, row, to + 2, there + 2));
        }
        sync_warpgroup(0);  // All have read the sums.
    }
}

extern "C" __global__ void __launch_bounds__(2 * THREADS, RESIDENT) __cluster_dims__(CLUSTER, 1, 1)
    NAME(PARAMETERS, int division) {
    UNREAD
    extern __shared__ char memory[];
    const uint32_t begin = (shared_address(memory) + 1023) & ~1023u;
#if JOINED
    const Widths widths = WIDTHS;
    const auto of_tile = [&](int &first, int tile) {
        const int own = widths.find(first, tile), columns = OWN(own, n);
        const float lowest = __int_as_float(0xff800000);
        const Behind behind(OWN(own, bias), nullptr, nullptr, columns, biased >> own & 1, 1, 1.0f, 1.0f,
                            lowest, 0.0f);
        return Own{OWN(own, weights), OWN(own, out), columns, behind};
    };
    const int narrow = widths.all(64), wide = widths.all(64 * MOST);
#else
    const Behind behind(REQUESTED);
    const auto of_tile = [&](int &, int) { return Own{weights, out, n, behind}; };
    const int narrow = n, wide = n;
#endif
    if (MOST > 1 && (division >> 4 & 15) == 1)
        return compute<1>(a, of_tile, m, narrow, k, begin, division);
    compute<MOST>(a, of_tile, m, wide, k, begin, division);
}
