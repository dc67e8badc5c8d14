"""attn-join-repeats: what is repeated along dims that are joined behind it repeats along one."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, defining_op, element_type, product, sizes_of, users
from ..ir.contractions import read_contraction
from ..ir.views import View, repeat_of, view_of
from ..passes import OpPass


class JoinRepeats(OpPass):
    """Repeats a factor of products along as many dims as these have, where it was repeated along
    more, which a `tensor.collapse_shape` joined.

    So importers write a linear layer on rows of more than three dims, as images have (Swin, SAM,
    ConvNeXt). IREE 3.13 fuses the repeat of a factor into its product, but no reshape of one: the
    weights are copied once for each row of an image, 448 times for 16 images of 28 rows.

    Dims that are joined with one of the tensor's own stay: heads that share keys are such.
    """

    name = "attn-join-repeats"
    summary = "weights that are repeated along several dims are read as they lie"
    why = "IREE copies weights that are repeated along dims it joins"
    what = "fitted"
    kind = "repeat"

    def wanted(self, op: ir.Operation) -> bool:
        if op.name != "tensor.collapse_shape":
            return False
        readers = users(op.results[0])
        return bool(readers) and all(read_contraction(reader) is not None for reader in readers)

    def change(self, op: ir.Operation) -> str:
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
