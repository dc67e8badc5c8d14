"""attn-join-reshapes: ONNX's reshapes to `[-1, n]` join dims known only at run time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from ..ir import copied_attributes, known_attribute
from ..ir.onnx_ops import OnnxBuilder, is_onnx, onnx_numbers
from ..ir.printed import torch_shape
from ..passes import OpPass

_ALLOW_ZERO = "torch.onnx.allowzero"


class JoinReshapes(OpPass):
    """Makes a reshape of ONNX whose constant shape has a -1 for several dims known only at run
    time two reshapes, each of which IREE reads right.

    IREE 3.13 pairs the dims of the tensor with those of the shape: of `[?, ?, 4, 8]` as `[-1, 32]`
    (heads joined in front of a Gemm) it takes the second for 1, and computes of the first batch.

    1. Known dims behind the unknown ones that hold as much as those of the shape are joined first:
       `[?, ?, 32]`.
    2. Else all dims behind those that are copied (0) become one first.

    Works on ONNX's ops, before IREE imports them.
    """

    name = "attn-join-reshapes"
    summary = "ONNX's reshapes to `[-1, n]` join dims of unknown sizes"
    phase = "start"
    mends = "reshapes of ONNX that join dims of unknown sizes drop all but one"

    def wanted(self, op: ir.Operation) -> bool:
        return is_onnx(op, "Reshape") and bool(_first_shape(op))

    def change(self, op: ir.Operation) -> str:
        source, numbers = op.operands[0], _first_shape(op)
        build = OnnxBuilder(op)
        known = torch_shape(source.type)
        sizes = [
            known[place] if number == 0 else None if number < 0 else number
            for place, number in enumerate(numbers)
        ]
        more = copied_attributes(op, "name", _ALLOW_ZERO)
        between = build.onnx("Reshape", [source, build.onnx_constant(numbers)], sizes, more)
        op.operands[0] = between
        return "is two reshapes: IREE's import pairs unknown dims with others"


def _first_shape(op: ir.Operation) -> list[int]:
    """The shape that comes between, as ONNX writes it (0: the dim as it is); empty for reshapes
    that IREE reads right."""
    sizes, numbers = torch_shape(op.operands[0].type), onnx_numbers(op.operands[1])
    if not numbers or not sizes or (0 in numbers and _takes_zeros(op)):
        return []
    copied = next((place for place, number in enumerate(numbers) if number), len(numbers))
    source, result = sizes[copied:], numbers[copied:]
    if source.count(None) < 2 or result.count(-1) != 1 or 0 in result:
        return []
    while source and result and source[-1] == result[-1]:
        source, result = source[:-1], result[:-1]
    have, want = _known_behind(source), _known_behind([None if n < 0 else n for n in result])
    is_alike = result[0] == -1 and math.prod(have) == math.prod(want)
    if len(result) == 1 or (is_alike and len(have) == 1):
        return []
    behind = sizes[copied + len(source) :]
    if is_alike and None not in behind:
        return [0] * (copied + len(source) - len(have)) + [math.prod(have), *map(int, behind)]  # pyright: ignore[reportArgumentType]
    return [0] * copied + [-1]


def _takes_zeros(op: ir.Operation) -> bool:
    """Whether a 0 in the shape is a size."""
    given = known_attribute(op, _ALLOW_ZERO)
    return given is not None and ir.IntegerAttr(given).value == 1


def _known_behind(sizes: Sequence[int | None]) -> list[int]:
    """The last dims, as far as they are known."""
    known: list[int] = []
    for size in reversed(sizes):
        if size is None:
            break
        known.insert(0, size)
    return known
