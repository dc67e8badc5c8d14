"""Products of rows that lie group by group, each with the weights of its group: experts' products.

Where there is no op for them all weights multiply all rows, and a row keeps the product of its own
group: `sum over groups of select(group of the row == group, rows * weights of the group, 0)`. The
group of a row is the number of `ends` of groups that do not lie behind it; rows behind the last end
are 0. `torch._grouped_mm` comes as this (torch/recipes/products.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..ir import (
    Refusal,
    defining_op,
    element_number,
    element_type_name,
    maps,
    ranked_shape,
    users,
)
from ..ir.bodies import (
    Scope,
    body_of,
    constant_number,
    filled_with,
    predicate,
    summand,
    whole_number,
)
from ..ir.contractions import read_contraction, starts_at_zero
from ..ir.expressions import Expression, ExpressionReader, Index, Leaf, Number, ScalarStep
from .products import ProductFacts, RowGroups, below_all, written_alone

# The dims of the products that are added up: groups, rows, columns; and a group among all.
_GROUP, _ROW, _COLUMN, _OTHER = range(4)
_WIDENS = ("arith.extf", "arith.extsi", "arith.index_cast")
_SIGNED = ("i32", "i64")
# Of elements at places along the dims of the products.
Term = Expression["int | None"]


def read_groups(op: ir.Operation) -> ProductFacts | Refusal | None:
    """The product of rows in groups that an op adds up; None for an op that does nothing such, and
    why there are no kernels for one that does."""
    term = _summed(op)
    condition, made, other = _inputs(term, "arith.select") or (None, None, None)
    ends = None if condition is None else _ends_of(condition)
    (product,) = _inputs(made, "arith.truncf") or (None,)
    if not isinstance(product, Leaf) or ends is None or not _is_zero(other):
        return None
    facts = read_contraction(defining_op(product.value))
    if facts is None or len(facts.k) != 1 or len(facts.result) != len(product.places):
        return None
    if not starts_at_zero(facts.op):
        return None
    loop_of = {place: loop for loop, place in zip(facts.result, product.places, strict=True)}
    group, row, column = (loop_of.get(place) for place in (_GROUP, _ROW, _COLUMN))
    depth = facts.k[0]
    sides = ((0, facts.left, 1, facts.right), (1, facts.right, 0, facts.left))
    for number, row_loops, other, weight_loops in sides:
        rows, own = below_all(facts.op.operands[number], row_loops)
        weights, theirs = below_all(facts.op.operands[other], weight_loops)
        if own == (row, depth) and theirs in ((group, column, depth), (group, depth, column)):
            break
    else:
        return Refusal("its rows or weights do not lie group by group")
    kind, *others = {element_type_name(rows), element_type_name(weights)}
    written = written_alone(op, kind)
    if others or kind not in ("f16", "bf16") or written is None:
        return Refusal("kernels for rows in groups have operands and results of 16 bits")
    if not _is_read_for(facts.op.results[0], op):
        return Refusal("others read the products of all groups, too")
    (count,) = ranked_shape(ends)
    if count is None:
        return Refusal("the number of its groups is known only at run time")
    m, n, k = (facts.sizes[loop] for loop in (row, column, depth) if loop is not None)
    groups = RowGroups(ends, count, facts.op)
    by_columns = theirs[1] == column
    return ProductFacts(op, rows, weights, by_columns, (m,), n, k, kind, (written,), groups=groups)


def _is_read_for(value: ir.Value, last: ir.Operation) -> bool:
    """Whether a value is read for nothing but what `last` makes of it."""
    return all(
        user == last or (len(user.results) == 1 and _is_read_for(user.results[0], last))
        for user in users(value)
    )


def _inputs(term: Term | None, name: str) -> tuple[Term, ...]:
    """What a step of this name takes; nothing for what is none."""
    return term.inputs if isinstance(term, ScalarStep) and term.name == name else ()


def _is_zero(term: Term | None) -> bool:
    return isinstance(term, Number) and term.number == 0


def _compared(term: Term | None, asked: str) -> tuple[Term, ...]:
    """What an `arith.cmpi` of this predicate compares; nothing for what is none."""
    given = _inputs(term, "arith.cmpi")
    return given if isinstance(term, ScalarStep) and given and predicate(term.op) == asked else ()


def _summed(op: ir.Operation) -> Term | None:
    """What an op adds up over groups, where its result is (rows, columns)."""
    value = summand(op) if len(op.operands) == 2 else None
    given = maps.positions(op) if value is not None else None
    if value is None or given is None or element_number(op.operands[1]) != 0:
        return None
    read, result = given
    if len(result) != 2 or len(read) != 3 or {*result} - {*read} or None in read:
        return None
    place_of = {loop: place for loop, place in zip(result, (_ROW, _COLUMN), strict=True)}
    return _TermReader().summed(op, value, given, [place_of.get(loop, _GROUP) for loop in range(3)])


def _ends_of(condition: Term) -> ir.Value | None:
    """The ends of groups, where a condition asks whether a row is of a group."""
    pair = [*_compared(condition, "eq")]
    if Index(_GROUP) not in pair:
        return None
    own = pair[1 - pair.index(Index(_GROUP))]
    if not isinstance(own, Leaf) or own.places != (_ROW,):
        return None
    return _counted(defining_op(own.value))


def _counted(op: ir.Operation | None) -> ir.Value | None:
    """The ends of which an op counts, for each row, those that do not lie behind it."""
    value = summand(op) if op is not None and len(op.results) == 1 else None
    given = maps.positions(op) if op and value is not None else None
    if op is None or value is None or given is None or len(given[-1]) != 1:
        return None
    scalar = filled_with(op.operands[-1])
    if whole_number(op.operands[-1] if scalar is None else scalar) != 0 or _has_signed_bits(op):
        return None
    (row,) = given[-1]
    loops = sorted({loop for dims in given for loop in dims if loop is not None})
    if len(loops) != 2:
        return None
    places = [_ROW if loop == row else _OTHER for loop in loops]
    term = _TermReader().summed(op, value, given, places)
    pairs = (_compared(term, "sge"), _compared(term, "sle")[::-1])
    for rows, ends in filter(None, pairs):
        if rows == Index(_ROW) and isinstance(ends, Leaf) and ends.places == (_OTHER,):
            named = element_type_name(ends.value) in _SIGNED and len(ranked_shape(ends.value)) == 1
            return ends.value if named else None
    return None


def _has_signed_bits(op: ir.Operation) -> bool:
    """Whether conditions that hold count as -1."""
    inner = [each.operation for each in body_of(op)]
    return any(each.name == "arith.extsi" and str(each.operands[0].type) == "i1" for each in inner)


class _TermReader(ExpressionReader["int | None"]):
    """Reads elements through elementwise ops and views, widening casts left out."""

    def summed(
        self,
        op: ir.Operation,
        value: ir.Value,
        given: Sequence[maps.Positions],
        places: Sequence[int],
    ) -> Term | None:
        """A scalar in the body of a reduction whose loops run along `places`."""
        operands = {
            argument: (operand, tuple(None if loop is None else places[loop] for loop in loops))
            for argument, operand, loops in zip(
                body_of(op).arguments, op.operands, given, strict=True
            )
        }
        return self.scalar(value, Scope(operands, dict(enumerate(places)), {}))

    def element(self, value: ir.Value, places: tuple[int | None, ...], /) -> Term | None:
        return super().element(*below_all(value, places))

    def made(
        self, op: ir.Operation, value: ir.Value, places: tuple[int | None, ...], /
    ) -> Term | None:
        number = element_number(value)
        return Number(number, value) if number is not None else super().made(op, value, places)

    def leaf(self, value: ir.Value, places: tuple[int | None, ...]) -> Term | None:
        pairs = zip(places, ranked_shape(value), strict=True)
        return Leaf(value, tuple(place for place, size in pairs if place is not None or size != 1))

    def constant(self, op: ir.Operation) -> Term | None:
        number = constant_number(op.results[0]) if op.name == "arith.constant" else None
        return None if number is None else Number(number, op.results[0])

    def step(
        self, value: ir.Value, op: ir.Operation, scope: Scope[int | None, Term]
    ) -> Term | None:
        found = super().step(value, op, scope)
        if isinstance(found, ScalarStep) and found.name in _WIDENS:
            return found.inputs[0]
        return found
