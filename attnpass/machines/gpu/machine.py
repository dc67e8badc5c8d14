"""What GPUs of all families have in common, as IREE compiles attention for them."""

from __future__ import annotations

from dataclasses import dataclass

from ...attention.facts import AttentionFacts, whole_facts
from ...ir import Refusal
from .. import Target
from ..common_faults import common_fault

# A thread takes so many keys of a single row at once.
_KEYS_AT_ONCE = 4


@dataclass(frozen=True)
class Gpu(Target):
    """A GPU."""

    def loses_lanes(self, facts: AttentionFacts) -> bool:
        """Whether IREE's own configuration spreads a head over more lanes than there are."""
        raise NotImplementedError

    def own_is_wrong(self, facts: AttentionFacts) -> Refusal | None:
        if why := common_fault(facts):
            return why
        if not facts.k1 or not facts.k2 or not facts.n:
            return Refusal(
                "IREE 3.13 crashes where Q and K, K and V, or V and the result share no dim"
            )
        if whole_facts(facts.op) is None:
            return Refusal("IREE 3.13's own configuration is for other forms of attention")
        rows, keys = facts.extent((*facts.batch, *facts.m)), facts.extent(facts.k2)
        if rows == 1 and keys is not None and keys != 1 and keys % _KEYS_AT_ONCE:
            return Refusal("IREE 3.13 does not compile a single row over keys that fill no vectors")
        if facts.extent(facts.k1) is None:
            return Refusal("IREE 3.13 does not compile head dims that are known only at run time")
        if self.loses_lanes(facts):
            return Refusal(
                "IREE 3.13's own configuration computes wrong numbers without matrix instructions "
                "at head dims of more bytes than a subgroup reads at once"
            )
        return None
