"""Attention of onnxruntime, and rotary embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from .fused import rms_norm
from .op import TO_THE_END, DecomposedOp, Decomposition

_FLOAT, _INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def _rotated(
    body: DecomposedOp, x: str, caches: tuple[str, str], places: str, is_interleaved: int, dim: int
) -> str:
    """`x` of dims (batch, rows, heads, dim), by factors at `places`; those of a head behind the
    `dim` rotated ones (0: as many as there are factors) stay."""
    cos, sin = (
        body("Unsqueeze", body("Gather", each, places), body.number([2])) for each in caches
    )
    known = body.dims(caches[0])
    half = dim // 2 or (known[-1] if known else None)
    if not isinstance(half, int):
        raise body.refusal("factors of an unknown size")
    whole = body.slice(x, -1, 0, 2 * half)
    rest = body.slice(x, -1, 2 * half, TO_THE_END)
    if is_interleaved:
        pairs = body.reshape(whole, [0, 0, 0, half, 2])
        first, second = (
            body("Squeeze", body.slice(pairs, -1, at, at + 1), body.number([-1])) for at in (0, 1)
        )
    else:
        first = body.slice(whole, -1, 0, half)
        second = body.slice(whole, -1, half, 2 * half)
    made = (
        body("Sub", body("Mul", first, cos), body("Mul", second, sin)),
        body("Add", body("Mul", first, sin), body("Mul", second, cos)),
    )
    if is_interleaved:
        made = tuple(body("Unsqueeze", each, body.number([-1])) for each in made)
        return body(
            "Concat", body.reshape(body("Concat", *made, axis=-1), [0, 0, 0, -1]), rest, axis=-1
        )
    return body("Concat", *made, rest, axis=-1)


def _rotary(body: DecomposedOp) -> None:
    x, places, cos, sin = (body.input(place) for place in range(4))
    dims, caches, known = body.dims(x), body.dims(cos), body.dims(places)
    # onnxruntime reads no scale.
    body.attribute("scale", 1.0)
    if known is None or caches is None:
        raise body.refusal("positions or factors of an unknown number of dims")
    is_joined, heads = dims is None or len(dims) == 3, body.attribute("num_heads", 0)
    if is_joined:
        dim = 2 * caches[-1] if isinstance(caches[-1], int) else 0
        value = body.reshape(x, [0, 0, heads, -1] if heads else [0, 0, -1, dim])
    else:
        value = body("Transpose", x, perm=[0, 2, 1, 3])
    if len(known) == 1:
        rows = body("Squeeze", body.size(value, 1))
        counts = body("Range", body.number(0), rows, body.number(1))
        places = body("Unsqueeze", body("Add", counts, places), body.number([0]))
    is_interleaved, part = (
        body.attribute(name, 0) for name in ("interleaved", "rotary_embedding_dim")
    )
    value = _rotated(body, value, (cos, sin), places, is_interleaved, part)
    if is_joined:
        body.give(0, body.reshape(value, [0, 0, -1]))
    else:
        body.give(0, body("Transpose", value, perm=[0, 2, 1, 3]))


def _scaled(body: DecomposedOp, q: str) -> str:
    """Queries by the scale that is named, or else by that of their last dim."""
    scale = body.attribute("scale", 0.0)
    if scale:
        return body("Mul", q, body.like(scale, q))
    size = body("Cast", body.size(q, -1), to=_FLOAT)
    return body("Div", q, body("CastLike", body("Sqrt", size), q))


def _softmax_of(body: DecomposedOp, scores: str, visible: str, bias: str, sinks: str = "") -> str:
    """Weights of keys; `sinks` are scores of no key, (heads, 1, 1) beside those of keys."""
    cap = body.attribute("softcap", 0.0)
    if cap:
        scores = body(
            "Mul", body("Tanh", body("Div", scores, body.like(cap, scores))), body.like(cap, scores)
        )
    if bias:
        scores = body("Add", scores, bias)
    if visible:
        scores = body("Where", visible, scores, body.like(-math.inf, scores))
    if sinks:
        ends = body("Concat", body("Shape", scores, end=-1), body.number([1]), axis=0)
        scores = body("Concat", scores, body("Expand", sinks, ends), axis=-1)
    weights = body("Softmax", scores, axis=-1)
    return body.slice(weights, -1, 0, -1) if sinks else weights


def _multi_head(body: DecomposedOp) -> None:
    """Of queries, keys and values that are separate, or packed head by head."""
    q, k, v, bias, mask, added, past_k, past_v = (body.input(place) for place in range(8))
    heads = body.attribute("num_heads", 0)
    rows = {dims[1] for each in (q, k) if len(dims := body.dims(each) or ()) == 3}
    if body.attribute("unidirectional", 0) and sum(isinstance(size, int) for size in rows) > 1:
        raise body.refusal("causal attention of unlike numbers of queries and keys")
    shifts = ["", "", ""]
    if bias:
        width = (body.dims(q) or [None])[-1]
        if not isinstance(width, int) or not k:
            raise body.refusal("a bias beside queries of an unknown size")
        ends = (0, width, 2 * width, TO_THE_END)
        shifts = [body.slice(bias, 0, *ends[place : place + 2]) for place in range(3)]
    given = [q, k, v]
    for place, value in enumerate(given):
        # (batch, rows, heads, 3 or 2, dim)
        if value and len(body.dims(value) or ()) == 5:
            parts = range(3 - place)
            given[place:] = [body("Gather", value, body.number(part), axis=3) for part in parts]
            break
    if not all(given):
        raise body.refusal("packed queries, keys and values of an unknown form")
    values = []
    for value, shift in zip(given, shifts, strict=True):
        dims = body.dims(value)
        if dims is not None and len(dims) == 4:
            values.append(value)
            continue
        if value in (q, k, v):
            moved = body("Add", value, shift) if shift else value
            value = body.reshape(moved, [0, 0, heads, -1])
        values.append(body("Transpose", value, perm=[0, 2, 1, 3]))
    if past_k:
        values[1] = body("Concat", past_k, values[1], axis=2)
        values[2] = body("Concat", past_v, values[2], axis=2)
    _attend(body, values, mask, added)
    body.give(1, values[1])
    body.give(2, values[2])


def _packed_attention(body: DecomposedOp) -> None:
    """Of BERT and GPT-2: one product makes queries, keys and values."""
    mask, past, added = (body.input(place) for place in (3, 4, 5))
    heads, sizes = body.attribute("num_heads", 0), body.attribute("qkv_hidden_sizes", None)
    made = body("MatMul", body.input(0), body.input(1))
    if body.input(2):
        made = body("Add", made, body.input(2))
    if sizes:
        ends = np.cumsum([0, *sizes]).tolist()
        parts = [body.slice(made, 2, *ends[place : place + 2]) for place in range(3)]
        parts = [body.reshape(part, [0, 0, heads, -1]) for part in parts]
    else:
        made = body.reshape(made, [0, 0, 3, heads, -1])
        parts = [body("Gather", made, body.number(place), axis=2) for place in range(3)]
    values = [body("Transpose", each, perm=[0, 2, 1, 3]) for each in parts]
    for place in (1, 2) if past else ():
        old = body("Gather", past, body.number(place - 1))
        values[place] = body("Concat", old, values[place], axis=2)
    _attend(body, values, mask, added)
    if body.output(1):
        both = [body("Unsqueeze", each, body.number([0])) for each in values[1:]]
        body.give(1, body("Concat", *both, axis=0))


def _attend(body: DecomposedOp, values: Sequence[str], mask: str, added: str) -> None:
    """Attention of queries, keys and values (batch, heads, rows, dim)."""
    q, k, v = values
    scores = body("MatMul", _scaled(body, q), body("Transpose", k, perm=[0, 1, 3, 2]))
    low = body.attribute("mask_filter_value", -10000.0)
    if mask:
        seen = _seen(body, mask, k)
        hidden = body("Where", seen, body.like(0.0, scores), body.like(low, scores))
        scores = body("Add", scores, hidden)
    visible = ""
    if body.attribute("unidirectional", 0):
        ahead = body("Sub", body.size(k, 2), body.size(q, 2))
        rows = body("Add", body("Unsqueeze", _counted(body, q, 2), body.number([1])), ahead)
        visible = body("Not", body("Greater", _counted(body, k, 2), rows))
    weights = _softmax_of(body, scores, visible, added)
    result = body("Transpose", body("MatMul", weights, v), perm=[0, 2, 1, 3])
    body.give(0, body.reshape(result, [0, 0, -1]))


def _seen(body: DecomposedOp, mask: str, k: str) -> str:
    """Which keys are seen, of (batch, heads, rows, keys): a mask of keys, one of rows and keys, or
    ends of keys, behind which their starts may stand."""
    known = body.dims(mask)
    if known is not None and len(known) in (2, 3):
        seen = body("Greater", mask, body("CastLike", body.number(0), mask))
        return body("Unsqueeze", seen, body.number([1, 2] if len(known) == 2 else [1]))
    batch = (body.dims(body.input(0)) or [None])[0]
    size = known[0] if known and len(known) == 1 else None
    is_known = isinstance(batch, int) and size in (2 * batch, 3 * batch + 2)
    if size is None or not (size == batch or is_known):
        raise body.refusal("a mask of another form")
    mask, keys = body("Cast", mask, to=_INT64), _counted(body, k, 2)

    def part(start: int, end: int) -> str:
        return body("Unsqueeze", body.slice(mask, 0, start, end), body.number([1]))

    if size == batch:
        seen = body("Less", keys, body("Unsqueeze", mask, body.number([1])))
    else:
        assert isinstance(batch, int)
        seen = body("Less", keys, part(0, batch))
        if size == 2 * batch:
            starts = body("Less", keys, part(batch, 2 * batch))
            seen = body("And", seen, body("Not", starts))
    return body("Unsqueeze", seen, body.number([1, 2]))


def _counted(body: DecomposedOp, value: str, axis: int) -> str:
    """0, 1, .. to the size of a dim."""
    size = body("Squeeze", body.size(value, axis))
    return body("Range", body.number(0), size, body.number(1))


def _grouped(body: DecomposedOp) -> None:
    """Causal attention of an LLM with its cache.

    Rows of a batch have lengths of their own (`seqlens_k`, of all but the last key): new keys are
    written behind those that a row has. A cache is as long as before and written in place where
    the graph calls both lengths the same, else longer by the new keys.
    """
    q, k, v, past_k, past_v, lengths, _, cos, sin, at, bias, sinks = (
        body.input(place) for place in range(12)
    )
    gains = body.input(14), body.input(15)
    heads, groups = body.attribute("num_heads", 0), body.attribute("kv_num_heads", 0)
    if k:
        q, k, v = (
            body.reshape(each, [0, 0, count, -1])
            for each, count in ((q, heads), (k, groups), (v, groups))
        )
    else:
        packed = body.reshape(q, [0, 0, heads + 2 * groups, -1])
        ends = (0, heads, heads + groups, heads + 2 * groups)
        q, k, v = (body.slice(packed, 2, *ends[place : place + 2]) for place in range(3))
    rows = body.size(q, 1)
    lengths = body.reshape(body("Cast", lengths, to=_INT64), [-1, 1])
    before = body("Sub", body("Add", lengths, body.number(1)), rows)
    before = body("Max", before, body.number(0))
    places = body("Add", before, _counted(body, q, 1))
    if gains[0]:
        epsilon = body.attribute("qk_norm_epsilon", 1e-6)
        q, k = (
            rms_norm(body, each, gain, body.attribute(f"{name}_norm_epsilon", epsilon))
            for each, gain, name in zip((q, k), gains, "qk", strict=True)
        )
    is_interleaved = body.attribute("rotary_interleaved", 0)
    if body.attribute("do_rotary", 0):
        q, k = (
            _rotated(body, each, (cos, sin), at or places, is_interleaved, 0) for each in (q, k)
        )
    k, v = (body("Transpose", each, perm=[0, 2, 1, 3]) for each in (k, v))
    if past_k:
        k, v = _cached(body, (past_k, past_v), (k, v), before, rows)
    body.give(1, k)
    body.give(2, v)
    # Heads of a group side by side: keys are not repeated.
    q = body.reshape(q, [0, 0, groups, heads // groups, -1])
    q = body("Transpose", q, perm=[0, 2, 3, 1, 4])
    keys = body("Unsqueeze", body("Transpose", k, perm=[0, 1, 3, 2]), body.number([2]))
    scores = body("MatMul", _scaled(body, q), keys)
    # Rows behind a prompt's end see its keys.
    last = body("Min", places, lengths) if body.attribute("causal", 1) else lengths
    visible = _up_to(body, last, k)
    bias = _by_group(body, bias, groups, heads // groups) if bias else ""
    if sinks or body.attribute("smooth_softmax", 0) > 0:
        zeros = body.number(np.zeros(heads), np.float32)
        sinks = body.reshape(body("CastLike", sinks or zeros, q), [groups, heads // groups, 1, 1])
    weights = _softmax_of(body, scores, visible, bias, sinks)
    result = body("MatMul", weights, body("Unsqueeze", v, body.number([2])))
    body.give(0, body.reshape(body("Transpose", result, perm=[0, 3, 1, 2, 4]), [0, 0, -1]))


def _up_to(body: DecomposedOp, last: str, k: str) -> str:
    """Which keys rows see, (batch, 1, 1, rows, keys): those up to the `last` of each, in its
    window."""
    last, key = body("Unsqueeze", last, body.number([2])), _counted(body, k, 2)
    visible = body("Not", body("Greater", key, last))
    window = body.attribute("local_window_size", -1)
    if window > 0:
        before_window = body("Sub", last, body.number(window))
        visible = body("And", visible, body("Greater", key, before_window))
    return body("Unsqueeze", visible, body.number([1, 2]))


def _by_group(body: DecomposedOp, bias: str, groups: int, shared: int) -> str:
    """A bias (batch, heads, rows, keys), its heads as groups that share keys."""
    sizes, cached = body.dims(bias), body.dims(body.output(1))
    if sizes is None or isinstance(sizes[1], str):
        raise body.refusal("a bias of unknown sizes")
    if cached and isinstance(cached[2], int) and cached[2] != sizes[3]:
        raise body.refusal("a bias that is none of the cache's keys")
    by_group = [1, 1] if sizes[1] == 1 else [groups, shared]
    by_group = [body.size(bias, 0), body.number(by_group), body("Shape", bias, start=2)]
    return body("Reshape", bias, body("Concat", *by_group, axis=0))


def _cached(
    body: DecomposedOp, past: tuple[str, str], new: tuple[str, str], before: str, rows: str
) -> tuple[str, str]:
    """The cache with new rows: of a batch of one that grows, one behind the other."""
    before_dims, after_dims = body.dims(past[0]), body.dims(body.output(1))
    lengths = [dims[2] if dims else None for dims in (before_dims, after_dims)]
    is_kept = lengths[0] is not None and lengths[0] == lengths[1]
    both = [body("Concat", old, each, axis=2) for old, each in zip(past, new, strict=True)]
    if not is_kept and before_dims and before_dims[0] == 1:
        return both[0], both[1]
    length = body.size(past[0], 2)
    place = _counted(body, past[0] if is_kept else both[0], 2)
    ahead = body("Sub", place, before)
    is_new = body(
        "And", body("Not", body("Less", ahead, body.number(0))), body("Less", ahead, rows)
    )
    old = body("Max", body("Min", place, body("Sub", length, body.number(1))), body.number(0))
    index = body("Where", is_new, body("Add", ahead, length), old)
    index = body("Unsqueeze", index, body.number([1, 3]))
    sizes = [body.size(both[0], 0), body.size(both[0], 1)]
    sizes += [body.size(past[0] if is_kept else both[0], 2), body.size(both[0], 3)]
    index = body("Expand", index, body("Concat", *sizes, axis=0))
    k, v = (body("GatherElements", each, index, axis=2) for each in both)
    return k, v


DECOMPOSITIONS: dict[str, Decomposition] = {
    "Attention": _packed_attention,
    "GroupQueryAttention": _grouped,
    "MultiHeadAttention": _multi_head,
    "RotaryEmbedding": _rotary,
}
