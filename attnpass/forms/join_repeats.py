"""attn-join-repeats: what is repeated along dims that are joined behind it repeats along one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from ..ir import Builder, defining_op, element_type, product, sizes_of, users
from ..ir.contractions import read_contraction
from ..ir.views import View, repeat_of, view_of
from ..machines import is_for_cpus
from ..machines.cpu.product_tiles import MOST_ROWS
from ..passes import OpPass


class JoinRepeats(OpPass):
    """Repeats a factor of products along as many dims as these have, where it was repeated along
    more, which a `tensor.collapse_shape` joined.

    So importers write a linear layer on rows of more than three dims, as images have (Swin, SAM,
    ConvNeXt). IREE 3.13 fuses the repeat of a factor into its product, but no reshape of one: the
    weights are copied once for each row of an image, 448 times for 16 images of 28 rows.

    Dims that are joined with one of the tensor's own stay: heads that share keys are such.

    CPUs: matrices of few rows read what they share as it lies, too. IREE makes copies of up to a
    megabyte when a program is loaded, of which each is read for its few rows (an LSTM's input
    product, 16 steps of 2 rows, one thread of a Zen 3: 42 -> 30 us).
    """

    name = "attn-join-repeats"
    summary = "weights that are repeated along several dims are read as they lie"
    why = "IREE copies weights that are repeated along dims it joins"
    what = "fitted"
    kind = "repeat"

    def wanted(self, op: ir.Operation) -> bool:
        if op.name == "linalg.batch_matmul":
            return True
        if op.name != "tensor.collapse_shape":
            return False
        readers = users(op.results[0])
        return bool(readers) and all(read_contraction(reader) is not None for reader in readers)

    def change(self, op: ir.Operation) -> str:
        if op.name == "linalg.batch_matmul":
            return _read_once(op)
        repeat, joined = repeat_of(defining_op(op.operands[0])), view_of(op)
        if repeat is None or joined is None:
            return ""
        dims = _dims(repeat, joined)
        if dims is None:
            return ""
        result, build = op.results[0], Builder(op)
        sizes = sizes_of(joined.source)
        shape = [product([sizes[dim] for dim in run.source]) for run in joined.runs]
        kind = element_type(result)
        made = build.computed(shape, kind, lambda _, x: x[0], (repeat.source, dims))
        result.replace_all_uses_with(made)
        return "repeats along one dim what was repeated along several that are joined"


def _read_once(op: ir.Operation) -> str:
    """Has a product of matrices of few rows read the one that all share without a repeat."""
    left, right, init = op.operands
    facts, repeat = read_contraction(op), repeat_of(defining_op(right))
    dims = None if repeat is None else repeat.projection
    if facts is None or repeat is None or dims is None:
        return ""
    shared = tuple(None if dim is None else facts.right[dim] for dim in dims)
    if {*facts.right} - {*shared} != {*facts.batch} or None in shared or not facts.batch:
        return ""
    sizes = [facts.sizes[loop] for loop in facts.m]
    rows = math.prod(size for size in sizes if isinstance(size, int))
    if rows > MOST_ROWS or not all(isinstance(size, int) for size in sizes):
        return ""
    if not all(isinstance(element_type(value), ir.FloatType) for value in op.operands):
        return ""
    if not is_for_cpus(op):
        return ""

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> list[ir.Value]:
        left, right, total = scalars
        wide = (inner.cast_float(one, total.type) for one in (left, right))
        return [inner.addf(total, inner.mulf(*wide))]

    positions = [facts.left, shared, facts.result]
    (made,) = Builder(op).generic([left, repeat.source], [init], positions, body)
    op.results[0].replace_all_uses_with(made)
    return "reads what matrices of few rows share as it lies"


def _dims(repeat: View, joined: View) -> tuple[int | None, ...] | None:
    """For each dim of what is repeated the dim of the joined result that runs along it (None: one
    element is read); None where it is joined with another, or where none are joined."""
    dims = repeat.projection
    into = {dim: run for run in joined.runs for dim in run.source}
    if dims is None or not all(len(run.result) == 1 for run in joined.runs):
        return None
    alone = all(len(into[dim].source) == 1 for dim in dims if dim is not None)
    if not alone or not any(len(run.source) > 1 for run in joined.runs):
        return None
    return tuple(None if dim is None else into[dim].result[0] for dim in dims)
