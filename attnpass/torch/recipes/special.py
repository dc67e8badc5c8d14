"""The gamma function's logarithm and what it grows by.

They are computed in f64, where sums without an end lose no digit that f32 has.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

# Lanczos's sum for the gamma function, for g = 7: 15 digits.
_LANCZOS = (
    *(0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313),
    *(-176.61502916214059, 12.507343278686905, -0.13857109526572012),
    *(9.9843695780195716e-6, 1.5056327351493116e-7),
)
# Bernoulli's numbers of 2, 4, ...
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
# Above it their sums have all digits.
_LARGE = 10


def _wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of elements that is computed in f64."""

    @functools.wraps(function)
    def of(x: Any, *rest: Any) -> Any:
        kind = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        return function(x.to(torch.float64), *rest).to(kind)

    return of


def _sine_of_turns(x: Any) -> Any:
    """The sine of pi x, exact where that is large."""
    rest = x - 2 * torch.floor(x / 2 + 0.5)
    return torch.sin(
        math.pi * torch.where(rest.abs() > 0.5, torch.copysign(1 - rest.abs(), rest), rest)
    )


@_wide
def _log_gamma(x: Any) -> Any:
    """log |gamma(x)|; below 1/2 by that of 1 - x."""
    is_low = x < 0.5
    y = torch.where(is_low, -x, x - 1)
    total = torch.full_like(y, _LANCZOS[0])
    for place, factor in enumerate(_LANCZOS[1:], 1):
        total = total + factor / (y + place)
    base = y + 7.5
    found = 0.5 * math.log(2 * math.pi) + (y + 0.5) * torch.log(base) - base + torch.log(total)
    mirrored = math.log(math.pi) - torch.log(_sine_of_turns(x).abs()) - found
    is_pole = (x <= 0) & (x == torch.floor(x))
    found = torch.where(is_low, mirrored, found)
    return torch.where(is_pole | x.isinf(), math.inf, found)


@_wide
def _digamma(x: Any) -> Any:
    """The derivative of log gamma(x); below 0 by that of 1 - x."""
    is_low = x < 0
    y = torch.where(is_low, 1 - x, x)
    before = sum((1 / (y + step) for step in range(1, _LARGE)), start=1 / y)
    before = torch.where(y < _LARGE, before, 0)
    y = torch.where(y < _LARGE, y + _LARGE, y)
    found, power = torch.log(y) - 0.5 / y - before, torch.ones_like(y)
    for place, number in enumerate(_BERNOULLI, 1):
        power = power / (y * y)
        found = found - number / (2 * place) * power
    # x less the turns that the tangent has: of large ones no digits are left.
    rest = x - torch.floor(x + 0.5)
    found = torch.where(is_low, found - math.pi / torch.tan(math.pi * rest), found)
    found = torch.where(x == 0, -1 / x, found)
    found = torch.where(is_low & (rest == 0), math.nan, found)
    return torch.where(x == math.inf, x, found)


RECIPES: dict[Any, Callable[..., Any]] = {
    aten.lgamma.default: _log_gamma,
    aten.digamma.default: _digamma,
}
