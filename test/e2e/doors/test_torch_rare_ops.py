"""Ops of torch that few models have, against torch in float64."""

# pyright: reportMissingImports=false

from __future__ import annotations

import copy
import itertools
import math
from typing import Any

import pytest
from helpers import unfolded

import attnpass

torch = pytest.importorskip("torch")
from attnpass.torch.recipes import RECIPES  # noqa: E402

F = torch.nn.functional


class Special(torch.nn.Module):
    def forward(self, x):
        return torch.lgamma(x), torch.digamma(x)


class Picks(torch.nn.Module):
    """What is picked of a row, and of a tensor without dims; copies of views; parts of losses."""

    def forward(self, x, i, some, shares, given):
        truth, number, weight = x > 1, x.sum(), shares[0]
        return (
            *(i.mode(1), i.mode(0, True), torch.where(truth, 1.0, 2.0).mode(1), truth.clamp(0, 1)),
            *(some.nanmedian(), some.nanmedian(1)[0], some.nanmedian(0, True)[0], i.nanmedian()),
            *(number.max(0), number.min(0, True), number.softmax(-1), number.log_softmax(0)),
            *(number.logsumexp(0), number.argmin(-1), number.var(0, correction=0)),
            *(number.kthvalue(1), number.median(0), number.mode(), number.nanmedian(0)),
            *(torch.expand_copy(x[:, :1], (3, 4)), torch.slice_copy(x, 0, 1, 3), torch.t_copy(x)),
            *torch.split_copy(x, 2),
            *(x[0].masked_scatter(truth, x), x.masked_scatter(x[0] > 0, 2 * x)),
            *(F.pad(x.view(1, 1, 3, 2, -1), (1, 1, 1, 0, 2, 1), mode="reflect"),),
            F.conv1d(x, x[:, :3, None], None, 2, "valid"),
            *(
                F.cross_entropy(x, target, weight, label_smoothing=0.3, reduction=kind)
                for target in (shares, given)
                for kind in ("mean", "none")
            ),
            F.binary_cross_entropy_with_logits(x, shares, pos_weight=weight),
            F.kl_div(x, F.relu(shares - 0.5), reduction="batchmean"),
            *_cells(x, x[:, :3]),
        )


def _cells(x, state):
    """Recurrent cells, whose weights are `x` and `state`."""
    by_gates = [[one.repeat(gates, 1) for one in (x, state)] for gates in (4, 3)]
    return (
        *torch.lstm_cell(x, (state, 2 * state), *by_gates[0]),
        *(torch.gru_cell(x, state, *by_gates[1]), torch.rnn_tanh_cell(x, state, x, state)),
        torch.rnn_relu_cell(x, state, x, state),
    )


class Bits(torch.nn.Module):
    def forward(self, x):
        y, wide = x.flip(0), x.double()
        small = torch.frexp(x.half())
        return torch.frexp(x), torch.nextafter(x, y), small, torch.nextafter(wide, wide.sum())


class Constants(torch.nn.Module):
    """What is computed of constants at compile time, with numbers below 0."""

    def forward(self, x):
        one, whole = torch.ones(3), torch.full((3,), -1)
        floats = one * -3, one + -2, one - (-2), -3 - one, torch.add(one, one, alpha=-2)
        rests = one % -3, -one % 3.5, -one % (2 * one), whole % 3, whole % -whole
        return *(x * number for number in floats), *(x * rest for rest in rests)


def _compare(model, *args, folded=False):
    with torch.no_grad():
        flags = () if folded else unfolded()
        fast = attnpass.torch.compile(model, args, extra_args=flags)
        wanted, got = copy.deepcopy(model)(*map(_wide, args)), fast(*args)
    leaves = torch.utils._pytree.tree_leaves
    for ours, theirs in zip(leaves(got), leaves(wanted), strict=True):
        assert ours.shape == theirs.shape
        few = 2e-3 if ours.dtype == torch.float16 else 1e-5
        torch.testing.assert_close(
            ours.double(), theirs.double(), rtol=few, atol=few, equal_nan=True
        )


def _wide(value):
    return value.double() if value.is_floating_point() else value


def test_sums_without_an_end() -> None:
    ends = [0.0, -0.0, -1.0, -2.0, -1e-5, 1e10, 1e30, math.inf, -math.inf, math.nan, 88.0]
    _compare(Special(), torch.cat([torch.linspace(-5, 30, 37), torch.tensor(ends)]))


def test_picks_copies_and_losses() -> None:
    some = torch.randint(0, 4, (3, 7)).float()
    some[0, :3], some[1] = math.nan, math.nan
    _compare(
        *(Picks(), torch.randn(3, 4), torch.randint(0, 4, (3, 7)), some),
        *(torch.rand(3, 4), torch.tensor([3, -100, 0])),
    )


def test_bits() -> None:
    ends = [0.0, -0.0, 1e-30, 3e38, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0, 0.99999994]
    x, bits = torch.tensor(ends), Bits()
    leaves = torch.utils._pytree.tree_leaves
    got = leaves(attnpass.torch.compile(bits, (x,))(x))
    for ours, theirs in zip(got, leaves(bits(x)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def test_constants_with_numbers_below_0() -> None:
    _compare(Constants(), torch.randn(3), folded=True)


class Waves(torch.nn.Module):
    """Transforms of a size that is no power of 2, there and back."""

    def forward(self, x, window):
        short = torch.stft(x, 6, 3, window=window, return_complex=True)
        return torch.view_as_real(short), torch.istft(short, 6, 3, window=window)


def test_transforms() -> None:
    _compare(Waves(), torch.randn(2, 12), torch.rand(6) + 0.5)


@pytest.mark.parametrize("count", [1, 2, 7, 64, 66, 67, 210])
def test_transforms_by_their_factors(count: int) -> None:
    """What transforms are made of, as torch runs it."""
    aten = torch.ops.aten
    x = torch.randn(3, count, 2, dtype=torch.complex128)
    calls = [(aten._fft_c2c, x, [1, 2], 1, True), (aten._fft_c2c, x, [0, 1], 2, False)]
    calls += [(aten._fft_r2c, x.real, [2, 1], 0, one) for one in (True, False)]
    calls += [(aten._fft_c2r, x, [0, 1], 2, 2 * count - more) for more in (1, 2) if more <= count]
    for op, *args in calls:
        torch.testing.assert_close(RECIPES[op.default](*args), op.default(*args))


class Turns(torch.nn.Module):
    """Arithmetic on complex numbers, as state spaces have it."""

    def forward(self, w):
        c = torch.view_as_complex(w)
        d = torch.exp((w[..., 0] + 1j * w[..., 1]).unsqueeze(-1) * torch.arange(3))
        made = (c * (1 + 2j) - w[..., 0], 2 / c.conj(), -c.cumsum(1) - 3, c @ c.mT)
        return *map(torch.view_as_real, (*made, torch.einsum("hn,hnl->hl", c, d))), c.angle()


def test_complex_numbers() -> None:
    _compare(Turns(), torch.randn(2, 4, 2))


class Chosen(torch.nn.Module):
    """Rows that a condition picks, put where it holds, as many as it picks, or a single one."""

    def forward(self, x, y):
        far, image, none, alike = (x.clone() for _ in range(4))
        far[y > 0] = y[y > 0]
        image[y[:, 0] > 0] += 2 * y[y[:, 0] > 0]
        none[y > 99] = y[y > 99]
        alike[y > 0] = y[y == y.amax()]
        return far, image, none, alike


def test_chosen_rows_are_put_back() -> None:
    _compare(Chosen(), torch.randn(6, 3), torch.randn(6, 3))


class NoElements(torch.nn.Module):
    """What has no elements, is made of none, or writes none."""

    def forward(self, x, none):
        no_places, written = torch.zeros(0, dtype=torch.int64), none.clone()
        written[..., 0], few = 1.0, x[:, :0]
        return (
            *(written, none.index_copy(2, torch.tensor([0, 1]), none[..., :2])),
            *(none.unfold(2, 2, 1), none.sort(-1)[0], F.pad(none, (1, 1), mode="circular")),
            *(none.var(0), none.std(), none.sum(0), none.prod(0), none.softmax(-1)),
            *(x.index_put((no_places,), x[:0]), x.index_add(0, no_places, x[:0])),
            *(x.scatter(0, no_places.reshape(0, 1, 1), x), torch.cat([x[:0], x])),
            F.scaled_dot_product_attention(x, few, few),
        )


def test_tensors_without_elements() -> None:
    _compare(NoElements(), torch.randn(3, 4, 8), torch.zeros(0, 4, 8))


class Steps(torch.nn.Module):
    """Writes by index that reduce, fill or go to an unfolding; triangular systems."""

    def forward(self, x, i, places):
        apart, rows = x.clone(), x.clone()
        apart.unfold(-1, 2, 2)[..., 0].mul_(3.0)
        rows.unfold(-2, 2, 2).add_(x.unfold(1, 2, 2))
        a = x[:, :, :4] + 3 * torch.eye(4, dtype=x.dtype)
        return (
            *(apart, rows, x.mT.index_fill(-1, i - 2, 5.0), x.index_fill(2, i, x.sum())),
            *(
                x.index_reduce(1, i, x[:, :3], name, include_self=bool(own))
                for name, own in zip(("prod", "mean", "amax", "amin"), (1, 0, 0, 1), strict=True)
            ),
            *(x.scatter(1, places, 2.0, reduce=name) for name in ("add", "multiply")),
            torch.linalg.solve_triangular(a, x, upper=False),
        )


def test_steps_of_writes_and_systems() -> None:
    _compare(
        Steps(),
        *(torch.randn(3, 4, 8), torch.tensor([1, 0, 1]), torch.randint(0, 4, (3, 4, 8))),
    )


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_triangular_systems(count: int) -> None:
    """What their solutions are made of, as torch runs it; the other half is not read."""
    aten = torch.ops.aten
    a = torch.randn(3, count, count, dtype=torch.float64) + 3 * torch.eye(count)
    b = torch.randn(2, 3, count, 4, dtype=torch.float64)
    for upper in (True, False):
        half = torch.where(torch.ones_like(a).tril(-1) != 0, math.nan, a)
        half = half if upper else half.mT
        for unit in (True, False):
            options = {"upper": upper, "unitriangular": unit}
            calls = [(half, b, {"left": True}), (half, b.mT, {"left": False})]
            for *args, side in calls:
                found = RECIPES[aten.linalg_solve_triangular.default](*args, **options, **side)
                wanted = torch.linalg.solve_triangular(*args, **options, **side)
                torch.testing.assert_close(found, wanted)
            found = RECIPES[aten.triangular_solve.default](b[0], half, upper, True, unit)[0]
            torch.testing.assert_close(
                found, torch.triangular_solve(b[0], half, upper, True, unit)[0]
            )


class Matrices(torch.nn.Module):
    """Cameras turned back, flows, splines, Gaussian processes."""

    def forward(self, x, b):
        positive = x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)
        root = torch.linalg.cholesky(positive)
        return (
            *(torch.inverse(x), torch.linalg.solve(x, b), torch.linalg.solve(x, b[..., 0])),
            *(torch.det(x), torch.slogdet(x), positive.logdet(), torch.cholesky_solve(b, root)),
        )


def test_matrices() -> None:
    torch.manual_seed(0)
    _compare(Matrices(), torch.randn(4, 3, 3), torch.randn(4, 3, 2))


@pytest.mark.parametrize("rows", [1, 2, 5, 32])
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_matrices_by_columns(rows: int, batch: tuple[int, ...]) -> None:
    """What inverses and roots are made of, as torch runs it."""
    aten = torch.ops.aten
    torch.manual_seed(rows)
    x, b = (torch.randn(*batch, rows, n, dtype=torch.float64) for n in (rows, 2))
    positive = x @ x.mT + torch.eye(rows, dtype=torch.float64)
    lower, upper = (torch.linalg.cholesky(positive, upper=up) for up in (False, True))
    calls = [(op, x) for op in (aten.inverse, aten.linalg_inv_ex, aten.det, aten.slogdet)]
    calls += [(aten.linalg_solve, x, b), (aten.linalg_solve, x, b[..., 0])]
    calls += [(op, positive) for op in (aten.logdet, aten.cholesky, aten.linalg_cholesky_ex)]
    calls += [(aten.cholesky, positive, True), (aten.cholesky_solve, b, lower)]
    calls += [(aten.cholesky_solve, b, upper, True), (aten.cholesky_inverse, upper, True)]
    for op, *args in calls:
        torch.testing.assert_close(RECIPES[op.default](*args), op.default(*args))
    torch.testing.assert_close(
        RECIPES[aten.linalg_solve.default](x, b.mT, left=False),
        aten.linalg_solve.default(x, b.mT, left=False),
    )


def test_matrices_without_an_inverse() -> None:
    aten, x = torch.ops.aten, torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    assert RECIPES[aten.det.default](x) == 0
    assert RECIPES[aten.linalg_inv_ex.default](x)[1] == 2
    assert RECIPES[aten.logdet.default](x) == -math.inf
    assert RECIPES[aten.linalg_cholesky_ex.default](-x)[1] == 1


class Decomposed(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.lu_factor(x)[0]


class Large(torch.nn.Module):
    def forward(self, x):
        return torch.inverse(x)


@pytest.mark.parametrize(
    ("model", "rows", "said"), [(Decomposed(), 3, "linalg.lu_factor"), (Large(), 33, "inverse")]
)
def test_matrices_that_are_refused(model: Any, rows: int, said: str) -> None:
    with pytest.raises(attnpass.AttnError, match=rf"{__file__}:\d+:0: error: .*{said}"):
        attnpass.torch.compile(model, (torch.eye(rows),), device="cpu")


class Numbers(torch.nn.Module):
    """Numbers of Python's, of 16 bits and as results."""

    def forward(self, x):
        total = x.sum()
        return x * total.half().item(), x * total.bfloat16().item(), total.item()


class Truth(torch.nn.Module):
    def forward(self, x):
        return (x.sum() > 0).item()


def test_numbers_of_python() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    for ours, theirs in zip(attnpass.torch.compile(Numbers(), (x,))(x), Numbers()(x), strict=True):
        torch.testing.assert_close(ours, theirs)
    with pytest.raises(attnpass.AttnError, match="truth value"):
        attnpass.torch.compile(Truth(), (x,))


class Volumes(torch.nn.Module):
    """Voxels where a field says, as volumes are warped and registered."""

    def forward(self, x, at):
        return (
            *(F.grid_sample(x, at, padding_mode=p, align_corners=c) for p, c in PADDINGS),
            F.grid_sample(x, at, "nearest", align_corners=True),
        )


PADDINGS = (("zeros", False), ("border", True), ("reflection", False))


def test_samples_of_volumes() -> None:
    x, at = torch.randn(2, 3, 3, 4, 5), 1.5 * torch.randn(2, 2, 3, 4, 3)
    batch = {0: torch.export.Dim("batch")}
    with torch.no_grad():
        fast = attnpass.torch.compile(Volumes(), (x, at), dynamic_shapes=(batch, batch))
        for count in (2, 1):
            wanted = Volumes()(x[:count].double(), at[:count].double())
            for ours, theirs in zip(fast(x[:count], at[:count]), wanted, strict=True):
                torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 4, 2), (1, 1, 1)])
def test_samples_of_volumes_by_voxels(sizes: tuple[int, ...]) -> None:
    """What samples of volumes are made of, as torch runs it."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, *sizes, dtype=torch.float64)
    at = 1.7 * torch.randn(2, 2, 3, 4, 3, dtype=torch.float64)
    at[0, 0, 0] = torch.tensor([[1, -1, 0], [-1, 1, 1], [0.5, 0.25, -0.25], [5, -7, 3]])
    recipe = RECIPES[torch.ops.aten.grid_sampler.default]
    for mode, padding, corners in itertools.product((0, 1), (0, 1, 2), (False, True)):
        wanted = torch.ops.aten.grid_sampler_3d(x, at, mode, padding, corners)
        torch.testing.assert_close(recipe(x, at, mode, padding, corners), wanted)
