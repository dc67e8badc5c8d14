"""Kernel configurations for attention: one file a target family, and what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..attention import AttentionFacts, describe, find_ops
from ..errors import AttnError
from ..ir import set_attribute
from ..targets import Target
from . import cpu

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..report.records import Report


def configure_all(module: ir.Operation, target: Target | None, report: Report) -> bool:
    """Configures every attention under `module`, with a note each; returns whether IR changed."""
    changed = False
    for op in find_ops(module):
        try:
            facts = describe(op)
        except AttnError as error:
            # IREE folds unit dims before this phase: a single key leaves no k2 dim.
            place = f"attention at {error.location}"
            report.note(f"{place} keeps IREE's own configuration: {error.message}")
            continue
        found = _configuration(facts, target)
        place = f"{facts.kind} at {facts.location}"
        if found.startswith("#"):
            set_attribute(facts.op, "compilation_info", found)
            report.note(f"{place} is configured for {target.name if target else ''}: {found}")
            changed = True
        else:
            report.note(f"{place} keeps IREE's own configuration: {found}")
    return changed


def _configuration(facts: AttentionFacts, target: Target | None) -> str:
    """The configuration's attribute text (it starts with '#'), or why there is none."""
    if facts.own_configuration:
        return f"it has a {facts.own_configuration}"
    if target is None:
        return "the module names no single target"
    if target.backend == "llvm-cpu":
        return cpu.configuration(facts, target)
    return f"there is no table for {target.name}"
