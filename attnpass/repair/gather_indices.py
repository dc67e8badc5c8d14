"""attn-gather-indices: gathers take each row by one index, and have no dim for it."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..ir import Builder, indexed_dims, set_attribute, sizes_of
from ..passes import OpPass

_SOURCE, _INDICES = 0, 1


class GatherIndices(OpPass):
    """Makes several indices a row one, of the indexed dims as one, and drops the last dim, of
    size one, of indices that address one dim.

    The op means the same. What IREE 3.13 does with it is wrong:

    - Tiles of a gather by one index with a dim for it, in the kernel of what reads its result,
      such as attention, take wrong indices: other rows, or memory that is not the source's.
    - A gather by several has no program where there are more dims of rows than indices, which
      reshapes of its result, too, come to. Three in a cycle (`dimension_map = [2, 0, 1]`) address
      the wrong dims.

    Nothing checks the range of indices, before or after: they address the same memory.
    """

    name = "attn-gather-indices"
    summary = "gathers take each row by one index, with no dim of size one for it"
    mends = "gathers take wrong rows, or have no program"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == "iree_linalg_ext.gather" and bool(len(op.results))

    def change(self, op: ir.Operation) -> str:
        if indexed_dims(op) > 1:
            _join_indices(op, Builder(op))
            return "takes each row by one index now, of the indexed dims as one"
        if not _has_unit_dim(op):
            return ""
        _drop_dim(op, Builder(op))
        return "its indices have no dim of size one now"


def _has_unit_dim(op: ir.Operation) -> bool:
    """Whether the indices of a gather by one have a dim of size one beside those of its result."""
    source, indices = (op.operands[number] for number in (_SOURCE, _INDICES))
    rows = len(sizes_of(op.results[0])) - (len(sizes_of(source)) - 1)
    return rows >= 1 and len(sizes_of(indices)) == rows + 1


def _drop_dim(op: ir.Operation, build: Builder) -> None:
    indices = op.operands[_INDICES]
    rank = len(sizes_of(indices))
    groups = [*([dim] for dim in range(rank - 2)), [rank - 2, rank - 1]]
    op.operands[_INDICES] = build.collapse(indices, groups)


def _join_indices(op: ir.Operation, build: Builder) -> None:
    depth, source = indexed_dims(op), op.operands[_SOURCE]
    places = list(op.attributes["dimension_map"])
    full = sizes_of(source)[:depth]
    sizes = [size if isinstance(size, int) else build.size(size) for size in full]
    rest = range(depth, len(sizes_of(source)))
    op.operands[_INDICES] = _joined(op.operands[_INDICES], places, sizes, build)
    op.operands[_SOURCE] = build.collapse(source, [[*range(depth)], *([dim] for dim in rest)])
    set_attribute(op, "dimension_map", "array<i64: 0>")


def _joined(
    indices: ir.Value, places: Sequence[int], sizes: Sequence[int | ir.Value], build: Builder
) -> ir.Value:
    """The numbers of elements of the dims of these sizes; `places` has the dim of each index."""
    i64 = ir.IntegerType.get_signless(64, build.anchor.context)
    # A gather of one row has an index, too.
    rows = sizes_of(indices)[:-1]

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
        row = [inner.loop_index(dim) for dim in range(len(rows))]
        total = None
        for dim, size in enumerate(sizes):
            column = inner.constant_index(places.index(dim))
            at = inner.to_index(inner.extract(indices, [*row, column]))
            total = at if total is None else inner.multiply_add(total, size, at)
        return inner.convert("arith.index_cast", total, i64)

    return build.computed(rows or (1,), i64, body)
