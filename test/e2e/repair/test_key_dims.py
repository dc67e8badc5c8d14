"""Attention over two key dims whose order below a transpose is another than in the operand."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import compile_text, rel_error, run_module

import attnpass

OUTER, INNER, ROWS, HEAD = 9, 5, 6, 8
MAPS = ("(b, m, k1)", "(b, i, j, k1)", "(b, i, j, n)", "()", "(i, j)", "(b, m, n)")


def module_text(turned: str, dynamic: bool) -> str:
    """K or V, as `turned` says, has a batch dim between the key dims below its transpose. The
    head dim of V is unknown: there is no configuration for that, and IREE's own is taken."""
    inner = "?" if dynamic else str(INNER)
    heads = {"key": HEAD, "value": "?"}
    below = {name: f"tensor<{OUTER}x2x{inner}x{head}xf32>" for name, head in heads.items()}
    above = {name: f"tensor<2x{OUTER}x{inner}x{head}xf32>" for name, head in heads.items()}
    given, read = below[turned], above[turned]
    types = above | {turned: given}
    sizes = ["%size"] * dynamic + ["%head"] * (turned == "value")
    names = {name: "%read" if name == turned else f"%{name}" for name in types}
    maps = ", ".join(f"affine_map<(b, m, n, k1, i, j) -> {text}>" for text in MAPS)
    rows, mask = f"tensor<2x{ROWS}x{HEAD}xf32>", f"tensor<{OUTER}x{inner}xi1>"
    result = f"tensor<2x{ROWS}x?xf32>"
    return f"""
func.func @main(%query: {rows}, %key: {types["key"]}, %value: {types["value"]}, %mask: {mask})
    -> {result} {{
  %scale = arith.constant 0.5 : f32
  %two = arith.constant 2 : index
  %size = tensor.dim %{turned}, %two : {given}
  %three = arith.constant 3 : index
  %head = tensor.dim %value, %three : {types["value"]}
  %e = tensor.empty({", ".join(sizes)}) : {read}
  %read = linalg.transpose ins(%{turned} : {given}) outs(%e : {read}) permutation = [1, 0, 2, 3]
  %out = tensor.empty(%head) : {result}
  %r = iree_linalg_ext.attention <indexing_maps = [{maps}]>
      ins(%query, {names["key"]}, {names["value"]}, %scale, %mask : {rows}, {above["key"]}, {above["value"]}, f32, {mask})
      outs(%out : {result}) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> {result}
  return %r : {result}
}}
"""  # noqa: E501


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("turned", ["key", "value"])
def test_keys_apart_below_a_transpose(turned: str, dynamic: bool) -> None:
    """IREE takes the transpose into attention, whose key dims then are two."""
    rng = np.random.default_rng(7)
    inputs = {"query": rng.standard_normal((2, ROWS, HEAD)).astype(np.float32)}
    for name in ("key", "value"):
        inputs[name] = rng.standard_normal((2, OUTER, INNER, HEAD)).astype(np.float32)
    mask = rng.random((OUTER, INNER)) < 0.6
    report = attnpass.Report()
    program = compile_text(
        module_text(turned, dynamic), mode="cost", flags=["--iree-opt-level=O2"], report=report
    )
    assert not report.events
    query, key, value = (array.astype(float) for array in inputs.values())
    scores = np.where(mask, 0.5 * np.einsum("bmd,bijd->bmij", query, key), -np.inf)
    weights = np.exp(scores - scores.max((-2, -1), keepdims=True))
    weights /= weights.sum((-2, -1), keepdims=True)
    given = inputs | {turned: np.ascontiguousarray(inputs[turned].transpose(1, 0, 2, 3))}
    got = run_module(program, [*given.values(), mask])
    assert rel_error(got, np.einsum("bmij,bijn->bmn", weights, value)) < 2e-5
