"""Kernels on llvm-cpu that copy lines into another order: the same numbers of any type, number of
dims and width. All forms stand in one module."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_text, on_cpu, run_module, runs_here

from attnpass import Report

TYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i64": np.int64,
    "i8": np.int8,
}


@dataclass(frozen=True)
class Copied:
    """Numbers of `sizes`, those in `unknown` known at run time, with their dims in `order`."""

    name: str
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    kind: str = "f32"
    unknown: tuple[int, ...] = ()
    loops: bool = True

    def text(self) -> str:
        shown = ["?" if at in self.unknown else str(size) for at, size in enumerate(self.sizes)]
        x = f"tensor<{'x'.join(shown)}x{self.kind}>"
        r = f"tensor<{'x'.join(shown[at] for at in self.order)}x{self.kind}>"
        dims = [
            f"%i{at} = arith.constant {at} : index\n  %n{at} = tensor.dim %x, %i{at} : {x}"
            for at in self.unknown
        ]
        lines = "\n  ".join(dims)
        given = ", ".join(f"%n{at}" for at in self.order if at in self.unknown)
        return f"""
func.func @{self.name}(%x: {x}) -> {r} {{
  {lines}
  %e = tensor.empty({given}) : {r}
  %r = linalg.transpose ins(%x : {x}) outs(%e : {r}) permutation = {list(self.order)}
  return %r : {r}
}}
"""

    def check(self, vmfb: bytes) -> None:
        random = np.random.default_rng(len(self.name))
        x = random.integers(-99, 99, self.sizes).astype(TYPES[self.kind])
        got = run_module(vmfb, [x], self.name)
        assert np.array_equal(got, x.transpose(self.order)), self.name


COPIES = (
    Copied("heads", (2, 50, 6, 64), (0, 2, 1, 3)),
    Copied("half_heads", (2, 50, 6, 80), (0, 2, 1, 3), "f16"),
    Copied("windows", (2, 4, 7, 4, 7, 96), (0, 1, 3, 2, 4, 5)),
    Copied("odd", (3, 5, 7, 33), (2, 1, 0, 3), "bf16"),
    Copied("long", (9, 11, 770), (1, 0, 2)),
    Copied("counts", (9, 11, 48), (1, 0, 2), "i64"),
    Copied("codes", (9, 11, 160), (1, 0, 2), "i8"),
    Copied("any_rows", (2, 50, 6, 64), (0, 2, 1, 3), unknown=(0, 1)),
    Copied("any_heads", (2, 50, 6, 64), (0, 2, 1, 3), "f16", unknown=(2,)),
    Copied("short", (9, 11, 7), (1, 0, 2), loops=False),
    Copied("prime", (9, 11, 1009), (1, 0, 2), loops=False),
    Copied("turned", (9, 11, 64), (0, 2, 1), loops=False),
    Copied("any_width", (9, 11, 64), (1, 0, 2), unknown=(2,), loops=False),
)


WAYS = [("host", "O2"), ("haswell", "O3"), ("x86-64", "O0")]


@pytest.mark.parametrize(("cpu", "level"), WAYS)
def test_copies(cpu: str, level: str) -> None:
    report, tested = Report(), on_cpu(COPIES, cpu, WAYS)
    flags = [f"--iree-llvmcpu-target-cpu={cpu}", f"--iree-opt-level={level}"]
    text = "".join(one.text() for one in tested)
    vmfb = compile_text(text, mode="cost", flags=flags, report=report)
    assert not report.found("fallback")
    kernels = sorted(one.op.function.partition("_dispatch_")[0] for one in report.found("loops"))
    assert kernels == sorted(one.name for one in tested if one.loops)
    for one in tested if runs_here(cpu) else ():
        one.check(vmfb)
