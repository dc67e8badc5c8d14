"""Candidates of attn-tune: whatever the search offers can be written and read as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import MAPS
from iree.compiler import ir

from attnpass.attention.facts import find
from attnpass.errors import AttnError
from attnpass.machines import named_target
from attnpass.machines.cpu.loops import LoopTiles, misfit, tiles
from attnpass.machines.search import BUILT_IN, search
from attnpass.machines.table import Entry, load_table, signature, table_text

MODULE = (
    MAPS
    + """
func.func @main(%q: {q}, %k: {k}, %v: {k}) -> {q} {{
  %scale = arith.constant 0.25 : {kind}
  %empty = tensor.empty() : {q}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : {q}, {k}, {k}, {kind}) outs(%empty : {q}) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> {q}
  return %r : {q}
}}
"""
)


@pytest.fixture
def context() -> Iterator[ir.Context]:
    with ir.Context() as mlir:
        mlir.load_all_available_dialects()
        yield mlir


def module(rows: int, keys: int, head: int, kind: str) -> ir.Module:
    shapes = {name: f"tensor<8x{size}x{head}x{kind}>" for name, size in (("q", rows), ("k", keys))}
    return ir.Module.parse(MODULE.format(**shapes, kind=kind))


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("target", ["llvm-cpu", "llvm-cpu:znver4", "sm_80", "sm_89"])
@pytest.mark.parametrize(
    "shape",
    [
        (64, 64, 32, "f16"),
        (2048, 512, 64, "f16"),
        (4, 4096, 128, "f16"),
        (100, 77, 80, "bf16"),
        (512, 64, 512, "f16"),
        (16, 1024, 1024, "bf16"),
        (5, 33, 24, "f32"),
        (100, 96, 64, "f32"),
        (1, 4096, 128, "f32"),
        (64, 512, 320, "f32"),
        (64, 128, 128, "f8E4M3FN"),
    ],
)
def test_every_candidate_is_a_table_entry(
    shape: tuple, target: str, plain: bool, tmp_path: Path, context: ir.Context
) -> None:
    source = module(*shape)
    (facts,) = find(source.operation)
    machine = named_target(target)
    found = search(facts, machine, plain)
    if not found.candidates:
        assert found.pruned
        return
    entries = [
        Entry(machine.name, signature(facts), candidate.configuration, candidate.choice)
        for candidate in found.candidates
    ]
    path = tmp_path / "table.json"
    path.write_text(table_text(entries))
    table = load_table(str(path), context)
    assert table.find(facts, machine.name) == entries[-1]
    assert table.find(facts, "another target") is None
    texts = {str(entry.configuration) for entry in entries}
    assert len(texts) == len(entries), "a kernel twice"
    if plain and machine.backend == "llvm-cpu":
        assert not any("attnpass" in text for text in texts)
    choices = [candidate.choice for candidate in found.candidates]
    assert BUILT_IN not in choices[1:]


@pytest.mark.parametrize("numbers", ["16, 2, 64", "16, 2, 0, 8, 4, 4", "", "1, 2, 3, 4, 5, 6, 7"])
def test_loops_that_are_none(numbers: str, tmp_path: Path, context: ir.Context) -> None:
    source = module(64, 64, 32, "f32")
    (facts,) = find(source.operation)
    found = search(facts, named_target("llvm-cpu"), False).candidates[0].configuration
    assert "attnpass.loops" in found["decomposition_config"]
    loops = f"array<i64: {numbers}>" if numbers else "array<i64>"
    found = {**found, "decomposition_config": f"{{attnpass.loops = {loops}}}"}
    path = tmp_path / "table.json"
    path.write_text(table_text([Entry("llvm-cpu generic", signature(facts), found)]))
    with pytest.raises(AttnError, match=r"attnpass\.loops needs 6 numbers from 1 on"):
        load_table(str(path), context)


def test_loops_for_transposed_v(context: ir.Context) -> None:
    """Few rows fold their sums into one vector, which bounds rows times columns."""
    source = module(4, 4096, 128, "f32")
    (facts,) = find(source.operation)
    found = tiles(facts, 64, transposed=True)
    assert isinstance(found, LoopTiles)
    assert not misfit(facts, found, transposed=True)
    wide = replace(found, output_vectors=8)
    assert str(misfit(facts, wide, transposed=True)) == "32 sums to be folded into a vector of 16"
    assert not misfit(facts, wide, transposed=False)
    assert "whole vectors" in str(misfit(facts, replace(found, keys=100), transposed=True))
