"""Attention whose result an elementwise op repeats, on GPUs: IREE 3.13 alone compiles none of
these. The kernels are interpreted in numpy."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from gpu_module import lowered, run_gpu_module
from helpers import rel_error, thinned
from iree.compiler import ir

CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90")
ROWS, KEYS, HEAD, WIDTH, TIMES = 36, 32, 64, 40, 3
KINDS = {"f32": (np.float32, 3e-4), "f16": (np.float16, 5e-3)}
ORDERS = ("mn", "nm")
# The dims of what is behind attention, whose result has m and n: those of the factor, those of
# the result, and its scalar work. `o` is of size one, and summed over.
READERS = {
    "repeated": ("d", "dmn", "%y = arith.addf %a, %zero : T"),
    "a factor each": ("d", "mdn", "%y = arith.mulf %a, %b : T"),
    "more of the factor": ("mnd", "mnd", "%y = arith.mulf %a, %b : T"),
    "outer product": ("do", "mnd", "%p = arith.mulf %a, %b : T\n%y = arith.addf %c, %p : T"),
}
SIZES = {"m": ROWS, "n": WIDTH, "d": TIMES, "o": 1}
CASES = list(itertools.product(READERS, ORDERS, KINDS, ("static", "dynamic")))


def shape(dims: str) -> tuple[int, ...]:
    return tuple(SIZES[dim] for dim in dims)


def function(name: str, reader: str, order: str, kind: str, rows: str) -> str:
    """A function of Q, K, V and the factor; with `rows` dynamic, their number is unknown."""
    unknown = rows == "dynamic"

    def tensor(dims: str) -> str:
        sizes = ["?" if dim == "m" and unknown else str(SIZES[dim]) for dim in dims]
        return f"tensor<{''.join(f'{size}x' for size in sizes)}{kind}>"

    factor, result, body = READERS[reader]
    size = "%rows" if unknown else ""
    q = f"tensor<{'?' if unknown else ROWS}x{HEAD}x{kind}>"
    k, v = f"tensor<{KEYS}x{HEAD}x{kind}>", f"tensor<{KEYS}x{WIDTH}x{kind}>"
    loops = sorted({*factor, *result}, key=lambda dim: (result + factor).index(dim))
    read = [order + ("o" if "o" in factor else ""), factor, result]
    maps = ", ".join(f"affine_map<({', '.join(loops)}) -> ({', '.join(one)})>" for one in read)
    kinds = ", ".join('"parallel"' if loop in result else '"reduction"' for loop in loops)
    attended, view = tensor(read[0]), "%r"
    expand = ""
    if "o" in factor:
        sizes = ", ".join("%rows" if dim == "m" and unknown else str(SIZES[dim]) for dim in read[0])
        expand = (
            f"%x = tensor.expand_shape %r [[0], [1, 2]] output_shape [{sizes}] : "
            f"{tensor(order)} into {attended}"
        )
        view = "%x"
    return f"""
func.func @{name}(%q: {q}, %k: {k}, %v: {v}, %w: {tensor(factor)}) -> {tensor(result)} {{
  %scale = arith.constant 0.125 : {kind}
  %zero = arith.constant 0.0 : {kind}
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %q, %c0 : {q}
  %e = tensor.empty({size}) : {tensor(order)}
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, n, k1, k2) -> (m, k1)>,
      affine_map<(m, n, k1, k2) -> (k2, k1)>, affine_map<(m, n, k1, k2) -> (k2, n)>,
      affine_map<(m, n, k1, k2) -> ()>, affine_map<(m, n, k1, k2) -> ({", ".join(order)})>]>
      ins(%q, %k, %v, %scale : {q}, {k}, {v}, {kind}) outs(%e : {tensor(order)}) {{
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
  }} -> {tensor(order)}
  {expand}
  %f = tensor.empty({size}) : {tensor(result)}
  %z = linalg.fill ins(%zero : {kind}) outs(%f : {tensor(result)}) -> {tensor(result)}
  %g = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
      ins({view}, %w : {attended}, {tensor(factor)}) outs(%z : {tensor(result)}) {{
    ^bb0(%a: {kind}, %b: {kind}, %c: {kind}):
      {body.replace(": T", f": {kind}")}
      linalg.yield %y : {kind}
  }} -> {tensor(result)}
  return %g : {tensor(result)}
}}
"""


@cache
def compiled() -> ir.Module:
    """All cases, compiled in one module."""
    text = "".join(function(f"f{number}", *case) for number, case in enumerate(CASES))
    return lowered(text, CUDA)


@pytest.mark.parametrize("number", thinned(range(len(CASES))), ids=lambda n: "-".join(CASES[n]))
def test_repeated_results(number: int) -> None:
    reader, _, kind, _ = CASES[number]
    factor, result, _ = READERS[reader]
    dtype, tolerance = KINDS[kind]
    random = np.random.default_rng(number)
    q, k, v, w = inputs = [
        random.standard_normal(sizes).astype(dtype)
        for sizes in ((ROWS, HEAD), (KEYS, HEAD), (KEYS, WIDTH), shape(factor))
    ]
    (got,) = run_gpu_module(compiled(), inputs, f"f{number}")
    scores = q.astype(np.float64) @ k.astype(np.float64).T * 0.125
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    attended = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)
    other = np.ones_like(w) if reader == "repeated" else w
    wanted = np.einsum(f"mn,{factor}->{result}", attended, other.astype(np.float64))
    assert rel_error(got, wanted) < tolerance
