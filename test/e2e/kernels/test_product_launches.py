"""What products' kernels are told: programs before and after they are launched, in numpy.

The kernels are those of product_model.py, which read and write where they are told. That the code
for GPUs does so was measured (bench/cases/product_kernels.py).
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers import ALL_RUN
from interpreter import Machine, interpret
from iree.compiler import ir
from random_modules import seeded
from random_products import PROGRAMS, Products

import attnpass

# Programs round the constants of a GELU to 16 bits, kernels have their own.
TOLERANCE = 4e-3
FAMILIES = (
    "product",
    "several products",
    "projections",
    "feed-forward",
    "batch",
    "cache",
    "groups",
)
PASS = "attn-use-products{target=sm_90 mode=always}"


# Heads are read out of rows and of slices, and written among the rows.
LATENTS = """
#id = affine_map<(b, m, n) -> (b, m, n)>
func.func @main(%q: tensor<2x72x4x48xf16>, %w: tensor<4x56x64xf16>) -> tensor<2x72x4x64xf16> {
  %zero = arith.constant 0.0 : f32
  %qs = tensor.extract_slice %q[0, 0, 0, 8] [2, 72, 4, 40] [1, 1, 1, 1]
      : tensor<2x72x4x48xf16> to tensor<2x72x4x40xf16>
  %ws = tensor.extract_slice %w[0, 16, 0] [4, 40, 64] [1, 1, 1]
      : tensor<4x56x64xf16> to tensor<4x40x64xf16>
  %eq = tensor.empty() : tensor<4x2x72x40xf16>
  %qt = linalg.transpose ins(%qs : tensor<2x72x4x40xf16>) outs(%eq : tensor<4x2x72x40xf16>)
      permutation = [2, 0, 1, 3]
  %qc = tensor.collapse_shape %qt [[0], [1, 2], [3]]
      : tensor<4x2x72x40xf16> into tensor<4x144x40xf16>
  %e = tensor.empty() : tensor<4x144x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x144x64xf32>) -> tensor<4x144x64xf32>
  %p = linalg.batch_matmul ins(%qc, %ws : tensor<4x144x40xf16>, tensor<4x40x64xf16>)
      outs(%f : tensor<4x144x64xf32>) -> tensor<4x144x64xf32>
  %h = tensor.empty() : tensor<4x144x64xf16>
  %r = linalg.generic {indexing_maps = [#id, #id],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<4x144x64xf32>) outs(%h : tensor<4x144x64xf16>) {
  ^bb0(%i: f32, %o: f16):
    %t = arith.truncf %i : f32 to f16
    linalg.yield %t : f16
  } -> tensor<4x144x64xf16>
  %x = tensor.expand_shape %r [[0], [1, 2], [3]] output_shape [4, 2, 72, 64]
      : tensor<4x144x64xf16> into tensor<4x2x72x64xf16>
  %et = tensor.empty() : tensor<2x72x4x64xf16>
  %t = linalg.transpose ins(%x : tensor<4x2x72x64xf16>) outs(%et : tensor<2x72x4x64xf16>)
      permutation = [1, 2, 0, 3]
  return %t : tensor<2x72x4x64xf16>
}
"""
# Experts of the same rows, which multiply one half of their columns with the other.
EXPERTS = """
#id = affine_map<(b, m, n) -> (b, m, n)>
#shared = affine_map<(b, m, n) -> (m, n)>
func.func @main(%a: tensor<70x24xf16>, %w: tensor<3x24x144xf16>) -> tensor<3x70x72xf16> {
  %zero = arith.constant 0.0 : f16
  %ea = tensor.empty() : tensor<3x70x24xf16>
  %all = linalg.generic {indexing_maps = [#shared, #id],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%a : tensor<70x24xf16>) outs(%ea : tensor<3x70x24xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<3x70x24xf16>
  %e = tensor.empty() : tensor<3x70x144xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<3x70x144xf16>) -> tensor<3x70x144xf16>
  %p = linalg.batch_matmul ins(%all, %w : tensor<3x70x24xf16>, tensor<3x24x144xf16>)
      outs(%f : tensor<3x70x144xf16>) -> tensor<3x70x144xf16>
  %up = tensor.extract_slice %p[0, 0, 0] [3, 70, 72] [1, 1, 1]
      : tensor<3x70x144xf16> to tensor<3x70x72xf16>
  %gate = tensor.extract_slice %p[0, 0, 72] [3, 70, 72] [1, 1, 1]
      : tensor<3x70x144xf16> to tensor<3x70x72xf16>
  %h = tensor.empty() : tensor<3x70x72xf16>
  %r = linalg.generic {indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%gate, %up : tensor<3x70x72xf16>, tensor<3x70x72xf16>) outs(%h : tensor<3x70x72xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %one = arith.constant 1.0 : f16
    %n = arith.negf %i : f16
    %x = math.exp %n : f16
    %d = arith.addf %x, %one : f16
    %s = arith.divf %i, %d : f16
    %y = arith.mulf %s, %j : f16
    linalg.yield %y : f16
  } -> tensor<3x70x72xf16>
  return %r : tensor<3x70x72xf16>
}
"""


# SiLU of the second half of a product's columns times the first, of a depth that 8 does not divide.
SWIGLU = """
#id = affine_map<(m, n) -> (m, n)>
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#r = affine_map<(m, n, k) -> (m, n)>
func.func @main(%a: tensor<300x35xf16>, %w: tensor<144x35xf16>) -> tensor<300x72xf16> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f16
  %wide = tensor.empty() : tensor<300x144xf32>
  %all = tensor.empty() : tensor<300x144xf16>
  %space = tensor.empty() : tensor<300x72xf16>
  %z = linalg.fill ins(%zero : f32) outs(%wide : tensor<300x144xf32>) -> tensor<300x144xf32>
  %s = linalg.matmul indexing_maps = [#a, #w, #r]
      ins(%a, %w : tensor<300x35xf16>, tensor<144x35xf16>)
      outs(%z : tensor<300x144xf32>) -> tensor<300x144xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<300x144xf32>) outs(%all : tensor<300x144xf16>) {
  ^bb0(%x: f32, %o: f16):
    %t = arith.truncf %x : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x144xf16>
  %up = tensor.extract_slice %p[0, 0] [300, 72] [1, 1]
      : tensor<300x144xf16> to tensor<300x72xf16>
  %gate = tensor.extract_slice %p[0, 72] [300, 72] [1, 1]
      : tensor<300x144xf16> to tensor<300x72xf16>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%gate, %up : tensor<300x72xf16>, tensor<300x72xf16>) outs(%space : tensor<300x72xf16>) {
  ^bb0(%x: f16, %y: f16, %o: f16):
    %n = arith.negf %x : f16
    %e = math.exp %n : f16
    %d = arith.addf %e, %one : f16
    %t = arith.divf %x, %d : f16
    %u = arith.mulf %t, %y : f16
    linalg.yield %u : f16
  } -> tensor<300x72xf16>
  return %h : tensor<300x72xf16>
}
"""


def grouped(weights: str, end: str, element: str = "f16", m: str = "70") -> str:
    """Rows in 5 groups as a front end writes them."""
    shapes = {"kn": ("5x24x72", "(g, k, n)"), "nk": ("5x72x24", "(g, n, k)")}
    shape, order = shapes[weights]
    loops = order.strip("()").replace("g", "d0").replace("k", "d3").replace("n", "d2")
    return f"""
#row = affine_map<(m, g) -> (m)>
#end = affine_map<(m, g) -> (g)>
#id = affine_map<(g, m, n) -> (g, m, n)>
func.func @main(%a: tensor<{m}x24x{element}>, %w: tensor<{shape}x{element}>, %ends: tensor<5x{end}>)
    -> tensor<{m}x72x{element}> {{
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0 : i64
  %low = arith.constant 0.0 : {element}
  %c0 = arith.constant 0 : index
  %m = tensor.dim %a, %c0 : tensor<{m}x24x{element}>
  %e0 = tensor.empty({"%m" if m == "?" else ""}) : tensor<{m}xi64>
  %f0 = linalg.fill ins(%none : i64) outs(%e0 : tensor<{m}xi64>) -> tensor<{m}xi64>
  %group = linalg.generic {{indexing_maps = [#end, #row],
      iterator_types = ["parallel", "reduction"]}}
      ins(%ends : tensor<5x{end}>) outs(%f0 : tensor<{m}xi64>) {{
  ^bb0(%i: {end}, %o: i64):
    %r = linalg.index 0 : index
    %p = arith.index_cast %r : index to i64
    {"%q = arith.extsi %i : i32 to i64" if end == "i32" else ""}
    %b = arith.cmpi sge, %p, {"%q" if end == "i32" else "%i"} : i64
    %x = arith.extui %b : i1 to i64
    %s = arith.addi %x, %o : i64
    linalg.yield %s : i64
  }} -> tensor<{m}xi64>
  %e = tensor.empty({"%m" if m == "?" else ""}) : tensor<5x{m}x72xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x{m}x72xf32>) -> tensor<5x{m}x72xf32>
  %all = linalg.generic {{indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1, d3)>,
      affine_map<(d0, d1, d2, d3) -> ({loops})>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
      ins(%a, %w : tensor<{m}x24x{element}>, tensor<{shape}x{element}>)
      outs(%f : tensor<5x{m}x72xf32>) {{
  ^bb0(%i: {element}, %j: {element}, %o: f32):
    %x = arith.extf %i : {element} to f32
    %y = arith.extf %j : {element} to f32
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  }} -> tensor<5x{m}x72xf32>
  %h = tensor.empty({"%m" if m == "?" else ""}) : tensor<5x{m}x72x{element}>
  %own = linalg.generic {{
      indexing_maps = [affine_map<(g, m, n) -> (m)>, #id, #id],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%group, %all : tensor<{m}xi64>, tensor<5x{m}x72xf32>)
      outs(%h : tensor<5x{m}x72x{element}>) {{
  ^bb0(%i: i64, %j: f32, %o: {element}):
    %g = linalg.index 0 : index
    %c = arith.index_cast %g : index to i64
    %b = arith.cmpi eq, %i, %c : i64
    %t = arith.truncf %j : f32 to {element}
    %s = arith.select %b, %t, %low : {element}
    linalg.yield %s : {element}
  }} -> tensor<5x{m}x72x{element}>
  %er = tensor.empty({"%m" if m == "?" else ""}) : tensor<{m}x72xf32>
  %fr = linalg.fill ins(%zero : f32) outs(%er : tensor<{m}x72xf32>) -> tensor<{m}x72xf32>
  %sum = linalg.generic {{
      indexing_maps = [#id, affine_map<(g, m, n) -> (m, n)>],
      iterator_types = ["reduction", "parallel", "parallel"]}}
      ins(%own : tensor<5x{m}x72x{element}>) outs(%fr : tensor<{m}x72xf32>) {{
  ^bb0(%i: {element}, %o: f32):
    %x = arith.extf %i : {element} to f32
    %s = arith.addf %x, %o : f32
    linalg.yield %s : f32
  }} -> tensor<{m}x72xf32>
  %eh = tensor.empty({"%m" if m == "?" else ""}) : tensor<{m}x72x{element}>
  %done = linalg.generic {{
      indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}}
      ins(%sum : tensor<{m}x72xf32>) outs(%eh : tensor<{m}x72x{element}>) {{
  ^bb0(%i: f32, %o: {element}):
    %t = arith.truncf %i : f32 to {element}
    linalg.yield %t : {element}
  }} -> tensor<{m}x72x{element}>
  return %done : tensor<{m}x72x{element}>
}}
"""


# In any order, with empty groups, rows behind the last end, and ends behind the last row.
ENDS = (
    [3, 20, 20, 41, 70],
    [0, 0, 9, 9, 66],
    [50, 7, 90, 7, 33],
    [-4, 70, 71, 200, 2000],
)


def launches_of(module: ir.Module, kind: str = "") -> int:
    return str(module).count(f'hal.dispatch.extern "{kind}')


def check(function: Products, seed: int) -> tuple[int, int]:
    """Holds a program against itself with launches; returns how many there are, and how many of
    these are of several products."""
    calls = function.calls(np.random.default_rng(seed))[:1]
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(function.text())
        wanted = [Machine(module).call(function.name, call) for call in calls]
        attnpass.run(module, PASS)
        got = [Machine(module).call(function.name, call) for call in calls]
        for one, other in zip(got[0], wanted[0], strict=True):
            assert np.linalg.norm(one - other) <= TOLERANCE * np.linalg.norm(other)
        joined = [launches_of(module, f"product_{kind}_joined") for kind in ("f16", "bf16")]
        return launches_of(module), sum(joined)


@pytest.mark.parametrize("family", FAMILIES)
def test_launches_compute_what_the_products_did(family: str) -> None:
    launches = joined = 0
    count = 32 if ALL_RUN else 14
    for seed in range(count):
        function = Products(f"p{seed}", seeded(seed), may_be_dynamic=seed % 2 == 0)
        function.setup()
        PROGRAMS[family](function)
        here, together = check(function, seed)
        launches, joined = launches + here, joined + together
    assert 2 * launches >= count and (3 * joined > count or family != "projections")


@pytest.mark.parametrize("family", ["product", "feed-forward", "batch", "cache"])
def test_launches_compute_what_products_of_f32_did(family: str) -> None:
    launches = 0
    count = 12 if ALL_RUN else 6
    for seed in range(100, 100 + count):
        function = Products(f"p{seed}", seeded(seed), may_be_dynamic=seed % 2 == 0)
        function.setup()
        function.kind = "f32"
        PROGRAMS[family](function)
        launches += check(function, seed)[0]
    assert 3 * launches > 2 * count


def test_halves_of_columns_keep_both_where_the_depth_is_filled_up() -> None:
    """A gate's weights are those of all columns, of which a kernel reads each half."""
    generator = np.random.default_rng(4)
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(SWIGLU)
        types = module.body.operations[0].type.inputs
        inputs = [generator.standard_normal(ir.RankedTensorType(kind).shape) for kind in types]
        (wanted,) = interpret(module, inputs)
        attnpass.run(module, PASS)
        (got,) = interpret(module, inputs)
        assert 'hal.dispatch.extern "product_f16_tile256_sigmoid_gated_general"' in str(module)
    assert np.allclose(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("m", ["70", "?"])
@pytest.mark.parametrize(("weights", "end"), [("kn", "i32"), ("nk", "i64")])
def test_rows_in_groups_are_multiplied_once(weights: str, end: str, m: str) -> None:
    generator = np.random.default_rng(5)
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(grouped(weights, end, "bf16" if m == "?" else "f16", m))
        kind = ir.RankedTensorType(module.body.operations[0].type.inputs[1])
        operands = [generator.standard_normal(shape) for shape in ((70, 24), kind.shape)]
        wanted = [interpret(module, [*operands, np.array(ends)])[0] for ends in ENDS]
        attnpass.run(module, f"{PASS},cse")
        name = "product_" + ("bf16" if m == "?" else "f16") + "_grouped_tile256"
        assert f'hal.dispatch.extern "{name}{"_kn" if weights == "kn" else ""}"' in str(module)
        assert launches_of(module) == 1
        for ends, one in zip(ENDS, wanted, strict=True):
            (got,) = interpret(module, [*operands, np.array(ends)])
            assert np.allclose(got, one, rtol=1e-6, atol=1e-6)


def test_products_of_all_groups_that_others_read_are_left() -> None:
    text = grouped("nk", "i64").replace("tensor<70x72xf16> {", "(tensor<70x72xf16>, ALL) {", 1)
    text = text.replace(
        "return %done : tensor<70x72xf16>", "return %done, %own : tensor<70x72xf16>, ALL"
    )
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(text.replace("ALL", "tensor<5x70x72xf16>"))
        attnpass.run(module, PASS)
        assert "grouped" not in str(module)


@pytest.mark.parametrize(
    ("text", "kernel", "left"),
    [
        (LATENTS, "product_f16_batched_tile128_kn", "linalg.transpose"),
        (EXPERTS, "product_f16_batched_tile256_kn_sigmoid_gated_general", "linalg.generic"),
    ],
    ids=["latents", "experts"],
)
def test_operands_are_read_where_they_lie(text: str, kernel: str, left: str) -> None:
    """One launch, without copies in front of it or behind."""
    generator = np.random.default_rng(3)
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        types = module.body.operations[0].type.inputs
        inputs = [generator.standard_normal(ir.RankedTensorType(kind).shape) for kind in types]
        (wanted,) = interpret(module, inputs)
        attnpass.run(module, f"{PASS},cse")
        (got,) = interpret(module, inputs)
        assert f'hal.dispatch.extern "{kernel}"' in str(module)
        assert launches_of(module) == 1 and left not in str(module)
    assert np.allclose(got, wanted, rtol=1e-6, atol=1e-6)


def widened(rows: str, weights: str) -> str:
    """Heads of rows times heads of weights in f32, of which each may be widened in front of a view
    that takes a batch of one away."""

    def given(name: str, kind: str, m: int) -> str:
        whole, narrow = f"tensor<1x4x{m}x24xf32>", f"tensor<1x4x{m}x24x{kind}>"
        made = f"""
  %{name}e = tensor.empty() : {whole}
  %{name}w = linalg.generic {{indexing_maps = [#all, #all],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%{name} : {narrow}) outs(%{name}e : {whole}) {{
  ^bb0(%i: {kind}, %o: f32):
    %x = arith.extf %i : {kind} to f32
    linalg.yield %x : f32
  }} -> {whole}"""
        source = f"%{name}" if kind == "f32" else f"%{name}w"
        return f"""{made if kind != "f32" else ""}
  %{name}c = tensor.collapse_shape {source} [[0, 1], [2], [3]] : {whole} into tensor<4x{m}x24xf32>
"""

    return f"""
#all = affine_map<(a, b, c, d) -> (a, b, c, d)>
func.func @main(%a: tensor<1x4x80x24x{rows}>, %w: tensor<1x4x72x24x{weights}>)
    -> tensor<4x80x72xf32> {{
  %zero = arith.constant 0.0 : f32
  {given("a", rows, 80)}{given("w", weights, 72)}
  %e = tensor.empty() : tensor<4x80x72xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x80x72xf32>) -> tensor<4x80x72xf32>
  %p = linalg.batch_matmul indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>,
      affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>]
      ins(%ac, %wc : tensor<4x80x24xf32>, tensor<4x72x24xf32>)
      outs(%f : tensor<4x80x72xf32>) -> tensor<4x80x72xf32>
  return %p : tensor<4x80x72xf32>
}}
"""


@pytest.mark.parametrize(
    ("rows", "weights", "kernel"),
    [
        ("bf16", "bf16", "bf16"),
        ("f16", "f16", "f16"),
        ("bf16", "f32", "f32"),
        ("f32", "f16", "f32"),
        ("bf16", "f16", "f32"),
    ],
)
def test_kernels_read_the_type_that_they_are_for(rows: str, weights: str, kernel: str) -> None:
    """Factors are read as they were before they were widened, where both were of one type."""
    generator = np.random.default_rng(6)
    inputs = [generator.standard_normal(shape) for shape in ((1, 4, 80, 24), (1, 4, 72, 24))]
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(widened(rows, weights))
        (wanted,) = interpret(module, inputs)
        attnpass.run(module, f"{PASS},cse")
        (got,) = interpret(module, inputs)
    assert launches_of(module, f"product_{kernel}_batched") == 1
    assert np.allclose(got, wanted, rtol=1e-6, atol=1e-6)


UNIT_MOVED = """
#left = affine_map<(b, m, n, k) -> (b, m, k)>
#right = affine_map<(b, m, n, k) -> (b, n, k)>
#made = affine_map<(b, m, n, k) -> (b, m, n)>
#id = affine_map<(a, b, c) -> (a, b, c)>
func.func @main(%a: tensor<1x?x24xf16>, %w: tensor<1x8x24xf16>) -> tensor<?x1x8xf32> {
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c1 : tensor<1x?x24xf16>
  %e = tensor.empty(%m) : tensor<1x?x8xf32>
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x?x8xf32>) -> tensor<1x?x8xf32>
  %p = linalg.contract indexing_maps = [#left, #right, #made]
      ins(%a, %w : tensor<1x?x24xf16>, tensor<1x8x24xf16>) outs(%f : tensor<1x?x8xf32>)
      -> tensor<1x?x8xf32>
  %g = tensor.empty(%m) : tensor<?x1x8xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (b, a, c)>, #id],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<1x?x8xf32>) outs(%g : tensor<?x1x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<?x1x8xf32>
  return %t : tensor<?x1x8xf32>
}
"""


@pytest.mark.parametrize("m", ["9", "?"])
def test_results_keep_their_sizes_where_a_dim_of_one_moves(m: str) -> None:
    """A transpose of a dim of size one moves nothing, but the sizes."""
    text = UNIT_MOVED if m == "?" else UNIT_MOVED.replace("?", m).replace("empty(%m)", "empty()")
    generator = np.random.default_rng(2)
    inputs = [generator.standard_normal(shape) for shape in ((1, 9, 24), (1, 8, 24))]
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        (wanted,) = interpret(module, inputs)
        attnpass.run(module, PASS)
        (got,) = interpret(module, inputs)
        assert launches_of(module) == 1 and "tensor.cast" not in str(module)
    assert got.shape == wanted.shape == (9, 1, 8)
    assert np.allclose(got, wanted, rtol=1e-6, atol=1e-6)


def few_columns(n: int, weights: str, result: str) -> str:
    """304 rows with few columns, scaled, in f32 or rounded."""
    shape, order = {"nk": (f"{n}x2048", "(n, k)"), "kn": (f"2048x{n}", "(k, n)")}[weights]
    wide, lies = f"tensor<4x76x{n}xf32>", f"tensor<{shape}xf16>"
    narrow = "%t = arith.truncf %s : f32 to f16" if result == "f16" else ""
    made = "%t" if narrow else "%s"
    return f"""
func.func @main(%a: tensor<4x76x2048xf16>, %w: {lies}) -> tensor<4x76x{n}x{result}> {{
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : {wide}
  %f = linalg.fill ins(%zero : f32) outs(%e : {wide}) -> {wide}
  %p = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>,
      affine_map<(b, m, n, k) -> {order}>, affine_map<(b, m, n, k) -> (b, m, n)>]
      ins(%a, %w : tensor<4x76x2048xf16>, {lies}) outs(%f : {wide}) -> {wide}
  %h = tensor.empty() : tensor<4x76x{n}x{result}>
  %r = linalg.generic {{indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>,
      affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%p : {wide}) outs(%h : tensor<4x76x{n}x{result}>) {{
  ^bb0(%i: f32, %o: {result}):
    %s = arith.mulf %i, %half : f32
    {narrow}
    linalg.yield {made} : {result}
  }} -> tensor<4x76x{n}x{result}>
  return %r : tensor<4x76x{n}x{result}>
}}
"""


@pytest.mark.parametrize("result", ["f16", "f32"])
@pytest.mark.parametrize(
    ("n", "weights"), [(5, "nk"), (8, "kn"), (16, "nk"), (40, "nk"), (64, "kn")]
)
def test_few_columns_are_rows_of_the_turned_product(n: int, weights: str, result: str) -> None:
    generator = np.random.default_rng(n)
    shape = (n, 2048) if weights == "nk" else (2048, n)
    inputs = [generator.standard_normal(each) for each in ((4, 76, 2048), shape)]
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(few_columns(n, weights, result))
        (wanted,) = interpret(module, inputs)
        attnpass.run(module, PASS)
        (got,) = interpret(module, inputs)
        kind = f"product_f16_few{16 if n <= 16 else 64}"
        assert launches_of(module) == launches_of(module, kind) == 1
    assert np.allclose(got, wanted, rtol=1e-6, atol=1e-6)
