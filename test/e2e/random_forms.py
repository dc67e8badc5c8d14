"""Random attention in any form: dims in any order and number, of any types and masks, with static
and dynamic sizes; operands that are views, products, casts, caches and states.

A dim is named by its role and a number: b0, m0, k0 (k1 of the op), j0 (its k2), n0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from random_modules import NUMBERS, Choices, Function, Value, _type

Names = Sequence[str]

FLOATS = ("f32", "f16", "bf16")
LOWEST = {"f32": -3.4028235e38, "f16": -65504.0, "bf16": -3.3895314e38}
# Sizes by role: those that most have, and those of few.
SIZES = {
    "b": ([1, 1, 2, 2, 3, 4], [5, 7]),
    "m": ([1, 1, 2, 3, 4, 5, 8, 16], [17, 33, 48]),
    "k": ([4, 8, 8, 16, 16, 32], [1, 3, 5, 40, 64, 72]),
    "j": ([2, 3, 4, 6, 8, 8, 16, 24], [1, 5, 33, 36, 64, 100]),
    "n": ([4, 8, 8, 16, 16, 32], [1, 3, 5, 40, 64, 72]),
}
# What GPU kernels and tiles are made for.
GPU_SIZES = {
    "b": ([1, 1, 2, 2, 3, 4], [8]),
    "m": ([1, 1, 3, 8, 16, 32, 64], [17, 100, 128]),
    "k": ([16, 32, 64, 64, 128], [8, 40, 72, 96]),
    "j": ([8, 16, 32, 64, 128], [5, 33, 100, 192, 318]),
    "n": ([16, 32, 64, 64, 128], [8, 40, 72, 96]),
}
WIDE = (256, 320, 512, 576)
# The most elements of an operand, and products of a score matrix.
MOST_ELEMENTS, MOST_WORK = 40_000, 400_000


class Forms(Function):
    """A function around one attention, or two."""

    def setup(self, for_gpu: bool) -> None:
        """Draws the dims, their sizes and which of them are known at run time alone."""
        c = self.choices
        counts = {
            "b": c.pick([0, 1, 1, 2, 2, 3]),
            "m": c.pick([1] * 6 + [2]),
            "k": c.pick([1] * 8 + [2]),
            "j": c.pick([1] * 5 + [2]),
            "n": c.pick([1] * 12 + [2]),
        }
        self.roles = {role: [f"{role}{i}" for i in range(n)] for role, n in counts.items()}
        self.names = [name for names in self.roles.values() for name in names]
        table = GPU_SIZES if for_gpu else SIZES
        self.size = {name: self._size(table[name[0]], name[1] != "0") for name in self.names}
        if c.chance(6):
            self.size["k0"] = c.pick(WIDE)
            if c.chance(60):
                self.size["n0"] = c.pick([*WIDE, 16])
        while self._work() > MOST_WORK:
            largest = max((n for n in self.names if n[0] in "bmj"), key=self.size.__getitem__)
            self.size[largest] = (self.size[largest] + 1) // 2
        self.unknown: dict[str, str] = {}
        self.divisors: dict[str, int] = {}
        if self.may_be_dynamic:
            self._draw_unknown()
        self.top = c.pick(["f32"] * 5 + ["f16"] * 3 + ["bf16", "f8E4M3FN"])
        mixed = c.chance(15)
        self.kinds = [self._element() if mixed else self.top for _ in range(3)]

    def _size(self, table: tuple[list[int], list[int]], is_second: bool) -> int:
        often, rarely = table
        if is_second:
            return self.choices.pick([1, 2, 2, 3, 4])
        return self.choices.pick(rarely if self.choices.chance(25) else often)

    def _work(self) -> int:
        return math.prod(size for name, size in self.size.items() if name[0] != "n")

    def _draw_unknown(self) -> None:
        c = self.choices
        for name in self.names:
            if c.chance(8 if name[0] in "kn" else 40):
                self.unknown[name] = "?"
        for name in self.unknown:
            if name[0] in "jm" and c.chance(25):
                self.divisors[name] = c.pick([1, 2, 4, 8, 16])
                size, by = self.size[name], self.divisors[name]
                self.size[name] = max(by, size // by * by)
        if "j0" in self.unknown and "j0" not in self.divisors and c.chance(8):
            self.size["j0"] = c.pick([0, 1])

    def _element(self) -> str:
        return self.choices.pick([*FLOATS, "f8E4M3FN"])

    def value(self, names: Names, element: str, name: str = "") -> Value:
        shape = tuple(self.size[n] for n in names)
        return Value(name, shape, tuple(self.unknown.get(n, "") for n in names), element)

    def take(self, names: Names, element: str) -> Value:
        """An argument with these dims; their sizes are read from it."""
        c = self.choices
        given = self.value(names, element, f"%arg{len(self.arguments)}")
        marks = tuple("?" if known else "" for known in given.dynamic)
        given = replace(given, dynamic=marks)
        self.arguments.append(given)
        known = list(marks)
        ties = False
        for dim, dim_name in enumerate(names):
            if not marks[dim]:
                continue
            at, size = self.constant(dim), self.fresh("s")
            self.line(f"{size} = tensor.dim {given.name}, {at} : {given.type}")
            if dim_name in self.divisors and c.chance(70):
                size, ties = self._assumed(size, self.divisors[dim_name]), True
            if self.unknown[dim_name] == "?" or c.chance(40):
                self.unknown[dim_name] = size
            known[dim] = size
            self.sizes[size] = given.shape[dim]
        result = replace(given, dynamic=tuple(known))
        return self._tied(result) if ties and c.chance(60) else result

    def _assumed(self, size: str, divisor: int) -> str:
        name = self.fresh("s")
        self.line(
            f"{name} = util.assume.int {size}<umin = {divisor}, umax = 4096, udiv = {divisor}> "
            ": index"
        )
        return name

    def _tied(self, x: Value) -> Value:
        name = self.fresh()
        sizes = ", ".join(size for size in x.dynamic if size)
        self.line(f"{name} = flow.tensor.tie_shape {x.name} : {x.type}{{{sizes}}}")
        return replace(x, name=name)

    # operands

    def operand(self, names: Names, element: str, depth: int = 0) -> Value:
        """A value with these dims: an argument, or what is made of some."""
        c = self.choices
        if depth > 1 or c.chance(55):
            return self.take(names, element)
        kinds = [self.turned] * 3 + [self.cast_from, self.dequantised, self.summed]
        if not self.unknown:
            kinds += [self.cut_out, self.joined_to, self.split_dim, self.repeated, self.gathered]
            kinds += [self.projected] * 2 + [self.written_into, self.padded, self.unpacked]
        return c.pick(kinds)(list(names), element, depth + 1)

    def turned(self, names: list[str], element: str, depth: int) -> Value:
        order = self.choices.order(len(names))
        inverse = sorted(range(len(order)), key=order.__getitem__)
        return self.transpose(self.operand([names[i] for i in order], element, depth), inverse)

    def cast_from(self, names: list[str], element: str, depth: int) -> Value:
        other = self.choices.pick([kind for kind in ("f32", "f16") if kind != element])
        if element == "f8E4M3FN":
            # Numbers that are rounded at random would differ by more than is wrong.
            return self.take(names, element)
        return self.converted(self.operand(names, other, depth), element)

    def converted(self, x: Value, element: str) -> Value:
        dims = range(len(x.shape))
        body = [*self._cast("%in0", x.element, element, "%t")]
        return self.generic([x], [dims], self.empty(x.shape, x.dynamic, element), dims, body, "%t")

    def _cast(self, name: str, element: str, to: str, result: str) -> list[str]:
        if {element, to} == {"f16", "bf16"}:
            return [
                f"{result}w = arith.extf {name} : {element} to f32",
                f"{result} = arith.truncf {result}w : f32 to {to}",
            ]
        if element == to:
            return [f"{result} = arith.mulf {name}, {name} : {element}"]
        word = "extf" if to == "f32" or element.startswith("f8") else "truncf"
        return [f"{result} = arith.{word} {name} : {element} to {to}"]

    def dequantised(self, names: list[str], element: str, depth: int) -> Value:
        """i8 times a scale for each place of some dims."""
        del depth
        kind = element if element in ("f32", "f16") else "f32"
        narrow = self.take(names, "i8")
        self.fills[self.arguments[-1].name] = lambda rng: rng.integers(-8, 9, narrow.shape, np.int8)
        scaled = [d for d in range(len(names)) if self.choices.chance(40)]
        scale = self.take([names[d] for d in scaled], kind)
        dims = list(range(len(names)))
        number = self.fresh("q")
        self.line(f"{number} = arith.constant 0.25 : {kind}")
        body = [
            f"%f = arith.sitofp %in0 : i8 to {kind}",
            f"%g = arith.mulf %f, {number} : {kind}",
            f"%h = arith.mulf %g, %in1 : {kind}",
        ]
        init = self.empty(narrow.shape, narrow.dynamic, kind)
        x = self.generic([narrow, scale], [dims, scaled], init, dims, body, "%h")
        if kind == element or element == "f8E4M3FN":
            return x if kind == element else self.take(names, element)
        return self.converted(x, element)

    def summed(self, names: list[str], element: str, depth: int) -> Value:
        """A bias along some dims."""
        if element not in FLOATS:
            return self.take(names, element)
        x = self.operand(names, element, depth)
        along = [d for d in range(len(names)) if self.choices.chance(50)]
        bias = self.take([names[d] for d in along], element)
        dims = range(len(names))
        init = self.empty(x.shape, x.dynamic, element)
        body = [f"%t = arith.addf %in0, %in1 : {element}"]
        return self.generic([x, bias], [dims, along], init, dims, body, "%t")

    def sized(self, names: list[str], element: str, dim: int, size: int, depth: int) -> Value:
        """An operand with another size of one dim."""
        extra = f"x{len(self.size)}"
        self.size[extra] = size
        return self.operand([extra if d == dim else n for d, n in enumerate(names)], element, depth)

    def cut_out(self, names: list[str], element: str, depth: int) -> Value:
        c, rank = self.choices, len(names)
        dim, more = c.integer(0, rank - 1), c.pick([1, 2, 4, 8])
        size = self.size[names[dim]]
        x = self.sized(names, element, dim, size + more, depth)
        at = c.integer(0, more)
        return self.slice(x, dim, at, size)

    def slice(self, x: Value, dim: int, at: int, size: int) -> Value:
        rank, shape = len(x.shape), list(x.shape)
        shape[dim] = size
        offsets = ", ".join(str(at) if d == dim else "0" for d in range(rank))
        name, kind = self.fresh(), _type(shape, x.dynamic, x.element)
        self.line(
            f"{name} = tensor.extract_slice {x.name}[{offsets}] "
            f"[{', '.join(map(str, shape))}] [{', '.join(['1'] * rank)}] : {x.type} to {kind}"
        )
        return Value(name, tuple(shape), x.dynamic, x.element)

    def joined_to(self, names: list[str], element: str, depth: int) -> Value:
        """A cache and what is new, along any dim."""
        c = self.choices
        dims = [d for d, n in enumerate(names) if self.size[n] > 1]
        if not dims:
            return self.take(names, element)
        dim = c.pick(dims)
        first = c.integer(1, self.size[names[dim]] - 1)
        sizes = [first, self.size[names[dim]] - first]
        x, y = (self.sized(names, element, dim, size, depth) for size in sizes)
        whole, name = self.value(names, element), self.fresh()
        self.line(
            f"{name} = tensor.concat dim({dim}) {x.name}, {y.name} : "
            f"({x.type}, {y.type}) -> {whole.type}"
        )
        return replace(whole, name=name)

    def split_dim(self, names: list[str], element: str, depth: int) -> Value:
        """Neighbouring dims joined in the argument, or one of them split there."""
        c, rank = self.choices, len(names)
        if rank > 1 and c.chance(60):
            at = c.integer(0, rank - 2)
            extra = f"x{len(self.size)}"
            sizes = [self.size[names[at]], self.size[names[at + 1]]]
            self.size[extra] = math.prod(sizes)
            x = self.operand([*names[:at], extra, *names[at + 2 :]], element, depth)
            return self._expanded(x, at, sizes, ["", ""])
        at = c.integer(0, rank - 1)
        size = self.size[names[at]]
        outer = c.pick([f for f in range(1, size + 1) if size % f == 0])
        extra = [f"x{len(self.size)}", f"x{len(self.size) + 1}"]
        self.size |= {extra[0]: outer, extra[1]: size // outer}
        x = self.operand([*names[:at], *extra, *names[at + 1 :]], element, depth)
        if len(x.shape) > 2:
            return self.collapse(x, at)
        name, kind = self.fresh(), self.value(names, element)
        self.line(f"{name} = tensor.collapse_shape {x.name} [[0, 1]] : {x.type} into {kind.type}")
        return replace(kind, name=name)

    def repeated(self, names: list[str], element: str, depth: int) -> Value:
        """Heads shared by several: the same along one dim, or along a part of one."""
        c = self.choices
        dims = [d for d, n in enumerate(names) if n[0] in "bm"] or [c.integer(0, len(names) - 1)]
        dim = c.pick(dims)
        size = self.size[names[dim]]
        times = size if c.chance(50) else c.pick([f for f in range(1, size + 1) if not size % f])
        lesser = [*names[:dim], *names[dim + 1 :]]
        if times != size:
            extra = f"x{len(self.size)}"
            self.size[extra] = size // times
            lesser = [*names[:dim], extra, *names[dim + 1 :]]
        x = self.operand(lesser, element, depth)
        place = dim + (times != size)
        shape = [*x.shape[:place], times, *x.shape[place:]]
        init = self.empty(shape, [""] * len(shape), element)
        kept = [d for d in range(len(shape)) if d != place]
        y = self.generic([x], [kept], init, range(len(shape)), [], "%in0")
        if times == size:
            return y
        if len(y.shape) == 2:
            return self.take(names, element)
        return self.collapse(y, dim)

    def gathered(self, names: list[str], element: str, depth: int) -> Value:
        """Pages of a dim, found by a table: several pages make the dim."""
        c = self.choices
        dim = c.integer(0, len(names) - 1)
        size = self.size[names[dim]]
        pages = c.pick([f for f in range(1, size + 1) if size % f == 0])
        extra = [f"x{len(self.size)}", f"x{len(self.size) + 1}"]
        held = pages + c.pick([0, 1, 3])
        self.size |= {extra[0]: held, extra[1]: size // pages}
        rest = [*names[:dim], *names[dim + 1 :]]
        pool = self.operand([extra[0], extra[1], *rest], element, depth)
        index = self.take([extra[0]], "i64")
        self.arguments[-1] = index = replace(index, shape=(pages,))
        self.fills[index.name] = lambda rng: rng.permutation(held)[:pages].astype(np.int64)
        init = self.empty((pages, *pool.shape[1:]), [""] * len(pool.shape), element)
        name = self.fresh()
        self.line(
            f"{name} = iree_linalg_ext.gather dimension_map = [0] "
            f"ins({pool.name}, {index.name} : {pool.type}, {index.type}) "
            f"outs({init.name} : {init.type}) -> {init.type}"
        )
        x = replace(init, name=name)
        if not rest:
            kind, name = self.value(names, element), self.fresh()
            self.line(
                f"{name} = tensor.collapse_shape {x.name} [[0, 1]] : {x.type} into {kind.type}"
            )
            return replace(kind, name=name)
        flat = self.collapse(x, 0)
        order = [*range(1, dim + 1), 0, *range(dim + 1, len(names))]
        return flat if not dim else self.transpose(flat, order)

    def projected(self, names: list[str], element: str, depth: int) -> Value:
        """A product that makes one of the dims, and may share others."""
        c = self.choices
        if element not in FLOATS:
            return self.take(names, element)
        made = c.integer(0, len(names) - 1)
        shared = [n for d, n in enumerate(names) if d != made and c.chance(15)]
        inner = f"x{len(self.size)}"
        self.size[inner] = c.pick([4, 8, 16])
        left = [inner if d == made else n for d, n in enumerate(names)]
        if c.chance(30):
            left = self._shuffled(left)
        right = self._shuffled([names[made], inner, *shared])
        x, w = self.operand(left, element, depth), self.take(right, element)
        number = {n: i for i, n in enumerate([*names, inner])}
        pair = [(x, [number[n] for n in left]), (w, [number[n] for n in right])]
        if c.chance(40):
            pair.reverse()
        init = self.filled([self.size[n] for n in names], [""] * len(names), element)
        values, maps = [v for v, _ in pair], [m for _, m in pair]
        outs = list(range(len(names)))
        if c.chance(40):
            y = self._contract(values, maps, outs, init)
        else:
            body = [
                f"%p = arith.mulf %in0, %in1 : {element}",
                f"%t = arith.addf %out, %p : {element}",
            ]
            y = self.generic(values, maps, init, outs, body, "%t")
        return y

    def written_into(self, names: list[str], element: str, depth: int) -> Value:
        """A slice written into a cache."""
        c, rank = self.choices, len(names)
        dim = c.integer(0, rank - 1)
        size = self.size[names[dim]]
        part = c.integer(1, size)
        x = self.sized(names, element, dim, part, depth)
        cache, name = self.take(names, element), self.fresh()
        offsets = ", ".join(
            str(c.integer(0, size - part)) if d == dim else "0" for d in range(rank)
        )
        self.line(
            f"{name} = tensor.insert_slice {x.name} into {cache.name}[{offsets}] "
            f"[{', '.join(map(str, x.shape))}] [{', '.join(['1'] * rank)}] : "
            f"{x.type} into {cache.type}"
        )
        return replace(cache, name=name)

    def padded(self, names: list[str], element: str, depth: int) -> Value:
        """A dim padded by a number."""
        c, rank = self.choices, len(names)
        dims = [d for d, n in enumerate(names) if self.size[n] > 1]
        if not dims:
            return self.take(names, element)
        dim = c.pick(dims)
        more = c.integer(1, min(4, self.size[names[dim]] - 1))
        x = self.sized(names, element, dim, self.size[names[dim]] - more, depth)
        low = c.integer(0, more)
        lows, highs = (
            ", ".join(str(n) if d == dim else "0" for d in range(rank)) for n in (low, more - low)
        )
        whole, name, number = self.value(names, element), self.fresh(), self.fresh("z")
        places = ", ".join(f"%p{d}: index" for d in range(rank))
        self.line(f"{number} = arith.constant 0.0 : {element}")
        self.line(f"{name} = tensor.pad {x.name} low[{lows}] high[{highs}] {{")
        self.line(f"^bb0({places}):")
        self.line(f"  tensor.yield {number} : {element}")
        self.line(f"}} : {x.type} to {whole.type}")
        return replace(whole, name=name)

    def unpacked(self, names: list[str], element: str, depth: int) -> Value:
        """One of the slices of a packed tensor, of size one and dropped."""
        count = f"x{len(self.size)}"
        self.size[count] = self.choices.pick([2, 3])
        at = self.choices.integer(0, len(names))
        x = self.operand([*names[:at], count, *names[at:]], element, depth)
        number = self.choices.integer(0, self.size[count] - 1)
        whole, name, rank = self.value(names, element), self.fresh(), len(x.shape)
        offsets = ", ".join(str(number) if d == at else "0" for d in range(rank))
        sizes = ", ".join("1" if d == at else str(s) for d, s in enumerate(x.shape))
        self.line(
            f"{name} = tensor.extract_slice {x.name}[{offsets}] [{sizes}] "
            f"[{', '.join(['1'] * rank)}] : {x.type} to {whole.type}"
        )
        return replace(whole, name=name)

    # masks

    def mask(self, online: bool) -> tuple[list[str], Value] | None:
        """The dims and the value of a mask, of any type, or none."""
        c = self.choices
        if c.chance(45) or (c.chance(50) and self.unknown):
            return None
        rows, keys = self.roles["b"] + self.roles["m"], self.roles["j"]
        names = c.pick([rows, self.roles["m"], self.roles["b"], [], rows])
        names = [n for n in names if c.chance(85)] + keys
        names = self._shuffled(names)
        kind = c.pick(["i1", "i1", "i8", "packed", "float", "float", "computed"])
        hides_rows = not online and c.chance(35)
        if kind == "computed":
            return names, self._computed_mask(names)
        if kind == "packed" and not self.unknown:
            return names, self._packed_mask(names, hides_rows)
        if kind == "float":
            return names, self._float_mask(names, hides_rows)
        value = self.take(names, "i1" if kind == "packed" else kind)
        self._seen(self.arguments[-1], names, hides_rows)
        return names, self._viewed(value, names)

    def _viewed(self, mask: Value, names: list[str]) -> Value:
        """The mask, at times behind two transposes."""
        if not self.choices.chance(20) or len(names) < 2:
            return mask
        order = self.choices.order(len(names))
        inverse = sorted(range(len(order)), key=order.__getitem__)
        return self.transpose(self.transpose(mask, order), inverse)

    def _visible(self, rng: np.random.Generator, names: list[str], hides_rows: bool) -> np.ndarray:
        """Which keys are seen: at least one of each row, unless some rows are to see none."""
        shape = [self.size[n] for n in names]
        seen = rng.random(shape) < 0.7
        keys = tuple(d for d, n in enumerate(names) if n[0] == "j")
        if 0 in shape:
            return seen
        empty = ~seen.any(axis=keys, keepdims=True)
        first = np.zeros(shape, bool)
        first[tuple(0 if d in keys else slice(None) for d in range(len(names)))] = True
        seen |= empty & first
        if hides_rows:
            hidden = rng.random(empty.shape) < 0.3
            seen &= ~hidden
        return seen

    def _seen(self, argument: Value, names: list[str], hides_rows: bool) -> None:
        number = NUMBERS[argument.element]
        self.fills[argument.name] = lambda rng: self._visible(rng, names, hides_rows).astype(number)

    def _packed_mask(self, names: list[str], hides_rows: bool) -> Value:
        shape = [self.size[n] for n in names]
        count = (math.prod(shape) + 7) // 8
        self.size[bytes_ := f"x{len(self.size)}"] = count
        given = self.take([bytes_], "i8")
        self.fills[given.name] = lambda rng: np.packbits(
            self._visible(rng, names, hides_rows).reshape(-1), bitorder="little"
        ).view(np.int8)
        if math.prod(shape) % 8:
            # Whole bytes alone can be cast.
            self.arguments.pop()
            del self.fills[given.name]
            value = self.take(names, "i1")
            self._seen(self.arguments[-1], names, hides_rows)
            return value
        kind = _type(shape, [""] * len(shape), "i1").removesuffix(">")
        name = self.fresh()
        packed = f"{kind}, #iree_encoding.packed_storage>"
        self.line(f"{name} = flow.tensor.bitcast {given.name} : {given.type} -> {packed}")
        return _Packed(name, tuple(shape), ("",) * len(shape), "i1")

    def _float_mask(self, names: list[str], hides_rows: bool) -> Value:
        c = self.choices
        element = c.pick([self.kinds[0] if self.kinds[0] in FLOATS else "f32", "f32", "f16"])
        low = c.pick(["bias", "-inf", "lowest", "-1e4", "-1e30"])
        number = {
            "bias": 0.0,
            "-inf": -math.inf,
            "lowest": LOWEST[element],
            "-1e4": -1e4,
            "-1e30": -1e30 if element != "f16" else LOWEST["f16"],
        }[low]
        value = self.take(names, element)
        # A row hidden by a number that scores add to is their difference: beyond f32.
        hides_rows = hides_rows and (number < -1e29)

        def fill(rng: np.random.Generator) -> np.ndarray:
            bias = rng.standard_normal(value.shape)
            if low == "bias":
                return bias.astype(NUMBERS[element])
            seen = self._visible(rng, names, hides_rows)
            return np.where(seen, 0.0, number).astype(NUMBERS[element])

        self.fills[self.arguments[-1].name] = fill
        return self._viewed(value, names)

    def _computed_mask(self, names: list[str]) -> Value:
        """Keys up to a row's own place, or up to a length for each place of another dim."""
        c = self.choices
        element = c.pick(["i1", "f32", "i1"])
        init = self.empty([self.size[n] for n in names], self._known(names), element)
        dims = range(len(names))
        key = next(d for d, n in enumerate(names) if n[0] == "j")
        others = [d for d, n in enumerate(names) if n[0] != "j"]
        inputs, maps, body = [], [], [f"%j = linalg.index {key} : index"]
        if others and c.chance(50):
            body += [
                f"%i = linalg.index {c.pick(others)} : index",
                "%seen = arith.cmpi sge, %i, %j : index",
            ]
        else:
            along = c.pick(others) if others else None
            lengths = self.take([names[along]] if along is not None else [], "i64")
            most, least = self.size[names[key]], 0 if c.chance(30) else 1
            least = min(least, most)
            self.fills[lengths.name] = lambda rng: rng.integers(least, most + 1, lengths.shape)
            inputs, maps = [lengths], [[along] if along is not None else []]
            body += [
                "%l = arith.index_cast %in0 : i64 to index",
                "%seen = arith.cmpi ult, %j, %l : index",
            ]
        if element == "i1":
            return self.generic(inputs, maps, init, dims, body, "%seen")
        body += [
            "%zero = arith.constant 0.0 : f32",
            f"%low = arith.constant {c.pick(['0xFF800000', '-3.4028235e+38'])} : f32",
            "%m = arith.select %seen, %zero, %low : f32",
        ]
        return self.generic(inputs, maps, init, dims, body, "%m")

    def _known(self, names: Names) -> list[str]:
        """The SSA sizes of dims, read from an argument where none has told them yet."""
        for name in names:
            if self.unknown.get(name) == "?":
                self.take([name], "f32")
        return [self.unknown.get(name, "") for name in names]

    # attention

    def attend(self, *_: Any) -> None:
        """The attention, and what reads its result."""
        c = self.choices
        online = c.chance(12)
        batch, m, k, j, n = (self.roles[role] for role in "bmkjn")
        maps = [
            self._shuffled([*batch, *m, *k]),
            self._shuffled([*batch, *j, *k]),
            self._shuffled([*batch, *j, *n]),
        ]
        values = self._operands(maps)
        found = self.mask(online)
        loops = [*batch, *m, *n, *k, *j] if c.chance(50) else list(self.names)
        loops = loops if c.chance(50) else [loops[i] for i in c.order(len(loops))]
        outs_map = self._shuffled([*batch, *m, *n])
        element = self.top if self.top != "f8E4M3FN" and c.chance(70) else "f32"
        scale, kind = self.fresh("scale"), c.pick(["f32", self.kinds[0]])
        kind = "f32" if kind == "f8E4M3FN" else kind
        number = c.pick([1 / math.sqrt(self.size["k0"] or 1), 0.25, 0.125])
        self.line(f"{scale} = arith.constant {number:.6e} : {kind}")
        ins = [(v.name, v.type) for v in values] + [(scale, kind)]
        all_maps: list[Names] = [*maps, []]
        if found:
            all_maps.append(found[0])
            ins.append((found[1].name, found[1].type))
        shape, known = [self.size[x] for x in outs_map], self._known(outs_map)
        if online:
            rows = [x for x in outs_map if x[0] != "n"]
            start = self.filled(shape, known, "f32")
            sizes = [self.size[x] for x in rows]
            top = self._constant(sizes, self._known(rows), -3.0e38)
            outs = [start, top, self.filled(sizes, self._known(rows), "f32")]
            all_maps += [outs_map, rows, rows]
        else:
            outs = [self.empty(shape, known, element)]
            all_maps.append(outs_map)
        region = self._region(loops)
        results = self.attention_op(loops, all_maps, ins, outs, region)
        self.returned = results if online else [self._behind(results[0], outs_map)]

    def _operands(self, maps: list[list[str]]) -> list[Value]:
        """Query, key and value; at times V is K, or both are parts of one."""
        c = self.choices
        q = self.operand(maps[0], self.kinds[0])
        same = sorted(self.size[x] for x in self.roles["k"]) == sorted(
            self.size[x] for x in self.roles["n"]
        )
        if len(self.roles["k"]) == 1 and same and c.chance(8) and "k0" not in self.unknown:
            self.unknown.pop("n0", None)
            self.kinds[2] = self.kinds[1]
            k = self.operand(maps[1], self.kinds[1])
            maps[2][:] = [x.replace("k", "n") for x in maps[1]]
            return [q, k, k]
        k = self.operand(maps[1], self.kinds[1])
        return [q, k, self.operand(maps[2], self.kinds[2])]

    def _constant(self, shape: Sequence[int], known: Sequence[str], number: float) -> Value:
        init, name, low = self.empty(shape, known, "f32"), self.fresh("f"), self.fresh("z")
        self.line(f"{low} = arith.constant {number:.6e} : f32")
        self.line(
            f"{name} = linalg.fill ins({low} : f32) outs({init.name} : {init.type}) -> {init.type}"
        )
        return replace(init, name=name)

    def _region(self, loops: Names) -> list[str]:
        """A score function: of the score, or of where it stands."""
        c = self.choices
        kind = c.pick(["", "", "", "", "scale", "cap", "bias", "slope", "causal", "cap causal"])
        places = {name: loops.index(name) for name in loops}
        row, key = c.pick(self.roles["m"]), c.pick(self.roles["j"])
        score, lines = "%score", []
        if kind == "scale":
            return ["%h = arith.constant 0.5 : f32", "%mod = arith.mulf %score, %h : f32"]
        if kind == "bias":
            return ["%h = arith.constant 1.5 : f32", "%mod = arith.addf %score, %h : f32"]
        if kind.startswith("cap"):
            lines = [
                "%cap = arith.constant 2.0 : f32",
                "%x = arith.divf %score, %cap : f32",
                "%t = math.tanh %x : f32",
                f"{'%mod' if kind == 'cap' else '%capped'} = arith.mulf %t, %cap : f32",
            ]
            score = "%capped"
        if kind in ("slope", "causal", "cap causal"):
            lines += [
                f"%i = iree_linalg_ext.index {places[row]} : index",
                f"%j = iree_linalg_ext.index {places[key]} : index",
            ]
        if kind == "slope":
            lines += [
                "%d = arith.subi %j, %i : index",
                "%e = arith.index_cast %d : index to i32",
                "%f = arith.sitofp %e : i32 to f32",
                "%s = arith.constant 0.0625 : f32",
                "%g = arith.mulf %f, %s : f32",
                "%mod = arith.addf %score, %g : f32",
            ]
        if kind.endswith("causal"):
            lines += [
                "%seen = arith.cmpi sge, %i, %j : index",
                f"%low = arith.constant {c.pick(['0xFF800000', '-3.4028235e+38'])} : f32",
                f"%mod = arith.select %seen, {score}, %low : f32",
            ]
        return lines

    def _behind(self, x: Value, names: list[str]) -> Value:
        """What reads the result: a transpose, heads joined, a product, a sum with it."""
        c = self.choices
        if c.chance(50):
            return x
        for _ in range(c.pick([1, 1, 2])):
            kinds = (
                [self.transpose, self.whole]
                if self.unknown
                else [
                    self.transpose,
                    self.collapse,
                    self.project,
                    self.whole,
                    self.elementwise,
                ]
            )
            step = c.pick(kinds)
            if x.element != "f32" and step in (self.project, self.elementwise):
                step = self.transpose
            x = step(x)
        return x


class _Packed(Value):
    @property
    def type(self) -> str:
        return f"{super().type.removesuffix('>')}, #iree_encoding.packed_storage>"


class Loop(Function):
    """Rounds of self-attention over what a loop carries."""

    def build(self) -> None:
        c = self.choices
        batch, rows = c.pick([1, 1, 2, 3]), c.pick([1, 2, 4, 5, 8])
        heads, head = c.pick([1, 2, 4]), c.pick([4, 8, 16, 64])
        width = heads * head
        state = self.argument([batch, rows, width])
        low, high, step = self.constant(0), self.constant(c.pick([1, 2, 3])), self.constant(1)
        weights = [
            self.argument([width, width]) if c.chance(40) and width <= 64 else None
            for _ in range(3)
        ]
        loop, name = self.fresh("loop"), self.fresh("carried")
        self.line(
            f"{loop} = scf.for {loop}i = {low} to {high} step {step} "
            f"iter_args({name} = {state.name}) -> ({state.type}) {{"
        )
        x = replace(state, name=name)
        parts = [self._part(x, w, heads, head) for w in weights]
        dims = ["b0", "b1", "m", "n", "k", "j"]
        maps = [["b0", "b1", "m", "k"], ["b0", "b1", "j", "k"], ["b0", "b1", "j", "n"], []]
        scale = self.fresh("scale")
        self.line(f"{scale} = arith.constant {1 / math.sqrt(head):.6e} : f32")
        ins = [(v.name, v.type) for v in parts] + [(scale, "f32")]
        init = self.empty([batch, heads, rows, head], [""] * 4, "f32")
        (y,) = self.attention_op(dims, [*maps, ["b0", "b1", "m", "n"]], ins, [init], [])
        y = self.collapse(self.transpose(y, [0, 2, 1, 3]), 2)
        half, total = self.fresh("z"), self.fresh()
        self.line(f"{half} = arith.constant dense<0.5> : {y.type}")
        self.line(f"{total}h = arith.mulf {x.name}, {half} : {y.type}")
        self.line(f"{total} = arith.addf {y.name}, {total}h : {y.type}")
        self.line(f"scf.yield {total} : {y.type}")
        self.line("}")
        self.returned = [replace(state, name=loop)]

    def _part(self, x: Value, weight: Value | None, heads: int, head: int) -> Value:
        if weight is not None:
            init = self.filled(x.shape, x.dynamic, "f32")
            maps = [[0, 1, 3], [3, 2] if self.choices.chance(50) else [2, 3]]
            x = self._contract([x, weight], maps, [0, 1, 2], init)
        return self.transpose(self._expanded(x, 2, [heads, head], ["", ""]), [0, 2, 1, 3])


class Step(Function):
    """A step of decoding: what is new goes into caches that are variables of the module."""

    def build(self) -> None:
        c = self.choices
        self.heads, self.rows = c.pick([1, 2, 3]), c.pick([1, 1, 2, 4])
        self.keys, self.head = c.pick([4, 6, 8, 16]), c.pick([4, 8, 16])
        self.keys = max(self.keys, 3 * self.rows)
        self.element = c.pick(["f32", "f32", "f16"])
        keys_last = [c.chance(25), c.chance(25)]
        place = self._place()
        q = self.argument([self.heads, self.rows, self.head], self.element)
        caches = [
            self._written(f"@{self.name}_{word}", place, last, zero)
            for word, last, zero in zip(
                "kv", keys_last, c.pick([(0.0, 0.0), (0.0, 1.0)]), strict=True
            )
        ]
        mask = self._up_to(place)
        scale = self.fresh("scale")
        self.line(f"{scale} = arith.constant {1 / math.sqrt(self.head):.6e} : f32")
        ins = [(v.name, v.type) for v in (q, *caches)] + [(scale, "f32"), (mask.name, mask.type)]
        maps = [
            ["b", "m", "k"],
            *(self._map_of(x, last) for x, last in zip("kn", keys_last, strict=True)),
        ]
        init = self.empty([self.heads, self.rows, self.head], [""] * 3, self.element)
        all_maps = [*maps, [], ["m", "j"], ["b", "m", "n"]]
        self.returned = self.attention_op(["b", "m", "n", "k", "j"], all_maps, ins, [init], [])
        if c.chance(30):
            self.returned += caches

    @staticmethod
    def _map_of(dim: str, keys_last: bool) -> list[str]:
        return ["b", dim, "j"] if keys_last else ["b", "j", dim]

    def _place(self) -> str:
        name = f"%arg{len(self.arguments)}"
        self.arguments.append(Value(name, (), (), "i64"))
        place, number = self.fresh("at"), self.fresh()
        self.line(f"{number} = tensor.extract {name}[] : tensor<i64>")
        self.line(f"{place} = arith.index_cast {number} : i64 to index")
        return place

    def _written(self, name: str, place: str, keys_last: bool, start: float) -> Value:
        h, r, d, s = self.heads, self.rows, self.head, self.keys
        new = self.argument([h, d, r] if keys_last else [h, r, d], self.element)
        kind = _type([h, d, s] if keys_last else [h, s, d], [""] * 3, self.element)
        self.globals.append(f"util.global private mutable {name} = dense<{start}> : {kind}")
        old, now = self.fresh(), self.fresh()
        offsets = f"0, 0, {place}" if keys_last else f"0, {place}, 0"
        self.line(f"{old} = util.global.load {name} : {kind}")
        self.line(
            f"{now} = tensor.insert_slice {new.name} into {old}[{offsets}] "
            f"[{', '.join(map(str, new.shape))}] [1, 1, 1] : {new.type} into {kind}"
        )
        self.line(f"util.global.store {now}, {name} : {kind}")
        shape = (h, d, s) if keys_last else (h, s, d)
        return Value(now, shape, ("",) * 3, self.element)

    def _up_to(self, place: str) -> Value:
        """A mask of the keys that are there for each row."""
        init = self.empty([self.rows, self.keys], ["", ""], "i1")
        body = [
            "%i = linalg.index 0 : index",
            "%j = linalg.index 1 : index",
            f"%last = arith.addi %i, {place} : index",
            "%seen = arith.cmpi ule, %j, %last : index",
        ]
        return self.generic([], [], init, [0, 1], body, "%seen")

    def calls(self, rng: np.random.Generator) -> list[list[Any]]:
        calls = []
        for turn in range(3):
            first = self.arguments[0]
            self.fills[first.name] = lambda _, turn=turn: np.array(turn * self.rows, np.int64)
            calls.append(self.inputs(rng))
        return calls


def random_form(choices: Choices, name: str = "main", for_gpu: bool = False) -> Function:
    """Attention in a form of its own; in a branch at times."""
    f = Forms(name, choices, choices.chance(22))
    f.setup(for_gpu)
    f.attend()
    if not f.unknown and choices.chance(4):
        f.wrap(0, choices.pick(["if", "for"]))
    return f


def random_loop(choices: Choices, name: str = "main") -> Function:
    f = Loop(name, choices)
    f.build()
    return f


def random_step(choices: Choices, name: str = "main") -> Function:
    f = Step(name, choices)
    f.build()
    return f
