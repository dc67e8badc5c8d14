"""Random modules for property tests: chains of producers in front of attention, as text.

A chain starts at an argument or a constant and goes through projections, casts, biases,
reshapes, transposes, broadcasts, slices, concatenations, gathers, scatters and
quantisations, in any order; its last value is V (and,
made by an equal chain, K). Attention reads it with its dims in any order.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

Draw = Callable[[int, int], int]


class Choices:
    """Where a generator's choices come from: `integer(low, high)`, both ends included."""

    def __init__(self, integer: Draw):
        self.integer = integer

    def pick(self, items: Sequence):
        return items[self.integer(0, len(items) - 1)]

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) < percent

    def order(self, count: int) -> list[int]:
        left = list(range(count))
        return [left.pop(self.integer(0, len(left) - 1)) for _ in range(count)]


def seeded(seed: int) -> Choices:
    return Choices(random.Random(seed).randint)


@dataclass(frozen=True)
class Value:
    """An SSA value; `dynamic[i]` is the SSA index that dim i's size is known by, if any."""

    name: str
    shape: tuple[int, ...]
    dynamic: tuple[str, ...]
    element: str

    @property
    def type(self) -> str:
        return _type(self.shape, self.dynamic, self.element)


# Element types of arguments.
NUMBERS = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "i8": np.int8,
    "i1": np.bool_,
}


def _type(shape: Sequence[int], dynamic: Sequence[str], element: str) -> str:
    dims = ["?" if name else str(size) for size, name in zip(shape, dynamic, strict=True)]
    return f"tensor<{'x'.join([*dims, element])}>"


def _map(loops: int, results: Sequence[int | None]) -> str:
    dims = ", ".join(f"d{i}" for i in range(loops))
    inner = ", ".join("0" if d is None else f"d{d}" for d in results)
    return f"affine_map<({dims}) -> ({inner})>"


@dataclass
class Function:
    """A function under construction: its lines, its arguments and their sizes.

    A `regular` one keeps to what IREE's own llvm-cpu backend compiles and gets right: sizes
    that vectors divide, and no index in the score region.
    """

    name: str
    choices: Choices
    may_be_dynamic: bool = False
    regular: bool = False
    lines: list[str] = field(default_factory=list)
    arguments: list[Value] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    returned: list[Value] = field(default_factory=list)
    fills: dict[str, Callable[[np.random.Generator], Any]] = field(default_factory=dict)
    # What stands beside the function in the module.
    globals: list[str] = field(default_factory=list)
    _count: itertools.count = field(default_factory=itertools.count)

    def fresh(self, word: str = "v") -> str:
        return f"%{word}{next(self._count)}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def constant(self, number: int) -> str:
        name = self.fresh("c")
        self.line(f"{name} = arith.constant {number} : index")
        self.sizes[name] = number
        return name

    def argument(self, shape: Sequence[int], element: str = "f32", dynamic: bool = False) -> Value:
        name = f"%arg{len(self.arguments)}"
        known = [""] * len(shape)
        wants = dynamic and self.may_be_dynamic
        marks = tuple("?" if wants and self.choices.chance(40) else "" for _ in shape)
        self.arguments.append(Value(name, tuple(shape), marks, element))
        for dim, mark in enumerate(marks):
            if mark:
                known[dim] = self.fresh("s")
                self.line(
                    f"{known[dim]} = tensor.dim {name}, {self.constant(dim)} : "
                    f"{_type(shape, marks, element)}"
                )
                self.sizes[known[dim]] = shape[dim]
        return Value(name, tuple(shape), tuple(known), element)

    def like(self, value: Value, order: Sequence[int]) -> Value:
        """An argument whose dims are those of `value` in this order, with the same types."""
        name = f"%arg{len(self.arguments)}"
        shape = tuple(value.shape[d] for d in order)
        known = tuple(value.dynamic[d] for d in order)
        self.arguments.append(Value(name, shape, known, value.element))
        return Value(name, shape, known, value.element)

    def empty(self, shape: Sequence[int], dynamic: Sequence[str], element: str) -> Value:
        name = self.fresh("e")
        sizes = ", ".join(size for size in dynamic if size)
        kind = _type(shape, dynamic, element)
        self.line(f"{name} = tensor.empty({sizes}) : {kind}")
        return Value(name, tuple(shape), tuple(dynamic), element)

    def filled(self, shape: Sequence[int], dynamic: Sequence[str], element: str) -> Value:
        init, name, zero = self.empty(shape, dynamic, element), self.fresh("f"), self.fresh("z")
        self.line(f"{zero} = arith.constant 0.0 : {element}")
        self.line(
            f"{name} = linalg.fill ins({zero} : {element}) outs({init.name} : {init.type}) "
            f"-> {init.type}"
        )
        return Value(name, init.shape, init.dynamic, element)

    def product(self, names: Sequence[str], sizes: Sequence[int]) -> str:
        """The SSA size of several dims joined; '' if it is static."""
        if not any(names):
            return ""
        terms = [name or self.constant(size) for name, size in zip(names, sizes, strict=True)]
        total = terms[0]
        for term in terms[1:]:
            name = self.fresh("s")
            self.line(f"{name} = arith.muli {total}, {term} : index")
            total = name
        self.sizes[total] = math.prod(sizes)
        return total

    def generic(
        self,
        inputs: Sequence[Value],
        maps: Sequence[Sequence[int | None]],
        out: Value,
        out_map: Sequence[int | None],
        body: Sequence[str],
        result: str,
    ) -> Value:
        """A linalg.generic; `body` reads %in0 ... and %out, and defines `result`."""
        loops = 1 + max(d for m in [*maps, out_map] for d in m if d is not None)
        kinds = ['"parallel"' if d in out_map else '"reduction"' for d in range(loops)]
        all_maps = ", ".join(_map(loops, m) for m in [*maps, out_map])
        name = self.fresh()
        arguments = [f"%in{i}: {v.element}" for i, v in enumerate(inputs)]
        ins = ""
        if inputs:
            types = ", ".join(v.type for v in inputs)
            ins = f"ins({', '.join(v.name for v in inputs)} : {types}) "
        self.line(
            f"{name} = linalg.generic {{indexing_maps = [{all_maps}], "
            f"iterator_types = [{', '.join(kinds)}]}} {ins}outs({out.name} : {out.type}) {{"
        )
        self.line(f"^bb0({', '.join([*arguments, f'%out: {out.element}'])}):")
        for text in body:
            self.line("  " + text)
        self.line(f"  linalg.yield {result} : {out.element}")
        self.line(f"}} -> {out.type}")
        return Value(name, out.shape, out.dynamic, out.element)

    # the steps of a chain

    def project(self, x: Value) -> Value:
        """A product with a weight over one dim of x: named or generic, in any dim order."""
        kind = self.choices.pick(["generic", "generic", "contract", "named", "named", "repeated"])
        width = self.choices.pick([4, 8, 16] if self.regular else [4, 6, 8, 12])
        rank = len(x.shape)
        if kind in ("named", "repeated") and rank in (2, 3):
            return self._named(x, width, kind == "repeated")
        summed = self.choices.integer(0, rank - 1)
        shared = [
            d for d in range(rank) if d != summed and not x.dynamic[d] and self.choices.chance(20)
        ]
        # Loops: those of x, then the new dim.
        wdims = [*shared, summed, rank]
        wdims = [wdims[i] for i in self.choices.order(len(wdims))]
        sizes, known = [*x.shape, width], [*x.dynamic, ""]
        static = [dim for dim in wdims if known[dim]]
        w = (
            self.argument([sizes[d] for d in wdims])
            if not static
            else self._weight(wdims, x, width)
        )
        outs = [d for d in range(rank + 1) if d != summed]
        outs = [outs[i] for i in self.choices.order(len(outs))] if self.choices.chance(50) else outs
        init = self.filled([sizes[d] for d in outs], [known[d] for d in outs], x.element)
        pair = [(x, list(range(rank))), (w, wdims)]
        if self.choices.chance(30):
            pair.reverse()
        if kind == "contract":
            return self._contract([v for v, _ in pair], [m for _, m in pair], outs, init)
        body, names = [], []
        for i, (v, _) in enumerate(pair):
            names.append(f"%in{i}")
            if v.element != x.element:
                cast = f"%w{i}"
                word = "extf" if v.element in ("f16", "bf16") else "truncf"
                body.append(f"{cast} = arith.{word} %in{i} : {v.element} to {x.element}")
                names[-1] = cast
        body += [
            f"%p = arith.mulf {names[0]}, {names[1]} : {x.element}",
            f"%t = arith.addf %out, %p : {x.element}",
        ]
        return self.generic([v for v, _ in pair], [m for _, m in pair], init, outs, body, "%t")

    def _weight(self, dims: Sequence[int], x: Value, width: int) -> Value:
        rank = len(x.shape)
        base = Value("", (*x.shape, width), (*x.dynamic, ""), "f32")
        del rank
        return self.like(base, dims)

    def _contract(
        self,
        inputs: Sequence[Value],
        maps: Sequence[Sequence[int]],
        outs: Sequence[int],
        init: Value,
    ) -> Value:
        loops, name = 1 + max(d for m in maps for d in m), self.fresh()
        texts = ", ".join(_map(loops, m) for m in [*maps, outs])
        self.line(
            f"{name} = linalg.contract indexing_maps = [{texts}] "
            f"ins({inputs[0].name}, {inputs[1].name} : {inputs[0].type}, {inputs[1].type}) "
            f"outs({init.name} : {init.type}) -> {init.type}"
        )
        return Value(name, init.shape, init.dynamic, init.element)

    def _named(self, x: Value, width: int, repeated: bool) -> Value:
        """matmul or batch_matmul; the weight `repeated` over the batch, as exporters write."""
        batch = len(x.shape) - 2
        name = ["linalg.matmul", "linalg.batch_matmul"][batch]
        k = x.shape[-1]
        transposed = self.choices.chance(30)
        inner = [width, k] if transposed else [k, width]
        known_k = x.dynamic[-1]
        inner_known = ["", known_k] if transposed else [known_k, ""]
        base = Value("", (*x.shape[:batch], *inner), (*x.dynamic[:batch], *inner_known), "f32")
        if batch and repeated:
            small = self.like(base, [1, 2])
            init = self.empty(base.shape, base.dynamic, "f32")
            w = self.generic([small], [[1, 2]], init, [0, 1, 2], [], "%in0")
        else:
            w = self.like(base, range(len(base.shape)))
        init = self.filled((*x.shape[:-1], width), (*x.dynamic[:-1], ""), x.element)
        loops, b = batch + 3, list(range(batch))
        m, n, kk = batch, batch + 1, batch + 2
        wmap = [*b, n, kk] if transposed else [*b, kk, n]
        maps = [_map(loops, p) for p in ([*b, m, kk], wmap, [*b, m, n])]
        named_maps = f" indexing_maps = [{', '.join(maps)}]" if transposed else ""
        out = self.fresh()
        self.line(
            f"{out} = {name}{named_maps} ins({x.name}, {w.name} : {x.type}, {w.type}) "
            f"outs({init.name} : {init.type}) -> {init.type}"
        )
        return Value(out, init.shape, init.dynamic, init.element)

    def elementwise(self, x: Value) -> Value:
        """A bias of some of x's dims, a scale, an index or a second tensor, read in any order."""
        rank = len(x.shape)
        loops = self.choices.order(rank) if self.choices.chance(30) else list(range(rank))
        outs = self.choices.order(rank) if self.choices.chance(30) else list(range(rank))
        # Loop outs[i] is dim i of the result; dim d of x has loop loops[d].
        size_of = {loops[d]: (x.shape[d], x.dynamic[d]) for d in range(rank)}
        init = self.empty([size_of[d][0] for d in outs], [size_of[d][1] for d in outs], x.element)
        dims = [d for d in range(rank) if self.choices.chance(50)]
        dims = [dims[i] for i in self.choices.order(len(dims))]
        base = Value(
            "",
            tuple(size_of[d][0] for d in range(rank)),
            tuple(size_of[d][1] for d in range(rank)),
            x.element,
        )
        inputs, maps = [x], [loops]
        if dims and self.choices.chance(70):
            inputs.append(self.like(base, dims))
            maps.append(dims)
        body, now = [], "%in0"
        if len(inputs) == 2:
            word = self.choices.pick(["addf", "mulf", "subf"])
            body.append(f"%b = arith.{word} %in0, %in1 : {x.element}")
            now = "%b"
        if self.choices.chance(15):
            dim = self.choices.integer(0, rank - 1)
            body += [
                f"%i = linalg.index {dim} : index",
                "%ii = arith.index_cast %i : index to i32",
                f"%if = arith.sitofp %ii : i32 to {x.element}",
                f"%iz = arith.addf {now}, %if : {x.element}",
            ]
            now = "%iz"
        if self.choices.chance(20):
            body.append(f"%neg = arith.negf {now} : {x.element}")
            now = "%neg"
        return self.generic(inputs, maps, init, outs, body, now)

    def expand(self, x: Value) -> Value:
        dims = [d for d in range(len(x.shape)) if x.shape[d] > 3 and _factors(x.shape[d])]
        if not dims or self.choices.chance(20):
            return self.unit(x)
        dim = self.choices.pick(dims)
        inner = self.choices.pick(_factors(x.shape[dim]))
        outer = x.shape[dim] // inner
        known = ["", ""]
        if x.dynamic[dim]:
            known[0] = self.fresh("s")
            divisor = self.constant(inner)
            self.line(f"{known[0]} = arith.divui {x.dynamic[dim]}, {divisor} : index")
            self.sizes[known[0]] = outer
        return self._expanded(x, dim, [outer, inner], known)

    def unit(self, x: Value) -> Value:
        """A dim of size one put in."""
        dim = self.choices.integer(0, len(x.shape) - 1)
        if self.choices.chance(50):
            return self._expanded(x, dim, [1, x.shape[dim]], ["", x.dynamic[dim]])
        return self._expanded(x, dim, [x.shape[dim], 1], [x.dynamic[dim], ""])

    def _expanded(self, x: Value, dim: int, sizes: Sequence[int], known: Sequence[str]) -> Value:
        shape = [*x.shape[:dim], *sizes, *x.shape[dim + 1 :]]
        dynamic = [*x.dynamic[:dim], *known, *x.dynamic[dim + 1 :]]
        groups, start = [], 0
        for d in range(len(x.shape)):
            count = len(sizes) if d == dim else 1
            groups.append(list(range(start, start + count)))
            start += count
        return self.reshaped("expand_shape", x, groups, shape, dynamic)

    def collapse(self, x: Value, dim: int | None = None) -> Value:
        rank = len(x.shape)
        if rank < 3:
            return x
        if dim is None:
            dim = self.choices.integer(0, rank - 2)
        size = x.shape[dim] * x.shape[dim + 1]
        known = self.product(x.dynamic[dim : dim + 2], x.shape[dim : dim + 2])
        shape = [*x.shape[:dim], size, *x.shape[dim + 2 :]]
        dynamic = [*x.dynamic[:dim], known, *x.dynamic[dim + 2 :]]
        groups = [[d] for d in range(dim)] + [[dim, dim + 1]] + [[d] for d in range(dim + 2, rank)]
        return self.reshaped("collapse_shape", x, groups, shape, dynamic)

    def reshaped(
        self,
        op: str,
        x: Value,
        groups: Sequence[Sequence[int]],
        shape: Sequence[int],
        known: Sequence[str],
    ) -> Value:
        made = Value(self.fresh(), tuple(shape), tuple(known), x.element)
        sizes = ", ".join(k or str(s) for s, k in zip(shape, known, strict=True))
        middle = f" output_shape [{sizes}]" if op == "expand_shape" else ""
        self.line(
            f"{made.name} = tensor.{op} {x.name} {list(groups)}{middle} : {x.type} into {made.type}"
        )
        return made

    def transpose(self, x: Value, order: Sequence[int] | None = None) -> Value:
        order = self.choices.order(len(x.shape)) if order is None else order
        shape, known = [x.shape[d] for d in order], [x.dynamic[d] for d in order]
        init = self.empty(shape, known, x.element)
        if self.choices.chance(20):
            places = sorted(range(len(order)), key=order.__getitem__)
            return self.generic([x], [places], init, range(len(order)), [], "%in0")
        name = self.fresh()
        self.line(
            f"{name} = linalg.transpose ins({x.name} : {x.type}) outs({init.name} : {init.type}) "
            f"permutation = {list(order)}"
        )
        return Value(name, init.shape, init.dynamic, x.element)

    def repeat(self, x: Value) -> Value:
        """A new dim along which x is repeated, often joined to the one before it."""
        rank = len(x.shape)
        dim, count = self.choices.integer(0, rank), self.choices.pick([2, 4 if self.regular else 3])
        shape = [*x.shape[:dim], count, *x.shape[dim:]]
        known = [*x.dynamic[:dim], "", *x.dynamic[dim:]]
        init = self.empty(shape, known, x.element)
        if self.choices.chance(50):
            name = self.fresh()
            self.line(
                f"{name} = linalg.broadcast ins({x.name} : {x.type}) "
                f"outs({init.name} : {init.type}) dimensions = [{dim}]"
            )
            y = Value(name, init.shape, init.dynamic, x.element)
        else:
            kept = [d for d in range(rank + 1) if d != dim]
            y = self.generic([x], [kept], init, range(rank + 1), [], "%in0")
        if self.choices.chance(60):
            return self.collapse(y, dim - 1 if dim else 0)
        return y

    def indexed_repeat(self, x: Value) -> Value:
        """A longer dim that repeats x along it, read by index."""
        if any(x.dynamic):
            return x
        rank = len(x.shape)
        dim, times = self.choices.integer(0, rank - 1), self.choices.pick([2, 4])
        shape = [size * times if d == dim else size for d, size in enumerate(x.shape)]
        outs = self.choices.order(rank)
        init = self.empty([shape[d] for d in outs], [""] * rank, x.element)
        word, number = self.choices.pick([("divui", times), ("remui", x.shape[dim])])
        body = [f"%i{d} = linalg.index {d} : index" for d in range(rank)]
        body.append(f"%r = arith.{word} %i{dim}, {self.constant(number)} : index")
        places = ", ".join("%r" if d == dim else f"%i{d}" for d in range(rank))
        body.append(f"%x = tensor.extract {x.name}[{places}] : {x.type}")
        return self.generic([], [], init, outs, body, "%x")

    def whole(self, x: Value) -> Value:
        """Arithmetic of whole tensors."""
        name = self.fresh()
        word = self.choices.pick(["addf", "mulf"])
        other = self.like(x, range(len(x.shape))) if self.choices.chance(50) else x
        self.line(f"{name} = arith.{word} {x.name}, {other.name} : {x.type}")
        return Value(name, x.shape, x.dynamic, x.element)

    def cast(self, x: Value) -> Value:
        to = "f16" if x.element == "f32" else "f32"
        word = "truncf" if to == "f16" else "extf"
        init = self.empty(x.shape, x.dynamic, to)
        dims = list(range(len(x.shape)))
        body = [f"%t = arith.{word} %in0 : {x.element} to {to}"]
        return self.generic([x], [dims], init, dims, body, "%t")

    def cut(self, x: Value) -> Value:
        """A slice of one dim, at times of size one and then dropped."""
        dims = [d for d in range(len(x.shape)) if not x.dynamic[d] and x.shape[d] > 1]
        if not dims:
            return x
        dim = self.choices.pick(dims)
        sizes = [s for s in range(1, x.shape[dim]) if x.shape[dim] % s == 0]
        size = self.choices.pick(sizes)
        offset = self.choices.integer(0, x.shape[dim] // size - 1) * size
        if self.choices.chance(10):
            offset = self.choices.integer(0, x.shape[dim] - size)
        drop = size == 1 and len(x.shape) > 2 and self.choices.chance(50)
        rank = len(x.shape)
        shape = [size if d == dim else s for d, s in enumerate(x.shape)]
        out = [s for d, s in enumerate(shape) if not (drop and d == dim)]
        known = [k for d, k in enumerate(x.dynamic) if not (drop and d == dim)]
        offsets = ", ".join(str(offset) if d == dim else "0" for d in range(rank))
        sizes_text = ", ".join(k or str(s) for s, k in zip(shape, x.dynamic, strict=True))
        name, kind = self.fresh(), _type(out, known, x.element)
        self.line(
            f"{name} = tensor.extract_slice {x.name}[{offsets}] [{sizes_text}] "
            f"[{', '.join(['1'] * rank)}] : {x.type} to {kind}"
        )
        return Value(name, tuple(out), tuple(known), x.element)

    def concat(self, x: Value) -> Value:
        dims = [d for d in range(len(x.shape)) if not x.dynamic[d]]
        if not dims:
            return x
        dim, more = self.choices.pick(dims), 4 if self.regular else self.choices.integer(1, 4)
        other = Value(
            "", tuple(more if d == dim else s for d, s in enumerate(x.shape)), x.dynamic, x.element
        )
        if self.choices.chance(40):
            y = self.transpose(
                self.like(other, list(range(len(x.shape)))[::-1]), list(range(len(x.shape)))[::-1]
            )
        else:
            y = self.like(other, range(len(x.shape)))
        pair = [x, y] if self.choices.chance(50) else [y, x]
        shape = [s + more if d == dim else s for d, s in enumerate(x.shape)]
        name, kind = self.fresh(), _type(shape, x.dynamic, x.element)
        self.line(
            f"{name} = tensor.concat dim({dim}) {pair[0].name}, {pair[1].name} : "
            f"({pair[0].type}, {pair[1].type}) -> {kind}"
        )
        return Value(name, tuple(shape), x.dynamic, x.element)

    def insert(self, x: Value) -> Value:
        """x written into a larger tensor (a cache)."""
        dims = [d for d in range(len(x.shape)) if not x.dynamic[d]]
        if not dims:
            return x
        dim, more = self.choices.pick(dims), 4 if self.regular else self.choices.integer(1, 4)
        shape = tuple(s + more if d == dim else s for d, s in enumerate(x.shape))
        into = self.like(Value("", shape, x.dynamic, x.element), range(len(shape)))
        if self.choices.chance(50):
            order = self.choices.order(len(shape))
            into = self.transpose(into, order)
            x = self.transpose(x, order)
            dim = order.index(dim)
        offset, rank = self.choices.integer(0, more), len(shape)
        offsets = ", ".join(str(offset) if d == dim else "0" for d in range(rank))
        sizes = ", ".join(k or str(s) for s, k in zip(x.shape, x.dynamic, strict=True))
        name = self.fresh()
        self.line(
            f"{name} = tensor.insert_slice {x.name} into {into.name}[{offsets}] [{sizes}] "
            f"[{', '.join(['1'] * rank)}] : {x.type} into {into.type}"
        )
        return Value(name, into.shape, into.dynamic, x.element)

    def pad(self, x: Value) -> Value:
        dims = [d for d in range(len(x.shape)) if not x.dynamic[d]]
        if not dims:
            return x
        dim, rank = self.choices.pick(dims), len(x.shape)
        low, high = self.choices.integer(0, 2), self.choices.integer(1, 3)
        low, high = (4 * (low % 2), 4) if self.regular else (low, high)
        shape = tuple(s + low + high if d == dim else s for d, s in enumerate(x.shape))
        name, zero, kind = self.fresh(), self.fresh("z"), _type(shape, x.dynamic, x.element)
        lows, highs = (
            ", ".join(str(n) if d == dim else "0" for d in range(rank)) for n in (low, high)
        )
        places = ", ".join(f"%p{d}: index" for d in range(rank))
        self.line(f"{zero} = arith.constant 0.5 : {x.element}")
        self.line(f"{name} = tensor.pad {x.name} low[{lows}] high[{highs}] {{")
        self.line(f"^bb0({places}):")
        self.line(f"  tensor.yield {zero} : {x.element}")
        self.line(f"}} : {x.type} to {kind}")
        return Value(name, shape, x.dynamic, x.element)

    def retype(self, x: Value) -> Value:
        """tensor.cast: some static sizes are forgotten, or one that is known is said."""
        if not self.may_be_dynamic:
            return x
        to = [
            size if self.choices.chance(70) else None if not known else -1
            for size, known in zip(x.shape, x.dynamic, strict=True)
        ]
        kept = ["?" if t == -1 or t is None else "" for t in to]
        name, kind = self.fresh(), _type(x.shape, kept, x.element)
        self.line(f"{name} = tensor.cast {x.name} : {x.type} to {kind}")
        known = list(kept)
        for dim, mark in enumerate(kept):
            if mark:
                known[dim] = self.fresh("s")
                self.line(f"{known[dim]} = tensor.dim {name}, {self.constant(dim)} : {kind}")
                self.sizes[known[dim]] = x.shape[dim]
        return Value(name, x.shape, tuple(known), x.element)

    def reshape(self, x: Value) -> Value:
        """tensor.reshape that joins two dims, splits one, or changes nothing."""
        rank = len(x.shape)
        shape, known = list(x.shape), list(x.dynamic)
        dim = self.choices.integer(0, rank - 1)
        inner = _factors(shape[dim])
        if inner and rank < MAX_RANK and self.choices.chance(50):
            size = self.choices.pick(inner)
            outer = ""
            if known[dim]:
                outer = self.fresh("s")
                self.line(f"{outer} = arith.divui {known[dim]}, {self.constant(size)} : index")
            shape[dim : dim + 1] = [shape[dim] // size, size]
            known[dim : dim + 1] = [outer, ""]
        elif dim + 1 < rank and rank > 2:
            known[dim : dim + 2] = [self.product(known[dim : dim + 2], shape[dim : dim + 2])]
            shape[dim : dim + 2] = [shape[dim] * shape[dim + 1]]
        sizes = [k or self.constant(s) for s, k in zip(shape, known, strict=True)]
        wanted, name, kind = self.fresh("t"), self.fresh(), _type(shape, known, x.element)
        self.line(
            f"{wanted} = tensor.from_elements {', '.join(sizes)} : tensor<{len(shape)}xindex>"
        )
        self.line(
            f"{name} = tensor.reshape {x.name}({wanted}) : "
            f"({x.type}, tensor<{len(shape)}xindex>) -> {kind}"
        )
        return Value(name, tuple(shape), tuple(known), x.element)

    def indices(self, count: Sequence[int], sizes: Sequence[int]) -> Value:
        """A constant of shape `count` x len(sizes) of indices into `sizes`, all different
        where there are enough; without the last dim at times where it is one."""
        kind, total = self.choices.pick(["i32", "i64"]), math.prod(sizes)
        number = math.prod(count)
        step = next(s for s in (7, 5, 3, 1, 11, 13) if math.gcd(s, total) == 1)
        start = self.choices.integer(0, total - 1)
        flat = [(start + step * i) % total for i in range(number)]
        rows = np.stack(np.unravel_index(flat, sizes), -1).reshape(*count, len(sizes))
        if len(sizes) == 1 and self.choices.chance(50):
            rows = rows[..., 0]
        name, kind = self.fresh("at"), _type(rows.shape, [""] * rows.ndim, kind)
        self.line(f"{name} = arith.constant dense<{rows.tolist()}> : {kind}")
        return Value(name, rows.shape, ("",) * rows.ndim, kind.rsplit("x", 1)[1][:-1])

    def gather(self, x: Value) -> Value:
        """Slices of x by indices into its first dims."""
        if any(x.dynamic):
            return x
        rank = len(x.shape)
        depth = self.choices.integer(1, min(rank, 2))
        batch = [self.choices.pick([2, 4] if self.regular else [1, 2, 3])]
        batch += [2] if self.choices.chance(30) and rank - depth < 4 else []
        order = self.choices.order(depth)
        index = self.indices(batch, [x.shape[d] for d in order])
        init = self.empty((*batch, *x.shape[depth:]), [""] * (len(batch) + rank - depth), x.element)
        name = self.fresh()
        self.line(
            f"{name} = iree_linalg_ext.gather dimension_map = {order} "
            f"ins({x.name}, {index.name} : {x.type}, {index.type}) "
            f"outs({init.name} : {init.type}) -> {init.type}"
        )
        return Value(name, init.shape, init.dynamic, x.element)

    def scatter(self, x: Value) -> Value:
        """Slices written into x, or into an argument as large, by indices; new or summed."""
        if any(x.dynamic):
            return x
        rank = len(x.shape)
        depth = self.choices.integer(1, rank)
        order = self.choices.order(depth)
        sizes = [x.shape[d] for d in order]
        count = min(3, math.prod(sizes))
        index = self.indices([count], sizes)
        shape = (count, *x.shape[depth:])
        updates = self.like(Value("", shape, ("",) * len(shape), x.element), range(len(shape)))
        name = self.fresh()
        self.line(
            f"{name} = iree_linalg_ext.scatter dimension_map = {order} unique_indices(true) "
            f"ins({updates.name}, {index.name} : {updates.type}, {index.type}) "
            f"outs({x.name} : {x.type}) {{"
        )
        self.line(f"^bb0(%new: {x.element}, %old: {x.element}):")
        result = "%new"
        if self.choices.chance(40):
            self.line(f"  %sum = arith.addf %new, %old : {x.element}")
            result = "%sum"
        self.line(f"  iree_linalg_ext.yield {result} : {x.element}")
        self.line(f"}} -> {x.type}")
        return Value(name, x.shape, x.dynamic, x.element)

    def lookup(self, x: Value) -> Value:
        """A generic that reads x element by element: one dim reversed, another as it is."""
        if any(x.dynamic):
            return x
        rank = len(x.shape)
        outs = self.choices.order(rank)
        init = self.empty([x.shape[d] for d in outs], [""] * rank, x.element)
        dim = self.choices.integer(0, rank - 1)
        body = [f"%i{d} = linalg.index {d} : index" for d in range(rank)]
        last = self.constant(x.shape[dim] - 1)
        body.append(f"%r = arith.subi {last}, %i{dim} : index")
        places = ", ".join("%r" if d == dim else f"%i{d}" for d in range(rank))
        body.append(f"%x = tensor.extract {x.name}[{places}] : {x.type}")
        return self.generic([], [], init, outs, body, "%x")

    def quantise(self, x: Value) -> Value:
        """To i8 and back, by a scale for all or for each place of one dim; views between."""
        rank = len(x.shape)
        dims = list(range(rank))
        low, high, four = (self.fresh("z") for _ in range(3))
        for name, number in ((low, -128.0), (high, 127.0), (four, 4.0)):
            self.line(f"{name} = arith.constant {number} : {x.element}")
        body = [
            f"%m = arith.mulf %in0, {four} : {x.element}",
            f"%e = math.roundeven %m : {x.element}",
            f"%l = arith.maximumf %e, {low} : {x.element}",
            f"%h = arith.minimumf %l, {high} : {x.element}",
            f"%q = arith.fptosi %h : {x.element} to i8",
        ]
        narrow = self.generic([x], [dims], self.empty(x.shape, x.dynamic, "i8"), dims, body, "%q")
        for _ in range(self.choices.integer(0, 3)):
            narrow = self.choices.pick([self.transpose, self.expand, self.collapse])(narrow)
            if len(narrow.shape) >= MAX_RANK:
                narrow = self.collapse(narrow)
        rank = len(narrow.shape)
        dims = list(range(rank))
        inputs, maps = [narrow], [dims]
        body = [f"%f = arith.sitofp %in0 : i8 to {x.element}"]
        result, dim = "%f", self.choices.integer(0, rank - 1)
        if self.choices.chance(60):
            like = Value("", narrow.shape, narrow.dynamic, x.element)
            inputs.append(self.like(like, [dim]))
            maps.append([dim])
            body.append(f"%s = arith.mulf %f, %in1 : {x.element}")
            result = "%s"
        init = self.empty(narrow.shape, narrow.dynamic, x.element)
        return self.generic(inputs, maps, init, dims, body, result)

    def dense(self, shape: Sequence[int]) -> Value:
        """A constant with elements of its own."""
        flat = [self.choices.integer(-8, 8) / 4 for _ in range(min(math.prod(shape), 97))]
        values = np.resize(np.array(flat), shape)
        name, kind = self.fresh("k"), _type(shape, [""] * len(shape), "f32")
        self.line(f"{name} = arith.constant dense<{values.tolist()}> : {kind}")
        return Value(name, tuple(shape), ("",) * len(shape), "f32")

    # attention

    def attend(self, value: Value, key: Value | None, online: bool, mask: bool) -> None:
        """An attention that reads `value` with its dims in the roles drawn, and returns it.

        `key`, if given, has the shape of `value` and the same roles, with k1 for n.
        """
        rank = len(value.shape)
        order = self.choices.order(rank)
        n, k2, batch = order[0], order[1], order[2:]
        loops = [f"b{i}" for i in range(len(batch))] + ["m", "n", "k1", "k2"]
        loops = (
            [loops[i] for i in self.choices.order(len(loops))] if self.choices.chance(30) else loops
        )
        number = {name: i for i, name in enumerate(loops)}
        role = {dim: f"b{i}" for i, dim in enumerate(batch)} | {n: "n", k2: "k2"}
        vmap = [role[d] for d in range(rank)]
        m = self.choices.pick([1, 4, 8] if self.regular else [1, 3, 5])
        sizes: dict[str, tuple[int, str]] = {
            role[d]: (value.shape[d], value.dynamic[d]) for d in range(rank)
        }
        sizes["m"] = (m, "")
        element = value.element
        if key is None:
            sizes["k1"] = (self.choices.pick([4, 8] if self.regular else [2, 4]), "")
            kmap = self._shuffled([*(f"b{i}" for i in range(len(batch))), "k2", "k1"])
            k = self._operand(kmap, sizes, element)
        else:
            sizes["k1"] = sizes["n"]
            k, kmap = key, ["k1" if name == "n" else name for name in vmap]
        qmap = self._shuffled([*(f"b{i}" for i in range(len(batch))), "m", "k1"])
        q = self._operand(qmap, sizes, element)
        omap = self._shuffled([*(f"b{i}" for i in range(len(batch))), "m", "n"])
        shape, known = [sizes[name][0] for name in omap], [sizes[name][1] for name in omap]
        maps: list[Sequence[str]] = [qmap, kmap, vmap, []]
        scale = self.fresh("scale")
        self.line(f"{scale} = arith.constant 0.25 : {element}")
        ins = [q, k, value]
        types = [v.type for v in ins] + [element]
        names = [v.name for v in ins] + [scale]
        if mask:
            names_in_mask = (
                ["m", "k2"]
                if self.choices.chance(50)
                else [*(f"b{i}" for i in range(len(batch))), "m", "k2"]
            )
            mmap = self._shuffled(names_in_mask)
            operand = self._operand(mmap, sizes, element)
            maps.append(mmap)
            names.append(operand.name)
            types.append(operand.type)
        out = self.empty(shape, known, "f32" if online else element)
        outs = [out]
        maps.append(omap)
        if online:
            rows = [name for name in omap if name != "n"]
            out = self.filled(shape, known, "f32")
            top = self._operand(rows, sizes, "f32")
            outs = [out, top, self.filled(top.shape, top.dynamic, "f32")]
            maps += [rows, rows]
        ins = list(zip(names, types, strict=True))
        region = self._score_region(number, bool(batch))
        self.returned += self.attention_op(loops, maps, ins, outs, region)

    def _score_region(self, number: dict[str, int], batched: bool) -> list[str]:
        """At times a score function: of the score alone, of the key or of the batch."""
        modifier = self.choices.integer(0, 9)
        if modifier == 0:
            return [
                "%half = arith.constant 0.5 : f32",
                "%mod = arith.mulf %score, %half : f32",
            ]
        dim = {1: "k2", 2: "b0" if batched else ""}.get(modifier, "")
        if not dim or self.regular:
            return []
        return [
            f"%ix = iree_linalg_ext.index {number[dim]} : index",
            "%iy = arith.index_cast %ix : index to i32",
            "%iz = arith.sitofp %iy : i32 to f32",
            f"%mod = arith.{'addf' if modifier == 1 else 'mulf'} %score, %iz : f32",
        ]

    def attention_op(
        self,
        loops: Sequence[str],
        maps: Sequence[Sequence[str]],
        ins: Sequence[tuple[str, str]],
        outs: Sequence[Value],
        region: Sequence[str],
    ) -> list[Value]:
        """An attention op, an online one where it has three results, with dims by name; `ins`
        are names and types, and `region` makes %mod of %score, if it has any lines."""
        number = {name: i for i, name in enumerate(loops)}
        text = ", ".join(_map(len(loops), [number[name] for name in m]) for m in maps)
        result, online = self.fresh("r"), len(outs) == 3
        types = ", ".join(v.type for v in outs)
        self.line(
            f"{result}{':3' if online else ''} = "
            f"iree_linalg_ext.{'online_attention' if online else 'attention'} "
            f"<indexing_maps = [{text}]> "
            f"ins({', '.join(name for name, _ in ins)} : {', '.join(kind for _, kind in ins)}) "
            f"outs({', '.join(v.name for v in outs)} : {types}) {{"
        )
        self.line("^bb0(%score: f32):")
        for text in region:
            self.line("  " + text)
        self.line(f"  iree_linalg_ext.yield {'%mod' if region else '%score'} : f32")
        self.line(f"}} -> {types}")
        return [
            Value(f"{result}#{i}" if online else result, v.shape, v.dynamic, v.element)
            for i, v in enumerate(outs)
        ]

    def _shuffled(self, names: list[str]) -> list[str]:
        if self.choices.chance(50):
            return names
        return [names[i] for i in self.choices.order(len(names))]

    def _operand(
        self, names: Sequence[str], sizes: dict[str, tuple[int, str]], element: str
    ) -> Value:
        """An argument of this shape, at times behind a transpose."""
        base = Value(
            "", tuple(sizes[n][0] for n in names), tuple(sizes[n][1] for n in names), element
        )
        if not self.choices.chance(40):
            return self.like(base, range(len(names)))
        order = self.choices.order(len(names))
        inverse = sorted(range(len(order)), key=order.__getitem__)
        return self.transpose(self.like(base, order), inverse)

    def wrap(self, mark: int, kind: str) -> None:
        """Puts the lines from `mark` on, which make all that is returned, in a region."""
        inner, self.lines = self.lines[mark:], self.lines[:mark]
        types = ", ".join(v.type for v in self.returned)
        values = ", ".join(v.name for v in self.returned)
        zeros = [self.filled(v.shape, v.dynamic, v.element) for v in self.returned]
        starts = ", ".join(v.name for v in zeros)
        name = self.fresh("region")
        low, high, step = self.constant(0), self.constant(2), self.constant(1)
        if kind == "if":
            self.line(f"{name}c = arith.cmpi ult, {low}, {high} : index")
            self.line(f"{name}:{len(zeros)} = scf.if {name}c -> ({types}) {{")
            end = [f"scf.yield {values} : {types}", "} else {", f"scf.yield {starts} : {types}"]
        else:
            carried = ", ".join(f"{name}a{i} = {v.name}" for i, v in enumerate(zeros))
            self.line(
                f"{name}:{len(zeros)} = scf.for {name}i = {low} to {high} step {step} "
                f"iter_args({carried}) -> ({types}) {{"
            )
            end = [f"scf.yield {values} : {types}"]
        self.lines += ["  " + text for text in inner]
        for text in [*end, "}"]:
            self.line(text)
        self.returned = [
            Value(f"{name}#{i}", v.shape, v.dynamic, v.element) for i, v in enumerate(zeros)
        ]

    def text(self) -> str:
        arguments = ", ".join(f"{v.name}: {v.type}" for v in self.arguments)
        results = ", ".join(v.type for v in self.returned)
        values = ", ".join(v.name for v in self.returned)
        body, beside = "\n".join(self.lines), "".join(f"{line}\n" for line in self.globals)
        return (
            f"{beside}func.func @{self.name}({arguments}) -> ({results}) {{\n{body}\n"
            f"  return {values} : {results}\n}}\n"
        )

    def inputs(self, rng: np.random.Generator) -> list[Any]:
        """Arguments of one call: those of `fills` as these say, others normal."""
        return [
            self.fills[v.name](rng)
            if v.name in self.fills
            else (rng.standard_normal(v.shape) / 2).astype(NUMBERS[v.element])
            for v in self.arguments
        ]

    def calls(self, rng: np.random.Generator) -> list[list[Any]]:
        """The arguments of each call, in turn."""
        return [self.inputs(rng)]


def _factors(size: int) -> list[int]:
    return [f for f in range(2, size) if size % f == 0]


MAX_ELEMENTS = 6000
MAX_RANK = 6


def chain(f: Function, value: Value, steps: int) -> list[Value]:
    """The values that up to `steps` random steps make of `value`, itself first."""
    made = [value]
    kinds = [f.project] * 3 + [f.elementwise] * 2 + [f.expand] * 4 + [f.transpose] * 3
    kinds += [f.collapse] * 3 + [f.repeat] + [f.cast, f.cut, f.concat, f.insert, f.pad]
    kinds += [
        f.whole,
        f.whole,
        f.whole,
        f.indexed_repeat,
        f.retype,
        f.reshape,
        f.gather,
        f.scatter,
        f.lookup,
        f.quantise,
    ]
    for _ in range(steps):
        step = f.choices.pick(kinds)
        value = made[-1]
        if (
            step in (f.repeat, f.expand, f.unit, f.gather, f.quantise)
            and len(value.shape) >= MAX_RANK
        ):
            step = f.collapse
        longer = (f.repeat, f.indexed_repeat, f.concat, f.pad, f.insert)
        if step in longer and math.prod(value.shape) > MAX_ELEMENTS:
            continue
        made.append(step(value))
    return made


def random_function(
    choices: Choices, name: str = "main", *, regular: bool = False, most_steps: int = 9
) -> Function:
    """A function whose attention reads a random chain.

    At times K is made as V is; part of the chain and attention stand in a branch or a loop;
    others read the chain, too: the caller, or a second attention behind more steps.
    """
    f = Function(name, choices, choices.chance(30), regular)
    sizes = [1, 2, 4, 8, 16] if regular else [1, 2, 3, 4, 6, 8, 12]
    start = [choices.pick(sizes) for _ in range(choices.integer(2, 3))]
    steps = choices.integer(1, most_steps)
    online, mask = choices.chance(15), choices.chance(25)
    twin = choices.chance(25) and not f.may_be_dynamic
    region = choices.pick(["if", "for"]) if choices.chance(15) and not f.may_be_dynamic else ""
    if twin:
        values, keys = _twins(f, start, steps)
        _attend(f, values[-1], keys[-1], online, mask)
        return f
    outside = choices.integer(0, steps) if region else steps
    first = f.dense(start) if choices.chance(10) else f.argument(start, dynamic=True)
    values = chain(f, first, outside)
    mark = len(f.lines)
    values += chain(f, values[-1], steps - outside)[1:]
    _attend(f, values[-1], None, online, mask)
    if choices.chance(25):
        more = chain(f, choices.pick(values), choices.integer(0, 3))
        _attend(f, more[-1], None, False, False)
    if choices.chance(15):
        f.returned.append(choices.pick(values))
    if region:
        f.wrap(mark, region)
    return f


def _attend(f: Function, value: Value, key: Value | None, online: bool, mask: bool) -> None:
    if len(value.shape) < 2:
        value, key = f.unit(value), None
    f.attend(value, key, online, mask)


def _twins(f: Function, start: Sequence[int], steps: int) -> tuple[list[Value], list[Value]]:
    """Two chains of the same steps."""
    choices, drawn = f.choices, []

    def record(low: int, high: int) -> int:
        drawn.append(choices.integer(low, high))
        return drawn[-1]

    f.choices = Choices(record)
    values = chain(f, f.argument(start), steps)
    replay = iter(drawn)
    f.choices = Choices(lambda low, high: next(replay))
    keys = chain(f, f.argument(start), steps)
    f.choices = choices
    return values, keys
