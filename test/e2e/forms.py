"""Attention in many forms as MLIR text: orders of dims, masks, types, sizes known or not.

A form says one value of each of `FACTORS`; `pairwise` picks forms so that any two values of two
factors meet, `product` gives all of them. Inputs and the answer in float64 come from a seed.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

# Dims: h heads, m rows, n V's head, d Q's and K's head, k keys. The order of loops, then those of
# Q, K, V and the result.
LAYOUTS = {
    "usual": ("hmndk", "hmd", "hkd", "hkn", "hmn"),
    "loops": ("kdnmh", "hmd", "hkd", "hkn", "hmn"),
    "heads_last": ("hmndk", "mhd", "khd", "khn", "mhn"),
    "transposed": ("mhdkn", "hdm", "hdk", "hnk", "hmn"),
    "result": ("hmndk", "hmd", "hkd", "hkn", "hnm"),
    "scrambled": ("dnkhm", "dmh", "kdh", "nhk", "nmh"),
}
PACKED = "packed"
MASKS = ("", "i1", PACKED, "i8", "f16", "bf16", "f32")
MASK_DIMS = {"row": "hmk", "key": "k", "transposed": "km", "broadcast": "mk"}
TYPES = ("f32", "f16", "bf16")
DYNAMIC = ("", "k", "mk")
OPS = ("attention", "online_attention")
# Rows, keys, head dims of Q and V: each family of configurations has its own.
CPU_FAMILIES = {
    "few_rows": (4, 44, 32, 32),
    "many_rows": (40, 50, 32, 48),
    "one_row": (1, 70, 48, 16),
    "wide": (9, 36, 160, 40),
}
GPU_FAMILIES = {
    "prefill": (64, 64, 64, 64),
    "padded": (33, 70, 40, 40),
    "narrow": (80, 32, 32, 64),
    "grouped": (4, 128, 64, 64),
    "one_row": (1, 256, 64, 64),
    "wide": (20, 32, 192, 128),
}
# Relative L2 distance to float64.
CPU_TOLERANCE = {"f32": 2e-5, "f16": 5e-3, "bf16": 2e-2}
GPU_TOLERANCE = CPU_TOLERANCE | {"f32": 3e-4}
HEADS = 2
SCALE = 0.25
_NUMPY = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}


@dataclass(frozen=True)
class Form:
    """One form; the values are those of the tables above, `sizes` rows, keys and head dims. A
    layout can be orders of dims as well: `hmndk,hmd,hkd,hkn,hmn`."""

    layout: str
    mask: str
    masked: str
    kind: str
    dynamic: str
    op: str
    family: str
    sizes: tuple[int, int, int, int]

    @property
    def name(self) -> str:
        words = [
            self.family,
            self.layout.replace(",", "_"),
            self.kind,
            self.op.removesuffix("_attention"),
        ]
        words += [self.mask, self.masked] if self.mask else []
        words += [f"dynamic_{self.dynamic}"] if self.dynamic else []
        return "_".join(words)

    @property
    def orders(self) -> Sequence[str]:
        """The order of loops, then those of Q, K, V and the result."""
        return LAYOUTS.get(self.layout) or self.layout.split(",")

    @property
    def extents(self) -> dict[str, int]:
        rows, keys, head, width = self.sizes
        return {"h": HEADS, "m": rows, "n": width, "d": head, "k": keys}

    @property
    def mask_dims(self) -> str:
        return MASK_DIMS[self.masked]

    def shape(self, dims: str) -> tuple[int, ...]:
        return tuple(self.extents[dim] for dim in dims)

    def tensor(self, dims: str, kind: str, encoding: str = "") -> str:
        sizes = ["?" if dim in self.dynamic else str(self.extents[dim]) for dim in dims]
        return f"tensor<{'x'.join([*sizes, kind])}{encoding}>"

    def inputs(self) -> list[np.ndarray]:
        draw = np.random.default_rng(zlib.crc32(self.name.encode()))
        _, *orders, _ = self.orders
        arrays = [
            draw.standard_normal(self.shape(dims)).astype(_NUMPY[self.kind]) for dims in orders
        ]
        if not self.mask:
            return arrays
        shape = self.shape(self.mask_dims)
        seen = draw.random(shape) < 0.7
        # Each row sees a key.
        seen[tuple(0 if dim == "k" else slice(None) for dim in self.mask_dims)] = True
        return [*arrays, self._mask(seen, draw)]

    def _mask(self, seen: np.ndarray, draw: np.random.Generator) -> np.ndarray:
        if self.mask == "i1":
            return seen
        if self.mask == PACKED:
            return np.packbits(seen, bitorder="little").view(np.int8)
        if self.mask == "i8":
            # The lowest bit says it.
            return (seen + 2 * draw.integers(-60, 60, seen.shape)).astype(np.int8)
        added = draw.standard_normal(seen.shape)
        return np.where(seen, added, -np.inf).astype(_NUMPY[self.mask])

    def wanted(self) -> np.ndarray:
        """The result in float64, in the result's order."""
        _, q, k, v, out = self.orders
        given = self.inputs()
        query, key, value = (array.astype(np.float64) for array in given[:3])
        scores = np.einsum(f"{q},{k}->hmk", query, key) * SCALE
        if self.mask:
            scores = scores + self._added(given[3])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return np.einsum(f"hmk,{v}->{out}", weights, value)

    def _added(self, mask: np.ndarray) -> np.ndarray:
        """What a mask adds to scores, of shape (h, m, k) or one that broadcasts to it."""
        shape = self.shape(self.mask_dims)
        if self.mask == PACKED:
            bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
            mask = bits[: int(np.prod(shape))].reshape(shape)
        if self.mask in ("i1", "i8", PACKED):
            added = np.where(mask.astype(np.int64) & 1, 0, -np.inf)
        else:
            added = mask.astype(np.float64)
        dims = [dim for dim in "hmk" if dim in self.mask_dims]
        added = np.einsum(f"{self.mask_dims}->{''.join(dims)}", added)
        return added.reshape([self.extents[dim] if dim in dims else 1 for dim in "hmk"])

    def result(self, returned: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        """The result of what the function returns."""
        if self.op == "attention":
            return np.asarray(returned[0] if isinstance(returned, list) else returned)
        out, _, total = (np.asarray(array, np.float64) for array in returned)
        axis = self.orders[-1].index("n")
        return out / np.expand_dims(total, axis)

    def error(self, returned: np.ndarray | Sequence[np.ndarray]) -> float:
        """Relative L2 distance to the float64 answer; infinite where a number is missing."""
        got, wanted = self.result(returned).astype(np.float64), self.wanted()
        if got.shape != wanted.shape or not np.isfinite(got).all():
            return float("inf")
        return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))

    def text(self, name: str) -> str:
        """A function of this form."""
        loops, q, k, v, out = self.orders
        online = self.op != "attention"
        kind = "f32" if online else self.kind
        row = out.replace("n", "")
        operands = [("q", q, self.kind), ("k", k, self.kind), ("v", v, self.kind)]
        arguments = [f"%{name}: {self.tensor(dims, kind)}" for name, dims, kind in operands]
        types = [self.tensor(dims, kind) for _, dims, kind in operands]
        lines = [*self._extents(types)]
        values, maps = ["%q", "%k", "%v", "%scale"], [q, k, v, ""]
        types.append(self.kind)
        if self.mask:
            argument, line, mask = self._mask_text()
            arguments.append(argument)
            lines += line
            values.append("%mask")
            types.append(mask)
            maps.append(self.mask_dims)
        results = [self.tensor(out, kind)] + [self.tensor(row, "f32")] * (2 * online)
        maps += [out, row, row] if online else [out]
        shown = ", ".join(f"affine_map<({', '.join(loops)}) -> ({', '.join(m)})>" for m in maps)
        unknown = [", ".join(f"%n{x}" for x in dims if x in self.dynamic) for dims in (out, row)]
        fills = [("out", 0, "0.0"), ("low", 1, "-3.0e38"), ("none", 1, "0.0")][: len(results)]
        for (fill, which, number), result in zip(fills, results, strict=True):
            start = "%" + fill
            lines.append(f"{start}_e = tensor.empty({unknown[which]}) : {result}")
            if online:
                lines.append(f"{start}_x = arith.constant {number} : f32")
                lines.append(
                    f"{start} = linalg.fill ins({start}_x : f32) outs({start}_e : {result}) "
                    f"-> {result}"
                )
        starts = ", ".join(f"%{fill}" if online else f"%{fill}_e" for fill, *_ in fills)
        body = "\n  ".join(lines)
        given = ", ".join(f"%r#{i}" for i in range(3)) if online else "%r"
        return f"""
func.func @{name}({", ".join(arguments)}) -> ({", ".join(results)}) {{
  %scale = arith.constant {SCALE} : {self.kind}
  {body}
  %r{":3" if online else ""} = iree_linalg_ext.{self.op} <indexing_maps = [{shown}]>
      ins({", ".join(values)} : {", ".join(types)}) outs({starts} : {", ".join(results)}) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> {", ".join(results)}
  return {given} : {", ".join(results)}
}}
"""

    def _extents(self, types: Sequence[str]) -> Iterator[str]:
        """Lines that give the sizes known only at run time names."""
        _, q, k, *_ = self.orders
        for dim in self.dynamic:
            name, dims, kind = ("q", q, types[0]) if dim in q else ("k", k, types[1])
            yield f"%c{dim} = arith.constant {dims.index(dim)} : index"
            yield f"%n{dim} = tensor.dim %{name}, %c{dim} : {kind}"

    def _mask_text(self) -> tuple[str, list[str], str]:
        """The argument for the mask, the lines that make %mask of it, and its type."""
        if self.mask != PACKED:
            kind = self.tensor(self.mask_dims, self.mask)
            return f"%mask: {kind}", [], kind
        kind = self.tensor(self.mask_dims, "i1", ", #iree_encoding.packed_storage")
        unknown = [f"%n{dim}" for dim in self.mask_dims if dim in self.dynamic]
        count = -(-int(np.prod(self.shape(self.mask_dims))) // 8)
        given = f"tensor<{'?' if unknown else count}xi8>"
        lines = ["%c0 = arith.constant 0 : index", f"%bytes = tensor.dim %given, %c0 : {given}"]
        sizes = f"{{{', '.join(unknown)}}}" if unknown else ""
        cast = f"{given}{{%bytes}}" if unknown else given
        lines.append(f"%mask = flow.tensor.bitcast %given : {cast} -> {kind}{sizes}")
        return f"%given: {given}", lines, kind


def factors(families: Mapping[str, tuple[int, int, int, int]]) -> dict[str, Sequence[str]]:
    """The values of each factor of a form."""
    return {
        "layout": list(LAYOUTS),
        "mask": MASKS,
        "masked": list(MASK_DIMS),
        "kind": TYPES,
        "dynamic": DYNAMIC,
        "op": OPS,
        "family": list(families),
    }


def product(families: Mapping[str, tuple[int, int, int, int]]) -> list[Form]:
    """All forms, each once."""
    values = factors(families)
    forms = (_form(values, found, families) for found in itertools.product(*values.values()))
    return list({form.name: form for form in forms}.values())


# Factors of which no code reads two at once: a mask's type, and where it stands in what loops.
APART = {("layout", "mask"), ("mask", "family")}


def pairwise(
    families: Mapping[str, tuple[int, int, int, int]],
    seed: int = 0,
    apart: Collection[tuple[str, str]] = (),
) -> list[Form]:
    """Forms in which any two values of two factors that are not `apart` meet, few of them."""
    values, draw = factors(families), random.Random(seed)
    names = list(values)
    missing = {
        ((a, x), (b, y))
        for a, b in itertools.combinations(names, 2)
        if (a, b) not in apart
        for x in values[a]
        for y in values[b]
    }
    found: list[Form] = []
    while missing:
        # Forms that hold a pair that is missing, and else are drawn: the best of some.
        best: dict[str, str] = {}
        most = -1
        for pair in draw.sample(sorted(missing), min(8, len(missing))):
            for _ in range(12):
                picked = {name: draw.choice(list(values[name])) for name in names} | dict(pair)
                count = len(_pairs(picked) & missing)
                if count > most:
                    best, most = picked, count
        missing -= _pairs(best)
        found.append(_form(values, tuple(best[name] for name in names), families))
    return list({form.name: form for form in found}.values())


def _pairs(picked: Mapping[str, str]) -> set[tuple[tuple[str, str], tuple[str, str]]]:
    return set(itertools.combinations(picked.items(), 2))


def _form(
    values: Mapping[str, Sequence[str]],
    found: Sequence[str],
    families: Mapping[str, tuple[int, int, int, int]],
) -> Form:
    picked = dict(zip(values, found, strict=True))
    form = Form(**picked, sizes=families[picked["family"]])  # pyright: ignore[reportArgumentType]
    # Without a mask, its dims say nothing.
    return form if form.mask else dataclasses.replace(form, masked="row")
