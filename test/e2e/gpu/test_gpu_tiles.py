"""attn-fit-tiles: right numbers for any length, on llvm-cpu.

The kernels that they are for need a GPU; what they compute does not.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from attention_case import SCALE, TOLERANCE, Case
from gpu_module import lower, run_gpu_module
from helpers import ALL_RUN, compile_text, joined, rel_error, run_module

import attnpass
from attnpass import Report
from attnpass.pipeline import default_pipeline

PASSES = "attn-fit-tiles{only=pad-heads,tile-dynamic target=sm_80}"
CASES = {
    "unknown_keys": Case(2, 20, 61, 64, "f16", dynamic="k"),
    "rows_left_over": Case(2, 200, 61, 64, "f16", "i1", dynamic="k"),
    "unknown_rows_too": Case(2, 21, 61, 64, "f16", dynamic="mk"),
    "all_unknown": Case(3, 13, 129, 64, "bf16", "i1", dynamic="bmk"),
    "added_mask": Case(2, 21, 70, 64, "f16", "f16", dynamic="mk"),
    "mask_of_keys": Case(2, 21, 70, 64, "f16", "i1", dynamic="mk", masked="bk"),
    "one_batch": Case(1, 33, 70, 64, "f16", dynamic="mk"),
    "one_batch_masked": Case(1, 33, 70, 64, "f16", "i1", dynamic="mk"),
    "odd_head": Case(3, 33, 70, 72, "f16", dynamic="mk"),
    "odd_value_head": Case(3, 33, 64, 64, "f16", dynamic="m", value_head=40),
    "f32": Case(2, 21, 61, 64, "f32", "i1", dynamic="mk"),
    "f32_odd_head": Case(3, 33, 70, 68, "f32", dynamic="k"),
    "small_head": Case(2, 20, 48, 20, "bf16", "i1", dynamic="m"),
    "partial": Case(2, 21, 61, 64, "f16", online=True, dynamic="mk"),
    "partial_masked": Case(3, 20, 70, 64, "bf16", "i1", online=True, dynamic="k"),
}
LENGTHS = (1, 7, 16, 64, 200)
HEADS_LAST = """
#q = affine_map<(b, h, g, m, n, k1, k2) -> (b, m, h, g, k1)>
#k = affine_map<(b, h, g, m, n, k1, k2) -> (b, k2, h, k1)>
#v = affine_map<(b, h, g, m, n, k1, k2) -> (b, h, n, k2)>
#s = affine_map<(b, h, g, m, n, k1, k2) -> ()>
#mask = affine_map<(b, h, g, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, h, g, m, n, k1, k2) -> (b, m, h, g, n)>
func.func @main(%q: tensor<1x?x2x3x64xf16>, %k: tensor<1x?x2x64xf16>, %v: tensor<1x2x64x?xf16>,
                %mask: tensor<?x?xi1>) -> tensor<1x?x2x3x64xf16> {
  %c1 = arith.constant 1 : index
  %scale = arith.constant 0.25 : f32
  %m = tensor.dim %q, %c1 : tensor<1x?x2x3x64xf16>
  %out = tensor.empty(%m) : tensor<1x?x2x3x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<1x?x2x3x64xf16>, tensor<1x?x2x64xf16>,
          tensor<1x2x64x?xf16>, f32, tensor<?x?xi1>) outs(%out : tensor<1x?x2x3x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x?x2x3x64xf16>
  return %r : tensor<1x?x2x3x64xf16>
}
"""


PADDED = {"odd_head", "odd_value_head", "f32_odd_head", "small_head"}
NOT_TILED = {"odd_value_head", "small_head"}
# Without ATTNPASS_EXAMPLES: each type, mask, kind of result and choice of unknown sizes.
SOME = ["rows_left_over", "all_unknown", "added_mask", "mask_of_keys", "one_batch", "f32_odd_head"]
RUN = [*CASES] if ALL_RUN else [*SOME, "odd_value_head", "partial"]


@cache
def compiled() -> tuple[bytes, Report]:
    report = Report()
    text = "".join(CASES[name].text(name) for name in RUN)
    return compile_text(text, mode="cost", pipeline=PASSES, report=report), report


def test_all_are_rewritten() -> None:
    fitted = compiled()[1].found("fitted")

    def functions(said: str) -> list[str]:
        return sorted(record.op.function for record in fitted if said in record.reason)

    assert functions("padded with zeros") == sorted(PADDED & {*RUN})
    assert functions("viewed as tiles") == sorted({*RUN} - NOT_TILED)


@pytest.mark.parametrize("name", RUN)
def test_numbers(name: str) -> None:
    case = CASES[name]
    lengths = LENGTHS if "k" in case.dynamic else (case.keys,)
    for keys in lengths:
        case = replace(case, keys=keys)
        assert rel_error(case.result(compiled()[0], name), case.wanted()) < TOLERANCE[case.kind]


def test_all_results_of_partial_attention() -> None:
    """The maxima and sums, too, from which a sink's weight or other keys go on."""
    case = CASES["partial"]
    query, key, *_ = (array.astype(np.float64) for array in case.inputs())
    _, largest, total = run_module(compiled()[0], case.inputs(), "partial")
    scores = np.einsum("bmd,bkd->bmk", query, key) * SCALE
    got = (largest + np.log2(total)) * np.log(2)
    assert np.abs(got - np.log(np.exp(scores).sum(-1))).max() < TOLERANCE["f16"]


def test_heads_last() -> None:
    """Rows in front of the heads, grouped queries, V^T and a causal mask."""
    vmfb = compile_text(HEADS_LAST, mode="cost", pipeline=PASSES)
    random = np.random.default_rng(3)
    for rows, keys in ((1, 1), (130, 70), (5, 200)):
        q = random.standard_normal((1, rows, 2, 3, 64)).astype(np.float16)
        k = random.standard_normal((1, keys, 2, 64)).astype(np.float16)
        v = random.standard_normal((1, 2, 64, keys)).astype(np.float16)
        seen = np.tril(np.ones((rows, keys), np.bool_))
        x, y, z = (array.astype(np.float64) for array in (q, k, v))
        scores = np.einsum("bmhgd,bkhd->bhgmk", x, y) * 0.25
        weights = np.exp(np.where(seen, scores, -np.inf))
        weights /= weights.sum(-1, keepdims=True)
        wanted = np.einsum("bhgmk,bhnk->bmhgn", weights, z)
        assert rel_error(run_module(vmfb, [q, k, v, seen]), wanted) < TOLERANCE["f16"]


# Behind the cut llvm-cpu needs loops of ours: its own code is wrong at such head dims.
CUT = "attn-cut-heads{target=sm_80}," + default_pipeline(
    "cost", configure=True, hardware_exp2=False, shared_memory=False
)
# What is cut are the heads of Q and K: those of V may be narrow.
LATENT_CASES = {
    "masked": Case(2, 16, 61, 576, "f16", "i1", dynamic="k", value_head=64, masked="bk"),
    "biased": Case(3, 9, 80, 576, "bf16", "f32", dynamic="b", value_head=64),
}
if ALL_RUN:
    LATENT_CASES |= {
        "known_keys": Case(2, 16, 80, 576, "f16", "i1", value_head=64, masked="bk"),
        "known_batch": Case(2, 9, 80, 576, "bf16", "f32", value_head=64),
        "no_mask": Case(2, 16, 61, 576, "f16", dynamic="k", value_head=64),
        "unknown_batch": Case(3, 4, 64, 576, "bf16", dynamic="b", value_head=64, masked="k"),
    }


def test_cut_heads() -> None:
    report = Report()
    text = "".join(case.text(name) for name, case in LATENT_CASES.items())
    vmfb = compile_text(text, mode="cost", pipeline=CUT, report=report)
    assert sum("is cut" in one.reason for one in report.found("fitted")) == len(LATENT_CASES)
    for name, case in LATENT_CASES.items():
        assert rel_error(case.result(vmfb, name), case.wanted()) < TOLERANCE[case.kind]


LATENT = """
#q = affine_map<(m, n, k1, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, k2) -> (k2, k1)>
#v = affine_map<(m, n, k1, k2) -> (k2, n)>
#s = affine_map<(m, n, k1, k2) -> ()>
#o = affine_map<(m, n, k1, k2) -> (m, n)>
func.func @main(%q: tensor<16x576xf16>, %c: tensor<256x576xf16>) -> tensor<16x512xf16> {
  %scale = arith.constant 0.0625 : f16
  %v = tensor.extract_slice %c[0, 0] [256, 512] [1, 1]
      : tensor<256x576xf16> to tensor<256x512xf16>
  %e = tensor.empty() : tensor<16x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %c, %v, %scale : tensor<16x576xf16>, tensor<256x576xf16>, tensor<256x512xf16>, f16)
      outs(%e : tensor<16x512xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<16x512xf16>
  return %r : tensor<16x512xf16>
}
"""


def test_a_latent_cache_is_read_as_it_lies(tmp_path: Path) -> None:
    """Compiled for a GPU, with no copy of the cache, and run by the interpreter of kernels."""
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
    flow, kernels = tmp_path / "flow.mlir", tmp_path / "kernels.mlir"
    for path, phase in ((flow, "flow"), (kernels, "executable-configurations")):
        attnpass.compile_str(
            LATENT, output_file=str(path), extra_args=[*flags, f"--compile-to={phase}"]
        )
    calls = [line for line in flow.read_text().splitlines() if "= flow.dispatch @" in line]
    cached = [line for line in calls if "x576xf16>" in line]
    assert len(cached) == 2 and "matmul" in cached[0] and "attention" in cached[1]
    random = np.random.default_rng(5)
    q = random.standard_normal((16, 576)).astype(np.float16)
    c = random.standard_normal((256, 576)).astype(np.float16)
    (result,) = run_gpu_module(lower(kernels.read_text()), [q, c])
    scores = q.astype(np.float64) @ c.T.astype(np.float64) * 0.0625
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    assert rel_error(result, weights @ c[:, :512].astype(np.float64)) < TOLERANCE["f16"]


def grouped(keys: int) -> str:
    """Of HEADS_LAST, rows of an unknown number behind their heads, over so many keys."""
    text = HEADS_LAST.replace("(b, m, h, g, ", "(b, h, g, m, ").replace("1x?x2x3x64", "1x2x3x?x64")
    text = text.replace("%c1 = arith.constant 1 :", "%c1 = arith.constant 3 :")
    for old in ("1x?x2x64x", "1x2x64x?x", "?x?xi1"):
        head, _, tail = old.rpartition("?")
        text = text.replace(old, f"{head}{keys}{tail}")
    return text


def test_grouped_rows() -> None:
    """An unknown number of rows of grouped queries alone, over a known number of keys."""
    sizes = (64, 70) if ALL_RUN else (70,)
    report = Report()
    text = joined({f"of_{keys}": grouped(keys) for keys in sizes})
    vmfb = compile_text(text, mode="cost", pipeline=PASSES, report=report)
    said = "unknown number of rows is viewed as tiles of"
    assert sum(said in one.reason for one in report.found("fitted")) == len(sizes)
    random = np.random.default_rng(3)
    for keys, rows in itertools.product(sizes, (1, 5, 130, 256)):
        q = random.standard_normal((1, 2, 3, rows, 64)).astype(np.float16)
        k = random.standard_normal((1, keys, 2, 64)).astype(np.float16)
        v = random.standard_normal((1, 2, 64, keys)).astype(np.float16)
        seen = np.tril(np.ones((rows, keys), np.bool_))
        x, y, z = (array.astype(np.float64) for array in (q, k, v))
        weights = np.exp(np.where(seen, np.einsum("bhgmd,bkhd->bhgmk", x, y) * 0.25, -np.inf))
        weights /= weights.sum(-1, keepdims=True)
        wanted = np.einsum("bhgmk,bhnk->bhgmn", weights, z)
        got = run_module(vmfb, [q, k, v, seen], f"of_{keys}")
        assert rel_error(got, wanted) < TOLERANCE["f16"]


@cache
def products() -> bytes:
    """The functions that attn-tile-products' lit test holds."""
    text = (Path(__file__).parents[2] / "tile-products" / "tile.mlir").read_text()
    report = Report()
    vmfb = compile_text(
        text, mode="cost", pipeline="attn-tile-products{target=sm_80}", report=report
    )
    assert sum("rows is viewed as tiles" in one.reason for one in report.found("fitted")) == 7
    return vmfb


@pytest.mark.parametrize("rows", [1, 7, 127, 128, 129, 300])
def test_products(rows: int) -> None:
    random = np.random.default_rng(rows)

    def draw(*sizes: int, kind: type = np.float16) -> np.ndarray:
        return (random.standard_normal(sizes) / 4).astype(kind)

    x, w, bias = draw(3, rows, 256), draw(256, 512), draw(512)
    rest = draw(1, rows, 512)
    wide = x.astype(np.float64) @ w.astype(np.float64)
    got = run_module(products(), [x[:1], w, bias, rest], "layer")
    assert rel_error(got, wide[:1] + bias + rest) < TOLERANCE["f16"]
    got = run_module(products(), [x, w], "transposed")
    assert rel_error(got, wide.transpose(0, 2, 1)) < 1e-5
    _, got = run_module(products(), [draw(8, 197, 256), w, x], "sequences")
    assert rel_error(got, wide) < 1e-5
    bf16 = [array.astype(ml_dtypes.bfloat16) for array in (x[0], w.T)]
    wanted = bf16[1].astype(np.float64) @ bf16[0].astype(np.float64).T
    assert rel_error(run_module(products(), bf16, "order"), wanted) < 1e-5
    single = [array.astype(np.float32) for array in (x[0], w)]
    assert rel_error(run_module(products(), single, "wide"), wide[0]) < 1e-6
    columns, shift = draw(256, 500), draw(500, kind=np.float32)
    got = run_module(products(), [x[0], columns, shift], "vocabulary")
    assert rel_error(got, x[0].astype(np.float64) @ columns.astype(np.float64) + shift) < 1e-5


def test_sequences_of_a_known_length() -> None:
    random = np.random.default_rng(0)
    x, w = (
        random.standard_normal(sizes).astype(np.float16) for sizes in ((8, 197, 256), (256, 512))
    )
    got, _ = run_module(products(), [x, w, x[:, :5]], "sequences")
    assert rel_error(got, x.astype(np.float64) @ w.astype(np.float64)) < 1e-5


# Rows and columns of f32 products with weights (n, k): odd rows, a vocabulary, and both; their
# depth, which 32 does not divide.
WIDE, WIDE_DEPTH = ((77, 128), (50, 130), (100, 130), (577, 100)), 36


def _wide(rows: int, columns: int) -> str:
    x, w, out = (
        f"tensor<{a}x{b}xf32>"
        for a, b in ((rows, WIDE_DEPTH), (columns, WIDE_DEPTH), (rows, columns))
    )
    maps = ", ".join(f"affine_map<(i, j, k) -> ({dims})>" for dims in ("i, k", "j, k", "i, j"))
    return f"""
func.func @of_{rows}_{columns}(%x: {x}, %w: {w}) -> {out} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {out}
  %z = linalg.fill ins(%zero : f32) outs(%e : {out}) -> {out}
  %p = linalg.contract indexing_maps = [{maps}] ins(%x, %w : {x}, {w}) outs(%z : {out}) -> {out}
  return %p : {out}
}}
"""


def test_f32_products_without_a_tile() -> None:
    report = Report()
    vmfb = compile_text(
        "".join(_wide(*sizes) for sizes in WIDE),
        mode="cost",
        pipeline="attn-tile-products{target=sm_80}",
        report=report,
    )
    assert len(report.found("fitted")) == len(WIDE)
    random = np.random.default_rng(0)
    for rows, columns in WIDE:
        sizes = ((size, WIDE_DEPTH) for size in (rows, columns))
        x, w = (random.standard_normal(size).astype(np.float32) for size in sizes)
        wanted = x.astype(np.float64) @ w.T
        assert rel_error(run_module(vmfb, [x, w], f"of_{rows}_{columns}"), wanted) < 1e-6
