"""Runs a function of tensor-level MLIR in numpy, in float64: what the IR means, without IREE.

For tests that ask whether a rewrite kept the meaning of a module, thousands of times.
Every float is a float64, whatever its type in the IR, so two orders of the same sums differ
by rounding of 1e-15 only; casts to 8 bits alone round. With `rounds` each op rounds its results
to their types: what is then lost is what the types cannot hold. With `absorbs` only those are
rounded that are so large that others vanish beside them. `tensor.empty` holds NaN:
reading what was never written shows. Rows of attention that see no key are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import product_model
from iree.compiler import ir

DYNAMIC = ir.ShapedType.get_dynamic_size()
_RETURNS = (
    "func.return",
    "util.return",
    "scf.yield",
    "linalg.yield",
    "tensor.yield",
    "iree_linalg_ext.yield",
)


# Sums of products over so many points are numpy's own, and not rounded at each step.
_LONG = 10**6
# From where on floats of a type absorb what is added to them.
_LARGE = {"bf16": 2.0**12, "f16": 2.0**13, "f32": 2.0**20}
_WIDE = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
_NARROW = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
}


class Machine:
    """A module with what its mutable globals hold, from call to call."""

    def __init__(self, module: ir.Module, rounds: bool = False, absorbs: bool = False):
        self.module = module
        self.rounds = rounds
        self.absorbs = absorbs
        self.symbols = {
            ir.StringAttr(op.operation.attributes["sym_name"]).value: op.operation
            for op in module.body.operations
            if "sym_name" in op.operation.attributes
        }
        self.globals: dict[str, Any] = {}

    def call(self, function: str, inputs: Sequence[Any]) -> list[Any]:
        """What `function` returns for numpy arrays (and numbers) as inputs."""
        block = self.symbols[function].regions[0].blocks[0]
        exact = [_exact(x) if isinstance(x, np.ndarray) else x for x in inputs]
        return _Frame(self).block(block, exact)


def interpret(
    module: ir.Module, inputs: Sequence[Any], function: str = "main", absorbs: bool = False
) -> list[Any]:
    """What `function` returns for numpy arrays (and numbers) as inputs."""
    return Machine(module, absorbs=absorbs).call(function, inputs)


def _exact(array: np.ndarray) -> np.ndarray:
    """In float64; indices stay integers."""
    return array if array.dtype in (np.int32, np.int64) else np.asarray(array, float)


def _rounded(value: Any, kind: ir.Type, to: dict[str, Any]) -> Any:
    """`value` rounded to its element type, if that is one of `to`."""
    element = kind.element_type if isinstance(kind, ir.ShapedType) else kind
    number = to.get(str(element))
    if number is None:
        return value
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(number).astype(float)


def _absorbed(value: Any, kind: ir.Type) -> Any:
    """`value`, its large elements rounded to its element type."""
    element = str(kind.element_type if isinstance(kind, ir.ShapedType) else kind)
    if element not in _LARGE:
        return value
    return np.where(np.abs(value) >= _LARGE[element], _rounded(value, kind, _WIDE), value)


def meaning(text: str, inputs: Sequence[Any]) -> list[Any]:
    """What `main` of a module's text returns."""
    with ir.Context() as context:
        context.load_all_available_dialects()
        return interpret(ir.Module.parse(text), inputs)


class _Frame:
    """Values of one call; nested regions see those around them."""

    def __init__(self, machine: Machine, outer: dict[ir.Value, Any] | None = None):
        self.machine = machine
        self.values = dict(outer or {})

    def block(self, block: ir.Block, arguments: Sequence[Any]) -> list[Any]:
        self.values.update(zip(block.arguments, arguments, strict=True))
        for view in block.operations:
            op = view.operation
            operands = [self.values[operand] for operand in op.operands]
            if op.name in _RETURNS:
                return operands
            results = self.run(op, operands)
            if self.machine.rounds:
                pairs = zip(results, op.results, strict=True)
                results = [_rounded(x, result.type, _WIDE) for x, result in pairs]
            elif self.machine.absorbs:
                pairs = zip(results, op.results, strict=True)
                results = [_absorbed(x, result.type) for x, result in pairs]
            self.values.update(zip(op.results, results, strict=True))
        return []

    def run(self, op: ir.Operation, operands: list[Any]) -> list[Any]:
        scalar = _SCALARS.get(op.name)
        if scalar is not None:
            return [scalar(*operands)]
        method = getattr(self, "do_" + op.name.replace(".", "_"), None)
        if method is None:
            raise NotImplementedError(op.name)
        result = method(op, *operands)
        return list(result) if isinstance(result, list | tuple) else [result]

    # scalars and shapes

    def do_arith_constant(self, op: ir.Operation) -> Any:
        value = op.attributes["value"]
        if isinstance(value, ir.DenseElementsAttr):
            kind = ir.RankedTensorType(op.results[0].type)
            if value.is_splat:
                return np.full(kind.shape, value.get_splat_value().value, float)
            return np.array(value, float).reshape(kind.shape)
        return value.value  # type: ignore[attr-defined]

    def do_arith_cmpi(self, op: ir.Operation, left: Any, right: Any) -> Any:
        code = ir.IntegerAttr(op.attributes["predicate"]).value
        table = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
        return table[code if code < 6 else code - 4](left, right)

    def do_arith_cmpf(self, op: ir.Operation, left: Any, right: Any) -> Any:
        """Ordered and unordered predicates alike: NaN is in no test."""
        code = ir.IntegerAttr(op.attributes["predicate"]).value
        table = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)
        return table[(code - 1) % 7](left, right)

    def do_arith_trunci(self, op: ir.Operation, value: Any) -> Any:
        return np.asarray(value, int) & (2 ** ir.IntegerType(op.results[0].type).width - 1)

    def do_tensor_dim(self, op: ir.Operation, source: Any, dim: int) -> Any:
        return source.shape[dim]

    def do_tensor_empty(self, op: ir.Operation, *sizes: int) -> Any:
        return np.full(_shape(op, sizes), np.nan)

    def do_tensor_from_elements(self, op: ir.Operation, *elements: Any) -> Any:
        return np.array(elements).reshape(_shape(op, ()))

    def do_flow_tensor_bitcast(self, op: ir.Operation, source: Any) -> Any:
        """Bytes as bits, the lowest first: a mask that is packed."""
        kind = ir.RankedTensorType(op.results[0].type)
        assert str(kind.element_type) == "i1", "a cast of bits to other than i1"
        bits = np.unpackbits(np.asarray(source).astype(np.uint8), bitorder="little")
        return bits[: math.prod(kind.shape)].reshape(kind.shape)

    def do_arith_truncf(self, op: ir.Operation, source: Any) -> Any:
        return _rounded(source, op.results[0].type, _NARROW)

    def do_tensor_cast(self, op: ir.Operation, source: Any) -> Any:
        if isinstance(op.results[0].type, ir.RankedTensorType):
            for size, wanted in zip(source.shape, op.results[0].type.shape, strict=True):
                assert wanted in (size, DYNAMIC), "a cast to another size"
        return source

    def do_tensor_expand_shape(self, op: ir.Operation, source: Any, *sizes: int) -> Any:
        given = iter(sizes)
        shape = [next(given) if s == DYNAMIC else s for s in op.attributes["static_output_shape"]]
        for dim, group in enumerate(_groups(op)):
            assert math.prod(shape[i] for i in group) == source.shape[dim], "expand_shape"
        return source.reshape(shape)

    def do_tensor_collapse_shape(self, op: ir.Operation, source: Any) -> Any:
        groups = _groups(op)
        return source.reshape([math.prod(source.shape[i] for i in group) for group in groups])

    def do_tensor_reshape(self, op: ir.Operation, source: Any, shape: Any) -> Any:
        return source.reshape([int(size) for size in shape])

    # pieces

    def do_tensor_extract_slice(self, op: ir.Operation, source: Any, *rest: int) -> Any:
        result = source[_slices(op, rest)]
        shape = list(op.results[0].type.shape)  # type: ignore[attr-defined]
        dropped = _dropped_dims(list(op.attributes["static_sizes"]), shape)
        return result.reshape([s for d, s in enumerate(result.shape) if d not in dropped])

    def do_tensor_insert_slice(self, op: ir.Operation, source: Any, into: Any, *rest: int) -> Any:
        result = into.copy()
        where = _slices(op, rest)
        result[where] = source.reshape(result[where].shape)
        return result

    def do_tensor_concat(self, op: ir.Operation, *pieces: Any) -> Any:
        return np.concatenate(pieces, axis=ir.IntegerAttr(op.attributes["dim"]).value)

    def do_tensor_pad(self, op: ir.Operation, source: Any, *rest: int) -> Any:
        given = iter(rest)
        low, high = (
            [next(given) if s == DYNAMIC else s for s in op.attributes[name]]
            for name in ("static_low", "static_high")
        )
        (padding,) = _Frame(self.machine, self.values).block(
            op.regions[0].blocks[0], [0] * source.ndim
        )
        if isinstance(padding, float):
            source = np.asarray(source, float)
        return np.pad(source, list(zip(low, high, strict=True)), constant_values=padding)

    def do_tensor_extract(self, op: ir.Operation, source: Any, *indices: Any) -> Any:
        return np.asarray(source)[tuple(np.asarray(index, int) for index in indices)]

    def do_iree_linalg_ext_gather(
        self, op: ir.Operation, source: Any, index: Any, *mask_and_out: Any
    ) -> Any:
        *mask, out = mask_and_out
        found = _like(source[_addressed(op, source, index, out.ndim)], out)
        if not mask:
            return found
        return np.where(
            mask[0].reshape(mask[0].shape + (1,) * (out.ndim - mask[0].ndim)), found, out
        )

    def do_iree_linalg_ext_scatter(
        self, op: ir.Operation, updates: Any, index: Any, *mask_and_original: Any
    ) -> Any:
        *mask, original = mask_and_original
        result = original.copy()
        where = _addressed(op, original, index, updates.ndim)
        frame = _Body(self.machine, self.values, [], {})
        (new,) = frame.block(op.regions[0].blocks[0], [updates, original[where]])
        if mask:
            places = mask[0].astype(bool)
            where, new = tuple(part[places] for part in where), new[places]
        result[where] = new
        return result

    # linalg

    def do_linalg_fill(self, op: ir.Operation, scalar: Any, init: Any) -> Any:
        return np.full(init.shape, scalar, float)

    def do_linalg_transpose(self, op: ir.Operation, source: Any, init: Any) -> Any:
        return _like(source.transpose(list(op.attributes["permutation"])), init)

    def do_linalg_broadcast(self, op: ir.Operation, source: Any, init: Any) -> Any:
        result = np.expand_dims(source, tuple(op.attributes["dimensions"]))
        return np.broadcast_to(result, init.shape).copy()

    def do_linalg_softmax(self, op: ir.Operation, source: Any, init: Any) -> Any:
        axis = ir.IntegerAttr(op.attributes["dimension"]).value
        weights = np.exp(source - source.max(axis=axis, keepdims=True))
        return _like(weights / weights.sum(axis=axis, keepdims=True), init)

    def do_linalg_matmul(self, op: ir.Operation, *operands: Any) -> Any:
        return self.do_linalg_generic(op, *operands)

    do_linalg_batch_matmul = do_linalg_contract = do_linalg_matmul

    def do_linalg_generic(self, op: ir.Operation, *operands: Any) -> list[Any]:
        maps = _maps(op)
        inits = len(op.results)
        loops = ir.AffineMapAttr(ir.ArrayAttr(op.attributes["indexing_maps"])[0]).value.n_dims
        sizes = _loop_sizes(op, maps, operands, loops)
        views = [_over_loops(x, m, loops) for x, m in zip(operands, maps, strict=True)]
        if math.prod(sizes) > _LONG and _sums_products(op):
            left, right, init = operands
            return [init + np.einsum(left, maps[0], right, maps[1], maps[2], optimize=True)]
        result_dims = {d for m in maps[len(maps) - inits :] for d in m if d is not None}
        reduced = [d for d in range(loops) if d not in result_dims]
        state = [x.copy() for x in views[len(views) - inits :]]
        for i, view in enumerate(state):
            dims = maps[len(maps) - inits + i]
            full = [sizes[d] if d in dims else 1 for d in range(loops)]
            state[i] = np.broadcast_to(view, full).copy()
        block = op.regions[0].blocks[0]
        for point in np.ndindex(*(sizes[d] for d in reduced)):
            at = dict(zip(reduced, point, strict=True))
            given = [_at(view, at) for view in views[: len(views) - inits]] + state
            frame = _Body(self.machine, self.values, sizes, at)
            state = [
                np.broadcast_to(new, old.shape)
                for new, old in zip(frame.block(block, given), state, strict=True)
            ]
        return [
            _out_of_loops(x, m).reshape(operands[len(maps) - inits + i].shape)
            for i, (x, m) in enumerate(zip(state, maps[len(maps) - inits :], strict=True))
        ]

    # attention

    def do_iree_linalg_ext_attention(self, op: ir.Operation, *operands: Any) -> Any:
        scores, maps, sizes, loops, k2 = self._scores(op, operands)
        top = scores.max(axis=k2, keepdims=True, initial=-np.inf)
        weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
        total = weights.sum(axis=k2, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
        if self.machine.rounds:
            weights = _rounded(weights, op.operands[2].type, _WIDE)
        value = _over_loops(operands[2], maps[2], loops)
        return _like(_contract(weights, value, maps[-1], sizes), operands[-1])

    def do_iree_linalg_ext_online_attention(self, op: ir.Operation, *operands: Any) -> list[Any]:
        scores, maps, sizes, loops, k2 = self._scores(op, operands)
        output, top, total = (
            _over_loops(x, m, loops) for x, m in zip(operands[-3:], maps[-3:], strict=True)
        )
        scores = scores * np.log2(np.e)
        highest = np.maximum(scores.max(axis=k2, keepdims=True), top)
        weights = np.exp2(scores - highest)
        factor = np.exp2(top - highest)
        value = _over_loops(operands[2], maps[2], loops)
        inner = _over_loops(_contract(weights, value, maps[-3], sizes), maps[-3], loops)
        results = (
            inner + factor * output,
            highest,
            factor * total + weights.sum(k2, keepdims=True),
        )
        return [
            _like(_out_of_loops(x, m), old)
            for x, m, old in zip(results, maps[-3:], operands[-3:], strict=True)
        ]

    def _scores(self, op: ir.Operation, operands: Sequence[Any]) -> Any:
        maps = _maps(op)
        loops = ir.AffineMapAttr(ir.ArrayAttr(op.attributes["indexing_maps"])[0]).value.n_dims
        sizes = _loop_sizes(op, maps, operands, loops)
        query, key = (_over_loops(operands[i], maps[i], loops) for i in range(2))
        inner, output = (
            {d for d in maps[2] if d is not None},
            set(maps[len(maps) - len(op.results)]),
        )
        k2 = tuple(sorted(inner - output))
        score_dims = [d for d in range(loops) if d in (set(maps[0]) & output) | set(k2)]
        score_dims += [d for d in range(loops) if d in set(maps[1]) & output - set(score_dims)]
        scores = _over_loops(_contract(query, key, score_dims, sizes), score_dims, loops)
        scores = self._kept(scores * operands[3])
        frame = _Body(self.machine, self.values, sizes, {})
        (scores,) = frame.block(op.regions[0].blocks[0], [scores])
        if len(operands) - len(op.results) > 4:
            mask = _over_loops(operands[4], maps[4], loops)
            shows = str(ir.RankedTensorType(op.operands[4].type).element_type) in ("i1", "i8")
            # Beside a mask of large finite numbers, which hides all of a row, scores lose digits.
            scores = self._kept(scores + (np.where(mask, 0, -np.inf) if shows else mask))
            scores = _absorbed(scores, ir.F32Type.get()) if self.machine.absorbs else scores
        full = [sizes[d] if d in score_dims else 1 for d in range(loops)]
        return np.broadcast_to(scores, full), maps, sizes, loops, k2

    def _kept(self, scores: np.ndarray) -> np.ndarray:
        """Scores as attention holds them, in f32."""
        return scores.astype(np.float32).astype(float) if self.machine.rounds else scores

    # control flow

    def do_scf_if(self, op: ir.Operation, condition: Any) -> list[Any]:
        region = op.regions[0 if condition else 1]
        return _Frame(self.machine, self.values).block(region.blocks[0], [])

    def do_scf_for(self, op: ir.Operation, low: int, high: int, step: int, *state: Any) -> Any:
        now = list(state)
        for i in range(low, high, step):
            now = _Frame(self.machine, self.values).block(op.regions[0].blocks[0], [i, *now])
        return now

    def do_hal_dispatch_extern(self, op: ir.Operation, *operands: Any) -> list[Any]:
        return product_model.launched(op, operands)

    def do_func_call(self, op: ir.Operation, *operands: Any) -> list[Any]:
        return self.machine.call(ir.FlatSymbolRefAttr(op.attributes["callee"]).value, operands)

    # variables

    def do_util_global_load(self, op: ir.Operation) -> Any:
        name = ir.FlatSymbolRefAttr(op.attributes["global"]).value
        if name not in self.machine.globals:
            start = self.machine.symbols[name].attributes["initial_value"]
            kind = ir.RankedTensorType(op.results[0].type)
            value = ir.DenseElementsAttr(start).get_splat_value().value  # type: ignore[attr-defined]
            self.machine.globals[name] = np.full(kind.shape, value, float)
        return self.machine.globals[name].copy()

    def do_util_global_store(self, op: ir.Operation, value: Any) -> list[Any]:
        name = ir.FlatSymbolRefAttr(op.attributes["global"]).value
        self.machine.globals[name] = value
        return []


class _Body(_Frame):
    """The scalar body of a linalg or attention op, on whole arrays over the loops."""

    def __init__(self, machine: Machine, outer: dict[ir.Value, Any], sizes: list[int], at: Any):
        super().__init__(machine, outer)
        self.sizes, self.at = sizes, at

    def do_linalg_index(self, op: ir.Operation) -> Any:
        dim = ir.IntegerAttr(op.attributes["dim"]).value
        if dim in self.at:
            return self.at[dim]
        shape = [1] * len(self.sizes)
        shape[dim] = self.sizes[dim]
        return np.arange(self.sizes[dim]).reshape(shape)

    do_iree_linalg_ext_index = do_linalg_index


def _identity(value: Any) -> Any:
    return value


_SCALARS: dict[str, Callable[..., Any]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.maximumf": np.maximum,
    "arith.maxnumf": np.fmax,
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.remui": np.remainder,
    "arith.andi": lambda a, b: np.bitwise_and(np.asarray(a, int), np.asarray(b, int)),
    "arith.ori": lambda a, b: np.bitwise_or(np.asarray(a, int), np.asarray(b, int)),
    "arith.xori": lambda a, b: np.bitwise_xor(np.asarray(a, int), np.asarray(b, int)),
    "arith.divui": np.floor_divide,
    "arith.divsi": np.floor_divide,
    "arith.ceildivui": lambda a, b: -(-a // b),
    "arith.select": np.where,
    "arith.negf": np.negative,
    "arith.minimumf": np.minimum,
    "arith.fptosi": np.trunc,
    # Of more than one bit: that of an i1 would be -1.
    "arith.extsi": np.asarray,
    "arith.extui": lambda x: np.asarray(x).astype(int),
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.sitofp": np.asarray,
    "math.roundeven": np.rint,
    "math.erf": np.vectorize(math.erf, otypes=[float]),
    "math.powf": np.power,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.sqrt": np.sqrt,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.absf": np.abs,
    "math.tanh": np.tanh,
    "util.assume.int": _identity,
    "flow.tensor.tie_shape": lambda source, *sizes: source,
    "iree_tensor_ext.compute_barrier.start": lambda source, *sizes: source,
    **dict.fromkeys(
        ("arith.extf", "arith.sitofp", "arith.uitofp", "arith.index_cast"),
        _identity,
    ),
}


def _addressed(op: ir.Operation, source: Any, index: Any, rank: int) -> tuple[Any, ...]:
    """What numpy indexes the first dims of `source` by, for slices of a tensor of this rank."""
    places = list(op.attributes["dimension_map"])
    batch = rank - (source.ndim - len(places))
    parts = np.asarray(index, int).reshape(*index.shape[:batch], len(places))
    return tuple(parts[..., places.index(dim)] for dim in range(len(places)))


def _shape(op: ir.Operation, sizes: Sequence[int]) -> list[int]:
    given = iter(sizes)
    return [next(given) if s == DYNAMIC else s for s in op.results[0].type.shape]  # type: ignore[attr-defined]


def _like(array: Any, init: Any) -> Any:
    assert array.shape == init.shape, f"{array.shape} into a destination of {init.shape}"
    return array


def _groups(op: ir.Operation) -> list[list[int]]:
    return [
        [ir.IntegerAttr(dim).value for dim in ir.ArrayAttr(group)]
        for group in ir.ArrayAttr(op.attributes["reassociation"])
    ]


def _slices(op: ir.Operation, rest: Sequence[int]) -> tuple[slice, ...]:
    given = iter(rest)
    offsets, sizes, strides = (
        [next(given) if s == DYNAMIC else s for s in op.attributes[name]]
        for name in ("static_offsets", "static_sizes", "static_strides")
    )
    return tuple(
        slice(int(o), int(o) + (n - 1) * s + 1, s)
        for o, n, s in zip(offsets, sizes, strides, strict=True)
    )


def _dropped_dims(sizes: Sequence[int], wanted: Sequence[int]) -> set[int]:
    """The unit dims of a slice of these sizes that its result type `wanted` lacks."""
    dropped: set[int] = set()
    for dim, size in enumerate(sizes):
        place = dim - len(dropped)
        missing = len(sizes) - len(wanted) > len(dropped)
        if missing and size == 1 and (place == len(wanted) or wanted[place] != 1):
            dropped.add(dim)
    return dropped


def _maps(op: ir.Operation) -> list[list[int | None]]:
    return [
        [
            ir.AffineDimExpr(e).position if isinstance(e, ir.AffineDimExpr) else None
            for e in ir.AffineMapAttr(attribute).value.results
        ]
        for attribute in ir.ArrayAttr(op.attributes["indexing_maps"])
    ]


def _loop_sizes(op: ir.Operation, maps: Any, operands: Sequence[Any], loops: int) -> list[int]:
    sizes: list[int | None] = [None] * loops
    for positions, operand in zip(maps, operands, strict=True):
        for dim, size in zip(positions, np.shape(operand), strict=True):
            if dim is not None:
                assert sizes[dim] in (None, size), f"{op.name}: loop {dim} has two sizes"
                sizes[dim] = size
    return [1 if size is None else size for size in sizes]


def _over_loops(operand: Any, positions: Sequence[int | None], loops: int) -> Any:
    """An operand as an array with one dim per loop, of size one where it has none."""
    array = np.asarray(operand)
    kept = [dim for dim in positions if dim is not None]
    array = array.reshape([s for s, d in zip(array.shape, positions, strict=True) if d is not None])
    order = sorted(range(len(kept)), key=kept.__getitem__)
    array = array.transpose(order)
    shape = [1] * loops
    for size, index in zip(array.shape, order, strict=True):
        shape[kept[index]] = size
    return array.reshape(shape)


def _out_of_loops(array: Any, positions: Sequence[int | None]) -> Any:
    """The inverse of `_over_loops`."""
    kept = [dim for dim in positions if dim is not None]
    order = sorted(kept)
    squeezed = array.reshape([array.shape[dim] for dim in order])
    squeezed = squeezed.transpose([order.index(dim) for dim in kept])
    sizes = iter(squeezed.shape)
    return squeezed.reshape([1 if dim is None else next(sizes) for dim in positions])


def _sums_products(op: ir.Operation) -> bool:
    """Whether an op adds products of two operands to a third, and reads all of each."""
    block = op.regions[0].blocks[0]
    if len(block.arguments) != 3 or any(None in positions for positions in _maps(op)):
        return False
    ops = [inner.operation for inner in block.operations]
    ops = [inner for inner in ops if inner.name != "arith.extf"]
    if [inner.name for inner in ops] != ["arith.mulf", "arith.addf", "linalg.yield"]:
        return False
    return {*ops[1].operands} == {ops[0].results[0], block.arguments[2]}


def _at(view: Any, at: dict[int, int]) -> Any:
    where = tuple(
        slice(at[d], at[d] + 1) if d in at and size > 1 else slice(None)
        for d, size in enumerate(view.shape)
    )
    return view[where]


def _contract(left: Any, right: Any, kept: Sequence[int | None], sizes: Sequence[int]) -> Any:
    """Sum of left * right over the loops not in `kept`, with dims in the order of `kept`."""
    summed = tuple(d for d in range(len(sizes)) if d not in kept)
    full = [1 if left.shape[d] == right.shape[d] == 1 else sizes[d] for d in range(len(sizes))]
    product = np.broadcast_to(left, full) * np.broadcast_to(right, full)
    total = product.sum(axis=summed, keepdims=True)
    wanted = [sizes[d] if d not in summed else 1 for d in range(len(sizes))]
    return _out_of_loops(np.broadcast_to(total, wanted), kept)
