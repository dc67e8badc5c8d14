"""Complex numbers by their parts, and Fourier's transforms as products."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten

# A transform of more elements is one of their factors.
_MOST = 64

Parts = tuple[Any, Any]


def _parts(x: Any) -> Parts:
    """The real part and the other one; 0 for that of real numbers."""
    if isinstance(x, torch.Tensor):
        return torch.view_as_real(x).unbind(-1) if x.is_complex() else (x, 0.0)
    return (x.real, x.imag) if isinstance(x, complex) else (x, 0.0)


def _joined(real: Any, other: Any) -> Any:
    return torch.view_as_complex(torch.stack(torch.broadcast_tensors(real, other), -1))


def _times(x: Any, y: Any) -> Any:
    """A complex tensor times a real number or tensor, in either order, and any tensor times a
    complex number. The import takes two complex tensors alone."""
    kinds = [_is_complex(value) for value in (x, y)]
    if not any(kinds) or (all(kinds) and isinstance(y, torch.Tensor)):
        return NotImplemented
    if kinds == [False, True] and isinstance(y, torch.Tensor):
        x, y = y, x
    (a, b), (c, d) = _parts(x), _parts(y)
    if _is_complex(x) and isinstance(y, complex):
        return _joined(a * c - b * d, a * d + b * c)
    return _joined(a * c, b * c) if _is_complex(x) else _joined(a * c, a * d)


def _is_complex(value: Any) -> bool:
    return value.is_complex() if isinstance(value, torch.Tensor) else isinstance(value, complex)


def _sum(sign: int) -> Callable[..., Any]:
    """A sum, or a difference, of a complex tensor and another."""

    def sum_(x: Any, y: Any, *, alpha: Any = 1) -> Any:
        if not (_is_complex(x) or _is_complex(y)):
            return NotImplemented
        (a, b), (c, d) = _parts(x), _parts(y)
        real, other = a + sign * alpha * c, b + sign * alpha * d
        return _joined(
            real, other if isinstance(other, torch.Tensor) else torch.full_like(real, other)
        )

    return sum_


def _quotient(x: Any, y: Any) -> Any:
    if not (_is_complex(x) or _is_complex(y)):
        return NotImplemented
    (a, b), (c, d) = _parts(x), _parts(y)
    if not _is_complex(y):
        return _joined(a / c, b / c)
    square = c * c + d * d
    return _joined((a * c + b * d) / square, (b * c - a * d) / square)


def _power_of_e(x: Any) -> Any:
    if not x.is_complex():
        return NotImplemented
    real, other = _parts(x)
    size = torch.exp(real)
    return _joined(size * torch.cos(other), size * torch.sin(other))


def _absolute(x: Any) -> Any:
    if not x.is_complex():
        return NotImplemented
    return torch.view_as_real(x).square().sum(-1).sqrt()


def _angle(x: Any) -> Any:
    if not x.is_complex():
        return NotImplemented
    real, other = _parts(x)
    return torch.atan2(other, real)


def _mirrored(x: Any) -> Any:
    if not x.is_complex():
        return NotImplemented
    real, other = _parts(x)
    return _joined(real, -other)


def _linear(op: Any) -> Callable[..., Any]:
    """An op that is linear in a tensor: of its parts."""

    def linear(x: Any, *rest: Any, **named: Any) -> Any:
        if not x.is_complex() or named.get("dtype") is not None:
            return NotImplemented
        return _joined(*(op(part, *rest, **named) for part in _parts(x)))

    return linear


def _product(op: Callable[..., Any], values: Sequence[Any]) -> Any:
    """What is linear in each of several tensors, by their parts."""
    if not any(value.is_complex() for value in values):
        return NotImplemented
    found: list[Any] = [0.0, 0.0]
    for picked in itertools.product(*([0, 1] if x.is_complex() else [0] for x in values)):
        turns = sum(picked)
        term = op([_parts(value)[which] for value, which in zip(values, picked, strict=True)])
        found[turns % 2] = found[turns % 2] + (term if turns % 4 < 2 else -term)
    return _joined(*found)


def of_two(op: Any) -> Callable[..., Any]:
    """A product of two tensors, of which one may be complex."""
    return lambda x, y: _product(lambda parts: op(*parts), (x, y))


def _einsum(equation: str, values: Sequence[Any], *, path: Any = None) -> Any:
    return _product(lambda parts: torch.einsum(equation, parts), values)


def _factors(count: int) -> tuple[int, int]:
    """Two factors of a number, the first at most the most that one product has; 1 if none is."""
    first = next((n for n in range(min(_MOST, math.isqrt(count)), 1, -1) if not count % n), 1)
    return first, count // first


def _turns(rows: int, columns: int, count: int, like: Any) -> Parts:
    """Cosines and sines of a turn's parts `i j / count`."""
    i, j = (torch.arange(n, device=like.device) for n in (rows, columns))
    angle = ((i[:, None] * j) % count).to(like.dtype) * (2 * math.pi / count)
    return torch.cos(angle), torch.sin(angle)


def _transformed(x: Parts, sign: int) -> Parts:
    """The transform of the last dim; of more elements than `_MOST` that of its two factors, with
    turns between them."""
    real, other = x
    count = real.shape[-1]
    first, second = _factors(count) if count > _MOST else (1, count)
    if first == 1:
        return _turned(x, _turns(count, count, count, real), sign, torch.matmul)
    shape = [*real.shape[:-1], first, second]
    columns = [part.reshape(shape).mT if isinstance(part, torch.Tensor) else part for part in x]
    real, other = _transformed((columns[0], columns[1]), sign)
    x = _turned((real.mT, other.mT), _turns(first, second, count, real), sign, torch.mul)
    real, other = _transformed(x, sign)
    return real.mT.reshape([*shape[:-2], count]), other.mT.reshape([*shape[:-2], count])


def _turned(x: Parts, by: Parts, sign: int, op: Any) -> Parts:
    (real, other), (cosine, sine) = x, by
    if not isinstance(other, torch.Tensor):
        return op(real, cosine), sign * op(real, sine)
    return (
        op(real, cosine) - sign * op(other, sine),
        op(other, cosine) + sign * op(real, sine),
    )


def _along(x: Parts, dims: Sequence[int], sign: int) -> Parts:
    for dim in dims:
        moved = [part.movedim(dim, -1) if isinstance(part, torch.Tensor) else part for part in x]
        x = _transformed((moved[0], moved[1]), sign)
        x = (x[0].movedim(-1, dim), x[1].movedim(-1, dim))
    return x


def _scaled(x: Any, normalization: int, counts: Sequence[int]) -> Any:
    """Divided by the root of how many elements there are (1), or by their number (2)."""
    count = math.prod(counts)
    return x * (1.0, 1 / math.sqrt(count), 1 / count)[normalization]


def _transform(x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    counts = [x.shape[each] for each in dim]
    if not _are_known(counts):
        return NotImplemented
    parts = _along(_parts(x), dim, -1 if forward else 1)
    return _joined(*(_scaled(part, normalization, counts) for part in parts))


def _transform_of_reals(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    counts = [x.shape[each] for each in dim]
    if not _are_known(counts):
        return NotImplemented
    *rest, last = dim
    parts = _along((x, 0.0), [last], -1)
    if onesided:
        parts = tuple(part.narrow(last, 0, counts[-1] // 2 + 1) for part in parts)
    parts = _along((parts[0], parts[1]), rest, -1)
    return _joined(*(_scaled(part, normalization, counts) for part in parts))


def _reals(x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """Real numbers of one half of their transform; the other one mirrors it."""
    *rest, last = dim
    counts = [*(x.shape[each] for each in rest), last_dim_size]
    if not _are_known([*counts, x.shape[last]]):
        return NotImplemented
    half = last_dim_size // 2 + 1
    real, other = (part.narrow(last, 0, half) for part in _along(_parts(x), rest, 1))
    if last_dim_size > 2:
        mirrored = [part.narrow(last, 1, last_dim_size - half).flip(last) for part in (real, other)]
        real = torch.cat([real, mirrored[0]], last)
        other = torch.cat([other, -mirrored[1]], last)
    found, _ = _along((real, other), [last], 1)
    return _scaled(found, normalization, counts)


def _are_known(counts: Sequence[Any]) -> bool:
    return all(isinstance(count, int) and count for count in counts)


RECIPES: dict[Any, Callable[..., Any]] = {
    **{op: _times for op in (aten.mul.Scalar, aten.mul.Tensor)},
    aten.add.Tensor: _sum(1),
    aten.sub.Tensor: _sum(-1),
    aten.div.Tensor: _quotient,
    **{op.default: _mirrored for op in (aten._conj, aten.conj_physical, aten._conj_physical)},
    aten._neg_view.default: torch.neg,
    aten.abs.default: _absolute,
    aten.exp.default: _power_of_e,
    **{op: _linear(op) for op in (aten.sum.default, aten.sum.dim_IntList, aten.cumsum.default)},
    aten.neg.default: _linear(aten.neg.default),
    aten.reciprocal.default: lambda x: _quotient(1.0, x),
    aten.angle.default: _angle,
    **{op: of_two(op) for op in (aten.mm.default, aten.bmm.default)},
    aten.einsum.default: _einsum,
    aten._fft_c2c.default: _transform,
    aten._fft_r2c.default: _transform_of_reals,
    aten._fft_c2r.default: _reals,
}
