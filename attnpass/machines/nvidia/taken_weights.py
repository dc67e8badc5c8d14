"""Configurations for few rows times weights that are taken by index, (k, n), on NVIDIA GPUs.

IREE 3.13 gives a subgroup a column, whose lanes read along the depth: of each 32 bytes that come
from memory one element is used. Here lanes stand side by side along the columns, too.
"""

from __future__ import annotations

from iree.compiler import ir

from ...attention.facts import configured_by
from ...ir import Refusal, collect, defining_op, element_bytes, printed, product
from ...ir.contractions import FEW_ROWS, ContractionFacts, read_contraction
from ..gpu.configurations import DISTRIBUTE, basis

_GATHER = "iree_linalg_ext.gather"
# A lane reads 16 bytes, eight side by side read 128; four along the depth in each of four
# subgroups take four rows each.
_ACROSS, _ALONG, _SUBGROUPS, _ROWS = 8, 4, 4, 4
_BYTES = 16


def find(function: ir.Operation) -> list[ContractionFacts]:
    """The products of few rows in a dispatch whose second factor is taken by index and lies as
    (k, n)."""
    ops = collect(function, lambda op: op.name.startswith("linalg."), bodies=False)
    found = [facts for facts in map(read_contraction, ops) if facts is not None]
    return [facts for facts in found if _is_taken(facts)]


def _is_taken(facts: ContractionFacts) -> bool:
    made = defining_op(facts.op.operands[1], _GATHER)
    loops = facts.right
    if made is None or None in (*loops, *facts.left, *facts.result):
        return False
    rows = product([facts.sizes[loop] for loop in facts.m])
    few = isinstance(rows, int) and rows <= FEW_ROWS
    return few and len(facts.k) == 1 and loops[-1] in facts.n


def configuration(facts: ContractionFacts) -> dict[str, str] | Refusal:
    """The attributes for this product, or why it keeps IREE's own configuration."""
    if configured_by(facts.op):
        return Refusal("it has a configuration")
    columns, (depth,) = facts.right[-1], facts.k
    assert columns is not None
    together = _BYTES // element_bytes(facts.op.operands[1])
    tile = {columns: _ACROSS * together, depth: _ALONG * _SUBGROUPS * _ROWS}
    for loop, step in tile.items():
        size = facts.sizes[loop]
        if not isinstance(size, int) or size % step:
            return Refusal(f"its weights are no multiples of {tile[depth]} x {tile[columns]}")
    loops = range(len(facts.sizes))

    def each(others: int, **own: int) -> list[int]:
        given = {columns: own.get("columns", others), depth: own.get("depth", others)}
        return [given.get(loop, others) for loop in loops]

    lowering = printed.gpu_lowering(
        lane_basis=basis(each(1, columns=_ACROSS, depth=_ALONG)),
        partial_reduction=each(0, depth=tile[depth]),
        subgroup_basis=basis(each(1, depth=_SUBGROUPS)),
        thread=each(0, columns=together, depth=_ROWS),
        workgroup=each(1, columns=tile[columns], depth=0),
    )
    return {"compilation_info": printed.compilation_info(lowering, DISTRIBUTE, 32 * _SUBGROUPS, 32)}
