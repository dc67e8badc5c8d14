"""The choice of a product's tile, held against what was measured."""

from __future__ import annotations

import re

import pytest
from iree.compiler import ir

from attnpass.gpu.tile_products import is_profitable
from attnpass.machines import named_target
from attnpass.machines.nvidia.contractions import configuration, find
from bench.results import load

MEASURED = load("product_tiles_h200")
TILES = MEASURED.by_case("tiles")
SIZES = tuple(TILES["by columns"]["iree"]["microseconds"])
FACTORS = {"as it stands": "kj", "by columns": "jk"}


def _chosen(order: str, size: str) -> str:
    """The tile for a product on the GPU that was measured, as the rows name it."""
    sizes = dict(zip("ijk", size.split("x"), strict=True))
    dims = ("ik", FACTORS[order], "ij")
    maps = ", ".join(f"affine_map<(i, j, k) -> ({', '.join(of)})>" for of in dims)
    left, right, wide = ("x".join(sizes[dim] for dim in of) for of in dims)
    text = f"""func.func @main(%x: tensor<{left}xf16>, %w: tensor<{right}xf16>)
    -> tensor<{wide}xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{wide}xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<{wide}xf32>) -> tensor<{wide}xf32>
  %p = linalg.matmul indexing_maps = [{maps}]
      ins(%x, %w : tensor<{left}xf16>, tensor<{right}xf16>)
      outs(%z : tensor<{wide}xf32>) -> tensor<{wide}xf32>
  return %p : tensor<{wide}xf32>
}}"""
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        facts = find(module.body.operations[0].operation)
        assert facts is not None
        attributes = configuration(facts, named_target("sm_90"))
    assert isinstance(attributes, dict)
    info = attributes["compilation_info"]
    tiles = re.search(r"workgroup = \[(\d+), (\d+), 0\]", info)
    depth = re.search(r"reduction = \[0, 0, (\d+)\]", info)
    assert tiles and depth
    return f"{tiles[1]} x {tiles[2]} x {depth[1]}"


@pytest.mark.parametrize("order", FACTORS)
@pytest.mark.parametrize("size", SIZES)
def test_the_chosen_tile_is_fast(order: str, size: str) -> None:
    """At most a fifth slower than the fastest one, and faster than IREE's own."""
    times = {tile: row["microseconds"][size] for tile, row in TILES[order].items()}
    times.pop("cublas", None)
    chosen = times[_chosen(order, size)]
    assert chosen < 1.2 * min(times.values())
    assert chosen < times["iree"]


def test_the_products_were_right() -> None:
    rows = [row for part in ("tiles", "unknown", "odd") for row in MEASURED.flat(part)]
    assert all(row["error"] < 1e-3 for row in rows if row["way"] != "cublas")


ODD = [
    (order, size)
    for order in FACTORS
    for size in MEASURED.by_case("odd", lambda row, of=order: row["order"] == of)
]


@pytest.mark.parametrize(("order", "size"), ODD)
def test_odd_rows_become_tiles_where_that_pays(order: str, size: str) -> None:
    """Always for rows; never for columns, which would gain little if their factor is small."""
    ways = MEASURED.by_case("odd", lambda row: row["order"] == order)[size]
    rows, columns, _ = map(int, size.split("x"))
    gain = ways["configured"]["us"] / ways["tiled"]["us"]
    if rows % 64:
        assert is_profitable(rows, innermost=False) and gain > 1.05
    else:
        assert not is_profitable(columns, innermost=True) and gain < 1.5
