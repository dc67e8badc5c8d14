"""Parts of transformer blocks as their sources write them, through the door."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import attnpass.torch  # noqa: E402
from attnpass import Report  # noqa: E402


class Positions(torch.nn.Module):
    """Attention of an image whose biases are products of its queries, of rows and of columns."""

    def forward(self, q: Any, k: Any, v: Any, down: Any, right: Any) -> Any:
        heads, side = q.shape[0], down.shape[0]
        scores = (q * 0.25) @ k.transpose(-1, -2)
        image = q.reshape(heads, side, side, -1)
        rows = torch.einsum("bhwc,hkc->bhwk", image, down)
        columns = torch.einsum("bhwc,wkc->bhwk", image, right)
        scores = scores.view(heads, side, side, side, side)
        scores = scores + rows[..., None] + columns[..., None, :]
        return torch.softmax(scores.view(heads, side**2, side**2), -1) @ v


class Experts(torch.nn.Module):
    """Rows of chosen experts, added up where their tokens are."""

    def forward(self, x: Any, weights: Any, logits: Any) -> Any:
        shares, chosen = torch.topk(torch.softmax(logits.float(), -1), 2, -1)
        token = torch.arange(x.shape[0])[:, None].expand(-1, 2).reshape(-1)
        rows = torch.bmm(weights[chosen.reshape(-1)], x[token][:, :, None])[..., 0]
        rows = rows * shares.reshape(-1, 1).to(x.dtype)
        return torch.zeros_like(x).index_add_(0, token, rows)


class Mixed(torch.nn.Module):
    """Each token by all experts, and back: dims that are joined lie side by side in weights."""

    def forward(self, x: Any, up: Any, down: Any) -> Any:
        return torch.einsum("teh,meh->tm", torch.einsum("td,ehd->teh", x, up).relu(), down)


def _random(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


CASES = {
    "positions": (
        Positions(),
        [*_random(3, 3, 16, 8), _random(4, 4, 8) * 3, _random(4, 4, 8)],
    ),
    "experts": (Experts(), [_random(5, 16), _random(4, 16, 16), _random(5, 4)]),
    "mixed": (Mixed(), [_random(5, 16), _random(4, 24, 16) * 0.1, _random(12, 4, 24) * 0.1]),
}


@pytest.mark.parametrize("name", CASES)
def test_part(name: str) -> None:
    model, given = CASES[name]
    given = [one.half() for one in given]
    report = Report()
    got = attnpass.torch.compile(model, tuple(given), report=report)(*given)
    wanted = model(*(one.double() for one in given))
    assert len(report.attentions) == (name == "positions")
    joined = [r for r in report.found("fitted") if "joins dims in front" in r.reason]
    assert name != "mixed" or len(joined) == 2
    assert ((got.double() - wanted).norm() / wanted.norm()).item() < 3e-3
