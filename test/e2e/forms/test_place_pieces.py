"""Caches that grow by rows hold what they should, at each level."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_text, run_module

from attnpass import Report

_KINDS: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i8": np.int8,
}
# The shape of a cache, and the dim along which it grows.
_CACHES = {"heads": ((2, 3, 7, 8), 2), "rows": ((2, 7, 3, 8), 1), "turned": ((2, 3, 8, 7), 3)}
_NEW = (1, 2)


def _kind(shape: tuple[int, ...], dim: int, unknown: bool, element: str) -> str:
    sizes = ["?" if unknown and at in (0, dim) else str(size) for at, size in enumerate(shape)]
    return f"tensor<{'x'.join([*sizes, element])}>"


def _text(shapes: list[tuple[int, ...]], dim: int, element: str, unknown: bool) -> str:
    """The pieces joined, which is returned, and so is the joined tensor's double."""
    kinds = [_kind(shape, dim, unknown, element) for shape in shapes]
    whole = list(shapes[0])
    whole[dim] = sum(shape[dim] for shape in shapes)
    joined = _kind(tuple(whole), dim, unknown, element)
    given = ", ".join(f"%x{number}: {kind}" for number, kind in enumerate(kinds))
    names = ", ".join(f"%x{number}" for number in range(len(kinds)))
    add = "arith.addi" if element == "i8" else "arith.addf"
    sizes = "(%b, %n)" if unknown else "()"
    same = "affine_map<(a, b, c, d) -> (a, b, c, d)>"
    return f"""
func.func @main({given}) -> ({joined}, {joined}) {{
  %first = arith.constant 0 : index
  %at = arith.constant {dim} : index
  %joined = tensor.concat dim({dim}) {names} : ({", ".join(kinds)}) -> {joined}
  %b = tensor.dim %joined, %first : {joined}
  %n = tensor.dim %joined, %at : {joined}
  %space = tensor.empty{sizes} : {joined}
  %double = linalg.generic {{indexing_maps = [{same}, {same}],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%joined : {joined}) outs(%space : {joined}) {{
  ^bb0(%a: {element}, %out: {element}):
    %c = {add} %a, %a : {element}
    linalg.yield %c : {element}
  }} -> {joined}
  return %joined, %double : {joined}, {joined}
}}
"""


@pytest.mark.parametrize("level", ["O0", "O2", "O3"])
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("element", _KINDS)
@pytest.mark.parametrize("case", _CACHES)
def test_caches_grow(case: str, element: str, unknown: bool, level: str) -> None:
    shape, dim = _CACHES[case]
    shapes = [shape, *((*shape[:dim], new, *shape[dim + 1 :]) for new in _NEW)]
    random, report = np.random.default_rng(0), Report()
    pieces = [random.integers(-60, 60, each).astype(_KINDS[element]) for each in shapes]
    program = compile_text(
        _text(shapes, dim, element, unknown),
        mode="cost",
        flags=[f"--iree-opt-level={level}"],
        report=report,
    )
    assert any("copied to where they stand" in one.reason for one in report.found("fitted"))
    joined, double = run_module(program, pieces)
    wanted = np.concatenate(pieces, dim)
    assert np.array_equal(joined.astype(float), wanted.astype(float))
    assert np.array_equal(double.astype(float), 2 * wanted.astype(float))
