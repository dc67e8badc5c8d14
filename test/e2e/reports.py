"""Reports of models of any depth, without a compile."""

from __future__ import annotations

from attnpass.report.entries import AttentionRecord, Link, OperandRecord, PricedLayout, StepRecord
from attnpass.report.ops import Op, Place
from attnpass.report.records import Report

TENSORS = ("query", "key", "value", "output")


def model(layers: int, kinds: int = 1) -> Report:
    """Layers whose V is absorbed, of `kinds` different shapes in turns."""
    report = Report(target="cuda sm_90", mode="cost", level="O2", dispatches=9 * layers)
    for number in range(layers):
        place, rows = f"/models/llama.mlir:{20 * number + 9}:7", 64 + number % kinds
        shapes: dict[str, list[int | None]] = {name: [8, rows, 128] for name in TENSORS}
        record = AttentionRecord(place, "main", "attention", shapes, dict.fromkeys(TENSORS, "f16"))
        for name, order in (("query", "(d0, d1, d3)"), ("key", "(d0, d4, d3)")):
            record.decide(OperandRecord(name, "kept", "k1 is innermost already", order, order))
        record.decide(value(number))
        report.attentions.append(record)
        kernel = Op("kernel", f"main_dispatch_{number}", (Place(place),))
        report.record(kernel, "lowered", "uses ex2.approx.ftz.f32 for 16 elements")
    diff = [" %0 = tensor.empty()", "-%1 = linalg.transpose", "+%1 = linalg.matmul"]
    report.steps = [
        StepRecord("attn-propagate-layout", "preprocessing", True, "plan layouts", 1, 1, diff),
        StepRecord("attn-widen", "preprocessing", False, "wider operands"),
    ]
    return report


def value(number: int) -> OperandRecord:
    """V absorbed by its projection, past a transpose."""
    place = f"/models/llama.mlir:{20 * number}:5"
    chain = [
        Link("transpose", place, "8x64x128xf16", "", "goes"),
        Link("product", place, "64x1024xf16", "8x128x64xf16", "absorbs"),
        Link("argument", "", "64x1024xf16", "64x1024xf16"),
    ]
    prices = [
        PricedLayout("as it is", 0, 0, 0.0, 0.0),
        PricedLayout("V^T, k2 innermost", -4096, -1, 3e-6, -8e-6, taken=True),
    ]
    reason = f"k2 innermost in V, absorbed by linalg.matmul at {place}"
    maps = "(d0, d4, d2)", "(d0, d2, d4)"
    record = OperandRecord("value", "absorbed", reason, *maps, chain=chain, alternatives=prices)
    record.bytes_before, record.bytes_after, record.launches = 4096, 0, -1
    return record
