"""Head dims, keys and rows of attention in sizes that a GPU kernel's tiles fill: the passes of
attn-fit-tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from ...attention.facts import AttentionFacts
from ...machines import Target
from ...passes import PassContext, TargetPass
from .cut import cut_heads
from .padding import pad_heads, pad_keys
from .tiles import tile_unknown_sizes
from .unknown_keys import mask_unknown_keys


@dataclass(frozen=True)
class FitPass(TargetPass):
    """Gives attention a shape for which attn-configure has a kernel, where its own has none."""

    backends = ("cuda", "rocm")
    fit: ClassVar[Callable[[AttentionFacts, Target], str | None]]

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.target_for(module, context)
        if target is None:
            return False

        def replace(facts: AttentionFacts) -> str | None:
            # What has a configuration of the user's is not fitted to another.
            is_left = facts.own_configuration and not self.mends
            return None if is_left else type(self).fit(facts, target)

        return context.replace_attention(module, replace)


class CutHeads(FitPass):
    """Cuts the head dim of Q and K in two where one part has a kernel; the scores of the other, few
    rows of them, become a mask (absorbed latent attention on NVIDIA GPUs, 512 + 64)."""

    name = "attn-cut-heads"
    summary = "GPUs: wide heads are cut in two where one part has a kernel"
    why = "IREE has no kernel for heads of absorbed latent attention"
    fit = staticmethod(cut_heads)


class PadHeads(FitPass):
    """Head dims that fill no tensor-core tile (40, 72, ...), for which IREE 3.13 has scalar code,
    get zeros, which add nothing to the scores; the columns that they make are cut off."""

    name = "attn-pad-heads"
    summary = "GPUs: head dims are filled up to whole tiles"
    why = "IREE has scalar code for head dims that fill no tile of tensor cores"
    fit = staticmethod(pad_heads)


class TileDynamic(FitPass):
    """A number of keys known only at run time is viewed as tiles of a known size, the last one
    filled up with masked keys; rows of grouped queries, too, known or not. Of the heads that there
    are then: behind attn-pad-heads."""

    name = "attn-tile-dynamic"
    summary = "GPUs: keys and rows known only at run time are viewed as tiles"
    why = "IREE's kernels for keys known only at run time multiply one by one"
    fit = staticmethod(tile_unknown_sizes)


class MaskDynamicKeys(FitPass):
    """What still has an unknown number of keys gets a mask that hides none, since IREE's GPU
    kernels pad keys under a mask only; what those for CUDA cannot pad is written out. This alone
    is for right numbers."""

    name = "attn-mask-dynamic-keys"
    summary = "GPUs: keys known only at run time have a mask"
    why = "IREE's kernels for GPUs count keys that are not there"
    mends = "attention over keys known only at run time is wrong where they fill no kernel tile"
    fit = staticmethod(mask_unknown_keys)


class PadKeys(FitPass):
    """A known number of keys that fills no tile gets masked ones: on an H200 1333 keys take 69 ms
    where 1344 take under one."""

    name = "attn-pad-keys"
    summary = "GPUs: keys are filled up to whole tiles"
    why = "IREE has slow code for keys that fill no tile"
    fit = staticmethod(pad_keys)
