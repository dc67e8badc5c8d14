"""A list of commands that is kept for the next call of its sizes computes that call's numbers."""

from __future__ import annotations

import numpy as np
from helpers import CPU
from iree import runtime
from iree.compiler import ir
from iree.compiler.tools import compile_str

from attnpass.gpu.keep_commands import keep_commands

_TEXT = """
func.func @main(%x: tensor<?x64xf32>, %y: tensor<?x32xf32>) -> (tensor<?xf32>, tensor<?x32xf32>) {
  %first = arith.constant 0 : index
  %rows = tensor.dim %x, %first : tensor<?x64xf32>
  %others = tensor.dim %y, %first : tensor<?x32xf32>
  %none = arith.constant 0.0 : f32
  %line = tensor.empty(%rows) : tensor<?xf32>
  %zeros = linalg.fill ins(%none : f32) outs(%line : tensor<?xf32>) -> tensor<?xf32>
  %sums = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
      affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x64xf32>) outs(%zeros : tensor<?xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %b = arith.addf %a, %sum : f32
    linalg.yield %b : f32
  } -> tensor<?xf32>
  %space = tensor.empty(%others) : tensor<?x32xf32>
  %twice = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
      affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<?x32xf32>) outs(%space : tensor<?x32xf32>) {
  ^bb0(%a: f32, %out: f32):
    %b = arith.addf %a, %a : f32
    linalg.yield %b : f32
  } -> tensor<?x32xf32>
  return %sums, %twice : tensor<?xf32>, tensor<?x32xf32>
}
"""


def _kept(text: bytes | str | None) -> str:
    with ir.Context() as context:
        module = ir.Module.parse(text or "", context)
        found: list[ir.Operation] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == "hal.command_buffer.create":
                found.append(op.operation)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        assert [keep_commands(op, f"kept_{number}") for number, op in enumerate(found)] == [True]
        assert module.operation.verify()
        return str(module)


def test_calls_of_the_same_and_of_other_sizes() -> None:
    """On CPUs, where the rewrite is the same; each call has arguments of its own."""
    at_hal = compile_str(_TEXT, extra_args=[*CPU, "--compile-to=hal"])
    text = _kept(at_hal)
    assert text.count("util.global private mutable @kept_0_size") == 2
    program = compile_str(text, extra_args=[*CPU, "--compile-from=hal"])
    config = runtime.Config("local-task")
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, program))
    main = context.modules.module.main
    random = np.random.default_rng(0)
    for sizes in ((3, 5), (3, 5), (3, 7), (9, 7), (9, 7), (7, 9), (3, 5)):
        x, y = (random.random((n, k), np.float32) for n, k in zip(sizes, (64, 32), strict=True))
        sums, twice = main(x, y)
        assert np.allclose(sums.to_host(), x.astype(float).sum(1), atol=1e-4)
        assert np.array_equal(twice.to_host(), y + y)
