"""A cache that the caller holds as V^T: prefill and steps of decode against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import compile_text, rel_error, run_module
from iree.compiler import ir

import attnpass

OFF = "--iree-global-opt-enable-attention-v-transpose=false"
HEADS, GROUP, HEAD, WIDTH, PROMPT = 2, 3, 8, 24, 5
KEYS = {True: "?", False: str(PROMPT)}

MAPS = """
#q = affine_map<(b, h, g, m, n, k1, k2) -> (b, h, g, m, k1)>
#k = affine_map<(b, h, g, m, n, k1, k2) -> (b, h, k2, k1)>
#v = affine_map<(b, h, g, m, n, k1, k2) -> {v}>
#s = affine_map<(b, h, g, m, n, k1, k2) -> ()>
#o = affine_map<(b, h, g, m, n, k1, k2) -> (b, h, g, m, n)>
"""


def attention(rows: str, keys: str, value: str) -> str:
    q, k = f"tensor<2x{HEADS}x{GROUP}x{rows}x{HEAD}xf32>", f"tensor<2x{HEADS}x{keys}x{HEAD}xf32>"
    return f"""
  %scale = arith.constant 0.5 : f32
  %out = tensor.empty() : {q}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %keys, %values, %scale : {q}, {k}, {value}, f32) outs(%out : {q}) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> {q}"""


def model(heads_first: bool, dynamic: bool) -> str:
    """The cache is (batch, heads, keys, dim), or (batch, keys, heads, dim)."""
    keys = KEYS[dynamic]
    longer = "?" if dynamic else str(PROMPT + 1)

    def cache(length: str) -> str:
        shape = f"{HEADS}x{length}" if heads_first else f"{length}x{HEADS}"
        return f"tensor<2x{shape}x{HEAD}xf32>"

    dim = 2 if heads_first else 1
    q1 = f"tensor<2x{HEADS}x{GROUP}x1x{HEAD}xf32>"
    qp = f"tensor<2x{HEADS}x{GROUP}x{PROMPT}x{HEAD}xf32>"
    k, ak, nk = (f"tensor<2x{HEADS}x{n}x{HEAD}xf32>" for n in (keys, longer, "1"))
    kp = f"tensor<2x{HEADS}x{PROMPT}x{HEAD}xf32>"
    x, w = f"tensor<2x{PROMPT}x{WIDTH}xf32>", f"tensor<{WIDTH}x{HEADS}x{HEAD}xf32>"
    out = "(b, h, s, d)" if heads_first else "(b, s, h, d)"
    maps = MAPS.format(v="(b, h, k2, n)" if heads_first else "(b, k2, h, n)")
    return f"""{maps}
func.func @prefill(%q: {qp}, %keys: {kp}, %x: {x}, %w: {w}) -> ({qp}, {cache(str(PROMPT))}) {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : {cache(str(PROMPT))}
  %f = linalg.fill ins(%z : f32) outs(%e : {cache(str(PROMPT))}) -> {cache(str(PROMPT))}
  %values = linalg.generic {{indexing_maps = [affine_map<(b, h, s, d, c) -> (b, s, c)>,
      affine_map<(b, h, s, d, c) -> (c, h, d)>, affine_map<(b, h, s, d, c) -> {out}>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}}
      ins(%x, %w : {x}, {w}) outs(%f : {cache(str(PROMPT))}) {{
    ^bb0(%l: f32, %r0: f32, %a: f32):
      %p = arith.mulf %l, %r0 : f32
      %t = arith.addf %a, %p : f32
      linalg.yield %t : f32
  }} -> {cache(str(PROMPT))}{attention(str(PROMPT), str(PROMPT), cache(str(PROMPT)))}
  return %r, %values : {qp}, {cache(str(PROMPT))}
}}
func.func @decode(%q: {q1}, %k: {k}, %v: {cache(keys)}, %nk: {nk}, %nv: {cache("1")})
    -> ({q1}, {ak}, {cache(longer)}) {{
  %keys = tensor.concat dim(2) %k, %nk : ({k}, {nk}) -> {ak}
  %values = tensor.concat dim({dim}) %v, %nv : ({cache(keys)}, {cache("1")}) -> {cache(longer)}
  {attention("1", longer, cache(longer))}
  return %r, %keys, %values : {q1}, {ak}, {cache(longer)}
}}"""


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Softmax attention of (batch, heads, group, rows, dim) on (batch, heads, keys, dim)."""
    scores = 0.5 * np.einsum("bhgmd,bhkd->bhgmk", q.astype(np.float64), k)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhgmk,bhkd->bhgmd", weights / weights.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("heads_first", [True, False])
@pytest.mark.parametrize("dynamic", [True, False])
def test_a_transposed_cache(heads_first: bool, dynamic: bool) -> None:
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(model(heads_first, dynamic))
        report = attnpass.run(module, "attn-transpose-caches,attn-propagate-layout")
        text = str(module)
    assert [o.decision for a in report.attentions for o in a.operands] == ["absorbed"] * 2
    assert text.count("attnpass.transposed_caches") == 2
    vmfb = compile_text(text, flags=[OFF])
    r = np.random.default_rng(1)
    q, k = (
        r.standard_normal((2, HEADS, GROUP, PROMPT, HEAD)),
        r.standard_normal((2, HEADS, PROMPT, HEAD)),
    )
    x, w = r.standard_normal((2, PROMPT, WIDTH)), r.standard_normal((WIDTH, HEADS, HEAD))
    v = np.einsum("bsc,chd->bhsd", x, w)
    got, cache = run_module(vmfb, [a.astype(np.float32) for a in (q, k, x, w)], "prefill")
    assert rel_error(got, reference(q, k, v)) < 1e-5
    assert rel_error(cache, v.swapaxes(2, 3)) < 1e-5, "(batch, heads, dim, keys)"
    for _ in range(3 if dynamic else 1):
        q, nk, nv = (r.standard_normal(shape) for shape in step_shapes())
        given = nv if heads_first else nv.swapaxes(1, 2)
        inputs = [q, k, cache, nk, given]
        got, _, cache = run_module(vmfb, [a.astype(np.float32) for a in inputs], "decode")
        k, v = np.concatenate([k, nk], 2), np.concatenate([v, nv], 2)
        assert rel_error(got, reference(q, k, v)) < 1e-5
        assert rel_error(cache, v.swapaxes(2, 3)) < 1e-5


def step_shapes() -> list[tuple[int, ...]]:
    """Of the query, the new key and the new value of one step."""
    return [(2, HEADS, GROUP, 1, HEAD), (2, HEADS, 1, HEAD), (2, HEADS, 1, HEAD)]


@pytest.mark.parametrize("dynamic", [True, False])
def test_the_compile_hook_takes_the_option(dynamic: bool) -> None:
    """Behind IREE's ABI, sizes of dynamic dims are asked of the caller's buffers."""
    report = attnpass.Report()
    vmfb = compile_text(model(True, dynamic), mode="cost", cache="transposed", report=report)
    assert report.found("transposed", of="argument 2")
    r = np.random.default_rng(2)
    q, nk, nv = (r.standard_normal(shape) for shape in step_shapes())
    k, v = (r.standard_normal((2, HEADS, PROMPT, HEAD)) for _ in range(2))
    inputs = [a.astype(np.float32) for a in (q, k, v.swapaxes(2, 3), nk, nv)]
    got, _, cache = run_module(vmfb, inputs, "decode")
    k, v = np.concatenate([k, nk], 2), np.concatenate([v, nv], 2)
    assert rel_error(got, reference(q, k, v)) < 1e-5
    assert rel_error(cache, v.swapaxes(2, 3)) < 1e-5


def test_the_declaration_follows() -> None:
    """What IREE tells callers at run time about types is kept true."""
    flow = compile_text(
        model(True, False), mode="cost", cache="transposed", flags=["--compile-to=flow"]
    )
    declaration = next(line for line in flow.decode().splitlines() if "@decode(" in line)
    assert "%input2: tensor<2x2x8x5xf32>" in declaration
    assert "%output2: tensor<2x2x8x6xf32>" in declaration


STEP = """
#q = affine_map<(h, g, m, n, k1, k2) -> (h, g, m, k1)>
#k = affine_map<(h, g, m, n, k1, k2) -> (h, k2, k1)>
#v = affine_map<(h, g, m, n, k1, k2) -> (h, k2, n)>
#s = affine_map<(h, g, m, n, k1, k2) -> ()>
#o = affine_map<(h, g, m, n, k1, k2) -> (h, g, m, n)>
#all = affine_map<(h, s, d) -> (h, s, d)>
#row = affine_map<(h, s, d) -> (h, 0, d)>
!q = tensor<2x3x1x8xf32>
!kv = tensor<2x9x8xf32>
!new = tensor<2x1x8xf32>
func.func @main(%q: !q, %k: !kv, %v: !kv, %new: !new, %place: tensor<1xi64>) -> (!q, !kv) {{
  %c0 = arith.constant 0 : index
  %i64 = tensor.extract %place[%c0] : tensor<1xi64>
  %at = arith.index_cast %i64 : i64 to index
  {update}
  %scale = arith.constant 0.5 : f32
  %out = tensor.empty() : !q
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %all, %scale : !q, !kv, !kv, f32) outs(%out : !q) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> !q
  return %r, %all : !q, !kv
}}"""
UPDATES = {
    "insert_slice": "%all = tensor.insert_slice %new into %v[0, %at, 0] [2, 1, 8] [1, 1, 1]"
    " : !new into !kv",
    "select": """%e = tensor.empty() : !kv
  %all = linalg.generic {indexing_maps = [#all, #row, #all],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%v, %new : !kv, !new) outs(%e : !kv) {
    ^bb0(%old: f32, %fresh: f32, %o: f32):
      %i = linalg.index 1 : index
      %here = arith.cmpi eq, %i, %at : index
      %x = arith.select %here, %fresh, %old : f32
      linalg.yield %x : f32
  } -> !kv""",
}


@pytest.mark.parametrize("update", UPDATES)
def test_a_static_cache(update: str) -> None:
    """A cache of fixed length, a row of which is written at a place known at run time."""
    report = attnpass.Report()
    text = STEP.format(update=UPDATES[update])
    vmfb = compile_text(text, mode="cost", cache="transposed", report=report)
    (changed,) = report.found("transposed", of="argument 2")
    assert str(changed).endswith(f": {changed.details['before']} -> {changed.details['after']}")
    r = np.random.default_rng(3)
    shapes = [(2, 3, 1, 8), (2, 9, 8), (2, 9, 8), (2, 1, 8)]
    q, k, v, new = (r.standard_normal(shape).astype(np.float32) for shape in shapes)
    given = np.ascontiguousarray(v.swapaxes(1, 2))
    got, cache = run_module(vmfb, [q, k, given, new, np.array([4])])
    v[:, 4:5] = new
    assert rel_error(got, reference(q[None], k[None], v[None])[0]) < 1e-5
    assert rel_error(cache, v.swapaxes(1, 2)) < 1e-5
