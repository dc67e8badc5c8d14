"""Writes MLIR as PyTorch exports look after import, and computes the numbers alongside.

Each method of `Trace` appends the ops that a framework's exporter emits for one operation
and evaluates that operation in float64 with numpy, so that a model written once gives both
the module and its answers. Weights are constants of the module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Groups = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Value:
    """An SSA value and what it holds; `kind` is its element type."""

    name: str
    array: Array
    kind: str = "f32"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def type(self) -> str:
        return tensor(self.shape, self.kind)


def numpy_type(kind: str) -> np.dtype[Any]:
    """numpy's (or ml_dtypes') type for an MLIR element type."""
    if kind.startswith(("bf", "f8")):
        import ml_dtypes

        name = kind.replace("bf16", "bfloat16").replace("f8E", "float8_e").lower()
        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype({"f": "float", "i": "int"}[kind[0]] + kind[1:])


def rounded(array: Array, kind: str) -> Array:
    """`array` as `kind` holds it; floats come back as float64."""
    narrow = np.asarray(array).astype(numpy_type(kind))
    return narrow if kind.startswith("i") else narrow.astype(np.float64)


def tensor(shape: Sequence[int], kind: str = "f32") -> str:
    return f"tensor<{'x'.join(map(str, [*shape, kind]))}>"


@dataclass(frozen=True)
class Model:
    """A module's text, its arguments and the results it has to give (float64)."""

    text: str
    inputs: list[Array]
    outputs: list[Array]


@dataclass
class Trace:
    """One function `@main` under construction; `seed` draws weights and arguments.

    `element` is the type of values (f32 or f16; products accumulate in f32, as exports do).
    """

    seed: int = 0
    element: str = "f32"
    lines: list[str] = field(default_factory=list)
    arguments: list[Value] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.count = 0

    # Leaves

    def argument(self, *shape: int, kind: str = "") -> Value:
        return self.given(self.random.standard_normal(shape), kind)

    def given(self, array: Array, kind: str = "") -> Value:
        """An argument that is called with `array`."""
        kind = kind or self.element
        value = Value(f"%arg{len(self.arguments)}", rounded(array, kind), kind)
        self.arguments.append(value)
        return value

    def weight(self, *shape: int, mean: float = 0.0) -> Value:
        """A random constant, scaled so that a product with it keeps its input's size."""
        return self.constant(mean + self.random.standard_normal(shape) * shape[-1] ** -0.5)

    def constant(self, array: Array, kind: str = "") -> Value:
        kind = kind or self.element
        data = np.asarray(array).astype(numpy_type(kind)).tobytes().hex().upper()
        text = f'dense<"0x{data}"> : {tensor(array.shape, kind)}'
        return Value(self._shared(text), rounded(array, kind), kind)

    def scalar(self, number: float) -> str:
        narrow = float(rounded(np.array(number), self.element))
        return self._shared(f"{narrow:.9e} : {self.element}")

    # Elementwise operations and reductions

    def elementwise(self, body: str, result: Array, *inputs: Value, kind: str = "") -> Value:
        """A generic over broadcast inputs; `body` computes `%r` from `%a0`, `%a1`, ... It is
        written for f32.

        As exporters do, an input of lower rank is read by its trailing dims, and its unit
        dims at the constant 0.
        """
        rank = result.ndim
        maps = []
        for value in inputs:
            start = rank - value.array.ndim
            dims = [
                "0" if size == 1 and result.shape[start + i] != 1 else f"d{start + i}"
                for i, size in enumerate(value.shape)
            ]
            maps.append(_map(rank, dims))
        out = self.empty(result, kind or self.element)
        body = body.replace("f32", self.element)
        return self._generic(maps, ["parallel"] * rank, inputs, out, body)

    def add(self, a: Value, b: Value) -> Value:
        return self.elementwise("%r = arith.addf %a0, %a1 : f32", a.array + b.array, a, b)

    def multiply(self, a: Value, b: Value) -> Value:
        return self.elementwise("%r = arith.mulf %a0, %a1 : f32", a.array * b.array, a, b)

    def subtract(self, a: Value, b: Value) -> Value:
        return self.elementwise("%r = arith.subf %a0, %a1 : f32", a.array - b.array, a, b)

    def negate(self, a: Value) -> Value:
        return self.elementwise("%r = arith.negf %a0 : f32", -a.array, a)

    def relu(self, a: Value) -> Value:
        body = f"%r = arith.maximumf %a0, {self.scalar(0)} : f32"
        return self.elementwise(body, np.maximum(a.array, 0), a)

    def silu(self, a: Value) -> Value:
        one = self.scalar(1)
        body = (
            "%n = arith.negf %a0 : f32\n%e = math.exp %n : f32\n"
            f"%s = arith.addf %e, {one} : f32\n%r = arith.divf {one}, %s : f32"
        )
        return self.multiply(self.elementwise(body, 1 / (1 + np.exp(-a.array)), a), a)

    def mean(self, a: Value) -> Value:
        """Over the last dim, which stays as a unit dim."""
        size = a.shape[-1]
        total = self.reduce(a, "arith.addf", a.array.sum(-1, keepdims=True), 0.0)
        body = f"%r = arith.divf %a0, {self.scalar(size)} : f32"
        return self.elementwise(body, total.array / size, total)

    def reduce(self, a: Value, op: str, result: Array, start: float) -> Value:
        """Over the last dim of an f32 value, which stays as a unit dim."""
        rank = a.array.ndim
        kinds = ["parallel"] * (rank - 1) + ["reduction"]
        maps = [_identity(rank), _map(rank, [*(f"d{i}" for i in range(rank - 1)), "0"])]
        out, body = self.filled(result, start), f"%r = {op} %a0, %o : f32"
        return self._generic(maps[:1], kinds, [a], out, body, maps[1])

    def softmax(self, a: Value) -> Value:
        """Over the last dim: the largest score is subtracted, as exporters do."""
        largest = self.reduce(a, "arith.maximumf", a.array.max(-1, keepdims=True), -np.inf)
        low = self.subtract(a, largest)
        high = self.elementwise("%r = math.exp %a0 : f32", np.exp(low.array), low)
        total = self.reduce(high, "arith.addf", high.array.sum(-1, keepdims=True), 0.0)
        body = "%r = arith.divf %a0, %a1 : f32"
        return self.elementwise(body, high.array / total.array, high, total)

    def inverse_root(self, a: Value, epsilon: float) -> Value:
        body = f"%s = arith.addf %a0, {self.scalar(epsilon)} : f32\n%r = math.rsqrt %s : f32"
        return self.elementwise(body, 1 / np.sqrt(a.array + epsilon), a)

    def rms_norm(self, a: Value) -> Value:
        scale = self.inverse_root(self.mean(self.multiply(a, a)), 1e-6)
        return self.multiply(self.weight(a.shape[-1], mean=1), self.multiply(a, scale))

    def layer_norm(self, a: Value) -> Value:
        centred = self.subtract(a, self.mean(a))
        scale = self.inverse_root(self.mean(self.multiply(centred, centred)), 1e-5)
        weighted = self.multiply(self.multiply(centred, scale), self.weight(a.shape[-1], mean=1))
        return self.add(weighted, self.weight(a.shape[-1]))

    # Shapes

    def transpose(self, a: Value, *order: int) -> Value:
        out = self.empty(a.array.transpose(order), a.kind)
        text = f"linalg.transpose ins({a.name} : {a.type}) outs({out.name} : {out.type})"
        return self._value(f"{text} permutation = {list(order)}", out.array, a.kind)

    def expand(self, a: Value, groups: Groups, *shape: int) -> Value:
        array = a.array.reshape(shape)
        text = f"tensor.expand_shape {a.name} {_lists(groups)} output_shape {list(shape)}"
        return self._value(f"{text} : {a.type} into {tensor(shape, a.kind)}", array, a.kind)

    def collapse(self, a: Value, groups: Groups) -> Value:
        shape = [math.prod(a.shape[dim] for dim in group) for group in groups]
        text = f"tensor.collapse_shape {a.name} {_lists(groups)}"
        text += f" : {a.type} into {tensor(shape, a.kind)}"
        return self._value(text, a.array.reshape(shape), a.kind)

    def slice(self, a: Value, dim: int, start: int, size: int) -> Value:
        array = a.array.take(range(start, start + size), dim)
        offsets, ones = [0] * array.ndim, [1] * array.ndim
        offsets[dim] = start
        text = f"tensor.extract_slice {a.name}{offsets} {list(array.shape)} {ones}"
        return self._value(f"{text} : {a.type} to {tensor(array.shape, a.kind)}", array, a.kind)

    def slice_last(self, a: Value, start: int, size: int) -> Value:
        return self.slice(a, a.array.ndim - 1, start, size)

    def concat(self, dim: int, a: Value, b: Value) -> Value:
        array = np.concatenate([a.array, b.array], dim)
        text = f"tensor.concat dim({dim}) {a.name}, {b.name} : ({a.type}, {b.type})"
        return self._value(f"{text} -> {tensor(array.shape, a.kind)}", array, a.kind)

    def take(self, a: Value, dim: int, indices: Value) -> Value:
        """`a` at `indices` (one dim, i64) along `dim`: a generic that reads by tensor.extract."""
        array = a.array.take(indices.array, dim)
        rank = array.ndim
        places = [f"%i{i}" for i in range(rank)]
        lines = [f"{place} = linalg.index {i} : index" for i, place in enumerate(places)]
        lines.append("%at = arith.index_cast %a0 : i64 to index")
        places[dim] = "%at"
        lines.append(f"%r = tensor.extract {a.name}[{', '.join(places)}] : {a.type}")
        maps, kinds = [_map(rank, [f"d{dim}"])], ["parallel"] * rank
        out = self.empty(array, a.kind)
        return self._generic(maps, kinds, [indices], out, "\n".join(lines))

    def scatter(self, into: Value, updates: Value, indices: Value) -> Value:
        """`into` with updates[i] at the leading dim's place indices[i, 0] (i64)."""
        array = into.array.copy()
        array[indices.array[:, 0]] = updates.array
        text = (
            "iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) "
            f"ins({updates.name}, {indices.name} : {updates.type}, {indices.type}) "
            f"outs({into.name} : {into.type}) {{\n^bb0(%new: {into.kind}, %old: {into.kind}):\n"
            f"iree_linalg_ext.yield %new : {into.kind}\n}} -> {into.type}"
        )
        return self._value(text, array, into.kind)

    def cast(self, a: Value, kind: str) -> Value:
        """To a wider or narrower float type."""
        op = "truncf" if numpy_type(kind).itemsize < numpy_type(a.kind).itemsize else "extf"
        body = f"%r = arith.{op} %a0 : {a.kind} to {kind}"
        maps, kinds = [_identity(a.array.ndim)], ["parallel"] * a.array.ndim
        out = self.empty(rounded(a.array, kind), kind)
        return self._generic(maps, kinds, [a], out, body)

    def repeat(self, a: Value, new_dim: int, times: int) -> Value:
        """A new dim `new_dim` of size `times`: the copy generic of a broadcast."""
        array = np.repeat(np.expand_dims(a.array, new_dim), times, new_dim)
        dims = [f"d{i}" for i in range(array.ndim) if i != new_dim]
        maps, kinds = [_map(array.ndim, dims)], ["parallel"] * array.ndim
        return self._generic(maps, kinds, [a], self.empty(array, a.kind), "", yielded="%a0")

    def broadcast(self, a: Value, *shape: int) -> Value:
        """The copy generic that widens unit dims."""
        array = np.broadcast_to(a.array, shape)
        dims = ["0" if size == 1 and shape[i] != 1 else f"d{i}" for i, size in enumerate(a.shape)]
        maps, kinds = [_map(array.ndim, dims)], ["parallel"] * array.ndim
        return self._generic(maps, kinds, [a], self.empty(array, a.kind), "", yielded="%a0")

    # Layers

    def batch_matmul(self, a: Value, b: Value) -> Value:
        out = self.zeros(a.array @ b.array)
        text = f"linalg.batch_matmul ins({a.name}, {b.name} : {a.type}, {b.type}) "
        product = self._value(f"{text}outs({out.name} : {out.type}) -> {out.type}", out.array)
        return product if self.element == "f32" else self.cast(product, self.element)

    def linear(self, x: Value, width: int, bias: bool = False) -> Value:
        """A linear layer on (batch, sequence, model): the weight is kept as (out, in)."""
        weight = self.transpose(self.weight(width, x.shape[-1]), 1, 0)
        product = self.batch_matmul(x, self.repeat(weight, 0, x.shape[0]))
        return self.add(product, self.weight(width)) if bias else product

    def split_heads(self, x: Value, heads: int) -> Value:
        """(batch, sequence, heads * dim) -> (batch, heads, sequence, dim)."""
        batch, rows, width = x.shape
        groups = [[0], [1], [2, 3]]
        return self.transpose(
            self.expand(x, groups, batch, rows, heads, width // heads), 0, 2, 1, 3
        )

    def join_heads(self, x: Value) -> Value:
        return self.collapse(self.transpose(x, 0, 2, 1, 3), [[0], [1], [2, 3]])

    def repeat_heads(self, x: Value, times: int) -> Value:
        """Grouped queries: each key/value head serves `times` query heads."""
        return self.collapse(self.repeat(x, 2, times), [[0], [1, 2], [3], [4]])

    def causal_mask(self, rows: int, keys: int) -> Value:
        """(1, 1, rows, keys) of i1: the last row sees all keys."""
        array = np.arange(keys)[None] <= np.arange(rows)[:, None] + (keys - rows)
        shift = self._shared(f"{keys - rows} : index")
        body = (
            "%i = linalg.index 0 : index\n%j = linalg.index 1 : index\n"
            f"%s = arith.addi %i, {shift} : index\n%r = arith.cmpi sle, %j, %s : index"
        )
        out = self.empty(array, "i1")
        flat = self._generic([], ["parallel"] * 2, [], out, body)
        return self.expand(flat, [[0, 1, 2], [3]], 1, 1, rows, keys)

    def attention(self, q: Value, k: Value, v: Value, mask: Value | None = None) -> Value:
        """softmax(q k^T / sqrt(d) [masked]) v on (batch, heads, rows, dim), as SDPA exports.

        A mask of i1 says what is seen, one of f32 is added to the scores; its unit dims
        are broadcast.
        """
        batch, heads, rows, _ = q.shape
        masks = []
        if mask is not None:
            masks = [self.broadcast(mask, batch, heads, rows, k.shape[2])]
        array = attention_of(q.array, k.array, v.array, mask)
        flat = [self.collapse(x, [[0, 1], [2], [3]]) for x in (q, k, v, *masks)]
        out = self.empty(array.reshape(batch * heads, rows, v.shape[3]), self.element)
        maps = ["d0, d1, d3", "d0, d4, d3", "d0, d4, d2", *["d0, d1, d4"] * len(masks)]
        text = self._attention_text("attention", maps, flat, ["d0, d1, d2"], [out])
        result = self._value(text, out.array, self.element)
        return self.expand(result, [[0, 1], [2], [3]], batch, heads, rows, v.shape[3])

    def sequence_major_attention(self, q: Value, k: Value, v: Value) -> Value:
        """The same on (batch, rows, heads, dim), which no transpose stands in front of."""
        by_head = [x.array.transpose(0, 2, 1, 3) for x in (q, k, v)]
        out = self.empty(attention_of(by_head[0], by_head[1], by_head[2]).transpose(0, 2, 1, 3))
        maps = ["d0, d2, d1, d4", "d0, d5, d1, d4", "d0, d5, d1, d3"]
        text = self._attention_text("attention", maps, [q, k, v], ["d0, d2, d1, d3"], [out])
        return self._value(text, out.array)

    def online_attention(self, q: Value, k: Value, v: Value) -> Value:
        """The same on (batch, heads, rows, dim) as FlexAttention exports: its output divided by
        its sum."""
        array = attention_of(q.array, k.array, v.array)
        sums = array[..., 0]
        outs = [self.zeros(array), self.filled(sums, -np.inf), self.zeros(sums)]
        maps = ["d0, d1, d2, d4", "d0, d1, d5, d4", "d0, d1, d5, d3"]
        out_maps = ["d0, d1, d2, d3", "d0, d1, d2", "d0, d1, d2"]
        text = self._attention_text("online_attention", maps, [q, k, v], out_maps, outs)
        name = self._value(text, array).name
        self.lines[-1] = self.lines[-1].replace(f"{name} =", f"{name}:3 =", 1)
        whole, total = Value(f"{name}#0", array), Value(f"{name}#2", sums)
        total = self.expand(total, [[0], [1], [2, 3]], *sums.shape, 1)
        return self.elementwise("%r = arith.divf %a0, %a1 : f32", array, whole, total)

    def _attention_text(
        self,
        op: str,
        maps: list[str],
        inputs: list[Value],
        out_maps: list[str],
        outs: list[Value],
    ) -> str:
        """`maps` and `out_maps` are the results of the maps of q, k, v[, mask] and of outs."""
        rank = 2 + len(inputs[0].shape)
        listed = ", ".join(_map(rank, [m]) for m in [*maps[:3], "", *maps[3:], *out_maps])
        names, types = [x.name for x in inputs], [x.type for x in inputs]
        names.insert(3, self.scalar(inputs[0].shape[-1] ** -0.5))
        types.insert(3, self.element)
        results = ", ".join(x.type for x in outs)
        return (
            f"iree_linalg_ext.{op} <indexing_maps = [{listed}]> "
            f"ins({', '.join(names)} : {', '.join(types)}) "
            f"outs({', '.join(x.name for x in outs)} : {results}) {{\n"
            f"^bb0(%score: f32):\niree_linalg_ext.yield %score : f32\n}} -> {results}"
        )

    # The module

    def finish(self, *results: Value) -> Model:
        arguments = ", ".join(f"{value.name}: {value.type}" for value in self.arguments)
        types = ", ".join(value.type for value in results)
        names = ", ".join(value.name for value in results)
        constants = [f"{name} = arith.constant {text}" for text, name in self.constants.items()]
        body = "\n".join([*constants, *self.lines])
        text = (
            f"func.func @main({arguments}) -> ({types}) {{\n{body}\nreturn {names} : {types}\n}}\n"
        )
        inputs = [value.array.astype(numpy_type(value.kind)) for value in self.arguments]
        return Model(text, inputs, [value.array for value in results])

    def empty(self, like: Array, kind: str = "f32") -> Value:
        return self._value(f"tensor.empty() : {tensor(like.shape, kind)}", like, kind)

    def zeros(self, like: Array) -> Value:
        return self.filled(like, 0.0)

    def filled(self, like: Array, number: float) -> Value:
        """What an f32 reduction that starts from `number` writes into."""
        text = "0xFF800000 : f32" if number == -np.inf else f"{number:.9e} : f32"
        empty, start = self.empty(like, "f32"), self._shared(text)
        text = f"linalg.fill ins({start} : f32) outs({empty.name} : {empty.type}) -> {empty.type}"
        return self._value(text, like)

    def _shared(self, text: str) -> str:
        return self.constants.setdefault(text, f"%cst{len(self.constants)}")

    def _value(self, text: str, array: Array, kind: str = "f32") -> Value:
        self.count += 1
        self.lines.append(f"%{self.count} = {text}")
        return Value(f"%{self.count}", array, kind)

    def _generic(
        self,
        maps: Sequence[str],
        kinds: Sequence[str],
        inputs: Sequence[Value],
        out: Value,
        body: str,
        out_map: str = "",
        yielded: str = "%r",
    ) -> Value:
        listed = ", ".join([*maps, out_map or _identity(len(kinds))])
        loops = ", ".join(f'"{kind}"' for kind in kinds)
        names = ", ".join(value.name for value in inputs)
        types = ", ".join(value.type for value in inputs)
        ins = f"ins({names} : {types}) " if inputs else ""
        arguments = [f"%a{i}: {value.kind}" for i, value in enumerate(inputs)]
        block = ", ".join([*arguments, f"%o: {out.kind}"])
        text = (
            f"linalg.generic {{indexing_maps = [{listed}], iterator_types = [{loops}]}} "
            f"{ins}outs({out.name} : {out.type}) {{\n^bb0({block}):\n{body}\n"
            f"linalg.yield {yielded} : {out.kind}\n}} -> {out.type}"
        )
        return self._value(text, out.array, out.kind)


def attention_of(q: Array, k: Array, v: Array, mask: Value | None = None) -> Array:
    """On (..., rows, dim): softmax(q k^T / sqrt(d) [masked]) v."""
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        hides = mask.kind == "i1"
        scores = np.where(mask.array, scores, -np.inf) if hides else scores + mask.array
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ v


def _map(rank: int, results: Sequence[str]) -> str:
    dims = ", ".join(f"d{i}" for i in range(rank))
    return f"affine_map<({dims}) -> ({', '.join(results)})>"


def _identity(rank: int) -> str:
    return _map(rank, [f"d{i}" for i in range(rank)])


def _lists(groups: Groups) -> str:
    return str([list(group) for group in groups])
