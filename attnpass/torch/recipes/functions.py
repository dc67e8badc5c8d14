"""Functions of one number and more."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _hypot(x: Any, y: Any) -> Any:
    """By the larger one: its square may have no number."""
    kind = torch.result_type(x, y)
    wide = torch.promote_types(kind, torch.float32)
    one, other = x.to(wide).abs(), y.to(wide).abs()
    larger = torch.maximum(one, other)
    ratio = torch.minimum(one, other) / torch.where(larger == 0, 1, larger)
    found = larger * torch.sqrt(1 + ratio * ratio)
    is_infinite = (one == math.inf) | (other == math.inf)
    return torch.where(is_infinite, math.inf, found).to(kind)


def _sign(x: Any) -> Any:
    """The import makes comparisons with whole numbers of these, and of constants none that end: so
    it does of `trunc`, `frac`, `softshrink` and `threshold`."""
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype) if x.is_floating_point() else NotImplemented


def _trunc(x: Any) -> Any:
    return torch.where(x < 0, x.ceil(), x.floor()) if x.is_floating_point() else NotImplemented


def _softshrink(x: Any, width: float = 0.5) -> Any:
    return torch.where(x > width, x - width, torch.where(x < -width, x + width, x * 0))


def _threshold(x: Any, least: float, other: float) -> Any:
    return torch.where(x <= least, other, x) if x.is_floating_point() else NotImplemented


def _without_nans(x: Any, *_: Any, **__: Any) -> Any:
    return NotImplemented if x.is_floating_point() or x.is_complex() else x.clone()


def _logit(x: Any, eps: Any = None) -> Any:
    of_floats = x.is_floating_point()
    return NotImplemented if of_floats else torch.logit(x.to(torch.get_default_dtype()), eps)


def _erfinv(x: Any) -> Any:
    """The inverse of erf, by M. Giles's polynomials, which are exact to f32's last digits; in f64
    steps of Newton's method follow."""
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    x, given = x.to(kind), x.dtype if x.is_floating_point() else kind
    w = -torch.log((1 - x) * (1 + x))
    near, far = torch.zeros_like(w), torch.zeros_like(w)
    for one, other in _ERFINV:
        near, far = near * (w - 2.5) + one, far * (w.sqrt() - 3) + other
    y = torch.where(w < 5, near, far) * x
    for _ in range(2 if kind == torch.float64 else 0):
        y = y - (torch.erf(y) - x) * (math.sqrt(math.pi) / 2) * torch.exp(y * y)
    return torch.where(x.abs() == 1, x * math.inf, y).to(given)


# Factors of the polynomials near 0 and near 1, the highest first.
_ERFINV = (
    (2.81022636e-08, -0.000200214257),
    (3.43273939e-07, 0.000100950558),
    (-3.5233877e-06, 0.00134934322),
    (-4.39150654e-06, -0.00367342844),
    (0.00021858087, 0.00573950773),
    (-0.00125372503, -0.0076224613),
    (-0.00417768164, 0.00943887047),
    (0.246640727, 1.00167406),
    (1.50140941, 2.83297682),
)


def _erfc(x: Any) -> Any:
    """1 - erf(x) without the loss of its digits, exact to f32's last ones: by W. Press's polynomial
    of `1 / (1 + |x| / 2)`; of x^2 what f32 has no digits for is a factor of its own."""
    if x.dtype == torch.float64:
        return NotImplemented
    wide = x.to(torch.float32)
    size = wide.abs()
    t, power = 2 / (2 + size), torch.zeros_like(size)
    for factor in _ERFC:
        power = power * t + factor
    near = torch.floor(size.clamp(max=16) * 16) / 16
    rest = t * torch.exp(-near * near) * torch.exp(power + (near - size) * (near + size))
    return torch.where(wide < 0, 2 - rest, rest).to(
        x.dtype if x.is_floating_point() else wide.dtype
    )


# Factors of its polynomial, the highest first.
_ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806),
    *(0.09678418, 0.37409196, 1.00002368, -1.26551223),
)


def _xlogy(x: Any, y: Any) -> Any:
    return torch.where((x == 0) & ~torch.isnan(y), 0, x * torch.log(y))


def _prelu(x: Any, weight: Any) -> Any:
    channels = [1, -1, *[1] * (x.dim() - 2)] if x.dim() > 1 and weight.numel() > 1 else [-1]
    return torch.where(x > 0, x, weight.reshape(channels) * x)


def _frexp(x: Any) -> Any:
    """A number of 1/2 to 1, and the power of 2 that it is multiplied by, by its bits."""
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    of_bits, digits, bias = (
        (torch.int64, 52, 1022) if x.dtype == torch.float64 else (torch.int32, 23, 126)
    )
    most = 2 * bias + 3
    smallest = torch.finfo(wide.dtype).smallest_normal
    is_small = (wide.abs() < smallest) & (wide != 0)
    wide = torch.where(is_small, wide * 2.0**digits, wide)
    bits = wide.view(of_bits)
    power = (bits >> digits) & most
    mantissa = ((bits & ~(most << digits)) | (bias << digits)).view(wide.dtype)
    is_plain = (wide != 0) & wide.isfinite()
    exponent = power - bias - torch.where(is_small, digits, 0)
    mantissa = torch.where(is_plain, mantissa, wide).to(x.dtype)
    return mantissa, torch.where(is_plain, exponent, 0).to(torch.int32)


def _next_after(x: Any, y: Any) -> Any:
    """The next number on the way to y: of one more or one less in the bits."""
    kind = torch.result_type(x, y)
    if kind not in (torch.float32, torch.float64):
        return NotImplemented
    x, y = torch.broadcast_tensors(x.to(kind), y.to(kind))
    bits = x.contiguous().view(torch.int32 if x.dtype == torch.float32 else torch.int64)
    step = torch.where((y > x) == (x > 0), 1, -1).to(bits.dtype)
    least = torch.ones_like(bits).view(x.dtype)
    from_zero = torch.where(y < 0, -least, least)
    found = torch.where(x == 0, from_zero, (bits + step).view(x.dtype))
    found = torch.where(x == y, y, found)
    return torch.where(x.isnan() | y.isnan(), math.nan, found)


def _clamp_truths(x: Any, low: Any = None, high: Any = None) -> Any:
    """The import compares truths with numbers."""
    if x.dtype != torch.bool or isinstance(low, float) or isinstance(high, float):
        return NotImplemented
    return torch.clamp(x.to(torch.int64), low, high)


RECIPES: dict[Any, Callable[..., Any]] = {
    aten.sign.default: _sign,
    aten.trunc.default: _trunc,
    aten.frac.default: lambda x: x - _trunc(x),
    aten.softshrink.default: _softshrink,
    aten.threshold.default: _threshold,
    aten.log10.default: lambda x: torch.log2(x) * math.log10(2),
    aten.nan_to_num.default: _without_nans,
    aten.logit.default: _logit,
    aten.hypot.default: _hypot,
    aten.frexp.Tensor: _frexp,
    aten.nextafter.default: _next_after,
    aten.clamp.default: _clamp_truths,
    aten.xlogy.Tensor: _xlogy,
    aten.erfinv.default: _erfinv,
    aten.erfc.default: _erfc,
    aten.special_erfc.default: _erfc,
    aten.prelu.default: _prelu,
}
