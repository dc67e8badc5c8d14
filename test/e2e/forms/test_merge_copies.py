"""What is written and read in place of a copy is right, at each level."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_text, rel_error, run_module

from attnpass import Report

_KINDS: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
_ERRORS = {"f32": 1e-6, "f16": 1e-3, "bf16": 1e-2}
_WIDE = 24

# The square of some columns beside others, as a single-stream block of Flux has GELU of a part of a
# projection beside attention's result: whole rows of `first` columns and of the rest.
_JOINED = """
#all = affine_map<(b, s, c) -> (b, s, c)>
func.func @main(%x: tensor<2x7x{all}x{kind}>, %a: tensor<2x7x{first}x{kind}>)
    -> tensor<2x7x{sum}x{kind}> {{
  %part = tensor.extract_slice %x[0, 0, 16] [2, 7, {wide}] [1, 1, 1]
    : tensor<2x7x{all}x{kind}> to tensor<2x7x{wide}x{kind}>
  %space = tensor.empty() : tensor<2x7x{wide}x{kind}>
  %square = linalg.generic {{indexing_maps = [#all, #all],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%part : tensor<2x7x{wide}x{kind}>) outs(%space : tensor<2x7x{wide}x{kind}>) {{
  ^bb0(%v: {kind}, %out: {kind}):
    %w = arith.mulf %v, %v : {kind}
    linalg.yield %w : {kind}
  }} -> tensor<2x7x{wide}x{kind}>
  %both = tensor.concat dim(2) %a, %square
    : (tensor<2x7x{first}x{kind}>, tensor<2x7x{wide}x{kind}>) -> tensor<2x7x{sum}x{kind}>
  return %both : tensor<2x7x{sum}x{kind}>
}}
"""


@pytest.mark.parametrize(("kind", "level"), [*zip(_KINDS, ["O0", "O2", "O3"], strict=False)])
def test_pieces_are_written_in_place(kind: str, level: str) -> None:
    random, report = np.random.default_rng(0), Report()
    x = random.standard_normal((2, 7, 16 + _WIDE)).astype(_KINDS[kind])
    a = random.standard_normal((2, 7, 8)).astype(_KINDS[kind])
    text = _JOINED.format(kind=kind, all=16 + _WIDE, first=8, wide=_WIDE, sum=8 + _WIDE)
    flags = [f"--iree-opt-level={level}"]
    program = compile_text(text, mode="cost", flags=flags, report=report)
    assert any("writes that in place" in one.reason for one in report.found("fitted"))
    wanted = np.concatenate([a.astype(float), x[..., 16:].astype(float) ** 2], -1)
    assert rel_error(run_module(program, [x, a]), wanted) < _ERRORS[kind]
