"""Loops and branches of PyTorch around attention give what PyTorch gives, in f64."""

from __future__ import annotations

from typing import Any

import pytest

import attnpass

torch = pytest.importorskip("torch", reason="the door for torch is not tested: no torch")
F = torch.nn.functional
SIZE = 8


def _loop(*arguments: Any) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(*arguments)


class Refine(torch.nn.Module):
    """Rows that ask the same keys until a count, under a causal mask; weights are read inside."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = torch.nn.Linear(SIZE, SIZE)

    def forward(self, q: Any, k: Any, v: Any, count: Any) -> Any:
        def step(place: Any, x: Any) -> Any:
            rows = torch.arange(x.shape[-2])
            mask = rows[:, None] >= rows[None]
            return place + 1, self.mix(F.scaled_dot_product_attention(x, k, v, attn_mask=mask))

        return _loop(lambda place, x: place < count, step, (torch.tensor(0), q.clone()))


class Decode(torch.nn.Module):
    """Steps that write a cache and ask it."""

    def forward(self, q: Any, k: Any, v: Any, count: Any) -> Any:
        def step(place: Any, x: Any, keys: Any) -> Any:
            at = place.reshape(1)
            keys = keys.index_copy(2, at, x[:, :, :1])
            mask = torch.arange(keys.shape[2])[None] <= place
            return place + 1, F.scaled_dot_product_attention(x, keys, v, attn_mask=mask), keys

        return _loop(lambda place, x, keys: place < count, step, (torch.tensor(1), q.clone(), k))


class Alone(torch.nn.Module):
    """A loop that carries one tensor."""

    def forward(self, q: Any, k: Any, v: Any, count: Any) -> Any:
        del count

        def step(x: Any) -> Any:
            return (torch.tanh(torch.softmax(x @ k.mT, -1) @ v) * x * 0.5,)

        return _loop(lambda x: x.abs().sum() > 3.0, step, (q.clone(),))


class Choose(torch.nn.Module):
    """One of two attentions, in one of which is a choice, too."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = torch.nn.Linear(SIZE, SIZE, bias=False)

    def forward(self, q: Any, k: Any, v: Any, count: Any) -> Any:
        def left(q: Any, k: Any, v: Any) -> Any:
            return F.scaled_dot_product_attention(q, self.mix(k), v, is_causal=True)

        def right(q: Any, k: Any, v: Any) -> Any:
            one = torch.cond(count > 5, lambda x: x + 1, lambda x: x.clone(), (q,))
            return F.scaled_dot_product_attention(one, k, v)

        chosen = torch.cond(count > 3, right, left, (q, k, v))
        return chosen, chosen.transpose(1, 2).flatten(2)


class Scan(torch.nn.Module):
    """Attention over blocks of keys, one after the other, with its sums carried."""

    def forward(self, q: Any, k: Any, v: Any, count: Any) -> Any:
        from torch._higher_order_ops.scan import scan

        def step(carry: Any, block: Any) -> Any:
            top, total, out = carry
            keys, values = block
            scores = q @ keys.mT
            new = torch.maximum(top, scores.amax(-1, True))
            weights, old = (scores - new).exp(), (top - new).exp()
            total = total * old + weights.sum(-1, True)
            out = out * old + weights @ values
            return (new, total, out), out / total

        start = torch.full_like(q[..., :1], -1e30), torch.zeros_like(q[..., :1]), q * 0
        blocks = k.unflatten(2, (3, -1)).movedim(2, 0), v.unflatten(2, (3, -1)).movedim(2, 0)
        (_, total, out), steps = scan(step, start, blocks)
        return out / total, steps


class Mapped(torch.nn.Module):
    """Attention of each sequence of a batch."""

    def forward(self, q: Any, k: Any, v: Any, count: Any) -> Any:
        from torch._higher_order_ops.map import map as mapped

        return mapped(
            lambda x, v: F.scaled_dot_product_attention(x[0], x[1], v) + count, (q, k), v[0]
        )


@pytest.mark.parametrize("model", [Refine, Decode, Alone, Choose, Scan, Mapped])
def test_numbers(model: Any) -> None:
    torch.manual_seed(3)
    made = model().eval()
    shapes = [(2, 2, 6, SIZE)] * 3
    given = [torch.randn(shape) for shape in shapes]
    with torch.no_grad():
        fast = attnpass.torch.compile(made, (*given, torch.tensor(4)))
    wide = model().eval().double()
    wide.load_state_dict(made.state_dict())
    for count in (4, 0, 6):
        with torch.no_grad():
            got = torch.utils._pytree.tree_leaves(fast(*given, torch.tensor(count)))
            exact = [x.double() for x in given]
            wanted = torch.utils._pytree.tree_leaves(wide(*exact, torch.tensor(count)))
        for one, other in zip(got, wanted, strict=True):
            assert one.shape == other.shape
            assert (one.double() - other).norm() <= 2e-5 * max(other.double().norm(), 1)


class BySize(torch.nn.Module):
    """A choice by a size that is not known."""

    def forward(self, x: Any) -> Any:
        return torch.cond(x.shape[0] > 5, lambda x: x.sin(), lambda x: x * 2, (x,))


def test_a_choice_by_size() -> None:
    x = torch.randn(4, 3)
    sizes = {"x": {0: torch.export.Dim.AUTO}}
    fast = attnpass.torch.compile(BySize(), (x,), dynamic_shapes=sizes)
    for size in (4, 9):
        x = torch.randn(size, 3)
        assert torch.allclose(fast(x), x.sin() if size > 5 else x * 2, atol=1e-5)
