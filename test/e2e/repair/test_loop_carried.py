"""Loops whose conditions take other values than their bodies."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from helpers import at_levels, compile_text, joined, run_module, symbol

from attnpass.report.records import Report

# Doubles a tensor as often as is counted; what the loop carries, the condition hands on, and the
# body yields is left open. All tensors are made outside, so IREE moves nothing out of the loop.
DOUBLES = """
func.func @main(%x: tensor<{size}xf32>, %count: tensor<i64>) -> tensor<{size}xf32> {{
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %at = arith.constant 0 : index
  %n = tensor.extract %count[] : tensor<i64>
  %go = arith.cmpi sgt, %n, %c0 : i64
  {empty}
  %scalar = tensor.empty() : tensor<i64>
  %r:2 = scf.while ({carried}) : ({types}) -> (tensor<i64>, tensor<{size}xf32>) {{
    scf.condition(%c) %i, %a : tensor<i64>, tensor<{size}xf32>
  }} do {{
  ^bb0(%i: tensor<i64>, %a: tensor<{size}xf32>):
    %b = linalg.map ins(%a : tensor<{size}xf32>) outs(%e : tensor<{size}xf32>) (%v: f32, %o: f32) {{
      %w = arith.addf %v, %v : f32
      linalg.yield %w : f32
    }}
    %j = linalg.map ins(%i : tensor<i64>) outs(%scalar : tensor<i64>) (%v: i64, %o: i64) {{
      %w = arith.subi %v, %c1 : i64
      linalg.yield %w : i64
    }}
    %k = tensor.extract %j[] : tensor<i64>
    %again = arith.cmpi sgt, %k, %c0 : i64
    scf.yield {yields} : {types}
  }}
  return %r#1 : tensor<{size}xf32>
}}
"""
NO_SIZE = "%d = tensor.dim %x, %at : tensor<?xf32>\n  %e = tensor.empty(%d) : tensor<?xf32>"
# In which order a condition that is carried stands: what the loop carries, its type, its next.
CARRIED = [
    ("%c = %go", "i1", "%again"),
    ("%i = %count", "tensor<i64>", "%j"),
    ("%a = %x", "tensor<{size}xf32>", "%b"),
]


ORDERS, SIZES = [(0, 1, 2), (1, 0, 2), (2, 1, 0)], {"4": "known", "?": "unknown"}


def _text(order: tuple[int, ...], size: str) -> str:
    chosen = zip(*(CARRIED[number] for number in order), strict=True)
    carried, types, yields = (", ".join(words) for words in chosen)
    empty = "%e = tensor.empty() : tensor<4xf32>" if size == "4" else NO_SIZE
    words = {"carried": carried, "types": types.format(size=size), "yields": yields}
    return DOUBLES.format(size=size, empty=empty, **words)


def _name(order: tuple[int, ...], size: str) -> str:
    return symbol("order", *order, SIZES[size])


CASES = at_levels(itertools.product(ORDERS, SIZES))


@cache
def _compiled(level: str) -> bytes:
    report, cases = Report(), [case[:-1] for case in CASES if case[-1] == level]
    text = joined({_name(*case): _text(*case) for case in cases})
    program = compile_text(text, mode="cost", report=report, flags=[f"--iree-opt-level={level}"])
    assert not report.found("fallback")
    return program


@pytest.mark.parametrize(("order", "size", "level"), CASES)
def test_a_loop_carries_its_condition(order: tuple[int, ...], size: str, level: str) -> None:
    x = np.arange(4, dtype=np.float32)
    for count in (0, 1, 3):
        given = [x, np.array(count, np.int64)]
        found = run_module(_compiled(level), given, _name(order, size))
        assert np.array_equal(found, x.astype(np.float64) * 2**count)


def test_a_loop_may_overwrite_what_it_is_handed() -> None:
    """A `while` whose body makes its tensor anew: the last number counted, or the start."""
    text = """
func.func @main(%start: tensor<4xf32>, %count: tensor<i32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %n = tensor.extract %count[] : tensor<i32>
  %r:2 = scf.while (%i = %c0, %x = %start) : (i32, tensor<4xf32>) -> (i32, tensor<4xf32>) {
    %q = arith.cmpi slt, %i, %n : i32
    scf.condition(%q) %i, %x : i32, tensor<4xf32>
  } do {
  ^bb0(%i: i32, %x: tensor<4xf32>):
    %f = arith.sitofp %i : i32 to f32
    %e = tensor.empty() : tensor<4xf32>
    %new = linalg.fill ins(%f : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %k = arith.addi %i, %c1 : i32
    scf.yield %k, %new : i32, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}
"""
    report = Report()
    program = compile_text(text, mode="cost", report=report)
    assert not report.found("fallback")
    start = np.full(4, 9, np.float32)
    for count, wanted in ((3, 2), (0, 9)):
        assert np.array_equal(run_module(program, [start, np.array(count, np.int32)]), [wanted] * 4)
