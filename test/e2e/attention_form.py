"""Attention of any form that IREE's ops allow, as MLIR text, with its inputs and its answer.

Dims are letters: b and h batches, m and g rows, d and e the head dim of Q and K, k and l keys,
n and o that of V. An operand may have any of them, in any order: which are rows, keys and so on
follows from that, as IREE has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from attention_case import TYPES

SCALE = 0.375
LETTERS = "bhmgdeklno"
SIZES = {"b": 3, "h": 2, "m": 5, "g": 2, "d": 12, "e": 3, "k": 7, "l": 3, "n": 6, "o": 2}
KINDS = {
    **TYPES,
    "f64": np.float64,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "i8": np.int8,
    "i32": np.int32,
    "packed": np.bool_,
}
# Of results, relative to float64.
# IREE's exp of f64 has the precision of f32.
TOLERANCE = {"f64": 1e-6, "f32": 1e-6, "f16": 1e-3, "bf16": 8e-3, "i32": 1e-3}
LOWEST = -3.4028234663852886e38


@dataclass(frozen=True)
class Form:
    """One attention: the dims of its operands and the types of their elements.

    `maxima` and `sums` make it an online_attention, with random accumulators. `dynamic` are dims
    of unknown size. `score` is what the region makes of %score, as %out. `hidden` hides all keys
    of some rows: by false, or by -inf, or by the lowest finite number.
    """

    q: str = "bmd"
    k: str = "bkd"
    v: str = "bkn"
    out: str = "bmn"
    mask: str = ""
    maxima: str = ""
    sums: str = ""
    kinds: tuple[str, str, str, str] = ("f32",) * 4
    mask_kind: str = "i1"
    scale_kind: str = "f32"
    dynamic: str = ""
    hidden: str = ""
    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def online(self) -> bool:
        return bool(self.sums)

    @property
    def packed(self) -> bool:
        """Whether a mask comes in eight elements a byte."""
        return bool(self.mask) and self.mask_kind == "packed"

    @property
    def dims(self) -> list[str]:
        """Of the tensor operands in their order: query, key, value, mask, results."""
        masks = [self.mask] if self.mask else []
        return [self.q, self.k, self.v, *masks, self.out, *self.states]

    @property
    def states(self) -> list[str]:
        return [self.maxima, self.sums] if self.online else []

    @property
    def groups(self) -> tuple[str, str]:
        """Batches and rows together, and keys: the dims of scores."""
        q, k, v, out = map(set, (self.q, self.k, self.v, self.out))
        batch = (q & v) | (k & out)
        head = (q & k) - batch
        return "".join(sorted((q | batch) - head)), "".join(sorted(k - batch - head))

    def shape(self, dims: str) -> tuple[int, ...]:
        return tuple((SIZES | dict(self.sizes))[dim] for dim in dims)

    def inputs(self) -> list[np.ndarray]:
        """Query, key, value, the mask, and the accumulators of online_attention."""
        random = np.random.default_rng(len(self.text("f")))

        def drawn(dims: str, kind: str) -> np.ndarray:
            array = random.standard_normal(self.shape(dims))
            return (array * 3 if kind.startswith("i") else array).astype(KINDS[kind])

        given = [drawn(*pair) for pair in zip((self.q, self.k, self.v), self.kinds, strict=False)]
        if self.mask:
            given.append(self._drawn_mask(random))
        if self.online:
            given.append(drawn(self.out, self.kinds[3]))
            top = drawn(self.maxima, "f32")
            given += [np.full_like(top, LOWEST) if self.hidden else top]
            given.append(np.abs(drawn(self.sums, "f32")))
        return given

    def _drawn_mask(self, random: np.random.Generator) -> np.ndarray:
        shape = self.shape(self.mask)
        # Of a mask with dims that scores lack, each element must be true for a key to be seen.
        seen = random.random(shape) < (0.7 if {*self.mask} <= {*"".join(self.groups)} else 0.97)
        if self.hidden:
            rows = tuple(slice(0, 1) if dim not in "kl" else slice(None) for dim in self.mask)
            seen[rows] = False
        if self.mask_kind in ("i1", "packed"):
            return seen
        if self.mask_kind.startswith("i"):
            # The lowest bit says it.
            return (seen + 2 * random.integers(0, 3, shape)).astype(KINDS[self.mask_kind])
        low = LOWEST if self.hidden == "lowest" else -np.inf
        bias = np.where(seen, random.standard_normal(shape), low)
        return bias.astype(KINDS[self.mask_kind])

    def wanted(self) -> list[np.ndarray]:
        """The results, in float64, of the inputs as the module gets them."""
        q, k, v, *rest = (np.asarray(array, np.float64) for array in self.inputs())
        rows, keys = self.groups
        dims = rows + keys
        scores = _einsum([(q, self.q), (k, self.k)], dims, self.shape(dims)) * SCALE
        if self.mask:
            scores = scores + self._bias(dims)
            rest = rest[1:]
        axes = tuple(range(len(rows), len(dims)))
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.online:
                return self._online(scores, v, rest)
            top = scores.max(axis=axes, keepdims=True, initial=-np.inf)
            weights = np.exp(scores - np.where(top == -np.inf, 0, top))
            total = weights.sum(axis=axes, keepdims=True)
            shares = np.where(total == 0, 0, weights / total)
        return [_einsum([(shares, dims), (v, self.v)], self.out, self.shape(self.out))]

    def _bias(self, dims: str) -> np.ndarray:
        mask = self.inputs()[3]
        if self.mask_kind.startswith(("i", "packed")):
            bias = np.where(mask.astype(int) & 1, 0, -np.inf)
        else:
            bias = np.asarray(mask, np.float64)
        extra = tuple(at for at, dim in enumerate(self.mask) if dim not in dims)
        bias = bias.sum(axis=extra)
        return _along(bias, "".join(dim for dim in self.mask if dim in dims), dims)

    def _online(
        self, scores: np.ndarray, value: np.ndarray, state: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        dims = "".join(self.groups)
        output, top, total = state
        scores = np.where(scores == -np.inf, scores, np.maximum(scores * np.log2(np.e), -1.5e38))
        axes = tuple(at for at, dim in enumerate(dims) if dim not in self.maxima)
        left = "".join(dim for dim in dims if dim in self.maxima)
        largest = np.maximum(_along(scores.max(axis=axes, initial=-np.inf), left, self.maxima), top)
        weights = np.exp2(scores - _along(largest, self.maxima, dims))
        factor = np.exp2(top - largest)
        sums = _einsum([(weights, dims)], self.sums, self.shape(self.sums))
        made = _einsum([(weights, dims), (value, self.v)], self.out, self.shape(self.out))
        return [
            made + output * _along(factor, self.maxima, self.out),
            largest,
            sums + total * _along(factor, self.maxima, self.sums),
        ]

    def _type(self, dims: str, kind: str) -> str:
        sizes = [
            "?" if dim in self.dynamic else str(size)
            for dim, size in zip(dims, self.shape(dims), strict=True)
        ]
        packed = kind == "packed"
        kind = "i1, #iree_encoding.packed_storage" if packed else kind
        return f"tensor<{'x'.join([*sizes, kind])}>"

    def text(self, name: str) -> str:
        """A function that takes `arguments` and returns all results."""
        used = "".join(letter for letter in LETTERS if any(letter in d for d in self.dims))
        kinds = [*self.kinds[:3], *([self.mask_kind] if self.mask else []), self.kinds[3]]
        types = [
            self._type(dims, kind)
            for dims, kind in zip(self.dims, [*kinds, "f32", "f32"], strict=False)
        ]
        inputs = len(types) - 1 - len(self.states)
        maps = [f"({', '.join(dims)})" for dims in self.dims]
        maps.insert(3, "()")
        shown = ", ".join(f"affine_map<({', '.join(used)}) -> {each}>" for each in maps)
        names = [f"%a{at}" for at in range(len(types))]
        taken = list(zip(names, types, strict=True))[: len(types) if self.online else inputs]
        lines, passed = self._prologue(taken, types[inputs])
        names = [passed.get(each, each) for each in names]
        if not self.online:
            names[inputs] = "%empty"
        ins = [*names[:3], "%scale", *names[3:inputs]]
        in_types = [*types[:3], self.scale_kind, *types[3:inputs]]
        results = ", ".join(types[inputs:])
        op = "online_attention" if self.online else "attention"
        count, returned = (":3", "%r#0, %r#1, %r#2") if self.online else ("", "%r")
        arguments = ", ".join(f"{each}: {self._passed(kind)}" for each, kind in taken)
        return f"""
func.func @{name}({arguments}) -> ({results}) {{
  {lines}
  %scale = arith.constant {SCALE} : {self.scale_kind}
  %r{count} = iree_linalg_ext.{op} <indexing_maps = [{shown}]>
      ins({", ".join(ins)} : {", ".join(in_types)})
      outs({", ".join(names[inputs:])} : {results}) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> {results}
  return {returned} : {results}
}}
"""

    def _passed(self, kind: str) -> str:
        """The type that comes in for an operand of type `kind`: bytes for a packed mask."""
        if "packed" not in kind:
            return kind
        return f"tensor<{-(-int(np.prod(self.shape(self.mask))) // 8)}xi8>"

    def _prologue(
        self, taken: Sequence[tuple[str, str]], result: str
    ) -> tuple[str, dict[str, str]]:
        """The empty result and the packed mask, and the names of what stands for arguments."""
        lines, passed, sizes = [], {}, {}
        for (name, kind), dims in zip(taken, self.dims, strict=False):
            if "packed" in kind:
                passed[name] = "%packed"
                known = ", ".join(sizes[dim] for dim in dims if dim in self.dynamic)
                lines.append(
                    f"%packed = flow.tensor.bitcast {name} : {self._passed(kind)} -> {kind}"
                    + (f"{{{known}}}" if known else "")
                )
                continue
            for at, dim in enumerate(dims):
                if dim in self.dynamic and dim not in sizes:
                    sizes[dim] = f"%size_{dim}"
                    lines.append(f"%at_{dim} = arith.constant {at} : index")
                    lines.append(f"{sizes[dim]} = tensor.dim {name}, %at_{dim} : {kind}")
        known = ", ".join(sizes[dim] for dim in self.out if dim in self.dynamic)
        return "\n  ".join([*lines, f"%empty = tensor.empty({known}) : {result}"]), passed

    def arguments(self) -> list[np.ndarray]:
        """The inputs as the module takes them."""
        given = self.inputs()
        if self.packed:
            bits = given[3].reshape(-1)
            given[3] = np.packbits(bits, bitorder="little").view(np.int8)
        return given


def _along(array: np.ndarray, dims: str, wanted: str) -> np.ndarray:
    """`array` with its dims in the order of `wanted`, and of size one where it lacks them."""
    assert set(dims) <= set(wanted), (dims, wanted)
    array = np.einsum(f"{dims}->{''.join(dim for dim in wanted if dim in dims)}", array)
    return np.expand_dims(array, [at for at, dim in enumerate(wanted) if dim not in dims])


def _einsum(
    factors: Sequence[tuple[np.ndarray, str]], dims: str, shape: Sequence[int]
) -> np.ndarray:
    """The product of arrays, summed over what `dims` lack and spread over what they lack."""
    known = {dim for _, each in factors for dim in each}
    kept = "".join(dim for dim in dims if dim in known)
    found = np.einsum(f"{','.join(each for _, each in factors)}->{kept}", *(a for a, _ in factors))
    return np.broadcast_to(_along(found, kept, dims), shape)
