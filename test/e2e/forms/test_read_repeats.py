"""Elements that are taken by index of what is repeated: neighbours of points, by `torch.gather`."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers import compile_text, joined, run_module, symbol


def gather(known: bool, element: str, repeat: str) -> str:
    """Rows by index of a tensor that is repeated along its first dim (`rows`), along its last
    (`columns`), or has a dim of size one that is repeated (`unit`)."""
    n, p = ("9", "4") if known else ("?", "?")
    given, place = {
        "rows": (f"{n}x8", "(i, j, k) -> (j, k)"),
        "columns": (f"{n}x{n}", "(i, j, k) -> (j, i)"),
        "unit": (f"{n}x1x8", "(i, j, k) -> (j, 0, k)"),
    }[repeat]
    sizes = "" if known else "%n, %n"
    counts = "" if known else "%n, %p"
    x, wide, near = (
        f"tensor<{given}x{element}>",
        f"tensor<{n}x{n}x8x{element}>",
        f"tensor<{n}x{p}xi64>",
    )
    made = f"tensor<{n}x{p}x8x{element}>"
    return f"""
#map = affine_map<(i, j, k) -> (i, j, k)>
func.func @main(%x: {x}, %near: {near}) -> {made} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %near, %c0 : {near}
  %p = tensor.dim %near, %c1 : {near}
  %wide = tensor.empty({sizes}) : {wide}
  %all = linalg.generic {{indexing_maps = [affine_map<{place}>, #map],
      iterator_types = ["parallel", "parallel", "parallel"]}} ins(%x : {x}) outs(%wide : {wide}) {{
  ^bb0(%in: {element}, %out: {element}):
    linalg.yield %in : {element}
  }} -> {wide}
  %e = tensor.empty({counts}) : {made}
  %r = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, j)>, #map],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%near : {near}) outs(%e : {made}) {{
  ^bb0(%in: i64, %out: {element}):
    %at = arith.index_cast %in : i64 to index
    %i = linalg.index 0 : index
    %k = linalg.index 2 : index
    %y = tensor.extract %all[%i, %at, %k] : {wide}
    linalg.yield %y : {element}
  }} -> {made}
  return %r : {made}
}}
"""


CASES = [
    ("rows", True, "f32", "O2"),
    ("rows", False, "f16", "O3"),
    ("columns", False, "f32", "O0"),
    ("columns", True, "f16", "O2"),
    ("unit", True, "f32", "O3"),
    ("unit", False, "f32", "O2"),
]


@cache
def _compiled(level: str) -> bytes:
    texts = {
        symbol(repeat, known, element): gather(known, element, repeat)
        for repeat, known, element, at in CASES
        if at == level
    }
    return compile_text(joined(texts), mode="cost", flags=[f"--iree-opt-level={level}"])


@pytest.mark.parametrize(("repeat", "known", "element", "level"), CASES)
def test_elements_of_repeats(repeat: str, known: bool, element: str, level: str) -> None:
    generator = np.random.default_rng(3)
    near = generator.integers(9, size=(9, 4))
    shape = {"rows": (9, 8), "columns": (9, 9), "unit": (9, 1, 8)}[repeat]
    x = generator.standard_normal(shape).astype(element.replace("f", "float"))
    if repeat == "columns":
        wanted = np.broadcast_to(x[near, np.arange(9)[:, None]][..., None], (9, 4, 8))
    else:
        wanted = x.reshape(9, 8)[near]
    got = run_module(_compiled(level), [x, near], symbol(repeat, known, element))
    np.testing.assert_array_equal(got, wanted)
