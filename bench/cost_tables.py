"""The tables of docs/notes/cost-model.md, from the numbers in the code."""

from __future__ import annotations

from iree.compiler import ir

from attnpass.attention.facts import find
from attnpass.machines import DEFAULT_TARGET, Target, named_target
from attnpass.machines.amd import machine as amd
from attnpass.machines.nvidia import machine as nvidia
from attnpass.report.gains import size_words
from bench.attention import OUT, K, Q, V, attention
from bench.markdown import table, text_table

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


def targets() -> str:
    names = (*nvidia.NvidiaGpus.names, *amd.AmdGpus.names, "llvm-cpu")
    listed = [named_target(name) for name in names]
    head = ["target", "GB/s", "launch, us", "a launch is worth"]
    return table(head, map(_target_row, [*listed, DEFAULT_TARGET]))


def worth() -> str:
    head = ["target", "rows", "head dim", "Q", "V", "V^T saves, us", "reason in the report"]
    return text_table(head, map(_worth_row, WORTH))


def _worth_row(case: tuple[str, int, int, str, str]) -> list[str]:
    name, rows, head, query, value = case
    kinds = ((rows, query), (4096, query), (4096, value))
    q, k, v = (f"tensor<32x{count}x{head}x{kind}>" for count, kind in kinds)
    out = f"tensor<32x{rows}x{head}xf32>"
    read = [("%q", q, Q), ("%k", k, K), ("%v", v, V), ("%scale", "f32", "")]
    text = f"""
      func.func @main(%q: {q}, %k: {k}, %v: {v}, %scale: f32, %o: {out}) -> {out} {{
        {attention("%r", read, ("%o", out, OUT))}
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
        size_words(round(launch * target.bytes_per_second)),
    ]
