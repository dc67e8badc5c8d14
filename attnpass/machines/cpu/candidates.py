"""What attn-tune may try on a CPU: steps of IREE's own tiles, and loops of ours."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from ...attention.facts import AttentionFacts
from ...ir import Refusal
from .. import Offers, Target
from .configurations import MOST_REGISTERS, compilation_info, register_bytes, widest
from .loops import LoopTiles, problem, tiles

_ROWS, _KEYS, _WORKGROUP_ROWS = (1, 2, 4, 6, 8, 16), (1, 2, 4, 8, 16), (64, 16, 256)
# IREE refuses vectors of so many registers (LLVMCPUVerifyVectorSizeLegality).
_TOO_MANY_REGISTERS = 2 * MOST_REGISTERS

_LOOP_NUMBERS = ("row_vectors", "keys", "score_keys", "output_rows", "output_vectors")
_FEW_ROWS_NUMBERS = ("keys", "output_rows", "output_vectors")
_LOOP_SHIFTS = 2


def candidates(facts: AttentionFacts, target: Target, known: dict[str, str]) -> Offers:
    """Loops where the built-in configuration, `known`, has them, then steps."""
    if "decomposition_config" in known:
        yield from _loops(facts, target, known)
    yield from _steps(facts, target)


def _steps(facts: AttentionFacts, target: Target) -> Offers:
    rows = facts.sizes[facts.m[-1]] if facts.m else 1
    keys = facts.sizes[facts.k2[0]]

    def registers(step: tuple[int, int]) -> float:
        return step[0] * step[1] * widest(facts) * 4 / register_bytes(target)

    def distance(step: tuple[int, int]) -> float:
        return abs(math.log2(registers(step) / MOST_REGISTERS))

    for step in sorted(itertools.product(_ROWS, _KEYS), key=distance):
        for group in _WORKGROUP_ROWS:
            choice = f"{step[0]} rows, {step[1]} keys, workgroups of {group} rows"
            if (rows or group) < step[0] or (keys or step[1]) < step[1]:
                yield choice, Refusal("a step larger than the attention")
            elif group < step[0] or group % step[0]:
                yield choice, Refusal("a workgroup of no whole number of steps")
            elif registers(step) >= _TOO_MANY_REGISTERS:
                yield choice, Refusal(f"IREE refuses vectors of {_TOO_MANY_REGISTERS} registers")
            else:
                yield choice, {"compilation_info": compilation_info(facts, step, group)}


def _loops(facts: AttentionFacts, target: Target, known: dict[str, str]) -> Offers:
    """Loops of our own, a few steps of a power of two away from the built-in ones."""
    first = tiles(facts, register_bytes(target))
    assert isinstance(first, LoopTiles)
    names = _LOOP_NUMBERS if first.row_vectors else _FEW_ROWS_NUMBERS
    registers = 32 if register_bytes(target) >= 64 else 16
    shifts = itertools.product((0, 1, -1), repeat=len(names))
    near = (shift for shift in shifts if sum(map(abs, shift)) <= _LOOP_SHIFTS)
    for shift in sorted(near, key=lambda shift: sum(map(abs, shift))):
        numbers = {
            name: int(getattr(first, name) * 2.0**by) for name, by in zip(names, shift, strict=True)
        }
        if not all(numbers.values()):
            continue
        other = replace(first, **numbers)
        choice = (
            f"loops: {other.row_vectors} vectors of rows, {other.keys} keys by "
            f"{other.score_keys}, sums of {other.output_rows} x {other.output_vectors} vectors"
        )
        sums = (other.score_keys * other.row_vectors, other.output_rows * other.output_vectors)
        why = problem(facts, other)
        if why:
            yield choice, why
        elif max(sums) > registers:
            yield choice, Refusal(f"sums of more than {registers} vector registers")
        else:
            yield choice, {**known, "decomposition_config": other.to_attribute()}
