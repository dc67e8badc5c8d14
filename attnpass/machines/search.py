"""Candidates for attn-tune: what the configuration builders can express for one attention.

The built-in configuration comes first; the rest are ordered by how near they are to it, so that
a limited search looks there. A combination that a guardrail forbids is counted by its reason.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..attention.facts import AttentionFacts
from ..ir import Refusal
from . import Target
from .cpu import configurations as cpu
from .cpu import loops as cpu_loops
from .gpu.lanes import LANES, LaneTile
from .nvidia import configurations as nvidia

BUILT_IN = "built-in"

_CPU_ROWS, _CPU_KEYS, _CPU_WORKGROUP_ROWS = (1, 2, 4, 6, 8, 16), (1, 2, 4, 8, 16), (64, 16, 256)
# IREE refuses vectors of so many registers (LLVMCPUVerifyVectorSizeLegality).
_CPU_TOO_MANY_REGISTERS = 2 * cpu.MOST_REGISTERS

_LOOP_NUMBERS = ("row_vectors", "keys", "score_keys", "output_rows", "output_vectors")
_FEW_ROWS_NUMBERS = ("keys", "output_rows", "output_vectors")
_LOOP_SHIFTS = 2

_GPU_ROWS, _GPU_SUBGROUP_ROWS, _GPU_KEYS = (32, 64, 128, 256), (16, 32, 64), (16, 32, 64, 128)
_GPU_NUMBERS = ("rows", "columns", "keys", "row_subgroups", "column_subgroups")
# A thread has 255 registers: what it sums up (results and scores, f32) has to fit.
_GPU_REGISTERS = 255
_GPU_MOST_THREADS = 512
# Where the fastest tiles of lanes are.
_LANE_REGISTERS = 150
_DECODE_LANES = tuple(
    nvidia.Lanes(head, elements, 32 // head, subgroups, step)
    for head, elements, subgroups, step in itertools.product(
        (8, 4, 16), (8, 4), (4, 2, 1, 8), (64, 32, 128)
    )
)
_GROUPED_KEYS = (32, 16, 64)
_LANE_TILES = tuple(
    LaneTile(row_lanes, head_lanes, rows, keys, step, subgroups)
    for subgroups, row_lanes, head_lanes, rows, keys, step in itertools.product(
        (4, 2, 1), (1, 2, 4, 8), (2, 4, 8, 16, 32), (4, 2, 8), (2, 4), (32, 16, 64)
    )
    if row_lanes * head_lanes <= LANES
)


@dataclass(frozen=True)
class Candidate:
    """A configuration, as attribute texts by name, and what it is in words."""

    choice: str
    configuration: dict[str, str]


@dataclass
class CandidateSearch:
    """What there is to try for one attention, and how often each guardrail forbade more."""

    candidates: list[Candidate] = field(default_factory=list)
    pruned: Counter[str] = field(default_factory=Counter)

    def offer(self, choice: str, found: dict[str, str] | Refusal) -> None:
        """Takes a configuration that is new, or the reason why there is none."""
        if isinstance(found, Refusal):
            self.pruned[found.reason] += 1
        elif any(found == other.configuration for other in self.candidates):
            self.pruned["the same kernel as another candidate"] += 1
        else:
            self.candidates.append(Candidate(choice, found))


def search(facts: AttentionFacts, target: Target, plain: bool) -> CandidateSearch:
    """The candidates for one attention; none, with the reason in `pruned`, where none is known
    to be right. `plain`: for iree-compile, without kernels that attnpass lowers itself."""
    found = CandidateSearch()
    why = _refusal(facts, target)
    if why:
        found.pruned[why] += 1
        return found
    first = target.configuration(facts)
    if isinstance(first, Refusal):
        first = {}
    elif plain and target.backend == "llvm-cpu":
        first.pop("decomposition_config", None)
    if first:
        found.offer(BUILT_IN, first)
    if target.backend == "cuda":
        offers = _nvidia(facts, target)
    elif "decomposition_config" in first:
        offers = itertools.chain(_loops(facts, target, first), _steps(facts, target))
    else:
        offers = _steps(facts, target)
    for choice, configuration in offers:
        found.offer(choice, configuration)
    return found


def _refusal(facts: AttentionFacts, target: Target) -> str:
    if facts.own_configuration:
        return f"it has a {facts.own_configuration}"
    if facts.changes_scores:
        # IREE 3.13 gives it scores times log2(e): there is no reference to compare with.
        return "its region changes the scores"
    if 1 in facts.sizes:
        return "it has unit dims, which IREE folds where attention stands alone"
    if target.backend == "llvm-cpu":
        return cpu.refusal(facts, target)
    if target.backend == "cuda":
        return nvidia.refusal(facts, target)
    return f"there are no configurations for {target.name}"


Offers = Iterator[tuple[str, dict[str, str] | Refusal]]


def _steps(facts: AttentionFacts, target: Target) -> Offers:
    rows = facts.sizes[facts.m[-1]] if facts.m else 1
    keys = facts.sizes[facts.k2[0]]

    def registers(step: tuple[int, int]) -> float:
        return step[0] * step[1] * cpu.widest(facts) * 4 / cpu.register_bytes(target)

    def distance(step: tuple[int, int]) -> float:
        return abs(math.log2(registers(step) / cpu.MOST_REGISTERS))

    for step in sorted(itertools.product(_CPU_ROWS, _CPU_KEYS), key=distance):
        for group in _CPU_WORKGROUP_ROWS:
            choice = f"{step[0]} rows, {step[1]} keys, workgroups of {group} rows"
            if (rows or group) < step[0] or (keys or step[1]) < step[1]:
                yield choice, Refusal("a step larger than the attention")
            elif group < step[0] or group % step[0]:
                yield choice, Refusal("a workgroup of no whole number of steps")
            elif registers(step) >= _CPU_TOO_MANY_REGISTERS:
                yield (
                    choice,
                    Refusal(f"IREE refuses vectors of {_CPU_TOO_MANY_REGISTERS} registers"),
                )
            else:
                yield choice, {"compilation_info": cpu.compilation_info(facts, step, group)}


def _loops(facts: AttentionFacts, target: Target, known: dict[str, str]) -> Offers:
    """Loops of our own, a few steps of a power of two away from the built-in ones."""
    first = cpu_loops.tiles(facts, cpu.register_bytes(target))
    assert isinstance(first, cpu_loops.LoopTiles)
    names = _LOOP_NUMBERS if first.row_vectors else _FEW_ROWS_NUMBERS
    registers = 32 if cpu.register_bytes(target) >= 64 else 16
    shifts = itertools.product((0, 1, -1), repeat=len(names))
    near = (shift for shift in shifts if sum(map(abs, shift)) <= _LOOP_SHIFTS)
    for shift in sorted(near, key=lambda shift: sum(map(abs, shift))):
        numbers = {
            name: int(getattr(first, name) * 2.0**by) for name, by in zip(names, shift, strict=True)
        }
        if not all(numbers.values()):
            continue
        tiles = replace(first, **numbers)
        choice = (
            f"loops: {tiles.row_vectors} vectors of rows, {tiles.keys} keys by "
            f"{tiles.score_keys}, sums of {tiles.output_rows} x {tiles.output_vectors} vectors"
        )
        sums = (tiles.score_keys * tiles.row_vectors, tiles.output_rows * tiles.output_vectors)
        problem = cpu_loops.problem(facts, tiles)
        if problem:
            yield choice, Refusal(problem)
        elif max(sums) > registers:
            yield choice, Refusal(f"sums of more than {registers} vector registers")
        else:
            yield choice, {**known, "decomposition_config": tiles.to_attribute()}


def _nvidia(facts: AttentionFacts, target: Target) -> Offers:
    rows = nvidia.rows_of(facts)
    if rows != 1 and nvidia.is_f32(facts):
        yield from _lane_tiles(facts)
    elif not nvidia.is_decode(facts):
        yield from _tiles(facts, target)
    elif rows == 1:
        for lanes in _DECODE_LANES:
            choice = (
                f"{lanes.head} x {lanes.elements} of the head dim, {lanes.keys} x "
                f"{lanes.key_subgroups} of {lanes.step} keys"
            )
            if lanes.head * lanes.key_subgroups > nvidia.MOST_DECODE_LANES:
                yield choice, Refusal("lanes that give wrong numbers in IREE 3.13")
            else:
                yield choice, nvidia.decode_with(lanes, facts)
    else:
        for keys in _GROUPED_KEYS:
            yield f"{keys} keys", nvidia.grouped_with(keys, facts)


def _tiles(facts: AttentionFacts, target: Target) -> Offers:
    rows, keys = nvidia.rows_of(facts), nvidia.keys_of(facts)
    width = facts.sizes[facts.n[0]] or 0
    columns = (width, width // 2) if width >= 512 else (width,)
    known = nvidia.tile_for(width)

    def distance(tile: nvidia.AttentionTile) -> float:
        if known is None:
            return 0
        pairs = ((getattr(tile, name), getattr(known, name)) for name in _GPU_NUMBERS)
        far = sum(abs(math.log2(number / other)) for number, other in pairs)
        return far + (tile.query_shared != known.query_shared)

    tiles = [
        nvidia.AttentionTile(tile_rows, tile_columns, step, tile_rows // sub_rows, split, shared)
        for tile_rows, sub_rows, tile_columns, step, split, shared in itertools.product(
            _GPU_ROWS, _GPU_SUBGROUP_ROWS, columns, _GPU_KEYS, (1, 2), (True, False)
        )
        if tile_rows >= sub_rows
    ]
    for tile in sorted(tiles, key=distance):
        choice = (
            f"{tile.rows} rows, {tile.columns} columns, {tile.keys} keys, {tile.row_subgroups} x "
            f"{tile.column_subgroups} subgroups" + ("" if tile.query_shared else ", Q from memory")
        )
        sums = tile.rows * (tile.columns + tile.keys) / tile.threads
        if tile.column_subgroups > 1 and width < 128:
            yield choice, Refusal("a head dim too narrow for several subgroups")
        elif tile.threads > _GPU_MOST_THREADS:
            yield choice, Refusal(f"more than {_GPU_MOST_THREADS} threads")
        elif sums > _GPU_REGISTERS:
            yield choice, Refusal(f"sums of more than {_GPU_REGISTERS} registers a thread")
        else:
            yield choice, nvidia.prefill_with(tile, facts, target, rows, keys)


def _lane_tiles(facts: AttentionFacts) -> Offers:
    """The tiles by how near their registers are to what a thread has: fewer read K and V more
    often, more are spilled."""
    head, width = (facts.sizes[dims[0]] or 0 for dims in (facts.k1, facts.n))

    def registers(tile: LaneTile) -> int:
        query, sums = head // tile.head_lanes, width // tile.column_lanes
        return tile.rows_each * (query + sums + tile.keys // tile.key_lanes)

    for tile in sorted(_LANE_TILES, key=lambda tile: abs(registers(tile) - _LANE_REGISTERS)):
        choice = (
            f"lanes: {tile.row_lanes} x {tile.rows_each} rows, {tile.key_lanes} x "
            f"{tile.keys_each} of {tile.keys} keys, {tile.subgroups} subgroups"
        )
        if registers(tile) > _GPU_REGISTERS:
            yield choice, Refusal(f"sums of more than {_GPU_REGISTERS} registers a thread")
        else:
            yield choice, nvidia.lanes_with(tile, facts)
