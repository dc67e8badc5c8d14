"""Caches that grow by rows, and images that are rolled, hold what they should, at each level."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_text, joined, pairwise, run_module, symbol

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


CASES = pairwise(_CACHES, _KINDS, [False, True], ["O0", "O2", "O3"])


def _shapes(case: str) -> list[tuple[int, ...]]:
    shape, dim = _CACHES[case]
    return [shape, *((*shape[:dim], new, *shape[dim + 1 :]) for new in _NEW)]


@cache
def _compiled(level: str) -> tuple[bytes, Report]:
    report, flags = Report(), [f"--iree-opt-level={level}"]
    texts = {
        symbol(case, element, unknown, at): _text(_shapes(case), _CACHES[case][1], element, unknown)
        for case, element, unknown, at in CASES
        if at == level
    }
    return compile_text(joined(texts), mode="cost", flags=flags, report=report), report


@pytest.mark.parametrize(("case", "element", "unknown", "level"), CASES)
def test_caches_grow(case: str, element: str, unknown: bool, level: str) -> None:
    shapes, dim = _shapes(case), _CACHES[case][1]
    random, name = np.random.default_rng(0), symbol(case, element, unknown, level)
    pieces = [random.integers(-60, 60, each).astype(_KINDS[element]) for each in shapes]
    program, report = _compiled(level)
    told = [one for one in report.found("fitted") if one.op.function.startswith(name)]
    assert any("copied to where they stand" in one.reason for one in told)
    whole, double = run_module(program, pieces, name)
    wanted = np.concatenate(pieces, dim)
    assert np.array_equal(whole.astype(float), wanted.astype(float))
    assert np.array_equal(double.astype(float), 2 * wanted.astype(float))


# The window of an image that is rolled along both dims, computed in front of that, and a class
# token in front of its rows: what shifted windows and vision transformers do.
_IMAGE = """
#row = affine_map<(b, h, w, c) -> (b, h, w, c)>
func.func @main(
    %x: tensor<2x5x7x8x{kind}>, %cls: tensor<2x1x8x{kind}>) -> tensor<2x36x8x{kind}> {{
  %space = tensor.empty() : tensor<2x5x7x8x{kind}>
  %double = linalg.generic {{indexing_maps = [#row, #row],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%x : tensor<2x5x7x8x{kind}>) outs(%space : tensor<2x5x7x8x{kind}>) {{
  ^bb0(%a: {kind}, %out: {kind}):
    %c = arith.addf %a, %a : {kind}
    linalg.yield %c : {kind}
  }} -> tensor<2x5x7x8x{kind}>
  %lower = tensor.extract_slice %double[0, 2, 0, 0] [2, 3, 7, 8] [1, 1, 1, 1]
    : tensor<2x5x7x8x{kind}> to tensor<2x3x7x8x{kind}>
  %upper = tensor.extract_slice %double[0, 0, 0, 0] [2, 2, 7, 8] [1, 1, 1, 1]
    : tensor<2x5x7x8x{kind}> to tensor<2x2x7x8x{kind}>
  %down = tensor.concat dim(1) %lower, %upper
    : (tensor<2x3x7x8x{kind}>, tensor<2x2x7x8x{kind}>) -> tensor<2x5x7x8x{kind}>
  %right = tensor.extract_slice %down[0, 0, 3, 0] [2, 5, 4, 8] [1, 1, 1, 1]
    : tensor<2x5x7x8x{kind}> to tensor<2x5x4x8x{kind}>
  %left = tensor.extract_slice %down[0, 0, 0, 0] [2, 5, 3, 8] [1, 1, 1, 1]
    : tensor<2x5x7x8x{kind}> to tensor<2x5x3x8x{kind}>
  %rolled = tensor.concat dim(2) %right, %left
    : (tensor<2x5x4x8x{kind}>, tensor<2x5x3x8x{kind}>) -> tensor<2x5x7x8x{kind}>
  %rows = tensor.collapse_shape %rolled [[0], [1, 2], [3]]
    : tensor<2x5x7x8x{kind}> into tensor<2x35x8x{kind}>
  %all = tensor.concat dim(1) %cls, %rows
    : (tensor<2x1x8x{kind}>, tensor<2x35x8x{kind}>) -> tensor<2x36x8x{kind}>
  return %all : tensor<2x36x8x{kind}>
}}
"""


@pytest.mark.parametrize(("element", "level"), [("f32", "O0"), ("f16", "O2"), ("f32", "O3")])
def test_images_are_rolled(element: str, level: str) -> None:
    random, report = np.random.default_rng(1), Report()
    image, token = (
        random.integers(-60, 60, shape).astype(_KINDS[element])
        for shape in ((2, 5, 7, 8), (2, 1, 8))
    )
    program = compile_text(
        _IMAGE.format(kind=element),
        mode="cost",
        flags=[f"--iree-opt-level={level}"],
        report=report,
    )
    placed = [one for one in report.found("fitted") if "copied to where they stand" in one.reason]
    assert len(placed) == 3
    rolled = np.roll(2.0 * image.astype(float), (-2, -3), (1, 2)).reshape(2, 35, 8)
    wanted = np.concatenate([token.astype(float), rolled], 1)
    assert np.array_equal(run_module(program, [image, token]).astype(float), wanted)
