"""Layers of more models, each for what the blocks of blocks.py do not have: masks of numbers,
caches that grow, packed weights, windows of images, experts."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from bench.models.blocks import (
    Encoder,
    LlamaParts,
    RMSNorm,
    Tensor,
    heads,
    joined,
    rotated,
    rotated_pairs,
    widened,
)

attention = F.scaled_dot_product_attention


def plain(k: int, n: int) -> nn.Linear:
    return nn.Linear(k, n, bias=False)


def gated(width: int, hidden: int) -> list[nn.Linear]:
    """The products of a gated part: gate, up and down."""
    return [plain(width, hidden), plain(width, hidden), plain(hidden, width)]


def norms(kind: Callable[[int], nn.Module], width: int, count: int) -> nn.ModuleList:
    return nn.ModuleList([kind(width) for _ in range(count)])


def quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


class T5(nn.Module):
    """An encoder's layer: a bias for each head by the distance of a row and a key, no scale."""

    def __init__(self, width: int, count: int, hidden: int):
        super().__init__()
        self.count = count
        self.q, self.k, self.v, self.o = (plain(width, width) for _ in range(4))
        self.gate, self.up, self.down = gated(width, hidden)
        self.norms = norms(RMSNorm, width, 2)
        self.bias = nn.Parameter(torch.empty(32, count))

    def forward(self, x: Tensor, distances: Tensor) -> Tensor:
        h = self.norms[0](x)
        q, k, v = (heads(layer(h), self.count) for layer in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) + F.embedding(distances, self.bias).permute(2, 0, 1)[None]
        x = x + self.o(joined(torch.softmax(widened(scores), -1).to(q.dtype) @ v))
        h = self.norms[1](x)
        return x + self.down(F.gelu(self.gate(h), approximate="tanh") * self.up(h))


class Gemma2(nn.Module):
    """A window of 1024 keys under a soft-cap, written out; norms behind, too."""

    def __init__(self, width: int, count: int, groups: int, size: int, hidden: int):
        super().__init__()
        self.count, self.groups = count, groups
        self.q, self.o = plain(width, count * size), plain(count * size, width)
        self.k, self.v = plain(width, groups * size), plain(width, groups * size)
        self.gate, self.up, self.down = gated(width, hidden)
        self.norms = norms(RMSNorm, width, 4)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h, times = self.norms[0](x), self.count // self.groups
        q = rotated(heads(self.q(h), self.count), cos, sin)
        k = rotated(heads(self.k(h), self.groups), cos, sin).repeat_interleave(times, 1)
        v = heads(self.v(h), self.groups).repeat_interleave(times, 1)
        scores = torch.tanh(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 / 50.0) * 50.0
        row = torch.arange(x.shape[1], device=x.device)
        distance = row[:, None] - row[None]
        lowest = torch.finfo(scores.dtype).min
        scores = scores.masked_fill((distance < 0) | (distance >= 1024), lowest)
        attended = torch.softmax(widened(scores), -1).to(q.dtype) @ v
        x = x + self.norms[1](self.o(joined(attended)))
        h = self.norms[2](x)
        h = self.down(F.gelu(self.gate(h), approximate="tanh") * self.up(h))
        return x + self.norms[3](h)


class Experts(nn.Module):
    """Each row by two of the experts: all compute all rows, weights of 0 drop the others."""

    def __init__(self, width: int, count: int, hidden: int):
        super().__init__()
        self.gate, self.up = (nn.Parameter(torch.empty(count, width, hidden)) for _ in range(2))
        self.down = nn.Parameter(torch.empty(count, hidden, width))
        self.router = plain(width, count)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, 1)
        chances = torch.softmax(widened(self.router(rows)), -1)
        best, which = chances.topk(2)
        best = best / best.sum(-1, keepdim=True)
        shares = torch.zeros_like(chances).scatter(1, which, best).to(x.dtype)
        given = rows[None].expand(len(self.gate), -1, -1)
        h = F.silu(torch.bmm(given, self.gate)) * torch.bmm(given, self.up)
        return (torch.bmm(h, self.down) * shares.t()[:, :, None]).sum(0).view_as(x)


class ChosenExperts(nn.Module):
    """Experts of which each token chooses `top`: rows are sorted by expert, and multiplied group by
    group, as transformers does it."""

    def __init__(self, width: int, count: int, top: int, hidden: int):
        super().__init__()
        self.count, self.top = count, top
        self.router = plain(width, count)
        self.up = nn.Parameter(torch.empty(count, 2 * hidden, width))
        self.down = nn.Parameter(torch.empty(count, width, hidden))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        shares, chosen = F.softmax(self.router(rows).float(), -1).topk(self.top)
        shares = (shares / shares.sum(-1, keepdim=True)).to(x.dtype).flatten()
        experts, order = chosen.flatten().sort()
        sizes = torch.histc(experts.float(), self.count, 0, self.count - 1)
        ends = sizes.cumsum(0, dtype=torch.int32)
        gate, up = by_group(rows[order // self.top], self.up, ends).chunk(2, -1)
        made = by_group(F.silu(gate) * up, self.down, ends) * shares[order][:, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=x.device)
        return made[back].unflatten(0, (-1, self.top)).sum(1).reshape(x.shape)


def by_group(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Rows of each group times the weights (n, k) of the group."""
    if x.dtype != torch.float64:
        return torch._grouped_mm(x, weights.transpose(-2, -1), offs=ends)
    starts = [0, *ends.tolist()]
    parts = zip(starts, starts[1:], weights, strict=False)
    return torch.cat([x[start:end] @ own.T for start, end, own in parts])


class Windows(nn.Module):
    """Attention in windows of an image (batch, height, width, columns): those of Swin, which are
    shifted and have a mask and a bias, or of SAM, where the image is filled up."""

    def __init__(self, width: int, count: int, window: int, shift: int):
        super().__init__()
        self.count, self.window, self.shift = count, window, shift
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = norms(nn.LayerNorm, width, 2)
        if shift:
            self.bias = nn.Parameter(torch.empty(count, window**2, window**2))

    def forward(self, x: Tensor, hidden_by: Tensor | None = None) -> Tensor:
        batch, height, width, columns = x.shape
        side = self.window
        h = self.norms[0](x)
        if self.shift:
            h = torch.roll(h, (-self.shift, -self.shift), (1, 2))
        h = F.pad(h, (0, 0, 0, -width % side, 0, -height % side))
        down, right = h.shape[1] // side, h.shape[2] // side
        h = h.view(batch, down, side, right, side, columns).permute(0, 1, 3, 2, 4, 5)
        h = h.reshape(-1, side * side, columns)
        q, k, v = self.qkv(h).unflatten(-1, (3, self.count, -1)).permute(2, 0, 3, 1, 4).unbind()
        mask = None
        if hidden_by is not None:
            mask = (self.bias[None, None] + hidden_by[None, :, None]).expand(batch, -1, -1, -1, -1)
            mask = mask.flatten(0, 1)
        h = self.o(joined(attention(q, k, v, attn_mask=mask)))
        h = h.view(batch, down, right, side, side, columns).permute(0, 1, 3, 2, 4, 5)
        h = h.reshape(batch, down * side, right * side, columns)[:, :height, :width]
        if self.shift:
            h = torch.roll(h, (self.shift, self.shift), (1, 2))
        x = x + h
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class DiT(nn.Module):
    """An image's tokens, shifted and scaled by a step."""

    def __init__(self, width: int, count: int):
        super().__init__()
        self.count, self.shifts = count, nn.Linear(width, 6 * width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        shifts = [part[:, None] for part in self.shifts(F.silu(step)).chunk(6, -1)]

        def normed(at: int) -> Tensor:
            return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + shifts[at + 1]) + shifts[at]

        packed = self.qkv(normed(0)).unflatten(-1, (3, self.count, -1))
        x = x + shifts[2] * self.o(joined(attention(*packed.permute(2, 0, 3, 1, 4).unbind())))
        return x + shifts[5] * self.down(F.gelu(self.up(normed(3)), approximate="tanh"))


class Attention(nn.Module):
    """Attention of some rows to others, which may have another width."""

    def __init__(self, width: int, count: int, other: int = 0, bias: bool = True):
        super().__init__()
        self.count = count
        sizes = ((width, width), (other or width, width), (other or width, width))
        self.q, self.k, self.v = (nn.Linear(*size, bias=bias) for size in sizes)
        self.o = nn.Linear(width, width)

    def forward(self, x: Tensor, other: Tensor, **how: Any) -> Tensor:
        q, k, v = (
            heads(layer(given), self.count)
            for layer, given in ((self.q, x), (self.k, other), (self.v, other))
        )
        return self.o(joined(attention(q, k, v, **how)))


class SDXL(nn.Module):
    """An image's tokens, which attend to themselves and to a text; GELU of one half times the
    other."""

    def __init__(self, width: int, count: int, text: int):
        super().__init__()
        self.own = Attention(width, count, bias=False)
        self.text = Attention(width, count, text, bias=False)
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.norms = norms(nn.LayerNorm, width, 3)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        h = self.norms[0](x)
        x = x + self.own(h, h)
        x = x + self.text(self.norms[1](x), text)
        h, gate = self.up(self.norms[2](x)).chunk(2, -1)
        return x + self.down(h * F.gelu(gate))


class Bart(nn.Module):
    """A decoder's layer over an encoder's rows, some of which are padding."""

    def __init__(self, width: int, count: int):
        super().__init__()
        self.own, self.other = Attention(width, count), Attention(width, count)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = norms(nn.LayerNorm, width, 3)

    def forward(self, x: Tensor, encoded: Tensor, kept: Tensor) -> Tensor:
        x = self.norms[0](x + self.own(x, x, is_causal=True))
        mask = kept[:, None, None].bool()
        x = self.norms[1](x + self.other(x, encoded, attn_mask=mask))
        return self.norms[2](x + self.down(F.gelu(self.up(x))))


class Whisper(nn.Module):
    """A step of a decoder over its own static cache and an encoder's keys and values."""

    def __init__(self, width: int, count: int):
        super().__init__()
        self.own, self.count = Attention(width, count), count
        self.q, self.o = nn.Linear(width, width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = norms(nn.LayerNorm, width, 3)

    def forward(
        self, x: Tensor, other_keys: Tensor, other_values: Tensor, place: Tensor, *caches: Tensor
    ) -> tuple[Tensor, ...]:
        own, h = self.own, self.norms[0](x)
        new = (heads(own.k(h), self.count), heads(own.v(h), self.count))
        write = torch.ops.aten.index_put
        keys, values = (write(c, (None, None, place), n) for c, n in zip(caches, new, strict=True))
        seen = torch.arange(keys.shape[2], device=x.device)[None, None, None] <= place
        q = heads(own.q(h), self.count)
        x = x + own.o(joined(attention(q, keys, values, attn_mask=seen)))
        q = heads(self.q(self.norms[1](x)), self.count)
        x = x + self.o(joined(attention(q, other_keys, other_values)))
        return x + self.down(F.gelu(self.up(self.norms[2](x)))), keys, values


class Packed(nn.Module):
    """Phi-3's: Q, K and V by one product, gate and up by another."""

    def __init__(self, width: int, count: int, hidden: int):
        super().__init__()
        self.count = count
        self.qkv, self.o = plain(width, 3 * width), plain(width, width)
        self.gate_up, self.down = plain(width, 2 * hidden), plain(hidden, width)
        self.norms = norms(RMSNorm, width, 2)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = (heads(p, self.count) for p in self.qkv(self.norms[0](x)).chunk(3, -1))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        x = x + self.o(joined(attention(q, k, v, is_causal=True)))
        gate, up = self.gate_up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(up * F.silu(gate))


class Parallel(nn.Module):
    """Attention beside the rest of a layer. GPT-NeoX packs Q, K and V of each head, and turns some
    of its columns; Falcon has one head of K and V behind those of Q, and one norm."""

    def __init__(self, width: int, count: int, shared: bool):
        super().__init__()
        self.count, self.shared = count, shared
        packed = width + 2 * width // count if shared else 3 * width
        make = plain if shared else nn.Linear
        self.qkv, self.o = make(width, packed), make(width, width)
        self.up, self.down = make(width, 4 * width), make(4 * width, width)
        self.norms = norms(nn.LayerNorm, width, 1 if shared else 2)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h, turned = self.norms[0](x), cos.shape[-1]
        if self.shared:
            packed = heads(self.qkv(h), self.count + 2)
            q, k, v = packed[:, :-2], packed[:, -2:-1], packed[:, -1:]
        else:
            q, k, v = heads(self.qkv(h), self.count).chunk(3, -1)
        if turned == q.shape[-1]:
            q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        else:
            q, k = (
                torch.cat((rotated(one[..., :turned], cos, sin), one[..., turned:]), -1)
                for one in (q, k)
            )
        attended = attention(q, k.expand_as(q), v.expand_as(q), is_causal=True)
        return x + self.o(joined(attended)) + self.down(F.gelu(self.up(self.norms[-1](x))))


class Bloom(nn.Module):
    """A bias that falls with the distance of a key, as a tensor with its causal mask."""

    def __init__(self, width: int, count: int):
        super().__init__()
        self.count = count
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = norms(nn.LayerNorm, width, 2)

    def forward(self, x: Tensor, slopes: Tensor) -> Tensor:
        packed = self.qkv(self.norms[0](x)).unflatten(-1, (self.count, 3, -1))
        q, k, v = packed.permute(3, 0, 2, 1, 4).unbind()
        row = torch.arange(x.shape[1], device=x.device)
        mask = torch.where(row[:, None] >= row[None], 0.0, float("-inf")).to(x.dtype)
        mask = mask + slopes[:, None, None] * row.to(x.dtype)
        x = x + self.o(joined(attention(q, k, v, attn_mask=mask[None])))
        return x + self.down(F.gelu(self.up(self.norms[1](x)), approximate="tanh"))


class Other(Encoder):
    """A layer normed in front, with its own activation: OPT's, which is causal, or CLIP's."""

    def __init__(self, causal: bool, **sizes: Any):
        super().__init__(**sizes)
        self.causal = causal

    def forward(self, x: Tensor, hidden_by: Tensor | None = None) -> Tensor:
        h = self.norm1(x)
        q, k, v = (heads(layer(h), self.count) for layer in (self.q, self.k, self.v))
        attended = attention(q, k, v, attn_mask=hidden_by, is_causal=self.causal)
        x = x + self.o(joined(attended))
        h = self.up(self.norm2(x))
        return x + self.down(F.relu(h) if self.causal else quick_gelu(h))


class Prefill(LlamaParts):
    """Returns the keys and values of its rows."""

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.project(x, cos, sin)
        attended = attention(q, self.repeated(k), self.repeated(v), is_causal=True)
        return self.rest(x, attended), k, v


class Chunk(LlamaParts):
    """Some new rows of static caches, up to the one of number `place`."""

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, place: Tensor, *caches: Tensor
    ) -> tuple[Tensor, ...]:
        q, *new = self.project(x, cos, sin)
        rows = place - x.shape[1] + torch.arange(x.shape[1], device=x.device)
        write = torch.ops.aten.index_put
        keys, values = (write(c, (None, None, rows), n) for c, n in zip(caches, new, strict=True))
        seen = torch.arange(keys.shape[2], device=x.device)[None] <= rows[:, None]
        attended = attention(q, self.repeated(keys), self.repeated(values), attn_mask=seen)
        return self.rest(x, attended), keys, values


class Growing(LlamaParts):
    """A step over caches to which it joins its row; the oldest goes where there is a `window`."""

    def __init__(self, window: bool = False, **sizes: int):
        super().__init__(**sizes)
        self.first = int(window)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        q, *new = self.project(x, cos, sin)
        keys, values = (
            torch.cat((cache[:, :, self.first :], row), 2)
            for cache, row in zip(caches, new, strict=True)
        )
        attended = attention(q, keys, values, enable_gqa=True)
        return self.rest(x, attended), keys, values


class EVA(nn.Module):
    """EVA-02's: rotary embedding of neighbours, and a norm within the gated part, whose width no
    vector divides."""

    def __init__(self, width: int, count: int, hidden: int):
        super().__init__()
        self.count = count
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate, self.up = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for size in (width, width, hidden))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = (heads(p, self.count) for p in self.qkv(self.norms[0](x)).chunk(3, -1))
        q, k = rotated_pairs(q, cos, sin), rotated_pairs(k, cos, sin)
        x = x + self.o(joined(attention(q, k, v)))
        h = self.norms[1](x)
        return x + self.down(self.norms[2](F.silu(self.gate(h)) * self.up(h)))


class Lora(nn.Module):
    def __init__(self, width: int, rank: int):
        super().__init__()
        self.own, self.down, self.up = plain(width, width), plain(width, rank), plain(rank, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.own(x) + 2.0 * self.up(self.down(x))


MODELS = {
    "t5": T5,
    "gemma2": Gemma2,
    "experts": Experts,
    "chosen_experts": ChosenExperts,
    "windows": Windows,
    "dit": DiT,
    "sdxl": SDXL,
    "bart": Bart,
    "whisper": Whisper,
    "packed": Packed,
    "parallel": Parallel,
    "bloom": Bloom,
    "other": Other,
    "prefill": Prefill,
    "chunk": Chunk,
    "growing": Growing,
    "eva": EVA,
    "lora": Lora,
}
