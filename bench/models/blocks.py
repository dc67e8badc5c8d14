"""Transformer blocks of real models in PyTorch, as their sources write them.

Weights lie as the models have them: (n, k) in linear layers, (k, n) in GPT-2's. Attention is
torch's own function, or written out, as eager models have it.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Tensor = Any


def widened(x: Tensor) -> Tensor:
    """In f32 at least, as norms compute."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(-2)


def repeated(x: Tensor, times: int) -> Tensor:
    """Each head so many times, for grouped queries."""
    return x[:, :, None].expand(-1, -1, times, -1, -1).flatten(1, 2)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of a head's halves."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def rotated_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of neighbours in a head."""
    first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack((-second, first), -1).flatten(-2)
    return (widened(x) * cos + widened(turned) * sin).to(x.dtype)


def written_out(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    """Attention by two products and a softmax in f32; keys that are not `seen` are hidden."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    lowest = torch.finfo(scores.dtype).min
    scores = torch.where(seen, scores, torch.full([], lowest, dtype=q.dtype, device=q.device))
    return torch.softmax(widened(scores), -1).to(q.dtype) @ v


def causal(rows: int, x: Tensor) -> Tensor:
    return torch.ones(rows, rows, dtype=torch.bool, device=x.device).tril()


class RMSNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = widened(x)
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (wide * scale).to(x.dtype) * self.weight


class Conv1D(nn.Module):
    """A linear layer whose weights lie as (k, n)."""

    def __init__(self, k: int, n: int):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(k, n)), nn.Parameter(torch.empty(n))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.addmm(self.bias, x.flatten(0, -2), self.weight)
        return y.view(*x.shape[:-1], y.shape[-1])


class LlamaParts(nn.Module):
    """A decoder layer of `count` heads of queries over `groups` of keys and values, without what
    its rows attend to."""

    def __init__(self, width: int, count: int, groups: int, hidden: int):
        super().__init__()
        size = width // count
        linear = lambda k, n: nn.Linear(k, n, bias=False)  # noqa: E731
        self.count, self.groups = count, groups
        self.q, self.o = linear(width, width), linear(width, width)
        self.k, self.v = linear(width, groups * size), linear(width, groups * size)
        self.gate, self.up = linear(width, hidden), linear(width, hidden)
        self.down = linear(hidden, width)
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.norm1(x)
        q, k = heads(self.q(h), self.count), heads(self.k(h), self.groups)
        v = heads(self.v(h), self.groups)
        return rotated(q, cos, sin), rotated(k, cos, sin), v

    def repeated(self, x: Tensor) -> Tensor:
        return repeated(x, self.count // self.groups)

    def rest(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.o(joined(attended))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(LlamaParts):
    """All rows of a sequence attend to those before them; `by_hand` that is written out."""

    def __init__(self, by_hand: bool = False, **sizes: int):
        super().__init__(**sizes)
        self.by_hand = by_hand

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = self.project(x, cos, sin)
        k, v = self.repeated(k), self.repeated(v)
        if self.by_hand:
            attended = written_out(q, k, v, causal(x.shape[1], q))
        else:
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.rest(x, attended)


class Decode(LlamaParts):
    """A step of one row a sequence over static caches of keys and values, which it writes."""

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, place: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.project(x, cos, sin)
        keys = torch.ops.aten.index_put(keys, (None, None, place), k)
        values = torch.ops.aten.index_put(values, (None, None, place), v)
        seen = torch.arange(keys.shape[2], device=x.device)[None, None, None] <= place
        attended = F.scaled_dot_product_attention(
            q, self.repeated(keys), self.repeated(values), attn_mask=seen
        )
        return self.rest(x, attended), keys, values


class Latent(nn.Module):
    """DeepSeek's attention as it prefills: K and V come from a latent row, one part of K's head dim
    is of that key alone and has its place, and V has another head dim."""

    NAMED, PLACED, VALUE = 128, 64, 128

    def __init__(self, width: int, count: int, query_rank: int, rank: int, by_hand: bool = False):
        super().__init__()
        linear = lambda k, n: nn.Linear(k, n, bias=False)  # noqa: E731
        self.count, self.rank, self.by_hand = count, rank, by_hand
        self.q_down, self.q_up = (
            linear(width, query_rank),
            linear(query_rank, count * (self.NAMED + self.PLACED)),
        )
        self.down = linear(width, rank + self.PLACED)
        self.up, self.o = (
            linear(rank, count * (self.NAMED + self.VALUE)),
            linear(count * self.VALUE, width),
        )
        self.norm1, self.norm_q, self.norm_kv = RMSNorm(width), RMSNorm(query_rank), RMSNorm(rank)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h = self.norm1(x)
        q = heads(self.q_up(self.norm_q(self.q_down(h))), self.count)
        q_named, q_placed = q.split([self.NAMED, self.PLACED], -1)
        latent, k_placed = self.down(h).split([self.rank, self.PLACED], -1)
        k_named, v = heads(self.up(self.norm_kv(latent)), self.count).split(
            [self.NAMED, self.VALUE], -1
        )
        k_placed = rotated(k_placed[:, None], cos, sin).expand(-1, self.count, -1, -1)
        q = torch.cat((q_named, rotated(q_placed, cos, sin)), -1)
        k = torch.cat((k_named, k_placed), -1)
        if self.by_hand:
            attended = written_out(q, k, v, causal(x.shape[1], q))
        else:
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.o(joined(attended))


class Encoder(nn.Module):
    """A layer with biases and GELU, normed in front or, as BERT, behind; Q, K and V by one
    product if `joint`, K without a bias as Whisper has it."""

    def __init__(
        self,
        width: int,
        count: int,
        hidden: int,
        joint: bool = False,
        behind: bool = False,
        key_bias: bool = True,
    ):
        super().__init__()
        self.count, self.joint, self.behind = count, joint, behind
        if joint:
            self.qkv = nn.Linear(width, 3 * width)
        else:
            self.q, self.v = nn.Linear(width, width), nn.Linear(width, width)
            self.k = nn.Linear(width, width, bias=key_bias)
        self.o, self.up, self.down = (
            nn.Linear(*sizes) for sizes in ((width, width), (width, hidden), (hidden, width))
        )
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, hidden_by: Tensor | None = None) -> Tensor:
        if self.behind:
            x = self.norm1(x + self.attended(x, hidden_by))
            return self.norm2(x + self.down(F.gelu(self.up(x))))
        x = x + self.attended(self.norm1(x), hidden_by)
        return x + self.down(F.gelu(self.up(self.norm2(x))))

    def attended(self, x: Tensor, hidden_by: Tensor | None) -> Tensor:
        if self.joint:
            q, k, v = self.qkv(x).unflatten(-1, (3, self.count, -1)).permute(2, 0, 3, 1, 4).unbind()
        else:
            q, k, v = (heads(layer(x), self.count) for layer in (self.q, self.k, self.v))
        return self.o(joined(F.scaled_dot_product_attention(q, k, v, attn_mask=hidden_by)))


class Encoders(nn.Module):
    """Several layers; a padding mask (batch, keys) of ones and zeros hides keys."""

    def __init__(self, layers: int, **sizes: Any):
        super().__init__()
        self.layers = nn.ModuleList([Encoder(**sizes) for _ in range(layers)])

    def forward(self, x: Tensor, kept: Tensor | None = None) -> Tensor:
        mask = None if kept is None else (1 - kept[:, None, None].to(x.dtype)) * -60000.0
        for layer in self.layers:
            x = layer(x, mask)
        return x


class GPT2(nn.Module):
    """A decoder layer as GPT-2's source has it: attention and GELU written out, weights (k, n)."""

    def __init__(self, width: int, count: int):
        super().__init__()
        self.count = count
        self.qkv, self.o = Conv1D(width, 3 * width), Conv1D(width, width)
        self.up, self.down = Conv1D(width, 4 * width), Conv1D(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (heads(part, self.count) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.o(joined(written_out(q, k, v, causal(x.shape[1], x))))
        h = self.up(self.norm2(x))
        curve = math.sqrt(2 / math.pi) * (h + 0.044715 * torch.pow(h, 3.0))
        return x + self.down(0.5 * h * (1.0 + torch.tanh(curve)))


class GPT2s(nn.Module):
    def __init__(self, layers: int, width: int, count: int):
        super().__init__()
        self.layers = nn.Sequential(*(GPT2(width, count) for _ in range(layers)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Stream(nn.Module):
    """What Flux computes for the tokens of one kind, beside attention."""

    def __init__(self, width: int, count: int):
        super().__init__()
        self.count = count
        self.shifts = nn.Linear(width, 6 * width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.norm_q, self.norm_k = RMSNorm(width // count), RMSNorm(width // count)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def project(self, x: Tensor, shifts: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        h = self.normed(x, *shifts[:2])
        q, k, v = (heads(layer(h), self.count) for layer in (self.q, self.k, self.v))
        return self.norm_q(q), self.norm_k(k), v

    def normed(self, x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale[:, None]) + shift[:, None]

    def rest(self, x: Tensor, attended: Tensor, shifts: Sequence[Tensor]) -> Tensor:
        x = x + shifts[2][:, None] * self.o(attended)
        h = F.gelu(self.up(self.normed(x, *shifts[3:5])), approximate="tanh")
        return x + shifts[5][:, None] * self.down(h)


class TwoStreams(nn.Module):
    """A block of Flux: text and image have weights of their own, and attend to one another. SD3
    has no rotary embedding."""

    def __init__(self, width: int, count: int):
        super().__init__()
        self.image, self.text = Stream(width, count), Stream(width, count)

    def forward(
        self, image: Tensor, text: Tensor, step: Tensor, *rotation: Tensor
    ) -> tuple[Tensor, Tensor]:
        both = ((self.text, text), (self.image, image))
        shifts = [stream.shifts(F.silu(step)).chunk(6, -1) for stream, _ in both]
        parts = [s.project(x, shift) for (s, x), shift in zip(both, shifts, strict=True)]
        q, k, v = (torch.cat(pair, 2) for pair in zip(*parts, strict=True))
        if rotation:
            q, k = rotated_pairs(q, *rotation), rotated_pairs(k, *rotation)
        attended = joined(F.scaled_dot_product_attention(q, k, v))
        sizes = [text.shape[1], image.shape[1]]
        ends = [
            stream.rest(x, part, shift)
            for (stream, x), part, shift in zip(both, attended.split(sizes, 1), shifts, strict=True)
        ]
        return ends[1], ends[0]


MODELS = {
    "llama": Llama,
    "decode": Decode,
    "latent": Latent,
    "encoders": Encoders,
    "gpt2": GPT2s,
    "streams": TwoStreams,
}
