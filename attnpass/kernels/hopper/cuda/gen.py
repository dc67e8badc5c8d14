"""wgmma.h and weights.h: the instructions for 64 x N x 16 products."""

from pathlib import Path


def one(n, kind, kn):
    r = n // 2
    regs = ", ".join(f"%{i}" for i in range(r))
    outs = ", ".join(f'"+f"(v[{i}])' for i in range(r))
    return f"""template <> __device__ inline void multiply<{kind}, {kn}>(Accumulators<{n}> &sums, uint64_t left, uint64_t right, int more) {{
    float *v = sums.values;
    asm volatile("{{\\n.reg .pred more;\\nsetp.ne.b32 more, %{r + 2}, 0;\\n"
        "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{"bf16.bf16" if kind else "f16.f16"} {{{regs}}}, %{r}, %{r + 1}, more, 1, 1, 0, {kn};\\n}}"
        : {outs} : "l"(left), "l"(right), "r"(more));
}}
"""


def held_times(n, kind):
    r = n // 2
    regs = ", ".join(f"%{i}" for i in range(r))
    left = ", ".join(f"%{r + i}" for i in range(4))
    outs = ", ".join(f'"+f"(v[{i}])' for i in range(r))
    return f"""template <> __device__ inline void multiply_held<{kind}, {n}>(Accumulators<{n}> &sums, const uint32_t (&left)[4], uint64_t right, int more) {{
    float *v = sums.values;
    asm volatile("{{\\n.reg .pred more;\\nsetp.ne.b32 more, %{r + 5}, 0;\\n"
        "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{"bf16.bf16" if kind else "f16.f16"} {{{regs}}}, {{{left}}}, %{r + 4}, more, 1, 1, 0;\\n}}"
        : {outs} : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(more));
}}
"""


def weights_times(n, kind):
    r = n // 2
    regs = ", ".join(f"%{i}" for i in range(r))
    left = ", ".join(f"%{r + i}" for i in range(4))
    outs = ", ".join(f'"+f"(v[{i}])' for i in range(r))
    return f"""template <> __device__ inline void multiply_weights<{kind}, {n}>(Accumulators<{n}> &sums, const uint32_t (&left)[4], uint64_t right) {{
    float *v = sums.values;
    asm volatile("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{"bf16.bf16" if kind else "f16.f16"} {{{regs}}}, {{{left}}}, %{r + 4}, 1, 1, 1, 1;"
        : {outs} : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right));
}}
"""


head = """// Written by gen.py.
#pragma once
template <int N> struct Accumulators { float values[N / 2]; };
// Addresses and strides in units of 16 bytes; 128-byte swizzle.
__device__ inline uint64_t descriptor(uint32_t address, uint32_t leading, uint32_t stride) {
    return (uint64_t)((address & 0x3FFFF) >> 4) | (uint64_t)leading << 16 | (uint64_t)stride << 32 | 1ull << 62;
}
__device__ inline void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT, int N> __device__ inline void wgmma_wait(Accumulators<N> &sums) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(LEFT) : "memory");
    if (LEFT == 0)  // no sum may be read before
        for (int each = 0; each < N / 2; ++each) asm volatile("" : "+f"(sums.values[each]) :: "memory");
}
__device__ inline void load_matrices(uint32_t (&words)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(from) : "memory");
}
__device__ inline void store_matrices(uint32_t to, const uint32_t (&words)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]) : "memory");
}
template <int KIND, int KN, int N> __device__ inline void multiply(Accumulators<N> &sums, uint64_t left, uint64_t right, int more);
"""
body = ""
for n in (128, 192, 256):
    for kind in (0, 1):
        for kn in (0, 1):
            body += one(n, kind, kn)
# e4m3: a kind of its own, weights (n, k) alone, 32 elements of depth.
for n in (128, 256):
    text = one(n, 0, 0).replace("multiply<0, 0>", "multiply<2, 0>")
    body += text.replace("k16.f32.f16.f16", "k32.f32.e4m3.e4m3").replace("1, 1, 0, 0;", "1, 1;")
# Weights on the left, few columns: the product turned, for few rows.
declared = "template <int KIND, int KN, int N> __device__ inline void multiply"
body += f"{declared}_turned(Accumulators<N> &sums, uint64_t left, uint64_t right, int more);\n"
for n in (16, 64):
    for kind in (0, 1):
        for kn in (0, 1):
            text = one(n, kind, kn).replace(
                f"multiply<{kind}, {kn}>", f"multiply_turned<{kind}, {kn}, {n}>"
            )
            body += text.replace(f"1, 1, 0, {kn};", f"1, 1, {kn}, 0;")
Path("wgmma.h").write_text(head + body)

# Attention's scores, and weights in registers times V (keys, columns).
declared = "template <int KIND, int N> __device__ inline void"
body = f"{declared} multiply(Accumulators<N> &sums, uint64_t left, uint64_t right, int more);\n"
body += f"{declared} multiply_held(Accumulators<N> &sums, const uint32_t (&left)[4], uint64_t right, int more);\n"
body += f"{declared} multiply_weights(Accumulators<N> &sums, const uint32_t (&left)[4], uint64_t right);\n"
for n in (64, 128):
    for kind in (0, 1):
        body += one(n, kind, 0).replace(f"multiply<{kind}, 0>", f"multiply<{kind}, {n}>")
for n in (64, 80, 96, 128, 256):
    for kind in (0, 1):
        body += weights_times(n, kind)
for n in (64, 80, 128):
    for kind in (0, 1):
        body += held_times(n, kind)
head = head.replace(
    "template <int KIND, int KN, int N> __device__ inline void multiply(Accumulators<N> &sums, uint64_t left, uint64_t right, int more);\n",
    "",
)
Path("weights.h").write_text(head + body)


def into(n):
    """64 columns of weights times n rows, of either kind; those of the left operand lie along the
    depth or, where KN is 1, across it."""
    r = n // 2
    regs = ", ".join(f"%{i}" for i in range(r))
    outs = ", ".join(f'"+f"(v[{i}])' for i in range(r))
    one = f"""\\
    asm volatile("{{\\n.reg .pred more;\\nsetp.ne.b32 more, %{r + 2}, 0;\\n" \\
        "wgmma.mma_async.sync.aligned.m64n{n}k16.f32." KIND " {{{regs}}}, %{r}, %{r + 1}, more, 1, 1, %{r + 3}, 0;\\n}}" \\
        : {outs} : "l"(left), "l"(right), "r"(more), "n"(KN))"""
    return f"""#define TIMES_{n}(KIND) {one}
TURNED({n})
"""


# Weights on the left, any multiple of 8 rows: sums in a part of an array.
head = """// Written by gen.py.
#pragma once
template <int BF16, int KN, int N> struct Turned;
#define TURNED(N) \\
    template <int KN> struct Turned<0, KN, N> { __device__ static inline void multiply(float *v, uint64_t left, uint64_t right, int more) { TIMES_##N("f16.f16"); } }; \\
    template <int KN> struct Turned<1, KN, N> { __device__ static inline void multiply(float *v, uint64_t left, uint64_t right, int more) { TIMES_##N("bf16.bf16"); } };
"""
Path("turned.h").write_text(head + "".join(into(n) for n in (8, *range(16, 193, 8))))


def tf32_times(n):
    """64 rows in registers times n columns along the depth, 8 of tf32."""
    text = held_times(n, 0).replace(f"multiply_held<0, {n}>", f"multiply_tf32<{n}>")
    return text.replace("k16.f32.f16.f16", "k8.f32.tf32.tf32").replace(
        "more, 1, 1, 0;", "more, 1, 1;"
    )


declared = "template <int N> __device__ inline void multiply_tf32"
declared += "(Accumulators<N> &sums, const uint32_t (&left)[4], uint64_t right, int more);\n"
head = "// Written by gen.py.\n#pragma once\n"
Path("tf32.h").write_text(head + declared + "".join(tf32_times(n) for n in (64, 128)))
