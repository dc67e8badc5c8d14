"""Configurations for llvm-cpu, by shape.

The head dim of V is taken whole, the rows four at a time, the keys four at a time: Q K^T is
computed once instead of once for every 16 columns of V. A tile of k1 is never set: it
compiles and computes wrong numbers (IREE 3.13). Head dims wider than the table's fail to
compile ("large vector sizes").
"""

from __future__ import annotations

from ..attention import AttentionFacts
from ..targets import Target

# Rows and keys that a vector step takes, and rows that a workgroup takes.
ROWS = 4
KEYS = 4
WORKGROUP_ROWS = 64
# Columns of V that a vector step takes: what compiles with 64-byte vectors, and without.
WIDE_COLUMNS, COLUMNS = 128, 64


def configuration(facts: AttentionFacts, target: Target) -> str:
    """The attribute for this attention, or why it keeps IREE's own."""
    why = _refusal(facts, target)
    if why:
        return why
    distribution, vector, reduction = ([0] * facts.num_dims for _ in range(3))
    for dim in facts.batch:
        distribution[dim] = vector[dim] = 1
    for dim in facts.m[:-1]:
        distribution[dim] = vector[dim] = 1
    rows = facts.sizes[facts.m[-1]] if facts.m else None
    if facts.m and rows is not None:
        distribution[facts.m[-1]] = min(WORKGROUP_ROWS, rows)
        vector[facts.m[-1]] = min(ROWS, rows)
    (n,) = facts.n
    distribution[n] = vector[n] = facts.sizes[n] or 0
    (k2,) = facts.k2
    reduction[k2] = KEYS
    return (
        "#iree_codegen.compilation_info<lowering_config = #iree_cpu.lowering_config<"
        f"distribution = {distribution}, vector_common_parallel = {vector}, "
        f"vector_reduction = {reduction}>, translation_info = #iree_codegen.translation_info<"
        "pipeline = #iree_cpu.pipeline<LinalgExtTileAndVectorize>>>"
    )


def _columns(target: Target) -> int:
    return WIDE_COLUMNS if "+avx512f" in target.features else COLUMNS


def _refusal(facts: AttentionFacts, target: Target) -> str:
    if len(facts.n) != 1 or len(facts.k2) != 1 or len(facts.k1) != 1:
        return "it has several head or key dims"
    if any(size is None for size in facts.sizes):
        return "it has sizes known only at run time"
    head, keys = facts.sizes[facts.n[0]] or 0, facts.sizes[facts.k2[0]] or 0
    widest = max(head, facts.sizes[facts.k1[0]] or 0)
    if head % 16 or widest > _columns(target):
        return (
            f"head dims up to {widest} are not multiples of 16 up to the {_columns(target)} "
            "that this CPU's vectors take"
        )
    if keys % KEYS:
        return f"{keys} keys are not a multiple of {KEYS}"
    rows = (facts.sizes[facts.m[-1]] or 0) if facts.m else 1
    if rows > ROWS and rows % ROWS:
        return f"{rows} rows are not a multiple of {ROWS}"
    if set(facts.element_types.values()) - {"f32", "i1"}:
        return "only f32 was measured"
    return ""
