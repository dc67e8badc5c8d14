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


def tensor(shape: Sequence[int], kind: str = "f32") -> str:
    return f"tensor<{'x'.join(map(str, [*shape, kind]))}>"


@dataclass(frozen=True)
class Model:
    """A module's text, its arguments (float32) and the results it has to give (float64)."""

    text: str
    inputs: list[Array]
    outputs: list[Array]


@dataclass
class Trace:
    """One function `@main` under construction; `seed` draws weights and arguments."""

    seed: int = 0
    lines: list[str] = field(default_factory=list)
    arguments: list[Value] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.count = 0

    # Leaves

    def argument(self, *shape: int) -> Value:
        array = self.random.standard_normal(shape).astype(np.float32).astype(np.float64)
        value = Value(f"%arg{len(self.arguments)}", array)
        self.arguments.append(value)
        return value

    def weight(self, *shape: int, mean: float = 0.0) -> Value:
        """A random constant, scaled so that a product with it keeps its input's size."""
        drawn = mean + self.random.standard_normal(shape) * shape[-1] ** -0.5
        return self.constant(drawn)

    def constant(self, array: Array) -> Value:
        narrow = np.asarray(array, np.float32)
        text = f'dense<"0x{narrow.tobytes().hex().upper()}"> : {tensor(narrow.shape)}'
        return Value(self._shared(text), narrow.astype(np.float64))

    def scalar(self, number: float) -> str:
        return self._shared(f"{float(np.float32(number)):.9e} : f32")

    # Elementwise operations and reductions

    def elementwise(self, body: str, result: Array, *inputs: Value, kind: str = "f32") -> Value:
        """A generic over broadcast inputs; `body` computes `%r` from `%a0`, `%a1`, ...

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
        return self._generic(maps, ["parallel"] * rank, inputs, self.empty(result, kind), body)

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
        rank, size = a.array.ndim, a.shape[-1]
        total = a.array.sum(-1, keepdims=True)
        kinds = ["parallel"] * (rank - 1) + ["reduction"]
        maps = [_identity(rank), _map(rank, [*(f"d{i}" for i in range(rank - 1)), "0"])]
        body = "%r = arith.addf %a0, %o : f32"
        value = self._generic(maps[:1], kinds, [a], self.zeros(total), body, maps[1])
        return self.elementwise(
            f"%r = arith.divf %a0, {self.scalar(size)} : f32", value.array / size, value
        )

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

    def slice_last(self, a: Value, start: int, size: int) -> Value:
        array = a.array[..., start : start + size]
        offsets, ones = [0] * (array.ndim - 1) + [start], [1] * array.ndim
        text = f"tensor.extract_slice {a.name}{offsets} {list(array.shape)} {ones}"
        return self._value(f"{text} : {a.type} to {tensor(array.shape)}", array)

    def concat(self, dim: int, a: Value, b: Value) -> Value:
        array = np.concatenate([a.array, b.array], dim)
        text = f"tensor.concat dim({dim}) {a.name}, {b.name} : ({a.type}, {b.type})"
        return self._value(f"{text} -> {tensor(array.shape)}", array)

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
        return self._value(f"{text}outs({out.name} : {out.type}) -> {out.type}", out.array)

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
        batch, heads, rows, dim = q.shape
        keys = k.shape[2]
        masks = []
        scores = q.array @ k.array.swapaxes(-1, -2) * dim**-0.5
        if mask is not None:
            full = mask.array
            scores = np.where(full, scores, -np.inf) if mask.kind == "i1" else scores + full
            masks = [self.broadcast(mask, batch, heads, rows, keys)]
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        array = (weights / weights.sum(-1, keepdims=True)) @ v.array
        flat = [self.collapse(x, [[0, 1], [2], [3]]) for x in (q, k, v, *masks)]
        out = self.empty(array.reshape(batch * heads, rows, v.shape[3]))
        maps = ["d0, d1, d3", "d0, d4, d3", "d0, d4, d2", "", *["d0, d1, d4"] * len(masks)]
        listed = ", ".join(_map(5, [m]) for m in [*maps, "d0, d1, d2"])
        names = [x.name for x in flat]
        types = [x.type for x in flat]
        names.insert(3, self.scalar(dim**-0.5))
        types.insert(3, "f32")
        text = (
            f"iree_linalg_ext.attention <indexing_maps = [{listed}]> "
            f"ins({', '.join(names)} : {', '.join(types)}) outs({out.name} : {out.type}) {{\n"
            f"^bb0(%score: f32):\niree_linalg_ext.yield %score : f32\n}} -> {out.type}"
        )
        result = self._value(text, out.array)
        return self.expand(result, [[0, 1], [2], [3]], batch, heads, rows, v.shape[3])

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
        inputs = [value.array.astype(np.float32) for value in self.arguments]
        return Model(text, inputs, [value.array for value in results])

    def empty(self, like: Array, kind: str = "f32") -> Value:
        return self._value(f"tensor.empty() : {tensor(like.shape, kind)}", like, kind)

    def zeros(self, like: Array) -> Value:
        empty, zero = self.empty(like), self.scalar(0)
        text = f"linalg.fill ins({zero} : f32) outs({empty.name} : {empty.type}) -> {empty.type}"
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


def _map(rank: int, results: Sequence[str]) -> str:
    dims = ", ".join(f"d{i}" for i in range(rank))
    return f"affine_map<({dims}) -> ({', '.join(results)})>"


def _identity(rank: int) -> str:
    return _map(rank, [f"d{i}" for i in range(rank)])


def _lists(groups: Groups) -> str:
    return str([list(group) for group in groups])
