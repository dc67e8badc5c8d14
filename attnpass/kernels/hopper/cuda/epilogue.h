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

// ELEMENT is that of the operands (2: e4m3, 3: f32), WRITTEN that of the result, where it has 16 bits.
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
#elif ELEMENT == 3
using Element = float;
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
    if constexpr (ACTIVATION == 1 && ELEMENT == 3) {
        return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
    } else if constexpr (ACTIVATION == 1) {
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
// What kernels are told that have several tiles.
#ifndef TILES
#define SHAPE_PARAMETER
#else
#define SHAPE_PARAMETER , int shape
#endif
// BATCHED kernels compute `outer` times `inner` products, one after the other. They are told where
// operands begin, and how far rows and batches are apart, in 16 bytes; at a distance of 0 batches
// share an operand. The result's columns lie in parts of `out_width`, `out_part` apart; `other` lies
// as it does. Biases and factors of the next product are `bias_step`, `factor_step` elements further.
#ifndef BATCHED
#define BATCHED 0
#endif
#ifndef GROUPED
#define GROUPED 0
#endif
// Bits of `biased` say which of the products of JOINED ones have a bias, see joined.h.
#ifndef JOINED
#define JOINED 0
#endif
#if JOINED == 2
#define OF_EACH(kind, name) kind name, kind name##2,
#define THIRD_PARAMETER
#elif JOINED
#define OF_EACH(kind, name) kind name, kind name##2, kind name##3,
#define THIRD_PARAMETER int n3,
#endif
#if BATCHED
#define BATCH_PARAMETERS                                                                       \
    , int inner, int outer, int bias_step, int factor_step, int a_start, int a_row, int a_inner,   \
        int a_outer, int weights_start, int weights_row, int weights_inner, int weights_outer,     \
        int out_width, int out_row, int out_part, int out_inner, int out_outer
#define BATCH_ARGUMENTS                                                                        \
    , inner, outer, bias_step, factor_step, a_start, a_row, a_inner, a_outer, weights_start,       \
        weights_row, weights_inner, weights_outer, out_width, out_row, out_part, out_inner,        \
        out_outer

template <typename Kind> constexpr int UNIT = 16 / sizeof(Kind);  // elements in 16 bytes

// Which of the products one is.
struct InBatch {
    int number, inner, outer;
    __device__ InBatch(int number, int inner)
        : number(number), inner(number % inner), outer(number / inner) {}
    // Elements in front of what lies at these distances from a start.
    template <typename Kind>
    __device__ inline size_t before(int start, int by_inner, int by_outer) const {
        return UNIT<Kind> * (start + static_cast<size_t>(by_inner) * inner +
                             static_cast<size_t>(by_outer) * outer);
    }
};
#else
#define BATCH_PARAMETERS
#define BATCH_ARGUMENTS
#endif
#if GENERAL
// GENERAL kernels compute act(alpha * sum + bias) * (beta * factor), and add a tensor like `out` or
// multiply with it, as the bits of `flags` say: 1 there is a bias of each column, 2 in f32; 4 a
// factor of each column, 8 in f32; 16 the tensor is added, 32 multiplied. The factor is another one
// for every `share` rows; GATED ones have the bias of the second product in its place. ACTIVATION:
// 1 GELU, 4 not below `slope`, 5 x / (1 + 2^(x * (slope + cube * x^2))).
// The weights (n, k) of GATED ones, and their biases, may be halves of one: those of the first product
// are the last half where 512 is set, those of the second where 1024 is. Bits 12 to 14 say how many of
// the n columns weights (n, k) lack, which are 0 and lie in the result alone, for its rows to be aligned.
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
#if !JOINED
#define PARAMETERS                                                                             \
    const Element *a, const Element *weights, SECOND_PARAMETER const void *bias,               \
        const void *factor, SCALE_PARAMETER FULL_PARAMETER Result *out, SCRATCH_PARAMETER int m,   \
        int n, int k, int flags, int share, float alpha, float beta, float slope, float cube       \
            BATCH_PARAMETERS
#endif
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
#if BATCHED
    size_t bias_at = 0, factor_at = 0;  // of one product
#else
    enum : size_t { bias_at = 0, factor_at = 0 };
#endif
    __device__ Behind(const void *bias, const void *factors, const void *other, int n, int flags,
                      int share, float alpha, float beta, float slope, float cube)
        : bias(bias), factors(factors), other(other), n(n), flags(flags), share(share),
          alpha(alpha), beta(beta), slope(slope), cube(cube) {}
    __device__ inline bool reads_other() const { return flags & 48; }
    __device__ inline int weights_columns() const { return n - (flags >> 12 & 7); }
    // Those of two columns.
    __device__ inline float2 shift(int column) const {
        if (GATED && flags & 512) column += n;
        return flags & 1 ? two_at(bias, bias_at + column, flags & 2) : make_float2(0, 0);
    }
    __device__ inline float2 factor(int row, int column) const {
        if (GATED && flags & 1024) column += n;
        if (GATED)
            return flags & 4 ? two_at(factors, factor_at + column, flags & 8) : make_float2(0, 0);
        if (!(flags & 4)) return make_float2(beta, beta);
        if (ELEMENT == 2 && flags & 256) {
            const float one = beta * __ldg(reinterpret_cast<const float *>(factors));
            return make_float2(one, one);
        }
        const size_t line = factor_at + static_cast<size_t>(row / share) * n;
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
    // All of it, for two columns of a row, which lie at `place`.
    __device__ inline float2 done(float2 sum, int row, int column, size_t place) const {
        float2 made = activated(sum, shift(column));
        const float2 by = factor(row, column);
        made.x *= by.x, made.y *= by.y;
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
#if GROUPED
// The ends of `groups` groups of rows.
#define ENDS_PARAMETER const int *ends,
#define GROUPS_PARAMETER , int groups
#else
#define ENDS_PARAMETER
#define GROUPS_PARAMETER
#endif
#if !JOINED
#define PARAMETERS                                                                             \
    const Element *a, const Element *weights, SECOND_PARAMETER BIAS_PARAMETER OTHER_PARAMETER  \
        ENDS_PARAMETER Element *out, SCRATCH_PARAMETER int m, int n, int k                     \
            BATCH_PARAMETERS GROUPS_PARAMETER SHAPE_PARAMETER
#endif
#define UNREAD SECOND_UNREAD BIAS_UNREAD OTHER_UNREAD
#endif

#if BATCHED
// Where a workgroup's product lies, in kernels of few rows: `of_each` of them compute one.
struct Places {
    uint32_t workgroup;
    int a_pitch, weights_pitch, out_width, out_row, out_part;
    size_t a, weights, out;  // elements in front of its operands and its result
    size_t bias_at, factor_at;
    __device__ Places(int of_each BATCH_PARAMETERS)
        : a_pitch(UNIT<Element> * a_row), weights_pitch(UNIT<Element> * weights_row),
          out_width(out_width), out_row(out_row), out_part(out_part) {
        const InBatch batch(blockIdx.x / of_each, inner);
        workgroup = blockIdx.x - batch.number * of_each;
        a = batch.before<Element>(a_start, a_inner, a_outer);
        weights = batch.before<Element>(weights_start, weights_inner, weights_outer);
        out = batch.before<Result>(0, out_inner, out_outer);
        bias_at = static_cast<size_t>(batch.number) * bias_step;
        factor_at = static_cast<size_t>(batch.number) * factor_step;
    }
    // The elements in front of one of the result.
    __device__ inline size_t of_result(int row, int column) const {
        const int part = column / out_width;
        return out + column - part * out_width +
               UNIT<Result> * (static_cast<size_t>(row) * out_row +
                               static_cast<size_t>(part) * out_part);
    }
#if GENERAL
    __device__ inline Behind of_product(Behind behind) const {
        behind.bias_at = bias_at, behind.factor_at = factor_at;
        return behind;
    }
#endif
};
#endif

#if JOINED
#define PARAMETERS                                                                             \
    const Element *a, OF_EACH(const Element *, weights) OF_EACH(const Element *, bias)               \
        OF_EACH(Element *, out) SCRATCH_PARAMETER int m, int n, int k, int n2, THIRD_PARAMETER int biased SHAPE_PARAMETER
#if JOINED == 2
#define WIDTHS Widths{n, n2, 0}
#else
#define WIDTHS Widths{n, n2, n3}
#endif
#endif
