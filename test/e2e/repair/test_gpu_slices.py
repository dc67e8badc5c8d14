"""Slices that kernels read by computed indices: IREE's code for GPUs knows no gaps in them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from gpu_module import lowered, run_gpu_module
from helpers import rel_error

import attnpass

CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90")


@dataclasses.dataclass(frozen=True)
class Slice:
    """Where a slice starts, its sizes, and those that it is read in."""

    source: tuple[int, ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    read: tuple[int, ...] = ()
    dynamic: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.read or self.sizes

    def text(self) -> str:
        """A function that reverses the last dim of a slice and multiplies it by weights."""
        shape, rank = kind(self.shape), len(self.shape)
        dims, back = ", ".join(f"d{dim}" for dim in range(rank)), rank - 1
        offsets = ["%at" if self.dynamic and offset else str(offset) for offset in self.offsets]
        indices = [f"%i{dim} = linalg.index {dim} : index" for dim in range(rank)]
        places = [*(f"%i{dim}" for dim in range(back)), "%back"]
        groups = [[0], list(range(1, len(self.sizes)))]
        kinds = f"{kind(self.sizes)} into {shape}"
        view = f"%view = tensor.collapse_shape %piece {groups} : {kinds}" if self.read else ""
        line = "\n"
        return f"""func.func @main(%x: {kind(self.source)}, %w: {kind(self.shape[-1:])}, %at: index)
            -> {shape} {{
          %top = arith.constant {self.shape[-1] - 1} : index
          %piece = tensor.extract_slice %x[{", ".join(offsets)}] {list(self.sizes)}
              {[1] * len(offsets)} : {kind(self.source)} to {kind(self.sizes)}
          {view}
          %e = tensor.empty() : {shape}
          %r = linalg.generic {{indexing_maps = [affine_map<({dims}) -> (d{back})>,
              affine_map<({dims}) -> ({dims})>],
              iterator_types = [{", ".join(['"parallel"'] * rank)}]}}
              ins(%w : {kind(self.shape[-1:])}) outs(%e : {shape}) {{
          ^bb0(%weight: f32, %out: f32):
            {line.join(indices)}
            %reverse = arith.subi %top, %i{back} : index
            %back = arith.minsi %reverse, %top : index
            %v = tensor.extract {"%view" if self.read else "%piece"}[{", ".join(places)}] : {shape}
            %p = arith.mulf %v, %weight : f32
            linalg.yield %p : f32
          }} -> {shape}
          return %r : {shape}
        }}"""

    def wanted(self, source: np.ndarray, weights: np.ndarray) -> np.ndarray:
        where = tuple(slice(o, o + size) for o, size in zip(self.offsets, self.sizes, strict=True))
        return source[where].reshape(self.shape)[..., ::-1] * weights


def kind(sizes: tuple[int, ...]) -> str:
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


SLICES = {
    "middle_dim": Slice((8, 16, 64), (0, 6, 0), (8, 4, 64)),
    "last_dim": Slice((16, 128), (0, 32), (16, 64)),
    "reshaped": Slice((8, 16, 64), (0, 6, 0), (8, 4, 64), read=(8, 256)),
    "offset_of_run_time": Slice((8, 16, 64), (0, 6, 0), (8, 4, 64), dynamic=True),
    "without_gaps": Slice((8, 16, 64), (2, 0, 0), (3, 16, 64)),
}


@pytest.mark.parametrize("name", SLICES)
def test_numbers(name: str) -> None:
    form = SLICES[name]
    source = np.arange(np.prod(form.source), dtype=np.float32).reshape(form.source)
    weights = np.arange(form.shape[-1], dtype=np.float32)
    given = [source, weights, np.full(1, max(form.offsets))]
    (result,) = run_gpu_module(lowered(form.text(), CUDA), given)
    np.testing.assert_array_equal(result, form.wanted(source, weights))


TRANSPOSES = {
    "named": """linalg.transpose ins(%k : tensor<8x4x3x5x64xf32>)
          outs(%e : tensor<4x3x5x64x8xf32>) permutation = [1, 2, 3, 4, 0]""",
    "generic": """linalg.generic {indexing_maps = [affine_map<(p, b, k, d, h) -> (h, p, b, k, d)>,
          affine_map<(p, b, k, d, h) -> (p, b, k, d, h)>],
          iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
          ins(%k : tensor<8x4x3x5x64xf32>) outs(%e : tensor<4x3x5x64x8xf32>) {
      ^bb0(%one: f32, %old: f32):
        linalg.yield %one : f32
      } -> tensor<4x3x5x64x8xf32>""",
}


@pytest.mark.parametrize("form", TRANSPOSES)
@pytest.mark.parametrize("level", ["O0", "O2"])
def test_keys_cut_from_a_transpose_are_padded(form: str, level: str) -> None:
    """IREE has the transpose behind the slice, whose elements lie apart then."""
    maps = ("(b, h, m, d)", "(b, k, d, h)", "(b, h, k, n)", "()", "(b, h, m, n)")
    indexing = ", ".join(f"affine_map<(b, h, m, n, d, k) -> {one}>" for one in maps)
    rows, value = "tensor<3x8x17x64xf32>", "tensor<3x8x5x64xf32>"
    text = f"""func.func @main(%q: {rows}, %k: tensor<8x4x3x5x64xf32>, %v: {value}, %at: index)
        -> {rows} {{
      %e = tensor.empty() : tensor<4x3x5x64x8xf32>
      %turned = {TRANSPOSES[form]}
      %piece = tensor.extract_slice %turned[%at, 0, 0, 0, 0] [1, 3, 5, 64, 8] [1, 1, 1, 1, 1]
          : tensor<4x3x5x64x8xf32> to tensor<3x5x64x8xf32>
      %scale = arith.constant 0.125 : f32
      %out = tensor.empty() : {rows}
      %r = iree_linalg_ext.attention <indexing_maps = [{indexing}]>
          ins(%q, %piece, %v, %scale : {rows}, tensor<3x5x64x8xf32>, {value}, f32)
          outs(%out : {rows}) {{
      ^bb0(%score: f32):
        iree_linalg_ext.yield %score : f32
      }} -> {rows}
      return %r : {rows}
    }}"""
    rng, report = np.random.default_rng(0), attnpass.Report()
    shapes = ((3, 8, 17, 64), (8, 4, 3, 5, 64), (3, 8, 5, 64))
    q, k, v = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    module = lowered(text, [*CUDA, f"--iree-opt-level={level}"], report=report)
    assert any("5 keys are padded to" in record.reason for record in report.found("fitted"))
    (result,) = run_gpu_module(module, [q, k, v, np.full(1, 2)])
    weights = np.exp(np.einsum("bhmd,hbkd->bhmk", q.astype(np.float64), k[:, 2]) / 8)
    wanted = np.einsum("bhmk,bhkn->bhmn", weights / weights.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(result, wanted, atol=1e-5)


def test_a_slice_of_unknown_size_behind_a_repeat() -> None:
    """V^T is written in tiles, and its first keys are read behind a view with dims of one."""
    text = (Path(__file__).parent / "Inputs" / "v-transposed-unknown-rows.mlir").read_text()
    rng = np.random.default_rng(0)
    shapes = (1, 40, 64), (64, 32), (64, 32), (32,), (32, 64), (64, 32)
    given = [(rng.standard_normal(shape) / 4).astype(np.float32) for shape in shapes]
    module = lowered(text, CUDA, mode="always", kernels="never", products="never")
    (result,) = run_gpu_module(module, given)
    x, query, key, bias, value, out = (array.astype(np.float64) for array in given)
    scores = x @ query @ (x @ key + bias).transpose(0, 2, 1) * 0.08838834764831845
    weights = np.exp(scores)
    weights /= weights.sum(-1, keepdims=True)
    assert rel_error(result, x + weights @ (x @ value.T) @ out.T) < 1e-6
