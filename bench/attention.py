"""Attention as benches write it, in MLIR."""

from __future__ import annotations

from collections.abc import Sequence

# A value, its type, and the iteration dims of its dims, as in a map.
Operand = tuple[str, str, str]

DIMS = "b, m, n, k1, k2"
Q, K, V, V_T, OUT = "b, m, k1", "b, k2, k1", "b, k2, n", "b, n, k2", "b, m, n"


def fresh_attention(
    result: str,
    inputs: Sequence[Operand],
    kind: str,
    sizes: str = "",
    written: str = OUT,
    dims: str = DIMS,
    body: str = "",
    score: str = "%s",
) -> str:
    """The op that gives `result`: `inputs` are q, k, v, the scale and a mask or none. It writes
    into an empty tensor of type `kind`, of the dynamic `sizes`, whose dims are `written`. `body`
    makes `score` of %s, as lines."""
    reads = (*(read for _, _, read in inputs), written)
    maps = ", ".join(f"affine_map<({dims}) -> ({read})>" for read in reads)
    names, kinds = (", ".join(one[place] for one in inputs) for place in (0, 1))
    return f"""
  {result}_e = tensor.empty({sizes}) : {kind}
  {result} = iree_linalg_ext.attention <indexing_maps = [{maps}]>
      ins({names} : {kinds}) outs({result}_e : {kind}) {{
  ^bb0(%s: f32):{body}
    iree_linalg_ext.yield {score} : f32
  }} -> {kind}"""
