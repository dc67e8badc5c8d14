"""What IREE 3.13's own code gets wrong on every machine."""

from __future__ import annotations

from ..attention.facts import AttentionFacts
from ..ir import Refusal, defining_op

# What makes a tensor of one number.
_NUMBERS = ("linalg.fill", "arith.constant")


def common_fault(facts: AttentionFacts) -> Refusal | None:
    """What is wrong with IREE's own code for an attention as it is in a dispatch, or None."""
    if _goes_beyond_rows(facts):
        return Refusal(
            "IREE 3.13's own configuration takes a few numbers of a row at a time, and each time "
            "scales them alone by the new maximum"
        )
    if not _starts_anew(facts) and facts.extent(facts.n) != 1:
        return Refusal(
            "IREE 3.13's own configuration takes a few columns of V at a time, and adds to given "
            "sums each time"
        )
    return None


def _goes_beyond_rows(facts: AttentionFacts) -> bool:
    """Whether the output has dims of scores that maxima lack: those are over them, too."""
    if facts.kind == "attention":
        return False
    beyond = {*facts.map_of("output")} - {*facts.map_of("max")}
    return any(dim in beyond and facts.sizes[dim] != 1 for dim in (*facts.batch, *facts.m))


def _starts_anew(facts: AttentionFacts) -> bool:
    """Whether all results begin with a number, which IREE puts in where it needs it."""
    if facts.kind == "attention":
        return True
    return all(begins_with_number(facts, name) for name in facts.result_names)


def begins_with_number(facts: AttentionFacts, name: str) -> bool:
    return defining_op(facts.value(name), *_NUMBERS) is not None
