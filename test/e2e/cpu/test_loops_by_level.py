"""Attention on llvm-cpu has vector loops, and right numbers, at each of IREE's levels, whatever
makes K, V and the mask: IREE fuses all of them into attention's kernel from O2 on."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import compile_text, rel_error, run_module

from attnpass import Report

HEADS, ROWS, KEYS, DIM = 3, 20, 40, 24
PARALLEL = ", ".join(['"parallel"'] * 3)
WHOLE = "affine_map<(b, k, n) -> (b, k, n)>"
BY_KEY = "affine_map<(b, k, n) -> (b, k)>"
# Masks are (heads, keys, rows) before they are turned, so that the maps above do for all.
_MASK = f"tensor<{HEADS}x{KEYS}x{ROWS}x%s>"
_CODES, _SCALES = f"tensor<{HEADS}x{KEYS}x{DIM}xi8>", f"tensor<{HEADS}x{KEYS}xf32>"
_WIDE = f"tensor<{HEADS}x{KEYS}x{DIM}xf32>"


def _each(name: str, reads: list[tuple[str, str, str]], kind: str, body: str) -> str:
    """An elementwise op: operands with their types and maps, the result's type."""
    names, types, maps = (
        (", ".join(each) for each in zip(*reads, strict=True)) if reads else [""] * 3
    )
    scalars = [f"%a{i}: {one[1].rstrip('>').split('x')[-1]}" for i, one in enumerate(reads)]
    element = kind.rstrip(">").split("x")[-1]
    given = f"ins({names} : {types}) " if reads else ""
    return f"""
  %{name}_e = tensor.empty() : {kind}
  %{name} = linalg.generic {{indexing_maps = [{maps + ", " if maps else ""}{WHOLE}],
      iterator_types = [{PARALLEL}]}} {given}outs(%{name}_e : {kind}) {{
  ^bb0({", ".join([*scalars, f"%o: {element}"])}):
    {body}
    linalg.yield %y : {element}
  }} -> {kind}"""


def _attention(name: str, arguments: str, made: str, rows: int, mask: str = "") -> str:
    query = f"tensor<{HEADS}x{rows}x{DIM}xf32>"
    dims = "(b, m, n, d, k)"
    maps = ["(b, m, d)", "(b, k, d)", "(b, k, n)", "()", *["(b, k, m)"] * bool(mask), "(b, m, n)"]
    listed = ", ".join(f"affine_map<{dims} -> {one}>" for one in maps)
    types = [query, _WIDE, _WIDE, "f32", *[mask] * bool(mask)]
    return f"""
func.func @{name}(%q: {query}, {arguments}) -> {query} {{
  %scale = arith.constant 0.2 : f32
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %first = arith.constant 0 : index{made}
  %e = tensor.empty() : {query}
  %r = iree_linalg_ext.attention <indexing_maps = [{listed}]>
      ins(%q, %k, %v, %scale{", %mask" * bool(mask)} : {", ".join(types)}) outs(%e : {query}) {{
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  }} -> {query}
  return %r : {query}
}}
"""


def _module() -> str:
    kv = f"%k: {_WIDE}, %v: {_WIDE}"
    seen = "%i = linalg.index 1 : index\n    %y = arith.cmpi sge, %i, %first : index"
    hide = "%y = arith.select %a0, %low, %zero : f32"
    padding = f"tensor<{HEADS}x{KEYS}xi1>"
    widen = "%w = arith.sitofp %a0 : i8 to f32\n    %y = arith.mulf %w, %a1 : f32"
    caches = f"%kc: {_CODES}, %vc: {_CODES}, %ks: {_SCALES}"
    held = "".join(
        _each(one, [(f"%{one}c", _CODES, WHOLE), ("%ks", _SCALES, BY_KEY)], _WIDE, widen)
        for one in "kv"
    )
    makes = "".join(
        _each(one, [(f"%x{one}", _WIDE, WHOLE)], _WIDE, "%y = math.tanh %a0 : f32") for one in "kv"
    )
    return "".join(
        (
            _attention(
                "hides_nothing", kv, _each("mask", [], _MASK % "i1", seen), ROWS, _MASK % "i1"
            ),
            _attention(
                "padding",
                f"{kv}, %p: {padding}",
                _each("mask", [("%p", padding, BY_KEY)], _MASK % "f32", hide),
                ROWS,
                _MASK % "f32",
            ),
            _attention("codes", caches, held, 1),
            _attention("codes_of_many_rows", caches, held, ROWS + 1),
            _attention("computed", f"%xk: {_WIDE}, %xv: {_WIDE}", makes, ROWS + 2),
        )
    )


def _attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, hidden: np.ndarray | None = None
) -> np.ndarray:
    scores = 0.2 * q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1)
    if hidden is not None:
        scores = np.where(hidden[:, None], -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)


@pytest.mark.parametrize("level", ["O0", "O2", "O3"])
def test_loops_and_numbers(level: str) -> None:
    report = Report()
    flags = ["--iree-llvmcpu-target-cpu=host", f"--iree-opt-level={level}"]
    vmfb = compile_text(_module(), mode="cost", flags=flags, report=report)
    assert len(report.found("loops")) == 5
    assert not report.found("no-loops", "fallback")

    random = np.random.default_rng(5)
    q, one, more, most = (
        random.standard_normal((HEADS, rows, DIM), np.float32)
        for rows in (ROWS, 1, ROWS + 1, ROWS + 2)
    )
    k, v = (random.standard_normal((HEADS, KEYS, DIM), np.float32) for _ in range(2))
    kc, vc = (random.integers(-127, 128, (HEADS, KEYS, DIM), np.int8) for _ in range(2))
    scales = random.uniform(0.005, 0.02, (HEADS, KEYS)).astype(np.float32)
    hidden = np.arange(KEYS) >= np.array([[30], [1], [40]])
    wide = [codes * scales[..., None].astype(np.float64) for codes in (kc, vc)]
    cases = {
        "hides_nothing": ([q, k, v], _attend(q, k, v)),
        "padding": ([q, k, v, hidden], _attend(q, k, v, hidden)),
        "codes": ([one, kc, vc, scales], _attend(one, *wide)),
        "codes_of_many_rows": ([more, kc, vc, scales], _attend(more, *wide)),
        "computed": ([most, k, v], _attend(most, np.tanh(k), np.tanh(v))),
    }
    for name, (inputs, wanted) in cases.items():
        assert rel_error(run_module(vmfb, inputs, name), wanted) < 2e-5, name
