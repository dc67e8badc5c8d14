"""Kernels on llvm-cpu that take lines by index, copy them, or sum them up: right numbers of any
type, width and number of lines. All forms stand in one module."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_text, on_cpu, rel_error, run_module, runs_here

from attnpass import Report

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i32": np.int32}
LINES = 211
INDICES = {"i64": np.int64, "i32": np.int32}


@dataclass(frozen=True)
class Taken:
    """Lines of `width` numbers, by `count` indices; of several a `bag` the sum, in f32; with `norm`
    what each is to the root of the sum of its squares. `unknown`: indices of any number."""

    name: str
    count: int
    width: int
    kind: str = "f32"
    index: str = "i64"
    bag: int = 0
    norm: bool = False
    unknown: bool = False

    @property
    def result(self) -> str:
        return "f32" if self.bag or self.norm else self.kind

    def text(self) -> str:
        count = "?" if self.unknown else str(self.count)
        taken = f"{count}x{self.bag}" if self.bag else count
        x, i = f"tensor<{LINES}x{self.width}x{self.kind}>", f"tensor<{taken}x{self.index}>"
        r = f"tensor<{count}x{self.width}x{self.result}>"
        size = "%n" if self.unknown else ""
        start = f"""
func.func @{self.name}(%x: {x}, %i: {i}) -> {r} {{
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0 : index
  {f"%n = tensor.dim %i, %first : {i}" if self.unknown else ""}
  %e = tensor.empty({size}) : {r}
"""
        wide = f"arith.extf %t : {self.kind} to f32"
        value = "%w" if self.kind in ("f16", "bf16") else "%t"
        widened = f"%w = {wide}" if value == "%w" else ""
        take = f"""
    %at = arith.index_cast %a : {self.index} to index
    %along = linalg.index 1 : index
    %t = tensor.extract %x[%at, %along] : {x}"""
        if self.bag:
            return f"""{start}
  %f = linalg.fill ins(%zero : f32) outs(%e : {r}) -> {r}
  %r = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%i : {i}) outs(%f : {r}) {{
  ^bb0(%a: {self.index}, %o: f32):{take}
    {widened}
    %y = arith.addf %o, {value} : f32
    linalg.yield %y : f32
  }} -> {r}
  return %r : {r}
}}
"""
        lines = f"""
  %l = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}} ins(%i : {i}) outs(%e : {r}) {{
  ^bb0(%a: {self.index}, %o: {self.result}):{take}
    {widened if self.norm else ""}
    linalg.yield {value if self.norm else "%t"} : {self.result}
  }} -> {r}
"""
        if not self.norm:
            return f"{start}{lines}  return %l : {r}\n}}\n"
        s = f"tensor<{count}xf32>"
        return f"""{start}{lines}
  %se = tensor.empty({size}) : {s}
  %sf = linalg.fill ins(%zero : f32) outs(%se : {s}) -> {s}
  %s = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>],
      iterator_types = ["parallel", "reduction"]}} ins(%l : {r}) outs(%sf : {s}) {{
  ^bb0(%a: f32, %o: f32):
    %q = arith.mulf %a, %a : f32
    %y = arith.addf %q, %o : f32
    linalg.yield %y : f32
  }} -> {s}
  %r = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>,
      affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}}
      ins(%l, %s : {r}, {s}) outs(%e : {r}) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = math.rsqrt %b : f32
    %y = arith.mulf %a, %c : f32
    linalg.yield %y : f32
  }} -> {r}
  return %r : {r}
}}
"""

    def check(self, vmfb: bytes) -> None:
        random = np.random.default_rng(len(self.name))
        x = (8 * random.standard_normal((LINES, self.width))).astype(TYPES[self.kind])
        shape = (self.count, self.bag) if self.bag else (self.count,)
        i = random.integers(0, LINES, shape).astype(INDICES[self.index])
        got = run_module(vmfb, [x, i], self.name)
        wanted = x.astype(np.float64)[i]
        if not self.bag and not self.norm:
            assert np.array_equal(got.astype(np.float64), wanted), self.name
            return
        wanted = wanted.sum(1) if self.bag else wanted
        if self.norm:
            wanted = wanted / np.linalg.norm(wanted, axis=-1, keepdims=True)
        assert rel_error(got, wanted) < 2e-6, self.name


TAKEN = (
    Taken("lines", 33, 256),
    Taken("half_lines", 33, 128, "f16", "i32"),
    Taken("brain_lines", 70, 96, "bf16"),
    Taken("codes", 40, 64, "i32"),
    Taken("odd", 40, 131),
    Taken("narrow", 1000, 5),
    Taken("any_lines", 40, 192, unknown=True),
    Taken("any_odd", 40, 45, "f16", unknown=True),
    Taken("bags", 37, 64, bag=20),
    Taken("wide_bags", 9, 520, "bf16", "i32", bag=7),
    Taken("odd_bags", 21, 77, bag=11),
    Taken("any_bags", 21, 96, bag=5, unknown=True),
    Taken("norms", 40, 384, norm=True),
    Taken("odd_norms", 40, 99, "f16", norm=True),
    Taken("any_norms", 40, 256, "bf16", norm=True, unknown=True),
)


WAYS = [("host", "O2"), ("haswell", "O3"), ("x86-64", "O0")]


@pytest.mark.parametrize(("cpu", "level"), WAYS)
def test_lines(cpu: str, level: str) -> None:
    report, tested = Report(), on_cpu(TAKEN, cpu, WAYS)
    flags = [f"--iree-llvmcpu-target-cpu={cpu}", f"--iree-opt-level={level}"]
    text = "".join(one.text() for one in tested)
    vmfb = compile_text(text, mode="cost", flags=flags, report=report)
    assert not report.found("fallback")
    lines = {one.op.function.partition("_dispatch_")[0] for one in report.found("loops")}
    are_loops = {"lines", "half_lines", "any_lines", "bags", "norms"}
    assert are_loops.intersection(one.name for one in tested) <= lines
    for one in tested if runs_here(cpu) else ():
        one.check(vmfb)
