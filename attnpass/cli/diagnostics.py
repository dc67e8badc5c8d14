"""Diagnostics for the tools: collecting them, showing them, and matching `expected-...`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AttnError

if TYPE_CHECKING:
    from iree.compiler import ir

_EXPECTED = re.compile(
    r"expected-(error|warning|remark|note)(-re)?\s*"
    r"(?:@([+-]\d+|above|below|unknown))?\s*\{\{(.*?)\}\}(?!\})"
)


@dataclass(frozen=True)
class Message:
    """One diagnostic; `line` is 0 where no place is known."""

    severity: str
    file: str
    line: int
    column: int
    text: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: " if self.line else ""
        return f"{where}{self.severity}: {self.text}"


def message_at(location: str, severity: str, text: str) -> Message:
    """A message at a location written `file:line:col`."""
    file, line, column = split_location(location)
    return Message(severity, file, line, column, text)


def split_location(location: str) -> tuple[str, int, int]:
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
        """Adds one of our errors, unless the context has said why already."""
        new = message_at(error.location, "error", error.message)
        if self.has_errors and not new.line:
            return
        if error.location and not new.line:
            new = Message("error", "", 0, 0, f"{error.location}: {error.message}")
        self.messages.append(new)

    @property
    def has_errors(self) -> bool:
        return any(message.severity == "error" for message in self.messages)


def split_chunks(text: str) -> list[str]:
    """The parts between `// -----` lines, each behind blank lines so that lines keep their
    numbers."""
    chunks, line = [], 0
    for part in re.split(r"^// -----.*$", text, flags=re.MULTILINE):
        chunks.append("\n" * line + part)
        line += part.count("\n")
    return chunks


def verify_expected(text: str, messages: Sequence[Message]) -> list[str]:
    """What does not fit between the `expected-...` comments in `text` and `messages`."""
    expected = _expectations(text)
    problems = []
    for message in messages:
        for want in expected:
            if not want.met and want.fits(message):
                want.met = True
                break
        else:
            if message.severity in ("error", "warning", "remark"):
                problems.append(f"unexpected {message.severity}: {message}")
    for want in expected:
        if not want.met:
            problems.append(
                f'line {want.written}: expected {want.severity} "{want.text}" was not produced'
            )
    return problems


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
    """Runs a tool's body; a user's mistake becomes one line and exit code 1."""
    try:
        return body()
    except AttnError as error:
        text = str(error) if error.location else f"{name}: {error}"
        print(text, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went away: what is left in the buffer must not complain at exit.
        sys.stdout = Path("/dev/null").open("w")  # noqa: SIM115
        return 1
