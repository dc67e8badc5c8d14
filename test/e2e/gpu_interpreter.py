"""Runs a lowered GPU kernel in numpy: all threads of a workgroup in step, one op after another.

For tests that ask, without a GPU, whether a kernel's numbers are right. Tensor-core
instructions do what the PTX ISA says, AMD's what `amd_instructions` says. An asynchronous copy
poisons its target with NaN until it is waited for. Shared memory that one thread wrote and
another one reads, or the other way round, with no barrier between them raises Race.

A value is an array whose first dim is the thread, those of all workgroups that run at once.
In a branch or a turn of a loop that only some threads of a workgroup take, they do nothing
together.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from amd_instructions import CDNA_LANES, RDNA_LANES, mfma, wmma
from iree.compiler import ir

from attnpass.ir import DYNAMIC

WARP = 32
TYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f32": np.float32,
    "index": np.int64,
    "i64": np.int64,
    "i32": np.int64,
    "i16": np.int16,
    "i8": np.int8,
    "i1": bool,
}

# Dims of an array.
Axes = int | tuple[int, ...]


def _least_unsigned(numbers: np.ndarray, axis: Axes) -> np.ndarray:
    """The least of integers that are read without a sign: negative ones are the largest."""
    positive = np.where(numbers < 0, np.iinfo(numbers.dtype).max, numbers).min(axis)
    return np.where((numbers < 0).all(axis), numbers.min(axis), positive)


def _largest_unsigned(numbers: np.ndarray, axis: Axes) -> np.ndarray:
    negative = np.where(numbers < 0, numbers, np.iinfo(numbers.dtype).min).max(axis)
    return np.where((numbers < 0).any(axis), negative, numbers.max(axis))


def _shifted(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """To the right, zeros from the left."""
    unsigned = left.astype(f"u{left.dtype.itemsize}") >> right.astype(f"u{left.dtype.itemsize}")
    return unsigned.astype(left.dtype)


_BINARY = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divui": np.floor_divide,
    "arith.remui": np.remainder,
    "arith.divsi": lambda left, right: np.trunc(left / right).astype(left.dtype),
    "arith.remsi": np.fmod,
    "arith.ceildivui": lambda left, right: -(-left // right),
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.minui": lambda *both: _least_unsigned(np.stack(np.broadcast_arrays(*both)), 0),
    "arith.maxui": lambda *both: _largest_unsigned(np.stack(np.broadcast_arrays(*both)), 0),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift,
    "arith.shrui": lambda left, right: _shifted(np.asarray(left), np.asarray(right)),
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
}
_FUNCTIONS = {
    "math.exp2": np.exp2,
    "math.exp": np.exp,
    "math.tanh": np.tanh,
    "math.absf": np.abs,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.sqrt": np.sqrt,
    "arith.negf": np.negative,
}
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
_REDUCTIONS: dict[str, Callable[[np.ndarray, Axes], np.ndarray]] = {
    "maximumf": lambda groups, axis: groups.max(axis),
    "minimumf": lambda groups, axis: groups.min(axis),
    "maxnumf": lambda groups, axis: np.fmax.reduce(groups, axis),
    "add": lambda groups, axis: groups.sum(axis, dtype=np.float32),
    "minui": _least_unsigned,
    "maxui": _largest_unsigned,
    "minsi": lambda groups, axis: groups.min(axis),
    "max": lambda groups, axis: groups.max(axis),
    "or": lambda groups, axis: np.bitwise_or.reduce(groups, axis),
}
_ENDS = ("yield", "func.return", "util.return", "scf.forall.in_parallel")
# The predicates of arith.cmpf that say no where a number is NaN, from 1 on.
_ORDERED = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal)
# The one that says whether one is.
_UNORDERED = 14
# Kernels run so many threads at once, where they may run more than one workgroup.
_AT_ONCE = 1 << 14


class Race(Exception):
    """Two threads use the same place in shared memory, one writes, and nothing orders them."""


# The array that a kernel binds at one op: of the op, its offset in bytes and its sizes.
Binding = Callable[[ir.Operation, int, Sequence[int]], np.ndarray]


def run_kernel(
    function: ir.Operation,
    spans: Sequence[np.ndarray],
    threads: int,
    workgroups: Sequence[int] = (0,),
    constants: Sequence[int] = (),
) -> None:
    """Runs workgroups of a kernel, by their numbers (-1: the last one). `spans` are what it
    binds, in the order it does, written in place; `constants` what it is called with."""
    order = iter(spans)
    kernel = Machine(lambda *_: next(order), (threads, 1, 1), workgroups, constants)
    kernel.block(function.regions[0].blocks[0])


def run_whole_kernel(
    function: ir.Operation,
    bind: Binding,
    size: Sequence[int],
    constants: Sequence[int],
    lanes: int,
    workgroups: int = 0,
) -> None:
    """Runs all workgroups of a kernel, many at once; or only some, spread evenly over all of
    them, where `workgroups` is not 0. `size` is a workgroup's, `lanes` a subgroup's."""
    kernel = Machine(bind, size, None, constants, lanes)
    kernel.some = workgroups
    kernel.block(function.regions[0].blocks[0])


class _Shared:
    """A buffer in shared memory of each of `groups` workgroups of `count` threads: who wrote and
    who read each place since the last barrier."""

    def __init__(self, shape: Sequence[int], kind: Any, count: int, groups: int):
        self.unknown = _unknown(kind)
        self.shape, self.kind, self.count = shape, kind, count
        self.renew(groups)

    def renew(self, groups: int) -> None:
        """New memory, in which nothing is known."""
        self.data = np.full((groups, *self.shape), self.unknown, self.kind)
        self.writer = np.full(self.data.shape, -1, np.int32)
        self.reader = np.full(self.data.shape, -1, np.int32)

    def clear(self, groups: np.ndarray) -> None:
        """A barrier of these workgroups."""
        self.writer[groups] = -1
        self.reader[groups] = -1

    def read(self, where: tuple[Any, ...], thread: np.ndarray) -> np.ndarray:
        place = self._place(where, thread)
        writer = self.writer.take(place)
        if ((writer != -1) & (writer != thread)).any():
            raise Race("a read of what another thread has just written")
        seen = self.reader.take(place)
        self.reader.reshape(-1)[place] = np.where((seen == -1) | (seen == thread), thread, -2)
        return self.data.reshape(-1)[place]

    def write(self, where: tuple[Any, ...], values: Any, thread: np.ndarray) -> None:
        place = self._place(where, thread)
        reader, writer = self.reader.take(place), self.writer.take(place)
        if ((reader != -1) & (reader != thread)).any():
            raise Race("a write to what another thread may still read")
        if ((writer != -1) & (writer != thread)).any():
            raise Race("two threads write to one place")
        self.data.reshape(-1)[place] = values
        self.writer.reshape(-1)[place] = thread

    def _place(self, where: tuple[Any, ...], thread: np.ndarray) -> np.ndarray:
        """Places as one number each, by which numpy finds them several times as fast. ValueError
        for one that is not there."""
        return np.ravel_multi_index((thread // self.count, *where), self.data.shape)


class _Private:
    """A buffer that each thread has for itself."""

    def __init__(self, shape: Sequence[int], kind: Any):
        self.shape, self.kind = shape, kind

    def renew(self, threads: int) -> None:
        self.data = np.full((threads, *self.shape), _unknown(self.kind), self.kind)

    def read(self, where: tuple[Any, ...], thread: np.ndarray) -> np.ndarray:
        return self.data[(thread, *where)]

    def write(self, where: tuple[Any, ...], values: Any, thread: np.ndarray) -> None:
        self.data[(thread, *where)] = values


@dataclass(frozen=True)
class _Reshaped:
    """The first part of a buffer, of shape `part`, in another shape."""

    buffer: Any
    part: Sequence[int]
    shape: list[int]

    def same(self, where: tuple[Any, ...]) -> tuple[Any, ...]:
        """The places of the buffer."""
        return np.unravel_index(np.ravel_multi_index(where, self.shape), self.part)


# Where a copy goes, what it brings and for which threads.
_Copy = tuple[_Shared, tuple[Any, ...], np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _View:
    """A part of a buffer, which starts at `offsets` in each thread."""

    buffer: Any
    offsets: list[np.ndarray]
    shape: list[int]


class Machine:
    """The values of one kernel's threads, and a method `do_<op>` for each op."""

    def __init__(
        self,
        bind: Binding,
        size: Sequence[int],
        workgroups: Sequence[int] | None,
        constants: Sequence[int],
        lanes: int = WARP,
    ):
        self.bind, self.size, self.lanes = bind, size, lanes
        # None: all of them, or only `some`.
        self.workgroups, self.some = workgroups, 0
        self.constants = constants
        self.values: dict[ir.Value, Any] = {}
        self.shared: list[_Shared] = []
        self.private: list[_Private] = []
        # Copies that are on their way: groups that were closed, and those of no group yet.
        self.groups: list[list[_Copy]] = []
        self.pending: list[_Copy] = []
        self.count = int(np.prod(size))
        self._run_at_once(1)

    def _run_at_once(self, groups: int) -> None:
        """Goes on with so many workgroups, all of which know what the one so far does."""
        self.threads = groups * self.count
        self.thread = np.arange(self.threads)
        # Which threads are in the branch that is run.
        self.active = np.ones(self.threads, bool)
        for value, known in self.values.items():
            if isinstance(known, np.ndarray) and not isinstance(value.type, ir.MemRefType):
                self.values[value] = self._in_all(known)
            if isinstance(known, _View):
                self.values[value] = self._everywhere(known)
            if isinstance(known, _Reshaped) and isinstance(known.buffer, _View):
                self.values[value] = dataclasses.replace(
                    known, buffer=self._everywhere(known.buffer)
                )

    def _everywhere(self, view: _View) -> _View:
        """A view of which one workgroup's offsets are known, as all of them have it."""
        return dataclasses.replace(view, offsets=[self._in_all(one) for one in view.offsets])

    def _in_all(self, known: np.ndarray) -> np.ndarray:
        """What one workgroup's threads know, of as many workgroups as run. Where as many ran
        before they know it, or, of what differs in each, are told anew before they ask."""
        if len(known) == self.threads:
            return known
        return np.resize(known[: self.count], (self.threads, *known.shape[1:]))

    def block(self, block: ir.Block) -> list[Any]:
        for view in block:
            op = view.operation
            operands: list[Any] = [self.values.get(operand) for operand in op.operands]
            if op.name.endswith(_ENDS):
                return operands
            if op.name in _BINARY:
                results = [_BINARY[op.name](*operands)]
            elif op.name in _CASTS:
                value, kind = operands[0], _element(op.results[0])
                # Of an integer, i1 keeps the lowest bit.
                value = value & 1 if op.name == "arith.trunci" and kind is bool else value
                if op.name == "arith.index_castui" and str(op.operands[0].type) == "i32":
                    value = value & 0xFFFFFFFF
                results = [value.astype(kind)]
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
        if "mapping" not in op.attributes:
            # A loop inside a kernel: each thread takes every turn.
            for place in places:
                self.values.update(zip(block.arguments, map(self.everywhere, place), strict=True))
                self.block(block)
            return
        for group in self._batches(places):
            self._run_at_once(len(group))
            assert not self.pending and not self.groups, "a copy that nobody waited for"
            for shared in self.shared:
                shared.renew(len(group))
            for private in self.private:
                private.renew(self.threads)
            numbers = np.repeat(np.array(group, np.int64).T, self.count, axis=1)
            self.values.update(zip(block.arguments, numbers, strict=True))
            self.block(block)

    def _batches(self, places: list[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
        """The workgroups that are wanted, those together that run at once."""
        if self.workgroups is not None:
            return [[places[number]] for number in self.workgroups]
        if self.some:
            places = [places[int(at)] for at in np.linspace(0, len(places) - 1, self.some)]
        size = max(1, _AT_ONCE // self.count)
        return [places[start : start + size] for start in range(0, len(places), size)]

    def do_scf_for(self, op: ir.Operation, low: Any, high: Any, step: Any, *carried: Any) -> Any:
        block = op.regions[0].blocks[0]
        values, before = list(carried), self.active
        position = np.broadcast_to(low, self.threads)
        while (self.active & (position < high)).any():
            self.active = self.active & (position < high)
            self.values.update(zip(block.arguments, [position, *values], strict=True))
            new = self.block(block)
            values = [self.chosen(self.active, *pair) for pair in zip(new, values, strict=True)]
            position = position + step
        self.active = before
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

    def together(self) -> np.ndarray:
        """The workgroups that are here: with all their threads, or this fails."""
        here = self.active.reshape(-1, self.count)
        assert (here.all(1) == here.any(1)).all(), "threads part"
        return here[:, 0]

    def chosen(self, condition: Any, left: Any, right: Any) -> Any:
        """One of two values, by thread or by element."""
        missing = left.ndim - condition.ndim
        return np.where(condition.reshape(*condition.shape, *[1] * missing), left, right)

    def do_gpu_barrier(self, op: ir.Operation) -> None:
        here = self.together()
        for buffer in self.shared:
            buffer.clear(here)

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
        kind, number = op.results[0].type, _element(op.results[0])
        sizes = kind.shape if isinstance(kind, ir.VectorType) else ()
        return np.full((self.threads, *sizes), _unknown(number), number)

    def do_gpu_thread_id(self, op: ir.Operation) -> Any:
        name = str(op.attributes["dimension"])
        x, y, _ = self.size
        stride, size = {"#gpu.dim<x>": (1, x), "#gpu.dim<y>": (x, y)}.get(
            name, (x * y, self.size[2])
        )
        return self.thread % self.count // stride % size

    def do_gpu_lane_id(self, op: ir.Operation) -> Any:
        return self.thread % self.count % self.lanes

    def do_arith_cmpi(self, op: ir.Operation, left: Any, right: Any) -> Any:
        code = ir.IntegerAttr(op.attributes["predicate"]).value
        return _COMPARISONS[code if code < 6 else code - 4](left, right)

    def do_arith_cmpf(self, op: ir.Operation, left: Any, right: Any) -> Any:
        code = ir.IntegerAttr(op.attributes["predicate"]).value
        if 1 <= code <= len(_ORDERED):
            return _ORDERED[code - 1](left, right)
        if code == _UNORDERED:
            return np.isnan(left) | np.isnan(right)
        raise NotImplementedError(f"the predicate of {op}")

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

    def do_affine_linearize_index(self, op: ir.Operation, *numbers: Any) -> Any:
        count, _ = op.attributes["operandSegmentSizes"]
        indices, sizes = numbers[:count], _basis(op, numbers[count:])
        total = np.zeros(self.threads, np.int64)
        sizes = [1] * (len(indices) - len(sizes)) + sizes
        for index, size in zip(indices, sizes, strict=True):
            total = total * size + index
        return total

    def do_affine_delinearize_index(self, op: ir.Operation, index: Any, *numbers: Any) -> Any:
        sizes = _basis(op, numbers)
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
        if "rcp.approx.ftz.f32" in text:
            return 1 / values[0]
        # The first operand of a pair goes to the upper half.
        if "cvt.rn.bf16x2.f32" in text:
            low, high = (x.astype(TYPES["bf16"]) for x in reversed(values))
            return np.stack([low, high], 1).view(np.int32)[:, 0]
        assert "cvt.rn.satfinite.e4m3x2.f32" in text
        high, low = (np.clip(x, -448, 448).astype(TYPES["f8E4M3FN"]) for x in values)
        return np.stack([low, high], 1).view(np.int16)[:, 0]

    def do_vector_bitcast(self, op: ir.Operation, value: Any) -> Any:
        given, made = (_stored(x) for x in (op.operands[0], op.results[0]))
        return np.ascontiguousarray(value, given).view(made).astype(_element(op.results[0]))

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

    def do_vector_insert(self, op: ir.Operation, part: Any, whole: Any) -> Any:
        result = whole.copy()
        result[(slice(None), *op.attributes["static_position"])] = part
        return result

    def do_math_fma(self, op: ir.Operation, left: Any, right: Any, start: Any) -> Any:
        return left * right + start

    def do_vector_insert_strided_slice(self, op: ir.Operation, part: Any, whole: Any) -> Any:
        offsets = _numbers(op.attributes["offsets"])
        sizes = [1] * (len(offsets) + 1 - part.ndim) + list(part.shape[1:])
        where = tuple(slice(o, o + size) for o, size in zip(offsets, sizes, strict=True))
        result = whole.copy()
        result[(slice(None), *where)] = part.reshape(self.threads, *sizes)
        return result

    def do_vector_multi_reduction(self, op: ir.Operation, value: Any, start: Any) -> Any:
        dims = tuple(dim + 1 for dim in op.attributes["reduction_dims"])
        kind = str(op.attributes["kind"])
        if "maximumf" in kind:
            return np.maximum(value.max(dims), start)
        if "maxnumf" in kind:
            return np.fmax(np.fmax.reduce(value, dims), start)
        if "<add>" in kind:
            return value.sum(dims, dtype=np.float32) + start
        join = kind[kind.index("<") + 1 : -1]
        reduce = _REDUCTIONS[{"maxsi": "max"}.get(join, join)]
        joined = reduce(value, dims)
        return reduce(np.stack((joined, np.broadcast_to(start, joined.shape))), 0)

    def do_vector_contract(self, op: ir.Operation, *factors: Any) -> Any:
        assert "<add>" in str(op.attributes["kind"])
        orders = [
            [expr.position for expr in attr.value.results]
            for attr in map(ir.AffineMapAttr, ir.ArrayAttr(op.attributes["indexing_maps"]))
        ]
        # A sum over all loops is a scalar.
        shape = factors[-1].shape[1:]
        loops = [loop for loop, size in zip(orders[-1], shape, strict=True) if size != 1]
        assert loops == sorted(loops), "IREE 3.13 lowers loops in this order to wrong numbers"
        left_sums, right_sums = (
            [
                loop
                for loop, size in zip(order, factor.shape[1:], strict=True)
                if size != 1 and loop not in orders[-1]
            ]
            for order, factor in zip(orders[:2], factors[:2], strict=True)
        )
        assert left_sums == right_sums, "IREE 3.13 takes summed dims by their places in factors"
        *terms, total = ("z" + "".join(chr(ord("a") + loop) for loop in loops) for loops in orders)
        left, right, start = (np.asarray(factor, np.float32) for factor in factors)
        result = np.einsum(f"{','.join(terms)}->{total}", left, right) + start
        return result.astype(_element(op.results[0]))

    # memory

    def do_hal_interface_constant_load(self, op: ir.Operation) -> Any:
        return self.everywhere(self.constants[ir.IntegerAttr(op.attributes["ordinal"]).value])

    def do_util_assume_int(self, op: ir.Operation, *values: Any) -> Any:
        return list(values)

    def do_iree_tensor_ext_dispatch_workload_ordinal(self, op: ir.Operation, value: Any) -> Any:
        return value

    def do_hal_interface_binding_subspan(self, op: ir.Operation, offset: Any, *sizes: Any) -> Any:
        return self.bind(op, int(offset[0]), [int(size[0]) for size in sizes])

    def do_memref_assume_alignment(self, op: ir.Operation, buffer: Any) -> Any:
        return buffer

    do_amdgpu_fat_raw_buffer_cast = do_memref_assume_alignment
    do_iree_codegen_index_hint = do_memref_assume_alignment

    def do_memref_alloc(self, op: ir.Operation, *sizes: Any) -> Any:
        shape, groups = _shape(op, sizes), self.threads // self.count
        self.shared.append(_Shared(shape, _element(op.results[0]), self.count, groups))
        return self.shared[-1]

    def do_memref_alloca(self, op: ir.Operation, *sizes: Any) -> Any:
        shape = _shape(op, sizes)
        self.private.append(_Private(shape, _element(op.results[0])))
        self.private[-1].renew(self.threads)
        return self.private[-1]

    def do_memref_subview(self, op: ir.Operation, buffer: Any, *numbers: Any) -> Any:
        assert set(op.attributes["static_strides"]) == {1}
        dynamic = iter(numbers)
        offsets, shape = (
            [x if x != DYNAMIC else next(dynamic) for x in op.attributes[name]]
            for name in ("static_offsets", "static_sizes")
        )
        if isinstance(buffer, _View):
            offsets = [old + new for old, new in zip(buffer.offsets, offsets, strict=True)]
            buffer = buffer.buffer
        sizes = [size if isinstance(size, int) else int(size[0]) for size in shape]
        view = _View(buffer, list(map(self._each, offsets)), sizes)
        if len(kept := op.results[0].type.shape) < len(sizes):
            return _Reshaped(view, sizes, kept)
        return buffer if all(isinstance(at, int) and at == 0 for at in offsets) else view

    def _each(self, number: Any) -> np.ndarray:
        """A number in each thread."""
        return np.broadcast_to(number, self.threads)

    def do_memref_expand_shape(self, op: ir.Operation, buffer: Any, *sizes: Any) -> Any:
        dynamic = iter(sizes)
        shape = [
            x if x != DYNAMIC else int(next(dynamic)[0])
            for x in op.attributes["static_output_shape"]
        ]
        source = op.operands[0].type
        if isinstance(buffer, np.ndarray) and not source.has_static_shape:
            return buffer.reshape(shape)
        groups = ir.ArrayAttr(op.attributes["reassociation"])
        part = [int(np.prod([shape[dim] for dim in _numbers(group)])) for group in groups]
        return _Reshaped(buffer, part, shape)

    def do_memref_collapse_shape(self, op: ir.Operation, buffer: Any) -> Any:
        kind, source = op.results[0].type, op.operands[0].type
        assert kind.has_static_shape and source.has_static_shape
        return _Reshaped(buffer, source.shape, kind.shape)

    def do_memref_load(self, op: ir.Operation, buffer: np.ndarray, *indices: Any) -> Any:
        values = np.zeros(self.threads, _element(op.results[0]))
        where = self._active_place(buffer, indices)
        values[self.active] = _read(buffer, where, self.thread[self.active])
        return values

    def do_memref_store(self, op: ir.Operation, value: Any, buffer: Any, *indices: Any) -> None:
        where = self._active_place(buffer, indices)
        _write(buffer, where, value[self.active], self.thread[self.active])

    def do_vector_load(self, op: ir.Operation, buffer: Any, *indices: Any) -> Any:
        where, thread = self._active_line(op.results[0], buffer, indices)
        values = np.zeros((self.threads, *op.results[0].type.shape), _element(op.results[0]))
        values[self.active] = _read(buffer, where, thread)
        return values

    def do_vector_store(self, op: ir.Operation, value: Any, buffer: Any, *indices: Any) -> None:
        where, thread = self._active_line(op.operands[0], buffer, indices)
        _write(buffer, where, value[self.active], thread)

    def _active_line(self, vector: ir.Value, buffer: Any, indices: Sequence[Any]) -> Any:
        """Where the elements of the active threads' vectors are, and whose they are."""
        if not vector.type.shape:
            return self._active_place(buffer, indices), self.thread[self.active]
        (size,) = vector.type.shape
        *far, near = (at[:, None] for at in self._active_place(buffer, indices))
        thread = self.thread[self.active][:, None]
        *where, own = np.broadcast_arrays(*far, near + np.arange(size), thread)
        return tuple(where), own

    def _active_place(self, buffer: Any, indices: Sequence[Any]) -> tuple[Any, ...]:
        """Where the active threads' elements are, in the buffer that a view is one of."""
        if isinstance(buffer, _View):
            indices = [at + offset for at, offset in zip(indices, buffer.offsets, strict=True)]
        return tuple(index[self.active] for index in indices)

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
        self, op: ir.Operation, number: int, shape: Sequence[int], rest: Sequence[Any]
    ) -> tuple[tuple[Any, ...], np.ndarray]:
        """The places of a transfer's elements and which of them there are: its threads take
        part, its mask has them, and they are in the buffer, its operand `number`, where that
        is not promised."""
        *indices, mask = rest
        dims = [
            expr.position if isinstance(expr, ir.AffineDimExpr) else None
            for expr in op.attributes["permutation_map"].value.results
        ]
        where = self._where(indices, shape, dims)
        there = np.broadcast_to(self.active.reshape(-1, *[1] * len(shape)), (self.threads, *shape))
        if mask is not None:
            assert dims == sorted(dims), "a mask of dims in another order"  # type: ignore[type-var]
            there = there & mask
        promised = [ir.BoolAttr(flag).value for flag in ir.ArrayAttr(op.attributes["in_bounds"])]
        buffer = self.values[op.operands[number]]
        known = zip(op.operands[number].type.shape, buffer.shape, strict=True)
        sizes = [size if static == DYNAMIC else static for static, size in known]
        for dim, inside in zip(dims, promised, strict=True):
            there = there if inside or dim is None else there & (where[dim] < sizes[dim])
        where = tuple(place[there] for place in where)
        if isinstance(buffer, _View):
            by = self._all(there)
            where = tuple(x + new[by] for x, new in zip(where, buffer.offsets, strict=True))
        assert all((place >= 0).all() for place in where)
        return where, there

    def do_vector_transfer_read(self, op: ir.Operation, buffer: Any, *rest: Any) -> Any:
        segments = list(op.attributes["operandSegmentSizes"])
        padding, mask = rest[segments[1]], rest[-1] if segments[3] else None
        shape = op.results[0].type.shape
        where, there = self._transfer(op, 0, shape, [*rest[: segments[1]], mask])
        values = np.empty(there.shape, _element(op.results[0]))
        values[...] = padding.reshape(self.threads, *[1] * len(shape))
        values[there] = _read(buffer, where, self._all(there))
        return values

    def do_vector_gather(self, op: ir.Operation, buffer: Any, *rest: Any) -> Any:
        assert _lies_together(op.operands[0].type), "IREE 3.13 takes a view to have no gaps"
        *start, places, mask, passed = rest
        there = self._taken(mask)
        values = np.array(passed)
        values[there] = _read(buffer, *self._scattered(op.operands[0], start, places, there))
        return values

    def do_vector_scatter(self, op: ir.Operation, buffer: Any, *rest: Any) -> None:
        *start, places, mask, value = rest
        there = self._taken(mask)
        where, thread = self._scattered(op.operands[0], start, places, there)
        _write(buffer, where, value[there], thread)

    def _taken(self, mask: np.ndarray) -> np.ndarray:
        """The elements of a mask that are set, of the threads that take part."""
        return mask & self.active.reshape(-1, *[1] * (mask.ndim - 1))

    def _scattered(
        self, buffer: ir.Value, start: Sequence[Any], places: np.ndarray, there: np.ndarray
    ) -> tuple[tuple[Any, ...], np.ndarray]:
        """The places of a buffer, numbered from `start` on as its elements lie, and by whom."""
        array = self.values[buffer]
        shape, thread = array.shape, self._all(there)
        first = np.ravel_multi_index(tuple(np.zeros_like(at) + at for at in start), shape)
        where = np.unravel_index(first[thread] + places[there], shape)
        if isinstance(array, _View):
            pairs = zip(where, array.offsets, strict=True)
            where = tuple(at + offset[thread] for at, offset in pairs)
        return where, thread

    def do_linalg_generic(self, op: ir.Operation, *buffers: Any) -> None:
        """Element by element: what IREE leaves of a copy, or of sums that it does not cut."""
        maps = [ir.AffineMapAttr(x).value for x in ir.ArrayAttr(op.attributes["indexing_maps"])]
        orders = [[expr.position for expr in found.results] for found in maps]
        extents = {
            dim: size
            for order, buffer in zip(orders, buffers, strict=True)
            for dim, size in zip(order, buffer.shape, strict=True)
        }
        block, thread = op.regions[0].blocks[0], self.thread[self.active]
        for place in np.ndindex(*(extents[dim] for dim in range(maps[0].n_dims))):
            own = [[place[dim] for dim in order] for order in orders]
            for argument, buffer, at in zip(block.arguments, buffers, own, strict=True):
                value = np.zeros(self.threads, TYPES[str(argument.type)])
                value[thread] = _read(buffer, self._element(buffer, at), thread)
                self.values[argument] = value
            (result,) = self.block(block)
            target = buffers[-1]
            _write(target, self._element(target, own[-1]), result[thread], thread)

    def _element(self, view: _View, place: Sequence[int]) -> tuple[np.ndarray, ...]:
        """A place in a view, as one in its buffer, for the threads that are here."""
        return tuple(
            at + offset[self.active] for at, offset in zip(place, view.offsets, strict=True)
        )

    def _all(self, there: np.ndarray) -> np.ndarray:
        """The threads of those places that there are."""
        return self._by((there,))[there]

    def do_vector_transfer_write(
        self, op: ir.Operation, value: Any, buffer: Any, *rest: Any
    ) -> None:
        segments = list(op.attributes["operandSegmentSizes"])
        mask = rest[-1] if segments[3] else None
        shape = op.operands[0].type.shape
        where, there = self._transfer(op, 1, shape, [*rest[: segments[2]], mask])
        _write(buffer, where, value[there], self._all(there))

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
        _check_alignment(target.shape, target.kind, there)
        if source.size:
            _check_alignment(source.shape, source.dtype, here)
        target.write(there, target.unknown, self._by(there))
        self.pending.append((target, there, values, self._by(there)))

    def do_nvgpu_device_async_create_group(self, op: ir.Operation, *_: Any) -> None:
        self.groups.append(self.pending)
        self.pending = []

    def do_nvgpu_device_async_wait(self, op: ir.Operation, *_: Any) -> None:
        """Waits until only so many groups are on their way, the last ones."""
        left = ir.IntegerAttr(op.attributes["numGroups"]).value
        while len(self.groups) > left:
            for target, where, values, by in self.groups.pop(0):
                target.write(where, values, by)

    def do_nvgpu_ldmatrix(self, op: ir.Operation, buffer: Any, *indices: Any) -> Any:
        self.together()
        tiles, width = op.results[0].type.shape
        elements = 8 * width // 2 if width == 2 else 4 * width
        where = self._where(indices, [elements])
        _check_alignment(buffer.shape, buffer.kind, where)
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

    # instructions of AMD GPUs

    def do_amdgpu_mfma(self, op: ir.Operation, a: Any, b: Any, c: Any) -> Any:
        self.together()
        assert self.lanes == CDNA_LANES
        m, n, k, blocks, *others = (
            ir.IntegerAttr(op.attributes[name]).value
            for name in ("m", "n", "k", "blocks", "cbsz", "abid")
        )
        assert blocks == 1 and not any(others) and "none" in str(op.attributes["blgp"])
        return mfma(a, b, c, (m, n, k))

    def do_amdgpu_wmma(self, op: ir.Operation, a: Any, b: Any, c: Any) -> Any:
        self.together()
        assert self.lanes == RDNA_LANES
        sizes = (ir.IntegerAttr(op.attributes[name]).value for name in ("m", "n", "k"))
        assert all(size == 16 for size in sizes)
        return wmma(a, b, c)

    # all GPUs

    def do_gpu_subgroup_reduce(self, op: ir.Operation, value: Any) -> Any:
        self.together()
        names, found = ("cluster_size", "cluster_stride"), op.attributes
        size, stride = (ir.IntegerAttr(found[n]).value if n in found else 0 for n in names)
        size, stride = size or self.lanes, stride or 1
        assert size * stride <= self.lanes, "a cluster of more lanes than there are"
        groups = value.reshape(-1, size, stride)
        reduce = next(do for name, do in _REDUCTIONS.items() if name in str(op.attributes["op"]))
        total = np.broadcast_to(reduce(groups, 1)[:, None], groups.shape)
        return total.reshape(-1).astype(value.dtype)


def _root(buffer: Any, where: tuple[Any, ...], thread: np.ndarray) -> tuple[Any, tuple[Any, ...]]:
    """The buffer that a view is one of, and the places there, which the view's offsets are in."""
    buffer = buffer.buffer if isinstance(buffer, _View) else buffer
    while isinstance(buffer, _Reshaped):
        where, buffer = buffer.same(where), buffer.buffer
        if isinstance(buffer, _View):
            pairs = zip(where, buffer.offsets, strict=True)
            where, buffer = tuple(at + offset[thread] for at, offset in pairs), buffer.buffer
    return buffer, where


def _read(buffer: Any, where: tuple[Any, ...], thread: np.ndarray) -> np.ndarray:
    """What these threads read in a buffer, at places of it, not of a view."""
    buffer, where = _root(buffer, where, thread)
    own = isinstance(buffer, (_Shared, _Private))
    return buffer.read(where, thread) if own else buffer[where]


def _write(buffer: Any, where: tuple[Any, ...], values: np.ndarray, thread: np.ndarray) -> None:
    buffer, where = _root(buffer, where, thread)
    if isinstance(buffer, (_Shared, _Private)):
        buffer.write(where, values, thread)
    else:
        # One element, of a tensor without dims, is one thread's.
        buffer[where] = values if where else values[-1]


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


def _lies_together(kind: ir.MemRefType) -> bool:
    """Whether a buffer's elements lie side by side, as far as its type tells."""
    strides, _ = kind.get_strides_and_offset()
    wanted = 1
    for size, step in zip(reversed(kind.shape), reversed(strides), strict=True):
        if size != 1 and wanted != DYNAMIC and step not in (wanted, DYNAMIC):
            return False
        wanted = DYNAMIC if DYNAMIC in (size, wanted) else wanted * size
    return True


def _element(value: ir.Value) -> Any:
    """The numpy type of a value, or of a vector's elements."""
    kind = value.type
    return TYPES[str(kind.element_type if isinstance(kind, ir.ShapedType) else kind)]


def _stored(value: ir.Value) -> Any:
    """The numpy type of a value's bits, where the interpreter computes with more."""
    kind = value.type
    name = str(kind.element_type if isinstance(kind, ir.ShapedType) else kind)
    return np.int32 if name == "i32" else TYPES[name]


def _shape(op: ir.Operation, sizes: Sequence[np.ndarray]) -> list[int]:
    """The shape of a new buffer whose unknown sizes are the largest that a thread asks for."""
    unknown = iter(sizes)
    return [x if x != DYNAMIC else int(next(unknown).max()) for x in op.results[0].type.shape]


def _unknown(kind: Any) -> Any:
    """What stands where nothing was written: NaN, or a number that is unlikely."""
    return np.array(-99 if np.dtype(kind).kind in "bi" else np.nan).astype(kind)


def _basis(op: ir.Operation, numbers: Sequence[Any]) -> list[Any]:
    """The sizes an index is of; those known only at run time are `numbers`."""
    unknown = iter(numbers)
    return [next(unknown) if size == DYNAMIC else size for size in op.attributes["static_basis"]]


def _numbers(array: ir.Attribute) -> list[int]:
    return [ir.IntegerAttr(x).value for x in ir.ArrayAttr(array)]


def _check_alignment(shape: Sequence[int], kind: Any, where: tuple[np.ndarray, ...]) -> None:
    """That what each thread names starts at a multiple of its size."""
    size, start = np.dtype(kind).itemsize, np.zeros(len(where[0]), np.int64)
    # A place may lie outside where nothing is read.
    for place, extent in zip(where, shape, strict=True):
        start = start * extent + place[:, 0]
    start *= size
    assert not (start % (where[0].shape[1] * size)).any(), "not aligned"
