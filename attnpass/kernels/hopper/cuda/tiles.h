// The tiles of a result, and the ring that operands arrive in: of kernels with ROWS rows and
// OUT_COLUMNS columns of the result in a tile, BAND tiles of rows that are gone through together, and
// STAGES places in the ring.
#pragma once

// A place in a ring, and the parity of the round.
struct Place {
    int stage = 0;
    uint32_t phase = 0;
    __device__ inline void next() {
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
};

struct Tiles {
    int row_tiles, column_tiles, count;
    __device__ Tiles(int m, int n)
        : row_tiles((m + ROWS - 1) / ROWS),
          column_tiles((n + OUT_COLUMNS - 1) / OUT_COLUMNS),
          count(row_tiles * column_tiles) {}
    // First row and column of a tile: bands of rows, so that what runs at once shares operands.
    __device__ inline void at(int number, int &row, int &column) const {
        const int in_band = BAND * column_tiles;
        const int band = number / in_band;
        const int rest = number - band * in_band;
        const int height = min(row_tiles - band * BAND, BAND);
        const int across = rest / height;
        row = (band * BAND + rest - across * height) * ROWS;
        column = across * OUT_COLUMNS;
    }
};
