"""Activations, norms and products of onnxruntime, as optimised models have them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from .op import DecomposedOp, Decomposition

_FLOAT = onnx.TensorProto.FLOAT
# Of norms that add first.
_SKIP_EPSILON = 1e-12


def _erf_gelu(body: DecomposedOp, x: str) -> str:
    inner = body("Erf", body("Mul", x, body.like(math.sqrt(0.5), x)))
    return body("Mul", body("Mul", x, body.like(0.5, x)), body("Add", inner, body.like(1.0, x)))


def _gelu(body: DecomposedOp) -> None:
    x = body.input(0)
    if body.input(1):
        x = body("Add", x, body.input(1))
    body.give(0, _erf_gelu(body, x))


def _fast_gelu(body: DecomposedOp) -> None:
    x = body.input(0)
    if body.input(1):
        x = body("Add", x, body.input(1))
    cubed = body("Mul", body("Mul", x, x), x)
    inner = body("Add", x, body("Mul", cubed, body.like(0.044715, x)))
    inner = body("Tanh", body("Mul", inner, body.like(math.sqrt(2 / math.pi), x)))
    half = body("Mul", x, body.like(0.5, x))
    body.give(0, body("Mul", half, body("Add", inner, body.like(1.0, x))))


def _quick_gelu(body: DecomposedOp) -> None:
    x = body.input(0)
    alpha = body.like(body.attribute("alpha", 1.702), x)
    body.give(0, body("Mul", x, body("Sigmoid", body("Mul", x, alpha))))


def rms_norm(
    body: DecomposedOp, x: str, scale: str, epsilon: float, axes: Sequence[int] = (-1,)
) -> str:
    wide = body("Cast", x, to=_FLOAT)
    square = body.mean(body("Mul", wide, wide), axes)
    root = body("Sqrt", body("Add", square, body.number(epsilon, np.float32)))
    return body("Mul", body("CastLike", body("Div", wide, root), x), scale)


def _layer_norm(body: DecomposedOp, x: str, scale: str, shift: str) -> str:
    given = [x, scale, *([shift] if shift else [])]
    return body(
        "LayerNormalization", *given, axis=-1, epsilon=body.attribute("epsilon", _SKIP_EPSILON)
    )


def _simplified_norm(body: DecomposedOp) -> None:
    x, scale, axis = body.input(0), body.input(1), body.attribute("axis", -1)
    dims = body.dims(x)
    if axis >= 0:
        if dims is None:
            raise body.refusal("an input of an unknown number of dims")
        axis -= len(dims)
    body.give(0, rms_norm(body, x, scale, body.attribute("epsilon", 1e-5), range(axis, 0)))


def _skip_norm(body: DecomposedOp) -> None:
    is_simple = body.node.op_type.startswith("SkipSimplified")
    total = body("Add", body.input(0), body.input(1))
    if bias := body.input(3 if is_simple else 4):
        total = body("Add", total, bias)
    if is_simple:
        normal = rms_norm(body, total, body.input(2), body.attribute("epsilon", _SKIP_EPSILON))
    else:
        normal = _layer_norm(body, total, body.input(2), body.input(3))
    body.give(0, normal)
    body.give(3, total)


def _embedding_norm(body: DecomposedOp) -> None:
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


# Of activations, in their order.
_PARAMETERS = {
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh"), ()),
}


def _fused(body: DecomposedOp) -> None:
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


def _fused_matmul(body: DecomposedOp) -> None:
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


def _matmul_nbits(body: DecomposedOp) -> None:
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


def _gather_quantised(body: DecomposedOp) -> None:
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


DECOMPOSITIONS: dict[str, Decomposition] = {
    "BiasGelu": _gelu,
    "EmbedLayerNormalization": _embedding_norm,
    "FastGelu": _fast_gelu,
    "FusedConv": _fused,
    "FusedGemm": _fused,
    "FusedMatMul": _fused_matmul,
    "GatherBlockQuantized": _gather_quantised,
    "Gelu": _gelu,
    "MatMulNBits": _matmul_nbits,
    "QuickGelu": _quick_gelu,
    "SimplifiedLayerNormalization": _simplified_norm,
    "SkipLayerNormalization": _skip_norm,
    "SkipSimplifiedLayerNormalization": _skip_norm,
    "TransposeMatMul": _fused_matmul,
}
