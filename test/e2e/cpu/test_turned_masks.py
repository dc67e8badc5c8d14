"""Masks and biases with their heads last have vector loops on llvm-cpu, and right numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers import MAPS, compile_text, joined, pairwise, rel_error, run_module, symbol

from attnpass import Report

_HEADS, _ROWS, _KEYS, _DIM = 3, 20, 40, 24
_KINDS: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "i1": np.bool_}
_ERRORS = {"f32": 2e-5, "f16": 2e-3, "i1": 2e-5}


def _text(kind: str, unknown: bool, added: bool) -> str:
    """Attention whose mask is turned from (rows, keys, heads); `added`: what is added to it in
    front of that, so that an op computes it."""
    keys = "?" if unknown else str(_KEYS)
    mask, turned = (
        f"tensor<{_ROWS}x{keys}x{_HEADS}x{kind}>",
        f"tensor<{_HEADS}x{_ROWS}x{keys}x{kind}>",
    )
    q, kv = f"tensor<{_HEADS}x{_ROWS}x{_DIM}xf32>", f"tensor<{_HEADS}x{keys}x{_DIM}xf32>"
    count, same = "(%n)" if unknown else "()", "affine_map<(a, b, c) -> (a, b, c)>"
    op = {"i1": "arith.ori"}.get(kind, "arith.addf")
    doubled = f"""
  %made = linalg.generic {{indexing_maps = [{same}, {same}],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%given : {mask}) outs(%flat : {mask}) {{
  ^bb0(%a: {kind}, %o: {kind}):
    %b = {op} %a, %a : {kind}
    linalg.yield %b : {kind}
  }} -> {mask}"""
    as_given = f"\n  %made = tensor.cast %given : {mask} to {mask}"
    return f"""{MAPS}
#m = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
func.func @main(%q: {q}, %k: {kv}, %v: {kv}, %given: {mask}) -> {q} {{
  %scale = arith.constant 0.2 : f32
  %at = arith.constant 1 : index
  %n = tensor.dim %k, %at : {kv}
  %e = tensor.empty() : {q}
  %flat = tensor.empty{count} : {mask}
  %space = tensor.empty{count} : {turned}{doubled if added else as_given}
  %mask = linalg.transpose ins(%made : {mask}) outs(%space : {turned}) permutation = [2, 0, 1]
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #m, #o]>
      ins(%q, %k, %v, %scale, %mask : {q}, {kv}, {kv}, f32, {turned}) outs(%e : {q}) {{
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }} -> {q}
  return %r : {q}
}}
"""


CASES = pairwise(_KINDS, [False, True], [False, True], ["O0", "O2", "O3"])


@cache
def _compiled(level: str) -> bytes:
    report, cases = Report(), [case for case in CASES if case[-1] == level]
    flags = ["--iree-llvmcpu-target-cpu=host", f"--iree-opt-level={level}"]
    text = joined({symbol(*case): _text(case[0], case[2], case[1]) for case in cases})
    vmfb = compile_text(text, mode="cost", flags=flags, report=report)
    assert len(report.found("loops")) == len(cases)
    assert not report.found("no-loops", "fallback")
    return vmfb


@pytest.mark.parametrize(("kind", "added", "unknown", "level"), CASES)
def test_heads_last(kind: str, added: bool, unknown: bool, level: str) -> None:
    random = np.random.default_rng(7)
    q = random.standard_normal((_HEADS, _ROWS, _DIM), np.float32)
    k, v = (random.standard_normal((_HEADS, _KEYS, _DIM), np.float32) for _ in range(2))
    mask = random.standard_normal((_ROWS, _KEYS, _HEADS))
    given = (mask > -1).astype(np.bool_) if kind == "i1" else mask.astype(_KINDS[kind])
    scores = 0.2 * q.astype(float) @ k.astype(float).transpose(0, 2, 1)
    turned = given.transpose(2, 0, 1)
    if kind == "i1":
        scores = np.where(turned, scores, -np.inf)
    else:
        scores += (1 + added) * turned.astype(float)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v.astype(float)
    found = run_module(_compiled(level), [q, k, v, given], symbol(kind, added, unknown, level))
    assert rel_error(found, wanted) < _ERRORS[kind]
