"""Products of rows that lie group by group, each with the weights of its group: experts' products.

Where there is no op for them all weights multiply all rows, and a row keeps the product of its own
group: `sum over groups of select(group of the row == group, rows * weights of the group, 0)`. The
group of a row is the number of `ends` of groups that do not lie behind it; rows behind the last end
are 0. `torch._grouped_mm` comes as this (torch/recipes.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    ScalarReader,
    Scope,
    body_of,
    filled_with,
    read_elementwise,
    summand,
    whole_number,
)
from ..ir.contractions import read_contraction
from .products import ProductFacts, RowGroups, below_all, written_alone

# The dims of the products that are added up: groups, rows, columns; and a group among all.
_GROUP, _ROW, _COLUMN, _OTHER = range(4)
_EQUAL, _AT_MOST, _AT_LEAST = 0, 3, 5
_WIDENS = ("arith.extf", "arith.extsi", "arith.index_cast")
_SIGNED = ("i32", "i64")
_MOST_STEPS = 30
# An op and what it takes, an element of a tensor with its places, an index or a number.
Term = tuple[Any, ...]


def read_groups(op: ir.Operation) -> ProductFacts | Refusal | None:
    """The product of rows in groups that an op adds up; None for an op that does nothing such, and
    why there are no kernels for one that does."""
    term = _summed(op)
    if term is None or term[0] != "arith.select" or term[3] != ("number", 0.0):
        return None
    ends, made = _ends_of(term[1]), term[2]
    if ends is None or made[:1] != ("arith.truncf",) or made[1][0] != "element":
        return None
    _, product, places = made[1]
    facts = read_contraction(defining_op(product))
    if facts is None or len(facts.k) != 1 or len(facts.result) != len(places):
        return None
    if element_number(facts.op.operands[2]) != 0:
        return None
    loop_of = {place: loop for loop, place in zip(facts.result, places, strict=True)}
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


def _summed(op: ir.Operation) -> Term | None:
    """What an op adds up over groups, where its result is (rows, columns)."""
    value = summand(op) if len(op.operands) == 2 else None
    given = maps.positions_of(op.attributes["indexing_maps"]) if value is not None else None
    if value is None or given is None or element_number(op.operands[1]) != 0:
        return None
    read, result = given
    if len(result) != 2 or len(read) != 3 or {*result} - {*read} or None in read:
        return None
    place_of = {loop: place for loop, place in zip(result, (_ROW, _COLUMN), strict=True)}
    return _TermReader().summed(op, value, given, [place_of.get(loop, _GROUP) for loop in range(3)])


def _ends_of(condition: Term) -> ir.Value | None:
    """The ends of groups, where a condition asks whether a row is of a group."""
    if condition[0] != "arith.cmpi" or condition[-1] != _EQUAL:
        return None
    pair = [*condition[1:3]]
    if ("index", _GROUP) not in pair:
        return None
    own = pair[1 - pair.index(("index", _GROUP))]
    if own[0] != "element" or own[2] != (_ROW,):
        return None
    return _counted(defining_op(own[1]))


def _counted(op: ir.Operation | None) -> ir.Value | None:
    """The ends of which an op counts, for each row, those that do not lie behind it."""
    value = summand(op) if op is not None and len(op.results) == 1 else None
    given = maps.positions_of(op.attributes["indexing_maps"]) if op and value is not None else None
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
    if term is None or term[0] != "arith.cmpi":
        return None
    for ends, rows, predicate in ((term[2], term[1], _AT_LEAST), (term[1], term[2], _AT_MOST)):
        fits = term[-1] == predicate and rows == ("index", _ROW)
        if fits and ends[0] == "element" and ends[2] == (_OTHER,):
            named = element_type_name(ends[1]) in _SIGNED and len(ranked_shape(ends[1])) == 1
            return ends[1] if named else None
    return None


def _has_signed_bits(op: ir.Operation) -> bool:
    """Whether conditions that hold count as -1."""
    inner = [each.operation for each in body_of(op)]
    return any(each.name == "arith.extsi" and str(each.operands[0].type) == "i1" for each in inner)


class _TermReader(ScalarReader["int | None", Term]):
    """Reads elements as terms, through elementwise ops and views, widening casts left out."""

    def __init__(self) -> None:
        self._steps = 0

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
        self._steps += 1
        value, places = below_all(value, places)
        number = element_number(value)
        if number is not None:
            return ("number", number)
        made = read_elementwise(defining_op(value)) if self._steps < _MOST_STEPS else None
        if made is not None:
            found = self.scalar(made.scalar, Scope.at(made, places, None))
            if found is not None:
                return found
        shape = ranked_shape(value)
        return (
            "element",
            value,
            tuple(p for p, size in zip(places, shape, strict=True) if p is not None or size != 1),
        )

    def argument(self, value: ir.Value) -> Term | None:
        return None

    def constant(self, op: ir.Operation) -> Term | None:
        if op.name != "arith.constant":
            return None
        given = op.attributes["value"]
        is_number = isinstance(given, ir.FloatAttr | ir.IntegerAttr)
        return ("number", float(given.value)) if is_number else None

    def index(self, place: int | None) -> Term | None:
        return None if place is None else ("index", place)

    def step(
        self, value: ir.Value, op: ir.Operation, scope: Scope[int | None, Term]
    ) -> Term | None:
        given = self.inputs(op, scope)
        if not given or any(term is None for term in given):
            return None
        if op.name in _WIDENS:
            return given[0]
        if op.name == "arith.cmpi":
            return (op.name, *given, ir.IntegerAttr(op.attributes["predicate"]).value)
        return (op.name, *given)
