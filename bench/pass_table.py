"""The table of docs/passes.md, from what the passes and their steps say themselves."""

from __future__ import annotations

import dataclasses

from attnpass.families import FAMILIES
from attnpass.passes import load_pass, pass_names, plugin_names
from attnpass.phases import PHASES
from attnpass.pipeline import STEPS, Step, reason_of
from bench.markdown import text_table

TARGETS = {"cuda": "NVIDIA", "rocm": "AMD", "llvm-cpu": "CPUs"}


def passes() -> str:
    """A table for each phase, in the order in which passes run, those of a family below it; then
    of those that do not run by default."""
    text = ""
    for phase in PHASES:
        if here := [step for step in STEPS if load_pass(step.name).phase == phase]:
            rows = [row for step in here for row in _step(step)]
            text += f"### Behind IREE's phase `{phase}`\n\n{_table(rows)}\n"
    default = {name for step in STEPS for name in (step.name, *step.passes)}
    others = [name for name in pass_names() if name not in {*default, *plugin_names()}]
    return f"{text}### Not in the default pipeline\n\n{_table([_row(name) for name in others])}"


def _table(rows: list[list[str]]) -> str:
    return text_table(["pass", "for", "does", "because", "options"], rows)


def _step(step: Step) -> list[list[str]]:
    parts = step.passes if step.name in FAMILIES else ()
    below = [_row(name, reason_of(load_pass(name)), "- ") for name in parts]
    return [_row(step.name, step.why), *below]


def _row(name: str, why: str = "", mark: str = "") -> list[str]:
    cls = load_pass(name)
    options = ", ".join(f"`{field.name.replace('_', '-')}`" for field in dataclasses.fields(cls))
    targets = ", ".join(TARGETS.get(backend, backend) for backend in cls.backends)
    does = cls.summary.split(": ", 1)[-1] if targets else cls.summary
    return [f"{mark}`{name}`", targets or "all", does, why, options]
