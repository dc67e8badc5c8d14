"""Chains of producers that the matrix of rules lacks, end to end: numbers as numpy says."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import MAPS, compile_text, rel_error, run_module

from attnpass import Report

HEAD = (
    MAPS
    + """
#id = affine_map<(a, b, c) -> (a, b, c)>
#last = affine_map<(a, b, c) -> (c)>
"""
)
CACHE = "tensor<4x8x16xf32>, tensor<32x4x16xf32>"
PARALLEL = '["parallel", "parallel", "parallel"]'


def project(rows: int, columns: int) -> str:
    """%p = x @ w for x 4 x rows x 24 and w 4 x 24 x columns."""
    result = f"tensor<4x{rows}x{columns}xf32>"
    return f"""
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : {result}
  %f = linalg.fill ins(%z : f32) outs(%e : {result}) -> {result}
  %p = linalg.batch_matmul ins(%x, %w : tensor<4x{rows}x24xf32>, tensor<4x24x{columns}xf32>)
      outs(%f : {result}) -> {result}
"""


BIAS = f"""
  %v = linalg.generic {{indexing_maps = [#id, #last, #id], iterator_types = {PARALLEL}}}
      ins(%p, %c : tensor<4x32x16xf32>, tensor<16xf32>) outs(%e : tensor<4x32x16xf32>) {{
    ^bb0(%a: f32, %b: f32, %old: f32):
      %t = arith.addf %a, %b : f32
      linalg.yield %t : f32
  }} -> tensor<4x32x16xf32>
"""
WIDE = "tensor<1x32x64xf32>"
X32 = {"x": (4, 32, 24), "w": (4, 24, 16)}

# What lies along the keys, or is split and put in another order:
# name -> (arguments besides q and k, text that makes %v, how numpy makes it)
RULES = {
    "transpose and reshapes": (
        {"x": (4, 32, 24), "w": (4, 24, 16)},
        project(32, 16)
        + """
  %x5 = tensor.expand_shape %p [[0, 1], [2], [3, 4]] output_shape [2, 2, 32, 2, 8]
      : tensor<4x32x16xf32> into tensor<2x2x32x2x8xf32>
  %te = tensor.empty() : tensor<2x2x32x2x8xf32>
  %t = linalg.transpose ins(%x5 : tensor<2x2x32x2x8xf32>) outs(%te : tensor<2x2x32x2x8xf32>)
      permutation = [1, 0, 2, 3, 4]
  %v = tensor.collapse_shape %t [[0, 1], [2], [3, 4]]
      : tensor<2x2x32x2x8xf32> into tensor<4x32x16xf32>
""",
        lambda x, w: (x @ w).reshape(2, 2, 32, 16).transpose(1, 0, 2, 3).reshape(4, 32, 16),
    ),
    "slice": (
        {"x": (4, 40, 24), "w": (4, 24, 48)},
        project(40, 48)
        + """
  %v = tensor.extract_slice %p[0, 4, 16] [4, 32, 16] [1, 1, 1]
      : tensor<4x40x48xf32> to tensor<4x32x16xf32>
""",
        lambda x, w: (x @ w)[:, 4:36, 16:32],
    ),
    "slice of an inner factor": (
        {"x": (4, 32, 24), "w": (4, 24, 48)},
        project(32, 48)
        + """
  %x4 = tensor.expand_shape %p [[0], [1], [2, 3]] output_shape [4, 32, 16, 3]
      : tensor<4x32x48xf32> into tensor<4x32x16x3xf32>
  %v = tensor.extract_slice %x4[0, 0, 0, 2] [4, 32, 16, 1] [1, 1, 1, 1]
      : tensor<4x32x16x3xf32> to tensor<4x32x16xf32>
""",
        lambda x, w: (x @ w).reshape(4, 32, 16, 3)[..., 2],
    ),
    "pad": (
        {"x": (4, 20, 24), "w": (4, 24, 16)},
        project(20, 16)
        + """
  %v = tensor.pad %p low[0, 5, 0] high[0, 7, 0] {
    ^bb0(%i: index, %j: index, %l: index):
      tensor.yield %z : f32
  } : tensor<4x20x16xf32> to tensor<4x32x16xf32>
""",
        lambda x, w: np.pad(x @ w, ((0, 0), (5, 7), (0, 0))),
    ),
    "insert_slice": (
        {"x": (4, 20, 24), "w": (4, 24, 16)},
        project(20, 16)
        + """
  %de = tensor.empty() : tensor<4x32x16xf32>
  %d = linalg.fill ins(%z : f32) outs(%de : tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
  %v = tensor.insert_slice %p into %d[0, 3, 0] [4, 20, 16] [1, 1, 1]
      : tensor<4x20x16xf32> into tensor<4x32x16xf32>
""",
        lambda x, w: np.pad(x @ w, ((0, 0), (3, 9), (0, 0))),
    ),
}


def attention_text(arguments: dict[str, tuple[int, ...]], body: str, returned: str = "") -> str:
    """`main(q, k, ...)`, which makes %v by `body` and returns its attention (and `returned`)."""
    shapes = {"q": (4, 8, 16), "k": (4, 32, 16), **arguments}
    given = ", ".join(
        f"%{name}: tensor<{'x'.join(map(str, shape))}xf32>" for name, shape in shapes.items()
    )
    types = "tensor<4x8x16xf32>" + (", tensor<4x32x16xf32>" if returned else "")
    values = "%r" + (f", {returned}" if returned else "")
    return f"""{HEAD}
func.func @main({given}) -> ({types}) {{
{body}
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<4x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x8x16xf32>, tensor<4x32x16xf32>, tensor<4x32x16xf32>, f32)
      outs(%out : tensor<4x8x16xf32>) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> tensor<4x8x16xf32>
  return {values} : {types}
}}
"""


def inputs_of(arguments: dict[str, tuple[int, ...]]) -> list[np.ndarray]:
    generator = np.random.default_rng(7)
    shapes = [(4, 8, 16), (4, 32, 16), *arguments.values()]
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """In float64, with the scale of the tests."""
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) * 0.25
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("name", RULES)
def test_numbers(name: str) -> None:
    arguments, body, make = RULES[name]
    text, inputs, report = attention_text(arguments, body), inputs_of(arguments), Report()
    after = run_module(compile_text(text, mode="always", report=report), inputs)
    wanted = attention(inputs[0], inputs[1], make(*(a.astype(np.float64) for a in inputs[2:])))

    value = next(r for r in report.attentions[0].operands if r.operand == "value")
    assert value.decision == "absorbed"
    assert rel_error(after, wanted) < 1e-6


def test_a_product_with_a_batch_of_one() -> None:
    """At cost V stays, and attention reads it in front of its transpose."""
    arguments = {"x": (1, 32, 24), "w": (1, 24, 64), "c": (64,)}
    body = (project(32, 64) + BIAS.replace("%v =", "%b =")).replace("tensor<4x32x16xf32>", WIDE)
    body = body.replace("tensor<4x32x24xf32>", "tensor<1x32x24xf32>").replace(
        "tensor<4x24x64xf32>", "tensor<1x24x64xf32>"
    )
    body = body.replace("tensor<16xf32>", "tensor<64xf32>").replace("tensor<4x32x64xf32>", WIDE)
    body += f"""
  %h = tensor.expand_shape %b [[0], [1], [2, 3]] output_shape [1, 32, 4, 16]
      : {WIDE} into tensor<1x32x4x16xf32>
  %he = tensor.empty() : tensor<1x4x32x16xf32>
  %t = linalg.transpose ins(%h : tensor<1x32x4x16xf32>) outs(%he : tensor<1x4x32x16xf32>)
      permutation = [0, 2, 1, 3]
  %v = tensor.collapse_shape %t [[0, 1], [2], [3]]
      : tensor<1x4x32x16xf32> into tensor<4x32x16xf32>
"""
    text, inputs, report = attention_text(arguments, body), inputs_of(arguments), Report()
    got = run_module(compile_text(text, mode="cost", report=report), inputs)
    x, w, c = (array.astype(np.float64) for array in inputs[2:])
    value = (x @ w + c).reshape(32, 4, 16).transpose(1, 0, 2)

    assert report.attentions[0].operands[-1].decision == "folded"
    assert rel_error(got, attention(inputs[0], inputs[1], value)) < 1e-5


def test_a_packed_projection_is_narrowed() -> None:
    arguments = {"x": (4, 32, 24), "w": (4, 24, 32)}
    body = (
        project(32, 32)
        + """
  %pte = tensor.empty() : tensor<4x32x32xf32>
  %t = linalg.transpose ins(%p : tensor<4x32x32xf32>) outs(%pte : tensor<4x32x32xf32>)
      permutation = [0, 2, 1]
  %ks = tensor.extract_slice %t[0, 0, 0] [4, 16, 32] [1, 1, 1]
      : tensor<4x32x32xf32> to tensor<4x16x32xf32>
  %vs = tensor.extract_slice %t[0, 16, 0] [4, 16, 32] [1, 1, 1]
      : tensor<4x32x32xf32> to tensor<4x16x32xf32>
  %se = tensor.empty() : tensor<4x32x16xf32>
  %kk = linalg.transpose ins(%ks : tensor<4x16x32xf32>) outs(%se : tensor<4x32x16xf32>)
      permutation = [0, 2, 1]
  %v = linalg.transpose ins(%vs : tensor<4x16x32xf32>) outs(%se : tensor<4x32x16xf32>)
      permutation = [0, 2, 1]
"""
    )
    text = attention_text(arguments, body).replace("ins(%q, %k,", "ins(%q, %kk,")
    inputs, report = inputs_of(arguments), Report()
    got = run_module(compile_text(text, mode="always", report=report), inputs)
    packed = inputs[2].astype(np.float64) @ inputs[3]

    (value,) = [one for one in report.attentions[0].operands if one.operand == "value"]
    assert value.decision == "absorbed"
    assert rel_error(got, attention(inputs[0], packed[..., :16], packed[..., 16:])) < 1e-5


def test_several_users_keep_their_values() -> None:
    """V is returned transposed as a cache, which is made from V^T instead."""
    body = (
        project(32, 16)
        + """
  %te = tensor.empty() : tensor<32x4x16xf32>
  %cache = linalg.transpose ins(%p : tensor<4x32x16xf32>) outs(%te : tensor<32x4x16xf32>)
      permutation = [1, 0, 2]
"""
    )
    text = attention_text(X32, body, returned="%cache").replace("%v,", "%p,")
    text = text.replace("tensor<4x8x16xf32>, tensor<4x32x16xf32>)", CACHE + ")")
    text = text.replace("tensor<4x8x16xf32>, tensor<4x32x16xf32>\n}", CACHE + "\n}")
    inputs, report = inputs_of(X32), Report()
    result, cache = run_module(compile_text(text, mode="always", report=report), inputs)
    value = inputs[2].astype(np.float64) @ inputs[3]

    assert report.attentions[0].operands[-1].decision == "absorbed"
    assert rel_error(cache, value.transpose(1, 0, 2)) < 1e-5
    assert rel_error(result, attention(inputs[0], inputs[1], value)) < 1e-5
