"""Attention that reads one value as several operands, beside views that IREE moves into it."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import compile_text, pairwise, rel_error, run_module

import attnpass

MAPS = ("(b, m, k1)", "(b, k2, k1)", "(b, k2, n)", "()", "(b, m, n)")
ROWS, KEYS, HEAD = 6, 6, 16


def module_text(names: str, computed: bool, dynamic: bool) -> str:
    """The operands are Q, whose head joins two dims, and x; `names` says who reads what."""
    size, first = ("?", "%size") if dynamic else (str(KEYS), "")
    kind = f"tensor<2x{size}x{HEAD}xf32>"
    cut = f"tensor<2x{ROWS}x4x4xf32>"
    whole = f"tensor<2x{ROWS}x{HEAD}xf32>"
    x = "%x"
    lines = []
    if computed:
        x = "%y"
        lines = [
            f"%start = tensor.empty({first}) : {kind}",
            "%y = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, "
            "affine_map<(a, b, c) -> (a, b, c)>], iterator_types = "
            f'["parallel", "parallel", "parallel"]}} ins(%x : {kind}) outs(%start : {kind}) {{',
            "^bb0(%in: f32, %old: f32):",
            "  %two = arith.addf %in, %in : f32",
            "  linalg.yield %two : f32",
            f"}} -> {kind}",
        ]
    values = {"q": ("%query", whole), "x": (x, kind)}
    reads = [values[name] for name in names]
    result = reads[0][1]
    made = f"%out = tensor.empty({first if names[0] == 'x' else ''}) : {result}"
    maps = ", ".join(f"affine_map<(b, m, n, k1, k2) -> {text}>" for text in MAPS)
    body = "\n  ".join(lines)
    return f"""
func.func @main(%q: {cut}, %x: {kind}) -> tensor<2x{size if names[0] == "x" else ROWS}x4x4xf32> {{
  %one = arith.constant 1 : index
  %size = tensor.dim %x, %one : {kind}
  %scale = arith.constant 0.25 : f32
  {body}
  %query = tensor.collapse_shape %q [[0], [1], [2, 3]] : {cut} into {whole}
  {made}
  %r = iree_linalg_ext.attention <indexing_maps = [{maps}]>
      ins({", ".join(name for name, _ in reads)}, %scale : {", ".join(t for _, t in reads)}, f32)
      outs(%out : {result}) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> {result}
  %cut = tensor.expand_shape %r [[0], [1], [2, 3]]
      output_shape [2, {"%size" if "?" in result else ROWS}, 4, 4]
      : {result} into {result.replace(str(HEAD), "4x4")}
  return %cut : {result.replace(str(HEAD), "4x4")}
}}
"""


@pytest.mark.parametrize(
    ("names", "computed", "dynamic"), pairwise(["qxx", "xxx", "xqx"], [False, True], [False, True])
)
def test_one_value_as_several_operands(names: str, computed: bool, dynamic: bool) -> None:
    rng = np.random.default_rng(5)
    q = rng.standard_normal((2, ROWS, 4, 4)).astype(np.float32)
    x = rng.standard_normal((2, KEYS, HEAD)).astype(np.float32)
    report = attnpass.Report()
    text = module_text(names, computed, dynamic)
    program = compile_text(text, mode="cost", flags=["--iree-opt-level=O2"], report=report)
    assert not report.events
    flat = {"q": q.reshape(2, ROWS, HEAD).astype(float), "x": x.astype(float) * (1 + computed)}
    query, key, value = (flat[name] for name in names)
    scores = 0.25 * np.einsum("bmd,bkd->bmk", query, key)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = np.einsum("bmk,bkn->bmn", weights / weights.sum(-1, keepdims=True), value)
    got = run_module(program, [q, x])
    assert rel_error(got, wanted.reshape(2, -1, 4, 4)) < 2e-5
