"""Gathers and scatters in every order of their results: right, or refused with the reason."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from helpers import compile_text, run_module
from interpreter import interpret
from iree.compiler import ir

from attnpass import Report
from attnpass.ir import sizes_of
from attnpass.layout.commit import Committer
from attnpass.layout.layout import permuted
from attnpass.layout.planner import Planner
from attnpass.layout.rules import Demand, Refusal

# name -> (source, indices, dimension_map, result, its sizes)
GATHERS = {
    "rows": ("5x4xf32", "2x3xi64", [0], "2x3x4xf32", (2, 3, 4)),
    "rows by components": ("5x4xf32", "2x3x1xi32", [0], "2x3x4xf32", (2, 3, 4)),
    "two dims, swapped": ("5x6x4xf32", "3x2xi64", [1, 0], "3x4xf32", (3, 4)),
    "pages": ("5x3x1x4xf32", "2xi64", [0], "2x3x1x4xf32", (2, 3, 1, 4)),
    "elements": ("5x4xf32", "3x2xi64", [0, 1], "3xf32", (3,)),
    "one slice": ("5x3x4xf32", "1xi64", [0], "3x4xf32", (3, 4)),
}


def gather_text(name: str) -> str:
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


MASKED_GATHER = """
func.func @main(%s: tensor<5x3x4xf32>, %i: tensor<2x3xi64>, %m: tensor<2x3xi1>)
    -> tensor<2x3x3x4xf32> {
  %z = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<2x3x3x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x3x3x4xf32>) -> tensor<2x3x3x4xf32>
  %t = tensor.empty() : tensor<5x4x3xf32>
  %st = linalg.transpose ins(%s : tensor<5x3x4xf32>) outs(%t : tensor<5x4x3xf32>)
      permutation = [0, 2, 1]
  %n = tensor.empty() : tensor<5x3x4xf32>
  %neg = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, c, b)>,
      affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%st : tensor<5x4x3xf32>) outs(%n : tensor<5x3x4xf32>) {
    ^bb0(%x: f32, %o: f32):
      %y = arith.negf %x : f32
      linalg.yield %y : f32
  } -> tensor<5x3x4xf32>
  %g = iree_linalg_ext.gather dimension_map = [0]
      ins(%neg, %i, %m : tensor<5x3x4xf32>, tensor<2x3xi64>, tensor<2x3xi1>)
      outs(%f : tensor<2x3x3x4xf32>) -> tensor<2x3x3x4xf32>
  return %g : tensor<2x3x3x4xf32>
}
"""
MASKED_SCATTER = """
func.func @main(%u: tensor<2x3x4xf32>, %i: tensor<2x2xi64>, %m: tensor<2xi1>)
    -> tensor<5x2x3x4xf32> {
  %z = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<5x2x3x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<5x2x3x4xf32>) -> tensor<5x2x3x4xf32>
  %g = iree_linalg_ext.scatter dimension_map = [1, 0] unique_indices(true)
      ins(%u, %i, %m : tensor<2x3x4xf32>, tensor<2x2xi64>, tensor<2xi1>)
      outs(%f : tensor<5x2x3x4xf32>) {
    ^bb0(%new: f32, %old: f32):
      %y = arith.addf %new, %old : f32
      iree_linalg_ext.yield %y : f32
  } -> tensor<5x2x3x4xf32>
  return %g : tensor<5x2x3x4xf32>
}
"""


def reordered(text: str, inputs: Sequence[np.ndarray], order: Sequence[int]) -> str:
    """Gives what `main` returns in another order, and compares; the reason where refused."""
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        (wanted,) = interpret(module, inputs)
        function = module.body.operations[0].operation
        end = list(function.regions[0].blocks[0].operations)[-1].operation
        value = end.operands[0]
        plan = Planner().plan(value, Demand(permuted(sizes_of(value), order)))
        if isinstance(plan, Refusal):
            return plan.reason
        end.operands[0] = Committer().value(plan, end)
        shape = [size for size in wanted.transpose(order).shape if size != 1]
        arguments = [argument.type for argument in function.regions[0].blocks[0].arguments]
        kind = ir.FunctionType.get(arguments, [ir.RankedTensorType.get(shape, ir.F32Type.get())])
        function.attributes["function_type"] = ir.TypeAttr.get(kind)
        assert module.operation.verify()
        (got,) = interpret(module, inputs)
        np.testing.assert_array_equal(got, wanted.transpose(order).reshape(shape))
        return ""


@pytest.mark.parametrize("name", GATHERS)
def test_gather(name: str) -> None:
    generator = np.random.default_rng(1)
    source, indices = (
        tuple(int(size) for size in kind.split("x")[:-1]) for kind in GATHERS[name][:2]
    )
    inputs = [generator.standard_normal(source), generator.integers(0, 4, indices)]
    for order in itertools.permutations(range(len(GATHERS[name][-1]))):
        assert reordered(gather_text(name), inputs, order) == ""


def test_masked_gather() -> None:
    """Its batch dims stay in front of those of its slices; each group in any order."""
    generator = np.random.default_rng(1)
    inputs = [
        generator.standard_normal((5, 3, 4)),
        generator.integers(0, 5, (2, 3)),
        generator.integers(0, 2, (2, 3)),
    ]
    for order in itertools.permutations(range(4)):
        apart = set(order[:2]) == {0, 1}
        wanted = "" if apart else "its mask leaves it no other order of its dims"
        assert reordered(MASKED_GATHER, inputs, order) == wanted, order


def test_masked_scatter() -> None:
    """Its indexed dims stay in front of those of its slices; each group in any order."""
    inputs = [
        np.random.default_rng(1).standard_normal((2, 3, 4)),
        np.array([[1, 3], [0, 2]]),
        np.array([1, 0]),
    ]
    for order in itertools.permutations(range(4)):
        apart = set(order[:2]) == {0, 1}
        wanted = "" if apart else "a dim of the slices that it moves would go before an indexed dim"
        assert reordered(MASKED_SCATTER, inputs, order) == wanted, order


# dims of the source, how many are known, the place of each index, and the sizes of the rows: i, the
# batch's rank, and sizes, types and orders in pairs.
BY_SEVERAL = [
    ((5, 3), "5x3", (0, 1), (2,), "i32"),
    ((5, 3), "?x3", (1, 0), (2, 3), "i64"),
    ((5, 3), "5x?", (0, 1), (2, 3, 2), "i64"),
    ((5, 3), "?x?", (1, 0), (2, 3, 2, 2), "i32"),
    ((5, 3), "5x3", (1, 0), (), "i64"),
    ((5, 3, 4), "5x3x4", (2, 0, 1), (2,), "i64"),
    ((5, 3, 4), "?x3x?", (1, 2, 0), (2, 3), "i32"),
    ((5, 3, 4), "5x3x4", (0, 2, 1), (2, 3, 2), "i32"),
    ((5, 3, 4), "?x?x?", (2, 1, 0), (2, 3, 2, 2), "i64"),
    ((5, 3, 4), "5x?x4", (0, 1, 2), (), "i32"),
]


def by_several(number: int) -> str:
    _, source, places, rows, kind = BY_SEVERAL[number]
    indices, result = ("x".join(map(str, (*rows, last))) for last in (len(places), 6))
    types = f"tensor<{source}x6xf32>, tensor<{indices}x{kind}>"
    return f"""
func.func @f{number}(%s: tensor<{source}x6xf32>, %i: tensor<{indices}x{kind}>)
    -> tensor<{result}xf32> {{
  %e = tensor.empty() : tensor<{result}xf32>
  %g = iree_linalg_ext.gather dimension_map = {list(places)} ins(%s, %i : {types})
      outs(%e : tensor<{result}xf32>) -> tensor<{result}xf32>
  return %g : tensor<{result}xf32>
}}
"""


def test_several_indices() -> None:
    """IREE has no program where there are more rows' dims than indices, and takes wrong rows where
    three are in a cycle."""
    generator = np.random.default_rng(1)
    program = compile_text("".join(map(by_several, range(len(BY_SEVERAL)))), mode="cost")
    for number, (sizes, _, places, rows, kind) in enumerate(BY_SEVERAL):
        source = generator.standard_normal((*sizes, 6)).astype(np.float32)
        columns = [generator.integers(0, sizes[place], rows) for place in places]
        indices = np.stack(columns, -1).astype(kind.replace("i", "int"))
        got = run_module(program, [source, indices], f"f{number}")
        wanted = source[tuple(columns[places.index(dim)] for dim in range(len(sizes)))]
        np.testing.assert_array_equal(got, wanted, str(BY_SEVERAL[number]))


COLUMN = """
func.func @main(%x: tensor<8x7x1xi1>, %at: tensor<4xi8>) -> tensor<4x1xi1> {
  %column = tensor.extract_slice %x[0, 5, 0] [8, 1, 1] [1, 1, 1]
      : tensor<8x7x1xi1> to tensor<8x1xi1>
  %e = tensor.empty() : tensor<4x1xi1>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%at : tensor<4xi8>) outs(%e : tensor<4x1xi1>) {
  ^bb0(%n: i8, %out: i1):
    %i = arith.index_cast %n : i8 to index
    %j = linalg.index 1 : index
    %v = tensor.extract %column[%i, %j] : tensor<8x1xi1>
    linalg.yield %v : i1
  } -> tensor<4x1xi1>
  return %r : tensor<4x1xi1>
}
"""


def test_rows_of_a_column() -> None:
    """Whose neighbours lie apart, with a dim of one turn behind."""
    x = np.random.default_rng(0).random((8, 7, 1)) < 0.5
    at, report = np.array([6, 0, 3, 7], np.int8), Report()
    got = run_module(compile_text(COLUMN, mode="cost", report=report), [x, at])
    np.testing.assert_array_equal(got.astype(bool), x[at, 5])
    assert not report.events
