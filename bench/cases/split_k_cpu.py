"""Decode by attn-split-k on this CPU, whole and in chunks, in turns with IREE's default."""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.cases.split_k import compile_module, speed
from bench.cases.steps import Shape, steps_module
from bench.device import load
from bench.results import Row, row
from bench.timing import ms, relative_error, seconds_of

IS_ON_CPU = True
SPLITS = ("", "1", "2", "4", "8")
ROUNDS, CALLS = 25, 3
FLAGS = [
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
]


def cases() -> list[Shape]:
    sizes = ((1, 4, 4096), (1, 4, 8192), (1, 4, 16384), (1, 4, 65536), (1, 1, 65536), (2, 4, 16384))
    return [Shape(*size, element="f32") for size in sizes]


def run(folder: Path, shape: Shape, options: argparse.Namespace) -> Iterator[Row]:
    """Compiles and times; the first call of each turn is not counted."""
    from iree import runtime

    config = runtime.Config("local-task")
    draw = np.random.default_rng(0).standard_normal
    sizes = [(shape.heads, keys, shape.head_dim) for keys in (shape.rows, shape.keys, shape.keys)]
    q, k, v = (draw(size, dtype=np.float32) for size in sizes)
    scores = np.exp(np.einsum("bmd,bkd->bmk", q, k) * shape.head_dim**-0.5)
    right = np.einsum("bmk,bkd->bmd", scores / scores.sum(-1, keepdims=True), v)
    inputs = [runtime.asdevicearray(config.device, x) for x in (q, k, v)]
    calls: dict[str, Callable[[], Any]] = {}
    found: dict[str, dict[str, Any]] = {}
    for splits in SPLITS:
        text = steps_module(shape, {"one": 1})
        binary, said = compile_module(text, FLAGS, splits, configured=False)
        function = load(config, binary)["one"]
        calls[splits] = lambda f=function: f(*inputs).to_host()
        found[splits] = {"said": said, "error": relative_error(calls[splits](), right)}
    times: dict[str, list[float]] = {splits: [] for splits in calls}
    for _ in range(1 if options.numbers else ROUNDS):
        for splits, call in calls.items():
            call()
            times[splits] += [seconds_of(call) for _ in range(CALLS)]
    for splits, seconds in times.items():
        spent = speed(shape, statistics.median(seconds)) | {"best": ms(min(seconds), 5)}
        way = f"splits {splits or 'default'}"
        yield row(shape.name, way, found[splits] | spent, threads=os.cpu_count() or 1)
