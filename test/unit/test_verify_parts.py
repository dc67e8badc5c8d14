"""attn-verify's parts: what is cut out of a program, which inputs suit it, what is right."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from iree.compiler import ir

from attnpass.tuning.measure import encoded
from attnpass.verify.inputs import Wishes, describe_arguments, draw, wishes_from
from attnpass.verify.program import Program, Uncuttable, read_program, segment
from attnpass.verify.run import compare
from attnpass.verify.search import _between, _least

STEPS = """
func.func @main(%x: tensor<?x4xf32>, %w: tensor<4x4xf32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %rows = tensor.dim %x, %c0 : tensor<?x4xf32>
  %weight = arith.constant dense<[[1., 2., 3., 4.], [5., 6., 7., 8.], [1., 2., 3., 4.], [5., 6., 7., 8.]]> : tensor<4x4xf32>
  %e = tensor.empty(%rows) : tensor<?x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  %a = linalg.matmul ins(%x, %weight : tensor<?x4xf32>, tensor<4x4xf32>) outs(%f : tensor<?x4xf32>) -> tensor<?x4xf32>
  %b = linalg.matmul ins(%a, %w : tensor<?x4xf32>, tensor<4x4xf32>) outs(%f : tensor<?x4xf32>) -> tensor<?x4xf32>
  %c = linalg.matmul ins(%b, %w : tensor<?x4xf32>, tensor<4x4xf32>) outs(%f : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %c : tensor<?x4xf32>
}
"""  # noqa: E501
USES = """
#q = affine_map<(m, n, k1, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, k2) -> (k2, k1)>
#v = affine_map<(m, n, k1, k2) -> (k2, n)>
#s = affine_map<(m, n, k1, k2) -> ()>
#mask = affine_map<(m, n, k1, k2) -> (m, k2)>
#o = affine_map<(m, n, k1, k2) -> (m, n)>
#id = affine_map<(i) -> (i)>
func.func @main(%q: tensor<?x8xf32>, %k: tensor<?x8xf32>, %v: tensor<?x8xf32>,
                %mask: tensor<?x?xf32>, %ids: tensor<5xi64>, %table: tensor<7xf32>)
    -> (tensor<?x8xf32>, tensor<5xf32>) {
  %c0 = arith.constant 0 : index
  %scale = arith.constant 1.0 : f32
  %rows = tensor.dim %q, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%rows) : tensor<?x8xf32>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, f32,
          tensor<?x?xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<?x8xf32>
  %e2 = tensor.empty() : tensor<5xf32>
  %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%ids : tensor<5xi64>) outs(%e2 : tensor<5xf32>) {
  ^bb0(%id: i64, %out: f32):
    %i = arith.index_cast %id : i64 to index
    %x = tensor.extract %table[%i] : tensor<7xf32>
    linalg.yield %x : f32
  } -> tensor<5xf32>
  return %a, %g : tensor<?x8xf32>, tensor<5xf32>
}
"""


# As torch's importer leaves it, with a weight in a global.
TORCH = """
util.global private @weight = dense<[[1., 2.], [3., 4.]]> : tensor<2x2xf32>
util.func public @main$async(%arg0: !hal.buffer_view, %arg1: !hal.fence, %arg2: !hal.fence)
    -> !hal.buffer_view {
  %zero = arith.constant 0.0 : f32
  %rows = hal.buffer_view.dim<%arg0 : !hal.buffer_view>[0] : index
  %x = hal.tensor.import wait(%arg1) => %arg0 : !hal.buffer_view -> tensor<?x2xf32>{%rows}
  %w = util.global.load @weight : tensor<2x2xf32>
  %e = tensor.empty(%rows) : tensor<?x2xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x2xf32>) -> tensor<?x2xf32>
  %a = linalg.matmul ins(%x, %w : tensor<?x2xf32>, tensor<2x2xf32>) outs(%f : tensor<?x2xf32>)
      -> tensor<?x2xf32>
  %b = hal.tensor.barrier join(%a : tensor<?x2xf32>) => %arg2 : !hal.fence
  %c = hal.tensor.export %b : tensor<?x2xf32>{%rows} -> !hal.buffer_view
  util.return %c : !hal.buffer_view
}
util.func public @main(%arg0: !hal.buffer_view) -> !hal.buffer_view {
  %fence = util.null : !hal.fence
  %0 = util.call @main$async(%arg0, %fence, %fence)
      : (!hal.buffer_view, !hal.fence, !hal.fence) -> !hal.buffer_view
  util.return %0 : !hal.buffer_view
}
"""


@contextmanager
def program(text: str) -> Iterator[Program]:
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        yield read_program(module.operation, "main")


def test_what_is_cut_out_takes_and_gives() -> None:
    """Sizes, empty tensors and constants are copied, not handed in."""
    with program(STEPS) as found:
        assert [step.op.name for step in found.steps] == ["linalg.matmul"] * 3
        module, inputs = segment(found, found.steps[1:2], ["v1"])
        text = str(module)
        assert inputs == ["in0", "in1", "v0"]
        assert text.count("linalg.matmul") == 1 and "tensor.empty" in text
        assert found.behind(found.steps, ["v1"]) == found.steps[:2]
        _, inputs = segment(found, found.steps[:1], ["v0"], weights=True)
        assert inputs == ["in0", "c0"]


def test_what_torch_imports() -> None:
    """Sizes of buffer views become those of tensors; a global that is never written is a weight."""
    with program(TORCH) as found:
        module, inputs = segment(found, found.steps, ["out0"])
        text = str(module)
        assert inputs == ["in0"] and "hal." not in text and "tensor.dim" in text
        assert "util.global private @weight" in text and "main$async" not in text
        module, inputs = segment(found, found.steps, ["out0"], weights=True)
        assert inputs == ["in0", "c0"] and "util.global" not in str(module)


def test_what_cannot_be_cut() -> None:
    text = "func.func @main(%x: memref<4xf32>) -> memref<4xf32> { return %x : memref<4xf32> }"
    with pytest.raises(Uncuttable, match="memref"), program(text):
        pass


def test_inputs_suit_their_use() -> None:
    with program(USES) as found:
        arguments = describe_arguments(found)
    uses = {argument.name: argument.use for argument in arguments}
    assert uses == {"in3": "mask", "in4": "index"} | {f"in{n}": "data" for n in (0, 1, 2, 5)}
    q, k, v, mask, ids, _ = draw(arguments, 0, 0, Wishes(), odd=False)
    assert mask.shape == (len(q), len(k)) and len(k) == len(v) != len(q)
    assert set(np.unique(mask)) == {0.0, np.float32(-1e4)} and (mask[:, 0] == 0).all()
    assert ids.min() >= 0 and ids.max() < 7
    wishes = wishes_from(["0.0=5", "1.0=9", "2.0=9", "3.0=5", "3.1=9"], ["4=2:3"])
    q, k, _, mask, ids, _ = draw(arguments, 0, 0, wishes, odd=True)
    assert (len(q), len(k), mask.shape) == (5, 9, (5, 9)) and set(ids) <= {2, 3}


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_how_far_results_are_off(kind: str) -> None:
    values = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float32)
    right = encoded(values, kind)
    assert compare(right, right, kind, 1e-6)["status"] == "right"
    # One row among many.
    values[7] += 0.2
    assert compare(encoded(values, kind), right, kind, 2e-2)["status"] == "wrong"
    values[7, 0] = math.nan
    assert compare(encoded(values, kind), right, kind, 1.0)["error"] == math.inf


def test_integers_have_to_be_equal() -> None:
    right = np.arange(4)
    assert compare(right, right, "i64", 0.1)["status"] == "right"
    assert compare(right + (right > 2), right, "i64", 0.1)["error"] == 0.25


@pytest.mark.parametrize("width", [1, 2, 5, 20])
@pytest.mark.parametrize("least", [1, 2, 9, 13])
def test_the_least_that_is_bad(width: int, least: int) -> None:
    assert _least(13, width, lambda counts: [count >= least for count in counts]) == least
    assert all(0 < count < 13 for count in _between(0, 13, width))
