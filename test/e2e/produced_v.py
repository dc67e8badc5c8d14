"""`main(q, k, ...)` with attention of a V that a test's own ops make."""

from __future__ import annotations

import numpy as np
from helpers import MAPS

KEYS = 32
HEAD = (
    MAPS
    + """
#id = affine_map<(a, b, c) -> (a, b, c)>
#last = affine_map<(a, b, c) -> (c)>
"""
)


def project(rows: str = "$S", columns: int = 16, name: str = "p") -> str:
    """%p = x @ w, for x 4 x rows x 24 and w 4 x 24 x columns."""
    given = "$D" if rows == "$S" else ""
    kind = f"tensor<4x{rows}x{columns}x$T>"
    return f"""
  %{name}z = arith.constant 0.0 : $T
  %{name}e = tensor.empty({given}) : {kind}
  %{name}f = linalg.fill ins(%{name}z : $T) outs(%{name}e : {kind}) -> {kind}
  %{name} = linalg.batch_matmul ins(%x, %w : tensor<4x{rows}x24x$T>, tensor<4x24x{columns}x$T>)
      outs(%{name}f : {kind}) -> {kind}
"""


def module_text(
    arguments: dict[str, str],
    body: str,
    *,
    element: str = "f32",
    dynamic: bool = False,
    keys: int = KEYS,
    returned: str = "",
) -> str:
    """`main(q, k, ...)`: %v by `body`, and attention of it; `returned` is what else it gives."""
    size = "?" if dynamic else str(keys)
    given = {"q": "4x8x16x$T", "k": "4x$Sx16x$T", **arguments}
    signature = ", ".join(f"%{name}: tensor<{kind}>" for name, kind in given.items())
    length = ""
    if dynamic:
        kind = f"tensor<{arguments['x']}>"
        length = f"  %c1 = arith.constant 1 : index\n  %dim = tensor.dim %x, %c1 : {kind}\n"
    results = "tensor<4x8x16x$T>" + (", tensor<4x16x$Sx$T>" if returned else "")
    text = f"""{HEAD}
func.func @main({signature}) -> ({results}) {{
{length}{body}{returned}
  %scale = arith.constant 0.25 : $T
  %out = tensor.empty() : tensor<4x8x16x$T>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x8x16x$T>, tensor<4x$Sx16x$T>, tensor<4x$Sx16x$T>, $T)
      outs(%out : tensor<4x8x16x$T>) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> tensor<4x8x16x$T>
  return %r{", %copy" if returned else ""} : {results}
}}
"""
    if "$DENSE" in text:
        values = np.random.default_rng(3).integers(-8, 8, (4, keys, 16)) / 4
        text = text.replace("$DENSE", f"dense<{values.tolist()}>")
    text = text.replace("$D", "%dim" if dynamic else "")
    text = text.replace("$N", "%dim" if dynamic else size)
    return text.replace("$S", size).replace("$T", element)
