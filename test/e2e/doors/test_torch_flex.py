"""FlexAttention as PyTorch's users write it: what IREE's import takes as an op, and what not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch.nn.attention.flex_attention import (  # noqa: E402
    and_masks,
    create_block_mask,
    flex_attention,
    or_masks,
)

import attnpass.torch  # noqa: E402

ROWS, KEYS = 24, 40


class Flex(torch.nn.Module):
    """A score and a mask function, which may read the tensors of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor([0.5, 0.25, 0.1, 0.05]))
        self.register_buffer("by_distance", torch.randn(4, ROWS + KEYS))
        self.register_buffer("document", torch.arange(KEYS) // 11)
        self.register_buffer("lengths", torch.tensor([17, KEYS]))

    def score(self, score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score

    def mask(self, b: Any, h: Any, i: Any, j: Any) -> Any:
        return j >= 0

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        def seen(b: Any, h: Any, i: Any, j: Any) -> Any:
            return self.mask(b, h, i, j)

        blocks = create_block_mask(seen, 2, 4, ROWS, KEYS, device="cpu")
        return flex_attention(
            q, k, v, score_mod=self.score, block_mask=blocks, enable_gqa=q.shape[1] != k.shape[1]
        )


class Documents(Flex):
    """Slopes of heads, and a causal mask inside of documents: the first row sees one key."""

    def score(self, score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score + self.slopes[h] * (j - i)

    def mask(self, b: Any, h: Any, i: Any, j: Any) -> Any:
        return (self.document[i] == self.document[j]) & (i >= j)


class Prefix(Flex):
    """Biases by distance, and a prefix that all rows see."""

    def score(self, score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score + self.by_distance[h, i - j + KEYS]

    def mask(self, b: Any, h: Any, i: Any, j: Any) -> Any:
        return (j < 5) | (i >= j)


class Lengths(Flex):
    def mask(self, b: Any, h: Any, i: Any, j: Any) -> Any:
        return j < self.lengths[b]


class Hidden(Flex):
    """Keys hidden by the score function; the rows of a batch see none."""

    def score(self, score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        score = score * torch.exp2(-(h + 1.0))
        return torch.where((i >= j) & (b == 0), score, -float("inf"))


class Capped(Flex):
    """Keys are hidden behind the soft-cap."""

    def score(self, score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return 2 * torch.tanh(score / 2)

    def mask(self, b: Any, h: Any, i: Any, j: Any) -> Any:
        return i >= j


class Joined(Flex):
    """Masks made of masks, and no score function."""

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        near = and_masks(lambda b, h, i, j: i >= j, lambda b, h, i, j: i - j < 7)
        seen = or_masks(near, lambda b, h, i, j: j < 3)
        blocks = create_block_mask(seen, None, None, ROWS, KEYS, device="cpu")
        return flex_attention(q, k, v, block_mask=blocks, enable_gqa=q.shape[1] != k.shape[1])


class All(torch.nn.Module):
    def __init__(self, *models: Any):
        super().__init__()
        self.models = torch.nn.ModuleList(models)

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return tuple(model(q, k, v) for model in self.models)


@pytest.mark.parametrize(
    ("heads", "models"),
    [(4, (Documents, Prefix, Lengths, Hidden, Capped, Joined)), (2, (Prefix, Lengths, Capped))],
)
def test_functions_of_scores_and_masks(heads: int, models: Any) -> None:
    """Few heads of keys are read by several of queries."""
    model = All(*(kind() for kind in models)).eval()
    q, k, v = torch.randn(2, 4, ROWS, 16), *torch.randn(2, 2, heads, KEYS, 16)
    fast = attnpass.torch.compile(model, (q, k, v))
    assert len(fast.report.attentions) == len(models) and not fast.report.events
    with torch.no_grad():
        wanted = copy.deepcopy(model).double()(q.double(), k.double(), v.double())
    for ours, theirs in zip(fast(q, k, v), wanted, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=2e-6)


def test_batches_that_share_keys_and_narrow_types() -> None:
    model = Documents().eval()
    q, k, v = torch.randn(2, 4, ROWS, 16), *torch.randn(2, 1, 2, KEYS, 16)
    q, k, v = (tensor.half() for tensor in (q, k, v))
    with torch.no_grad():
        wanted = copy.deepcopy(model).double()(q.double(), k.double(), v.double())
    got = attnpass.torch.compile(model, (q, k, v))(q, k, v)
    assert got.dtype == torch.half
    torch.testing.assert_close(got.double(), wanted, rtol=2e-3, atol=2e-3)
