"""attn-configure on llvm-cpu: right numbers with the configuration attached.

The cases stand in one module, one function each: a compile for all of them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from attention_case import TOLERANCE, Case
from helpers import MAPS, compile_text, covering, rel_error, run_module
from hypothesis import given, settings
from hypothesis import strategies as st
from latent_cache import LATENT_CACHE

from attnpass import Report

_ALL = {
    "prefill": Case(4, 64, 64, 64),
    "additive_mask_odd_rows": Case(3, 100, 52, 16, mask="f32"),
    "one_row": Case(4, 1, 64, 64),
    "one_batch": Case(1, 64, 64, 64, mask="f32"),
    "one_row_one_batch": Case(1, 1, 64, 64),
    "grouped_rows": Case(2, 4, 512, 48),
    # IREE 3.13's own configuration tiles k1 from head dim 256 on: relative error 0.7.
    "wide": Case(2, 16, 64, 256),
    "wider": Case(2, 6, 24, 512, value_head=64),
    "widest": Case(1, 4, 12, 1024),
    "prime": Case(2, 9, 77, 128, mask="f32"),
    "half": Case(2, 40, 64, 32, "f16"),
    "half_mask": Case(2, 8, 33, 80, "f16", "f16"),
    "bfloat": Case(2, 32, 40, 64, "bf16"),
    "bfloat_one_row": Case(3, 1, 100, 128, "bf16", "i1"),
    "boolean_mask": Case(2, 24, 24, 64, mask="i1"),
    "odd_head": Case(2, 17, 19, 20, value_head=33),
    "unknown_rows": Case(2, 21, 64, 32, dynamic="m"),
    "unknown_keys": Case(2, 32, 61, 64, dynamic="k"),
    "unknown_keys_one_row": Case(4, 1, 61, 32, "f16", dynamic="k"),
    "all_unknown": Case(3, 13, 29, 16, mask="f32", dynamic="bmk"),
    "one_key": Case(2, 8, 1, 32),
    "online": Case(2, 12, 37, 32, online=True),
    "online_half_unknown": Case(2, 4, 50, 16, "f16", "i1", dynamic="k", online=True),
}


def _words(case: Case) -> tuple[object, ...]:
    """What a case is a case of."""
    rows = "one" if case.rows == 1 else "few" if case.rows < 16 else "many"
    head = "wide" if case.head >= 256 else "odd" if case.head % 8 else "even"
    return rows, head, case.kind, bool(case.mask), bool(case.dynamic), case.online


CASES = covering(_ALL, _words, ["widest", "prime", "one_row_one_batch", "all_unknown", "one_key"])


@cache
def compiled() -> tuple[bytes, Report]:
    report = Report()
    text = "".join(case.text(name) for name, case in CASES.items())
    return compile_text(text, mode="cost", pipeline="attn-configure", report=report), report


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    case = CASES[name]
    result = case.result(compiled()[0], name)
    assert rel_error(result, case.wanted()) < TOLERANCE[case.kind]


def test_all_are_configured() -> None:
    report = compiled()[1]
    (kept,) = report.found("not-configured")
    assert len(report.found("configured")) == len(CASES) - 1
    assert "needs a dim" in kept.reason


# Keys and values of two heads side by side in one product, as DeepSeek's latent attention has
# them: the slice of V keeps attention's unit batch dim up to the kernel.
UNIT_BATCH = (
    MAPS
    + """
func.func @main(%q: tensor<2x40x192xf32>, %x: tensor<1x50x16xf32>, %w: tensor<1x16x512xf32>,
    %rope: tensor<1x2x50x64xf32>)    -> tensor<2x40x128xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<1x50x512xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x50x512xf32>) -> tensor<1x50x512xf32>
  %kv = linalg.batch_matmul ins(%x, %w : tensor<1x50x16xf32>, tensor<1x16x512xf32>)
      outs(%z : tensor<1x50x512xf32>) -> tensor<1x50x512xf32>
  %heads = tensor.expand_shape %kv [[0], [1], [2, 3]] output_shape [1, 50, 2, 256]
      : tensor<1x50x512xf32> into tensor<1x50x2x256xf32>
  %t = tensor.empty() : tensor<1x2x50x256xf32>
  %kvt = linalg.transpose ins(%heads : tensor<1x50x2x256xf32>)
      outs(%t : tensor<1x2x50x256xf32>) permutation = [0, 2, 1, 3]
  %k4 = tensor.extract_slice %kvt[0, 0, 0, 0] [1, 2, 50, 128] [1, 1, 1, 1]
      : tensor<1x2x50x256xf32> to tensor<1x2x50x128xf32>
  %v4 = tensor.extract_slice %kvt[0, 0, 0, 128] [1, 2, 50, 128] [1, 1, 1, 1]
      : tensor<1x2x50x256xf32> to tensor<1x2x50x128xf32>
  %k6 = tensor.concat dim(3) %k4, %rope
      : (tensor<1x2x50x128xf32>, tensor<1x2x50x64xf32>) -> tensor<1x2x50x192xf32>
  %k = tensor.collapse_shape %k6 [[0, 1], [2], [3]]
      : tensor<1x2x50x192xf32> into tensor<2x50x192xf32>
  %v = tensor.collapse_shape %v4 [[0, 1], [2], [3]]
      : tensor<1x2x50x128xf32> into tensor<2x50x128xf32>
  %out = tensor.empty() : tensor<2x40x128xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #q2]>
      ins(%q, %k, %v, %scale : tensor<2x40x192xf32>, tensor<2x50x192xf32>,
          tensor<2x50x128xf32>, f32) outs(%out : tensor<2x40x128xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x40x128xf32>
  return %r : tensor<2x40x128xf32>
}
""".replace("#q2", "affine_map<(b, m, n, k1, k2) -> (b, m, n)>")
)


@pytest.mark.parametrize("pipeline", ["attn-configure", "attn-configure,attn-vectorize"])
def test_unit_batch_stays_in_the_kernel(pipeline: str) -> None:
    report = Report()
    # From O2 on IREE drops that dim.
    flags = ["--iree-opt-level=O0"]
    vmfb = compile_text(UNIT_BATCH, mode="cost", pipeline=pipeline, report=report, flags=flags)
    (configured,) = report.found("configured")
    assert "distribution = [1, 1, 40, 128, 0, 0]" in str(configured.details["configuration"])
    rng = np.random.default_rng(0)
    shapes = (2, 40, 192), (1, 50, 16), (1, 16, 512), (1, 2, 50, 64)
    q, x, w, rope = (rng.standard_normal(shape) for shape in shapes)
    kv = (x @ w / 4).reshape(50, 2, 256).transpose(1, 0, 2)
    scores = 0.25 * q @ np.concatenate([kv[..., :128], rope[0]], 2).transpose(0, 2, 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ kv[..., 128:]
    result = run_module(vmfb, [a.astype(np.float32) for a in (q, x, w / 4, rope)])
    assert rel_error(result, wanted) < TOLERANCE["f32"]


# A bias by relative positions in an image of 4 by 6, as SAM's.
IMAGE_BIAS = (
    MAPS
    + """
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#image = affine_map<(b, i, j, c) -> (b, i, j, c)>
#all = affine_map<(b, i, j, k, l) -> (b, i, j, k, l)>
#row = affine_map<(b, i, j, k, l) -> (b, i, j, k)>
#column = affine_map<(b, i, j, k, l) -> (b, i, j, l)>
func.func @main(%x: tensor<2x4x6x16xf32>, %kv: tensor<2x24x16xf32>,
    %h: tensor<2x4x6x4xf32>, %w: tensor<2x4x6x6xf32>)
    -> tensor<2x4x6x16xf32> {
  %scale = arith.constant 0.25 : f32
  %image = linalg.generic {indexing_maps = [#image, #image],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x4x6x16xf32>) outs(%x : tensor<2x4x6x16xf32>) {
    ^bb0(%y: f32, %z: f32):
      %t = arith.negf %y : f32
      linalg.yield %t : f32
  } -> tensor<2x4x6x16xf32>
  %q = tensor.collapse_shape %image [[0], [1, 2], [3]]
      : tensor<2x4x6x16xf32> into tensor<2x24x16xf32>
  %e = tensor.empty() : tensor<2x4x6x4x6xf32>
  %sum = linalg.generic {indexing_maps = [#row, #column, #all],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%h, %w : tensor<2x4x6x4xf32>, tensor<2x4x6x6xf32>) outs(%e : tensor<2x4x6x4x6xf32>) {
    ^bb0(%r: f32, %c: f32, %z: f32):
      %t = arith.addf %r, %c : f32
      linalg.yield %t : f32
  } -> tensor<2x4x6x4x6xf32>
  %mask = tensor.collapse_shape %sum [[0], [1, 2], [3, 4]]
      : tensor<2x4x6x4x6xf32> into tensor<2x24x24xf32>
  %out = tensor.empty() : tensor<2x24x16xf32>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %kv, %kv, %scale, %mask : tensor<2x24x16xf32>, tensor<2x24x16xf32>,
          tensor<2x24x16xf32>, f32, tensor<2x24x24xf32>) outs(%out : tensor<2x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x24x16xf32>
  %rows = tensor.expand_shape %a [[0], [1, 2], [3]] output_shape [2, 4, 6, 16]
      : tensor<2x24x16xf32> into tensor<2x4x6x16xf32>
  %last = linalg.generic {indexing_maps = [#image, #image],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%rows : tensor<2x4x6x16xf32>) outs(%x : tensor<2x4x6x16xf32>) {
    ^bb0(%y: f32, %z: f32):
      %t = arith.negf %y : f32
      linalg.yield %t : f32
  } -> tensor<2x4x6x16xf32>
  return %last : tensor<2x4x6x16xf32>
}
"""
)


def test_bias_over_an_image() -> None:
    """By default the keys stay one dim, which has a configuration."""
    report = Report()
    vmfb = compile_text(IMAGE_BIAS, mode="cost", report=report)
    assert any("its mask is computed" in record.reason for record in report.found("stored"))
    assert report.found("loops")
    rng = np.random.default_rng(0)
    shapes = (2, 4, 6, 16), (2, 24, 16), (2, 4, 6, 4), (2, 4, 6, 6)
    x, kv, h, w = (rng.standard_normal(shape) for shape in shapes)
    bias = (h[..., None] + w[:, :, :, None]).reshape(2, 24, 24)
    scores = -0.25 * x.reshape(2, 24, 16) @ kv.transpose(0, 2, 1) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = -weights / weights.sum(-1, keepdims=True) @ kv
    result = run_module(vmfb, [a.astype(np.float32) for a in (x, kv, h, w)])
    assert rel_error(result.reshape(wanted.shape), wanted) < TOLERANCE["f32"]


def test_batch_of_one_behind_a_slice() -> None:
    """IREE leaves it in V alone, a second dim of keys that no configuration takes."""
    report = Report()
    vmfb = compile_text(LATENT_CACHE, mode="cost", report=report)
    assert any("dims of size one" in record.reason for record in report.found("fitted"))
    assert report.found("configured")
    rng = np.random.default_rng(0)
    q, old, new = (rng.standard_normal(shape) for shape in ((4, 320), (40, 320), (1, 320)))
    cache = np.concatenate([old[:7], new, old[8:]])
    scores = 0.0625 * q @ cache.T
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ cache[:, :256]
    given = [a.astype(np.float32) for a in (q, old[None], new)]
    result = run_module(vmfb, [*given, np.array([[0, 7]])])
    assert rel_error(result, wanted) < TOLERANCE["f32"]


@settings(max_examples=3)
@given(
    st.builds(
        Case,
        batch=st.integers(1, 3),
        rows=st.integers(1, 40),
        keys=st.integers(1, 70),
        head=st.integers(1, 12).map(lambda eighths: 8 * eighths),
        kind=st.sampled_from(["f32", "f16", "bf16"]),
        mask=st.sampled_from(["", "f32", "i1"]),
        dynamic=st.sampled_from(["", "m", "k", "mk", "bmk"]),
        online=st.booleans(),
    )
)
def test_any_shape(case: Case) -> None:
    """Whatever the shape, the configured kernel computes attention."""
    vmfb = compile_text(case.text("main"), mode="cost", pipeline="attn-configure")
    assert rel_error(case.result(vmfb, "main"), case.wanted()) < TOLERANCE[case.kind]


@pytest.mark.parametrize("cpu", ["haswell", "x86-64-v4"])
def test_wider_registers_compile(cpu: str) -> None:
    """The steps chosen for 32- and 64-byte registers stay below IREE's limit."""
    report = Report()
    wide = [Case(2, 32, 64, head) for head in (64, 256)]
    text = "".join(case.text(f"f{case.head}") for case in wide)
    flags = [f"--iree-llvmcpu-target-cpu={cpu}"]
    compile_text(text, mode="cost", pipeline="attn-configure", report=report, flags=flags)
    assert len(report.found("configured")) == len(wide)
