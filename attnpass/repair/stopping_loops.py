"""attn-stopping-loops: loops of ONNX that may end before their number of steps do."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import collect, defining_op, terminator
from ..ir.onnx_ops import OnnxBuilder, is_onnx
from ..ir.regions import move_ops
from ..ir.rewrite import erase
from ..passes import OpPass

# As many steps as its condition allows.
_MOST = 2**63 - 1
_LOOP = "torch.prim.Loop"


class StoppingLoops(OpPass):
    """Makes ONNX's loops that have a condition torch's, which carry a count of their steps.

    IREE 3.13 takes a loop whose condition is known to hold at the start for one of all its steps.
    Others it imports only if they may go on for ever and do not ask which step it is, as it always
    does for ONNX's. Works on ONNX's ops, before IREE imports them.
    """

    name = "attn-stopping-loops"
    summary = "ONNX's loops stop"
    phase = "start"
    mends = "loops of ONNX ignore their conditions"

    kind, erases = "loop", True

    def wanted(self, op: ir.Operation) -> bool:
        # A loop of ONNX imports no loop of torch.
        return is_onnx(op, "Loop") and bool(collect(op, _may_stop))

    def change(self, op: ir.Operation) -> str:
        build, (most, go, *carried) = OnnxBuilder(op), op.operands
        zero = build.onnx_whole(0)
        is_first = build.onnx("Less", [zero, most], [], element="i1")
        start = _truth(build, _hidden(build, build.onnx("And", [go, is_first], [])))
        whole = _torch(op, "int")
        forever = build.create("torch.constant.int", [whole], [], {"value": _most(op)}).results[0]
        types = [*(result.type for result in op.results), zero.type]
        new = build.create(_LOOP, types, [forever, start, *carried, zero], regions=1)
        old, kinds = op.regions[0].blocks[0], [whole, *types]
        block = new.regions[0].blocks.append(*kinds, arg_locs=[op.location] * len(kinds))
        _, *own, count = block.arguments
        step, still, *given = old.arguments
        # It goes on only where this held.
        held = OnnxBuilder(old.operations[0].operation).onnx_whole(True)
        for argument, ours in zip([step, still, *given], [count, held, *own], strict=True):
            argument.replace_all_uses_with(ours)
        move_ops(old, block)
        end = terminator(block)
        inner, (more, *results) = OnnxBuilder(end), end.operands
        after = inner.onnx("Add", [count, inner.onnx_whole(1)], [])
        is_left = inner.onnx("Less", [after, most], [], element="i1")
        again = _truth(inner, inner.onnx("And", [more, is_left], []))
        inner.create(f"{_LOOP}.condition", [], [again, *results, after])
        erase(end)
        for result, ours in zip(op.results, new.results, strict=False):
            result.replace_all_uses_with(ours)
        return "its condition counts its steps: IREE 3.13 ends no loop that begins by a condition"


def _may_stop(op: ir.Operation) -> bool:
    """Whether an op is a loop that computes whether it goes on."""
    if not is_onnx(op, "Loop") or len(op.operands) < 2:
        return False
    block = op.regions[0].blocks[0]
    next_go, old_go = terminator(block).operands[0], block.arguments[1]
    made = defining_op(next_go)
    is_same = made is not None and is_onnx(made, "Identity") and made.operands[0] == old_go
    return next_go != old_go and not is_same


def _most(op: ir.Operation) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, op.context), _MOST)


def _torch(op: ir.Operation, name: str) -> ir.Type:
    return ir.Type.parse(f"!torch.{name}", op.context)


def _truth(build: OnnxBuilder, truth: ir.Value) -> ir.Value:
    """A truth value as torch's loops take it."""
    kind = _torch(build.anchor, "bool")
    return build.create("torch.aten.Bool.Tensor", [kind], [truth]).results[0]


def _hidden(build: OnnxBuilder, truth: ir.Value) -> ir.Value:
    """A truth value of which IREE does not know what it is."""
    i1 = ir.IntegerType.get_signless(1, build.anchor.context)
    kind = ir.RankedTensorType.get([], i1, loc=build.anchor.location)
    plain = build.create("torch_c.to_builtin_tensor", [kind], [truth]).results[0]
    own = build.barred(plain)
    return build.create("torch_c.from_builtin_tensor", [truth.type], [own]).results[0]
