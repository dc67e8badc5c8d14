"""A workspace that the module holds serves all functions and calls."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import CPU, has_gpu, run_module
from iree.compiler import ir
from iree.compiler.tools import compile_str

import attnpass
from attnpass import Report
from attnpass.gpu.hold_workspace import hold_workspace

_ROWS = 256


def _function(name: str, factor: float) -> str:
    """`factor` times the sums of rows, by way of a tensor in memory."""
    rows, line = f"tensor<{_ROWS}x64xf32>", f"tensor<{_ROWS}xf32>"
    return f"""
func.func @{name}(%x: {rows}) -> {line} {{
  %factor = arith.constant {factor} : f32
  %none = arith.constant 0.0 : f32
  %space = tensor.empty() : {rows}
  %line = tensor.empty() : {line}
  %made = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
      affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}}
      ins(%x : {rows}) outs(%space : {rows}) {{
  ^bb0(%a: f32, %out: f32):
    %b = arith.mulf %a, %factor : f32
    linalg.yield %b : f32
  }} -> {rows}
  %stored = iree_tensor_ext.compute_barrier.start %made : {rows} -> {rows}
  %zeros = linalg.fill ins(%none : f32) outs(%line : {line}) -> {line}
  %sums = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
      affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}}
      ins(%stored : {rows}) outs(%zeros : {line}) {{
  ^bb0(%a: f32, %sum: f32):
    %b = arith.addf %a, %sum : f32
    linalg.yield %b : f32
  }} -> {line}
  return %sums : {line}
}}
"""


_TEXT = _function("twice", 2.0) + _function("thrice", 3.0)
_FACTORS = {"twice": 2.0, "thrice": 3.0}


def _rows(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((_ROWS, 64)).astype(np.float32)


def test_one_allocation_serves_all_functions() -> None:
    """On CPUs, where the rewrite is the same: in turns, since no stream keeps calls apart."""
    at_stream = compile_str(_TEXT, extra_args=[*CPU, "--compile-to=stream"])
    with ir.Context() as context:
        module = ir.Module.parse(at_stream, context)
        assert hold_workspace(module.operation) == 2 << 20
        text = str(module)
    assert text.count("stream.resource.alloca ") == 3 and "resource.dealloca" not in text
    program = compile_str(text, extra_args=[*CPU, "--compile-from=stream"])
    for seed, (name, factor) in enumerate([*_FACTORS.items()] * 2):
        rows = _rows(seed)
        result = run_module(program, [rows], name)
        assert np.allclose(result, factor * rows.astype(float).sum(1), atol=1e-4)


# Commands that compute in two allocations at once.
_TWO = """
util.global private @__device_0 : !hal.device
util.func public @main() {
  %a = arith.constant 4096 : index
  %c0 = arith.constant 0 : index
  %v = arith.constant 1 : i32
  %r, %t = stream.resource.alloca uninitialized
      on(#hal.device.affinity<@__device_0>) : !stream.resource<transient>{%a} => !stream.timepoint
  %s, %u = stream.resource.alloca uninitialized
      on(#hal.device.affinity<@__device_0>) : !stream.resource<transient>{%a} => !stream.timepoint
  %j = stream.timepoint.join max(%t, %u) => !stream.timepoint
  %e = stream.cmd.execute on(#hal.device.affinity<@__device_0>) await(%j) => with(
      %r as %x: !stream.resource<transient>{%a},
      %s as %y: !stream.resource<transient>{%a}) {
    stream.cmd.fill %v, %x[%c0 for %a] : i32 -> !stream.resource<transient>{%a}
    stream.cmd.fill %v, %y[%c0 for %a] : i32 -> !stream.resource<transient>{%a}
  } => !stream.timepoint
  %d = stream.resource.dealloca
      on(#hal.device.affinity<@__device_0>) await(%e)
      => %r : !stream.resource<transient>{%a} => !stream.timepoint
  %f = stream.resource.dealloca
      on(#hal.device.affinity<@__device_0>) await(%d)
      => %s : !stream.resource<transient>{%a} => !stream.timepoint
  util.optimization_barrier %f : !stream.timepoint
  util.return
}
"""


def test_memory_of_the_same_commands_stays_apart() -> None:
    with ir.Context():
        module = ir.Module.parse(_TWO)
        assert hold_workspace(module.operation) == 2 << 20
        module.operation.verify()
        text = str(module)
    # One is held, and allocated once; the other is allocated and given back as before.
    counts = [text.count(op) for op in ("global.load @__attn", "resource.alloca ", "dealloca")]
    assert counts == [1, 2, 1]


def test_nothing_is_held_for_memory_of_unknown_size() -> None:
    with ir.Context():
        text = _TWO.replace("@main()", "@main(%a: index)")
        module = ir.Module.parse(text.replace("%a = arith.constant 4096 : index", ""))
        assert hold_workspace(module.operation) == 0
        assert "global.load @__attn" not in str(module)


@pytest.mark.skipif(not has_gpu(), reason="there is no CUDA device")
def test_calls_on_a_gpu() -> None:
    from iree import runtime

    report = Report()
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
    program = attnpass.compile_str(_TEXT, extra_args=flags, report=report)
    assert any("bytes" in record.details for record in report.found("note"))
    config = runtime.Config("cuda")
    loaded = runtime.load_vm_module(
        runtime.VmModule.copy_buffer(config.vm_instance, program), config
    )

    # All are on their way before the first is read.
    given = [(name, factor, _rows(seed)) for seed in range(20) for name, factor in _FACTORS.items()]
    results = [loaded[name](rows) for name, _, rows in given]
    for (_, factor, rows), result in zip(given, results, strict=True):
        wanted = factor * rows.astype(float).sum(1)
        assert np.allclose(np.asarray(result.to_host()), wanted, atol=1e-3)
