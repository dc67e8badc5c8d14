"""The report as text: equal layers are one paragraph, gains come first; remarks and log topics."""

from __future__ import annotations

import logging

import pytest

from attnpass.errors import AttnError
from attnpass.ir.printed import configuration_words
from attnpass.report import topics
from attnpass.report.entries import AttentionRecord, OperandRecord
from attnpass.report.gains import size_words, time_words
from attnpass.report.groups import spans
from attnpass.report.ops import Op, Place
from attnpass.report.records import Report
from attnpass.report.remarks import remarks

INFO = (
    "#iree_codegen.compilation_info<lowering_config = #iree_gpu.lowering_config<{"
    "reduction = [0, 32], workgroup = [16, 0]}>, translation_info = "
    "#iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> "
    "workgroup_size = [32, 4, 1] subgroup_size = 32>>"
)
TENSORS = ("query", "key", "value", "output")


def layers(count: int, others: tuple[int, ...] = ()) -> Report:
    """A model of equal layers, one of whose values is absorbed; `others` keep theirs."""
    report = Report(target="cuda sm_90", mode="cost", level="O2")
    for number in range(count):
        place = f"m.mlir:{10 * number + 1}:7"
        shapes: dict[str, list[int | None]] = {name: [8, None, 64] for name in TENSORS}
        record = AttentionRecord(place, "main", "attention", shapes, dict.fromkeys(TENSORS, "f16"))
        record.decide(OperandRecord("query", "kept", "k1 is innermost already"))
        value = OperandRecord("value", "kept", "V stays as it is: no gain")
        if number not in others:
            reason = f"k2 innermost in V, absorbed by linalg.matmul at m.mlir:{10 * number}:5"
            value = OperandRecord(
                "value", "absorbed", reason, bytes_before=3_000_000, bytes_after=0
            )
            value.launches = -1
        record.decide(value)
        report.attentions.append(record)
        op = Op("attention", f"kernel_{number}", (Place(place),))
        report.pass_name = "attn-configure"
        words = {"target": "cuda sm_90", "source": "", "configuration": INFO}
        report.record(op, "configured", **words)
    return report


def test_equal_layers_are_one_paragraph() -> None:
    text = layers(32).to_text()
    assert len(text.splitlines()) <= 40
    assert "@main: layers 0 to 31, 32 times: attention at m.mlir:1:7 to 311:7" in text
    assert "gained: 32 dispatches no longer made, 96 MB no longer moved" in text.splitlines()[1]
    assert "note: attention in layers 0 to 31 is configured for cuda sm_90: workgroup tiles" in text
    assert "#iree" not in text


def test_a_summary_of_any_depth_has_the_same_length() -> None:
    few, many = (len(layers(count).to_text().splitlines()) for count in (4, 1000))
    assert few == many


def test_layers_of_one_line() -> None:
    """Of all ops of a line attention alone is numbered."""
    report = Report()
    line = "m.py:7:0"
    for number in (1, 2, 3):
        report.attentions.append(AttentionRecord(line, "main", "attention", {}, {}, number=number))
    said = {"attention": [1, 2, 3], "products and a softmax": [1] * 3, "copy": [1] * 2}
    for kind, numbers in said.items():
        for number in numbers:
            op = Op(kind, "main", (Place(line, number),))
            report.record(op, "note", f"{kind} is said")
    assert [one for one in report.to_text().splitlines() if "is said" in one] == [
        "  note: attention in layers 0 to 2: attention is said",
        "  note: products and a softmax in layers 0 to 2: products and a softmax is said",
        "  note: each of 2 copies at m.py:7:0: copy is said",
    ]


def test_layers_that_differ_are_told_apart() -> None:
    text = layers(6, others=(1, 3, 5)).to_text()
    assert "attention ops 0 to 4 by 2, 3 times" in text
    assert "attention ops 1 to 5 by 2, 3 times" in text
    last = text.splitlines()[-2:]
    assert last[0] == "  not done: V keeps its order in 3 of 6 attention ops"
    assert last[1].startswith("  you could change: 6 attention ops may fit a precompiled Hopper")


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([3], "3"),
        ([0, 1, 2], "0 to 2"),
        ([0, 2, 4, 6], "0 to 6 by 2"),
        ([0, 1, 5], "0 to 1, 5"),
        ([0, 2, 5, 9, 14, 20], "0, 2, 5, 9 and 2 more"),
    ],
)
def test_spans(numbers: list[int], words: str) -> None:
    assert spans(numbers) == words


def test_sizes_and_times() -> None:
    assert [size_words(n) for n in (0, 999, 65_536, 3 * 10**9)] == [
        "0 bytes", "999 bytes", "65.5 KB", "3 GB",
    ]  # fmt: skip
    assert [time_words(t) for t in (0.0, 2.5e-6, 0.0125, 3.0)] == [
        "0 s",
        "2.5 us",
        "12.5 ms",
        "3 s",
    ]


def test_configurations_are_told_in_words() -> None:
    told = "workgroup tiles 16x0, reduction tiles 0x32, 128 threads in subgroups of 32"
    assert configuration_words(INFO) == f"{told}, VectorDistribute"
    assert configuration_words("words") == "words"


def test_remarks_are_a_line_an_op() -> None:
    lines = [remark.line("m.mlir") for remark in remarks(layers(2))]
    assert lines[0].startswith(
        "m.mlir:1:7: remark: attention: query kept: k1 is innermost already; "
    )
    assert lines[0].endswith(" [-attn-module]") and "\n" not in "".join(lines)
    assert [line.split(": remark: ")[0] for line in lines] == ["m.mlir:1:7"] * 2 + [
        "m.mlir:11:7"
    ] * 2
    assert lines[1].endswith("VectorDistribute [-attn-configure]")
    assert remarks(Report()) == []


def test_topics_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "attnpass.configure"):
        layers(1)
    (line,) = (record for record in caplog.records if record.name == "attnpass.configure")
    assert line.getMessage().startswith("attention at m.mlir:1:7 is configured for cuda sm_90: ")


def test_a_topic_of_no_pass_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(topics.SWITCH, "plan,configur")
    with pytest.raises(AttnError, match="'configur' is no topic; did you mean 'configure'"):
        topics.listen(["attn-configure", "attn-propagate-layout"])
    monkeypatch.setenv(topics.SWITCH, "zzz")
    with pytest.raises(AttnError, match=r"use all, configure, module, plan, run"):
        topics.listen(["attn-configure", "attn-propagate-layout"])
