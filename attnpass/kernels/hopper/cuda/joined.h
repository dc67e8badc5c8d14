// Products of the same rows in one launch, JOINED of them, each with weights, a bias and a result of
// its own. Tiles take their columns for those of one product, in which each begins a tile.
#pragma once

// One product's own of what has a number behind its name.
#if JOINED == 2
#define OWN(number, name) ((number) == 0 ? name : name##2)
#else
#define OWN(number, name) ((number) == 0 ? name : (number) == 1 ? name##2 : name##3)
#endif

struct Widths {
    int first, second, third;
    __device__ static inline int filled(int columns, int tile) { return (columns + tile - 1) & -tile; }
    // The columns of whole tiles, whose width is a power of two.
    __device__ inline int all(int tile) const {
        return filled(first, tile) + filled(second, tile) + filled(third, tile);
    }
    // The product that a tile is of, whose first column among all becomes that among its own.
    __device__ inline int find(int &column, int tile) const {
        if (column < filled(first, tile)) return 0;
        column -= filled(first, tile);
        if (JOINED == 2 || column < filled(second, tile)) return 1;
        column -= filled(second, tile);
        return 2;
    }
};
