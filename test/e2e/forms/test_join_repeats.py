"""Products with weights that are repeated along several dims, against float64, at each level."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import compiled_at, pairwise, rel_error, run_module, symbol

from attnpass import Report

_KINDS: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
_ERRORS = {"f32": 1e-6, "f16": 1e-3, "bf16": 8e-3}
_IMAGES, _LINES, _ROWS, _DEEP, _WIDE = 2, 3, 5, 16, 24


def _text(kind: str, by_columns: bool, unknown: bool) -> str:
    """A linear layer on rows of images, as PyTorch's importer writes it; weights lie as (n, k) if
    `by_columns`, and as (k, n) else."""
    images, joined = ("?", "?") if unknown else (_IMAGES, _IMAGES * _LINES)
    size, count = ("(%images)", "(%rows)") if unknown else ("()", "()")
    given = f"tensor<{_WIDE}x{_DEEP}x{kind}>" if by_columns else f"tensor<{_DEEP}x{_WIDE}x{kind}>"
    weights = "(b, h, k, n) -> (n, k)" if by_columns else "(b, h, k, n) -> (k, n)"
    right = f"tensor<{joined}x{_DEEP}x{_WIDE}x{kind}>"
    rows, many = f"tensor<{joined}x{_ROWS}x{_DEEP}x{kind}>", f"{joined}x{_ROWS}x{_WIDE}"
    copies = f"{_LINES}x{_DEEP}x{_WIDE}x{kind}>"
    return f"""
func.func @main(%x: tensor<{images}x{_LINES}x{_ROWS}x{_DEEP}x{kind}>, %w: {given})
    -> tensor<{many}xf32> {{
  %first = arith.constant 0 : index
  %images = tensor.dim %x, %first : tensor<{images}x{_LINES}x{_ROWS}x{_DEEP}x{kind}>
  %lines = arith.constant {_LINES} : index
  %rows = arith.muli %images, %lines : index
  %zero = arith.constant 0.0 : f32
  %space = tensor.empty{size} : tensor<{images}x{copies}
  %copies = linalg.generic {{indexing_maps = [affine_map<{weights}>,
      affine_map<(b, h, k, n) -> (b, h, k, n)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%w : {given}) outs(%space : tensor<{images}x{copies}) {{
  ^bb0(%a: {kind}, %out: {kind}):
    linalg.yield %a : {kind}
  }} -> tensor<{images}x{copies}
  %left = tensor.collapse_shape %x [[0, 1], [2], [3]]
    : tensor<{images}x{_LINES}x{_ROWS}x{_DEEP}x{kind}> into {rows}
  %right = tensor.collapse_shape %copies [[0, 1], [2], [3]]
    : tensor<{images}x{copies} into {right}
  %sums = tensor.empty{count} : tensor<{many}xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%sums : tensor<{many}xf32>) -> tensor<{many}xf32>
  %product = linalg.batch_matmul ins(%left, %right : {rows}, {right})
    outs(%zeros : tensor<{many}xf32>) -> tensor<{many}xf32>
  return %product : tensor<{many}xf32>
}}
"""


CASES = pairwise(_KINDS, [False, True], [False, True], ["O0", "O2", "O3"])


@cache
def _compiled(level: str) -> tuple[bytes, Report]:
    return compiled_at(level, CASES, _text)


@pytest.mark.parametrize(("kind", "by_columns", "unknown", "level"), CASES)
def test_weights_of_images(kind: str, by_columns: bool, unknown: bool, level: str) -> None:
    random, name = np.random.default_rng(0), symbol(kind, by_columns, unknown, level)
    x = random.standard_normal((_IMAGES, _LINES, _ROWS, _DEEP)).astype(_KINDS[kind])
    w = random.standard_normal((_DEEP, _WIDE)).astype(_KINDS[kind])
    program, report = _compiled(level)
    found = [one for one in report.found("fitted") if one.op.function.startswith(name)]
    told = [record.reason for record in found]
    assert any("repeats along one dim" in reason for reason in told)
    assert any("reads what matrices of few rows share" in reason for reason in told)
    got = run_module(program, [x, np.ascontiguousarray(w.T) if by_columns else w], name)
    wanted = (x.astype(float) @ w.astype(float)).reshape(got.shape)
    assert rel_error(got, wanted) < _ERRORS[kind]
