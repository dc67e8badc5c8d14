"""A number of keys known only at run time, right in IREE's GPU kernels.

IREE 3.13 pads keys only under a mask. Without one it prints an error, goes on, and the kernel reads
past the keys: on an H200 the result is wrong for every length (an error of 10, or NaN), with the
mask it is right. One i1 a key is read. What its kernels for CUDA cannot pad at all (uneven head
dims, several of them) becomes two products and a softmax.

Compiled with IREE 3.13 for sm_90, f32 and f16, 1 to 33 rows, 28 pairs of head dims.
"""

from __future__ import annotations

from ...attention.edit import edit
from ...attention.facts import AttentionFacts
from ...forms.decomposition import decomposed, refusal
from ...ir import Builder, Refusal, replace_reads, sizes_of
from ...machines import Target

# Lanes take so many elements of Q's and K's head dim at once, and subgroups of V's.
_HEAD_STEP, _WIDTH_STEP = 4, 16
_SMALLEST_WIDTH = 8
# Of wider heads a workgroup takes so many columns of V, or all.
_WIDE_HEAD, _WIDE_STEP = 256, 128


def mask_unknown_keys(facts: AttentionFacts, target: Target) -> str | None:
    """Gives attention over a number of keys known only at run time a mask that hides none, or
    writes it out where CUDA kernels cannot pad it."""
    known = all(facts.sizes[dim] is not None for dim in facts.k2)
    if known or not target.is_gpu:
        return None
    if not target.pads_keys and (why := _write_out(facts)):
        return f"two products and a softmax now, as its number of keys is unknown: {why}"
    if facts.has_mask:
        return None
    _add_mask(facts)
    return (
        f"a mask that hides nothing is added: {target.backend} kernels pad an unknown number of "
        "keys under a mask only"
    )


def _refusal(facts: AttentionFacts) -> Refusal | None:
    """Why IREE 3.13 does not compile an attention without a configuration of ours for CUDA if its
    number of keys is unknown and not viewed as tiles, or None."""
    keys = [facts.sizes[dim] for dim in facts.k2 if facts.sizes[dim] != 1]
    if not keys or any(size is not None for size in keys):
        return None
    if len([dim for dim in facts.k1 if facts.sizes[dim] != 1]) > 1:
        return Refusal("IREE 3.13 distributes no head dim that is several dims")
    head, width = facts.extent(facts.k1), facts.extent(facts.n)
    if head is None or width is None:
        return Refusal("IREE 3.13 compiles no head dims that are known only at run time")
    uneven = head % _HEAD_STEP or (width % _WIDTH_STEP and width != _SMALLEST_WIDTH)
    if uneven or (head > _WIDE_HEAD and width > _WIDE_STEP and width % _WIDE_STEP):
        return Refusal(f"IREE 3.13 has no whole tiles for head dims {head} and {width}")
    return None


def _write_out(facts: AttentionFacts) -> str:
    """Gives the users of an attention that IREE cannot compile what it means; returns why, or ''
    where nothing is changed."""
    why = _refusal(facts)
    if not why or facts.own_configuration or refusal(facts):
        return ""
    for old, new in zip(facts.op.results, decomposed(facts), strict=True):
        replace_reads(old, new)
    return str(why)


def _add_mask(facts: AttentionFacts) -> None:
    """Gives the users of an attention the same one with a mask over k2."""
    keys = dict(zip(facts.map_of("key"), sizes_of(facts.value("key")), strict=True))
    mask = Builder(facts.op).all_true([keys[dim] for dim in facts.k2])
    edit(facts).mask(mask, facts.k2).replace()
