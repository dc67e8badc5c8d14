"""attn-flex-masks: FlexAttention hides keys behind its score function, as PyTorch does."""

from __future__ import annotations

import math

from iree.compiler import ir

from ..ir import (
    body_names,
    body_ops,
    collect,
    printed,
    remove_attributes,
    symbol_name,
    terminator,
)
from ..ir.torch_ops import TorchBuilder
from ..passes import Pass, PassContext

_FLEX = "torch.hop_flex_attention"
_SCORE, _MASK = "score_mod_fn", "mask_mod_fn"


class FlexMasks(Pass):
    """Makes the mask function of a `torch.hop_flex_attention` the last step of its score function.

    IREE 3.13 imports an op with both so that the mask comes first: a soft-cap then gives hidden
    keys the score -cap. PyTorch hides them behind the score function. Works on the torch dialect,
    before IREE imports it, on functions of one block that no op with another mask shares.
    """

    name = "attn-flex-masks"
    summary = "FlexAttention's masks hide keys behind its score function"
    phase = "start"
    mends = "keys that FlexAttention hides get the score that its score function makes of -inf"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        flex = collect(module, lambda op: op.name == _FLEX)
        pairs = _pairs(flex)
        done = {score for score, mask in pairs.items() if mask and _join(module, score, mask)}
        for op in flex:
            if _name(op, _SCORE) in done:
                remove_attributes(op, _MASK)
                why = "its mask hides keys behind its score function"
                context.report.record(op, "repaired", why, kind=_FLEX)
        return bool(done)


def names_functions(module: ir.Operation) -> bool:
    """Whether a FlexAttention of the module names a function of it, for its scores or its mask."""
    # Most programs are one function before they are imported: these need no walk.
    if body_names(module).count("func.func") < 2:
        return False
    flex = collect(module, lambda op: op.name == _FLEX)
    return any(_name(op, _SCORE) or _name(op, _MASK) for op in flex)


def _pairs(ops: list[ir.Operation]) -> dict[str, str]:
    """The mask function that goes with each score function; '' where there are several or
    none."""
    found: dict[str, str] = {}
    for op in ops:
        score, mask = _name(op, _SCORE), _name(op, _MASK)
        if score:
            found[score] = mask if found.setdefault(score, mask) == mask else ""
    return found


def _name(op: ir.Operation, attribute: str) -> str:
    return str(op.attributes[attribute]) if attribute in op.attributes else ""


def _join(module: ir.Operation, score: str, mask: str) -> bool:
    """Appends the mask function to the score function; whether that could be done."""
    own, other = (_only_block(module, name) for name in (score, mask))
    # The score, then the numbers of batch, head, row and key, which masks have alone.
    if own is None or other is None or (len(own.arguments), len(other.arguments)) != (5, 4):
        return False
    *steps, last = [inner.operation for inner in other.operations]
    if any(len(step.regions) for step in steps):
        return False
    end = terminator(own)
    build, made = TorchBuilder(end), end.operands[0]
    # No score function: the import makes the mask all there is, and fails on more.
    if made == own.arguments[0]:
        return False
    if printed.torch_element(made.type) != "f32" or printed.torch_shape(made.type):
        return False
    values = dict(zip(other.arguments, list(own.arguments)[1:], strict=True))
    for step in steps:
        copy = build.copy(step, [values.get(operand, operand) for operand in step.operands])
        values.update(zip(step.results, copy.results, strict=True))
    seen = last.operands[0]
    operands = values.get(seen, seen), made, build.real(-math.inf)
    end.operands[0] = build.op("aten.where.ScalarOther", made.type, *operands)
    return True


def _only_block(module: ir.Operation, name: str) -> ir.Block | None:
    """The block of the private function `@name`, if it has just one."""
    for op in body_ops(module):
        if "sym_name" in op.attributes and f"@{symbol_name(op)}" == name:
            blocks = list(op.regions[0].blocks)
            return blocks[0] if len(blocks) == 1 else None
    return None
