"""Diagnostics for the tools: collecting them, showing them, and matching `expected-...`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .. import untested
from ..driver.files import flush_output, forget_output
from ..errors import AttnError, InternalError, PassError
from ..runner import explained, listen_as_asked

if TYPE_CHECKING:
    from iree.compiler import ir

# The text may hold `{{...}}` of its own: it ends where the line, or the next one, does.
_EXPECTED = re.compile(
    r"expected-(error|warning|remark|note)(-re)?\s*"
    r"(?:@([+-]\d+|above|below|unknown))?\s*\{\{(.*?)\}\}(?=\s*(?:$|//|expected-))"
)
# But for tabs, ends of lines, and returns, by which progress is written over.
_CONTROL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_ALMOST_EXPECTED = re.compile(r"//.*?(expected-(?:error|warning|remark|note))\b")


@dataclass(frozen=True)
class Message:
    """One diagnostic; `line` is 0 where no line is known, `file` empty where no file is."""

    severity: str
    file: str
    line: int
    column: int
    text: str

    def __str__(self) -> str:
        where = [self.file] if self.file else []
        where += [str(self.line), str(self.column)] if self.line else []
        return ":".join([*where, f" {self.severity}: {self.text}"]).lstrip()


def message_at(location: str, severity: str, text: str) -> Message:
    """A message at a location written `file:line:col`."""
    file, line, column = split_location(location)
    return Message(severity, file, line, column, text)


def split_location(location: str) -> tuple[str, int, int]:
    """File, line and column; no file and zeros for what is not known."""
    if location == "unknown":
        return "", 0, 0
    found = re.fullmatch(r"(.*):(\d+):(\d+)", location)
    return (found[1], int(found[2]), int(found[3])) if found else (location, 0, 0)


class Collector:
    """Takes the diagnostics of a context, and those of ours, in the order they come."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def attach(self, context: ir.Context) -> Callable[[], None]:
        """Collects what the context emits until the returned function is called."""
        context.emit_error_diagnostics = True
        handler = context.attach_diagnostic_handler(self._take)
        return handler.detach

    def _take(self, diagnostic: ir.Diagnostic) -> bool:
        self._add(diagnostic)
        for note in diagnostic.notes:
            self._add(note)
        return True

    def _add(self, diagnostic: ir.DiagnosticInfo | ir.Diagnostic) -> None:
        from ..ir import location_text

        location = location_text(diagnostic.location)
        severity = diagnostic.severity.name.lower()
        self.messages.append(message_at(location, severity, diagnostic.message))

    def add_error(self, error: AttnError) -> None:
        """Adds one of our errors; where the context has said why already, only the pass."""
        if error.location or not self.has_errors:
            self.messages.append(message_at(error.location, "error", error.message))
            return
        if not isinstance(error, PassError):
            return
        first = next(message for message in self.messages if message.severity == "error")
        if first.file:
            self.messages.append(Message("note", "", 0, 0, error.message))
            return
        text = f"{error.message}: {explained(first.text)}"
        self.messages[self.messages.index(first)] = Message("error", "", 0, 0, text)

    @property
    def has_errors(self) -> bool:
        return any(message.severity == "error" for message in self.messages)


def split_chunks(text: str) -> list[str]:
    """The parts between `// -----` lines, each behind blank lines so that lines keep their
    numbers. Blank parts, as behind a last such line, are left out where there are others."""
    chunks, line = [], 0
    for part in re.split(r"^// -----.*$", text, flags=re.MULTILINE):
        chunks.append("\n" * line + part)
        line += part.count("\n")
    return [chunk for chunk in chunks if chunk.strip()] or chunks[:1]


def verify_expected(text: str, messages: Sequence[Message], file: str) -> list[Message]:
    """What does not fit between `messages` and the `expected-...` comments in `text`.

    `file` is what messages call the file of `text`; a message at a place in another file
    meets no expectation.
    """
    expected = _expectations(text)
    problems = [_problem(file, line, "malformed expectation") for line in _malformed(text)]
    for message in messages:
        for want in expected:
            if not want.met and message.file in (file, "") and want.fits(message):
                want.met = True
                break
        else:
            if message.severity in ("error", "warning", "remark"):
                what = f"unexpected {message.severity}: {message.text}"
                problems.append(replace(message, severity="error", text=what))
    for want in expected:
        if not want.met:
            what = f'expected {want.severity} "{want.text}" was not produced'
            problems.append(_problem(file, want.written, what))
    return problems


def _problem(file: str, line: int, text: str) -> Message:
    return Message("error", file, line, 1, text)


def _malformed(text: str) -> list[int]:
    """Lines whose comment speaks of an expectation that is not written as one."""
    return [
        number
        for number, line in enumerate(text.split("\n"), 1)
        if _ALMOST_EXPECTED.search(line) and not _EXPECTED.search(line)
    ]


@dataclass
class _Expectation:
    severity: str
    line: int | None
    text: str
    is_regex: bool
    written: int
    met: bool = False

    def fits(self, message: Message) -> bool:
        if message.severity != self.severity or (self.line or 0) != message.line:
            return False
        if not self.is_regex:
            return self.text in message.text
        parts = re.split(r"\{\{|\}\}", self.text)
        pattern = "".join(p if i % 2 else re.escape(p) for i, p in enumerate(parts))
        return re.search(pattern, message.text) is not None


def _expectations(text: str) -> list[_Expectation]:
    found: list[_Expectation] = []
    lines = text.split("\n")
    last_plain = 0
    for number, line in enumerate(lines, 1):
        for match in _EXPECTED.finditer(line):
            where = match[3]
            target: int | None = number
            if where == "unknown":
                target = None
            elif where == "above":
                target = last_plain
            elif where == "below":
                target = _next_plain(lines, number)
            elif where:
                target = number + int(where)
            found.append(_Expectation(match[1], target, match[4], bool(match[2]), number))
        if not _EXPECTED.search(line):
            last_plain = number
    return found


def _next_plain(lines: Sequence[str], number: int) -> int:
    while number < len(lines) and _EXPECTED.search(lines[number]):
        number += 1
    return number + 1


def run_tool(name: str, body: Callable[[], int]) -> int:
    """Runs a tool's body; a user's mistake becomes one line and exit code 1. What it prints is
    without control characters."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and _Printable(stream) for stream in streams)
    try:
        return _run_tool(name, body)
    finally:
        sys.stdout, sys.stderr = streams


class _Printable:
    """A stream of text whose control characters are written as escapes: names in a module or of
    a file may hold some that a terminal would obey."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(_CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _run_tool(name: str, body: Callable[[], int]) -> int:
    try:
        listen_as_asked()
        code = body()
        flush_output()
        return code
    except AttnError as error:
        text = str(error) if error.location else f"{name}: {error}"
        print(text, file=sys.stderr)
        forget_output()
        return 1
    except ImportError as error:
        if not (untested and (error.name or "").startswith("iree")):
            return _unforeseen(name, error)
        print(f"{name}: error: attnpass {untested} ({error})", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        forget_output()
        return 1
    except Exception as error:
        return _unforeseen(name, error)


def _unforeseen(name: str, error: Exception) -> int:
    if os.environ.get("ATTNPASS_TRACEBACK"):
        raise error
    print(f"{name}: {InternalError(error)}", file=sys.stderr)
    forget_output()
    return 1
