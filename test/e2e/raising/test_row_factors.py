"""Scores that a tensor without the keys' dim multiplies or divides, as temperatures of heads do,
become attention of a Q that it multiplies."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest
from helpers import compiled_at, pairwise, rel_error, run_module, symbol

from attnpass import Report

BATCH, ROWS, KEYS, DIM = 3, 6, 10, 24
KINDS = {"f32": (np.float32, 2e-6), "f16": (np.float16, 2e-3), "bf16": (ml_dtypes.bfloat16, 1e-2)}
LEVELS = ("O0", "O2", "O3")
# A type, an op, the dims of its tensor, whether something is added behind it, the sizes of rows
# and keys in the program, an optimisation level.
CASES = pairwise(KINDS, ("mulf", "divf"), ("b", "b, m"), (False, True), ("", "?"), LEVELS)


def text(kind: str, op: str, dims: str, biased: bool, size: str) -> str:
    def tensor(*sizes: object) -> str:
        return "tensor<" + "x".join(map(str, sizes)) + f"x{kind}>"

    rows, keys = size or ROWS, size or KEYS
    query, turned, value = (
        tensor(BATCH, *sizes) for sizes in ((rows, DIM), (DIM, keys), (keys, DIM))
    )
    scores, factor = tensor(BATCH, rows, keys), tensor(BATCH, *([rows] if "m" in dims else []))
    sizes = "%m, %n" if size else ""
    everywhere = "affine_map<(b, m, k) -> (b, m, k)>"
    added = "%z = arith.addf %y, %b" if biased else f"%z = arith.{op} %x, %f"
    return f"""
func.func @main(%q: {query}, %k: {turned}, %v: {value}, %factor: {factor}, %bias: {scores})
    -> {query} {{
  %zero = arith.constant 0.0 : {kind}
  %c1 = arith.constant 1 : index
  %m = tensor.dim %q, %c1 : {query}
  %n = tensor.dim %v, %c1 : {value}
  %e = tensor.empty({sizes}) : {scores}
  %s0 = linalg.fill ins(%zero : {kind}) outs(%e : {scores}) -> {scores}
  %s = linalg.batch_matmul ins(%q, %k : {query}, {turned}) outs(%s0 : {scores}) -> {scores}
  %x = linalg.generic {{
      indexing_maps = [{everywhere}, affine_map<(b, m, k) -> ({dims})>, {everywhere}, {everywhere}],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%s, %factor, %bias : {scores}, {factor}, {scores}) outs(%e : {scores}) {{
  ^bb0(%x: {kind}, %f: {kind}, %b: {kind}, %o: {kind}):
    %y = arith.{op} %x, %f : {kind}
    {added} : {kind}
    linalg.yield %z : {kind}
  }} -> {scores}
  %w = linalg.softmax dimension(2) ins(%x : {scores}) outs(%e : {scores}) -> {scores}
  %eo = tensor.empty({"%m" if size else ""}) : {query}
  %o0 = linalg.fill ins(%zero : {kind}) outs(%eo : {query}) -> {query}
  %r = linalg.batch_matmul ins(%w, %v : {scores}, {value}) outs(%o0 : {query}) -> {query}
  return %r : {query}
}}"""


@cache
def compiled(level: str) -> tuple[bytes, Report]:
    return compiled_at(level, CASES, text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: symbol(*case))
def test_row_factors(case: tuple[str, str, str, bool, str, str]) -> None:
    kind, op, dims, biased, _, level = case
    dtype, bound = KINDS[kind]
    rng = np.random.default_rng(0)
    # Of Q times the factor some are larger than any f16; of the scores none is.
    query = 2000 * rng.standard_normal((BATCH, ROWS, DIM))
    key = 1e-4 * rng.standard_normal((BATCH, DIM, KEYS))
    value, bias = rng.standard_normal((BATCH, KEYS, DIM)), rng.standard_normal((BATCH, ROWS, KEYS))
    factor = rng.uniform(9, 12, (BATCH, ROWS) if "m" in dims else BATCH)
    factor = 1 / factor if op == "divf" else factor
    given = [array.astype(dtype) for array in (query, key, value, factor, bias)]
    vmfb, report = compiled(level)
    (record,) = (one for one in report.attentions if one.function == symbol(*case))
    assert record.element_types["query"] == kind
    got = run_module(vmfb, given, symbol(*case))
    query, key, value, factor, bias = (array.astype(np.float64) for array in given)
    factor = factor.reshape(BATCH, -1, 1)
    scores = query @ key
    scores = scores / factor if op == "divf" else scores * factor
    scores = scores + bias if biased else scores
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    assert rel_error(got.astype(np.float64), weights @ value) < bound, abs(scores).max()
