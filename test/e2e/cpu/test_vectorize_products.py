"""attn-vectorize-products on llvm-cpu: right numbers from loops, however many the rows and however
the weights lie, and from what stands behind them.

All forms stand in one module: a compile for each level and size of registers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_text, in_turns, on_cpu, rel_error, run_module, runs_here

from attnpass import Report

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
# A CPU with registers of 64 bytes.
WIDE = "x86-64-v4"
# One that multiplies pairs of bf16, too.
PAIRS = "znver4"
# Attention is what the library is for.
ATTENTION = """
func.func @attention(%q: tensor<2x8x16xf32>) -> tensor<2x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [
      affine_map<(b, m, n, d, k) -> (b, m, d)>, affine_map<(b, m, n, d, k) -> (b, k, d)>,
      affine_map<(b, m, n, d, k) -> (b, k, n)>, affine_map<(b, m, n, d, k) -> ()>,
      affine_map<(b, m, n, d, k) -> (b, m, n)>]>
      ins(%q, %q, %q, %scale : tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>, f32)
      outs(%e : tensor<2x8x16xf32>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
"""


@dataclass(frozen=True)
class Product:
    """`rows` x `depth` of type `kind` times weights of type `weight_kind` that lie as (columns,
    depth) if `deep`; `behind`: x tanh(x) of the sum with a bias is computed behind it, and both are
    returned; `start`: what the sums begin with."""

    name: str
    rows: int
    columns: int
    depth: int
    deep: bool
    kind: str = "f32"
    weight_kind: str = ""
    behind: bool = False
    start: float = 0.0
    loops: bool = True

    @property
    def kinds(self) -> tuple[str, str]:
        return self.kind, self.weight_kind or self.kind

    def text(self) -> str:
        left, right = self.kinds
        sizes = (self.columns, self.depth) if self.deep else (self.depth, self.columns)
        x, b = f"tensor<{self.rows}x{self.depth}x{left}>", f"tensor<{self.columns}xf32>"
        w, r = f"tensor<{sizes[0]}x{sizes[1]}x{right}>", f"tensor<{self.rows}x{self.columns}xf32>"
        widen = [
            f"%{name}w = arith.extf %{name} : {kind} to f32" if kind != "f32" else ""
            for name, kind in zip("ac", (left, right), strict=True)
        ]
        a, c = (f"%{name}w" if text else f"%{name}" for name, text in zip("ac", widen, strict=True))
        made = f"""
func.func @{self.name}(%x: {x}, %w: {w}, %b: {b}) -> ({r}, {r}) {{
  %start = arith.constant {self.start:e} : f32
  %e = tensor.empty() : {r}
  %f = linalg.fill ins(%start : f32) outs(%e : {r}) -> {r}
  %p = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> {"(n, k)" if self.deep else "(k, n)"}>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%x, %w : {x}, {w}) outs(%f : {r}) {{
  ^bb0(%a: {left}, %c: {right}, %o: f32):
    {widen[0]}
    {widen[1]}
    %y = arith.mulf {a}, {c} : f32
    %z = arith.addf %o, %y : f32
    linalg.yield %z : f32
  }} -> {r}
"""
        if not self.behind:
            return f"{made}  return %p, %p : {r}, {r}\n}}\n"
        return f"""{made}
  %h = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>,
      affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}}
      ins(%p, %b : {r}, {b}) outs(%e : {r}) {{
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    %t = math.tanh %s : f32
    %y = arith.mulf %s, %t : f32
    linalg.yield %y : f32
  }} -> {r}
  return %p, %h : {r}, {r}
}}
"""

    def check(self, vmfb: bytes) -> None:
        random = np.random.default_rng(len(self.name))
        left, right = (TYPES[kind] for kind in self.kinds)
        x = random.standard_normal((self.rows, self.depth), np.float32).astype(left)
        w = random.standard_normal((self.columns, self.depth), np.float32) / self.depth**0.5
        w = w.astype(right)
        b = random.standard_normal(self.columns, np.float32)
        given = w if self.deep else np.ascontiguousarray(w.T)
        plain, last = run_module(vmfb, [x, given, b], self.name)
        wanted = x.astype(np.float64) @ w.astype(np.float64).T + self.start
        assert rel_error(plain, wanted) < 2e-6, self.name
        if self.behind:
            wanted = (wanted + b) * np.tanh(wanted + b)
        assert rel_error(last, wanted) < 2e-6, self.name


PRODUCTS = (
    Product("one", 1, 256, 512, True),
    Product("one_wide", 1, 512, 256, False),
    # Tails: of columns, of the depth, of blocks of the depth.
    Product("odd", 1, 131, 523, True, behind=True),
    Product("odd_wide", 1, 144, 523, False, behind=True),
    Product("deep_blocks", 16, 70, 1111, True, behind=True, start=0.5),
    Product("two", 2, 130, 700, True, "f16"),
    Product("three", 3, 192, 600, True, "bf16", behind=True),
    Product("three_wide", 3, 320, 300, False, "bf16", behind=True),
    Product("five", 5, 160, 512, True, behind=True),
    Product("five_wide", 5, 1040, 80, False, "f16", start=-1.5),
    Product("eight", 8, 200, 400, True, "f16", behind=True),
    Product("nine_wide", 9, 272, 500, False, "f16", behind=True),
    Product("eleven", 11, 128, 777, True, "bf16"),
    Product("sixteen_wide", 16, 256, 640, False, behind=True),
    Product("narrow_weights", 4, 256, 320, True, "f32", "bf16", behind=True),
    Product("narrow_weights_wide", 4, 256, 320, False, "f32", "f16", behind=True),
    # More rows: a rest of each size, blocks of the depth and tails of them, one vector of columns,
    # types that are widened, both in one kernel with what stands behind, rows that are fetched
    # ahead (hundred).
    Product("many", 17, 256, 512, True),
    Product("many_wide", 30, 128, 600, False, behind=True),
    Product("hundred", 100, 272, 1331, True, behind=True, start=0.25),
    Product("tail", 151, 160, 500, False, "bf16", behind=True),
    Product("tail_deep", 135, 96, 701, True, "f16", start=-2.0),
    Product("tall", 577, 144, 480, True, "bf16", behind=True),
    Product("tall_wide", 1022, 192, 384, False, "f32", "f16", behind=True),
    # Few weights of many rows.
    Product("pixels", 1200, 64, 80, True, behind=True),
    # Columns of which the last tile has fewer: some of two vectors, one of these, and of one.
    Product("uneven_many", 40, 131, 520, True, behind=True),
    Product("uneven_wide", 151, 1001, 130, False, "bf16", behind=True),
    Product("uneven_half", 33, 145, 511, True, "f16", start=0.5),
    # Pairs of bf16, where CPUs multiply such: tails of all kinds, and a depth that has no pairs.
    Product("uneven_pairs", 71, 131, 522, True, "bf16", behind=True, start=0.5),
    Product("odd_depth", 40, 128, 521, True, "bf16", behind=True),
    Product("uneven_few", 100, 21, 3200, True, behind=True),
    # Few weights, and columns that are no whole vectors.
    Product("few", 2, 64, 128, True),
    Product("small", 2, 32, 64, True, loops=False),
    Product("uneven", 2, 131, 520, False, loops=False),
)
WAYS = [("host", "O2"), ("haswell", "O3"), (PAIRS, "O0")]


def _tested(cpu: str) -> list[Product]:
    """Each product in one way, and those of bf16 where pairs of it are multiplied."""
    taken, pairs = on_cpu(PRODUCTS, cpu, WAYS), cpu == PAIRS
    return [one for one in PRODUCTS if one in taken or (pairs and "bf16" in one.kinds)]


@pytest.mark.parametrize(("cpu", "level"), WAYS)
def test_numbers(cpu: str, level: str) -> None:
    report = Report()
    flags = [f"--iree-llvmcpu-target-cpu={cpu}", f"--iree-opt-level={level}"]
    wanted = _tested(cpu)
    text = ATTENTION + "".join(product.text() for product in wanted)
    vmfb = compile_text(text, mode="cost", flags=flags, report=report)
    assert not report.found("fallback")
    loops = [
        one for one in report.found("loops") if one.details["lanes"] in ("the depth", "columns")
    ]
    kernels = sorted(one.op.function.partition("_dispatch_")[0] for one in loops)
    assert kernels == sorted(product.name for product in wanted if product.loops)
    left = {one.op.function.partition("_dispatch_")[0] for one in report.found("no-loops")}
    assert left == {"uneven"} & {product.name for product in wanted}
    for product in wanted if runs_here(cpu) else ():
        product.check(vmfb)


@pytest.mark.parametrize("cpu", ["haswell", WIDE])
def test_stack(cpu: str, tmp_path: Path) -> None:
    """IREE's worker threads have 128 KB of stack; a kernel that takes more ends the process. The
    last tile of rows has some number of them, of which all were in registers."""
    flags = [
        f"--iree-llvmcpu-target-cpu={cpu}",
        "--iree-opt-level=O2",
        f"--iree-hal-dump-executable-intermediates-to={tmp_path}",
    ]
    products = (
        Product("tokens", 1044, 1536, 96, True, behind=True),
        Product("words", 577, 192, 192, True, "bf16", behind=True),
    )
    vmfb = compile_text(
        ATTENTION + "".join(product.text() for product in products), mode="cost", flags=flags
    )
    (code,) = tmp_path.glob("*.s")
    frames = [int(taken) for taken in re.findall(r"subq\s+\$(\d+), %rsp", code.read_text())]
    assert len(frames) >= len(products)
    assert max(frames) < 32_768
    for product in products if runs_here(cpu) else ():
        product.check(vmfb)


# Named ops, batches of one, weights in front, weights that two results read, a result whose dims
# are cut and turned, sums that are narrowed.
# Products of two sequences' rows whose results are heads in front of their rows.
_HEADS = """
func.func @NAME(%w: tensor<320x256xf16>, %x: tensor<2xROWSx256xf16>) -> tensor<2x4xROWSx80xf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2xROWSx320xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2xROWSx320xf32>) -> tensor<2xROWSx320xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>,
      affine_map<(b, m, n, k) -> (n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<2xROWSx256xf16>, tensor<320x256xf16>) outs(%f : tensor<2xROWSx320xf32>) {
  ^bb0(%a: f16, %c: f16, %o: f32):
    %aw = arith.extf %a : f16 to f32
    %cw = arith.extf %c : f16 to f32
    %y = arith.mulf %aw, %cw : f32
    %z = arith.addf %y, %o : f32
    linalg.yield %z : f32
  } -> tensor<2xROWSx320xf32>
  %h = tensor.empty() : tensor<2xROWSx320xf16>
  %t = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>,
      affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<2xROWSx320xf32>) outs(%h : tensor<2xROWSx320xf16>) {
  ^bb0(%a: f32, %o: f16):
    %y = arith.truncf %a : f32 to f16
    linalg.yield %y : f16
  } -> tensor<2xROWSx320xf16>
  %cut = tensor.expand_shape %t [[0], [1], [2, 3]] output_shape [2, ROWS, 4, 80]
      : tensor<2xROWSx320xf16> into tensor<2xROWSx4x80xf16>
  %te = tensor.empty() : tensor<2x4xROWSx80xf16>
  %r = linalg.transpose ins(%cut : tensor<2xROWSx4x80xf16>) outs(%te : tensor<2x4xROWSx80xf16>)
      permutation = [0, 2, 1, 3]
  return %r : tensor<2x4xROWSx80xf16>
}
"""


# A matrix for each of 13 experts, or one for all: rows that each has, that all share, or of any
# number.
_EXPERTS = """
func.func @NAME(%w: tensor<13xWxKIND>, %x: tensor<XxKIND>) -> tensor<Rxf32> {
  %zero = arith.constant 0.0 : f32
  DIM
  %e = tensor.empty(ROWS) : tensor<Rxf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<Rxf32>) -> tensor<Rxf32>
  %r = linalg.generic {indexing_maps = [affine_map<(t, e, n, k) -> (XMAP)>,
      affine_map<(t, e, n, k) -> (WMAP)>, affine_map<(t, e, n, k) -> (RMAP)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<XxKIND>, tensor<13xWxKIND>) outs(%f : tensor<Rxf32>) {
  ^bb0(%a: KIND, %c: KIND, %o: f32):
    WIDEN
    %y = arith.mulf %av, %cv : f32
    %z = arith.addf %y, %o : f32
    linalg.yield %z : f32
  } -> tensor<Rxf32>
  return %r : tensor<Rxf32>
}
"""


def _experts(
    name: str, x: str, w: str, r: str, kind: str = "f32", rows: str = "33", columns: str = "80"
) -> str:
    """Experts' products by the loops of their dims; `rows` of unknown number: ?."""
    sizes = {"t": rows, "e": "13", "n": columns, "k": "130"}
    dim = f"%i = arith.constant {x.index('t')} : index\n"
    dim += f"%rows = tensor.dim %x, %i : tensor<Xx{kind}>" if rows == "?" else ""
    widen = "".join(f"%{v}v = arith.extf %{v} : {kind} to f32\n" for v in "ac")
    text = _EXPERTS.replace("DIM", dim).replace("NAME", name)
    if kind == "f32":
        text = text.replace("WIDEN", "").replace("%av, %cv", "%a, %c")
    text = text.replace("WIDEN", widen)
    text = text.replace("ROWS", "%rows" if rows == "?" else "").replace("KIND", kind)
    for key, loops in (("XMAP", x), ("WMAP", w), ("RMAP", r)):
        text = text.replace(key, ", ".join(loops))
    for key, loops in (("Xx", x), ("13xWx", w), ("Rx", r)):
        text = text.replace(f"tensor<{key}", f"tensor<{''.join(sizes[one] + 'x' for one in loops)}")
    return text


FORMS = """
func.func @matvec(%w: tensor<320x256xf32>, %x: tensor<256xf32>) -> tensor<320xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<320xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<320xf32>) -> tensor<320xf32>
  %r = linalg.matvec ins(%w, %x : tensor<320x256xf32>, tensor<256xf32>)
      outs(%f : tensor<320xf32>) -> tensor<320xf32>
  return %r : tensor<320xf32>
}
func.func @vecmat(%w: tensor<256x320xf32>, %x: tensor<256xf32>) -> tensor<320xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<320xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<320xf32>) -> tensor<320xf32>
  %r = linalg.vecmat ins(%x, %w : tensor<256xf32>, tensor<256x320xf32>)
      outs(%f : tensor<320xf32>) -> tensor<320xf32>
  return %r : tensor<320xf32>
}
func.func @batch(%w: tensor<1x256x320xf16>, %x: tensor<1x3x256xf16>) -> tensor<1x3x320xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x3x320xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x3x320xf32>) -> tensor<1x3x320xf32>
  %r = linalg.batch_matmul ins(%x, %w : tensor<1x3x256xf16>, tensor<1x256x320xf16>)
      outs(%f : tensor<1x3x320xf32>) -> tensor<1x3x320xf32>
  return %r : tensor<1x3x320xf32>
}
func.func @in_front(%w: tensor<320x256xf32>, %x: tensor<256x5xf32>) -> tensor<320x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<320x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<320x5xf32>) -> tensor<320x5xf32>
  %r = linalg.matmul ins(%w, %x : tensor<320x256xf32>, tensor<256x5xf32>)
      outs(%f : tensor<320x5xf32>) -> tensor<320x5xf32>
  return %r : tensor<320x5xf32>
}
func.func @gated(%w: tensor<320x256xf32>, %x: tensor<2x256xf32>) -> tensor<2x320xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x320xf32>
  %held = arith.constant dense<0.0625> : tensor<256x320xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x320xf32>) -> tensor<2x320xf32>
  %p = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<2x256xf32>, tensor<320x256xf32>)
      outs(%f : tensor<2x320xf32>) -> tensor<2x320xf32>
  %q = linalg.matmul ins(%x, %held : tensor<2x256xf32>, tensor<256x320xf32>)
      outs(%f : tensor<2x320xf32>) -> tensor<2x320xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>,
      affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%p, %q : tensor<2x320xf32>, tensor<2x320xf32>) outs(%e : tensor<2x320xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %y = arith.mulf %a, %c : f32
    linalg.yield %y : f32
  } -> tensor<2x320xf32>
  return %r : tensor<2x320xf32>
}
func.func @pairs(%w: tensor<256x4x80xf32>, %x: tensor<3x?x256xf32>) -> tensor<3x4x?x80xf32> {
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 1 : index
  %rows = tensor.dim %x, %first : tensor<3x?x256xf32>
  %e = tensor.empty(%rows) : tensor<3x4x?x80xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x4x?x80xf32>) -> tensor<3x4x?x80xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, h, m, n, k) -> (b, m, k)>,
      affine_map<(b, h, m, n, k) -> (k, h, n)>, affine_map<(b, h, m, n, k) -> (b, h, m, n)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<3x?x256xf32>, tensor<256x4x80xf32>) outs(%f : tensor<3x4x?x80xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %y = arith.mulf %a, %c : f32
    %z = arith.addf %y, %o : f32
    linalg.yield %z : f32
  } -> tensor<3x4x?x80xf32>
  return %r : tensor<3x4x?x80xf32>
}
func.func @any_rows(%w: tensor<320x256xf32>, %x: tensor<?x256xf32>) -> tensor<?x320xf32> {
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0 : index
  %rows = tensor.dim %x, %first : tensor<?x256xf32>
  %e = tensor.empty(%rows) : tensor<?x320xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x320xf32>) -> tensor<?x320xf32>
  %r = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<?x256xf32>, tensor<320x256xf32>)
      outs(%f : tensor<?x320xf32>) -> tensor<?x320xf32>
  return %r : tensor<?x320xf32>
}
// Few weights of fewer rows, of odd sizes.
func.func @small(%w: tensor<91x137xf32>, %x: tensor<3x137xf32>) -> tensor<3x91xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x91xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x91xf32>) -> tensor<3x91xf32>
  %r = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<3x137xf32>, tensor<91x137xf32>)
      outs(%f : tensor<3x91xf32>) -> tensor<3x91xf32>
  return %r : tensor<3x91xf32>
}
"""
FORMS += "".join(
    _HEADS.replace("NAME", name).replace("ROWS", str(rows))
    for name, rows in (("sequences", 3), ("heads", 33))
)
EXPERTS = {
    "experts": ("etk", "ekn", "ten"),
    "shared": ("tk", "ekn", "ten"),
    # Rows of two dims, of which the inner one is the shorter.
    "steps": ("tek", "nk", "ten"),
    "any_expert": ("etk", "enk", "etn", "f16", "?"),
    # Columns that are no whole vectors.
    "odd_expert": ("etk", "enk", "etn", "f32", "33", "517"),
}
FORMS += "".join(_experts(name, *form) for name, form in EXPERTS.items())
FUNCTIONS = {
    part.partition("(")[0]: f"func.func @{part}" for part in FORMS.split("func.func @")[1:]
}
# Rows innermost stay as they are.
KEPT = {"in_front"}
LEVELS = ["O0", "O2", "O3"]


@pytest.mark.parametrize("level", LEVELS)
def test_forms(level: str) -> None:
    """Each form at one level."""
    report, tested = Report(), in_turns(FUNCTIONS, LEVELS.index(level), len(LEVELS))
    flags = ["--iree-llvmcpu-target-cpu=host", f"--iree-opt-level={level}"]
    text = ATTENTION + "".join(FUNCTIONS[name] for name in tested)
    vmfb = compile_text(text, mode="cost", flags=flags, report=report)
    assert not report.found("fallback")
    loops = [
        one for one in report.found("loops") if one.details["lanes"] in ("the depth", "columns")
    ]
    named = {one.op.function.partition("_dispatch_")[0] for one in loops}
    assert named == {*tested} - KEPT
    random = np.random.default_rng(9)

    def given(*shapes: tuple[int, ...], kind: str = "f32") -> list[np.ndarray]:
        return [random.standard_normal(shape, np.float32).astype(TYPES[kind]) for shape in shapes]

    def check(name: str, inputs: list[np.ndarray], wanted: np.ndarray, most: float = 2e-6) -> None:
        if name in tested:
            assert rel_error(run_module(vmfb, inputs, name), wanted) < most, name

    w, x = given((320, 256), (256,))
    check("matvec", [w, x], w.astype(np.float64) @ x)
    check("vecmat", [np.ascontiguousarray(w.T), x], w.astype(np.float64) @ x)
    w, x = given((1, 256, 320), (1, 3, 256), kind="f16")
    check("batch", [w, x], x.astype(np.float64) @ w.astype(np.float64))
    w, x = given((320, 256), (2, 3, 256), kind="f16")
    wanted = (x.astype(np.float64) @ w.astype(np.float64).T).reshape(2, 3, 4, 80)
    check("sequences", [w, x], wanted.transpose(0, 2, 1, 3), 1e-3)
    w, x = given((91, 137), (3, 137))
    check("small", [w, x], x.astype(np.float64) @ w.T)
    w, x = given((320, 256), (256, 5))
    check("in_front", [w, x], w.astype(np.float64) @ x)
    w, x = given((320, 256), (2, 256))
    wide = x.astype(np.float64)
    check("gated", [w, x], (wide @ w.T) * (wide.sum(-1, keepdims=True) / 16))
    w, x = given((320, 256), (2, 33, 256), kind="f16")
    wanted = (x.astype(np.float64) @ w.astype(np.float64).T).reshape(2, 33, 4, 80)
    check("heads", [w, x], wanted.transpose(0, 2, 1, 3), 1e-3)
    for name, (left, right, result, *kind) in EXPERTS.items():
        sizes = {"e": 13, "n": 517 if "odd" in name else 80, "k": 130}
        for rows in (1, 70) if "?" in kind else (33,):
            shapes = [[(sizes | {"t": rows})[one] for one in dims] for dims in (right, left)]
            w, x = given(*map(tuple, shapes), kind=kind[0] if kind else "f32")
            wanted = np.einsum(f"{left},{right}->{result}", x.astype(np.float64), w)
            check(name, [w, x], wanted)
    for rows in (1, 40, 131):
        w, x = given((256, 4, 80), (3, rows, 256))
        check("pairs", [w, x], np.einsum("bmk,khn->bhmn", x.astype(np.float64), w))
    for rows in (1, 7, 129, 300):
        w, x = given((320, 256), (rows, 256))
        check("any_rows", [w, x], x.astype(np.float64) @ w.T)


@dataclass(frozen=True)
class Norm:
    """x / sqrt(sum of x * x) over rows, or `down` columns; `unknown`: of sizes known at run time
    only."""

    rows: int
    columns: int
    kind: str = "f32"
    down: bool = False
    unknown: bool = False

    def text(self, name: str) -> str:
        sizes, kind = "?x?" if self.unknown else f"{self.rows}x{self.columns}", self.kind
        x, r = f"tensor<{sizes}x{kind}>", f"tensor<{sizes}xf32>"
        s = f"tensor<{sizes.split('x')[1 if self.down else 0]}xf32>"
        one = ("%n" if self.down else "%m") if self.unknown else ""
        wide = f"%w = arith.extf %a : {kind} to f32" if kind != "f32" else ""
        a = "%w" if wide else "%a"
        kinds = '"reduction", "parallel"' if self.down else '"parallel", "reduction"'
        kept = f"affine_map<(m, n) -> ({'n' if self.down else 'm'})>"
        whole = "affine_map<(m, n) -> (m, n)>"
        return f"""
func.func @{name}(%x: {x}) -> {r} {{
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0 : index
  %second = arith.constant 1 : index
  %m = tensor.dim %x, %first : {x}
  %n = tensor.dim %x, %second : {x}
  %s = tensor.empty({one}) : {s}
  %e = tensor.empty({"%m, %n" if self.unknown else ""}) : {r}
  %f = linalg.fill ins(%zero : f32) outs(%s : {s}) -> {s}
  %sum = linalg.generic {{indexing_maps = [{whole}, {kept}],
      iterator_types = [{kinds}]}} ins(%x : {x}) outs(%f : {s}) {{
  ^bb0(%a: {kind}, %o: f32):
    {wide}
    %p = arith.mulf {a}, {a} : f32
    %y = arith.addf %p, %o : f32
    linalg.yield %y : f32
  }} -> {s}
  %r = linalg.generic {{indexing_maps = [{whole}, {kept}, {whole}],
      iterator_types = ["parallel", "parallel"]}} ins(%x, %sum : {x}, {s}) outs(%e : {r}) {{
  ^bb0(%a: {kind}, %b: f32, %o: f32):
    {wide}
    %c = math.rsqrt %b : f32
    %y = arith.mulf {a}, %c : f32
    linalg.yield %y : f32
  }} -> {r}
  return %r : {r}
}}
"""


_TURNED = """
func.func @turned(%x: tensor<64x160xf32>, %b: tensor<160xf32>) -> tensor<160x64xf32> {
  %e = tensor.empty() : tensor<160x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (n, m)>, affine_map<(m, n) -> (m)>,
      affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<64x160xf32>, tensor<160xf32>) outs(%e : tensor<160x64xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %y = arith.mulf %a, %c : f32
    linalg.yield %y : f32
  } -> tensor<160x64xf32>
  return %r : tensor<160x64xf32>
}
"""

# As PyTorch's `interpolate(mode="nearest")` is imported: rows by 2, columns from 21 to 28.
_NEAREST = """
func.func @nearest(%x: tensor<3x10x21xf32>) -> tensor<3x20x28xf32> {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2.0 : f32
  %last = arith.constant 9.0 : f32
  %part = arith.constant 0.75 : f32
  %e = tensor.empty() : tensor<3x20x28xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(c, y, x) -> (c, y, x)>],
      iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<3x20x28xf32>) {
  ^bb0(%o: f32):
    %c = linalg.index 0 : index
    %y = linalg.index 1 : index
    %i = linalg.index 2 : index
    %y0 = arith.index_cast %y : index to i64
    %y1 = arith.sitofp %y0 : i64 to f32
    %y2 = arith.divf %y1, %two : f32
    %y3 = math.floor %y2 : f32
    %y4 = arith.maximumf %y3, %zero : f32
    %y5 = arith.minimumf %y4, %last : f32
    %y6 = arith.fptosi %y5 : f32 to i64
    %y7 = arith.index_cast %y6 : i64 to index
    %x0 = arith.index_cast %i : index to i64
    %x1 = arith.sitofp %x0 : i64 to f32
    %x2 = arith.mulf %x1, %part : f32
    %x3 = arith.fptosi %x2 : f32 to i64
    %x4 = arith.index_cast %x3 : i64 to index
    %v = tensor.extract %x[%c, %y7, %x4] : tensor<3x10x21xf32>
    linalg.yield %v : f32
  } -> tensor<3x20x28xf32>
  return %r : tensor<3x20x28xf32>
}
"""


def test_steps() -> None:
    """Rows and columns are summed up in wide steps, whatever their number, type and length, and
    squares of a matrix are turned. Where steps leave a rest, each sum is made once. The nearest
    pixels of rows, whose indices are whole numbers, stand in a dim of their own."""
    cases = {
        "even": Norm(64, 768),
        "odd": Norm(37, 384, "f16"),
        "one": Norm(1, 2048, "bf16"),
        "down": Norm(70, 256, down=True),
        "rest": Norm(21, 1001),
        "rest_down": Norm(45, 1001, "f16", down=True),
        "few": Norm(11, 13),
        "threes": Norm(19, 96),
        "whole": Norm(19, 80),
        "few_down": Norm(13, 11, down=True),
        "unknown": Norm(21, 205, unknown=True),
        "unknown_down": Norm(45, 205, down=True, unknown=True),
    }
    report, random = Report(), np.random.default_rng(4)
    text = _TURNED + _NEAREST + "".join(case.text(name) for name, case in cases.items())
    vmfb = compile_text(text, mode="cost", flags=["--iree-llvmcpu-target-cpu=host"], report=report)
    wide = {record.op.function.partition("_dispatch")[0] for record in report.found("lowered")}
    assert wide == {"turned", "even", "odd", "one", "down", "rest", "rest_down", "threes", "whole"}
    once = {record.op.function.partition("_dispatch")[0] for record in report.found("loops")}
    assert once >= {"rest", "rest_down", "unknown", "unknown_down"}
    assert not report.found("no-loops")
    x, b = random.standard_normal((64, 160), np.float32), random.standard_normal(160, np.float32)
    assert np.array_equal(run_module(vmfb, [x, b], "turned"), x.T * b[:, None])
    (digits,) = report.found("fitted")
    assert digits.op.function.startswith("nearest")
    x = random.standard_normal((3, 10, 21), np.float32)
    wanted = x.repeat(2, 1)[:, :, np.arange(28) * 3 // 4]
    assert np.array_equal(run_module(vmfb, [x], "nearest"), wanted)
    for name, case in cases.items():
        x = random.standard_normal((case.rows, case.columns), np.float32).astype(TYPES[case.kind])
        exact = x.astype(np.float64)
        wanted = exact / np.sqrt((exact**2).sum(0 if case.down else 1, keepdims=True))
        assert rel_error(run_module(vmfb, [x], name), wanted) < 1e-6, name


_CROSSED = """
func.func @crossed(%x: tensor<?x8x8xf32>, %w: tensor<8xf32>, %u: tensor<?xf32>) -> tensor<8x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(a, b, k) -> (k, a, b)>,
      affine_map<(a, b, k) -> (a)>, affine_map<(a, b, k) -> (k)>, affine_map<(a, b, k) -> (a, b)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w, %u : tensor<?x8x8xf32>, tensor<8xf32>, tensor<?xf32>)
      outs(%f : tensor<8x8xf32>) {
  ^bb0(%a: f32, %v: f32, %n: f32, %o: f32):
    %q = math.rsqrt %n : f32
    %h = arith.mulf %a, %q : f32
    %m = arith.addf %h, %v : f32
    %c = math.absf %m : f32
    %y = arith.addf %c, %o : f32
    linalg.yield %y : f32
  } -> tensor<8x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]} ins(%s : tensor<8x8xf32>)
      outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %c = math.sqrt %a : f32
    linalg.yield %c : f32
  } -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
"""


def test_sums_down_columns_by_a_vector_along_them() -> None:
    """As a norm over the batch behind a group norm has them: these keep IREE's steps."""
    vmfb = compile_text(_CROSSED, mode="cost", flags=["--iree-llvmcpu-target-cpu=host"])
    random = np.random.default_rng(5)
    for count in (1, 6, 17):
        x = random.standard_normal((count, 8, 8), np.float32)
        w, u = np.arange(8, dtype=np.float32), np.arange(1, count + 1, dtype=np.float32)
        terms = x.astype(np.float64) / np.sqrt(u)[:, None, None] + w[:, None]
        wanted = np.sqrt(np.abs(terms).sum(0))
        assert rel_error(run_module(vmfb, [x, w, u], "crossed"), wanted) < 1e-6, count
