"""attn-fully-masked-rows: zeros, as in PyTorch, in rows of attention that see no key.

IREE computes 0 / 0 for them. PyTorch, from which most models come, defines 0, and models count
on it: a batch that is padded on the left has such rows, and in the next layer a NaN in V spoils
every row of its sequence, whatever the mask says (0 * NaN).

What hides the keys does not matter: such a row's sum of weights is 0, which no other row's is
(its largest score has the weight 1). So the division by that sum is guarded, which reads nothing
but what it has, and holds for masks of all types and shapes, for score functions and for keys of
which there are none at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iree.compiler import ir

from ..attention.edit import edit, no_key_seen
from ..attention.facts import AttentionFacts, find_ops, whole_facts
from ..ir import (
    Builder,
    below_casts,
    body_of,
    defining_op,
    element_type,
    erase_dead,
    has_ancestor,
    maps,
    next_op,
    replace_reads,
    scalar_number,
    sizes_of,
    users,
    yielded,
)
from ..ir.bodies import predicate
from ..ir.views import SLICE, WHOLE
from ..passes import Pass, PassContext
from .lowest_masks import raise_masks

# What a report says of attention whose divisions are guarded.
ZERO_ROWS = "rows that see no key are 0, as in PyTorch; IREE gives NaN"
# The sum's place among the results of `online_attention`.
_SUM = 2
# What makes the same numbers of a tensor lie otherwise.
_SAME_NUMBERS = (*WHOLE, SLICE, "linalg.broadcast")


def may_see_nothing(facts: AttentionFacts) -> bool:
    """Whether there could be rows that see no key: not where each sees all of a known number."""
    if facts.has_mask or facts.changes_scores:
        return True
    return any(facts.sizes[dim] is None or facts.sizes[dim] == 0 for dim in facts.k2)


def quotient_or_zero(build: Builder, above: ir.Value, below: ir.Value) -> ir.Value:
    """above / below, and 0 where `below`, a row's sum of weights, is 0."""
    quotient = build.divf(above, below)
    return zero_without_keys(build, quotient, below)


def zero_without_keys(build: Builder, value: ir.Value, total: ir.Value) -> ir.Value:
    """`value` of a row, but 0 where `total`, its sum of weights, is 0."""
    none = build.compare_floats("oeq", total, build.constant_float(0.0, total.type))
    return build.select(none, build.constant_float(0.0, value.type), value)


def _zero_by_bits(build: Builder, value: ir.Value, total: ir.Value) -> ir.Value:
    """The same in integers, which keep a row's choice: IREE 3.13 exchanges that between the lanes
    of a GPU where V's columns stand before rows, and stores no vectors of truth values."""
    bits = ir.IntegerType.get_signless(ir.FloatType(value.type).width)
    none = build.compare_floats("oeq", total, build.constant_float(0.0, total.type))
    kept = build.select(none, build.constant_number(0, bits), build.constant_number(-1, bits))
    whole = build.convert("arith.bitcast", value, bits)
    left = build.andi(whole, kept)
    return build.convert("arith.bitcast", left, value.type)


def _is_repeated_in_front(element: ir.Value) -> bool:
    """Whether an element that a generic reads is that of all places along a dim of the result
    which stands in front of one that it changes with."""
    argument = ir.BlockArgument(element)
    positions = maps.positions(argument.owner.owner)
    if positions is None:
        return False
    own, result = positions[argument.arg_number], positions[-1]
    repeated = [loop not in own for loop in result]
    return sorted(repeated) != repeated


def guard_divisions(attention: ir.Operation) -> bool:
    """Has what divides by the sum of an `online_attention` give 0 where that is 0; returns
    whether there was such a division that did not."""
    quotients = [
        (*found, element)
        for element in _elements(attention.results[_SUM])
        for found in _quotients(element)
    ]
    for quotient, total, element in quotients:
        op = defining_op(quotient)
        assert op is not None, "a quotient is computed"
        build, readers = Builder(next_op(op), op.location), users(quotient)
        zeros = _zero_by_bits if _is_repeated_in_front(element) else zero_without_keys
        guarded = zeros(build, quotient, total)
        (guard,) = (one for one in users(quotient) if one not in readers)
        quotient.replace_all_uses_except(guarded, guard)
    return bool(quotients)


def divided_by_sum(facts: AttentionFacts) -> ir.Value:
    """The result of an `attention` as `online_attention` and the division by its sum, guarded,
    built in front of it. Needs a current context."""
    build, output = Builder(facts.op), facts.map_of("output")
    rows = tuple(dim for dim in output if dim is not None and dim not in facts.n)
    out = facts.value("output")
    sizes = dict(zip(output, sizes_of(out), strict=True))
    rows_sizes = [sizes[dim] for dim in rows]
    starts = no_key_seen(build, [sizes_of(out), rows_sizes, rows_sizes])
    op = edit(facts).starts(starts, [output, rows, rows]).build()

    def body(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        return inner.cast_float(quotient_or_zero(inner, *x[:2]), x[2].type)

    total = op.results[2], tuple(map(output.index, rows))
    return build.computed(sizes_of(out), element_type(out), body, op.results[0], total)


def _elements(value: ir.Value) -> Iterator[ir.Value]:
    """The elements of a tensor as those who read it element by element have them."""
    for use in value.uses:
        op = use.owner.operation
        if op.name in _SAME_NUMBERS and use.operand_number == 0:
            yield from _elements(op.results[0])
        if op.name != "linalg.generic" or use.operand_number >= len(op.operands) - len(op.results):
            continue
        argument = body_of(op).arguments[use.operand_number]
        yield argument
        for place, result in enumerate(op.results):
            if below_casts(yielded(op, place)) == argument:
                yield from _elements(result)


def _quotients(total: ir.Value) -> Iterator[tuple[ir.Value, ir.Value]]:
    """What is divided by a sum, with that: the quotient, or, of 1 / sum, what is multiplied by
    it. Those that are guarded are left out."""
    for op in users(total):
        if op.name in ("arith.extf", "arith.truncf"):
            yield from _quotients(op.results[0])
        if op.name != "arith.divf" or op.operands[1] != total:
            continue
        quotient = op.results[0]
        readers = users(quotient)
        if scalar_number(op.operands[0]) == 1 and [one.name for one in readers] == ["arith.mulf"]:
            quotient = readers[0].results[0]
        if not _is_guarded(quotient):
            yield quotient, total


def _is_guarded(quotient: ir.Value) -> bool:
    readers = users(quotient)
    if [one.name for one in readers] == ["arith.bitcast"]:
        return True
    if [one.name for one in readers] != ["arith.select"]:
        return False
    condition = defining_op(readers[0].operands[0])
    return condition is not None and is_zero_test(condition)


def is_zero_test(op: ir.Operation) -> bool:
    """Whether an op asks if a float is 0."""
    is_equal = op.name == "arith.cmpf" and predicate(op) == "oeq"
    return is_equal and scalar_number(op.operands[1]) == 0


class FullyMaskedRows(Pass):
    """Makes rows of attention that see no key 0, where there could be such rows: left alone is
    what sees all of a known number of keys.

    It guards the division that IREE makes of each attention before it lowers kernels; run on a
    module in which attention is whole, it takes that apart.

    Where keys are hidden by the lowest finite number, such rows are the mean of V: see
    `attn-lowest-masks`, whose work is done here, too, where attention is whole.
    """

    name = "attn-fully-masked-rows"
    summary = "rows that see no key are 0, as in PyTorch, not NaN"
    phase = "executable-configurations"
    mends = "rows that see no key are NaN"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        guarded: list[ir.Operation] = []
        apart: list[ir.Operation] = []
        open_ops = [op for op in find_ops(module) if not has_ancestor(op, "hal.executable")]
        changed = raise_masks(open_ops, context.report)
        for op in find_ops(module):
            facts = whole_facts(op)
            if facts is not None and not may_see_nothing(facts):
                continue
            if facts is not None and facts.kind == "attention":
                with op.location:
                    replace_reads(op.results[0], divided_by_sum(facts))
                apart.append(op)
            elif len(op.results) < 3 or not guard_divisions(op):
                continue
            guarded.append(op)
        for op in guarded:
            context.report.record(op, "repaired", ZERO_ROWS)
        erase_dead(apart)
        return changed or bool(guarded)
