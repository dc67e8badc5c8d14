"""Convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

aten = torch.ops.aten


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


def _folded(x: Any, sizes: Sequence[int], dim: int, size: int, step: int) -> Any:
    """Windows of a dim, the last of `x`, added where they lie (`istft`, writes to an unfolding)."""
    dim %= len(sizes)
    x = x.movedim(dim, -1)
    count = (x.shape[-1] - 1) * step + size
    blocks = x.reshape(-1, size, x.shape[-1])
    made = F.fold(blocks, (1, count), (1, size), stride=(1, step))
    made = F.pad(made.reshape(*x.shape[:-2], count), (0, sizes[dim] - count))
    return made.movedim(-1, dim)


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
    """A convolution with as many results as elements, padded on both sides or one more behind; the
    import takes batches alone."""

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
        if x.dim() == dims + 1:
            of_batch = getattr(aten, f"conv{dims}d").padding
            options = (bias, stride, padding, dilation, groups)
            return of_batch(x.unsqueeze(0), weight, *options).squeeze(0)
        total = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:], strict=True)]
        if padding == "valid" or not any(size % 2 for size in total):
            return NotImplemented
        sides = [side for size in reversed(total) for side in (size // 2, size - size // 2)]
        plain = getattr(aten, f"conv{dims}d").default
        return plain(F.pad(x, sides), weight, bias, stride, [0] * dims, dilation, groups)

    return convolution


RECIPES: dict[Any, Callable[..., Any]] = {
    aten.col2im.default: _fold,
    aten.unfold_backward.default: _folded,
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
