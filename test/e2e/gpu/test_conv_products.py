"""Convolutions as products of patches give the numbers of convolutions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from helpers import CPU, run_module
from interpreter import interpret
from iree.compiler import ir
from iree.compiler.tools import compile_str

import attnpass

CUDA = (
    'module attributes {hal.device.targets = [#hal.device.target<"cuda", '
    '[#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} '
)


@dataclass(frozen=True)
class Case:
    """An image (batch, channels, ...), `channels` of the result, 0 for a depthwise one; a kernel,
    its steps and gaps, and pixels of padding on both sides."""

    image: tuple[int, ...]
    channels: int
    kernel: tuple[int, ...]
    step: int = 1
    gap: int = 1
    padding: int = 0


CASES = {
    "one pixel": Case((2, 8, 5), 16, (1,)),
    "patches": Case((2, 3, 8, 12), 8, (4, 4), step=4),
    "a rest": Case((2, 3, 9, 12), 8, (4, 4), step=4),
    "steps and gaps": Case((2, 5, 9, 11), 8, (3, 2), step=2, gap=2, padding=1),
    "a row": Case((1, 16, 20), 8, (3,), padding=1),
    "video": Case((2, 5, 4, 6, 7), 8, (3, 3, 3), padding=1),
    "every second frame": Case((2, 3, 9, 8, 7), 8, (2, 3, 2), step=2, gap=2),
    "frames alone": Case((1, 4, 5, 3, 2), 8, (3, 1, 1)),
    "patches of a video": Case((2, 3, 4, 4, 6), 8, (2, 2, 2), step=2),
    "images of a video": Case((2, 3, 3, 6, 5), 8, (1, 3, 3)),
    "depthwise": Case((2, 8, 11, 7), 0, (5, 3), step=2, gap=1, padding=2),
}


def _shape(sizes: Any, kind: str) -> str:
    return "x".join(map(str, sizes)) + "x" + kind


def _program(case: Case, result: tuple[int, ...]) -> str:
    dims, depthwise = len(case.kernel), not case.channels
    channels = case.channels or case.image[1]
    weights = (channels, *(() if depthwise else case.image[1:2]), *case.kernel)
    padded = (*case.image[:2], *(size + 2 * case.padding for size in case.image[2:]))
    name = ("conv_1d_ncw_fcw", "conv_2d_nchw_fchw", "conv_3d_ncdhw_fcdhw")[dims - 1]
    name = "depthwise_conv_2d_nchw_chw" if depthwise else name
    image, w, wide, narrow, whole = (
        f"tensor<{_shape(sizes, kind)}>"
        for sizes, kind in (
            (case.image, "f16"),
            (weights, "f16"),
            (result, "f32"),
            (result, "f16"),
            (padded, "f16"),
        )
    )
    sides = ", ".join(map(str, [0, 0, *[case.padding] * dims]))
    names = ", ".join(f"%i{dim}: index" for dim in range(2 + dims))
    loops = ", ".join(f"d{dim}" for dim in range(2 + dims))
    same = f"affine_map<({loops}) -> ({loops})>"
    kinds = ", ".join(['"parallel"'] * (2 + dims))
    numbers = f"vector<{dims}xi64>"
    return f"""
func.func @main(%image: {image}, %w: {w}, %bias: tensor<{channels}xf32>) -> {narrow} {{
  %zero = arith.constant 0.0 : f16
  %p = tensor.pad %image low[{sides}] high[{sides}] {{
  ^bb0({names}):
    tensor.yield %zero : f16
  }} : {image} to {whole}
  %e = tensor.empty() : {wide}
  %h = tensor.empty() : {narrow}
  %s = linalg.broadcast ins(%bias : tensor<{channels}xf32>) outs(%e : {wide})
      dimensions = [0, {", ".join(map(str, range(2, 2 + dims)))}]
  %r = linalg.{name} {{dilations = dense<{case.gap}> : {numbers},
      strides = dense<{case.step}> : {numbers}}}
      ins(%p, %w : {whole}, {w}) outs(%s : {wide}) -> {wide}
  %n = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{kinds}]}}
      ins(%r : {wide}) outs(%h : {narrow}) {{
  ^bb0(%a: f32, %b: f16):
    %t = arith.truncf %a : f32 to f16
    linalg.yield %t : f16
  }} -> {narrow}
  return %n : {narrow}
}}"""


def _wanted(case: Case, image: Any, weights: Any, bias: Any) -> Any:
    """In float64, a tap at a time."""
    image = image.astype(np.float64)
    sides = [(0, 0), (0, 0), *[(case.padding, case.padding)] * len(case.kernel)]
    image, total = np.pad(image, sides), 0
    spans = [case.gap * (size - 1) for size in case.kernel]
    for tap in np.ndindex(*case.kernel):
        cut = tuple(
            slice(case.gap * at, size - span + case.gap * at, case.step)
            for at, size, span in zip(tap, image.shape[2:], spans, strict=True)
        )
        part, taken = image[(..., *cut)], weights.astype(np.float64)[(..., *tap)]
        rest = [1] * len(tap)
        if case.channels:
            total = total + np.einsum("fc,bc...->bf...", taken, part)
        else:
            total = total + part * taken.reshape(-1, *rest)
    return total + bias.reshape(-1, *[1] * len(case.kernel))


def _check(program: str, inputs: list[Any], wanted: Any, gone: str = "conv_") -> None:
    """That no convolution is left, nor an op of the name `gone`, and what is computes the same."""
    context = ir.Context()
    context.load_all_available_dialects()
    module = ir.Module.parse(CUDA + "{" + program + "}", context)
    attnpass.run(module, "attn-spread-images,attn-conv-products")
    assert not any(name in str(module) for name in ("conv_", "pooling_", gone))
    del module.operation.attributes["hal.device.targets"]
    binary = compile_str(str(module), extra_args=[*CPU])
    assert binary is not None
    got = run_module(binary, inputs).astype(np.float64)
    assert np.linalg.norm(got - wanted) < 1e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize("name", CASES)
def test_convolution(name: str) -> None:
    case = CASES[name]
    random = np.random.default_rng(3)
    channels = case.channels or case.image[1]
    shape = (channels, *(case.image[1:2] if case.channels else ()), *case.kernel)
    image, weights = (random.standard_normal(size).astype("f2") for size in (case.image, shape))
    bias = random.standard_normal(channels).astype("f4")
    wanted = _wanted(case, image, weights, bias)
    _check(_program(case, wanted.shape), [image, weights, bias], wanted)


@pytest.mark.parametrize(
    ("kind", "window", "step", "gap", "padding"), [("max", 3, 2, 1, 1), ("sum", 2, 1, 3, 1)]
)
def test_pools(kind: str, window: int, step: int, gap: int, padding: int) -> None:
    """Of an image that is widened and padded, which nothing else reads."""
    shape, span = (2, 3, 9, 12), gap * (window - 1)
    cells = [(size + 2 * padding - span - 1) // step + 1 for size in shape[2:]]
    padded = [size + 2 * padding for size in shape[2:]]
    image, wide, whole, made = (
        f"tensor<2x3x{_shape(sizes, element)}>"
        for sizes, element in (
            (shape[2:], "f16"),
            (shape[2:], "f32"),
            (padded, "f32"),
            (cells, "f32"),
        )
    )
    outside = -1000 if kind == "max" else 0
    same = "affine_map<(b, c, y, x) -> (b, c, y, x)>"
    program = f"""
func.func @main(%image: {image}) -> {made} {{
  %outside = arith.constant {float(outside)} : f32
  %space = tensor.empty() : {wide}
  %wide = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = ["parallel",
      "parallel", "parallel", "parallel"]}} ins(%image : {image}) outs(%space : {wide}) {{
  ^bb0(%a: f16, %b: f32):
    %t = arith.extf %a : f16 to f32
    linalg.yield %t : f32
  }} -> {wide}
  %p = tensor.pad %wide low[0, 0, {padding}, {padding}] high[0, 0, {padding}, {padding}] {{
  ^bb0(%b: index, %c: index, %y: index, %x: index):
    tensor.yield %outside : f32
  }} : {wide} to {whole}
  %e = tensor.empty() : {made}
  %s = linalg.fill ins(%outside : f32) outs(%e : {made}) -> {made}
  %k = tensor.empty() : tensor<{window}x{window}xf32>
  %r = linalg.pooling_nchw_{kind} {{dilations = dense<{gap}> : vector<2xi64>,
      strides = dense<{step}> : vector<2xi64>}}
      ins(%p, %k : {whole}, tensor<{window}x{window}xf32>) outs(%s : {made}) -> {made}
  return %r : {made}
}}"""
    x = np.random.default_rng(3).standard_normal(shape).astype("f2")
    sides = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    whole_image = np.pad(x.astype(np.float64), sides, constant_values=outside)
    taps = [
        whole_image[..., gap * i :: step, gap * j :: step][..., : cells[0], : cells[1]]
        for i, j in np.ndindex(window, window)
    ]
    _check(program, [x], np.max(taps, 0) if kind == "max" else np.sum(taps, 0))


TRANSPOSED = """
func.func @main(%image: tensor<2x8x5x4xf16>, %w: tensor<6x8x2x3xf16>, %bias: tensor<6xf32>)
    -> tensor<2x6x10x12xf32> {
  %zero = arith.constant 0.0 : f16
  %z = tensor.empty() : tensor<2x8x11x14xf16>
  %none = linalg.fill ins(%zero : f16) outs(%z : tensor<2x8x11x14xf16>) -> tensor<2x8x11x14xf16>
  %spread = tensor.insert_slice %image into %none[0, 0, 1, 2] [2, 8, 5, 4] [1, 1, 2, 3]
      : tensor<2x8x5x4xf16> into tensor<2x8x11x14xf16>
  %e = tensor.empty() : tensor<2x6x10x12xf32>
  %s = linalg.broadcast ins(%bias : tensor<6xf32>) outs(%e : tensor<2x6x10x12xf32>)
      dimensions = [0, 2, 3]
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>,
      strides = dense<1> : vector<2xi64>}
      ins(%spread, %w : tensor<2x8x11x14xf16>, tensor<6x8x2x3xf16>)
      outs(%s : tensor<2x6x10x12xf32>) -> tensor<2x6x10x12xf32>
  return %r : tensor<2x6x10x12xf32>
}"""


def test_transposed_convolutions_multiply_no_zeros() -> None:
    random = np.random.default_rng(5)
    image, weights = (
        random.standard_normal(shape).astype("f2") for shape in ((2, 8, 5, 4), (6, 8, 2, 3))
    )
    bias = random.standard_normal(6).astype("f4")
    turned = weights[..., ::-1, ::-1].astype(float)
    parts = np.einsum("bcyx,fcij->bfyixj", image.astype(float), turned)
    wanted = parts.reshape(2, 6, 10, 12) + bias[:, None, None]
    _check(TRANSPOSED, [image, weights, bias], wanted, "insert_slice")


GROUPS = """
func.func @main(%image: tensor<2x3x4x9x7xf16>, %w: tensor<3x5x4x3x2xf16>, %bias: tensor<3x5xf32>)
    -> tensor<2x3x5x4x3xf32> {
  %e = tensor.empty() : tensor<2x3x5x4x3xf32>
  %s = linalg.broadcast ins(%bias : tensor<3x5xf32>) outs(%e : tensor<2x3x5x4x3xf32>)
      dimensions = [0, 3, 4]
  %r = linalg.conv_2d_ngchw_gfchw {dilations = dense<[1, 2]> : vector<2xi64>,
      strides = dense<2> : vector<2xi64>}
      ins(%image, %w : tensor<2x3x4x9x7xf16>, tensor<3x5x4x3x2xf16>)
      outs(%s : tensor<2x3x5x4x3xf32>) -> tensor<2x3x5x4x3xf32>
  return %r : tensor<2x3x5x4x3xf32>
}"""


def test_groups_are_products_of_their_own() -> None:
    random = np.random.default_rng(4)
    shapes = ((2, 3, 4, 9, 7), (3, 5, 4, 3, 2), (3, 5))
    image, weights, bias = (random.standard_normal(shape) for shape in shapes)
    image, weights, bias = image.astype("f2"), weights.astype("f2"), bias.astype("f4")
    wanted = np.zeros((2, 3, 5, 4, 3)) + bias[..., None, None]
    for i, j in np.ndindex(3, 2):
        part = image[..., i : i + 7 : 2, 2 * j : 2 * j + 5 : 2].astype(float)
        wanted += np.einsum("bgcyx,gfc->bgfyx", part, weights[..., i, j].astype(float))
    _check(GROUPS, [image, weights, bias], wanted)


IMAGES = {
    "of odd sizes": Case((2, 8, 13, 7), 24, (3, 3), padding=1),
    "steps and gaps of images": Case((2, 72, 9, 11), 8, (3, 2), step=2, gap=2, padding=1),
    "steps of one pixel": Case((3, 16, 9, 9), 40, (1, 1), step=2),
    "overlapping": Case((1, 8, 12, 40), 16, (4, 4), step=2, padding=1),
    "lines": Case((2, 16, 300), 8, (3,), padding=1),
}


def _with_bias_of_16_bits(text: str) -> str:
    kind = re.search(r"%bias: tensor<(\d+)xf32>", text)
    assert kind is not None
    wide, narrow = (f"tensor<{kind[1]}x{width}>" for width in ("f32", "f16"))
    same = "affine_map<(d0) -> (d0)>"
    widened = f"""%eb = tensor.empty() : {wide}
  %bias = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = ["parallel"]}}
      ins(%narrow : {narrow}) outs(%eb : {wide}) {{
  ^bb0(%a: f16, %b: f32):
    %t = arith.extf %a : f16 to f32
    linalg.yield %t : f32
  }} -> {wide}
  %zero ="""
    text = text.replace(f"%bias: {wide}", f"%narrow: {narrow}", 1)
    return text.replace("%zero =", widened, 1)


def _of_unknown_batch(text: str, images: int) -> str:
    """A program with the number of images left open."""
    kind = re.search(r"%image: (tensor<[^>]*>)", text)
    assert kind is not None
    size = f"%c0 = arith.constant 0 : index\n  %d = tensor.dim %image, %c0 : {kind[1]}\n  %zero ="
    text = text.replace("%zero =", size, 1).replace("tensor.empty()", "tensor.empty(%d)")
    return text.replace(f"tensor<{images}x", "tensor<?x")


@pytest.mark.parametrize("images", ["known", "unknown"])
@pytest.mark.parametrize("name", IMAGES)
def test_kernels_read_images_where_they_lie(name: str, images: str) -> None:
    """Launches in numpy (product_model.py), with a bias and an activation."""
    case = IMAGES[name]
    random = np.random.default_rng(5)
    shape = (case.channels, case.image[1], *case.kernel)
    image, weights = (random.standard_normal(size) for size in (case.image, shape))
    bias = random.standard_normal(case.channels)
    wanted = _wanted(case, image, weights, bias)
    text = _program(case, wanted.shape)
    if images == "unknown":
        text = _of_unknown_batch(text, case.image[0])
    text = _with_bias_of_16_bits(text)
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(CUDA + "{" + text + "}")
        attnpass.run(module, "attn-conv-products,attn-use-products{target=sm_90 mode=always},cse")
        assert '"product_f16_imaged_tiles' in str(module)
        (got,) = interpret(module, [image, weights, bias])
    assert np.linalg.norm(got - wanted) < 1e-6 * np.linalg.norm(wanted)
