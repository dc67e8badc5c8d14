"""attn-gather-indices: rows that a gather takes by one index each have no dim for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..passes import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir

_INDICES = 1


@dataclass(frozen=True)
class GatherIndices(Pass):
    """Drops the last dim, of size one, of indices that address one dim of a gather's source.

    The op means the same without it. With it, tiles of the gather in the kernel of what reads its
    result, such as attention, take wrong indices (IREE 3.13): other rows, or memory that is not
    the source's. Several indices a row are right.
    """

    name: ClassVar[str] = "attn-gather-indices"
    summary: ClassVar[str] = "gathers by one index a row have no dim of size one for it"
    mends: ClassVar[str] = "gathers fused with their readers take wrong rows"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..ir import Builder, collect, sizes_of

        with module.context:
            found = collect(module, _has_unit_dim, bodies=False)
            for op in found:
                indices = op.operands[_INDICES]
                rank = len(sizes_of(indices))
                groups = [*([dim] for dim in range(rank - 2)), [rank - 2, rank - 1]]
                op.operands[_INDICES] = Builder(op).collapse(indices, groups)
        return bool(found)


def _has_unit_dim(op: ir.Operation) -> bool:
    """Whether a gather's indices have a dim of size one beside those of its result."""
    from ..ir import is_ranked_tensor, sizes_of

    if op.name != "iree_linalg_ext.gather" or not len(op.results):
        return False
    source, indices = (op.operands[number] for number in (0, _INDICES))
    if not is_ranked_tensor(indices) or len(list(op.attributes["dimension_map"])) != 1:
        return False
    rows = len(sizes_of(op.results[0])) - (len(sizes_of(source)) - 1)
    return rows >= 1 and len(sizes_of(indices)) == rows + 1
