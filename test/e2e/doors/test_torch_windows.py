"""Windows along a dim, as local attention and sound have them: numbers of PyTorch's, by lines."""

# pyright: reportMissingImports=false

from __future__ import annotations

import pytest
from helpers import rel_error

import attnpass
from attnpass import Report

torch = pytest.importorskip("torch")


def _scores(x):
    """Of chunks of 8 rows with the keys of three."""
    keys = torch.nn.functional.pad(x, (0, 0, 8, 8)).unfold(1, 24, 8)
    return torch.einsum("bcqd,bcdk->bcqk", x.reshape(2, -1, 8, x.shape[-1]), keys)


def _chunks(x):
    """Longformer's, that overlap by half."""
    x = x.reshape(2, 5, 8, 16)
    size, stride = list(x.shape), list(x.stride())
    size[1], stride[1] = 2 * size[1] - 1, stride[1] // 2
    return x.as_strided(size, stride) * 2


# By what is read.
WINDOWS = (
    lambda x: x.unfold(1, 12, 4),
    lambda x: x.unfold(1, 7, 3).transpose(-1, -2),
    lambda x: x.unfold(2, 5, 3) * 2,
    lambda x: x.unfold(1, 10, 5).sum(-1),
    lambda x: x.unfold(1, 3, 7),
    _scores,
)
# Of known sizes alone.
STRIDED = (
    _chunks,
    lambda x: x.as_strided((2, 7, 3, 16), (640, 96, 16, 1)),
    lambda x: x.as_strided((3, 4, 16), (16, 48, 1)) + 1,
    lambda x: x.as_strided((30, 20), (1, 2)),
)


class Windows(torch.nn.Module):
    def __init__(self, each) -> None:
        super().__init__()
        self.each = each

    def forward(self, x):
        return tuple(one(x) for one in self.each)


@pytest.mark.parametrize(
    ("level", "kind", "is_open"),
    [("O0", "float16", False), ("O2", "float32", True), ("O3", "bfloat16", False)],
)
def test_windows(level: str, kind: str, is_open: bool) -> None:
    torch.manual_seed(0)
    model, report = Windows(WINDOWS if is_open else (*WINDOWS, *STRIDED)).eval(), Report()
    x = torch.randn(2, 40, 16).to(getattr(torch, kind))
    rows = 8 * torch.export.Dim("eighths", min=3, max=64)
    compiled = attnpass.torch.compile(
        model,
        (x,),
        device="cpu",
        dynamic_shapes=({}, {1: rows})[1:] if is_open else None,
        report=report,
        extra_args=[f"--iree-opt-level={level}"],
    )
    if is_open:
        x = torch.cat([x, x[:, :24]], 1)
    results, wanted = compiled(x), model(x.double())
    assert not report.found("fallback")
    said = [one for one in report.found("fitted") if one.pass_name == "attn-window-lines"]
    # Windows apart are a view of rows.
    assert len(said) >= len(WINDOWS) - 1
    bound = {"float32": 2e-6, "bfloat16": 8e-3, "float16": 1e-3}[kind]
    for place, (result, right) in enumerate(zip(results, wanted, strict=True)):
        assert result.shape == right.shape
        assert rel_error(result.double().numpy(), right.numpy()) < bound, place
