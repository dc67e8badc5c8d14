"""What attn-tune tunes: one attention alone in a module, and what a machine needs to check it.

The module takes the attention's tensors as arguments, with the op exactly as IREE's `flow`
phase has it, so that it comes to the same phase unchanged. Three functions: `one` returns the
whole result; `short` and `long` do one attention and `repeats` more, on queries of their own,
and return a corner of each, so that the difference of their times is that of `repeats`
attentions without calls and transfers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from iree.compiler import ir

from ..attention.edit import STARTS, edit
from ..attention.facts import AttentionFacts
from ..ir import (
    Builder,
    DynamicSize,
    Size,
    add_function,
    element_bytes,
    element_type,
    ranked_shape,
)
from ..machines.search import Candidate
from ..machines.table import Signature, signature

_CORNER = 8
# `long` does so many more attentions that they take about so long, in seconds: several times
# what the time of a call varies by. Operations and bytes a second are those of fast machines.
_LEAST_REPEATS, _MOST_REPEATS, _LONG_SECONDS = 8, 64, 5e-3
_SPEEDS = {"cuda": (2e14, 4e12), "llvm-cpu": (5e10, 5e10)}


@dataclass
class Problem:
    """One attention to tune on one target.

    `elements` are the types of the tensors' elements; `sizes` those of the iteration dims,
    dynamic ones as they are assumed; `dims` sorts the iteration dims by kind; `places` are where
    the model has this attention.
    """

    target: str
    attention: Signature
    elements: dict[str, str]
    sizes: list[int]
    dims: dict[str, list[int]]
    scale: float
    repeats: int
    assumed: bool
    places: list[str] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    pruned: dict[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Short name by content: the same for the same attention, target and sizes."""
        content = [self.target, self.attention, self.sizes, self.scale, self.repeats]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def describe_problem(facts: AttentionFacts, target: str, assume: int) -> Problem:
    """The problem of an attention; sizes known only at run time are taken to be `assume`."""
    sizes = [assume if size is None else size for size in facts.sizes]
    dims = {name: list(getattr(facts, name)) for name in ("batch", "m", "k1", "k2", "n")}
    # A power of two: exact in every type.
    head = math.prod(sizes[dim] for dim in facts.k1)
    scale = 2.0 ** round(math.log2(head**-0.5))
    repeats = _repeats(facts, sizes, target.partition(" ")[0])
    same = signature(facts), facts.element_types
    return Problem(target, *same, sizes, dims, scale, repeats, None in facts.sizes)


def _repeats(facts: AttentionFacts, sizes: Sequence[int], backend: str) -> int:
    """How many attentions `long` does more than `short`."""
    operations, bandwidth = _SPEEDS.get(backend, _SPEEDS["llvm-cpu"])
    rows, columns = ((*facts.batch, *facts.m, *facts.k2, *dims) for dims in (facts.k1, facts.n))
    count = 2 * (math.prod(sizes[dim] for dim in rows) + math.prod(sizes[dim] for dim in columns))
    moved = sum(
        math.prod(1 if dim is None else sizes[dim] for dim in facts.map_of(name))
        * element_bytes(facts.value(name))
        for name in facts.tensor_operands
    )
    seconds = max(count / operations, moved / bandwidth)
    return max(_LEAST_REPEATS, min(_MOST_REPEATS, round(_LONG_SECONDS / seconds)))


def module_text(facts: AttentionFacts, problem: Problem) -> str:
    """The module of an attention, as text."""
    with facts.op.context, ir.Location.unknown():
        module = ir.Module.create()
        query, *others = [facts.value(name).type for name in input_names(facts)]
        for name, count in (("one", 1), ("short", 1), ("long", 1 + problem.repeats)):
            inputs = [*[query] * count, *others]
            add_function(module, name, inputs, _body(facts, problem, count, whole=name == "one"))
        module.operation.verify()
        return str(module)


def input_names(facts: AttentionFacts) -> list[str]:
    """The operands that the module's functions take, in order, `long` the first several times."""
    names = ("query", "key", "value", "mask")
    return [name for name in names if name in facts.operand_names]


def _body(
    facts: AttentionFacts, problem: Problem, count: int, whole: bool
) -> Callable[[Builder, Sequence[ir.Value]], list[ir.Value]]:
    def fill(build: Builder, arguments: Sequence[ir.Value]) -> list[ir.Value]:
        scale = build.constant_float(problem.scale, element_type(facts.value("scale")))
        returned: list[ir.Value] = []
        for query in arguments[:count]:
            tensors = [query, *arguments[count:]]
            given = dict(zip(input_names(facts), tensors, strict=True))
            sizes = _sizes(facts, given)
            results = _attention(facts, {**given, "scale": scale}, sizes, build)
            returned += results if whole else [_corner(results[0], build)]
        return returned

    return fill


def _sizes(facts: AttentionFacts, given: dict[str, ir.Value]) -> dict[int | None, Size]:
    """The size of each iteration dim, from the arguments; None stands for a dim of size one."""
    sizes: dict[int | None, Size] = {None: 1}
    for name, value in given.items():
        for axis, dim in enumerate(facts.map_of(name)):
            if dim is not None:
                static = facts.sizes[dim]
                sizes.setdefault(dim, DynamicSize(value, axis) if static is None else static)
    return sizes


def _attention(
    facts: AttentionFacts,
    given: dict[str, ir.Value],
    sizes: dict[int | None, Size],
    build: Builder,
) -> list[ir.Value]:
    made = edit(facts, build).without_configuration()
    for name, value in given.items():
        made = made.operand(name, value)
    for name in facts.result_names:
        kind = element_type(facts.value(name))
        init = build.empty([sizes[dim] for dim in facts.map_of(name)], kind)
        if facts.kind == "online_attention":
            init = build.fill(build.constant_float(STARTS[name], kind), init)
        made = made.operand(name, init)
    return list(made.build().results)


def _corner(value: ir.Value, build: Builder) -> ir.Value:
    """The first few elements; of a dim known only at run time, the first."""
    last = ranked_shape(value)[-1]
    corner: list[Size] = [1] * len(ranked_shape(value))
    corner[-1] = 1 if last is None else min(_CORNER, last)
    return build.extract_slice(value, [0] * len(corner), corner)


def problem_data(problem: Problem) -> dict[str, Any]:
    """Plain JSON data of a problem, with its key."""
    return {"key": problem.key, **asdict(problem)}
