"""attn-wide-imports: what is imported in 16 bits, but computed in f32 elsewhere, is so here: sums,
products of JAX, and ops with numbers that 16 bits lack."""

from __future__ import annotations

import math
import struct

from iree.compiler import ir

from ..ir import (
    Builder,
    collect,
    copied_attributes,
    defining_op,
    element_type,
    known_attribute,
)
from ..ir.printed import torch_element, with_torch_element
from ..ir.rewrite import erase
from ..ir.torch_ops import TorchBuilder, constant_number
from ..passes import Pass, PassContext

# Ops of torch that sum, and which operand, if any, names the type to sum in.
_SUMS: dict[str, int | None] = {
    **dict.fromkeys(("layer_norm", "native_layer_norm", "group_norm", "native_group_norm"), None),
    **dict.fromkeys(("rms_norm", "instance_norm", "logsumexp", "_softmax", "_log_softmax"), None),
    "logcumsumexp": None,
    **dict.fromkeys(("var", "var.dim", "var.correction", "var_mean", "var_mean.dim"), None),
    **dict.fromkeys(("var_mean.correction", "std", "std.dim", "std.correction"), None),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d"), None),
    **dict.fromkeys(("adaptive_avg_pool2d",), None),
    **dict.fromkeys(("mean", "sum"), 1),
    **dict.fromkeys(("softmax.int", "log_softmax.int", "cumsum"), 2),
    **dict.fromkeys(("mean.dim", "sum.dim_IntList"), 3),
    "linalg_vector_norm": 4,
}
# One that may sum: the operand that says how, and what it says then.
_SCATTER, _HOW, _SUMMING = "torch.aten.scatter_reduce.two", 4, ("sum", "mean", "prod")
# Ops of ONNX that sum.
_ONNX_SUMS = frozenset(
    (
        *("ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum"),
        *("ReduceLogSumExp", "Softmax", "LogSoftmax", "CumSum", "GlobalAveragePool"),
        *("AveragePool", "InstanceNormalization", "GroupNormalization"),
    )
)
# Elementwise ops of torch with numbers among their operands.
_WITH_NUMBERS = frozenset(
    (
        *("add.Scalar", "add.Tensor", "sub.Scalar", "sub.Tensor", "rsub.Scalar", "mul.Scalar"),
        *("div.Scalar", "pow.Tensor_Scalar", "remainder.Scalar", "fmod.Scalar", "addcmul"),
        *("addcdiv", "lerp.Scalar", "leaky_relu", "elu", "celu", "softplus"),
    )
)
# Those whose own numbers 16 bits do not hold.
_INEXACT = frozenset(("gelu", "hardsigmoid", "hardswish", "selu"))
# How `struct` writes a number of a type, and how many of the last bytes do not fit.
_FORMATS = {"f16": ("<e", 0), "bf16": ("<f", 2)}
_NARROW = tuple(_FORMATS)
_TORCH, _ONNX = "torch.aten.", "onnx."
# Products of StableHLO, and what says how they are to be computed.
_PRODUCTS = ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution")
_ALGORITHM = "algorithm"


class WideImports(Pass):
    """Casts what norms, means, softmaxes and other sums of PyTorch and ONNX read from f16 or bf16
    to f32, and their results back, as their kernels do.

    IREE 3.13 imports them in the type of the tensor: the squares of a row of 4096 elements pass
    f16's largest number where their mean is 16, and what `scatter_reduce` counts in bf16 for a mean
    ends at 256. Works on the torch dialect, before IREE imports it. An op that is told the type of
    its result stays.

    So are elementwise ops of PyTorch with numbers that 16 bits do not hold, which IREE imports as
    numbers of the tensor's type: 0 * -1e9, as in a mask, is NaN in f16, where PyTorch makes 0.

    Products of StableHLO whose results are f16 or bf16 give f32, cast to that, as XLA computes
    them: IREE adds their terms up in the type of the result. They lose their `algorithm`, which
    IREE does not import: operands and sums have at least its precision.
    """

    name = "attn-wide-imports"
    summary = "norms, softmaxes, numbers and JAX's products of 16 bits are computed in f32"
    phase = "start"
    mends = "sums and JAX's products, and numbers beside 16 bits, are imported in f16 or bf16"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        sums = collect(module, _is_narrow_sum)
        for op in sums:
            why = "is summed in f32, as in PyTorch; IREE's import sums in 16 bits"
            context.report.record(op, "repaired", why)
            _widen(op)
        with_numbers = collect(module, _has_wide_number)
        for op in with_numbers:
            why = "is computed in f32, as in PyTorch; IREE's import rounds its numbers to 16 bits"
            context.report.record(op, "repaired", why)
            _widen(op)
        products = collect(module, _is_product)
        for op in products:
            is_narrow = _has_narrow_result(op)
            fault = "sums in 16 bits" if is_narrow else "imports none that names its algorithm"
            context.report.record(op, "repaired", f"is summed in f32, as in XLA; IREE {fault}")
            if _ALGORITHM in op.attributes:
                del op.attributes[_ALGORITHM]
            if is_narrow:
                _widen_product(op)
        return bool(sums or with_numbers or products)


def _is_product(op: ir.Operation) -> bool:
    """Whether op is a product of StableHLO that is summed in 16 bits, or names its algorithm."""
    return op.name in _PRODUCTS and (_ALGORITHM in op.attributes or _has_narrow_result(op))


def _has_narrow_result(op: ir.Operation) -> bool:
    return str(element_type(op.results[0])) in _NARROW


def _widen_product(op: ir.Operation) -> None:
    build, result = Builder(op), op.results[0]
    kind = ir.RankedTensorType(result.type)
    wide = ir.RankedTensorType.get(kind.shape, ir.F32Type.get(op.context), loc=op.location)
    made = build.create(op.name, [wide], list(op.operands), copied_attributes(op))
    result.replace_all_uses_with(build.create("stablehlo.convert", [kind], [made.result]).result)
    erase(op)


def _is_narrow_sum(op: ir.Operation) -> bool:
    return _sums(op) and _narrow(op.operands[0]) == _narrow(op.results[0]) != ""


def _sums(op: ir.Operation) -> bool:
    """Whether an op of torch or ONNX sums, in a type that it is not told."""
    if op.name == "torch.operator":
        name = ir.StringAttr(op.attributes["name"]).value
        return name.startswith(_ONNX) and name.removeprefix(_ONNX) in _ONNX_SUMS
    if op.name == _SCATTER:
        said = defining_op(op.operands[_HOW])
        how = None if said is None else known_attribute(said, "value")
        return how is not None and ir.StringAttr(how).value in _SUMMING
    name = op.name.removeprefix(_TORCH)
    if name == op.name or name not in _SUMS:
        return False
    place = _SUMS[name]
    return place is None or _is_none(op.operands[place])


def _has_wide_number(op: ir.Operation) -> bool:
    """Whether an elementwise op of torch has a number that its tensor's 16 bits do not hold."""
    name = op.name.removeprefix(_TORCH)
    if name == op.name or name not in _WITH_NUMBERS | _INEXACT:
        return False
    narrow = _narrow(op.results[0])
    if not narrow or narrow != _narrow(op.operands[0]):
        return False
    numbers = map(constant_number, op.operands)
    return name in _INEXACT or any(not _holds(narrow, x) for x in numbers if x is not None)


def _holds(kind: str, number: float) -> bool:
    layout, cut = _FORMATS[kind]
    try:
        packed = struct.pack(layout, number)
    except OverflowError:
        return not math.isfinite(number)
    (kept,) = struct.unpack(layout, b"\0" * cut + packed[cut:])
    return math.isnan(number) or kept == number


def _is_none(value: ir.Value) -> bool:
    return defining_op(value, "torch.constant.none") is not None


def _narrow(value: ir.Value) -> str:
    """`f16` or `bf16`, if that is what a tensor has; else ''."""
    element = torch_element(value.type)
    return element if element in _NARROW else ""


def _widen(op: ir.Operation) -> None:
    build = TorchBuilder(op)
    operands = [build.in_type(value, "f32") if _narrow(value) else value for value in op.operands]
    narrow = [_narrow(result) for result in op.results]
    kinds = [with_torch_element(x.type, "f32") if _narrow(x) else x.type for x in op.results]
    made = build.create(op.name, kinds, operands, copied_attributes(op))
    for old, new, element in zip(list(op.results), list(made.results), narrow, strict=True):
        old.replace_all_uses_with(build.in_type(new, element) if element else new)
    erase(op)
