# ruff: noqa: E501  (MLIR lines)
"""What stands behind attention: no dispatch of its own, and the same numbers."""

from __future__ import annotations

from functools import partial

import pytest
from helpers import MAPS, compile_text
from interpreter import meaning

from attnpass.driver.testing import check
from bench.models.flow import read_flow

# Two sequences of 12 rows, four heads of 16.
RANK_3 = (
    MAPS
    + """
func.func @main(%q: tensor<8x12x16xf32>, %k: tensor<8x12x16xf32>, %v: tensor<8x12x16xf32>, %w: tensor<64x48xf32>, %gate: tensor<24x64xf32>) -> tensor<RESULT> {
  %scale = arith.constant 0.25 : f32
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x12x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x12x16xf32>, tensor<8x12x16xf32>, tensor<8x12x16xf32>, f32) outs(%e : tensor<8x12x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x12x16xf32>
"""
)
RANK_4 = RANK_3.replace("(b, ", "(b, h, ").replace("8x12x16", "2x4x12x16")
HEADS = "  %h = tensor.expand_shape %r [[0, 1], [2], [3]] output_shape [2, 4, 12, 16] : tensor<8x12x16xf32> into tensor<2x4x12x16xf32>\n"
TRANSPOSED = """\
  %te = tensor.empty() : tensor<2x12x4x16xf32>
  %t = linalg.transpose ins(%h : tensor<2x4x12x16xf32>) outs(%te : tensor<2x12x4x16xf32>) permutation = [0, 2, 1, 3]
"""
JOINED = "  %j = tensor.collapse_shape %t [[0, 1], [2, 3]] : tensor<2x12x4x16xf32> into tensor<24x64xf32>\n"
PROJECTED = """\
  %pe = tensor.empty() : tensor<24x48xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<24x48xf32>) -> tensor<24x48xf32>
  %p = linalg.matmul ins(%j, %w : tensor<24x64xf32>, tensor<64x48xf32>) outs(%pf : tensor<24x48xf32>) -> tensor<24x48xf32>
"""
GATED = """\
  %ge = tensor.empty() : tensor<24x64xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%j, %gate : tensor<24x64xf32>, tensor<24x64xf32>) outs(%ge : tensor<24x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<24x64xf32>
"""
SEQUENCE_FIRST = """\
  %te = tensor.empty() : tensor<12x8x16xf32>
  %t = linalg.transpose ins(%r : tensor<8x12x16xf32>) outs(%te : tensor<12x8x16xf32>) permutation = [1, 0, 2]
  %c = tensor.collapse_shape %t [[0], [1, 2]] : tensor<12x8x16xf32> into tensor<12x128xf32>
  %x = tensor.expand_shape %c [[0], [1, 2]] output_shape [12, 2, 64] : tensor<12x128xf32> into tensor<12x2x64xf32>
  %j = tensor.collapse_shape %x [[0, 1], [2]] : tensor<12x2x64xf32> into tensor<24x64xf32>
"""
COMPUTED = """\
  %ne = tensor.empty() : tensor<8x12x16xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r : tensor<8x12x16xf32>) outs(%ne : tensor<8x12x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.tanh %a : f32
    linalg.yield %m : f32
  } -> tensor<8x12x16xf32>
"""
# Heads and head dim are both summed: nothing is transposed, and nothing needs to be.
EINSUM = """\
  %w3 = tensor.expand_shape %w [[0, 1], [2]] output_shape [4, 16, 48] : tensor<64x48xf32> into tensor<4x16x48xf32>
  %pe = tensor.empty() : tensor<2x12x48xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x12x48xf32>) -> tensor<2x12x48xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(b, s, e, h, d) -> (b, h, s, d)>, affine_map<(b, s, e, h, d) -> (h, d, e)>, affine_map<(b, s, e, h, d) -> (b, s, e)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%r, %w3 : tensor<2x4x12x16xf32>, tensor<4x16x48xf32>) outs(%pf : tensor<2x12x48xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %u = arith.addf %m, %o : f32
    linalg.yield %u : f32
  } -> tensor<2x12x48xf32>
"""

# name -> (attention and what stands behind it, what is returned, its type, dispatches)
TAILS = {
    "projected": (RANK_3 + HEADS + TRANSPOSED + JOINED + PROJECTED, "p", "24x48xf32", 2),
    "returned": (RANK_3 + HEADS + TRANSPOSED + JOINED, "j", "24x64xf32", 1),
    "heads apart": (
        RANK_4 + TRANSPOSED.replace("%h", "%r") + JOINED + PROJECTED,
        "p",
        "24x48xf32",
        2,
    ),
    "gated": (RANK_3 + HEADS + TRANSPOSED + JOINED + GATED, "g", "24x64xf32", 1),
    "sequence first": (RANK_3 + SEQUENCE_FIRST + PROJECTED, "p", "24x48xf32", 2),
    "computed before": (
        RANK_3 + COMPUTED + HEADS.replace("%r", "%n") + TRANSPOSED + JOINED + PROJECTED,
        "p",
        "24x48xf32",
        2,
    ),
    "einsum": (RANK_4 + EINSUM, "p", "2x12x48xf32", 2),
}


def text_of(name: str) -> str:
    text, value, kind, _ = TAILS[name]
    return f"{text.replace('RESULT', kind)}  return %{value} : tensor<{kind}>\n}}\n"


@pytest.mark.parametrize("mode", ["cost", "always"])
@pytest.mark.parametrize("name", TAILS)
def test_nothing_behind_attention_is_launched(name: str, mode: str) -> None:
    text = compile_text(text_of(name), mode=mode, flags=["--compile-to=flow"]).decode()
    flow = read_flow(text)
    assert len(flow.dispatches) == TAILS[name][3]
    assert not flow.moving


@pytest.mark.parametrize("name", TAILS)
def test_numbers(name: str) -> None:
    text = text_of(name)
    check(text, tolerance=1e-6, reference=partial(meaning, text))
