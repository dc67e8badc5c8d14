"""Counts of truths, and whether all or any of them are true, on GPUs: interpreted in numpy; beside
what they are told by, and of unknown sizes, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_module import lower, run_gpu_module
from helpers import in_each_way

import attnpass
from attnpass import Report

CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90", "--iree-opt-level=O2")
_MAPS = """
#all = affine_map<(a, b) -> (a, b)>
#row = affine_map<(a, b) -> (a)>
#column = affine_map<(a, b) -> (b)>
"""
# What starts a reduction of this type, its body, and numpy's function.
_WAYS: dict[str, tuple[str, str, str, Any]] = {
    "sum": ("0 : i64", "i64", "arith.addi", np.sum),
    "all": ("true", "i1", "arith.andi", np.all),
    "any": ("false", "i1", "arith.ori", np.any),
}


def _text(way: str, rows: str, keys: str, along: str) -> str:
    """Of `x < 0.5`, which is a result, too."""
    start, kind, combine, _ = _WAYS[way]
    left = rows if along == "row" else keys
    truths, out = f"tensor<{rows}x{keys}xi1>", f"tensor<{left}x{kind}>"
    kinds = '["parallel", "reduction"]' if along == "row" else '["reduction", "parallel"]'
    widened = "%w = arith.extui %a : i1 to i64" if kind == "i64" else "%w = arith.andi %a, %a : i1"
    dims = ", ".join(f"%{n}" for n, size in (("m", rows), ("n", keys)) if size == "?")
    own = {"?": "%m" if along == "row" else "%n"}.get(left, "")
    x = f"tensor<{rows}x{keys}xf32>"
    return f"""{_MAPS}
func.func @main(%x: {x}) -> ({truths}, {out}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : {x}
  %n = tensor.dim %x, %c1 : {x}
  %half = arith.constant 0.5 : f32
  %start = arith.constant {start}
  %space = tensor.empty({dims}) : {truths}
  %t = linalg.generic {{indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}}
      ins(%x : {x}) outs(%space : {truths}) {{
  ^bb0(%a: f32, %o: i1):
    %c = arith.cmpf olt, %a, %half : f32
    linalg.yield %c : i1
  }} -> {truths}
  %e = tensor.empty({own}) : {out}
  %f = linalg.fill ins(%start : {kind}) outs(%e : {out}) -> {out}
  %r = linalg.generic {{indexing_maps = [#all, #{along}], iterator_types = {kinds}}}
      ins(%t : {truths}) outs(%f : {out}) {{
  ^bb0(%a: i1, %o: {kind}):
    {widened}
    %s = {combine} %w, %o : {kind}
    linalg.yield %s : {kind}
  }} -> {out}
  return %t, %r : {truths}, {out}
}}"""


@pytest.mark.parametrize("along", ["row", "column"])
@pytest.mark.parametrize("way", _WAYS)
def test_numbers(way: str, along: str) -> None:
    """Rows of all, of no and of some truths."""
    report, flags = Report(), [*CUDA, "--compile-to=executable-configurations"]
    binary = attnpass.compile_str(_text(way, "12", "64", along), extra_args=flags, report=report)
    assert "its truths are numbers of 32 bits" in report.to_text()
    assert binary is not None
    x = np.random.default_rng(0).standard_normal((12, 64)).astype(np.float32)
    x[3], x[5], x[:, 7], x[:, 9] = 0, 1, 0, 1
    text = binary.decode() if isinstance(binary, bytes) else binary
    truths, result = run_gpu_module(lower(text), [x])
    assert np.array_equal(np.asarray(truths).astype(bool), x < 0.5)
    wanted = _WAYS[way][3](x < 0.5, axis=1 if along == "row" else 0)
    assert np.array_equal(np.asarray(result).astype(wanted.dtype), wanted)


@pytest.mark.parametrize(
    ("way", "sizes"),
    in_each_way(((way,) for way in _WAYS), [("400", "1024"), ("77", "333"), ("?", "?")]),
)
def test_compiled(way: str, sizes: tuple[str, str]) -> None:
    """IREE 3.13 compiles no kernel of counts, and none with a second result."""
    rows, keys = sizes
    report = Report()
    attnpass.compile_str(_text(way, rows, keys, "row"), extra_args=list(CUDA), report=report)
    assert not report.found("fallback")


@pytest.mark.parametrize("kind", ["i8", "i32"])
def test_whole_numbers(kind: str) -> None:
    """Sums in 64 bits of numbers of fewer: IREE 3.13 fails to distribute them."""
    x = f"tensor<16x1024x{kind}>"
    text = f"""{_MAPS}
func.func @main(%x: {x}) -> tensor<16xi64> {{
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<16xi64>
  %f = linalg.fill ins(%zero : i64) outs(%e : tensor<16xi64>) -> tensor<16xi64>
  %r = linalg.generic {{indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}}
      ins(%x : {x}) outs(%f : tensor<16xi64>) {{
  ^bb0(%a: {kind}, %o: i64):
    %w = arith.extsi %a : {kind} to i64
    %s = arith.addi %w, %o : i64
    linalg.yield %s : i64
  }} -> tensor<16xi64>
  return %r : tensor<16xi64>
}}"""
    report, flags = Report(), [*CUDA, "--compile-to=executable-configurations"]
    binary = attnpass.compile_str(text, extra_args=flags, report=report)
    assert "threads of a workgroup share each of its sums" in report.to_text()
    least = np.iinfo(np.dtype(f"int{kind[1:]}")).min
    given = np.random.default_rng(0).integers(least, -least, (16, 1024)).astype(f"int{kind[1:]}")
    assert binary is not None
    (result,) = run_gpu_module(lower(binary.decode()), [given])
    assert np.array_equal(result, given.sum(1, dtype=np.int64))
    attnpass.compile_str(text, extra_args=list(CUDA), report=report)
    assert not report.found("fallback")
