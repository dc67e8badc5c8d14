"""Masks, K and V that heads share, read without copies: right numbers, and no copies."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from helpers import MAPS, compile_text, rel_error, run_module

from attnpass import Report

MAPS = (
    MAPS
    + """
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#abc = affine_map<(a, b, c) -> (a, b, c)>
#abcd = affine_map<(a, b, c, d) -> (a, b, c, d)>
#abcde = affine_map<(a, b, c, d, e) -> (a, b, c, d, e)>
#repeat = affine_map<(a, b, c, d, e) -> (a, b, c, e)>
#head = affine_map<(a, b, c, d) -> (a, 0, c, d)>
#key = affine_map<(a, b, c, d) -> (a, d)>
"""
)
THREE = '["parallel", "parallel", "parallel"]'
FOUR = '["parallel", "parallel", "parallel", "parallel"]'
FIVE = '["parallel", "parallel", "parallel", "parallel", "parallel"]'

# What makes %mask of (8, ROWS, 40) for 2 sequences of 4 heads; what the argument %x is.
CAUSAL = f"""
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<8xROWSx40xf32>
  %mask = linalg.generic {{indexing_maps = [#abc], iterator_types = {THREE}}}
      outs(%e : tensor<8xROWSx40xf32>) {{
  ^bb0(%o: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi sge, %i, %j : index
    %t = arith.select %c, %zero, %low : f32
    linalg.yield %t : f32
  }} -> tensor<8xROWSx40xf32>"""
SEQUENCES = f"""
  %e = tensor.empty() : tensor<2x4xROWSx40xKIND>
  %heads = linalg.generic {{indexing_maps = [#MAP, #abcd], iterator_types = {FOUR}}}
      ins(%x : tensor<GIVEN>) outs(%e : tensor<2x4xROWSx40xKIND>) {{
  ^bb0(%in: KIND, %o: KIND):
    linalg.yield %in : KIND
  }} -> tensor<2x4xROWSx40xKIND>
  %mask = tensor.collapse_shape %heads [[0, 1], [2], [3]]
      : tensor<2x4xROWSx40xKIND> into tensor<8xROWSx40xKIND>"""
# Truth values of each sequence's keys, repeated for its rows and then filled.
STEPS = f"""
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %eb = tensor.empty() : tensor<2x1xROWSx40xi1>
  %rows = linalg.generic {{indexing_maps = [#key, #abcd], iterator_types = {FOUR}}}
      ins(%x : tensor<GIVEN>) outs(%eb : tensor<2x1xROWSx40xi1>) {{
  ^bb0(%in: i1, %o: i1):
    linalg.yield %in : i1
  }} -> tensor<2x1xROWSx40xi1>
  %ef = tensor.empty() : tensor<2x1xROWSx40xf32>
  %filled = linalg.generic {{indexing_maps = [#abcd, #abcd], iterator_types = {FOUR}}}
      ins(%rows : tensor<2x1xROWSx40xi1>) outs(%ef : tensor<2x1xROWSx40xf32>) {{
  ^bb0(%in: i1, %o: f32):
    %t = arith.select %in, %zero, %low : f32
    linalg.yield %t : f32
  }} -> tensor<2x1xROWSx40xf32>
  %e = tensor.empty() : tensor<2x4xROWSx40xf32>
  %heads = linalg.generic {{indexing_maps = [#head, #abcd], iterator_types = {FOUR}}}
      ins(%filled : tensor<2x1xROWSx40xf32>) outs(%e : tensor<2x4xROWSx40xf32>) {{
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  }} -> tensor<2x4xROWSx40xf32>
  %mask = tensor.collapse_shape %heads [[0, 1], [2], [3]]
      : tensor<2x4xROWSx40xf32> into tensor<8xROWSx40xf32>"""
# A cache of (sequence, position, 2 heads, head dim), each head for two of the query's.
ATTEND = f"""
func.func @main(%q: tensor<8xROWSx16xf32>, %k: tensor<2x40x2x16xf32>,
    %x: tensor<GIVEN>) -> tensor<8xROWSx16xf32> {{
  %scale = arith.constant 0.25 : f32
  %er = tensor.empty() : tensor<2x40x2x2x16xf32>
  %kr = linalg.generic {{indexing_maps = [#repeat, #abcde], iterator_types = {FIVE}}}
      ins(%k : tensor<2x40x2x16xf32>) outs(%er : tensor<2x40x2x2x16xf32>) {{
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  }} -> tensor<2x40x2x2x16xf32>
  %kc = tensor.collapse_shape %kr [[0], [1], [2, 3], [4]]
      : tensor<2x40x2x2x16xf32> into tensor<2x40x4x16xf32>
  %et = tensor.empty() : tensor<2x4x40x16xf32>
  %kt = linalg.transpose ins(%kc : tensor<2x40x4x16xf32>)
      outs(%et : tensor<2x4x40x16xf32>) permutation = [0, 2, 1, 3]
  %kv = tensor.collapse_shape %kt [[0, 1], [2], [3]]
      : tensor<2x4x40x16xf32> into tensor<8x40x16xf32>
  BODY
  %out = tensor.empty() : tensor<8xROWSx16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %kv, %kv, %scale, %mask : tensor<8xROWSx16xf32>, tensor<8x40x16xf32>,
          tensor<8x40x16xf32>, f32, tensor<8xROWSx40xKIND>)
      outs(%out : tensor<8xROWSx16xf32>) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> tensor<8xROWSx16xf32>
  return %r : tensor<8xROWSx16xf32>
}}
"""


# By name: the body, its map and the shape and type that it takes, rows.
CASES = {
    "causal": (CAUSAL, "", (1,), "f32", 24),
    "a bias a sequence": (SEQUENCES, "head", (2, 1, 24, 40), "f32", 24),
    "truth values a sequence": (SEQUENCES, "head", (2, 1, 24, 40), "i1", 24),
    "keys of a sequence": (SEQUENCES, "key", (2, 40), "i1", 24),
    "numbers of a sequence's keys": (SEQUENCES, "key", (2, 40), "f32", 24),
    "keys of a sequence, in steps": (STEPS, "key", (2, 40), "i1", 24),
    "decode": (SEQUENCES, "key", (2, 40), "i1", 1),
}


def module(name: str) -> str:
    body, where, shape, kind, rows = CASES[name]
    given = "x".join(map(str, shape)) + f"x{kind}"
    text = MAPS + ATTEND.replace("BODY", body)
    made = "f32" if body == STEPS else kind
    words = {"ROWS": str(rows), "KIND": made, "MAP": where, "GIVEN": given}
    for word, value in words.items():
        text = text.replace(word, value)
    return text


@pytest.mark.parametrize("configure", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str, configure: bool) -> None:
    _, where, shape, kind, rows = CASES[name]
    report = Report()
    vmfb = compile_text(module(name), mode="cost", report=report, configure=configure)
    assert any("read one mask" in record.reason for record in report.found("fitted"))
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((8, rows, 16)), rng.standard_normal((2, 40, 2, 16))
    x = rng.standard_normal(shape) if kind == "f32" else rng.random(shape) < 0.7
    # With more rows than one, a sequence without a key is 0.
    unseen = kind == "i1" and shape == (2, 40) and rows > 1
    if unseen:
        x[1] = False
    heads = k.repeat(2, axis=2).transpose(0, 2, 1, 3).reshape(8, 40, 16)
    if not where:
        bias = np.where(np.tri(rows, 40, dtype=bool), 0.0, -np.inf)[None]
    else:
        bias = x if kind == "f32" else np.where(x, 0.0, -np.inf)
        bias = bias.reshape(2, 1, -1, 40).repeat(4, axis=1).reshape(8, -1, 40)
    scores = 0.25 * q @ heads.transpose(0, 2, 1) + bias
    if unseen:
        scores[4:] = 0.0
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ heads
    if unseen:
        wanted[4:] = 0.0
    given = x.astype(np.float32 if kind == "f32" else np.bool_)
    result = run_module(vmfb, [q.astype(np.float32), k.astype(np.float32), given])
    assert rel_error(result, wanted) < 1e-6


def test_no_copies_are_made() -> None:
    """Attention reads K and V of 2 heads as they lie, and a mask a sequence, made by nobody."""
    flow = compile_text(module("decode"), mode="cost", flags=["--compile-to=flow"]).decode()
    calls = [line for line in flow.splitlines() if "= flow.dispatch @" in line]
    assert len(calls) == 1
    assert "tensor<2x40x2x16xf32>" in calls[0] and "tensor<2x40xi1>" in calls[0]


def test_masks_of_keys_are_made_once_a_sequence() -> None:
    """What says that keys are padding is no larger than the keys, however it is written."""
    flow = compile_text(
        module("keys of a sequence, in steps"), mode="cost", flags=["--compile-to=flow"]
    ).decode()
    (call,) = (line for line in flow.splitlines() if "flow.dispatch @" in line and "_att" in line)
    assert re.search(r"tensor<2x40x(i1|f32)>", call)
    assert "x24x40x" not in flow


def test_a_head_read_by_index_is_moved_once() -> None:
    """Falcon's V, the last head of a packed projection of two sequences, is one for all heads."""
    source = Path(__file__).parents[2] / "propagate-layout" / "reads-past-repeats.mlir"
    text = source.read_text().rpartition("// -----")[2].replace("@read_by_index", "@main")
    flow = compile_text(text, mode="cost", flags=["--compile-to=flow"]).decode()
    (call,) = (line for line in flow.splitlines() if "flow.dispatch @" in line and "_att" in line)
    assert "tensor<2x32x16xf32>" in call and "tensor<2x4x32x16xf32>" not in call
    rng = np.random.default_rng(0)
    shapes = ((8, 24, 16), (2, 32, 16), (2, 32, 6, 16))
    q, k, packed = (rng.standard_normal(shape) for shape in shapes)
    scores = 0.25 * q @ k.repeat(4, axis=0).transpose(0, 2, 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ packed[:, :, 5].repeat(4, axis=0)
    given = [array.astype(np.float32) for array in (q, k, packed)]
    result = run_module(compile_text(text, mode="cost"), given)
    assert rel_error(result, wanted.transpose(1, 0, 2)) < 1e-6
