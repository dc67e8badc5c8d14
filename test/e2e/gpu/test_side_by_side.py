"""Rows put together from several tensors, for CUDA, kernels interpreted in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_module import lower, run_gpu_module
from helpers import pairwise

import attnpass

CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90")
ROWS, HEADS = 5, 4
KINDS = {"f16": np.float16, "f32": np.float32}


def _text(kind: str, rows: str, widths: tuple[int, int]) -> str:
    """(heads, rows, both widths) of a part of each head and one that all heads share."""
    own, shared = widths
    x, y = f"tensor<{rows}x{HEADS}x{own}x{kind}>", f"tensor<{rows}x{shared}x{kind}>"
    apart, all_heads, out = (
        f"tensor<{HEADS}x{rows}x{width}x{kind}>" for width in (own, shared, own + shared)
    )
    known = "(%rows)" if rows == "?" else "()"
    return f"""
func.func @main(%x: {x}, %y: {y}) -> {out} {{
  %first = arith.constant 0 : index
  %rows = tensor.dim %x, %first : {x}
  %space = tensor.empty{known} : {apart}
  %turned = linalg.transpose ins(%x : {x}) outs(%space : {apart}) permutation = [1, 0, 2]
  %none = tensor.empty{known} : {all_heads}
  %repeated = linalg.broadcast ins(%y : {y}) outs(%none : {all_heads}) dimensions = [0]
  %both = tensor.concat dim(2) %turned, %repeated : ({apart}, {all_heads}) -> {out}
  return %both : {out}
}}"""


@pytest.mark.parametrize(
    ("kind", "widths", "rows"), pairwise(KINDS, [(64, 32), (32, 32), (16, 48)], [str(ROWS), "?"])
)
def test_rows_are_made_in_one_kernel(kind: str, widths: tuple[int, int], rows: str) -> None:
    flags = [*CUDA, "--compile-to=executable-configurations"]
    module = attnpass.compile_str(_text(kind, rows, widths), extra_args=flags)
    assert module is not None
    lowered = lower(module.decode())
    text = str(lowered)
    assert text.count("stream.cmd.dispatch") == 1 and "stream.cmd.copy" not in text
    random = np.random.default_rng(sum(widths))
    x = random.standard_normal((ROWS, HEADS, widths[0])).astype(KINDS[kind])
    y = random.standard_normal((ROWS, widths[1])).astype(KINDS[kind])
    (found,) = run_gpu_module(lowered, [x, y])
    shared = np.broadcast_to(y, (HEADS, *y.shape))
    assert np.array_equal(found, np.concatenate([x.transpose(1, 0, 2), shared], -1))
