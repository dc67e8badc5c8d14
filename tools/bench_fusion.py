"""What it costs to take V's projection out of IREE's horizontal fusion of q, k and v.

    python tools/bench_fusion.py --json tools/results/fusion_cpu.json --page

IREE fuses contractions that share an operand under
--iree-dispatch-creation-enable-fuse-horizontal-contractions, which is off by default in 3.13.
With it on and off, each model is compiled by IREE alone and by attnpass in mode `always`, and
its dispatches and bytes are counted; an attention block of 512 rows and 8 heads of dim 128 is
also timed on this CPU, in turns. `--page` writes the generated parts of docs/cost-model.md:
this table, and the targets' numbers from the code.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import models
from bench_layers import Program, milliseconds
from doc_blocks import machine, size, table, text_table, write_block
from flow_ir import read_flow
from iree.compiler import ir
from mlir_trace import Model, Trace
from model_check import GENERIC, HOST, build, worst_error

from attnpass.attention.facts import find
from attnpass.machines import DEFAULT_TARGET, Target, named_target
from attnpass.machines.amd import machine as amd
from attnpass.machines.nvidia import machine as nvidia

FLAG = "--iree-dispatch-creation-enable-fuse-horizontal-contractions="
COUNTED = ("relative_bias", "mha", "llama", "half")
ROWS, MODEL, HEADS = 512, 1024, 8
ROUNDS = 11
# What is shown of the targets' worth: target, rows, head dim, types of Q and V.
WORTH = (
    ("sm_90", 4096, 128, "f16", "f16"),
    ("sm_90", 4096, 128, "bf16", "bf16"),
    ("sm_90", 4096, 64, "f16", "f16"),
    ("sm_90", 4096, 256, "f16", "f16"),
    ("sm_90", 4096, 128, "f8E4M3FN", "f8E4M3FN"),
    ("sm_90", 4096, 128, "f8E4M3FN", "f16"),
    ("sm_90", 4096, 128, "f32", "f32"),
    ("sm_90", 1, 128, "f16", "f16"),
    ("llvm-cpu", 4096, 128, "f32", "f32"),
    ("llvm-cpu", 1, 128, "f32", "f32"),
    ("llvm-cpu", 4096, 1024, "f32", "f32"),
    ("gfx942", 4096, 128, "f16", "f16"),
)
TOLERANCE = {"half": 1e-3}


def block() -> Model:
    """The timed block: no biases, so that nothing but the fusion changes."""
    t = Trace(5, weights_are_arguments=True)
    x = t.argument(1, ROWS, MODEL)
    weights = [t.repeat(t.weight(MODEL, MODEL), 0, 1) for _ in range(4)]
    q, k, v = (t.split_heads(t.batch_matmul(x, w), HEADS) for w in weights[:3])
    return t.finish(t.batch_matmul(t.join_heads(t.attention(q, k, v)), weights[3]))


def measure(name: str, model: Model, cpu: list[str], rounds: int) -> dict[str, Any]:
    ways: dict[str, Any] = {}
    calls = {}
    for mode in (None, "always"):
        for fused in ("false", "true"):
            built = build(model, mode, [FLAG + fused], cpu)
            flow, found = read_flow(built.flow), worst_error(built.vmfb, model)
            assert found < TOLERANCE.get(name, 1e-5), (name, mode, fused, found)
            way = f"{mode or 'IREE'}, {'fused' if fused == 'true' else 'default'}"
            ways[way] = {
                "dispatches": len(flow.dispatches),
                "horizontal": sum("horizontal" in d.name for d in flow.dispatches),
                "bytes": flow.bytes,
                "error": found,
            }
            calls[way] = Program(built.vmfb).call("main", model.inputs)
    times = [{way: milliseconds(call) for way, call in calls.items()} for _ in range(rounds)]
    for way in ways if rounds else ():
        ways[way]["ms"] = statistics.median(t[way] for t in times)
    return ways


def write_page(data: dict[str, Any]) -> None:
    head = ["model", "program", "dispatches", "of them fused", "bytes", "ms"]
    rows = [
        [
            name,
            way,
            row["dispatches"],
            row["horizontal"],
            size(row["bytes"]),
            f"{row['ms']:.1f}" if "ms" in row else "",
        ]
        for name, ways in data["models"].items()
        for way, row in ways.items()
    ]
    where = f"{data['machine']}, {data['cores']} cores, IREE {data['iree']}.\n\n"
    write_block("cost-model.md", "fusion", where + table(head, rows))
    listed = [named_target(name) for name in (*nvidia.NAMES, *amd.NAMES, "llvm-cpu")]
    head = ["target", "GB/s", "launch, us", "a launch is worth"]
    machines = map(_target_row, [*listed, DEFAULT_TARGET])
    write_block("cost-model.md", "targets", table(head, machines))
    head = ["target", "rows", "head dim", "Q", "V", "V^T saves, us", "reason in the report"]
    write_block("cost-model.md", "worth", text_table(head, map(_worth_row, WORTH)))


def _worth_row(case: tuple[str, int, int, str, str]) -> list[str]:
    name, rows, head, query, value = case
    kinds = ((rows, query), (4096, query), (4096, value))
    q, k, v = (f"tensor<32x{count}x{head}x{kind}>" for count, kind in kinds)
    maps = ("(b, m, d)", "(b, k, d)", "(b, k, n)", "()", "(b, m, n)")
    shown = ", ".join(f"affine_map<(b, m, n, d, k) -> {x}>" for x in maps)
    out = f"tensor<32x{rows}x{head}xf32>"
    text = f"""
      func.func @main(%q: {q}, %k: {k}, %v: {v}, %s: f32, %o: {out}) -> {out} {{
        %r = iree_linalg_ext.attention <indexing_maps = [{shown}]>
            ins(%q, %k, %v, %s : {q}, {k}, {v}, f32) outs(%o : {out}) {{
          ^bb0(%x: f32):
            iree_linalg_ext.yield %x : f32
        }} -> {out}
        return %r : {out}
      }}"""
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        (facts,) = find(module.operation)
        worth = named_target(name).worth_of_transposed_v(facts)
    saved = "?" if worth.seconds is None else f"{worth.seconds * 1e6:.0f}"
    return [name, str(rows), str(head), query, value, saved, worth.reason]


def _target_row(target: Target) -> list[str]:
    launch = target.launch_seconds
    return [
        target.name,
        f"{target.bytes_per_second / 1e9:.0f}",
        f"{launch * 1e6:.0f}",
        size(round(launch * target.bytes_per_second)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", action="store_true", help="write docs/cost-model.md's tables")
    options = parser.parse_args()
    found = {name: measure(name, models.MODELS[name](), GENERIC, 0) for name in COUNTED}
    found[f"{ROWS} rows, {HEADS} heads"] = measure("block", block(), HOST, ROUNDS)
    data = {**machine(), "rounds": ROUNDS, "models": found}
    print(json.dumps(data, indent=1))
    if options.json:
        options.json.write_text(json.dumps(data, indent=1) + "\n")
    if options.page:
        write_page(data)


if __name__ == "__main__":
    main()
