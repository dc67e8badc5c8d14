"""A grouped-query Llama layer with known answers, as MLIR: a prefill and a decode step.

    python -m bench.models.llama prefill > layer.mlir
    python -m bench.models.llama decode > step.mlir

The structure is that of a PyTorch export: RMSNorm, rotary position embedding, 8 query heads
over 2 key/value heads, causal mask, SwiGLU. Weights are random and small.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from bench.models.trace import Model, Trace, Value


@dataclass(frozen=True)
class Sizes:
    """Width of the model, heads of Q, heads of K and V, head dim, width of the MLP."""

    model: int = 128
    heads: int = 8
    kv_heads: int = 2
    dim: int = 16
    hidden: int = 192


SMALL = Sizes()


def prefill(batch: int = 1, rows: int = 32, seed: int = 7, sizes: Sizes = SMALL) -> Model:
    """x (batch, rows, model) -> the layer's output."""
    t = Trace(seed)
    return t.finish(layer(t, t.argument(batch, rows, sizes.model), sizes))


def decode(batch: int = 1, cached: int = 63, seed: int = 8) -> Model:
    """x (batch, 1, 128), two caches (batch, 2, cached, 16) -> output and longer caches."""
    t = Trace(seed)
    x = t.argument(batch, 1, SMALL.model)
    caches = [t.argument(batch, SMALL.kv_heads, cached, SMALL.dim) for _ in range(2)]
    q, k, v = _project(t, t.rms_norm(x), cached, SMALL)
    k, v = t.concat(2, caches[0], k), t.concat(2, caches[1], v)
    return t.finish(_rest(t, x, q, k, v, None, SMALL), k, v)


def layer(t: Trace, x: Value, sizes: Sizes = SMALL) -> Value:
    """One layer over all rows of `x`."""
    rows = x.shape[1]
    q, k, v = _project(t, t.rms_norm(x), 0, sizes)
    return _rest(t, x, q, k, v, t.causal_mask(rows, rows), sizes)


def _project(t: Trace, x: Value, position: int, sizes: Sizes) -> tuple[Value, Value, Value]:
    rows = x.shape[1]
    frequencies = 10000.0 ** (-np.arange(0, sizes.dim, 2) / sizes.dim)
    angles = np.outer(np.arange(position, position + rows), frequencies)
    angles = np.concatenate([angles, angles], -1)[None, None]
    cos, sin = t.constant(np.cos(angles)), t.constant(np.sin(angles))

    def heads(count: int) -> Value:
        return t.split_heads(t.linear(x, count * sizes.dim), count)

    q = _rotate(t, heads(sizes.heads), cos, sin)
    k = _rotate(t, heads(sizes.kv_heads), cos, sin)
    return q, k, heads(sizes.kv_heads)


def _rotate(t: Trace, x: Value, cos: Value, sin: Value) -> Value:
    half = x.shape[-1] // 2
    first, second = t.slice_last(x, 0, half), t.slice_last(x, half, half)
    turned = t.concat(3, t.negate(second), first)
    return t.add(t.multiply(x, cos), t.multiply(turned, sin))


def _rest(
    t: Trace, x: Value, q: Value, k: Value, v: Value, mask: Value | None, sizes: Sizes
) -> Value:
    """Attention, output projection and feed-forward, with their residuals."""
    times = sizes.heads // sizes.kv_heads
    result = t.attention(q, t.repeat_heads(k, times), t.repeat_heads(v, times), mask)
    x = t.add(x, t.linear(t.join_heads(result), sizes.model))
    normal = t.rms_norm(x)
    gate = t.silu(t.linear(normal, sizes.hidden))
    return t.add(x, t.linear(t.multiply(gate, t.linear(normal, sizes.hidden)), sizes.model))


if __name__ == "__main__":
    print({"prefill": prefill, "decode": decode}[sys.argv[1]]().text, end="")
