// Products for Hopper (sm_90a) in tiles of many heights: out = f(a x weights), f16 or bf16, f32 sums.
//
// The product is turned: columns of the weights are the 64 rows of wgmma, rows of `a` its columns,
// of which there may be any multiple of 8. A kernel has code for several tiles, 256, 128 or 64 columns
// wide. It is told which to take (`shape`), or, where that is 0, takes the one that is done soonest
// with as many rows and columns as there are: which fills the last wave of workgroups best. So it
// does not need to know them when it is compiled.
//
// Persistent and warp-specialised, as product.cu is: a warp for each operand loads its tiles by the
// tensor memory accelerator (TMA) into a ring, by a descriptor that it makes itself; two warpgroups
// multiply 64 or 128 columns each, or half of the rows. Behind a tile's operands, one or two stages of
// the ring take its result: sums are turned back on their way there (stmatrix), where what is added
// to them or multiplied with them lies by then, and another warp stores them, so that nobody who
// multiplies waits for that.
//
// Set by the build: ELEMENT (0 f16, 1 bf16), WEIGHTS_KN (weights are (k, n), else (n, k)), TILES(EACH)
// (those that there are: EACH(number, across, blocks of rows, rows of each): 2 and 1 blocks of 128
// columns across, 0: 64 columns, and a block of rows for each warpgroup), COUNT of them, RANGES(EACH)
// (the same where rows differ by 8: EACH(first number, across, blocks of rows, fewest rows of each)),
// IDLE, OF_SUM, OF_END and BEHIND (what they take, see the choice), BIAS, ACTIVATION (0 none, 1 GELU,
// 2 GELU by tanh, 3 SiLU, 6 ReLU), OTHER (0 none, 1 adds a tensor like `out`, 2 multiplies with it), NAME.
// JOINED ones compute so many products of the same rows, see joined.h. IMAGED ones compute convolutions,
// see image.h: they are told their tile, and the box that it is, from bit 16 of `shape` on.

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
#ifndef IMAGED
#define IMAGED 0
#endif
#if IMAGED
#include "image.h"
static_assert(!WEIGHTS_KN && !JOINED);
#else
#define IMAGE_PARAMETERS
#endif
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

__device__ inline float behind(float x) {
    if constexpr (ACTIVATION == 6) return x < 0.0f ? 0.0f : x;
    return activate(x);
}

// A place in a ring, and the parity of the round.
struct Place {
    int stage = 0;
    uint32_t phase = 0;
    __device__ inline void next(int stages) {
        if (++stage == stages) stage = 0, phase ^= 1;
    }
};

// A tile is 64, 128 or 256 columns: for each warpgroup one or two blocks of 64, or both have the same.
// It has `height` rows, those of one instruction, or, where it is `tall` or both have the same
// columns, twice as many.
struct Tiles {
    int number, across, height, rows, columns, row_tiles, column_tiles, count, band;
    bool tall;
#if IMAGED
    __device__ Tiles(const Image &image, int n, int shape) {
        is(shape & 0xffff, n);
        row_tiles = image.images * image.boxes(rows);
        count = row_tiles * column_tiles;
    }
#endif
    // The tile that `shape` is, or whose waves take the least time: each lane has one of these.
    __device__ Tiles(int m, const Columns &n, int k, int shape) {
        if (shape) {
            is(shape, n);
            row_tiles = (m + rows - 1) / rows;
            count = row_tiles * column_tiles;
            return;
        }
        const int lane = threadIdx.x % 32;
#define MINE(FIRST, ACROSS, DOWN, LEAST)                                                   \
    if (lane >= FIRST) shape = (LEAST + 8 * (lane - FIRST)) << 3 | (DOWN - 1) << 2 | ACROSS;
        RANGES(MINE)
#undef MINE
        shape |= lane << 11;
        is(shape, n);
        row_tiles = static_cast<uint32_t>(m + rows - 1) / static_cast<uint32_t>(rows);
        // As attnpass/kernels/hopper/product_speed.py has it, in picoseconds.
        const float sums = columns * rows, ends = columns + rows;
        const float part = __fdividef(row_tiles * column_tiles, gridDim.x);
        const float waves = (1 - IDLE) * ceilf(part * (1 - 1e-6f)) + IDLE * part;
        const float time = waves * (k * (OF_SUM * sums + OF_END * ends) + BEHIND * sums);
        const uint32_t mine = lane < COUNT ? (__float_as_uint(time) & ~31u) | lane : 0xffffffff;
        uint32_t least;
        asm volatile("redux.sync.min.u32 %0, %1, 0xffffffff;" : "=r"(least) : "r"(mine));
        row_tiles = __shfl_sync(0xffffffff, row_tiles, least & 31);
        is(__shfl_sync(0xffffffff, shape, least & 31), n);
        count = row_tiles * column_tiles;
    }
    __device__ inline void is(int shape, const Columns &n) {
        across = shape & 3, tall = shape & 4, height = shape >> 3 & 255;
        number = shape >> 11;
        columns = 64 << across;
        rows = tall || !across ? 2 * height : height;
        band = __fdividef(2304.5f, rows);
#if JOINED
        column_tiles = n.all(columns) >> (6 + across);
#else
        column_tiles = (n + columns - 1) >> (6 + across);
#endif
    }
    // A result has a part for each block of its columns or of its rows.
    __device__ inline int parts() const { return across == 2 || tall ? 2 : 1; }
    // Where a part of a warpgroup's result lies in a tile.
    __device__ inline int column_of(int half, int part) const {
        return across == 2 ? 128 * half + 64 * part : 64 * across * half;
    }
    __device__ inline int row_of(int half, int part) const {
        return height * (across ? (across == 1) * part : half);
    }
    // First row and column of a tile: bands of rows, so that what runs at once shares operands.
    __device__ inline void at(int tile, int &row, int &column) const {
        const int in_band = band * column_tiles;
        const int which = tile < in_band ? 0 : tile / in_band;
        const int rest = tile - which * in_band;
        const int height = min(row_tiles - which * band, band);
        // The quotient: half of one is more than what its division is off.
        const int over = __fdividef(rest + 0.5f, height);
        row = (which * band + rest - over * height) * rows;
        column = over * columns;
    }
};

struct Ring {
    uint32_t begin, full, empty;
    int stages, stage_size;
};

// By one thread, for each tile: `fetch` of each place in the ring that is empty for its operands, and
// `finish` of each for its result.
template <typename Fetch, typename Finish>
__device__ inline void fill(const Tiles &all, const Ring &ring, int depths, const Fetch &fetch,
                            const Finish &finish) {
    const int parts = all.parts();
    Place place;
    for (int tile = blockIdx.x; tile < all.count; tile += gridDim.x) {
        int row, column;
        all.at(tile, row, column);
        for (int step = 0; step < depths + parts; ++step) {
            const uint32_t barrier = ring.full + 8 * place.stage;
            const uint32_t to = ring.begin + place.stage * ring.stage_size;
            barrier_wait(ring.empty + 8 * place.stage, place.phase ^ 1);
            if (step < depths)
                fetch(to, barrier, step * DEPTH, row, column);
            else
                finish(to, barrier, step - depths, row, column);
            place.next(ring.stages);
        }
    }
}

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

// One tile's sums, of a warpgroup: blocks of columns or of rows, the second from MOST / 2 on; where it
// is 0 blocks across, half of the rows.
template <int ACROSS, int DOWN, int ROWS>
__device__ inline void multiply_tile(float (&sums)[MOST], Place &place, uint32_t ring, uint32_t full,
                                     uint32_t empty, int half, int depths) {
    constexpr int COLUMNS = 64 << ACROSS, ALL = (ACROSS ? DOWN : 2) * ROWS;
    constexpr int STAGE = stage_bytes(COLUMNS, ALL);
    constexpr int STAGES = stages_of(COLUMNS, ALL);
    // A result's part, for both warpgroups, must fit into a stage.
    static_assert(STAGES >= 4 && ROWS <= MOST && HALVES * ((ROWS + 15) / 16) * 2048 <= STAGE);
    static_assert(ACROSS == 1 || DOWN == 1);
    constexpr int BLOCKS = ACROSS ? ACROSS * DOWN : 1;
    const int lane = threadIdx.x % 32;
    int last = 0;
    for (int depth = 0; depth < depths; ++depth) {
        const uint32_t at = ring + place.stage * STAGE;
        barrier_wait(full + 8 * place.stage, place.phase);
        const uint32_t mine = at + ACROSS * half * 8192;
        const uint64_t left = WEIGHTS_KN ? descriptor(mine, 512, 64) : descriptor(mine, 1, 64);
        const uint64_t right = descriptor(at + COLUMNS * 128 + (ACROSS ? 0 : half * ROWS * 128), 1, 64);
        wgmma_begin();
#pragma unroll
        for (int part = 0; part < 4; ++part) {
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block)
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

extern "C" __global__ void __launch_bounds__(384, 1) NAME(PARAMETERS IMAGE_PARAMETERS) {
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

    if (threadIdx.x == 160) {
        for (int stage = 0; stage < MOST_STAGES; ++stage) {
            barrier_init(full + 8 * stage, 2);            // each operand
            barrier_init(empty + 8 * stage, HALVES * 4);  // each warp
            barrier_init(results + 8 * stage, HALVES * 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
#if JOINED
    const Widths widths = WIDTHS;
    const Tiles all(m, widths, k, shape);
#else
#if IMAGED
    const Image image = IMAGE(shape, m);
    const Tiles all(image, n, shape);
#else
    const Tiles all(m, n, k, shape);
#endif
#endif
#if IMAGED
    // Where a part of a warpgroup's result lies.
    const auto block_of = [&](int row, int half, int part) {
        Pixel first = image.first(row, all.rows);
        first.y += image.down(all.row_of(half, part));
        return first;
    };
#endif
    const int parts = all.parts();  // each takes a stage
    const int half_bytes = (all.height + GRANULE - 1) / GRANULE * GRANULE_BYTES;
    const int stages = stages_of(all.columns, all.rows);
    const int stage_size = stage_bytes(all.columns, all.rows);
#if IMAGED
    const int depths = image.depths();
#else
    const int depths = (k + DEPTH - 1) / DEPTH;
#endif
    char *maps = scratch + static_cast<size_t>(blockIdx.x) * (MAPS * 128);
    __syncthreads();

    Place place;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        const bool leads = threadIdx.x % 32 == 0;
        const Ring places{ring, full, empty, stages, stage_size};
        const auto come = [&](uint32_t, uint32_t barrier, int, int, int) { barrier_arrive(barrier); };
        const auto pass = [&](uint32_t, uint32_t, int, int, int) {};
        if (warp == 0) {
#if IMAGED
            image.describe_rows<KIND>(maps, making, a, all.rows);
            Steps steps{image};
#else
            describe<KIND>(maps, making, a, k, m, DEPTH, all.rows);
#endif
            if (leads) {
                acquire(maps);
                const auto fetch = [&](uint32_t to, uint32_t barrier, int depth, int row, int) {
                    barrier_expect(barrier, 128 * all.rows);
#if IMAGED
                    if (depth == 0) steps.begin(image.first(row, all.rows));
                    load(to + 128 * all.columns, maps, barrier, steps.channel, steps.at);
                    steps.next();
#else
                    load(to + 128 * all.columns, maps, barrier, depth, row);
#endif
                };
                if (OTHER)
                    fill(all, places, depths, fetch, pass);
                else
                    fill(all, places, depths, fetch, come);
            }
        } else if (warp == 1) {
            for (int own = 0; own < (JOINED ? JOINED : 1); ++own) {
                const int at = 128 + 256 * own;
#if JOINED
                const int columns = OWN(own, n);
                const Element *from = OWN(own, weights);
#else
                const int columns = n;
                const Element *from = weights;
#endif
#if IMAGED
                image.describe_taps<KIND>(maps + at, making + at, from, columns, all.columns);
#else
                if (WEIGHTS_KN)
                    describe<KIND>(maps + at, making + at, from, columns, k, 64, DEPTH);
                else
                    describe<KIND>(maps + at, making + at, from, k, columns, DEPTH, all.columns);
#endif
                if (leads) acquire(maps + at);
            }
#if IMAGED
            Steps steps{image};
#endif
            const auto fetch = [&](uint32_t to, uint32_t barrier, int depth, int, int column) {
#if JOINED
                const char *map = maps + 128 + 256 * widths.find(column, all.columns);
#else
                const char *map = maps + 128;
#endif
                barrier_expect(barrier, 128 * all.columns);
#if IMAGED
                if (depth == 0) steps.begin({});
                load(to, map, barrier, steps.channel, steps.tap, column);
                steps.next();
#else
                if constexpr (WEIGHTS_KN) {
                    for (int block = 0; block < all.columns / 64; ++block)
                        load(to + 8192 * block, map, barrier, column + 64 * block, depth);
                } else {
                    load(to, map, barrier, depth, column);
                }
#endif
            };
            if (leads) fill(all, places, depths, fetch, come);
        } else if (OTHER && warp == 2) {
#if IMAGED
            image.describe_result<KIND>(maps + 256, making + 256, other, n, all.height);
#else
            describe<KIND>(maps + 256, making + 256, other, n, m, 64, all.height);
#endif
            if (leads) {
                acquire(maps + 256);
                const auto finish = [&](uint32_t to, uint32_t barrier, int part, int row, int column) {
                    barrier_expect(barrier, HALVES * 128 * all.height);
                    for (int half = 0; half < HALVES; ++half)
#if IMAGED
                        load(to + half * half_bytes, maps + 256, barrier,
                             column + all.column_of(half, part), block_of(row, half, part));
#else
                        load(to + half * half_bytes, maps + 256, barrier,
                             column + all.column_of(half, part), row + all.row_of(half, part));
#endif
                };
                fill(all, places, depths, pass, finish);
            }
        } else if (warp == 3) {
            for (int own = 0; own < (JOINED ? JOINED : 1); ++own) {
                const int at = JOINED ? 256 + 256 * own : 384;
#if JOINED
                describe<KIND>(maps + at, making + at, OWN(own, out), OWN(own, n), m, 64, all.height);
#else
#if IMAGED
                image.describe_result<KIND>(maps + at, making + at, out, n, all.height);
#else
                describe<KIND>(maps + at, making + at, out, n, m, 64, all.height);
#endif
#endif
                if (leads) acquire(maps + at);
            }
            uint32_t phases = 0;  // a bit for each stage
            for (int tile = leads ? blockIdx.x : all.count; tile < all.count; tile += gridDim.x) {
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
#if IMAGED
                        if (at < columns)
                            store(out_map, from + half * half_bytes, at, block_of(row, half, part));
#else
                        const int line = row + all.row_of(half, part);
                        if (at < columns && line < m)
                            store(out_map, from + half * half_bytes, at, line);
#endif
                    }
                    commit_store();
                    wait_for_stores<0>();
                    for (int each = 0; each < HALVES * 4; ++each)
                        barrier_arrive(empty + 8 * place.stage);
                    place.next(stages);
                }
            }
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
            column += all.column_of(half, 0);
#if BIAS
            // Of the two columns of a thread in each block.
            const int first = column + warp % 4 * 16 + lane / 4;
            float shifts[4];
#pragma unroll
            for (int each = 0; each < 4; ++each) {
                const int at = first + 8 * (each % 2) + (all.across == 2 ? 64 * (each / 2) : 0);
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
                    made[word] = make_float2(behind(sum.x + shifts[line]), behind(sum.y + shifts[line]));
#else
                    made[word] = make_float2(behind(sum.x), behind(sum.y));
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
