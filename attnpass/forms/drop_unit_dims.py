"""attn-drop-unit-dims: the keys and each head dim are one dim where others have size one."""

from __future__ import annotations

from iree.compiler import ir

from ..attention.edit import edit, iteration_size
from ..attention.facts import AttentionFacts
from ..passes import Pass, PassContext


class DropUnitDims(Pass):
    """Takes dims of size one out of attention that has several key or head dims.

    IREE 3.13 drops a batch of one from Q and the result, but not from K or V where a slice
    makes them, fused into the same dispatch (the latent cache of DeepSeek's decode). That
    dim of one counts among the keys from then on: no configuration fits, and with its own IREE
    computes wrong numbers for wide heads.
    """

    name = "attn-drop-unit-dims"
    summary = "keys and head dims lose what has size one beside another dim"
    why = "IREE's folding leaves dims of size one beside others"
    phase = "flow"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        def replace(facts: AttentionFacts) -> str | None:
            dropped = _droppable(facts)
            if not dropped:
                return None
            _drop(facts, dropped)
            return "dims of size one beside its keys or its head dims are gone"

        return context.replace_attention(module, replace)


def _droppable(facts: AttentionFacts) -> frozenset[int]:
    """The dims of size one by type that stand beside others of their kind; none of an op that a
    configuration says the rank of."""
    if facts.own_configuration:
        return frozenset()
    found: set[int] = set()
    for dims in (facts.k1, facts.k2, facts.n):
        units = [d for d in dims if facts.is_unit(d) and d not in facts.score_index_dims]
        found.update(units[1:] if len(units) == len(dims) else units)
    return frozenset(found)


def _drop(facts: AttentionFacts, dropped: frozenset[int]) -> None:
    """Gives the users of an attention the same one without these dims."""
    cuts = [[] if dim in dropped else [iteration_size(facts, dim)] for dim in range(facts.num_dims)]
    edit(facts).cut(cuts).replace()
