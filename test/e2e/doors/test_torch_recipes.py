"""What ops of torch are made of where IREE's import lacks them, against torch in float64."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.nn.functional as F  # noqa: E402
from helpers import unfolded  # noqa: E402

import attnpass.torch  # noqa: E402
from attnpass.torch.exported import decomposed, export  # noqa: E402


def _doubled(value: Any) -> Any:
    change = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if change else value


def _same(model: Any, *args: Any, **kwargs: Any) -> Any:
    """Compiles a model, and holds its results against those of float64."""
    with torch.no_grad():
        wanted = copy.deepcopy(model).double()(
            *map(_doubled, args), **{name: _doubled(value) for name, value in kwargs.items()}
        )
    fast = attnpass.torch.compile(model, args, kwargs, extra_args=unfolded())
    got = fast(*args, **kwargs)
    leaves = torch.utils._pytree.tree_leaves
    for ours, theirs in zip(leaves(got), leaves(wanted), strict=True):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(
            ours.double(), theirs.double(), rtol=1e-5, atol=1e-5, equal_nan=True
        )
    return fast


class Of(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any):
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def test_even_means() -> None:
    """Means of windows of one size are no means of several, which the import reads by a mask."""
    x = torch.randn(2, 3, 8, 6)
    sizes = ((4, 3), (1, 1), (3, 3))
    pools = [lambda x, size=size: F.adaptive_avg_pool2d(x, size) for size in sizes]
    graphs = [str(decomposed(export(Of(pool), (x,), None, None, False)).graph) for pool in pools]
    assert ["adaptive" in graph for graph in graphs] == [False, False, True]


def test_elementwise_ops() -> None:
    def ops(x: Any, y: Any, i: Any) -> Any:
        products, wild, wide = x @ y.mT, torch.log(x), 1e25 * y
        return (
            *(torch.hypot(x, y), torch.copysign(x, y), torch.xlogy(x.abs(), y.abs())),
            *(torch.hypot(x, 1e30 * y.double()), F.adaptive_max_pool2d(x, (4, 3), True)),
            *(F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_avg_pool1d(x, 4)),
            *(F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool1d(x, 1)),
            F.interpolate(
                x[None], size=(1, 4), mode="bilinear", antialias=True, align_corners=True
            ),
            *(
                torch.signbit(x),
                torch.copysign(x, -0.0 * x.abs()),
                torch.copysign(i, 2 - i),
                torch.signbit(i - 2),
            ),
            *(i**2, (i - 3) ** 3, x**2, F.prelu(x, 0.2 * x[0, :, 0])),
            *(torch.roll(x, 3), torch.roll(x, (1, -2), (1, 2))),
            torch.topk(x, 3, 1, sorted=False)[0].sum(1),
            torch.view_as_real(0.5 * torch.polar(x.abs(), y) * x),
            torch.histc(i.float(), 4, 0, 4),
            torch.slice_scatter(products, 3 * products[:, :4], 1, 1, 5),
            *(torch.select_scatter(x, y[:, 0], 1, -1), torch.select_scatter(x, y[..., 0], -1, -2)),
            *(
                y.cumprod(1),
                y.sum().cumprod(0),
                torch.cat([1e-15 * levels, 1e20 * levels, 1e-12 * levels]).cumprod(0),
                i.cumprod(0, dtype=torch.int32),
                y.cummax(1),
                wild.cummin(-1)[0],
                y.median(-1),
                wild.median(0)[0],
                y.kthvalue(2, 1),
            ),
            *(F.max_pool2d(x, 2), F.conv_transpose2d(x, y[:, :3, :3, None].mT), y.median()),
            *(op(wild) for op in (F.relu6, F.hardsigmoid, F.leaky_relu, F.elu, F.hardtanh)),
            *(wild.clamp(-1, 1), torch.clamp(wild, y, y + 1), torch.clamp(y, wild, wild.flip(0))),
            *(torch.maximum(wild, y), torch.minimum(y, wild), torch.where(wild > y, wild, y)),
            *(torch.isfinite(wild), torch.isclose(wild, wild.flip(0)), wild == wild),
            *(
                F.interpolate(x[None], size=size, mode=mode, antialias=True)
                for size, mode in (((4, 5), "bilinear"), ((9, 3), "bicubic"))
            ),
            *(torch.cdist(x, y), torch.cdist(x, y, 1), F.fold(x.mT, (4, 8), 2, 1, (1, 0), 3)),
            torch.searchsorted(x.sort(-1)[0], y, right=True),
            F.grid_sample(x[:, None], y[:, None, :, :2], align_corners=False),
            torch.searchsorted(y[0, 0].sort()[0], x / (x != 0), out_int32=True),
            # What has dims of size one dropped, beside an op that is taken apart late.
            *(x.logsumexp((0, 2)), torch.take_along_dim(x, (x > 0).long(), 1)),
            *(torch.erfinv(0.9 * torch.tanh(x)), torch.erfc(3 * x)),
            *(torch.fmod(2.0**24 * x, y), torch.fmod(x, math.inf)),
            1e-25 * torch.hypot(1e25 * x, wide),
            F.logsigmoid(100 * x),
            *(F.pad(x, (0, 0, 1, -1)), F.pad(x, (-1, 2, -2, 0), value=0.5)),
            F.pad(x[None], (2, 1, 0, -1), mode="replicate"),
            *(x @ y[0, 0], y[0, 0] @ x.mT, torch.fmax(x, y[:1]), torch.clamp(x, max=y[:1])),
            torch.diagonal_scatter(x, y[:, :5, 0], -1, 1, 2),
            *(x[0].clone().fill_diagonal_(3.0), (2 * x[0, :, :4].mT).fill_diagonal_(3.0)),
            *((x[0, :0] + 1).fill_diagonal_(3.0), torch.deg2rad(99 * x), torch.rad2deg(x)),
            *torch.broadcast_tensors(x, y[:1] > 0),
            torch.masked_select(x, y[:1] > 0).sum(),
            *(F.softplus(levels), x[levels > 2], levels.long() > 2.5, (levels > 0) > 0),
            *(op(levels) for op in (torch.sign, torch.trunc, torch.frac, F.softshrink)),
            *(levels // 0.1, levels // math.inf, wild // 0.5, 3 // levels),
            torch.div(wild, -0.5, rounding_mode="floor"),
            *(torch.sign(x), torch.trunc(3 * x), F.softshrink(x), F.threshold(levels, 0, 20)),
            *(torch.addcmul(y[:1, :1], x, y), torch.addcdiv(y[0], x[0], 2 + x[:, :1].abs())),
            *(torch.lerp(x[0], y, x[:, :1]), torch.remainder(7.5, 1 + x.abs()), -7 % (i + 1)),
            *(i.mean(dtype=x.dtype), i.mean(0, dtype=x.dtype), torch.remainder(7.5, i + 1)),
        )

    levels = torch.tensor([-1.5, 25.0])
    x, y = torch.randn(2, 2, 6, 8).unbind()
    x[0, 0, 0] = 0.0
    _same(Of(ops), x, y, torch.randint(0, 6, (40,)))


def test_losses() -> None:
    """Of numbers of classes, of shares of them, and of some that do not count."""

    def ops(x: Any, given: Any, shares: Any, weight: Any) -> Any:
        logs, some = torch.log_softmax(x, 1), torch.where(given > 2, -1, given)
        return (
            *(F.cross_entropy(x, shares.softmax(1), reduction=kind) for kind in ("none", "sum")),
            *(F.cross_entropy(x, shares.softmax(1), label_smoothing=s) for s in (0.0, 0.2)),
            *(F.cross_entropy(x, some, ignore_index=-1, label_smoothing=s) for s in (0.0, 0.1)),
            *(
                F.cross_entropy(x, some, weight, ignore_index=-1),
                F.cross_entropy(x[0, :, 0], some[0, 0]),
            ),
            *(F.nll_loss(logs, given, weight), F.nll_loss(logs, given, reduction="none")),
            *(F.nll_loss(logs, some, ignore_index=-1), F.nll_loss(logs[:, :, 0], given[:, 0])),
        )

    given = torch.tensor([[0, 1, 3], [2, 1, 0]])
    _same(Of(ops), torch.randn(2, 4, 3), given, torch.randn(2, 4, 3), torch.rand(4))


def test_bags_of_rows() -> None:
    """Bags of one size, of several, and empty ones."""

    def ops(table: Any, square: Any, row: Any, ends: Any, factors: Any) -> Any:
        return (
            *(F.embedding_bag(square, table, mode=mode) for mode in ("sum", "mean", "max")),
            *(F.embedding_bag(row, table, ends, mode=mode) for mode in ("sum", "mean", "max")),
            F.embedding_bag(square, table, mode="mean", padding_idx=1),
            F.embedding_bag(row, table, ends, mode="sum", include_last_offset=True),
            F.embedding_bag(row, table, ends, mode="sum", per_sample_weights=factors),
        )

    square, row = torch.randint(0, 6, (3, 4)), torch.randint(0, 6, (7,))
    _same(Of(ops), torch.randn(6, 5), square, row, torch.tensor([0, 3, 3, 7]), torch.randn(7))


def test_unsigned_bytes() -> None:
    """IREE's import computes with them as if they had a sign, and lacks quotients of bytes."""

    def ops(x: Any, y: Any, signed: Any, packed: Any, pixels: Any) -> Any:
        square = x.view(16, 16)
        return (
            *(x / 255, x * 0.5, x > 200, x == 255, x.clamp(10, 200), torch.maximum(x, y)),
            *(x // 3, x % y, torch.div(x, y, rounding_mode="trunc"), ~x >> 2, x - y),
            *(torch.sort(square, dim=0, descending=True), square.topk(3, 0), square.max(1)),
            *(square.sum(1), x.argmax(), square.all(1), torch.where(x > 128, x, 200)),
            *(square.permute(1, 0) * 1.0, F.pad(square, (1, 1)), pixels.to(torch.uint8)),
            # PyTorch's weights have 16 bits on some CPUs: one more or less is as right.
            1e-6 * F.interpolate(square[None, None], size=(5, 7), mode="bilinear", antialias=True),
            *(signed // 3, signed // signed.flip(0), signed % 5, -packed, -packed.long()),
            (packed[:, None] >> torch.arange(0, 32, 4, dtype=torch.int32)[:, None]) & 15,
            packed << torch.arange(8),
            *((x[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1, torch.full_like(x, 200) + y),
            *(torch.cat([x, pixels]), torch.cat([x, x > 128]), torch.stack([x, x.int()])),
            *((x - 1) / 2, 200 - x * 2, (x + 100) >> 1, x + (x > 128), x == 300, x < 300),
            *(pixels[:256].clone().copy_(x), x.clone().copy_(pixels[:256]), x.sum(dtype=x.dtype)),
            *(torch.zeros_like(x), x.new_ones(2), torch.zeros(3, dtype=torch.uint8)),
            *(x.clamp(min=-1), x.clamp(max=-1), torch.bitwise_left_shift(x, 1)),
            *(signed - 3, signed * 10, 5 - signed, signed.max(), signed.min(), signed ^ 5),
            *(torch.full_like(signed, 7) + signed, torch.arange(0, 9, 2, dtype=torch.int8) * 3),
            *(torch.bitwise_left_shift(signed, 1), signed.fmod(3), signed.new_full((2,), -3)),
        )

    x = torch.arange(256).to(torch.uint8)
    y, signed = x.flip(0) // 2 + 1, ((x.int() - 128) | 1).to(torch.int8)
    packed = torch.randint(-(2**31), 2**31 - 1, (2, 8)).int()
    fast = _same(Of(ops), x, y, signed, packed, torch.arange(0, 255.5, 0.5))
    leaves = torch.utils._pytree.tree_leaves
    pixels = torch.tensor([3.0, 127.9, 128.0, 255.9] * 128)[:511]
    args = (x, y, signed, packed, pixels)
    torch.testing.assert_close(leaves(fast(*args)), leaves(ops(*args)), rtol=1e-6, atol=1.1e-6)


def test_scatters_by_a_dim_from_behind() -> None:
    """The gates of experts: what a router chose, put where it chose it."""

    def ops(x: Any) -> Any:
        gates, chosen = torch.topk(x.softmax(-1), 2, -1)
        return (
            torch.zeros_like(x).scatter(-1, chosen, gates),
            x.scatter(-1, chosen, 1.5),
            x.scatter_add(-1, chosen, gates),
            x.scatter_reduce(-1, chosen, gates, "amax"),
            torch.zeros_like(x, dtype=torch.bool).scatter_(-1, chosen, True),
            x.scatter(-2, chosen[:, :1], gates[:, :1]),
        )

    _same(Of(ops), torch.randn(2, 5, 4))


def test_rows_are_combined_by_index() -> None:
    def ops(x: Any, at: Any, new: Any) -> Any:
        return (
            x.index_reduce(0, at, new, "amax"),
            x.index_reduce(-2, at, new, "prod", include_self=False),
            x.T.index_reduce(1, at, new.T, "mean"),
            x.index_reduce(0, at[0], new[:1], "amin"),
        )

    _same(Of(ops), torch.randn(5, 4), torch.tensor([3, 0, 3, 1, 3, 0]), torch.randn(6, 4))


def test_means_by_index_count_beyond_16_bits() -> None:
    """bf16 counts to 256."""
    ones, at = torch.ones(600, dtype=torch.bfloat16), torch.zeros(600, dtype=torch.int64)
    args = (torch.zeros(3).bfloat16(), at, ones)
    model = Of(lambda x, at, new: x.scatter_reduce(0, at, new, "mean"))
    fast = attnpass.torch.compile(model, args)
    assert fast(*args).tolist() == [1, 0, 0]


@pytest.mark.parametrize("own", [True, False])
def test_means_of_integers_by_index_are_rounded_down(own: bool) -> None:
    def ops(x: Any, at: Any, new: Any) -> Any:
        return x.scatter_reduce(0, at, new, "mean", include_self=own)

    args = (torch.tensor([0, 7, -5]), torch.tensor([0, 1, 0]), torch.tensor([-3, 2, -4]))
    fast = attnpass.torch.compile(Of(ops), args)
    assert torch.equal(fast(*args), ops(*args))


def test_conditions_as_indices() -> None:
    """IREE 3.13's import of these does not end."""

    def ops(x: Any, where: Any) -> Any:
        filled, written = x.clone(), x.clone()
        filled[where] = 1.5
        written[where] = 2 * x[where]
        places = torch.where(where)
        again = x.clone()
        again[places] = 2.5
        return x[where], filled, written, x[x > 0].sum(), places, x[places], again

    _same(Of(ops), torch.randn(2, 6, 4), torch.rand(2, 6) > 0.5)


def test_samples_of_grids() -> None:
    """Of places inside an image, beside it and far outside, and of an image of unknown sizes."""

    def ops(x: Any, grid: Any) -> Any:
        ways = [
            ("bilinear", padding, corners)
            for padding in ("zeros", "border", "reflection")
            for corners in (False, True)
        ]
        ways += [("nearest", "zeros", True), ("nearest", "border", False)]
        ways += [("nearest", "reflection", True)]
        ways += [("bicubic", "zeros", True), ("bicubic", "reflection", False)]
        return tuple(F.grid_sample(x, grid, *way) for way in ways)

    class Unknown(torch.nn.Module):
        def forward(self, x: Any, grid: Any) -> Any:
            return (
                F.grid_sample(x, grid, align_corners=False),
                F.grid_sample(x, grid, padding_mode="border", align_corners=True),
                F.grid_sample(x.half(), grid.half(), align_corners=False),
            )

    x, grid = torch.randn(2, 3, 5, 4), torch.rand(2, 9, 4, 2) * 2 - 1
    grid[:, 3:6] *= 1.3
    grid[:, 6:] *= 3
    _same(Of(ops), x, grid)
    sizes = {2: torch.export.Dim("rows"), 3: torch.export.Dim("columns")}
    fast = attnpass.torch.compile(Unknown(), (x, grid), dynamic_shapes=(sizes, None))
    for image in (x, torch.randn(2, 3, 2, 7)):
        *got, half = fast(image, grid)
        *wanted, _ = Unknown()(image, grid)
        for one, other in zip(got, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        # PyTorch finds places in 16 bits; here they are wide.
        wanted = F.grid_sample(image.half().float(), grid.half().float(), align_corners=False)
        torch.testing.assert_close(half.float(), wanted, rtol=1e-3, atol=1e-3)


def test_splits_in_computed_sizes() -> None:
    """As rows of experts are."""

    def ops(x: Any, counts: Any) -> Any:
        # As transformers checks sizes: the importer has no numbers made of truths.
        torch._check_tensor_all(counts.sum() == 6)
        parts = [2 * part for part in x.split(counts.tolist())]
        rows = torch.arange(6) // 2
        return torch.zeros_like(x).index_add(0, rows, torch.cat(parts)[rows])

    _same(Of(ops), torch.randn(6, 3), torch.tensor([2, 3, 1]))


def test_sorts_that_keep_the_order_of_equals() -> None:
    def ops(x: Any) -> Any:
        down = torch.sort(x, dim=0, descending=True, stable=True)
        return *torch.sort(x, stable=True), *down, torch.argsort(x, dim=1, stable=True)

    _same(Of(ops), torch.randint(0, 4, (30, 40)).float())


def test_einsums_of_routers() -> None:
    """Of three tensors, and of two of which nothing is summed, as GShard spreads tokens."""

    def ops(gates: Any, experts: Any, places: Any) -> Any:
        return (
            torch.einsum("tk,tke,tkc->tec", gates, experts, places),
            torch.einsum("tk,tke->tke", gates, experts),
            torch.einsum("e,tk->ket", experts[0, 0], gates),
        )

    _same(Of(ops), torch.randn(6, 2), torch.randn(6, 2, 5), torch.randn(6, 2, 3))


def test_einsums_and_losses() -> None:
    def ops(x: Any, y: Any, classes: Any) -> Any:
        return (
            *(torch.einsum("bij,bij->b", x, y), torch.einsum("...i,...i", x, y)),
            *(torch.einsum("bii->ib", x[:, :, :6]), torch.einsum("bij->ji", x)),
            *(torch.einsum("bij,bkj->bk", x, y), torch.einsum("b...j,bkj->b...k", x, y)),
            *(torch.einsum("bij,bkj", x, y), torch.einsum("...ij,jk->...ik", x, y[0].mT)),
            F.cross_entropy(x.reshape(-1, 8), classes),
            F.cross_entropy(x.reshape(-1, 8), classes, reduction="sum", label_smoothing=0.1),
            F.cross_entropy(x.mT, classes.view(2, 6), reduction="none"),
        )

    classes = torch.tensor([1, 2, -100, 3] * 3)
    _same(Of(ops), torch.randn(2, 6, 8), torch.randn(2, 6, 8), classes)


def test_convolutions() -> None:
    class Convolutions(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            conv = torch.nn.Conv2d
            self.plain = conv(4, 6, 3)
            self.same = conv(4, 6, (4, 3), padding="same", dilation=(1, 2))
            self.circle = conv(4, 6, 3, padding=(2, 1), padding_mode="circular")
            self.line = torch.nn.Conv1d(4, 4, 4, padding="same", groups=2)
            self.apart = torch.nn.ConvTranspose1d(4, 4, 4, 2, groups=4)
            self.image = torch.nn.ConvTranspose2d(4, 8, 3, (2, 3), 1, (1, 2), 4, dilation=(1, 2))

        def forward(self, x: Any) -> Any:
            circle = F.pad(x, (2, -1, 0, 3), mode="circular")
            mirrored = F.pad(x[0], (2, 3), mode="reflect")
            return (
                mirrored,
                *(self.plain(x[0]), self.same(x), self.same(x[0]), self.circle(x), circle),
                *(self.line(x[:, :, 0]), self.line(x[0, :, 0])),
                *(self.apart(x[:, :, 0]), self.apart(x[0, :, 0]), self.image(x)),
            )

    _same(Convolutions().eval(), torch.randn(2, 4, 8, 8))


@pytest.mark.parametrize("rows", [3, 40])
def test_experts_of_grouped_products(rows: int) -> None:
    """Rows behind the last group are 0; a group may have none."""

    def mixed(x: Any, weights: Any, ends: Any) -> Any:
        return F.grouped_mm(x, weights, offs=ends)

    ends = torch.tensor([rows // 3, rows // 3, rows // 2, rows - 1], dtype=torch.int32)
    x = torch.randn(rows, 16).bfloat16()
    weights = torch.randn(4, 16, 8).bfloat16()
    got = attnpass.torch.compile(Of(mixed), (x, weights, ends))(x, weights, ends)
    wanted = torch.zeros(rows, 8, dtype=torch.double)
    for group, (start, end) in enumerate(zip([0, *ends.tolist()], ends.tolist(), strict=False)):
        wanted[start:end] = x[start:end].double() @ weights[group].double()
    torch.testing.assert_close(got.double(), wanted, rtol=1e-2, atol=1e-2)


def test_attention_of_any_rank_and_batches_that_are_shared() -> None:
    attend = F.scaled_dot_product_attention
    x, y = torch.randn(2, 3, 13, 16), torch.randn(1, 3, 9, 16)

    def shapes(q: Any, k: Any) -> Any:
        return (
            attend(q[0, 0], k[0, 0], k[0, 1]),
            attend(q[0, 0], k[0, 0], k[0, 0], attn_mask=q[0, 0, :, :9]),
            attend(q[0], k[0], k[0], is_causal=True),
            *(attend(q, k, k), attend(k, q, q), attend(q[0, 0], k, k)),
            *(attend(q, k[0], k[0]), attend(q, k[:, :1], k[:, :1])),
            attend(q.repeat(1, 2, 1, 1), k, k, enable_gqa=True),
        )

    _same(Of(shapes), x, y)


def test_attention_of_any_rank_that_was_imported() -> None:
    aot = pytest.importorskip("iree.turbine.aot", reason="no iree-turbine")
    attend = F.scaled_dot_product_attention
    x, y = torch.randn(2, 3, 13, 16), torch.randn(1, 3, 9, 16)

    def shapes(q: Any, k: Any, mask: Any) -> Any:
        return (
            attend(q, k, k, attn_mask=mask),
            attend(q[0], k[0], k[0], attn_mask=mask > 0),
            attend(q[0, 0], k[0, 0], k[0, 1], attn_mask=mask),
            attend(k, q, q, attn_mask=mask.transpose(0, 1)),
            attend(q.repeat(1, 2, 1, 1), q[:, :, :9], q[:, :, :9], mask, enable_gqa=True),
        )

    inputs = (x, y, torch.randn(13, 9))
    fast = attnpass.torch.compile(aot.export(torch.export.export(Of(shapes), inputs)))
    for got, wanted in zip(fast(*inputs), shapes(*inputs), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_rows_that_are_written_by_name_where_that_was_imported() -> None:
    aot = pytest.importorskip("iree.turbine.aot", reason="no iree-turbine")

    def shapes(cache: Any, at: Any, new: Any) -> Any:
        rows = torch.zeros(4, 16).index_add(0, at, new[0, 0])
        half, one = (
            cache.index_add(2, at, new, alpha=0.5),
            cache.index_copy(2, at[0], new[:, :, 1:]),
        )
        return cache.index_copy(2, at, new), cache.index_add(-2, at, new), rows, half, one

    inputs = (torch.randn(2, 3, 13, 16), torch.tensor([3, 1]), torch.randn(2, 3, 2, 16))
    fast = attnpass.torch.compile(aot.export(torch.export.export(Of(shapes), inputs)))
    for got, wanted in zip(fast(*inputs), shapes(*inputs), strict=True):
        torch.testing.assert_close(got, wanted)


def test_a_decoder_whose_mask_is_an_argument() -> None:
    layer = torch.nn.TransformerDecoderLayer(32, 4, 64, batch_first=True)
    model = torch.nn.TransformerDecoder(layer, 1).eval()
    mask = torch.nn.Transformer.generate_square_subsequent_mask(9)
    fast = _same(model, torch.randn(2, 9, 32), torch.randn(2, 7, 32), tgt_mask=mask)
    x, memory = torch.randn(2, 9, 32), torch.randn(2, 7, 32)
    other = torch.randn(9, 9)
    with torch.no_grad():
        wanted = model(x, memory, tgt_mask=other)
    torch.testing.assert_close(fast(x, memory, tgt_mask=other), wanted, rtol=1e-4, atol=1e-5)


def test_a_cache_of_two_names() -> None:
    """As transformers' static cache: a buffer, and a plain tensor of another object."""

    class Held:
        keys: Any

    class Cached(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = Held()
            self.held.keys = torch.randn(1, 2, 8, 4)
            self.register_buffer("keys", self.held.keys, persistent=False)

        def forward(self, x: Any, at: Any) -> Any:
            self.held.keys.index_copy_(2, at, x)
            return F.scaled_dot_product_attention(x, self.held.keys, self.held.keys)

    model = Cached().eval()
    keys = model.keys.clone()
    fast = attnpass.torch.compile(model, (torch.randn(1, 2, 1, 4), torch.tensor([0])))
    for place in range(3):
        x = torch.randn(1, 2, 1, 4)
        keys[:, :, place] = x[:, :, 0]
        wanted = F.scaled_dot_product_attention(x.double(), keys.double(), keys.double())
        got = fast(x, torch.tensor([place]))
        torch.testing.assert_close(got.double(), wanted, rtol=1e-5, atol=1e-6)
    assert torch.equal(model.keys, keys) and torch.equal(model.held.keys, keys)


class Complex(torch.nn.Module):
    """Rotary embedding as Llama's first code has it, and a filter."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(40.0), 1e4 ** -torch.linspace(0, 1, 8))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), False)
        self.few = self.turns[:5].conj()
        self.filter = torch.nn.Parameter(torch.randn(16, 16, dtype=torch.complex64))

    def forward(self, x: Any) -> Any:
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        turned = pairs * self.turns[: x.shape[1]]
        few = torch.view_as_real(pairs[:, :5] * self.few)
        return torch.view_as_real(turned).flatten(2), few, self.filter.abs(), self.filter.real * 2


def test_complex_weights() -> None:
    model, x = Complex().eval(), torch.randn(2, 9, 16)
    for got, wanted in zip(attnpass.torch.compile(model, (x,))(x), model(x), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=2e-6)


def test_encoders_by_their_fast_paths() -> None:
    """Padded keys, a mask of rows and keys, both; weights of keys that are asked for."""
    from attnpass.torch.dynamo import backend

    class Encoders(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = torch.nn.TransformerEncoderLayer
            self.first = layer(32, 4, 48, batch_first=True, activation="gelu", norm_first=True)
            encoder = layer(32, 4, 48, batch_first=True)
            self.encoder = torch.nn.TransformerEncoder(encoder, 1, enable_nested_tensor=False)
            self.attention = torch.nn.MultiheadAttention(32, 4, batch_first=True)

        def forward(self, x: Any, padded: Any, hidden: Any) -> Any:
            one = self.encoder(self.first(x), src_key_padding_mask=padded)
            both = self.encoder(one, mask=hidden, src_key_padding_mask=padded)
            return both, *self.attention(both, both, both, attn_mask=hidden)

    model, x = Encoders().eval(), torch.randn(2, 9, 32)
    padded, hidden = torch.arange(9) >= torch.tensor([[6], [9]]), torch.ones(9, 9).triu(1) > 0
    with torch.no_grad():
        wanted = copy.deepcopy(model).double()(x.double(), padded, hidden)
        got = torch.compile(model, backend=backend, fullgraph=True)(x, padded, hidden)
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=2e-6)


def test_arithmetic_on_sizes() -> None:
    from attnpass.torch.dynamo import backend

    class Sizes(torch.nn.Module):
        def forward(self, x: Any, y: Any, z: Any) -> Any:
            rows, columns, width = x.shape[0], y.shape[0], z.shape[1]
            return (
                torch.arange(rows + columns + z.shape[0] + 1),
                torch.arange(torch.sym_max(rows, columns)) + torch.sym_min(rows, columns),
                x.new_ones(columns % 3 + 1) * rows**2,
                z * width**-0.5,
            )

    fast = torch.compile(Sizes(), backend=backend, dynamic=True)
    for sizes in ((5, 7, 9, 16), (11, 6, 3, 20)):
        given = *(torch.randn(size, 4) for size in sizes[:2]), torch.randn(sizes[2:])
        for got, wanted in zip(fast(*given), Sizes()(*given), strict=True):
            torch.testing.assert_close(got, wanted)


def test_integers_truths_and_sums_of_powers() -> None:
    """What IREE imports for floats alone, and sums of powers of e that no float holds."""

    def ops(u: Any, b: Any, i: Any, t: Any, x: Any) -> Any:
        quotients = (u // -3, u % -3, torch.fmod(u, -3), u // 7, b // -3, b % 5, b @ b.mT, b @ b[0])
        floats = (i.abs() ** 0.5, torch.logit(i), b.abs() ** 2.5, i.nan_to_num(), u.nan_to_num())
        extremes = (*i.cummax(0), *u.cummin(1), *b.cummax(1))
        order = t.argsort(dim=1, stable=True)
        truths = (t.sort(1)[0], t.sort(0, descending=True)[0], order, t**2, t | 8, t ^ 1)
        sums = (x.logcumsumexp(0), x.logcumsumexp(1), (x / 99).logcumsumexp(1))
        narrow = (x.to(torch.int16), x.half().to(torch.int8), x.abs().to(torch.uint8), -b, -u)
        return *quotients, *floats, *extremes, *truths, *sums, *narrow

    levels = torch.tensor([-math.inf, -math.inf, -900.0, 3.0, 700.5, 40.0, 800.25])
    x = torch.stack([levels, levels.flip(0), torch.full((7,), math.inf), levels / 9])
    u = torch.arange(0, 252, 9, dtype=torch.uint8).view(4, 7)
    b, i = u.view(torch.int8), u.long() * 37 - 2000
    finite = x.clamp(-30000, 30000)
    given = (u, b, i, i // 99 % 2 == 0, finite)
    _same(Of(ops), *given)
    _same(Of(lambda x: (x.logcumsumexp(0), x.logcumsumexp(1))), x)


def test_bytes_rolls_and_operators_that_were_imported() -> None:
    """Results of bytes are compared by their bits: the program's have no sign."""
    aot = pytest.importorskip("iree.turbine.aot", reason="no iree-turbine")

    def shapes(pixels: Any, signed: Any, x: Any, y: Any) -> Any:
        wide = (pixels / 255, pixels * 0.5, pixels > 127, pixels.clamp(3.5, 100.7), pixels.sum())
        narrow = (pixels + 200, pixels - 200, pixels // 3, pixels % 7, -pixels, pixels.amax(1))
        most, sorted_ = pixels.max(1), pixels.sort(1)
        narrow += (pixels.any(), pixels.all(1), pixels.any(0, True))
        bytes_ = (*narrow, signed // 3, signed % 3, *most, *sorted_, -signed, signed | 6, signed**3)
        cast = ((x * 40.5 + 100).to(torch.uint8), (x * 16.5).to(torch.int8), pixels ^ 85)
        rolls = (x.roll(4, 0), x.roll(-3, 0), x.roll((7, -9), (0, 1)), x.roll(20), x.roll(-1, 1))
        powers = (x**3, x**64, x | 6, x ^ 6, x ^ y, x << 2, x << y, torch.rsub(x, y))
        return *wide, *bytes_, *cast, x.clamp(-1.5, 2.5), *rolls, *powers

    pixels = torch.arange(0, 256, 17, dtype=torch.uint8).view(2, 8).flip(1)
    signed = torch.arange(-128, 128, 16).to(torch.int8)
    inputs = (pixels, signed, torch.arange(15).view(3, 5) - 7, torch.arange(15).view(3, 5) % 4)
    fast = attnpass.torch.compile(aot.export(torch.export.export(Of(shapes), inputs)))
    for got, wanted in zip(fast(*inputs), shapes(*inputs), strict=True):
        same = wanted.view(torch.int8) if wanted.dtype == torch.uint8 else wanted
        torch.testing.assert_close(got.view(same.dtype) if same is not wanted else got, same)


@pytest.mark.parametrize("is_decomposed", [False, True])
def test_squeezes_norms_and_windows_that_were_imported(is_decomposed: bool) -> None:
    """As PyTorch exports them, and as its `run_decompositions()` writes them."""
    aot = pytest.importorskip("iree.turbine.aot", reason="no iree-turbine")

    def shapes(x: Any, image: Any, mean: Any, grid: Any) -> Any:
        squeezed = x.squeeze((0, 2)), x.squeeze((1, -2)), x.squeeze((1, 3))
        means = F.batch_norm(image, mean, mean * mean + 1, mean, mean)
        norms = F.instance_norm(image), F.instance_norm(image, weight=mean, bias=mean)
        plain = F.batch_norm(image, mean, mean * mean + 1)
        windows = F.avg_pool1d(image[0, 0], 2), F.avg_pool2d(image[0], 3, 2, 1)
        windows += F.max_pool2d(image[0], 2), F.kl_div(mean, mean.relu(), reduction="sum")
        samples = F.grid_sample(image, grid, align_corners=False)
        return *squeezed, means, *norms, plain, *windows, samples

    inputs = (
        *(torch.randn(1, 3, 1, 4), torch.randn(2, 3, 5, 4), torch.randn(3)),
        torch.rand(2, 3, 3, 2) - 0.5,
    )
    program = torch.export.export(Of(shapes), inputs)
    fast = attnpass.torch.compile(
        aot.export(program.run_decompositions() if is_decomposed else program)
    )
    for got, wanted in zip(fast(*inputs), shapes(*inputs), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
