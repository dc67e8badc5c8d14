"""Paged caches: pages of all sequences in one tensor, found by a table, as servers keep them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import ALL_RUN, compile_text, run_module, thinned

from attnpass import Report

PAGES, HEADS, PAGE, HEAD_DIM = 9, 2, 8, 32
SEQUENCES, TABLE, ROWS = 3, 4, 4
KEYS = TABLE * PAGE


# A table of pages of K and V, both gathered in one go, cut, brought into the order of positions,
# and read by four rows a head; each sequence sees a number of keys of its own.
def _decode(kind: str) -> str:
    """The program for a cache of f32, or of another type that is cast to f32 and halved."""
    dequantised = "" if kind == "f32" else _DEQUANTISED.replace("KIND", kind)
    names = ("%k", "%v") if kind == "f32" else ("%key", "%value")
    return (
        _DECODE.replace("KIND", kind)
        .replace("CASTS", dequantised)
        .replace("OPERANDS", ", ".join(names))
    )


_DEQUANTISED = """
  %half = arith.constant 0.5 : f32
  %wide = tensor.empty() : tensor<3x2x32x32xf32>""" + "".join(
    f"""
  %{result} = linalg.generic {{indexing_maps = [#heads, #heads],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%{source} : tensor<3x2x32x32xKIND>) outs(%wide : tensor<3x2x32x32xf32>) {{
    ^bb0(%x: KIND, %y: f32):
      %z = arith.extf %x : KIND to f32
      %w = arith.mulf %z, %half : f32
      linalg.yield %w : f32
  }} -> tensor<3x2x32x32xf32>"""
    for result, source in (("key", "k"), ("value", "v"))
)

_DECODE = f"""
#heads = affine_map<(b, h, k, d) -> (b, h, k, d)>
#q = affine_map<(b, h, m, n, k1, k2) -> (b, h, m, k1)>
#k = affine_map<(b, h, m, n, k1, k2) -> (b, h, k2, k1)>
#v = affine_map<(b, h, m, n, k1, k2) -> (b, h, k2, n)>
#s = affine_map<(b, h, m, n, k1, k2) -> ()>
#mask = affine_map<(b, h, m, n, k1, k2) -> (b, k2)>
#o = affine_map<(b, h, m, n, k1, k2) -> (b, h, m, n)>
#page = affine_map<(b, p, w, h, t, d) -> (b, p)>
#all = affine_map<(b, p, w, h, t, d) -> (b, p, w, h, t, d)>
#length = affine_map<(b, k) -> (b)>
#hidden = affine_map<(b, k) -> (b, k)>
func.func @main(%q: tensor<3x2x4x32xf32>, %slab: tensor<9x4096xKIND>, %table: tensor<3x4xi64>,
                %lengths: tensor<3xi64>) -> tensor<3x2x4x32xf32> {{
  %slabs = tensor.expand_shape %slab [[0], [1, 2, 3, 4]] output_shape [9, 2, 2, 32, 32]
      : tensor<9x4096xKIND> into tensor<9x2x2x32x32xKIND>
  %pages = tensor.extract_slice %slabs[0, 0, 0, 0, 0] [9, 2, 2, 8, 32] [1, 1, 1, 1, 1]
      : tensor<9x2x2x32x32xKIND> to tensor<9x2x2x8x32xKIND>
  %e = tensor.empty() : tensor<3x4x2x2x8x32xKIND>
  %both = linalg.generic {{indexing_maps = [#page, #all],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]}}
      ins(%table : tensor<3x4xi64>) outs(%e : tensor<3x4x2x2x8x32xKIND>) {{
    ^bb0(%number: i64, %x: KIND):
      %p = arith.index_cast %number : i64 to index
      %w = linalg.index 2 : index
      %h = linalg.index 3 : index
      %t = linalg.index 4 : index
      %d = linalg.index 5 : index
      %y = tensor.extract %pages[%p, %w, %h, %t, %d] : tensor<9x2x2x8x32xKIND>
      linalg.yield %y : KIND
  }} -> tensor<3x4x2x2x8x32xKIND>
  %k0 = tensor.extract_slice %both[0, 0, 0, 0, 0, 0] [3, 4, 1, 2, 8, 32] [1, 1, 1, 1, 1, 1]
      : tensor<3x4x2x2x8x32xKIND> to tensor<3x4x2x8x32xKIND>
  %v0 = tensor.extract_slice %both[0, 0, 1, 0, 0, 0] [3, 4, 1, 2, 8, 32] [1, 1, 1, 1, 1, 1]
      : tensor<3x4x2x2x8x32xKIND> to tensor<3x4x2x8x32xKIND>
  %e1 = tensor.empty() : tensor<3x2x4x8x32xKIND>
  %kt = linalg.transpose ins(%k0 : tensor<3x4x2x8x32xKIND>) outs(%e1 : tensor<3x2x4x8x32xKIND>)
      permutation = [0, 2, 1, 3, 4]
  %vt = linalg.transpose ins(%v0 : tensor<3x4x2x8x32xKIND>) outs(%e1 : tensor<3x2x4x8x32xKIND>)
      permutation = [0, 2, 1, 3, 4]
  %k = tensor.collapse_shape %kt [[0], [1], [2, 3], [4]]
      : tensor<3x2x4x8x32xKIND> into tensor<3x2x32x32xKIND>
  %v = tensor.collapse_shape %vt [[0], [1], [2, 3], [4]]
      : tensor<3x2x4x8x32xKIND> into tensor<3x2x32x32xKIND>
CASTS
  %e2 = tensor.empty() : tensor<3x32xf32>
  %mask = linalg.generic {{indexing_maps = [#length, #hidden],
      iterator_types = ["parallel", "parallel"]}}
      ins(%lengths : tensor<3xi64>) outs(%e2 : tensor<3x32xf32>) {{
    ^bb0(%length: i64, %x: f32):
      %i = linalg.index 1 : index
      %j = arith.index_cast %i : index to i64
      %seen = arith.cmpi slt, %j, %length : i64
      %zero = arith.constant 0.0 : f32
      %low = arith.constant -1.0e+30 : f32
      %y = arith.select %seen, %zero, %low : f32
      linalg.yield %y : f32
  }} -> tensor<3x32xf32>
  %scale = arith.constant {HEAD_DIM**-0.5} : f32
  %out = tensor.empty() : tensor<3x2x4x32xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, OPERANDS, %scale, %mask : tensor<3x2x4x32xf32>, tensor<3x2x32x32xf32>,
          tensor<3x2x32x32xf32>, f32, tensor<3x32xf32>)
      outs(%out : tensor<3x2x4x32xf32>) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> tensor<3x2x4x32xf32>
  return %r : tensor<3x2x4x32xf32>
}}
"""


def _reference(
    query: np.ndarray, slab: np.ndarray, table: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """In float64; the slab holds twice as many positions a page as the program reads."""
    pages = slab.astype(np.float64).reshape(PAGES, 2, HEADS, 2 * 2 * PAGE, HEAD_DIM)[:, :, :, :PAGE]
    out = np.empty(query.shape)
    for one, (pages_of, length) in enumerate(zip(table, lengths, strict=True)):
        key, value = (
            pages[pages_of, which].transpose(1, 0, 2, 3).reshape(HEADS, KEYS, HEAD_DIM)[:, :length]
            for which in (0, 1)
        )
        scores = query[one].astype(np.float64) @ key.transpose(0, 2, 1) * HEAD_DIM**-0.5
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out[one] = weights / weights.sum(-1, keepdims=True) @ value
    return out


# Without the passes it is IREE's.
@pytest.mark.parametrize("mode", ["cost", "always", *(["never"] if ALL_RUN else [])])
def test_decode_reads_the_pages_of_its_table(mode: str) -> None:
    report = _check_decode(mode, np.dtype(np.float32), 1.0)
    assert report.found("loops")


@pytest.mark.parametrize("mode", thinned(["cost", "always"]))
def test_pages_in_few_bits(mode: str) -> None:
    report = _check_decode(mode, np.dtype(np.float16), 0.5)
    # Keys are one dim where attention gets a configuration.
    assert report.found("configured")


def _check_decode(mode: str, kind: np.dtype, factor: float) -> Report:
    """Compiles and compares; the report. A cache holds `factor` times K and V."""
    rng = np.random.default_rng(3)
    query = rng.standard_normal((SEQUENCES, HEADS, ROWS, HEAD_DIM), np.float32)
    slab = rng.standard_normal((PAGES, 2 * HEADS * 4 * PAGE * HEAD_DIM)).astype(kind)
    table = np.array([[8, 1, 3, 0], [2, 2, 5, 7], [4, 6, 0, 1]])
    lengths = np.array([KEYS, 11, 1])
    report = Report()
    text = _decode(f"f{8 * kind.itemsize}")
    got = run_module(compile_text(text, mode=mode, report=report), [query, slab, table, lengths])
    wanted = _reference(query, factor * slab.astype(np.float64), table, lengths)
    np.testing.assert_allclose(got, wanted, atol=2e-6)
    return report


@pytest.mark.parametrize("low", ["0xFF800000", "-3.40282347E+38"])
def test_an_empty_slot(low: str) -> None:
    """A sequence without a key is 0, or the mean of V where a finite number hides its pages."""
    rng = np.random.default_rng(4)
    query = rng.standard_normal((SEQUENCES, HEADS, ROWS, HEAD_DIM), np.float32)
    slab = rng.standard_normal((PAGES, 2 * HEADS * 4 * PAGE * HEAD_DIM), np.float32)
    table = np.array([[8, 1, 3, 0], [0, 0, 0, 0], [4, 6, 0, 1]])
    lengths = np.array([KEYS, 0, 1])
    text = _decode("f32").replace("-1.0e+30", low)
    got = run_module(compile_text(text, mode="cost"), [query, slab, table, lengths])
    shown = np.array([KEYS, KEYS, 1])
    wanted = _reference(query, slab, table, shown)
    # Equal scores make the mean.
    wanted[1] = _reference(0 * query, slab, table, shown)[1] if low.startswith("-") else 0
    np.testing.assert_allclose(got, wanted, atol=2e-6)
