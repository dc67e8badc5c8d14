"""The precompiled kernels for products: their files, and modules that hold them."""

from __future__ import annotations

import hashlib
import re
import struct
from importlib.resources import files

import pytest

import attnpass
import attnpass.kernels.hopper
from attnpass.kernels.hopper.manifest import load_products
from bench.results import load

LINEAR = """
#id = affine_map<(m, n) -> (m, n)>
func.func @main(%a: tensor<?x64xf16>, %w: tensor<264x64xf16>, %b: tensor<264xf16>)
    -> tensor<?x264xf16> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c0 : tensor<?x64xf16>
  %e32 = tensor.empty(%m) : tensor<?x264xf32>
  %e = tensor.empty(%m) : tensor<?x264xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<?x264xf32>) -> tensor<?x264xf32>
  %p = linalg.matmul indexing_maps = [
      affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
      affine_map<(m, n, k) -> (m, n)>] ins(%a, %w : tensor<?x64xf16>, tensor<264x64xf16>)
      outs(%f : tensor<?x264xf32>) -> tensor<?x264xf32>
  %r = linalg.generic {indexing_maps = [#id, affine_map<(m, n) -> (n)>, #id],
      iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<?x264xf32>, tensor<264xf16>)
      outs(%e : tensor<?x264xf16>) {
  ^bb0(%i: f32, %j: f16, %o: f16):
    %t = arith.truncf %i : f32 to f16
    %s = arith.addf %t, %j : f16
    linalg.yield %s : f16
  } -> tensor<?x264xf16>
  return %r : tensor<?x264xf16>
}
"""
# ResNet's first layer, and a classifier of what it makes.
IMAGES = """
func.func @main(%x: tensor<4x3x37x37xf32>, %w: tensor<64x3x7x7xf32>, %c: tensor<64x2048xf32>)
    -> tensor<1024x2048xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x64x16x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x64x16x16xf32>) -> tensor<4x64x16x16xf32>
  %y = linalg.conv_2d_nchw_fchw
      {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
      ins(%x, %w : tensor<4x3x37x37xf32>, tensor<64x3x7x7xf32>)
      outs(%f : tensor<4x64x16x16xf32>) -> tensor<4x64x16x16xf32>
  %t = tensor.empty() : tensor<4x16x16x64xf32>
  %last = linalg.transpose ins(%y : tensor<4x64x16x16xf32>) outs(%t : tensor<4x16x16x64xf32>)
      permutation = [0, 2, 3, 1]
  %rows = tensor.collapse_shape %last [[0, 1, 2], [3]]
      : tensor<4x16x16x64xf32> into tensor<1024x64xf32>
  %er = tensor.empty() : tensor<1024x2048xf32>
  %fr = linalg.fill ins(%zero : f32) outs(%er : tensor<1024x2048xf32>) -> tensor<1024x2048xf32>
  %r = linalg.matmul ins(%rows, %c : tensor<1024x64xf32>, tensor<64x2048xf32>)
      outs(%fr : tensor<1024x2048xf32>) -> tensor<1024x2048xf32>
  return %r : tensor<1024x2048xf32>
}
"""
FLAGS = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90"]


def test_files_match_the_manifest() -> None:
    for kernel in load_products():
        folder = files(attnpass.kernels.hopper)
        headers = ["epilogue.h", "wgmma.h"]
        headers += ["turned.h"] if kernel.tiles or kernel.most_blocks else []
        headers += ["tma.h"] if kernel.most_blocks or not kernel.most_rows else []
        headers += ["tiles.h"] if kernel.source in ("cuda/product.cu", "cuda/tf32.cu") else []
        headers += ["groups.h"] if kernel.grouped else []
        headers += ["tf32.h"] if kernel.element_type == "f32" else []
        headers += ["joined.h"] if kernel.joined else []
        headers += ["image.h"] if kernel.imaged else []
        names = sorted([kernel.source, *(f"cuda/{name}" for name in headers)])
        sources = b"".join(folder.joinpath(name).read_bytes() for name in names)
        assert hashlib.sha256(kernel.image()).hexdigest() == kernel.hash, kernel.name
        # A changed source needs tools/build_products.py to be run again.
        assert hashlib.sha256(sources).hexdigest() == kernel.source_hash, kernel.name


def test_parameters_are_those_that_iree_passes() -> None:
    """Pointers, then 32-bit constants."""
    for kernel in load_products():
        found = re.findall(rb"\x04\x17\x0c\x00(.{12})", kernel.image(), re.S)
        parameters = sorted(struct.unpack("<4xHHI", entry) for entry in found)
        asked = 3 + (kernel.element_type == "f8E4M3FN")
        if not kernel.general:
            asked = kernel.bias + (kernel.other != "none") + kernel.gated + kernel.grouped
        # Of joined products weights, a bias and a result of each.
        pointers = 1 + 3 * kernel.joined if kernel.joined else 3 + asked
        pointers += bool(kernel.scratch_per_workgroup)
        sizes = [8] * pointers + [4] * len(kernel.constants)
        assert [entry[2] >> 18 for entry in parameters] == sizes, kernel.name
        offsets = [sum(sizes[:i]) for i in range(len(sizes))]
        assert [entry[1] for entry in parameters] == offsets, kernel.name


@pytest.mark.parametrize("rows", ["?", "300"])
@pytest.mark.parametrize("products", ["always", "never"])
def test_the_module_holds_the_kernel_where_it_is_asked_for(products: str, rows: str) -> None:
    """Compiled for sm_90 without a GPU: all of it is one kernel, of any number of rows; also where
    the result's type leaves open what the rows' says."""
    text = LINEAR.replace("tensor<?x64xf16>", f"tensor<{rows}x64xf16>")
    data = attnpass.compile_str(text, products=products, extra_args=FLAGS)
    (kernel,) = [one for one in load_products() if one.name == "product_f16_tiles_bias"]
    taken = kernel.image() in data
    assert taken == (products == "always")
    assert bool(re.search(rb"main_dispatch_\d+", data)) != taken


@pytest.mark.parametrize("products", ["auto", "never"])
def test_convolutions_and_products_of_f32_are_kernels(products: str) -> None:
    """By default, compiled for sm_90 without a GPU; three channels of 7 x 7 are a depth of 147."""
    data = attnpass.compile_str(IMAGES, products=products, extra_args=FLAGS)
    names = {one.name for one in load_products() if one.image() in data}
    kinds = {name.removeprefix("product_f32_tile").partition("_")[0] for name in names}
    assert kinds == (set() if products == "never" else {"64", "128"})


@pytest.mark.parametrize("run", ["product_kernels_h100", "product_kernels_h200"])
def test_on_a_gpu_they_were_right(run: str) -> None:
    """Odd sizes and whole blocks': errors as PyTorch's in the same type, three runs the same; in
    f32 two of its last bits, which sums of few products have there, too."""
    found = load(run)
    rows = [case for part in ("right", "timed", "few") for case in found.by_case(part).values()]
    assert len(rows) > 50
    for case in rows:
        least = 2.5e-7 if case["kernel"]["case"].startswith("f32 ") else 0.0
        assert case["kernel"]["error"] <= max(1.02 * case["torch"]["error"], least)
        assert case["kernel"]["same_bits"]
