"""Sums over several dims on CUDA: IREE takes the dims of both factors by their places."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from attention_form import Form
from fuzz_graphs import graph_of
from gpu_module import lower_vectors, lowered, run_gpu_module
from helpers import in_each_way, rel_error, thinned
from vector_products import EXTENTS, error_of

from attnpass.report.records import Report

CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90")
TOLERANCE = {"f32": 3e-4, "f16": 5e-3, "bf16": 2e-2}
SMALL = (("d", 4), ("e", 8), ("h", 2), ("m", 3), ("k", 8), ("l", 4), ("n", 8), ("b", 2))
FORMS = {
    "second_factor": Form("bmde", "bked"),
    "apart": Form("dbem", "ekbd", "nbk", "mbn"),
    "three_dims": Form("bmdeh", "bkhed"),
    "of_16_bits": Form("bdem", "bked", kinds=("f16",) * 4, sizes=(("d", 4), ("e", 64))),
    "rows_of_unknown_number": Form("bmde", "bked", dynamic="m"),
    "mask": Form("bmde", "bked", mask="mk", mask_kind="f32"),
    "two_key_dims": Form("bmde", "bkled", "blkn"),
}
# Of unknown sizes, rows or columns of products among them.
UNKNOWN = {
    "all": Form("bhmd", "bhkd", "bhkn", "bhmn", dynamic="bmdk"),
    "transposed": Form("bdhmg", "bhkd", "bhkn", "nghbm", dynamic="hmdk"),
    "two_head_dims": Form("bhmed", "dbhke", "kbnh", "bhmn", dynamic="bmd"),
}


@pytest.mark.parametrize("seed", thinned(range(20), 4))
def test_what_iree_makes_of_a_product(seed: int) -> None:
    choices = random.Random(seed)
    dims = ["".join(choices.sample(one, len(one))) for one in ("abxz", "abyz", "xyz", "abxyz")]
    given = ["".join(choices.sample(one, len(one))) for one in dims[:3]]
    assert error_of(dims, dims[:3]) < 1e-6
    assert error_of(dims, given) < 1e-6


@pytest.mark.parametrize("seed", thinned(range(40), 4))
def test_summed_dims_of_size_one(seed: int) -> None:
    """IREE takes leading ones that a factor was given."""
    choices = random.Random(seed)
    extents = {dim: choices.choice((1, 1, 2, 3)) for dim in EXTENTS}
    dims = ["".join(choices.sample(one, len(one))) for one in ("abxz", "abyz", "xyz", "abxyz")]
    given = dims[:3]
    for place in (0, 1):
        cut = choices.choice((0, 0, 1, 2, 3))
        wide = "".join(dim for dim in dims[place] if extents[dim] > 1)
        given[place] = choices.choice((dims[place][cut:], wide)) or dims[place]
    assert error_of(dims, given, extents=extents) < 1e-6


# Of letters: those that the result has not are summed over.
PRODUCTS = {
    "in_two_orders": ("axbm", "yba", "xym"),
    "behind_other_dims": ("axb", "yab", "xy"),
    "of_three": ("caxb", "bcay", "xy"),
    "of_one_factor": ("axb", "by", "xy"),
    "of_either_factor": ("axb", "bcy", "xy"),
    "by_one_number": ("", "xbm", "x"),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_over_several_dims(name: str) -> None:
    """Through IREE's lowering of vectors, which is where numbers are wrong without the pass."""
    left, right, out = PRODUCTS[name]
    sizes = {"a": 3, "b": 8, "c": 2, "x": 4, "y": 16, "m": 8}
    report, numbers = Report(), np.random.default_rng(3)
    module = lowered(product(left, right, out, sizes), CUDA, report=report)
    lower_vectors(module)
    x, y = (
        np.asarray(numbers.standard_normal([sizes[dim] for dim in one]), np.float32)
        for one in (left, right)
    )
    (got,) = run_gpu_module(module, [x, y])
    assert rel_error(got, np.einsum(f"{left},{right}->{out}", x.astype(np.float64), y)) < 1e-6
    assert not report.events


def test_products_of_halves_over_two_dims_that_fill_no_tile() -> None:
    left, right, out = PRODUCTS["in_two_orders"]
    sizes = {"a": 7, "b": 33, "x": 5, "y": 6, "m": 9}
    report, numbers = Report(), np.random.default_rng(3)
    module = lowered(product(left, right, out, sizes, "f16"), CUDA, report=report)
    shapes = [[sizes[dim] for dim in one] for one in (left, right)]
    x, y = (numbers.standard_normal(shape, np.float32).astype(np.float16) for shape in shapes)
    (got,) = run_gpu_module(module, [x, y])
    wanted = np.einsum(f"{left},{right}->{out}", *(one.astype(np.float64) for one in (x, y)))
    assert rel_error(got, wanted) < 1e-6
    assert any("one thread's" in record.reason for record in report.found("repaired"))


def test_zeros_that_fill_tiles_of_halves_meet_no_others() -> None:
    """Behind the last row of the second factor is memory that the interpreter does not read."""
    sizes, report = {"x": 2, "y": 16, "a": 24, "b": 32}, Report()
    text = product("xya", "xab", "xyb", sizes, "f16")
    module = lowered(text, CUDA, report=report, products="never")
    numbers = np.random.default_rng(3)
    shapes = (2, 16, 24), (2, 24, 32)
    x, y = (numbers.standard_normal(shape, np.float32).astype(np.float16) for shape in shapes)
    (got,) = run_gpu_module(module, [x, y])
    assert rel_error(got, x.astype(np.float64) @ y.astype(np.float64)) < 1e-6
    assert any("end with their dims" in record.reason for record in report.found("repaired"))


def test_products_whose_loops_have_another_order_than_their_result() -> None:
    sizes = {"x": 2, "b": 8, "y": 4, "a": 64}
    module = lowered(product("xbya", "ba", "byx", sizes, loops="xbya"), CUDA)
    lower_vectors(module)
    numbers = np.random.default_rng(3)
    x, y = (numbers.standard_normal(shape, np.float32) for shape in ((2, 8, 4, 64), (8, 64)))
    (got,) = run_gpu_module(module, [x, y])
    assert rel_error(got, np.einsum("xbya,ba->byx", x.astype(np.float64), y)) < 1e-6


def product(
    left: str, right: str, out: str, sizes: dict[str, int], kind: str = "f32", loops: str = ""
) -> str:
    """A program of one product of factors of a type, with sums in f32."""
    loops = loops or "".join(dict.fromkeys(out + left + right))
    types = zip((left, right, out), (kind, kind, "f32"), strict=True)
    x, y, o = (
        f"tensor<{'x'.join([*(str(sizes[dim]) for dim in one), each])}>" for one, each in types
    )
    widened = [
        f"%{name}w = arith.extf %{name} : {kind} to f32" if kind != "f32" else "" for name in "pq"
    ]
    p, q = (f"%{name}w" if kind != "f32" else f"%{name}" for name in "pq")
    maps = [f"affine_map<({', '.join(loops)}) -> ({', '.join(one)})>" for one in (left, right, out)]
    iterators = [f'"{"parallel" if dim in out else "reduction"}"' for dim in loops]
    return f"""func.func @main(%x: {x}, %y: {y}) -> {o} {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {o}
      %z = linalg.fill ins(%zero : f32) outs(%e : {o}) -> {o}
      %r = linalg.generic {{indexing_maps = [{", ".join(maps)}],
          iterator_types = [{", ".join(iterators)}]}} ins(%x, %y : {x}, {y}) outs(%z : {o}) {{
      ^bb0(%p: {kind}, %q: {kind}, %s: f32):
        {widened[0]}
        {widened[1]}
        %m = arith.mulf {p}, {q} : f32
        %t = arith.addf %s, %m : f32
        linalg.yield %t : f32
      }} -> {o}
      return %r : {o}
    }}"""


@pytest.mark.parametrize(
    ("name", "hardware_exp2"), in_each_way(((name,) for name in FORMS), [True, False])
)
def test_attention(name: str, hardware_exp2: bool) -> None:
    form, report = FORMS[name], Report()
    form = dataclasses.replace(form, sizes=(*SMALL, *form.sizes))
    module = lowered(form.text("main"), CUDA, report=report, hardware_exp2=hardware_exp2)
    assert ("ex2.approx" in str(module)) == hardware_exp2
    (result,) = run_gpu_module(module, form.arguments())
    assert rel_error(result, form.wanted()[0]) < TOLERANCE[form.kinds[0]]
    assert not report.events
    assert any("transposed in registers" in record.reason for record in report.found("repaired"))


@pytest.mark.parametrize(
    ("name", "kind"), in_each_way(((name,) for name in UNKNOWN), ["f16", "bf16"])
)
def test_head_dims_of_unknown_size(name: str, kind: str) -> None:
    sizes = (("b", 2), ("h", 2), ("m", 3), ("g", 2), ("k", 8), ("n", 8), ("d", 6), ("e", 16))
    form = dataclasses.replace(UNKNOWN[name], kinds=(kind,) * 4, sizes=sizes)
    report = Report()
    module = lowered(form.text("main"), CUDA, report=report)
    (result,) = run_gpu_module(module, form.arguments())
    assert rel_error(result, form.wanted()[0]) < TOLERANCE[kind]
    assert not report.events
    assert any("one thread's" in record.reason for record in report.found("repaired"))


QUANTISED = """
func.func @main(%q: tensor<?x3x32xf32>, %k: tensor<3x32x3xf32>, %bytes: tensor<3x?xi8>, %factor: tensor<f32>) -> tensor<?x?xf32> {
  %scale = arith.constant 0.125 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %q, %c0 : tensor<?x3x32xf32>
  %width = tensor.dim %bytes, %c1 : tensor<3x?xi8>
  %qe = tensor.empty(%rows) : tensor<32x?x3xf32>
  %qt = linalg.transpose ins(%q : tensor<?x3x32xf32>) outs(%qe : tensor<32x?x3xf32>) permutation = [2, 0, 1]
  %ve = tensor.empty(%width) : tensor<3x?xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(k, n) -> (k, n)>, affine_map<(k, n) -> ()>, affine_map<(k, n) -> (k, n)>], iterator_types = ["parallel", "parallel"]} ins(%bytes, %factor : tensor<3x?xi8>, tensor<f32>) outs(%ve : tensor<3x?xf32>) {
  ^bb0(%a: i8, %b: f32, %o: f32):
    %f = arith.sitofp %a : i8 to f32
    %p = arith.mulf %f, %b : f32
    linalg.yield %p : f32
  } -> tensor<3x?xf32>
  %e = tensor.empty(%rows, %width) : tensor<?x?xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, d, e, k, n) -> (d, m, e)>, affine_map<(m, d, e, k, n) -> (k, d, e)>, affine_map<(m, d, e, k, n) -> (k, n)>, affine_map<(m, d, e, k, n) -> ()>, affine_map<(m, d, e, k, n) -> (m, n)>]> ins(%qt, %k, %v, %scale : tensor<32x?x3xf32>, tensor<3x32x3xf32>, tensor<3x?xf32>, f32) outs(%e : tensor<?x?xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""  # noqa: E501


@pytest.mark.parametrize(("rows", "width"), [(1, 32), (5, 24)])
def test_transposed_queries_of_unknown_sizes(rows: int, width: int) -> None:
    rng = np.random.default_rng(rows)
    q, k = (rng.standard_normal(shape, np.float32) for shape in ((rows, 3, 32), (3, 32, 3)))
    v, factor = rng.integers(-9, 9, (3, width)).astype(np.int8), np.array(0.25, np.float32)
    (got,) = run_gpu_module(lowered(QUANTISED, CUDA), [q, k, v, factor])
    scores = np.einsum("med,kde->mk", q.astype(np.float64), k) * 0.125
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    assert rel_error(got, weights @ (v * 0.25)) < TOLERANCE["f32"]


NORM = """
#row = affine_map<(b, m, n) -> (b, m, n)>
#sum = affine_map<(b, m, n) -> (b, m)>
#weight = affine_map<(b, m, n) -> (n)>
#mean = affine_map<(b, m, n) -> (b, n)>
func.func @main(%x: tensor<2x16x768xf32>, %g: tensor<768xf32>) -> tensor<2x768xf32> {
  %zero = arith.constant 0.0 : f32
  %width = arith.constant 768.0 : f32
  %count = arith.constant 16.0 : f32
  %tiny = arith.constant 1.0e-5 : f32
  %se = tensor.empty() : tensor<2x16xf32>
  %sz = linalg.fill ins(%zero : f32) outs(%se : tensor<2x16xf32>) -> tensor<2x16xf32>
  %e = tensor.empty() : tensor<2x16x768xf32>
  %s = linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x16x768xf32>) outs(%sz : tensor<2x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<2x16xf32>
  %c = linalg.generic {indexing_maps = [#row, #sum, #row], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %s : tensor<2x16x768xf32>, tensor<2x16xf32>) outs(%e : tensor<2x16x768xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.divf %b, %width : f32
    %t = arith.subf %a, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x16x768xf32>
  %v = linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%c : tensor<2x16x768xf32>) outs(%sz : tensor<2x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.mulf %a, %a : f32
    %t = arith.addf %q, %o : f32
    linalg.yield %t : f32
  } -> tensor<2x16xf32>
  %d = linalg.generic {indexing_maps = [#row, #sum, #row], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c, %v : tensor<2x16x768xf32>, tensor<2x16xf32>) outs(%e : tensor<2x16x768xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.divf %b, %width : f32
    %p = arith.addf %m, %tiny : f32
    %r = math.rsqrt %p : f32
    %t = arith.mulf %a, %r : f32
    linalg.yield %t : f32
  } -> tensor<2x16x768xf32>
  %n = linalg.generic {indexing_maps = [#row, #weight, #row], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d, %g : tensor<2x16x768xf32>, tensor<768xf32>) outs(%e : tensor<2x16x768xf32>) {
  ^bb0(%a: f32, %w: f32, %o: f32):
    %t = arith.mulf %a, %w : f32
    linalg.yield %t : f32
  } -> tensor<2x16x768xf32>
  %me = tensor.empty() : tensor<2x768xf32>
  %mz = linalg.fill ins(%zero : f32) outs(%me : tensor<2x768xf32>) -> tensor<2x768xf32>
  %t = linalg.generic {indexing_maps = [#row, #mean], iterator_types = ["parallel", "reduction", "parallel"]} ins(%n : tensor<2x16x768xf32>) outs(%mz : tensor<2x768xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.addf %a, %o : f32
    linalg.yield %q : f32
  } -> tensor<2x768xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, n) -> (b, n)>, affine_map<(b, n) -> (b, n)>], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<2x768xf32>) outs(%me : tensor<2x768xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.divf %a, %count : f32
    linalg.yield %q : f32
  } -> tensor<2x768xf32>
  return %r : tensor<2x768xf32>
}
"""  # noqa: E501


def test_means_of_norms_without_bias() -> None:
    """Embeddings of sentences: IREE has no program for the norm, nor for the mean."""
    rng, report = np.random.default_rng(5), Report()
    x, weight = (rng.standard_normal(shape, np.float32) for shape in ((2, 16, 768), 768))
    (got,) = run_gpu_module(lowered(NORM, CUDA, report=report), [x, weight])
    wide = x.astype(np.float64)
    normed = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    assert rel_error(got, (normed * weight).mean(1)) < 1e-5
    reasons = " ".join(record.reason for record in report.found("repaired"))
    assert "beside sums" in reasons
    assert "without summed dims" in reasons


BESIDE = """
#row = affine_map<(m, n) -> (m, n)>
#sum = affine_map<(m, n) -> (m)>
func.func @main(%x: tensor<8x64xKIND>, %y: tensor<8x64xKIND>) -> (tensor<8x64xKIND>, tensor<8x64xKIND>, tensor<8x64xKIND>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x64xKIND>
  %se = tensor.empty() : tensor<8xf32>
  %sz = linalg.fill ins(%zero : f32) outs(%se : tensor<8xf32>) -> tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<8x64xKIND>, tensor<8x64xKIND>) outs(%e : tensor<8x64xKIND>) {
  ^bb0(%i: KIND, %j: KIND, %o: KIND):
    %t = arith.mulf %i, %j : KIND
    linalg.yield %t : KIND
  } -> tensor<8x64xKIND>
  %b = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]} ins(%a, %y : tensor<8x64xKIND>, tensor<8x64xKIND>) outs(%e : tensor<8x64xKIND>) {
  ^bb0(%i: KIND, %j: KIND, %o: KIND):
    %t = arith.addf %i, %j : KIND
    linalg.yield %t : KIND
  } -> tensor<8x64xKIND>
  %c = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]} ins(%FROM, %x : tensor<8x64xKIND>, tensor<8x64xKIND>) outs(%e : tensor<8x64xKIND>) {
  ^bb0(%i: KIND, %j: KIND, %o: KIND):
    %t = arith.mulf %i, %j : KIND
    linalg.yield %t : KIND
  } -> tensor<8x64xKIND>
  %d = linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["parallel", "reduction"]} ins(%b : tensor<8x64xKIND>) outs(%sz : tensor<8xf32>) {
  ^bb0(%i: KIND, %o: f32):
    %w = WIDENED
    %t = arith.addf %w, %o : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %a, %b, %c, %d : tensor<8x64xKIND>, tensor<8x64xKIND>, tensor<8x64xKIND>, tensor<8xf32>
}
"""  # noqa: E501


@pytest.mark.parametrize(("kind", "side"), [("f32", "a"), ("f32", "b"), ("f16", "x")])
def test_what_leads_to_no_sum(kind: str, side: str) -> None:
    """Beside a sum, of what it reads or what that is made of: IREE has no program for both. In
    16 bits what is only a result is rounded there."""
    widened = "arith.addf %i, %zero : f32" if kind == "f32" else "arith.extf %i : f16 to f32"
    text = BESIDE.replace("KIND", kind).replace("WIDENED", widened).replace("%FROM", f"%{side}")
    rng, report = np.random.default_rng(5), Report()
    given = [rng.standard_normal((8, 64)).astype({"f32": "f4", "f16": "f2"}[kind]) for _ in "xy"]
    got = run_gpu_module(lowered(text, CUDA, report=report), given)
    x, y = (one.astype(np.float64) for one in given)
    values = {"x": x, "a": x * y, "b": x * y + y}
    wanted = [values["a"], values["b"], values[side] * x, values["b"].sum(-1)]
    for one, right in zip(got, wanted, strict=True):
        assert rel_error(one, right) < {"f32": 1e-6, "f16": 1e-3}[kind]
    assert "beside sums" in " ".join(record.reason for record in report.found("repaired"))
    assert not report.events


def test_exponentials_behind_one_reshape() -> None:
    """A sum and, by a transpose, a product read them, of unknown sizes: in one kernel of IREE's
    with the maximum all threads write them, and one of them knows it."""
    graph = graph_of(122218)
    flags = [*CUDA, "--iree-opt-level=O2"]
    report = Report()
    module = lowered(graph.text, flags, mode="cost", report=report)
    got = run_gpu_module(module, graph.calls[0], graph.name)
    assert rel_error(got[0], graph.wanted[0][0]) < TOLERANCE["f16"]
    assert "beside sums" in " ".join(record.reason for record in report.found("repaired"))
