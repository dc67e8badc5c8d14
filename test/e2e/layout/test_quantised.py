"""V quantised and brought back, as exporters write it: the transpose moves through, and where
it must land somewhere, that is where V is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from helpers import thinned
from interpreter import meaning
from produced_v import module_text, project

from attnpass.driver.testing import check, decisions

V8 = "tensor<4x32x16xi8>"
MAPS = {
    "all": "affine_map<(a, b, c) -> (a, b, c)>",
    "none": "affine_map<(a, b, c) -> ()>",
    "channel": "affine_map<(a, b, c) -> (c)>",
    "token": "affine_map<(a, b, c) -> (a, b, 0)>",
    "blocks": "affine_map<(a, b, c, d) -> (a, b, c, d)>",
    "block": "affine_map<(a, b, c, d) -> (a, b, c)>",
}
QUANTISE = """
      %step = arith.constant 0.05 : f32
      %zero = arith.constant 3.0 : f32
      %low = arith.constant -128.0 : f32
      %high = arith.constant 127.0 : f32
      %0 = arith.divf %a0, %step : f32
      %1 = math.roundeven %0 : f32
      %2 = arith.addf %1, %zero : f32
      %3 = arith.maximumf %2, %low : f32
      %4 = arith.minimumf %3, %high : f32
      %y = arith.fptosi %4 : f32 to i8"""
ZERO_POINT = """
      %zero = arith.constant 3 : i32
      %step = arith.constant 0.05 : f32
      %0 = arith.extsi %a0 : i8 to i32
      %1 = arith.subi %0, %zero : i32
      %2 = arith.sitofp %1 : i32 to f32
      %y = arith.mulf %2, %step : f32"""
WIDEN = "      %y = arith.sitofp %a0 : i8 to f32"
SCALE = "      %y = arith.mulf %a0, %a1 : f32"
WIDEN_AND_SCALE = """
      %0 = arith.sitofp %a0 : i8 to f32
      %y = arith.mulf %0, %a1 : f32"""
ZERO_POINTS = """
      %0 = arith.sitofp %a0 : i8 to f32
      %1 = arith.subf %0, %a2 : f32
      %y = arith.mulf %1, %a1 : f32"""


def elementwise(
    name: str, body: str, inputs: Sequence[tuple[str, str]], maps: Sequence[str], result: str
) -> str:
    """%name : `result`, by a generic whose body makes %y of %a0, %a1, ... of `inputs`."""
    types = [kind for _, kind in inputs]
    scalars = [kind[7:-1].rsplit("x", 1)[-1] for kind in [*types, result]]
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(scalars))
    loops = ", ".join(['"parallel"'] * result.count("x"))
    maps_text = ", ".join(MAPS[m] for m in [*maps, maps[0]])
    values = ", ".join(value for value, _ in inputs)
    return f"""
  %{name}e = tensor.empty() : {result}
  %{name} = linalg.generic {{indexing_maps = [{maps_text}], iterator_types = [{loops}]}}
      ins({values} : {", ".join(types)}) outs(%{name}e : {result}) {{
    ^bb0({arguments}):
{body}
      linalg.yield %y : {scalars[-1]}
  }} -> {result}
"""


WIDE = "tensor<4x32x16xf32>"
TO_I8 = elementwise("i8", QUANTISE, [("%p", WIDE)], ["all"], V8)
BLOCKS = (
    """
  %blocks = tensor.expand_shape %i8 [[0], [1], [2, 3]] output_shape [4, 32, 2, 8]
      : tensor<4x32x16xi8> into tensor<4x32x2x8xi8>
"""
    + elementwise(
        "scaled",
        WIDEN_AND_SCALE,
        [("%blocks", "tensor<4x32x2x8xi8>"), ("%s", "tensor<4x32x2xf32>")],
        ["blocks", "block"],
        "tensor<4x32x2x8xf32>",
    )
    + """
  %v = tensor.collapse_shape %scaled [[0], [1], [2, 3]]
      : tensor<4x32x2x8xf32> into tensor<4x32x16xf32>
"""
)
ONE, PER_CHANNEL = "tensor<f32>", "tensor<16xf32>"

# name -> (types of the scales and zero points, how %v is made of %i8)
DEQUANTISE = {
    "zero point": ({}, elementwise("v", ZERO_POINT, [("%i8", V8)], ["all"], WIDE)),
    "scales and zero points of channels": (
        {"s": "16xf32", "z": "16xf32"},
        elementwise(
            "v",
            ZERO_POINTS,
            [("%i8", V8), ("%s", PER_CHANNEL), ("%z", PER_CHANNEL)],
            ["all", "channel", "channel"],
            WIDE,
        ),
    ),
    "scales of tokens": (
        {"s": "4x32x1xf32"},
        elementwise(
            "v",
            WIDEN_AND_SCALE,
            [("%i8", V8), ("%s", "tensor<4x32x1xf32>")],
            ["all", "token"],
            WIDE,
        ),
    ),
    "two steps": (
        {"s": "f32"},
        elementwise("f", WIDEN, [("%i8", V8)], ["all"], WIDE)
        + elementwise("v", SCALE, [("%f", WIDE), ("%s", ONE)], ["all", "none"], WIDE),
    ),
    "blocks": ({"s": "4x32x2xf32"}, BLOCKS),
}


def inputs_for(arguments: dict[str, str], keys: int = 32) -> list[np.ndarray]:
    generator = np.random.default_rng(5)
    shapes = {"q": "4x8x16xf32", "k": f"4x{keys}x16xf32", **arguments}
    found = []
    for kind in shapes.values():
        shape = [int(size) for size in kind.split("x")[:-1]]
        if kind.endswith("i8"):
            found.append(generator.integers(-128, 128, shape).astype(np.int8))
        else:
            found.append(generator.standard_normal(shape).astype(np.float32))
    return found


X = {"x": "4x32x24xf32", "w": "4x24x16xf32"}


@pytest.mark.parametrize("name", DEQUANTISE)
def test_i8(name: str) -> None:
    extra, body = DEQUANTISE[name]
    arguments = {**X, **extra}
    text = module_text(arguments, project() + TO_I8 + body)
    reference = partial(meaning, text)
    report = check(text, inputs_for(arguments), phase="start", reference=reference)
    assert decisions(report) == ["absorbed"]
    assert "linalg.batch_matmul" in report.attentions[0].operands[-1].reason


@pytest.mark.parametrize("kind", thinned(["f8E5M2", "f8E4M3FN", "f8E4M3FNUZ", "bf16"]))
def test_small_floats(kind: str) -> None:
    narrow = f"tensor<4x32x16x{kind}>"
    body = elementwise(
        "n", f"      %y = arith.truncf %a0 : f32 to {kind}", [("%p", WIDE)], ["all"], narrow
    )
    widen = f"      %0 = arith.extf %a0 : {kind} to f32\n      %y = arith.mulf %0, %a1 : f32"
    body += elementwise("v", widen, [("%n", narrow), ("%s", PER_CHANNEL)], ["all", "channel"], WIDE)
    arguments = {**X, "s": "16xf32"}
    report = check(module_text(arguments, project() + body), inputs_for(arguments), phase="start")
    assert decisions(report) == ["absorbed"]
    assert "linalg.batch_matmul" in report.attentions[0].operands[-1].reason


def test_a_narrow_cache_is_read_where_it_is_widened() -> None:
    """Nothing can absorb the change before the concatenation; widening reads every narrow
    element once, in any order."""
    extra, body = DEQUANTISE["scales and zero points of channels"]
    concat = """
  %all = tensor.concat dim(1) %c, %i8 : (tensor<4x64x16xi8>, tensor<4x32x16xi8>)
      -> tensor<4x96x16xi8>
"""
    arguments = {**X, **extra, "c": "4x64x16xi8"}
    widened = body.replace("%i8", "%all").replace("4x32x", "4x96x")
    # The projection has 32 rows of the 96 that attention reads.
    head, _, tail = module_text(arguments, "@", keys=96).partition("@main")
    tail = tail.replace("@", project("32") + TO_I8 + concat + widened).replace("$T", "f32")
    text = f"{head}@main{tail}"
    reference = partial(meaning, text)
    report = check(text, inputs_for(arguments, 96), phase="start", reference=reference)
    record = report.attentions[0].operands[-1]
    assert decisions(report) == ["absorbed"]
    assert [name.split(" at ")[0] for name in record.producers] == ["linalg.generic"]


def test_a_narrow_value_that_is_returned_stays() -> None:
    """The caller reads the narrow V as it is: widening takes the change alone."""
    _, body = DEQUANTISE["zero point"]
    text = module_text(X, project() + TO_I8 + body)
    text = text.replace("-> (tensor<4x8x16xf32>) {", f"-> (tensor<4x8x16xf32>, {V8}) {{")
    text = text.replace(
        "return %r : tensor<4x8x16xf32>", f"return %r, %i8 : tensor<4x8x16xf32>, {V8}"
    )
    report = check(text, inputs_for(X), phase="start", reference=partial(meaning, text))
    assert decisions(report) == ["absorbed"]
    assert len(report.attentions[0].operands[-1].producers) == 1
