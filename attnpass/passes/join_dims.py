"""attn-join-dims: rows, keys and head dims stay one dim each where operands are views of more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..attention import AttentionFacts

_VIEWS = ("tensor.collapse_shape", "tensor.expand_shape")


@dataclass(frozen=True)
class JoinDims(Pass):
    """Keeps attention's rows, keys and head dims one dim each where operands are views of more.

    IREE 3.13 pushes such views through attention, whose keys then are two dims: no configuration
    fits, and with its own attention takes 10 to 20 times as long on a CPU. What is viewed goes
    behind a compute barrier, which views do not pass:

    - a mask that is computed over more dims than rows by keys, as a bias by relative position in
      an image is (SAM): a sum over (row, column, key row, key column). It is in memory in any
      case. Repeats of a mask are left alone: IREE folds those into attention;
    - K and V whose keys or head dim join dims that a transpose has brought together, as those of
      a paged cache do: pages by positions in a page, with the heads between them in memory.
      Dims that lie side by side in memory are left alone: IREE joins those again.
    """

    name: ClassVar[str] = "attn-join-dims"
    summary: ClassVar[str] = "rows, keys and head dims stay one dim each where IREE would cut them"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find
        from ..ir import Builder
        from ..iree.barrier import compute_barrier

        changed = False
        with module.context:
            for facts in find(module):
                reasons = _reasons(facts)
                for operand, reason in reasons.items():
                    barrier = compute_barrier(Builder(facts.op), facts.value(operand))
                    facts.op.operands[facts.index(operand)] = barrier
                    context.report.note(f"{facts.kind} at {facts.place}: {reason}")
                changed |= bool(reasons)
        return changed


def _reasons(facts: AttentionFacts) -> dict[str, str]:
    """The operands to put in memory, each with what to tell about it."""
    found: dict[str, str] = {}
    if _is_made_over_more(facts):
        found["mask"] = (
            "its mask is made over several dims of rows or keys, and put in memory before it, so "
            "that they stay one dim each"
        )
    for operand in ("key", "value"):
        if _joins_strangers(facts, operand):
            found[operand] = (
                f"its {operand} is a view that joins dims lying apart in memory to its keys or "
                "head dim, and put in memory in its own order before it, so that they "
                "stay one dim each"
            )
    return found


def _joins_strangers(facts: AttentionFacts, operand: str) -> bool:
    """Whether keys or a head dim of the operand are a view of dims that a transpose below has
    brought together."""
    from ..ir import defining_op, sizes_of
    from ..raising.axes import Axes, source_of

    axes = Axes()
    value = facts.value(operand)
    dims = tuple(axes.new(size) for size in sizes_of(value))
    wanted = [
        axis
        for loop, (axis,) in (
            (loop, dim) for loop, dim in zip(facts.map_of(operand), dims, strict=True) if dim
        )
        if loop in (*facts.k1, *facts.k2, *facts.n)
    ]
    while (op := defining_op(value)) is not None:
        below = source_of(op, dims, axes)
        if below is None:
            break
        value, dims = below
    order = [axis for dim in axes.dims(dims) for axis in dim]
    return any(not _side_by_side(axes.now([axis]), order) for axis in wanted)


def _side_by_side(pieces: tuple[int, ...], order: list[int]) -> bool:
    if not {*pieces} <= {*order}:
        return True
    start = order.index(pieces[0])
    return order[start : start + len(pieces)] == list(pieces)


def _is_made_over_more(facts: AttentionFacts) -> bool:
    """Whether what computes the mask has its rows or keys in several dims."""
    from ..ir import defining_op, ranked_shape
    from ..producers.broadcast import repeated_value

    if not facts.has_mask or not {*facts.map_of("mask")[-2:]} & {*facts.m, *facts.k2}:
        return False
    source = facts.value("mask")
    while (op := defining_op(source)) is not None and op.name in _VIEWS:
        source = op.operands[0]
    if op is None or op.name != "linalg.generic" or repeated_value(op) is not None:
        return False
    wanted = [facts.sizes[dim] for dim in facts.map_of("mask") if dim in (*facts.m, *facts.k2)]
    wanted = [size or 0 for size in wanted if size != 1]
    made = [size or 0 for size in ranked_shape(source) if size != 1]
    # The innermost dims that together are as large as rows by keys; a size of 0 is unknown.
    while made and math.prod(made[1:]) >= math.prod(wanted):
        made.pop(0)
    return 0 < math.prod(made) == math.prod(wanted) and made != wanted
