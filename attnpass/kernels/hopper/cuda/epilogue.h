// What kernels for products share: elements, and what is done with a sum.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#ifdef __CUDACC_RTC__
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
#else
#include <stdint.h>
#endif

// ELEMENT is that of the operands (2: e4m3), WRITTEN that of the result, where it has 16 bits.
#ifndef WRITTEN
#define WRITTEN ELEMENT
#endif
#if WRITTEN
using Written = __nv_bfloat16;
__device__ inline uint32_t pack(float x, float y) {
    __nv_bfloat162 two = __floats2bfloat162_rn(x, y);
    return reinterpret_cast<uint32_t &>(two);
}
__device__ inline float2 unpack(uint32_t two) {
    return __bfloat1622float2(reinterpret_cast<__nv_bfloat162 &>(two));
}
#else
using Written = __half;
__device__ inline uint32_t pack(float x, float y) {
    __half2 two = __floats2half2_rn(x, y);
    return reinterpret_cast<uint32_t &>(two);
}
__device__ inline float2 unpack(uint32_t two) {
    return __half22float2(reinterpret_cast<__half2 &>(two));
}
#endif
#if ELEMENT == 2
using Element = uint8_t;
#else
using Element = Written;
#endif

__device__ inline float exp2_of(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline float over(float x, float y) {  // x / y, 0 for infinite y
    float z;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(z) : "f"(y));
    return x * z;
}

__device__ inline float activate(float x) {
    constexpr float LOG2E = 1.4426950408889634f;
    if constexpr (ACTIVATION == 1) {
        // Abramowitz and Stegun 7.1.26, on the side that does not cancel: within 1.5e-7.
        // x * Phi(x) = max(x, 0) - |x| * Phi(-|x|)
        const float t = over(1.0f, fmaf(0.3275911f * 0.7071067811865476f, fabsf(x), 1.0f));
        float p = fmaf(t, 0.5f * 1.061405429f, 0.5f * -1.453152027f);
        p = fmaf(t, p, 0.5f * 1.421413741f);
        p = fmaf(t, p, 0.5f * -0.284496736f);
        p = fmaf(t, p, 0.5f * 0.254829592f);
        const float e = exp2_of(x * x * (-0.5f * LOG2E));
        // Bounded, as infinity times zero is none.
        return fmaf(-fminf(fabsf(x), 1e4f) * e, t * p, fmaxf(x, 0.0f));
    } else if constexpr (ACTIVATION == 2) {
        const float u = x * fmaf(x * x, 0.044715f, 1.0f);
        return over(x, 1.0f + exp2_of(u * (-2.0f * 0.7978845608028654f * LOG2E)));
    } else if constexpr (ACTIVATION == 3) {
        return over(x, 1.0f + exp2_of(-x * LOG2E));
    }
    return x;
}

#ifndef GENERAL
#define GENERAL 0
#endif
#ifndef WIDE
#define WIDE 0
#endif
#if WIDE
using Result = float;
#else
using Result = Written;
#endif

// A kernel's parameters. LEAN leaves out the pointers that it does not read, and has scratch memory
// only where SCRATCH says so; else all kernels take the same.
#ifndef LEAN
#define LEAN 0
#endif
#if LEAN && !GATED
#define SECOND_PARAMETER
#define SECOND_UNREAD constexpr const Element *second = nullptr;
#else
#define SECOND_PARAMETER const Element *second,
#define SECOND_UNREAD
#endif
#if LEAN && !BIAS
#define BIAS_PARAMETER
#define BIAS_UNREAD constexpr const Element *bias = nullptr;
#else
#define BIAS_PARAMETER const Element *bias,
#define BIAS_UNREAD
#endif
#if LEAN && !OTHER
#define OTHER_PARAMETER
#define OTHER_UNREAD constexpr const Element *other = nullptr;
#else
#define OTHER_PARAMETER const Element *other,
#define OTHER_UNREAD
#endif
#if LEAN && !SCRATCH
#define SCRATCH_PARAMETER
#else
#define SCRATCH_PARAMETER char *scratch,
#endif
#if GENERAL
// GENERAL kernels compute act(alpha * sum + bias) * (beta * factor), and add a tensor like `out` or
// multiply with it, as the bits of `flags` say: 1 there is a bias of each column, 2 in f32; 4 a
// factor of each column, 8 in f32; 16 the tensor is added, 32 multiplied. The factor is another one
// for every `share` rows; GATED ones have the bias of the second product in its place. ACTIVATION:
// 1 GELU, 4 not below `slope`, 5 x / (1 + 2^(x * (slope + cube * x^2))).
// The weights (n, k) of GATED ones, and their biases, may be halves of one: those of the first product
// are the last half where 512 is set, those of the second where 1024 is.
// Those of e4m3 compute act(beta * factor * row factor * sum + bias): 64 there is one of each row, in
// f32, 128 it is the same for all, 256 that of columns is.
#if ELEMENT == 2
#define SCALE_PARAMETER const float *row_factors,
#else
#define SCALE_PARAMETER
#endif
#if GATED
#define FULL_PARAMETER
#define FULL_UNREAD constexpr const void *other = nullptr;
#else
#define FULL_PARAMETER const void *other,
#define FULL_UNREAD
#endif
#define PARAMETERS                                                                             \
    const Element *a, const Element *weights, SECOND_PARAMETER const void *bias,               \
        const void *factor, SCALE_PARAMETER FULL_PARAMETER Result *out, SCRATCH_PARAMETER int m,   \
        int n, int k, int flags, int share, float alpha, float beta, float slope, float cube
#define UNREAD SECOND_UNREAD FULL_UNREAD
#define REQUESTED bias, factor, other, n, flags, share, alpha, beta, slope, cube

__device__ inline float2 two_at(const void *vector, size_t place, bool in_f32) {
    if (in_f32) return __ldg(reinterpret_cast<const float2 *>(vector) + place / 2);
    return unpack(__ldg(reinterpret_cast<const uint32_t *>(vector) + place / 2));
}

__device__ inline void put_two(uint32_t to, float2 two) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(two.x), "f"(two.y) : "memory");
}

__device__ inline float2 get_two(uint32_t from) {
    float2 two;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(two.x), "=f"(two.y)
                 : "r"(from)
                 : "memory");
    return two;
}

struct Behind {
    const void *bias, *factors, *other;
    int n, flags, share;
    float alpha, beta, slope, cube;
    __device__ Behind(const void *bias, const void *factors, const void *other, int n, int flags,
                      int share, float alpha, float beta, float slope, float cube)
        : bias(bias), factors(factors), other(other), n(n), flags(flags), share(share),
          alpha(alpha), beta(beta), slope(slope), cube(cube) {}
    __device__ inline bool reads_other() const { return flags & 48; }
    // Those of two columns.
    __device__ inline float2 shift(int column) const {
        if (GATED && flags & 512) column += n;
        return flags & 1 ? two_at(bias, column, flags & 2) : make_float2(0, 0);
    }
    __device__ inline float2 factor(int row, int column) const {
        if (GATED && flags & 1024) column += n;
        if (GATED) return flags & 4 ? two_at(factors, column, flags & 8) : make_float2(0, 0);
        if (!(flags & 4)) return make_float2(beta, beta);
        if (ELEMENT == 2 && flags & 256) {
            const float one = beta * __ldg(reinterpret_cast<const float *>(factors));
            return make_float2(one, one);
        }
        const size_t line = static_cast<size_t>(row / share) * n;
        const float2 two = two_at(factors, line + column, flags & 8);
        return make_float2(beta * two.x, beta * two.y);
    }
    __device__ inline float row_factor(const float *row_factors, int row) const {
        return flags & 64 ? __ldg(row_factors + (flags & 128 ? 0 : row)) : 1.0f;
    }
    __device__ inline float curve(float x) const {
        if constexpr (ACTIVATION == 4) {
            float y;  // NaN stays NaN
            asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(slope));
            return y;
        } else if constexpr (ACTIVATION == 5) {
            return over(x, 1.0f + exp2_of(x * fmaf(x * x, cube, slope)));
        }
        return activate(x);
    }
    __device__ inline float2 activated(float2 sum, float2 shift) const {
        return make_float2(curve(fmaf(sum.x, alpha, shift.x)), curve(fmaf(sum.y, alpha, shift.y)));
    }
    __device__ inline float2 with(float2 made, float2 there) const {
        if (flags & 32) return make_float2(made.x * there.x, made.y * there.y);
        return make_float2(made.x + there.x, made.y + there.y);
    }
    // All of it, for two columns of a row.
    __device__ inline float2 done(float2 sum, int row, int column) const {
        float2 made = activated(sum, shift(column));
        const float2 by = factor(row, column);
        made.x *= by.x, made.y *= by.y;
        const size_t place = static_cast<size_t>(row) * n + column;
        return reads_other() ? with(made, two_at(other, place, WIDE)) : made;
    }
};

__device__ inline void write_two(Result *out, size_t place, float2 two) {
#if WIDE
    *reinterpret_cast<float2 *>(out + place) = two;
#else
    *reinterpret_cast<uint32_t *>(out + place) = pack(two.x, two.y);
#endif
}
#else
#define PARAMETERS                                                                             \
    const Element *a, const Element *weights, SECOND_PARAMETER BIAS_PARAMETER OTHER_PARAMETER  \
        Element *out, SCRATCH_PARAMETER int m, int n, int k
#define UNREAD SECOND_UNREAD BIAS_UNREAD OTHER_UNREAD
#endif
