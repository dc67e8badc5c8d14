"""How producers of a value take a layout: the contract of a rule, and their table.

A rule says for one kind of op what it would take to have its result in another layout
(`match`, which never touches IR), and builds the op that gives it (`rewrite`).

To add a rule, write one file:

    class Negate(Rule):
        ops = ("mydialect.negate",)

        def match(self, op, number, demand):
            return [Alternative((Request(0, Demand(demand.layout)),))]

        def rewrite(self, op, demand, alternative, operands, build):
            (value,) = operands
            return build.create(op.name, [value.type], [value]).results[0]

and name it in `RULES` below, or, from another package, under the entry-point group
`attnpass.rules` (value `module:Class`), or call `register(rule)`. The new value has
one dim per axis of the demand, in the demanded order. `attnpass.driver.testing.check`
plans, commits, verifies and compares numbers for a rule in one call.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from ... import plugins
from ...ir import Builder, Refusal
from ..cost import FREE, Cost
from ..layout import Layout


@dataclass(frozen=True)
class Demand:
    """A layout wanted of a value.

    `droppable` are the axes that the consumer can read broadcast: a value that does not
    change along such an axis may be delivered without it.
    """

    layout: Layout
    droppable: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Request:
    """A demand on operand `operand`; `as_it_is` is what it costs to read that operand in
    its old layout instead (None: it must be delivered)."""

    operand: int
    demand: Demand
    as_it_is: Cost | None = None


@dataclass(frozen=True)
class Alternative:
    """One way to meet a demand.

    `cost` is what the step itself adds to the program. A *view* makes no op: axis i of the
    demand is made of axes view[i] of the only request's demand, and an empty view[i] says
    that the axis is left out. `data` is the rule's own.
    """

    requests: tuple[Request, ...]
    cost: Cost = FREE
    view: tuple[tuple[int, ...], ...] | None = None
    data: Any = None


# What a rule says to a demand.
Ways = Sequence[Alternative] | Refusal
# What answers the requests of a way: a value with one dim per demanded axis each, or None where the
# old operand is read as it is.
Operands = Sequence["ir.Value | None"]


class Rule:
    """Base of the rules; see the module's text."""

    ops: tuple[str, ...] = ()

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        """Ways to have result `number` of `op` as demanded. Must not change IR."""
        raise NotImplementedError

    def rewrite(
        self, op: ir.Operation, demand: Demand, way: Alternative, operands: Operands, build: Builder
    ) -> ir.Value:
        """The new value. operands[i] answers way.requests[i]."""
        raise NotImplementedError


RULES = (
    "attnpass.layout.rules.views:WholeView",
    "attnpass.layout.rules.views:Cast",
    "attnpass.layout.rules.broadcast:Broadcast",
    "attnpass.layout.rules.loop_nest:LoopNest",
    "attnpass.layout.rules.contraction:Contraction",
    "attnpass.layout.rules.elementwise:Elementwise",
    "attnpass.layout.rules.slices:ExtractSlice",
    "attnpass.layout.rules.concat:Concat",
    "attnpass.layout.rules.concat:Pad",
    "attnpass.layout.rules.concat:InsertSlice",
    "attnpass.layout.rules.constant:Constant",
    "attnpass.layout.rules.gather:Gather",
    "attnpass.layout.rules.gather:Scatter",
    "attnpass.layout.rules.destination:Empty",
    "attnpass.layout.rules.destination:Fill",
)

_registered: list[Rule] = []


def register(rule: Rule) -> None:
    """Adds a rule for this process; it is asked after those that stand in the table."""
    _registered.append(rule)
    rules_for.cache_clear()


@functools.cache
def rules_for(op_name: str) -> tuple[Rule, ...]:
    """The rules for ops of this name."""
    return tuple(rule for rule in (*_table(), *_registered) if op_name in rule.ops)


@functools.cache
def _table() -> tuple[Rule, ...]:
    ours = {path.partition(":")[2]: path for path in RULES}
    # The group's name until the rules moved here.
    found = plugins.entries("attnpass.rules", ours, "attnpass.producers")
    return tuple(entry.make(Rule) for entry in found.values())
