"""attn-cut-groups: dims that are joined and cut another way are cut first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir

from ..ir import (
    Builder,
    Size,
    copy_generic,
    defining_op,
    erase_unused,
    index_array,
    index_ops,
    is_elementwise,
    iterator_kinds,
    maps,
    next_op,
    reduces,
    sizes_of,
    users,
)
from ..passes import OpPass

# The sizes that a dim is cut into.
_Cut = list[Size]


class CutGroups(OpPass):
    """Cuts dims before they are joined, and all ops between, where a `tensor.collapse_shape` and a
    `tensor.expand_shape` beside a sum join and cut known sizes, for CUDA.

    A group norm joins 320 channels of 64 x 64, cuts 32 groups of 40960 out of that, and joins and
    cuts these again for weights of channels. IREE 3.13 has a kernel in front of the one, one behind
    the other, and tensors in f32 between them. Here channels are 32 groups of 10, which IREE makes
    of all ops around, and sums are over 10 x 64 x 64.
    """

    name = "attn-cut-groups"
    summary = "NVIDIA GPUs: group norms over dims of their channels and pixels"
    why = "IREE fuses nothing across dims that are joined and cut another way"
    ops = ("tensor.expand_shape",)
    backends = ("cuda",)
    what = "fitted"

    def change(self, op: ir.Operation) -> str:
        found = _find(op)
        if found is None:
            return ""
        cuts, joins = found
        build = Builder(op)
        join = defining_op(op.operands[0])
        assert join is not None, "it has been read before"
        cut = build.split_dims(join.operands[0], cuts)
        whole = build.join_dims(cut, [len(sizes) for sizes in joins], sizes_of(op.results[0]))
        op.results[0].replace_all_uses_with(whole)
        _cut_readers(whole, {dim: cut for dim, cut in enumerate(joins) if len(cut) > 1})
        return "its dims are cut before they are joined"


def _find(op: ir.Operation) -> tuple[list[_Cut], list[_Cut]] | None:
    """How the dims in front of a join are cut, and which of those the dims behind the cut join;
    None where it is left:

    1. where it is no join and cut, or sizes are not known to be multiples of one another;
    2. where no sum of what an elementwise op makes reads it, nor dims have been cut in front."""
    join, result = defining_op(op.operands[0], "tensor.collapse_shape"), op.results[0]
    if join is None:
        return None
    before, after = sizes_of(join.operands[0]), sizes_of(result)
    groups = [index_array(one.attributes["reassociation"]) for one in (join, op)]
    cuts: list[_Cut] = []
    joins: list[_Cut] = []
    for left, right in zip(*groups, strict=True):
        parts = _parts([before[dim] for dim in left], [after[dim] for dim in right])
        if parts is None:
            return None
        cuts += parts[0]
        joins += parts[1]
    if all(len(sizes) < 2 for sizes in (*cuts, *joins)):
        return None
    maker = defining_op(join.operands[0])
    is_cut = maker is not None and maker.name == join.name
    # Of sums that read an argument themselves IREE joins dims again, and not those of other ops.
    is_made = maker is not None and is_elementwise(maker)
    is_summed = is_made and any(_sums(user) for user in users(result))
    return (cuts, joins) if is_cut or is_summed else None


def _parts(before: Sequence[Size], after: Sequence[Size]) -> tuple[list[_Cut], list[_Cut]] | None:
    """The sizes that dims `before` and dims `after` both are joined of, by dim, none of a dim of
    size one; None where they are not known to be multiples."""
    sides: list[tuple[list[Size], list[_Cut]]] = [(list(s), []) for s in (before, after)]
    for left, parts in sides:
        parts += [[] for _ in left]
    while any(left for left, _ in sides):
        for left, _ in sides:
            while left and left[-1] == 1:
                left.pop()
        ends = [left[-1] for left, _ in sides if left]
        if not ends:
            break
        size = ends[0]
        if ends[1:] != [size]:
            known = [end for end in ends if isinstance(end, int)]
            size = min(known, default=0)
            if len(known) < 2 or not size or max(known) % size:
                return None
        for left, parts in sides:
            parts[len(left) - 1].insert(0, size)
            end = left.pop()
            if end != size:
                assert isinstance(end, int) and isinstance(size, int)
                left.append(end // size)
    return sides[0][1], sides[1][1]


def _sums(op: ir.Operation) -> bool:
    return op.name == "linalg.generic" and reduces(op)


def _cut_readers(value: ir.Value, cuts: Mapping[int, _Cut]) -> None:
    """Has the ops of a block that read a value, and those behind them, loops over the parts of its
    dims."""
    known = {value: cuts}
    maker = defining_op(value)
    assert maker is not None and maker.block is not None, "it has just been made"
    for view in list(maker.block):
        op = view.operation
        read = [(at, known[one]) for at, one in enumerate(op.operands) if one in known]
        if not read or op.name != "linalg.generic" or len(op.results) != 1 or index_ops(op):
            continue
        positions = maps.positions(op)
        if positions is None:
            continue
        loops = {positions[at][dim]: cut for at, each in read for dim, cut in each.items()}
        own = {dim: loops[loop] for dim, loop in enumerate(positions[-1]) if loop in loops}
        result, sizes = op.results[0], sizes_of(op.results[0])
        new = _cut_loops(op, positions, loops)
        counts = [len(own.get(dim, [0])) for dim in range(len(sizes))]
        whole = Builder(next_op(new)).join_dims(new.results[0], counts, sizes)
        result.replace_all_uses_with(whole)
        erase_unused([op])
        if own:
            known[whole] = own


def _cut_loops(
    op: ir.Operation, positions: Sequence[maps.Positions], cuts: Mapping[int | None, _Cut]
) -> ir.Operation:
    """A generic again, over the parts of some of its loops."""
    kinds, build = iterator_kinds(op), Builder(op)
    places: list[list[int]] = []
    parts: list[str] = []
    for loop, kind in enumerate(kinds):
        count = len(cuts.get(loop, [0]))
        places.append([*range(len(parts), len(parts) + count)])
        parts += [kind] * count
    reads: list[tuple[ir.Value, maps.Positions]] = []
    for value, dims in zip(op.operands, positions, strict=True):
        sizes = sizes_of(value)
        split = [cuts.get(loop, [size]) for loop, size in zip(dims, sizes, strict=True)]
        own = [at for loop in dims for at in ([None] if loop is None else places[loop])]
        reads.append((build.split_dims(value, split), tuple(own)))
    return copy_generic(op, reads, parts, build)
