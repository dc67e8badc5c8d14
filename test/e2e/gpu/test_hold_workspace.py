"""A workspace that the module holds serves all functions and calls."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import CPU, has_gpu, run_module
from iree import runtime
from iree.compiler import ir
from iree.compiler.tools import compile_str

import attnpass
from attnpass import Report
from attnpass.gpu import hold_workspace as workspaces
from attnpass.gpu.hold_workspace import Workspace, hold_workspace
from attnpass.gpu.own_results import own_results
from bench.device import load, to_iree

_ROWS = 256


def _function(name: str, factor: float, rows: int | str = _ROWS) -> str:
    """`factor` times the sums of rows, by way of a tensor in memory; '?' rows are any number."""
    size, count = ("(%count)", "{%count}") if rows == "?" else ("()", "")
    rows, line = f"tensor<{rows}x64xf32>", f"tensor<{rows}xf32>"
    return f"""
func.func @{name}(%x: {rows}) -> {line} {{
  %first = arith.constant 0 : index
  %count = tensor.dim %x, %first : {rows}
  %factor = arith.constant {factor} : f32
  %none = arith.constant 0.0 : f32
  %space = tensor.empty{size} : {rows}
  %line = tensor.empty{size} : {line}
  %made = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
      affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}}
      ins(%x : {rows}) outs(%space : {rows}) {{
  ^bb0(%a: f32, %out: f32):
    %b = arith.mulf %a, %factor : f32
    linalg.yield %b : f32
  }} -> {rows}
  %stored = iree_tensor_ext.compute_barrier.start %made : {rows}{count} -> {rows}
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
        assert hold_workspace(module.operation) == Workspace(2 << 20, grows=False, rooms=[])
        text = str(module)
    assert text.count("stream.resource.alloca ") == 3 and "resource.dealloca" not in text
    program = compile_str(text, extra_args=[*CPU, "--compile-from=stream"])
    for seed, (name, factor) in enumerate([*_FACTORS.items()] * 2):
        rows = _rows(seed)
        result = run_module(program, [rows], name)
        assert np.allclose(result, factor * rows.astype(float).sum(1), atol=1e-4)


_CACHES = """
func.func @main(%k: tensor<64x?x128xf16>, %v: tensor<64x?x128xf16>, %a: tensor<64x1x128xf16>)
    -> (tensor<64x?x128xf16>, tensor<64x?x128xf16>) {
  %keys = tensor.concat dim(1) %k, %a
      : (tensor<64x?x128xf16>, tensor<64x1x128xf16>) -> tensor<64x?x128xf16>
  %values = tensor.concat dim(1) %v, %a
      : (tensor<64x?x128xf16>, tensor<64x1x128xf16>) -> tensor<64x?x128xf16>
  return %keys, %values : tensor<64x?x128xf16>, tensor<64x?x128xf16>
}
"""


def test_returned_caches_have_memory_of_their_own() -> None:
    """On CPUs, where the rewrite is the same. Results stay what they are while others are made."""
    at_flow = attnpass.compile_str(_CACHES, extra_args=[*CPU, "--compile-to=flow"])
    with ir.Context() as context:
        module = ir.Module.parse(at_flow, context)
        assert own_results(module.operation) == 2
        text = str(module)
    assert text.count("hal.device.queue.alloca") == 2 and "flow.tensor.empty" not in text
    program = compile_str(text, extra_args=[*CPU, "--compile-from=flow"])
    assert isinstance(program, bytes)
    config, made = runtime.Config("local-task"), []
    call = load(config, program)["main"]
    for rows in (3, 0, 5):
        shapes = ((64, rows, 128), (64, rows, 128), (64, 1, 128))
        random = np.random.default_rng(rows)
        given = [random.standard_normal(shape).astype(np.float16) for shape in shapes]
        made.append((given, call(*(to_iree(config.device, one) for one in given))))
    for (keys, values, new), results in made:
        for result, old in zip(results, (keys, values), strict=True):
            assert np.array_equal(result.to_host(), np.concatenate([old, new], 1))


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
        assert hold_workspace(module.operation) == Workspace(2 << 20, grows=False, rooms=[])
        module.operation.verify()
        text = str(module)
    # One is held, and allocated once; the other is allocated and given back as before.
    counts = [text.count(op) for op in ("global.load @__attn", "resource.alloca ", "dealloca")]
    assert counts == [1, 2, 1]


def test_nothing_is_held_where_devices_differ() -> None:
    with ir.Context():
        other = "on(#hal.device.affinity<@__device_1>)"
        text = _TWO.replace("on(#hal.device.affinity<@__device_0>)", other, 1)
        module = ir.Module.parse(
            text.replace("util.func", "util.global private @__device_1 : !hal.device\nutil.func", 1)
        )
        assert hold_workspace(module.operation) is None
        assert "global.load @__attn" not in str(module)


@pytest.mark.parametrize("most", [1 << 30, 32 << 20])
def test_calls_of_unknown_sizes(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On CPUs: the workspace grows with calls that need more, to `most` bytes; beyond that a call
    has its own. A function of known size reads the same workspace in between."""
    monkeypatch.setattr(workspaces, "_MOST", most)
    text = _function("twice", 2.0) + _function("thrice", 3.0, rows="?")
    at_stream = compile_str(text, extra_args=[*CPU, "--compile-to=stream"])
    with ir.Context() as context:
        module = ir.Module.parse(at_stream, context)
        assert hold_workspace(module.operation) == Workspace(2 << 20, grows=True, rooms=[2, 2])
        assert module.operation.verify()
        program = compile_str(str(module), extra_args=[*CPU, "--compile-from=stream"])
    config = runtime.Config("local-task")
    loaded = runtime.load_vm_module(
        runtime.VmModule.copy_buffer(config.vm_instance, program), config
    )
    # 64 KB, 10 MB, 160 MB and less again.
    for seed, count in enumerate([_ROWS, 40_000, 8, 640_000, 200_000, 40_000]):
        rows = np.random.default_rng(seed).standard_normal((count, 64)).astype(np.float32)
        wanted = 3 * rows.astype(float).sum(1)
        assert np.allclose(loaded["thrice"](rows).to_host(), wanted, atol=1e-3)
        known = _rows(seed)
        wanted = 2 * known.astype(float).sum(1)
        assert np.allclose(loaded["twice"](known).to_host(), wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("sizes", "used", "rooms"),
    [
        ([16 << 20], 16 << 20, []),
        ([16 << 20], 17 << 20, [1]),
        ([16 << 20, 16 << 20], 32 << 20, [1, 1]),
        ([16 << 20, 14 << 20, 1], 20 << 20, [1]),
        ([40 << 20, 20 << 20], 31 << 20, [2]),
        ([67 << 20], 31 << 20, [3]),
        ([], 4 << 20, []),
    ],
)
def test_rooms_for_results(sizes: list[int], used: int, rooms: list[int]) -> None:
    assert workspaces._rooms(sizes, -used % (32 << 20)) == rooms


def test_eight_pieces_stay_mapped_for_results() -> None:
    assert workspaces._at_most(8, [3, 2, 2, 1, 2, 1]) == [3, 2, 2, 1, 1]


@pytest.mark.skipif(not has_gpu(), reason="there is no CUDA device")
def test_calls_on_a_gpu() -> None:
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
