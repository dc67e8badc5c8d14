"""attn-store-crossed: sums read in two orders are stored."""

from __future__ import annotations

from iree.compiler import ir

from ..analysis.ways import Trail, Ways, differ, is_apart
from ..attention.barrier import barrier_behind, store_operand, without_views
from ..ir import collect, defining_op
from ..passes import Pass, PassContext


class StoreCrossed(Pass):
    """Puts a compute barrier in front of an operand of an op that hangs on what a reduction makes
    in another way than an operand before it: distances (`s[:, None] - s[None]`), a norm or softmax
    and its transpose, outer products of a projection. Ops between, elementwise ones and views,
    count with the way that they read.

    IREE 3.13 computes such an op in the reduction's kernel, tile by tile. Of its result it makes
    what lies on the diagonal of tiles, and leaves the rest as the memory was.
    """

    name = "attn-store-crossed"
    summary = "sums read in two orders are stored"
    mends = "distances, outer products and sums with a transpose are wrong"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        trail, changed = Trail(), False
        for op in collect(module, lambda op: len(op.results) > 0, bodies=False):
            if _store_crossed(op, trail):
                why = "what it reads in two orders is put in memory: IREE 3.13 makes a diagonal"
                context.report.record(op, "repaired", why)
                changed = True
            trail.add(op)
        return changed


def _store_crossed(op: ir.Operation, trail: Trail) -> bool:
    """Stores operands until those that are left hang on each reduction in one way."""
    reads = [] if is_apart(op) else trail.read(op)
    kept: list[tuple[int, Ways]] = []
    for number, ways in enumerate(reads):
        others = [other for other, before in kept if differ(ways, before)]
        if not others:
            kept.append((number, ways))
            continue
        (reader, place), (other, at) = (without_views(op, n) for n in (number, others[0]))
        value = reader.operands[place]
        maker = defining_op(value)
        if maker is not None and value == other.operands[at]:
            barrier_behind(maker)
            kept = [(n, w) for n, w in kept if n not in others]
        else:
            store_operand(reader, place)
    return len(kept) < len(reads)
