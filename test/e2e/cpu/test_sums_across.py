"""Sums of what lies across the results' rows, by steps that are longer than what they sum."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import compile_text, run_module, runs_here

_ROWS = 12
# Terms, results in a row.
_SIZES = [(terms, columns) for terms in (2, 3, 4, 5) for columns in (2, 4, 8, 16)]
_CPUS = ("generic", "haswell", "x86-64-v4")
_SUM = """
func.func @NAME(%x: tensor<TxMxCxf32>, %key: tensor<Mxi64>, %keys: tensor<Txi64>)
    -> tensor<MxCxf32> {
  %zero = arith.constant 0.0 : f32
  DIMS
  %space = tensor.empty(ROWS) : tensor<MxCxf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%space : tensor<MxCxf32>) -> tensor<MxCxf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(m, n, t) -> (m)>,
      affine_map<(m, n, t) -> (t)>, affine_map<(m, n, t) -> (t, m, n)>,
      affine_map<(m, n, t) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%key, %keys, %x : tensor<Mxi64>, tensor<Txi64>, tensor<TxMxCxf32>)
      outs(%zeros : tensor<MxCxf32>) {
  ^bb0(%k: i64, %j: i64, %v: f32, %o: f32):
    %same = arith.cmpi eq, %k, %j : i64
    %term = arith.select %same, %v, %zero : f32
    %r = arith.addf %term, %o : f32
    linalg.yield %r : f32
  } -> tensor<MxCxf32>
  %read = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>,
      affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%sum : tensor<MxCxf32>) outs(%space : tensor<MxCxf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.negf %v : f32
    linalg.yield %r : f32
  } -> tensor<MxCxf32>
  return %read : tensor<MxCxf32>
}
"""
_DIMS = """%c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c1 : tensor<TxMxCxf32>"""


def _text(terms: int, columns: int, known: bool) -> str:
    text = _SUM.replace("NAME", f"sum_{terms}_{columns}").replace("DIMS", "" if known else _DIMS)
    for word, size in (("T", terms), ("M", _ROWS), ("C", columns)):
        text = text.replace(f"{word}x", f"{size if known or word == 'C' else '?'}x")
    return text.replace("ROWS", "" if known else "%m")


def _knows_rows(number: int, terms: int, columns: int) -> bool:
    """In turns: each size has rows of known and of unknown number, on one CPU or another."""
    return (number + terms + columns.bit_length()) % 2 == 0


@pytest.mark.parametrize("number", range(len(_CPUS)), ids=_CPUS)
def test_numbers(number: int) -> None:
    """All sizes on each CPU, those of rows known or not in turns."""
    cpu = _CPUS[number]
    text = "".join(_text(*sizes, _knows_rows(number, *sizes)) for sizes in _SIZES)
    made = compile_text(text, mode="cost", flags=[f"--iree-llvmcpu-target-cpu={cpu}"])
    if not runs_here(cpu):
        pytest.skip(f"this CPU does not run code for {cpu}")
    rng = np.random.default_rng(0)
    for terms, columns in _SIZES:
        x = rng.standard_normal((terms, _ROWS, columns)).astype(np.float32)
        key, keys = rng.integers(0, terms + 1, _ROWS), np.arange(terms)
        wanted = -np.where(key[None, :, None] == keys[:, None, None], x, 0).sum(0)
        got = run_module(made, [x, key, keys], f"sum_{terms}_{columns}")
        assert np.allclose(got, wanted), (terms, columns)


@pytest.mark.parametrize("shape", ["1x1", "1", "1x1x1"])
def test_softmaxes_of_one_element(shape: str) -> None:
    """IREE's steps for these differ from compile to compile, and some crash its passes."""
    kind, last = f"tensor<{shape}xf32>", shape.count("x")
    text = f"""
func.func @main(%x: {kind}) -> {kind} {{
  %space = tensor.empty() : {kind}
  %made = linalg.softmax dimension({last}) ins(%x : {kind}) outs(%space : {kind}) -> {kind}
  return %made : {kind}
}}
"""
    for _ in range(3):
        made = compile_text(text, mode="cost", flags=["--attn-fail-on=fallback"])
    sizes = [int(size) for size in shape.split("x")]
    assert np.array_equal(run_module(made, [np.full(sizes, 3, np.float32)]), np.ones(sizes))
