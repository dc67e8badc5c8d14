// What kernels for attention share: elements, where operands lie, which keys rows see, weights.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#ifdef __CUDACC_RTC__
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
#else
#include <stdint.h>
#endif
#include "tma.h"
#include "weights.h"

#if ELEMENT
using Element = __nv_bfloat16;
__device__ inline uint32_t pack(float x, float y) {
    __nv_bfloat162 two = __floats2bfloat162_rn(x, y);
    return reinterpret_cast<uint32_t &>(two);
}
#else
using Element = __half;
__device__ inline uint32_t pack(float x, float y) {
    __half2 two = __floats2half2_rn(x, y);
    return reinterpret_cast<uint32_t &>(two);
}
#endif

// What masks are made of: MASK is 0 (none), 1 (of ELEMENT) or 2 (f32), which is added to the scaled
// scores, or 3 (bytes, 0 where a key is hidden).
#ifndef MASK
#define MASK 0
#endif
#if MASK == 3
using Given = signed char;
#elif MASK == 2
using Given = float;
#else
using Given = Element;
#endif
#if MASK
#define MASK_POINTER const Given *mask,
#define MASK_NUMBERS int mask_stride, int mask_divisor, int mask_count,
#else
#define MASK_POINTER
#define MASK_NUMBERS
#endif

constexpr float LOG2E = 1.4426950408889634f;
#define NEVER __int_as_float(0xff800000)
#define STRIDES(name) int name##_start, int name##_batch, int name##_head, int name##_row

__device__ inline float exp2_of(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// A scaled score with what a mask gives for it.
__device__ inline float masked(float score, Given given) {
#if MASK == 3
    return given ? score : NEVER;
#else
    score = fmaf(static_cast<float>(given), LOG2E, score);
    // What is hidden by a large number weighs 0 in rows that have seen nothing yet, too.
    return score < -1e20f ? NEVER : score;
#endif
}

// cap * tanh(s / cap) of scores, in units of log2: tanh(x) is 1 - 2 / (1 + exp(2 x)).
__device__ inline float capped(float score, float bend, float cap_log2) {
    return cap_log2 - __fdividef(2 * cap_log2, exp2_of(score * bend) + 1);
}

// Where an operand lies, in units of 16 bytes.
struct Strides {
    int start, batch, head, row;
    __device__ inline size_t at(int in_batch, int in_head, int in_row) const {
        return start + static_cast<size_t>(in_batch) * batch + static_cast<size_t>(in_head) * head +
               static_cast<size_t>(in_row) * row;
    }
};

// Copies 16 bytes to shared memory, or zeros.
__device__ inline void copy(uint32_t to, const uint4 *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}
__device__ inline void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until no more than so many groups of copies are on their way.
template <int LEFT> __device__ inline void copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// Which keys the two rows see that a thread has: `row - behind` to `row + diagonal`.
struct Limits {
    int row[2], behind, diagonal, keys;
    __device__ inline bool hide(int which, int key) const {
        return key < row[which] - behind || key > row[which] + diagonal || key >= keys;
    }
};

// The largest score of a row so far, and the thread's share of the sum of its weights.
struct Running {
    float peak[2], total[2];
};

// Waits until the first of two groups of products is done, whose sums `scores` has.
__device__ inline void wait_for_first(Accumulators<KEYS> &scores) {
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
#pragma unroll
    for (int each = 0; each < KEYS / 2; ++each)
        asm volatile("" : "+f"(scores.values[each])::"memory");
}

// Scores of keys that a row does not see become the least; `key` is the thread's first.
__device__ inline void hide_keys(float *s, const Limits &limits, int key) {
#pragma unroll
    for (int each = 0; each < KEYS / 2; ++each) {
        const int at = key + each / 4 * 8 + each % 2, row = each / 2 % 2;
        if (limits.hide(row, at)) s[each] = NEVER;
    }
}

// Scores become weights, exp2(factor * (score - peak)); `shrink` is what sums so far are worth.
__device__ inline void weights_of(float *s, Running &running, float (&shrink)[2], float factor) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        float most = s[2 * row];
#pragma unroll
        for (int each = 0; each < KEYS / 2; ++each)
            if (each / 2 % 2 == row) most = fmaxf(most, s[each]);
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2));
        most = fmaxf(most, running.peak[row]);
        // Nothing seen yet: all weights are 0.
        const float base = most == NEVER ? 0.0f : most * factor;
        shrink[row] = exp2_of(running.peak[row] * factor - base);
        running.peak[row] = most;
        float sum = 0;
#pragma unroll
        for (int each = 0; each < KEYS / 2; ++each)
            if (each / 2 % 2 == row) {
                s[each] = exp2_of(fmaf(s[each], factor, -base));
                sum += s[each];
            }
        running.total[row] = running.total[row] * shrink[row] + sum;
    }
}
