"""The report has the producers of each operand, with what becomes of each."""

from __future__ import annotations

from dataclasses import replace

from iree.compiler import ir

import attnpass
from attnpass.report.entries import OperandRecord
from bench.models import families
from bench.models.trace import Model

Fates = list[tuple[str, str, str, str]]


def operands_of(model: Model, mode: str) -> dict[str, OperandRecord]:
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(model.text)
        report = attnpass.run(module, f"attn-propagate-layout{{mode={mode}}}", target="sm_90")
    return {one.operand: one for one in report.attentions[0].operands}


def fates_of(record: OperandRecord) -> Fates:
    """The ops that do not stay, next to attention first, without those that join its batches."""
    found = [(one.op, one.before, one.after, one.fate) for one in record.chain]
    return [link for link in found if link[3] != "stays" and link[0] != "join dims"]


def test_a_product_absorbs_the_change() -> None:
    value = operands_of(families.bert(1), "always")["value"]
    assert fates_of(value) == [
        ("transpose", "2x4x16x16xf32", "", "goes"),
        ("split dims", "2x16x4x16xf32", "2x4x16x16xf32", "changes"),
        ("elementwise", "2x16x64xf32", "2x4x16x16xf32", "changes"),
        ("product", "2x16x64xf32", "2x64x16xf32", "absorbs"),
    ]
    as_it_is, transposed = value.alternatives
    assert transposed.taken and not as_it_is.taken and transposed.launches == 0


def test_a_broadcast_that_is_folded_goes() -> None:
    value = operands_of(families.llama_decode(), "cost")["value"]
    assert fates_of(value) == [("broadcast", "1x2x4x64x16xf32", "", "goes")]
    assert value.chain[0] == replace(value.chain[0], op="join dims", after="2x64x16xf32")
    assert value.chain[-1].op == "argument"
    assert [one.taken for one in value.alternatives] == [False, False, True]


def test_nothing_changes_where_nothing_is_done() -> None:
    operands = operands_of(families.bert(1), "never")
    assert all(fates_of(record) == [] and record.chain for record in operands.values())
    assert operands["value"].alternatives == []
