"""Attention compiled for AMD GPUs gives right numbers: run by an interpreter of lowered kernels.

No AMD GPU is needed. What attn-compile makes by default is compared with float64; what IREE
makes by itself is wrong in some forms, which stay here so that a repair of IREE is noticed.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from amd_instructions import mfma, wmma
from attention_case import SCALE, TOLERANCE, Case, Hidden
from gpu_module import is_written, lower, run_gpu_module
from helpers import rel_error, thinned
from iree.compiler import tools
from odd_norm import ODD_NORM

import attnpass

# Of large kernels only so many workgroups are run.
SOME = 8


FORMS = {
    "f16": ("gfx942", Case(2, 128, 192, 64, "f16")),
    "bf16, V^T": ("gfx1100", Case(2, 64, 128, 128, "bf16", transposed="v")),
    "f32": ("gfx942", Case(2, 64, 128, 128, "f32")),
    "fp8 of CDNA3": ("gfx942", Case(2, 64, 128, 64, "f8E4M3FNUZ")),
    "fp8": ("gfx1201", Case(2, 64, 128, 64, "f8E4M3FN")),
    "mask": ("gfx1201", Case(2, 64, 128, 64, "bf16", "i1")),
    "mask of keys": ("gfx942", Case(2, 64, 128, 64, "f16", "i1", masked="bk")),
    "mask of unknown keys": (
        "gfx1100",
        Case(2, 16, 77, 64, "bf16", "i1", dynamic="k", masked="bk"),
    ),
    "wide head": ("gfx950", Case(2, 64, 64, 256, "f16")),
    "odd rows and keys": ("gfx942", Case(2, 90, 77, 64, "f16")),
    "odd head": ("gfx1100", Case(2, 64, 128, 72, "bf16")),
    "wide head in f32": ("gfx1201", Case(2, 64, 64, 256, "f32")),
    "unknown keys": ("gfx942", Case(2, 16, 77, 64, "f16", dynamic="k")),
    "rows without a key": ("gfx1100", Hidden(2, 64, 128, 64, "f16", "i1")),
    "soft-cap": ("gfx950", Case(2, 64, 128, 64, "f16", score="cap")),
    "decode": ("gfx942", Case(8, 1, 512, 128, "bf16")),
    "decode with a wide head": ("gfx1100", Case(2, 1, 256, 512, "f16")),
    "partial": ("gfx1201", Case(2, 64, 128, 64, "f16", online=True)),
}
WRONG_IN_IREE = (
    "unknown keys",
    "rows without a key",
    "soft-cap",
    "wide head in f32",
    "decode with a wide head",
)
# What IREE has no matrix instructions for.
ODD = ("odd rows and keys", "odd head", "unknown keys")


def flags(target: str) -> list[str]:
    return [
        "--iree-hal-target-device=hip",
        f"--iree-rocm-target={target}",
        "--compile-to=executable-configurations",
    ]


def error(text: str, case: Case, some: int = SOME) -> float:
    """Of a module at the phase executable-configurations, in what its kernels wrote."""
    with np.errstate(all="ignore"):
        result = run_gpu_module(lower(text), case.inputs(), last=some)
    got, written = result[0].astype(np.float64), is_written(result[0])
    assert written.any()
    if case.online:
        got = got / result[2].astype(np.float64)[:, :, None]
    return rel_error(got[written], case.wanted()[written])


@pytest.mark.parametrize("name", FORMS)
def test_numbers(name: str, tmp_path: Path) -> None:
    target, case = FORMS[name]
    path = tmp_path / "lowered.mlir"
    attnpass.compile_str(case.text("main"), output_file=str(path), extra_args=flags(target))
    text = path.read_text()
    assert error(text, case) < TOLERANCE[case.kind]
    if name in ODD:
        assert re.search(r"mma_kind = #iree_gpu.(virtual_)?mma_layout<V?(MFMA|WMMA)", text)


@pytest.mark.parametrize("name", thinned(WRONG_IN_IREE, 3))
def test_what_iree_gets_wrong(name: str) -> None:
    target, case = FORMS[name]
    text = tools.compile_str(case.text("main"), extra_args=flags(target))
    assert text is not None
    assert not error(text.decode(), case, some=1) < TOLERANCE[case.kind]


def test_a_batch_of_unknown_size_times_heads(tmp_path: Path) -> None:
    """IREE knows a divisor of that dim of Q and K, by which it would split it."""
    case = Case(16, 16, 77, 64, "f16")
    source = Path(__file__).parents[2] / "attn-configure" / "known-divisor.mlir"
    text = source.read_text().replace("constant 0.125", f"constant {SCALE}")
    path = tmp_path / "lowered.mlir"
    attnpass.compile_str(text, output_file=str(path), extra_args=flags("gfx942"))
    inputs = [array.reshape(2, 8, *array.shape[1:]) for array in case.inputs()]
    with np.errstate(all="ignore"):
        (result,) = run_gpu_module(lower(path.read_text()), inputs)
    assert rel_error(result, case.wanted()) < TOLERANCE[case.kind]


def test_a_norm_of_odd_width_ends(tmp_path: Path) -> None:
    """Its two sums are tiled; IREE unrolls one."""
    path, report = tmp_path / "lowered.mlir", attnpass.Report()
    attnpass.compile_str(ODD_NORM, output_file=str(path), extra_args=flags("gfx942"), report=report)
    assert any("tiles of one" in record.reason for record in report.found("repaired"))
    x = np.random.default_rng(0).standard_normal((70, 65)).astype(np.float16)
    (result,) = run_gpu_module(lower(path.read_text()), [x])
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / wide.std(1, keepdims=True)
    assert rel_error(result, wanted) < 1e-3


# Where the lanes hold A[i][k], B[k][j] and D[i][j], as AMD's matrix instruction calculator prints
# it: lane and element of the lane's registers. Both halves of RDNA3's lanes hold a factor.
PLACES = {
    "16x16x16 CDNA3, [9][6] [6][1]": ((16, 16, 16), (4, 4), [(25, 2)], [(17, 2)], (33, 1)),
    "32x32x8 CDNA3, [14][7] [7][2]": ((32, 32, 8), (4, 16), [(46, 3)], [(34, 3)], (34, 6)),
    "16x16x32 CDNA3, [6][21] [21][13]": ((16, 16, 32), (8, 4), [(38, 5)], [(45, 5)], (29, 2)),
    "RDNA3, [7][5] [5][2]": (None, (16, 8), [(7, 5), (23, 5)], [(2, 5), (18, 5)], (18, 3)),
    "RDNA4, [9][5] [5][2]": (None, (8, 8), [(25, 1)], [(18, 1)], (18, 1)),
}


@pytest.mark.parametrize("name", PLACES)
def test_instructions(name: str) -> None:
    """The product of one element of A and one of B is where it is said to be, and alone."""
    shape, (width, results), in_a, in_b, in_d = PLACES[name]
    lanes = 64 if shape else 32
    a, b = np.zeros((lanes, width), np.float16), np.zeros((lanes, width), np.float16)
    c, wanted = np.ones((lanes, results), np.float32), np.ones((lanes, results), np.float32)
    for places, factor in ((in_a, a), (in_b, b)):
        for place in places:
            factor[place] = 2
    wanted[in_d] = 5
    got = mfma(a, b, c, shape) if shape else wmma(a, b, c)
    assert (got == wanted).all()
