"""Generics that compute each element of a result for itself, read in terms of the result."""

from __future__ import annotations

import pytest
from iree.compiler import ir

from attnpass.ir import collect
from attnpass.ir.bodies import ElementwiseFacts, read_elementwise
from attnpass.ir.expressions import ExpressionReader, Leaf, ScalarStep, leaves_of


def read(x: str, out: str, kinds: tuple[str, str], number: int = 0, last: str = "parallel"):
    """What a generic with two results is read as, whose first operand has map `x` and whose second
    result has map `out`; `kinds` are the shapes of these two."""
    first, second = (f"tensor<{kind}xf32>" for kind in kinds)
    text = f"""
func.func @f(%x: {first}, %s: f32, %y: tensor<1x3xf32>, %z: tensor<2x3x4xf32>, %w: {second}) {{
  %r:2 = linalg.generic {{indexing_maps = [affine_map<(a, b, c) -> {x}>,
      affine_map<(a, b, c) -> ()>, affine_map<(a, b, c) -> (0, b)>,
      affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> {out}>],
      iterator_types = ["parallel", "parallel", "{last}"]}}
      ins(%x, %s, %y : {first}, f32, tensor<1x3xf32>)
      outs(%z, %w : tensor<2x3x4xf32>, {second}) {{
    ^bb0(%a: f32, %b: f32, %c: f32, %d: f32, %e: f32):
      %p = arith.mulf %a, %b : f32
      %q = arith.addf %p, %c : f32
      linalg.yield %p, %q : f32, f32
  }} -> (tensor<2x3x4xf32>, {second})
  return
}}"""
    with ir.Context():
        module = ir.Module.parse(text)
        (op,) = collect(module.operation, lambda op: op.name == "linalg.generic", bodies=False)
        return module, op, read_elementwise(op, number)


@pytest.mark.parametrize(("number", "order"), [(0, (0, 1, 2)), (1, (2, 0, 1))])
def test_reads(number: int, order: tuple[int, int, int]) -> None:
    """`order`: along which dim of the result the loops run."""
    _module, op, made = read("(c, a)", "(b, c, a)", ("4x2", "3x4x2"), number)
    assert isinstance(made, ElementwiseFacts)
    a, b, c = order
    assert made.dim_of == {0: a, 1: b, 2: c}
    assert [one.dims for one in made.reads] == [(c, a), (), (None, b), (a, b, c), (b, c, a)]
    assert [one.operand for one in made.reads] == list(op.operands)
    assert [one.argument for one in made.reads] == list(op.regions[0].blocks[0].arguments)
    assert made.scalar.owner.name == ("arith.mulf", "arith.addf")[number]


def test_a_dim_that_no_loop_runs_along() -> None:
    _module, _op, made = read("(c, a)", "(a, 0, b, c)", ("4x2", "2x1x3x4"), 1)
    assert made is not None and made.dim_of == {0: 0, 1: 2, 2: 3}


@pytest.mark.parametrize(
    ("x", "out", "kinds", "last"),
    [
        ("(c, a)", "(a, b)", ("4x2", "2x3"), "parallel"),
        ("(c, a)", "(a, b, c)", ("4x2", "2x3x4"), "reduction"),
        ("(c, a + a)", "(a, b, c)", ("4x3", "2x3x4"), "parallel"),
    ],
)
def test_others(x: str, out: str, kinds: tuple[str, str], last: str) -> None:
    assert read(x, out, kinds, 1, last)[-1] is None


class Places(ExpressionReader[int]):
    """Reads elements by the numbers of loops."""

    single = -1


@pytest.mark.parametrize("number", [0, 1])
def test_expressions(number: int) -> None:
    _module, op, _made = read("(c, a)", "(b, c, a)", ("4x2", "3x4x2"), number)
    x, scalar, y = list(op.operands)[:3]
    places = [(0, 1, 2), (1, 2, 0)][number]
    found = Places().element(op.results[number], places)
    assert isinstance(found, ScalarStep) and found.name == ("arith.mulf", "arith.addf")[number]
    expected = [Leaf(x, (2, 0)), Leaf(scalar, ()), Leaf(y, (-1, 1))]
    assert list(leaves_of(found)) == expected[: 2 + number]


@pytest.mark.parametrize(("steps", "is_read"), [(100, True), (3000, False)])
def test_deep_bodies(steps: int, is_read: bool) -> None:
    """What is deeper than Python's stack is the element of a tensor, and no error."""
    body = "\n".join(f"%{n + 1} = math.tanh %{n} : f32" for n in range(steps))
    text = f"""
func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) {{
  %r = linalg.generic {{indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>],
      iterator_types = ["parallel"]}} ins(%x : tensor<4xf32>) outs(%y : tensor<4xf32>) {{
    ^bb0(%a: f32, %b: f32):
      %0 = math.tanh %a : f32
      {body}
      linalg.yield %{steps} : f32
  }} -> tensor<4xf32>
  return
}}"""
    with ir.Context():
        module = ir.Module.parse(text)
        (op,) = collect(module.operation, lambda op: op.name == "linalg.generic", bodies=False)
        leaf = Leaf(op.operands[0] if is_read else op.results[0], (0,))
        assert list(leaves_of(Places().element(op.results[0], (0,)))) == [leaf]
