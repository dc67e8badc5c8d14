"""Attention as people write it by hand: in branches, loops and called functions, on values that
other attention reads, on nothing; one module of all, against float64."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from helpers import at_levels, compile_text, rel_error, run_module

Q, K = "tensor<2x6x8xf32>", "tensor<2x10x8xf32>"
MAPS = """
#q = affine_map<(b, m, n, d, k) -> (b, m, d)>
#k = affine_map<(b, m, n, d, k) -> (b, k, d)>
#v = affine_map<(b, m, n, d, k) -> (b, k, n)>
#s = affine_map<(b, m, n, d, k) -> ()>
#o = affine_map<(b, m, n, d, k) -> (b, m, n)>
"""
ARGUMENTS = f"%q: {Q}, %k: {K}, %v: {K}"


def attend(result: str, operands: str = "%q %k %v", kinds: tuple[str, ...] = (Q, K, K, Q)) -> str:
    """One attention; `kinds` are the types of its operands and of its result."""
    scale = kinds[0].rpartition("x")[2].removesuffix(">")
    return f"""
  {result}_scale = arith.constant 0.25 : {scale}
  {result}_init = tensor.empty() : {kinds[3]}
  {result} = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins({", ".join(operands.split())}, {result}_scale : {", ".join(kinds[:3])}, {scale})
      outs({result}_init : {kinds[3]}) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> {kinds[3]}"""


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    weights = np.exp(q @ k.transpose(0, 2, 1) * 0.25)
    return weights / weights.sum(-1, keepdims=True) @ v


def empty_keys(rows: int, keys: int) -> tuple[str, ...]:
    batch = 2 if keys == 0 else 0
    q, k = f"tensor<{batch}x{rows}x8xf32>", f"tensor<{batch}x{keys}x8xf32>"
    return q, k, k, q


HALF = ("tensor<2x6x8xf16>", "tensor<2x10x8xf16>", "tensor<2x10x8xf16>", "tensor<2x6x8xf16>")
NO_KEYS, NO_BATCH = empty_keys(6, 0), empty_keys(6, 10)


def function(name: str, results: str, body: str, arguments: str = ARGUMENTS) -> str:
    """A function that returns %r, or %r and %t."""
    values = "%r, %t" if "," in results else "%r"
    return (
        f"func.func @{name}({arguments}) -> ({results}) {{{body}\n  return {values} : {results}\n}}"
    )


TEXT = MAPS + "\n".join(
    [
        function("layer", Q, attend("%r")).replace("func.func", "func.func private"),
        function(
            "called",
            Q,
            f"""
  %x = func.call @layer(%q, %k, %v) : ({Q}, {K}, {K}) -> {Q}
  %r = func.call @layer(%x, %k, %v) : ({Q}, {K}, {K}) -> {Q}""",
        ),
        function(
            "chosen",
            Q,
            f"""
  %c = tensor.extract %if[] : tensor<i1>
  %r = scf.if %c -> {Q} {{{attend("%x")}
    scf.yield %x : {Q}
  }} else {{
    scf.yield %q : {Q}
  }}""",
            f"{ARGUMENTS}, %if: tensor<i1>",
        ),
        function(
            "repeated",
            Q,
            f"""
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %last = tensor.extract %times[] : tensor<i32>
  %r, %end = scf.while (%x = %q, %i = %zero) : ({Q}, i32) -> ({Q}, i32) {{
    %more = arith.cmpi slt, %i, %last : i32
    scf.condition(%more) %x, %i : {Q}, i32
  }} do {{
  ^bb0(%y: {Q}, %i: i32):{attend("%z", "%y %k %v")}
    %next = arith.addi %i, %one : i32
    scf.yield %z, %next : {Q}, i32
  }}""",
            f"{ARGUMENTS}, %times: tensor<i32>",
        ),
        function("one_value", f"{Q}, {Q}", attend("%r", "%q %k %k") + attend("%t", "%r %k %v")),
        function(
            "turned",
            "tensor<2x8x12xf32>, tensor<2x8x6xf32>",
            attend("%x")
            + f"""
  %e = tensor.empty() : tensor<2x8x6xf32>
  %t = linalg.transpose ins(%x : {Q}) outs(%e : tensor<2x8x6xf32>) permutation = [0, 2, 1]
  %r = tensor.concat dim(2) %t, %t
      : (tensor<2x8x6xf32>, tensor<2x8x6xf32>) -> tensor<2x8x12xf32>""",
        ),
        function(
            "two_types",
            f"{Q}, {HALF[3]}",
            attend("%r") + attend("%t", "%hq %hk %hv", HALF),
            f"{ARGUMENTS}, %hq: {HALF[0]}, %hk: {HALF[1]}, %hv: {HALF[2]}",
        ),
        *(
            function(
                name,
                kinds[3],
                attend("%r", kinds=kinds),
                f"%q: {kinds[0]}, %k: {kinds[1]}, %v: {kinds[2]}",
            )
            for name, kinds in (("no_keys", NO_KEYS), ("no_batch", NO_BATCH))
        ),
    ]
)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


GIVEN = random(2, 6, 8), random(2, 10, 8), random(2, 10, 8)[::-1].copy()
HALVES = tuple(array.astype(np.float16) for array in GIVEN)
_, KEYS, VALUES = GIVEN
ONCE = attended(*GIVEN)
TWICE = attended(ONCE, KEYS, VALUES)
TURNED = ONCE.transpose(0, 2, 1)
SELF = attended(GIVEN[0], KEYS, KEYS)
NOTHING = np.zeros((2, 0, 8), np.float32), np.zeros((0, 10, 8), np.float32)
# function -> what it is given, and what it returns
CASES: dict[str, tuple[tuple, list[np.ndarray]]] = {
    "called": (GIVEN, [TWICE]),
    "chosen": ((*GIVEN, np.array(True)), [ONCE]),
    "repeated": ((*GIVEN, np.array(2, np.int32)), [TWICE]),
    "one_value": (GIVEN, [SELF, attended(SELF, KEYS, VALUES)]),
    "turned": (GIVEN, [np.concatenate([TURNED, TURNED], 2), TURNED]),
    "two_types": ((*GIVEN, *HALVES), [ONCE, attended(*HALVES)]),
    "no_keys": ((GIVEN[0], NOTHING[0], NOTHING[0]), [np.zeros((2, 6, 8))]),
    "no_batch": ((np.zeros((0, 6, 8), np.float32), *NOTHING[1:] * 2), [np.zeros((0, 6, 8))]),
}


RUNS = at_levels(((name,) for name in CASES), ("O0", "O3"))


@cache
def program(level: str) -> bytes:
    """The functions of a level, and one that others call."""
    here = {"layer", *(name for name, one in RUNS if one == level)}
    head, *functions = re.split(r"(?=func\.func )", TEXT)
    named = {re.findall(r"@(\w+)", function)[0]: function for function in functions}
    text = head + "".join(function for name, function in named.items() if name in here)
    return compile_text(text, mode="cost", flags=[f"--iree-opt-level={level}"])


@pytest.mark.parametrize(("name", "level"), RUNS)
def test_numbers(name: str, level: str) -> None:
    given, wanted = CASES[name]
    results = run_module(program(level), given, name)
    for got, right in zip(results if len(wanted) > 1 else [results], wanted, strict=True):
        assert got.shape == right.shape
        if not right.any():
            assert not got.any()
            continue
        assert rel_error(got, right) < (5e-3 if got.dtype == np.float16 else 2e-5)


BACKWARDS = """
func.func @window(%x: tensor<9xf32>, %w: tensor<3xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(y, i) -> (y * -2 - i + 8)>,
      affine_map<(y, i) -> (i)>, affine_map<(y, i) -> (y)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<9xf32>, tensor<3xf32>) outs(%start : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %m, %o : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @rows(%x: tensor<4x20xf32>, %y: tensor<20x?xf32>) -> tensor<4x20xf32> {
  %e = tensor.empty() : tensor<4x20xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, -n + 19)>,
      affine_map<(m, n) -> (-n + 19, m)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<4x20xf32>, tensor<20x?xf32>) outs(%e : tensor<4x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x20xf32>
  return %r : tensor<4x20xf32>
}
"""


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_what_is_read_backwards(level: str) -> None:
    vmfb = compile_text(BACKWARDS, mode="cost", flags=[f"--iree-opt-level={level}"])
    x, w, start = random(9), random(3), random(4)
    turned = x[::-1].astype(np.float64)
    wanted = [start[y] + turned[2 * y : 2 * y + 3] @ w for y in range(4)]
    assert rel_error(run_module(vmfb, [x, w, start], "window"), np.array(wanted)) < 1e-6
    x, y = random(4, 20), random(20, 4)
    assert np.array_equal(run_module(vmfb, [x, y], "rows"), x[:, ::-1] - y[::-1].T)


def branch(name: str, kind: str, predicate: str, least: str) -> str:
    """Doubles what it is given where the last of three elements passes."""
    compare = "arith.cmpi" if kind.startswith("i") else "arith.cmpf"
    return f"""
func.func @{name}(%x: tensor<3x{kind}>, %y: tensor<2xf32>) -> tensor<2xf32> {{
  %last = arith.constant 2 : index
  %least = arith.constant {least} : {kind}
  %a = tensor.extract %x[%last] : tensor<3x{kind}>
  %c = {compare} {predicate}, %a, %least : {kind}
  %r = scf.if %c -> tensor<2xf32> {{
    %z = arith.addf %y, %y : tensor<2xf32>
    scf.yield %z : tensor<2xf32>
  }} else {{
    scf.yield %y : tensor<2xf32>
  }}
  return %r : tensor<2xf32>
}}
"""


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_branches_by_elements_of_few_bits(level: str) -> None:
    kinds = {"i8": np.int8, "i16": np.int16, "f16": np.float16}
    text = "".join(
        branch(kind, kind, "sge" if kind.startswith("i") else "oge", "-2" + ".0" * (kind == "f16"))
        for kind in kinds
    )
    vmfb = compile_text(text, mode="cost", flags=[f"--iree-opt-level={level}"])
    y = np.float32([1, 3])
    for name, kind in kinds.items():
        for last in (-5, -2, 1):
            got = run_module(vmfb, [np.array([0, 0, last], kind), y], name)
            assert np.array_equal(got, 2 * y if last >= -2 else y), (name, last)
