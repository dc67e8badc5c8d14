"""What an edit keeps of an attention op, whatever it changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from iree.compiler import ir

from attnpass.attention.edit import attention_op, edit, fill_score, may_cut, no_key_seen
from attnpass.attention.facts import AttentionFacts, describe, find
from attnpass.ir import (
    Builder,
    erase_dead,
    location_text,
    maps,
    number_of,
    set_attribute,
    set_number,
)

_MAPS = (
    "affine_map<(b, m, n, d, k) -> (b, m, d)>, affine_map<(b, m, n, d, k) -> (b, k, d)>, "
    "affine_map<(b, m, n, d, k) -> (b, k, n)>, affine_map<(b, m, n, d, k) -> ()>"
)
_OUT, _ROW = "affine_map<(b, m, n, d, k) -> (b, m, n)>", "affine_map<(b, m, n, d, k) -> (b, m)>"
# A region that holds another, and reads a position and what stands outside.
_REGION = """^bb0(%x: f32):
    %at = iree_linalg_ext.index 4 : index
    %far = arith.cmpi uge, %at, %limit : index
    %y = scf.if %far -> f32 {
      %i = arith.index_cast %at : index to i32
      %f = arith.sitofp %i : i32 to f32
      %s = arith.subf %x, %f : f32
      scf.yield %s : f32
    } else {
      scf.yield %x : f32
    }
    iree_linalg_ext.yield %y : f32"""
TEXT = f"""
func.func @whole(%q: tensor<2x4x8xf32>, %k: tensor<2x16x8xf32>, %v: tensor<2x16x8xf32>,
    %limit: index) -> tensor<2x4x8xf32> {{
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x4x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [{_MAPS}, {_OUT}]>
      ins(%q, %k, %v, %scale : tensor<2x4x8xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>, f32)
      outs(%e : tensor<2x4x8xf32>) {{
  {_REGION}
  }} -> tensor<2x4x8xf32>
  return %r : tensor<2x4x8xf32>
}}
func.func @online(%q: tensor<2x4x8xf32>, %k: tensor<2x16x8xf32>, %v: tensor<2x16x8xf32>,
    %o: tensor<2x4x8xf32>, %t: tensor<2x4xf32>, %limit: index)
    -> (tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {{
  %scale = arith.constant 0.25 : f32
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [{_MAPS}, {_OUT}, {_ROW}, {_ROW}]>
      ins(%q, %k, %v, %scale : tensor<2x4x8xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>, f32)
      outs(%o, %t, %t : tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {{
  {_REGION}
  }} -> tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>
  return %r#0, %r#1, %r#2 : tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}}
"""


@pytest.fixture
def module() -> Iterator[ir.Module]:
    with ir.Context() as context:
        context.load_all_available_dialects()
        yield ir.Module.parse(TEXT)


@pytest.fixture(params=["whole", "online"])
def facts(module: ir.Module, request: pytest.FixtureRequest) -> AttentionFacts:
    (found,) = (facts for facts in find(module.operation) if facts.function == request.param)
    return found


def _sizes(facts: AttentionFacts, **changed: list[int]) -> list[list[int]]:
    """The sizes that dims are cut into, of those named and the others."""
    whole = dict(zip("bmndk", ([size or 0] for size in facts.sizes), strict=True))
    return list((whole | changed).values())


def test_an_edit_of_nothing_is_the_same_op(module: ir.Module, facts: AttentionFacts) -> None:
    before = str(module)
    edit(facts).replace()
    assert str(module) != before
    erase_dead([facts.op])
    assert str(module) == before


def test_attributes_and_location_stay(module: ir.Module, facts: AttentionFacts) -> None:
    set_attribute(facts.op, "lowering_config", "#iree_gpu.lowering_config<{reduction = [1]}>")
    set_attribute(facts.op, "attnpass.natural_scores", "unit")
    set_number(facts.op, 3)
    new = edit(facts).attribute("mine", ir.UnitAttr.get()).build()
    assert {*new.attributes} == {*facts.op.attributes, "mine"}
    assert new.attributes["lowering_config"] == facts.op.attributes["lowering_config"]
    assert (location_text(new.location), number_of(new)) == (facts.location, 3)
    plain = edit(facts).without_configuration().build()
    assert {*facts.op.attributes} - {*plain.attributes} == {"lowering_config"}
    assert not may_cut(facts, _sizes(facts, n=[4, 2])) and may_cut(facts, _sizes(facts))
    assert module.operation.verify()


def test_positions_follow_their_dims(module: ir.Module, facts: AttentionFacts) -> None:
    renumbered = edit(facts).renumber([1, 2, 3, 4, 0]).replace()
    assert str(renumbered).count("iree_linalg_ext.index 0") == 1
    assert describe(renumbered).k2 == (0,)
    assert not may_cut(facts, _sizes(facts, k=[4, 4]))
    assert may_cut(facts, _sizes(facts, n=[2, 4]))
    cut = edit(describe(renumbered)).cut([[4, 4], [2], [4], [8], [8]]).build()
    text = str(cut)
    assert text.count("iree_linalg_ext.index 0") == text.count("iree_linalg_ext.index 1") == 1
    assert text.count("arith.muli") == 1
    assert module.operation.verify()


def test_the_position_in_a_dim_that_is_gone_is_0(module: ir.Module) -> None:
    facts = find(module.operation)[0]
    build = Builder(facts.op)
    shape = [2, 1, 8]
    key, value = (
        build.extract_slice(facts.value(name), [0, 0, 0], shape) for name in ("key", "value")
    )
    one = describe(edit(facts).operand("key", key).operand("value", value).replace())
    new = edit(one).cut(_sizes(one, k=[])).build()
    assert "iree_linalg_ext.index " not in str(new)
    assert maps.loop_count(new) == 4


def test_a_mask_comes_in_or_takes_the_place_of_one(
    module: ir.Module, facts: AttentionFacts
) -> None:
    seen = Builder(facts.op).all_true([16])
    masked = describe(edit(facts).mask(seen, (4,)).replace())
    assert masked.map_of("mask") == (4,)
    assert masked.result_names == facts.result_names
    seen = Builder(masked.op).all_true([4, 16])
    other = describe(edit(masked).mask(seen, (1, 4)).replace())
    assert other.map_of("mask") == (1, 4)
    assert len(other.op.operands) == len(masked.op.operands)
    assert module.operation.verify()


def test_in_place_the_op_is_the_same(module: ir.Module, facts: AttentionFacts) -> None:
    turned = Builder(facts.op).transpose(facts.value("value"), [0, 2, 1])
    op = edit(facts).operand("value", turned, (0, 2, 4)).in_place()
    assert op == facts.op
    assert describe(op).map_of("value") == (0, 2, 4)
    edit(describe(op)).renumber([0, 1, 2, 4, 3]).in_place()
    assert describe(op).k2 == (3,) and str(op).count("iree_linalg_ext.index 3") == 1
    assert module.operation.verify()


def test_results_come_back_in_their_order_and_size(
    module: ir.Module, facts: AttentionFacts
) -> None:
    build, f32 = Builder(facts.op), ir.F32Type.get()
    wide = build.fill(build.constant_float(0.0, f32), build.empty([16, 4, 2], f32))
    value = build.fill(build.constant_float(0.0, f32), build.empty([2, 16, 16], f32))
    made = edit(facts).operand("value", value).operand("output", wide, (2, 1, 0))
    new = made.replace()
    assert [str(new.results[0].type)] == ["tensor<16x4x2xf32>"]
    assert module.operation.verify()
    assert not list(facts.op.results[0].uses)


def test_attention_becomes_online_attention_and_back(
    module: ir.Module, facts: AttentionFacts
) -> None:
    build = Builder(facts.op)
    starts = no_key_seen(build, [[2, 4, 8], [2, 4], [2, 4]])
    output = facts.map_of("output")
    online = describe(edit(facts).starts(starts, [output, output[:2], output[:2]]).build())
    assert online.kind == "online_attention"
    back = describe(edit(online).starts([online.value("output")], [output]).build())
    assert back.kind == "attention"
    assert back.score_index_dims == facts.score_index_dims
    assert module.operation.verify()


def test_a_score_region_of_ones_own(module: ir.Module, facts: AttentionFacts) -> None:
    def doubled(inner: Builder, score: ir.Value) -> ir.Value:
        return inner.create("arith.addf", [score.type], [score, score]).results[0]

    build = Builder(facts.op)
    new = describe(edit(facts).score(doubled).build())
    assert [step[0] for step in new.score_steps or []] == ["arith.addf", "iree_linalg_ext.yield"]
    attributes = {"indexing_maps": new.op.attributes["indexing_maps"]}
    bare = attention_op(build, list(new.op.operands), len(new.op.results), attributes)
    fill_score(bare, ir.F32Type.get(), lambda _, score: score)
    assert not describe(bare).changes_scores
    assert module.operation.verify()
