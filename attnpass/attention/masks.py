"""Attention under another mask: for kernels that need one, or more keys than there are."""

from __future__ import annotations

from collections.abc import Mapping

from iree.compiler import ir

from ..ir import Builder, copied_attributes, copy_region, maps
from .facts import AttentionFacts


def attend_under(
    facts: AttentionFacts,
    mask: ir.Value,
    positions: maps.Positions,
    given: Mapping[str, ir.Value] | None = None,
) -> None:
    """Gives the users of an attention the same one under `mask`, whose dims are the iteration
    dims `positions`, with the operands `given` by name instead of its own. The caller erases
    the old op."""
    op, build = facts.op, Builder(facts.op)
    operands, indexing = list(op.operands), list(facts.maps)
    for name, value in (given or {}).items():
        operands[facts.index(name)] = value
    if facts.has_mask:
        operands[facts.index("mask")], indexing[facts.index("mask")] = mask, positions
    else:
        operands.insert(facts.index("scale") + 1, mask)
        indexing.insert(facts.index("scale") + 1, positions)
    attributes = copied_attributes(op)
    attributes["indexing_maps"] = maps.maps_attribute(facts.num_dims, indexing)
    types = [result.type for result in op.results]
    new = build.create(op.name, types, operands, attributes, regions=1)
    copy_region(op, new)
    for old, value in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(value)
