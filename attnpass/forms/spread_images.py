"""attn-spread-images: convolutions over images that are spread over zeros read the images."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..analysis.linear_sizes import LinearSizes
from ..ir import (
    DYNAMIC,
    Builder,
    Refusal,
    Size,
    collect,
    defining_op,
    element_number,
    element_type,
    erase_dead,
    fill_builtin_region,
    ranked_shape,
    sizes_of,
)
from ..passes import Pass, PassContext
from . import windows

_GROUPED = "linalg.conv_2d_ngchw_gfchw"
_CONVOLUTIONS = (
    *("linalg.conv_1d_ncw_fcw", "linalg.conv_2d_nchw_fchw", "linalg.conv_3d_ncdhw_fcdhw"),
    *(_GROUPED, windows.DEPTHWISE),
)


class SpreadImages(Pass):
    """Has a convolution read the image itself where importers spread it over zeros: a transposed
    convolution with steps.

    With s - 1 zeros between pixels, and `low` zeros before them, the result at s q + r - d sums up
    the taps s - 1 - r, 2 s - 1 - r, ... over the pixels from q - c on, for one c and d: so there is
    a convolution with a s-th of the taps and s times the channels, one for each r, whose results
    are put between one another. Of s taps it has one, and is a product. Where s does not divide
    the taps, some results have one of 0 more: a pixel that is infinite or NaN makes NaN beside its
    window, too. Sizes need not be known, but which zeros there are; groups stay groups.

    IREE 3.13 writes the zeros and multiplies them, s times as many, in each dim (one thread of a
    Zen 3, f32, 128 to 64 channels, 8 taps by 4 steps: 14 ms, in place of 0.54).
    """

    name = "attn-spread-images"
    summary = "transposed convolutions read their image, not the zeros between its pixels"
    why = "IREE multiplies the zeros that importers put between pixels"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        replaced: list[ir.Operation] = []
        for op in collect(module, lambda op: op.name in _CONVOLUTIONS, bodies=False):
            found = _read(op)
            if isinstance(found, Refusal):
                context.report.record(op, "left", found)
            elif found is not None:
                taps = " x ".join(str(dim.taps) for dim in found.dims)
                context.report.record(op, "fitted", f"reads its image with {taps} taps a result")
                replaced += found.replaced()
        erase_dead(replaced)
        return bool(replaced)


@dataclass(frozen=True)
class _SpreadDim:
    """A dim of the image: its `pixels`, each `step` of the spread image, from `low` on, the taps of
    the `kernel`, and how many results there are for `more` than `step` a pixel."""

    pixels: Size
    step: int
    low: int
    kernel: int
    more: int

    @property
    def taps(self) -> int:
        """Of the kernel, that a result reads."""
        return math.ceil(self.kernel / self.step)

    @property
    def skipped(self) -> int:
        """Results in front of the first."""
        return (self.step - 1 - self.low) % self.step

    @property
    def before(self) -> int:
        """Zeros before the pixels."""
        return (self.skipped + self.low - self.step + 1) // self.step

    @property
    def places_more(self) -> int:
        """Places of a window over the image, more than pixels."""
        return math.ceil((self.skipped + self.more) / self.step)

    @property
    def behind(self) -> int:
        """Zeros behind the pixels; less than 0 where as many pixels are not read."""
        return self.places_more + self.taps - 1 - self.before

    @property
    def is_cut(self) -> bool:
        """Whether what is put together is more than the result."""
        return bool(self.skipped) or self.places_more * self.step != self.more


@dataclass(frozen=True)
class _Spread:
    """A convolution of an `image` that is spread over zeros along `dims`, behind `lead` dims, the
    last of which are its channels."""

    op: ir.Operation
    image: ir.Value
    dims: tuple[_SpreadDim, ...]
    lead: int

    @property
    def steps(self) -> list[int]:
        return [dim.step for dim in self.dims]

    def replaced(self) -> list[ir.Operation]:
        """Gives the readers what the image's own convolution makes; the ops that this replaces."""
        op, build = self.op, Builder(self.op)
        last = windows.rounding_behind(op) or op
        result, start = last.results[0], op.operands[2]
        kind = element_type(result)
        value, added = self._convolved(build)
        if added is None:
            # Rounded first: less is moved.
            value = self._put_together(build, _cast(build, value, kind))
        else:
            value = self._put_together(build, value)
            value = build.computed(
                sizes_of(start),
                kind,
                lambda inner, x: inner.cast_float(inner.addf(x[0], x[1]), kind),
                value,
                added,
            )
        result.replace_all_uses_with(build.cast(value, sizes_of(result)))
        return [op] if last == op else [last, op]

    def _convolved(self, build: Builder) -> tuple[ir.Value, ir.Value | None]:
        """The image's own convolution, channels of each r together, and what is to be added."""
        op, start = self.op, self.op.operands[2]
        kind, channels = element_type(start), ranked_shape(start)[self.lead - 1] or 0
        outer = list(sizes_of(start))[: self.lead - 1]
        parts = math.prod(self.steps)
        places = [_more(build, dim.pixels, dim.places_more) for dim in self.dims]
        init = build.empty([*outer, channels * parts, *places], kind)
        number, bias = element_number(start), windows.bias_of(start)
        added = None
        if bias is not None:
            spread = build.computed([parts, channels], kind, lambda _, x: x[0], (bias, (1,)))
            dims = [dim for dim in range(len(sizes_of(init))) if dim != self.lead - 1]
            begin = build.broadcast(build.collapse(spread, [[0, 1]]), init, dims)
        else:
            added = None if number is not None else start
            begin = build.fill(build.splat(number or 0, kind), init)
        names = ("strides", "dilations", "operandSegmentSizes")
        given = [self._padded(build), self._weights(build), begin]
        attributes = {name: op.attributes[name] for name in names}
        conv = build.create(op.name, [begin.type], given, attributes, regions=1)
        fill_builtin_region(conv)
        return conv.results[0], added

    def _put_together(self, build: Builder, value: ir.Value) -> ir.Value:
        """(.., r... f, q...) as (.., f, q r, ...)."""
        lead, rank, sizes = self.lead - 1, len(self.dims), sizes_of(value)
        parts = math.prod(self.steps)
        channels = (ranked_shape(value)[lead] or 0) // parts
        wanted = [
            *([size] for size in sizes[:lead]),
            [*self.steps, channels],
            *([size] for size in sizes[lead + 1 :]),
        ]
        if parts > 1:
            value = build.split_dims(value, wanted)
            pairs = [(lead + rank + 1 + dim, lead + dim) for dim in range(rank)]
            value = build.transpose(value, [*range(lead), lead + rank, *itertools.chain(*pairs)])
            groups = [[lead + 1 + 2 * dim, lead + 2 + 2 * dim] for dim in range(rank)]
            value = build.collapse(value, [*([dim] for dim in range(lead + 1)), *groups])
        if not any(dim.is_cut for dim in self.dims):
            return value
        offsets = [*[0] * (lead + 1), *(dim.skipped for dim in self.dims)]
        return build.extract_slice(value, offsets, list(sizes_of(self.op.operands[2])))

    def _padded(self, build: Builder) -> ir.Value:
        image, dims, front = self.image, self.dims, [0] * self.lead
        sizes = list(sizes_of(image))
        outer = sizes[: self.lead]
        if any(dim.behind < 0 for dim in dims):
            kept = [_more(build, dim.pixels, min(dim.behind, 0)) for dim in dims]
            image = build.extract_slice(image, [0] * len(sizes), [*outer, *kept])
        low = [*front, *(dim.before for dim in dims)]
        high = [*front, *(max(dim.behind, 0) for dim in dims)]
        if not any((*low, *high)):
            return image
        kind = element_type(image)
        whole = [_more(build, dim.pixels, dim.before + dim.behind) for dim in dims]
        padded = build.tensor_type([*outer, *whole], kind)
        return build.pad(image, padded, low, high, build.splat(0, kind))

    def _weights(self, build: Builder) -> ir.Value:
        """The weights (.., f, c, taps of the kernel) as (.., r... f, c, taps)."""
        weights, dims, rank = self.op.operands[1], self.dims, len(self.dims)
        if all(dim.step == 1 for dim in dims):
            return weights
        kind, sizes = element_type(weights), [size or 0 for size in ranked_shape(weights)]
        *groups, count, channels = sizes[: len(sizes) - rank]
        whole = [*sizes[: len(sizes) - rank], *(dim.taps * dim.step for dim in dims)]
        if whole != sizes:
            high = [a - b for a, b in zip(whole, sizes, strict=True)]
            padded = build.tensor_type(whole, kind)
            weights = build.pad(weights, padded, [0] * len(whole), high, build.splat(0, kind))
        lead = len(groups)

        def tap(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
            loops = [inner.loop_index(loop) for loop in range(lead + 2 + 2 * rank)]
            outer, rests, (of, channel), each = (
                loops[:lead],
                loops[lead : lead + rank],
                loops[lead + rank : lead + rank + 2],
                loops[lead + rank + 2 :],
            )
            places = []
            for step, rest, number in zip(self.steps, rests, each, strict=True):
                last = inner.multiply_add(number, step, inner.constant_index(step - 1))
                places.append(inner.subi(last, rest))
            return inner.extract(weights, [*outer, of, channel, *places])

        taps = [dim.taps for dim in dims]
        made = build.computed([*groups, *self.steps, count, channels, *taps], kind, tap)
        joined = list(range(lead, lead + rank + 1))
        rest = range(lead + rank + 1, lead + 2 * rank + 2)
        return build.collapse(made, [*([dim] for dim in range(lead)), joined, *([d] for d in rest)])


def _more(build: Builder, size: Size, more: int) -> Size:
    """A size and a number of more, or less."""
    if isinstance(size, int) or not more:
        return size + more if isinstance(size, int) else size
    name = "addi" if more > 0 else "subi"
    return build.size_op(name, size, abs(more))


def _cast(build: Builder, value: ir.Value, kind: ir.Type) -> ir.Value:
    if element_type(value) == kind:
        return value
    sizes = sizes_of(value)
    return build.computed(sizes, kind, lambda inner, x: inner.cast_float(x[0], kind), value)


def _read(op: ir.Operation) -> _Spread | Refusal | None:
    """A convolution of an image that is spread over zeros; None for others, and why one stays."""
    grouped = op.name == _GROUPED
    value = op.operands[0]
    cut = defining_op(value, "tensor.expand_shape") if grouped else None
    made = defining_op(value if cut is None else cut.operands[0], "tensor.insert_slice")
    if made is None:
        return None
    lows, steps = (list(made.attributes[f"static_{name}"]) for name in ("offsets", "strides"))
    if element_number(made.operands[1]) != 0 or len(lows) != len(ranked_shape(made.operands[0])):
        return None
    if op.name == windows.DEPTHWISE:
        return Refusal("each channel has taps of its own, and loops for these")
    rank = len(lows) - 2
    if any(lows[:2]) or {*steps[:2]} != {1} or DYNAMIC in (*lows, *steps):
        return Refusal("what is between its pixels is known only at run time")
    if grouped and not _splits_channels(op.operands[0], made):
        return Refusal("it has groups of more than channels")
    units = (ir.DenseIntElementsAttr(op.attributes[name]) for name in ("strides", "dilations"))
    if any({*unit} != {1} for unit in units):
        return Refusal("there are gaps between its taps, or it has steps of its own")
    weights = ranked_shape(op.operands[1])
    if None in weights or None in ranked_shape(op.results[0])[: -rank or None][1:]:
        return Refusal("the sizes of its weights are known only at run time")
    dims = _dims(op, made, rank, lows[2:], steps[2:])
    if isinstance(dims, Refusal):
        return dims
    image = made.operands[0]
    if grouped:
        batch, _, *pixels = sizes_of(image)
        groups = ranked_shape(op.operands[0])[1:3]
        image = Builder(op).split_dims(
            image, [[batch], [size or 0 for size in groups], *([size] for size in pixels)]
        )
    return _Spread(op, image, dims, 3 if grouped else 2)


def _splits_channels(value: ir.Value, made: ir.Operation) -> bool:
    """Whether groups of channels are all that the dims of a spread image are cut into."""
    shape, whole = ranked_shape(value), ranked_shape(made.results[0])
    return None not in shape[1:3] and [*shape[3:]] == [*whole[2:]] and shape[0] == whole[0]


def _dims(
    op: ir.Operation, made: ir.Operation, rank: int, lows: Sequence[int], steps: Sequence[int]
) -> tuple[_SpreadDim, ...] | Refusal:
    known, found = LinearSizes(), []
    pixels, spread = sizes_of(made.operands[0])[2:], sizes_of(made.results[0])[2:]
    kernel = [size or 0 for size in ranked_shape(op.operands[1])[-rank:]]
    for size, step, low, taps, whole in zip(pixels, steps, lows, kernel, spread, strict=True):
        rest = known.of(whole).plus(known.of(size), -step)
        if rest.terms:
            return Refusal("how many zeros stand behind its pixels is known only at run time")
        found.append(_SpreadDim(size, step, low, taps, rest.constant - taps + 1))
    return tuple(found)
