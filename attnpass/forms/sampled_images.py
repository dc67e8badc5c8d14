"""Ops that take pixels of an image by index, as `interpolate` does, channel by channel."""

from __future__ import annotations

from collections.abc import Mapping

from iree.compiler import ir

from ..analysis.trace import Tracer
from ..analysis.values import Linear
from ..ir import (
    Builder,
    collect,
    element_type,
    is_elementwise,
    iterator_kinds,
    maps,
    ranked_shape,
    sizes_of,
)
from ..ir.bodies import body_of, body_ops, depending, index_dim, index_ops, read_elementwise
from ..ir.regions import copy_generic
from ..ir.rewrite import erase_dead

_EXTRACT = "tensor.extract"


def sampled_image(op: ir.Operation) -> ir.Value | None:
    """The image (batch, channels, ...) of which `op` takes pixels by index, for each channel of
    its result those of that channel, at places that are the same for all; else None."""
    taken = [inner for inner in body_ops(op) if inner.name == _EXTRACT]
    made, shape = read_elementwise(op), ranked_shape(op.results[0])
    if made is None or len(taken) != 1 or not is_elementwise(op):
        return None
    (extract,) = taken
    image, *places = extract.operands
    if len(places) != len(shape) or ranked_shape(image)[:2] != shape[:2] or None in shape[:2]:
        return None
    positions = zip(body_of(op).arguments, maps.positions(op) or (), strict=False)
    varying = [argument for argument, dims in positions if 1 in dims]
    named = [one.results[0] for one in index_ops(op) if index_dim(one) == 1]
    changing = depending(op, [*varying, *named])
    if any(place in changing for place in places[2:]):
        return None
    variables = [Linear(0, ((dim, 1),)) for dim in range(len(shape))]
    tracer = Tracer(dict(enumerate(shape)))
    scope = tracer.scope(made, variables)
    own = [Linear(0) if size == 1 else one for size, one in zip(shape, variables, strict=True)]
    found = [tracer.scalar(place, scope) for place in places[:2]]
    return image if found == own[:2] else None


def sample_last(
    op: ir.Operation, image: ir.Value, loops: Mapping[int | None, int | None]
) -> ir.Value:
    """Takes the pixels that `op` takes of `image`, whose channels are last, in the loops that the
    op's are now: all channels of a pixel lie side by side."""
    build, (result,) = Builder(op), op.results
    sizes = sizes_of(result)
    order = sorted(range(len(sizes)), key=lambda dim: loops[dim] or 0)
    *read, written = maps.positions(op) or ((),)
    reads = [
        (value, tuple(loops[dim] for dim in dims))
        for value, dims in zip(op.operands, read, strict=False)
    ]
    init = build.empty([sizes[dim] for dim in order], element_type(result))
    of_loop = {old: new for old, new in loops.items() if old is not None and new is not None}
    made = copy_generic(
        op, [*reads, (init, written)], iterator_kinds(op), build, index_dims=of_loop
    )
    (extract,) = collect(made, lambda inner: inner.name == _EXTRACT)
    inner = Builder(extract)
    _, _, _, *pixel = extract.operands
    first, last = inner.loop_index(0), inner.loop_index(len(sizes) - 1)
    extract.results[0].replace_all_uses_with(inner.extract(image, [first, *pixel, last]))
    erase_dead([extract])
    return made.results[0]
