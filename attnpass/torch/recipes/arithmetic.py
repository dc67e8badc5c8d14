"""Arithmetic of elements: quotients, remainders, powers, signs, constants."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _with_tensor(op: Any) -> Any:
    def joined(x: Any, y: Any) -> Any:
        kind = torch.result_type(x, y)
        return op(x.to(kind), torch.full((), y, dtype=kind, device=x.device))

    return joined


def _of_one_shape(op: Any) -> Callable[..., Any]:
    """An op of three tensors, of which the import broadcasts the second two at most, and not to
    more dims."""

    def broadcast(*values: Any, **more: Any) -> Any:
        if len({value.shape for value in values}) == 1:
            return NotImplemented
        return op(*torch.broadcast_tensors(*values), **more)

    return broadcast


def _remainder_of_number(x: Any, y: Any) -> Any:
    kind = torch.result_type(x, y)
    return torch.remainder(torch.full((), x, dtype=kind, device=y.device), y)


def _fmod(x: Any, y: Any) -> Any:
    if not x.is_floating_point():
        return x - torch.div(x, y, rounding_mode="trunc") * y
    # Exact, as a quotient is not that is large, or none.
    rest = torch.remainder(x.abs(), abs(y))
    return torch.where(x < 0, -rest, rest)


def _floor_quotient(x: Any, y: Any, *, rounding_mode: str | None = "floor") -> Any:
    """The floor of a quotient that is not rounded, as Python's `//`: 1.0 // 0.1 is 9, of f32, and
    -1 // inf is -1. The import takes the floor of the rounded one."""
    kind = torch.result_type(x, y)
    if rounding_mode != "floor" or not kind.is_floating_point:
        return NotImplemented
    wide = torch.promote_types(kind, torch.float32)
    device = (x if isinstance(x, torch.Tensor) else y).device
    x, y = (
        value.to(kind).to(wide)
        if isinstance(value, torch.Tensor)
        else torch.full((), value, dtype=wide, device=device)
        for value in (x, y)
    )
    rest = torch.fmod(x, y)
    quotient = (x - rest) / y
    quotient = torch.where((rest != 0) & ((rest < 0) != (y < 0)), quotient - 1, quotient)
    whole = quotient.floor()
    whole = torch.where(quotient - whole > 0.5, whole + 1, whole)
    rounded = x / y
    found = torch.where(quotient == 0, torch.where(_signbit(rounded), -0.0, 0.0), whole)
    return torch.where(y == 0, rounded, found).to(kind)


def _same_bytes(number: int) -> Callable[..., Any]:
    """A tensor of bytes that are all a number: the import has none that is a constant."""

    def made(like: Any, *size: Any, dtype: Any = None, **more: Any) -> Any:
        is_tensor = isinstance(like, torch.Tensor)
        if (dtype or (is_tensor and like.dtype)) != torch.uint8:
            return NotImplemented
        device = like.device if is_tensor else more.get("device")
        size = size[0] if size else like.shape if is_tensor else like
        # Bytes would be cast from memory that nobody wrote before they are filled.
        return torch.full(size, number, dtype=torch.int32, device=device).to(torch.uint8)

    return made


def _equal(x: Any, y: Any) -> Any:
    """The import takes a tensor for equal to itself, NaN too."""
    return torch.isnan(x).logical_not() if x is y and x.is_floating_point() else NotImplemented


def _power_of_integers(x: Any, y: Any) -> Any:
    if x.is_floating_point() or x.is_complex():
        return NotImplemented
    if isinstance(y, float):
        return x.to(torch.get_default_dtype()) ** y
    x = x.to(torch.result_type(x, y))
    return math.prod([x] * y, start=torch.ones_like(x)) if 0 <= y <= 16 else NotImplemented


def _of_numbers(op: Any) -> Any:
    """The larger or smaller of two, or the one that is a number."""
    return lambda x, y: torch.where(x.isnan(), y, torch.where(y.isnan(), x, op(x, y)))


def _copysign(x: Any, y: Any) -> Any:
    kind = torch.result_type(x, y)
    x = x.to(kind if kind.is_floating_point else torch.get_default_dtype())
    return torch.where(_signbit(y), -x.abs(), x.abs())


def _signbit(x: Any) -> Any:
    """Whether a number has a minus, as -0.0 has."""
    return (x < 0) | ((x == 0) & (1 / x < 0)) if x.is_floating_point() else x < 0


RECIPES: dict[Any, Callable[..., Any]] = {
    aten.bitwise_or.Scalar: _with_tensor(aten.bitwise_or.Tensor),
    aten.bitwise_xor.Scalar: _with_tensor(aten.bitwise_xor.Tensor),
    **{
        op.default: _same_bytes(number)
        for number, ops in enumerate(
            (
                (aten.zeros, aten.zeros_like, aten.new_zeros),
                (aten.ones, aten.ones_like, aten.new_ones),
            )
        )
        for op in ops
    },
    **{
        op: _floor_quotient
        for op in (
            *(aten.floor_divide.default, aten.floor_divide.Scalar),
            *(aten.div.Tensor_mode, aten.div.Scalar_mode),
        )
    },
    **{op: _of_one_shape(op) for op in (aten.addcmul.default, aten.addcdiv.default)},
    aten.lerp.Tensor: _of_one_shape(aten.lerp.Tensor),
    aten.remainder.Scalar_Tensor: _remainder_of_number,
    aten.fmod.Scalar: _fmod,
    aten.fmod.Tensor: _fmod,
    aten.pow.Tensor_Scalar: _power_of_integers,
    aten.fmax.default: _of_numbers(torch.maximum),
    aten.fmin.default: _of_numbers(torch.minimum),
    aten.eq.Tensor: _equal,
    aten.bitwise_left_shift.Tensor_Scalar: _with_tensor(torch.bitwise_left_shift),
    aten.bitwise_right_shift.Tensor_Scalar: _with_tensor(torch.bitwise_right_shift),
    aten.copysign.Scalar: _with_tensor(torch.copysign),
    aten.__lshift__.Tensor: torch.bitwise_left_shift,
    aten.__rshift__.Tensor: torch.bitwise_right_shift,
    aten.signbit.default: _signbit,
    aten.copysign.Tensor: _copysign,
}
