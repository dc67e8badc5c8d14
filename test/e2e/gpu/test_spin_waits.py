"""A call that asks for the end before it sleeps gives the same numbers, however long it takes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import CPU, run_module
from iree.compiler import ir
from iree.compiler.tools import compile_str

from attnpass.gpu import spin_waits
from attnpass.ir import collect

_SIZE = 128
_ROWS = f"tensor<{_SIZE}x{_SIZE}xf32>"
_TEXT = f"""
func.func @main(%x: {_ROWS}, %y: {_ROWS}) -> {_ROWS} {{
  %none = arith.constant 0.0 : f32
  %space = tensor.empty() : {_ROWS}
  %zeros = linalg.fill ins(%none : f32) outs(%space : {_ROWS}) -> {_ROWS}
  %made = linalg.matmul ins(%x, %y : {_ROWS}, {_ROWS}) outs(%zeros : {_ROWS}) -> {_ROWS}
  return %made : {_ROWS}
}}
"""


@pytest.mark.parametrize("queries", [1, 1 << 17])
def test_results_are_there(queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On CPUs, whose fences are the same: asked once, the call sleeps; asked often, it does not."""
    monkeypatch.setattr(spin_waits, "_QUERIES", queries)
    at_hal = compile_str(_TEXT, extra_args=[*CPU, "--compile-to=hal"])
    with ir.Context() as context:
        module = ir.Module.parse(at_hal, context)
        (wait,) = collect(module.operation, lambda op: op.name == "hal.fence.await")
        with wait.location:
            spin_waits.spin_before(wait)
        assert module.operation.verify()
        program = compile_str(str(module), extra_args=[*CPU, "--compile-from=hal"])
    random = np.random.default_rng(0)
    for _ in range(8):
        x, y = random.standard_normal((2, _SIZE, _SIZE)).astype(np.float32)
        assert np.allclose(run_module(program, [x, y]), x.astype(float) @ y, atol=1e-4)
