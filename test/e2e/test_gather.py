"""A gather in every order of its result, by slices or element by element."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from interpreter import interpret
from iree.compiler import ir

from attnpass.ir import sizes_of
from attnpass.layout.commit import Committer
from attnpass.layout.layout import permuted
from attnpass.layout.planner import Node, Planner
from attnpass.producers import Demand

# name -> (source, indices, dimension_map, result, its sizes)
GATHERS = {
    "rows": ("5x4xf32", "2x3xi64", [0], "2x3x4xf32", (2, 3, 4)),
    "rows by components": ("5x4xf32", "2x3x1xi32", [0], "2x3x4xf32", (2, 3, 4)),
    "two dims, swapped": ("5x6x4xf32", "3x2xi64", [1, 0], "3x4xf32", (3, 4)),
    "pages": ("5x3x1x4xf32", "2xi64", [0], "2x3x1x4xf32", (2, 3, 1, 4)),
    "elements": ("5x4xf32", "3x2xi64", [0, 1], "3xf32", (3,)),
    "one slice": ("5x3x4xf32", "1xi64", [0], "3x4xf32", (3, 4)),
}


def text_of(name: str) -> str:
    source, indices, places, result, _ = GATHERS[name]
    return f"""
func.func @main(%s: tensor<{source}>, %i: tensor<{indices}>) -> tensor<{result}> {{
  %e = tensor.empty() : tensor<{result}>
  %g = iree_linalg_ext.gather dimension_map = {places}
      ins(%s, %i : tensor<{source}>, tensor<{indices}>) outs(%e : tensor<{result}>)
      -> tensor<{result}>
  return %g : tensor<{result}>
}}
"""


@pytest.mark.parametrize(
    ("name", "order"),
    [
        (name, order)
        for name, (*_, sizes) in GATHERS.items()
        for order in itertools.permutations(range(len(sizes)))
    ],
)
def test_every_order(name: str, order: tuple[int, ...]) -> None:
    generator = np.random.default_rng(1)
    source, indices = (
        tuple(int(size) for size in kind.split("x")[:-1]) for kind in GATHERS[name][:2]
    )
    inputs = [generator.standard_normal(source), generator.integers(0, 5, indices) % 4]
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(text_of(name))
        (wanted,) = interpret(module, inputs)
        function = module.body.operations[0].operation
        gather, end = list(function.regions[0].blocks[0].operations)[-2:]
        value = gather.operation.results[0]
        plan = Planner().plan(value, Demand(permuted(sizes_of(value), order)))
        assert isinstance(plan, Node)
        end.operation.operands[0] = Committer().value(plan, end.operation)
        shape = [size for size in wanted.transpose(order).shape if size != 1]
        kind = ir.RankedTensorType.get(shape, ir.F32Type.get())
        function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(
                [argument.type for argument in function.regions[0].blocks[0].arguments], [kind]
            )
        )
        assert module.operation.verify()
        (got,) = interpret(module, inputs)
        np.testing.assert_array_equal(got, wanted.transpose(order).reshape(shape))
