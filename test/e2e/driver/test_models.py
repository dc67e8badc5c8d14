"""Whole models of the kinds people export: V^T absorbed, no dispatch added, right numbers.

Each model of -m bench.models.families is traced, so that its module and its answers come from one
description: the module has the ops of a PyTorch export, the answers are numpy's.
"""

from __future__ import annotations

import pytest
from helpers import thinned

from attnpass.report.entries import AttentionRecord, OperandRecord
from bench.models.check import OFF, build, compile_model, flow_text, worst_error
from bench.models.families import MODELS
from bench.models.flow import read_flow
from bench.models.trace import Model


def _value(record: AttentionRecord) -> OperandRecord:
    """What was decided for V."""
    (found,) = [operand for operand in record.operands if operand.operand == "value"]
    return found


ABSORBED = (
    "bert",
    "llama",
    "llama_batched",
    "llama_prefill_cache",
    "sdxl",
    "whisper",
    "einsum",
    "gpt2",
    "latent",
    "flex",
    "torch_mha",
    "mha",
    "relative_bias",
    "sliding_window",
    "multi_query",
    "paged_cache",
    "dynamic",
)


@pytest.mark.parametrize("name", thinned(ABSORBED))
def test_transposed_v_is_absorbed_in_every_attention(name: str) -> None:
    model = MODELS[name]()
    ours = build(model, "always")
    flow = read_flow(ours.flow)
    without = read_flow(flow_text(model, None, [OFF]))

    attentions = ours.report.attentions
    stored = len(ours.report.found("stored"))
    assert len(attentions) == model.text.count("attention <")
    assert set(without.v_innermost) == {False}
    assert flow.v_innermost == [True] * len(attentions)
    assert [_value(a).decision for a in attentions] == ["absorbed"] * len(attentions)
    assert len(flow.dispatches) <= len(without.dispatches) + stored
    assert worst_error(ours.vmfb, model) < 1e-5


@pytest.mark.parametrize("name", ["llama_decode", "static_cache"])
def test_a_decode_step_reads_its_cache_past_the_broadcast(name: str) -> None:
    model = MODELS[name]()
    ours = build(model, "always")
    flow, default = read_flow(ours.flow), read_flow(flow_text(model, None))

    record = _value(ours.report.attentions[0])
    assert (record.decision, record.bytes_after) == ("folded", 0)
    assert len(flow.dispatches) < len(default.dispatches)
    assert flow.moved is not None and default.moved is not None
    assert flow.moved < default.moved
    assert worst_error(ours.vmfb, model) < 1e-5


def test_wrong_numbers_are_seen() -> None:
    """The check itself: a model held to answers that are slightly off."""
    model = MODELS["mha"]()
    off = Model(model.text, model.inputs, [model.outputs[0] * (1 + 1e-4)])
    assert worst_error(compile_model(model, None), off) > 1e-5
