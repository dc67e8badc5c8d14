"""attn-vectorize: attention on CPUs as vector loops of our own.

Tiling, fusion, vectors and buffers of what surrounds the attention are IREE's: its pipeline for
attention on CPUs is run here in parts, and the loops take the place of its decomposition. What
does not come out as it should is put back, for IREE to lower by the configuration it has.
"""

from __future__ import annotations

import functools
from math import ceil

from iree.compiler import ir

from ..attention.facts import AttentionFacts, describe, find_ops
from ..codegen.kernel import load_of
from ..ir import replace_op
from ..ir.refusal import Refusal
from ..machines.cpu import configurations as cpu
from ..machines.cpu.loops import LoopTiles, marked, misfit, row_size, tile_rows
from ..machines.cpu.machine import Cpu
from ..machines.cpu.workgroups import busy
from ..report.records import Report
from .computed_lines import sources_of, widened_from
from .decode_loops import DecodeLoops
from .in_place import sum_in_place
from .lowering import LoopPass, lower_kernel, lower_tiles
from .paired_rows import PairedRows
from .prefill_loops import PrefillLoops
from .tile import TileLoops

# Tiles of many rows that a workgroup may have.
MANY_TILES = (2, 1, 4, 8)


def _attempts(function: ir.Operation) -> list[tuple[LoopTiles, int]]:
    """Tiles and their rows to try, best first: of few rows those that the stack has room for, then
    those that it has room for beside a copy of the result, which IREE may make."""
    facts = describe(find_ops(function)[0])
    found: list[tuple[LoopTiles, int]] = []
    for tiles in _asked(function)[0].from_best():
        rows = [tiles.rows]
        if not tiles.row_vectors:
            rows = [*tile_rows(facts, tiles)[:1], *tile_rows(facts, tiles, in_place=False)[:1]]
        found += [(tiles, count) for count in dict.fromkeys(rows)]
    return found


def _asked(function: ir.Operation) -> list[LoopTiles]:
    """The tiles that attention in a kernel asks for."""
    return [tiles for op in find_ops(function) if (tiles := marked(op))]


def _lower(
    function: ir.Operation, tiles: LoopTiles, rows: int, target: str, machine: Cpu
) -> Refusal | None:
    """Lowers a kernel for a target, with so many rows a tile; why it cannot be, with the kernel in
    any state, or None."""
    ops = find_ops(function)
    if len(ops) != 1:
        return Refusal(f"it holds {len(ops)} attention ops")
    facts = describe(ops[0])
    config = cpu.lowering_config(facts, (rows, 0), _workgroup_rows(facts, tiles, rows))

    def put(function: ir.Operation) -> Refusal | None:
        for op in find_ops(function):
            sum_in_place(op)
        return _put_loops(find_ops(function), tiles, machine)

    return lower_tiles(function, ops[0], config, put, tiles.lanes, target)


def _workgroup_rows(facts: AttentionFacts, tiles: LoopTiles, rows: int) -> int:
    """Rows of a workgroup whose tiles are of `rows` each: of groups of few a whole number, so
    that none is left with another number of them."""
    if tiles.row_vectors:
        size, heads = facts.sizes[facts.m[-1]], facts.extent((*facts.batch, *facts.m[:-1]))
        if size is None or heads is None:
            return cpu.WORKGROUP_ROWS
        sizes = [tiles.rows * count for count in MANY_TILES]
        return max(sizes, key=lambda most: busy(heads * ceil(size / most)))
    groups = row_size(facts) // rows
    most = max(cpu.WORKGROUP_ROWS // rows, 1)
    return rows * next(count for count in range(most, 0, -1) if groups % count == 0)


def _put_loops(ops: list[ir.Operation], tiles: LoopTiles, machine: Cpu) -> Refusal | None:
    if len(ops) != 1:
        return Refusal("IREE made several attention ops of one")
    facts = describe(ops[0])
    why = _unfit(facts, tiles) or misfit(facts, tiles)
    if why:
        return why
    with facts.op.location:
        results = _loops(facts, tiles, machine)(facts, tiles).emit()
    replace_op(facts.op, *results)
    return None


def _loops(facts: AttentionFacts, tiles: LoopTiles, machine: Cpu) -> type[TileLoops]:
    """The loops that these tiles are for on a machine."""
    if not tiles.row_vectors:
        return DecodeLoops
    pairs = machine.multiplies_pairs and PairedRows.fits(facts, tiles)
    return PairedRows if pairs else PrefillLoops


def _unfit(facts: AttentionFacts, tiles: LoopTiles) -> Refusal | None:
    """Why the loops cannot stand for this tile of an attention."""
    if facts.kind != "online_attention":
        return Refusal(f"it is {facts.kind}")
    if any(facts.sizes[dim] != 1 for dim in (*facts.batch, *facts.m[:-1])):
        return Refusal("its tiles hold several heads")
    computed = [
        name
        for name in ("key", "value", "mask")
        if name in facts.operand_names and not _is_read(facts, tiles, name)
    ]
    return Refusal(f"its {computed[0]} is computed in the kernel") if computed else None


def _is_read(facts: AttentionFacts, tiles: LoopTiles, name: str) -> bool:
    """Whether loops read an operand: what lies in memory, and where rows are few K and V that are
    widened from it, with the head dim innermost."""
    value = facts.value(name)
    if load_of(value) is not None:
        return True
    if name == "mask" or tiles.row_vectors or facts.is_innermost(name, facts.k2):
        return False
    sources = sources_of(value)
    return widened_from(value) is not None and all(load_of(x.operand) for x in sources or [])


class Vectorize(LoopPass):
    """Lowers attention that `attn-configure` marked, on llvm-cpu, to loops of our own: with many
    rows a row of the query stands in each lane of a vector, with few the head dim does.

    IREE unrolls a whole tile of attention and puts keys, then columns across the lanes, so
    that its tiles stay small and shuffle much. What cannot be lowered so is left to IREE and
    its configuration, with the reason in the report.
    """

    name = "attn-vectorize"
    summary = "CPUs: attention as vector loops of our own"
    why = "IREE multiplies scores one by one on CPUs"

    def rewrite(self, function: ir.Operation, target: str, machine: Cpu, report: Report) -> bool:
        if not _asked(function):
            return False
        why = "its rows need more of the stack than there is"
        attempts = [
            (
                "rows" if tiles.row_vectors else "the head dim",
                functools.partial(_lower, tiles=tiles, rows=rows, target=target, machine=machine),
            )
            for tiles, rows in _attempts(function)
        ]
        return lower_kernel(function, attempts, report, why)
