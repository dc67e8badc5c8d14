"""Every module on which attnpass or IREE was once found wrong is right, or says that it is not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import pytest
from helpers import CPU, compile_text, has_avx512, run_module, symbol, thinned
from iree.compiler import ir
from known_cases import UNCALLED, error, known, names

import attnpass
from attnpass.report.records import Report
from bench.device import several
from bench.results import load

HOST = "--iree-llvmcpu-target-cpu=x86-64-v4"
LEVELS = ("O0", "O3")


def _variants() -> list[tuple[str, str]]:
    """Each module with the default flags; one of four, or of two with ATTNPASS_EXAMPLES, at the
    other levels, in turns, with AVX-512 where this machine has it."""
    found = [(name, "") for name in names()]
    for number, name in enumerate(thinned(names()[::2])):
        found.append((name, f"{HOST} --iree-opt-level={LEVELS[number % 2]}"))
    return found


@pytest.mark.parametrize(("name", "flags"), _variants())
def test_numbers_are_right_or_said_to_be_wrong(name: str, flags: str) -> None:
    given = flags
    if HOST in flags and not has_avx512():
        flags = flags.replace(HOST, "")
    case = known(name)
    if _has_company(name):
        function = f"{case.function}_{symbol(name)}"
        vmfb, report = _compiled(_beside(name, given), flags)
    else:
        function = case.function
        vmfb, report = _program(case.text, flags)
    fallbacks = [event for event in report.events if event.kind == "fallback"]
    assert not fallbacks
    if name in UNCALLED:
        return
    results = several(run_module(vmfb, case.inputs, function))
    found = error(results, _wanted(name))
    wrong = found > case.tolerance(2e-5)
    said = any(record.op.function == function for record in report.found("known-wrong"))
    assert not wrong or said, found


def _program(text: str, flags: str) -> tuple[bytes, Report]:
    report = Report()
    vmfb = attnpass.compile_str(text, extra_args=[*CPU, *flags.split()], report=report)
    assert vmfb is not None
    return vmfb, report


@cache
def _compiled(cases: tuple[str, ...], flags: str) -> tuple[bytes, Report]:
    """Several modules in one, each with names of its own."""
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        whole = ir.Module.create()
        for name in cases:
            text = re.sub(r"@(\w+)", rf"@\1_{symbol(name)}", known(name).text)
            for op in ir.Module.parse(text).body.operations:
                whole.body.append(op.operation.clone())
        return _program(str(whole), flags)


def _beside(name: str, flags: str) -> tuple[str, ...]:
    """The modules that are compiled with this one, those that can be: of its flags, and a fourth of
    all where these are the default ones."""
    same = [one for one, its_flags in _variants() if its_flags == flags]
    if not flags:
        same = same[same.index(name) % 4 :: 4]
    return tuple(one for one in same if _has_company(one))


def _has_company(name: str) -> bool:
    """Whether IREE imports the module by no front end, and its functions can be called."""
    return name not in UNCALLED and not re.search(r"torch\.|stablehlo\.", known(name).text)


@cache
def _wanted(name: str) -> Sequence[object]:
    case = known(name)
    if case.is_interpreted:
        return case.wanted()
    return several(run_module(compile_text(case.text), case.inputs, case.function))


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
