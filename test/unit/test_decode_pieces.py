"""How decode's keys are cut into pieces: each tile is read once, each result has a slot; and where
latents are read."""

from __future__ import annotations

from collections import Counter

import pytest
from helpers import MAPS
from iree.compiler import ir

import attnpass
from attnpass.ir import descendants
from attnpass.kernels.hopper.manifest import load_kernels

TEXT = (
    MAPS
    + """
func.func @main(%q: tensor<{heads}x{rows}x128xf16>, %k: tensor<{heads}x{keys}x128xf16>,
    %v: tensor<{heads}x{keys}x128xf16>) -> tensor<{heads}x{rows}x128xf16> {{
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<{heads}x{rows}x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<{heads}x{rows}x128xf16>, tensor<{heads}x{keys}x128xf16>,
          tensor<{heads}x{keys}x128xf16>, f32) outs(%e : tensor<{heads}x{rows}x128xf16>) {{
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }} -> tensor<{heads}x{rows}x128xf16>
  return %r : tensor<{heads}x{rows}x128xf16>
}}
"""
)


# K is the cache's keys from `start` on, V what its first 512 columns are.
LATENTS = (
    MAPS
    + """
func.func @main(%q: tensor<{heads}x{rows}x576xf16>, %c: tensor<{heads}x1x9000x576xf16>)
    -> tensor<{heads}x{rows}x512xf16> {{
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<{heads}x{rows}x512xf16>
  %k4 = tensor.extract_slice %c[0, 0, {start}, 0] [{heads}, 1, {keys}, 576] [1, 1, 1, 1]
      : tensor<{heads}x1x9000x576xf16> to tensor<{heads}x1x{keys}x576xf16>
  %k = tensor.collapse_shape %k4 [[0, 1], [2], [3]]
      : tensor<{heads}x1x{keys}x576xf16> into tensor<{heads}x{keys}x576xf16>
  %v = tensor.extract_slice %k[0, 0, 0] [{heads}, {keys}, 512] [1, 1, 1]
      : tensor<{heads}x{keys}x576xf16> to tensor<{heads}x{keys}x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<{heads}x{rows}x576xf16>, tensor<{heads}x{keys}x576xf16>,
          tensor<{heads}x{keys}x512xf16>, f32) outs(%e : tensor<{heads}x{rows}x512xf16>) {{
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }} -> tensor<{heads}x{rows}x512xf16>
  return %r : tensor<{heads}x{rows}x512xf16>
}}
"""
)


def _numbers(text: str) -> dict[str, int]:
    """The decode kernel's constants, and its number of programs."""
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        attnpass.run(module, "attn-use-kernels{target=sm_90 mode=always kernel=[dl][ea]*}")
        (op,) = [
            op
            for op in descendants(module.operation, "func.func", "hal.dispatch.extern")
            if "combine" not in str(op.attributes["export_name"])
        ]
        name = ir.StringAttr(op.attributes["export_name"]).value
        (kernel,) = [kernel for kernel in load_kernels() if kernel.name == name]
        found = {"programs": _constant(op.operands[0]) * _constant(op.operands[1])}
        for name, operand in zip(kernel.constants, list(op.operands)[2:], strict=False):
            if name not in ("scale", "cap"):
                found[name] = _constant(operand.owner.operands[0])
        return found


def _constant(value: ir.Value) -> int:
    return ir.IntegerAttr(ir.OpResult(value).owner.attributes["value"]).value


@pytest.mark.parametrize(
    ("heads", "rows", "parts"), [(1, 16, 4), (3, 21, 4), (4, 16, 1), (2, 200, 1)]
)
def test_few_rows_are_added_up_by_several_programs_each(heads: int, rows: int, parts: int) -> None:
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(LATENTS.format(heads=heads, rows=rows, start=8, keys=5000))
        attnpass.run(module, "attn-use-kernels{target=sm_90 mode=always kernel=latent*}")
        ops = descendants(module.operation, "func.func", "hal.dispatch.extern")
        names = {ir.StringAttr(op.attributes["export_name"]).value: op for op in ops}
        op = names["combine_f16_d512" if parts == 1 else "combine_f16_d512_by128"]
        assert [_constant(op.operands[at]) for at in (0, 1)] == [rows, heads * parts]


@pytest.mark.parametrize(
    ("heads", "rows", "keys"),
    [(64, 1, 16384), (1, 1, 777), (8, 1, 65536), (3, 40, 5001), (300, 1, 4096), (7, 16, 129)],
)
def test_every_tile_is_read_once_and_has_a_slot(heads: int, rows: int, keys: int) -> None:
    given = _numbers(TEXT.format(heads=heads, rows=rows, keys=keys))
    tiles, pieces, slots = given["tiles"], given["per_program"], given["slots"]
    units = heads * given["blocks"]
    assert given["blocks"] * 16 >= rows and tiles * 64 >= keys and given["first_tile"] == 0
    read: Counter[int] = Counter()
    written = set()
    for program in range(given["programs"]):
        for number in range(program * pieces, min((program + 1) * pieces, units * tiles)):
            read[number] += 1
            unit = number // tiles
            written.add((unit, program - unit * tiles // pieces))
    assert set(read) == set(range(units * tiles)) and set(read.values()) == {1}
    assert all(0 <= slot < slots for _, slot in written)
    # What the combining kernel reads.
    for unit in range(units):
        count = ((unit + 1) * tiles - 1) // pieces - unit * tiles // pieces + 1
        assert {slot for u, slot in written if u == unit} == set(range(count))


@pytest.mark.parametrize(
    ("heads", "rows", "keys", "start"),
    [
        (16, 128, 8192, 0),
        (2, 16, 777, 5),
        (3, 100, 5001, 100),
        (300, 1, 4096, 0),
        (2, 9000, 129, 1),
    ],
)
def test_every_block_reads_every_tile_of_latents_once(
    heads: int, rows: int, keys: int, start: int
) -> None:
    given = _numbers(LATENTS.format(heads=heads, rows=rows, keys=keys, start=start))
    tiles, pieces, blocks = given["tiles"], given["per_program"], given["blocks"]
    assert blocks * 64 >= rows and tiles * 64 >= keys and given["first_tile"] == 0
    read: Counter[tuple[int, int]] = Counter()
    written = set()
    for program in range(given["programs"]):
        piece, block = divmod(program, blocks)
        for number in range(piece * pieces, min((piece + 1) * pieces, heads * tiles)):
            read[number, block] += 1
            head = number // tiles
            written.add((head, piece - head * tiles // pieces))
    assert len(read) == heads * tiles * blocks and {*read.values()} == {1}
    assert all(0 <= slot < given["slots"] for _, slot in written)
    # In units of 16 bytes: both parts of a key's row, in the cache.
    assert [given[f"key_{word}"] for word in ("start", "head", "row")] == [
        72 * start,
        72 * 9000,
        72,
    ]
    assert given["rest_start"] == 72 * start + 64
    assert (given["rest_head"], given["rest_row"]) == (72 * 9000, 72)
