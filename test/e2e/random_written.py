"""Random attention that is written out: two products, a softmax, and views of all kinds between.

Dims are named by letters: each tensor is a value and, for each of its dims, the letters that it
joins, major to minor. A dim without letters has size one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from random_modules import NUMBERS, Choices, Function, Value, _map, _type

LOWEST = -3.4028234663852886e38
# What keys are hidden by in the place of their scores, and what is added to these.
HIDDEN = (-1e4, -1e9, -1e30, LOWEST, LOWEST, -math.inf)
ADDED = (-1e9, -1e30, LOWEST, LOWEST, -math.inf)


@dataclass(frozen=True)
class Named:
    """A value and the letters of its dims."""

    value: Value
    dims: tuple[str, ...]

    @property
    def letters(self) -> str:
        return "".join(self.dims)


class Written(Function):
    """A function that computes attention by products and a softmax.

    A `wide` one has operands of other types.
    """

    wide: bool = False

    def setup(self) -> None:
        """Draws the letters of each role, and their sizes."""
        c = self.choices
        pick = [1, 2, 2, 3, 4] if not self.regular else [2, 4, 4, 8]
        present = {
            "batch": "ab"[: c.pick([0, 1, 1, 2])],
            "group": "g"[: c.pick([0, 0, 1])],
            "rows": "pq"[: c.pick([1, 1, 2])],
            "keys": "kl"[: c.pick([1, 1, 1, 2])],
            "depth": "cd"[: c.pick([1, 1, 1, 2])],
            "width": "vw"[: c.pick([1, 1, 1, 2])],
        }
        self.roles = present
        self.size_by = {x: c.pick(pick) for letters in present.values() for x in letters}
        if c.chance(80):
            for x in present["keys"][:1] + present["depth"][:1] + present["width"][:1]:
                self.size_by[x] = c.pick([2, 3, 4, 5, 6] if not self.regular else [8, 16])
        self.dynamic_letters = {x for x in self.size_by if self.may_be_dynamic and c.chance(25)}
        self.known = {}

    def arg(self, letters: str, element: str = "f32") -> Named:
        """An argument with these letters in any order, some joined, unit dims between."""
        c = self.choices
        order = [letters[i] for i in c.order(len(letters))] if c.chance(50) else list(letters)
        dims: list[str] = []
        for x in order:
            joined = dims and dims[-1] and c.chance(20)
            if joined and not ({*dims[-1], x} & self.dynamic_letters):
                dims[-1] += x
            else:
                dims.append(x)
        if c.chance(20):
            dims.insert(c.integer(0, len(dims)), "")
        name = f"%arg{len(self.arguments)}"
        shape = tuple(math.prod(self.size_by[x] for x in dim) for dim in dims)
        marks = tuple("?" if dim and dim in self.dynamic_letters else "" for dim in dims)
        self.arguments.append(Value(name, shape, marks, element))
        known = []
        for i, dim in enumerate(dims):
            if not marks[i]:
                known.append("")
                continue
            if dim not in self.known or c.chance(30):
                size = self.fresh("s")
                self.line(
                    f"{size} = tensor.dim {name}, {self.constant(i)} : "
                    f"{_type(shape, marks, element)}"
                )
                self.sizes[size] = shape[i]
                self.known.setdefault(dim, size)
            known.append(self.known[dim])
        return Named(Value(name, shape, tuple(known), element), tuple(dims))

    # views

    def split(self, t: Named) -> Named:
        """Each letter in a dim of its own; unit dims go."""
        if any(len(dim) > 1 for dim in t.dims):
            letters = [list(dim) or [""] for dim in t.dims]
            dims = [x for group in letters for x in group]
            starts = [sum(map(len, letters[:i])) for i in range(len(letters))]
            groups = [list(range(a, a + len(g))) for a, g in zip(starts, letters, strict=True)]
            shape = [self.size_by.get(x, 1) for x in dims]
            known = [self.known[x] if x in self.dynamic_letters else "" for x in dims]
            value = self.reshaped("expand_shape", t.value, groups, shape, known)
            t = Named(value, tuple(dims))
        if "" not in t.dims or not any(t.dims):
            return t
        groups: list[list[int]] = []
        for i, dim in enumerate(t.dims):
            if groups and (not dim or not any(t.dims[d] for d in groups[-1])):
                groups[-1].append(i)
            else:
                groups.append([i])
        shape = [math.prod(t.value.shape[i] for i in g) for g in groups]
        known = ["".join(t.value.dynamic[i] for i in g) for g in groups]
        dims = ["".join(t.dims[i] for i in g) for g in groups]
        value = self.reshaped("collapse_shape", t.value, groups, shape, known)
        return Named(value, tuple(dims))

    def turned(self, t: Named, order: Sequence[int]) -> Named:
        if list(order) == list(range(len(order))) and not self.choices.chance(5):
            return t
        return Named(self.transpose(t.value, list(order)), tuple(t.dims[i] for i in order))

    def joined(self, t: Named, wanted: Sequence[str]) -> Named:
        """Neighbouring dims joined: `t` has the letters of `wanted` in their order."""
        full = [dim for dim in wanted if dim]
        if list(t.dims) != full:
            starts = [sum(map(len, full[:i])) for i in range(len(full))]
            groups = [list(range(a, a + len(dim))) for a, dim in zip(starts, full, strict=True)]
            shape = [math.prod(t.value.shape[i] for i in g) for g in groups]
            known = [
                self.product([t.value.dynamic[i] for i in g], [t.value.shape[i] for i in g])
                for g in groups
            ]
            value = self.reshaped("collapse_shape", t.value, groups, shape, known)
            t = Named(value, tuple(full))
        if full == list(wanted):
            return t
        shape = [t.value.shape[full.index(dim)] if dim else 1 for dim in wanted]
        known = [t.value.dynamic[full.index(dim)] if dim else "" for dim in wanted]
        # Unit dims stand behind the dim before them.
        starts = [0, *[i for i, dim in enumerate(wanted) if dim][1:], len(wanted)]
        groups = [list(range(a, b)) for a, b in itertools.pairwise(starts)]
        value = self.reshaped("expand_shape", t.value, groups, shape, known)
        return Named(value, tuple(wanted))

    def arranged(self, t: Named, wanted: Sequence[str]) -> Named:
        """The tensor with these dims, in one of several ways."""
        t = self.split(t)
        letters = "".join(wanted)
        order = [t.dims.index(x) for x in letters]
        if self.choices.chance(15):
            t = self.turned(t, self.choices.order(len(t.dims)))
            order = [t.dims.index(x) for x in letters]
        return self.joined(self.turned(t, order), wanted)

    def noise(self, t: Named) -> Named:
        """The same tensor, its dims otherwise."""
        c = self.choices
        for _ in range(c.pick([0, 0, 0, 0, 0, 1])):
            letters = [t.letters[i] for i in c.order(len(t.letters))]
            t = self.arranged(t, self.grouping(letters))
        return t

    def grouping(self, letters: Sequence[str], percent: int = 30) -> list[str]:
        c = self.choices
        dims: list[str] = []
        for x in letters:
            if (
                dims
                and dims[-1]
                and c.chance(percent)
                and not ({*dims[-1], x} & self.dynamic_letters)
            ):
                dims[-1] += x
            else:
                dims.append(x)
        if c.chance(10):
            dims.insert(c.integer(0, len(dims)), "")
        return dims

    def out(self, dims: Sequence[str], element="f32", fill: float | None = None) -> Value:
        shape = [math.prod(self.size_by[x] for x in dim) for dim in dims]
        known = [
            self.product(
                [self.known.get(x, "") if x in self.dynamic_letters else "" for x in dim],
                [self.size_by[x] for x in dim],
            )
            if dim
            else ""
            for dim in dims
        ]
        init = self.empty(shape, known, element)
        if fill is None:
            return init
        name = self.fresh("f")
        self.line(
            f"{name} = linalg.fill ins({self.number(fill)} : {element}) "
            f"outs({init.name} : {init.type}) -> {init.type}"
        )
        return Value(name, init.shape, init.dynamic, element)

    def spread(self, t: Named, letters: str) -> Named:
        """`t` repeated along letters that it lacks."""
        t = self.split(t)
        if t.dims == ("",):
            raise AssertionError("a scalar")
        dims = list(t.dims)
        for x in letters:
            dims.insert(self.choices.integer(0, len(dims)), x)
        init = self.out(dims, t.value.element)
        added = [i for i, x in enumerate(dims) if x in letters]
        if self.choices.chance(50):
            name = self.fresh()
            self.line(
                f"{name} = linalg.broadcast ins({t.value.name} : {t.value.type}) "
                f"outs({init.name} : {init.type}) dimensions = {added}"
            )
            return Named(Value(name, init.shape, init.dynamic, init.element), tuple(dims))
        kept = [i for i, x in enumerate(dims) if x not in letters]
        y = self.generic([t.value], [kept], init, range(len(dims)), [], "%in0")
        return Named(y, tuple(dims))

    def product_of(self, a: Named, b: Named, summed: str) -> Named:
        """The product of two tensors, summed over these letters."""
        c = self.choices
        shared = [x for x in a.letters if x in b.letters and x not in summed]
        left = [x for x in a.letters if x not in b.letters]
        right = [x for x in b.letters if x not in a.letters]
        style = c.pick(["generic", "contract", "matmul", "matmul"])
        if style == "matmul":
            parts = ["".join(part) for part in (shared, left, right)]
            return self._matmul(a, b, parts, summed, not shared and c.chance(60))
        a, b = self.split(self.noise(a)), self.split(self.noise(b))
        outs = self.shuffled([*shared, *left, *right], 100)
        loops = self.shuffled([*outs, *summed], 50)
        number = {x: i for i, x in enumerate(loops)}
        pair = [(t.value, [number[x] for x in t.dims]) for t in (a, b)]
        if c.chance(30):
            pair.reverse()
        values, places = [x for x, _ in pair], [m for _, m in pair]
        out_map, init = [number[x] for x in outs], self.out(outs, fill=0)
        if style == "contract":
            return Named(self._contract(values, places, out_map, init), tuple(outs))
        body = ["%p = arith.mulf %in0, %in1 : f32", "%t = arith.addf %out, %p : f32"]
        return Named(self.generic(values, places, init, out_map, body, "%t"), tuple(outs))

    def _matmul(self, a: Named, b: Named, parts: Sequence[str], summed: str, plain: bool) -> Named:
        """linalg.matmul where `plain`, else linalg.batch_matmul; the second factor may lie
        transposed."""
        shared, left, right = parts
        batch = [] if plain else [shared]
        turned = self.choices.chance(40)
        x = self.arranged(a, [*batch, left, summed]).value
        y = self.arranged(b, [*batch, right, summed] if turned else [*batch, summed, right]).value
        init = self.out([*batch, left, right], fill=0)
        first = list(range(len(batch)))
        m, n, k = (len(batch) + i for i in range(3))
        places = ([*first, m, k], [*first, n, k], [*first, m, n])
        texts = ", ".join(_map(len(batch) + 3, dims) for dims in places)
        maps, name = f" indexing_maps = [{texts}]" if turned else "", self.fresh()
        self.line(
            f"{name} = linalg.{'matmul' if plain else 'batch_matmul'}{maps} "
            f"ins({x.name}, {y.name} : {x.type}, {y.type}) outs({init.name} : {init.type}) "
            f"-> {init.type}"
        )
        value = Value(name, init.shape, init.dynamic, "f32")
        return Named(value, (*batch, left, right))

    def shuffled(self, items: Sequence[str], percent: int) -> list[str]:
        if not self.choices.chance(percent):
            return list(items)
        return [items[i] for i in self.choices.order(len(items))]

    def ew(
        self,
        t: Named,
        others: Sequence[Named],
        body: Sequence[str],
        result: str,
        element: str = "f32",
    ) -> Named:
        """An elementwise generic: %in0 of t, %in1.. of others."""
        c = self.choices
        main = t
        used = []
        fits = all(
            all(set(dim) <= set(o.letters) or not set(dim) & set(o.letters) for dim in main.dims)
            for o in others
        )
        if not fits:
            main = self.split(main)
        for o in others:
            have = [dim for dim in main.dims if dim and set(dim) <= set(o.letters)]
            have = [have[i] for i in c.order(len(have))] if c.chance(30) else have
            used.append((self.arranged(o, have), have))
        loops = c.order(len(main.dims)) if c.chance(25) else list(range(len(main.dims)))
        outs = c.order(len(main.dims)) if c.chance(25) else list(range(len(main.dims)))
        # main dim i has loop loops[i]; the result's dim j has loop loops[outs[j]]
        dims = [main.dims[i] for i in outs]
        init = self.out(dims, element)
        maps = [loops] + [[loops[main.dims.index(dim)] for dim in have] for _, have in used]
        v = self.generic(
            [main.value, *(o.value for o, _ in used)],
            maps,
            init,
            [loops[i] for i in outs],
            body,
            result,
        )
        return Named(v, tuple(dims))

    def number(self, value: float, element="f32") -> str:
        name = self.fresh("n")
        infinite = {"f32": "0xFF800000", "f16": "0xFC00", "bf16": "0xFF80"}
        text = infinite[element] if value == -math.inf else f"{value:.9e}"
        self.line(f"{name} = arith.constant {text} : {element}")
        return name

    def subset(self, letters: str, must: str = "") -> str:
        c = self.choices
        found = "".join(x for x in letters if c.chance(45))
        if must and not set(found) & set(must):
            found += c.pick(must)
        return found

    # scores

    def step(self, t: Named) -> Named:
        """What models do with scores, and some things that they do not."""
        kinds = [self.scaled] * 4 + [self.biased] * 3 + [self.capped, self.clamped, self.noise]
        kinds += [self.multiplied, self.narrowed, self.by_position, self.by_position]
        kinds += [self.hidden, self.hidden, self.masked, self.masked, self.masked_in_few_bits]
        return self.choices.pick(kinds)(t)

    def scaled(self, t: Named) -> Named:
        word = self.choices.pick(
            ["mulf %in0, {}", "mulf {}, %in0", "divf %in0, {}", "addf %in0, {}"]
        )
        if self.choices.chance(15):
            return self.ew(t, [], ["%r = arith.negf %in0 : f32"], "%r")
        number = self.number(self.choices.pick([0.5, -0.5, 2.0, 0.125]))
        return self.ew(t, [], [f"%r = arith.{word.format(number)} : f32"], "%r")

    def biased(self, t: Named) -> Named:
        letters = self.subset(t.letters) or t.letters[:1]
        static = "".join(x for x in letters if x not in self.dynamic_letters)
        if static and self.choices.chance(25):
            other = Named(self.dense([self.size_by[x] for x in static]), tuple(static))
        else:
            other = self.arg(letters)
        words = ["addf %in0, %in1", "addf %in1, %in0", "subf %in0, %in1", "subf %in1, %in0"]
        return self.ew(t, [other], [f"%r = arith.{self.choices.pick(words)} : f32"], "%r")

    def multiplied(self, t: Named) -> Named:
        other = self.arg(self.subset(t.letters) or t.letters[:1])
        return self.ew(t, [other], ["%r = arith.mulf %in0, %in1 : f32"], "%r")

    def capped(self, t: Named) -> Named:
        inverse, cap = self.number(0.5), self.number(2.0)
        body = [
            f"%a = arith.mulf %in0, {inverse} : f32",
            "%b = math.tanh %a : f32",
            f"%r = arith.mulf %b, {cap} : f32",
        ]
        return self.ew(t, [], body, "%r")

    def clamped(self, t: Named) -> Named:
        number = self.number(self.choices.pick([0.25, -0.25]))
        word = self.choices.pick(["maximumf", "minimumf"])
        return self.ew(t, [], [f"%r = arith.{word} %in0, {number} : f32"], "%r")

    def narrowed(self, t: Named) -> Named:
        narrow = self.ew(t, [], ["%r = arith.truncf %in0 : f32 to f16"], "%r", "f16")
        return self.ew(self.noise(narrow), [], ["%r = arith.extf %in0 : f16 to f32"], "%r")

    def hidden(self, t: Named) -> Named:
        """Keys hidden where an argument is large; rows may see none, or all be hidden."""
        must = self.roles["keys"] if self.choices.chance(85) else ""
        other = self.arg(self.subset(t.letters, must) or t.letters[:1])
        bound, low = self.number(0.3), self.number(self.choices.pick(HIDDEN))
        test, chosen = self.choices.pick([("ogt", f"{low}, %in0"), ("olt", f"%in0, {low}")])
        body = [
            f"%c = arith.cmpf {test}, %in1, {bound} : f32",
            f"%r = arith.select %c, {chosen} : f32",
        ]
        return self.ew(t, [other], body, "%r")

    def masked(self, t: Named, kind: str = "f32") -> Named:
        """A mask that is added: an argument, or made of one that is large where it hides."""
        c = self.choices
        must = self.roles["keys"] if c.chance(85) else ""
        letters = self.subset(t.letters, must) or t.letters[:1]
        low = c.pick({"f32": ADDED, "f16": (-65504.0,), "bf16": (-1e4, -1e9, -3e38)}[kind])
        if c.chance(50):
            return self.ew(
                t,
                [self.mask(letters, low, kind)],
                [f"%r = arith.addf %in0, %in1 : {kind}"],
                "%r",
                kind,
            )
        numbers = [self.number(x, kind) for x in (low, 0.0)]
        body = [
            f"%c = arith.cmpf ogt, %in1, {self.number(0.3)} : f32",
            f"%m = arith.select %c, {', '.join(numbers)} : {kind}",
            f"%r = arith.addf %in0, %m : {kind}",
        ]
        return self.ew(t, [self.arg(letters)], body, "%r", kind)

    def mask(self, letters: str, low: float, kind: str) -> Named:
        """An argument that is `low` here and there, or in the first half of a dim, as padding on
        the left is, and 0 elsewhere."""
        mask = self.arg(letters, kind)
        shape, name = mask.value.shape, mask.value.name

        def fill(rng: np.random.Generator) -> np.ndarray:
            hides = rng.random(shape) < 0.3
            if shape and rng.random() < 0.5:
                dim = rng.integers(len(shape))
                hides = np.indices(shape)[dim] < (shape[dim] + 1) // 2
            return np.where(hides, low, 0).astype(NUMBERS[kind])

        self.fills[name] = fill
        return mask

    def masked_in_few_bits(self, t: Named) -> Named:
        """Scores in 16 bits, whose masks sum up to infinity, or to a number that rounds them."""
        c = self.choices
        kind = c.pick(["f16", "f16", "bf16"])
        t = self.ew(t, [], [f"%r = arith.truncf %in0 : f32 to {kind}"], "%r", kind)
        if c.chance(40):
            low = self.number({"f16": -65504.0, "bf16": -3e38}[kind], kind)
            other = self.arg(self.subset(t.letters, self.roles["keys"]))
            body = [
                f"%c = arith.cmpf ogt, %in1, {self.number(0.3)} : f32",
                f"%r = arith.select %c, {low}, %in0 : {kind}",
            ]
            t = self.ew(t, [other], body, "%r", kind)
        for _ in range(c.pick([0, 1, 1, 2])):
            t = self.masked(t, kind)
        return self.ew(t, [], [f"%r = arith.extf %in0 : {kind} to f32"], "%r")

    def by_position(self, t: Named) -> Named:
        """A causal mask, or a bias of the distance."""
        t = self.split(t)
        rows = [i for i, x in enumerate(t.dims) if x in self.roles["rows"]]
        keys = [i for i, x in enumerate(t.dims) if x in self.roles["keys"]]
        if not rows or not keys:
            return t
        i, j = self.choices.pick(rows), self.choices.pick(keys)
        body = [f"%i = linalg.index {i} : index", f"%j = linalg.index {j} : index"]
        if self.choices.chance(40):
            body += [
                "%d = arith.subi %j, %i : index",
                "%e = arith.index_cast %d : index to i32",
                "%f = arith.sitofp %e : i32 to f32",
                "%r = arith.addf %in0, %f : f32",
            ]
        else:
            low = self.number(self.choices.pick(HIDDEN))
            body += [
                "%c = arith.cmpi uge, %i, %j : index",
                f"%r = arith.select %c, %in0, {low} : f32",
            ]
        dims = range(len(t.dims))
        return Named(self.generic([t.value], [dims], self.out(t.dims), dims, body, "%r"), t.dims)

    def reduced(self, t: Named, over: str, word: str, start: float) -> Named:
        t = self.split(t)
        left = [x for x in t.dims if x not in over]
        left = [left[i] for i in self.choices.order(len(left))] if self.choices.chance(30) else left
        loops = (
            self.choices.order(len(t.dims)) if self.choices.chance(25) else list(range(len(t.dims)))
        )
        place = {x: loops[i] for i, x in enumerate(t.dims)}
        init = self.out(left, fill=start)
        v = self.generic(
            [t.value],
            [loops],
            init,
            [place[x] for x in left],
            [f"%r = arith.{word} %in0, %out : f32"],
            "%r",
        )
        return Named(v, tuple(left))

    def softmax(self, t: Named, late: bool = False) -> tuple[Named, Named | None]:
        """Weights of scores; with `late` they may come undivided, beside their sum."""
        c = self.choices
        keys = "".join(x for x in t.letters if x in self.roles["keys"])
        if c.chance(5):
            # Along another dim.
            keys = self.subset(t.letters) or t.letters[:1]
        if c.chance(25) and not (len(keys) > 1 and set(keys) & self.dynamic_letters):
            return self._named_softmax(t, keys), None
        power = f"%r = math.{c.pick(['exp', 'exp', 'exp2'])}"
        top = self.largest(t, keys) if c.chance(80) else None
        if top is None or not top.dims:
            e = self.ew(t, [], [f"{power} %in0 : f32"], "%r")
        elif c.chance(60):
            e = self.ew(t, [top], ["%x = arith.subf %in0, %in1 : f32", f"{power} %x : f32"], "%r")
        else:
            d = self.noise(self.ew(t, [top], ["%x = arith.subf %in0, %in1 : f32"], "%x"))
            e = self.ew(d, [], [f"{power} %in0 : f32"], "%r")
        if c.chance(8):
            e = self.chosen(e, keys)
        e = self.noise(e)
        total = self.reduced(self.noise(e), keys, "addf", 0.0)
        outside = set(total.dims) <= {*"".join(self.roles[x] for x in ("batch", "group", "rows"))}
        return (e, total) if late and outside else (self.divided(e, total), None)

    def divided(self, e: Named, total: Named) -> Named:
        c = self.choices
        if not total.dims:
            return self.ew_scalar(e, total)
        if c.chance(60):
            return self.ew(e, [total], ["%r = arith.divf %in0, %in1 : f32"], "%r")
        inverse = self.ew(total, [], [f"%r = arith.divf {self.number(1.0)}, %in0 : f32"], "%r")
        order = c.pick(["%in0, %in1", "%in1, %in0"])
        return self.ew(e, [inverse], [f"%r = arith.mulf {order} : f32"], "%r")

    def largest(self, t: Named, keys: str) -> Named:
        """The maximum of scores over the keys, or, rarely, another number for each row."""
        c = self.choices
        if c.chance(5):
            keys = self.subset(t.letters) or t.letters[:1]
        if c.chance(5):
            t = self.step(t)
        start = c.pick([-math.inf, LOWEST])
        top = self.reduced(self.noise(t), keys, c.pick(["maximumf", "maxnumf"]), start)
        if top.dims and c.chance(20):
            number = self.number(c.pick([-math.inf, -50.0]))
            top = self.ew(top, [], [f"%r = arith.maximumf %in0, {number} : f32"], "%r")
        return top

    def chosen(self, e: Named, keys: str) -> Named:
        """Exponentials, or 0 where an argument is large; the sum counts what is left."""
        other = self.arg(self.subset(e.letters, keys))
        body = [
            f"%c = arith.cmpf olt, %in1, {self.number(1.5)} : f32",
            f"%r = arith.select %c, %in0, {self.number(0.0)} : f32",
        ]
        return self.ew(e, [other], body, "%r")

    def _named_softmax(self, t: Named, keys: str) -> Named:
        others = self.grouping(self.shuffled([x for x in t.letters if x not in keys], 100))
        at = self.choices.integer(0, len(others))
        t = self.arranged(t, [*others[:at], keys, *others[at:]])
        init, name = self.out(t.dims), self.fresh()
        self.line(
            f"{name} = linalg.softmax dimension({at}) ins({t.value.name} : {t.value.type}) "
            f"outs({init.name} : {init.type}) -> {init.type}"
        )
        return Named(Value(name, init.shape, init.dynamic, "f32"), t.dims)

    def ew_scalar(self, e: Named, total: Named) -> Named:
        init = self.out(e.dims)
        dims = list(range(len(e.dims)))
        v = self.generic(
            [e.value, total.value],
            [dims, []],
            init,
            dims,
            ["%r = arith.divf %in0, %in1 : f32"],
            "%r",
        )
        return Named(v, e.dims)

    def weighted(self, w: Named) -> Named:
        """What models do with weights: rounding, and things that attention is not."""
        c = self.choices
        if c.chance(10):
            narrow = self.ew(w, [], ["%r = arith.truncf %in0 : f32 to f16"], "%r", "f16")
            w = self.ew(self.noise(narrow), [], ["%r = arith.extf %in0 : f16 to f32"], "%r")
        if c.chance(4):
            w = self.ew(w, [], [f"%r = arith.mulf %in0, {self.number(0.5)} : f32"], "%r")
        if c.chance(4):
            other = self.arg(self.subset(w.letters, self.roles["keys"]))
            w = self.ew(w, [other], ["%r = arith.mulf %in0, %in1 : f32"], "%r")
        return w

    def operand(self, letters: str) -> Named:
        """An argument in f32, or at times one made so of another type."""
        c = self.choices
        kind = c.pick(["f32", "f32", "f32", "f16", "bf16", "i8"]) if self.wide else "f32"
        t = self.arg(letters, kind)
        if kind == "f32":
            return t
        if kind != "i8":
            return self.ew(t, [], [f"%r = arith.extf %in0 : {kind} to f32"], "%r")
        shape, name = t.value.shape, self.arguments[-1].name
        self.fills[name] = lambda rng: rng.integers(-8, 9, shape, np.int8)
        scale = self.arg(self.subset(letters) or letters[:1])
        body = [
            "%f = arith.sitofp %in0 : i8 to f32",
            f"%g = arith.mulf %f, {self.number(0.25)} : f32",
            "%r = arith.mulf %g, %in1 : f32",
        ]
        return self.ew(t, [scale], body, "%r")

    def attention(self) -> None:
        c, r = self.choices, self.roles
        batch, group = r["batch"], r["group"]
        q = self.operand(batch + group + r["rows"] + r["depth"])
        shared = group if c.chance(70) else ""
        own = "" if shared else group
        k = self.operand(batch + own + r["keys"] + r["depth"])
        v = self.operand(batch + own + r["keys"] + r["width"])
        if c.chance(20):
            q = self.ew(q, [], [f"%r = arith.mulf %in0, {self.number(0.5)} : f32"], "%r")
        if c.chance(15):
            q = self.turned_by_position(q)
            k = self.turned_by_position(k) if c.chance(50) else k
        repeat = shared and c.chance(50)
        if repeat:
            k, v = self.noise(self.spread(k, shared)), self.noise(self.spread(v, shared))
        elif shared and c.chance(30):
            v = self.noise(self.spread(v, shared))
        q, k, v = self.noise(q), self.noise(k), self.noise(v)
        pair = (q, k) if c.chance(60) else (k, q)
        s = self.product_of(*pair, r["depth"])
        for _ in range(c.pick([0, 1, 1, 2, 3, 4])):
            s = self.step(s)
        self.returned = [self.average(s, v)]
        if c.chance(8):
            # Scores that two softmaxes read.
            self.returned.append(self.average(self.step(s), v))

    def average(self, s: Named, v: Named) -> Value:
        """What V comes to, weighted by a softmax of scores."""
        c = self.choices
        w, total = self.softmax(self.noise(s), late=c.chance(15))
        w = self.weighted(self.noise(w))
        pair = (w, v) if c.chance(60) else (v, w)
        o = self.noise(self.product_of(*pair, self.roles["keys"]))
        o = o if total is None else self.divided(o, total)
        if c.chance(20):
            o = self.ew(o, [], [f"%r = arith.addf %in0, {self.number(0.5)} : f32"], "%r")
        return o.value

    def turned_by_position(self, t: Named) -> Named:
        """As interleaved rotary embeddings do: pairs of neighbours along a dim of the head, (a, b)
        as (-b, a), added to the tensor."""
        c = self.choices
        fits = [x for x in self.roles["depth"] if self.size_by[x] % 2 == 0]
        fits = [x for x in fits if x not in self.dynamic_letters]
        t = self.split(t)
        if not fits:
            return t
        x = c.pick(fits)
        t = self.turned(t, [*(i for i, d in enumerate(t.dims) if d != x), t.dims.index(x)])
        *shape, size = t.value.shape
        *known, _ = t.value.dynamic
        halves = [self._every_other(t.value, first) for first in (1, 0)]
        kept = range(len(shape) + 1)
        negated = self.empty((*shape, size // 2), (*known, ""), "f32")
        body = ["%r = arith.negf %in0 : f32"]
        halves[0] = self.generic([halves[0]], [kept], negated, kept, body, "%r")
        groups = [*([i] for i in kept[:-1]), [len(shape), len(shape) + 1]]
        half = (*shape, size // 2, 1), (*known, "", "")
        parts = [self.reshaped("expand_shape", x, groups, *half) for x in halves]
        both = Value(self.fresh(), (*shape, size // 2, 2), half[1], "f32")
        names, kinds = (
            ", ".join(text) for text in zip(*((x.name, x.type) for x in parts), strict=True)
        )
        self.line(
            f"{both.name} = tensor.concat dim({len(shape) + 1}) {names} : ({kinds}) -> {both.type}"
        )
        pairs = self.reshaped("collapse_shape", both, groups, t.value.shape, t.value.dynamic)
        return self.ew(t, [Named(pairs, t.dims)], ["%r = arith.addf %in0, %in1 : f32"], "%r")

    def _every_other(self, x: Value, first: int) -> Value:
        *shape, size = x.shape
        name, rank = self.fresh(), len(x.shape)
        result = Value(name, (*shape, size // 2), x.dynamic, x.element)
        offsets = [*([0] * (rank - 1)), first]
        sizes = [known or str(s) for s, known in zip(result.shape, x.dynamic, strict=True)]
        strides = [*([1] * (rank - 1)), 2]
        self.line(
            f"{name} = tensor.extract_slice {x.name}{offsets} [{', '.join(sizes)}] {strides} : "
            f"{x.type} to {result.type}"
        )
        return result


def random_written(
    choices: Choices, name: str = "main", regular: bool = False, wide: bool = False
) -> Written:
    f = Written(name, choices, may_be_dynamic=choices.chance(25), regular=regular)
    f.wide = wide
    f.setup()
    f.attention()
    if choices.chance(10) and not f.may_be_dynamic:
        f.wrap(0, choices.pick(["if", "for"]))
    return f
