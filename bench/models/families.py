"""Small models of the families people export, each with its answers.

Between them they show the chains of producers that stand between V's projection, or its
cache, and attention in PyTorch, ONNX and JAX exports. Weights are random; sizes are small.

    python -m bench.models.families NAME > model.mlir
"""

from __future__ import annotations

import sys

import numpy as np

from bench.models import llama as layers
from bench.models.trace import Array, Model, Trace, Value, attention_of

MODEL, HEADS, DIM = 64, 4, 16


def attend(
    t: Trace, x: Value, source: Value, mask: Value | None = None, bias: tuple[bool, ...] = ()
) -> Value:
    """Multi-head attention of `x` on `source`; `bias` says which of q, k, v have one."""
    has = bias or (False, False, False)
    q, k, v = (
        t.split_heads(t.linear(value, MODEL, bias=b), HEADS)
        for value, b in zip((x, source, source), has, strict=True)
    )
    return _project(t, t.attention(q, k, v, mask))


def _project(t: Trace, result: Value) -> Value:
    return t.linear(t.join_heads(result), MODEL, bias=True)


def mha() -> Model:
    t = Trace(1)
    x = t.argument(2, 16, MODEL)
    return t.finish(attend(t, x, x, bias=(True, True, True)))


def bert(layers: int = 2) -> Model:
    """Post-norm layers; an additive mask hides the second sequence's padding."""
    t = Trace(2)
    x = t.argument(2, 16, MODEL)
    hidden = np.zeros((2, 1, 1, 16))
    hidden[1, ..., 11:] = -1e4
    mask = t.constant(hidden)
    for _ in range(layers):
        x = t.layer_norm(t.add(x, attend(t, x, x, mask, bias=(True, True, True))))
        inner = t.relu(t.linear(x, 96, bias=True))
        x = t.layer_norm(t.add(x, t.linear(inner, MODEL, bias=True)))
    return t.finish(x)


def llama() -> Model:
    return layers.prefill(rows=24)


def llama_batched() -> Model:
    return layers.prefill(batch=3, rows=20)


def llama_prefill_cache() -> Model:
    """K and V are results as well: each has two users."""
    t = Trace(6)
    x = t.argument(1, 16, MODEL)
    q = t.split_heads(t.linear(x, MODEL), HEADS)
    k, v = (t.split_heads(t.linear(x, MODEL // 2), HEADS // 2) for _ in range(2))
    result = t.attention(q, t.repeat_heads(k, 2), t.repeat_heads(v, 2), t.causal_mask(16, 16))
    return t.finish(_project(t, result), k, v)


def llama_decode() -> Model:
    """The cache grows by concatenation."""
    return layers.decode()


def static_cache(length: int = 64, position: int = 37) -> Model:
    """Decode that writes its key and value into caches of fixed length."""
    t = Trace(7)
    x = t.argument(1, 1, MODEL)
    caches = [t.argument(length, HEADS // 2, DIM) for _ in range(2)]
    place = t.given(np.array([[position]]), "i64")
    hidden = np.where(np.arange(length) <= position, 0.0, -1e4)[None, None, None]
    q = t.split_heads(t.linear(x, MODEL), HEADS)
    filled, heads = [], []
    for cache in caches:
        row = t.expand(t.linear(x, MODEL // 2), [[0], [1], [2, 3]], 1, 1, HEADS // 2, DIM)
        new = t.scatter(cache, t.collapse(row, [[0, 1], [2], [3]]), place)
        filled.append(new)
        kept = t.transpose(new, 1, 0, 2)
        rows = t.expand(kept, [[0, 1], [2], [3]], 1, HEADS // 2, length, DIM)
        heads.append(t.repeat_heads(rows, 2))
    return t.finish(_project(t, t.attention(q, heads[0], heads[1], t.constant(hidden))), *filled)


def sliding_window() -> Model:
    """Mistral's: each row sees the six keys before it."""
    t = Trace(8)
    x = t.argument(1, 24, MODEL)
    near = np.subtract.outer(np.arange(24), np.arange(24))
    mask = t.constant(np.where((near >= 0) & (near < 6), 0.0, -1e4)[None, None])
    return t.finish(attend(t, x, x, mask))


def relative_bias() -> Model:
    """T5's: a learned bias for each head is added to the scores."""
    t = Trace(9)
    x = t.argument(2, 16, MODEL)
    return t.finish(attend(t, x, x, t.weight(1, HEADS, 16, 16)))


def sdxl() -> Model:
    """A transformer block of a U-Net: self attention, then attention on 77 text tokens."""
    t = Trace(3)
    x, text = t.argument(2, 36, MODEL), t.argument(2, 77, 48)
    normal = t.layer_norm(x)
    x = t.add(x, attend(t, normal, normal))
    return t.finish(t.add(x, attend(t, t.layer_norm(x), text)))


def whisper() -> Model:
    """A decoder layer: causal self attention, then attention on 40 encoder frames."""
    t = Trace(4)
    x, frames = t.argument(2, 12, MODEL), t.argument(2, 40, MODEL)
    bias = (True, False, True)
    normal = t.layer_norm(x)
    x = t.add(x, attend(t, normal, normal, t.causal_mask(12, 12), bias))
    x = t.add(x, attend(t, t.layer_norm(x), frames, bias=bias))
    inner = t.relu(t.linear(t.layer_norm(x), 96, bias=True))
    return t.finish(t.add(x, t.linear(inner, MODEL, bias=True)))


def einsum() -> Model:
    """Projections written as einsum('bsd,hdk->bhsk'): one flat product, then reshapes."""
    t = Trace(5)
    x = t.argument(2, 16, MODEL)
    flat = t.expand(t.collapse(x, [[0, 1], [2]]), [[0, 1], [2]], 1, 32, MODEL)
    heads = []
    for _ in range(3):
        weight = t.collapse(t.transpose(t.weight(HEADS, MODEL, 16), 1, 0, 2), [[0], [1, 2]])
        weight = t.expand(weight, [[0, 1], [2]], 1, MODEL, HEADS * 16)
        product = t.collapse(t.batch_matmul(flat, weight), [[0, 1], [2]])
        split = t.expand(product, [[0, 1], [2, 3]], 2, 16, HEADS, 16)
        heads.append(t.transpose(split, 0, 2, 1, 3))
    return t.finish(t.attention(heads[0], heads[1], heads[2]))


def gpt2() -> Model:
    """One product gives Q, K and V side by side."""
    t = Trace(10)
    x = t.argument(2, 16, MODEL)
    packed = t.linear(x, 3 * MODEL, bias=True)
    q, k, v = (t.split_heads(t.slice_last(packed, i * MODEL, MODEL), HEADS) for i in range(3))
    return t.finish(_project(t, t.attention(q, k, v, t.causal_mask(16, 16))))


def torch_mha() -> Model:
    """torch.nn.MultiheadAttention: Q, K and V are slices of a transpose of rank five."""
    t = Trace(11)
    x = t.argument(16, 2, MODEL)
    packed = t.linear(x, 3 * MODEL, bias=True)
    parts = t.transpose(t.expand(packed, [[0, 1], [2], [3, 4]], 1, 16, 2, 3, MODEL), 3, 1, 2, 0, 4)
    parts = t.collapse(parts, [[0], [1], [2], [3, 4]])
    heads = []
    for i in range(3):
        part = t.collapse(t.slice(parts, 0, i, 1), [[0, 1], [2, 3]])
        split = t.transpose(t.expand(part, [[0], [1, 2]], 16, 2 * HEADS, DIM), 1, 0, 2)
        heads.append(t.expand(split, [[0, 1], [2], [3]], 2, HEADS, 16, DIM))
    return t.finish(t.attention(heads[0], heads[1], heads[2]))


def latent() -> Model:
    """Multi-head latent attention: K and V are slices of one product on the latent."""
    t = Trace(12)
    x = t.argument(2, 16, MODEL)
    q = t.split_heads(t.linear(x, MODEL), HEADS)
    both = t.split_heads(t.linear(t.linear(x, 24), HEADS * 2 * DIM), HEADS)
    k, v = t.slice_last(both, 0, DIM), t.slice_last(both, DIM, DIM)
    return t.finish(_project(t, t.attention(q, k, v)))


def multi_query() -> Model:
    """Falcon's: one head of K and V, picked by index from the packed product."""
    t = Trace(13)
    x = t.argument(2, 16, MODEL)
    packed = t.expand(t.linear(x, MODEL + 2 * DIM), [[0], [1], [2, 3]], 2, 16, HEADS + 2, DIM)
    q = t.transpose(t.slice(packed, 2, 0, HEADS), 0, 2, 1, 3)
    k, v = (
        t.repeat_heads(t.transpose(t.take(packed, 2, _indices(t, [at])), 0, 2, 1, 3), HEADS)
        for at in (HEADS, HEADS + 1)
    )
    return t.finish(_project(t, t.attention(q, k, v)))


def paged_cache() -> Model:
    """Decode whose keys and values lie in pages, found by a table that is an argument."""
    t = Trace(14)
    q = t.split_heads(t.linear(t.argument(1, 1, MODEL), MODEL), HEADS)
    pages = [t.argument(12, 8, HEADS // 2, DIM) for _ in range(2)]
    table = t.given(np.array([7, 2, 11, 4, 0]), "i64")
    heads = []
    for pool in pages:
        rows = t.collapse(t.take(pool, 0, table), [[0, 1], [2], [3]])
        rows = t.expand(rows, [[0, 1], [2], [3]], 1, 40, HEADS // 2, DIM)
        heads.append(t.repeat_heads(t.transpose(rows, 0, 2, 1, 3), 2))
    return t.finish(_project(t, t.attention(q, heads[0], heads[1])))


def fp8_cache() -> Model:
    """K and V are arguments in fp8, widened and scaled."""
    t = Trace(15)
    q = t.split_heads(t.linear(t.argument(2, 16, MODEL), MODEL), HEADS)
    k, v = (
        t.multiply(t.cast(t.argument(2, HEADS, 32, DIM, kind="f8E4M3FN"), "f32"), _half(t))
        for _ in range(2)
    )
    return t.finish(_project(t, t.attention(q, k, v)))


def fp8_value() -> Model:
    """V is quantised to fp8 behind its bias and widened again."""
    t = Trace(16)
    x = t.argument(2, 16, MODEL)
    q, k = (t.split_heads(t.linear(x, MODEL, bias=True), HEADS) for _ in range(2))
    narrow = t.cast(t.multiply(t.linear(x, MODEL, bias=True), _half(t)), "f8E4M3FN")
    v = t.multiply(t.cast(narrow, "f32"), _half(t))
    return t.finish(_project(t, t.attention(q, k, t.split_heads(v, HEADS))))


def sequence_major() -> Model:
    """[batch, sequence, heads, dim]: the maps of attention say what a transpose would."""
    t = Trace(20)
    x = t.argument(2, 16, MODEL)
    groups, shape = [[0], [1], [2, 3]], (2, 16, HEADS, DIM)
    q, k, v = (t.expand(t.linear(x, MODEL, bias=True), groups, *shape) for _ in range(3))
    result = t.collapse(t.sequence_major_attention(q, k, v), groups)
    return t.finish(t.linear(result, MODEL))


def flex() -> Model:
    """FlexAttention: online_attention of rank four."""
    t = Trace(21)
    x = t.argument(2, 16, MODEL)
    q, k, v = (t.split_heads(t.linear(x, MODEL), HEADS) for _ in range(3))
    return t.finish(_project(t, t.online_attention(q, k, v)))


def dynamic() -> Model:
    """Batch and sequence are known only at run time; tensor.reshape splits the heads."""
    t = Trace(22)
    x = t.argument(2, 16, MODEL)
    weights = [t.weight(MODEL, MODEL) for _ in range(3)]
    q, k, v = (
        (x.array @ w.array).reshape(2, 16, HEADS, DIM).transpose(0, 2, 1, 3) for w in weights
    )
    lines = [f"{name} = arith.constant {text}" for text, name in t.constants.items()]
    lines += [_DYNAMIC_HEAD]
    for name, weight in zip("qkv", weights, strict=True):
        lines.append(_DYNAMIC_OPERAND.replace("NAME", name).replace("WEIGHT", weight.name))
    text = "\n".join(["func.func @main(%x: tensor<?x?x64xf32>) -> tensor<?x?x16xf32> {", *lines])
    answer = attention_of(q, k, v).reshape(2 * HEADS, 16, DIM)
    return Model(text + _DYNAMIC_TAIL, [x.array.astype(np.float32)], [answer])


_DYNAMIC_HEAD = """\
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c4 = arith.constant 4 : index
%c16 = arith.constant 16 : index
%zero = arith.constant 0.0 : f32
%scale = arith.constant 0.25 : f32
%b = tensor.dim %x, %c0 : tensor<?x?x64xf32>
%s = tensor.dim %x, %c1 : tensor<?x?x64xf32>
%bh = arith.muli %b, %c4 : index
%shape = tensor.from_elements %b, %s, %c4, %c16 : tensor<4xindex>
%pe = tensor.empty(%b, %s) : tensor<?x?x64xf32>
%pf = linalg.fill ins(%zero : f32) outs(%pe : tensor<?x?x64xf32>) -> tensor<?x?x64xf32>
%we = tensor.empty(%b) : tensor<?x64x64xf32>
%te = tensor.empty(%b, %s) : tensor<?x4x?x16xf32>
"""

_DYNAMIC_OPERAND = """\
%wNAME = linalg.generic {indexing_maps = [affine_map<(b, i, o) -> (i, o)>,
    affine_map<(b, i, o) -> (b, i, o)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(WEIGHT : tensor<64x64xf32>) outs(%we : tensor<?x64x64xf32>) {
^bb0(%in: f32, %out: f32):
  linalg.yield %in : f32
} -> tensor<?x64x64xf32>
%pNAME = linalg.batch_matmul ins(%x, %wNAME : tensor<?x?x64xf32>, tensor<?x64x64xf32>)
    outs(%pf : tensor<?x?x64xf32>) -> tensor<?x?x64xf32>
%hNAME = tensor.reshape %pNAME(%shape)
    : (tensor<?x?x64xf32>, tensor<4xindex>) -> tensor<?x?x4x16xf32>
%tNAME = linalg.transpose ins(%hNAME : tensor<?x?x4x16xf32>) outs(%te : tensor<?x4x?x16xf32>)
    permutation = [0, 2, 1, 3]
%NAME = tensor.collapse_shape %tNAME [[0, 1], [2], [3]]
    : tensor<?x4x?x16xf32> into tensor<?x?x16xf32>
"""

_DYNAMIC_TAIL = """\
%out = tensor.empty(%bh, %s) : tensor<?x?x16xf32>
%r = iree_linalg_ext.attention <indexing_maps = [
    affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
    affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
    affine_map<(b, m, n, k1, k2) -> (b, m, n)>]>
    ins(%q, %k, %v, %scale : tensor<?x?x16xf32>, tensor<?x?x16xf32>, tensor<?x?x16xf32>, f32)
    outs(%out : tensor<?x?x16xf32>) {
^bb0(%score: f32):
  iree_linalg_ext.yield %score : f32
} -> tensor<?x?x16xf32>
return %r : tensor<?x?x16xf32>
}
"""


def arguments() -> Model:
    t = Trace(17)
    return t.finish(t.attention(*(t.argument(2, HEADS, 16, DIM) for _ in range(3))))


def half() -> Model:
    """In f16: products accumulate in f32 and are narrowed."""
    t = Trace(18, element="f16")
    x = t.argument(1, 16, MODEL)
    q, k, v = (t.split_heads(t.linear(x, width), width // DIM) for width in (MODEL, 32, 32))
    result = t.attention(q, t.repeat_heads(k, 2), t.repeat_heads(v, 2), t.causal_mask(16, 16))
    return t.finish(t.linear(t.join_heads(result), MODEL))


def eager() -> Model:
    """Attention written out as products and a softmax: there is no attention op."""
    t = Trace(19)
    x = t.argument(2, 16, MODEL)
    q, k, v = (
        t.collapse(t.split_heads(t.linear(x, MODEL), HEADS), [[0, 1], [2], [3]]) for _ in range(3)
    )
    weights = t.softmax(t.multiply(t.batch_matmul(q, t.transpose(k, 0, 2, 1)), _half(t)))
    result = t.expand(t.batch_matmul(weights, v), [[0, 1], [2], [3]], 2, HEADS, 16, DIM)
    return t.finish(_project(t, result))


def _half(t: Trace) -> Value:
    return t.constant(np.array([0.5]))


def _indices(t: Trace, places: list[int]) -> Value:
    listed: Array = np.array(places)
    return t.constant(listed, "i64")


MODELS = {
    make.__name__: make
    for make in (
        mha, bert, sdxl, whisper, relative_bias, sliding_window, llama, llama_batched, half,
        llama_prefill_cache, gpt2, torch_mha, latent, multi_query, einsum, fp8_value, fp8_cache,
        sequence_major, flex, dynamic, llama_decode, static_cache, paged_cache, arguments, eager,
    )
}  # fmt: skip


if __name__ == "__main__":
    print(MODELS[sys.argv[1]]().text, end="")
