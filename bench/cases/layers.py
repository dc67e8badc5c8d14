"""Attention layers of Llama's size on this CPU: IREE's default against attnpass.

An attention block without norms and rotary embedding: projections, cache, attention over 32
query and 8 key/value heads of dim 128, output projection; weights are arguments. Decode adds
one row to a concatenated cache and returns it; prefill is causal. Both programs are first held
against float64, then called in turns in one process; a ratio is the median over the rounds.
The same module holds each attention and each data movement dispatch as a function of its own,
which says where the time goes.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import iree.runtime as runtime
import numpy as np

from bench.device import load, to_iree
from bench.models.check import HOST, build, error
from bench.models.flow import Flow, read_flow
from bench.models.trace import Array, Model, Trace, Value, numpy_type
from bench.results import Row, row
from bench.timing import seconds_of

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


# One dispatch alone

_CALL = re.compile(
    r"%\S+ = flow\.dispatch @\S+::@(\S+?)\((.*?)\) : \((.*?)\) -> (%\w+|tensor<\S+>)"
)


def with_dispatches_alone(flow: Flow, text: str) -> str:
    """The module with a function `only_<name>` for each attention or moving dispatch."""
    wanted = {d.name for d in flow.dispatches if d.kind != "compute"}
    functions = {m[1]: _alone(m) for m in _CALL.finditer(text) if m[1] in wanted}
    assert functions.keys() == wanted, (wanted, list(functions))
    end = text.rindex("}")
    return text[:end] + "".join(functions.values()) + text[end:]


def _alone(call: re.Match[str]) -> str:
    """A dispatch as a function; what it writes in place is a fresh tensor, not an argument."""
    operands, kinds = call[2].split(", "), call[3].split(", ")
    result, lines, arguments = call[4], [], []
    for i, (operand, kind) in enumerate(zip(operands, kinds, strict=True)):
        if operand == result:
            lines.append(f"%v{i} = flow.tensor.empty : {kind}")
            result, produced = f"%v{i}", kind
            continue
        arguments.append(f"%a{i}: !hal.buffer_view")
        lines.append(f'%v{i} = hal.tensor.import %a{i} "a{i}" : !hal.buffer_view -> {kind}')
    produced = kinds[int(result[2:])] if result.startswith("%v") else result
    values = ", ".join(f"%v{i}" for i in range(len(operands)))
    head = call[0][call[0].index("flow.dispatch") : call[0].index(call[1] + "(") + len(call[1])]
    lines.append(f"%r = {head}({values}) : ({call[3]}) -> {result}")
    lines.append(f'%e = hal.tensor.export %r "e" : {produced} -> !hal.buffer_view')
    body = "\n".join([*lines, "util.return %e : !hal.buffer_view"])
    listed = ", ".join(arguments)
    return (
        f"util.func public @only_{call[1]}({listed}) -> !hal.buffer_view "
        f'attributes {{types = "{"; ".join(kinds)}"}} {{\n{body}\n}}\n'
    )


def arguments_alone(text: str, name: str) -> list[Array]:
    """Random arguments for the function that `with_dispatches_alone` made."""
    found = re.search(rf"@only_{re.escape(name)}\(.*?\n\}}", text, re.S)
    assert found is not None
    kinds = re.findall(r"hal\.tensor\.import .*-> tensor<(\S+)>", found[0])
    random = np.random.default_rng(0)
    arrays = []
    for kind in kinds:
        *shape, element = kind.split("x")
        values = random.standard_normal([int(s) for s in shape], np.float32)
        arrays.append((values > 0 if element == "i1" else values).astype(_type(element)))
    return arrays


def _type(element: str) -> np.dtype[Any]:
    return np.dtype(bool) if element == "i1" else numpy_type(element)


# Timing


class Program:
    """A compiled module on the local device, its arguments in place."""

    def __init__(self, vmfb: bytes):
        self.config = runtime.Config("local-task")
        self.functions = load(self.config, vmfb)

    def call(self, name: str, arrays: Sequence[Array]) -> Callable[[], Any]:
        function = self.functions[name]
        inputs = [to_iree(self.config.device, array) for array in arrays]
        return lambda: function(*inputs)


def cases() -> list[Case]:
    return list(CASES)


def run(_: Path, case: Case, options: argparse.Namespace) -> Iterator[Row]:
    model, count = block(case), 1 if options.numbers else case.rounds
    ways: dict[str, Any] = {}
    calls: dict[str, Callable[[], Any]] = {}
    alone: dict[str, dict[str, Callable[[], Any]]] = {}
    for way, mode in WAYS.items():
        edited: list[str] = []

        def edit(text: str, edited: list[str] = edited) -> str:
            edited.append(with_dispatches_alone(read_flow(text), text))
            return edited[0]

        built = build(model, mode, cpu=HOST, edit=edit)
        flow, program = read_flow(built.flow), Program(built.vmfb)
        calls[way] = program.call("main", model.inputs)
        found = error([result.to_host() for result in _listed(calls[way]())], model.outputs)
        assert found < TOLERANCE[case.element], (case.name, way, found)
        ways[way] = {"error": found} | _counts(flow)
        alone[way] = {
            name: program.call(f"only_{name}", arguments_alone(edited[0], name))
            for name in dict.fromkeys(d.name for d in flow.dispatches if d.kind != "compute")
        }
        ways[way]["calls"] = [(d.kind, d.name) for d in flow.dispatches if d.kind != "compute"]
    for parts in alone.values():
        for call in parts.values():
            call()
    rounds = [_round(calls, alone) for _ in range(count)]
    medians = {key: statistics.median(times[key] for times in rounds) for key in rounds[0]}
    for way, found in ways.items():
        listed = found.pop("calls")
        found["ms"] = medians[way, ""]
        for kind in ("attention", "movement"):
            found[f"{kind}_ms"] = sum(medians[way, name] for k, name in listed if k == kind)
    ratio = statistics.median(t["default", ""] / t["cost", ""] for t in rounds)
    ways["cost"]["speedup"] = ratio
    for way, found in ways.items():
        yield row(case.name, way, found, rounds=count)


def _round(
    calls: dict[str, Callable[[], Any]], alone: dict[str, dict[str, Callable[[], Any]]]
) -> dict[tuple[str, str], float]:
    """One call of each program, and of each of its dispatches alone, by name."""
    whole = {(way, ""): 1e3 * seconds_of(call) for way, call in calls.items()}
    parts = {
        (way, name): 1e3 * seconds_of(call)
        for way, named in alone.items()
        for name, call in named.items()
    }
    return whole | parts


def _counts(flow: Flow) -> dict[str, Any]:
    return {
        "dispatches": len(flow.dispatches),
        "moving": len(flow.moving),
        "bytes": flow.bytes,
        "moved": flow.moved,
    }


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple | list) else [results]
