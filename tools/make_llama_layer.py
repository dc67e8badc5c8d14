"""A grouped-query Llama layer with known answers, as MLIR: a prefill and a decode step.

    python tools/make_llama_layer.py prefill > layer.mlir
    python tools/make_llama_layer.py decode > step.mlir

The structure is that of a PyTorch export: RMSNorm, rotary position embedding, 8 query heads
over 2 key/value heads, causal mask, SwiGLU. Weights are random and small.
"""

from __future__ import annotations

import sys

import numpy as np
from mlir_trace import Model, Trace, Value

MODEL, HEADS, KV_HEADS, DIM, HIDDEN = 128, 8, 2, 16, 192


def prefill(batch: int = 1, rows: int = 32, seed: int = 7) -> Model:
    """x (batch, rows, 128) -> the layer's output."""
    t = Trace(seed)
    return t.finish(layer(t, t.argument(batch, rows, MODEL)))


def decode(batch: int = 1, cached: int = 63, seed: int = 8) -> Model:
    """x (batch, 1, 128), two caches (batch, 2, cached, 16) -> output and longer caches."""
    t = Trace(seed)
    x = t.argument(batch, 1, MODEL)
    caches = [t.argument(batch, KV_HEADS, cached, DIM) for _ in range(2)]
    q, k, v = _project(t, t.rms_norm(x), cached)
    k, v = t.concat(2, caches[0], k), t.concat(2, caches[1], v)
    return t.finish(_rest(t, x, q, k, v, None), k, v)


def layer(t: Trace, x: Value) -> Value:
    """One layer over all rows of `x`."""
    rows = x.shape[1]
    q, k, v = _project(t, t.rms_norm(x), 0)
    return _rest(t, x, q, k, v, t.causal_mask(rows, rows))


def _project(t: Trace, x: Value, position: int) -> tuple[Value, Value, Value]:
    rows = x.shape[1]
    frequencies = 10000.0 ** (-np.arange(0, DIM, 2) / DIM)
    angles = np.outer(np.arange(position, position + rows), frequencies)
    angles = np.concatenate([angles, angles], -1)[None, None]
    cos, sin = t.constant(np.cos(angles)), t.constant(np.sin(angles))
    q = _rotate(t, t.split_heads(t.linear(x, HEADS * DIM), HEADS), cos, sin)
    k = _rotate(t, t.split_heads(t.linear(x, KV_HEADS * DIM), KV_HEADS), cos, sin)
    return q, k, t.split_heads(t.linear(x, KV_HEADS * DIM), KV_HEADS)


def _rotate(t: Trace, x: Value, cos: Value, sin: Value) -> Value:
    first, second = t.slice_last(x, 0, DIM // 2), t.slice_last(x, DIM // 2, DIM // 2)
    turned = t.concat(3, t.negate(second), first)
    return t.add(t.multiply(x, cos), t.multiply(turned, sin))


def _rest(t: Trace, x: Value, q: Value, k: Value, v: Value, mask: Value | None) -> Value:
    """Attention, output projection and feed-forward, with their residuals."""
    times = HEADS // KV_HEADS
    result = t.attention(q, t.repeat_heads(k, times), t.repeat_heads(v, times), mask)
    x = t.add(x, t.linear(t.join_heads(result), MODEL))
    normal = t.rms_norm(x)
    gate = t.silu(t.linear(normal, HIDDEN))
    return t.add(x, t.linear(t.multiply(gate, t.linear(normal, HIDDEN)), MODEL))


if __name__ == "__main__":
    print({"prefill": prefill, "decode": decode}[sys.argv[1]]().text, end="")
