"""Attention as benches write it, in MLIR."""

from __future__ import annotations

from collections.abc import Sequence

# A value, its type, and the iteration dims of its dims, as in a map.
Operand = tuple[str, str, str]

DIMS = "b, m, n, k1, k2"
Q, K, V, V_T, OUT = "b, m, k1", "b, k2, k1", "b, k2, n", "b, n, k2", "b, m, n"


def attention(
    result: str,
    inputs: Sequence[Operand],
    out: Operand,
    dims: str = DIMS,
    body: str = "",
    score: str = "%s",
) -> str:
    """The op that gives `result`: `inputs` are q, k, v, the scale and a mask or none, `out` is what
    the result is written to. `body` makes `score` of %s, as lines."""
    maps = ", ".join(f"affine_map<({dims}) -> ({read})>" for _, _, read in (*inputs, out))
    names, kinds = (", ".join(one[place] for one in inputs) for place in (0, 1))
    return f"""
  {result} = iree_linalg_ext.attention <indexing_maps = [{maps}]>
      ins({names} : {kinds}) outs({out[0]} : {out[1]}) {{
  ^bb0(%s: f32):{body}
    iree_linalg_ext.yield {score} : f32
  }} -> {out[1]}"""


def fresh_attention(
    result: str,
    inputs: Sequence[Operand],
    kind: str,
    sizes: str = "",
    written: str = OUT,
    **more: str,
) -> str:
    """The same into an empty tensor of type `kind`, of the dynamic `sizes`, behind that."""
    empty = f"{result}_e"
    line = f"\n  {empty} = tensor.empty({sizes}) : {kind}"
    return line + attention(result, inputs, (empty, kind, written), **more)
