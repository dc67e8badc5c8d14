"""Heads that are sliced out of a packed tensor are the right ones, at each level."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_text, compiled_at, pairwise, rel_error, run_module, symbol

from attnpass import Report

_KINDS: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
_ERRORS = {"f32": 1e-6, "f16": 1e-3, "bf16": 8e-3}
_ROWS, _HEADS, _TAKEN, _FIRST, _WIDE = 9, 6, 2, 3, 8


def _text(kind: str, turned: bool, unknown: bool) -> str:
    """Two heads of six, behind a transpose if `turned`, times a row of cosines each."""
    rows = "?" if unknown else str(_ROWS)
    taken = _TAKEN * _WIDE
    packed, columns = f"tensor<{rows}x{_HEADS * _WIDE}x{kind}>", f"tensor<{rows}x{taken}x{kind}>"
    heads, lines = f"tensor<{rows}x{_TAKEN}x{_WIDE}x{kind}>", f"tensor<{rows}x{_WIDE}x{kind}>"
    back = f"tensor<{_TAKEN}x{rows}x{_WIDE}x{kind}>"
    result, loops = (back, "(h, s, d)") if turned else (heads, "(s, h, d)")
    count = "(%rows)" if unknown else "()"
    turn = f"""%read = linalg.transpose ins(%heads : {heads}) outs(%space : {back})
    permutation = [1, 0, 2]"""
    same = f"%read = tensor.cast %heads : {heads} to {heads}"
    return f"""
func.func @main(%x: {packed}, %cos: {lines}) -> {result} {{
  %first = arith.constant 0 : index
  %rows = tensor.dim %x, %first : {packed}
  %part = tensor.extract_slice %x[0, {_FIRST * _WIDE}] [{"%rows" if unknown else _ROWS}, {taken}]
    [1, 1] : {packed} to {columns}
  %heads = tensor.expand_shape %part [[0], [1, 2]]
    output_shape [{"%rows" if unknown else _ROWS}, {_TAKEN}, {_WIDE}] : {columns} into {heads}
  %space = tensor.empty{count} : {result}
  {turn if turned else same}
  %r = linalg.generic {{indexing_maps = [affine_map<{loops} -> {loops}>,
      affine_map<{loops} -> (s, d)>, affine_map<{loops} -> {loops}>],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%read, %cos : {result}, {lines}) outs(%space : {result}) {{
  ^bb0(%a: {kind}, %b: {kind}, %out: {kind}):
    %c = arith.mulf %a, %b : {kind}
    linalg.yield %c : {kind}
  }} -> {result}
  return %r : {result}
}}
"""


CASES = pairwise(_KINDS, [False, True], [False, True], ["O0", "O2", "O3"])


@cache
def _compiled(level: str) -> tuple[bytes, Report]:
    return compiled_at(level, CASES, _text)


@pytest.mark.parametrize(("kind", "turned", "unknown", "level"), CASES)
def test_heads(kind: str, turned: bool, unknown: bool, level: str) -> None:
    random, name = np.random.default_rng(0), symbol(kind, turned, unknown, level)
    x = random.standard_normal((_ROWS, _HEADS * _WIDE)).astype(_KINDS[kind])
    cos = random.standard_normal((_ROWS, _WIDE)).astype(_KINDS[kind])
    program, report = _compiled(level)
    told = [one for one in report.found("fitted") if one.op.function.startswith(name)]
    assert any("takes whole heads" in one.reason for one in told)
    got = run_module(program, [x, cos], name)
    heads = x.astype(float).reshape(_ROWS, _HEADS, _WIDE)[:, _FIRST : _FIRST + _TAKEN]
    wanted = heads * cos.astype(float)[:, None]
    assert rel_error(got, wanted.transpose(1, 0, 2) if turned else wanted) < _ERRORS[kind]


# Heads of one of three that are packed, times their sums of squares: all three are transposed, and
# one is taken then.
_TURNED = """
#heads = affine_map<(h, s, d) -> (h, s, d)>
#rows = affine_map<(h, s, d) -> (h, s)>
func.func @main(%x: tensor<9x96xf32>) -> tensor<4x5x8xf32> {{
  %cut = tensor.expand_shape %x [[0], [1, 2, 3]] output_shape [9, 3, 4, 8]
    : tensor<9x96xf32> into tensor<9x3x4x8xf32>
  %to = tensor.empty() : tensor<3x4x9x8xf32>
  %turned = linalg.transpose ins(%cut : tensor<9x3x4x8xf32>) outs(%to : tensor<3x4x9x8xf32>)
    permutation = [1, 2, 0, 3]
  %one = tensor.extract_slice %turned[{which}, 0, 2, 0] [1, 4, 5, 8] [1, 1, 1, 1]
    : tensor<3x4x9x8xf32> to tensor<1x4x5x8xf32>
  %k = tensor.collapse_shape %one [[0, 1], [2], [3]] : tensor<1x4x5x8xf32> into tensor<4x5x8xf32>
  %zero = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<4x5xf32>
  %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<4x5xf32>) -> tensor<4x5xf32>
  %sum = linalg.generic {{indexing_maps = [#heads, #rows],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%k : tensor<4x5x8xf32>) outs(%start : tensor<4x5xf32>) {{
  ^bb0(%v: f32, %out: f32):
    %w = arith.mulf %v, %v : f32
    %z = arith.addf %out, %w : f32
    linalg.yield %z : f32
  }} -> tensor<4x5xf32>
  %space = tensor.empty() : tensor<4x5x8xf32>
  %r = linalg.generic {{indexing_maps = [#heads, #rows, #heads],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%k, %sum : tensor<4x5x8xf32>, tensor<4x5xf32>) outs(%space : tensor<4x5x8xf32>) {{
  ^bb0(%v: f32, %s: f32, %out: f32):
    %w = arith.mulf %v, %s : f32
    linalg.yield %w : f32
  }} -> tensor<4x5x8xf32>
  return %r : tensor<4x5x8xf32>
}}
"""


@pytest.mark.parametrize(("which", "level"), [(0, "O0"), (1, "O2"), (2, "O3")])
def test_slices_are_transposed_alone(which: int, level: str) -> None:
    x = np.random.default_rng(which).standard_normal((9, 96)).astype(np.float32)
    report, flags = Report(), [f"--iree-opt-level={level}"]
    program = compile_text(_TURNED.format(which=which), mode="cost", flags=flags, report=report)
    assert any("is transposed alone" in one.reason for one in report.found("fitted"))
    heads = x.astype(float).reshape(9, 3, 4, 8)[2:7, which].transpose(1, 0, 2)
    wanted = heads * (heads**2).sum(-1, keepdims=True)
    assert rel_error(run_module(program, [x]), wanted) < 1e-5
