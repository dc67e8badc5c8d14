"""Products that IREE 3.13's CUDA kernels get wrong are right, kernels interpreted in numpy."""

from __future__ import annotations

from functools import cache
from typing import Any

import gpu_interpreter
import numpy as np
import pytest
from gpu_module import lower, lowered, run_gpu_module
from helpers import at_levels, in_each_way, pairwise, rel_error, renamed, symbol
from iree.compiler import ir

import attnpass

CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90")


def product(maps: tuple[str, str, str], kinds: tuple[str, str, str]) -> str:
    """A function that multiplies tensors of these types; maps are letters, k and l summed."""
    loops = sorted({*"".join(maps)}, key=lambda dim: (dim in "kl", dim))
    indexing = [f"affine_map<({', '.join(loops)}) -> ({', '.join(one)})>" for one in maps]
    iterators = [f'"{"reduction" if dim in "kl" else "parallel"}"' for dim in loops]
    left, right, out = kinds
    element = left.rpartition("x")[2].rstrip(">")
    casts = "" if element == "f32" else f"%x = arith.extf %a : {element} to f32\n"
    casts += casts.replace("%x", "%y").replace("%a", "%b")
    factors = "%x, %y" if casts else "%a, %b"
    return f"""func.func @main(%q: {left}, %k: {right}) -> {out} {{
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : {out}
      %start = linalg.fill ins(%zero : f32) outs(%empty : {out}) -> {out}
      %r = linalg.generic {{indexing_maps = [{", ".join(indexing)}],
          iterator_types = [{", ".join(iterators)}]}}
          ins(%q, %k : {left}, {right}) outs(%start : {out}) {{
      ^bb0(%a: {element}, %b: {element}, %c: f32):
        {casts}%p = arith.mulf {factors} : f32
        %s = arith.addf %c, %p : f32
        linalg.yield %s : f32
      }} -> {out}
      return %r : {out}
    }}"""


def tensor(*sizes: int, kind: str = "f32") -> str:
    return f"tensor<{'x'.join(map(str, sizes))}x{kind}>"


@pytest.fixture
def clipped_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads behind a dim's end give its last number."""

    def clipped(buffer: Any, where: tuple[Any, ...], thread: np.ndarray) -> np.ndarray:
        # Kernels read rows behind the last one, whose products they do not write.
        if isinstance(buffer, np.ndarray):
            where = tuple(
                np.minimum(at, size - 1) for at, size in zip(where, buffer.shape, strict=False)
            )
        return read(buffer, where, thread)

    read = gpu_interpreter._read
    monkeypatch.setattr(gpu_interpreter, "_read", clipped)


@pytest.mark.usefixtures("clipped_reads")
@pytest.mark.parametrize("rows", [4, 16, 20])
def test_results_with_the_second_factors_dim_first(rows: int) -> None:
    left, right = tensor(2, rows, 16, kind="f16"), tensor(2, 16, 24, kind="f16")
    check(
        product(("bmk", "bkn", "nbm"), (left, right, tensor(24, 2, rows))),
        [(2, rows, 16), (2, 16, 24)],
        "bmk,bkn->nbm",
        np.float16,
    )


@pytest.mark.usefixtures("clipped_reads")
@pytest.mark.parametrize(
    ("sums", "terms", "level"),
    pairwise(["bkm,bkn->bmn", "mkb,ckbn->bcmn", "mkb,nkb->bmn"], [4, 24], ["O0", "O2"]),
)
def test_sums_that_fill_no_tile(sums: str, terms: int, level: str) -> None:
    """Other dims stand behind the summed one in both factors."""
    sizes = {"b": 3, "c": 2, "m": 16, "n": 64, "k": terms}
    left, right, out = sums.replace("->", ",").split(",")
    shapes = [tuple(sizes[dim] for dim in dims) for dims in (left, right, out)]
    kinds = (tensor(*shapes[0], kind="f16"), tensor(*shapes[1], kind="f16"), tensor(*shapes[2]))
    check(product((left, right, out), kinds), shapes[:2], sums, np.float16, level)


@pytest.mark.usefixtures("clipped_reads")
@pytest.mark.parametrize(("rows", "level"), at_levels([(16,), (33,)], ("O0", "O2")))
def test_named_products_with_the_second_factors_dim_first(rows: int, level: str) -> None:
    left, right, out = "tensor<2x8x32xf16>", f"tensor<{rows}x8xf16>", f"tensor<2x{rows}x32xf32>"
    maps = ("(b, k, n)", "(m, k)", "(b, m, n)")
    indexing = ", ".join(f"affine_map<(b, m, n, k) -> {one}>" for one in maps)
    text = f"""func.func @main(%l: {left}, %r: {right}) -> {out} {{
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : {out}
      %start = linalg.fill ins(%zero : f32) outs(%empty : {out}) -> {out}
      %p = linalg.contract indexing_maps = [{indexing}]
          ins(%l, %r : {left}, {right}) outs(%start : {out}) -> {out}
      return %p : {out}
    }}"""
    check(text, [(2, 8, 32), (rows, 8)], "bkn,mk->bmn", np.float16, level)


# Letters of f32 products, and why they are IREE's, where no tile of ours fits. Loops are in the
# order of letters.
WIDE = {
    "mk,kn->mn": "",
    "mk,nk->mn": "",
    "bmk,bnk->bmn": "",
    "bkm,ckn->bcmn": "",
    "mkl,knl->mn": "",
    "mk,kn->nm": "loops are not in the result's order",
    "mbk,nbk->mnb": "the result's last dim is a batch's",
    "ek,kn->en": "",
    "dk,kn->dn": "",
    "gk,kn->gn": "",
    "hk,nk->hn": "",
    "ik,nk->in": "",
    "fk,kn->fn": "fewer than 5 rows or columns",
    "mk,kp->mp": "64 x 36 x 48 are no multiples of 16 x 16 x 4",
}


WIDE_SIZES = dict(b=2, c=3, m=64, n=96, e=13, p=36, d=7, f=4, g=29, h=50, i=256, k=48, l=2)


def wide_shapes(sums: str) -> list[tuple[int, ...]]:
    return [tuple(WIDE_SIZES[dim] for dim in dims) for dims in sums.replace("->", ",").split(",")]


WIDE_AT = at_levels(((sums,) for sums in WIDE), ("O0", "O2"))


@cache
def wide_products(level: str) -> tuple[ir.Module, attnpass.Report]:
    """Those of a level, one function each."""
    text, report = "", attnpass.Report()
    for sums in (sums for sums, one in WIDE_AT if one == level):
        left, right, out = sums.replace("->", ",").split(",")
        one, other, result = (tensor(*shape) for shape in wide_shapes(sums))
        text += renamed(product((left, right, out), (one, other, result)), symbol("of", sums))
    flags = [*CUDA, f"--iree-opt-level={level}"]
    return lowered(text, flags, report=report, products="never"), report


@pytest.mark.parametrize(("sums", "level"), WIDE_AT)
def test_f32_products_in_tiles_of_threads(sums: str, level: str) -> None:
    module, report = wide_products(level)
    name, rng = symbol("of", sums), np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in wide_shapes(sums)[:2]]
    (result,) = run_gpu_module(module, inputs, name)
    assert rel_error(result, np.einsum(sums, *(one.astype(np.float64) for one in inputs))) < 1e-6
    whats = ("configured", "not-configured")
    (found,) = [one for one in report.found(*whats) if one.op.function.startswith(f"{name}_d")]
    assert found.what == ("not-configured" if WIDE[sums] else "configured")
    assert WIDE[sums] in found.reason


# A depth that no tile divides, with rows that tiles divide, and an unknown number of them.
@pytest.mark.parametrize("depth", [67, 333])
@pytest.mark.parametrize("rows", ["64", "?"])
def test_odd_depths_of_f32_products(depth: int, rows: str) -> None:
    left, right, out = f"{rows}x{depth}xf32", f"{depth}x96xf32", f"{rows}x96xf32"
    count = "%rows" if rows == "?" else ""
    text = f"""func.func @main(%q: tensor<{left}>, %k: tensor<{right}>) -> tensor<{out}> {{
      %zero = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      %rows = tensor.dim %q, %c0 : tensor<{left}>
      %empty = tensor.empty({count}) : tensor<{out}>
      %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<{out}>) -> tensor<{out}>
      %r = linalg.matmul ins(%q, %k : tensor<{left}>, tensor<{right}>)
          outs(%start : tensor<{out}>) -> tensor<{out}>
      return %r : tensor<{out}>
    }}"""
    report = attnpass.Report()
    check(text, [(64, depth), (depth, 96)], "mk,kn->mn", np.float32, "O2", report)
    assert f"its depth of {depth} is filled up" in report.to_text()


@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_computed_f32_factors_in_tiles_of_threads(kind: str) -> None:
    """A cast of the first factor, or another elementwise op, in the product's kernel."""
    left, right = tensor(2, 32, 48, kind=kind), tensor(2, 48, 64)
    wide = tensor(2, 32, 48)
    made = "arith.extf %a : f16 to f32" if kind == "f16" else "math.absf %a : f32"
    text = product(("bmk", "bkn", "bmn"), (wide, right, tensor(2, 32, 64)))
    same = "affine_map<(b, m, k) -> (b, m, k)>"
    text = text.replace(f"%q: {wide}", f"%x: {left}").replace(
        "{\n",
        f"""{{
      %space = tensor.empty() : {wide}
      %q = linalg.generic {{indexing_maps = [{same}, {same}],
          iterator_types = ["parallel", "parallel", "parallel"]}}
          ins(%x : {left}) outs(%space : {wide}) {{
      ^bb0(%a: {kind}, %b: f32):
        %w = {made}
        linalg.yield %w : f32
      }} -> {wide}
""",
        1,
    )
    rng, report = np.random.default_rng(0), attnpass.Report()
    x = rng.standard_normal((2, 32, 48)).astype(np.float16 if kind == "f16" else np.float32)
    y = rng.standard_normal((2, 48, 64)).astype(np.float32)
    flags = [*CUDA, "--compile-to=executable-configurations", "--iree-opt-level=O2"]
    compiled = attnpass.compile_str(text, extra_args=flags, report=report, products="never")
    assert compiled is not None and report.found("configured")
    (result,) = run_gpu_module(lower(compiled.decode()), [x, y])
    wide_x = x.astype(np.float64) if kind == "f16" else np.abs(x.astype(np.float64))
    assert rel_error(result, np.einsum("bmk,bkn->bmn", wide_x, y)) < 1e-6


def test_decayed_f32_factors_in_tiles_of_threads() -> None:
    """States of linear attention: K^T, cast and multiplied by a number for each row, times V, which
    is added to the state before, and what that adds to the next."""
    text = """
    func.func @main(%k: tensor<2x48x32xf16>, %v: tensor<2x48x64xf16>, %by: tensor<2x48xf32>,
        %s0: tensor<2x32x64xf32>, %s1: tensor<2x32x64xf32>, %d: tensor<2xf32>)
        -> (tensor<2x32x64xf32>, tensor<2x32x64xf32>) {
      %zero = arith.constant 0.0 : f32
      %space = tensor.empty() : tensor<2x48x32xf32>
      %columns = tensor.empty() : tensor<2x48x64xf32>
      %empty = tensor.empty() : tensor<2x32x64xf32>
      %decayed = linalg.generic {indexing_maps = [affine_map<(b, m, k) -> (b, m, k)>,
          affine_map<(b, m, k) -> (b, m)>, affine_map<(b, m, k) -> (b, m, k)>],
          iterator_types = ["parallel", "parallel", "parallel"]}
          ins(%k, %by : tensor<2x48x32xf16>, tensor<2x48xf32>) outs(%space : tensor<2x48x32xf32>) {
      ^bb0(%a: f16, %f: f32, %o: f32):
        %w = arith.extf %a : f16 to f32
        %p = arith.mulf %w, %f : f32
        linalg.yield %p : f32
      } -> tensor<2x48x32xf32>
      %wide = linalg.generic {indexing_maps = [affine_map<(b, m, k) -> (b, m, k)>,
          affine_map<(b, m, k) -> (b, m, k)>],
          iterator_types = ["parallel", "parallel", "parallel"]}
          ins(%v : tensor<2x48x64xf16>) outs(%columns : tensor<2x48x64xf32>) {
      ^bb0(%a: f16, %o: f32):
        %w = arith.extf %a : f16 to f32
        linalg.yield %w : f32
      } -> tensor<2x48x64xf32>
      %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x32x64xf32>)
          -> tensor<2x32x64xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, k, m)>,
          affine_map<(b, m, n, k) -> (b, k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>],
          iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
          ins(%decayed, %wide : tensor<2x48x32xf32>, tensor<2x48x64xf32>)
          outs(%start : tensor<2x32x64xf32>) {
      ^bb0(%a: f32, %b: f32, %c: f32):
        %p = arith.mulf %a, %b : f32
        %s = arith.addf %c, %p : f32
        linalg.yield %s : f32
      } -> tensor<2x32x64xf32>
      %first = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>,
          affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m, n)>],
          iterator_types = ["parallel", "parallel", "parallel"]}
          ins(%r, %s0 : tensor<2x32x64xf32>, tensor<2x32x64xf32>)
          outs(%empty : tensor<2x32x64xf32>) {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %s = arith.addf %a, %b : f32
        linalg.yield %s : f32
      } -> tensor<2x32x64xf32>
      %second = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>,
          affine_map<(b, m, n) -> (b)>, affine_map<(b, m, n) -> (b, m, n)>,
          affine_map<(b, m, n) -> (b, m, n)>],
          iterator_types = ["parallel", "parallel", "parallel"]}
          ins(%first, %d, %s1 : tensor<2x32x64xf32>, tensor<2xf32>, tensor<2x32x64xf32>)
          outs(%empty : tensor<2x32x64xf32>) {
      ^bb0(%a: f32, %f: f32, %b: f32, %o: f32):
        %p = arith.mulf %a, %f : f32
        %s = arith.addf %p, %b : f32
        linalg.yield %s : f32
      } -> tensor<2x32x64xf32>
      return %first, %second : tensor<2x32x64xf32>, tensor<2x32x64xf32>
    }"""
    rng, report = np.random.default_rng(0), attnpass.Report()
    key, value = (rng.standard_normal((2, 48, size)).astype(np.float16) for size in (32, 64))
    decays = rng.standard_normal((2, 48)).astype(np.float32)
    flags = [*CUDA, "--compile-to=executable-configurations", "--iree-opt-level=O2"]
    compiled = attnpass.compile_str(text, extra_args=flags, report=report, products="never")
    assert compiled is not None and report.found("configured")
    states = [rng.standard_normal((2, 32, 64)).astype(np.float32) for _ in range(2)]
    factor = rng.standard_normal(2).astype(np.float32)
    got = run_gpu_module(lower(compiled.decode()), [key, value, decays, *states, factor])
    wide = key.astype(np.float64) * decays[..., None]
    first = np.einsum("bkm,bkn->bmn", wide, value.astype(np.float64)) + states[0]
    assert rel_error(got[0], first) < 1e-6
    assert rel_error(got[1], first * factor[:, None, None] + states[1]) < 1e-6


@pytest.mark.parametrize(("rows", "kind"), in_each_way([(2,), (3,), (4,)], ["f16", "f32"]))
def test_few_rows_are_one_workgroups(rows: int, kind: str) -> None:
    left, right = tensor(rows, 128, kind=kind), tensor(65, 128, kind=kind)
    text = product(("mk", "nk", "mn"), (left, right, tensor(rows, 65)))
    report = attnpass.Report()
    shapes: list[tuple[int, ...]] = [(rows, 128), (65, 128)]
    check(text, shapes, "mk,nk->mn", np.float16 if kind == "f16" else np.float32, "O2", report)
    assert any(f"multiplies {rows} rows" in one.reason for one in report.records)


@pytest.mark.parametrize(("rows", "columns"), [(80, 128), (64, 64), (16, 64), (7, 32)])
def test_parts_of_a_depth(rows: int, columns: int) -> None:
    """A product in f32 of few results and much depth: parts of it, and their sum."""
    left, right, out = tensor(rows, 2048), tensor(2048, columns), tensor(rows, columns)
    text = f"""func.func @main(%q: {left}, %k: {right}) -> {out} {{
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : {out}
      %start = linalg.fill ins(%zero : f32) outs(%empty : {out}) -> {out}
      %r = linalg.matmul ins(%q, %k : {left}, {right}) outs(%start : {out}) -> {out}
      return %r : {out}
    }}"""
    report = attnpass.Report()
    shapes: list[tuple[int, ...]] = [(rows, 2048), (2048, columns)]
    check(text, shapes, "mk,kn->mn", np.float32, "O2", report)
    assert any("parts" in one.details for one in report.found("fitted"))


def check(
    text: str,
    shapes: list[tuple[int, ...]],
    sums: str,
    kind: type,
    level: str = "",
    report: attnpass.Report | None = None,
) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(kind) for shape in shapes]
    flags = [*CUDA, "--compile-to=executable-configurations"]
    flags += [f"--iree-opt-level={level}"] if level else []
    compiled = attnpass.compile_str(text, extra_args=flags, report=report, products="never")
    assert compiled is not None
    (result,) = run_gpu_module(lower(compiled.decode()), inputs)
    wanted = np.einsum(sums, *(one.astype(np.float64) for one in inputs))
    assert rel_error(result, wanted) < (3e-4 if kind is np.float16 else 1e-6)
