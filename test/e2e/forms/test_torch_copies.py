"""Slices and pieces of models are read and written in place, as PyTorch has them in float64."""

# pyright: reportMissingImports=false

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from helpers import compile_text, rel_error, run_module

from attnpass import Report

torch = pytest.importorskip("torch")
pytest.importorskip("iree.turbine", reason="iree-turbine is not installed")

from bench.models.blocks import RMSNorm, rotated_pairs  # noqa: E402
from bench.models.programs import fill, text_of  # noqa: E402


class Latents(torch.nn.Module):
    """What DeepSeek's cache gets: normed latents beside a part that is rotated, of one product."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.norm = torch.nn.Linear(48, 40, bias=False), RMSNorm(32)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        latents, rotary = self.project(x).split([32, 8], -1)
        return torch.cat((self.norm(latents), rotated_pairs(rotary, cos, sin)), -1)


@pytest.mark.parametrize("level", ["O0", "O2", "O3"])
@pytest.mark.parametrize("rows", [1, 5])
def test_latents(rows: int, level: str) -> None:
    torch.manual_seed(0)
    block = Latents().eval().requires_grad_(False)
    fill(block)
    given = [torch.randn(2, rows, 48), torch.randn(rows, 8), torch.randn(rows, 8)]
    report = Report()
    text = text_of(block, given, [None] * 3)
    flags = ["--iree-input-type=torch", f"--iree-opt-level={level}"]
    program = compile_text(text, mode="cost", flags=flags, report=report)
    said = [one.reason for one in report.found("fitted")]
    assert any("writes that in place" in one for one in said)
    if rows == 1:
        assert any("read that in place" in one for one in said)
    weights = [weight.numpy() for weight in block.parameters()]
    got = run_module(program, [*(np.asarray(one) for one in given), *weights])
    wanted = copy.deepcopy(block).double()(*(one.double() for one in given))
    assert rel_error(got, wanted.numpy()) < 1e-6
