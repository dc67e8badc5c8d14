"""Kernels for GPUs whose sizes are known only at run time: elementwise ones, and reductions of rows
and columns, interpreted in numpy at several sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gpu_module import lowered, run_gpu_module
from helpers import rel_error

from attnpass import Report

CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90", "--iree-opt-level=O2")


def _elementwise(name: str, sizes: str, mask: str, read: str, loops: str) -> str:
    """`x + mask`, elements of f16; unknown sizes are those of the mask."""
    x, m = f"tensor<{sizes}xf16>", f"tensor<{mask}xf16>"
    order = [d.strip() for d in loops.split(",")]
    at = {d.strip(): number for number, d in enumerate(read.split(","))}
    dims = [d for d, size in zip(order, sizes.split("x"), strict=True) if size == "?"]
    made = "\n".join(
        f"  %i{d} = arith.constant {at[d]} : index\n  %{d} = tensor.dim %m, %i{d} : {m}"
        for d in dims
    )
    kinds = ", ".join(['"parallel"'] * len(order))
    return f"""
func.func @{name}(%x: {x}, %m: {m}) -> {x} {{
{made}
  %e = tensor.empty({", ".join("%" + d for d in dims)}) : {x}
  %r = linalg.generic {{indexing_maps = [affine_map<({loops}) -> ({loops})>,
      affine_map<({loops}) -> ({read})>, affine_map<({loops}) -> ({loops})>],
      iterator_types = [{kinds}]}} ins(%x, %m : {x}, {m}) outs(%e : {x}) {{
  ^bb0(%u: f16, %v: f16, %o: f16):
    %s = arith.addf %u, %v : f16
    linalg.yield %s : f16
  }} -> {x}
  return %r : {x}
}}"""


_SUM = """
func.func @main(%x: tensor<?x?xXf32>) -> tensor<?xYf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %d = tensor.dim %x, %c0 : tensor<?x?xXf32>
  %e = tensor.empty(%d) : tensor<?xYf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xYf32>) -> tensor<?xYf32>
  %r = linalg.generic {indexing_maps = [affine_map<LOOPS -> (a, bREAD)>,
      affine_map<LOOPS -> (aREAD)>], iterator_types = ["parallel", "reduction"KIND]}
      ins(%x : tensor<?x?xXf32>) outs(%f : tensor<?xYf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<?xYf32>
  return %r : tensor<?xYf32>
}"""
_ROWS = _SUM.replace("Xf32", "f32").replace("Yf32", "f32").replace("READ", "").replace("KIND", "")
_ROWS = _ROWS.replace("LOOPS", "(a, b)")
_COLUMNS = _SUM.replace("Xf32", "64xf32").replace("Yf32", "64xf32").replace("READ", ", c")
_COLUMNS = _COLUMNS.replace("KIND", ', "parallel"').replace("LOOPS", "(a, b, c)")
_SOFTMAX = """
func.func @main(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %d = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%d, %n) : tensor<?x?xf32>
  %r = linalg.softmax dimension(1) ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>)
      -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""


def _softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


@pytest.mark.parametrize(
    ("sizes", "mask", "read", "loops"),
    [
        ("?x?", "?x?", "a, b", "a, b"),  # one line
        ("?x?x4", "?x?x4", "a, b, c", "a, b, c"),  # short lines, joined
        ("?x12", "?x12", "a, b", "a, b"),
        ("?x12x?", "?x?", "a, c", "a, b, c"),  # heads between: lines of unknown size
    ],
)
def test_elementwise(sizes: str, mask: str, read: str, loops: str) -> None:
    report = Report()
    module = lowered(_elementwise("main", sizes, mask, read, loops), CUDA, report=report)
    assert "threads, not 32" in report.to_text()
    for given in ({"a": 3, "b": 7, "c": 5}, {"a": 2, "b": 33, "c": 70}, {"a": 1, "b": 1, "c": 1}):
        order = [d.strip() for d in loops.split(",")]
        known = {
            d: given[d] if size == "?" else int(size)
            for d, size in zip(order, sizes.split("x"), strict=True)
        }
        rng = np.random.default_rng(0)
        x = rng.standard_normal([known[d] for d in order]).astype(np.float16)
        m = rng.standard_normal([known[d.strip()] for d in read.split(",")]).astype(np.float16)
        (found,) = run_gpu_module(module, [x, m])
        assert np.array_equal(found, x + (m[:, None] if m.ndim < x.ndim else m))


@pytest.mark.parametrize(
    ("text", "wanted", "words", "shapes"),
    [
        (_ROWS, lambda x: x.sum(1), "128 threads for a row of unknown size", [(3, 7), (2, 700)]),
        (_SOFTMAX, _softmax, "128 threads for a row of unknown size", [(3, 7), (2, 700)]),
        (_COLUMNS, lambda x: x.sum(1), "read side by side", [(2, 5, 64), (1, 300, 64)]),
    ],
    ids=["rows", "softmax", "columns"],
)
def test_reductions(
    text: str, wanted: Callable[[Any], Any], words: str, shapes: list[tuple[int, ...]]
) -> None:
    report = Report()
    module = lowered(text, CUDA, report=report)
    assert words in report.to_text()
    for shape in shapes:
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        (found,) = run_gpu_module(module, [x])
        assert rel_error(found, wanted(x.astype(np.float64))) < 1e-6
