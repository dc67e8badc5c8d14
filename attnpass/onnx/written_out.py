"""Ops that IREE 3.13 does not import from ONNX, or gets wrong, as others of ONNX.

Those of ONNX itself, and those of onnxruntime (`com.microsoft`) that exported and optimised models
have. Each is a function below that writes the nodes in an op's place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from ..errors import AttnError

MICROSOFT = "com.microsoft"
_FLOAT = onnx.TensorProto.FLOAT
_BOOL = onnx.TensorProto.BOOL
_INT64 = onnx.TensorProto.INT64
_TO_THE_END = np.iinfo(np.int64).max
# Attributes that change no number here, and values that stand for no attribute.
_HARMLESS = frozenset(("accuracy_level", "is_packed_batching", "mask_index_type", "stash_type"))
_NOTHING = (0, -1, b"", b"NONE")
# Of norms that add first.
_SKIP_EPSILON = 1e-12


class WrittenOp:
    """The nodes that stand for `node`, in a model of opset `version`.

    `inputs` and `outputs` are names, '' for what is not there; `dims` says what is known of a
    value's sizes, None for nothing; `known` and `constant` give the array of a constant.
    """

    def __init__(
        self,
        node: onnx.NodeProto,
        prefix: str,
        version: int,
        types: Mapping[str, onnx.TypeProto],
        weights: Mapping[str, onnx.TensorProto],
    ):
        self.node, self.version = node, version
        self.nodes: list[onnx.NodeProto] = []
        self._prefix, self._types, self._weights = prefix, types, weights
        self._attributes = {each.name: each for each in node.attribute}
        self._read: set[int | str] = set()

    def input(self, place: int) -> str:
        self._read.add(place)
        return self.node.input[place] if place < len(self.node.input) else ""

    def output(self, place: int) -> str:
        return self.node.output[place] if place < len(self.node.output) else ""

    def attribute(self, name: str, default: Any) -> Any:
        self._read.add(name)
        found = self._attributes.get(name)
        return default if found is None else onnx.helper.get_attribute_value(found)

    def dims(self, name: str) -> list[int | str | None] | None:
        kind = self._types.get(name)
        if kind is None or not kind.tensor_type.HasField("shape"):
            return None
        return [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
            for dim in kind.tensor_type.shape.dim
        ]

    def known(self, name: str) -> np.ndarray | None:
        found = self._weights.get(name)
        return None if found is None else onnx.numpy_helper.to_array(found)

    def constant(self, name: str, what: str) -> np.ndarray:
        found = self.known(name)
        if found is None:
            raise self.refusal(f"{what} that are no constants")
        return found

    def refusal(self, what: str) -> AttnError:
        name = f" '{self.node.name}'" if self.node.name else ""
        way = "export the model without the optimizations of onnxruntime"
        way = way if self.node.domain == MICROSOFT else "write it with other ops"
        return AttnError(f"{self.node.op_type}{name} has {what}, which is not compiled: {way}")

    def check(self) -> None:
        """AttnError for what the op has and nothing has read or made."""
        for place, name in enumerate(self.node.input):
            if name and place not in self._read:
                raise self.refusal(f"an input at place {place} ('{name}')")
        for name in self._attributes.keys() - self._read - _HARMLESS:
            value = self.attribute(name, 0)
            if value not in _NOTHING:
                raise self.refusal(f"the attribute '{name}'")
        made = {name for node in self.nodes for name in node.output}
        for name in self.node.output:
            if name and name not in made:
                raise self.refusal(f"the result '{name}'")

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A new op's only result."""
        output = f"{self._prefix}.{len(self.nodes)}"
        name = f"{self.node.name}/{op}"
        self.nodes.append(onnx.helper.make_node(op, inputs, [output], name, **attributes))
        return output

    def give(self, place: int, value: str) -> None:
        """Makes `value` the op's own result at `place`."""
        if output := self.output(place):
            self.nodes.append(onnx.helper.make_node("Identity", [value], [output]))

    def number(self, array: Any, dtype: Any = np.int64) -> str:
        return self("Constant", value=onnx.numpy_helper.from_array(np.asarray(array, dtype)))

    def like(self, number: float, value: str) -> str:
        """A number of the type of `value`."""
        return self("CastLike", self.number(number, np.float32), value)

    def mean(self, value: str, axes: Sequence[int]) -> str:
        """Of dims that stay."""
        if self.version < 18:
            return self("ReduceMean", value, axes=axes, keepdims=1)
        return self("ReduceMean", value, self.number(axes), keepdims=1)

    def slice(self, value: str, axis: int, start: int, end: int, step: int = 1) -> str:
        return self("Slice", value, *(self.number([each]) for each in (start, end, axis, step)))

    def size(self, value: str, axis: int) -> str:
        """As a list of one."""
        return self("Shape", value, start=axis, **({"end": axis + 1} if axis != -1 else {}))

    def reshape(self, value: str, sizes: list[int]) -> str:
        return self("Reshape", value, self.number(sizes))


def write(body: WrittenOp) -> bool:
    """Writes the nodes in an op's place; whether there are some."""
    domain = "" if body.node.domain == "ai.onnx" else body.node.domain
    if written := _WRITTEN.get((domain, body.node.op_type)):
        written(body)
        if body.nodes:
            body.check()
    return bool(body.nodes)


# ----- ONNX


def _lrn(body: WrittenOp) -> None:
    """IREE places windows of even sizes wrong."""
    x, size = body.input(0), body.attribute("size", 0)
    dims = body.dims(x)
    if dims is None:
        raise body.refusal("an input of an unknown number of dims")
    pads = np.zeros((2, len(dims)), int)
    pads[0, 1], pads[1, 1] = (size - 1) // 2, size // 2
    padded = body("Pad", body("Mul", x, x), body.number(pads.reshape(-1)))
    total = body.slice(padded, 1, 0, -(size - 1) or _TO_THE_END)
    for start in range(1, size):
        end = start - size + 1 or _TO_THE_END
        total = body("Add", total, body.slice(padded, 1, start, end))
    alpha = body.attribute("alpha", 1e-4) / size
    base = body(
        "Add", body("Mul", total, body.like(alpha, x)), body.like(body.attribute("bias", 1.0), x)
    )
    power = body("Pow", base, body.like(body.attribute("beta", 0.75), x))
    body.give(0, body("Div", x, power))


def _matmul(body: WrittenOp) -> None:
    """IREE imports none of a vector and of matrices."""
    sides = [body.input(0), body.input(1)]
    ranks = [len(dims) if (dims := body.dims(side)) is not None else 0 for side in sides]
    if 1 not in ranks or max(ranks) < 3:
        return
    place = ranks.index(1)
    sides[place] = body("Unsqueeze", sides[place], body.number([place]))
    body.give(0, body("Squeeze", body("MatMul", *sides), body.number([place - 2])))


def _pad(body: WrittenOp) -> None:
    """IREE takes none that cut, hangs on what wraps and has no program for mirrors."""
    dims, pads, filler = body.dims(body.input(0)), body.known(body.input(1)), body.input(2)
    mode = body.attribute("mode", b"constant")
    if dims is None or pads is None or body.input(3):
        return
    if (pads < 0).any():
        starts, ends = -np.minimum(pads, 0).reshape(2, -1)
        cut = body(
            "Slice",
            body.input(0),
            body.number(starts),
            body.number(np.where(ends > 0, -ends, _TO_THE_END)),
        )
        body.give(0, body("Pad", cut, body.number(np.maximum(pads, 0)), filler, mode=mode))
    elif mode in (b"wrap", b"reflect"):
        value, step = body.input(0), 1 if mode == b"wrap" else -1
        for axis, (before, after) in enumerate(pads.reshape(2, -1).T.tolist()):
            size = dims[axis]
            if isinstance(size, int) and max(before, after) > size:
                raise body.refusal("pads that are wider than their dim")
            first, last = (-before, _TO_THE_END) if step > 0 else (before, 0)
            parts = [body.slice(value, axis, first, last, step)] if before else []
            parts.append(value)
            first, last = (0, after) if step > 0 else (-2, -2 - after)
            parts += [body.slice(value, axis, first, last, step)] if after else []
            value = body("Concat", *parts, axis=axis) if before or after else value
        body.give(0, value)


def _grid_sample(body: WrittenOp) -> None:
    """IREE reads beyond the image."""
    x, grid = body.input(0), body.input(1)
    dims = body.dims(x)
    mode = body.attribute("mode", b"linear")
    outside = body.attribute("padding_mode", b"zeros")
    if dims is None or len(dims) != 4 or not all(isinstance(size, int) for size in dims[2:]):
        raise body.refusal("an input that is no image of a known size")
    if mode not in (b"linear", b"bilinear", b"nearest") or outside not in (b"zeros", b"border"):
        raise body.refusal(f"the mode {mode.decode()} with {outside.decode()}")
    starts, parts = [], []
    for place, size in enumerate((dims[3], dims[2])):
        assert isinstance(size, int)
        at = body("Squeeze", body.slice(grid, -1, place, place + 1), body.number([-1]))
        at = body("Add", at, body.like(1.0, at))
        if body.attribute("align_corners", 0):
            at = body("Mul", at, body.like((size - 1) / 2, at))
        else:
            at = body("Sub", body("Mul", at, body.like(size / 2, at)), body.like(0.5, at))
        if outside == b"border":
            at = body("Clip", at, body.like(0.0, at), body.like(size - 1, at))
        start = body("Round" if mode == b"nearest" else "Floor", at)
        starts.append(start)
        parts.append(body("Sub", at, start))
    flat, total = body.reshape(x, [0, 0, -1]), ""
    sizes = body(
        "Concat", body.size(x, 0), body.size(x, 1), body("Shape", grid, start=1, end=3), axis=0
    )
    for corner in ((0, 0),) if mode == b"nearest" else ((0, 0), (1, 0), (0, 1), (1, 1)):
        weight, index = "", ""
        for start, part, size, step in zip(
            starts[::-1], parts[::-1], dims[2:], corner[::-1], strict=True
        ):
            at = body("Add", start, body.like(step, start))
            low, high = body.like(0.0, at), body.like(float(size or 0) - 1, at)
            near = body("Clip", at, low, high)
            own = body("CastLike", body("Equal", near, at), at)
            if mode != b"nearest":
                share = part if step else body("Sub", body.like(1.0, part), part)
                own = body("Mul", own, share)
            weight = body("Mul", weight, own) if weight else own
            whole = body("Cast", near, to=_INT64)
            index = body("Add", body("Mul", index, body.number(size)), whole) if index else whole
        index = body.reshape(body("Unsqueeze", index, body.number([1])), [0, 1, -1])
        ends = body("Concat", body.size(x, 0), body.size(x, 1), body.number([1]), axis=0)
        taken = body("GatherElements", flat, body("Expand", index, ends), axis=2)
        taken = body("Reshape", taken, sizes)
        taken = body("Mul", taken, body("Unsqueeze", weight, body.number([1])))
        total = body("Add", total, taken) if total else taken
    body.give(0, total)


def _quantised_product(body: WrittenOp) -> None:
    """IREE gets those of batches wrong."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (body.input(n) for n in range(8))
    dims = [body.dims(each) for each in (a, b)]
    if any(each is None or len(each) > 2 for each in dims):
        product = body("Cast", body("MatMulInteger", a, b, a_zero, b_zero), to=_FLOAT)
        factor = body("Cast", body("Mul", a_scale, b_scale), to=_FLOAT)
        made = body("CastLike", body("Mul", product, factor), scale)
        body.give(0, body("QuantizeLinear", made, scale, zero))


def _reduce_prod(body: WrittenOp) -> None:
    """Of dims that are known: one half times the other."""
    value = body.input(0)
    dims = body.dims(value)
    axes = body.attribute("axes", None)
    if body.input(1):
        axes = body.constant(body.input(1), "axes").tolist()
    if dims is None:
        raise body.refusal("an input of an unknown number of dims")
    if not axes:
        if body.attribute("noop_with_empty_axes", 0):
            return body.give(0, value)
        axes = list(range(len(dims)))
    axes = [axis % len(dims) for axis in axes]
    for axis in axes:
        left = dims[axis]
        if not isinstance(left, int) or not left:
            raise body.refusal("a product over a dim of unknown size")
        while left > 1:
            half, odd = left // 2, left % 2
            product = body(
                "Mul", body.slice(value, axis, 0, half), body.slice(value, axis, half, 2 * half)
            )
            rest = [body.slice(value, axis, left - 1, left)] if odd else []
            value = body("Concat", product, *rest, axis=axis) if odd else product
            left = half + odd
    if not body.attribute("keepdims", 1):
        value = body("Squeeze", value, body.number(axes))
    body.give(0, value)


def _tensor_scatter(body: WrittenOp) -> None:
    """Writes to a cache from an index on that each row of the batch has."""
    past, update, starts = (body.input(place) for place in range(3))
    dims = body.dims(past)
    if dims is None:
        raise body.refusal("a cache of an unknown number of dims")
    axis = body.attribute("axis", -2) % len(dims)
    most, rows = body.size(past, axis), body.size(update, axis)
    zero, one = body.number(0), body.number(1)
    place = body("Range", zero, body("Squeeze", most), one)
    if starts:
        place = body("Sub", place, body("Unsqueeze", starts, body.number([1])))
    else:
        place = body("Unsqueeze", place, body.number([0]))
    if body.attribute("mode", b"linear") == b"circular":
        place = body("Mod", body("Add", place, most), most)
    inside = body("And", body("Less", place, rows), body("Not", body("Less", place, zero)))
    place = body("Max", body("Min", place, body("Sub", rows, one)), zero)
    others = [dim for dim in range(1, len(dims)) if dim != axis]
    if others:
        place = body("Unsqueeze", place, body.number(others))
        inside = body("Unsqueeze", inside, body.number(others))
    place = body("Expand", place, body("Shape", past))
    taken = body("GatherElements", update, place, axis=axis)
    body.give(0, body("Where", inside, taken, past))


# ----- onnxruntime: activations and norms


def _erf_gelu(body: WrittenOp, x: str) -> str:
    inner = body("Erf", body("Mul", x, body.like(math.sqrt(0.5), x)))
    return body("Mul", body("Mul", x, body.like(0.5, x)), body("Add", inner, body.like(1.0, x)))


def _gelu(body: WrittenOp) -> None:
    x = body.input(0)
    if body.input(1):
        x = body("Add", x, body.input(1))
    body.give(0, _erf_gelu(body, x))


def _fast_gelu(body: WrittenOp) -> None:
    x = body.input(0)
    if body.input(1):
        x = body("Add", x, body.input(1))
    cubed = body("Mul", body("Mul", x, x), x)
    inner = body("Add", x, body("Mul", cubed, body.like(0.044715, x)))
    inner = body("Tanh", body("Mul", inner, body.like(math.sqrt(2 / math.pi), x)))
    half = body("Mul", x, body.like(0.5, x))
    body.give(0, body("Mul", half, body("Add", inner, body.like(1.0, x))))


def _quick_gelu(body: WrittenOp) -> None:
    x = body.input(0)
    alpha = body.like(body.attribute("alpha", 1.702), x)
    body.give(0, body("Mul", x, body("Sigmoid", body("Mul", x, alpha))))


def _rms_norm(
    body: WrittenOp, x: str, scale: str, epsilon: float, axes: Sequence[int] = (-1,)
) -> str:
    wide = body("Cast", x, to=_FLOAT)
    square = body.mean(body("Mul", wide, wide), axes)
    root = body("Sqrt", body("Add", square, body.number(epsilon, np.float32)))
    return body("Mul", body("CastLike", body("Div", wide, root), x), scale)


def _layer_norm(body: WrittenOp, x: str, scale: str, shift: str) -> str:
    given = [x, scale, *([shift] if shift else [])]
    return body(
        "LayerNormalization", *given, axis=-1, epsilon=body.attribute("epsilon", _SKIP_EPSILON)
    )


def _simplified_norm(body: WrittenOp) -> None:
    x, scale, axis = body.input(0), body.input(1), body.attribute("axis", -1)
    dims = body.dims(x)
    if axis >= 0:
        if dims is None:
            raise body.refusal("an input of an unknown number of dims")
        axis -= len(dims)
    body.give(0, _rms_norm(body, x, scale, body.attribute("epsilon", 1e-5), range(axis, 0)))


def _skip_norm(body: WrittenOp) -> None:
    is_simple = body.node.op_type.startswith("SkipSimplified")
    total = body("Add", body.input(0), body.input(1))
    if bias := body.input(3 if is_simple else 4):
        total = body("Add", total, bias)
    if is_simple:
        normal = _rms_norm(body, total, body.input(2), body.attribute("epsilon", _SKIP_EPSILON))
    else:
        normal = _layer_norm(body, total, body.input(2), body.input(3))
    body.give(0, normal)
    body.give(3, total)


def _embedding_norm(body: WrittenOp) -> None:
    ids, segments, words, places, kinds, scale, shift, mask, positions = (
        body.input(place) for place in range(9)
    )
    if positions:
        place = body("Gather", places, positions)
    else:
        end = body.size(ids, 1)
        place = body("Slice", places, body.number([0]), end, body.number([0]))
    total = body("Add", body("Gather", words, ids), place)
    if segments:
        total = body("Add", total, body("Gather", kinds, segments))
    body.give(0, _layer_norm(body, total, scale, shift))
    counts = body("Cast", mask or ids, to=onnx.TensorProto.INT32)
    if not mask:
        counts = body("Mul", counts, body.number(0, np.int32))
    body.give(1, body("ReduceSum", counts, body.number([1]), keepdims=0))
    body.give(2, total)


# ----- onnxruntime: products

# Of activations, in their order.
_PARAMETERS = {
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh"), ()),
}


def _fused(body: WrittenOp) -> None:
    """A convolution, or product, and what its results go through."""
    kind = body.attribute("activation", b"").decode()
    if kind not in (*_PARAMETERS, ""):
        raise body.refusal(f"the activation {kind}")
    own = [each.name for each in body.node.attribute if not each.name.startswith("activation")]
    given = [body.input(place) for place in range(3)]
    made = body(
        body.node.op_type.removeprefix("Fused"),
        *(given if given[2] else given[:2]),
        **{name: body.attribute(name, None) for name in own},
    )
    if body.input(3):
        made = body("Add", made, body.input(3))
    numbers = [body.attribute(f"activation_{name}", None) for name in ("alpha", "beta")]
    numbers = body.attribute("activation_params", numbers)
    pairs = zip(_PARAMETERS.get(kind, ()), numbers, strict=False)
    named = {name: number for name, number in pairs if number is not None}
    if kind == "Clip":
        made = body(kind, made, *(body.like(number, made) for number in named.values()))
    elif kind:
        made = body(kind, made, **named)
    body.give(0, made)


def _fused_matmul(body: WrittenOp) -> None:
    sides = []
    for place, side in enumerate("AB"):
        value = body.input(place)
        is_batch_last = body.attribute(f"transBatch{side}", 0)
        is_turned = body.attribute(f"trans{side}", 0)
        if is_batch_last or is_turned:
            dims = body.dims(value)
            if dims is None:
                raise body.refusal("an operand of an unknown number of dims")
            order = list(range(len(dims)))
            if is_batch_last and len(order) > 2:
                order = [*order[1:-1], 0, order[-1]]
            if is_turned:
                order[-2:] = order[:-3:-1]
            value = body("Transpose", value, perm=order)
        sides.append(value)
    product = body("MatMul", *sides)
    alpha = body.attribute("alpha", 1.0)
    body.give(0, product if alpha == 1 else body("Mul", product, body.like(alpha, product)))


def _matmul_nbits(body: WrittenOp) -> None:
    """Weights of few bits, each block with a scale: as numbers of the scales' type."""
    rows, columns, bits, block = (
        body.attribute(name, 0) for name in ("K", "N", "bits", "block_size")
    )
    if bits not in (2, 4, 8):
        raise body.refusal(f"weights of {bits} bits")
    packed = body.constant(body.input(1), "weights").reshape(columns, -1)
    scales = body.constant(body.input(2), "scales").reshape(columns, -1)
    blocks = scales.shape[1]
    weights = _unpacked(packed, bits).reshape(columns, blocks, -1)[..., :block]
    zeros: np.ndarray = np.full((columns, blocks), 1 << (bits - 1), np.float32)
    if body.input(3):
        given = body.constant(body.input(3), "zero points")
        zeros = given.astype(np.float32).reshape(columns, -1)
        if given.dtype == np.uint8:
            zeros = _unpacked(given.reshape(columns, -1), bits)
        zeros = zeros[:, :blocks]
    numbers = (weights - zeros[..., None]) * scales[..., None].astype(np.float32)
    numbers = numbers.reshape(columns, -1)[:, :rows].T.astype(scales.dtype)
    product = body(
        "MatMul", body.input(0), body.number(np.ascontiguousarray(numbers), scales.dtype)
    )
    body.give(0, body("Add", product, body.input(5)) if body.input(5) else product)


def _gather_quantised(body: WrittenOp) -> None:
    """Rows of a table of few bits, each block with a scale: of one of the scales' type."""
    data, scales = (body.constant(body.input(place), "a table") for place in (0, 2))
    bits, block = body.attribute("bits", 4), body.attribute("block_size", 128)
    axis = body.attribute("quantize_axis", 1) % data.ndim
    is_packed = data.dtype == np.uint8

    def numbers(array: np.ndarray, size: int) -> np.ndarray:
        if not is_packed or bits == 8:
            return array.astype(np.float32)
        flat = _unpacked(array.reshape(-1, array.shape[-1]), bits)
        return flat.reshape(*array.shape[:-1], -1)[..., :size]

    def spread(array: np.ndarray) -> np.ndarray:
        return array.repeat(block, axis).take(range(table.shape[axis]), axis)

    table = numbers(data, data.shape[-1] * 8 // bits)
    if body.input(3):
        zeros = spread(numbers(body.constant(body.input(3), "zero points"), scales.shape[-1]))
    else:
        zeros = np.float32(1 << (bits - 1) if is_packed else 0)
    table = ((table - zeros) * spread(scales).astype(np.float32)).astype(scales.dtype)
    rows = body.attribute("gather_axis", 0)
    body.give(0, body("Gather", body.number(table, table.dtype), body.input(1), axis=rows))


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of few bits, the first in the lowest bits of each byte."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & ((1 << bits) - 1)
    return numbers.reshape(len(packed), -1).astype(np.float32)


# ----- onnxruntime: attention


def _rotated(
    body: WrittenOp, x: str, caches: tuple[str, str], places: str, is_interleaved: int, dim: int
) -> str:
    """`x` of dims (batch, rows, heads, dim), by factors at `places`; those of a head behind the
    `dim` rotated ones (0: as many as there are factors) stay."""
    cos, sin = (
        body("Unsqueeze", body("Gather", each, places), body.number([2])) for each in caches
    )
    known = body.dims(caches[0])
    half = dim // 2 or (known[-1] if known else None)
    if not isinstance(half, int):
        raise body.refusal("factors of an unknown size")
    whole = body.slice(x, -1, 0, 2 * half)
    rest = body.slice(x, -1, 2 * half, _TO_THE_END)
    if is_interleaved:
        pairs = body.reshape(whole, [0, 0, 0, half, 2])
        first, second = (
            body("Squeeze", body.slice(pairs, -1, at, at + 1), body.number([-1])) for at in (0, 1)
        )
    else:
        first = body.slice(whole, -1, 0, half)
        second = body.slice(whole, -1, half, 2 * half)
    made = (
        body("Sub", body("Mul", first, cos), body("Mul", second, sin)),
        body("Add", body("Mul", first, sin), body("Mul", second, cos)),
    )
    if is_interleaved:
        made = tuple(body("Unsqueeze", each, body.number([-1])) for each in made)
        return body(
            "Concat", body.reshape(body("Concat", *made, axis=-1), [0, 0, 0, -1]), rest, axis=-1
        )
    return body("Concat", *made, rest, axis=-1)


def _rotary(body: WrittenOp) -> None:
    x, places, cos, sin = (body.input(place) for place in range(4))
    dims, caches, known = body.dims(x), body.dims(cos), body.dims(places)
    # onnxruntime reads no scale.
    body.attribute("scale", 1.0)
    if known is None or caches is None:
        raise body.refusal("positions or factors of an unknown number of dims")
    is_joined, heads = dims is None or len(dims) == 3, body.attribute("num_heads", 0)
    if is_joined:
        dim = 2 * caches[-1] if isinstance(caches[-1], int) else 0
        value = body.reshape(x, [0, 0, heads, -1] if heads else [0, 0, -1, dim])
    else:
        value = body("Transpose", x, perm=[0, 2, 1, 3])
    if len(known) == 1:
        rows = body("Squeeze", body.size(value, 1))
        counts = body("Range", body.number(0), rows, body.number(1))
        places = body("Unsqueeze", body("Add", counts, places), body.number([0]))
    is_interleaved, part = (
        body.attribute(name, 0) for name in ("interleaved", "rotary_embedding_dim")
    )
    value = _rotated(body, value, (cos, sin), places, is_interleaved, part)
    if is_joined:
        body.give(0, body.reshape(value, [0, 0, -1]))
    else:
        body.give(0, body("Transpose", value, perm=[0, 2, 1, 3]))


def _scaled(body: WrittenOp, q: str) -> str:
    """Queries by the scale that is named, or else by that of their last dim."""
    scale = body.attribute("scale", 0.0)
    if scale:
        return body("Mul", q, body.like(scale, q))
    size = body("Cast", body.size(q, -1), to=_FLOAT)
    return body("Div", q, body("CastLike", body("Sqrt", size), q))


def _softmax_of(body: WrittenOp, scores: str, visible: str, bias: str, sinks: str = "") -> str:
    """Weights of keys; `sinks` are scores of no key, (heads, 1, 1) beside those of keys."""
    cap = body.attribute("softcap", 0.0)
    if cap:
        scores = body(
            "Mul", body("Tanh", body("Div", scores, body.like(cap, scores))), body.like(cap, scores)
        )
    if bias:
        scores = body("Add", scores, bias)
    if visible:
        scores = body("Where", visible, scores, body.like(-math.inf, scores))
    if sinks:
        ends = body("Concat", body("Shape", scores, end=-1), body.number([1]), axis=0)
        scores = body("Concat", scores, body("Expand", sinks, ends), axis=-1)
    weights = body("Softmax", scores, axis=-1)
    return body.slice(weights, -1, 0, -1) if sinks else weights


def _multi_head(body: WrittenOp) -> None:
    """Of queries, keys and values that are separate, or packed head by head."""
    q, k, v, bias, mask, added, past_k, past_v = (body.input(place) for place in range(8))
    heads = body.attribute("num_heads", 0)
    rows = {dims[1] for each in (q, k) if len(dims := body.dims(each) or ()) == 3}
    if body.attribute("unidirectional", 0) and sum(isinstance(size, int) for size in rows) > 1:
        raise body.refusal("causal attention of unlike numbers of queries and keys")
    shifts = ["", "", ""]
    if bias:
        width = (body.dims(q) or [None])[-1]
        if not isinstance(width, int) or not k:
            raise body.refusal("a bias beside queries of an unknown size")
        ends = (0, width, 2 * width, _TO_THE_END)
        shifts = [body.slice(bias, 0, *ends[place : place + 2]) for place in range(3)]
    given = [q, k, v]
    for place, value in enumerate(given):
        # (batch, rows, heads, 3 or 2, dim)
        if value and len(body.dims(value) or ()) == 5:
            parts = range(3 - place)
            given[place:] = [body("Gather", value, body.number(part), axis=3) for part in parts]
            break
    if not all(given):
        raise body.refusal("packed queries, keys and values of an unknown form")
    values = []
    for value, shift in zip(given, shifts, strict=True):
        dims = body.dims(value)
        if dims is not None and len(dims) == 4:
            values.append(value)
            continue
        if value in (q, k, v):
            moved = body("Add", value, shift) if shift else value
            value = body.reshape(moved, [0, 0, heads, -1])
        values.append(body("Transpose", value, perm=[0, 2, 1, 3]))
    if past_k:
        values[1] = body("Concat", past_k, values[1], axis=2)
        values[2] = body("Concat", past_v, values[2], axis=2)
    _attend(body, values, mask, added)
    body.give(1, values[1])
    body.give(2, values[2])


def _packed_attention(body: WrittenOp) -> None:
    """Of BERT and GPT-2: one product makes queries, keys and values."""
    mask, past, added = (body.input(place) for place in (3, 4, 5))
    heads, sizes = body.attribute("num_heads", 0), body.attribute("qkv_hidden_sizes", None)
    made = body("MatMul", body.input(0), body.input(1))
    if body.input(2):
        made = body("Add", made, body.input(2))
    if sizes:
        ends = np.cumsum([0, *sizes]).tolist()
        parts = [body.slice(made, 2, *ends[place : place + 2]) for place in range(3)]
        parts = [body.reshape(part, [0, 0, heads, -1]) for part in parts]
    else:
        made = body.reshape(made, [0, 0, 3, heads, -1])
        parts = [body("Gather", made, body.number(place), axis=2) for place in range(3)]
    values = [body("Transpose", each, perm=[0, 2, 1, 3]) for each in parts]
    for place in (1, 2) if past else ():
        old = body("Gather", past, body.number(place - 1))
        values[place] = body("Concat", old, values[place], axis=2)
    _attend(body, values, mask, added)
    if body.output(1):
        both = [body("Unsqueeze", each, body.number([0])) for each in values[1:]]
        body.give(1, body("Concat", *both, axis=0))


def _attend(body: WrittenOp, values: Sequence[str], mask: str, added: str) -> None:
    """Attention of queries, keys and values (batch, heads, rows, dim)."""
    q, k, v = values
    scores = body("MatMul", _scaled(body, q), body("Transpose", k, perm=[0, 1, 3, 2]))
    low = body.attribute("mask_filter_value", -10000.0)
    if mask:
        seen = _seen(body, mask, k)
        hidden = body("Where", seen, body.like(0.0, scores), body.like(low, scores))
        scores = body("Add", scores, hidden)
    visible = ""
    if body.attribute("unidirectional", 0):
        ahead = body("Sub", body.size(k, 2), body.size(q, 2))
        rows = body("Add", body("Unsqueeze", _counted(body, q, 2), body.number([1])), ahead)
        visible = body("Not", body("Greater", _counted(body, k, 2), rows))
    weights = _softmax_of(body, scores, visible, added)
    result = body("Transpose", body("MatMul", weights, v), perm=[0, 2, 1, 3])
    body.give(0, body.reshape(result, [0, 0, -1]))


def _seen(body: WrittenOp, mask: str, k: str) -> str:
    """Which keys are seen, of (batch, heads, rows, keys): a mask of keys, one of rows and keys, or
    ends of keys, behind which their starts may stand."""
    known = body.dims(mask)
    if known is not None and len(known) in (2, 3):
        seen = body("Greater", mask, body("CastLike", body.number(0), mask))
        return body("Unsqueeze", seen, body.number([1, 2] if len(known) == 2 else [1]))
    batch = (body.dims(body.input(0)) or [None])[0]
    size = known[0] if known and len(known) == 1 else None
    is_known = isinstance(batch, int) and size in (2 * batch, 3 * batch + 2)
    if size is None or not (size == batch or is_known):
        raise body.refusal("a mask of another form")
    mask, keys = body("Cast", mask, to=_INT64), _counted(body, k, 2)

    def part(start: int, end: int) -> str:
        return body("Unsqueeze", body.slice(mask, 0, start, end), body.number([1]))

    if size == batch:
        seen = body("Less", keys, body("Unsqueeze", mask, body.number([1])))
    else:
        assert isinstance(batch, int)
        seen = body("Less", keys, part(0, batch))
        if size == 2 * batch:
            starts = body("Less", keys, part(batch, 2 * batch))
            seen = body("And", seen, body("Not", starts))
    return body("Unsqueeze", seen, body.number([1, 2]))


def _counted(body: WrittenOp, value: str, axis: int) -> str:
    """0, 1, .. to the size of a dim."""
    size = body("Squeeze", body.size(value, axis))
    return body("Range", body.number(0), size, body.number(1))


def _grouped(body: WrittenOp) -> None:
    """Causal attention of an LLM with its cache.

    Rows of a batch have lengths of their own (`seqlens_k`, of all but the last key): new keys are
    written behind those that a row has. A cache is as long as before and written in place where
    the graph calls both lengths the same, else longer by the new keys.
    """
    q, k, v, past_k, past_v, lengths, _, cos, sin, at, bias, sinks = (
        body.input(place) for place in range(12)
    )
    gains = body.input(14), body.input(15)
    heads, groups = body.attribute("num_heads", 0), body.attribute("kv_num_heads", 0)
    if k:
        q, k, v = (
            body.reshape(each, [0, 0, count, -1])
            for each, count in ((q, heads), (k, groups), (v, groups))
        )
    else:
        packed = body.reshape(q, [0, 0, heads + 2 * groups, -1])
        ends = (0, heads, heads + groups, heads + 2 * groups)
        q, k, v = (body.slice(packed, 2, *ends[place : place + 2]) for place in range(3))
    rows = body.size(q, 1)
    lengths = body.reshape(body("Cast", lengths, to=_INT64), [-1, 1])
    before = body("Sub", body("Add", lengths, body.number(1)), rows)
    before = body("Max", before, body.number(0))
    places = body("Add", before, _counted(body, q, 1))
    if gains[0]:
        epsilon = body.attribute("qk_norm_epsilon", 1e-6)
        q, k = (
            _rms_norm(body, each, gain, body.attribute(f"{name}_norm_epsilon", epsilon))
            for each, gain, name in zip((q, k), gains, "qk", strict=True)
        )
    is_interleaved = body.attribute("rotary_interleaved", 0)
    if body.attribute("do_rotary", 0):
        q, k = (
            _rotated(body, each, (cos, sin), at or places, is_interleaved, 0) for each in (q, k)
        )
    k, v = (body("Transpose", each, perm=[0, 2, 1, 3]) for each in (k, v))
    if past_k:
        k, v = _cached(body, (past_k, past_v), (k, v), before, rows)
    body.give(1, k)
    body.give(2, v)
    # Heads of a group side by side: keys are not repeated.
    q = body.reshape(q, [0, 0, groups, heads // groups, -1])
    q = body("Transpose", q, perm=[0, 2, 3, 1, 4])
    keys = body("Unsqueeze", body("Transpose", k, perm=[0, 1, 3, 2]), body.number([2]))
    scores = body("MatMul", _scaled(body, q), keys)
    # Rows behind a prompt's end see its keys.
    last = body("Min", places, lengths) if body.attribute("causal", 1) else lengths
    last, key = body("Unsqueeze", last, body.number([2])), _counted(body, k, 2)
    visible = body("Not", body("Greater", key, last))
    window = body.attribute("local_window_size", -1)
    if window > 0:
        before_window = body("Sub", last, body.number(window))
        visible = body("And", visible, body("Greater", key, before_window))
    visible = body("Unsqueeze", visible, body.number([1, 2]))
    if bias:
        sizes, cached = body.dims(bias), body.dims(body.output(1))
        if sizes is None or isinstance(sizes[1], str):
            raise body.refusal("a bias of unknown sizes")
        if cached and isinstance(cached[2], int) and cached[2] != sizes[3]:
            raise body.refusal("a bias that is none of the cache's keys")
        by_group = [1, 1] if sizes[1] == 1 else [groups, heads // groups]
        by_group = [body.size(bias, 0), body.number(by_group), body("Shape", bias, start=2)]
        bias = body("Reshape", bias, body("Concat", *by_group, axis=0))
    if sinks or body.attribute("smooth_softmax", 0) > 0:
        zeros = body.number(np.zeros(heads), np.float32)
        sinks = body.reshape(body("CastLike", sinks or zeros, q), [groups, heads // groups, 1, 1])
    weights = _softmax_of(body, scores, visible, bias, sinks)
    result = body("MatMul", weights, body("Unsqueeze", v, body.number([2])))
    body.give(0, body.reshape(body("Transpose", result, perm=[0, 3, 1, 2, 4]), [0, 0, -1]))


def _cached(
    body: WrittenOp, past: tuple[str, str], new: tuple[str, str], before: str, rows: str
) -> tuple[str, str]:
    """The cache with new rows: of a batch of one that grows, one behind the other."""
    before_dims, after_dims = body.dims(past[0]), body.dims(body.output(1))
    lengths = [dims[2] if dims else None for dims in (before_dims, after_dims)]
    is_kept = lengths[0] is not None and lengths[0] == lengths[1]
    both = [body("Concat", old, each, axis=2) for old, each in zip(past, new, strict=True)]
    if not is_kept and before_dims and before_dims[0] == 1:
        return both[0], both[1]
    length = body.size(past[0], 2)
    place = _counted(body, past[0] if is_kept else both[0], 2)
    ahead = body("Sub", place, before)
    is_new = body(
        "And", body("Not", body("Less", ahead, body.number(0))), body("Less", ahead, rows)
    )
    old = body("Max", body("Min", place, body("Sub", length, body.number(1))), body.number(0))
    index = body("Where", is_new, body("Add", ahead, length), old)
    index = body("Unsqueeze", index, body.number([1, 3]))
    sizes = [body.size(both[0], 0), body.size(both[0], 1)]
    sizes += [body.size(past[0] if is_kept else both[0], 2), body.size(both[0], 3)]
    index = body("Expand", index, body("Concat", *sizes, axis=0))
    k, v = (body("GatherElements", each, index, axis=2) for each in both)
    return k, v


_WRITTEN: dict[tuple[str, str], Callable[[WrittenOp], None]] = {
    ("", "GridSample"): _grid_sample,
    ("", "LRN"): _lrn,
    ("", "MatMul"): _matmul,
    ("", "Pad"): _pad,
    ("", "QLinearMatMul"): _quantised_product,
    ("", "ReduceProd"): _reduce_prod,
    ("", "SimplifiedLayerNormalization"): _simplified_norm,
    ("", "TensorScatter"): _tensor_scatter,
    (MICROSOFT, "Attention"): _packed_attention,
    (MICROSOFT, "BiasGelu"): _gelu,
    (MICROSOFT, "EmbedLayerNormalization"): _embedding_norm,
    (MICROSOFT, "FastGelu"): _fast_gelu,
    (MICROSOFT, "FusedConv"): _fused,
    (MICROSOFT, "FusedGemm"): _fused,
    (MICROSOFT, "FusedMatMul"): _fused_matmul,
    (MICROSOFT, "GatherBlockQuantized"): _gather_quantised,
    (MICROSOFT, "Gelu"): _gelu,
    (MICROSOFT, "GroupQueryAttention"): _grouped,
    (MICROSOFT, "MatMulNBits"): _matmul_nbits,
    (MICROSOFT, "MultiHeadAttention"): _multi_head,
    (MICROSOFT, "QuickGelu"): _quick_gelu,
    (MICROSOFT, "RotaryEmbedding"): _rotary,
    (MICROSOFT, "SimplifiedLayerNormalization"): _simplified_norm,
    (MICROSOFT, "SkipLayerNormalization"): _skip_norm,
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): _skip_norm,
    (MICROSOFT, "TransposeMatMul"): _fused_matmul,
}
