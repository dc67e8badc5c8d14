"""The page that a report makes, as HTML: whole, escaped, bounded; attn-explain and its mistakes."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from reports import model

from attnpass.cli import attn_compile, attn_explain, attn_opt
from attnpass.driver.files import check_all_differ
from attnpass.driver.steps import StepWatch
from attnpass.errors import AttnError
from attnpass.report.entries import StepRecord
from attnpass.report.page import page
from attnpass.report.page.html import el, escaped
from attnpass.report.profile import Profile, read_profile
from attnpass.report.records import Report, report_from_dict


class Checker(HTMLParser):
    """Elements that are closed, ids, and what would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "wbr":
            self.open.append(tag)
        self._look(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._look(attrs)

    def _look(self, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        links = [value or "" for name, value in attrs if name in ("src", "href")]
        self.fetched += [link for link in links if not link.startswith("#")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(text: str) -> Checker:
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == [] and checker.fetched == []
    assert len(checker.ids) == len(set(checker.ids))
    return checker


def test_a_page_is_whole_and_needs_no_other_file() -> None:
    report = model(32)
    report.known_wrong("its sums are wrong")
    text = page(report, Profile(2e-3, 1e-3, {"main_dispatch_0": 1e-4}))
    wanted = {"warnings", "gains", "layers", "measured", "steps", "ops", "changes", "main"}
    assert wanted - {"ops"} <= set(checked(text).ids)
    for words in (
        "Layers 0 to 31",
        "32 times",
        "288",
        "320 without",
        "131 KB",
        "gains 8 us",
        "absorbs the change",
        "batch, n, k2",
        "2.00 times as fast",
        "llama.mlir:9:7",
    ):
        assert words in text, words
    assert "/models/" not in text.replace('title="/models/', "")


def test_a_page_of_a_thousand_layers_is_small() -> None:
    few, many = len(page(model(32))), len(page(model(1000)))
    assert many < few + 20_000
    assert len(page(model(1000, kinds=500))) < 3_000_000
    checked(page(model(100, kinds=50)))


def test_an_empty_report_is_a_page_too() -> None:
    assert "No attention op was found" in page(Report())
    checked(page(Report()))


def test_text_is_escaped() -> None:
    report = model(1)
    report.note("<script>alert('a')</script> \x1b[31m")
    text = page(report)
    checked(text)
    assert "<script>alert" not in text and "\x1b" not in text and "\\x1b[31m" in text
    assert el("b", "<", title='"') == '<b title="&quot;">&lt;</b>'
    assert escaped("a\x00b") == "a\\x00b"


def test_reports_go_through_json(tmp_path: Path) -> None:
    report = model(3)
    data = json.loads(report.to_json())
    schema = json.loads(files("attnpass.report").joinpath("schema.json").read_text())
    jsonschema.validate(data, schema)
    assert report_from_dict(data) == report
    source, target = tmp_path / "report.json", tmp_path / "page.html"
    source.write_text(report.to_json())
    assert attn_explain.main([str(source), "-o", str(target)]) == 0
    assert target.read_text() == page(report)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "report.json:1:2: error: no JSON, and so no report"),
        ("[]", "report.json: error: no report: attn-compile --attn-report=FILE writes one"),
        ('{"version": 1}', "a report of version 1; this attnpass reads version 4: compile"),
        ('{"version": 4}', "report.json: error: no whole report: KeyError"),
        ("[" * 100_000, "error: no "),
    ],
)
def test_what_is_no_report_is_told(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "report.json", tmp_path / "page.html"
    source.write_text(text)
    assert attn_explain.main([str(source), "-o", str(target)]) == 1
    assert why in capsys.readouterr().err
    assert not target.exists()


def test_a_page_overwrites_no_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "report.json"
    source.write_text(model(1).to_json())
    assert attn_explain.main([str(source), "-o", str(source)]) == 1
    assert "the page would overwrite the input" in capsys.readouterr().err
    report_from_dict(json.loads(source.read_text()))
    layer = tmp_path / "layer.mlir"
    layer.write_text("module {}\n")
    for flag, name in (("--attn-report", "report"), ("--attn-explain", "page")):
        assert attn_compile.main([str(layer), f"{flag}={layer}", "-o", str(tmp_path / "o")]) == 1
        assert f"the {name} would overwrite the input" in capsys.readouterr().err
    for tool in (attn_compile, attn_opt):
        assert tool.main([str(layer), "-o", str(layer)]) == 1
        said = f"{layer}: error: the output would overwrite the input"
        assert said in capsys.readouterr().err
    assert layer.read_text() == "module {}\n"


def test_files_that_are_written_differ() -> None:
    with pytest.raises(AttnError, match="the report and the page cannot be one file"):
        check_all_differ({"output": "-", "report": "x", "page": "./x"})
    check_all_differ({"output": "/dev/null", "page": "/dev/null/"}, ["-"])


def test_profiles_are_read() -> None:
    ours = read_profile('{"before": 2, "after": 1, "kernels": {"a": 0.5}}', "p")
    assert ours == Profile(2, 1, {"a": 0.5})
    row = {"type": "dispatch_group", "key": "a", "total_ns": 1500}
    lines = [{"type": "dispatch_summary"}, row, {**row, "type": "host_dispatch_group"}]
    theirs = read_profile("\n".join(map(json.dumps, lines)), "p")
    assert theirs.kernels == {"a": pytest.approx(3e-6)}
    for bad in ("", "[1]", "{}", "{\nx", '{"before": "1"}', '{"type": "dispatch_summary"}\n{}'):
        with pytest.raises(AttnError):
            read_profile(bad, "p")


class Printed:
    """A module as far as it is printed."""

    def __init__(self, *lines: str):
        self.lines = lines

    def get_asm(self, **_: int) -> str:
        return "\n".join(self.lines)


def test_a_step_is_told_by_its_diff() -> None:
    from attnpass.runner import Instrumentation, parse_pipeline

    stages = parse_pipeline("attn-widen,attn-decompose")
    report = Report()
    steps, watch = StepWatch(report, "preprocessing", stages), Instrumentation()
    kept = [f"%{number} = arith.constant {number}" for number in range(20)]
    old = Printed(*kept, "%20 = linalg.transpose", "return")
    new = Printed("%0 = a.new", *(line.replace("%", "%1") for line in kept), "return")
    steps.before(old)  # type: ignore[arg-type]
    steps.after("attn-widen", old, watch)  # type: ignore[arg-type]
    watch.changed.append(stages[1])
    steps.after("attn-decompose", new, watch)  # type: ignore[arg-type]
    idle, done = report.steps
    assert idle == StepRecord("attn-widen", "preprocessing", False, idle.summary) and idle.summary
    assert (done.removed, done.added) == (1, 1)
    assert [line for line in done.diff if line[0] in "+-"] == [
        "+%0 = a.new",
        "-%20 = linalg.transpose",
    ]
    assert replace(done, diff=[], removed=0, added=0, changed=False).phase == "preprocessing"
