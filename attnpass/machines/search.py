"""Candidates for attn-tune: what a machine can express for one attention (`Target.candidates`).

The built-in configuration comes first; the rest are ordered by how near they are to it, so that
a limited search looks there. A combination that a guardrail forbids is counted by its reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..attention.facts import AttentionFacts
from ..ir import Refusal
from . import Target

BUILT_IN = "built-in"


@dataclass(frozen=True)
class Candidate:
    """A configuration, as attribute texts by name, and what it is in words."""

    choice: str
    configuration: dict[str, str]


@dataclass
class CandidateSearch:
    """What there is to try for one attention, and how often each guardrail forbade more."""

    candidates: list[Candidate] = field(default_factory=list)
    pruned: Counter[str] = field(default_factory=Counter)

    def offer(self, choice: str, found: dict[str, str] | Refusal) -> None:
        """Takes a configuration that is new, or the reason why there is none."""
        if isinstance(found, Refusal):
            self.pruned[found.reason] += 1
        elif any(found == other.configuration for other in self.candidates):
            self.pruned["the same kernel as another candidate"] += 1
        else:
            self.candidates.append(Candidate(choice, found))


def search(facts: AttentionFacts, target: Target, plain: bool) -> CandidateSearch:
    """The candidates for one attention; none, with the reason in `pruned`, where none is known
    to be right. `plain`: for iree-compile, without kernels that attnpass lowers itself."""
    found = CandidateSearch()
    why = _refusal(facts, target)
    if why:
        found.pruned[why.reason] += 1
        return found
    first = target.configuration(facts)
    if isinstance(first, Refusal):
        first = {}
    if plain:
        first = {name: text for name, text in first.items() if name not in target.lowered_by_us}
    if first:
        found.offer(BUILT_IN, first)
    for choice, configuration in target.candidates(facts, first):
        found.offer(choice, configuration)
    return found


def _refusal(facts: AttentionFacts, target: Target) -> Refusal | None:
    if facts.own_configuration:
        return Refusal(f"it has a {facts.own_configuration}")
    if facts.changes_scores:
        # IREE 3.13 gives it scores times log2(e): there is no reference to compare with.
        return Refusal("its region changes the scores")
    if 1 in facts.sizes:
        return Refusal("it has unit dims, which IREE folds where attention stands alone")
    return target.tuning_refusal(facts)
