"""GELU by tanh, as PyTorch's importers write it, has an error of its type's size."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import CPU, run_module

import attnpass

TEXT = """
func.func @main(%x: !torch.vtensor<[?,512],KIND>) -> !torch.vtensor<[?,512],KIND> {
  %by = torch.constant.str "tanh"
  %r = torch.aten.gelu %x, %by : !torch.vtensor<[?,512],KIND>, !torch.str -> !torch.vtensor<[?,512],KIND>
  return %r : !torch.vtensor<[?,512],KIND>
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("kind", "level", "bound"), [("f32", "O0", 2e-6), ("f32", "O2", 2e-6), ("f16", "O2", 4e-3)]
)
def test_gelu_by_tanh(kind: str, level: str, bound: float) -> None:
    flags = [*CPU, f"--iree-opt-level={level}"]
    program = attnpass.compile_str(TEXT.replace("KIND", kind), extra_args=flags)
    assert program
    x = np.linspace(-6, 6, 1024).astype({"f32": np.float32, "f16": np.float16}[kind])
    wide = x.astype(np.float64)
    wanted = wide / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    got = run_module(program, [x.reshape(2, 512)]).astype(np.float64).reshape(-1)
    assert np.abs(got - wanted).max() < bound
