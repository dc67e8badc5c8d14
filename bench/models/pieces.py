"""Pieces of models that have no attention, or another: blocks of images, triangles, classifiers."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from bench.models.blocks import Tensor


class Convolutions(nn.Module):
    """Two 3 x 3 convolutions of `width` channels, as ResNet has them."""

    def __init__(self, width: int):
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.second(F.relu(self.first(x))))


class ConvNeXt(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.apart = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.scale = nn.LayerNorm(width), nn.Parameter(torch.ones(width))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.apart(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(h)))).permute(0, 3, 1, 2)


class UNet(nn.Module):
    """Two convolutions with a group norm, and twice as many pixels of half the channels."""

    def __init__(self, width: int):
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.norm, self.up = nn.GroupNorm(8, width), nn.ConvTranspose2d(width, width // 2, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(F.silu(self.second(F.silu(self.norm(self.first(x))))))


class Triangles(nn.Module):
    """AlphaFold's update of pairs by the edges that go out."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.einsum("bikc,bjkc->bijc", x, y)


class Classifier(nn.Module):
    def __init__(self, width: int, classes: int):
        super().__init__()
        self.linear = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


class Bags(nn.Module):
    """Means of the embeddings of several indices, and of all before."""

    def __init__(self, count: int, width: int):
        super().__init__()
        self.weight, self.count = nn.Parameter(torch.empty(count, width)), count

    def forward(self, distances: Tensor) -> Tensor:
        return F.embedding(distances, self.weight).mean(1).cumsum(0)


MODELS: dict[str, Callable[..., Any]] = {
    "convolutions": Convolutions,
    "convnext": ConvNeXt,
    "unet": UNet,
    "triangles": Triangles,
    "classifier": Classifier,
    "bags": Bags,
}
