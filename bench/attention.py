"""Attention as benches write it, in MLIR, and what it should give."""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def scores_of(q: Any, k: Any, scale: float, cap: float = 0.0) -> Any:
    """Scaled scores of rows (.., rows, dim) and keys (keys, dim), soft-capped where `cap` is not 0,
    in the type of both."""
    import torch

    scores = q @ k.T * scale
    return cap * torch.tanh(scores / cap) if cap else scores


def reference(q: Any, k: Any, v: Any, mask: Any = None, exact: str = "float64") -> Any:
    """Attention of q (heads, [group,] rows, dim) over k and v (heads, keys, dim), in torch's type
    `exact`, a head at a time; `mask` (rows, keys), or one a head, is true where a key is seen."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    kind, heads = getattr(torch, exact), []
    for head in range(len(q)):
        scores = scores_of(q[head].to(kind), k[head].to(kind), q.shape[-1] ** -0.5)
        if mask is not None:
            seen = mask if mask.dim() == 2 else mask[head]
            scores = scores.masked_fill(~seen, float("-inf"))
        heads.append(torch.softmax(scores, -1) @ v[head].to(kind))
    return torch.stack(heads)
