"""attn-match-reshapes: reshapes to sizes that are computed, by dims where these match."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from ..ir import (
    Builder,
    DynamicSize,
    Size,
    SizeProduct,
    defining_op,
    index_size,
    is_ranked_tensor,
    next_op,
    product,
    ranked_shape,
    sizes_of,
    whole_number,
)
from ..passes import OpPass

_DIVISIONS = ("arith.divui", "arith.divsi", "arith.floordivsi")
# Ops that take sizes of tensors, or hand them on.
_SIZED = ("tensor.empty", "tensor.extract_slice", "tensor.expand_shape", "arith.index_cast")
# Groups of dims of the source and of the result that hold the same elements.
Groups = tuple[list[list[int]], list[list[int]]]


class MatchReshapes(OpPass):
    """Writes a `tensor.reshape` as a `tensor.collapse_shape` and a `tensor.expand_shape` where the
    sizes say which dims are whose, for CUDA.

    PyTorch's `view(1, rows, -1, 128)` with unknown rows is imported with the -1 computed from the
    number of elements. IREE 3.13 fuses nothing across such a reshape, and no rule of ours reads
    through it. A reshape keeps that number, so that one unknown size is the other where all others
    are equal.
    """

    name = "attn-match-reshapes"
    summary = "NVIDIA GPUs: reshapes with computed sizes cut and join dims"
    why = "IREE fuses nothing across reshapes to computed sizes"
    ops = ("tensor.reshape",)
    backends = ("cuda",)

    what = "fitted"

    def change(self, op: ir.Operation) -> str:
        return "its sizes say which dims it cuts and joins" if _match(op) else ""


def _match(op: ir.Operation) -> bool:
    """Has the users of a reshape read joined and cut dims; returns whether they match."""
    source, result = op.operands[0], op.results[0]
    if not (is_ranked_tensor(source) and is_ranked_tensor(result)):
        return False
    before, after = ([_computed(size) for size in sizes_of(one)] for one in (source, result))
    left, right = _without_equal(before, after), _without_equal(after, before)
    numbers = [_known(sizes) for sizes in (ranked_shape(source), ranked_shape(result))]
    same = len(left) == len(right) == 1 and numbers[0] == numbers[1] != 0
    if same:
        after[after.index(right[0])] = left[0]
    found = _groups(before, after)
    if found is None:
        return False
    build = Builder(op)
    whole = build.collapse(source, found[0])
    result.replace_all_uses_with(build.expand(whole, found[1], after))
    if same:
        _say_once(left[0], right[0])
    return True


def _computed(size: Size) -> Size:
    """A size as a product, where arithmetic makes it of others: heads joined with an unknown batch,
    or what is left of all elements once others are divided out."""
    if not isinstance(size, DynamicSize):
        return size
    value, op = size.value, defining_op(size.value)
    if size.dim is not None and op is not None and op.name == "tensor.reshape":
        shape = defining_op(op.operands[1], "tensor.from_elements")
        if shape is None:
            return size
        value = shape.operands[size.dim]
    elif size.dim is not None:
        return size
    return _product(value) or size


def _product(value: ir.Value) -> Size | None:
    """What a whole number is the product of; None if only its value says that."""
    number, op = whole_number(value), defining_op(value)
    if number is not None:
        return number if number > 0 else None
    if op is not None and op.name == "arith.index_cast":
        return _product(op.operands[0])
    if op is not None and op.name in ("arith.muli", *_DIVISIONS):
        parts = [_product(operand) for operand in op.operands]
        if None not in parts:
            first, second = (part for part in parts if part is not None)
            return product([first, second]) if op.name == "arith.muli" else _quotient(first, second)
    return index_size(value) if isinstance(value.type, ir.IndexType) else None


def _quotient(size: Size, by: Size) -> Size | None:
    """`size` / `by`, if all that `by` is a product of is in `size`."""
    number, factors = _factors([size], [0])
    divisor, others = _factors([by], [0])
    for factor in others:
        if factor not in factors:
            return None
        factors.remove(factor)
    return None if number % divisor else product([number // divisor, *factors])


def _say_once(one: Size, other: Size) -> None:
    """Has tensors of either of two equal sizes the one that is known first: IREE fuses loops of
    one size, and reads of as many elements as it writes need no mask."""
    if not (isinstance(one, DynamicSize) and isinstance(other, DynamicSize)):
        return
    makers = [defining_op(one.value), defining_op(other.value)]
    if makers[0] is None or makers[1] is None or makers[0].block != makers[1].block:
        return
    first, second = (one, other) if makers[0].is_before_in_block(makers[1]) else (other, one)
    if second.dim is not None or first.value == second.value:
        return
    maker = defining_op(first.value)
    assert maker is not None
    number = Builder(next_op(maker)).size(first)
    for use in list(second.value.uses):
        if use.owner.operation.name in _SIZED:
            use.owner.operation.operands[use.operand_number] = number


def _without_equal(sizes: Sequence[Size], others: Sequence[Size]) -> list[Size]:
    """The unknown sizes that no other is equal to."""
    left = list(others)
    found: list[Size] = []
    for size in (size for size in sizes if not isinstance(size, int)):
        if size in left:
            left.remove(size)
        else:
            found.append(size)
    return found


def _known(shape: Sequence[int | None]) -> int:
    """The product of the known sizes."""
    return math.prod(1 if size is None else size for size in shape)


def _groups(before: Sequence[Size], after: Sequence[Size]) -> Groups | None:
    """The shortest groups of dims of both that hold the same elements; None where sizes do not
    say it."""
    found: Groups = ([], [])
    left, right = list(range(len(before))), list(range(len(after)))
    while left and right:
        one, other = [left.pop(0)], [right.pop(0)]
        while (ones := _factors(before, one)) != (others := _factors(after, other)):
            behind = left if _less(ones, others) else right
            if not behind:
                return None
            (one if behind is left else other).append(behind.pop(0))
        found[0].append(one)
        found[1].append(other)
    if not found[0] or any(before[dim] != 1 for dim in left) or any(after[d] != 1 for d in right):
        return None
    found[0][-1] += left
    found[1][-1] += right
    return found


def _less(ones: tuple[int, list[Size]], others: tuple[int, list[Size]]) -> bool:
    """Whether these factors want another dim, rather than those."""
    return (len(ones[1]), ones[0]) < (len(others[1]), others[0])


def _factors(sizes: Sequence[Size], dims: Sequence[int]) -> tuple[int, list[Size]]:
    """The product of known sizes and the unknown ones, of these dims."""
    whole = product([sizes[dim] for dim in dims])
    factors = whole.factors if isinstance(whole, SizeProduct) else (whole,)
    number = math.prod(factor for factor in factors if isinstance(factor, int))
    return number, sorted((s for s in factors if not isinstance(s, int)), key=hash)
