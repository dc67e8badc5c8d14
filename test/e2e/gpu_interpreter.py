"""Runs a lowered GPU kernel in numpy: all threads of a workgroup in step, one op after another.

For tests that ask, without a GPU, whether a rewrite of a kernel kept its numbers. Tensor-core
instructions do what the PTX ISA says. An asynchronous copy poisons its target with NaN until
it is waited for. Shared memory that one thread wrote and another one reads, or the other way
round, with no barrier between them raises Race.

A value is an array whose first dim is the thread. Control flow must be the same in all threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

WARP = 32
_TYPES = {"f16": np.float16, "f32": np.float32, "index": np.int64, "i1": bool, "i8": np.int8}
_BINARY = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divui": np.floor_divide,
    "arith.remui": np.remainder,
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.maximumf": np.maximum,
}
_COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


class Race(Exception):
    """Two threads use the same place in shared memory, one writes, and nothing orders them."""


def run_kernel(
    function: ir.Operation, bindings: Sequence[np.ndarray], threads: int, workgroups: int
) -> None:
    """Runs the first workgroups of a kernel; its output bindings are written in place."""
    kernel = _Kernel(bindings, threads, workgroups)
    kernel.block(function.regions[0].blocks[0])


class _Shared:
    """A buffer in shared memory: who wrote and who read each place since the last barrier."""

    def __init__(self, shape: Sequence[int], kind: Any):
        self.data = np.full(shape, np.nan, kind)
        self.clear()

    def clear(self) -> None:
        self.writer = np.full(self.data.shape, -1)
        self.reader = np.full(self.data.shape, -1)

    def read(self, where: tuple[Any, ...], thread: np.ndarray) -> np.ndarray:
        writer = self.writer[where]
        if ((writer != -1) & (writer != thread)).any():
            raise Race("a read of what another thread has just written")
        seen = self.reader[where]
        self.reader[where] = np.where((seen == -1) | (seen == thread), thread, -2)
        return self.data[where]

    def write(self, where: tuple[Any, ...], values: Any, thread: np.ndarray) -> None:
        reader, writer = self.reader[where], self.writer[where]
        if ((reader != -1) & (reader != thread)).any():
            raise Race("a write to what another thread may still read")
        if ((writer != -1) & (writer != thread)).any():
            raise Race("two threads write to one place")
        self.data[where] = values
        self.writer[where] = np.broadcast_to(thread, self.writer[where].shape)


class _Kernel:
    def __init__(self, bindings: Sequence[np.ndarray], threads: int, workgroups: int):
        self.bindings, self.threads, self.workgroups = bindings, threads, workgroups
        self.values: dict[ir.Value, Any] = {}
        self.shared: list[_Shared] = []
        self.pending: list[tuple[_Shared, tuple[Any, ...], np.ndarray, np.ndarray]] = []
        self.thread = np.arange(threads)

    def block(self, block: ir.Block) -> list[Any]:
        for view in block:
            op = view.operation
            operands = [self.values.get(operand) for operand in op.operands]
            if op.name in ("scf.yield", "func.return", "scf.forall.in_parallel"):
                return operands
            if op.name in _BINARY:
                results = [_BINARY[op.name](*operands)]
            else:
                results = getattr(self, "do_" + op.name.replace(".", "_"))(op, *operands)
            if len(op.results):
                results = results if isinstance(results, list) else [results]
                self.values.update(zip(op.results, results, strict=True))
        return []

    def everywhere(self, number: Any, kind: Any = np.int64) -> np.ndarray:
        return np.full(self.threads, number, kind)

    # control flow

    def do_scf_forall(self, op: ir.Operation) -> None:
        ranges = [
            range(low, high, step)
            for low, high, step in zip(
                op.attributes["staticLowerBound"],
                op.attributes["staticUpperBound"],
                op.attributes["staticStep"],
                strict=True,
            )
        ]
        block = op.regions[0].blocks[0]
        for place in itertools.islice(itertools.product(*ranges), self.workgroups):
            assert not self.pending, "a copy that nobody waited for"
            for buffer in self.shared:
                buffer.clear()
                buffer.data[...] = np.nan
            self.values.update(zip(block.arguments, map(self.everywhere, place), strict=True))
            self.block(block)

    def do_scf_for(self, op: ir.Operation, low: Any, high: Any, step: Any, *carried: Any) -> Any:
        block = op.regions[0].blocks[0]
        values = list(carried)
        for position in range(low[0], high[0], step[0]):
            arguments = [self.everywhere(position), *values]
            self.values.update(zip(block.arguments, arguments, strict=True))
            values = self.block(block)
        return values

    def do_scf_if(self, op: ir.Operation, condition: Any) -> Any:
        assert condition.all() or not condition.any(), "threads part"
        region = op.regions[0 if condition[0] else 1]
        return self.block(region.blocks[0]) if len(region.blocks) else []

    def do_gpu_barrier(self, op: ir.Operation) -> None:
        for buffer in self.shared:
            buffer.clear()

    # indices and scalars

    def do_arith_constant(self, op: ir.Operation) -> Any:
        value, kind = op.attributes["value"], op.results[0].type
        if isinstance(value, ir.DenseElementsAttr):
            assert value.is_splat
            shape = (self.threads, *kind.shape)
            return np.full(shape, value.get_splat_value().value, _TYPES[str(kind.element_type)])
        return self.everywhere(value.value, _TYPES[str(kind)])

    def do_ub_poison(self, op: ir.Operation) -> Any:
        return self.everywhere(np.nan, np.float32)

    def do_gpu_thread_id(self, op: ir.Operation) -> Any:
        return self.thread if str(op.attributes["dimension"]) == "#gpu.dim<x>" else 0 * self.thread

    def do_arith_cmpi(self, op: ir.Operation, left: Any, right: Any) -> Any:
        code = ir.IntegerAttr(op.attributes["predicate"]).value
        return _COMPARISONS[code if code < 6 else code - 4](left, right)

    def do_arith_select(self, op: ir.Operation, condition: Any, left: Any, right: Any) -> Any:
        return np.where(condition, left, right)

    def do_affine_apply(self, op: ir.Operation, *symbols: Any) -> Any:
        # The kernels that are tested add symbols up.
        assert str(op.attributes["map"]) == "affine_map<()[s0, s1] -> (s0 + s1)>"
        return sum(symbols)

    def do_affine_linearize_index(self, op: ir.Operation, *indices: Any) -> Any:
        total = np.zeros(self.threads, np.int64)
        sizes = list(op.attributes["static_basis"])
        sizes = [1] * (len(indices) - len(sizes)) + sizes
        for index, size in zip(indices, sizes, strict=True):
            total = total * size + index
        return total

    def do_affine_delinearize_index(self, op: ir.Operation, index: Any) -> Any:
        sizes = list(op.attributes["static_basis"])
        parts = []
        for size in reversed(sizes[len(sizes) - len(op.results) + 1 :]):
            parts.append(index % size)
            index = index // size
        return [index, *reversed(parts)]

    # vectors

    def do_arith_truncf(self, op: ir.Operation, value: Any) -> Any:
        kind = op.results[0].type
        element = kind.element_type if isinstance(kind, ir.VectorType) else kind
        return value.astype(_TYPES[str(element)])

    def do_llvm_inline_asm(self, op: ir.Operation, value: Any) -> Any:
        assert "ex2.approx.ftz.f32" in str(op.attributes["asm_string"])
        return np.exp2(value)

    def do_vector_shape_cast(self, op: ir.Operation, value: Any) -> Any:
        return value.reshape(self.threads, *op.results[0].type.shape)

    def do_vector_transpose(self, op: ir.Operation, value: Any) -> Any:
        return value.transpose(0, *(dim + 1 for dim in op.attributes["permutation"]))

    def do_vector_broadcast(self, op: ir.Operation, value: Any) -> Any:
        shape = op.results[0].type.shape
        missing = len(shape) + 1 - value.ndim
        spread = value.reshape(self.threads, *[1] * missing, *value.shape[1:])
        return np.broadcast_to(spread, (self.threads, *shape))

    def do_vector_extract(self, op: ir.Operation, value: Any) -> Any:
        return value[(slice(None), *op.attributes["static_position"])]

    def do_vector_to_elements(self, op: ir.Operation, value: Any) -> Any:
        return list(value.reshape(self.threads, -1).T)

    def do_vector_from_elements(self, op: ir.Operation, *values: Any) -> Any:
        return np.stack(values, 1).reshape(self.threads, *op.results[0].type.shape)

    def do_vector_insert_strided_slice(self, op: ir.Operation, part: Any, whole: Any) -> Any:
        offsets = [ir.IntegerAttr(x).value for x in ir.ArrayAttr(op.attributes["offsets"])]
        sizes = [1] * (len(offsets) + 1 - part.ndim) + list(part.shape[1:])
        where = tuple(slice(o, o + size) for o, size in zip(offsets, sizes, strict=True))
        result = whole.copy()
        result[(slice(None), *where)] = part.reshape(self.threads, *sizes)
        return result

    def do_vector_multi_reduction(self, op: ir.Operation, value: Any, start: Any) -> Any:
        dims = tuple(dim + 1 for dim in op.attributes["reduction_dims"])
        if "maximumf" in str(op.attributes["kind"]):
            return np.maximum(value.max(dims), start)
        return value.sum(dims, dtype=np.float32) + start

    # memory

    def do_hal_interface_binding_subspan(self, op: ir.Operation, *_: Any) -> Any:
        return self.bindings[ir.IntegerAttr(op.attributes["binding"]).value]

    def do_memref_assume_alignment(self, op: ir.Operation, buffer: Any) -> Any:
        return buffer

    def do_memref_alloc(self, op: ir.Operation) -> Any:
        kind = op.results[0].type
        self.shared.append(_Shared(kind.shape, _TYPES[str(kind.element_type)]))
        return self.shared[-1]

    def do_memref_subview(self, op: ir.Operation, buffer: Any) -> Any:
        return buffer

    def do_memref_dealloc(self, op: ir.Operation, buffer: Any) -> None:
        pass

    def _where(self, indices: Sequence[Any], shape: Sequence[int]) -> tuple[Any, ...]:
        """The places of a vector of `shape` at these indices, in each thread."""
        where = []
        for dim, index in enumerate(indices):
            place = index.reshape(self.threads, *[1] * len(shape))
            own = dim - (len(indices) - len(shape))
            if own >= 0:
                along = [1] * (len(shape) + 1)
                along[own + 1] = shape[own]
                place = place + np.arange(shape[own]).reshape(along)
            where.append(place)
        return tuple(np.broadcast_arrays(*where))

    def _by(self, where: tuple[Any, ...]) -> np.ndarray:
        """The thread of each place."""
        return np.broadcast_to(
            self.thread.reshape(self.threads, *[1] * (where[0].ndim - 1)), where[0].shape
        )

    def do_vector_transfer_read(self, op: ir.Operation, buffer: Any, *rest: Any) -> Any:
        where = self._where(rest[:-1], op.results[0].type.shape)
        assert all((index >= 0).all() for index in where)
        if isinstance(buffer, _Shared):
            return buffer.read(where, self._by(where))
        return buffer[where]

    def do_vector_transfer_write(
        self, op: ir.Operation, value: Any, buffer: Any, *indices: Any
    ) -> None:
        where = self._where(indices, op.operands[0].type.shape)
        if isinstance(buffer, _Shared):
            buffer.write(where, value, self._by(where))
        else:
            buffer[where] = value

    # instructions of NVIDIA GPUs

    def do_nvgpu_device_async_copy(self, op: ir.Operation, *operands: Any) -> None:
        segments = list(op.attributes["operandSegmentSizes"])
        assert segments[4] == 0, "copies of part of a vector are not simulated"
        target, rest = operands[0], operands[1:]
        targets, source, sources = rest[: segments[1]], rest[segments[1]], rest[segments[1] + 1 :]
        shape = [ir.IntegerAttr(op.attributes["dstElements"]).value]
        there, here = self._where(targets, shape), self._where(sources, shape)
        target.write(there, np.nan, self._by(there))
        self.pending.append((target, there, source[here], self._by(there)))

    def do_nvgpu_device_async_create_group(self, op: ir.Operation, *_: Any) -> None:
        pass

    def do_nvgpu_device_async_wait(self, op: ir.Operation, *_: Any) -> None:
        for target, where, values, by in self.pending:
            target.write(where, values, by)
        self.pending.clear()

    def do_nvgpu_ldmatrix(self, op: ir.Operation, buffer: Any, *indices: Any) -> Any:
        tiles, width = op.results[0].type.shape
        elements = 8 * width // 2 if width == 2 else 4 * width
        where = self._where(indices, [elements])
        # rows[w, i, r]: row r of fragment i, whose place lane 8 i + r of warp w names.
        rows = buffer.read(where, self._by(where)).reshape(-1, 4, 8, elements)
        if ir.BoolAttr(op.attributes["transpose"]).value:
            rows = rows.transpose(0, 1, 3, 2)
        parts = rows.reshape(-1, 4, WARP, width)[:, :tiles]
        return parts.transpose(0, 2, 1, 3).reshape(self.threads, tiles, width)

    def do_nvgpu_mma_sync(self, op: ir.Operation, a: Any, b: Any, c: Any) -> Any:
        assert [ir.IntegerAttr(x).value for x in ir.ArrayAttr(op.attributes["mmaShape"])] == [
            16,
            8,
            16,
        ]
        # Registers [w, row part, column part, g, t, pair] to [w, row, column], and back.
        left = a.reshape(-1, 8, 4, 2, 2, 2).transpose(0, 4, 1, 3, 2, 5).reshape(-1, 16, 16)
        right = b.reshape(-1, 8, 4, 2, 2).transpose(0, 3, 2, 4, 1).reshape(-1, 16, 8)
        total = c.reshape(-1, 8, 4, 2, 2).transpose(0, 3, 1, 2, 4).reshape(-1, 16, 8)
        total = left.astype(np.float32) @ right.astype(np.float32) + total
        return total.reshape(-1, 2, 8, 4, 2).transpose(0, 2, 3, 1, 4).reshape(c.shape)

    def do_gpu_subgroup_reduce(self, op: ir.Operation, value: Any) -> Any:
        size = ir.IntegerAttr(op.attributes["cluster_size"]).value
        groups = value.reshape(-1, size)
        kind = str(op.attributes["op"])
        total = groups.max(1) if "maximumf" in kind else groups.sum(1, dtype=np.float32)
        return np.repeat(total, size)
