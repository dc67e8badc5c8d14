"""attn-wide-bytes: what PyTorch computes of bytes is computed in 32 bits."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import defining_op, next_op
from ..ir.printed import torch_element, with_torch_element
from ..ir.torch_ops import TorchBuilder, constant_number
from ..passes import OpPass

_ATEN = "torch.aten."
_WIDE = "si32"
_COMPARISONS = ("gt", "ge", "lt", "le", "eq", "ne")
_BOUNDS = ("clamp", "clamp_min", "clamp_max")
_QUOTIENTS = ("div", "floor_divide", "remainder", "fmod")
# Those of bytes are bytes, of other integers truths.
_TRUTHS = ("any", "all")
_SUMS = ("sum", "cumsum", "prod", "mean")
_CONVERSIONS = ("torch.aten.to.dtype", "torch.aten._to_copy", "torch.prims.convert_element_type")
_FLOATS = ("f16", "bf16", "f32", "f64")
# What asks for a sign, or has no program of bytes.
_COMPUTED = {
    *("add", "sub", "rsub", "mul", "pow", "square", "abs", "neg", "maximum", "minimum"),
    *("amax", "amin", "max", "min", "argmax", "argmin", "aminmax", "sort", "argsort", "topk"),
    *_TRUTHS,
    *("logical_not", "logical_and", "logical_or", "logical_xor"),
    *(*_COMPARISONS, *_BOUNDS, *_QUOTIENTS, *_SUMS),
}


class WideBytes(OpPass):
    """Has ops on unsigned bytes read 32 bits, and makes bytes of their results again; quotients of
    bytes with a sign, and what 8 and 16 bits are less than 0, too. Floats become integers of 8 and
    16 bits by way of 32. Integers that are bounded by floats become floats first.

    IREE 3.13 imports bytes as if they had a sign (of `x / 255` a half is below 0), or has no
    program of them; and it makes bytes of floats that no byte holds (`-x` by way of floats), which
    CPUs without AVX-512 take for the last byte. A number that bytes are divided by is a byte, too.
    What moves bytes, and what asks for no sign, stays. Works on the torch dialect, before IREE
    imports it; the door for PyTorch has done so.
    """

    name = "attn-wide-bytes"
    summary = "PyTorch's bytes are computed in 32 bits"
    phase = "start"
    mends = "unsigned bytes of PyTorch are computed as if they had a sign, or do not compile"

    def wanted(self, op: ir.Operation) -> bool:
        return _narrows_floats(op) or (_word(op) in _COMPUTED and bool(_narrow(op)))

    def change(self, op: ir.Operation) -> str:
        build, word = TorchBuilder(op), _word(op)
        if _narrows_floats(op):
            op.operands[0] = build.in_type(op.operands[0], _WIDE)
            return "becomes integers by way of 32 bits"
        kind = _narrow(op)
        for place, operand in enumerate(op.operands):
            element = torch_element(operand.type)
            if element == kind:
                op.operands[place] = build.in_type(operand, _wider(op, kind))
            elif kind == "ui8" and (word in (*_COMPARISONS, *_BOUNDS) or _is_whole_quotient(op)):
                number = constant_number(operand)
                if isinstance(number, int) and not 0 <= number < 256:
                    # PyTorch takes what bytes are compared with, or divided by, for a byte.
                    op.operands[place] = build.number(number % 256)
        _narrow_behind(op, kind, "i1" if word in _TRUTHS else _WIDE)
        return "computes with 32 bits"


def _narrow_behind(op: ir.Operation, kind: str, wide: str) -> None:
    """Has an op's results of type `kind` be of the wide one, and become those behind it."""
    behind = TorchBuilder(next_op(op))
    for result in op.results:
        if torch_element(result.type) == kind:
            result.set_type(with_torch_element(result.type, wide))
            narrow = behind.in_type(result, kind)
            result.replace_all_uses_except(narrow, defining_op(narrow))


def _word(op: ir.Operation) -> str:
    """`add` of `torch.aten.add.Tensor`; '' for an op that is none of aten's."""
    return op.name[len(_ATEN) :].partition(".")[0] if op.name.startswith(_ATEN) else ""


def _narrows_floats(op: ir.Operation) -> bool:
    """Whether it makes integers of less than 32 bits of floats."""
    return (
        op.name in _CONVERSIONS
        and torch_element(op.results[0].type) in ("ui8", "si8", "si16")
        and torch_element(op.operands[0].type) in _FLOATS
    )


def _is_whole_quotient(op: ir.Operation) -> bool:
    """Whether it is a quotient of bytes, or what one leaves, that is a byte."""
    return _word(op) in _QUOTIENTS and torch_element(op.results[0].type) == "ui8"


def _narrow(op: ir.Operation) -> str:
    """The element type of the operands that are to be wider; '' where there are none."""
    given = [torch_element(operand.type) for operand in op.operands]
    made = [torch_element(result.type) for result in op.results]
    if "ui8" in given:
        # Sums are told the type of their results.
        return "" if _word(op) in _SUMS and "ui8" in made else "ui8"
    if _word(op) in _QUOTIENTS and "si8" in given and made == ["si8"]:
        return "si8"
    if _word(op) == "neg" and made[0] in ("si8", "si16"):
        return made[0]
    is_cut = _word(op) in _BOUNDS and made[0] == "f32" and given[0] in ("si8", "si32", "si64")
    return given[0] if is_cut else ""


def _wider(op: ir.Operation, kind: str) -> str:
    made = torch_element(op.results[0].type)
    is_cut = _word(op) in _BOUNDS and made == "f32"
    return made if is_cut else _WIDE
