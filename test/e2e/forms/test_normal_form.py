"""attn-normal-form on llvm-cpu: masks of integers and of packed bits, results that begin with a
number, key dims in two orders; scores of f64."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from attention_form import Form
from helpers import MAPS, compile_text, pairwise, rel_error, run_module

import attnpass

ROWS, KEYS, HEAD = 9, 36, 16
PACKED = "i1, #iree_encoding.packed_storage"
# Of wide heads IREE's own code for such masks is wrong.
TYPES = {"i8": "i8", "i32": "i32", "packed": PACKED}
HEADS = {"narrow": HEAD, "wide": 160}


def attention(name: str, kind: str, head: int) -> str:
    """A function of Q, K, V and the mask's bytes or integers."""
    mask = f"tensor<{ROWS}x{KEYS}x{kind}>"
    given, made = (mask, "%given") if kind != PACKED else (f"tensor<{-(-ROWS * KEYS // 8)}xi8>", "")
    cast = f"%mask = flow.tensor.bitcast %given : {given} -> {mask}" if not made else ""
    q, k, v = (f"tensor<2x{size}x{head}xf32>" for size in (ROWS, KEYS, KEYS))
    return f"""
func.func @{name}(%q: {q}, %k: {k}, %v: {v}, %given: {given}) -> {q} {{
  {cast}
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : {q}
  %f = linalg.fill ins(%scale : f32) outs(%e : {q}) -> {q}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s,
      affine_map<(b, m, n, k1, k2) -> (m, k2)>, #o]>
      ins(%q, %k, %v, %scale, {made or "%mask"} : {q}, {k}, {v}, f32, {mask}) outs(%f : {q}) {{
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
  }} -> {q}
  return %r : {q}
}}
"""


@cache
def compiled(cpu: str) -> bytes:
    text = MAPS + "".join(
        attention(f"{name}_{width}", kind, head)
        for name, kind in TYPES.items()
        for width, head in HEADS.items()
    )
    report = attnpass.Report()
    flags = [f"--iree-llvmcpu-target-cpu={cpu}"]
    program = compile_text(text, mode="cost", flags=flags, report=report)
    assert not report.found("fallback")
    return program


@pytest.mark.parametrize(("name", "width", "cpu"), pairwise(TYPES, HEADS, ["generic", "host"]))
def test_masks(name: str, width: str, cpu: str) -> None:
    random = np.random.default_rng(7)
    q, k, v = (
        random.standard_normal((2, size, HEADS[width])).astype(np.float32)
        for size in (ROWS, KEYS, KEYS)
    )
    seen = random.random((ROWS, KEYS)) < 0.6
    seen[:, 0] = True
    seen[3] = False
    # Other bits than the lowest say nothing.
    kind = np.int32 if name == "i32" else np.int8
    mask = (seen + 2 * random.integers(-60, 60, seen.shape)).astype(kind)
    if name == "packed":
        mask = np.packbits(seen, bitorder="little").view(np.int8)
    scores = np.einsum("bmd,bkd->bmk", q.astype(np.float64), k) * 0.25
    weights = np.where(seen, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-300)
    got = run_module(compiled(cpu), [q, k, v, mask], f"{name}_{width}")
    assert rel_error(got, weights @ v.astype(np.float64)) < 2e-6


# Key dims i and j, which V has in another order than K: IREE cannot join them, and masks what is
# left of j wrong. Those of unknown sizes have 7 keys.
KEYS_APART = [("48", "3"), ("5", "3"), ("?", "3"), ("?", "?"), ("48", "9"), ("4", "?")]
ACROSS = {"generic": (32, 16), "host": (128, 64)}


def across(name: str, i: str, j: str, head: int, width: int) -> str:
    """A function of Q (m, k1), K (i, j, k1) and V (j, i, n), whose scores know their j."""
    q, k, v = (
        f"tensor<{sizes}xf32>"
        for sizes in (f"{ROWS}x{head}", f"{i}x{j}x{head}", f"{j}x{i}x{width}")
    )
    out = f"tensor<{ROWS}x{width}xf32>"
    return f"""
func.func @{name}(%q: {q}, %k: {k}, %v: {v}) -> {out} {{
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : {out}
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, n, k1, i, j) -> (m, k1)>,
      affine_map<(m, n, k1, i, j) -> (i, j, k1)>, affine_map<(m, n, k1, i, j) -> (j, i, n)>,
      affine_map<(m, n, k1, i, j) -> ()>, affine_map<(m, n, k1, i, j) -> (m, n)>]>
      ins(%q, %k, %v, %scale : {q}, {k}, {v}, f32) outs(%e : {out}) {{
    ^bb0(%x: f32):
      %j = iree_linalg_ext.index 4 : index
      %c = arith.index_cast %j : index to i32
      %f = arith.sitofp %c : i32 to f32
      %y = arith.subf %x, %f : f32
      iree_linalg_ext.yield %y : f32
  }} -> {out}
  return %r : {out}
}}
"""


@cache
def compiled_across(cpu: str) -> bytes:
    text = "".join(
        across(f"f{number}", i, j, *ACROSS[cpu]) for number, (i, j) in enumerate(KEYS_APART)
    )
    return compile_text(text, mode="cost", flags=[f"--iree-llvmcpu-target-cpu={cpu}"])


@pytest.mark.parametrize("cpu", ACROSS)
@pytest.mark.parametrize("number", range(len(KEYS_APART)))
def test_key_dims_in_two_orders(number: int, cpu: str) -> None:
    random = np.random.default_rng(number)
    i, j = (7 if size == "?" else int(size) for size in KEYS_APART[number])
    head, columns = ACROSS[cpu]
    q, k, v = (
        random.standard_normal(shape).astype(np.float32)
        for shape in ((ROWS, head), (i, j, head), (j, i, columns))
    )
    scores = np.einsum("mc,ijc->mij", q.astype(np.float64), k) * 0.25 - np.arange(j)
    weights = np.exp(scores - scores.max((1, 2), keepdims=True))
    weights /= weights.sum((1, 2), keepdims=True)
    got = run_module(compiled_across(cpu), [q, k, v], f"f{number}")
    assert rel_error(got, np.einsum("mij,jin->mn", weights, v.astype(np.float64))) < 1e-5


def test_scores_of_f64() -> None:
    form, report = Form(kinds=("f64",) * 4, scale_kind="f64"), attnpass.Report()
    text = form.text("main")
    for one in ("%score:", "%score :"):
        text = text.replace(f"{one} f32", f"{one} f64")
    flags = ["--iree-input-demote-f64-to-f32=false"]
    program = compile_text(text, mode="cost", flags=flags, report=report)
    assert not report.found("fallback")
    (wanted,) = form.wanted()
    assert rel_error(run_module(program, form.arguments()), wanted) < 1e-6
