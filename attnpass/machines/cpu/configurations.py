"""Configurations for llvm-cpu, as formulas over the shape and the vector registers.

The head dim of V is taken whole: Q K^T is computed once instead of once for every 16 columns
of V. A tile of k1 is never set: it compiles and computes wrong numbers (IREE 3.13). f16 and
bf16 take the tiles of f32, since scores and results are f32 inside the kernel. Sizes that are
known only at run time, and tails, need nothing of their own: IREE masks what is beyond the end.
Of several head or key dims it cannot: steps divide them.
"""

from __future__ import annotations

import math

from ...attention.facts import AttentionFacts
from ...ir import Refusal, element_bytes, printed
from .. import Target
from ..common_faults import common_fault
from . import loops as cpu_loops

# (rows, keys) that a vector step takes, best first.
STEPS = ((8, 8), (4, 8), (4, 4), (2, 4), (2, 2), (2, 1), (1, 1))
# A step is unrolled whole: rows x keys x head dim multiply-adds in f32. The best one has at
# most this many registers' worth, for registers of 16, 32 and 64 bytes and head dims from 32
# to 1024; more spill. IREE itself refuses twice as many (LLVMCPUVerifyVectorSizeLegality).
MOST_REGISTERS = 256
# Up to this many rows, K and V come from memory and Q's values are spread over registers
# for few keys: four keys at a time are 1.2 times faster than eight.
FEW_ROWS = 16
FEW_ROWS_KEYS = 4
WORKGROUP_ROWS = 64
# K and V of a head from which on chunks of keys are worth two more dispatches: measured on two
# cores (docs/notes/split-k.md), 1.2 times faster at 8 MB and 1.3 and more above.
SPLIT_BYTES = 8_000_000
# The widest dim of heads that IREE's own configuration takes whole: tiles of it leave parts of
# scores, and softmax is taken of those.
WIDEST_WHOLE = 128
# Without AVX-512 heads from here on go by one row and one key: LLVM takes half a minute and more
# for the masks of a tail of 16 bits, and 3 to 9 s for turning keys of 320 columns, where this takes
# 2. On a Zen 3 it is 1.3 to 10 times faster, too (0.9 times for heads of 160 and 192 in f32).
WIDE_HEAD, WIDE_REGISTER_BYTES = 128, 64
MEASURED_TYPES = frozenset({"f32", "f16", "bf16", "i1"})


def configuration(facts: AttentionFacts, target: Target) -> dict[str, str] | Refusal:
    """The attributes for this attention, as text by name, or why it keeps IREE's own."""
    why = refusal(facts, target)
    if why:
        return why
    step = _step(facts, register_bytes(target))
    if step is None:
        return Refusal(
            f"head dim {widest(facts)} is too wide for vectors of {register_bytes(target)} bytes"
        )
    found = {"compilation_info": compilation_info(facts, step, WORKGROUP_ROWS)}
    if _has_several_dims(facts):
        return found
    loops = cpu_loops.tiles(facts, register_bytes(target))
    if isinstance(loops, cpu_loops.LoopTiles):
        found["decomposition_config"] = loops.to_attribute()
    return found


def own_is_wrong(facts: AttentionFacts, target: Target) -> Refusal | None:
    """What is wrong with IREE's own configuration of an attention in a dispatch, or None."""
    if why := common_fault(facts):
        return why
    sizes = [facts.sizes[dim] for dim in facts.k1]
    if any(size is None or size > WIDEST_WHOLE for size in sizes):
        return Refusal(
            "IREE 3.13's own configuration takes the softmax of parts of the scores where a head "
            f"dim of Q and K is above {WIDEST_WHOLE} or known only at run time"
        )
    if len(facts.k2) > 1 and not fills_tiles(facts.sizes[facts.k2[-1]], target):
        return Refusal(
            "IREE 3.13 masks the innermost of several key dims wrong where it fills no tiles"
        )
    return None


def fills_tiles(size: int | None, target: Target | None) -> bool:
    """Whether the tiles that IREE's own configuration may take of an innermost key dim leave no
    rest, which it would mask: the largest divisor of the size that a vector register has lanes
    for, in f32, or those lanes (8 for a size of 6), and halves of that, rounded up, until the
    tiles of all dims are small enough."""
    if size is None:
        return False
    lanes = register_bytes(target) // 4
    divisor = next(tile for tile in range(min(lanes, size), 0, -1) if size % tile == 0)
    power = 1 << (size - 1).bit_length()
    return all(_halves_fill(size, tile) for tile in (divisor, min(lanes, power)))


def _halves_fill(size: int, tile: int) -> bool:
    while tile > 1 and size % tile == 0:
        tile = -(-tile // 2)
    return size % tile == 0


def chunks_refusal(facts: AttentionFacts, target: Target) -> Refusal | None:
    """Why chunks of this attention's keys would not pay on idle cores, or None."""
    if _has_several_dims(facts):
        return Refusal("it has several head or key dims")
    loops = cpu_loops.tiles(facts, register_bytes(target))
    if isinstance(loops, Refusal):
        return loops
    if loops.row_vectors or cpu_loops.row_size(facts) > loops.lanes:
        return Refusal("many query rows are no decode step")
    (keys,) = (facts.sizes[dim] for dim in facts.k2)
    if keys is None:
        return Refusal("the number of keys is known only at run time")
    row = facts.assumed_extent(facts.k1) * element_bytes(facts.value("key"))
    row += facts.assumed_extent(facts.n) * element_bytes(facts.value("value"))
    if keys * row < SPLIT_BYTES:
        return Refusal(f"a head's K and V have {keys * row} bytes, less than chunks pay for")
    return None


def register_bytes(target: Target | None) -> int:
    """Bytes of a vector register, as IREE takes them."""
    return getattr(target, "vector_bytes", 8)


def compilation_info(facts: AttentionFacts, step: tuple[int, int], workgroup_rows: int) -> str:
    """The attribute for a vector step of (rows, keys) and so many rows a workgroup at most."""
    lowering = lowering_config(facts, step, workgroup_rows)
    return printed.compilation_info(lowering, "#iree_cpu.pipeline<LinalgExtTileAndVectorize>")


def lowering_config(facts: AttentionFacts, step: tuple[int, int], workgroup_rows: int) -> str:
    """Workgroups of rows of one head, cut into steps of (rows, keys); 0 keys are not cut."""
    distribution, vector, reduction = ([0] * facts.num_dims for _ in range(3))
    for dim in (*facts.batch, *facts.m[:-1]):
        distribution[dim] = vector[dim] = 1
    if facts.m:
        size = facts.sizes[facts.m[-1]]
        distribution[facts.m[-1]] = workgroup_rows if size is None else min(workgroup_rows, size)
        vector[facts.m[-1]] = step[0]
    for dim in facts.n:
        distribution[dim] = vector[dim] = facts.sizes[dim] or 0
    for dim in facts.k2[:-1]:
        reduction[dim] = 1
    reduction[facts.k2[-1]] = step[1]
    return (
        f"#iree_cpu.lowering_config<distribution = {distribution}, "
        f"vector_common_parallel = {vector}"
        f"{f', vector_reduction = {reduction}' if step[1] else ''}>"
    )


def _step(facts: AttentionFacts, register: int) -> tuple[int, int] | None:
    """Rows and keys of a vector step on registers of so many bytes; None: the head is too wide."""
    rows = facts.sizes[facts.m[-1]] if facts.m else 1
    keys = facts.sizes[facts.k2[-1]]
    if _has_several_dims(facts):
        return _whole_step(facts, rows, keys, register)
    if widest(facts) >= WIDE_HEAD and register < WIDE_REGISTER_BYTES:
        return (1, 1) if widest(facts) * 4 <= MOST_REGISTERS * register else None
    for most_rows, most_keys in STEPS:
        step_rows = _even_step(rows, most_rows)
        if rows is not None and rows <= FEW_ROWS:
            most_keys = min(most_keys, FEW_ROWS_KEYS)
        if step_rows * most_keys * widest(facts) * 4 <= MOST_REGISTERS * register:
            return step_rows, _dividing_step(keys, most_keys)
    return None


def _whole_step(
    facts: AttentionFacts, rows: int | None, keys: int | None, register: int
) -> tuple[int, int] | None:
    """The most rows and keys that divide theirs, where IREE can mask no tail."""
    for most_rows, most_keys in STEPS:
        step = _divisor(rows, most_rows), _divisor(keys, most_keys)
        if math.prod(step) * widest(facts) * 4 <= MOST_REGISTERS * register:
            return step
    return None


def _divisor(size: int | None, most: int) -> int:
    return math.gcd(size or 1, most)


def _even_step(size: int | None, most: int) -> int:
    """The smallest step that takes as few steps as `most` does: 9 by at most 8 goes 5 + 4."""
    if size is None:
        return most
    return -(-size // -(-size // most))


def _dividing_step(size: int | None, most: int) -> int:
    """The largest divisor of `size` in (most / 2, most], else `most`, whose tail is masked.

    Masks stay in the whole loop over the keys, at 1.7 times its cost: more than a step of
    5 instead of 8 costs, less than one of 4 or fewer.
    """
    if size is None:
        return most
    return next((step for step in range(most, most // 2, -1) if size % step == 0), min(most, size))


def widest(facts: AttentionFacts) -> int:
    """The larger head, of all its dims."""
    return max(facts.extent(facts.n) or 0, facts.extent(facts.k1) or 0)


def refusal(facts: AttentionFacts, target: Target) -> Refusal | None:
    """Why no configuration is known to be right for this attention, or None."""
    if _has_several_dims(facts) and not own_is_wrong(facts, target):
        return Refusal("it has several head or key dims")
    if facts.extent(facts.n) is None or facts.extent(facts.k1) is None:
        return Refusal("its head dim is known only at run time, so its vectors have no bound")
    if facts.may_lose_dims:
        return Refusal(
            "it has unit dims, which IREE folds: its rank is not final before phase 'flow'"
        )
    if facts.score_index_dims:
        return Refusal(
            "its scores depend on positions, which IREE 3.13 gets wrong in tiles on a CPU"
        )
    unknown = sorted(set(facts.element_types.values()) - MEASURED_TYPES)
    if unknown:
        return Refusal(f"nothing was measured for {', '.join(unknown)}")
    return None


def _has_several_dims(facts: AttentionFacts) -> bool:
    return any(len(dims) != 1 for dims in (facts.k1, facts.k2, facts.n))
