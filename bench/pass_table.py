"""The table of docs/passes.md, from what the passes say themselves."""

from __future__ import annotations

import dataclasses

from attnpass.passes import load_pass, pass_names, plugin_names
from attnpass.phases import PHASES
from attnpass.pipeline import STEPS
from bench.markdown import text_table

TARGETS = {"cuda": "NVIDIA", "rocm": "AMD", "llvm-cpu": "CPUs"}


def passes() -> str:
    """A table for each phase, in the order in which passes run, then of those that do not run by
    default."""
    default = list(dict.fromkeys(step.name for step in STEPS))
    text = ""
    for phase in PHASES:
        if here := [name for name in default if load_pass(name).phase == phase]:
            text += f"### Behind IREE's phase `{phase}`\n\n{_table(here)}\n"
    others = [name for name in pass_names() if name not in {*default, *plugin_names()}]
    return f"{text}### Not in the default pipeline\n\n{_table(others)}"


def _table(names: list[str]) -> str:
    return text_table(["pass", "for", "does", "options"], map(_row, names))


def _row(name: str) -> list[str]:
    cls = load_pass(name)
    options = ", ".join(f"`{field.name.replace('_', '-')}`" for field in dataclasses.fields(cls))
    targets = ", ".join(TARGETS.get(backend, backend) for backend in cls.backends)
    does = cls.summary.split(": ", 1)[-1] if targets else cls.summary
    return [f"`{name}`", targets or "all", does, options]
