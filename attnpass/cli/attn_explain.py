"""attn-explain: a report as a page for a browser."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..driver.files import STANDARD, check_all_differ, check_writable, read_input, write_output
from ..errors import AttnError
from ..report.entries import VERSION
from ..report.page import page
from ..report.profile import Profile, read_profile
from ..report.records import Report, report_from_dict
from .arguments import ToolOptions, option, parse_options
from .diagnostics import run_tool

USAGE = """\
usage: attn-explain REPORT.json [-o PAGE.html] [--profile=FILE]

Writes what attn-compile --attn-report=REPORT.json decided as one page for a browser, which
needs no other file and no network.

  REPORT.json, -                 the report (-: standard input)
  -o PAGE.html                   the page (default: standard output)
  --profile=FILE                 measured times: {"before": S, "after": S, "kernels": {NAME: S}}
                                 in seconds, or lines of iree-profile dispatch --format=jsonl
  --version, --help              print these
"""


@dataclass
class ExplainOptions(ToolOptions):
    """The command line, parsed; `model` is the report."""

    noun = "report"

    output: str = option(STANDARD, "o")
    profile: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    return run_tool("attn-explain", lambda: _main(given))


def _main(arguments: Sequence[str]) -> int:
    options = parse_options(arguments, ExplainOptions())
    if options.is_answered(USAGE):
        return 0
    if not options.model:
        raise AttnError("no report; give the file that attn-compile --attn-report wrote")
    inputs = [options.model, *filter(None, [options.profile])]
    check_all_differ({"page": options.output}, inputs)
    check_writable(options.output)
    report = _report(_text(options.model), _name(options.model))
    write_output(options.output, page(report, _profile(options.profile)).encode())
    return 0


def _profile(path: str) -> Profile | None:
    return read_profile(_text(path), _name(path)) if path else None


def _text(path: str) -> str:
    try:
        return read_input(path).decode()
    except UnicodeDecodeError:
        raise AttnError("it is no text in UTF-8", _name(path)) from None


def _name(path: str) -> str:
    return "<stdin>" if path == STANDARD else path


def _report(text: str, name: str) -> Report:
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        place = f"{name}:{getattr(error, 'lineno', 1)}:{getattr(error, 'colno', 1)}"
        raise AttnError("no JSON, and so no report", place) from None
    except RecursionError:
        raise AttnError("no report: it is nested too deeply", name) from None
    version = data.get("version") if isinstance(data, dict) else None
    if version is None:
        raise AttnError("no report: attn-compile --attn-report=FILE writes one", name)
    if version != VERSION:
        raise AttnError(
            f"a report of version {version}; this attnpass reads version {VERSION}: "
            "compile the model again",
            name,
        )
    try:
        return report_from_dict(data)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise AttnError(f"no whole report: {type(error).__name__}: {error}", name) from None


if __name__ == "__main__":
    sys.exit(main())
