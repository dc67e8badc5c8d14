"""Random products of rows with weights, and what models do behind them: alone, several of the same
rows, projections alike, MLPs, batches with weights of their own, rows in groups, caches that are
returned, and attention between projections."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from random_modules import NUMBERS, Choices, Function, Value, _map

FEW_ROWS, ROWS = (1, 2, 3, 7, 8, 9, 16), (17, 31, 64, 65, 128, 129, 200, 300, 577)
MANY_ROWS = (1000, 1777, 3000)
# Columns and depths: those that kernels take, and others.
EVEN, ODD = (8, 16, 64, 72, 128, 136, 200, 264, 328, 520), (1, 7, 33, 100, 130, 250)
# Multiplications of a product, at most.
MOST_WORK = 6e7
STEPS = ("bias", "bias", "gelu", "gelu_tanh", "silu", "add", "add", "multiply", "scale", "casts")
STEPS += ("relu", "quick_gelu", "factor", "gate", "stream")
# What models do, in their order.
ORDERS = (
    ("bias", "gelu"),
    ("bias", "gelu_tanh"),
    ("bias", "silu"),
    ("bias", "add"),
    ("bias", "gelu", "add"),
    ("silu", "multiply"),
    ("add",),
    ("scale",),
    ("bias", "relu"),
    ("bias", "quick_gelu"),
    ("bias", "factor", "add"),
    ("bias", "gate", "add"),
    ("scale", "bias"),
    ("bias", "stream"),
)
# What a step computes, as %r of %in0 and %in1, in type T.
BODIES = {
    "bias": ["%r = arith.addf %in0, %in1 : T"],
    "add": ["%r = arith.addf %in0, %in1 : T"],
    "multiply": ["%r = arith.mulf %in0, %in1 : T"],
    "factor": ["%r = arith.mulf %in0, %in1 : T"],
    "gate": ["%r = arith.mulf %in0, %in1 : T"],
    "shift": ["%r = arith.addf %in0, %in1 : T"],
    "scale": ["%h = arith.constant 0.125 : T", "%r = arith.mulf %in0, %h : T"],
    "gelu": [
        "%one = arith.constant 1.0 : T",
        "%half = arith.constant 0.5 : T",
        "%two = arith.constant 2.0 : T",
        "%root = math.sqrt %two : T",
        "%q = arith.divf %in0, %root : T",
        "%e = math.erf %q : T",
        "%s = arith.addf %e, %one : T",
        "%h = arith.mulf %s, %half : T",
        "%r = arith.mulf %in0, %h : T",
    ],
    "gelu_tanh": [
        "%one = arith.constant 1.0 : T",
        "%half = arith.constant 0.5 : T",
        "%three = arith.constant 3.0 : T",
        "%small = arith.constant 0.044715 : T",
        "%root = arith.constant 0.79788456 : T",
        "%cube = math.powf %in0, %three : T",
        "%b = arith.mulf %cube, %small : T",
        "%c = arith.addf %in0, %b : T",
        "%d = arith.mulf %c, %root : T",
        "%t = math.tanh %d : T",
        "%s = arith.addf %t, %one : T",
        "%h = arith.mulf %in0, %half : T",
        "%r = arith.mulf %h, %s : T",
    ],
    "relu": [
        "%zero = arith.constant 0.0 : T",
        "%c = arith.cmpf ugt, %in0, %zero : T",
        "%r = arith.select %c, %in0, %zero : T",
    ],
    "quick_gelu": [
        "%one = arith.constant 1.0 : T",
        "%slope = arith.constant 1.702 : T",
        "%s = arith.mulf %in0, %slope : T",
        "%n = arith.negf %s : T",
        "%x = math.exp %n : T",
        "%d = arith.addf %x, %one : T",
        "%g = arith.divf %one, %d : T",
        "%r = arith.mulf %in0, %g : T",
    ],
    "silu": [
        "%one = arith.constant 1.0 : T",
        "%n = arith.negf %in0 : T",
        "%x = math.exp %n : T",
        "%d = arith.addf %x, %one : T",
        "%g = arith.divf %one, %d : T",
        "%r = arith.mulf %in0, %g : T",
    ],
}


class Products(Function):
    """A function of products whose rows, weights and results are of one type, `kind`."""

    kind: str = "f16"

    def setup(self) -> None:
        c = self.choices
        self.kind = c.pick(["f16", "f16", "f16", "bf16", "bf16", "f32"])
        rows = c.pick(c.pick([FEW_ROWS, ROWS, ROWS, MANY_ROWS]))
        batch = c.pick([1, 2, 3])
        self.lead = c.pick([(rows,), (1, rows), (batch, max(1, rows // batch))])
        self.grows = c.chance(20)

    def rows(self, k: int) -> Value:
        """An argument (lead, k); the sizes of its rows may be unknown."""
        name, shape = f"%arg{len(self.arguments)}", (*self.lead, k)
        marks = ["?" if self.may_be_dynamic and self.choices.chance(60) else "" for _ in self.lead]
        given = Value(name, shape, (*marks, ""), self.kind)
        self.arguments.append(given)
        if self.grows:
            slope = np.linspace(0.01, 4, k)
            self.fills[name] = lambda rng: self.rounded(rng.standard_normal(shape) * slope)
        known = [self.dim_of(given, dim) if mark else "" for dim, mark in enumerate(marks)]
        return Value(name, shape, (*known, ""), self.kind)

    def dim_of(self, x: Value, dim: int) -> str:
        size = self.fresh("s")
        self.line(f"{size} = tensor.dim {x.name}, {self.constant(dim)} : {x.type}")
        self.sizes[size] = x.shape[dim]
        return size

    def rounded(self, array: np.ndarray) -> np.ndarray:
        return array.astype(NUMBERS[self.kind])

    def size(self, other: int) -> int:
        """A number of columns or a depth beside another."""
        sizes = ODD if self.choices.chance(15) else EVEN
        most = MOST_WORK / (math.prod(self.lead) * other)
        return self.choices.pick([size for size in sizes if size <= most] or [8])

    def weights(self, *shape: int, depth: int) -> Value:
        made = self.argument(shape, self.kind)
        self.fills[made.name] = lambda rng: self.rounded(rng.standard_normal(shape) / depth**0.5)
        return made

    # products

    def times_weights(self, x: Value, n: int) -> Value:
        """x (..., k) times weights, in a way that front ends have, rounded to its type."""
        kinds = [self.as_linear, self.as_linear, self.by_maps, self.of_scalars, self.flattened]
        kinds += [self.as_addmm] * (self.kind != "f32")
        if len(x.shape) == 3:
            kinds.append(self.batched)
        return self.choices.pick(kinds)(x, n)

    def as_linear(self, x: Value, n: int) -> Value:
        """As a linear layer comes from torch: weights (n, k) transposed, and repeated for a
        batch."""
        k, batch = x.shape[-1], x.shape[:-2]
        w = self.transpose(self.weights(n, k, depth=k), [1, 0])
        if batch:
            into = self.empty((*batch, k, n), (*x.dynamic[:-2], "", ""), self.kind)
            w = self.generic([w], [[1, 2]], into, [0, 1, 2], [], "%in0")
        return self.named("linalg.batch_matmul" if batch else "linalg.matmul", x, w, n)

    def by_maps(self, x: Value, n: int) -> Value:
        """A contraction whose maps say how weights lie."""
        k, rank = x.shape[-1], len(x.shape)
        by_columns = self.choices.chance(70)
        w = self.weights(*((n, k) if by_columns else (k, n)), depth=k)
        lead = list(range(rank - 1))
        wmap = [rank - 1, rank] if by_columns else [rank, rank - 1]
        maps = [[*lead, rank], wmap, [*lead, rank - 1]]
        text = ", ".join(_map(rank + 1, m) for m in maps)
        word = "linalg.contract" if rank == 3 else "linalg.matmul"
        return self.named(f"{word} indexing_maps = [{text}]", x, w, n)

    def of_scalars(self, x: Value, n: int) -> Value:
        """A loop that multiplies and adds."""
        k, rank = x.shape[-1], len(x.shape)
        w = self.weights(n, k, depth=k)
        lead, wide = list(range(rank - 1)), self.kind != "f32"
        body = [f"%w{i} = arith.extf %in{i} : {self.kind} to f32" for i in range(2 * wide)]
        pair = "%w0, %w1" if wide else "%in0, %in1"
        body += [f"%p = arith.mulf {pair} : f32", "%t = arith.addf %out, %p : f32"]
        into = self.filled((*x.shape[:-1], n), (*x.dynamic[:-1], ""), "f32")
        maps = [[*lead, rank], [rank - 1, rank]]
        return self.narrowed(self.generic([x, w], maps, into, [*lead, rank - 1], body, "%t"))

    def flattened(self, x: Value, n: int) -> Value:
        """All rows in one dim, weights (k, n), and back."""
        k = x.shape[-1]
        w = self.weights(k, n, depth=k)
        if len(x.shape) == 2:
            return self.named("linalg.matmul", x, w, n)
        groups, lead, known = [[0, 1], [2]], x.shape[:-1], x.dynamic[:-1]
        total = self.product(known, lead)
        flat = self.reshaped("collapse_shape", x, groups, (math.prod(lead), k), (total, ""))
        made = self.named("linalg.matmul", flat, w, n)
        return self.reshaped("expand_shape", made, groups, (*lead, n), (*known, ""))

    def as_addmm(self, x: Value, n: int) -> Value:
        """As torch decomposes addmm: rows, weights (k, n) and a bias widened to f32, all rows in
        one dim."""
        k, lead, known = x.shape[-1], x.shape[:-1], x.dynamic[:-1]
        groups, total = [[0, 1], [2]], self.product(known, lead)
        flat = x
        if len(lead) == 2:
            flat = self.reshaped("collapse_shape", x, groups, (math.prod(lead), k), (total, ""))
        w, b = self.weights(k, n, depth=k), self.argument((n,), self.kind)
        wide = [self.cast_to(each, "f32") for each in (flat, w, b)]
        made = self.named("linalg.matmul", wide[0], wide[1], n, narrow=False)
        into = self.empty(made.shape, made.dynamic, self.kind)
        body = ["%s = arith.addf %in0, %in1 : f32", f"%r = arith.truncf %s : f32 to {self.kind}"]
        made = self.generic([made, wide[2]], [[0, 1], [1]], into, [0, 1], body, "%r")
        if len(lead) == 1:
            return made
        return self.reshaped("expand_shape", made, groups, (*lead, n), (*known, ""))

    def batched(self, x: Value, n: int) -> Value:
        """Weights of its own for each of a batch."""
        base = Value("", (x.shape[0], x.shape[-1], n), (x.dynamic[0], "", ""), self.kind)
        w = self.like(base, [0, 1, 2])
        factor = x.shape[-1] ** -0.5
        self.fills[w.name] = lambda rng: self.rounded(rng.standard_normal(base.shape) * factor)
        return self.named("linalg.batch_matmul", x, w, n)

    def named(self, op: str, x: Value, w: Value, n: int, narrow: bool = True) -> Value:
        into, name = self.filled((*x.shape[:-1], n), (*x.dynamic[:-1], ""), "f32"), self.fresh()
        self.line(
            f"{name} = {op} ins({x.name}, {w.name} : {x.type}, {w.type}) "
            f"outs({into.name} : {into.type}) -> {into.type}"
        )
        made = Value(name, into.shape, into.dynamic, "f32")
        return self.narrowed(made) if narrow else made

    # what stands behind them

    def narrowed(self, x: Value) -> Value:
        return x if self.kind == x.element else self.cast_to(x, self.kind)

    def cast_to(self, x: Value, kind: str) -> Value:
        dims = range(len(x.shape))
        word = "extf" if kind == "f32" else "truncf"
        body = [f"%r = arith.{word} %in0 : {x.element} to {kind}"]
        return self.generic([x], [dims], self.empty(x.shape, x.dynamic, kind), dims, body, "%r")

    def step(self, x: Value, word: str, other: Value | None = None) -> Value:
        """One elementwise op behind a product, in x's type."""
        dims = list(range(len(x.shape)))
        if word == "casts":
            wide = x if x.element == "f32" else self.cast_to(x, "f32")
            return self.narrowed(self.step(wide, self.choices.pick(["gelu", "silu", "scale"])))
        if word == "stream":  # A residual of more bits, and so the result.
            return self.step(x if x.element == "f32" else self.cast_to(x, "f32"), "add")
        if word in ("bias", "factor"):
            other, maps = self.argument(x.shape[-1:], x.element), [dims, dims[-1:]]
        elif word in ("gate", "shift"):  # Of each sequence, or of each product of a batch.
            across = [dims[0], dims[-1]][-min(2, len(dims) - 1) :]
            other, maps = self.like(x, across), [dims, across]
        else:
            maps = [dims, dims]
        if word in ("add", "multiply") and other is None:
            other = self.like(x, dims)
        given = [x] if other is None else [x, other]
        if other is not None and self.choices.chance(50):
            given, maps = given[::-1], maps[::-1]
        into = self.empty(x.shape, x.dynamic, x.element)
        body = [line.replace(": T", f": {x.element}") for line in BODIES[word]]
        return self.generic(given, maps[: len(given)], into, dims, body, "%r")

    def behind(self, x: Value, most: int = 4) -> Value:
        """x behind steps in an order of models, or in any."""
        c = self.choices
        steps = (
            c.pick(ORDERS) if c.chance(60) else [c.pick(STEPS) for _ in range(c.integer(0, most))]
        )
        for word in steps:
            x = self.step(x, word)
        return x

    # programs

    def one(self) -> None:
        """A product; at times what is in front of its last step is returned, too."""
        k = self.size(8)
        made = self.times_weights(self.rows(k), self.size(k))
        self.returned = [self.behind(made)]
        if self.choices.chance(20):
            self.returned.append(made)

    def several(self) -> None:
        """Products of the same rows."""
        k = self.size(8)
        x = self.rows(k)
        count = self.choices.integer(2, 3)
        self.returned = [self.behind(self.times_weights(x, self.size(k)), 2) for _ in range(count)]

    def projections(self) -> None:
        """Q, K and V: products of the same rows, written alike, each with a bias or none."""
        k = self.size(8)
        x, ways = self.rows(k), [self.as_linear, self.by_maps, self.of_scalars]
        times = self.choices.pick(ways)
        for _ in range(self.choices.integer(2, 4)):
            made = times(x, self.size(k))
            self.returned.append(self.step(made, "bias") if self.choices.chance(50) else made)

    def feed_forward(self) -> None:
        """Up, an activation or a gate, down, and the residual."""
        c, k = self.choices, self.size(64)
        x, hidden = self.rows(k), self.size(k)
        bias = c.chance(60)

        def linear(given: Value, n: int) -> Value:
            made = self.times_weights(given, n)
            return self.step(made, "bias") if bias else made

        word, kind = c.pick(["gelu", "gelu_tanh", "silu"]), c.pick(["one", "one", "two", "halves"])
        both = linear(x, 2 * hidden) if kind == "halves" else None
        h = self.step(linear(x, hidden) if both is None else self.half(both, 0), word)
        if kind != "one":
            other = linear(x, hidden) if both is None else self.half(both, hidden)
            h = self.step(h, "multiply", other)
        made = linear(h, k)
        self.returned = [self.step(made, "add", x) if c.chance(80) else made]

    def half(self, x: Value, start: int) -> Value:
        """Half of the columns, from `start` on."""
        shape = (*x.shape[:-1], x.shape[-1] // 2)
        made = Value(self.fresh(), shape, x.dynamic, x.element)
        zeros, ones = ", ".join(["0"] * (len(shape) - 1)), ", ".join(["1"] * len(shape))
        sizes = ", ".join(k or str(s) for s, k in zip(shape, x.dynamic, strict=True))
        text = f"{x.name}[{zeros}, {start}] [{sizes}] [{ones}]"
        self.line(f"{made.name} = tensor.extract_slice {text} : {x.type} to {made.type}")
        return made

    def attention_block(self) -> None:
        """Q, K and V of the same rows, heads apart, attention, heads joined, a product and the
        residual."""
        c = self.choices
        heads, head, width = c.pick([1, 2, 4]), c.pick([16, 64, 128]), c.pick([64, 72, 128, 256])
        rows = min(self.lead[-1], 300)
        self.lead = (*(min(size, 2) for size in self.lead[:-1]), rows)
        x = self.rows(width)
        q, k, v = (self.heads(self.projected(x, heads * head), heads) for _ in range(3))
        batch = ["b", "h"][2 - len(q.shape[:-2]) :]
        maps = [[*batch, *dims] for dims in (("m", "k1"), ("k2", "k1"), ("k2", "n"))]
        scale = self.fresh("scale")
        self.line(f"{scale} = arith.constant {head**-0.5} : {self.kind}")
        ins = [(value.name, value.type) for value in (q, k, v)] + [(scale, self.kind)]
        out = self.empty(q.shape, q.dynamic, self.kind)
        loops = [*batch, "m", "n", "k1", "k2"]
        all_maps = [*maps, [], [*batch, "m", "n"]]
        (made,) = self.attention_op(loops, all_maps, ins, [out], [])
        rank = len(made.shape)
        order = [*range(rank - 3), rank - 2, rank - 3, rank - 1]
        apart = self.transpose(made, order)
        groups = [*([i] for i in range(rank - 2)), [rank - 2, rank - 1]]
        flat = (*apart.shape[:-2], heads * head), (*apart.dynamic[:-2], "")
        joined = self.reshaped("collapse_shape", apart, groups, *flat)
        self.returned = [self.step(self.projected(joined, width), "add", x)]

    def projected(self, x: Value, n: int) -> Value:
        made = self.times_weights(x, n)
        return self.step(made, "bias") if self.choices.chance(40) else made

    def batch(self) -> None:
        """Products with operands of their own: experts, which may share rows or be a gate; scores;
        heads of latents, which are read out of rows and written among these."""
        c = self.choices
        k, n = self.size(8), self.size(64)
        count, rows = c.integer(1, 5), min(c.pick(c.pick([FEW_ROWS, ROWS])), int(MOST_WORK / n / k))
        self.lead = (count, max(1, rows // count))
        x, order = self.rows(k), ["b", "m", "k"]
        if c.chance(30):  # (rows, batch, k)
            self.lead = self.lead[::-1]
            x, order = self.rows(k), ["m", "b", "k"]
        elif c.chance(25):
            self.lead = self.lead[1:]
            x, order = self.rows(k), ["m", "k"]
        if c.chance(30) and "b" in order:
            x, order = self.transpose(x, [1, 0, 2]), [order[1], order[0], order[2]]
        batch = x.dynamic[order.index("b")] if "b" in order else ""
        base = Value("", (count, n, k), (batch, "", ""), self.kind)
        by_columns = c.chance(60)
        w = self.like(base, [0, 1, 2] if by_columns else [0, 2, 1])
        self.fills[w.name] = lambda rng: self.rounded(rng.standard_normal(w.shape) / k**0.5)
        written = ["b", "m", "n"] if c.chance(80) else ["m", "b", "n"]
        size = {"b": (count, batch), "n": (n, "")}
        size["m"] = (x.shape[order.index("m")], x.dynamic[order.index("m")])
        shape, known = zip(*(size[loop] for loop in written), strict=True)
        loops = ["b", "m", "n", "k"]
        lies = ["b", "n", "k"] if by_columns else ["b", "k", "n"]
        maps = [_map(4, [loops.index(loop) for loop in one]) for one in (order, lies, written)]
        into, name = self.filled(shape, known, "f32"), self.fresh()
        self.line(
            f"{name} = linalg.contract indexing_maps = [{', '.join(maps)}] "
            f"ins({x.name}, {w.name} : {x.type}, {w.type}) "
            f"outs({into.name} : {into.type}) -> {into.type}"
        )
        made = Value(name, into.shape, into.dynamic, "f32")
        made = made if c.chance(15) else self.narrowed(made)
        if c.chance(30):
            made = self.step(made, "shift")
        made = self.behind(made, 2)
        self.returned = [self.transpose(made) if c.chance(30) else made]

    def groups(self) -> None:
        """Rows in groups, each with the weights of its group: experts' products, behind which may
        be halves of a gate, and one more product."""
        c, self.kind = self.choices, "bf16" if self.kind == "bf16" else "f16"
        count, k, n = c.integer(1, 9), self.size(8), 2 * self.size(64)
        self.lead = (max(1, min(self.lead[0], int(MOST_WORK / count / n / k))),)
        x, end = self.rows(k), c.pick(["i32", "i64"])
        ends = self.argument((count,), end)
        self.fills[ends.name] = lambda rng: self.ends(rng, count).astype(f"int{end[1:]}")
        of_row = self.groups_of_rows(x, ends)
        made = self.by_group(x, of_row, count, n)
        if c.chance(50):
            gate = self.step(self.half(made, 0), "silu")
            made = self.step(gate, "multiply", self.half(made, n // 2))
            made = self.by_group(made, of_row, count, self.size(n // 2))
        self.returned = [self.behind(made, 2)]

    def ends(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Ends of groups, some of which may be empty; at times rows are behind the last, or an end
        lies outside."""
        rows = self.lead[0]
        ends = np.sort(rng.integers(0, rows + 1, count))
        ends[-1] = rows if rng.integers(3) else ends[-1]
        return ends + rng.integers(-3, 4, count) * (rng.integers(4) == 0)

    def groups_of_rows(self, x: Value, ends: Value) -> Value:
        """The number of each row's group: how many groups end in front of it."""
        zero = self.fresh("z")
        init, name = self.empty(x.shape[:1], x.dynamic[:1], "i64"), self.fresh("f")
        self.line(f"{zero} = arith.constant 0 : i64")
        self.line(
            f"{name} = linalg.fill ins({zero} : i64) outs({init.name} : {init.type}) -> {init.type}"
        )
        wide = ends.element == "i64"
        body = [
            "%row = linalg.index 0 : index",
            "%p = arith.index_cast %row : index to i64",
            *["%e = arith.extsi %in0 : i32 to i64"] * (not wide),
            f"%b = arith.cmpi sge, %p, {'%in0' if wide else '%e'} : i64",
            "%x = arith.extui %b : i1 to i64",
            "%s = arith.addi %x, %out : i64",
        ]
        into = Value(name, init.shape, init.dynamic, "i64")
        return self.generic([ends], [[1]], into, [0], body, "%s")

    def by_group(self, x: Value, of_row: Value, count: int, n: int) -> Value:
        """Rows (m, k) times weights (groups, n, k) or (groups, k, n), as torch's `_grouped_mm` is
        imported: all of them, of which each row keeps that of its group."""
        k, (row, *_), kind = x.shape[1], x.dynamic, self.kind
        by_columns = self.choices.chance(60)
        w = self.weights(*((count, n, k) if by_columns else (count, k, n)), depth=k)
        wide = [f"%w{i} = arith.extf %in{i} : {kind} to f32" for i in range(2)]
        body = [*wide, "%p = arith.mulf %w0, %w1 : f32", "%t = arith.addf %out, %p : f32"]
        shape, known = (count, x.shape[0], n), ("", row, "")
        lies = [0, 2, 3] if by_columns else [0, 3, 2]
        into = self.filled(shape, known, "f32")
        every = self.generic([x, w], [[1, 3], lies], into, [0, 1, 2], body, "%t")
        body = [
            "%g = linalg.index 0 : index",
            "%c = arith.index_cast %g : index to i64",
            "%b = arith.cmpi eq, %in0, %c : i64",
            f"%h = arith.truncf %in1 : f32 to {kind}",
            f"%low = arith.constant 0.0 : {kind}",
            f"%s = arith.select %b, %h, %low : {kind}",
        ]
        into, dims = self.empty(shape, known, kind), [0, 1, 2]
        own = self.generic([of_row, every], [[1], dims], into, dims, body, "%s")
        body = [f"%x = arith.extf %in0 : {kind} to f32", "%s = arith.addf %x, %out : f32"]
        into = self.filled(shape[1:], known[1:], "f32")
        return self.narrowed(self.generic([own], [dims], into, [1, 2], body, "%s"))

    def cache(self) -> None:
        """Heads of a projection in front of its rows, returned."""
        c = self.choices
        heads, head = c.pick([1, 2, 4]), c.pick([16, 64, 80, 128])
        made = self.projected(self.rows(self.size(heads * head)), heads * head)
        if c.chance(20):
            made = self.step(made, c.pick(["gelu", "scale", "factor"]))
        self.returned = [self.heads(made, heads)]

    def heads(self, x: Value, count: int) -> Value:
        """(..., rows, heads and what is in them) with the heads apart, in front of the rows."""
        rank = len(x.shape)
        groups = [*([i] for i in range(rank - 1)), [rank - 1, rank]]
        shape = (*x.shape[:-1], count, x.shape[-1] // count)
        apart = self.reshaped("expand_shape", x, groups, shape, (*x.dynamic, ""))
        return self.transpose(apart, [*range(rank - 2), rank - 1, rank - 2, rank])


PROGRAMS: dict[str, Callable[[Products], None]] = {
    "product": Products.one,
    "several products": Products.several,
    "projections": Products.projections,
    "feed-forward": Products.feed_forward,
    "batch": Products.batch,
    "cache": Products.cache,
    "groups": Products.groups,
    "attention block": Products.attention_block,
}
_TURNS = ("product",) * 5 + ("several products",) + ("feed-forward",) * 2 + ("attention block",) * 2
_TURNS += ("batch",) * 4 + ("cache",) + ("groups",) * 2 + ("projections",) * 2


def random_products(choices: Choices, name: str, turn: int) -> tuple[str, Products]:
    """What kind of program it is, and the program; kinds take turns."""
    family = _TURNS[turn % len(_TURNS)]
    made = Products(name, choices, may_be_dynamic=choices.chance(50))
    made.setup()
    PROGRAMS[family](made)
    return family, made
