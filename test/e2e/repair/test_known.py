"""Every module on which attnpass or IREE was once found wrong is right, or says that it is not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from helpers import CPU, compile_text, has_avx512, run_module
from known_cases import UNCALLED, error, known, names

import attnpass
from attnpass.report.records import Report
from bench.results import load

HOST = "--iree-llvmcpu-target-cpu=x86-64-v4"
LEVELS = ("O0", "O3")


def _variants() -> list[tuple[str, str]]:
    """Each module with the default flags; at the other levels, in turns, with AVX-512 where this
    machine has it."""
    return [
        (name, flags)
        for number, name in enumerate(names())
        for flags in ("", f"{HOST} --iree-opt-level={LEVELS[number % 2]}")
    ]


@pytest.mark.parametrize(("name", "flags"), _variants())
def test_numbers_are_right_or_said_to_be_wrong(name: str, flags: str) -> None:
    if HOST in flags and not has_avx512():
        flags = flags.replace(HOST, "")
    case, report = known(name), Report()
    vmfb = attnpass.compile_str(case.text, extra_args=[*CPU, *flags.split()], report=report)
    assert vmfb is not None
    fallbacks = [event for event in report.events if event.kind == "fallback"]
    assert not fallbacks
    if name in UNCALLED:
        return
    results = _list(run_module(vmfb, case.inputs, case.function))
    found = error(results, _wanted(name))
    wrong = found > case.tolerance(2e-5)
    said = any(event.kind == "known-wrong" for event in report.events)
    assert not wrong or said, found


@cache
def _wanted(name: str) -> Sequence[object]:
    case = known(name)
    if case.is_interpreted:
        return case.wanted()
    return _list(run_module(compile_text(case.text), case.inputs, case.function))


def _list(results: object) -> list[object]:
    return list(results) if isinstance(results, list | tuple) else [results]


def test_on_an_h200_they_were_right_or_said_to_be_wrong() -> None:
    rows = load("known_h200").flat()
    assert {row["case"] for row in rows} == {*names()} - {*UNCALLED}
    assert {row["way"] for row in rows} == {"O0", "O2", "O3"}
    silent = [
        row
        for row in rows
        if not row["warned"] and (row["error"] is None or row["error"] > row["tolerance"])
    ]
    assert not silent
