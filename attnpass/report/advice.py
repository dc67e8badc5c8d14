"""What a user could change, from what a report says was not done."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .entries import AttentionRecord, Decision, Entries, OperandRecord

if TYPE_CHECKING:
    from ..ir.refusal import Cause

_HALF = ("f16", "bf16", "f8")


@dataclass(frozen=True)
class Advice:
    """What could be had, and by what: a flag or a tool."""

    what: str
    how: str

    def __str__(self) -> str:
        return f"{self.what}: {self.how}"


def advice_of(report: Entries) -> list[Advice]:
    """What a user could change about this report, each once."""
    found = [advice for rule in _RULES for advice in rule(report)]
    return list(dict.fromkeys(found))


def _mode(report: Entries) -> list[Advice]:
    if report.mode not in ("never", "disabled"):
        return []
    return [Advice("no layout was changed", "--attn-mode=cost changes those that pay")]


def _target(report: Entries) -> list[Advice]:
    if report.target or not report.attentions or report.mode == "disabled":
        return []
    how = "name one target (--iree-cuda-target=, --iree-rocm-target=, ...), or --attn-target=NAME"
    return [Advice("nothing could be priced", how)]


def _caches(report: Entries) -> list[Advice]:
    """V that a caller hands in can be held as V^T by the caller."""
    count = _with_cause(report, "handed-in", ("refused",))
    if not count:
        return []
    how = "--attn-cache=transposed, where you can hold that cache or argument as V^T"
    return [Advice(f"V of {_ops(count)} comes from the caller", how)]


def _unknown_worth(report: Entries) -> list[Advice]:
    count = _with_cause(report, "unmeasured", ("kept", "folded"))
    if not count or not report.target:
        return []
    how = "--attn-mode=always, and compare the times"
    return [Advice(f"what V^T is worth to {_ops(count)} was never measured there", how)]


def _kernels(report: Entries) -> list[Advice]:
    asked = any(
        one.pass_name == "attn-use-kernels" for a in report.attentions for one in a.operands
    )
    narrow = [one for one in report.attentions if _has_kernels(one)]
    if asked or not narrow or "sm_90" not in report.target:
        return []
    how = "--attn-kernels=cost takes one where it is faster"
    return [Advice(f"{_ops(len(narrow))} may fit a precompiled Hopper kernel", how)]


def _has_kernels(attention: AttentionRecord) -> bool:
    """Whether there are kernels for its type and its head dim."""
    narrow = attention.element_types.get("query", "").startswith(_HALF)
    return narrow and attention.shapes["query"][-1:] in ([64], [128], [256])


def _configurations(report: Entries) -> list[Advice]:
    if not report.found("not-configured", of="attention"):
        return []
    return [Advice("attention without a configuration of ours", "attn-tune searches for one")]


def _decomposed(report: Entries) -> list[Advice]:
    if not any("switch" in record.details for record in report.found("not-raised")):
        return []
    return [Advice("attention that is written out", "leave out --attn-raise=false")]


def _events(report: Entries) -> list[Advice]:
    kinds = {event.kind for event in report.events}
    found = []
    if "known-wrong" in kinds:
        found.append(Advice("wrong numbers", "attn-verify shows where they begin"))
    if "fallback" in kinds:
        found.append(Advice("a step was left out", "--attn-fail-on=fallback makes it an error"))
    return found


_RULES: tuple[Callable[[Entries], list[Advice]], ...] = (
    *(_events, _mode, _target, _caches, _unknown_worth, _kernels, _configurations, _decomposed),
)


def _with_cause(report: Entries, cause: Cause, decisions: Collection[Decision]) -> int:
    """How many attentions keep V's order for this cause."""
    found = [one for _, one in _values(report) if one.decision in decisions]
    return sum(one.cause == cause for one in found)


def _values(report: Entries) -> list[tuple[AttentionRecord, OperandRecord]]:
    return [(a, one) for a in report.attentions for one in a.operands if one.operand == "value"]


def _ops(count: int) -> str:
    return f"{count} attention op{'' if count == 1 else 's'}"
