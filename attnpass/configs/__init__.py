"""Kernel configurations for attention: one file a target family, and what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..attention import AttentionFacts, describe, find_ops
from ..errors import AttnError
from ..ir import set_attribute
from ..targets import Target
from . import cpu, cpu_loops, nvidia

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
        if isinstance(found, str):
            report.note(f"{place} keeps IREE's own configuration: {found}")
            continue
        for name, text in found.items():
            set_attribute(facts.op, name, text)
        words = found["compilation_info"]
        report.note(f"{place} is configured for {target.name if target else ''}: {words}")
        if target and target.backend == "llvm-cpu" and "decomposition_config" not in found:
            why = cpu_loops.tiles(facts, cpu.register_bytes(target))
            report.note(f"{place} gets no loops of ours: {why}")
        changed = True
    return changed


def padded_keys(facts: AttentionFacts, target: Target) -> int | None:
    """The number of keys, above that of this attention, that has a configuration where its
    own has none; None where there is no such number, or none is needed."""
    if target.backend == "cuda" and not facts.own_configuration:
        return nvidia.padded_keys(facts, target)
    return None


def split_refusal(facts: AttentionFacts, target: Target) -> str:
    """Why chunks of this attention's keys would get no decode configuration, or ''."""
    if target.backend == "cuda":
        return nvidia.decodes(facts, target)
    return f"no decode kernel was measured for {target.name}"


def _configuration(facts: AttentionFacts, target: Target | None) -> dict[str, str] | str:
    """The attributes to attach, as text by name, or why there are none."""
    if facts.own_configuration:
        return f"it has a {facts.own_configuration}"
    if target is None:
        return "the module names no single target"
    if target.backend == "llvm-cpu":
        return cpu.configuration(facts, target)
    if target.backend == "cuda":
        return nvidia.configuration(facts, target)
    return f"there is no table for {target.name}"
