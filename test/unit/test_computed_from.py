"""`computed_from` makes a tensor in one op of what its producers are made of."""

from __future__ import annotations

import numpy as np
from interpreter import Machine
from iree.compiler import ir

from attnpass.ir import Builder
from attnpass.ir.regions import computed_from

TEXT = """
#d = affine_map<(a, b, c) -> (a, b, c)>
#row = affine_map<(a, b, c) -> (a, c)>
#turned = affine_map<(a, b, c) -> (c, a)>
#p = affine_map<(a, b) -> (a, b)>
func.func @main(%x: tensor<3x?xf32>, %y: tensor<?x3xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %two = arith.constant 2.0 : f32
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %to = tensor.empty(%n) : tensor<3x1x?xf32>
  %flat = tensor.empty(%n) : tensor<3x?xf32>
  %doubled = linalg.generic {indexing_maps = [#p, #p], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<3x?xf32>) outs(%flat : tensor<3x?xf32>) {
  ^bb0(%e: f32, %o: f32):
    %0 = arith.mulf %e, %two : f32
    linalg.yield %0 : f32
  } -> tensor<3x?xf32>
  %far = linalg.generic {indexing_maps = [#row, #turned, #d], iterator_types = ["parallel", "parallel", "parallel"]} ins(%doubled, %y : tensor<3x?xf32>, tensor<?x3xf32>) outs(%to : tensor<3x1x?xf32>) {
  ^bb0(%e: f32, %f: f32, %o: f32):
    %i = linalg.index 2 : index
    %j = arith.index_cast %i : index to i64
    %k = arith.sitofp %j : i64 to f32
    %0 = arith.subf %e, %f : f32
    %1 = arith.addf %0, %k : f32
    linalg.yield %1 : f32
  } -> tensor<3x1x?xf32>
  %mask = tensor.collapse_shape %far [[0, 1], [2]] : tensor<3x1x?xf32> into tensor<3x?xf32>
  return %mask : tensor<3x?xf32>
}
"""  # noqa: E501


def test_what_it_is_made_of_is_read_at_its_own_places() -> None:
    x, y = np.random.default_rng(1).standard_normal((2, 3, 5))
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(TEXT)
        (function,) = module.body.operations
        wanted = Machine(module).call("main", [x, y.T])
        *_, last = function.regions[0].blocks[0].operations
        value = last.operation.operands[0]

        def negated(inner: Builder, one: ir.Value) -> ir.Value:
            return inner.create("arith.negf", [one.type], [one]).results[0]

        made = computed_from(Builder(last.operation), value, ir.F32Type.get(), negated)
        last.operation.operands[0] = made
        assert module.operation.verify()
        assert {*made.owner.operands} == {
            *function.regions[0].blocks[0].arguments,
            made.owner.operands[-1],
        }
        got = Machine(module).call("main", [x, y.T])
    np.testing.assert_array_equal(got[0], -np.asarray(wanted[0]))


def test_long_chains_are_not_taken_whole() -> None:
    """Python's stack would end."""
    steps = "\n".join(
        f"%v{n + 1} = linalg.generic {{indexing_maps = [#e, #e], iterator_types = ['parallel']}}"
        f" ins(%v{n} : tensor<4xf32>) outs(%to : tensor<4xf32>) {{\n^bb0(%x: f32, %o: f32):\n"
        f"%y = arith.addf %x, %one : f32\nlinalg.yield %y : f32\n}} -> tensor<4xf32>".replace(
            "'", '"'
        )
        for n in range(1500)
    )
    text = f"""#e = affine_map<(i) -> (i)>
func.func @main(%v0: tensor<4xf32>) -> tensor<4xf32> {{
%one = arith.constant 1.0 : f32
%to = tensor.empty() : tensor<4xf32>
{steps}
return %v1500 : tensor<4xf32>
}}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        *_, last = next(iter(module.body.operations)).regions[0].blocks[0].operations
        value = last.operation.operands[0]
        f32 = ir.F32Type.get()
        made = computed_from(Builder(last.operation), value, f32, lambda _, one: one)
        last.operation.operands[0] = made
        assert module.operation.verify()
        (got,) = Machine(module).call("main", [np.zeros(4)])
    np.testing.assert_array_equal(got, np.full(4, 1500.0))
