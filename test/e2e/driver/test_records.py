"""Reports of real compiles: they are as the schema says, and name all layers of a model."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import get_args

import jsonschema
import pytest
from helpers import CPU, MAPS

import attnpass
from attnpass import Report
from attnpass.report.entries import Decision
from attnpass.report.records import report_from_dict
from attnpass.report.words import EventKind, What

CUDA = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
TARGETS = {"cpu": CPU, "cuda": CUDA}

# Three equal layers: two in a line of their own with the path that JAX or ONNX give, the third
# in the second's line. IREE makes one kernel of them. The last attention differs.
MODEL = (
    MAPS
    + """
#first = loc("layers.0/attention"("model.py":7:3))
#second = loc("layers.1/attention"("model.py":9:3))
func.func @main(%q: tensor<4x64x64xf32>, %k: tensor<4x64x64xf32>, %v: tensor<4x64x64xf32>,
                %k5: tensor<4x32x64xf32>, %v5: tensor<4x32x64xf32>) -> tensor<4x64x64xf32> {
  %scale = arith.constant 0.125 : f32
  %empty = tensor.empty() : tensor<4x64x64xf32>
"""
)
LAYER = """
  %NEW = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #q]>
      ins(%OLD, %k, %v, %scale : tensor<4x64x64xf32>, tensor<4xKEYSx64xf32>,
          tensor<4xKEYSx64xf32>, f32) outs(%empty : tensor<4x64x64xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<4x64x64xf32> loc(#PLACE)
"""


def _layer(old: str, new: str, place: str, keys: int = 64) -> str:
    text = LAYER.replace("OLD", old).replace("NEW", new).replace("PLACE", place)
    text = text.replace("#q]>", "affine_map<(b, m, n, k1, k2) -> (b, m, n)>]>")
    if keys != 64:
        text = text.replace("%k, %v,", "%k5, %v5,")
    return text.replace("KEYS", str(keys))


@cache
def report_of(target: str) -> Report:
    layers = [("q", "a", "first"), ("a", "b", "second"), ("b", "c", "second")]
    text = MODEL + "".join(_layer(*layer) for layer in layers)
    text += _layer("c", "r", "first", keys=32) + "  return %r : tensor<4x64x64xf32>\n}\n"
    report = Report()
    flags = [*TARGETS[target], "--compile-to=executable-configurations"]
    attnpass.compile_str(text, extra_args=flags, report=report)
    return report


def check_schema(report: Report) -> None:
    schema = json.loads(files("attnpass.report").joinpath("schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(report.to_json()), schema)


@pytest.mark.parametrize("target", TARGETS)
def test_reports_are_as_the_schema_says(target: str) -> None:
    report = report_of(target)
    check_schema(report)
    assert report_from_dict(json.loads(report.to_json())) == report


def test_events_are_as_the_schema_says() -> None:
    report = Report(mode="cost", level="O2")
    report.fallback("compiled without configurations", "m.mlir:3:4")
    report.known_wrong("its sums are wrong")
    report.ignored("--a-flag")
    check_schema(report)
    assert [event.kind for event in report.events] == ["fallback", "known-wrong", "ignored"]


def test_the_schema_refuses_other_words() -> None:
    report = Report()
    report.note("words")
    data = json.loads(report.to_json())
    data["records"][0]["what"] = "moved"
    schema = json.loads(files("attnpass.report").joinpath("schema.json").read_text())
    with pytest.raises(jsonschema.ValidationError, match="'moved' is not one of"):
        jsonschema.validate(data, schema)


def test_the_schema_has_the_words_of_the_code() -> None:
    kinds = json.loads(files("attnpass.report").joinpath("schema.json").read_text())["$defs"]
    assert kinds["record"]["properties"]["what"]["enum"] == [*get_args(What)]
    assert kinds["event"]["properties"]["kind"]["enum"] == [*get_args(EventKind)]
    assert kinds["operand"]["properties"]["decision"]["enum"] == [*get_args(Decision)]


@pytest.mark.parametrize("target", TARGETS)
def test_merged_layers_keep_their_records(target: str) -> None:
    report = report_of(target)
    configured, other = report.found("configured", of="attention")
    layers = [(place.location, place.number, place.path) for place in configured.op.places]
    assert layers == [
        ("model.py:7:3", 1, "layers.0/attention"),
        ("model.py:9:3", 1, "layers.1/attention"),
        ("model.py:9:3", 2, "layers.1/attention"),
    ]
    (alone,) = other.op.places
    assert (alone.location, alone.number) == ("model.py:7:3", 2)
    of_kernel = report.found("loops" if target == "cpu" else "lowered", of="kernel")
    assert of_kernel and of_kernel[0].op.places == configured.op.places


@pytest.mark.parametrize("target", TARGETS)
def test_attentions_and_records_name_the_same_places(target: str) -> None:
    report = report_of(target)
    attentions = {(one.location, one.number, one.path) for one in report.attentions}
    places = [place for one in report.found("configured") for place in one.op.places]
    assert attentions == {(one.location, one.number, one.path) for one in places}
    assert {record.pass_name for record in report.found("configured")} == {"attn-configure"}
