"""Attention that is written out keeps its numbers where rows see no key, whatever hides them and
whatever is added behind: it becomes an op that gives the same, or is left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from helpers import compile_and_run, compile_text, rel_error, run_module

from attnpass import Report

HEADS, ROWS, DIM = 2, 8, 16
LOWEST = float(np.finfo(np.float32).min)
TOLERANCES = {"f32": 2e-5, "f16": 5e-3}


@dataclass(frozen=True)
class Case:
    """Scores in `kind`, causal by a select of `hidden`, then added to a mask of the caller's that
    is `added` for the first keys, as padding on the left is, or to a `bias`. Whether it is
    `raised`, or why not."""

    hidden: float
    added: float
    kind: str = "f32"
    bias: bool = False
    raised: bool = True


CASES = {
    "GPT-2": Case(LOWEST, LOWEST),
    "infinity and lowest": Case(-np.inf, LOWEST),
    "two numbers": Case(-1e30, -1e32),
    "absorbed in f32": Case(-1e9, -1e9),
    "not absorbed": Case(-1e4, -1e4, raised=False),
    "bias behind lowest": Case(LOWEST, 0, bias=True),
    "bias behind -1e4": Case(-1e4, 0, bias=True, raised=False),
    "f16, twice infinity": Case(-65504, -65504, "f16"),
    "f16, bias": Case(-65504, 0, "f16", bias=True),
}


def program(case: Case) -> str:
    number = {"f32": "0xFF800000", "f16": "0xFC00"}[case.kind]
    low = number if np.isinf(case.hidden) else f"{case.hidden:.9e}"
    half = case.kind == "f16"
    scores, kind = f"tensor<{HEADS}x{ROWS}x{ROWS}x", case.kind
    every = "affine_map<(b, m, k) -> (b, m, k)>"
    loops = 'iterator_types = ["parallel", "parallel", "parallel"]'
    return f"""
func.func @main(%q: tensor<{HEADS}x{ROWS}x{DIM}x{kind}>, %k: tensor<{HEADS}x{DIM}x{ROWS}x{kind}>,
                %v: tensor<{HEADS}x{ROWS}x{DIM}x{kind}>, %mask: tensor<{ROWS}x{kind}>)
    -> tensor<{HEADS}x{ROWS}x{DIM}xf32> {{
  %zero = arith.constant 0.0 : f32
  %low = arith.constant {low} : {kind}
  %e = tensor.empty() : {scores}f32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : {scores}f32>) -> {scores}f32>
  %s = linalg.batch_matmul
      ins(%q, %k : tensor<{HEADS}x{ROWS}x{DIM}x{kind}>, tensor<{HEADS}x{DIM}x{ROWS}x{kind}>)
      outs(%s0 : {scores}f32>) -> {scores}f32>
  %x = linalg.generic {{indexing_maps = [{every}, affine_map<(b, m, k) -> (k)>, {every}], {loops}}}
      ins(%s, %mask : {scores}f32>, tensor<{ROWS}x{kind}>) outs(%e : {scores}f32>) {{
  ^bb0(%a: f32, %p: {kind}, %o: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %seen = arith.cmpi uge, %i, %j : index
    {"%n = arith.truncf %a : f32 to f16" if half else ""}
    %c = arith.select %seen, {"%n" if half else "%a"}, %low : {kind}
    %t = arith.addf %c, %p : {kind}
    {"%y = arith.extf %t : f16 to f32" if half else ""}
    linalg.yield {"%y" if half else "%t"} : f32
  }} -> {scores}f32>
  %w = linalg.softmax dimension(2) ins(%x : {scores}f32>) outs(%e : {scores}f32>) -> {scores}f32>
  %eh = tensor.empty() : {scores}{kind}>
  %h = linalg.generic {{indexing_maps = [{every}, {every}], {loops}}}
      ins(%w : {scores}f32>) outs(%eh : {scores}{kind}>) {{
  ^bb0(%a: f32, %o: {kind}):
    {"%n = arith.truncf %a : f32 to f16" if half else ""}
    linalg.yield {"%n" if half else "%a"} : {kind}
  }} -> {scores}{kind}>
  %eo = tensor.empty() : tensor<{HEADS}x{ROWS}x{DIM}xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<{HEADS}x{ROWS}x{DIM}xf32>)
      -> tensor<{HEADS}x{ROWS}x{DIM}xf32>
  %r = linalg.batch_matmul ins(%h, %v : {scores}{kind}>, tensor<{HEADS}x{ROWS}x{DIM}x{kind}>)
      outs(%o0 : tensor<{HEADS}x{ROWS}x{DIM}xf32>) -> tensor<{HEADS}x{ROWS}x{DIM}xf32>
  return %r : tensor<{HEADS}x{ROWS}x{DIM}xf32>
}}
"""


def inputs(case: Case) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    kind = np.float32 if case.kind == "f32" else np.float16
    shapes = ((HEADS, ROWS, DIM), (HEADS, DIM, ROWS), (HEADS, ROWS, DIM))
    arrays = [rng.standard_normal(shape) for shape in shapes]
    arrays[0] /= 2
    mask = 2 * rng.standard_normal(ROWS) if case.bias else np.where(np.arange(ROWS) < 3, 1, 0)
    arrays.append(mask if case.bias else np.where(mask == 1, case.added, 0.0))
    return [array.astype(kind) for array in arrays]


def reference(case: Case, given: list[np.ndarray]) -> np.ndarray:
    """In float64, but for scores in the type of the program, in which masks absorb them."""
    kind = given[0].dtype.type
    query, key, value = (array.astype(np.float64) for array in given[:3])
    with np.errstate(all="ignore"):
        scores = (query @ key).astype(kind)
        scores = np.where(np.tri(ROWS, dtype=bool), scores, kind(case.hidden)) + given[3]
    scores = scores.astype(np.float64)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value


@pytest.mark.parametrize("name", CASES)
def test_rows_without_keys(name: str) -> None:
    case = CASES[name]
    given = inputs(case)
    report = Report()
    got = compile_and_run(program(case), given, mode="cost", report=report)
    assert bool(report.attentions) == case.raised, report.records
    assert rel_error(got, reference(case, given)) < TOLERANCES[case.kind]


def test_rows_whose_weights_are_made_zero() -> None:
    """Where the largest number of a tensor is -inf: of the mask, of another, of what is seen."""
    file = Path(__file__).parents[2] / "raise" / "hidden-rows.mlir"
    report = Report()
    vmfb = compile_text(file.read_text(), mode="cost", report=report)
    assert len(report.attentions) == 1, report.records
    rng = np.random.default_rng(7)
    query, value = (rng.standard_normal((4, 6, 8)).astype(np.float32) for _ in range(2))
    key = rng.standard_normal((4, 8, 6)).astype(np.float32)
    other = rng.standard_normal((6, 6)).astype(np.float32)
    mask, seen = other.copy(), other < 0.5
    mask[2], other[3], seen[1] = -np.inf, -np.inf, False
    hidden = {"mask": mask[:, 0] == -np.inf, "other": other[:, 0] == -np.inf, "seen": ~seen.any(1)}
    for name, rows in hidden.items():
        # A row that the mask hides, and that is not made 0, is NaN.
        added = mask if name == "mask" else np.maximum(mask, -5)
        last = seen.astype(np.uint8) if name == "seen" else other
        got = run_module(vmfb, [query, key, value, added, last], name)
        scores = query.astype(np.float64) @ key + added
        with np.errstate(invalid="ignore"):
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
        weights[:, rows] = 0
        assert rel_error(got, weights @ value) < TOLERANCES["f32"], name


def test_weights_of_hidden_keys_are_made_zero() -> None:
    """By the condition that hides them, in the rows that see no key, too, and by another."""
    file = Path(__file__).parents[2] / "raise" / "zeroed-weights.mlir"
    report = Report()
    vmfb = compile_text(file.read_text(), mode="cost", report=report)
    assert len(report.attentions) == 1, report.records
    rng = np.random.default_rng(3)
    shapes = ((2, 6, 8), (2, 8, 6), (2, 6, 8), (2, 8, 6))
    given = [(rng.standard_normal(shape) / 2).astype(np.float16) for shape in shapes]
    query, key, value, places = (array.astype(np.float64) for array in given)
    moved = np.pad(query @ places, ((0, 0), (0, 0), (1, 0))).reshape(2, 7, 6)[:, 1:]
    hide, more = np.arange(6) > 3, np.arange(6) % 2 == 0
    for name, hidden in (("hidden", hide), ("hidden", np.ones(6, bool)), ("other", hide)):
        scores = np.where(hidden, -1e4, query @ key + moved)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        weights[..., hidden if name == "hidden" else more] = 0
        got = run_module(vmfb, [*given, hidden, more], name)
        assert np.linalg.norm(got - weights @ value) < 2e-3 * np.linalg.norm(value), name
