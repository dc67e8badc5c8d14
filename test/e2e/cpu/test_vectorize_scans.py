"""attn-vectorize-scans on llvm-cpu: right running sums of any type, size and dim. All forms stand
in one module."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_text, on_cpu, rel_error, run_module, runs_here

from attnpass import Report

TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i32": np.int32,
    "i64": np.int64,
}
NARROW = {"f16": 1e-3, "bf16": 8e-3, "f64": 1e-14}


@dataclass(frozen=True)
class Running:
    """Running sums of numbers of `sizes` (those in `unknown` are known at run time) along `dim`, by
    `step`."""

    name: str
    sizes: tuple[int, ...]
    dim: int
    kind: str = "f32"
    step: str = "add"
    unknown: tuple[int, ...] = ()
    inclusive: bool = True

    def text(self) -> str:
        def tensor(sizes: list[str]) -> str:
            return f"tensor<{''.join(size + 'x' for size in sizes)}{self.kind}>"

        shown = ["?" if at in self.unknown else str(size) for at, size in enumerate(self.sizes)]
        x, totals = tensor(shown), tensor([*shown[: self.dim], *shown[self.dim + 1 :]])
        is_float = self.kind[0] in "fb"
        dims = [f"%n{at} = tensor.dim %x, %i{at} : {x}" for at in self.unknown]
        places = [f"%i{at} = arith.constant {at} : index" for at in self.unknown]
        all_dims = ", ".join(f"%n{at}" for at in self.unknown)
        others = ", ".join(f"%n{at}" for at in self.unknown if at != self.dim)
        start = f"arith.constant {'0.0' if is_float else '0'} : {self.kind}"
        lines = "\n  ".join([*places, *dims])
        return f"""
func.func @{self.name}(%x: {x}) -> {x} {{
  %zero = {start}
  {lines}
  %e = tensor.empty({all_dims}) : {x}
  %f = linalg.fill ins(%zero : {self.kind}) outs(%e : {x}) -> {x}
  %g = tensor.empty({others}) : {totals}
  %h = linalg.fill ins(%zero : {self.kind}) outs(%g : {totals}) -> {totals}
  %r:2 = iree_linalg_ext.scan dimension({self.dim}) inclusive({str(self.inclusive).lower()})
      ins(%x : {x}) outs(%f, %h : {x}, {totals}) {{
  ^bb0(%a: {self.kind}, %b: {self.kind}):
    %s = arith.{self.step}{"f" if is_float else "i"} %a, %b : {self.kind}
    iree_linalg_ext.yield %s : {self.kind}
  }} -> {x}, {totals}
  return %r#0 : {x}
}}
"""

    def check(self, vmfb: bytes) -> None:
        random = np.random.default_rng(len(self.name))
        kind = TYPES[self.kind]
        x = random.uniform(-1, 1, self.sizes) if self.kind[0] in "fb" else None
        if x is None:
            x = random.integers(-9, 9, self.sizes)
        elif self.step == "mul":
            x = 1 + x / 10
        x = x.astype(kind)
        combine = np.cumprod if self.step == "mul" else np.cumsum
        wide = np.float64 if self.kind[0] in "fb" else np.int64
        wanted = combine(x.astype(wide), self.dim)
        if not self.inclusive:
            wanted = wanted - x
        got = run_module(vmfb, [x], self.name)
        if wide is np.int64:
            assert np.array_equal(got, wanted.astype(kind)), self.name
        else:
            assert rel_error(got, wanted) < NARROW.get(self.kind, 2e-6), self.name


SCANS = (
    Running("row", (4096,), 0),
    Running("rows", (5, 1003), 1),
    Running("short_rows", (37, 7), 1),
    Running("columns", (130, 96), 0),
    Running("odd_columns", (61, 45), 0),
    Running("middle", (3, 50, 70), 1),
    Running("first", (40, 3, 21), 0),
    Running("half", (6, 333), 1, "f16"),
    Running("brain", (90, 40), 0, "bf16"),
    Running("double", (6, 101), 1, "f64"),
    Running("counts", (4, 515), 1, "i64"),
    Running("counts_down", (65, 33), 0, "i32"),
    Running("products", (4, 100), 1, "f32", "mul"),
    Running("any_row", (4, 100), 1, unknown=(1,)),
    Running("any_rows", (9, 67), 1, unknown=(0,)),
    Running("any_columns", (20, 51), 0, unknown=(0, 1)),
    Running("any_depth", (20, 64), 0, "f16", unknown=(0,)),
    Running("before", (4, 100), 1, inclusive=False),
)
LEFT = ("before",)


WAYS = [("host", "O2"), ("haswell", "O3"), ("x86-64", "O0")]


@pytest.mark.parametrize(("cpu", "level"), WAYS)
def test_scans(cpu: str, level: str) -> None:
    report, tested = Report(), on_cpu(SCANS, cpu, WAYS)
    flags = [f"--iree-llvmcpu-target-cpu={cpu}", f"--iree-opt-level={level}"]
    flags.append("--iree-input-demote-f64-to-f32=false")
    text = "".join(one.text() for one in tested)
    vmfb = compile_text(text, mode="cost", flags=flags, report=report)
    assert not report.found("fallback")
    loops = [one for one in report.found("loops") if one.details["lanes"] == "elements"]
    kernels = sorted(one.op.function.partition("_dispatch_")[0] for one in loops)
    assert kernels == sorted(one.name for one in tested if one.name not in LEFT)
    for one in tested if runs_here(cpu) else ():
        one.check(vmfb)
