"""Lets a tile of attention sum up where its result goes, instead of on the stack.

IREE starts the sums in an empty tensor, and divides them into the tile of the result. Where
division and result are f32 and lie alike, the sums start in the tile itself.
"""

from __future__ import annotations

from iree.compiler import ir

from ..ir import (
    body_of,
    defining_op,
    has_one_use,
    is_used,
    reduces,
)


def sum_in_place(attention: ir.Operation) -> None:
    """Gives the sums of an `online_attention` their division's place, where that can be."""
    result = attention.results[0]
    fill = defining_op(attention.operands[len(attention.operands) - len(attention.results)])
    if fill is None or fill.name != "linalg.fill" or not has_one_use(fill.results[0]):
        return
    division = _division(result)
    if division is None:
        return
    place = defining_op(division.operands[len(division.operands) - 1])
    if place is None or place.name != "tensor.extract_slice" or not _may_move(place, fill):
        return
    place.move_before(fill)
    fill.operands[1] = place.results[0]
    division.operands[len(division.operands) - 1] = result
    # What is read is what is written, too: steps of the division need no copy.
    arguments = body_of(division).arguments
    read = next(number for number, value in enumerate(division.operands) if value == result)
    arguments[read].replace_all_uses_with(arguments[len(arguments) - 1])


def _division(value: ir.Value) -> ir.Operation | None:
    """The one user of `value`, if it makes a tensor of its type element by element."""
    if not has_one_use(value):
        return None
    use = next(iter(value.uses))
    op = use.owner.operation
    if op.name != "linalg.generic" or len(op.results) != 1 or op.results[0].type != value.type:
        return None
    orders = ir.ArrayAttr(op.attributes["indexing_maps"])
    if is_used(body_of(op).arguments[len(op.operands) - 1]):
        return None
    same = orders[use.operand_number] == orders[len(op.operands) - 1]
    return op if same and not reduces(op) else None


def _may_move(op: ir.Operation, anchor: ir.Operation) -> bool:
    """Whether all that `op` reads is there in front of `anchor`, in the same block."""
    if op.block != anchor.block:
        return False
    sources = [defining_op(operand) for operand in op.operands]
    return all(
        source is None or source.block != op.block or source.is_before_in_block(anchor)
        for source in sources
    )
