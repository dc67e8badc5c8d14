"""FlexAttention as torch exports it: a soft-cap of 1 and a causal mask behind it."""

from __future__ import annotations

import numpy as np

SCALAR, INDEX, TENSOR = "!torch.vtensor<[],f32>", "!torch.vtensor<[],si32>", "[2,4,24,16],f32"
FLEX = f"""
func.func private @score(%s: {SCALAR}, %b: {INDEX}, %h: {INDEX}, %i: {INDEX}, %j: {INDEX}) -> {SCALAR} {{
  %cap = torch.constant.float 1.000000e+00
  %0 = torch.aten.div.Scalar %s, %cap : {SCALAR}, !torch.float -> {SCALAR}
  %1 = torch.aten.tanh %0 : {SCALAR} -> {SCALAR}
  %2 = torch.aten.mul.Scalar %1, %cap : {SCALAR}, !torch.float -> {SCALAR}
  return %2 : {SCALAR}
}}
func.func private @mask(%b: {INDEX}, %h: {INDEX}, %i: {INDEX}, %j: {INDEX}) -> !torch.vtensor<[],i1> {{
  %0 = torch.aten.ge.Tensor %i, %j : {INDEX}, {INDEX} -> !torch.vtensor<[],i1>
  return %0 : !torch.vtensor<[],i1>
}}
func.func @main(%q: !torch.vtensor<{TENSOR}>, %k: !torch.vtensor<{TENSOR}>, %v: !torch.vtensor<{TENSOR}>) -> !torch.vtensor<{TENSOR}> {{
  %scale = torch.constant.float 2.500000e-01
  %false = torch.constant.bool false
  %out, %lse, %max = torch.hop_flex_attention %q, %k, %v, %scale, %false, %false
      {{score_mod_fn = @score, mask_mod_fn = @mask}} : !torch.vtensor<{TENSOR}>, !torch.vtensor<{TENSOR}>,
      !torch.vtensor<{TENSOR}>, !torch.float, !torch.bool, !torch.bool -> !torch.vtensor<{TENSOR}>, !torch.none, !torch.none
  return %out : !torch.vtensor<{TENSOR}>
}}
"""  # noqa: E501


def flex_case() -> tuple[list[np.ndarray], np.ndarray]:
    """Inputs and answer of FLEX."""
    random = np.random.default_rng(6)
    q, k, v = (random.standard_normal((2, 4, 24, 16)).astype(np.float32) * 2 for _ in range(3))
    scores = np.tanh(q.astype(np.float64) @ k.transpose(0, 1, 3, 2) * 0.25)
    scores = np.where(np.tri(24, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return [q, k, v], weights / weights.sum(-1, keepdims=True) @ v
