"""Tiles of attention for AMD GPUs: a table, and the first of it that a shape can have.

Knows shapes only, no IR. Nothing was timed: the tiles are those of which IREE 3.13 makes
kernels without spilled registers (bench/results/amd_configure.json).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import Refusal
from .. import Target
from ..gpu.tiles import WHOLE_TILES, AttentionTile, Shape, fit

# Columns of V that a matrix instruction takes.
COLUMNS = 16


@dataclass(frozen=True)
class MatrixInstruction:
    """A matrix instruction: IREE's words for it, and how many products it adds up."""

    words: str
    depth: int


@dataclass(frozen=True)
class MatrixFamily:
    """Chips with the same matrix instructions: `query` and `value` are those for Q K and for V
    by element type, the first whose depth divides the head dim is taken. `tiles` by V's head
    dim, up to which they hold; `f32_tiles` where f32 has instructions. `lanes`
    is the threads of a subgroup, `widest` the head dim above which registers are spilled, and
    `spilled` the types whose registers IREE's own tile spills even at head dim 64."""

    lanes: int
    widest: int
    spilled: tuple[str, ...]

    query: dict[str, tuple[MatrixInstruction, ...]]
    value: dict[str, MatrixInstruction]
    tiles: tuple[tuple[int, tuple[AttentionTile, ...]], ...]
    f32_tiles: tuple[tuple[int, tuple[AttentionTile, ...]], ...] = ()


def _product(name: str, depth: int, transposed: bool = True) -> MatrixInstruction:
    """`transposed` has each lane hold a piece of a row of the result, not of a column: that of
    Q K is then V's factor as it stands, without a way through LDS."""
    kind = "virtual_mma_layout" if name.startswith("V") else "mma_layout"
    order = ", col_major = true" if transposed else ""
    return MatrixInstruction(f"mma_kind = #iree_gpu.{kind}<{name}{order}>", depth)


def _rows(counts: tuple[int, ...], columns: int, keys: int, lanes: int, **others: bool) -> tuple:
    """Tiles of so many subgroups of 16 rows."""
    return tuple(AttentionTile(16 * n, columns, keys, n, lanes=lanes, **others) for n in counts)


# Head dims of 3, 5 or 7 times a power of two need as many subgroups, for the copies to LDS.
_COUNTS = (4, 6, 5, 7, 2, 3)
_F16 = _product("MFMA_F32_16x16x16_F16", 16)
_BF16 = _product("MFMA_F32_16x16x16_BF16", 16)
_F32 = _product("MFMA_F32_16x16x4_F32", 4, transposed=False)
_FNUZ = "MFMA_F32_16x16x32_F8E4M3FNUZ"
_FN = _product("MFMA_F32_16x16x32_F8E4M3FN", 32)


def _cdna(
    *wide: tuple[int, tuple[AttentionTile, ...]],
) -> tuple[tuple[int, tuple[AttentionTile, ...]], ...]:
    return (
        (64, _rows(_COUNTS, 64, 64, 64, weights_shared=False)),
        (128, _rows(_COUNTS, 128, 64, 64, weights_shared=False)),
        (256, _rows(_COUNTS, 256, 32, 64, weights_shared=False)),
        *wide,
        (1024, _rows(_COUNTS, 256, 16, 64, query_shared=False, weights_shared=False)),
    )


# Q is read from memory: K and V alone take what LDS there is.
_F32_TILES = tuple(
    (most, _rows(_COUNTS, columns, 16, 64, query_shared=False))
    for most, columns in ((64, 64), (128, 128), (256, 256), (512, 256))
)
_CDNA3 = MatrixFamily(
    64,
    1024,
    (),
    {
        "f16": (_product("VMFMA_F32_16x16x32_F16", 32), _F16),
        "bf16": (_BF16,),
        "f8E4M3FNUZ": (_product(_FNUZ, 32),),
        "f32": (_F32,),
    },
    {"f16": _F16, "bf16": _BF16, "f8E4M3FNUZ": _product(f"V{_FNUZ}", 32), "f32": _F32},
    _cdna((512, _rows((2,), 512, 16, 64, weights_shared=False))),
    _F32_TILES,
)
_CDNA4 = MatrixFamily(
    64,
    1024,
    ("f8E4M3FN",),
    {
        "f16": (_product("MFMA_F32_16x16x32_F16", 32), _F16),
        "bf16": (_product("MFMA_F32_16x16x32_BF16", 32), _BF16),
        "f8E4M3FN": (_FN,),
        "f32": (_F32,),
    },
    {"f16": _F16, "bf16": _BF16, "f8E4M3FN": _FN, "f32": _F32},
    _cdna((512, _rows((4,), 512, 16, 64, weights_shared=False))),
    _F32_TILES,
)
_R3 = {name: _product(f"WMMAR3_F32_16x16x16_{name.upper()}", 16, False) for name in ("f16", "bf16")}
_RDNA3 = MatrixFamily(
    32,
    256,
    ("f16", "bf16"),
    {name: (product,) for name, product in _R3.items()},
    _R3,
    (
        (64, _rows(_COUNTS, 64, 32, 32)),
        (128, _rows(_COUNTS, 128, 32, 32)),
        (256, _rows(_COUNTS, 128, 16, 32)),
        (512, _rows(_COUNTS, 128, 16, 32, query_shared=False)),
    ),
)
_R4 = {
    name: _product(f"WMMAR4_F32_16x16x16_{name.upper()}", 16)
    for name in ("f16", "bf16", "f8e4m3fn")
}
_R4["f8E4M3FN"] = _R4.pop("f8e4m3fn")
_RDNA4 = MatrixFamily(
    32,
    512,
    (),
    {name: (product,) for name, product in _R4.items()},
    _R4,
    (
        (64, _rows(_COUNTS, 64, 64, 32, weights_shared=False)),
        (128, _rows(_COUNTS, 128, 32, 32, weights_shared=False)),
        (256, _rows(_COUNTS, 256, 32, 32, weights_shared=False)),
        (512, _rows(_COUNTS, 128, 16, 32, query_shared=False, weights_shared=False)),
    ),
)
_FAMILIES = {"gfx942": _CDNA3, "gfx950": _CDNA4, "gfx110": _RDNA3, "gfx120": _RDNA4}


def family_of(target: Target) -> MatrixFamily | None:
    """The family of a chip; None for one that no tile was compiled for."""
    return next((f for name, f in _FAMILIES.items() if target.arch.startswith(name)), None)


def find_tile(shape: Shape, family: MatrixFamily, target: Target) -> AttentionTile | Refusal:
    """The prefill tile for attention of this shape, whose types the family has instructions for;
    or why there is none. The last tile of keys may be incomplete: IREE masks what is missing."""
    table = family.f32_tiles if shape.query == "f32" else family.tiles
    tiles = next((tiles for most, tiles in table if shape.width <= most), ())
    if not tiles:
        return Refusal(f"head dim {shape.width} is wider than any whose kernels were looked at")
    products = products_of(shape, family)
    if isinstance(products, Refusal):
        return products
    depths = products[0].depth, products[1].depth, COLUMNS
    if shape.keys is not None:
        whole = -(-shape.keys // depths[1]) * depths[1]
        shape = replace(shape, keys=WHOLE_TILES if whole >= tiles[0].keys else whole)
    fitted = [fit(tile, shape, depths, target) for tile in tiles]
    return next((tile for tile in fitted if isinstance(tile, AttentionTile)), fitted[0])


def products_of(
    shape: Shape, family: MatrixFamily
) -> tuple[MatrixInstruction, MatrixInstruction] | Refusal:
    """The instructions for Q K and for V, or why there are none."""
    query, value = family.query[shape.query], family.value[shape.value]
    found = next((product for product in query if shape.head % product.depth == 0), None)
    if found is None:
        return Refusal(f"head dim {shape.head} is no multiple of {query[-1].depth}")
    return found, value
