"""What each family of machines has for an attention: its configuration, the sizes that have one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..attention.facts import AttentionFacts, describe
from ..errors import AttnError
from . import Target
from .amd import configurations as amd
from .cpu import configurations as cpu
from .cpu import loops as cpu_loops
from .known_faults import no_code, own_is_wrong, settled
from .nvidia import configurations as nvidia

if TYPE_CHECKING:
    from iree.compiler import ir


GPUS = {"cuda": nvidia, "rocm": amd}


def slower_than_decomposed(facts: AttentionFacts, target: Target | None) -> str:
    """Why an attention op would be slower than the products and the softmax that say the same,
    or ''. On CPUs IREE's own code for the op is, 1.2 to 12 times: attention needs loops of ours.
    """
    if target is None or target.backend != "llvm-cpu":
        return ""
    loops = cpu_loops.tiles(facts, cpu.register_bytes(target))
    if isinstance(loops, str):
        return f"an attention op has no vector loops on this CPU, and is slower then: {loops}"
    partial = facts.kind == "online_attention"
    if partial and not any(cpu_loops.fits_beside_result(facts, one) for one in loops.from_best()):
        # What a sink adds to stands behind the sums, which cannot lie where the result goes.
        width = facts.sizes[facts.n[0]]
        return f"a head dim of {width} leaves vector loops no room on the stack for a sink's sums"
    return ""


def nothing_is_right(facts: AttentionFacts, target: Target | None, configured: bool) -> str:
    """What is wrong with the code that an attention in the open will get, or ''; whether or not
    it will be `configured`, and whatever `describe` makes of it."""
    if facts.own_configuration:
        return ""
    if why := no_code(facts):
        return why
    why = own_is_wrong(settled(facts), target)
    if not why or target is None:
        return ""
    return "" if configured and _will_be_configured(facts.op, target) else why


def _will_be_configured(op: ir.Operation, target: Target) -> bool:
    try:
        facts = settled(describe(op))
    except AttnError:
        return False
    kinds = (facts.k1, facts.k2, facts.n)
    return all(kinds) and not isinstance(built_in(facts, target), str)


def padded_keys(facts: AttentionFacts, target: Target) -> int | None:
    """The number of keys, above that of this attention, that has a configuration where its
    own has none; None where there is no such number, or none is needed."""
    if facts.own_configuration or target.backend not in GPUS:
        return None
    return GPUS[target.backend].padded_keys(facts, target)


def padded_heads(facts: AttentionFacts, target: Target) -> tuple[int, int] | None:
    """Head dims of Q and V, above those of this attention, that have a configuration where its
    own have none; None where there are none such, or none are needed."""
    if facts.own_configuration or target.backend not in GPUS:
        return None
    return GPUS[target.backend].padded_heads(facts, target)


def cut_head(facts: AttentionFacts, target: Target) -> int | None:
    """The part of the head dim of Q and K that a configuration is to take where it takes not all,
    the other part being few scores that are added; None where nothing is to be cut."""
    if facts.own_configuration or target.backend != "cuda":
        return None
    return nvidia.cut_head(facts, target)


def dynamic_tiles(facts: AttentionFacts, target: Target) -> dict[int, int]:
    """Sizes, by iteration dim, of the tiles that an attention over an unknown number of keys,
    or of grouped rows, needs for a configuration; empty where tiles would not help."""
    if target.backend not in GPUS or facts.own_configuration:
        return {}
    found = GPUS[target.backend].dynamic_tiles(facts, target)
    return {} if isinstance(found, str) else found


def split_refusal(facts: AttentionFacts, target: Target) -> str:
    """Why chunks of this attention's keys would get no decode configuration, or ''."""
    if target.backend == "cuda":
        return nvidia.decodes(facts, target)
    if target.backend == "llvm-cpu":
        return cpu.decodes(facts, target)
    return f"no decode kernel was measured for {target.name}"


def built_in(facts: AttentionFacts, target: Target) -> dict[str, str] | str:
    """The attributes that the built-in tables have, as text by name, or why there are none."""
    if target.backend == "llvm-cpu":
        return cpu.configuration(facts, target)
    if target.backend in GPUS:
        return GPUS[target.backend].configuration(facts, target)
    return f"there is no table for {target.name}"
