"""Whole layers on llvm-cpu at each of IREE's levels: which of their kernels are vector loops of
ours, and that numbers are PyTorch's in float64."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_text, rel_error, run_module, thinned

from attnpass import Report

torch = pytest.importorskip("torch")

from bench.device import several, torch_type  # noqa: E402
from bench.models.programs import block_of, fill, text_of  # noqa: E402

# Names that reports have for loops of attention and of products, by what stands in the lanes.
NAMES = DECODE, PREFILL, BY_DEPTH, BY_COLUMN = "the head dim", "rows", "the depth", "columns"


@dataclass(frozen=True)
class Layer:
    """A block of `bench.models.blocks` with the shapes of its inputs; (1,) is a place in a cache,
    and a `padding` mask has integers. `loops` are those at O2 and O3, `at_o0` those at O0."""

    name: str
    model: str
    sizes: Mapping[str, Any]
    shapes: tuple[tuple[int, ...], ...]
    loops: Mapping[str, int]
    at_o0: Mapping[str, int]

    def inputs(self, kind: str) -> list[Any]:
        torch.manual_seed(1)
        given = []
        for shape in self.shapes:
            if len(shape) == 1:
                given.append(torch.tensor([150]))
            elif self.model == "encoders" and len(shape) == 2:
                given.append((torch.arange(shape[1]) < shape[1] - 30).long().expand(shape).clone())
            else:
                given.append(torch.randn(shape).to(torch_type(kind)))
        return given


STEP = ((1, 1, 512), (1, 64), (1, 64), (1,), (1, 2, 256, 64), (1, 2, 256, 64))
SIZES = {"width": 512, "count": 8, "groups": 2, "hidden": 1024}
# Q, K and V (one kernel for both), what comes of attention, gate, up and down.
STEP_LOOPS = {DECODE: 1, BY_DEPTH: 6}
ENCODERS = {"layers": 1, "width": 256, "count": 4, "hidden": 512, "behind": True}
# Products of the same sizes have one kernel.
LAYERS = (
    Layer("decode", "decode", SIZES, STEP, STEP_LOOPS, STEP_LOOPS),
    Layer(
        "bert",
        "encoders",
        ENCODERS,
        ((1, 512, 256), (1, 512)),
        {PREFILL: 1, BY_COLUMN: 4},
        {PREFILL: 1, BY_COLUMN: 4},
    ),
    Layer(
        "gpt2",
        "gpt2",
        {"layers": 1, "width": 256, "count": 4},
        ((1, 512, 256),),
        {PREFILL: 1, BY_COLUMN: 4},
        {PREFILL: 1, BY_COLUMN: 4},
    ),
)
TOLERANCES = {"f32": 5e-6, "f16": 3e-3, "bf16": 2e-2}
LEVELS = ("O0", "O2", "O3")
# Loops are those of f32 in each type: layers, levels and types in pairs.
RUNS = [
    (layer, level, tuple(TOLERANCES)[(i + j) % 3])
    for i, layer in enumerate(LAYERS)
    for j, level in enumerate(LEVELS)
]


@pytest.mark.parametrize(
    ("layer", "level", "kind"), thinned(RUNS), ids=lambda one: getattr(one, "name", one)
)
def test_loops_and_numbers(layer: Layer, level: str, kind: str) -> None:
    block = block_of(layer.model, layer.sizes, torch_type(kind), "cpu")
    inputs = layer.inputs(kind)
    fill(block)
    wide = block_of(layer.model, layer.sizes, torch.float64, "cpu")
    wide.load_state_dict(block.state_dict())
    with torch.no_grad():
        wanted = wide(*(x.double() if x.is_floating_point() else x for x in inputs))

    report = Report()
    flags = ["--iree-llvmcpu-target-cpu=host", f"--iree-opt-level={level}"]
    text = text_of(block, inputs, [None] * len(inputs))
    vmfb = compile_text(text, mode="cost", flags=[*flags, "--iree-input-type=torch"], report=report)
    lanes = [one.details["lanes"] for one in report.found("loops")]
    found = Counter(one for one in lanes if one in NAMES)
    wanted_loops = Counter(layer.at_o0 if level == "O0" else layer.loops)
    if layer.name == "bert" and kind != "f32":
        # One of the products of Q, K and V is a kernel of its own.
        wanted_loops[BY_COLUMN] += 1
    assert found == wanted_loops
    assert report.found("lowered"), "norms go by wide steps"
    assert not report.found("no-loops", "fallback")

    given = [_array(one) for one in (*inputs, *block.parameters())]
    for got, right in zip(several(run_module(vmfb, given)), several(wanted), strict=True):
        error = rel_error(np.asarray(got).astype(np.float64).reshape(right.shape), right.numpy())
        assert error < TOLERANCES[kind]


def _array(tensor: Any) -> np.ndarray:
    if tensor.dtype == torch.bfloat16:
        return tensor.detach().float().numpy().astype(ml_dtypes.bfloat16)
    return tensor.detach().numpy()
