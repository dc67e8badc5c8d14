"""The words for what was done to an op, or was not, and what a reader is told of each.

schema.json lists the same words.
"""

from __future__ import annotations

from typing import Literal, get_args

# What a user may want a compile to fail on: wrong numbers that nothing avoids, and steps that
# were left out because the compile failed with them, and flags that have no effect.
EventKind = Literal["known-wrong", "fallback", "ignored"]
EVENTS: tuple[EventKind, ...] = get_args(EventKind)

# What a reader may want to change.
NOT_DONE = (
    *("not-raised", "not-decomposed", "not-widened", "not-configured", "no-loops"),
    *("not-lowered", "no-kernel", "not-transposed", "not-run", "left"),
)

What = Literal[
    "raised",  # products and a softmax are an attention op
    "not-raised",
    "decomposed",  # an attention op is products and a softmax
    "not-decomposed",
    "fitted",  # its shapes, masks or types are ones that have a kernel
    "widened",  # its operands are of wider types
    "not-widened",
    "stored",  # an operand is put in memory before it
    "repaired",  # IREE 3.13 would make wrong numbers of it, or no program
    "configured",  # by attnpass
    "configured-by-user",
    "not-configured",  # the configuration is IREE's
    "loops",  # on CPUs, vector loops of attnpass
    "no-loops",
    "lowered",  # on GPUs, to hardware instructions and shared memory, by attnpass
    "not-lowered",
    "kernel",  # a precompiled kernel computes it
    "no-kernel",
    "transposed",  # callers pass an argument, or get a result, with its dims in another order
    "not-transposed",
    "not-run",  # passes, or all of them
    "note",  # of the whole module, or of none of its ops
    "left",  # no pass takes it, or a pass put it back
    "known-wrong",
    "fallback",
    "ignored",
]

# `op`, `reason` and the record's details go in.
_SENTENCES: dict[What, str] = {
    "raised": "{op} are an attention op now, {reason}",
    "not-raised": "{op} stay as they are: {reason}",
    "decomposed": "{op} is products and a softmax in {element_type} now: {reason}",
    "not-decomposed": "{op} is not written out: {reason}",
    "not-widened": "{op} keeps its 8-bit operands: {reason}",
    "configured": "{op} is configured for {target}{source}: {configuration}",
    "configured-by-user": "{op} has the configuration that {flag} gives it",
    "not-configured": "{op} keeps IREE's own configuration: {reason}",
    "loops": "{op} is vector loops of ours, with {lanes} across the lanes",
    "no-loops": "{op} gets no loops of ours: {reason}",
    "lowered": "{op} {reason}",
    "not-lowered": "{op} {reason}",
    "kernel": "{op} is a precompiled kernel now: {reason}",
    "no-kernel": "{op} stays IREE's own code: {reason}",
    "transposed": "{op} is transposed for the caller: {reason}",
    "left": "{op} is left as it is: {reason}",
}
_SENTENCE = "{op}: {reason}"


def sentence(what: What, op: str, reason: str, details: dict[str, int | float | str]) -> str:
    """What a reader is told of a record; of an `op` that is '' the reason alone."""
    words = _SENTENCES.get(what, _SENTENCE) if op else "{reason}"
    if not reason:
        words = words.partition("{reason}")[0].rstrip(" ,:")
    return words.format(op=op, reason=reason, **_in_words(details))


def _in_words(details: dict[str, int | float | str]) -> dict[str, int | float | str]:
    """Details without attributes as they are spelled in IR."""
    from ..ir.printed import configuration_words

    if "configuration" not in details:
        return details
    return {**details, "configuration": configuration_words(details["configuration"])}
