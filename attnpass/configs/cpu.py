"""Configurations for llvm-cpu, as formulas over the shape and the vector registers.

The head dim of V is taken whole, with as many rows and keys at a time as IREE lets through:
Q K^T is computed once instead of once for every 16 columns of V. A tile of k1 is never set:
it compiles and computes wrong numbers (IREE 3.13).
"""

from __future__ import annotations

from ..attention import AttentionFacts
from ..targets import Target
from ..targets.cpu import Cpu

# (rows, keys) that a vector step takes, best first. With 64-byte registers and eight rows or
# more, 8 x 8 is 1.7-1.9 times faster than 4 x 4 at head dims 32 and 64.
STEPS = ((4, 4), (4, 2), (4, 1), (2, 1), (1, 1))
WIDE_STEPS = ((8, 8), *STEPS)
WORKGROUP_ROWS = 64
# IREE refuses a contraction whose iteration space, in bytes of its f32 result, reaches this
# many registers (LLVMCPUVerifyVectorSizeLegality; --iree-llvmcpu-fail-on-large-vector).
MOST_REGISTERS = 512


def configuration(facts: AttentionFacts, target: Target) -> str:
    """The attribute for this attention, or why it keeps IREE's own."""
    why = _refusal(facts, target)
    if why:
        return why
    step = _step(facts, target)
    assert step is not None, "refused above"
    distribution, vector, reduction = ([0] * facts.num_dims for _ in range(3))
    for dim in facts.batch:
        distribution[dim] = vector[dim] = 1
    for dim in facts.m[:-1]:
        distribution[dim] = vector[dim] = 1
    rows = facts.sizes[facts.m[-1]] if facts.m else None
    if facts.m and rows is not None:
        distribution[facts.m[-1]] = min(WORKGROUP_ROWS, rows)
        vector[facts.m[-1]] = min(step[0], rows)
    (n,) = facts.n
    distribution[n] = vector[n] = facts.sizes[n] or 0
    (k2,) = facts.k2
    reduction[k2] = step[1]
    return (
        "#iree_codegen.compilation_info<lowering_config = #iree_cpu.lowering_config<"
        f"distribution = {distribution}, vector_common_parallel = {vector}, "
        f"vector_reduction = {reduction}>, translation_info = #iree_codegen.translation_info<"
        "pipeline = #iree_cpu.pipeline<LinalgExtTileAndVectorize>>>"
    )


def _step(facts: AttentionFacts, target: Target) -> tuple[int, int] | None:
    """Rows and keys of a vector step: the first that divides the shape and that IREE takes."""
    rows = (facts.sizes[facts.m[-1]] or 0) if facts.m else 1
    keys = facts.sizes[facts.k2[0]] or 0
    widest = max(facts.sizes[facts.n[0]] or 0, facts.sizes[facts.k1[0]] or 0)
    register = target.vector_bytes if isinstance(target, Cpu) else 8
    steps = WIDE_STEPS if register >= 64 and rows >= 8 else STEPS
    for most_rows, step_keys in steps:
        step_rows = min(most_rows, rows)
        fits = step_rows * step_keys * widest * 4 < MOST_REGISTERS * register
        if fits and rows % step_rows == 0 and keys % step_keys == 0:
            return step_rows, step_keys
    return None


def _refusal(facts: AttentionFacts, target: Target) -> str:
    if len(facts.n) != 1 or len(facts.k2) != 1 or len(facts.k1) != 1:
        return "it has several head or key dims"
    if any(size is None for size in facts.sizes):
        return "it has sizes known only at run time"
    head = facts.sizes[facts.n[0]] or 0
    if head % 16:
        return f"head dim {head} is not a multiple of 16"
    if set(facts.element_types.values()) - {"f32", "i1"}:
        return "only f32 was measured"
    if _step(facts, target) is None:
        return f"head dim {head} is too wide for this CPU's vectors"
    return ""
