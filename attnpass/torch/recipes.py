"""What ops of torch are made of, where IREE 3.13's import lacks them or fails on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

from .fast_paths import encoder_layer, self_attention

aten = torch.ops.aten

# What IREE 3.13's import from torch leaves as it is, or lowers worse than what it is made of: the
# list of iree-turbine, which tests it against IREE.
DECOMPOSED = (
    aten.norm.ScalarOpt_dim,
    aten.native_group_norm,
    aten.upsample_bilinear2d.vec,
    aten.native_layer_norm,
    aten.masked_fill.Tensor,
    aten.masked_fill.Scalar,
    aten.t,
    aten.addmm,
    aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training,
    aten._native_batch_norm_legit,
    aten._native_batch_norm_legit.no_stats,
    aten.soft_margin_loss,
    aten.im2col,
    aten._euclidean_dist,
    aten.index_copy,
    aten.index_copy_,
    aten.index_add,
    aten.index_add_,
    aten.grid_sampler_2d,
    aten.log_sigmoid_forward,
    aten.unsafe_split.Tensor,
    aten.dot,
    aten._adaptive_avg_pool2d,
    aten._prelu_kernel,
    aten.full,
    aten._log_softmax,
    aten._to_copy,
    aten.lift_fresh_copy.default,
    aten._unsafe_index.Tensor,
    aten.unbind.int,
    aten.linspace.Tensor_Tensor,
)
# What torch makes of others by itself, and IREE 3.13's import fails on.
COMPOSED = (
    *("aten._weight_norm.default", "aten._weight_norm_interface.default"),
    *("aten.meshgrid.default", "aten.meshgrid.indexing"),
    *("aten.logsumexp.default", "aten.instance_norm.default", "aten.isfinite.default"),
    # Its infinities are close to all numbers.
    "aten.isclose.default",
    *(f"aten._upsample_nearest_exact{dims}d.vec" for dims in (1, 2, 3)),
    *("aten.clamp_max.Tensor", "aten.alias_copy.default", "aten.broadcast_tensors.default"),
    # Its factors between degrees and radians have six digits.
    *("aten.deg2rad.default", "aten.rad2deg.default"),
    # Its code for it is the logarithm of what is 0 below -90.
    "aten.log_sigmoid.default",
)


def _with_tensor(op: Any) -> Any:
    def joined(x: Any, y: Any) -> Any:
        kind = torch.result_type(x, y)
        return op(x.to(kind), torch.full((), y, dtype=kind, device=x.device))

    return joined


def _of_one_shape(op: Any) -> Callable[..., Any]:
    """An op of three tensors, of which the import broadcasts the second two at most, and not to
    more dims."""

    def broadcast(*values: Any, **more: Any) -> Any:
        if len({value.shape for value in values}) == 1:
            return NotImplemented
        return op(*torch.broadcast_tensors(*values), **more)

    return broadcast


def _remainder_of_number(x: Any, y: Any) -> Any:
    kind = torch.result_type(x, y)
    return torch.remainder(torch.full((), x, dtype=kind, device=y.device), y)


def _mean(op: Any) -> Callable[..., Any]:
    """A mean of integers as floats."""

    def mean(x: Any, *rest: Any, dtype: Any = None) -> Any:
        if dtype is None or x.is_floating_point():
            return NotImplemented
        return op(x.to(dtype), *rest)

    return mean


def _fmod(x: Any, y: Any) -> Any:
    if not x.is_floating_point():
        return x - torch.div(x, y, rounding_mode="trunc") * y
    # Exact, as a quotient is not that is large, or none.
    rest = torch.remainder(x.abs(), abs(y))
    return torch.where(x < 0, -rest, rest)


def _floor_quotient(x: Any, y: Any, *, rounding_mode: str | None = "floor") -> Any:
    """The floor of a quotient that is not rounded, as Python's `//`: 1.0 // 0.1 is 9, of f32, and
    -1 // inf is -1. The import takes the floor of the rounded one."""
    kind = torch.result_type(x, y)
    if rounding_mode != "floor" or not kind.is_floating_point:
        return NotImplemented
    wide = torch.promote_types(kind, torch.float32)
    device = (x if isinstance(x, torch.Tensor) else y).device
    x, y = (
        value.to(kind).to(wide)
        if isinstance(value, torch.Tensor)
        else torch.full((), value, dtype=wide, device=device)
        for value in (x, y)
    )
    rest = torch.fmod(x, y)
    quotient = (x - rest) / y
    quotient = torch.where((rest != 0) & ((rest < 0) != (y < 0)), quotient - 1, quotient)
    whole = quotient.floor()
    whole = torch.where(quotient - whole > 0.5, whole + 1, whole)
    rounded = x / y
    found = torch.where(quotient == 0, torch.where(_signbit(rounded), -0.0, 0.0), whole)
    return torch.where(y == 0, rounded, found).to(kind)


def _same_bytes(number: int) -> Callable[..., Any]:
    """A tensor of bytes that are all a number: the import has none that is a constant."""

    def made(like: Any, *size: Any, dtype: Any = None, **more: Any) -> Any:
        is_tensor = isinstance(like, torch.Tensor)
        if (dtype or (is_tensor and like.dtype)) != torch.uint8:
            return NotImplemented
        device = like.device if is_tensor else more.get("device")
        size = size[0] if size else like.shape if is_tensor else like
        # Bytes would be cast from memory that nobody wrote before they are filled.
        return torch.full(size, number, dtype=torch.int32, device=device).to(torch.uint8)

    return made


def _equal(x: Any, y: Any) -> Any:
    """The import takes a tensor for equal to itself, NaN too."""
    return torch.isnan(x).logical_not() if x is y and x.is_floating_point() else NotImplemented


def _hypot(x: Any, y: Any) -> Any:
    """By the larger one: its square may have no number."""
    kind = torch.result_type(x, y)
    wide = torch.promote_types(kind, torch.float32)
    one, other = x.to(wide).abs(), y.to(wide).abs()
    larger = torch.maximum(one, other)
    ratio = torch.minimum(one, other) / torch.where(larger == 0, 1, larger)
    found = larger * torch.sqrt(1 + ratio * ratio)
    is_infinite = (one == math.inf) | (other == math.inf)
    return torch.where(is_infinite, math.inf, found).to(kind)


def _smoothed(x: Any, size: Any, corners: bool, scales: Any, weigh: Any) -> Any:
    """Interpolation of images that smooths them where they shrink, dim by dim: products with what
    `weigh` has for the distance between a new point and an old one. Bytes are rounded behind each,
    as PyTorch's are."""
    kind = x.dtype
    wide = torch.promote_types(kind, torch.float32)
    for dim, wanted, given in reversed(list(zip((-2, -1), size, scales, strict=True))):
        count = x.shape[dim]
        if corners:
            step = (count - 1) / (wanted - 1) if wanted > 1 else 0.0
        else:
            step = 1 / given if given else count / wanted
        old, new = (torch.arange(n, device=x.device).to(wide) + 0.5 for n in (count, wanted))
        weights = weigh((old[:, None] - new * step).abs() / max(step, 1.0))
        weights = weights / weights.sum(0)
        if kind.is_floating_point:
            x = torch.matmul(x.movedim(dim, -1), weights.to(kind)).movedim(-1, dim)
        else:
            made = torch.matmul(x.movedim(dim, -1).to(wide), weights).movedim(-1, dim)
            x = made.round().clamp(0, torch.iinfo(kind).max).to(kind)
    return x


def _smoothly(weigh: Any) -> Callable[..., Any]:
    return lambda x, size, corners, *scales: _smoothed(
        x, size, corners, scales or (None, None), weigh
    )


def _cubic(t: Any) -> Any:
    near, far = (1.5 * t - 2.5) * t * t + 1, ((-0.5 * t + 2.5) * t - 4) * t + 2
    return torch.where(t < 1, near, torch.where(t < 2, far, 0.0))


def _sign(x: Any) -> Any:
    """The import makes comparisons with whole numbers of these, and of constants none that end: so
    it does of `trunc`, `frac`, `softshrink` and `threshold`."""
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype) if x.is_floating_point() else NotImplemented


def _trunc(x: Any) -> Any:
    return torch.where(x < 0, x.ceil(), x.floor()) if x.is_floating_point() else NotImplemented


def _softshrink(x: Any, width: float = 0.5) -> Any:
    return torch.where(x > width, x - width, torch.where(x < -width, x + width, x * 0))


def _threshold(x: Any, least: float, other: float) -> Any:
    return torch.where(x <= least, other, x) if x.is_floating_point() else NotImplemented


def _topk(x: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """In order where any order would do, of which the import knows nothing."""
    return NotImplemented if sorted else aten.topk.default(x, k, dim, largest, True)


def _sorted_truths(x: Any, dim: int = -1, descending: bool = False) -> Any:
    """IREE 3.13 has true before false."""
    if x.dtype != torch.bool:
        return NotImplemented
    values, places = aten.sort.default(x.to(torch.int32), dim, descending)
    return values != 0, places


def _stable_sort(x: Any, *, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    """IREE's sort keeps the order of equal elements."""
    return aten.sort.default(x, dim, descending)


def _kth(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    found = [result.narrow(dim, k - 1, 1) for result in torch.sort(x, dim)]
    value, place = found if keepdim else [result.squeeze(dim) for result in found]
    return value, place


def _median(x: Any, dim: int, keepdim: bool = False) -> Any:
    count = x.shape[dim] if x.dim() else 0
    if not isinstance(count, int) or not count:
        return NotImplemented
    value, place = _kth(x, (count + 1) // 2, dim, keepdim)
    if not x.is_floating_point():
        return value, place
    # It is NaN where one is.
    other = torch.isnan(x)
    first = other.to(torch.int64).argmax(dim, keepdim)
    other = other.any(dim, keepdim)
    return torch.where(other, math.nan, value), torch.where(other, first, place)


def _median_of_all(x: Any) -> Any:
    found = _median(x.reshape(-1), 0)
    return found if found is NotImplemented else found[0]


def _extremes_so_far(least: bool) -> Callable[..., Any]:
    """The largest (least) of those up to a place, and where the last of them is."""

    def extremes(x: Any, dim: int) -> Any:
        if not x.dim() or x.dtype == torch.bool or x.is_complex():
            return NotImplemented
        x = x.movedim(dim, -1)
        place = torch.arange(x.shape[-1], device=x.device)
        is_before = place <= place[:, None]
        bounds = (torch.finfo if x.is_floating_point() else torch.iinfo)(x.dtype)
        ends = (-math.inf, math.inf) if x.is_floating_point() else (bounds.min, bounds.max)
        terms = torch.where(is_before, x.unsqueeze(-2), ends[least])
        value = terms.amin(-1) if least else terms.amax(-1)
        is_it = (terms == value.unsqueeze(-1)) | torch.isnan(terms)
        last = torch.where(is_it & is_before, place, 0).amax(-1)
        return value.movedim(-1, dim), last.movedim(-1, dim)

    return extremes


def _so_far(join: Callable[[Any, Any], Any], least: float, x: Any, dim: int, kind: Any) -> Any:
    """Those up to a place, joined, as `kind`; each step takes in as many more as a result has.
    Nothing where their number is not known, or 0."""
    if not x.dim():
        return x.to(kind)
    count = x.shape[dim]
    if not isinstance(count, int) or not count:
        return NotImplemented
    x, step = x.movedim(dim, -1), 1
    while step < count:
        before = [torch.full_like(x.narrow(-1, 0, step), least), x.narrow(-1, 0, count - step)]
        x, step = join(x, torch.cat(before, -1)), 2 * step
    return x.movedim(-1, dim).to(kind)


def _running_product(x: Any, dim: int, *, dtype: Any = None) -> Any:
    """As torch's, products are of 64 bits: those of a part may be larger than all, or less."""
    if x.is_complex():
        return NotImplemented
    kind = dtype or (x.dtype if x.is_floating_point() else torch.int64)
    wide = torch.float64 if kind.is_floating_point else kind
    return _so_far(torch.mul, 1, x.to(wide), dim, kind)


def _running_log_of_sums(x: Any, dim: int) -> Any:
    """IREE 3.13 adds up powers of e, of which those of 89 are infinite."""

    def join(x: Any, y: Any) -> Any:
        most, least = torch.maximum(x, y), torch.minimum(x, y)
        return torch.where(most.isinf(), most, most + (least - most).exp().log1p())

    if x.is_complex():
        return NotImplemented
    wide = torch.promote_types(x.dtype, torch.float32)
    return _so_far(join, -math.inf, x.to(wide), dim, x.dtype)


def _times_real(x: Any, y: Any) -> Any:
    """A complex tensor times a real number or tensor, in either order."""
    if isinstance(y, torch.Tensor) and y.is_complex():
        x, y = y, x
    if not x.is_complex() or isinstance(y, complex) or getattr(y, "is_complex", bool)():
        return NotImplemented
    factor = y.unsqueeze(-1) if isinstance(y, torch.Tensor) else y
    return torch.view_as_complex(torch.view_as_real(x) * factor)


def _absolute(x: Any) -> Any:
    if not x.is_complex():
        return NotImplemented
    return torch.view_as_real(x).square().sum(-1).sqrt()


def _power_of_integers(x: Any, y: Any) -> Any:
    if x.is_floating_point() or x.is_complex():
        return NotImplemented
    if isinstance(y, float):
        return x.to(torch.get_default_dtype()) ** y
    x = x.to(torch.result_type(x, y))
    return math.prod([x] * y, start=torch.ones_like(x)) if 0 <= y <= 16 else NotImplemented


def _without_nans(x: Any, *_: Any, **__: Any) -> Any:
    return NotImplemented if x.is_floating_point() or x.is_complex() else x.clone()


def _logit(x: Any, eps: Any = None) -> Any:
    of_floats = x.is_floating_point()
    return NotImplemented if of_floats else torch.logit(x.to(torch.get_default_dtype()), eps)


def _histogram(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    if min == max:
        return NotImplemented
    bucket = ((x - min) * (bins / (max - min))).floor().clamp(max=bins - 1).to(torch.float32)
    place = torch.arange(bins, device=x.device, dtype=torch.float32).reshape(-1, 1)
    counted = (bucket.reshape(1, -1) == place) & ((x >= min) & (x <= max)).reshape(1, -1)
    # IREE 3.13 has no program for CUDA for a sum of whole numbers that compares floats.
    return counted.to(torch.float32).sum(1).to(x.dtype)


def _distances(x: Any, y: Any, p: float, compute_mode: Any = None) -> Any:
    return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1)


def _fold(x: Any, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Blocks added where they lie: each is an image's dot, which a kernel of one number spreads."""
    blocks, rest = [], []
    for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True):
        left = n + 2 * p - d * (k - 1) - 1
        blocks.append(left // s + 1)
        rest.append(left % s)
    count = kernel[0] * kernel[1]
    spread = torch.eye(count, dtype=x.dtype, device=x.device).reshape(count, 1, *kernel)
    dots = x.reshape(-1, count, *blocks)
    made = torch.conv_transpose2d(dots, spread, None, stride, padding, rest, 1, dilation)
    return made.reshape(*x.shape[:-2], -1, *size)


def _searched(sorted_sequence: Any, self: Any, *, right: bool = False, **more: Any) -> Any:
    """How many numbers of a row come before each that is looked for."""
    if more.get("sorter") is not None or more.get("side") is not None:
        return NotImplemented
    row, number = sorted_sequence.unsqueeze(-2), self.unsqueeze(-1)
    # NaN comes behind all numbers.
    before = ~((row > number) if right else (row >= number))
    kind = torch.int32 if more.get("out_int32") else torch.int64
    return before.to(torch.int32).sum(-1).to(kind)


def _grouped_product(x: Any, weights: Any, ends: Any) -> Any:
    """Rows of group g, up to row `ends[g]`, times the weights of g; rows behind the last are 0.

    Few rows read their own weights; of many every group computes all.
    """
    rows, groups = x.shape[0], weights.shape[0]
    place = torch.arange(rows, device=x.device)[:, None]
    group = (place >= ends).sum(-1)
    if rows <= groups:
        own = weights.index_select(0, group.clamp(max=groups - 1))
        result = torch.bmm(x[:, None], own)[:, 0]
        return result.masked_fill((group == groups)[:, None], 0)
    chosen = (group == torch.arange(groups, device=x.device)[:, None])[:, :, None]
    return torch.where(chosen, torch.matmul(x, weights), 0).sum(0)


def _grouped_mm(x: Any, weights: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None):
    if x.dim() != 2 or weights.dim() != 3 or offs is None or bias is not None:
        return NotImplemented
    return _grouped_product(x, weights, offs).to(out_dtype or x.dtype)


def _index(x: Any, indices: Any) -> Any:
    """By conditions: IREE 3.13's import of these does not end. A single one is an index of the dims
    that it is of, joined."""
    if not any(map(_is_condition, indices)):
        joined = _joined(x, indices)
        return joined[0].index_select(0, joined[1]) if joined else NotImplemented
    alone = _alone(indices)
    if alone is None:
        return aten.index.Tensor(x, _places(indices))
    first, where = alone
    rows = x.flatten(first, first + where.dim() - 1)
    return rows.index_select(first, torch.nonzero(where.flatten())[:, 0])


def _index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Where conditions hold; a single number goes where one does without an index."""
    if not any(map(_is_condition, indices)):
        joined = _joined(x, indices)
        if joined is None:
            return NotImplemented
        rows, place = joined
        values = values.expand(place.shape[0], *rows.shape[1:])
        return aten.index_put.default(rows, [place], values, accumulate).reshape(x.shape)
    alone = _alone(indices)
    if alone is None or alone[0]:
        return aten.index_put.default(x, _places(indices), values, accumulate)
    _, where = alone
    rest = x.shape[where.dim() :]
    if values.numel() == 1 and not accumulate:
        return torch.where(where.reshape(*where.shape, *[1] * len(rest)), values.reshape(()), x)
    rows, place = x.flatten(0, where.dim() - 1), torch.nonzero(where.flatten())[:, 0]
    values = values.expand(place.shape[0], *rest)
    return aten.index_put.default(rows, [place], values, accumulate).reshape(x.shape)


def _joined(x: Any, indices: Any) -> tuple[Any, Any] | None:
    """Several lists of places, as many as are known at run time, as one of places in the dims that
    they are of, joined: the import has no program for more. None for other indices."""
    if len(indices) < 2 or any(index is None or index.dim() != 1 for index in indices):
        return None
    if all(isinstance(index.shape[0], int) for index in indices):
        return None
    place: Any = 0
    for size, index in zip(x.shape, indices, strict=False):
        place = place * size + torch.where(index < 0, index + size, index)
    return x.flatten(0, len(indices) - 1), place


def _is_condition(index: Any) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _alone(indices: Any) -> tuple[int, Any] | None:
    """The dim and the condition, where that is the only index."""
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    return (given[0][0], given[0][1].to(torch.bool)) if len(given) == 1 else None


def _places(indices: Any) -> list[Any]:
    """Indices, with the places where they hold in place of conditions."""
    places: list[Any] = []
    for index in indices:
        places += torch.nonzero(index).unbind(1) if _is_condition(index) else [index]
    return places


def _masked_select(x: Any, where: Any) -> Any:
    x, where = torch.broadcast_tensors(x, where)
    return x.flatten().index_select(0, torch.nonzero(where.flatten())[:, 0])


def _diagonal_scatter(x: Any, new: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    whole = x.movedim((dim1, dim2), (-2, -1))
    row, column = (torch.arange(size, device=x.device) for size in whole.shape[-2:])
    place = (row + min(offset, 0)).clamp(0, new.shape[-1] - 1)
    rows = new.index_select(-1, place).unsqueeze(-1)
    whole = torch.where(column - row[:, None] == offset, rows, whole)
    return whole.movedim((-2, -1), (dim1, dim2))


def _strided_scatter(
    x: Any, new: Any, size: Any, stride: Any, storage_offset: int | None = None
) -> Any:
    """Writes by places in memory (`fill_diagonal_`), of a tensor that lies there in any order."""
    if not all(isinstance(number, int) for number in (*x.shape, *size, *stride)):
        return NotImplemented
    order = sorted(range(x.dim()), key=lambda dim: -x.stride(dim))
    lying = x.permute(order)
    if not lying.is_contiguous() or x.storage_offset():
        return NotImplemented
    if not new.numel():
        return x.clone()
    places = torch.full((), storage_offset or 0, dtype=torch.int64, device=x.device)
    for count, step in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(count, device=x.device) * step
    written = lying.reshape(-1).scatter(0, places.reshape(-1), new.reshape(-1))
    back = sorted(range(x.dim()), key=order.__getitem__)
    return written.reshape(lying.shape).permute(back)


def _times_vector(x: Any, y: Any) -> Any:
    """The import has no program for batches of matrices times a vector."""
    if y.dim() == 1 and x.dim() > 2:
        return torch.matmul(x, y.unsqueeze(-1)).squeeze(-1)
    if x.dim() == 1 and y.dim() > 2:
        return torch.matmul(x.unsqueeze(0), y).squeeze(-2)
    return NotImplemented


def _of_numbers(op: Any) -> Any:
    """The larger or smaller of two, or the one that is a number."""
    return lambda x, y: torch.where(x.isnan(), y, torch.where(y.isnan(), x, op(x, y)))


def _split_with_sizes(x: Any, sizes: Any, dim: int = 0) -> Any:
    """In sizes that are computed, as the rows of experts: the import has no program for these."""
    if all(isinstance(size, int) for size in sizes):
        return NotImplemented
    parts, start = [], 0
    for size in sizes:
        parts.append(aten.slice.Tensor(x, dim, start, start + size))
        start = start + size
    return parts


def _copysign(x: Any, y: Any) -> Any:
    kind = torch.result_type(x, y)
    x = x.to(kind if kind.is_floating_point else torch.get_default_dtype())
    return torch.where(_signbit(y), -x.abs(), x.abs())


def _signbit(x: Any) -> Any:
    """Whether a number has a minus, as -0.0 has."""
    return (x < 0) | ((x == 0) & (1 / x < 0)) if x.is_floating_point() else x < 0


def _erfinv(x: Any) -> Any:
    """The inverse of erf, by M. Giles's polynomials, which are exact to f32's last digits; in f64
    steps of Newton's method follow."""
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    x, given = x.to(kind), x.dtype if x.is_floating_point() else kind
    w = -torch.log((1 - x) * (1 + x))
    near, far = torch.zeros_like(w), torch.zeros_like(w)
    for one, other in _ERFINV:
        near, far = near * (w - 2.5) + one, far * (w.sqrt() - 3) + other
    y = torch.where(w < 5, near, far) * x
    for _ in range(2 if kind == torch.float64 else 0):
        y = y - (torch.erf(y) - x) * (math.sqrt(math.pi) / 2) * torch.exp(y * y)
    return torch.where(x.abs() == 1, x * math.inf, y).to(given)


# Factors of the polynomials near 0 and near 1, the highest first.
_ERFINV = (
    (2.81022636e-08, -0.000200214257),
    (3.43273939e-07, 0.000100950558),
    (-3.5233877e-06, 0.00134934322),
    (-4.39150654e-06, -0.00367342844),
    (0.00021858087, 0.00573950773),
    (-0.00125372503, -0.0076224613),
    (-0.00417768164, 0.00943887047),
    (0.246640727, 1.00167406),
    (1.50140941, 2.83297682),
)


def _erfc(x: Any) -> Any:
    """1 - erf(x) without the loss of its digits, exact to f32's last ones: by W. Press's polynomial
    of `1 / (1 + |x| / 2)`; of x^2 what f32 has no digits for is a factor of its own."""
    if x.dtype == torch.float64:
        return NotImplemented
    wide = x.to(torch.float32)
    size = wide.abs()
    t, power = 2 / (2 + size), torch.zeros_like(size)
    for factor in _ERFC:
        power = power * t + factor
    near = torch.floor(size.clamp(max=16) * 16) / 16
    rest = t * torch.exp(-near * near) * torch.exp(power + (near - size) * (near + size))
    return torch.where(wide < 0, 2 - rest, rest).to(
        x.dtype if x.is_floating_point() else wide.dtype
    )


# Factors of its polynomial, the highest first.
_ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806),
    *(0.09678418, 0.37409196, 1.00002368, -1.26551223),
)


def _xlogy(x: Any, y: Any) -> Any:
    return torch.where((x == 0) & ~torch.isnan(y), 0, x * torch.log(y))


def _prelu(x: Any, weight: Any) -> Any:
    channels = [1, -1, *[1] * (x.dim() - 2)] if x.dim() > 1 and weight.numel() > 1 else [-1]
    return torch.where(x > 0, x, weight.reshape(channels) * x)


def _roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    """Without dims all of it rolls as one."""
    if dims:
        return NotImplemented
    return torch.roll(x.reshape(-1), shifts, (0,)).reshape(x.shape)


def _cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """Of class numbers or of shares of the classes; by `reduction` one a row (0), their mean (1) or
    sum (2)."""
    classes = 1 if x.dim() > 1 else 0
    if weight is not None and (label_smoothing or target.is_floating_point()):
        return NotImplemented
    logs = torch.log_softmax(x, classes)
    even = -logs.mean(classes) * label_smoothing
    if target.is_floating_point():
        losses = even - (1 - label_smoothing) * (target * logs).sum(classes)
        return (losses, losses.mean(), losses.sum())[reduction]
    if not label_smoothing:
        return _negative_logs(logs, target, weight, reduction, ignore_index)
    losses = _negative_logs(logs, target, None, 0, ignore_index)
    kept = target != ignore_index
    losses = torch.where(kept, (1 - label_smoothing) * losses + even, 0)
    return (losses, losses.sum() / kept.sum(), losses.sum())[reduction]


def _negative_logs(
    logs: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100
) -> Any:
    """Logarithms of classes' shares, those of the wanted ones; as `_cross_entropy`."""
    classes = 1 if logs.dim() > 1 else 0
    kept = target != ignore_index
    place = torch.where(kept, target, 0)
    share = kept.to(logs.dtype)
    if weight is not None:
        share = share * weight.index_select(0, place.reshape(-1)).reshape(place.shape)
    found = torch.gather(logs, classes, place.unsqueeze(classes)).squeeze(classes)
    losses = torch.where(kept, -found * share, 0)
    return (losses, losses.sum() / share.sum(), losses.sum())[reduction]


def _bags(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Sums (mode 0), means (1) or maxima (2) of the rows of bags, which begin at `offsets`; beside
    them what gradients ask for: the bag of each row, and of each bag its rows, twice."""
    count = offsets.shape[0] - include_last_offset
    place = torch.arange(indices.shape[0], device=indices.device)
    bag = (place[:, None] >= offsets[:count]).sum(-1) - 1
    own = bag == torch.arange(count, device=indices.device)[:, None]
    if padding_idx is not None and padding_idx >= 0:
        own = own & (indices != padding_idx)
    rows, sizes = weight.index_select(0, indices), own.sum(-1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    if mode == 2:
        made = torch.where(own[:, :, None], rows, -math.inf).amax(1)
        made = torch.where(sizes[:, None] > 0, made, 0)
    else:
        made = own.to(rows.dtype) @ rows
        made = made / sizes.clamp(min=1)[:, None].to(rows.dtype) if mode == 1 else made
    return made, bag, sizes, sizes


def _unbatched(op: Any, dims: int) -> Callable[..., Any]:
    """A convolution or a pooling whose import takes batches alone."""

    def batched(x: Any, *rest: Any, **named: Any) -> Any:
        if x.dim() != dims + 1:
            return NotImplemented
        results = op(x.unsqueeze(0), *rest, **named)
        return pytree.tree_map(lambda result: result.squeeze(0), results)

    return batched


def _adaptive_max(op: Any, dims: int) -> Callable[..., Any]:
    """A maximum of windows of several sizes: the import takes them for one size, and its numbers
    are wrong."""
    batched = _unbatched(op, dims)

    def pool(x: Any, size: Sequence[int]) -> Any:
        counts = x.shape[-dims:]
        if {*size} == {1}:
            # Of any sizes.
            value, place = x.flatten(-dims).max(-1)
            shape = [*x.shape[:-dims], *size]
            return value.reshape(shape), place.reshape(shape)
        known = all(isinstance(count, int) for count in counts) and 0 not in size
        if not known or all(n % wanted == 0 for n, wanted in zip(counts, size, strict=True)):
            return batched(x, size)
        # What each result reads, as places in the whole image; the last of a window many times.
        read = torch.zeros((1,) * (2 * dims), dtype=torch.int64, device=x.device)
        for dim, (count, wanted) in enumerate(zip(counts, size, strict=True)):
            ends = [(n * count // wanted, -(-(n + 1) * count // wanted)) for n in range(wanted)]
            width = max(end - start for start, end in ends)
            new = torch.arange(wanted, device=x.device)[:, None]
            last = ((new + 1) * count + wanted - 1) // wanted - 1
            along = torch.minimum(
                new * count // wanted + torch.arange(width, device=x.device), last
            )
            shape = [1] * (2 * dims)
            shape[dim], shape[dims + dim] = wanted, width
            read = read * count + along.reshape(shape)
        read = read.flatten(dims)
        found = x.flatten(-dims).index_select(-1, read.flatten())
        found = found.reshape(*x.shape[:-dims], *read.shape)
        value, place = found.max(-1)
        return value, torch.gather(read.expand(found.shape), -1, place.unsqueeze(-1)).squeeze(-1)

    return pool


def _adaptive_mean(dims: int) -> Callable[..., Any]:
    """A mean of windows of one size, which the import takes for several, with a mask, and of all
    for one that it pads."""
    pooled = getattr(aten, f"avg_pool{dims}d").default

    def pool(x: Any, size: Sequence[int]) -> Any:
        counts = x.shape[-dims:]
        if {*size} == {1}:
            return x.mean(dim=[*range(-dims, 0)], keepdim=True)
        if not all(isinstance(count, int) for count in counts) or 0 in size:
            return NotImplemented
        if any(n % wanted for n, wanted in zip(counts, size, strict=True)):
            return NotImplemented
        window = [n // wanted for n, wanted in zip(counts, size, strict=True)]
        if x.dim() != dims + 1:
            return pooled(x, window, window)
        return pooled(x.unsqueeze(0), window, window).squeeze(0)

    return pool


def _transposed(op: Any, dims: int) -> Callable[..., Any]:
    """A transposed convolution whose import takes batches alone, and fails on as many groups as
    channels: these are one that is not transposed, of elements with zeros between them."""

    def convolution(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        steps, outer, more, gaps = (
            [sizes] * dims if isinstance(sizes, int) else [*sizes] * (dims // len(sizes))
            for sizes in (stride, padding, output_padding, dilation)
        )
        if x.dim() == dims + 1:
            options = (steps, outer, more, groups, gaps)
            return op(x.unsqueeze(0), weight, bias, *options).squeeze(0)
        if not 1 < groups == x.shape[1]:
            return NotImplemented
        for place in range(dims):
            step, reach = steps[place], gaps[place] * (weight.shape[2 + place] - 1) - outer[place]
            apart = F.pad(x.movedim(2 + place, -1).unsqueeze(-1), (0, step - 1)).flatten(-2)
            x = F.pad(apart, (reach, reach + more[place] - step + 1)).movedim(-1, 2 + place)
        mirrored = weight.flip(*range(2, 2 + dims)).flatten(0, 1).unsqueeze(1)
        plain = getattr(aten, f"conv{dims}d").default
        return plain(x, mirrored, bias, [1] * dims, [0] * dims, gaps, groups)

    return convolution


def _same_padding(dims: int) -> Callable[..., Any]:
    """A convolution with as many results as elements, padded on both sides or one more behind."""

    def convolution(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: str = "valid",
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        stride, dilation = (
            [size] * dims if isinstance(size, int) else [*size] * (dims // len(size))
            for size in (stride, dilation)
        )
        total = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:], strict=True)]
        if padding == "valid" or not any(size % 2 for size in total):
            return NotImplemented
        sides = [side for size in reversed(total) for side in (size // 2, size - size // 2)]
        batched = x if x.dim() == dims + 2 else x.unsqueeze(0)
        plain = getattr(aten, f"conv{dims}d").default
        result = plain(F.pad(batched, sides), weight, bias, stride, [0] * dims, dilation, groups)
        return result if x.dim() == dims + 2 else result.squeeze(0)

    return convolution


def _pad(x: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """Round a circle: what is cut off at one end of a dim is put in front of the other. Mirrored
    along one dim: IREE 3.13 has no program where its sides differ, nor for edges repeated so."""
    if mode == "reflect" and len(pad) == 2 and min(pad) >= 0:
        (front, behind), size = pad, x.shape[-1]
        sides = (x.narrow(-1, 1, front), x.narrow(-1, size - 1 - behind, behind))
        before, after = (side.flip(-1) for side in sides)
        return torch.cat([before, x, after], -1)
    if mode not in ("circular", "replicate"):
        return NotImplemented
    for place, dim in enumerate(range(x.dim() - 1, x.dim() - 1 - len(pad) // 2, -1)):
        cut = [min(count, 0) for count in pad[2 * place : 2 * place + 2]]
        middle = x.narrow(dim, -cut[0], x.shape[dim] + sum(cut))
        parts, last, is_edge = [middle], middle.shape[dim], mode == "replicate"
        for behind, count in enumerate(pad[2 * place : 2 * place + 2]):
            if count > 0:
                starts = (0, last - 1) if is_edge else (last - count, 0)
                side = middle.narrow(dim, starts[behind], 1 if is_edge else count)
                sizes = [count if each == dim else -1 for each in range(x.dim())]
                parts.insert(behind * len(parts), side.expand(sizes))
        x = torch.cat(parts, dim) if len(parts) > 1 else middle
    return x


def _grid_sampler(x: Any, grid: Any, mode: int, padding: int, corners: bool) -> Any:
    """Cubic samples, which IREE 3.13 takes for bilinear ones, and those of f64, of which it has no
    program."""
    if x.dim() != 4 or (mode != 2 and x.dtype != torch.float64):
        return NotImplemented
    return torch._decomp.decompositions._grid_sampler_2d(x, grid, mode, padding, corners)


def _squeezed(x: torch.Tensor, dims: Any) -> torch.Tensor:
    """Dim by dim: torch makes a `prims.squeeze` of it, which it does not decompose again."""
    for dim in sorted((dim % max(1, x.dim()) for dim in dims), reverse=True):
        x = x.squeeze(dim)
    return x


# What neither IREE nor torch takes apart; a recipe may leave what it is not for (NotImplemented).
RECIPES: dict[Any, Callable[..., Any]] = {
    aten.grid_sampler.default: _grid_sampler,
    aten.squeeze.dims: _squeezed,
    aten.bitwise_or.Scalar: _with_tensor(aten.bitwise_or.Tensor),
    aten.bitwise_xor.Scalar: _with_tensor(aten.bitwise_xor.Tensor),
    **{
        op.default: _same_bytes(number)
        for number, ops in enumerate(
            (
                (aten.zeros, aten.zeros_like, aten.new_zeros),
                (aten.ones, aten.ones_like, aten.new_ones),
            )
        )
        for op in ops
    },
    aten.sign.default: _sign,
    aten.trunc.default: _trunc,
    aten.frac.default: lambda x: x - _trunc(x),
    aten.softshrink.default: _softshrink,
    aten.threshold.default: _threshold,
    **{
        op: _floor_quotient
        for op in (
            *(aten.floor_divide.default, aten.floor_divide.Scalar),
            *(aten.div.Tensor_mode, aten.div.Scalar_mode),
        )
    },
    **{op: _of_one_shape(op) for op in (aten.addcmul.default, aten.addcdiv.default)},
    aten.lerp.Tensor: _of_one_shape(aten.lerp.Tensor),
    **{op: _mean(op) for op in (aten.mean.default, aten.mean.dim)},
    aten.remainder.Scalar_Tensor: _remainder_of_number,
    aten.fmod.Scalar: _fmod,
    aten.fmod.Tensor: _fmod,
    aten.log10.default: lambda x: torch.log2(x) * math.log10(2),
    aten.topk.default: _topk,
    aten.sort.stable: _stable_sort,
    aten.sort.default: _sorted_truths,
    aten.mul.Scalar: _times_real,
    aten.mul.Tensor: _times_real,
    aten.abs.default: _absolute,
    aten.pow.Tensor_Scalar: _power_of_integers,
    aten.nan_to_num.default: _without_nans,
    aten.logit.default: _logit,
    aten.histc.default: _histogram,
    aten._cdist_forward.default: _distances,
    aten.col2im.default: _fold,
    aten.searchsorted.Tensor: _searched,
    aten._grouped_mm.default: _grouped_mm,
    aten.index.Tensor: _index,
    aten.index_put.default: _index_put,
    aten.masked_select.default: _masked_select,
    aten.nonzero_numpy.default: lambda x: torch.nonzero(x).unbind(1),
    aten.matmul.default: _times_vector,
    aten.split_with_sizes.default: _split_with_sizes,
    aten.as_strided_scatter.default: _strided_scatter,
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten.fmax.default: _of_numbers(torch.maximum),
    aten.fmin.default: _of_numbers(torch.minimum),
    aten.hypot.default: _hypot,
    aten.eq.Tensor: _equal,
    aten.bitwise_left_shift.Tensor_Scalar: _with_tensor(torch.bitwise_left_shift),
    aten.bitwise_right_shift.Tensor_Scalar: _with_tensor(torch.bitwise_right_shift),
    aten.copysign.Scalar: _with_tensor(torch.copysign),
    aten.__lshift__.Tensor: torch.bitwise_left_shift,
    aten.__rshift__.Tensor: torch.bitwise_right_shift,
    aten._upsample_bilinear2d_aa.default: _smoothly(lambda t: torch.where(t < 1, 1 - t, 0.0)),
    aten._upsample_bicubic2d_aa.default: _smoothly(_cubic),
    aten.signbit.default: _signbit,
    aten.copysign.Tensor: _copysign,
    aten.xlogy.Tensor: _xlogy,
    aten.erfinv.default: _erfinv,
    aten.erfc.default: _erfc,
    aten.special_erfc.default: _erfc,
    aten.prelu.default: _prelu,
    aten.roll.default: _roll,
    aten.cross_entropy_loss.default: _cross_entropy,
    aten.nll_loss_nd.default: _negative_logs,
    aten.embedding_bag.padding_idx: _bags,
    aten._native_multi_head_attention.default: self_attention,
    aten._transformer_encoder_layer_fwd.default: encoder_layer,
    aten.pad.default: _pad,
    aten.median.dim: _median,
    aten.median.default: _median_of_all,
    aten.kthvalue.default: _kth,
    aten.cummax.default: _extremes_so_far(False),
    aten.cummin.default: _extremes_so_far(True),
    aten.cumprod.default: _running_product,
    aten.logcumsumexp.default: _running_log_of_sums,
    **{
        op: _unbatched(op, dims)
        for dims in (1, 2, 3)
        for op in (
            getattr(aten, f"conv{dims}d").default,
            getattr(aten, f"max_pool{dims}d").default,
            getattr(aten, f"avg_pool{dims}d").default,
        )
    },
    **{
        op: _adaptive_max(op, dims)
        for dims in (1, 2, 3)
        for op in (getattr(aten, f"adaptive_max_pool{dims}d").default,)
    },
    **{
        getattr(aten, f"adaptive_avg_pool{dims}d").default: _adaptive_mean(dims)
        for dims in (1, 2, 3)
    },
    aten.conv_transpose1d.default: _transposed(aten.conv_transpose1d.default, 1),
    aten.conv_transpose2d.input: _transposed(aten.conv_transpose2d.input, 2),
    aten.conv_transpose3d.input: _transposed(aten.conv_transpose3d.input, 3),
    aten.max_pool2d_with_indices.default: _unbatched(aten.max_pool2d_with_indices.default, 2),
    **{getattr(aten, f"conv{dims}d").padding: _same_padding(dims) for dims in (1, 2, 3)},
}


def library_recipes() -> dict[Any, Callable[..., Any]]:
    """Recipes of ops that other packages register, where they are loaded: transformers' product of
    experts' rows."""
    found = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    return {} if found is None else {found.default: _grouped_product}
