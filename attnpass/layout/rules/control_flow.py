"""CarriedValues of control flow: what branches yield and what loops carry."""

from __future__ import annotations

from iree.compiler import ir

from ...ir import defining_op, is_scalar, terminator
from . import Refusal
from .carried_values import CarriedValue, owner_of
from .symbols import Symbols


def branch_result(value: ir.Value, symbols: Symbols) -> CarriedValue:
    """`scf.if` and other ops that run one of their regions: fed by every region's yield."""
    op, number = owner_of(value), _result_number(value)
    ends = [terminator(block) for region in op.regions for block in region]
    return CarriedValue((value,), tuple((end, number) for end in ends if end.name == "scf.yield"))


def for_result(value: ir.Value, symbols: Symbols) -> CarriedValue:
    """A result of `scf.for`, with the value that the loop carries for it."""
    return _carried(owner_of(value), _result_number(value))


def for_argument(value: ir.Value, symbols: Symbols) -> CarriedValue:
    """A value that `scf.for` carries; the argument before them is the loop's counter."""
    return _carried(owner_of(value), ir.BlockArgument(value).arg_number - 1)


def _carried(op: ir.Operation, number: int) -> CarriedValue:
    body = op.regions[0].blocks[0]
    # In front of the starts stand the lower bound, the upper bound and the step. What the
    # body yields is required: a copy would be made at every step.
    sources = ((op, 3 + number), (_terminator(op.regions[0]), number))
    return CarriedValue((op.results[number], body.arguments[1 + number]), sources, frozenset((1,)))


def while_result(value: ir.Value, symbols: Symbols) -> CarriedValue:
    """What the condition of `scf.while` hands to the body and, at the end, to the results."""
    return _handed_on(owner_of(value), _result_number(value))


def while_argument(value: ir.Value, symbols: Symbols) -> CarriedValue:
    """An argument of either region of `scf.while`: the condition's are fed by the starts and
    the body's yield."""
    op, argument = owner_of(value), ir.BlockArgument(value)
    number = argument.arg_number
    if argument.owner != op.regions[0].blocks[0]:
        return _handed_on(op, number)
    return CarriedValue(
        (value,), ((op, number), (_terminator(op.regions[1]), number)), frozenset((1,))
    )


def _handed_on(op: ir.Operation, number: int) -> CarriedValue:
    aliases = (op.results[number], op.regions[1].blocks[0].arguments[number])
    # The first operand of scf.condition is the condition.
    return CarriedValue(aliases, ((_terminator(op.regions[0]), 1 + number),), frozenset((0,)))


def block_argument(value: ir.Value) -> CarriedValue | Refusal:
    """An argument of a block that is no entry: fed by the branches to it."""
    argument = ir.BlockArgument(value)
    block, sources = argument.owner, []
    for before in block.predecessors:
        branch = terminator(before)
        for number, successor in enumerate(branch.successors):
            if successor == block:
                found = _branch_operand(branch, number, argument.arg_number)
                if found is None:
                    return Refusal("it is an argument of a block that this op branches to", branch)
                sources.append((branch, found))
    return CarriedValue((value,), tuple(dict.fromkeys(sources)))


def _branch_operand(branch: ir.Operation, successor: int, number: int) -> int | None:
    """The operand that a branch passes to argument `number` of a successor."""
    if branch.name == "cf.br":
        return number
    if branch.name != "cf.cond_br":
        return None
    segments = list(branch.attributes["operandSegmentSizes"])
    return sum(segments[: 1 + successor]) + number


def selected(value: ir.Value, symbols: Symbols) -> CarriedValue | Refusal:
    """`arith.select` of whole tensors, which a branch without work of its own becomes."""
    op = owner_of(value)
    if not is_scalar(op.operands[0]):
        return Refusal("it selects element by element", op)
    return CarriedValue((value,), ((op, 1), (op, 2)))


def passed_on(value: ir.Value, symbols: Symbols) -> CarriedValue:
    """`hal.tensor.barrier`: result i is operand i, and only the time is another."""
    return CarriedValue((value,), ((owner_of(value), _result_number(value)),))


def _terminator(region: ir.Region) -> ir.Operation:
    return terminator(region.blocks[0])


def _result_number(value: ir.Value) -> int:
    op = defining_op(value)
    assert op is not None
    return list(op.results).index(value)
