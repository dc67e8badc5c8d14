"""Attention over an unknown number of keys that IREE's own configuration cannot take on CUDA.

Compiled with IREE 3.13 for sm_90, f32 and f16, 1 to 33 rows, 28 pairs of head dims.
"""

from __future__ import annotations

from ..attention import AttentionFacts

# Lanes take so many elements of Q's and K's head dim at once, and subgroups of V's.
_HEAD_STEP, _WIDTH_STEP = 4, 16
_SMALLEST_WIDTH = 8
# Of wider heads a workgroup takes so many columns of V, or all.
_WIDE_HEAD, _WIDE_STEP = 256, 128


def unknown_keys_refusal(facts: AttentionFacts) -> str:
    """Why IREE 3.13 does not compile an attention without a configuration of ours for CUDA if its
    number of keys is unknown and not viewed as tiles, or ''."""
    keys = [facts.sizes[dim] for dim in facts.k2 if facts.sizes[dim] != 1]
    if not keys or any(size is not None for size in keys):
        return ""
    if len([dim for dim in facts.k1 if facts.sizes[dim] != 1]) > 1:
        return "IREE 3.13 distributes no head dim that is several dims"
    head, width = facts.extent(facts.k1), facts.extent(facts.n)
    if head is None or width is None:
        return "IREE 3.13 compiles no head dims that are known only at run time"
    uneven = head % _HEAD_STEP or (width % _WIDTH_STEP and width != _SMALLEST_WIDTH)
    if uneven or (head > _WIDE_HEAD and width > _WIDE_STEP and width % _WIDE_STEP):
        return f"IREE 3.13 has no whole tiles for head dims {head} and {width}"
    return ""
