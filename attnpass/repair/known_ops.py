"""attn-known-ops: ops of PyTorch that IREE's import lacks are written in those that it knows."""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from ..ir import defining_op, is_used, known_attribute
from ..ir.printed import torch_element, torch_shape, torch_tensor, with_torch_element
from ..ir.torch_ops import TorchBuilder, constant_number, constant_truth
from ..passes import OpPass

_UNKNOWN, _INSTANCE_NORM = "torch.operator", "torch.aten.instance_norm"
_AND = "torch.aten.__and__.Tensor"
_DIVERGENCE = "torch.aten.kl_div"
_SCATTER = "torch.aten.scatter_reduce.two"
_POWER, _MOST_FACTORS = "torch.aten.pow.Tensor_Scalar", 64
# Means and maxima of windows, by how many dims a batch of images has.
_WINDOWS = {
    f"torch.aten.{name.format(dims)}": 2 + dims
    for name in ("avg_pool{}d", "max_pool{}d", "max_pool{}d_with_indices")
    for dims in (1, 2, 3)
}
# By what operators are called, the ops of the same operands that they are.
_KNOWN = {
    _AND: "aten.bitwise_and.Tensor",
    "torch.aten.__xor__.Tensor": "aten.bitwise_xor.Tensor",
    "torch.aten.__lshift__.Tensor": "aten.bitwise_left_shift.Tensor",
    "torch.aten.__rshift__.Tensor": "aten.bitwise_right_shift.Tensor",
}
# By numbers of PyTorch: what is made of the divergences of all elements.
_REDUCTIONS: dict[float | None, str] = {0: "", 1: "aten.mean", 2: "aten.sum"}
_INTEGERS = ("ui8", "si8", "si16", "si32", "si64")
# And alike for a tensor and a number.
_OF_NUMBERS = {
    "torch.aten.__or__.Scalar": "aten.bitwise_or.Tensor",
    "torch.aten.__xor__.Scalar": "aten.bitwise_xor.Tensor",
}


class KnownOps(OpPass):
    """Makes each `torch.aten.__and__.Tensor` a `torch.aten.bitwise_and.Tensor`, which it is, and
    alike of `^`, `<<`, `>>`, `rsub`, of `|` and `^` with a number, and of what
    `run_decompositions()` of PyTorch makes: squeezes of several dims, norms of batches, samples of
    grids. An instance norm without weights is a group norm, of a group for each channel. Integers
    to the power of a known one, from 1 to 64, are products. Means and maxima of windows of one
    image are those of a batch of one. Divergences have no logarithm of shares that are 0. Means of
    integers by index are rounded down.

    Of what stands before, IREE 3.13's import says that it cannot legalize what the op reads, or it
    has no such op; divergences of such shares are NaN. Works on the torch dialect, before IREE
    imports it. Dims that are squeezed have a known size.
    """

    name = "attn-known-ops"
    summary = "PyTorch's `&`, `^`, `<<`, powers, squeezes and norms in ops that the import knows"
    ops = (_AND, _POWER, _UNKNOWN, _INSTANCE_NORM, _DIVERGENCE, _SCATTER, *_WINDOWS)
    phase = "start"
    mends = (
        "`a & b`, `a ^ b` and `a << b` of two tensors of PyTorch, squeezes of several dims and "
        "decomposed norms do not compile; divergences of shares of 0 are NaN"
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
        elif name in _OF_NUMBERS:
            x, number = op.operands
            made = build.op(_OF_NUMBERS[name], op.results[0].type, x, _tensor(build, number, x))
        else:
            made = _OTHERS[name](build, op) if name in _OTHERS else None
        if made is not None:
            op.results[0].replace_all_uses_with(made)
        return "is an op that IREE's import knows" if made is not None else ""


def _tensor(build: TorchBuilder, number: ir.Value, like: ir.Value) -> ir.Value:
    """A number as a tensor without dims, of the other's type."""
    made = build.op("prim.NumToTensor.Scalar", torch_tensor([], "si64"), number)
    element = torch_element(like.type)
    return made if element == "si64" else build.in_type(made, element)


def _power(build: TorchBuilder, op: ir.Operation) -> ir.Value | None:
    x, factors = op.operands[0], constant_number(op.operands[1])
    kind = op.results[0].type
    is_whole = isinstance(factors, int) and 0 < factors <= _MOST_FACTORS
    if not is_whole or torch_element(kind) not in _INTEGERS or kind != x.type:
        return None
    made = None
    while factors:
        if factors % 2:
            made = x if made is None else build.op("aten.mul.Tensor", kind, made, x)
        factors //= 2
        if factors:
            x = build.op("aten.mul.Tensor", kind, x, x)
    return made


def _windows(build: TorchBuilder, op: ir.Operation) -> ir.Value | None:
    x, kind = op.operands[0], op.results[0].type
    if len(torch_shape(x.type)) >= _WINDOWS[op.name]:
        return None
    batch = torch_tensor([1, *torch_shape(kind)], torch_element(kind))
    name = op.name.removeprefix("torch.").removesuffix("_with_indices")
    made = build.op(name, batch, build.unsqueezed(x, 0), *list(op.operands)[1:])
    return build.squeezed(made, 0)


def _divergence(build: TorchBuilder, op: ir.Operation) -> ir.Value | None:
    x, shares, reduction, is_log = op.operands
    kind, result = shares.type, op.results[0].type
    way = _REDUCTIONS.get(constant_number(reduction))
    if constant_truth(is_log) is not False or x.type != kind or way is None:
        return None
    is_none = build.op("aten.eq.Scalar", with_torch_element(kind, "i1"), shares, build.number(0))
    others = build.op("aten.where.ScalarSelf", kind, is_none, build.real(1.0), shares)
    logarithm = build.op("aten.log", kind, others)
    behind = build.op("aten.sub.Tensor", kind, logarithm, x, build.number(1))
    each = build.op("aten.mul.Tensor", kind, shares, behind)
    none = build.none()
    return build.op(way, result, each, none) if way else each


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
            value = build.squeezed(value, place)
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


def _whole_means(build: TorchBuilder, op: ir.Operation) -> ir.Value | None:
    """Means by index of integers, which the import rounds towards 0: of a sum and a count, rounded
    down."""
    x, dim, index, new, how, own = op.operands
    kind, said = x.type, defining_op(how)
    word = None if said is None else known_attribute(said, "value")
    if torch_element(kind) not in _INTEGERS or word is None or ir.StringAttr(word).value != "mean":
        return None
    sums, down = (build.word(name) for name in ("sum", "floor"))
    none = build.none()

    def summed(into: ir.Value, rows: ir.Value) -> ir.Value:
        return build.op("aten.scatter_reduce.two", kind, into, dim, index, rows, sums, own)

    x_ones, new_ones = (build.op("aten.ones_like", y.type, y, *[none] * 5) for y in (x, new))
    return build.op("aten.div.Tensor_mode", kind, summed(x, new), summed(x_ones, new_ones), down)


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
    _POWER: _power,
    _DIVERGENCE: _divergence,
    _SCATTER: _whole_means,
    **dict.fromkeys(_WINDOWS, _windows),
}
