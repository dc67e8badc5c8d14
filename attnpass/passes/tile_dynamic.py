"""attn-tile-dynamic: an unknown number of keys and rows as whole kernel tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..attention import AttentionFacts


@dataclass(frozen=True)
class TileDynamic(Pass):
    """Gives attention over a number of keys known only at run time tiles of a known size; rows of
    grouped queries, too.

    IREE 3.13 has tensor-core kernels for a known tile of keys only. Here K, V and the mask
    are copied into (tiles, tile), the last tile filled up with masked keys, so that a kernel
    takes a tile at a time. Rows of an unknown number are copied likewise, and the result back.
    """

    name: ClassVar[str] = "attn-tile-dynamic"
    summary: ClassVar[str] = "GPUs: an unknown number of keys as whole kernel tiles"
    backends: ClassVar[tuple[str, ...]] = ("cuda", "rocm")

    target: str = option("", "target to decide for, instead of the module's own")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..configs import dynamic_tiles
        from ..dynamic_tiles import view_as_tiles

        target = context.target_for(module, self.target)
        if target is None:
            return False

        def replace(facts: AttentionFacts) -> str | None:
            sizes = dynamic_tiles(facts, target)
            if not sizes:
                return None
            view_as_tiles(facts, sizes)
            rows = [f"rows is viewed as tiles of {sizes[dim]}" for dim in facts.m if dim in sizes]
            keys = [
                f"keys is viewed as tiles of {sizes[dim]}, the last one masked"
                for dim in facts.k2
                if dim in sizes
            ]
            return f"the unknown number of {', that of '.join([*keys, *rows])}"

        return context.replace_attention(module, replace)
