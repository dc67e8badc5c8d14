"""Which of its tiles a kernel takes, and what a program tells it."""

from __future__ import annotations

import re

import pytest

import attnpass
from attnpass.kernels.hopper.manifest import ProductKernel, load_products
from attnpass.kernels.hopper.product_speed import tile_seconds
from attnpass.kernels.hopper.tiles import best_tile, tiles_by_rows

KERNELS = [kernel for kernel in load_products() if kernel.tiles]
UNITS = 132
# What a tile may take more than the best.
SLOWER, SHARE = 0.6e-6, 0.03
LINEAR = """
func.func @main(%a: tensor<ROWSx768xf16>, %w: tensor<768x768xf16>) -> tensor<ROWSx768xf16> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  DIM
  %e32 = tensor.empty(SIZE) : tensor<ROWSx768xf32>
  %e = tensor.empty(SIZE) : tensor<ROWSx768xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<ROWSx768xf32>) -> tensor<ROWSx768xf32>
  %p = linalg.matmul ins(%a, %w : tensor<ROWSx768xf16>, tensor<768x768xf16>)
      outs(%f : tensor<ROWSx768xf32>) -> tensor<ROWSx768xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>,
      affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<ROWSx768xf32>) outs(%e : tensor<ROWSx768xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    linalg.yield %y : f16
  } -> tensor<ROWSx768xf16>
  return %r : tensor<ROWSx768xf16>
}"""


def test_each_tile_has_a_number_of_its_own() -> None:
    """Kernels of 64, 128 and 256 columns, of up to 31 tiles: a lane of a warp has one."""
    for kernel in KERNELS:
        assert [tile.number for tile in kernel.tiles] == [*range(len(kernel.tiles))]
        assert len({tile.shape for tile in kernel.tiles} - {0}) == len(kernel.tiles) < 32
        assert {tile.columns for tile in kernel.tiles} == {64, 128, 256}


@pytest.mark.parametrize("size", [(768, 768), (3072, 768), (1024, 4096), (14336, 4096), (8, 64)])
def test_what_programs_choose_is_nearly_the_best(size: tuple[int, int]) -> None:
    """Of all rows up to the last that they choose for, for one product and for two."""
    n, k = size
    for kernel in KERNELS[:1]:
        for widths in ((n,), (n, 264)):
            found = tiles_by_rows(kernel, widths, k, UNITS)
            assert 0 < len(found) <= 40 and [most for most, _ in found] == sorted(
                {most for most, _ in found}
            )
            least = 0
            for most, tile in found:
                for rows in range(least + 32, most + 1, 32):
                    taken = _seconds(kernel, tile.number, rows, widths, k)
                    best = best_tile(kernel, rows, widths, k, UNITS)
                    soonest = _seconds(kernel, best.number, rows, widths, k)
                    assert taken <= soonest + max(SLOWER, SHARE * soonest)
                least = most


def _seconds(
    kernel: ProductKernel, number: int, rows: int, widths: tuple[int, ...], k: int
) -> float:
    return tile_seconds(kernel.tiles[number], kernel, rows, widths, k, UNITS)


@pytest.mark.parametrize("rows", ["512", "?"])
def test_programs_tell_kernels_their_tile(rows: str) -> None:
    """As a constant, or by comparisons of the number of rows."""
    text = LINEAR.replace("ROWS", rows).replace("SIZE", "%m" if rows == "?" else "")
    dim = "%m = tensor.dim %a, %c0 : tensor<?x768xf16>" if rows == "?" else ""
    module = attnpass.compile_str(
        text.replace("DIM", dim),
        extra_args=[
            *("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90"),
            "--compile-to=preprocessing",
        ],
        products="always",
    ).decode()
    kernel = next(kernel for kernel in KERNELS if kernel.name == "product_f16_tiles_kn")
    launch = re.search(r"hal.dispatch.extern \"product_f16_tiles_kn\"\[.*?\]\((.*?)\)", module)
    assert launch is not None
    shape = re.split(r",\s*", launch[1])[kernel.constants.index("shape")]
    if rows == "?":
        choices = tiles_by_rows(kernel, (768,), 768, UNITS)
        assert module.count("arith.cmpi ule") == module.count("arith.select") == len(choices)
    else:
        told = re.search(rf"{shape} = arith.index_cast %c(\d+)", module)
        assert told is not None
        assert int(told[1]) == best_tile(kernel, 512, (768,), 768, UNITS).shape
