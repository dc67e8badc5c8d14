"""Attention of any shape and type as MLIR text, with its inputs and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from helpers import run_module

TYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "i1": np.bool_,
}
# About twice the error of IREE's own configuration: the types' precision.
TOLERANCE = {"f32": 3e-6, "f16": 2e-3, "bf16": 1e-2, "f8E4M3FN": 4e-2, "f8E4M3FNUZ": 4e-2}
SCALE = 0.25
# Score functions by name: what a region makes of %score, as %out, and the same in numpy, of the
# scores and of the numbers of their heads, rows and keys. Values from outside (%c: 0.7) and from
# inside the region; `index 4` is the key, by the dims of `Case.text`.
SCORES: dict[str, tuple[str, Callable[..., np.ndarray]]] = {
    "bias": ("%out = arith.addf %score, %c : f32", lambda s, b, m, k: s + 0.7),
    "cap": (
        "%x = arith.divf %score, %c : f32\n%t = math.tanh %x : f32\n%out = arith.mulf %t, %c : f32",
        lambda s, b, m, k: 0.7 * np.tanh(s / 0.7),
    ),
    "square": (
        "%out = arith.mulf %score, %score : f32",
        lambda s, b, m, k: s * s,
    ),
    "alibi": (
        """%i = iree_linalg_ext.index 1 : index
        %j = iree_linalg_ext.index 4 : index
        %h = iree_linalg_ext.index 0 : index
        %h1 = arith.index_cast %h : index to i32
        %h2 = arith.sitofp %h1 : i32 to f32
        %h3 = arith.addf %h2, %c : f32
        %d = arith.subi %j, %i : index
        %d1 = arith.index_cast %d : index to i32
        %d2 = arith.sitofp %d1 : i32 to f32
        %slope = arith.mulf %d2, %h3 : f32
        %out = arith.addf %score, %slope : f32""",
        lambda s, b, m, k: s + (k - m) * (b + 0.7),
    ),
    "causal": (
        """%i = iree_linalg_ext.index 1 : index
        %j = iree_linalg_ext.index 4 : index
        %seen = arith.cmpi sge, %i, %j : index
        %hidden = arith.constant 0xFF800000 : f32
        %out = arith.select %seen, %score, %hidden : f32""",
        lambda s, b, m, k: np.where(m >= k, s, -np.inf),
    ),
    "capped causal": (
        """%x = arith.divf %score, %c : f32
        %t = math.tanh %x : f32
        %u = arith.mulf %t, %c : f32
        %i = iree_linalg_ext.index 1 : index
        %j = iree_linalg_ext.index 4 : index
        %seen = arith.cmpi sge, %i, %j : index
        %hidden = arith.constant 0xFF800000 : f32
        %out = arith.select %seen, %u, %hidden : f32""",
        lambda s, b, m, k: np.where(m >= k, 0.7 * np.tanh(s / 0.7), -np.inf),
    ),
    "causal capped": (
        """%i = iree_linalg_ext.index 1 : index
        %j = iree_linalg_ext.index 4 : index
        %seen = arith.cmpi sge, %i, %j : index
        %hidden = arith.constant 0xFF800000 : f32
        %s = arith.select %seen, %score, %hidden : f32
        %x = arith.divf %s, %c : f32
        %t = math.tanh %x : f32
        %out = arith.mulf %t, %c : f32""",
        lambda s, b, m, k: np.where(m >= k, 0.7 * np.tanh(s / 0.7), -0.7),
    ),
    "slope of score": (
        """%j = iree_linalg_ext.index 4 : index
        %j1 = arith.index_cast %j : index to i32
        %j2 = arith.sitofp %j1 : i32 to f32
        %f = arith.addf %j2, %c : f32
        %out = arith.mulf %score, %f : f32""",
        lambda s, b, m, k: s * (k + 0.7),
    ),
}


@dataclass(frozen=True)
class Case:
    """One attention. `mask` is the mask's type or '', `masked` its dims; `dynamic` names sizes
    (`b`, `m`, `k`, `d`, `n`) that only the arguments tell; `online` makes it an online_attention;
    `score` names one of SCORES, in the type of the operands if `narrow`; `transposed` names
    operands (`k`, `v`) whose keys are innermost. The result of 8-bit operands is f16."""

    batch: int
    rows: int
    keys: int
    head: int
    kind: str = "f32"
    mask: str = ""
    dynamic: str = ""
    value_head: int = 0
    online: bool = False
    score: str = ""
    transposed: str = ""
    masked: str = "bmk"
    narrow: bool = False

    @property
    def dims(self) -> list[str]:
        """Of query, key, value, the result and the mask."""
        key, value = ("bkd", "bdk"), ("bkn", "bnk")
        k, v = (name in self.transposed for name in "kv")
        return ["bmd", key[k], value[v], "bmn", self.masked]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of query, key, value, the result and the mask."""
        n = self.value_head or self.head
        sizes = {"b": self.batch, "m": self.rows, "k": self.keys, "d": self.head, "n": n}
        return [tuple(sizes[dim] for dim in dims) for dims in self.dims]

    def types(self) -> list[str]:
        sizes = [
            [
                "?" if dim in self.dynamic else str(size)
                for dim, size in zip(dims, shape, strict=True)
            ]
            for dims, shape in zip(self.dims, self.shapes, strict=True)
        ]
        narrow = self.kind.startswith("f8")
        result = "f32" if self.online else "f16" if narrow else self.kind
        kinds = [*[self.kind] * 3, result, self.mask]
        return [
            f"tensor<{'x'.join([*size, kind])}>" for size, kind in zip(sizes, kinds, strict=True)
        ]

    def inputs(self) -> list[np.ndarray]:
        random = np.random.default_rng(self.keys)
        arrays = [random.standard_normal(shape).astype(TYPES[self.kind]) for shape in self.shapes]
        if self.mask == "i1":
            seen = random.random(self.shapes[4]) < 0.7
            seen[..., 0] = True
            return [*arrays[:3], seen]
        return [*arrays[:3], arrays[4].astype(TYPES[self.mask])] if self.mask else arrays[:3]

    def wanted(self) -> np.ndarray:
        """In float64, of the inputs as the module gets them."""
        given = self.inputs()
        q, k, v = (
            np.einsum(f"{dims}->{order}", array.astype(np.float64))
            for array, dims, order in zip(given, self.dims, ("bmd", "bkd", "bkn"), strict=False)
        )
        scores = q @ k.transpose(0, 2, 1) * SCALE
        if self.score:
            scores = SCORES[self.score][1](scores, *np.ogrid[tuple(map(slice, scores.shape))])
        if self.mask:
            mask = np.expand_dims(
                given[3], [d for d, x in enumerate("bmk") if x not in self.masked]
            )
            if self.mask == "i1":
                scores = np.where(mask, scores, -np.inf)
            else:
                scores = scores + mask.astype(np.float64)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    def text(self, name: str) -> str:
        q, k, v, out, mask = self.types()
        scale = "f32" if self.kind.startswith("f8") else self.kind
        masked = ", %mask" if self.mask else ""
        letters = {"d": "k1", "k": "k2"}
        maps = [f"({', '.join(letters.get(dim, dim) for dim in dims)})" for dims in self.dims]
        maps = [*maps[:3], "()", *maps[4 : 4 + bool(masked)]]
        outs = "(b, m, n)"
        state = "tensor<{}x{}xf32>".format(*out.removeprefix("tensor<").split("x")[:2])
        sizes, row_sizes = (
            ", ".join(f"%{dim}" for dim in dims if dim in self.dynamic) for dims in ("bmn", "bm")
        )
        region = self.kind if self.narrow else "f32"
        body = SCORES[self.score][0] if self.score else ""
        if self.narrow:
            lowest = {"f16": "0xFC00", "bf16": "0xFF80"}[region]
            body = body.replace("f32", region).replace("0xFF800000", lowest)
        maps += [outs, "(b, m)", "(b, m)"] if self.online else [outs]
        shown = ", ".join(f"affine_map<(b, m, n, k1, k2) -> {x}>" for x in maps)
        results = f"{out}, {state}, {state}" if self.online else out
        start = "%zero, %low, %none" if self.online else "%empty"
        kind = "online_attention" if self.online else "attention"
        count, returned = (":3", "%r#0, %r#1, %r#2") if self.online else ("", "%r")
        return f"""
func.func @{name}(%q: {q}, %k: {k}, %v: {v}{f", %mask: {mask}" if masked else ""}) -> ({results}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant {self.dims[2].index("n")} : index
  %b = tensor.dim %q, %c0 : {q}
  %m = tensor.dim %q, %c1 : {q}
  %n = tensor.dim %v, %c2 : {v}
  %f0 = arith.constant 0.0 : f32
  %lowest = arith.constant -3.0e38 : f32
  %scale = arith.constant {SCALE} : {scale}
  %c = arith.constant 0.7 : {region}
  %empty = tensor.empty({sizes}) : {out}
  %row = tensor.empty({row_sizes}) : {state}
  {f"%zero = linalg.fill ins(%f0 : f32) outs(%empty : {out}) -> {out}" if self.online else ""}
  %low = linalg.fill ins(%lowest : f32) outs(%row : {state}) -> {state}
  %none = linalg.fill ins(%f0 : f32) outs(%row : {state}) -> {state}
  %r{count} = iree_linalg_ext.{kind} <indexing_maps = [{shown}]>
      ins(%q, %k, %v, %scale{masked} : {q}, {k}, {v}, {scale}{f", {mask}" if masked else ""})
      outs({start} : {results}) {{
    ^bb0(%score: {region}):
      {body}
      iree_linalg_ext.yield %{"out" if self.score else "score"} : {region}
  }} -> {results}
  return {returned} : {results}
}}
"""

    def result(self, vmfb: bytes, name: str) -> np.ndarray:
        given = run_module(vmfb, self.inputs(), name)
        return given[0] / given[2][:, :, None] if self.online else given


@dataclass(frozen=True)
class Hidden(Case):
    """A case whose mask hides all keys of some rows, whose result is zero."""

    def inputs(self) -> list[np.ndarray]:
        *arrays, mask = super().inputs()
        mask[:, ::5] = False
        return [*arrays, mask]

    def wanted(self) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(super().wanted())
