"""attn-join-dims: rows, keys and head dims stay one dim each where operands are views of more."""

from __future__ import annotations

import math

from iree.compiler import ir

from ..attention.barrier import store_operand
from ..attention.facts import AttentionFacts, find
from ..ir import defining_op, maps, ranked_shape, sizes_of
from ..ir.bodies import read_elementwise
from ..ir.views import RESHAPES, below_views, repeat_of
from ..layout.axes import Axes, source_of
from ..passes import Pass, PassContext
from .repeated_dims import repeats_to_keep
from .same_operands import tell_operands_apart

# An op and the number of one of its operands.
Use = tuple["ir.Operation", int]


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
      Where they are dequantised behind that view, they go behind a barrier before it. Dims that
      lie side by side in memory are left alone: IREE joins those again;
    - Q, K and V that repeat keys, what Q and K are summed over, a part of rows or a head dim, or
      what no other operand has: IREE's numbers are wrong, it crashes, or has no kernel. The groups
      of grouped queries stay repeats.

    Q, K and V that are one value or equal views of it, but for transposes that come last, read it
    behind barriers of their own: else IREE moves a view into attention for one of them and gives
    it to all ("Rank Mismatch").
    """

    name = "attn-join-dims"
    summary = "rows, keys and head dims stay one dim each where IREE would cut them"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        changed = False
        for facts in find(module):
            reasons = _reasons(facts)
            for (reader, number), reason in reasons:
                store_operand(reader, number)
                context.report.record(facts.op, "repaired", reason)
            apart = tell_operands_apart(facts)
            if apart:
                context.report.record(
                    facts.op,
                    "repaired",
                    f"its {' and '.join(apart)} is the same view as another operand, and told "
                    "apart from it",
                )
            changed |= bool(reasons or apart)
        return changed


def _reasons(facts: AttentionFacts) -> list[tuple[Use, str]]:
    """The uses to put in memory before their readers, each with what to tell about it."""
    found: list[tuple[Use, str]] = []
    if _is_made_over_more(facts):
        why = (
            "its mask is made over several dims of rows or keys, and put in memory before it, so "
            "that they stay one dim each"
        )
        found.append(((facts.op, facts.index("mask")), why))
    for operand in ("key", "value"):
        use = _joins_strangers(facts, operand)
        if use is not None:
            why = (
                f"its {operand} is a view that joins dims lying apart in memory to its keys or "
                "head dim, and put in memory in its own order before it, so that they stay one "
                "dim each"
            )
            found.append((use, why))
    for operand in repeats_to_keep(facts):
        use = facts.op, facts.index(operand)
        if use not in (other for other, _ in found):
            why = (
                f"its {operand} repeats keys, a part of a dim, or what no other operand has, and "
                "is put in memory before it"
            )
            found.append((use, why))
    return found


def _joins_strangers(facts: AttentionFacts, operand: str) -> Use | None:
    """The use of the operand, or of what it is computed of element by element, that joins dims
    which a transpose below has brought together to keys or a head dim; None where none does."""
    axes = Axes()
    use, value = (facts.op, facts.index(operand)), facts.value(operand)
    dims = tuple(axes.new(size) for size in sizes_of(value))
    tiled = {*facts.k1, *facts.k2, *facts.n}
    wanted = [
        axis
        for loop, dim in zip(facts.map_of(operand), dims, strict=True)
        for axis in dim
        if loop in tiled
    ]
    while (op := defining_op(value)) is not None:
        below = source_of(op, dims, axes)
        if below is None:
            number, inner = _element_by_element(op)
            if inner is None:
                break
            use, below = (op, number), (op.operands[number], tuple(dims[dim] for dim in inner))
        value, dims = below
        order = [axis for dim in axes.dims(dims) for axis in dim]
        cut = [parts for axis in wanted if {*(parts := axes.now([axis]))} <= {*order}]
        if not all(maps.are_neighbours(order, parts) for parts in cut):
            return use
    return None


def _element_by_element(op: ir.Operation) -> tuple[int, tuple[int, ...] | None]:
    """(number, dims) where op computes each element of one of that operand: dim d of the operand
    is dim dims[d] of the result. What else it reads is smaller: scales, zero points."""
    made = read_elementwise(op) if len(op.results) == 1 else None
    if made is None or len(made.dim_of) != len(ranked_shape(op.results[0])):
        return 0, None
    inputs = [read.dims for read in made.reads[:-1]]
    whole = [number for number, dims in enumerate(inputs) if {*dims} == {*made.dim_of.values()}]
    if len(whole) != 1:
        return 0, None
    return whole[0], tuple(dim for dim in inputs[whole[0]] if dim is not None)


def _is_made_over_more(facts: AttentionFacts) -> bool:
    """Whether what computes the mask has its rows or keys in several dims."""
    if not facts.has_mask or not {*facts.map_of("mask")[-2:]} & {*facts.m, *facts.k2}:
        return False
    source = below_views(facts.value("mask"), RESHAPES)
    op = defining_op(source, "linalg.generic")
    if op is None or repeat_of(op) is not None:
        return False
    wanted = [facts.sizes[dim] for dim in facts.map_of("mask") if dim in (*facts.m, *facts.k2)]
    wanted = [size or 0 for size in wanted if size != 1]
    made = [size or 0 for size in ranked_shape(source) if size != 1]
    # The innermost dims that together are as large as rows by keys; a size of 0 is unknown.
    while made and math.prod(made[1:]) >= math.prod(wanted):
        made.pop(0)
    return 0 < math.prod(made) == math.prod(wanted) and made != wanted
