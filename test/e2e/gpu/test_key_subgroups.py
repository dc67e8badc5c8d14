"""Attention that IREE gives more subgroups along the keys than lanes there, on CUDA."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_module import lowered, run_gpu_module
from key_subgroups import attention, inputs, wanted


@pytest.mark.parametrize(("element", "machine"), [("bf16", "sm_90"), ("f16", "sm_80")])
def test_numbers(element: str, machine: str) -> None:
    flags = ["--iree-hal-target-device=cuda", f"--iree-cuda-target={machine}"]
    given = inputs(element)
    (got,) = run_gpu_module(lowered(attention(element), flags, mode="never"), given)
    right = wanted(given)
    error = np.linalg.norm(got.astype(np.float64) - right) / np.linalg.norm(right)
    assert error < 2e-2
