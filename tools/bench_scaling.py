"""How attn-propagate-layout scales, beside IREE's own C++ pass in the same process.

    python tools/bench_scaling.py --json tools/results/scaling.json

Modules of 10 to 5000 layers, each on the result of the one before: `attention` layers are
projections with bias, reshapes, transposes and attention alone, `llama` layers are whole
transformer layers. Both passes get a fresh parse of the same text; the best of several runs
is kept. Times are wall-clock seconds on this machine, the verifier's included.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import make_llama_layer
import numpy as np
from iree.compiler import ir
from iree.compiler.passmanager import PassManager
from mlir_trace import Trace, Value

import attnpass

SIZES = (10, 100, 1000, 2000, 5000)
OURS = "attn-propagate-layout{mode=always}"
THEIRS = (
    "builtin.module(func.func(iree-global-opt-propagate-linalg-transpose"
    "{enable-attention-v-transpose=true enable-aggressive-propagation=true}))"
)
ROWS, MODEL = 8, {"attention": 8, "llama": make_llama_layer.SMALL.model}


class SharedWeights(Trace):
    """A trace in which weights of one shape are one constant: small text, many layers."""

    def weight(self, *shape: int, mean: float = 0.0) -> Value:
        key = (shape, mean)
        if key not in self._weights:
            self._weights[key] = super().weight(*shape, mean=mean)
        return self._weights[key]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._weights: dict[tuple[tuple[int, ...], float], Value] = {}


def module_text(kind: str, layers: int) -> str:
    t = SharedWeights()
    layer = {"attention": attention_layer, "llama": llama_layer}[kind]
    # The values are of no interest, and grow from layer to layer.
    with np.errstate(all="ignore"):
        x = t.argument(1, ROWS, MODEL[kind])
        for _ in range(layers):
            x = layer(t, x)
        return t.finish(x).text


def attention_layer(t: Trace, x: Value) -> Value:
    weight, bias = t.weight(1, x.shape[2], x.shape[2]), t.weight(x.shape[2])
    q, k, v = (t.split_heads(t.add(t.batch_matmul(x, weight), bias), 2) for _ in range(3))
    return t.add(t.batch_matmul(t.join_heads(t.attention(q, k, v)), weight), bias)


def llama_layer(t: Trace, x: Value) -> Value:
    return make_llama_layer.layer(t, x)


def seconds(text: str, run: Callable[[ir.Module], Any], repeats: int) -> float:
    """The best time of `run` on a fresh parse of `text`."""
    times = []
    for _ in range(repeats):
        with ir.Context() as context:
            context.load_all_available_dialects()
            module = ir.Module.parse(text)
            gc.collect()
            start = time.perf_counter()
            run(module)
            times.append(time.perf_counter() - start)
    return min(times)


def ours(module: ir.Module) -> None:
    report = attnpass.run(module, OURS)
    records = [operand for a in report.attentions for operand in a.operands]
    decided = {record.decision for record in records if record.operand == "value"}
    assert decided == {"absorbed"}, decided


def theirs(module: ir.Module) -> None:
    PassManager.parse(THEIRS, module.context).run(module.operation)


def measure(kind: str, layers: int, repeats: int) -> dict[str, Any]:
    text = module_text(kind, layers)
    with ir.Context() as context:
        context.load_all_available_dialects()
        ops = _count(ir.Module.parse(text))
    # Imports, and the first use of each dialect, are not what is measured.
    small = module_text(kind, 1)
    seconds(small, ours, 1)
    seconds(small, theirs, 1)
    found = {"ours": seconds(text, ours, repeats), "iree": seconds(text, theirs, repeats)}
    return {"kind": kind, "layers": layers, "ops": ops} | {
        name: round(s, 4) for name, s in found.items()
    }


def _count(module: ir.Module) -> int:
    """Ops outside of linalg bodies."""
    count = 0

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal count
        count += 1
        inside = op.name.startswith(("linalg.", "iree_linalg_ext."))
        return ir.WalkResult.SKIP if inside else ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--layers", type=int, nargs="*", default=SIZES)
    parser.add_argument("--kinds", nargs="*", default=list(MODEL))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"{'kind':10s}{'layers':>7s}{'ops':>8s}{'ours s':>9s}{'us/layer':>9s}{'IREE s':>9s}")
    rows = []
    for kind, layers in itertools.product(options.kinds, options.layers):
        row = measure(kind, layers, options.repeats)
        each = row["ours"] / layers * 1e6
        numbers = f"{row['ours']:9.3f}{each:9.0f}{row['iree']:9.3f}"
        print(f"{kind:10s}{layers:7d}{row['ops']:8d}{numbers}", flush=True)
        rows.append(row)
    if options.json:
        machine = {"machine": platform.machine(), "cores": os.cpu_count()}
        machine |= {"python": platform.python_version(), "iree": _iree_version()}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n")


def _iree_version() -> str:
    from importlib.metadata import version

    return version("iree-base-compiler")


if __name__ == "__main__":
    main()
