"""The table of steps: its order, what leaves a step out, and passes of plugins."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest

from attnpass import passes, plugins
from attnpass.driver.flags import CompileOptions, backends_of
from attnpass.driver.tools import PassOptions
from attnpass.errors import PipelineError
from attnpass.families import FAMILIES
from attnpass.passes import FORMER_NAMES, REGISTRY, Pass, PassFamily, load_pass
from attnpass.phases import phase_index
from attnpass.pipeline import (
    STEPS,
    PipelineOptions,
    choices,
    default_pipeline,
    left_out_by,
    reason_of,
    shown,
    steps,
)
from attnpass.plugins import Plugin
from attnpass.runner import parse_pipeline, stage_name

PASSES = [name for step in STEPS for name in step.passes]
EVERYTHING = PipelineOptions(kernels="always", products="always", cache="transposed")


def test_steps_stand_in_the_order_in_which_they_run() -> None:
    places = [phase_index(load_pass(step.name).phase) for step in STEPS]
    assert places == sorted(places)
    assert len(PASSES) == len({*PASSES})
    assert len(STEPS) <= 45, "what stands side by side for one reason is a family"


def test_each_step_is_a_pass_and_needs_options_that_there_are() -> None:
    names = {field.name for field in choices()}
    for step in STEPS:
        assert step.name in REGISTRY and step.why
        assert {option for name in step.passes for option in step.needed(name)} <= names


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_family_says_what_its_parts_say(family: type[PassFamily]) -> None:
    parts = [load_pass(name) for name in family.parts]
    assert REGISTRY[family.name].endswith(f":{family.__name__}")
    assert all(reason_of(part) for part in parts)
    assert {part.phase for part in parts} == {family.phase}
    backends = {name for part in parts for name in part.backends}
    assert {*family.backends} == (backends if all(part.backends for part in parts) else set())
    assert {*family.needs} <= {*family.parts}


def test_a_family_runs_the_parts_that_are_named() -> None:
    every = parse_pipeline("attn-fit-tiles{target=sm_80}")
    assert [stage_name(stage) for stage in every] == list(FAMILIES["attn-fit-tiles"].parts)
    assert all(stage.target == "sm_80" for stage in every)  # pyright: ignore
    named = parse_pipeline("attn-fit-tiles{only=pad-keys,cut-heads}")
    assert [stage_name(stage) for stage in named] == ["attn-cut-heads", "attn-pad-keys"]


def test_the_text_holds_the_steps_and_their_options() -> None:
    kernels = {"kernels": "cost", "products": "cost"}
    text = default_pipeline("always", cache="transposed", table="a,b.json", **kernels)
    stages = parse_pipeline(text)
    assert [stage_name(stage) for stage in stages] == PASSES
    by_name = {stage_name(stage): stage for stage in stages}
    assert by_name["attn-propagate-layout"].mode == "always"  # pyright: ignore
    assert by_name["attn-configure"].source == "{a,b.json}"  # pyright: ignore


@pytest.mark.parametrize("field", [f for f in choices() if f.default is True], ids=lambda f: f.name)
def test_each_switch_leaves_something_out(field: dataclasses.Field[bool]) -> None:
    gone = left_out_by(**{field.name: False})
    text = default_pipeline(**{**vars(EVERYTHING), field.name: False})
    kept = {stage_name(stage) for stage in parse_pipeline(text)}
    assert gone and gone | kept == {*PASSES} and not gone & kept


@pytest.mark.parametrize("kind", [PassOptions, CompileOptions])
def test_every_door_has_every_option(kind: type[PipelineOptions]) -> None:
    options = kind()
    for field in choices():
        assert getattr(options, field.name) == field.default


def test_flags_of_the_functions_say_all_options() -> None:
    options = PassOptions(mode="never", raise_attention=False, table="t.json")
    assert {"--attn-mode=never", "--attn-raise=false", "--attn-table=t.json"} <= set(
        options.flags()
    )


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ("--iree-hal-target-device=cuda", {"cuda"}),
        ("--iree-hal-target-device=a=cuda --iree-hal-target-device=b=local", {"cuda", "llvm-cpu"}),
        ("--iree-hal-target-device=cuda[1] --iree-hal-target-device=hip", {"cuda", "rocm"}),
        ("--iree-hal-target-backends=llvm-cpu,cuda", {"llvm-cpu", "cuda"}),
        ("--iree-hal-target-device=local", {"llvm-cpu"}),
        (
            "--iree-hal-target-device=local --iree-hal-local-target-device-backends=vmvx",
            {"vmvx"},
        ),
        ("--iree-opt-level=O2", set[str]()),
    ],
)
def test_backends_of_flags(flags: str, wanted: set[str]) -> None:
    assert backends_of(flags.split()) == wanted


@pytest.mark.parametrize("backend", ["cuda", "rocm", "llvm-cpu"])
def test_what_is_shown_for_a_backend(backend: str) -> None:
    text = shown(PipelineOptions(), [backend])
    names = {line.strip().partition("{")[0] for line in text.splitlines() if "attn-" in line[:9]}
    here = [name for step in steps(PipelineOptions()) for name in (step.name, *step.passes)]
    assert names == {name for name in here if load_pass(name).concerns([backend])}
    assert ("attn-vectorize" in names) == (backend == "llvm-cpu")


@dataclasses.dataclass(frozen=True)
class Last(Pass):
    name: ClassVar[str] = "attn-last"
    summary: ClassVar[str] = "a plugin's"
    phase: ClassVar[str] = "flow"
    after: ClassVar[str] = "attn-configure"


@dataclasses.dataclass(frozen=True)
class Lost(Last):
    after: ClassVar[str] = "attn-nowhere"


def _plugin(monkeypatch: pytest.MonkeyPatch, cls: type[Pass]) -> None:
    entry = Plugin("attnpass.passes", "attn-last", f"{cls.__module__}:{cls.__name__}", "other")
    monkeypatch.setattr(plugins, "installed", lambda: {entry.group: [entry]})
    monkeypatch.setattr(passes, "_entries", passes._entries.__wrapped__)


def test_a_plugins_pass_joins_behind_the_step_that_it_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _plugin(monkeypatch, Last)
    names = [step.name for step in steps(PipelineOptions())]
    assert names[names.index("attn-configure") + 1] == "attn-last"
    assert "attn-last" in shown(PipelineOptions())


@pytest.mark.parametrize(
    ("after", "behind"),
    [
        ("attn-pad-keys", "attn-pad-keys"),
        ("attn-fit-tiles", "attn-pad-keys"),
        ("attn-known-ops", "attn-known-ops"),
        ("attn-tensor-and", "attn-known-ops"),
        ("attn-repair-imports", "attn-bounded-scatters"),
    ],
)
def test_a_plugins_pass_joins_behind_a_part(
    monkeypatch: pytest.MonkeyPatch, after: str, behind: str
) -> None:
    """Or behind the last part of a family, and no part is lost."""
    monkeypatch.setattr(Last, "after", after)
    _plugin(monkeypatch, Last)
    names = [stage_name(stage) for stage in parse_pipeline(default_pipeline())]
    assert names[names.index(behind) + 1] == "attn-last"
    monkeypatch.setattr(Last, "after", "")
    names.remove("attn-last")
    assert names == [stage_name(stage) for stage in parse_pipeline(default_pipeline())]


def test_a_plugins_pass_behind_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    _plugin(monkeypatch, Lost)
    with pytest.raises(PipelineError, match=r"'attn-last' of a plugin .* 'attn-nowhere'"):
        default_pipeline()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("mode=always cache=transposed", ["attn-transpose-caches", "attn-propagate-layout"]),
        ("mode=never cache=transposed", ["attn-propagate-layout"]),
        ("cache=kept", ["attn-propagate-layout"]),
    ],
)
def test_an_option_of_old_stands_for_a_pass(options: str, wanted: list[str]) -> None:
    stages = parse_pipeline(f"attn-propagate-layout{{{options}}}")
    assert [stage_name(stage) for stage in stages] == wanted
    assert stages[-1].cache == "kept" or "never" in options  # pyright: ignore


@pytest.mark.parametrize(("former", "now"), FORMER_NAMES.items())
def test_a_former_name_is_the_same_pass(former: str, now: str) -> None:
    family = next(family for family in FAMILIES.values() if now in family.parts)
    words = [name.removeprefix("attn-") for name in (former, now)]
    texts = [former, now, *(f"{family.name}{{only={word}}}" for word in words)]
    assert {stage_name(stage) for text in texts for stage in parse_pipeline(text)} == {now}
    assert former not in REGISTRY


def test_what_is_off_by_default_says_its_flag() -> None:
    text = shown(PipelineOptions(cache="transposed"))
    start = text.index("attn-transpose-caches")
    assert "off by --attn-cache=kept or --attn-mode=never" in text[start:].partition("  attn-")[0]
    assert "attn-transpose-caches" not in shown(PipelineOptions())
