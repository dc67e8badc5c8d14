"""attn-loop-carried: the body of a `while` is handed as many values as its condition is, of like
types."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..ir import Builder, is_ranked_tensor, terminator
from ..ir.attributes import copied_attributes
from ..ir.regions import move_ops
from ..ir.rewrite import erase
from ..passes import OpPass

# A value that a condition is handed and one that it hands on, by their places; None where one of
# them is missing.
_Pair = tuple[int | None, int | None]


class LoopCarried(OpPass):
    """Rewrites an `scf.while` whose condition takes other values than its body: what only one of
    them takes, the other takes, too, and does not use.

    IREE 3.13 converts the arguments of the body as those of the condition, whatever they are: a
    loop that carries its condition, as each of PyTorch's does, has no program ("unresolved target
    materialization"), unless IREE finds something to move out of it, and so turns it round. A body
    that does not read a tensor that it is handed ends the same way, or crashes. Done once flow has
    folded such loops; what is added is read behind barriers, which keep it.
    """

    name = "attn-loop-carried"
    summary = "bodies of loops take what their conditions take"
    phase = "flow"
    mends = "loops that carry their condition, or what the body does not read, do not compile"

    kind, erases = "loop", True

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == "scf.while" and _kinds(op.operands) != _kinds(op.results)

    def change(self, op: ir.Operation) -> str:
        test, step = (region.blocks[0] for region in op.regions)
        pairs = _pairs(test, terminator(test))
        missing = [op.results[j].type for i, j in pairs if i is None and j is not None]
        if not all(_has_zero(kind) for kind in missing):
            return ""
        build = Builder(op)
        starts = [
            _zero(build, op.results[j].type) if i is None and j is not None else op.operands[i or 0]
            for i, j in pairs
        ]
        types = [
            op.results[j].type if j is not None else op.operands[i or 0].type for i, j in pairs
        ]
        new = build.create(op.name, types, starts, copied_attributes(op), regions=2)
        _fill_test(new, test, pairs)
        _fill_step(new, step, pairs)
        for number, (_, j) in enumerate(pairs):
            if j is not None:
                op.results[j].replace_all_uses_with(new.results[number])
        return "its condition and its body take like values: IREE 3.13 takes them for the same"


def _kinds(values: Sequence[ir.Value]) -> list[ir.Type | str]:
    """What IREE tells the types of values by: all tensors are alike."""
    return ["tensor" if is_ranked_tensor(value) else value.type for value in values]


def _pairs(test: ir.Block, end: ir.Operation) -> list[_Pair]:
    """What the condition takes with what it hands on of the same kind, the same value where that
    is handed on; then what only it hands on."""
    taken, given = list(test.arguments), list(end.operands)[1:]
    kinds, left = _kinds(given), dict.fromkeys(range(len(given)))
    found: dict[int, int] = {}
    for is_same in (True, False):
        for i, (value, kind) in enumerate(zip(taken, _kinds(taken), strict=True)):
            fits = [j for j in left if kinds[j] == kind and (given[j] == value or not is_same)]
            if i not in found and fits:
                found[i] = fits[0]
                del left[fits[0]]
    return [*((i, found.get(i)) for i in range(len(taken))), *((None, j) for j in left)]


def _fill_test(new: ir.Operation, test: ir.Block, pairs: Sequence[_Pair]) -> None:
    """Moves the condition of a loop into a new one."""
    types = [value.type for value in new.operands]
    block = new.regions[0].blocks.append(*types, arg_locs=[new.location] * len(types))
    for (i, _), argument in zip(pairs, block.arguments, strict=True):
        if i is not None:
            test.arguments[i].replace_all_uses_with(argument)
    move_ops(test, block)
    end = terminator(block)
    build, (condition, *given) = Builder(end), list(end.operands)
    handed = []
    for (i, j), argument in zip(pairs, block.arguments, strict=True):
        own = None if i is not None and j is not None else build.barred(argument)
        handed.append(given[j] if j is not None else own)
    build.create(end.name, [], [condition, *handed], copied_attributes(end))
    erase(end)


def _fill_step(new: ir.Operation, step: ir.Block, pairs: Sequence[_Pair]) -> None:
    """Moves the body of a loop into a new one."""
    types = [value.type for value in new.results]
    block = new.regions[1].blocks.append(*types, arg_locs=[new.location] * len(types))
    for (_, j), argument in zip(pairs, block.arguments, strict=True):
        if j is not None:
            step.arguments[j].replace_all_uses_with(argument)
    move_ops(step, block)
    end = terminator(block)
    build, given = Builder(end), list(end.operands)
    for (_, j), argument in zip(pairs, block.arguments, strict=True):
        if j is None:
            build.barred(argument)
    values = [
        given[i] if i is not None else argument
        for (i, _), argument in zip(pairs, block.arguments, strict=True)
    ]
    build.create(end.name, [], values)
    erase(end)


def _has_zero(kind: ir.Type) -> bool:
    numbers = ir.IntegerType | ir.IndexType | ir.FloatType
    return isinstance(kind, ir.RankedTensorType | numbers)


def _zero(build: Builder, kind: ir.Type) -> ir.Value:
    """What the condition takes the first time, and does not use."""
    if not isinstance(kind, ir.RankedTensorType):
        return build.constant_number(0, kind)
    unknown = [size for dim, size in enumerate(kind.shape) if kind.is_dynamic_dim(dim)]
    return build.create(
        "flow.tensor.empty", [kind], [build.constant_index(1) for _ in unknown]
    ).results[0]
