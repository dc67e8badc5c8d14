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

#if ELEMENT
using Element = __nv_bfloat16;
__device__ inline uint32_t pack(float x, float y) {
    __nv_bfloat162 two = __floats2bfloat162_rn(x, y);
    return reinterpret_cast<uint32_t &>(two);
}
__device__ inline float2 unpack(uint32_t two) {
    return __bfloat1622float2(reinterpret_cast<__nv_bfloat162 &>(two));
}
#else
using Element = __half;
__device__ inline uint32_t pack(float x, float y) {
    __half2 two = __floats2half2_rn(x, y);
    return reinterpret_cast<uint32_t &>(two);
}
__device__ inline float2 unpack(uint32_t two) {
    return __half22float2(reinterpret_cast<__half2 &>(two));
}
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
#define PARAMETERS                                                                             \
    const Element *a, const Element *weights, SECOND_PARAMETER BIAS_PARAMETER OTHER_PARAMETER  \
        Element *out, SCRATCH_PARAMETER int m, int n, int k
#define UNREAD SECOND_UNREAD BIAS_UNREAD OTHER_UNREAD
