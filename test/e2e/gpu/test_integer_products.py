"""Products of 8-bit integers as products of f16 give the same integers, however large."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import CPU, run_module
from iree.compiler import ir
from iree.compiler.tools import compile_str

import attnpass

TEXT = """
module attributes {hal.device.targets = [#hal.device.target<"cuda",
    [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  func.func @main(%x: tensor<ROWSxDEPTHxi8>, %w: tensor<40xDEPTHxi8>, %s: tensor<ROWSx40xi32>)
      -> tensor<ROWSx40xi32> {
    %e = tensor.empty() : tensor<DEPTHx40xi8>
    %t = linalg.transpose ins(%w : tensor<40xDEPTHxi8>) outs(%e : tensor<DEPTHx40xi8>)
        permutation = [1, 0]
    %p = linalg.matmul ins(%x, %t : tensor<ROWSxDEPTHxi8>, tensor<DEPTHx40xi8>)
        outs(%s : tensor<ROWSx40xi32>) -> tensor<ROWSx40xi32>
    return %p : tensor<ROWSx40xi32>
  }
}
"""


@pytest.mark.parametrize(("rows", "depth"), [("?", 24), ("24", 1024), ("?", 2752)])
def test_sums_are_exact(rows: str, depth: int) -> None:
    context = ir.Context()
    context.load_all_available_dialects()
    text = TEXT.replace("ROWS", rows).replace("DEPTH", str(depth))
    module = ir.Module.parse(text, context)
    attnpass.run(module, "attn-integer-products")
    assert "arith.sitofp" in str(module) and "linalg.matmul" not in str(module)
    del module.operation.attributes["hal.device.targets"]
    binary = compile_str(str(module), extra_args=[*CPU])
    assert binary is not None
    random = np.random.default_rng(0)
    x, w = (random.integers(-128, 128, (n, depth), dtype=np.int8) for n in (24, 40))
    # The largest sum, and the least.
    x[0], w[0], w[1] = -128, -128, 127
    start = random.integers(-(2**20), 2**20, (24, 40), dtype=np.int32)
    wanted = x.astype(np.int64) @ w.astype(np.int64).T + start
    assert np.array_equal(run_module(binary, [x, w, start]), wanted)
