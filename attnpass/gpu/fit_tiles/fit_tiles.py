"""attn-fit-tiles: head dims, keys and rows of attention in sizes that a GPU kernel's tiles fill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iree.compiler import ir

from ...attention.facts import AttentionFacts
from ...machines import Target
from ...passes import PassContext, PassInParts, TargetPass, option
from .cut import cut_heads
from .padding import pad_heads, pad_keys
from .tiles import tile_unknown_sizes
from .unknown_keys import mask_unknown_keys

Part = Callable[[AttentionFacts, Target], str | None]
# In the order in which they run: tiles are of the heads that there are then.
PARTS = ("cut", "heads", "tiles", "mask", "keys")
# Without this one numbers are wrong; the others are for speed.
_MENDS = "mask"


@dataclass(frozen=True)
class FitTiles(TargetPass, PassInParts):
    """Gives attention shapes for which attn-configure has a kernel, where its own have none.

    - `cut`: the head dim of Q and K is cut in two where one part has a kernel; the scores of the
      other, few rows of them, become a mask (absorbed latent attention on NVIDIA GPUs, 512 + 64);
    - `heads`: head dims that fill no tensor-core tile (40, 72, ...), for which IREE 3.13 has scalar
      code, get zeros, which add nothing to the scores; the columns that they make are cut off;
    - `tiles`: a number of keys known only at run time is viewed as tiles of a known size, the last
      one filled up with masked keys; rows of grouped queries, too, known or not;
    - `mask`: what still has an unknown number of keys gets a mask that hides none, since IREE's
      GPU kernels pad keys under a mask only; what those for CUDA cannot pad is written out. This
      alone is for right numbers;
    - `keys`: a known number of keys that fills no tile gets masked ones: on an H200 1333 keys
      take 69 ms where 1344 take under one.
    """

    name = "attn-fit-tiles"
    summary = "GPUs: head dims, keys and rows fit a kernel's tiles"
    mends = "attention over keys known only at run time is wrong where they fill no kernel tile"
    backends = ("cuda", "rocm")

    only: tuple[str, ...] = option((), "the parts to run (all, if none is named)", PARTS)

    @property
    def mended(self) -> str:
        return self.mends if self.has(_MENDS) else ""

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.target_for(module, context)
        if target is None:
            return False

        def run(name: str, fit: Part) -> bool:
            def replace(facts: AttentionFacts) -> str | None:
                # What has a configuration of the user's is not fitted to another.
                is_left = facts.own_configuration and name != _MENDS
                return None if is_left else fit(facts, target)

            return context.replace_attention(module, replace)

        return any([run(name, fit) for name, fit in _parts().items() if self.has(name)])


def _parts() -> dict[str, Part]:
    """What each part does to an attention."""
    fits = (cut_heads, pad_heads, tile_unknown_sizes, mask_unknown_keys, pad_keys)
    return dict(zip(PARTS, fits, strict=True))
