"""`attnpass.jax.compile` gives what JAX gives."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import rel_error

import attnpass

jax = pytest.importorskip("jax", reason="the door for JAX is not tested: no jax")


def layer(weights, x, *, causal):
    q, k, v = (jax.numpy.einsum("btd,dhe->bhte", x, weights[name]) for name in "qkv")
    scores = jax.numpy.einsum("bhqe,bhke->bhqk", q, k) / 4.0
    scores = jax.numpy.where(causal, scores, -1e30)
    out = jax.numpy.einsum("bhqk,bhke->bqhe", jax.nn.softmax(scores), v)
    return {"out": out.reshape(x.shape), "value": v}


def test_trees_in_and_out() -> None:
    keys = [jax.random.key(i) for i in range(4)]
    weights = {n: jax.random.normal(keys[i], (32, 4, 8)) for i, n in enumerate("qkv")}
    x = jax.random.normal(keys[3], (2, 8, 32))
    causal = jax.numpy.tril(jax.numpy.ones((8, 8), bool))
    fast = attnpass.jax.compile(layer, (weights, x), {"causal": causal})
    got, wanted = fast(weights, x, causal=causal), layer(weights, x, causal=causal)
    assert isinstance(got["out"], jax.Array)
    for name, array in wanted.items():
        assert rel_error(np.asarray(got[name]), np.asarray(array)) < 2e-5
    assert len(fast.report.attentions) == 1
    with pytest.raises(attnpass.AttnError, match=r"argument \[1\]: .* 2x8x32, not 1x8x32"):
        fast(weights, x[:1], causal=causal)
    with pytest.raises(attnpass.AttnError, match="compiled for arguments of the form"):
        fast(weights)


def test_an_argument_stays_as_it_is() -> None:
    cache, row = jax.numpy.zeros((64, 16)), jax.numpy.ones((1, 16))

    def put(cache, row, place):
        return jax.lax.dynamic_update_slice(cache, row, (place, 0))

    fast = attnpass.jax.compile(put, (cache, row, 3))
    assert fast(cache, row, 5)[5].sum() == 16 and cache.sum() == 0


def test_what_cannot_be_traced() -> None:
    with pytest.raises(attnpass.AttnError, match="JAX cannot trace the function: "):
        attnpass.jax.compile(lambda x: x.no_such_thing, (np.ones(3),))
