"""attn-gather-weights: weights that a few rows take by index are rows of a gather."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import (
    INDEX_OPS,
    Builder,
    copy_steps,
    defining_op,
    element_type,
    index_dim,
    product,
    sizes_of,
    users,
)
from ..ir.bodies import needed_ops, read_elementwise
from ..ir.contractions import FEW_ROWS, read_contraction
from ..ir.views import WHOLE
from ..passes import OpPass

_EXTRACT, _GATHER = "tensor.extract", "iree_linalg_ext.gather"


class GatherWeights(OpPass):
    """Makes of a loop that takes matrices by index, `weights[experts]`, which products of up to 8
    rows read, an `iree_linalg_ext.gather` of them.

    On GPUs IREE 3.13 reads either in the product's kernel. Of the loop it reads element by element,
    as if neighbours might be anywhere; of the gather 16 bytes at once, where they lie side by side.
    On CPUs it copies what the loop takes into memory (2 rows, 4 experts of 16 of 1024 x 512 in f32
    and back, one thread of a Zen 3: 6.6 -> 1.3 ms).
    """

    name = "attn-gather-weights"
    summary = "weights taken by index are read in vectors"
    backends = ("cuda", "rocm", "llvm-cpu")
    what = "fitted"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == "linalg.generic" and len(op.operands) == 2 and len(op.results) == 1

    def change(self, op: ir.Operation) -> str:
        taken = _taken(op)
        if taken is None or not _is_for_few_rows(op.results[0]):
            return ""
        build, (source, indices) = Builder(op), taken
        sizes, long = sizes_of(op.results[0]), sizes_of(source)[1:]
        depth = len(sizes) - len(long)
        # Without dims of size one, whose reshapes would keep it from the product's kernel.
        units = [size == 1 for size in sizes[:depth]]
        kept = [[] if unit else [size] for unit, size in zip(units, sizes, strict=False)]
        if all(units):
            kept = [*kept[:-1], [1]]
        rows = [size for group in kept for size in group]
        init = build.empty([*rows, *long], element_type(source))
        # One thread of the gather's kernel would compute them, and for itself.
        stored = compute_barrier(build, build.split_dims(indices(build), kept))
        operands = [source, stored, init]
        rows = {"dimension_map": build.integers(0)}
        made = build.create(_GATHER, [init.type], operands, rows).results[0]
        counts = [*map(len, kept), *[1] * len(long)]
        op.results[0].replace_all_uses_with(build.join_dims(made, counts, sizes))
        return "takes its weights as rows of a gather, which are read in vectors"


def _taken(op: ir.Operation) -> tuple[ir.Value, Callable[[Builder], ir.Value]] | None:
    """The tensor of which a loop takes all that has an index along the first dim, and what makes
    the indices, a dim for each of the result's in front; None for any other loop."""
    made = read_elementwise(op)
    extract = None if made is None else defining_op(made.scalar, _EXTRACT)
    if made is None or extract is None:
        return None
    source, first, *others = extract.operands
    given, sizes = op.operands[0], sizes_of(op.results[0])
    depth = len(sizes_of(given))
    alike = all(
        dim == place or (dim is None and size == 1)
        for place, (dim, size) in enumerate(zip(made.reads[0].dims, sizes_of(given), strict=True))
    )
    if not alike or made.dim_of != {loop: loop for loop in range(len(sizes))}:
        return None
    steps = needed_ops(op, [first])
    if any(step.name in INDEX_OPS or not step.name.startswith("arith.") for step in steps):
        return None
    places = (defining_op(other, *INDEX_OPS) for other in others)
    counted = [index_dim(place) for place in places if place is not None]
    if not others or counted != [*range(depth, depth + len(others))]:
        return None
    if sizes[depth:] != sizes_of(source)[1:] or sizes[:depth] != sizes_of(given):
        return None

    def indices(build: Builder) -> ir.Value:
        kind = element_type(given)

        def body(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
            names = {made.reads[0].argument: scalars[0]}
            copied = copy_steps(steps, inner, names, inner.loop_index)
            return inner.convert("arith.index_cast", copied[first], kind)

        return build.computed(sizes_of(given), kind, body, given)

    return source, indices


def _is_for_few_rows(value: ir.Value) -> bool:
    """Whether all readers of a tensor, behind views of all of it, are products of few rows."""
    readers = users(value)
    return bool(readers) and all(
        _is_for_few_rows(reader.results[0])
        if reader.name in WHOLE
        else _has_few_rows(value, reader)
        for reader in readers
    )


def _has_few_rows(value: ir.Value, reader: ir.Operation) -> bool:
    """Whether a reader is a product of few rows with a tensor."""
    facts = read_contraction(reader)
    number = list(reader.operands).index(value)
    if facts is None or number > 1:
        return False
    own = (facts.left, facts.right)[number]
    rows = product([facts.sizes[loop] for loop in facts.kept if loop not in own])
    return isinstance(rows, int) and rows <= FEW_ROWS
