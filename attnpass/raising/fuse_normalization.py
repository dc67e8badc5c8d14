"""attn-fuse-normalization: online attention and the division behind it as one attention."""

from __future__ import annotations

from iree.compiler import ir

from ..attention.edit import edit
from ..attention.facts import AttentionFacts, find_ops
from ..ir import (
    Builder,
    body_of,
    defining_op,
    element_number,
    erase_dead,
    maps,
    scalar_number,
    users,
    yielded,
)
from ..ir.limits import ABSORBS
from ..passes import Pass, PassContext
from ..repair.fully_masked_rows import ZERO_ROWS, guard_divisions, is_zero_test


def find_normalization(facts: AttentionFacts) -> ir.Operation | None:
    """The `linalg.generic` that divides the output of an `online_attention` by its sum, if these
    two results, begun at nothing, have no other user and the maximum has none."""
    if facts.kind != "online_attention":
        return None
    readers = users(facts.op.results[0])
    if len(readers) != 1 or users(facts.op.results[2]) != readers or users(facts.op.results[1]):
        return None
    starts = [element_number(facts.value(name)) for name in facts.result_names]
    if starts[0] != 0 or starts[1] is None or starts[1] > ABSORBS or starts[2] != 0:
        return None
    return readers[0] if _divides(readers[0], facts) else None


def normalized(facts: AttentionFacts, division: ir.Operation) -> ir.Value:
    """The attention whose result `division` computes, built in front of that."""
    made = edit(facts, Builder(division)).starts([division.operands[2]], [facts.map_of("output")])
    return made.build().results[0]


def _divides(op: ir.Operation, facts: AttentionFacts) -> bool:
    """Whether op is a generic that yields each element of the output over the sum of its row."""
    if op.name != "linalg.generic" or len(op.operands) != 3 or len(op.results) != 1:
        return False
    output, total = facts.op.results[0], facts.op.results[2]
    inputs = list(op.operands)[:2]
    if output not in inputs or total not in inputs:
        return False
    place = inputs.index(output)
    positions = maps.positions(op)
    dims = facts.map_of("output")
    here = tuple(range(len(dims)))
    if positions is None or positions[place] != here or positions[2] != here:
        return False
    # Loop i of the generic is dim i of the output.
    rows = tuple(None if loop is None else dims[loop] for loop in positions[1 - place])
    elements = body_of(op).arguments
    return rows == facts.map_of("sum") and _is_quotient(
        yielded(op), elements[place], elements[1 - place]
    )


def _is_quotient(value: ir.Value, above: ir.Value, below: ir.Value) -> bool:
    """Whether `value` is above / below, in whatever words and type."""
    op = defining_op(value)
    if op is None:
        return False
    if op.name == "arith.truncf":
        return _is_quotient(op.operands[0], above, below)
    if op.name == "arith.select":
        # 0 in rows that see no key, as attention is.
        condition, zero, value = op.operands
        test = defining_op(condition)
        guards = test is not None and is_zero_test(test) and test.operands[0] == below
        return guards and scalar_number(zero) == 0 and _is_quotient(value, above, below)
    if op.name == "arith.divf":
        return list(op.operands) == [above, below]
    if op.name != "arith.mulf" or above not in list(op.operands):
        return False
    other = op.operands[1 - list(op.operands).index(above)]
    inverse = defining_op(other)
    return (
        inverse is not None
        and inverse.name == "arith.divf"
        and scalar_number(inverse.operands[0]) == 1
        and inverse.operands[1] == below
    )


class FuseNormalization(Pass):
    """Makes `attention` of an `online_attention` that starts from nothing and whose output is
    divided by its sum of weights, where nobody reads the largest score or the sum but for that.

    FlexAttention is imported so. Passes and kernels know more of attention than of its parts,
    and IREE takes it apart again when it has formed dispatches. Where it cannot be one op, what
    divides by the sum gives 0 in rows that see no key, as attention is there.
    """

    name = "attn-fuse-normalization"
    summary = "online attention and the division by its sum as attention"
    why = "attention that divides by its sum itself has more kernels"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        divisions: list[ir.Operation] = []

        def replace(facts: AttentionFacts) -> str | None:
            division = find_normalization(facts)
            if division is None:
                return None
            division.results[0].replace_all_uses_with(normalized(facts, division))
            divisions.append(division)
            return "the division by its sum of weights is part of it now"

        changed = context.replace_attention(module, replace)
        erase_dead(divisions)
        for op in find_ops(module):
            if len(op.results) > 1 and guard_divisions(op):
                context.report.record(op, "repaired", ZERO_ROWS)
                changed = True
        return changed
