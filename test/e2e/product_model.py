"""The kernels for products in numpy: what a launch of one computes, element by element, from the
numbers that it is told.

It reads memory where the kernel would, in tensors laid out row by row; reading or writing beside
them is an IndexError, and what is never written is NaN.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from iree.compiler import ir

from attnpass.kernels.hopper.manifest import ProductKernel, load_products

_ALL_ROWS = 2**31 - 1
_erf = np.vectorize(math.erf, otypes=[float])


def launched(op: ir.Operation, operands: Sequence[Any]) -> list[Any]:
    """The results of a `hal.dispatch.extern` that launches one of the kernels."""
    name = ir.StringAttr(op.attributes["export_name"]).value
    (kernel,) = [one for one in load_products() if one.name == name]
    parts = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    arguments = operands[parts[0] : parts[0] + parts[1]]
    given = [int(number) for number in arguments[: len(kernel.constants)]]
    numbers = dict(zip(kernel.constants, given, strict=True))
    first = list(op.operands)[parts[0] + len(kernel.constants)]
    assert str(ir.RankedTensorType(first.type).element_type) == kernel.element_type
    tensors = [np.ravel(tensor) for tensor in arguments[len(kernel.constants) :]]
    sizes = iter(int(size) for size in operands[sum(parts[:3]) :])
    dynamic = ir.ShapedType.get_dynamic_size()
    shapes = [ir.RankedTensorType(result.type).shape for result in op.results]
    shapes = [[next(sizes) if size == dynamic else size for size in shape] for shape in shapes]
    count = kernel.joined or 1
    results = [np.full(math.prod(shape), np.nan) for shape in shapes[:count]]
    workgroups = math.prod(int(number) for number in operands[: parts[0]])
    if kernel.most_blocks:
        _divides(kernel, numbers, workgroups)
    if kernel.imaged:
        tensors[0] = _patches(kernel, numbers, tensors[0])
    elif kernel.tiles:
        assert numbers["shape"] in {0, *(tile.shape for tile in kernel.tiles)}
    if kernel.parts > 1:
        # Clusters that divide a depth compute one tile each.
        tiles = math.ceil(numbers["m"] / 128) * math.ceil(numbers["n"] / kernel.columns_per_tile)
        assert workgroups == tiles * kernel.parts
    if kernel.joined:
        _write_joined(kernel, numbers, tensors, results)
    else:
        _Launch(kernel, _with_batch(kernel, numbers), tensors).write(results[0])
    made = [out.reshape(shape) for out, shape in zip(results, shapes, strict=False)]
    return [*made, *(np.zeros(shape) for shape in shapes[count:])]


def _patches(kernel: ProductKernel, numbers: dict[str, int], images: np.ndarray) -> np.ndarray:
    """The rows that a kernel reads out of images, as cuda/image.h has it, one by one."""
    find = numbers.__getitem__
    sizes, result = (find("image_height"), find("image_width")), (find("height"), find("width"))
    tiles = {tile.shape: tile for tile in kernel.tiles}
    tile, box = tiles[find("shape") & 0xFFFF], find("shape") >> 16
    lines = tile.height // box * tile.blocks
    assert tile.height % box == 0 and max(box * find("step_x"), lines * find("step_y")) <= 256
    y, x, tap = (np.arange(size) for size in (*result, find("taps")))
    tap_y, tap_x = np.divmod(tap, find("taps_across"))
    line = y[:, None] * find("step_y") + tap_y * find("gap_y") - find("top")
    pixel = x[:, None] * find("step_x") + tap_x * find("gap_x") - find("left")
    there = [(at >= 0) & (at < size) for at, size in zip((line, pixel), sizes, strict=True)]
    image = images.reshape(-1, *sizes, find("channels"))
    assert find("m") == len(image) * math.prod(result)
    at = np.clip(line, 0, sizes[0] - 1)[:, None], np.clip(pixel, 0, sizes[1] - 1)[None]
    inside = (there[0][:, None] & there[1][None])[..., None]
    return np.ravel(image[:, at[0], at[1]] * inside)


def _columns(kernel: ProductKernel, numbers: dict[str, int]) -> list[int]:
    """The columns of the product, or of each that is joined."""
    return [numbers[name] for name in ("n", "n2", "n3")[: kernel.joined or 1]]


def _write_joined(
    kernel: ProductKernel,
    numbers: dict[str, int],
    tensors: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
) -> None:
    """What a kernel for products of the same rows writes: each with its weights and bias."""
    (rows, *weights), count = tensors[: 1 + kernel.joined], kernel.joined
    biases = tensors[1 + count :]
    assert len(biases) == count and 0 <= numbers["biased"] < 1 << count
    single = replace(kernel, joined=0, general=False, activation="none")
    for at, (n, own, out) in enumerate(
        zip(_columns(kernel, numbers), weights, results, strict=True)
    ):
        has_bias = bool(numbers["biased"] >> at & 1)
        told = {"m": numbers["m"], "n": n, "k": numbers["k"]}
        one = replace(single, bias=has_bias)
        given = [rows, own, *([biases[at]] if has_bias else [])]
        _Launch(one, _with_batch(one, told), given).write(out)


def _with_batch(kernel: ProductKernel, numbers: dict[str, int]) -> dict[str, int]:
    """The numbers of a kernel for one product, as one for batches has them, in elements."""
    m, n, k = numbers["m"], numbers["n"], numbers["k"]
    unit = {"f8E4M3FN": 16, "f32": 4}.get(kernel.element_type, 8)
    written = 4 if kernel.result_type == "f32" else 8
    found = {"inner": 1, "outer": 1, "bias_step": 0, "factor_step": 0, "out_width": n}
    pitch = n if kernel.weights == "kn" else k
    lies = {"a_row": k, "weights_row": pitch, "out_row": n, "out_part": 0}
    for name in ("a", "weights", "out"):
        lies |= {f"{name}_inner": 0, f"{name}_outer": 0, f"{name}_start": 0}
    if kernel.batched:
        told = {name: numbers.get(name, 0) for name in lies}
        lies = {
            name: step * (written if name.startswith("out") else unit)
            for name, step in told.items()
        }
        # In lines that a tile writes at once.
        line = 2 if kernel.most_rows else (32 if written == 4 else 64)
        assert numbers["out_width"] in (n, 0) or numbers["out_width"] % line == 0
    assert not kernel.most_rows or m <= kernel.most_rows
    assert n % min(unit, 8) == 0 and k % unit == 0
    return {**found, **numbers, **lies}


def _divides(kernel: ProductKernel, numbers: dict[str, int], workgroups: int) -> None:
    """Makes sure that so many workgroups compute all columns, each part of the depth once."""
    told = numbers["division"]
    parts, width, rounds = told & 15, told >> 4 & 15, told >> 8
    assert workgroups % kernel.cluster == kernel.cluster % parts == 0 and 1 in (parts, rounds)
    assert width in (1, kernel.most_blocks)
    columns = width * kernel.columns_per_workgroup
    needed = sum(math.ceil(n / columns) for n in _columns(kernel, numbers))
    assert workgroups // parts * rounds >= needed


class _Launch:
    def __init__(
        self, kernel: ProductKernel, numbers: dict[str, int], tensors: Sequence[np.ndarray]
    ):
        self.kernel, self.numbers = kernel, numbers
        self.flags = numbers.get("flags", 0)
        rest = iter(tensors)
        self.a, self.weights = next(rest), next(rest)
        self.second = next(rest) if kernel.gated else self.weights
        self.ends = next(rest) if kernel.grouped else None
        if kernel.general:
            self.bias, self.factor = next(rest), next(rest)
            self.row_factors = next(rest) if kernel.element_type == "f8E4M3FN" else self.a
            self.other = self.a if kernel.gated else next(rest)
        else:
            self.bias = next(rest) if kernel.bias else self.a
            self.other = next(rest) if kernel.other != "none" else self.a
        assert not list(rest), "operands that the kernel does not take"

    def write(self, out: np.ndarray) -> None:
        """Writes (outer, inner, rows, columns) to where they lie."""
        made = self._general() if self.kernel.general else self._plain()
        where = self._places("out", self.numbers["m"], self.numbers["n"])
        assert len(np.unique(where)) == where.size, "two results at one place"
        out[where] = made

    def _plain(self) -> np.ndarray:
        kernel, n = self.kernel, self.numbers["n"]
        made = self._product(self.weights, 0)
        if kernel.bias:
            made = made + self.bias[np.arange(n)]
        made = _ACTIVATIONS[kernel.activation](made)
        if kernel.gated:
            made = made * self._product(self.second, 0)
        if kernel.other == "none":
            return made
        other = self.other[self._places("out", self.numbers["m"], n)]
        return made + other if kernel.other == "add" else made * other

    def _general(self) -> np.ndarray:
        n, flags, kernel = self.numbers["n"], self.flags, self.kernel
        alpha, beta, slope, cube = map(self._float, ("alpha", "beta", "slope", "cube"))
        made = self._product(self.weights, n if flags & 512 else 0)
        factor = beta
        if not kernel.gated:
            factor = factor * (self._factor() if flags & 4 else 1.0)
        if kernel.element_type == "f8E4M3FN":
            made, factor = made * factor * self._row_factor(), 1.0
        shift = self._vector(self.bias, "bias_step", 512) if flags & 1 else 0.0
        x = made * alpha + shift
        if kernel.activation == "clamp":
            x = np.maximum(x, slope)
        elif kernel.activation == "sigmoid":
            with np.errstate(over="ignore"):
                x = x / (1 + np.exp2(x * (slope + cube * x * x)))
        else:
            x = _ACTIVATIONS[kernel.activation](x)
        if kernel.gated:
            second = self._product(self.second, n if flags & 1024 else 0)
            return x * (
                second + (self._vector(self.factor, "factor_step", 1024) if flags & 4 else 0)
            )
        x = x * factor
        if not flags & 48:
            return x
        other = self.other[self._places("out", self.numbers["m"], n)]
        return x * other if flags & 32 else x + other

    def _float(self, name: str) -> float:
        return struct.unpack("<f", struct.pack("<I", self.numbers[name] & 0xFFFFFFFF))[0]

    def _product(self, weights: np.ndarray, first: int) -> np.ndarray:
        """The products of all batches with columns from `first` on: (outer, inner, m, n)."""
        m, n, k = (self.numbers[name] for name in "mnk")
        a = self.a[self._places("a", m, k)]
        if self.ends is not None:
            return self._grouped(a, weights, m, n, k)
        if self.kernel.weights == "kn":
            return a @ weights[self._places("weights", k, n) + first]
        begin = first * self.numbers["weights_row"]
        lacking = self.flags >> 12 & 7
        assert not lacking or (self.kernel.bounds_columns and not first)
        found = weights[self._places("weights", n - lacking, k) + begin].swapaxes(-1, -2)
        return a @ np.pad(found, [(0, 0)] * 3 + [(0, lacking)])

    def _grouped(self, a: np.ndarray, weights: np.ndarray, m: int, n: int, k: int) -> np.ndarray:
        """Each row times the weights of its group, 0 behind the last end."""
        assert self.ends is not None and len(self.ends) == self.numbers["groups"] <= 256
        turned = self.kernel.weights == "kn"
        lies = weights.reshape(-1, *((k, n) if turned else (n, k)))
        group = (np.arange(m)[:, None] >= self.ends).sum(1)
        found = np.zeros((1, 1, m, n))
        for row, own in enumerate(group):
            if own < len(lies):
                found[0, 0, row] = a[0, 0, row] @ (lies[own] if turned else lies[own].T)
        return found

    def _places(self, name: str, rows: int, columns: int) -> np.ndarray:
        """Where the elements (outer, inner, row, column) of a tensor lie."""
        find = self.numbers.__getitem__
        outer, inner = np.arange(find("outer")), np.arange(find("inner"))
        row, column = np.arange(rows), np.arange(columns)
        if name == "out":
            column = column % find("out_width") + column // find("out_width") * find("out_part")
        place = outer[:, None, None, None] * find(f"{name}_outer")
        place = place + inner[:, None, None] * find(f"{name}_inner")
        return find(f"{name}_start") + place + row[:, None] * find(f"{name}_row") + column

    def _vector(self, vector: np.ndarray, step: str, half: int) -> np.ndarray:
        """A number of each column, of each product its own if there is a step."""
        n, inner, outer = (self.numbers[name] for name in ("n", "inner", "outer"))
        first = n if self.kernel.gated and self.flags & half else 0
        batches = np.arange(inner * outer).reshape(outer, inner, 1, 1)
        return vector[batches * self.numbers[step] + first + np.arange(n)]

    def _factor(self) -> np.ndarray:
        m, n, share = (self.numbers[name] for name in ("m", "n", "share"))
        if self.kernel.batched:
            assert share == _ALL_ROWS
            return self._vector(self.factor, "factor_step", 0)
        if self.flags & 256:
            return self.factor[:1]
        return self.factor[np.arange(m)[:, None] // share * n + np.arange(n)]

    def _row_factor(self) -> Any:
        if not self.flags & 64:
            return 1.0
        rows = np.arange(self.numbers["m"])[:, None]
        return self.row_factors[np.zeros_like(rows) if self.flags & 128 else rows]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


_ACTIVATIONS = {
    "none": lambda x: x,
    "gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x * _sigmoid(x),
    "relu": lambda x: np.maximum(x, 0),
}
