"""Runs a lowered GPU kernel in numpy: all threads of a workgroup in step, one op after another.

For tests that ask, without a GPU, whether a rewrite of a kernel kept its numbers. Tensor-core
instructions do what the PTX ISA says. An asynchronous copy poisons its target with NaN until
it is waited for. Shared memory that one thread wrote and another one reads, or the other way
round, with no barrier between them raises Race.

A value is an array whose first dim is the thread. Loops must be the same in all threads; in a
branch that only some take, they do nothing together.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from iree.compiler import ir

from attnpass.ir import DYNAMIC

WARP = 32
TYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f32": np.float32,
    "index": np.int64,
    "i64": np.int64,
    "i32": np.int64,
    "i16": np.int16,
    "i8": np.int8,
    "i1": bool,
}
_BINARY = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divui": np.floor_divide,
    "arith.remui": np.remainder,
    "arith.ceildivui": lambda left, right: -(-left // right),
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.shli": np.left_shift,
    "arith.shrui": np.right_shift,
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
}
_FUNCTIONS = {"math.exp2": np.exp2, "math.tanh": np.tanh, "math.absf": np.abs}
_AFFINE: dict[type, Any] = {
    ir.AffineAddExpr: np.add,
    ir.AffineMulExpr: np.multiply,
    ir.AffineModExpr: np.mod,
    ir.AffineFloorDivExpr: np.floor_divide,
    ir.AffineCeilDivExpr: lambda left, right: -(-left // right),
}
# Casts of values that both types hold, and those that round.
_CASTS = (
    "arith.extf",
    "arith.extui",
    "arith.extsi",
    "arith.trunci",
    "arith.truncf",
    "arith.index_cast",
    "arith.index_castui",
    "arith.sitofp",
    "arith.uitofp",
)
_COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


class Race(Exception):
    """Two threads use the same place in shared memory, one writes, and nothing orders them."""


def run_kernel(
    function: ir.Operation,
    spans: Sequence[np.ndarray],
    threads: int,
    workgroups: Sequence[int] = (0,),
    constants: Sequence[int] = (),
) -> None:
    """Runs workgroups of a kernel, by their numbers (-1: the last one). `spans` are what it
    binds, in the order it does, written in place; `constants` what it is called with."""
    kernel = _Kernel(spans, threads, workgroups, constants)
    kernel.block(function.regions[0].blocks[0])


class _Shared:
    """A buffer in shared memory: who wrote and who read each place since the last barrier."""

    def __init__(self, shape: Sequence[int], kind: Any):
        self.unknown = _unknown(kind)
        self.data = np.full(shape, self.unknown, kind)
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
    def __init__(
        self,
        spans: Sequence[np.ndarray],
        threads: int,
        workgroups: Sequence[int],
        constants: Sequence[int],
    ):
        self.spans, self.threads = iter(spans), threads
        self.workgroups, self.constants = workgroups, constants
        # Which threads are in the branch that is run.
        self.active = np.ones(threads, bool)
        self.values: dict[ir.Value, Any] = {}
        self.shared: list[_Shared] = []
        self.pending: list[tuple[_Shared, tuple[Any, ...], np.ndarray, np.ndarray]] = []
        self.thread = np.arange(threads)

    def block(self, block: ir.Block) -> list[Any]:
        for view in block:
            op = view.operation
            operands: list[Any] = [self.values.get(operand) for operand in op.operands]
            if op.name in ("scf.yield", "func.return", "scf.forall.in_parallel"):
                return operands
            if op.name in _BINARY:
                results = [_BINARY[op.name](*operands)]
            elif op.name in _CASTS:
                results = [operands[0].astype(_element(op.results[0]))]
            elif op.name in _FUNCTIONS:
                results = [_FUNCTIONS[op.name](operands[0])]
            else:
                results = getattr(self, "do_" + op.name.replace(".", "_"))(op, *operands)
            if len(op.results):
                results = results if isinstance(results, list) else [results]
                self.values.update(zip(op.results, results, strict=True))
        return []

    def everywhere(self, number: Any, kind: Any = np.int64) -> np.ndarray:
        return np.full(self.threads, number, kind)

    # control flow

    def do_scf_forall(self, op: ir.Operation, *bounds: Any) -> None:
        dynamic = iter(bounds)
        low, high, step = (
            [x if x != DYNAMIC else int(next(dynamic)[0]) for x in op.attributes[name]]
            for name in ("staticLowerBound", "staticUpperBound", "staticStep")
        )
        places = list(itertools.product(*map(range, low, high, step)))
        block = op.regions[0].blocks[0]
        for place in (places[number] for number in self.workgroups):
            assert not self.pending, "a copy that nobody waited for"
            for buffer in self.shared:
                buffer.clear()
                buffer.data[...] = buffer.unknown
            self.values.update(zip(block.arguments, map(self.everywhere, place), strict=True))
            self.block(block)

    def do_scf_for(self, op: ir.Operation, low: Any, high: Any, step: Any, *carried: Any) -> Any:
        block = op.regions[0].blocks[0]
        values = list(carried)
        self.together()
        for position in range(low[0], high[0], step[0]):
            arguments = [self.everywhere(position), *values]
            self.values.update(zip(block.arguments, arguments, strict=True))
            values = self.block(block)
        return values

    def do_scf_if(self, op: ir.Operation, condition: Any) -> Any:
        before = self.active
        results: list[Any] = []
        for region, taken in zip(op.regions, (condition, ~condition), strict=True):
            self.active = before & taken
            if not self.active.any() or not len(region.blocks):
                continue
            new = self.block(region.blocks[0])
            old = results or new
            results = [self.chosen(self.active, *pair) for pair in zip(new, old, strict=True)]
        self.active = before
        return results

    def together(self) -> None:
        """All threads must be here."""
        assert self.active.all(), "threads part"

    def chosen(self, condition: Any, left: Any, right: Any) -> Any:
        """One of two values, by thread or by element."""
        missing = left.ndim - condition.ndim
        return np.where(condition.reshape(*condition.shape, *[1] * missing), left, right)

    def do_gpu_barrier(self, op: ir.Operation) -> None:
        self.together()
        for buffer in self.shared:
            buffer.clear()

    # indices and scalars

    def do_arith_constant(self, op: ir.Operation) -> Any:
        value, kind = op.attributes["value"], op.results[0].type
        if isinstance(value, ir.DenseElementsAttr):
            shape = (self.threads, *kind.shape)
            numbers = value.get_splat_value().value if value.is_splat else list(value)
            numbers = np.reshape(numbers, () if value.is_splat else kind.shape)
            return np.broadcast_to(numbers.astype(_element(op.results[0])), shape)
        return self.everywhere(value.value, TYPES[str(kind)])

    def do_ub_poison(self, op: ir.Operation) -> Any:
        return self.everywhere(_unknown(_element(op.results[0])), _element(op.results[0]))

    def do_gpu_thread_id(self, op: ir.Operation) -> Any:
        return self.thread if str(op.attributes["dimension"]) == "#gpu.dim<x>" else 0 * self.thread

    def do_arith_cmpi(self, op: ir.Operation, left: Any, right: Any) -> Any:
        code = ir.IntegerAttr(op.attributes["predicate"]).value
        return _COMPARISONS[code if code < 6 else code - 4](left, right)

    def do_arith_select(self, op: ir.Operation, condition: Any, left: Any, right: Any) -> Any:
        return self.chosen(condition, left, right)

    def do_affine_apply(self, op: ir.Operation, *operands: Any) -> Any:
        return self._results(op, operands)[0]

    def do_affine_min(self, op: ir.Operation, *operands: Any) -> Any:
        return np.min(self._results(op, operands), axis=0)

    def do_affine_max(self, op: ir.Operation, *operands: Any) -> Any:
        return np.max(self._results(op, operands), axis=0)

    def _results(self, op: ir.Operation, operands: Sequence[Any]) -> list[Any]:
        """The results of an op's map."""
        value = ir.AffineMapAttr(op.attributes["map"]).value
        dims, symbols = operands[: value.n_dims], operands[value.n_dims :]
        return [
            np.broadcast_to(_evaluate(expr, dims, symbols), self.threads) for expr in value.results
        ]

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

    def do_llvm_inline_asm(self, op: ir.Operation, *values: Any) -> Any:
        text = str(op.attributes["asm_string"])
        if "ex2.approx.ftz.f32" in text:
            return np.exp2(values[0])
        assert "cvt.rn.satfinite.e4m3x2.f32" in text
        high, low = (np.clip(x, -448, 448).astype(TYPES["f8E4M3FN"]) for x in values)
        return np.stack([low, high], 1).view(np.int16)[:, 0]

    def do_vector_bitcast(self, op: ir.Operation, value: Any) -> Any:
        return np.ascontiguousarray(value).view(_element(op.results[0]))

    do_arith_bitcast = do_vector_bitcast

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

    def do_vector_extract_strided_slice(self, op: ir.Operation, value: Any) -> Any:
        offsets, sizes = (_numbers(op.attributes[name]) for name in ("offsets", "sizes"))
        where = (slice(o, o + size) for o, size in zip(offsets, sizes, strict=True))
        return value[(slice(None), *where)]

    def do_vector_step(self, op: ir.Operation) -> Any:
        return np.tile(np.arange(op.results[0].type.shape[0]), (self.threads, 1))

    def do_vector_create_mask(self, op: ir.Operation, *sizes: Any) -> Any:
        shape = op.results[0].type.shape
        seen = np.ones((self.threads, *shape), bool)
        for dim, size in enumerate(sizes):
            along = [1] * len(seen.shape)
            along[dim + 1] = shape[dim]
            inside = np.arange(shape[dim]) < size[:, None]
            seen &= inside.reshape(self.threads, *along[1:])
        return seen

    def do_vector_constant_mask(self, op: ir.Operation) -> Any:
        sizes = list(op.attributes["mask_dim_sizes"])
        return self.do_vector_create_mask(op, *map(self.everywhere, sizes))

    def do_vector_to_elements(self, op: ir.Operation, value: Any) -> Any:
        return list(value.reshape(self.threads, -1).T)

    def do_vector_from_elements(self, op: ir.Operation, *values: Any) -> Any:
        return np.stack(values, 1).reshape(self.threads, *op.results[0].type.shape)

    def do_vector_insert_strided_slice(self, op: ir.Operation, part: Any, whole: Any) -> Any:
        offsets = _numbers(op.attributes["offsets"])
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

    def do_hal_interface_constant_load(self, op: ir.Operation) -> Any:
        return self.everywhere(self.constants[ir.IntegerAttr(op.attributes["ordinal"]).value])

    def do_util_assume_int(self, op: ir.Operation, *values: Any) -> Any:
        return list(values)

    def do_iree_tensor_ext_dispatch_workload_ordinal(self, op: ir.Operation, value: Any) -> Any:
        return value

    def do_hal_interface_binding_subspan(self, op: ir.Operation, *_: Any) -> Any:
        return next(self.spans)

    def do_memref_assume_alignment(self, op: ir.Operation, buffer: Any) -> Any:
        return buffer

    def do_memref_alloc(self, op: ir.Operation) -> Any:
        kind = op.results[0].type
        self.shared.append(_Shared(kind.shape, TYPES[str(kind.element_type)]))
        return self.shared[-1]

    def do_memref_subview(self, op: ir.Operation, buffer: Any) -> Any:
        return buffer

    def do_memref_dealloc(self, op: ir.Operation, buffer: Any) -> None:
        pass

    def _where(
        self, indices: Sequence[Any], shape: Sequence[int], dims: Sequence[int | None] | None = None
    ) -> tuple[Any, ...]:
        """The places of a vector of `shape` at these indices, in each thread; `dims` are the
        buffer's dims that the vector's go along, by default the last ones."""
        if dims is None:
            dims = range(len(indices) - len(shape), len(indices))
        where = [index.reshape(self.threads, *[1] * len(shape)) for index in indices]
        for number, dim in enumerate(dims):
            along = [1] * (len(shape) + 1)
            along[number + 1] = shape[number]
            if dim is not None:
                where[dim] = where[dim] + np.arange(shape[number]).reshape(along)
        whole = np.empty((self.threads, *shape))
        return tuple(np.broadcast_arrays(*where, whole)[:-1])

    def _by(self, where: tuple[Any, ...]) -> np.ndarray:
        """The thread of each place."""
        return np.broadcast_to(
            self.thread.reshape(self.threads, *[1] * (where[0].ndim - 1)), where[0].shape
        )

    def _transfer(
        self, op: ir.Operation, buffer: Any, shape: Sequence[int], rest: Sequence[Any]
    ) -> tuple[tuple[Any, ...], np.ndarray]:
        """The places of a transfer's elements and which of them there are: its threads take
        part, its mask has them, and they are in the buffer where that is not promised."""
        *indices, mask = rest
        dims = [
            expr.position if isinstance(expr, ir.AffineDimExpr) else None
            for expr in op.attributes["permutation_map"].value.results
        ]
        where = self._where(indices, shape, dims)
        there = np.broadcast_to(self.active.reshape(-1, *[1] * len(shape)), where[0].shape)
        if mask is not None:
            assert dims == sorted(dims), "a mask of dims in another order"  # type: ignore[type-var]
            there = there & mask
        promised = [ir.BoolAttr(flag).value for flag in ir.ArrayAttr(op.attributes["in_bounds"])]
        sizes = (buffer.data if isinstance(buffer, _Shared) else buffer).shape
        for dim, inside in zip(dims, promised, strict=True):
            there = there if inside or dim is None else there & (where[dim] < sizes[dim])
        where = tuple(place[there] for place in where)
        assert all((place >= 0).all() for place in where)
        return where, there

    def do_vector_transfer_read(self, op: ir.Operation, buffer: Any, *rest: Any) -> Any:
        segments = list(op.attributes["operandSegmentSizes"])
        padding, mask = rest[segments[1]], rest[-1] if segments[3] else None
        shape = op.results[0].type.shape
        where, there = self._transfer(op, buffer, shape, [*rest[: segments[1]], mask])
        values = np.empty(there.shape, _element(op.results[0]))
        values[...] = padding.reshape(self.threads, *[1] * len(shape))
        shared = isinstance(buffer, _Shared)
        values[there] = buffer.read(where, self._all(there)) if shared else buffer[where]
        return values

    def _all(self, there: np.ndarray) -> np.ndarray:
        """The threads of those places that there are."""
        return self._by((there,))[there]

    def do_vector_transfer_write(
        self, op: ir.Operation, value: Any, buffer: Any, *rest: Any
    ) -> None:
        segments = list(op.attributes["operandSegmentSizes"])
        mask = rest[-1] if segments[3] else None
        shape = op.operands[0].type.shape
        where, there = self._transfer(op, buffer, shape, [*rest[: segments[2]], mask])
        if isinstance(buffer, _Shared):
            buffer.write(where, value[there], self._all(there))
        else:
            buffer[where] = value[there]

    # instructions of NVIDIA GPUs

    def do_nvgpu_device_async_copy(self, op: ir.Operation, *operands: Any) -> None:
        self.together()
        segments = list(op.attributes["operandSegmentSizes"])
        target, rest = operands[0], operands[1:]
        targets, source, sources = rest[: segments[1]], rest[segments[1]], rest[segments[1] + 1 :]
        shape = [ir.IntegerAttr(op.attributes["dstElements"]).value]
        there, here = self._where(targets, shape), self._where(sources[: segments[3]], shape)
        # Of the source, only so many elements are read, and zeros follow them.
        count = rest[-1] if segments[4] else self.everywhere(shape[0])
        read = np.arange(shape[0]) < count[:, None]
        values = np.zeros(there[0].shape, source.dtype)
        values[read] = source[tuple(place[read] for place in here)]
        _check_alignment(target.data, there)
        if source.size:
            _check_alignment(source, here)
        target.write(there, target.unknown, self._by(there))
        self.pending.append((target, there, values, self._by(there)))

    def do_nvgpu_device_async_create_group(self, op: ir.Operation, *_: Any) -> None:
        pass

    def do_nvgpu_device_async_wait(self, op: ir.Operation, *_: Any) -> None:
        for target, where, values, by in self.pending:
            target.write(where, values, by)
        self.pending.clear()

    def do_nvgpu_ldmatrix(self, op: ir.Operation, buffer: Any, *indices: Any) -> Any:
        self.together()
        tiles, width = op.results[0].type.shape
        elements = 8 * width // 2 if width == 2 else 4 * width
        where = self._where(indices, [elements])
        _check_alignment(buffer.data, where)
        # rows[w, i, r]: row r of fragment i, whose place lane 8 i + r of warp w names.
        rows = buffer.read(where, self._by(where)).reshape(-1, 4, 8, elements)
        if ir.BoolAttr(op.attributes["transpose"]).value:
            rows = rows.transpose(0, 1, 3, 2)
        parts = rows.reshape(-1, 4, WARP, width)[:, :tiles]
        return parts.transpose(0, 2, 1, 3).reshape(self.threads, tiles, width)

    def do_nvgpu_mma_sync(self, op: ir.Operation, a: Any, b: Any, c: Any) -> Any:
        self.together()
        # A register holds `width` factors that follow each other.
        width = a.shape[-1]
        assert _numbers(op.attributes["mmaShape"]) == [16, 8, 8 * width]
        # Registers [w, row part, column part, g, t, pair] to [w, row, column], and back.
        left = a.reshape(-1, 8, 4, 2, 2, width).transpose(0, 4, 1, 3, 2, 5)
        left = left.reshape(-1, 16, 8 * width)
        right = b.reshape(-1, 8, 4, 2, width).transpose(0, 3, 2, 4, 1).reshape(-1, 8 * width, 8)
        total = c.reshape(-1, 8, 4, 2, 2).transpose(0, 3, 1, 2, 4).reshape(-1, 16, 8)
        total = left.astype(np.float32) @ right.astype(np.float32) + total
        return total.reshape(-1, 2, 8, 4, 2).transpose(0, 2, 3, 1, 4).reshape(c.shape)

    def do_gpu_subgroup_reduce(self, op: ir.Operation, value: Any) -> Any:
        self.together()
        size = ir.IntegerAttr(op.attributes["cluster_size"]).value
        groups = value.reshape(-1, size)
        kind = str(op.attributes["op"])
        total = groups.max(1) if "maximumf" in kind else groups.sum(1, dtype=np.float32)
        return np.repeat(total, size)


def _evaluate(expr: ir.AffineExpr, dims: Sequence[Any], symbols: Sequence[Any]) -> Any:
    """The value of an affine expression."""
    if isinstance(expr, ir.AffineConstantExpr):
        return expr.value
    if isinstance(expr, ir.AffineDimExpr):
        return dims[expr.position]
    if isinstance(expr, ir.AffineSymbolExpr):
        return symbols[expr.position]
    left, right = (_evaluate(part, dims, symbols) for part in (expr.lhs, expr.rhs))
    return next(do(left, right) for kind, do in _AFFINE.items() if isinstance(expr, kind))


def _element(value: ir.Value) -> Any:
    """The numpy type of a value, or of a vector's elements."""
    kind = value.type
    return TYPES[str(kind.element_type if isinstance(kind, ir.VectorType) else kind)]


def _unknown(kind: Any) -> Any:
    """What stands where nothing was written: NaN, or a number that is unlikely."""
    return np.array(-99 if np.dtype(kind).kind in "bi" else np.nan).astype(kind)


def _numbers(array: ir.Attribute) -> list[int]:
    return [ir.IntegerAttr(x).value for x in ir.ArrayAttr(array)]


def _check_alignment(array: np.ndarray, where: tuple[np.ndarray, ...]) -> None:
    """That what each thread names starts at a multiple of its size."""
    first = tuple(place[:, 0] for place in where)
    start = np.ravel_multi_index(first, array.shape, mode="clip") * array.itemsize
    assert not (start % (where[0].shape[1] * array.itemsize)).any(), "not aligned"
