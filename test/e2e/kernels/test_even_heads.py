"""Head dims of Q.K and of V that differ, filled up for a kernel: the same numbers by the attention
that a kernel would get."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers import at_levels, compile_text, joined, rel_error, run_module
from iree.compiler import ir

from attnpass.attention.facts import find
from attnpass.ir import erase_dead
from attnpass.kernels.hopper.even_heads import even_heads, with_even_heads

# Orders of dims: heads (b) and rows (m) or keys (j) in front of columns, or these in front.
ORDERS = {"rows": ("b, m, k", "b, j, k", "b, j, n", "b, m, n")}
ORDERS["columns"] = ("b, k, m", "b, k, j", "b, n, j", "b, n, m")
ORDERS["behind"] = ("m, b, k", "j, b, k", "j, b, n", "m, b, n")


def text_of(order: str, element: str, sizes: dict[str, int], dynamic: bool) -> str:
    def kind(dims: str) -> str:
        found = ["?" if dynamic and dim in "mj" else str(sizes[dim]) for dim in dims.split(", ")]
        return f"tensor<{'x'.join(found)}x{element}>"

    q, k, v, o = map(kind, ORDERS[order])
    dims = [f"affine_map<(b, m, n, k, j) -> ({dims})>" for dims in ORDERS[order]]
    place = ORDERS[order][0].split(", ").index("m")
    count = f"%c = arith.constant {place} : index\n  %rows = tensor.dim %q, %c : {q}"
    return f"""
func.func @main(%q: {q}, %k: {k}, %v: {v}) -> {o} {{
  {count if dynamic else ""}
  %scale = arith.constant 0.5 : f32
  %e = tensor.empty({"%rows" if dynamic else ""}) : {o}
  %r = iree_linalg_ext.attention <indexing_maps = [{dims[0]}, {dims[1]}, {dims[2]},
        affine_map<(b, m, n, k, j) -> ()>, {dims[3]}]>
      ins(%q, %k, %v, %scale : {q}, {k}, {v}, f32) outs(%e : {o}) {{
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }} -> {o}
  return %r : {o}
}}
"""


def filled(text: str) -> tuple[str, tuple[str, ...]]:
    """The module with equal head dims, and the operands that were filled up."""
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        (facts,) = find(module.operation)
        even = even_heads(facts)
        assert even is not None
        new = with_even_heads(facts, even.size)
        erase_dead([facts.op])
        assert module.operation.verify() and even_heads(new) is None
        return str(module), even.filled


# The order of dims, their type, the head dims of Q.K and of V, and whether sizes are unknown.
CASES = (
    ("rows", "f32", 16, 32, False),
    ("columns", "f16", 16, 32, True),
    ("behind", "f32", 24, 8, True),
    ("rows", "f16", 64, 24, False),
    ("columns", "f32", 40, 8, False),
)


RUNS = at_levels(case[:4] for case in CASES)


def sizes_of(own: int, value: int) -> dict[str, int]:
    return {"b": 2, "m": 6, "n": value, "k": own, "j": 10}


@cache
def compiled(level: str) -> bytes:
    """All cases, one function each."""
    texts = {}
    for order, element, own, value, dynamic in CASES:
        if (order, element, own, value, level) not in RUNS:
            continue
        text, names = filled(text_of(order, element, sizes_of(own, value), dynamic))
        assert names == (("query", "key") if own < value else ("value",))
        texts[f"{order}_{element}"] = text
    return compile_text(joined(texts), flags=[f"--iree-opt-level={level}"])


@pytest.mark.parametrize(("order", "element", "own", "value", "level"), RUNS)
def test_even_heads(order: str, element: str, own: int, value: int, level: str) -> None:
    sizes = sizes_of(own, value)
    generator = np.random.default_rng(0)
    dims = [found.replace(", ", "") for found in ORDERS[order]]
    q, k, v = (
        generator.standard_normal([sizes[dim] for dim in each]).astype(
            element.replace("f", "float")
        )
        for each in dims[:3]
    )
    scores = 0.5 * np.einsum(f"{dims[0]},{dims[1]}->bmj", q, k, dtype=np.float64)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    wanted = np.einsum(f"bmj,{dims[2]}->{dims[3]}", weights, v, dtype=np.float64)
    got = run_module(compiled(level), [q, k, v], f"{order}_{element}")
    assert rel_error(got, wanted) < (1e-6 if element == "f32" else 1e-3)
