"""Attention with a sink, compiled for GPUs, gives right numbers: run by an interpreter of lowered
kernels, as tiles with matrix instructions and over chunks of the keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from gpu_module import is_written, lower, run_gpu_module
from helpers import rel_error

import attnpass

TARGETS = {
    "sm_80": ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"),
    "gfx942": ("--iree-hal-target-device=hip", "--iree-rocm-target=gfx942"),
}
# Of large kernels only so many workgroups are run.
SOME = 8


@dataclass(frozen=True)
class Case:
    """Heads of so many rows, keys and elements in f16, each with a sink of its own."""

    target: str
    heads: int
    rows: int
    keys: int
    head: int = 64

    def inputs(self) -> list[np.ndarray]:
        rng = np.random.default_rng(3)
        shapes = [(self.heads, count, self.head) for count in (self.rows, self.keys, self.keys)]
        arrays = [rng.standard_normal(shape).astype(np.float16) for shape in shapes]
        # Some sinks have nearly all weight, some none.
        sinks = np.linspace(-6, 9, self.heads).astype(np.float32)
        return [2 * arrays[0], *arrays[1:], sinks]

    def wanted(self) -> np.ndarray:
        query, key, value, sink = (array.astype(np.float64) for array in self.inputs())
        scores = np.einsum("hmd,hnd->hmn", query, key) * self.head**-0.5
        column = np.broadcast_to(sink[:, None, None], (self.heads, self.rows, 1))
        powers = np.exp(np.concatenate([scores, column], -1))
        return (powers / powers.sum(-1, keepdims=True))[..., :-1] @ value

    def text(self) -> str:
        h, m, n, d = self.heads, self.rows, self.keys, self.head
        every = "affine_map<(h, m, n) -> (h, m, n)>"
        loops = 'iterator_types = ["parallel", "parallel", "parallel"]'
        return f"""
func.func @main(%q: tensor<{h}x{m}x{d}xf16>, %k: tensor<{h}x{n}x{d}xf16>,
                %v: tensor<{h}x{n}x{d}xf16>, %sink: tensor<{h}xf32>) -> tensor<{h}x{m}x{d}xf16> {{
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant {self.head**-0.5} : f32
  %ekt = tensor.empty() : tensor<{h}x{d}x{n}xf16>
  %kt = linalg.transpose ins(%k : tensor<{h}x{n}x{d}xf16>)
      outs(%ekt : tensor<{h}x{d}x{n}xf16>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<{h}x{m}x{n}xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<{h}x{m}x{n}xf32>) -> tensor<{h}x{m}x{n}xf32>
  %s = linalg.batch_matmul ins(%q, %kt : tensor<{h}x{m}x{d}xf16>, tensor<{h}x{d}x{n}xf16>)
      outs(%s0 : tensor<{h}x{m}x{n}xf32>) -> tensor<{h}x{m}x{n}xf32>
  %x = linalg.generic {{indexing_maps = [{every}, {every}], {loops}}}
      ins(%s : tensor<{h}x{m}x{n}xf32>) outs(%e : tensor<{h}x{m}x{n}xf32>) {{
  ^bb0(%a: f32, %b: f32):
    %y = arith.mulf %a, %scale : f32
    linalg.yield %y : f32
  }} -> tensor<{h}x{m}x{n}xf32>
  %er = tensor.empty() : tensor<{h}x{m}xf32>
  %rows = linalg.broadcast ins(%sink : tensor<{h}xf32>) outs(%er : tensor<{h}x{m}xf32>)
      dimensions = [1]
  %column = tensor.expand_shape %rows [[0], [1, 2]] output_shape [{h}, {m}, 1]
      : tensor<{h}x{m}xf32> into tensor<{h}x{m}x1xf32>
  %c = tensor.concat dim(2) %x, %column
      : (tensor<{h}x{m}x{n}xf32>, tensor<{h}x{m}x1xf32>) -> tensor<{h}x{m}x{n + 1}xf32>
  %ec = tensor.empty() : tensor<{h}x{m}x{n + 1}xf32>
  %w = linalg.softmax dimension(2) ins(%c : tensor<{h}x{m}x{n + 1}xf32>)
      outs(%ec : tensor<{h}x{m}x{n + 1}xf32>) -> tensor<{h}x{m}x{n + 1}xf32>
  %p = tensor.extract_slice %w[0, 0, 0] [{h}, {m}, {n}] [1, 1, 1]
      : tensor<{h}x{m}x{n + 1}xf32> to tensor<{h}x{m}x{n}xf32>
  %eh = tensor.empty() : tensor<{h}x{m}x{n}xf16>
  %half = linalg.generic {{indexing_maps = [{every}, {every}], {loops}}}
      ins(%p : tensor<{h}x{m}x{n}xf32>) outs(%eh : tensor<{h}x{m}x{n}xf16>) {{
  ^bb0(%a: f32, %b: f16):
    %y = arith.truncf %a : f32 to f16
    linalg.yield %y : f16
  }} -> tensor<{h}x{m}x{n}xf16>
  %eo = tensor.empty() : tensor<{h}x{m}x{d}xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<{h}x{m}x{d}xf32>) -> tensor<{h}x{m}x{d}xf32>
  %o = linalg.batch_matmul ins(%half, %v : tensor<{h}x{m}x{n}xf16>, tensor<{h}x{n}x{d}xf16>)
      outs(%o0 : tensor<{h}x{m}x{d}xf32>) -> tensor<{h}x{m}x{d}xf32>
  %er2 = tensor.empty() : tensor<{h}x{m}x{d}xf16>
  %r = linalg.generic {{indexing_maps = [{every}, {every}], {loops}}}
      ins(%o : tensor<{h}x{m}x{d}xf32>) outs(%er2 : tensor<{h}x{m}x{d}xf16>) {{
  ^bb0(%a: f32, %b: f16):
    %y = arith.truncf %a : f32 to f16
    linalg.yield %y : f16
  }} -> tensor<{h}x{m}x{d}xf16>
  return %r : tensor<{h}x{m}x{d}xf16>
}}
"""


CASES = {
    "tiles": Case("sm_80", 64, 256, 128),
    "decode": Case("sm_80", 4, 8, 1024),
    "one row": Case("sm_80", 4, 1, 512),
    "AMD": Case("gfx942", 3, 64, 128),
    "AMD, odd rows and keys": Case("gfx942", 2, 90, 77),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_on_gpus(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    flags = [*TARGETS[case.target], "--compile-to=executable-configurations"]
    path = tmp_path / "report.txt"
    text = attnpass.compile_str(case.text(), mode="cost", extra_args=flags, report=path)
    assert text is not None
    assert b"online_attention" in text
    with np.errstate(all="ignore"):
        (got,) = run_gpu_module(lower(text.decode()), case.inputs(), last=SOME)
    written = is_written(got)
    assert written.any()
    assert rel_error(got.astype(np.float64)[written], case.wanted()[written]) < 2e-3
