"""attn-conv-products: convolutions are products of patches with weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from iree.compiler import ir

from ..attention.barrier import barrier_behind, compute_barrier
from ..ir import (
    Builder,
    Refusal,
    Size,
    below_ops,
    defining_op,
    element_bytes,
    element_number,
    element_type,
    element_type_name,
    erase,
    erase_unused,
    has_one_use,
    is_elementwise,
    is_ranked_tensor,
    maps,
    module_of,
    ranked_shape,
    sizes_of,
    static_size,
    users,
)
from ..ir.bodies import padded_by_number
from ..ir.limits import ASSUMED_EXTENT
from ..machines import is_for_cpus, resolve_target
from ..machines.cpu.machine import Cpu
from ..machines.cpu.window_tiles import FEW_CHANNELS, STEPS, window_tiles
from ..machines.nvidia.f32_products import LEAST_DEPTH, LEAST_SIDE
from ..passes import OpPass
from . import windows

_CONVOLUTIONS = ("linalg.conv_1d_ncw_fcw", "linalg.conv_2d_nchw_fchw")
# Of video.
_SOLID = "linalg.conv_3d_ncdhw_fcdhw"
_GROUPED = "linalg.conv_2d_ngchw_gfchw"
_WINDOWS = (*_CONVOLUTIONS, _GROUPED, windows.DEPTHWISE, *windows.POOLS)
# Of images whose convolution is a product.
_TYPES = ("f16", "bf16", "f32")
# Of more taps a channel's sum is longer than a body should be.
_MOST_TAPS = 64
# Of a CPU's vectors; fewer channels than half are no product's columns, and less work (in
# multiplications) is done before another kernel has begun.
_LANES, _LEAST_WORK = 16, 1 << 16
# Bytes of patches that are held, and on a GPU.
_MOST_BYTES, _MOST_ON_GPU = 1 << 30, 1 << 33


class ConvProducts(OpPass):
    """Makes of a convolution with all channels, for kernels of tensor cores,

        patches[b, y, x, (i, j, c)] = image[b, c, y + i, x + j]     a copy, channels last
        result = patches * weights + bias                           a product of rows

    A kernel of one pixel needs no copy, one whose patches do not overlap (the first layer of ViT)
    only another order. One whose results are shuffled (`attn-spread-images`) has lines of channels
    moved, then turned. Those of groups have a product for each, where a GB holds the patches. Of a
    depthwise convolution, and on CUDA of a pool, each result is made of its few taps in one
    elementwise loop (`windows.py`), which reads the image where it lies, without a padded copy; of
    sizes that are unknown, channels last.

    On GPUs the frames that a frame of video is made of are channels of one image, whose kernel has
    two dims then: a copy for each such frame, where patches are one for each tap.

    On CUDA, of 16 bits: IREE 3.13 multiplies them at 58 TFLOPS, a tenth of an H200's (3 x 3 of
    640 channels, 2 x 64 x 64: 1.04 ms), reads channels of depthwise ones one by one (31 taps, 8 x
    800 x 512: 242 us), and writes to illegal addresses for groups (128 taps, 16 of 48 channels).
    Those of unknown sizes are left there, but for an unknown batch, and for groups: of these IREE
    has no program on CPUs, either, where the last dim is unknown.

    On CPUs, of any float type, where lines fill no vectors (others have loops that read the image
    where it lies, `attn-vectorize-windows`): 2 to 13 times as fast as IREE's (one thread of a Zen
    3, f32, 3 x 3 of 512 channels, 7 x 7: 54 -> 4.1 ms). Few channels and few multiplications are
    left.
    """

    name = "attn-conv-products"
    summary = "NVIDIA GPUs and CPUs: convolutions are products of patches"
    why = "IREE's convolutions are a tenth as fast as products"
    backends = ("cuda", "llvm-cpu")
    what = "fitted"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name in (*_WINDOWS, _SOLID)

    def change(self, op: ir.Operation) -> str:
        if op.name == _GROUPED and _has_types(op) and _has_loops(op):
            return _stored(op)
        if op.name == _GROUPED:
            return "each group is a product of patches" if _grouped(op) else ""
        found = None if is_for_cpus(op) else windows.find(op)
        if found is not None and not found.is_turned:
            made, last = found.made(), windows.end_of(op)
            op.results[0].replace_all_uses_with(made)
            barrier_behind(last if last != op else made.owner)
            return f"makes each element of its {math.prod(found.kernel)} taps"
        if op.name in windows.POOLS:
            return ""
        conv = _read(op)
        if conv is not None and conv.shuffle is None and _has_loops(op):
            return _stored(op)
        if conv is None:
            return ""
        images = ranked_shape(conv.image)[0] or 1
        if not is_for_cpus(op) and (
            _patch_bytes(conv) * images > _MOST_ON_GPU or not _has_tiles(conv)
        ):
            return ""
        if op.name != windows.DEPTHWISE:
            _replace(conv, _product(conv))
            return "is a product of patches with its weights"
        if math.prod(conv.kernel) > _MOST_TAPS:
            return ""
        _replace(conv, _taps(conv))
        return f"adds up its {math.prod(conv.kernel)} taps, channels last"


@dataclass(frozen=True)
class _Convolution:
    """A convolution of `image` (batch, channels, ...) with the sizes of its `kernel` and of its
    `result` along the image's dims; `bias` is one number a channel, None for zeros. `last` is the
    op whose result is to be replaced: one that rounds it, or the convolution."""

    op: ir.Operation
    build: Builder
    result: tuple[Size, ...]
    kernel: tuple[int, ...]
    steps: tuple[int, ...]
    gaps: tuple[int, ...]
    bias: ir.Value | None
    last: ir.Operation

    @property
    def image(self) -> ir.Value:
        return self.op.operands[0]

    @property
    def weights(self) -> ir.Value:
        return self.op.operands[1]

    @property
    def is_of_frames(self) -> bool:
        """Whether it is of video, reads several pixels and is for a GPU."""
        return len(self.kernel) == 3 and max(self.kernel) > 1 and not is_for_cpus(self.op)

    @property
    def shuffle(self) -> ir.Operation | None:
        """The transpose of parts of its channels between pixels (`attn-spread-images`)."""
        readers = users(self.last.results[0])
        if len(readers) != 1 or readers[0].name != "tensor.expand_shape":
            return None
        turns = users(readers[0].results[0])
        if len(turns) != 1 or turns[0].name != "linalg.transpose":
            return None
        joins = [op.name for op in users(turns[0].results[0])]
        return turns[0] if joins == ["tensor.collapse_shape"] else None

    @property
    def f32(self) -> ir.Type:
        return ir.F32Type.get(self.op.context)

    @property
    def kind(self) -> ir.Type:
        return element_type(self.last.results[0])


def _read(op: ir.Operation) -> _Convolution | None:
    """The convolution with sums in f32 of an image that becomes a product here; None for others."""
    image, weights, start = op.operands
    kinds = [element_type_name(value) for value in (image, weights, start)]
    if kinds[0] not in _TYPES or kinds[1:] != [kinds[0], "f32"]:
        return None
    batch_and_pixels = ranked_shape(start)
    shapes = [ranked_shape(image)[1:2], ranked_shape(weights)]
    if not is_for_cpus(op):
        shapes += [ranked_shape(image)[2:], batch_and_pixels[1:]]
    if any(size is None for size in itertools.chain(*shapes)):
        return None
    bias = windows.bias_of(start)
    if bias is None and element_number(start) != 0:
        return None
    dims = len(batch_and_pixels) - 2
    kernel = tuple(size or 1 for size in ranked_shape(weights)[-dims:])
    steps, gaps = (
        tuple(ir.DenseIntElementsAttr(op.attributes[name])) for name in ("strides", "dilations")
    )
    build, last = Builder(op), windows.rounding_behind(op) or op
    result = tuple(sizes_of(op.results[0])[2:])
    found = _Convolution(op, build, result, kernel, steps, gaps, bias, last)
    return found if not is_for_cpus(op) or _pays_on_cpu(found) else None


def _pays_on_cpu(conv: _Convolution) -> bool:
    """Whether IREE's own loops are slower than copies of patches and a product."""
    made = defining_op(below_ops(conv.image, "tensor.pad", "tensor.cast"), "tensor.insert_slice")
    if made is not None:
        return False
    if conv.op.name == windows.DEPTHWISE:
        return True
    channels, *taps = (size or 1 for size in ranked_shape(conv.weights))
    cells = [size if isinstance(size, int) else ASSUMED_EXTENT for size in conv.result]
    work = channels * math.prod((*cells, *taps))
    shuffle = conv.shuffle
    if shuffle is not None:
        # Lines of what is moved.
        channels = static_size(sizes_of(shuffle.results[0])[1])
    return 2 * channels >= _LANES and work >= _LEAST_WORK and _patch_bytes(conv) <= _MOST_BYTES


def _has_tiles(conv: _Convolution) -> bool:
    """Whether a product has tiles on a GPU: of 16 bits it always does, and in f32 on Hopper, by
    kernels that take any columns and depth."""
    if element_type(conv.image) != conv.f32 or conv.op.name == windows.DEPTHWISE:
        return element_type(conv.image) != conv.f32
    target = resolve_target(module_of(conv.op))
    if target is not None and target.arch.startswith("sm_90"):
        return True
    count, *depth = (size or 1 for size in ranked_shape(conv.weights))
    return count % LEAST_SIDE == 0 and math.prod(depth) % LEAST_DEPTH == 0


def _patch_bytes(conv: _Convolution) -> int:
    """Of the patches of what is known of an image's sizes."""
    _, *taps = (size or 1 for size in ranked_shape(conv.weights))
    cells = [size if isinstance(size, int) else 1 for size in conv.result]
    return math.prod((*cells, *taps)) * element_bytes(conv.image)


def _has_types(op: ir.Operation) -> bool:
    """Whether an op sums up in f32 what is of one of the types that products are for."""
    kinds = [element_type_name(value) for value in op.operands]
    return kinds in [[kind, kind, "f32"] for kind in _TYPES]


def _stored(op: ir.Operation) -> str:
    """Has what is computed of a convolution's factors stand in memory, where its loops read."""
    build = Builder(op)
    for number in (0, 1):
        made = defining_op(op.operands[number])
        if made is not None and made.name != "arith.constant":
            op.operands[number] = compute_barrier(build, op.operands[number])
    return "reads its image where it lies"


def _has_loops(op: ir.Operation) -> bool:
    """Whether a CPU has loops for a convolution that read the image where it lies
    (`attn-vectorize-windows`)."""
    target = resolve_target(module_of(op)) if is_for_cpus(op) else None
    weights = [size or 1 for size in ranked_shape(op.operands[1])]
    steps = list(ir.DenseIntElementsAttr(op.attributes["strides"]))
    dims = len(steps)
    kernel, cells = weights[-dims:], sizes_of(op.results[0])[-dims:]
    while len(cells) > 1 and cells[-1] == kernel[-1] == 1:
        # IREE folds it.
        cells, kernel, steps = cells[:-1], kernel[:-1], steps[:-1]
    known = [size for size in cells if isinstance(size, int)]
    if not isinstance(target, Cpu) or len(known) < len(cells) or kernel[-1] == 1:
        return False
    *_, channels, depth = [1, 1] if op.name == windows.DEPTHWISE else weights[:-dims]
    lines, pixels = [1, *known][-2:]
    taps = depth * math.prod(kernel)
    tiles = window_tiles(channels, lines, pixels, taps, target.vector_bytes)
    # Of every second pixel loops make vectors anew for each tap; copies of patches are faster.
    is_cheap = steps[-1] == 1 or channels == 1 or depth <= FEW_CHANNELS
    return steps[-1] in STEPS and is_cheap and not isinstance(tiles, Refusal)


def _replace(conv: _Convolution, made: ir.Value) -> None:
    """Gives the readers what was made with channels last, of the type that they want."""
    rank = len(sizes_of(made))
    if (shuffle := conv.shuffle) is not None:
        _shuffle(conv, made, shuffle)
        return
    back = conv.build.transpose(made, [0, rank - 1, *range(1, rank - 1)])
    result = conv.last.results[0]
    result.replace_all_uses_with(conv.build.cast(back, sizes_of(result)))
    if conv.last != conv.op:
        erase(conv.last)


def _shuffle(conv: _Convolution, made: ir.Value, shuffle: ir.Operation) -> None:
    """Gives a shuffle's readers what was made with channels last, (b, q..., r... f): lines of
    channels are moved to where their pixels are, then tiles are turned. Both at once are
    neither."""
    build, split = conv.build, sizes_of(shuffle.operands[0])
    sizes, dims = sizes_of(made), len(conv.kernel)
    parts = build.split_dims(made, [*([size] for size in sizes[:-1]), [*split[1 : 2 + dims]]])
    pairs = [(1 + dim, 1 + dims + dim) for dim in range(dims)]
    lines = build.transpose(parts, [0, *itertools.chain(*pairs), 2 * dims + 1])
    groups = [[0], *([1 + 2 * dim, 2 + 2 * dim] for dim in range(dims)), [1 + 2 * dims]]
    lines = compute_barrier(build, build.collapse(lines, groups))
    turned = build.transpose(lines, [0, dims + 1, *range(1, dims + 1)])
    (joined,) = users(shuffle.results[0])
    result = joined.results[0]
    result.replace_all_uses_with(build.cast(turned, sizes_of(result)))
    parted = defining_op(shuffle.operands[0])
    assert parted is not None, "shuffle has seen it"
    rounds = [conv.last] if conv.last != conv.op else []
    erase_unused([joined, shuffle, parted, *rounds])


def _last_channels(conv: _Convolution) -> ir.Value:
    """The image, channels last; what pads it does so behind the transpose."""
    build, image = conv.build, conv.image
    rank = len(sizes_of(image))
    order = [0, *range(2, rank), 1]
    padded = padded_by_number(image)
    if padded is None or not has_one_use(image):
        if is_for_cpus(conv.op) and _is_of_windows(image):
            # A kernel with such loops would write its lines of pixels across.
            image = compute_barrier(build, image)
        return build.transpose(image, order)
    (inner, sides, number) = padded
    sizes = [sizes_of(image)[dim] for dim in order]
    kind = build.tensor_type(sizes, element_type(image))
    low, high = ([side[dim] for dim in order] for side in sides)
    # Apart from the pad: IREE 3.13 turns an image through shared memory where it is written whole.
    turned = compute_barrier(build, build.transpose(inner, order))
    return build.pad(turned, kind, low, high, number)


def _is_of_windows(image: ir.Value) -> bool:
    """Whether elementwise ops that nothing else reads make an image of what goes by windows."""
    op = defining_op(image)
    if op is None or not has_one_use(image):
        return False
    if op.name in _WINDOWS:
        return True
    read = [value for value in op.operands if is_ranked_tensor(value)]
    same = [value for value in read if ranked_shape(value) == ranked_shape(image)]
    return is_elementwise(op) and any(map(_is_of_windows, same))


def _product(conv: _Convolution) -> ir.Value:
    build, sizes = conv.build, sizes_of(conv.image)
    channels, dims = sizes[1], len(conv.kernel)
    count = sizes_of(conv.weights)[0]
    groups, framed = [[0], list(range(1, dims + 2))], False
    fits = [
        isinstance(cells, int) and size == cells * kernel
        for size, cells, kernel in zip(sizes[2:], conv.result, conv.kernel, strict=True)
    ]
    if conv.steps == conv.kernel and {*conv.gaps} == {1} and all(fits) and max(conv.kernel) > 1:
        # (b, c, y, i, x, j) as (b, y, x, c, i, j).
        parts = [[size] for size in sizes[:2]]
        parts += [list(pair) for pair in zip(conv.result, conv.kernel, strict=True)]
        split = build.split_dims(conv.image, parts)
        order = [0, *range(2, 2 + 2 * dims, 2), 1, *range(3, 3 + 2 * dims, 2)]
        patches, weights = build.transpose(split, order), conv.weights
    elif conv.is_of_frames:
        patches, framed = _patches_of_frames(conv), True
        weights = build.transpose(conv.weights, [0, 3, 4, 2, 1])
    else:
        image = _last_channels(conv)
        whole = {*conv.kernel, *conv.steps} == {1}
        patches = image if whole else _patches(conv, compute_barrier(build, image), channels)
        weights = build.transpose(conv.weights, [0, *range(2, dims + 2), 1])
    lead = list(range(dims + 1))
    cells = len(lead) - framed
    depth = list(range(cells, len(sizes_of(patches))))
    rows = compute_barrier(build, build.collapse(patches, [list(range(cells)), depth]))
    weights = build.collapse(weights, groups)
    if conv.shuffle is not None:
        # What is shuffled is a product of its own: of weights by index `attn-split-products` would
        # make one of many dims.
        weights = compute_barrier(build, weights)
    made = _multiplied(conv, rows, weights, count)
    wide = element_type(conv.image) == conv.f32
    stored = not _are_columns(conv.result) if is_for_cpus(conv.op) else wide
    if stored or conv.shuffle is not None:
        # On CUDA tiles of f32 are for results that lie as products make them.
        made = compute_barrier(build, made)
    return build.expand(made, [lead, [dims + 1]], [sizes[0], *conv.result, count])


def _are_columns(pixels: Sequence[Size]) -> bool:
    """Whether pixels can be the columns of the product, which IREE makes of them where it writes
    the transposed result, line by line into a border: a CPU's loops want lines of whole vectors."""
    known = [size for size in pixels if isinstance(size, int)]
    return len(known) == len(pixels) and known[-1] % _LANES == 0


def _grouped(op: ir.Operation) -> bool:
    """Makes of a convolution (batch, group, channels, ...) a product for each group."""
    image, weights, start = op.operands
    if not _has_types(op) or None in (*ranked_shape(weights), ranked_shape(image)[2]):
        return False
    build, sizes = Builder(op), [sizes_of(value) for value in op.operands]
    (batch, _, channels, *_), (groups, count, _, *kernel), (*_, y, x) = sizes
    made = [groups, batch, y, x, *kernel, channels]
    # As far as is known.
    if 2 * math.prod(size for size in made if isinstance(size, int)) > _MOST_BYTES:
        return False
    steps, gaps = (
        list(ir.DenseIntElementsAttr(op.attributes[k])) for k in ("strides", "dilations")
    )
    lies = compute_barrier(build, build.transpose(image, [1, 0, 3, 4, 2]))

    def patch(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        group, image_of, *cell, i, j, channel = map(inner.loop_index, range(len(made)))
        places = [
            inner.multiply_add(at, step, inner.multiply_add(tap, gap, 0))
            for at, tap, step, gap in zip(cell, (i, j), steps, gaps, strict=True)
        ]
        return inner.extract(lies, [group, image_of, *places, channel])

    patches = build.computed(made, element_type(image), patch)
    rows = compute_barrier(build, build.collapse(patches, [[0], [1, 2, 3], [4, 5, 6]]))
    lines = build.collapse(build.transpose(weights, [0, 1, 3, 4, 2]), [[0], [1], [2, 3, 4]])
    positions = [(0, 1, 3), (0, 2, 3), (0, 1, 2)]
    total = _summed(build, rows, lines, [groups, sizes_of(rows)[1], count], positions)
    total = build.expand(total, [[0], [1, 2, 3], [4]], [groups, batch, y, x, count])
    total = build.transpose(total, [1, 0, 4, 2, 3])
    result = build.computed(
        sizes_of(total), element_type(start), lambda inner, x: inner.addf(*x[:2]), total, start
    )
    op.results[0].replace_all_uses_with(build.cast(result, sizes_of(start)))
    return True


def _patches(conv: _Convolution, image: ir.Value, channels: Size) -> ir.Value:
    """(b, y, x, i, j, c) of an image (b, y, x, c). Taps of a line without gaps and their channels
    lie side by side in both, and are one dim: LLVM looks through few of them to see that what a
    thread writes is aligned, and else writes one number after the other."""
    build, dims = conv.build, len(conv.kernel)
    made = [sizes_of(image)[0], *conv.result, *conv.kernel, channels]
    line = channels if conv.gaps[-1] == 1 and isinstance(channels, int) else 0
    if line:
        made[-2:] = [conv.kernel[-1] * line]
        image = build.collapse(image, [*([dim] for dim in range(dims)), [dims, dims + 1]])

    def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        loops = [inner.loop_index(loop) for loop in range(len(made))]
        if not line:
            return inner.extract(image, [loops[0], *_pixel(conv, inner, loops), loops[-1]])
        pixel = _pixel(conv, inner, [*loops[:-1], inner.constant_index(0)])
        place = inner.multiply_add(pixel[-1], line, loops[-1])
        return inner.extract(image, [loops[0], *pixel[:-1], place])

    return build.computed(made, element_type(image), body)


def _patches_of_frames(conv: _Convolution) -> ir.Value:
    """(b t, y, x, i, j (k c)): of each frame of the result those that it is made of are channels
    of one image, which is put in memory; what pads frames by lines does so behind that."""
    build, video = conv.build, conv.image
    padded = padded_by_number(video)
    inner, sides, number = padded or (video, ([0] * 5, [0] * 5), None)
    turned = compute_barrier(build, build.transpose(inner, [0, 2, 3, 4, 1]))
    batch, frames, *pixels, channels = sizes_of(turned)
    early, late = (side[2] for side in sides)

    def frame(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        image, at, *pixel, tap, channel = map(inner.loop_index, range(6))
        place = inner.multiply_add(tap, conv.gaps[0], -early)
        place = inner.multiply_add(at, conv.steps[0], place)
        if number is None or not early + late:
            return inner.extract(turned, [image, place, *pixel, channel])
        known = inner.apply("arith.maxsi", place, inner.constant_index(0))
        known = inner.apply("arith.minsi", known, inner.constant_index(static_size(frames) - 1))
        value = inner.extract(turned, [image, known, *pixel, channel])
        return inner.select(inner.compare("eq", place, known), value, number)

    images, groups = turned, [[0, 1], [2], [3], [4]]
    if conv.kernel[0] > 1 or conv.steps[0] > 1 or early + late:
        sizes = [batch, conv.result[0], *pixels, conv.kernel[0], channels]
        images = build.computed(sizes, element_type(video), frame)
        groups = [[0, 1], [2], [3], [4, 5]]
    images = compute_barrier(build, build.collapse(images, groups))
    lines = [side[3:] for side in sides]
    if any(map(any, lines)) and number is not None:
        count, *_, depth = sizes_of(images)
        kind = build.tensor_type([count, *sizes_of(video)[3:], depth], element_type(video))
        low, high = ([0, *line, 0] for line in lines)
        images = compute_barrier(build, build.pad(images, kind, low, high, number))
    if {*conv.kernel[1:], *conv.steps[1:]} == {1}:
        return images
    flat = replace(
        conv,
        result=conv.result[1:],
        kernel=conv.kernel[1:],
        steps=conv.steps[1:],
        gaps=conv.gaps[1:],
    )
    return _patches(flat, images, sizes_of(images)[-1])


def _pixel(conv: _Convolution, inner: Builder, loops: Sequence[ir.Value]) -> list[ir.Value]:
    """Where in the image a tap is read: the cell's place times the step, and the tap's."""
    dims = len(conv.kernel)
    places = []
    for dim in range(dims):
        cell, tap = loops[1 + dim], loops[1 + dims + dim]
        offset = inner.multiply_add(tap, conv.gaps[dim], 0)
        places.append(inner.multiply_add(cell, conv.steps[dim], offset))
    return places


def _multiplied(conv: _Convolution, rows: ir.Value, weights: ir.Value, count: Size) -> ir.Value:
    """Rows times weights (n, k), with the bias, of the type that readers want."""
    sizes = [sizes_of(rows)[0], count]
    return _rounded(conv, _summed(conv.build, rows, weights, sizes, [(0, 2), (1, 2), (0, 1)]))


def _summed(
    build: Builder,
    rows: ir.Value,
    weights: ir.Value,
    sizes: Sequence[Size],
    positions: Sequence[maps.Positions],
) -> ir.Value:
    """Products of rows and weights of 16 bits, of these `sizes`, added up in f32; `positions` are
    the loops of rows, weights and sums."""
    f32 = ir.F32Type.get(rows.context)
    zeros = build.fill(build.splat(0, f32), build.empty(sizes, f32))

    def add(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        one, other = (inner.cast_float(value, f32) for value in x[:2])
        return [inner.addf(x[2], inner.mulf(one, other))]

    return build.generic([rows, weights], [zeros], positions, add)[0]


def _rounded(conv: _Convolution, total: ir.Value) -> ir.Value:
    """A sum, channels last, with the bias, of the type that readers want."""
    if conv.bias is None and conv.kind == conv.f32:
        return total
    build, sizes = conv.build, sizes_of(total)
    biases = [] if conv.bias is None else [(conv.bias, (len(sizes) - 1,))]

    def body(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        value = inner.addf(x[0], x[1]) if biases else x[0]
        return inner.cast_float(value, conv.kind)

    return build.computed(sizes, conv.kind, body, total, *biases)


def _taps(conv: _Convolution) -> ir.Value:
    """A depthwise convolution, channels last."""
    build = conv.build
    image = compute_barrier(build, _last_channels(conv))
    dims = len(conv.kernel)
    order = [*range(1, dims + 1), 0]
    weights = compute_barrier(build, build.transpose(conv.weights, order))
    made = [sizes_of(image)[0], *conv.result, sizes_of(image)[-1]]

    def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        loops = [inner.loop_index(loop) for loop in range(len(made))]
        total = None
        for tap in itertools.product(*map(range, conv.kernel)):
            places = [inner.constant_index(place) for place in tap]
            pixel = _pixel(conv, inner, [*loops[: dims + 1], *places])
            factors = [
                inner.cast_float(inner.extract(tensor, at), conv.f32)
                for tensor, at in (
                    (image, [loops[0], *pixel, loops[-1]]),
                    (weights, [*places, loops[-1]]),
                )
            ]
            term = inner.mulf(*factors)
            total = term if total is None else inner.addf(total, term)
        assert total is not None, "a kernel has taps"
        return total

    # In a loop of what follows it would read channels one by one.
    return compute_barrier(build, _rounded(conv, build.computed(made, conv.f32, body)))
