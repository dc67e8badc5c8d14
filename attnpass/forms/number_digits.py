"""Loops over one dim whose bodies take the number of an element apart, as IREE's import from torch
makes the elements of a scatter: digits of it are the places that they read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    DynamicSize,
    Size,
    SizeProduct,
    defining_op,
    index_ops,
    maps,
    product,
    sizes_of,
    users,
)
from ..ir.bodies import body_of, read_elementwise, whole_number
from ..ir.sizes import index_size

_QUOTIENTS, _RESTS = ("arith.divsi", "arith.divui"), ("arith.remsi", "arith.remui")


@dataclass(frozen=True)
class DigitRead:
    """What stands in each element: that of `tensor` at these digits of its number (None: at 0), or
    without one the only digit itself. Digits are of these sizes, the highest first."""

    tensor: ir.Value | None
    digits: tuple[int | None, ...]
    sizes: tuple[Size, ...]

    def shape(self) -> tuple[Size, ...]:
        """The sizes of what is read of the tensor."""
        return tuple(1 if digit is None else self.sizes[digit] for digit in self.digits)


def digit_read(value: ir.Value) -> DigitRead | None:
    """What a loop over all elements of a tensor has read, or counted, for each; None for others."""
    op = defining_op(value, "linalg.generic")
    if op is None or maps.loop_count(op) != 1:
        return None
    made, whole = read_elementwise(op, list(op.results).index(value)), sizes_of(value)[0]
    places = None if made is None else _places(op, whole)
    if made is None or places is None or _factors(product(places[1])) != _factors(whole):
        return None
    found, sizes = places
    scalar = _below_index_casts(made.scalar)
    if scalar in found:
        return DigitRead(None, (found[scalar],), sizes)
    read = defining_op(scalar, "tensor.extract")
    if read is None:
        return None
    tensor, *at = read.operands
    digits = tuple(found.get(place) for place in at)
    known = all(
        digit is not None or whole_number(place) == 0
        for digit, place in zip(digits, at, strict=True)
    )
    used = [digit for digit in digits if digit is not None]
    own = defining_op(tensor)
    if not known or len({*used}) < len(used) or (own is not None and own.block == body_of(op)):
        return None
    return DigitRead(tensor, digits, sizes)


def _factors(size: Size) -> Counter[Size]:
    """The sizes, none of them 1, of which a size is the product, numbers as one."""
    if isinstance(size, SizeProduct):
        parts = map(_factors, size.factors)
    elif isinstance(size, DynamicSize) and (op := defining_op(size.value)) is not None:
        if size.dim is not None or op.name != "arith.muli":
            return Counter([size])
        parts = (_factors(_size(operand)) for operand in op.operands)
    else:
        return Counter([size] if size != 1 else [])
    found = sum(parts, Counter[Size]())
    number = math.prod(factor for factor in found.elements() if isinstance(factor, int))
    unknown = [factor for factor in found.elements() if not isinstance(factor, int)]
    return Counter([*unknown, *([number] if number != 1 else [])])


def _below_index_casts(scalar: ir.Value) -> ir.Value:
    op = defining_op(scalar, "arith.index_cast")
    if op is not None:
        return op.operands[0]
    return scalar


def _places(op: ir.Operation, whole: Size) -> tuple[dict[ir.Value, int], tuple[Size, ...]] | None:
    """The digits of the number of an element, by the scalars that they are, and their sizes."""
    indices = index_ops(op)
    if len(indices) != 1:
        return None
    number, found = indices[0].results[0], list[tuple[Size, list[ir.Value]]]()
    while True:
        steps = users(number)
        quotients = [step for step in steps if _divides(step, number, _QUOTIENTS)]
        rests = [step for step in steps if _divides(step, number, _RESTS)]
        sizes = list(dict.fromkeys(_size(step.operands[1]) for step in (*quotients, *rests)))
        if len(sizes) > 1 or len(quotients) > 1 or (quotients and len(steps) > 1 + len(rests)):
            return None
        digits = [step.results[0] for step in rests]
        if quotients:
            found.append((sizes[0], digits))
            number = quotients[0].results[0]
            continue
        last = _last(whole, [size for size, _ in found]) if not sizes else sizes[0]
        if last is None or (rests and len(steps) > len(rests)):
            return None
        found.append((last, digits or [number]))
        break
    found.reverse()
    digits = {value: place for place, (_, values) in enumerate(found) for value in values}
    return digits, tuple(size for size, _ in found)


def _divides(step: ir.Operation, number: ir.Value, names: Sequence[str]) -> bool:
    return step.name in names and step.operands[0] == number


def _size(value: ir.Value) -> Size:
    number = whole_number(value)
    return index_size(value) if number is None else number


def _last(whole: Size, lower: Sequence[Size]) -> Size | None:
    """The size of the highest digit, of which no rest is taken."""
    if not lower:
        return whole
    for size in lower:
        if not isinstance(whole, int) or not isinstance(size, int) or whole % size:
            return None
        whole //= size
    return whole
