"""attn-tile-products: rows of a product that fill no kernel tile as whole ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class TileProducts(Pass):
    """Gives the f16 and bf16 products of a module with attention (its projections) tiles of a
    known size on NVIDIA GPUs where their rows are known at run time alone, or fill no tile.

    IREE 3.13 has tensor-core kernels for known sizes only: on an H200 1333 x 4096 x 4096 takes
    152 ms with rows of an unknown number (25 where the weights lie by columns) and 0.4 with a
    known one; in tiles 0.22. The factor with the rows is copied into whole tiles, whose results
    are cut off.
    """

    name: ClassVar[str] = "attn-tile-products"
    summary: ClassVar[str] = "NVIDIA GPUs: rows of a product that fill no kernel tile as whole ones"
    backends: ClassVar[tuple[str, ...]] = ("cuda",)

    target: str = option("", "target to decide for, instead of the module's own")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find_ops
        from ..ir import erase_dead, location_text
        from ..kernels.extern import kernels_in
        from ..product_tiles import TILE, find, view_as_tiles

        target = context.target_for(module, self.target)
        if target is None or target.backend != "cuda":
            return False
        with module.context:
            if not (find_ops(module) or kernels_in(module)):
                return False
            replaced: list[ir.Operation] = []
            for product in find(module):
                place, rows = location_text(product.op.location), product.length
                known = f"its {rows} rows are" if isinstance(rows, int) else ""
                context.report.note(
                    f"contraction at {place}: {known or 'the unknown number of its rows is'} "
                    f"viewed as tiles of {TILE}"
                )
                replaced.append(view_as_tiles(product))
            erase_dead(replaced)
        return bool(replaced)
