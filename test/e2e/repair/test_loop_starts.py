"""What a loop begins with is read again behind it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from helpers import at_levels, compile_text, run_module

STEPS, SIZES = 3, {"4": (4,), "?": (1, 6)}
LOOP = """  %{name} = scf.for %i{name} = %c0 to %steps step %c1
      iter_args(%a = %{start}) -> (tensor<NxT>) {{
    %l = linalg.map ins(%a : tensor<NxT>) outs(%e : tensor<NxT>) (%v: T, %o: T) {{
      %w = arith.addf %v, %v : T
      linalg.yield %w : T
    }}
    scf.yield %l : tensor<NxT>
  }}
"""
WHILE = """  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %most = arith.constant 3 : i32
  %n, %y = scf.while (%k = %zero, %a = %x) : (i32, tensor<NxT>) -> (i32, tensor<NxT>) {
    %go = arith.cmpi slt, %k, %most : i32
    scf.condition(%go) %k, %a : i32, tensor<NxT>
  } do {
  ^bb0(%k: i32, %a: tensor<NxT>):
    %l = linalg.map ins(%a : tensor<NxT>) outs(%e : tensor<NxT>) (%v: T, %o: T) {
      %w = arith.addf %v, %v : T
      linalg.yield %w : T
    }
    %j = arith.addi %k, %one : i32
    scf.yield %j, %l : i32, tensor<NxT>
  }
"""
SUM = """  %r = linalg.map ins(%y, %x : tensor<NxT>, tensor<NxT>) outs(%e : tensor<NxT>)
      (%v: T, %u: T, %o: T) {
    %w = arith.addf %v, %u : T
    linalg.yield %w : T
  }
"""
INSERT = """  %part = tensor.extract_slice %y[0] [1] [1] : tensor<NxT> to tensor<1xT>
  %r = tensor.insert_slice %part into %x[0] [1] [1] : tensor<1xT> into tensor<NxT>
"""


def _first(x: np.ndarray) -> np.ndarray:
    return np.concatenate([8 * x[:1], x[1:]])


# What is between the start and the result, and what that is of the start.
FORMS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "for": (LOOP.format(name="y", start="x") + SUM, lambda x: 9 * x),
    "while": (WHILE + SUM, lambda x: 9 * x),
    "two_loops": (
        LOOP.format(name="z", start="x") + LOOP.format(name="y", start="z") + SUM,
        lambda x: 65 * x,
    ),
    "written_to": (LOOP.format(name="y", start="x") + INSERT, _first),
}


def _function(form: str, size: str) -> str:
    name = f"{form}_{'any' if size == '?' else size}"
    made = "%d" if size == "?" else ""
    return (
        f"""func.func @{name}(%given: tensor<NxT>) -> (tensor<NxT>, tensor<NxT>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %steps = arith.constant {STEPS} : index
  %d = tensor.dim %given, %c0 : tensor<NxT>
  %e = tensor.empty({made}) : tensor<NxT>
  %x = linalg.map ins(%given : tensor<NxT>) outs(%e : tensor<NxT>) (%v: T, %o: T) {{
    %w = arith.mulf %v, %v : T
    linalg.yield %w : T
  }}
{FORMS[form][0]}  return %r, %y : tensor<NxT>, tensor<NxT>
}}
""".replace("NxT", f"{size}xT")
        .replace("T>", "f32>")
        .replace(": T", ": f32")
    )


CASES = at_levels(((form,) for form in FORMS), ("O0", "O2"))


@cache
def compiled(level: str) -> bytes:
    here = [form for form, one in CASES if one == level]
    text = "".join(_function(form, size) for form in here for size in SIZES)
    return compile_text(text, mode="cost", flags=[f"--iree-opt-level={level}"])


@pytest.mark.parametrize(("form", "level"), CASES)
def test_numbers(form: str, level: str) -> None:
    for size, counts in SIZES.items():
        for count in counts:
            given = np.arange(1, count + 1, dtype=np.float32)
            name = f"{form}_{'any' if size == '?' else size}"
            result, last = run_module(compiled(level), [given], name)
            turns = 2 if form == "two_loops" else 1
            np.testing.assert_array_equal(last, given**2 * 2.0 ** (STEPS * turns))
            np.testing.assert_array_equal(result, FORMS[form][1](given**2))
