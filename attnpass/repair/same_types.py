"""attn-same-types: Q and K of one type, for GPUs."""

from __future__ import annotations

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..attention.edit import edit
from ..attention.facts import AttentionFacts
from ..attention.widening import NARROW, WIDE, widen
from ..ir import Builder
from ..passes import Pass, PassContext


class SameTypes(Pass):
    """Casts Q or K where they have two types that are narrower than the scores': the one of 8 bits
    to the 16 of the other or, where neither type holds the other, Q to f32.

    IREE 3.13 takes casts of both factors off a product on GPUs, as if they were casts from one
    type, and fails on what that leaves ("lhs and rhs have same element type"). A compute barrier
    keeps the cast out of attention's kernel.
    """

    name = "attn-same-types"
    summary = "GPUs: Q and K of two narrow types are cast to one"
    why = "no kernel for GPUs multiplies two narrow types"
    mends = "attention on Q and K of two narrow types is not cast to one"
    backends = ("cuda", "rocm")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if not self.is_for(module):
            return False
        return context.replace_attention(module, _cast, "repaired")


def _cast(facts: AttentionFacts) -> str | None:
    """Gives the users of an attention the same one on operands of one type."""
    found = _wanted(facts)
    if facts.own_configuration or found is None:
        return None
    name, kind = found
    build, before = Builder(facts.op), facts.element_types[name]
    wide = compute_barrier(build, widen(build, facts.value(name), kind))
    edit(facts).operand(name, wide).replace()
    return f"its {name} is {kind} now, not {before}: IREE 3.13 fails on Q and K of two narrow types"


def _wanted(facts: AttentionFacts) -> tuple[str, str] | None:
    """The operand to cast, and its new type; None where Q and K may stay."""
    query, key = facts.element_types["query"], facts.element_types["key"]
    if query == key or not {query, key} <= {*NARROW, *WIDE}:
        return None
    if query in NARROW and key in WIDE:
        return "query", key
    return ("key", query) if key in NARROW and query in WIDE else ("query", "f32")
