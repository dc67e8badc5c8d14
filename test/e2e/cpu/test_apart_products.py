"""Products on llvm-cpu of many matrices whose numbers lie side by side: right numbers of any type
and size. All forms stand in one module."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_text, rel_error, run_module, runs_here

from attnpass import Report

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


@dataclass(frozen=True)
class Apart:
    """A product by an einsum over dims of `sizes` (b is of unknown number); `behind`: a bias for
    each matrix is added."""

    name: str
    terms: str
    sizes: dict[str, int]
    kind: str = "f32"
    behind: bool = False
    loops: bool = True

    def dims(self) -> list[str]:
        given, _, result = self.terms.partition("->")
        return [*given.split(","), result]

    def tensor(self, dims: str, kind: str) -> str:
        shown = "x".join("?" if dim == "b" else str(self.sizes[dim]) for dim in dims)
        return f"tensor<{shown}x{kind}>"

    def text(self) -> str:
        left, right, result = self.dims()
        names = sorted(self.sizes, key=lambda dim: (result + "k").index(dim))
        x, y = (self.tensor(dims, self.kind) for dims in (left, right))
        r, c = self.tensor(result, "f32"), self.tensor(result[-1], "f32")
        loops = ", ".join(names)
        maps = [f"affine_map<({loops}) -> ({', '.join(dims)})>" for dims in self.dims()]
        kinds = ", ".join('"reduction"' if dim == "k" else '"parallel"' for dim in names)
        wide = self.kind != "f32"
        widened = "".join(f"%{v}w = arith.extf %{v} : {self.kind} to f32\n" for v in "ac" if wide)
        factors = "%aw, %cw" if wide else "%a, %c"
        whole = f"affine_map<({', '.join(result)}) -> ({', '.join(result)})>"
        last = f"affine_map<({', '.join(result)}) -> ({result[-1]})>"
        parallel = ", ".join(['"parallel"'] * len(result))
        behind = f"""
  %h = linalg.generic {{indexing_maps = [{whole}, {last}, {whole}],
      iterator_types = [{parallel}]}} ins(%p, %v : {r}, {c}) outs(%e : {r}) {{
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  }} -> {r}"""
        return f"""
func.func @{self.name}(%x: {x}, %y: {y}, %v: {c}) -> {r} {{
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0 : index
  {f"%n = tensor.dim %x, %first : {x}" if "b" in self.sizes else ""}
  %e = tensor.empty({"%n" if "b" in self.sizes else ""}) : {r}
  %f = linalg.fill ins(%zero : f32) outs(%e : {r}) -> {r}
  %p = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{kinds}]}}
      ins(%x, %y : {x}, {y}) outs(%f : {r}) {{
  ^bb0(%a: {self.kind}, %c: {self.kind}, %o: f32):
    {widened}
    %m = arith.mulf {factors} : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  }} -> {r}{behind if self.behind else ""}
  return {"%h" if self.behind else "%p"} : {r}
}}
"""

    def check(self, vmfb: bytes) -> None:
        random = np.random.default_rng(len(self.name))
        left, right, result = self.dims()
        x, y = (
            random.standard_normal([self.sizes[dim] for dim in dims], np.float32).astype(
                TYPES[self.kind]
            )
            for dims in (left, right)
        )
        v = random.standard_normal(self.sizes[result[-1]], np.float32)
        wanted = np.einsum(self.terms, x.astype(np.float64), y.astype(np.float64))
        wanted = wanted + v if self.behind else wanted
        assert rel_error(run_module(vmfb, [x, y, v], self.name), wanted) < 2e-6, self.name


PRODUCTS = (
    Apart("outgoing", "ikc,jkc->ijc", {"i": 12, "j": 20, "k": 33, "c": 32}),
    Apart("incoming", "kic,kjc->ijc", {"i": 12, "j": 21, "k": 40, "c": 48}, behind=True),
    Apart("odd", "ikc,jkc->ijc", {"i": 7, "j": 5, "k": 19, "c": 45}, "bf16"),
    Apart("few", "ikc,jkc->ijc", {"i": 8, "j": 8, "k": 16, "c": 3}, "f16", behind=True),
    Apart("several", "bikc,bjkc->bijc", {"b": 3, "i": 6, "j": 10, "k": 11, "c": 20}),
    Apart("first", "cik,cjk->cij", {"i": 12, "j": 20, "k": 33, "c": 32}, loops=False),
)


@pytest.mark.parametrize(("cpu", "level"), [("host", "O2"), ("haswell", "O3"), ("x86-64-v4", "O0")])
def test_products_of_matrices_apart(cpu: str, level: str) -> None:
    report = Report()
    flags = [f"--iree-llvmcpu-target-cpu={cpu}", f"--iree-opt-level={level}"]
    text = "".join(one.text() for one in PRODUCTS)
    vmfb = compile_text(text, mode="cost", flags=flags, report=report)
    assert not report.found("fallback")
    loops = [one for one in report.found("loops") if one.details["lanes"] == "matrices"]
    kernels = sorted(one.op.function.partition("_dispatch_")[0] for one in loops)
    assert kernels == sorted(one.name for one in PRODUCTS if one.loops)
    for one in PRODUCTS if runs_here(cpu) else ():
        one.check(vmfb)
