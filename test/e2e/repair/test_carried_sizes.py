"""Loops that carry several tensors of unknown sizes: each turn reads its own."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers import compile_text, joined, pairwise, rel_error, run_module, symbol

# Types of the states, with their actual shapes.
SHAPES = (("20x?", (20, 2)), ("?x4x?", (16, 4, 16)), ("?x8", (5, 8)))
LOOPS = ("for", "while")


def _made(number: int, kind: str, sizes: str) -> str:
    """The next state, of the last."""
    dims = ", ".join("ijk"[: kind.count("x")])
    maps = ", ".join([f"affine_map<({dims}) -> ({dims})>"] * 2)
    iterators = ", ".join(['"parallel"'] * kind.count("x"))
    return f"""
    %e{number} = tensor.empty({sizes}) : tensor<{kind}>
    %w{number} = linalg.generic {{
      indexing_maps = [{maps}], iterator_types = [{iterators}]
    }} ins(%s{number} : tensor<{kind}>) outs(%e{number} : tensor<{kind}>) {{
    ^bb0(%a: f32, %o: f32):
      %t = math.tanh %a : f32
      linalg.yield %t : f32
    }} -> tensor<{kind}>"""


def _text(loop: str, order: tuple[int, ...], returned: tuple[int, ...]) -> str:
    kinds = [f"{SHAPES[one][0]}xf32" for one in order]
    types = [f"tensor<{kind}>" for kind in kinds]
    sizes = {0: "%c", 1: "%m, %m", 2: "%n"}
    body = "".join(_made(n, kinds[n], sizes[one]) for n, one in enumerate(order))
    count, given = len(order), ", ".join(f"%a{n}: {kind}" for n, kind in enumerate(types))
    starts = ", ".join(f"%s{n} = %a{n}" for n in range(count))
    yields, all_types = ", ".join(f"%w{n}" for n in range(count)), ", ".join(types)
    results = ", ".join(types[n] for n in returned)
    if loop == "for":
        opened = f"%r:{count} = scf.for %i = %c0 to %k step %c1 iter_args({starts})"
        opened = f"{opened} -> ({all_types}) {{"
    else:
        held, taken = (", ".join(f"%{name}{n}" for n in range(count)) for name in ("b", "s"))
        arguments = ", ".join(
            f"{one}: {kind}" for one, kind in zip(taken.split(", "), types, strict=True)
        )
        opened = f"""%r:{count + 1} = scf.while ({starts.replace("%s", "%b")}, %j = %c0)
      : ({all_types}, index) -> ({all_types}, index) {{
    %q = arith.cmpi ult, %j, %k : index
    scf.condition(%q) {held}, %j : {all_types}, index
  }} do {{
  ^bb0({arguments}, %i: index):
    %next = arith.addi %i, %c1 : index"""
        yields, all_types = f"{yields}, %next", f"{all_types}, index"
    return f"""
func.func @main({given}, %m: index, %n: index, %c: index, %k: index) -> ({results}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  {opened}{body}
    scf.yield {yields} : {all_types}
  }}
  return {", ".join(f"%r#{n}" for n in returned)} : {results}
}}
"""


CASES = pairwise(LOOPS, ((0, 1), (1, 0), (2, 1, 0), (0, 2)), (True, False), ("O0", "O2", "O3"))


def _returned(order: tuple[int, ...], first: bool) -> tuple[int, ...]:
    return (0,) if first else tuple(range(len(order)))


@cache
def _compiled(level: str) -> bytes:
    texts = {
        symbol(loop, *order, first): _text(loop, order, _returned(order, first))
        for loop, order, first, at in CASES
        if at == level
    }
    return compile_text(joined(texts), mode="cost", flags=[f"--iree-opt-level={level}"])


@pytest.mark.parametrize(("loop", "order", "first", "level"), CASES)
def test_turns_read_their_own(loop: str, order: tuple[int, ...], first: bool, level: str) -> None:
    returned, name = _returned(order, first), symbol(loop, *order, first)
    rng = np.random.default_rng(0)
    states = [rng.standard_normal(SHAPES[one][1]).astype(np.float32) for one in order]
    for turns in range(4):
        found = run_module(_compiled(level), [*states, 16, 5, 2, turns], name)
        for number, one in zip(returned, [found] if first else found, strict=True):
            wanted = states[number].astype(np.float64)
            for _ in range(turns):
                wanted = np.tanh(wanted)
            assert rel_error(one, wanted) < 1e-5
