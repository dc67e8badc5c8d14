"""Inverses, systems, determinants and roots of matrices, whose sizes are known and small: one step
a column, on all matrices of a batch at once.

torch raises an error where a matrix has no inverse (or is not positive): here the result is not
finite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .products import inverse_of_lower

aten = torch.ops.aten

# Each column is a step of its own, of some ten ops.
MOST_ROWS = 32


def _fits(a: Any) -> bool:
    rows = a.shape[-1]
    return isinstance(rows, int) and 0 < rows <= MOST_ROWS and not a.is_complex()


def _eliminated(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """A^-1 B, by Gauss and Jordan; the pivot of each column, the largest left there; the row that
    it is in, as a matrix of ones and zeros [row, column]."""
    n = a.shape[-1]
    both = torch.cat([a, b], -1)
    place = torch.arange(n, device=a.device)
    is_used = torch.zeros_like(a[..., 0], dtype=torch.bool)
    chosen, pivots = [], []
    for column in range(n):
        # What is NaN is not chosen for it: the largest is, which then is NaN, too.
        sizes = both[..., column].abs().masked_fill(is_used, -1.0)
        is_row = place == sizes.argmax(-1, keepdim=True)
        row = torch.where(is_row[..., None], both, 0).sum(-2, keepdim=True)
        pivot = row[..., column : column + 1]
        row = row / pivot
        both = torch.where(is_row[..., None], row, both - both[..., column : column + 1] * row)
        is_used = is_used | is_row
        chosen.append(is_row)
        pivots.append(pivot[..., 0, 0])
    rows = torch.stack(chosen, -1)
    solved = torch.where(rows[..., None], both[..., n:].unsqueeze(-2), 0).sum(-3)
    return solved, torch.stack(pivots, -1), rows


def _info(is_bad: Any) -> Any:
    """The number of the first bad column, from 1; 0 where there is none."""
    first = is_bad.int().argmax(-1) + 1
    return torch.where(is_bad.any(-1), first, 0).int()


def _inverse_and_info(a: Any, check_errors: bool = False) -> Any:
    if not _fits(a):
        return NotImplemented
    ones = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(a.shape)
    inverse, pivots, _ = _eliminated(a, ones)
    return inverse, _info(pivots == 0)


def _inverse(a: Any) -> Any:
    return _inverse_and_info(a)[0] if _fits(a) else NotImplemented


def _solve(a: Any, b: Any, *, left: bool = True) -> Any:
    """Of A X = B, or of X A = B. A b of one dim less than A is a batch of vectors."""
    if not _fits(a):
        return NotImplemented
    is_vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    b = b.unsqueeze(-1) if is_vector else b
    a, b = (a, b) if left or is_vector else (a.mT, b.mT)
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    found = _eliminated(a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:]))[0]
    if is_vector:
        return found.squeeze(-1)
    return found if left else found.mT


def _sign_and_pivots(a: Any) -> tuple[Any, Any]:
    """The sign of the order in which rows are chosen, and the pivots."""
    pivots, rows = _eliminated(a, a[..., :0])[1:]
    order = rows.int().argmax(-2)
    place = torch.arange(a.shape[-1], device=a.device)
    is_later = place[:, None] < place
    swaps = (is_later & (order[..., :, None] > order[..., None, :])).sum((-2, -1))
    return (1 - 2 * (swaps % 2)).to(a.dtype), pivots


def _determinant(a: Any) -> Any:
    if not _fits(a):
        return NotImplemented
    sign, pivots = _sign_and_pivots(a)
    # Behind a pivot of 0, others are NaN.
    return torch.where((pivots == 0).any(-1), 0, sign * pivots.prod(-1))


def _log_determinant(a: Any) -> Any:
    """The determinant's sign, and the logarithm of its size."""
    if not _fits(a):
        return NotImplemented
    sign, pivots = _sign_and_pivots(a)
    is_none = (pivots == 0).any(-1)
    size = torch.where(is_none, -torch.inf, pivots.abs().log().sum(-1))
    return torch.where(is_none, 0, sign * pivots.sign().prod(-1)), size


def _logdet(a: Any) -> Any:
    if not _fits(a):
        return NotImplemented
    sign, size = _log_determinant(a)
    return torch.where(sign < 0, torch.nan, size)


def _root_and_info(a: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """The lower triangular L with L L^T = A, of which what is above the diagonal is not read."""
    if not _fits(a):
        return NotImplemented
    place = torch.arange(a.shape[-1], device=a.device)
    a = a.mT if upper else a
    columns, ends = [], []
    for column in range(a.shape[-1]):
        end = a[..., column, column]
        root = torch.where(place >= column, a[..., column] / end.sqrt()[..., None], 0)
        a = a - root[..., None] * root[..., None, :]
        columns.append(root)
        ends.append(end)
    root = torch.stack(columns, -1)
    return root.mT if upper else root, _info(~(torch.stack(ends, -1) > 0))


def _root(a: Any, *, upper: bool = False) -> Any:
    return _root_and_info(a, upper=upper)[0] if _fits(a) else NotImplemented


def _old_root(a: Any, upper: bool = False) -> Any:
    return _root(a, upper=upper)


def _solve_by_root(b: Any, root: Any, upper: bool = False) -> Any:
    if not _fits(root):
        return NotImplemented
    lower = inverse_of_lower(root.mT if upper else root, False)
    return lower.mT @ (lower @ b)


def _inverse_by_root(root: Any, upper: bool = False) -> Any:
    if not _fits(root):
        return NotImplemented
    lower = inverse_of_lower(root.mT if upper else root, False)
    return lower.mT @ lower


RECIPES: dict[Any, Callable[..., Any]] = {
    aten.inverse.default: _inverse,
    aten.linalg_inv.default: _inverse,
    aten.linalg_inv_ex.default: _inverse_and_info,
    aten.linalg_solve.default: _solve,
    aten.det.default: _determinant,
    aten.linalg_det.default: _determinant,
    aten.slogdet.default: _log_determinant,
    aten.linalg_slogdet.default: _log_determinant,
    aten.logdet.default: _logdet,
    aten.cholesky.default: _old_root,
    aten.linalg_cholesky.default: _root,
    aten.linalg_cholesky_ex.default: _root_and_info,
    aten.cholesky_solve.default: _solve_by_root,
    aten.cholesky_inverse.default: _inverse_by_root,
}
