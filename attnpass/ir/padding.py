"""Tensors with elements behind their own, in the form that IREE's GPU kernels write fastest.

`tensor.pad` costs little where an op with loops makes the value: IREE has it write into the padded
buffer. Of any other value, an argument or a view of a projection with its heads apart, IREE 3.13
makes a fill and a kernel that moves one element a thread: 0.4 TB/s on an H200. A loop that selects
is one kernel, and its threads move several elements at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from .builder import Builder
from .queries import defining_op
from .sizes import Size, sizes_of
from .types import element_bytes, element_type

# What a thread moves at most.
_THREAD_BYTES = 16


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


def pad_behind(
    build: Builder, value: ir.Value, dim: int, more: int, filler: float, in_place: bool
) -> ir.Value:
    """`value` with `more` elements, all `filler`, behind those of a dim of known size; in a kernel
    of its own if not `in_place`, where threads have elements of a whole piece."""
    sizes = list(sizes_of(value))
    old = _known(sizes[dim])
    innermost = dim == len(sizes) - 1
    piece = math.gcd(old, more, _THREAD_BYTES // element_bytes(value)) if innermost else 1
    number = build.constant_number(filler, element_type(value))
    if (innermost and piece == 1) or in_place:
        sizes[dim] = old + more
        return padded_to(build, value, sizes, number, in_place=True)
    parts = [[size] for size in sizes]
    groups = [[other] for other in range(len(sizes))]
    if innermost:
        # Threads read and write within a piece.
        parts[dim] = [old // piece, piece]
        groups[dim].append(len(sizes))
    narrow = build.split_dims(value, parts)
    wanted = list(sizes_of(narrow))
    wanted[dim] = (old + more) // piece
    return build.collapse(padded_to(build, narrow, wanted, number, in_place=False), groups)
