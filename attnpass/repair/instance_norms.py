"""attn-instance-norms: ONNX's instance norms of unknown sizes are means, products and sums."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import known_attribute
from ..ir.onnx_ops import OnnxBuilder, is_onnx, onnx_opset
from ..ir.printed import torch_element, torch_shape
from ..passes import OpPass

_EPSILON, _DEFAULT = "torch.onnx.epsilon", 1e-5
# What ONNX calls the types, as numbers.
_CODES = {"f32": 1, "f16": 10, "f64": 11, "bf16": 16}
# From this version on the dims of a mean are an operand.
_AXES_OPERAND = 18


class InstanceNorms(OpPass):
    """Writes out instance norms of ONNX (its exporters' group norms) of unknown sizes behind the
    channels, which IREE 3.13 divides by another count: their numbers are wrong, or none.

    Sums are those of f32 where the type is less. Works on ONNX's ops, before IREE imports them.
    """

    name = "attn-instance-norms"
    summary = "ONNX's instance norms of unknown sizes"
    phase = "start"
    mends = "instance norms of ONNX of unknown sizes divide by another count"

    erases = True

    def wanted(self, op: ir.Operation) -> bool:
        is_norm = is_onnx(op, "InstanceNormalization")
        if not is_norm or torch_element(op.operands[0].type) not in _CODES:
            return False
        return None in torch_shape(op.operands[0].type)[2:]

    def change(self, op: ir.Operation) -> str:
        op.results[0].replace_all_uses_with(_decomposed(op))
        return "is written out: IREE's import divides by another count than the unknown sizes'"


def _decomposed(op: ir.Operation) -> ir.Value:
    build = OnnxBuilder(op)
    narrow = torch_element(op.operands[0].type)
    element = narrow if narrow == "f64" else "f32"
    x, scale, bias = (_cast(build, value, element) for value in op.operands)
    sizes = torch_shape(x.type)
    ones: list[int | None] = [1] * (len(sizes) - 2)
    dims = range(2, len(sizes))

    def mean(value: ir.Value) -> ir.Value:
        counts = [*sizes[:2], *ones]
        if onnx_opset(op) >= _AXES_OPERAND:
            return build.onnx("ReduceMean", [value, build.onnx_constant(dims)], counts)
        return build.onnx("ReduceMean", [value], counts, {"torch.onnx.axes": build.si64s(dims)})

    def per_channel(value: ir.Value) -> ir.Value:
        return build.onnx_with_units(value, 1, len(ones))

    centered = build.onnx("Sub", [x, mean(x)], sizes)
    variance = mean(build.onnx("Mul", [centered, centered], sizes))
    given = known_attribute(op, _EPSILON)
    epsilon = build.onnx_number(_DEFAULT if given is None else ir.FloatAttr(given).value, element)
    deviation = build.onnx("Add", [variance, epsilon], torch_shape(variance.type))
    deviation = build.onnx("Sqrt", [deviation], torch_shape(variance.type))
    value = build.onnx("Div", [centered, deviation], sizes)
    value = build.onnx("Mul", [value, per_channel(scale)], sizes)
    value = build.onnx("Add", [value, per_channel(bias)], sizes)
    return _cast(build, value, narrow)


def _cast(build: OnnxBuilder, value: ir.Value, element: str) -> ir.Value:
    if torch_element(value.type) == element:
        return value
    to = {"torch.onnx.to": build.si64(_CODES[element])}
    return build.onnx("Cast", [value], torch_shape(value.type), to, element)
