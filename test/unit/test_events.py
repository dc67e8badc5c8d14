"""What a user must hear of: warnings, and `--attn-fail-on` by commas."""

import json
from dataclasses import replace

import pytest

from attnpass.cli.attn_compile import _failure, warning_text
from attnpass.driver.flags import parse_arguments
from attnpass.errors import AttnError
from attnpass.report.ops import MODULE, Place
from attnpass.report.records import Report, report_from_dict

MASKED = replace(MODULE, places=(Place("m.mlir:3:4"),))


def _report() -> Report:
    report = Report()
    report.known_wrong("the mask's bytes are misread", MASKED)
    report.fallback("without configurations")
    return report


def test_events_are_told_once_with_their_place() -> None:
    report = _report()
    report.known_wrong("the mask's bytes are misread", MASKED)
    assert [warning_text(event) for event in report.events] == [
        "m.mlir:3:4: warning: known-wrong: the mask's bytes are misread",
        "attn-compile: warning: fallback: without configurations",
    ]
    assert "known-wrong at m.mlir:3:4: the mask's bytes" in report.to_text()


def test_events_survive_json() -> None:
    report = _report()
    assert report_from_dict(json.loads(report.to_json())) == report


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("known-wrong", ("m.mlir:3:4", "--attn-fail-on=known-wrong: the mask's bytes are misread")),
        ("refused,fallback", ("", "--attn-fail-on=fallback: without configurations")),
        ("refused,moved", None),
    ],
)
def test_fail_on_takes_several_words(words: str, why: tuple[str, str] | None) -> None:
    options = parse_arguments(["in.mlir", f"--attn-fail-on={words}"])
    assert _failure(_report(), options.fail_on) == why


def test_fail_on_names_the_wrong_word() -> None:
    with pytest.raises(AttnError, match=r"'wrong' is not a value of --attn-fail-on \(use refused"):
        parse_arguments(["in.mlir", "--attn-fail-on=moved,wrong"])
