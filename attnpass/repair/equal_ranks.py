"""attn-equal-ranks: the operands of PyTorch's attention have dims in front of the same sizes."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..ir.printed import torch_element, torch_shape, torch_tensor
from ..ir.torch_ops import TorchBuilder, constant_truth
from ..passes import OpPass

_ATTENTION = "torch.aten.scaled_dot_product_attention"
_MASK, _GROUPS = 3, 7


class EqualRanks(OpPass):
    """Gives the operands of `torch.aten.scaled_dot_product_attention` all dims of the longest.

    IREE 3.13's import fails on masks [rows, keys] of queries [batch, heads, rows, head dim], on
    operands without a batch, and on batches that one operand has once and another more often: torch
    broadcasts all of them.

    1. Dims of size 1 are put in front, of masks too; there is a batch, which the result drops.
    2. A dim in front that Q, K or V has once is repeated where another has it more often; not that
       of heads, where queries are grouped.

    Works on the torch dialect, before IREE imports it.
    """

    name = "attn-equal-ranks"
    summary = "PyTorch's attention, all operands with the same dims in front"
    ops = (_ATTENTION,)
    phase = "start"
    mends = (
        "attention of PyTorch whose mask is [rows, keys], or that has no batch, does not compile"
    )

    erases = True

    def change(self, op: ir.Operation) -> str:
        given = list(op.operands)
        if not all(torch_element(value.type) for value in (*given[:_MASK], *op.results)):
            # Of no known rank.
            return ""
        tensors = [place for place in range(4) if torch_element(given[place].type)]
        rank = max(3, *(len(torch_shape(given[place].type)) for place in range(3)))
        build, made = TorchBuilder(op), list(given)
        for place in tensors:
            missing = rank - len(torch_shape(given[place].type))
            made[place] = build.with_units(given[place], missing, 0)
        shared = rank - 2 - (constant_truth(given[_GROUPS]) is not False)
        made[:_MASK] = _repeated(build, made[:_MASK], shared)
        if made == given:
            return ""
        (result,) = op.results
        shape, missing = torch_shape(result.type), rank - len(torch_shape(result.type))
        kind = torch_tensor([*[1] * missing, *shape], torch_element(result.type))
        value = build.create(_ATTENTION, [kind], made).results[0]
        for _ in range(missing):
            value = build.squeezed(value, 0)
        result.replace_all_uses_with(value)
        return "operands have the same dims in front, which IREE's import asks for"


def _repeated(build: TorchBuilder, operands: Sequence[ir.Value], count: int) -> list[ir.Value]:
    """The operands, each of whose first `count` dims is as large as it is in any of them."""
    made = list(operands)
    for dim in range(count):
        larger = next((each for each in made if torch_shape(each.type)[dim] != 1), None)
        for place, operand in enumerate(made):
            shape = torch_shape(operand.type)
            if larger is None or shape[dim] != 1:
                continue
            sizes = [build.number(-1)] * len(shape)
            sizes[dim] = build.size_of(larger, dim)
            shape[dim] = torch_shape(larger.type)[dim]
            kind = torch_tensor(shape, torch_element(operand.type))
            made[place] = build.expanded(operand, sizes, kind)
    return made
