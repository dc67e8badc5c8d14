"""What is left out, one thing after the other, where a compile fails with it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from attnpass.driver.fallbacks import (
    ATTENTION,
    BARRIERS,
    FUSION,
    LEVEL,
    PLAIN,
    Failure,
    FallbackSearch,
    fallbacks,
    mended_by,
)
from attnpass.forms.decompose import Decompose
from attnpass.pipeline import default_pipeline
from attnpass.report.records import Report
from attnpass.runner import parse_pipeline, stage_name

CONFIGURED = {"attn-configure": "", "attn-propagate-layout": ""}
RAISED = {**CONFIGURED, "attn-raise": "", "attn-fully-masked-rows": "rows are NaN", LEVEL: ""}
HOLDS_OPS = {**RAISED, "attn-decompose": "numbers are wrong", ATTENTION: "", FUSION: ""}
DEFAULT = default_pipeline("cost", configure=True, hardware_exp2=True, shared_memory=True)

# A fault that is not ours.
MODULE = "the module"


def compiles(
    changed: Mapping[str, str], *culprits: str, why: str = ""
) -> tuple[list[str], FallbackSearch]:
    """What each compile of a module leaves out that IREE fails on as long as one of the culprits
    changes it, with an error for each culprit or always the same; and the search behind it."""
    search, tried = FallbackSearch(), []
    for _ in range(30):
        tried.append(search.chosen.name if search.chosen else "nothing")
        # IREE alone writes nothing otherwise.
        stays = {MODULE, ATTENTION, FUSION} if search.is_plain else {MODULE}
        left = [name for name in culprits if name in stays or not search.leaves_out(name)]
        if not left:
            if search.succeeded():
                return tried, search
        elif not search.failed(Failure(why or f"IREE fails with {left[0]}", "m:1:2", changed)):
            return [*tried, "failed"], search
    raise AssertionError("there is no end to it")


def events(search: FallbackSearch) -> list[str]:
    report = Report()
    search.tell(report)
    return [str(event) for event in report.events]


def test_what_fails_is_left_out_alone() -> None:
    tried, search = compiles(CONFIGURED, "attn-configure")
    assert tried == ["nothing", "configurations"]
    (event,) = events(search)
    assert event == (
        "fallback: compiled without configurations (--attn-configure=false): "
        "IREE fails with attn-configure"
    )


def test_what_stands_for_the_same_is_tried_once() -> None:
    """Raising alone changed the module: it is no question of configurations."""
    tried, _ = compiles({"attn-raise": ""}, "attn-raise")
    assert tried == ["nothing", "attn-raise"]


def test_several_faults_come_to_all_steps_for_speed() -> None:
    tried, search = compiles(RAISED, "attn-configure", "attn-propagate-layout")
    assert tried[-1] == "all steps for speed"
    assert not search.leaves_out("attn-fully-masked-rows") and not search.leaves_out(LEVEL)


def test_wrong_numbers_that_are_no_longer_mended_are_told() -> None:
    tried, search = compiles(RAISED, "attn-fully-masked-rows")
    assert tried[-1] == "attn-fully-masked-rows"
    assert "known-wrong: rows are NaN, since attn-fully-masked-rows is left out" in events(search)


def test_what_mends_stays_where_others_of_its_family_are_left_out() -> None:
    fits, masks = "attn-tile-dynamic", "attn-mask-dynamic-keys"
    stages = parse_pipeline("attn-fit-tiles{only=tile-dynamic,mask-dynamic-keys}")
    changed = {stage_name(stage): mended_by(stage) for stage in stages}
    tried, search = compiles(changed, fits)
    assert tried == ["nothing", "configurations"]
    assert [stage_name(stage) for stage in search.kept(stages)] == [masks]
    tried, search = compiles(changed, masks)
    assert tried[-1] == masks
    assert any("keys known only at run time is wrong" in event for event in events(search))


def test_an_error_of_the_module_costs_two_more_compiles() -> None:
    tried, _ = compiles(RAISED, MODULE, why="a mistake of the user")
    assert tried == ["nothing", "configurations", PLAIN.name, "failed"]


def test_one_error_with_two_causes_is_found() -> None:
    """The compile by IREE alone, which succeeds, is not the one to take."""
    tried, search = compiles(RAISED, "attn-propagate-layout", why="the same error")
    assert tried[:3] == ["nothing", "configurations", PLAIN.name]
    assert tried[-1] == "changes of layout" and not search.is_probe


def test_attention_that_iree_fails_on_is_written_out() -> None:
    """IREE alone fails on it, too, and no numbers become wrong for it."""
    tried, search = compiles(HOLDS_OPS, ATTENTION, why="the same error")
    assert tried[:3] == ["nothing", "configurations", PLAIN.name] and len(tried) == 4
    (event,) = events(search)
    assert event.startswith("fallback: compiled without attention ops, which are products")
    stages = search.kept(parse_pipeline(DEFAULT))
    assert Decompose(only="all", configured=True) in stages and not search.leaves_out(LEVEL)
    assert not {"attn-configure", "attn-keep-apart"} & {stage_name(stage) for stage in stages}


@pytest.mark.parametrize("culprits", [[FUSION], [FUSION, LEVEL]])
def test_at_last_each_op_has_a_kernel_of_its_own(culprits: list[str]) -> None:
    tried, search = compiles(HOLDS_OPS, *culprits, why="the same error")
    assert tried[2] == PLAIN.name and tried[-1].endswith("and kernels of several ops")
    names = [stage_name(stage) for stage in search.kept(parse_pipeline(DEFAULT))]
    assert names.index("attn-keep-apart") == names.index("attn-decompose") + 1
    assert "attn-fully-masked-rows" in names and "attn-raise" not in names
    assert search.leaves_out(LEVEL) == (LEVEL in culprits)
    assert all(event.startswith("fallback: ") for event in events(search))


def test_a_module_that_nothing_changed_fails_at_once() -> None:
    assert compiles({}, MODULE)[0] == ["nothing", "failed"]


def test_a_pass_that_fails_is_left_out_and_the_rest_stays() -> None:
    search = FallbackSearch()
    assert search.failed(
        Failure("pass 'attn-widen' failed", "m:1:2", {"attn-widen": ""}, "attn-widen")
    )
    assert search.leaves_out("attn-widen") and not search.leaves_out("attn-configure")
    assert search.failed(Failure("IREE fails", "", CONFIGURED))
    assert search.leaves_out("attn-widen") and search.leaves_out("attn-configure")
    assert [event.partition(":")[2][:30] for event in events(search)] == [
        " compiled without attn-widen: ",
        " compiled without configuratio",
    ]


def test_the_users_own_passes_are_not_left_out() -> None:
    search = FallbackSearch(may_go_on=False)
    assert not search.failed(Failure("IREE fails", "", CONFIGURED))


@pytest.mark.parametrize("configure", [False, True])
def test_each_pass_can_be_left_out(configure: bool) -> None:
    text = default_pipeline(
        "cost", kernels="cost", configure=configure, hardware_exp2=True, shared_memory=True
    )
    for stage in parse_pipeline(text):
        name = stage_name(stage)
        tried, _ = compiles({name: mended_by(stage), LEVEL: "", BARRIERS: ""}, name)
        assert tried[-1] != "failed" and tried[-1] != PLAIN.name


def test_the_list_ends_with_iree_alone() -> None:
    assert fallbacks(RAISED)[-1] is PLAIN
    assert PLAIN.covers(LEVEL) and PLAIN.covers(BARRIERS)
