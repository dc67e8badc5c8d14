"""attn-configure on llvm-cpu: right numbers with the configuration attached."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import compile_text, rel_error, run_module

from attnpass import Report


def text(batch: int, rows: int, keys: int, head: int, mask: bool) -> str:
    """One attention in f32, with an additive mask or without."""
    q, k = f"tensor<{batch}x{rows}x{head}xf32>", f"tensor<{batch}x{keys}x{head}xf32>"
    m = f"tensor<{batch}x{rows}x{keys}xf32>"
    maps = ["(b, m, k1)", "(b, k2, k1)", "(b, k2, n)", "()", *(["(b, m, k2)"] if mask else [])]
    shown = ", ".join(f"affine_map<(b, m, n, k1, k2) -> {x}>" for x in [*maps, "(b, m, n)"])
    return f"""
func.func @main(%q: {q}, %k: {k}, %v: {k}{f", %m: {m}" if mask else ""}) -> {q} {{
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : {q}
  %r = iree_linalg_ext.attention <indexing_maps = [{shown}]>
      ins(%q, %k, %v, %scale{", %m" if mask else ""} : {q}, {k}, {k}, f32{f", {m}" if mask else ""})
      outs(%e : {q}) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> {q}
  return %r : {q}
}}
"""


@pytest.mark.parametrize(
    ("batch", "rows", "keys", "head", "mask"),
    [
        (4, 64, 64, 64, False),
        (3, 100, 52, 32, True),
        (4, 1, 64, 64, False),
        (1, 64, 64, 64, True),
        (1, 1, 64, 64, False),
        (2, 4, 512, 48, False),
        # IREE 3.13's own configuration tiles k1 from head dim 256 on: relative error 0.7.
        (2, 64, 64, 256, False),
        (2, 9, 77, 128, True),
    ],
)
def test_numbers(batch: int, rows: int, keys: int, head: int, mask: bool) -> None:
    generator = np.random.default_rng(3)
    shapes = [(batch, rows, head), (batch, keys, head), (batch, keys, head)]
    shapes += [(batch, rows, keys)] if mask else []
    inputs = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    report = Report()
    source = text(batch, rows, keys, head, mask)
    vmfb = compile_text(source, mode="cost", pipeline="attn-configure", report=report)
    q, k, v = (array.astype(np.float64) for array in inputs[:3])
    scores = q @ k.transpose(0, 2, 1) * 0.25 + (inputs[3] if mask else 0.0)
    weights = np.exp(scores - scores.max(-1, keepdims=True))

    assert any("is configured for llvm-cpu" in note for note in report.notes)
    wanted = weights / weights.sum(-1, keepdims=True) @ v
    assert rel_error(run_module(vmfb, inputs), wanted) < 1e-5


def test_a_configured_model_keeps_its_numbers() -> None:
    """Twelve rows: neither a multiple of the workgroup's nor of a power of two."""
    inputs = [np.random.default_rng(5).standard_normal((2, 12, 16)).astype(np.float32)] * 3
    source = text(2, 12, 12, 16, False)
    plain = run_module(compile_text(source, mode="never"), inputs)
    configured = run_module(compile_text(source, mode="cost", pipeline="attn-configure"), inputs)
    assert rel_error(configured, plain) < 1e-5
