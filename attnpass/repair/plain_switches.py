"""attn-plain-switches: choices among several cases are choices between two."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..ir import Builder
from ..ir.attributes import known_attribute
from ..ir.regions import move_ops
from ..passes import OpPass

_SWITCH, _BRANCH, _YIELD = "scf.index_switch", "scf.if", "scf.yield"


class PlainSwitches(OpPass):
    """Rewrites an `scf.index_switch` with results as one `scf.if` in the other.

    IREE 3.13 has no program for one that gives a tensor: each of its streams' buffers comes with
    its size, which it leaves out of the types of the results.
    """

    name = "attn-plain-switches"
    summary = "choices among cases are choices between two"
    phase = "start"
    mends = "choices of tensors among cases do not compile"

    kind, erases = "branch", True

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == _SWITCH and len(op.results) > 0 and len(op.regions) > 1

    def change(self, op: ir.Operation) -> str:
        cases = list(ir.DenseI64ArrayAttr(known_attribute(op, "cases")))
        default, *regions = (region.blocks[0] for region in op.regions)
        results = _chosen(Builder(op), op, [*zip(cases, regions, strict=True)], default)
        for result, ours in zip(op.results, results, strict=True):
            result.replace_all_uses_with(ours)
        return "asks for one case after the other: IREE 3.13 has no program for it"


def _chosen(
    build: Builder,
    op: ir.Operation,
    cases: Sequence[tuple[int, ir.Block]],
    default: ir.Block,
) -> Sequence[ir.Value]:
    """What the first of these cases that fits gives, or the default."""
    (number, block), *others = cases
    is_case = build.compare("eq", op.operands[0], build.constant_index(number))
    types = [result.type for result in op.results]
    new = build.create(_BRANCH, types, [is_case], regions=2)
    then, otherwise = (region.blocks.append() for region in new.regions)
    move_ops(block, then)
    if others:
        build.fill_block(otherwise, _YIELD, lambda inner: _chosen(inner, op, others, default))
    else:
        move_ops(default, otherwise)
    return new.results
