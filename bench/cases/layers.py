"""Attention layers of Llama's size on this CPU: IREE's default against attnpass.

An attention block without norms and rotary embedding: projections, cache, attention over 32
query and 8 key/value heads of dim 128, output projection; weights are arguments. Decode adds
one row to a concatenated cache and returns it; prefill is causal. Both programs are first held
against float64, then called in turns in one process; a ratio is the median over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.models.check import HOST, build, error, loaded
from bench.models.flow import read_flow
from bench.models.trace import Model, Trace, Value
from bench.results import Row, row
from bench.timing import ms, seconds_of

IS_ON_CPU = True
CASE_SECONDS = 1200
HEADS, KV_HEADS, DIM = 32, 8, 128
MODEL = HEADS * DIM
WAYS = {"default": None, "cost": "cost"}
# The error allowed against float64: rounding of the type, times the block's depth.
TOLERANCE = {"f32": 1e-5, "f16": 2e-2}


@dataclass(frozen=True)
class Case:
    """`rows` new tokens behind `cached` ones; `rounds` interleaved calls of each program."""

    rows: int
    cached: int
    element: str
    rounds: int

    @property
    def name(self) -> str:
        kind = f"decode, {self.cached + 1} keys" if self.cached else f"prefill, {self.rows} rows"
        return f"{kind}, {self.element}"


CASES = (
    Case(1, 4095, "f32", 15),
    Case(1, 4095, "f16", 15),
    Case(1, 32767, "f32", 9),
    Case(1, 32767, "f16", 9),
    Case(512, 0, "f32", 7),
    Case(2048, 0, "f32", 3),
)


def block(case: Case) -> Model:
    t = Trace(3, element=case.element, weights_are_arguments=True)
    x = t.argument(1, case.rows, MODEL)
    q = t.split_heads(_linear(t, x, MODEL), HEADS)
    k, v = (t.split_heads(_linear(t, x, KV_HEADS * DIM), KV_HEADS) for _ in range(2))
    returned = []
    if case.cached:
        k, v = (t.concat(2, t.argument(1, KV_HEADS, case.cached, DIM), new) for new in (k, v))
        returned = [k, v]
    mask = None if case.cached else t.causal_mask(case.rows, case.rows)
    times = HEADS // KV_HEADS
    result = t.attention(q, t.repeat_heads(k, times), t.repeat_heads(v, times), mask)
    return t.finish(_linear(t, t.join_heads(result), MODEL), *returned)


def _linear(t: Trace, x: Value, width: int) -> Value:
    """With the weight as (in, out): where weights are constants IREE transposes them once."""
    return t.batch_matmul(x, t.repeat(t.weight(x.shape[-1], width), 0, 1))


def cases() -> list[Case]:
    return list(CASES)


def run(_: Path, case: Case, options: argparse.Namespace) -> Iterator[Row]:
    model, count = block(case), 1 if options.numbers else case.rounds
    ways: dict[str, Any] = {}
    calls: dict[str, Callable[[], Any]] = {}
    for way, mode in WAYS.items():
        built = build(model, mode, cpu=HOST)
        calls[way] = loaded(built.vmfb, model.inputs)
        found = error([result.to_host() for result in calls[way]()], model.outputs)
        assert found < TOLERANCE[case.element], (case.name, way, found)
        ways[way] = {"error": found} | read_flow(built.flow).counts
    rounds = [{way: seconds_of(call) for way, call in calls.items()} for _ in range(count)]
    for way, found in ways.items():
        found["ms"] = ms(statistics.median(spent[way] for spent in rounds))
    ratios = [spent["default"] / spent["cost"] for spent in rounds]
    ways["cost"]["speedup"] = statistics.median(ratios)
    for way, found in ways.items():
        yield row(case.name, way, found, rounds=count)
