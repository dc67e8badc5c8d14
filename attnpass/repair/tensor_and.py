"""attn-tensor-and: `a & b` of two tensors, as PyTorch's masks are joined, has a program; and what
else IREE's import knows by another name."""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from ..ir import defining_op, is_used
from ..ir.printed import torch_element, torch_shape, torch_tensor
from ..ir.torch_ops import TorchBuilder, constant_number
from ..passes import OpPass

_UNKNOWN, _INSTANCE_NORM = "torch.operator", "torch.aten.instance_norm"
_AND = "torch.aten.__and__.Tensor"
# By what operators are called, the ops of the same operands that they are.
_KNOWN = {
    _AND: "aten.bitwise_and.Tensor",
    "torch.aten.__xor__.Tensor": "aten.bitwise_xor.Tensor",
    "torch.aten.__lshift__.Tensor": "aten.bitwise_left_shift.Tensor",
    "torch.aten.__rshift__.Tensor": "aten.bitwise_right_shift.Tensor",
}


class TensorAnd(OpPass):
    """Makes each `torch.aten.__and__.Tensor` a `torch.aten.bitwise_and.Tensor`, which it is, and
    alike of `^`, `<<`, `>>`, `rsub` and of what `run_decompositions()` of PyTorch makes: squeezes
    of several dims, norms of batches, samples of grids. An instance norm without weights is a group
    norm, of a group for each channel.

    IREE 3.13 imports the second alone: of the first it says that it cannot legalize what the op
    reads, or has no op at all. Works on the torch dialect, before IREE imports it. Dims that are
    squeezed have a known size.
    """

    name = "attn-tensor-and"
    summary = "PyTorch's `&`, `^`, `<<`, `>>`, squeezes, norms by names that the import knows"
    ops = (_AND, _UNKNOWN, _INSTANCE_NORM)
    phase = "start"
    mends = (
        "`a & b`, `a ^ b` and `a << b` of two tensors of PyTorch, squeezes of several dims and "
        "decomposed norms do not compile"
    )

    erases = True

    def change(self, op: ir.Operation) -> str:
        is_unknown = op.name == _UNKNOWN
        name = ir.StringAttr(op.attributes["name"]).value if is_unknown else op.name
        build = TorchBuilder(op)
        if any(is_used(result) for result in list(op.results)[1:]):
            return ""
        if name in _KNOWN:
            made = build.op(_KNOWN[name], op.results[0].type, *op.operands)
        else:
            made = _OTHERS[name](build, op) if name in _OTHERS else None
        if made is not None:
            op.results[0].replace_all_uses_with(made)
        return "is an op that IREE's import knows" if made is not None else ""


def _subtraction(build: TorchBuilder, op: ir.Operation) -> ir.Value:
    x, y, factor = op.operands
    return build.op("aten.sub.Tensor", op.results[0].type, y, x, factor)


def _squeeze(build: TorchBuilder, op: ir.Operation) -> ir.Value | None:
    value, named = op.operands[0], defining_op(op.operands[1])
    shape = torch_shape(value.type)
    dims = [constant_number(dim) for dim in named.operands] if named is not None else [None]
    places = sorted({int(dim) % len(shape) for dim in dims if dim is not None}, reverse=True)
    if None in dims or any(shape[place] is None for place in places):
        return None
    for place in places:
        if shape[place] == 1:
            del shape[place]
            kind = torch_tensor(shape, torch_element(value.type))
            value = build.op("aten.squeeze.dim", kind, value, build.number(place))
    return value


def _batch_norm(build: TorchBuilder, op: ir.Operation) -> ir.Value:
    *given, momentum, epsilon = op.operands
    no = build.truth(False)
    return build.op("aten.batch_norm", op.results[0].type, *given, no, momentum, epsilon, no)


def _norm_of_one_batch(build: TorchBuilder, op: ir.Operation) -> ir.Value | None:
    """As `run_decompositions()` writes instance norms, with a channel for each of all images."""
    x, weight, bias, _, _, epsilon = op.operands
    return _group_norm(build, op, weight, bias, epsilon) if torch_shape(x.type)[0] == 1 else None


def _instance_norm(build: TorchBuilder, op: ir.Operation) -> ir.Value | None:
    _, weight, bias, *stored, _, _, epsilon, _ = op.operands
    is_plain = not any(torch_element(value.type) for value in (weight, bias, *stored))
    return _group_norm(build, op, weight, bias, epsilon) if is_plain else None


def _group_norm(build: TorchBuilder, op: ir.Operation, *given: ir.Value) -> ir.Value:
    """A group for each channel."""
    x, kind = op.operands[0], op.results[0].type
    return build.op("aten.group_norm", kind, x, build.size_of(x, 1), *given, build.truth(False))


def _samples(build: TorchBuilder, op: ir.Operation) -> ir.Value | None:
    """Not cubic ones, which the import takes for others."""
    mode = constant_number(op.operands[2])
    return (
        build.op("aten.grid_sampler", op.results[0].type, *op.operands) if mode in (0, 1) else None
    )


_OTHERS: dict[str, Callable[[TorchBuilder, ir.Operation], ir.Value | None]] = {
    "torch.aten.rsub.Tensor": _subtraction,
    "torch.aten.squeeze.dims": _squeeze,
    "torch.aten.grid_sampler_2d": _samples,
    "torch.aten._native_batch_norm_legit_no_training": _batch_norm,
    "torch.aten._native_batch_norm_legit.no_stats": _norm_of_one_batch,
    _INSTANCE_NORM: _instance_norm,
}
