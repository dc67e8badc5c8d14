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


def test_a_sink_by_the_share_of_the_keys() -> None:
    """A result without the sink, times sigmoid(lse - sink), as one attention with a sink."""

    def attention(q, k, v, sinks):
        scores = jax.numpy.einsum("bhqe,bhke->bhqk", q, k) / 4.0
        lse = jax.nn.logsumexp(scores, -1, keepdims=True)
        out = jax.numpy.einsum("bhqk,bhke->bhqe", jax.nn.softmax(scores), v)
        return out * jax.nn.sigmoid(lse - sinks[:, None, None])

    random = np.random.default_rng(1)
    arrays = [random.standard_normal((2, 4, rows, 16)).astype("float32") for rows in (9, 13, 13)]
    arrays.append(np.array([-6.0, 0.0, 2.0, 900.0], "float32"))
    fast = attnpass.jax.compile(attention, arrays)
    got, wanted = np.asarray(fast(*arrays)), np.asarray(attention(*arrays))
    assert rel_error(got, wanted) < 2e-6
    assert "divided by its weights and its sink's" in fast.report.to_text()


@pytest.mark.parametrize(("dtype", "bound"), [("float16", 1e-3), ("bfloat16", 5e-3)])
def test_jaxs_attention_in_16_bits(dtype: str, bound: float) -> None:
    """Its scores are summed in f32: its CPU backend has no such product of f16, and IREE imports
    none that says so. A softmax that sums exponentials of 16 bits in f32 is raised, too, with a
    scale that is cast."""
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, 9, heads, 16)).astype(dtype) for heads in (4, 2, 2))

    def written(q, k, v):
        k, v = (jax.numpy.repeat(x, 2, 2) for x in (k, v))
        scores = jax.numpy.einsum("bqhd,bkhd->bhqk", q, k) / jax.numpy.sqrt(16).astype(q.dtype)
        return jax.numpy.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)

    wide = [np.asarray(x, np.float64) for x in (q, k.repeat(2, 2), v.repeat(2, 2))]
    powers = np.exp(np.einsum("bqhd,bkhd->bhqk", *wide[:2]) / 4)
    wanted = np.einsum("bhqk,bkhd->bqhd", powers / powers.sum(-1, keepdims=True), wide[2])
    for function in (jax.nn.dot_product_attention, written):
        fast = attnpass.jax.compile(function, (q, k, v))
        assert rel_error(np.asarray(fast(q, k, v), np.float64), wanted) < bound
        assert len(fast.report.attentions) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_of_16_bits_are_as_exact_as_jaxs(dtype: str) -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(dtype) for shape in ((16, 4096), (4096, 8)))
    wanted = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    fast = attnpass.jax.compile(jax.numpy.matmul, (a, b))
    ours, theirs = (
        rel_error(np.asarray(one, np.float64), wanted)
        for one in (fast(a, b), jax.numpy.matmul(a, b))
    )
    assert ours <= 1.1 * theirs


def test_a_constant_of_complex_numbers() -> None:
    """Rotary embedding by powers of e, of which the function holds the exponents."""
    angles = 1j * np.outer(np.arange(8), [1, 0.3, 0.1, 0.01]).astype(np.float32)

    def rotate(x):
        turned = jax.lax.complex(x[..., ::2], x[..., 1::2]) * jax.numpy.exp(angles)
        return jax.numpy.stack([turned.real, turned.imag], -1).reshape(x.shape)

    x = np.random.default_rng(0).standard_normal((3, 8, 8)).astype(np.float32)
    fast = attnpass.jax.compile(rotate, (x,))
    assert rel_error(np.asarray(fast(x)), np.asarray(rotate(x))) < 2e-5
    assert not fast.report.events


def test_an_argument_stays_as_it_is() -> None:
    cache, row = jax.numpy.zeros((64, 16)), jax.numpy.ones((1, 16))
    pixels = np.array([[1, 2, 255], [4, 5, 200]], np.uint8)

    def put(cache, row, place, pixels):
        return jax.lax.dynamic_update_slice(cache, row, (place, 0)), pixels[:, ::-1]

    fast = attnpass.jax.compile(put, (cache, row, 3, pixels))
    written, turned = fast(cache, row, 5, pixels)
    assert written[5].sum() == 16 and cache.sum() == 0
    assert np.array_equal(turned, pixels[:, ::-1])


def test_what_cannot_be_traced() -> None:
    with pytest.raises(attnpass.AttnError, match="JAX cannot trace the function: "):
        attnpass.jax.compile(lambda x: x.no_such_thing, (np.ones(3),))


def test_keys_and_numbers_as_jax_takes_them() -> None:
    """Keys of random numbers in and out; types of 64 bits are those of 32 that JAX makes them."""

    def draw(key, x, places):
        return jax.random.split(key), jax.random.normal(key, (4,)) + x[places]

    key, x, places = jax.random.key(3), np.arange(8.0), np.array([3, 1, 7, 7])
    assert (x.dtype, places.dtype) == (np.float64, np.int64)
    fast = attnpass.jax.compile(draw, (key, x, places))
    keys, found = fast(key, x, places)
    wanted_keys, wanted = draw(key, jax.numpy.asarray(x), jax.numpy.asarray(places))
    assert keys.dtype == wanted_keys.dtype and found.dtype == wanted.dtype
    assert np.array_equal(jax.random.key_data(keys), jax.random.key_data(wanted_keys))
    assert rel_error(np.asarray(found), np.asarray(wanted)) < 1e-6
    with pytest.raises(attnpass.AttnError, match="no part of what JAX traces"):
        jax.jit(fast)(key, x, places)
