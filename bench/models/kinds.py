"""Blocks of kinds of models that transformers of text and images are not: video, sound, points,
graphs, tokens that are merged; and attention that is made otherwise."""

# pyright: reportMissingImports=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from bench.models.blocks import RMSNorm, Tensor, heads, joined
from bench.models.others import attention, plain


def linears(width: int, count: int) -> list[nn.Linear]:
    return [nn.Linear(width, width) for _ in range(count)]


class Temporal(nn.Module):
    """AnimateDiff's: each place of a video attends to itself in other frames."""

    def __init__(self, width: int, count: int):
        super().__init__()
        self.count, self.norm = count, nn.LayerNorm(width)
        self.q, self.k, self.v = (plain(width, width) for _ in range(3))
        self.o = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, frames, places, width = x.shape
        h = self.norm(x.transpose(1, 2).reshape(b * places, frames, width))
        made = attention(*(heads(layer(h), self.count) for layer in (self.q, self.k, self.v)))
        return x + self.o(joined(made)).view(b, places, frames, width).transpose(1, 2)


class Levit(nn.Module):
    """LeViT's: keys of fewer numbers than values, a bias of each pair of places."""

    def __init__(self, width: int, count: int, size: int, places: int):
        super().__init__()
        self.count, self.size = count, size
        self.qkv, self.o = plain(width, 4 * count * size), plain(2 * count * size, width)
        self.bias = nn.Parameter(torch.empty(count, places, places))

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        parts = self.qkv(x).view(b, n, self.count, -1)
        parts = parts.split([self.size, self.size, 2 * self.size], -1)
        q, k, v = (part.transpose(1, 2) for part in parts)
        weights = (q @ k.transpose(-1, -2) * self.size**-0.5 + self.bias).softmax(-1)
        return x + self.o(F.hardswish(joined(weights @ v)))


class Differential(nn.Module):
    """The difference of two attentions, whose values are twice as wide as their keys."""

    def __init__(self, width: int, count: int, size: int):
        super().__init__()
        self.count, self.size = count, size
        self.q, self.k, self.v, self.o = (plain(width, width) for _ in range(4))
        self.parts = nn.Parameter(torch.empty(4, size))
        self.norm, self.behind = RMSNorm(width), RMSNorm(2 * size)

    def forward(self, x: Tensor) -> Tensor:
        h, (b, n, _) = self.norm(x), x.shape
        shape = b, n, self.count, 2, self.size
        q, k = (layer(h).view(shape).permute(3, 0, 2, 1, 4) for layer in (self.q, self.k))
        v, parts = heads(self.v(h), self.count), self.parts
        first, second = (attention(q[i], k[i], v, is_causal=True) for i in (0, 1))
        share = [(parts[i] * parts[i + 1]).sum().div(self.size).exp() for i in (0, 2)]
        made = self.behind(first - (share[0] - share[1] + 0.8) * second)
        return x + self.o(joined(made * 0.2))


class Longformer(nn.Module):
    """Windows of keys around chunks of rows, written out."""

    def __init__(self, width: int, count: int, chunk: int):
        super().__init__()
        self.count, self.chunk = count, chunk
        self.q, self.k, self.v, self.o = linears(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        w = self.chunk
        q, k, v = (heads(layer(x), self.count) for layer in (self.q, self.k, self.v))
        b, h, n, size = q.shape
        k, v = (F.pad(one, (0, 0, w, w)).unfold(2, 3 * w, w).transpose(-1, -2) for one in (k, v))
        scores = q.view(b, h, n // w, w, size) @ k.transpose(-1, -2) / math.sqrt(size)
        row = torch.arange(w, device=x.device)[:, None]
        key = torch.arange(3 * w, device=x.device)[None] - w
        place = torch.arange(n // w, device=x.device)[:, None, None] * w + key
        seen = ((key - row).abs() <= w) & (place >= 0) & (place < n)
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        return self.o(joined((weights @ v).view(b, h, n, size)))


class Performer(nn.Module):
    """Attention by random features, without a softmax."""

    def __init__(self, width: int, count: int, features: int):
        super().__init__()
        self.count, self.norm = count, nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.features = nn.Parameter(torch.empty(features, width // count))

    def seen(self, x: Tensor) -> Tensor:
        x = x * x.shape[-1] ** -0.25
        made, norm = x @ self.features.t(), x.pow(2).sum(-1, keepdim=True) / 2
        return torch.exp(made - norm - made.amax((-1, -2), keepdim=True)) + 1e-4

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (heads(one, self.count) for one in self.qkv(self.norm(x)).chunk(3, -1))
        q, k = self.seen(q), self.seen(k)
        total = q @ k.mean(2).unsqueeze(-1)
        return x + self.o(joined(q @ (k.transpose(-1, -2) @ v / k.shape[2]) * (1 / total)))


class MergedTokens(nn.Module):
    """Token merging: every other token, but for those that are most like one of the rest, whose
    mean with it takes its place."""

    def __init__(self, width: int, merged: int):
        super().__init__()
        self.merged, self.k = merged, nn.Linear(width, 64)

    def forward(self, x: Tensor) -> Tensor:
        metric, width = F.normalize(self.k(x), dim=-1), x.shape[-1]
        most, which = (metric[:, ::2] @ metric[:, 1::2].transpose(-1, -2)).max(-1)
        order = most.argsort(-1, descending=True)[..., None]
        kept, lost = order[:, self.merged :], order[:, : self.merged]
        places = which[..., None].gather(-2, lost).expand(-1, -1, width)
        left, right = x[:, ::2], x[:, 1::2]
        kept, lost = (left.gather(-2, one.expand(-1, -1, width)) for one in (kept, lost))
        return torch.cat([kept, right.scatter_reduce(-2, places, lost, "mean")], 1).sum(1)


class Edges(nn.Module):
    """A graph's attention: a softmax over the edges that end in a node, 16 an average."""

    def __init__(self, width: int, count: int):
        super().__init__()
        self.count = count
        self.q, self.k, self.v, self.o = linears(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        number = torch.arange(16 * n, device=x.device)
        source, to = number * 7919 % n, (number * 104729 + number // n) % n
        q, k, v = (layer(x).view(n, self.count, -1) for layer in (self.q, self.k, self.v))
        scores = (q[to] * k[source]).sum(-1) / math.sqrt(q.shape[-1])
        places = to[:, None].expand(-1, self.count)
        most = torch.full_like(scores[:n], -1e4).scatter_reduce(0, places, scores, "amax")
        weights = (scores - most[to]).exp()
        total = torch.zeros_like(most).index_add(0, to, weights)[..., None] + 1e-6
        made = torch.zeros_like(v).index_add(0, to, weights[..., None] * v[source])
        return x + self.o((made / total).reshape(n, -1))


class Points(nn.Module):
    """Point Transformer's: each point attends to its 16 nearest."""

    def __init__(self, width: int):
        super().__init__()
        self.q, self.k, self.v, self.first, self.second = linears(width, 5)
        self.places = nn.Linear(3, width)

    def forward(self, points: Tensor, x: Tensor) -> Tensor:
        wide = points if points.dtype == torch.float64 else points.float()
        apart = (wide[:, :, None] - wide[:, None]).pow(2).sum(-1)
        near = apart.topk(16, largest=False)[1][..., None]

        def around(one: Tensor) -> Tensor:
            every = one[:, None].expand(-1, one.shape[1], -1, -1)
            return torch.gather(every, 2, near.expand(-1, -1, -1, one.shape[-1]))

        place = self.places(points[:, :, None] - around(points))
        scores = self.q(x)[:, :, None] - around(self.k(x)) + place
        weights = self.second(F.relu(self.first(scores))).softmax(2)
        return x + (weights * (around(self.v(x)) + place)).sum(2)


class Waves(nn.Module):
    """The front of wav2vec 2.0: convolutions of samples, a norm a channel behind the first."""

    def __init__(self, width: int):
        super().__init__()
        sizes = (1, width, 10, 5), (width, width, 3, 2), (width, width, 2, 2)
        self.first, *others = (nn.Conv1d(*size, bias=False) for size in sizes)
        self.norm, self.others = nn.GroupNorm(width, width), nn.ModuleList(others)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.norm(self.first(x)))
        for layer in self.others:
            x = F.gelu(layer(x))
        return x.transpose(1, 2)


class Voice(nn.Module):
    """HiFi-GAN's: eight samples for one, then convolutions of samples further and further apart."""

    def __init__(self, width: int):
        super().__init__()
        self.up = nn.ConvTranspose1d(width, width // 2, 16, 8, 4)
        self.others = nn.ModuleList(
            nn.Conv1d(width // 2, width // 2, 3, padding=step, dilation=step) for step in (1, 3, 5)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(F.leaky_relu(x, 0.1))
        for layer in self.others:
            x = x + layer(F.leaky_relu(x, 0.1))
        return x


MODELS: dict[str, Callable[..., Any]] = {
    "temporal": Temporal,
    "levit": Levit,
    "differential": Differential,
    "longformer": Longformer,
    "performer": Performer,
    "merged_tokens": MergedTokens,
    "edges": Edges,
    "points": Points,
    "waves": Waves,
    "voice": Voice,
}
