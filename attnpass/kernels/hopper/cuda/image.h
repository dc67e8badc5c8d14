// Rows of a product that are patches of images, which lie as (image, y, x, channel):
//
//     row (image, y, x), depth (tap y, tap x, channel) = images[image, y * step + tap y * gap - top,
//                                                               x * step + tap x * gap - left, channel]
//
// 0 beyond the images' sides. The memory engine reads them where they lie. A tile is a box of the
// result's pixels: each block of its `height` rows is `across` pixels of `down` lines, the next one lies
// below. What of it is beyond the result's sides is not written. A step of the depth is 64 channels of a
// tap; behind the last channel they are 0.
#pragma once

#define IMAGE_PARAMETERS                                                                       \
    , int channels, int image_width, int image_height, int width, int height, int taps_across,     \
        int taps, int step_x, int step_y, int gap_x, int gap_y, int left, int top
#define IMAGE(shape, m)                                                                        \
    Image { channels, image_width, image_height, width, height, taps_across, taps, step_x, step_y,   \
            gap_x, gap_y, left, top, m / (width * height), shape >> 16 }

// Sets what dim DIM of a descriptor is, which has this one as its last; `bytes` are between elements.
template <int DIM>
__device__ inline void describe_last(uint32_t made, int size, int box, int step, size_t bytes) {
    asm volatile("{\n.reg .b64 map;\ncvt.u64.u32 map, %0;\n"
                 "tensormap.replace.tile.rank.shared::cta.b1024.b32 [map], %5;\n"
                 "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], %5, %2;\n"
                 "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], %5, %1;\n"
                 "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [map], %6, %4;\n"
                 "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [map], %5, %3;\n}" ::"r"(
                     made),
                 "r"(size), "r"(box), "r"(step), "l"(static_cast<uint64_t>(bytes)), "n"(DIM), "n"(DIM - 1)
                 : "memory");
}

// A pixel of the result, or of an image.
struct Pixel {
    int x, y, image;
};

struct Image {
    int channels, image_width, image_height, width, height, taps_across, taps;
    int step_x, step_y, gap_x, gap_y, left, top, images, across;

    __device__ inline int depths() const { return taps * ((channels + 63) / 64); }
    __device__ inline int down(int rows) const { return rows / across; }
    __device__ inline int boxes_across() const { return (width + across - 1) / across; }
    __device__ inline int boxes(int rows) const {
        return boxes_across() * ((height + down(rows) - 1) / down(rows));
    }
    // Where the tile begins that has this row as its first, if all tiles' rows are counted.
    __device__ inline Pixel first(int row, int rows) const {
        const int tile = row / rows, image = tile / boxes(rows), box = tile - image * boxes(rows);
        const int line = box / boxes_across();
        return {(box - line * boxes_across()) * across, line * down(rows), image};
    }

    // Descriptors of the images, in boxes of a tile's rows, of weights (column, tap, channel), and of
    // tensors like the result, in boxes of blocks of rows.
    template <int KIND>
    __device__ inline void describe_rows(char *there, uint32_t made, const void *from, int rows) const {
        const size_t pixel = 2 * static_cast<size_t>(channels), line = pixel * image_width;
        describe<KIND>(there, made, from, channels, image_width, 64, across, pixel, [&] {
            describe_last<1>(made, image_width, across * step_x, step_x, pixel);
            describe_last<2>(made, image_height, down(rows) * step_y, step_y, line);
            describe_last<3>(made, images, 1, 1, line * image_height);
        });
    }
    template <int KIND>
    __device__ inline void describe_taps(char *there, uint32_t made, const void *from, int n,
                                         int columns) const {
        const size_t tap = 2 * static_cast<size_t>(channels);
        describe<KIND>(there, made, from, channels, taps, 64, 1, tap,
                       [&] { describe_last<2>(made, n, columns, 1, tap * taps); });
    }
    template <int KIND>
    __device__ inline void describe_result(char *there, uint32_t made, const void *from, int n,
                                           int rows) const {
        const size_t pixel = 2 * static_cast<size_t>(n), line = pixel * width;
        describe<KIND>(there, made, from, n, width, 64, across, pixel, [&] {
            describe_last<2>(made, height, down(rows), 1, line);
            describe_last<3>(made, images, 1, 1, line * height);
        });
    }
};

__device__ inline void load(uint32_t to, const char *map, uint32_t barrier, int column, Pixel from) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(column), "r"(from.x), "r"(from.y), "r"(from.image)
                 : "memory");
}

__device__ inline void load(uint32_t to, const char *map, uint32_t barrier, int channel, int tap,
                            int column) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(channel), "r"(tap), "r"(column)
                 : "memory");
}

__device__ inline void store(const char *map, uint32_t from, int column, Pixel to) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
                     map),
                 "r"(from), "r"(column), "r"(to.x), "r"(to.y), "r"(to.image)
                 : "memory");
}

// The steps of a tile's depth, one after the other: a division for each would take as long as a small
// tile's products.
struct Steps {
    const Image &of;
    Pixel at{};
    int channel = 0, tap = 0, tap_x = 0;

    __device__ inline void begin(Pixel first) {
        at = {first.x * of.step_x - of.left, first.y * of.step_y - of.top, first.image};
        channel = tap = tap_x = 0;
    }
    __device__ inline void next() {
        channel += 64;
        if (channel < of.channels) return;
        channel = 0, ++tap, ++tap_x;
        at.x += of.gap_x;
        if (tap_x < of.taps_across) return;
        tap_x = 0;
        at.x -= of.taps_across * of.gap_x;
        at.y += of.gap_y;
    }
};
