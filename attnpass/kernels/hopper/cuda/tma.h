// Barriers in shared memory, and tiles that the tensor memory accelerator (TMA) loads and stores.
#pragma once

__device__ inline uint32_t shared_address(const void *pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void barrier_init(uint32_t barrier, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

__device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

__device__ inline void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ inline bool barrier_done(uint32_t barrier, uint32_t phase) {
    uint32_t done;
    asm volatile("{\n.reg .pred done;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, done;\n}"
                 : "=r"(done)
                 : "r"(barrier), "r"(phase)
                 : "memory");
    return done;
}

__device__ inline void barrier_wait(uint32_t barrier, uint32_t phase) {
#ifdef GUARD
    for (int tries = 0; !barrier_done(barrier, phase); ++tries)
        if (tries > GUARD) __trap();
#else
    while (!barrier_done(barrier, phase)) {
    }
#endif
}

__device__ inline void sync_warpgroup(int number) {
    asm volatile("bar.sync %0, 128;" ::"r"(number + 1) : "memory");
}

// Writes a descriptor of (rows, columns) in boxes to `there`, and of what `more` adds; by a warp.
template <int KIND, typename More>
__device__ inline void describe(char *there, uint32_t made, const void *tensor, int columns,
                                int rows, int box_columns, int box_rows, size_t row_bytes,
                                const More &more) {
    const int lane = threadIdx.x % 32;
    asm volatile("st.shared.b32 [%0], 0;" ::"r"(made + 4 * lane) : "memory");
    __syncwarp();
    if (lane == 0) {
        const uint64_t stride = row_bytes;
        asm volatile(
            "{\n.reg .b64 map;\ncvt.u64.u32 map, %0;\n"
            "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [map], %1;\n"
            "tensormap.replace.tile.rank.shared::cta.b1024.b32 [map], 1;\n"
            "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 0, %4;\n"
            "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 1, %5;\n"
            "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], 0, %2;\n"
            "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], 1, %3;\n"
            "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [map], 0, %6;\n"
            "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [map], 0, 1;\n"
            "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [map], 1, 1;\n"
            "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [map], %7;\n"
            "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [map], 0;\n"
            "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [map], 3;\n"
            "tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [map], 0;\n}" ::"r"(made),
            "l"(tensor), "r"(columns), "r"(rows), "r"(box_columns), "r"(box_rows), "l"(stride),
            "n"(KIND)
            : "memory");
        more();
    }
    __syncwarp();
    asm volatile("{\n.reg .b64 to, from;\ncvta.to.global.u64 to, %0;\ncvt.u64.u32 from, %1;\n"
                 "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu"
                 ".sync.aligned [to], [from], 128;\n}" ::"l"(there),
                 "r"(made)
                 : "memory");
}

// The same of a tensor whose rows lie one behind the other.
template <int KIND>
__device__ inline void describe(char *there, uint32_t made, const void *tensor, int columns,
                                int rows, int box_columns, int box_rows) {
    const size_t row_bytes = static_cast<size_t>(columns) * (KIND == 7 ? 4 : KIND ? 2 : 1);
    describe<KIND>(there, made, tensor, columns, rows, box_columns, box_rows, row_bytes, [] {});
}

#if BATCHED || GROUPED
// A dim behind the second of a descriptor, `step` times 16 bytes apart; 0: there is one element.
template <int DIM> __device__ inline void describe_dim(uint32_t made, int size, int step) {
    asm volatile("{\n.reg .b64 map;\ncvt.u64.u32 map, %0;\n"
                 "tensormap.replace.tile.rank.shared::cta.b1024.b32 [map], %3;\n"
                 "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], %3, 1;\n"
                 "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], %3, %1;\n"
                 "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [map], %4, %2;\n"
                 "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [map], %3, 1;\n}" ::"r"(
                     made),
                 "r"(step ? size : 1), "l"(static_cast<uint64_t>(step ? step : 1) * 16), "n"(DIM),
                 "n"(DIM - 1)
                 : "memory");
}
#endif

__device__ inline void acquire(const char *map) {
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

#if BATCHED
__device__ inline void load(uint32_t to, const char *map, uint32_t barrier, int column, int row,
                            int inner, int outer) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(inner), "r"(outer)
                 : "memory");
}

__device__ inline void load(uint32_t to, const char *map, uint32_t barrier, int column, int row,
                            int part, int inner, int outer) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(part), "r"(inner), "r"(outer)
                 : "memory");
}

__device__ inline void store(const char *map, uint32_t from, int column, int row, int part,
                             int inner, int outer) {
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}],"
                 " [%1];" ::"l"(map),
                 "r"(from), "r"(column), "r"(row), "r"(part), "r"(inner), "r"(outer)
                 : "memory");
}
#endif

#if GROUPED
__device__ inline void load(uint32_t to, const char *map, uint32_t barrier, int column, int row,
                            int group) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(group)
                 : "memory");
}
#endif

__device__ inline void load(uint32_t to, const char *map, uint32_t barrier, int column, int row) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(column), "r"(row)
                 : "memory");
}

__device__ inline void store(const char *map, uint32_t from, int column, int row) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
                     map),
                 "r"(from), "r"(column), "r"(row)
                 : "memory");
}

__device__ inline void commit_store() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

template <int LEFT>
__device__ inline void wait_for_stores() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}
