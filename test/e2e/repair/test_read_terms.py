"""Sums whose terms hang on no element of a tensor: constants, indices, what fills a tensor."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers import compile_and_run, compile_text, joined, pairwise, run_module, symbol

# Of a term: its type, how sums add, and how a body makes it of a constant.
KINDS = {"f32": "addf", "f16": "addf", "i32": "addi"}
FORMS = ("constant", "filled", "elementwise", "reduced", "index", "stored", "beside")
SIZES = (6, 300)


def _text(form: str, kind: str, size: int, known: bool) -> str:
    """`main` sums 3 (or a row's index) of each element of a row."""
    whole, rows = f"tensor<4x{size if known else '?'}x{kind}>", f"tensor<4x{kind}>"
    adds, three, zero = KINDS[kind], *(("3.0", "0.0") if kind[0] == "f" else ("3", "0"))
    maps = "#map, #row" + ", #row" * (form == "beside")
    sums = f'indexing_maps = [{maps}], iterator_types = ["parallel", "reduction"]'
    source, term, made = "%x", "%three", ""
    if form == "index":
        term, cast = "%t", "sitofp" if kind[0] == "f" else "bitcast"
        made = f"""%i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %t = arith.{cast} %j : i32 to {kind}"""
    if form in ("filled", "elementwise", "reduced", "stored"):
        source, term = "%filled", "%a"
    stored = ""
    if form == "stored":
        source = "%loaded"
        stored = f"""util.global.store %filled, @state : {whole}
  %loaded = util.global.load @state : {whole}"""
    if form == "elementwise":
        source = "%made"
        stored = f"""%made = linalg.generic {{
    indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]
  }} ins(%one : {whole}) outs(%e : {whole}) {{
  ^bb0(%a: {kind}, %o: {kind}):
    %s = arith.{adds.replace("add", "mul")} %a, %three : {kind}
    linalg.yield %s : {kind}
  }} -> {whole}"""
    result, inits = f"{rows}, {rows}" if form == "beside" else rows, "%f"
    outs, yields = (f"%o: {kind}", f"%s : {kind}")
    if form == "beside":
        inits, outs, yields = "%f, %f", f"{outs}, %p: {kind}", f"%s, %q : {kind}, {kind}"
        made = f"%q = arith.{adds} %p, %a : {kind}"
    body = f"""%0{":2" if form == "beside" else ""} = linalg.generic {{
    {sums}
  }} ins({source} : {whole}) outs({inits} : {result}) {{
  ^bb0(%a: {kind}, {outs}):
    {made}
    %s = arith.{adds} %o, {term} : {kind}
    linalg.yield {yields}
  }} -> ({result})"""
    if form == "reduced":
        body = f"""%0 = linalg.reduce {{arith.{adds}}}
    ins(%filled : {whole}) outs(%f : {rows}) dimensions = [1]"""
    returned = "%0#0, %0#1" if form == "beside" else "%0"
    return f"""
#map = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
{f"util.global private mutable @state : {whole}" if form == "stored" else ""}
func.func @main(%x: {whole}) -> ({result}) {{
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : {whole}
  %three = arith.constant {three} : {kind}
  %unit = arith.constant {three.replace("3", "1")} : {kind}
  %zero = arith.constant {zero} : {kind}
  %e = tensor.empty({"" if known else "%n"}) : {whole}
  %one = linalg.fill ins(%unit : {kind}) outs(%e : {whole}) -> {whole}
  %filled = linalg.fill ins(%three : {kind}) outs(%e : {whole}) -> {whole}
  %m = tensor.empty() : {rows}
  %f = linalg.fill ins(%zero : {kind}) outs(%m : {rows}) -> {rows}
  {stored}
  {body}
  return {returned} : {result}
}}
"""


CASES = [
    case
    for case in pairwise(FORMS, KINDS, SIZES, (True, False), ("O0", "O2", "O3"))
    if case[3] or case[0] != "stored"
]


@cache
def _compiled(level: str) -> bytes:
    texts = {symbol(*case): _text(*case[:-1]) for case in CASES if case[-1] == level}
    return compile_text(joined(texts), mode="cost", flags=[f"--iree-opt-level={level}"])


@pytest.mark.parametrize(("form", "kind", "size", "known", "level"), CASES)
def test_terms_are_all_added_up(form: str, kind: str, size: int, known: bool, level: str) -> None:
    numbers = {"f32": np.float32, "f16": np.float16, "i32": np.int32}
    x = (np.arange(4 * size).reshape(4, size) % 3).astype(numbers[kind])
    found = run_module(_compiled(level), [x], symbol(form, kind, size, known, level))
    wanted = np.arange(4) * size if form == "index" else np.full(4, 3 * size)
    if form == "beside":
        np.testing.assert_array_equal(found[1], x.sum(1))
        found = found[0]
    np.testing.assert_array_equal(found, wanted)


def test_average_pools_divide_by_their_elements() -> None:
    """As `count_include_pad=False` has them: a window sums ones, and zeros around them."""
    text = """
func.func @main(%n: tensor<f32>) -> tensor<1x5x4x2xf32> {
  %zero = arith.constant 0.0 : f32
  %number = tensor.extract %n[] : tensor<f32>
  %e = tensor.empty() : tensor<1x7x6x2xf32>
  %x = linalg.fill ins(%number : f32) outs(%e : tensor<1x7x6x2xf32>) -> tensor<1x7x6x2xf32>
  %m = tensor.empty() : tensor<1x5x4x2xf32>
  %f = linalg.fill ins(%zero : f32) outs(%m : tensor<1x5x4x2xf32>) -> tensor<1x5x4x2xf32>
  %w = tensor.empty() : tensor<3x3xf32>
  %0 = linalg.pooling_nhwc_sum
    {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%x, %w : tensor<1x7x6x2xf32>, tensor<3x3xf32>)
    outs(%f : tensor<1x5x4x2xf32>) -> tensor<1x5x4x2xf32>
  return %0 : tensor<1x5x4x2xf32>
}
"""
    found = compile_and_run(text, [np.float32(2).reshape(())], mode="cost")
    np.testing.assert_array_equal(found, np.full((1, 5, 4, 2), 18.0))
