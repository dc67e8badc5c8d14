"""Tensors with elements behind their own, in the form that IREE's GPU kernels write fastest.

`tensor.pad` costs little where an op with loops makes the value: IREE has it write into the padded
buffer. Of any other value, an argument or a view of a projection with its heads apart, IREE 3.13
makes a fill and a kernel that moves one element a thread: 0.4 TB/s on an H200. A loop that selects
is one kernel, and its threads move several elements at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from .builder import Builder
from .queries import defining_op
from .sizes import Size, sizes_of
from .types import element_type


def is_padded_in_place(value: ir.Value, dims: Sequence[int]) -> bool:
    """Whether IREE pads these dims without a kernel of its own: the op that makes the value writes
    it where it belongs, or it is one piece of memory, which is copied as such."""
    producer = defining_op(value)
    if producer is not None and producer.name.startswith("linalg."):
        return True
    return all(size == 1 for size in sizes_of(value)[: max(dims)])


def padded_to(
    build: Builder, value: ir.Value, wanted: Sequence[Size], filler: ir.Value, in_place: bool
) -> ir.Value:
    """`value` with dims of these sizes, `filler` behind those of its elements: by `tensor.pad`, or
    if not `in_place` by a loop. Dims that become larger are of known sizes."""
    sizes = sizes_of(value)
    larger = [dim for dim, size in enumerate(sizes) if size != wanted[dim]]
    if in_place:
        kind = build.tensor_type(wanted, element_type(value))
        more = [_known(wanted[dim]) - _known(sizes[dim]) for dim in larger]
        high = [more[larger.index(dim)] if dim in larger else 0 for dim in range(len(sizes))]
        return build.pad(value, kind, [0] * len(sizes), high, filler)

    def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        indices = [inner.loop_index(loop) for loop in range(len(sizes))]
        inside = []
        for dim in larger:
            last = inner.constant_index(_known(sizes[dim]) - 1)
            inside.append(inner.compare("ule", indices[dim], last))
            indices[dim] = inner.select(inside[-1], indices[dim], last)
        made = inner.extract(value, indices)
        for each in inside:
            made = inner.select(each, made, filler)
        return made

    return build.computed(wanted, element_type(value), body)


def _known(size: Size) -> int:
    assert isinstance(size, int), "only such dims become larger"
    return size
