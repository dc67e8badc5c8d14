// Products for Hopper (sm_90a) in tiles of many heights: out = f(a x weights), f16 or bf16, f32 sums.
//
// The product is turned: columns of the weights are the 64 rows of wgmma, rows of `a` its columns,
// of which there may be any multiple of 8. A kernel has code for several tiles, 256 or 128 columns
// wide, and takes the one that is done soonest with as many rows and columns as there are: which
// fills the last wave of workgroups best. So it does not need to know them when it is compiled.
//
// Persistent and warp-specialised, as product.cu is: one thread loads tiles by the tensor memory
// accelerator (TMA) into a ring, two warpgroups multiply 64 or 128 columns each. Behind a tile's
// operands, one or two stages of the ring take its result: sums are turned back on their way there
// (stmatrix), where what is added to them or multiplied with them lies by then, and another warp
// stores them, so that nobody who multiplies waits for that.
//
// Set by the build: ELEMENT (0 f16, 1 bf16), WEIGHTS_KN (weights are (k, n), else (n, k)), TILES(EACH)
// (those that there are: EACH(number, blocks of 128 columns, blocks of rows, rows of each)), IDLE,
// OF_SUM, OF_END and BEHIND (what they take, see the choice), BIAS, ACTIVATION (0 none, 1 GELU, 2 GELU
// by tanh, 3 SiLU), OTHER (0 none, 1 adds a tensor like `out`, 2 multiplies with it), NAME. FORCED ones,
// for tests, take the tile that the bits of k from 20 on say, less one; else they choose. JOINED ones
// compute so many products of the same rows, see joined.h.

#include "epilogue.h"
#include "tma.h"
#include "turned.h"
#include "wgmma.h"

constexpr int HALVES = 2;   // multiplying warpgroups
constexpr int DEPTH = 64;   // 128 bytes of a row, one swizzled line
constexpr int MOST = 192;   // sums of a thread: of the second block of columns from MOST / 2 on
constexpr int KIND = ELEMENT ? 10 : 6;  // the memory engine's number for the type
constexpr int GRANULE = 16;  // rows that are turned together: 16 x 64 of a warpgroup
constexpr int GRANULE_BYTES = GRANULE * 128;
// a, weights, other, out, and one that is not used; of joined ones a, and weights and out of each.
constexpr int MAPS = JOINED ? 1 + 2 * JOINED : 5;
constexpr int MOST_STAGES = 8;
constexpr int ENDS = MAPS * 128 + 3 * 8 * MOST_STAGES;
constexpr int RING_BYTES = (232448 - 1023 - ENDS) / 1024 * 1024;
static_assert(ELEMENT != 2 && !GATED && !GENERAL && !(JOINED && OTHER));
#if JOINED
#include "joined.h"
using Columns = Widths;
#else
using Columns = int;
#endif

__host__ __device__ constexpr int stage_bytes(int columns, int rows) { return (columns + rows) * 128; }
__host__ __device__ constexpr int stages_of(int columns, int rows) {
    const int most = RING_BYTES / stage_bytes(columns, rows);
    return most < MOST_STAGES ? most : MOST_STAGES;
}

// A place in a ring, and the parity of the round.
struct Place {
    int stage = 0;
    uint32_t phase = 0;
    __device__ inline void next(int stages) {
        if (++stage == stages) stage = 0, phase ^= 1;
    }
};

// A tile is 128 or, `wide`, 256 columns: one or two blocks of 64 for each warpgroup. It has `height`
// rows, those of one instruction, or, `tall`, twice as many.
struct Tiles {
    int number, height, rows, columns, row_tiles, column_tiles, count, band;
    bool wide, tall;
    // The tile whose waves take the least time, in picoseconds.
    __device__ Tiles(int m, const Columns &n, int k, int chosen = 0) {
        const int lane = threadIdx.x % 32;
        int shape = 0;
#define MINE(NUMBER, ACROSS, DOWN, ROWS) \
    if (lane == NUMBER) shape = ROWS << 2 | (DOWN - 1) << 1 | (ACROSS - 1);
        TILES(MINE)
#undef MINE
        measure(shape ? shape : 1 << 2, m, n);
        // As attnpass/kernels/hopper/product_speed.py has it, in picoseconds.
        const float sums = columns * rows, ends = columns + rows;
        const int whole = (count + gridDim.x - 1) / gridDim.x;
        const float waves = (1 - IDLE) * whole + IDLE * __fdividef(count, gridDim.x);
        const float time = waves * (k * (OF_SUM * sums + OF_END * ends) + BEHIND * sums);
        const uint32_t mine = shape ? (__float_as_uint(time) & ~31u) | lane : 0xffffffff;
        uint32_t least;
        asm volatile("redux.sync.min.u32 %0, %1, 0xffffffff;" : "=r"(least) : "r"(mine));
        number = chosen ? chosen - 1 : least & 31;
        measure(__shfl_sync(0xffffffff, shape, number), m, n);
        band = 2304 / rows;
    }
    __device__ inline void measure(int shape, int m, const Columns &n) {
        wide = shape & 1, tall = shape & 2, height = shape >> 2;
        columns = wide ? 256 : 128;
        rows = tall ? 2 * height : height;
        row_tiles = (m + rows - 1) / rows;
#if JOINED
        column_tiles = n.all(columns) / columns;
#else
        column_tiles = (n + columns - 1) / columns;
#endif
        count = row_tiles * column_tiles;
    }
    // Where a part of the result lies in a tile.
    __device__ inline int column_of(int half, int part) const {
        return wide ? 128 * half + 64 * part : 64 * half;
    }
    __device__ inline int row_of(int part) const { return wide ? 0 : height * part; }
    // First row and column of a tile: bands of rows, so that what runs at once shares operands.
    __device__ inline void at(int tile, int &row, int &column) const {
        const int in_band = band * column_tiles;
        const int which = tile / in_band;
        const int rest = tile - which * in_band;
        const int height = min(row_tiles - which * band, band);
        const int across = rest / height;
        row = (which * band + rest - across * height) * rows;
        column = across * columns;
    }
};

__device__ inline void load_turned(uint32_t (&words)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from)
                 : "memory");
}

__device__ inline void store_turned(uint32_t to, const uint32_t (&words)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

// One tile's sums, of a warpgroup: blocks of columns or of rows, the second from MOST / 2 on.
template <int ACROSS, int DOWN, int ROWS>
__device__ inline void multiply_tile(float (&sums)[MOST], Place &place, uint32_t ring, uint32_t full,
                                     uint32_t empty, int half, int depths) {
    constexpr int COLUMNS = 128 * ACROSS;
    constexpr int STAGE = stage_bytes(COLUMNS, DOWN * ROWS);
    constexpr int STAGES = stages_of(COLUMNS, DOWN * ROWS);
    // A result's part, for both warpgroups, must fit into a stage.
    static_assert(STAGES >= 4 && ROWS <= MOST && HALVES * ((ROWS + 15) / 16) * 2048 <= STAGE);
    static_assert(ACROSS == 1 || DOWN == 1);
    const int lane = threadIdx.x % 32;
    int last = 0;
    for (int depth = 0; depth < depths; ++depth) {
        const uint32_t at = ring + place.stage * STAGE;
        barrier_wait(full + 8 * place.stage, place.phase);
        const uint32_t mine = at + ACROSS * half * 8192;
        const uint64_t left = WEIGHTS_KN ? descriptor(mine, 512, 64) : descriptor(mine, 1, 64);
        const uint64_t right = descriptor(at + COLUMNS * 128, 1, 64);
        wgmma_begin();
#pragma unroll
        for (int part = 0; part < 4; ++part) {
#pragma unroll
            for (int block = 0; block < ACROSS * DOWN; ++block)
                Turned<ELEMENT, WEIGHTS_KN, ROWS>::multiply(
                    sums + MOST / 2 * block,
                    left + (ACROSS == 2 ? 512 * block : 0) + (WEIGHTS_KN ? 128 : 2) * part,
                    right + (DOWN == 2 ? 8 * ROWS * block : 0) + 2 * part, depth || part);
        }
        wgmma_commit();
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (depth && lane == 0) barrier_arrive(empty + 8 * last);
        last = place.stage;
        place.next(STAGES);
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int each = 0; each < MOST; ++each) asm volatile("" : "+f"(sums[each])::"memory");
    if (lane == 0) barrier_arrive(empty + 8 * last);
}

extern "C" __global__ void __launch_bounds__(384, 1) NAME(PARAMETERS) {
    UNREAD
    extern __shared__ char memory[];
    const uint32_t ring = (shared_address(memory) + 1023) & ~1023u;
    const uint32_t making = ring + RING_BYTES;
    const uint32_t full = making + MAPS * 128;
    const uint32_t empty = full + 8 * MOST_STAGES;
    const uint32_t results = empty + 8 * MOST_STAGES;
    // Uniform for the compiler, too; else no part gets more registers than the kernel starts with.
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    const int group = warp / 4;

#ifdef FORCED
    const Tiles all(m, n, k & 0xfffff, k >> 20);
    k &= 0xfffff;
#elif JOINED
    const Widths widths = WIDTHS;
    const Tiles all(m, widths, k);
#else
    const Tiles all(m, n, k);
#endif
    const bool wide = all.wide;
    // A result takes a stage for each block of its columns or of its rows.
    const int parts = wide || all.tall ? 2 : 1;
    const int half_bytes = (all.height + GRANULE - 1) / GRANULE * GRANULE_BYTES;
    char *maps = scratch + static_cast<size_t>(blockIdx.x) * (MAPS * 128);
    if (warp == 0) describe<KIND>(maps, making, a, k, m, DEPTH, all.rows);
#if JOINED
    if (warp && warp < MAPS) {
        const int own = (warp - 1) / 2, at = 128 * warp, columns = OWN(own, n);
        if (warp % 2 == 0)
            describe<KIND>(maps + at, making + at, OWN(own, out), columns, m, 64, all.height);
        else if (WEIGHTS_KN)
            describe<KIND>(maps + at, making + at, OWN(own, weights), columns, k, 64, DEPTH);
        else
            describe<KIND>(maps + at, making + at, OWN(own, weights), k, columns, DEPTH, all.columns);
    }
#else
    if (warp == 1) {
        if (WEIGHTS_KN)
            describe<KIND>(maps + 128, making + 128, weights, n, k, 64, DEPTH);
        else
            describe<KIND>(maps + 128, making + 128, weights, k, n, DEPTH, all.columns);
    }
    if (OTHER && warp == 2)
        describe<KIND>(maps + 256, making + 256, other, n, m, 64, all.height);
    if (warp == 3) describe<KIND>(maps + 384, making + 384, out, n, m, 64, all.height);
#endif
    const int stages = stages_of(all.columns, all.rows);
    if (threadIdx.x == 160) {
        for (int stage = 0; stage < stages; ++stage) {
            barrier_init(full + 8 * stage, 1);
            barrier_init(empty + 8 * stage, HALVES * 4);  // each warp
            barrier_init(results + 8 * stage, HALVES * 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    const int stage_size = stage_bytes(all.columns, all.rows);
    const int depths = (k + DEPTH - 1) / DEPTH;
    __syncthreads();

    Place place;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            acquire(maps);
            for (int own = 0; own < (JOINED ? JOINED : 1); ++own) acquire(maps + 128 + 256 * own);
            for (int tile = blockIdx.x; tile < all.count; tile += gridDim.x) {
                int row, column;
                all.at(tile, row, column);
#if JOINED
                const char *weights_map = maps + 128 + 256 * widths.find(column, all.columns);
#else
                const char *weights_map = maps + 128;
#endif
                for (int depth = 0; depth < depths * DEPTH; depth += DEPTH) {
                    const uint32_t barrier = full + 8 * place.stage;
                    const uint32_t to = ring + place.stage * stage_size;
                    barrier_wait(empty + 8 * place.stage, place.phase ^ 1);
                    barrier_expect(barrier, stage_size);
                    load(to + 128 * all.columns, maps, barrier, depth, row);
                    if constexpr (WEIGHTS_KN) {
                        for (int block = 0; block < all.columns / 64; ++block)
                            load(to + 8192 * block, weights_map, barrier, column + 64 * block, depth);
                    } else {
                        load(to, weights_map, barrier, depth, column);
                    }
                    place.next(stages);
                }
                if (OTHER && tile == blockIdx.x) acquire(maps + 256);
                for (int part = 0; part < parts; ++part) {
                    const uint32_t barrier = full + 8 * place.stage;
                    const uint32_t to = ring + place.stage * stage_size;
                    barrier_wait(empty + 8 * place.stage, place.phase ^ 1);
                    if (OTHER) {
                        barrier_expect(barrier, HALVES * 128 * all.height);
                        for (int half = 0; half < HALVES; ++half)
                            load(to + half * half_bytes, maps + 256, barrier,
                                 column + all.column_of(half, part), row + all.row_of(part));
                    } else {
                        barrier_arrive(barrier);
                    }
                    place.next(stages);
                }
            }
        } else if (threadIdx.x == 32) {
#if JOINED
            for (int own = 0; own < JOINED; ++own) acquire(maps + 256 + 256 * own);
#else
            acquire(maps + 384);
#endif
            uint32_t phases = 0;  // a bit for each stage
            for (int tile = blockIdx.x; tile < all.count; tile += gridDim.x) {
                int row, column;
                all.at(tile, row, column);
#if JOINED
                const int own = widths.find(column, all.columns);
                const int columns = OWN(own, n);
                const char *out_map = maps + 256 + 256 * own;
#else
                const int columns = n;
                const char *out_map = maps + 384;
#endif
                place.stage = (place.stage + depths) % stages;
                for (int part = 0; part < parts; ++part) {
                    const uint32_t from = ring + place.stage * stage_size;
                    barrier_wait(results + 8 * place.stage, phases >> place.stage & 1);
                    phases ^= 1 << place.stage;
                    for (int half = 0; half < HALVES; ++half) {
                        const int at = column + all.column_of(half, part);
                        const int line = row + all.row_of(part);
                        if (at < columns && line < m)
                            store(out_map, from + half * half_bytes, at, line);
                    }
                    commit_store();
                    wait_for_stores<0>();
                    for (int each = 0; each < HALVES * 4; ++each)
                        barrier_arrive(empty + 8 * place.stage);
                    place.next(stages);
                }
            }
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        }
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int half = group - 1;
        const int lane = threadIdx.x % 32;
        // Where a lane's row of an 8 x 8 matrix lies in a granule: 16 rows of 64 columns, swizzled.
        const int matrix_row = lane / 16 * 8 + lane % 8;
        const int unit = warp % 4 * 2 + lane / 8 % 2;
        const uint32_t in_granule = matrix_row * 128 + ((unit ^ (lane % 8)) << 4);
        // Defined from the start: else ptxas 12 has each product wait for the one before.
        float sums[MOST];
#pragma unroll
        for (int each = 0; each < MOST; ++each) sums[each] = 0;
        for (int tile = blockIdx.x; tile < all.count; tile += gridDim.x) {
            int row, column;
            all.at(tile, row, column);
#if JOINED
            const int own = widths.find(column, all.columns);
            const int columns = biased >> own & 1 ? OWN(own, n) : 0;
            const Element *line = OWN(own, bias);
#elif BIAS
            const int columns = n;
            const Element *line = bias;
#endif
            column += all.columns / HALVES * half;
#if BIAS
            // Of the two columns of a thread in each block.
            const int first = column + warp % 4 * 16 + lane / 4;
            float shifts[4];
#pragma unroll
            for (int each = 0; each < 4; ++each) {
                const int at = first + 8 * (each % 2) + (wide ? 64 * (each / 2) : 0);
                shifts[each] = at < columns ? static_cast<float>(__ldg(line + at)) : 0.0f;
            }
#endif
            switch (all.number) {
#define CASE(NUMBER, ACROSS, DOWN, ROWS)                                                       \
    case NUMBER:                                                                               \
        multiply_tile<ACROSS, DOWN, ROWS>(sums, place, ring, full, empty, half, depths);       \
        break;
                TILES(CASE)
#undef CASE
            }
            const int granules = (all.height + GRANULE - 1) / GRANULE;  // of a block
            uint32_t to = 0;
            const auto begin = [&] {
                barrier_wait(full + 8 * place.stage, place.phase);
                to = ring + place.stage * stage_size + half * half_bytes + in_granule;
            };
            const auto end = [&] {
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                __syncwarp();
                if (lane == 0) barrier_arrive(results + 8 * place.stage);
                place.next(stages);
            };
            begin();
#pragma unroll
            for (int granule = 0; granule < MOST / 8; ++granule) {
                const bool beyond = granule >= MOST / 16;  // in the second block
                if (beyond ? parts == 1 || granule - MOST / 16 >= granules : granule >= granules)
                    continue;
                if (granule == MOST / 16) end(), begin();
                float2 made[4];  // of two rows, which share their column
#pragma unroll
                for (int word = 0; word < 4; ++word) {
                    const int at = 8 * granule + 2 * word, line = 2 * beyond + word % 2;
                    const float2 sum = make_float2(sums[at], sums[at + 1]);
#if BIAS
                    made[word] = make_float2(activate(sum.x + shifts[line]), activate(sum.y + shifts[line]));
#else
                    made[word] = make_float2(activate(sum.x), activate(sum.y));
#endif
                }
                if (OTHER) {
                    uint32_t given[4];
                    load_turned(given, to);
#pragma unroll
                    for (int word = 0; word < 4; ++word) {
                        const float2 there = unpack(given[word]);
                        const float2 sum = make_float2(made[word].x + there.x, made[word].y + there.y);
                        const float2 product =
                            make_float2(made[word].x * there.x, made[word].y * there.y);
                        made[word] = OTHER == 2 ? product : sum;
                    }
                }
                uint32_t words[4];
#pragma unroll
                for (int word = 0; word < 4; ++word) words[word] = pack(made[word].x, made[word].y);
                store_turned(to, words);
                to += GRANULE_BYTES;
            }
            end();
        }
    }
}
