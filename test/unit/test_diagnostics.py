"""Matching diagnostics with `expected-...` comments, and turning errors into lines."""

from __future__ import annotations

import pytest

from attnpass.cli.diagnostics import (
    Collector,
    Message,
    message_at,
    run_tool,
    split_chunks,
    verify_expected,
)
from attnpass.errors import AttnError, InternalError, PassError


def problems(text: str, *messages: Message) -> list[str]:
    return [str(problem) for problem in verify_expected(text, messages, "m.mlir")]


def at(line: int, severity: str = "error", text: str = "bad thing") -> Message:
    return Message(severity, "m.mlir", line, 7, text)


@pytest.mark.parametrize("severity", ["error", "warning", "remark", "note"])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("op // expected-{} {{{{bad}}}}", 1),
        ("op // expected-{}{{{{bad}}}}", 1),
        ("// expected-{} @+1 {{{{bad}}}}\nop", 2),
        ("// expected-{}@+3 {{{{bad}}}}\n\n\nop", 4),
        ("op\n\n// expected-{} @-2 {{{{bad}}}}", 1),
        ("// expected-{} @below {{{{bad}}}}\n// expected-{} @below {{{{thing}}}}\nop", 3),
        ("op\n// expected-{} @above {{{{bad}}}}\n// expected-{} @above {{{{thing}}}}", 1),
        ("op // expected-{} {{{{bad}}}} expected-{} {{{{thing}}}}", 1),
        ("op // expected-{}-re {{{{bad {{{{t.*g}}}}}}}}", 1),
        ("op // expected-{}-re {{{{{{{{b[a]d}}}} th{{{{i}}}}ng}}}}", 1),
        ("op // expected-{} {{{{bad}}}} // and a comment", 1),
    ],
)
def test_what_is_expected_is_met(severity: str, text: str, line: int) -> None:
    text = text.format(severity, severity)
    message = at(line, severity)
    count = text.count("expected-")
    assert problems(text, *[message] * count) == []
    # The same text must not be met by anything less.
    other = "note" if severity == "error" else "error"
    for less in (
        [],
        [message] * (count - 1),
        [at(line + 1, severity)] * count,
        [at(line, other)] * count,
        [at(line, severity, "good news")] * count,
    ):
        assert any("was not produced" in problem for problem in problems(text, *less))


def test_an_unknown_place() -> None:
    text = "// expected-error @unknown {{bad}}"
    assert problems(text, Message("error", "", 0, 0, "bad thing")) == []
    assert problems(text, at(1)) != []


def test_a_place_in_another_file_does_not_count() -> None:
    message = Message("error", "other.mlir", 1, 1, "bad thing")
    assert problems("op // expected-error {{bad}}", message) == [
        "other.mlir:1:1: error: unexpected error: bad thing",
        'm.mlir:1:1: error: expected error "bad" was not produced',
    ]


def test_unexpected_notes_pass_and_the_rest_does_not() -> None:
    assert problems("op", at(1, "note")) == []
    for severity in ("error", "warning", "remark"):
        assert problems("op", at(1, severity)) == [
            f"m.mlir:1:7: error: unexpected {severity}: bad thing"
        ]


def test_plain_text_is_no_regular_expression() -> None:
    assert problems("op // expected-error {{b.d}}", at(1)) != []
    assert problems("op // expected-error-re {{b.d}}", at(1)) != []
    assert problems("op // expected-error-re {{{{b.d}}}}", at(1)) == []


@pytest.mark.parametrize(
    "comment",
    [
        "// expected-error {bad}",
        "// expected-error @next {{bad}}",
        "// expected-error: {{bad}}",
        "// expected-remark",
        "// expected-note {{bad",
    ],
)
def test_a_malformed_expectation_is_told(comment: str) -> None:
    assert "m.mlir:2:1: error: malformed expectation" in problems(f"op\n{comment}", at(2))


def test_chunks_keep_their_line_numbers() -> None:
    text = "a\n// -----\nb\nc\n// ----- tail\nd"
    chunks = split_chunks(text)
    assert [chunk.strip() for chunk in chunks] == ["a", "b\nc", "d"]
    for chunk in chunks:
        for number, line in enumerate(chunk.split("\n")):
            assert not line or text.split("\n")[number] == line


@pytest.mark.parametrize(
    ("location", "line"),
    [
        ("m.mlir:3:4", "m.mlir:3:4: error: no"),
        ("c:/odd:name.mlir:3:4", "c:/odd:name.mlir:3:4: error: no"),
        ("m.mlir", "m.mlir: error: no"),
        ("", "error: no"),
        ("unknown", "error: no"),
    ],
)
def test_lines(location: str, line: str) -> None:
    assert str(message_at(location, "error", "no")) == line


def test_an_error_told_already_is_told_once() -> None:
    collector = Collector()
    collector.messages = [at(1)]
    collector.add_error(AttnError("cannot parse it"))
    assert collector.messages == [at(1)]


def test_a_failing_pass_is_named_behind_its_errors() -> None:
    collector = Collector()
    collector.messages = [at(1)]
    collector.add_error(PassError("pass 'p' failed"))
    assert [str(m) for m in collector.messages] == [
        "m.mlir:1:7: error: bad thing",
        "note: pass 'p' failed",
    ]


def test_a_failing_pass_is_named_in_an_error_without_place() -> None:
    collector = Collector()
    collector.messages = [Message("error", "", 0, 0, "unable to schedule pass 'P'")]
    collector.add_error(PassError("pass 'p' failed"))
    (message,) = collector.messages
    assert str(message).startswith("error: pass 'p' failed: unable to schedule pass 'P'")
    assert "func.func(...)" in str(message)


def raising(error: BaseException):
    def body() -> int:
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (AttnError("no"), 1, "tool: error: no\n"),
        (AttnError("no", "m.mlir:1:2"), 1, "m.mlir:1:2: error: no\n"),
        (KeyboardInterrupt(), 130, "tool: interrupted\n"),
        (AttnError("a\x1b[31m\tb", "\x9bm.mlir"), 1, "\\x9bm.mlir: error: a\\x1b[31m\tb\n"),
        (BrokenPipeError(), 1, ""),
        (
            ValueError("a\nb"),
            1,
            "tool: error: internal error: ValueError: a b "
            "(ATTNPASS_TRACEBACK=1 shows where; please report it)\n",
        ),
    ],
)
def test_tools_end_with_a_line_and_a_code(error, code, says, capsys, monkeypatch) -> None:
    monkeypatch.delenv("ATTNPASS_TRACEBACK", raising=False)
    assert run_tool("tool", raising(error)) == code
    assert capsys.readouterr() == ("", says)


def test_a_traceback_on_demand(monkeypatch) -> None:
    monkeypatch.setenv("ATTNPASS_TRACEBACK", "1")
    with pytest.raises(ValueError, match="deep"):
        run_tool("tool", raising(ValueError("deep")))


def test_a_traceback_of_a_pass_that_fails(monkeypatch, capsys) -> None:
    monkeypatch.setenv("ATTNPASS_TRACEBACK", "1")
    try:
        raising(ValueError("deep"))()
    except ValueError as error:
        assert run_tool("tool", raising(InternalError(error, "attn-x"))) == 1
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "in body" in said
    assert "pass 'attn-x' failed: internal error: ValueError: deep" in said
