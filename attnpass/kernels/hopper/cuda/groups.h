// Rows that lie group by group, each group with weights of its own.
#pragma once

// Rows `start` to `end` of a group, and its first tile.
struct Group {
    int number, start, end, first_tile;
};

// Where groups end, and how many tiles of rows there are up to there: in shared memory, 4 and 2 bytes
// a group. Behind the last is one of the rows that are left, which has no weights.
struct Groups {
    uint32_t firsts, ends;
    int groups, m;

    // `given` are the ends of `groups` groups, in any order: a row's group is the number of ends that
    // do not lie behind it. By all threads of a workgroup; 256 groups at most.
    __device__ Groups(uint32_t firsts, uint32_t ends, const int *given, int groups, int m)
        : firsts(firsts), ends(ends), groups(groups), m(m) {
        const int own = threadIdx.x, lane = own % 32;
        const bool falls = own + 1 < groups && __ldg(given + own) > __ldg(given + own + 1);
        const bool sorted = !__syncthreads_or(falls);
        if (own < groups) {
            const int end = __ldg(given + own);
            int rank = own;
            if (!sorted) {
                rank = 0;
                for (int other = 0; other < groups; ++other) {
                    const int there = __ldg(given + other);
                    rank += there < end || (there == end && other < own);
                }
            }
            put(ends + 4 * rank, max(0, min(end, m)));
        }
        __syncthreads();
        if (own < 32) {
            int before = 0, carried = 0;  // tiles, and the last group's end
            for (int base = 0; base <= groups; base += 32) {
                const int number = base + lane;
                const int end = end_of(number);
                int start = __shfl_up_sync(0xffffffff, end, 1);
                start = lane ? start : carried;
                int tiles = number <= groups ? (end - start + ROWS - 1) / ROWS : 0;
#pragma unroll
                for (int step = 1; step < 32; step *= 2) {
                    const int more = __shfl_up_sync(0xffffffff, tiles, step);
                    tiles += lane >= step ? more : 0;
                }
                if (number <= groups) put_short(firsts + 2 * number, before + tiles);
                before += __shfl_sync(0xffffffff, tiles, 31);
                carried = __shfl_sync(0xffffffff, end, 31);
            }
        }
        __syncthreads();
    }

    __device__ inline int row_tiles() const { return before(groups + 1); }

    // The group that a tile of rows and columns is of.
    __device__ inline Group of_tile(int tile, int column_tiles) const {
        const int row_tile = tile / column_tiles;
        int low = 0, high = groups;  // The first group with more tiles up to its end.
        while (low < high) {
            const int middle = (low + high) / 2;
            if (before(middle + 1) > row_tile)
                high = middle;
            else
                low = middle + 1;
        }
        const int start = low ? end_of(low - 1) : 0;
        return {low, start, end_of(low), before(low) * column_tiles};
    }

  private:
    __device__ inline int end_of(int group) const {
        return group < groups ? get(ends + 4 * group) : m;
    }
    // Tiles of rows before a group.
    __device__ inline int before(int group) const {
        uint16_t tiles = 0;
        if (group)
            asm volatile("ld.shared.u16 %0, [%1];" : "=h"(tiles) : "r"(firsts + 2 * (group - 1)));
        return tiles;
    }
    __device__ static inline int get(uint32_t from) {
        int value;
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(from));
        return value;
    }
    __device__ static inline void put(uint32_t to, int value) {
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
    }
    __device__ static inline void put_short(uint32_t to, int value) {
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(static_cast<uint16_t>(value))
                     : "memory");
    }
};

// Writes what a warpgroup has in shared memory, 64 rows and columns as the memory engine swizzles them,
// but for rows from `end` on and columns from `n` on.
__device__ inline void write_some(const char *from, Written *out, int row, int end, int column,
                                  int n, int thread) {
#pragma unroll
    for (int each = 0; each < 4; ++each) {
        const int line = thread / 8 + 16 * each, unit = thread % 8;
        if (row + line < end && column + 8 * unit < n) {
            const int4 eight =
                *reinterpret_cast<const int4 *>(from + 128 * line + ((unit ^ line % 8) << 4));
            const size_t place = static_cast<size_t>(row + line) * n + column + 8 * unit;
            *reinterpret_cast<int4 *>(out + place) = eight;
        }
    }
}

// Rows behind the last group are 0: 64 of them, up to `end`, and the columns up to `last`.
__device__ inline void write_zeros(Written *out, int row, int end, int column, int last, int n,
                                   int thread) {
    for (int line = row + thread / 8; line < min(row + 64, end); line += 16)
        for (int at = column + thread % 8 * 8; at < last; at += 64)
            *reinterpret_cast<int4 *>(out + static_cast<size_t>(line) * n + at) = {};
}
