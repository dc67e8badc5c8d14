"""What is read in a mask is what the mask holds: each spelling, beside its own elements."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import compile_and_run
from interpreter import interpret
from iree.compiler import ir

from attnpass.attention.facts import find
from attnpass.attention.visible_keys import Mask, find_mask

ROWS, KEYS = 6, 9

# Each makes %mask of the type that stands behind it; 6 rows, 9 keys, 2 heads.
SPELLINGS: dict[str, tuple[str, str, Mask]] = {
    "indices": (
        "tensor<6x9xi1>",
        """
  %e = tensor.empty() : tensor<6x9xi1>
  %mask = linalg.generic {indexing_maps = [#ij], iterator_types = TWO}
      outs(%e : tensor<6x9xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %s = arith.cmpi ule, %j, %i : index
    linalg.yield %s : i1
  } -> tensor<6x9xi1>""",
        Mask("causal"),
    ),
    # transformers: arange, expand, compare, and with all of them, broadcast over heads.
    "positions": (
        "tensor<2x6x9xi1>",
        """
  %en = tensor.empty() : tensor<9xi64>
  %keys = linalg.generic {indexing_maps = [#i], iterator_types = ONE}
      outs(%en : tensor<9xi64>) {
  ^bb0(%out: i64):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i64
    linalg.yield %n : i64
  } -> tensor<9xi64>
  %part = tensor.extract_slice %keys[3] [6] [1] : tensor<9xi64> to tensor<6xi64>
  %column = tensor.expand_shape %part [[0, 1]] output_shape [6, 1]
      : tensor<6xi64> into tensor<6x1xi64>
  %all = arith.constant dense<true> : tensor<6x1xi1>
  %e = tensor.empty() : tensor<6x9xi1>
  %seen = linalg.generic {indexing_maps = [#j, #i0, #i0, #ij], iterator_types = TWO}
      ins(%keys, %column, %all : tensor<9xi64>, tensor<6x1xi64>, tensor<6x1xi1>)
      outs(%e : tensor<6x9xi1>) {
  ^bb0(%key: i64, %row: i64, %other: i1, %out: i1):
    %s = arith.cmpi sle, %key, %row : i64
    %t = arith.andi %other, %s : i1
    linalg.yield %t : i1
  } -> tensor<6x9xi1>
  %one = tensor.expand_shape %seen [[0, 1], [2]] output_shape [1, 6, 9]
      : tensor<6x9xi1> into tensor<1x6x9xi1>
  %eh = tensor.empty() : tensor<1x2x6x9xi1>
  %heads = linalg.generic {indexing_maps = [#bij, #bhij], iterator_types = FOUR}
      ins(%one : tensor<1x6x9xi1>) outs(%eh : tensor<1x2x6x9xi1>) {
  ^bb0(%x: i1, %out: i1):
    linalg.yield %x : i1
  } -> tensor<1x2x6x9xi1>
  %mask = tensor.collapse_shape %heads [[0, 1], [2], [3]]
      : tensor<1x2x6x9xi1> into tensor<2x6x9xi1>""",
        Mask("causal", diagonal=3),
    ),
    # A buffer of the model, cut to size, chosen from and added.
    "constant": (
        "tensor<6x9xf32>",
        """
  %tril = arith.constant dense<[CONSTANT]> : tensor<12x12xi1>
  %cut = tensor.extract_slice %tril[1, 0] [6, 9] [1, 1] : tensor<12x12xi1> to tensor<6x9xi1>
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<6x9xf32>
  %chosen = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = TWO}
      ins(%cut : tensor<6x9xi1>) outs(%e : tensor<6x9xf32>) {
  ^bb0(%x: i1, %out: f32):
    %s = arith.select %x, %zero, %low : f32
    linalg.yield %s : f32
  } -> tensor<6x9xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<6x9xf32>) -> tensor<6x9xf32>
  %mask = linalg.generic {indexing_maps = [#ij, #ij, #ij], iterator_types = TWO}
      ins(%chosen, %zeros : tensor<6x9xf32>, tensor<6x9xf32>) outs(%e : tensor<6x9xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<6x9xf32>""",
        Mask("causal", diagonal=1),
    ),
    # (1 - seen) * lowest, as BERT's exports have it.
    "product": (
        "tensor<6x9xf32>",
        """
  %one = arith.constant 1.0 : f32
  %low = arith.constant -3.40282347E+38 : f32
  %e = tensor.empty() : tensor<6x9xf32>
  %mask = linalg.generic {indexing_maps = [#ij], iterator_types = TWO}
      outs(%e : tensor<6x9xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %s = arith.cmpi sge, %i, %j : index
    %f = arith.uitofp %s : i1 to f32
    %h = arith.subf %one, %f : f32
    %m = arith.mulf %h, %low : f32
    linalg.yield %m : f32
  } -> tensor<6x9xf32>""",
        Mask("causal"),
    ),
    "window": (
        "tensor<6x9xi1>",
        """
  %c2 = arith.constant 2 : index
  %true = arith.constant true
  %e = tensor.empty() : tensor<6x9xi1>
  %mask = linalg.generic {indexing_maps = [#ij], iterator_types = TWO}
      outs(%e : tensor<6x9xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %behind = arith.subi %i, %c2 : index
    %a = arith.cmpi sgt, %j, %i : index
    %b = arith.cmpi slt, %j, %behind : index
    %hidden = arith.ori %a, %b : i1
    %s = arith.xori %hidden, %true : i1
    linalg.yield %s : i1
  } -> tensor<6x9xi1>""",
        Mask("window", behind=2),
    ),
    # Rows see keys up to 20 on: all there are.
    "all": (
        "tensor<6x9xi1>",
        """
  %c20 = arith.constant 20 : index
  %e = tensor.empty() : tensor<6x9xi1>
  %mask = linalg.generic {indexing_maps = [#ij], iterator_types = TWO}
      outs(%e : tensor<6x9xi1>) {
  ^bb0(%out: i1):
    %j = linalg.index 1 : index
    %s = arith.cmpi slt, %j, %c20 : index
    linalg.yield %s : i1
  } -> tensor<6x9xi1>""",
        Mask("none"),
    ),
    # The lower triangle of the wrong side, which no kernel knows: it stays an operand.
    "strict": (
        "tensor<6x9xi1>",
        """
  %e = tensor.empty() : tensor<6x9xi1>
  %mask = linalg.generic {indexing_maps = [#ij], iterator_types = TWO}
      outs(%e : tensor<6x9xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %s = arith.cmpi slt, %j, %i : index
    linalg.yield %s : i1
  } -> tensor<6x9xi1>""",
        Mask("operand"),
    ),
    # Hidden keys that keep some weight are no mask.
    "bias": (
        "tensor<6x9xf32>",
        """
  %zero = arith.constant 0.0 : f32
  %low = arith.constant -2.0 : f32
  %e = tensor.empty() : tensor<6x9xf32>
  %mask = linalg.generic {indexing_maps = [#ij], iterator_types = TWO}
      outs(%e : tensor<6x9xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %s = arith.cmpi sge, %i, %j : index
    %m = arith.select %s, %zero, %low : f32
    linalg.yield %m : f32
  } -> tensor<6x9xf32>""",
        Mask("operand"),
    ),
}

MODULE = """
#i = affine_map<(i) -> (i)>
#ij = affine_map<(i, j) -> (i, j)>
#j = affine_map<(i, j) -> (j)>
#i0 = affine_map<(i, j) -> (i, 0)>
#bij = affine_map<(b, h, i, j) -> (b, i, j)>
#bhij = affine_map<(b, h, i, j) -> (b, h, i, j)>
func.func @main(%q: tensor<2x6x4xf32>, %k: tensor<2x9x4xf32>) -> {kind} {{{mask}
  %scale = arith.constant 0.5 : f32
  %o = tensor.empty() : tensor<2x6x4xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [
      affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
      affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
      affine_map<(b, m, n, k1, k2) -> ({dims})>, affine_map<(b, m, n, k1, k2) -> (b, m, n)>]>
      ins(%q, %k, %k, %scale, %mask : tensor<2x6x4xf32>, tensor<2x9x4xf32>, tensor<2x9x4xf32>,
          f32, {kind})
      outs(%o : tensor<2x6x4xf32>) {{
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }} -> tensor<2x6x4xf32>
  return %mask : {kind}
}}
"""


def seen_by(mask: Mask) -> np.ndarray:
    row, key = np.arange(ROWS)[:, None], np.arange(KEYS)[None]
    seen = np.ones((ROWS, KEYS), bool)
    if mask.kind in ("causal", "window"):
        seen &= key <= row + mask.diagonal
    if mask.kind == "window":
        seen &= key >= row - mask.behind
    return seen


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name: str) -> None:
    kind, text, wanted = SPELLINGS[name]
    rows = (", ".join("true" if j <= i else "false" for j in range(12)) for i in range(12))
    for count, word in ((1, "ONE"), (2, "TWO"), (4, "FOUR")):
        text = text.replace(word, "[" + ", ".join(['"parallel"'] * count) + "]")
    text = text.replace("[CONSTANT]", "[" + ", ".join(f"[{row}]" for row in rows) + "]")
    dims = "b, m, k2" if kind.startswith("tensor<2x") else "m, k2"
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(MODULE.format(kind=kind, mask=text, dims=dims))
        (facts,) = find(module.operation)
        assert find_mask(facts, row=1) == wanted
        if wanted.kind == "operand":
            return
        inputs = [np.zeros((2, ROWS, 4)), np.zeros((2, KEYS, 4))]
        (elements,) = interpret(module, inputs)
    seen = elements > -1e30 if "f32" in kind else elements.astype(bool)
    assert (seen == seen_by(wanted)).all()


# A triangle in a buffer of the model, in floats, by which scores are hidden.
BUFFER = """
#ij = affine_map<(i, j) -> (i, j)>
util.global private {mutable} @tril = dense<{tril}> : tensor<12x12xf32>
func.func @main(%q: tensor<2x12x16xf32>, %k: tensor<2x12x16xf32>, %v: tensor<2x12x16xf32>)
    -> tensor<2x12x16xf32> {{
  %scale = arith.constant 0.25 : f32
  %tril = util.global.load @tril : tensor<12x12xf32>
  %em = tensor.empty() : tensor<12x12xf32>
  %mask = linalg.generic {{indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]}}
      ins(%tril : tensor<12x12xf32>) outs(%em : tensor<12x12xf32>) {{
  ^bb0(%x: f32, %y: f32):
    %zero = arith.constant 0.0 : f32
    %low = arith.constant 0xFF800000 : f32
    %hidden = arith.cmpf oeq, %x, %zero : f32
    %z = arith.select %hidden, %low, %zero : f32
    linalg.yield %z : f32
  }} -> tensor<12x12xf32>
  %o = tensor.empty() : tensor<2x12x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [
      affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
      affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
      affine_map<(b, m, n, k1, k2) -> (m, k2)>, affine_map<(b, m, n, k1, k2) -> (b, m, n)>]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x12x16xf32>, tensor<2x12x16xf32>,
          tensor<2x12x16xf32>, f32, tensor<12x12xf32>)
      outs(%o : tensor<2x12x16xf32>) {{
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }} -> tensor<2x12x16xf32>
  return %r : tensor<2x12x16xf32>
}}
"""


@pytest.mark.parametrize(("mutable", "kind"), [("", "causal"), ("mutable", "operand")])
@pytest.mark.parametrize("broken", [False, True])
def test_buffer_of_the_model(mutable: str, kind: str, broken: bool) -> None:
    seen = np.tril(np.ones((12, 12)))
    if broken:
        seen[7, 3] = 0
    text = BUFFER.format(mutable=mutable, tril=seen.tolist())
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        (facts,) = find(module.operation)
        assert find_mask(facts, row=1) == Mask("operand" if broken else kind)
    rng = np.random.default_rng(1)
    query, key, value = (rng.standard_normal((2, 12, 16), np.float32) for _ in range(3))
    got = compile_and_run(text, [query, key, value], mode="cost")
    scores = query.astype(np.float64) @ key.transpose(0, 2, 1).astype(np.float64) / 4
    weights = np.exp(scores - scores.max(-1, keepdims=True)) * seen
    wanted = weights / weights.sum(-1, keepdims=True) @ value
    np.testing.assert_allclose(got, wanted, atol=2e-6)
