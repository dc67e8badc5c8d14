"""Sorts on a CPU are PyTorch's stable ones, with ties, NaN, and rows of any length."""

# pyright: reportMissingImports=false

from __future__ import annotations

import pytest

import attnpass
from attnpass import Report

torch = pytest.importorskip("torch")


class Sorts(torch.nn.Module):
    def forward(self, x, y, z, v, u):
        short, least = x[:, :63], y[:40]
        first = torch.sort(u, dim=-1, stable=True, descending=True)
        return (
            *(part[:, :50] for part in first),
            *torch.sort(short, dim=-1, stable=True),
            *torch.sort(short.half(), dim=-1, stable=True, descending=True),
            torch.argsort(least, dim=0, stable=True),
            torch.argsort(least[:, 0], stable=True, descending=True),
            *torch.topk(v, 5, -1),
            *torch.sort(x, dim=-1, stable=True),
            *torch.sort(x, dim=-1, stable=True, descending=True),
            torch.argsort(y, dim=0, stable=True),
            *torch.topk(z, 300, -1),
        )


@pytest.mark.parametrize(("level", "unknown"), [("O0", False), ("O2", True)])
def test_sorts(level: str, unknown: bool) -> None:
    torch.manual_seed(0)
    # Few different numbers; with NaN and infinities.
    x = torch.randint(-40, 40, (3, 700)).float() / 8
    x[0, 13], x[1, ::50], x[2, 7], x[2, 9] = torch.nan, torch.nan, torch.inf, -torch.inf
    y, z = torch.randint(-(1 << 40), 1 << 40, (513, 2)), torch.randperm(1200).float().view(2, 600)
    y[100:200] = y[200:300]
    # Zeros of both signs are equal; the least and the largest whole number.
    x[:, :20:3], x[:, 1:20:3] = 0.0, -0.0
    y[3], y[7], y[8], y[20:23] = -(1 << 63), (1 << 63) - 1, 1 - (1 << 63), -(1 << 63)
    v = torch.randperm(5002).float().view(2, 2501) - 3000
    v[0, 17], v[0, 2000], v[1, 9], v[1, 1200:] = torch.nan, torch.inf, -torch.inf, -torch.inf
    # Few of many, and equal ones: the first of all, in runs that are cut again.
    u = torch.randint(-40, 40, (2, 30011)).float() / 8
    u[0, 29_000:], u[1, 3::97] = 4.875, torch.nan
    rows = torch.export.Dim("rows", max=64)
    shapes = ({0: rows}, None, None, None, None) if unknown else None
    report, flags = Report(), [f"--iree-opt-level={level}"]
    compiled = attnpass.torch.compile(
        Sorts(),
        (x, y, z, v, u),
        device="cpu",
        dynamic_shapes=shapes,
        report=report,
        extra_args=flags,
    )
    if unknown:
        x = torch.cat([x, x.flip(0, 1), -x])
    assert not report.found("fallback")
    for place, (got, wanted) in enumerate(
        zip(compiled(x, y, z, v, u), Sorts()(x, y, z, v, u), strict=True)
    ):
        assert torch.equal(got.nan_to_num(999.0), wanted.nan_to_num(999.0)), place
