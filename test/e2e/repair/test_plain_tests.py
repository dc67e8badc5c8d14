"""Infinite and normal numbers of all types are told from others."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from helpers import compile_text, run_module

import attnpass

KINDS = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def _function(kind: str) -> str:
    """2 of an infinite number, 1 of a normal one, 0 of another."""
    return f"""func.func @of_{kind}(%x: tensor<12x{kind}>) -> tensor<12xi8> {{
  %two = arith.constant 2 : i8
  %e = tensor.empty() : tensor<12xi8>
  %r = linalg.map ins(%x : tensor<12x{kind}>) outs(%e : tensor<12xi8>) (%a: {kind}, %o: i8) {{
    %i = math.isinf %a : {kind}
    %n = math.isnormal %a : {kind}
    %one = arith.extui %n : i1 to i8
    %s = arith.select %i, %two, %one : i8
    linalg.yield %s : i8
  }}
  return %r : tensor<12xi8>
}}
"""


def test_numbers() -> None:
    flags = ["--iree-input-demote-f64-to-f32=false", "--iree-opt-level=O0"]
    program = compile_text("".join(map(_function, KINDS)), mode="cost", flags=flags)
    for kind, numpy_type in KINDS.items():
        info = ml_dtypes.finfo(numpy_type)
        least, most = float(info.tiny), float(info.max)
        others = [0.0, -0.0, least / 2, -least / 2, np.nan]
        given = [1.0, -2.5, most, least, -least, np.inf, -np.inf, *others]
        got = run_module(program, [np.array(given).astype(numpy_type)], f"of_{kind}")
        np.testing.assert_array_equal(got, [1] * 5 + [2] * 2 + [0] * 5, err_msg=kind)


def test_cuda_has_a_program() -> None:
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90"]
    report = attnpass.Report()
    assert attnpass.compile_str(_function("f32"), extra_args=flags, report=report)
    assert report.found("repaired")
