"""attn-slice-heads: a slice of a packed tensor takes whole heads, as they lie in it: not columns to
be cut later, nor a part of all heads transposed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import Builder, Size, defining_op, maps, ranked_shape, readers_behind, sizes_of
from ..ir.attributes import index_array
from ..ir.contractions import is_contraction
from ..ir.views import REORDERS, SLICE, DimRun, view_of
from ..passes import OpPass

_MOVES = (*REORDERS, SLICE)


class SliceHeads(OpPass):
    """Cuts a packed tensor's columns into heads before it slices some of them, where ops read these
    that compute each element for itself, as rotary embedding does.

    Models pack what Q, K and V are projected by (Phi-3, InternLM, ChatGLM): of its result each is
    some columns, cut into heads. IREE 3.13 reads a slice where it stands, but copies one that is
    reshaped. Others transpose all three and take each then (Nomic-BERT, Flux, HunyuanVideo): IREE
    writes all of them transposed where it would read one in another order. So each is transposed
    behind its slice.
    """

    name = "attn-slice-heads"
    summary = "parts of a packed tensor are sliced as heads, which needs no copy"
    why = "IREE copies slices that are reshaped"
    ops = ("tensor.expand_shape", SLICE)
    what = "fitted"
    kind = "slice"

    def change(self, op: ir.Operation) -> str:
        if op.name == SLICE:
            return "is transposed alone, by what reads it" if _slice_before_transpose(op) else ""
        slice_op = defining_op(op.operands[0], SLICE)
        cut = None if slice_op is None else _cut(slice_op, op)
        if (
            slice_op is None
            or cut is None
            or not all(map(_reads_in_place, _readers(op.results[0])))
        ):
            return ""
        _rewrite(slice_op, op, cut)
        return "takes whole heads of what it is a part of, and is read where they stand"


@dataclass(frozen=True)
class _Heads:
    """Along dim `dim` of a packed tensor, whose columns become those of `group`: how many heads
    there are, and the first that is taken."""

    dim: int
    group: tuple[int, ...]
    count: int
    first: int


def _cut(slice_op: ir.Operation, op: ir.Operation) -> _Heads | None:
    """How the slice takes whole heads; None if it does not, or takes parts of several dims."""
    view = view_of(slice_op)
    same = view is not None and len(ranked_shape(view.source)) == len(ranked_shape(view.result))
    if view is None or not same or any(run.step != 1 for run in view.runs):
        return None
    source, result = sizes_of(view.source), sizes_of(view.result)
    parts = [run for run in view.runs if not _is_whole(run, source, result)]
    if len(parts) != 1 or parts[0].start is None:
        return None
    (dim,), start = parts[0].source, parts[0].start
    group = index_array(op.attributes["reassociation"])[dim]
    inner = [ranked_shape(op.results[0])[each] for each in group[1:]]
    width = math.prod(size or 0 for size in inner)
    columns = source[dim]
    if len(group) < 2 or not width or not isinstance(columns, int):
        return None
    if start % width or columns % width:
        return None
    return _Heads(dim, tuple(group), columns // width, start // width)


def _is_whole(run: DimRun, source: Sequence[Size], result: Sequence[Size]) -> bool:
    """Whether a slice has all of a dim."""
    (dim,), (place,) = run.source, run.result
    return run.start == 0 and source[dim] == result[place]


def _readers(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops that read a value, behind transposes, reshapes and slices of it."""
    return readers_behind(value, lambda op: op.name in _MOVES)


def _reads_in_place(op: ir.Operation) -> bool:
    """Whether an op's kernel reads a slice where it stands: one that computes elements, or sums up
    rows of them, as norms do."""
    is_generic = op.name == "linalg.generic" and not is_contraction(op)
    return is_generic or op.name == "tensor.concat"


def _slice_before_transpose(op: ir.Operation) -> bool:
    """Transposes a slice behind it, not what it is a part of; whether it does."""
    transpose, view = defining_op(op.operands[0], "linalg.transpose"), view_of(op)
    if transpose is None or view is None:
        return False
    source, result = sizes_of(view.source), sizes_of(view.result)
    if len(source) != len(result) or any(run.step != 1 or run.start is None for run in view.runs):
        return False
    # Not of halves of heads (rotary embedding): what makes both can write them transposed.
    if not any(size == 1 != of for size, of in zip(result, source, strict=True)):
        return False
    if not all(map(_reads_in_place, _readers(op.results[0]))):
        return False
    turned = maps.inverse([*ir.DenseI64ArrayAttr(transpose.attributes["permutation"])])
    starts = {run.source[0]: run.start or 0 for run in view.runs}
    build = Builder(op)
    cut = build.extract_slice(
        transpose.operands[0], [starts[dim] for dim in turned], [result[dim] for dim in turned]
    )
    op.results[0].replace_all_uses_with(build.transpose(cut, maps.inverse(turned)))
    return True


def _rewrite(slice_op: ir.Operation, op: ir.Operation, heads: _Heads) -> None:
    build, packed = Builder(op), slice_op.operands[0]
    wanted = sizes_of(op.results[0])
    first = heads.group[0]
    whole = [*wanted]
    whole[first] = heads.count
    groups = [list(group) for group in index_array(op.attributes["reassociation"])]
    offsets = [0] * len(wanted)
    offsets[first] = heads.first
    cut = build.extract_slice(build.expand(packed, groups, whole), offsets, wanted)
    op.results[0].replace_all_uses_with(cut)
