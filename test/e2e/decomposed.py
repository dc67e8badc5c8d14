"""Attention written out as products and a softmax, as JAX writes it, and what it computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

BATCH, ROWS, KEYS, DIM, WIDTH = 2, 12, 20, 8, 16
LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Case:
    """One way to write attention. `heads` share K and V in groups of `group`; `mask` hides keys
    by `hidden`: "" none, `causal`, or an argument of i1 with these dims, as `bqk`; with `where`
    exponentials, too, are 0 there. Scores are multiplied by an argument of dims `factor`. A `sink`
    of dims `sunk` is the first or last column of the scores, or its exponential added to their
    sum, or that of 0 (`one`). With `rounded` the product with V is summed up in f32 and rounded to
    `kind` by an op of its own."""

    heads: int = 4
    group: int = 1
    kind: str = "f32"
    mask: str = ""
    hidden: float = LOWEST
    bias: str = ""
    cap: float = 0.0
    where: bool = False
    factor: str | None = None
    sink: str = ""
    sunk: str = "h"
    order: str = "bqhd"
    dims_of_scores: str = "bhqk"
    rounded: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        dims = {"b": BATCH, "q": ROWS, "k": KEYS, "d": DIM, "e": WIDTH}
        return {**dims, "h": self.heads // self.group, "g": self.group, "K": KEYS + 1}


CASES = {
    "plain": Case(),
    "head_major": Case(order="bhqd"),
    "row_major_scores": Case(dims_of_scores="bqhk"),
    "grouped": Case(group=2),
    "multi_query": Case(heads=3, group=3),
    "grouped_scores_in_another_order": Case(group=2, dims_of_scores="gbqhk"),
    "causal": Case(mask="causal", hidden=-1e10),
    "causal_grouped": Case(group=2, mask="causal"),
    "hidden_rows": Case(mask="bqk"),
    "padding": Case(mask="bk", hidden=-1e4),
    "infinite": Case(mask="qk", hidden=float("-inf")),
    "bias": Case(bias="hqk"),
    "bias_with_heads_last": Case(bias="qkh"),
    "bias_and_mask": Case(bias="hqk", mask="bqk", hidden=-1e9),
    "soft_cap": Case(cap=2.0, mask="causal"),
    "softmax_where": Case(mask="bqk", hidden=float("-inf"), where=True),
    "causal_where": Case(mask="causal", hidden=-1e10, where=True),
    "factor_of_heads": Case(factor="h", mask="causal"),
    "factor_of_batch": Case(factor="b", group=2),
    "f16": Case(kind="f16", mask="causal"),
    "sink": Case(sink="last"),
    "sink_first_causal": Case(sink="first", mask="causal"),
    "sink_grouped": Case(sink="last", group=2, sunk="hg", mask="causal"),
    "sink_grouped_without_mask": Case(sink="last", group=4, sunk="hg"),
    "sink_of_rows": Case(sink="last", sunk="bq", bias="hqk"),
    "sink_in_sum": Case(sink="sum", mask="qk", hidden=float("-inf")),
    "sink_of_zero": Case(sink="one", group=2),
    "sink_and_hidden_rows": Case(sink="last", mask="bqk"),
    "sink_and_infinitely_hidden_rows": Case(sink="sum", mask="bqk", hidden=float("-inf")),
    "sink_head_major": Case(sink="last", order="bhqd"),
    "sink_f16": Case(sink="last", kind="f16", mask="causal", group=2, sunk="hg"),
    "f16_rounded": Case(kind="f16", mask="causal", rounded=True),
    "f16_rounded_grouped": Case(kind="f16", group=2, order="bhqd", rounded=True),
}


def tensor(case: Case, dims: str, kind: str) -> str:
    return "tensor<" + "".join(f"{case.sizes[dim]}x" for dim in dims) + f"{kind}>"


class Program:
    """StableHLO text, a line an op; dims are named by letters."""

    def __init__(self, case: Case):
        self.case = case
        self.lines: list[str] = []

    def op(self, text: str, operands: list[tuple[str, str, str]], dims: str, kind: str) -> str:
        name = f"%{len(self.lines)}"
        kinds = ", ".join(tensor(self.case, d, k) for _, d, k in operands)
        result = tensor(self.case, dims, kind)
        self.lines.append(f"{name} = {text} : ({kinds}) -> {result}")
        return name

    def constant(self, number: float, dims: str, kind: str) -> str:
        value = {np.inf: "0x7F800000", -np.inf: "0xFF800000"}.get(number, repr(float(number)))
        name = f"%{len(self.lines)}"
        made = tensor(self.case, dims, kind)
        self.lines.append(f"{name} = stablehlo.constant dense<{value}> : {made}")
        return name

    def spread(self, name: str, have: str, dims: str, kind: str) -> str:
        places = [dims.index(dim) for dim in have]
        text = f"stablehlo.broadcast_in_dim {name}, dims = {places}"
        return self.op(text, [(name, have, kind)], dims, kind)

    def turned(self, name: str, have: str, dims: str, kind: str) -> str:
        places = [have.index(dim) for dim in dims]
        text = f"stablehlo.transpose {name}, dims = {places}"
        return self.op(text, [(name, have, kind)], dims, kind)

    def product(
        self, a: tuple[str, str], b: tuple[str, str], summed: str, dims: str, kinds: tuple[str, str]
    ) -> str:
        batch = [dim for dim in a[1] if dim in b[1] and dim not in summed]
        left = [[a[1].index(dim) for dim in dims] for dims in (batch, summed)]
        right = [[b[1].index(dim) for dim in dims] for dims in (batch, summed)]
        free = [dim for dim in a[1] + b[1] if dim not in batch and dim not in summed]
        made = "".join([*batch, *free])
        text = (
            f"stablehlo.dot_general {a[0]}, {b[0]}, batching_dims = {left[0]} x {right[0]}, "
            f"contracting_dims = {left[1]} x {right[1]}"
        )
        name = self.op(text, [(*a, kinds[0]), (*b, kinds[0])], made, kinds[1])
        return self.turned(name, made, dims, kinds[1])

    def reduced(self, name: str, how: str, start: float, dims: str) -> str:
        zero = self.constant(start, "", "f32")
        (axis,) = (axis for axis, dim in enumerate(dims) if dim in "kK")
        left = dims[:axis] + dims[axis + 1 :]
        text = (
            f"stablehlo.reduce({name} init: {zero}) applies stablehlo.{how} "
            f"across dimensions = [{axis}]"
        )
        return self.op(text, [(name, dims, "f32"), (zero, "", "f32")], left, "f32")


def program(case: Case) -> str:
    """@main of Q, K, V, then the mask and the bias if there are any."""
    p, kind = Program(case), case.kind
    groups = "g" if case.group > 1 else ""
    query = case.order.replace("h", "h" + groups)
    key = case.order.replace("q", "k")
    value = key.replace("d", "e")
    dims = (
        case.dims_of_scores
        if "g" in case.dims_of_scores
        else case.dims_of_scores.replace("h", "h" + groups)
    )
    arguments = [("%q", query, kind), ("%k", key, kind), ("%v", value, kind)]
    first = p.product(("%q", query), ("%k", key), "d", dims, (kind, "f32"))
    scale = p.constant(DIM**-0.5, dims, "f32")

    def elementwise(name: str, *operands: str, dims: str = dims) -> str:
        lines = ", ".join(operands)
        made = f"%{len(p.lines)}"
        p.lines.append(f"{made} = stablehlo.{name} {lines} : {tensor(case, dims, 'f32')}")
        return made

    scores = elementwise("multiply", first, scale)
    if case.factor is not None:
        arguments.append(("%factor", case.factor, "f32"))
        scores = elementwise("multiply", scores, p.spread("%factor", case.factor, dims, "f32"))
    if case.cap:
        cap = p.constant(case.cap, dims, "f32")
        scores = elementwise(
            "multiply", elementwise("tanh", elementwise("divide", scores, cap)), cap
        )
    if case.bias:
        arguments.append(("%bias", case.bias, "f32"))
        inner = [dim for dim in dims if dim in case.bias]
        turned = p.turned("%bias", case.bias, "".join(inner), "f32")
        scores = elementwise("add", scores, p.spread(turned, "".join(inner), dims, "f32"))
    if case.mask:
        seen, have = "%mask", case.mask
        if case.mask == "causal":
            have = "qk"
            rows, keys = (p.op(f"stablehlo.iota dim = {axis}", [], have, "i32") for axis in (0, 1))
            p.lines[-2:] = [line.replace("() -> ", "") for line in p.lines[-2:]]
            seen = p.op(
                f"stablehlo.compare GE, {rows}, {keys}",
                [(rows, have, "i32"), (keys, have, "i32")],
                have,
                "i1",
            )
        else:
            arguments.append(("%mask", have, "i1"))
        inner = "".join(dim for dim in dims if dim in have)
        where = p.spread(p.turned(seen, have, inner, "i1"), inner, dims, "i1")
        hidden = p.constant(case.hidden, dims, "f32")
        made = f"%{len(p.lines)}"
        kinds = f"{tensor(case, dims, 'i1')}, {tensor(case, dims, 'f32')}"
        p.lines.append(f"{made} = stablehlo.select {where}, {scores}, {hidden} : {kinds}")
        scores = made
    rows = dims.replace("k", "")
    sink = ""
    if case.sink in ("first", "last", "sum"):
        arguments.append(("%sink", case.sunk, "f32"))
        inner = "".join(dim for dim in dims if dim in case.sunk)
        sink = p.turned("%sink", case.sunk, inner, "f32")
        if case.sink != "sum":
            column = p.spread(sink, inner, rows, "f32")
            scores = beside(p, dims, scores, column)
    whole = dims if case.sink in ("", "sum", "one") else dims.replace("k", "K")
    largest = p.reduced(scores, "maximum", -np.inf, whole)
    if case.sink == "sum":
        sink = p.spread(sink, inner, rows, "f32")
        largest = elementwise("maximum", largest, sink, dims=rows)
    elif case.sink == "one":
        sink = p.constant(0.0, rows, "f32")
        largest = elementwise("maximum", largest, sink, dims=rows)
    spread = p.spread(largest, rows, whole, "f32")
    shifted = elementwise("subtract", scores, spread, dims=whole)
    powers = elementwise("exponential", shifted, dims=whole)
    if case.where:
        nothing = p.constant(0.0, dims, "f32")
        made = f"%{len(p.lines)}"
        kinds = f"{tensor(case, dims, 'i1')}, {tensor(case, dims, 'f32')}"
        p.lines.append(f"{made} = stablehlo.select {where}, {powers}, {nothing} : {kinds}")
        powers = made
    total = p.reduced(powers, "add", 0.0, whole)
    if case.sink in ("sum", "one"):
        below = elementwise("subtract", sink, largest, dims=rows)
        total = elementwise("add", total, elementwise("exponential", below, dims=rows), dims=rows)
    total = p.spread(total, rows, whole, "f32")
    weights = elementwise("divide", powers, total, dims=whole)
    if whole != dims:
        first = int(case.sink == "first")
        ends = [(0, case.sizes[dim]) for dim in dims]
        ends[dims.index("k")] = (first, first + KEYS)
        text = f"stablehlo.slice {weights} [{', '.join(f'{a}:{b}' for a, b in ends)}]"
        weights = p.op(text, [(weights, whole, "f32")], dims, "f32")
    if kind != "f32":
        weights = p.op(f"stablehlo.convert {weights}", [(weights, dims, "f32")], dims, kind)
    out = query.replace("d", "e")
    summed = "f32" if case.rounded else kind
    result = p.product((weights, dims), ("%v", value), "k", out, (kind, summed))
    if case.rounded:
        result = p.op(f"stablehlo.convert {result}", [(result, out, summed)], out, kind)
    given = ", ".join(f"{name}: {tensor(case, d, k)}" for name, d, k in arguments)
    body = "\n  ".join(p.lines)
    last = tensor(case, out, kind)
    return f"func.func @main({given}) -> {last} {{\n  {body}\n  return {result} : {last}\n}}"


def beside(p: Program, dims: str, scores: str, column: str) -> str:
    """The scores with one more column."""
    rows = dims.replace("k", "")
    place = dims.index("k")
    kind = tensor(p.case, rows, "f32").replace("tensor<", "")
    sizes = kind.split("x")
    one = "tensor<" + "x".join([*sizes[:place], "1", *sizes[place:]])
    wide = f"%{len(p.lines)}"
    p.lines.append(
        f"{wide} = stablehlo.reshape {column} : ({tensor(p.case, rows, 'f32')}) -> {one}"
    )
    parts = [(scores, tensor(p.case, dims, "f32")), (wide, one)]
    if p.case.sink == "first":
        parts.reverse()
    names, kinds = (", ".join(part) for part in zip(*parts, strict=True))
    made = f"%{len(p.lines)}"
    result = tensor(p.case, dims.replace("k", "K"), "f32")
    p.lines.append(f"{made} = stablehlo.concatenate {names}, dim = {place} : ({kinds}) -> {result}")
    return made


def inputs(case: Case) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    groups = "g" if case.group > 1 else ""
    query = case.order.replace("h", "h" + groups)
    key = case.order.replace("q", "k")

    def normal(dims: str, kind: str) -> np.ndarray:
        array = 2 * rng.standard_normal([case.sizes[dim] for dim in dims])
        return array.astype(np.float16 if kind == "f16" else np.float32)

    found = {"q": normal(query, case.kind), "k": normal(key, case.kind)}
    found["v"] = normal(key.replace("d", "e"), case.kind)
    if case.factor is not None:
        found["factor"] = normal(case.factor, "f32")
    if case.bias:
        found["bias"] = normal(case.bias, "f32")
    if case.sink in ("first", "last", "sum"):
        found["sink"] = normal(case.sunk, "f32")
    if case.mask not in ("", "causal"):
        found["mask"] = rng.random([case.sizes[dim] for dim in case.mask]) > 0.3
        if "q" in case.mask:
            # A row that sees no key.
            found["mask"][..., 3, :] = False
        else:
            found["mask"][..., 0] = True
    return found


def reference(case: Case, given: dict[str, np.ndarray]) -> np.ndarray:
    """The same in float64."""
    groups = "g" if case.group > 1 else ""
    query = case.order.replace("h", "h" + groups)
    key = case.order.replace("q", "k")
    scores_dims = f"bh{groups}qk"
    x = {name: array.astype(np.float64) for name, array in given.items() if name != "mask"}
    scores = np.einsum(f"{query},{key}->{scores_dims}", x["q"], x["k"]) * DIM**-0.5
    if case.factor is not None:
        scores = scores * _spread(x["factor"], case.factor, scores_dims)
    if case.cap:
        scores = case.cap * np.tanh(scores / case.cap)
    if case.bias:
        scores = scores + _spread(x["bias"], case.bias, scores_dims)
    if case.mask == "causal":
        scores = np.where(np.tril(np.ones((ROWS, KEYS), bool)), scores, case.hidden)
    elif case.mask:
        scores = np.where(_spread(given["mask"], case.mask, scores_dims), scores, case.hidden)
    largest = scores.max(-1, keepdims=True)
    if case.sink:
        given_sink = x["sink"] if "sink" in x else np.zeros([case.sizes[dim] for dim in case.sunk])
        sink = _spread(given_sink, case.sunk, scores_dims.replace("k", ""))[..., None]
        largest = np.maximum(largest, sink)
    largest = np.where(np.isinf(largest), 0, largest)
    weights = np.exp(scores - largest)
    total = weights.sum(-1, keepdims=True)
    if case.sink:
        total = total + np.exp(sink - largest)
    weights = np.where(total > 0, weights / np.where(total > 0, total, 1), 0)
    value = key.replace("d", "e")
    return np.einsum(f"{scores_dims},{value}->{query.replace('d', 'e')}", weights, x["v"])


def _spread(array: np.ndarray, have: str, dims: str) -> np.ndarray:
    inner = [dim for dim in dims if dim in have]
    turned = array.transpose([have.index(dim) for dim in inner])
    return turned.reshape([array.shape[have.index(dim)] if dim in have else 1 for dim in dims])


def in_order(given: dict[str, np.ndarray]) -> Iterator[np.ndarray]:
    for name in ("q", "k", "v", "factor", "bias", "mask", "sink"):
        if name in given:
            yield given[name]
