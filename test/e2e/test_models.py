"""Whole models of the kinds people export: V^T absorbed, no dispatch added, right numbers.

Each model is traced (see tools/mlir_trace.py), so that its module and its answers come from
one description: the module has the ops of a PyTorch export, the answers are numpy's.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import make_llama_layer
from mlir_trace import Model, Trace, Value
from model_check import compile_model, dispatches, v_transposed, worst_error

from attnpass import Report
from attnpass.report.records import AttentionRecord, OperandRecord

OFF = "--iree-global-opt-enable-attention-v-transpose=false"
MODEL, HEADS = 64, 4


def _attend(
    t: Trace, x: Value, source: Value, mask: Value | None = None, bias: tuple[bool, ...] = ()
) -> Value:
    """Multi-head attention of `x` on `source`; `bias` says which of q, k, v have one."""
    has = bias or (False, False, False)
    q, k, v = (
        t.split_heads(t.linear(value, MODEL, bias=b), HEADS)
        for value, b in zip((x, source, source), has, strict=True)
    )
    return t.linear(t.join_heads(t.attention(q, k, v, mask)), MODEL, bias=True)


def mha() -> Model:
    t = Trace(1)
    x = t.argument(2, 16, MODEL)
    return t.finish(_attend(t, x, x, bias=(True, True, True)))


def bert(layers: int = 2) -> Model:
    """Post-norm layers; an additive mask hides the second sequence's padding."""
    t = Trace(2)
    x = t.argument(2, 16, MODEL)
    hidden = np.zeros((2, 1, 1, 16))
    hidden[1, ..., 11:] = -1e4
    mask = t.constant(hidden)
    for _ in range(layers):
        x = t.layer_norm(t.add(x, _attend(t, x, x, mask, bias=(True, True, True))))
        inner = t.relu(t.linear(x, 96, bias=True))
        x = t.layer_norm(t.add(x, t.linear(inner, MODEL, bias=True)))
    return t.finish(x)


def llama() -> Model:
    return make_llama_layer.prefill(rows=24)


def llama_batched() -> Model:
    return make_llama_layer.prefill(batch=3, rows=20)


def sdxl() -> Model:
    """A transformer block of a U-Net: self attention, then attention on 77 text tokens."""
    t = Trace(3)
    x, text = t.argument(2, 36, MODEL), t.argument(2, 77, 48)
    normal = t.layer_norm(x)
    x = t.add(x, _attend(t, normal, normal))
    return t.finish(t.add(x, _attend(t, t.layer_norm(x), text)))


def whisper() -> Model:
    """A decoder layer: causal self attention, then attention on 40 encoder frames."""
    t = Trace(4)
    x, frames = t.argument(2, 12, MODEL), t.argument(2, 40, MODEL)
    bias = (True, False, True)
    normal = t.layer_norm(x)
    x = t.add(x, _attend(t, normal, normal, t.causal_mask(12, 12), bias))
    x = t.add(x, _attend(t, t.layer_norm(x), frames, bias=bias))
    inner = t.relu(t.linear(t.layer_norm(x), 96, bias=True))
    return t.finish(t.add(x, t.linear(inner, MODEL, bias=True)))


def einsum() -> Model:
    """Projections written as einsum('bsd,hdk->bhsk'): one flat product, then reshapes."""
    t = Trace(5)
    x = t.argument(2, 16, MODEL)
    flat = t.expand(t.collapse(x, [[0, 1], [2]]), [[0, 1], [2]], 1, 32, MODEL)
    heads = []
    for _ in range(3):
        weight = t.collapse(t.transpose(t.weight(HEADS, MODEL, 16), 1, 0, 2), [[0], [1, 2]])
        weight = t.expand(weight, [[0, 1], [2]], 1, MODEL, HEADS * 16)
        product = t.collapse(t.batch_matmul(flat, weight), [[0, 1], [2]])
        split = t.expand(product, [[0, 1], [2, 3]], 2, 16, HEADS, 16)
        heads.append(t.transpose(split, 0, 2, 1, 3))
    return t.finish(t.attention(heads[0], heads[1], heads[2]))


def _value(record: AttentionRecord) -> OperandRecord:
    """What was decided for V."""
    (found,) = [operand for operand in record.operands if operand.operand == "value"]
    return found


MODELS = [mha, bert, llama, llama_batched, sdxl, whisper, einsum]


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_transposed_v_is_absorbed_in_every_attention(make) -> None:
    model = make()
    report = Report()
    flow = compile_model(model, "always", ["--compile-to=flow"], report).decode()
    plain = compile_model(model, None, ["--compile-to=flow", OFF], None).decode()

    assert len(report.attentions) == model.text.count("iree_linalg_ext.attention")
    # Equal attentions share one executable, so there may be fewer than in the report.
    assert set(v_transposed(plain)) == {False}
    assert set(v_transposed(flow)) == {True}
    assert [_value(a).decision for a in report.attentions] == ["absorbed"] * len(report.attentions)
    assert dispatches(flow) <= dispatches(plain)
    assert worst_error(compile_model(model, "always", [], None), model) < 1e-5


def test_a_decode_step_reads_its_cache_past_the_broadcast() -> None:
    model = make_llama_layer.decode()
    report = Report()
    flow = compile_model(model, "always", ["--compile-to=flow"], report).decode()
    plain = compile_model(model, None, ["--compile-to=flow", OFF], None).decode()

    record = _value(report.attentions[0])
    assert (record.decision, record.bytes_after) == ("folded", 0)
    assert dispatches(flow) < dispatches(plain)
    assert worst_error(compile_model(model, "always", [], None), model) < 1e-5


def test_wrong_numbers_are_seen() -> None:
    """The check itself: a model held to answers that are slightly off."""
    model = mha()
    off = Model(model.text, model.inputs, [model.outputs[0] * (1 + 1e-4)])
    assert worst_error(compile_model(model, None, [], None), off) > 1e-5
