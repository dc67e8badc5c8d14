"""The graphs of tools/fuzz.py, by seed: their text, the arguments of their calls, and what float64
makes of these, with how near a compiled module must come."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import forms
import numpy as np
from interpreter import Machine
from iree.compiler import ir
from random_forms import random_form, random_loop, random_step
from random_modules import Choices, Function, random_function, seeded
from random_products import random_products
from random_written import random_written

# Relative L2 errors that are right, by the narrowest type in a graph.
TOLERANCES = (("f8E", 6e-2), ("bf16", 2e-2), ("f16", 5e-3))
F32_TOLERANCE = {"llvm-cpu": 2e-5, "cuda": 3e-4}
# What a graph's own types lose, by rounding after each op, may be lost so many times over: sums
# are rounded at each step, and an exponential is a polynomial. Beyond the second number
# nothing is judged.
ROUNDING_FACTOR, MOST_TOLERANCE = 10, 0.2
FAMILIES = ("form",) * 5 + ("chain",) * 2 + ("written",) * 2 + ("state",)


@dataclass
class Graph:
    """One function of a module, with its calls and their results in float64."""

    seed: int
    family: str
    name: str
    text: str
    calls: list[list[Any]]
    wanted: list[list[np.ndarray]]
    rounding: float

    def tolerance(self, target: str) -> float:
        """The relative error that is right on `target` (llvm-cpu... or cuda...)."""
        backend = next(name for name in F32_TOLERANCE if target.startswith(name))
        found = [number for word, number in TOLERANCES if word in self.text]
        least = found[0] if found else F32_TOLERANCE[backend]
        return max(least, ROUNDING_FACTOR * self.rounding)

    @property
    def is_judged(self) -> bool:
        """Whether its types hold its numbers well enough to tell right from wrong."""
        return self.rounding * ROUNDING_FACTOR <= MOST_TOLERANCE

    def error(self, call: int, results: Sequence[np.ndarray]) -> float:
        """The largest relative error of the results of one call."""
        pairs = zip(results, self.wanted[call], strict=True)
        return max(relative_error(got, wanted) for got, wanted in pairs)


def relative_error(got: np.ndarray, wanted: np.ndarray) -> float:
    """The relative L2 error where `wanted` is finite; infinite where `got` is not, there."""
    got, wanted = np.asarray(got, float), np.asarray(wanted, float)
    if got.shape != wanted.shape:
        return math.inf
    finite = np.isfinite(wanted)
    if not np.isfinite(got[finite]).all():
        return math.inf
    least = 1e-2 * math.sqrt(max(1, np.count_nonzero(finite)))
    norm = max(float(np.linalg.norm(wanted[finite])), least)
    return float(np.linalg.norm(got[finite] - wanted[finite])) / norm


def function_of(seed: int) -> tuple[str, Function]:
    """The family and the function of a seed."""
    family, turn = FAMILIES[seed % len(FAMILIES)], seed // len(FAMILIES)
    choices, name = seeded(seed), f"g{seed}"
    if family == "form":
        return family, random_form(choices, name, for_gpu=turn % 2 == 1)
    if family == "chain":
        return family, random_function(choices, name, regular=turn % 2 == 1, most_steps=4)
    if family == "written":
        return family, random_written(choices, name, regular=turn % 2 == 1, wide=True)
    return family, _state(choices, name, turn)


def _state(choices: Choices, name: str, turn: int) -> Function:
    return random_loop(choices, name) if turn % 2 else random_step(choices, name)


def graph_of(seed: int) -> Graph:
    """The graph of a seed."""
    return _computed(seed, *function_of(seed))


def graph_of_products(seed: int) -> Graph:
    """The program of products of a seed."""
    return _computed(seed, *random_products(seeded(seed), f"p{seed}", seed))


def _computed(seed: int, family: str, function: Function) -> Graph:
    """A function as a graph. IREE's bindings read its text; numpy computes it."""
    text, calls = function.text(), function.calls(np.random.default_rng(seed))
    with ir.Context() as context, ir.Location.unknown(), np.errstate(all="ignore"):
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        wanted, rounded = (
            [machine.call(function.name, call) for call in calls]
            for machine in (Machine(module), Machine(module, rounds=True))
        )
    pairs = [pair for two in zip(rounded, wanted, strict=True) for pair in zip(*two, strict=True)]
    rounding = max(relative_error(*pair) for pair in pairs)
    return Graph(seed, family, function.name, text, calls, wanted, rounding)


@dataclass
class FormGraph(Graph):
    """One attention in one form."""

    form: forms.Form

    def tolerance(self, target: str) -> float:
        is_cpu = target.startswith("llvm-cpu")
        return (forms.CPU_TOLERANCE if is_cpu else forms.GPU_TOLERANCE)[self.form.kind]

    def error(self, call: int, results: Sequence[np.ndarray]) -> float:
        del call
        return self.form.error(results)


@cache
def forms_for(target: str) -> list[forms.Form]:
    """All forms for the configurations of `target`."""
    is_cpu = target.startswith("llvm-cpu")
    return forms.product(forms.CPU_FAMILIES if is_cpu else forms.GPU_FAMILIES)


def graph_of_form(number: int, target: str) -> Graph:
    """The form of this number as a graph."""
    form = forms_for(target)[number]
    text, calls = form.text(form.name), [form.inputs()]
    return FormGraph(number, form.family, form.name, text, calls, [[form.wanted()]], 0, form)
