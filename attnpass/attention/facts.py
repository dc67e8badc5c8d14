"""Read-only facts of an attention op, computed once and never changed.

Both `iree_linalg_ext.attention` (one result) and `iree_linalg_ext.online_attention`
(output, max, sum) are covered: any rank, any order of dims, with or without a mask.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from iree.compiler import ir

from ..errors import AttnError
from ..ir import (
    body_of,
    body_ops,
    collect,
    element_type_name,
    filled_with,
    function_name,
    has_ancestor,
    index_dim,
    index_ops,
    location_text,
    maps,
    number_of,
    path_text,
    ranked_shape,
    set_number,
)
from ..ir.limits import ASSUMED_EXTENT
from ..report.entries import AttentionRecord
from ..report.ops import located
from ..report.records import Report

OP_NAMES = ("iree_linalg_ext.attention", "iree_linalg_ext.online_attention")
# Reads a position in the score region.
INDEX = "iree_linalg_ext.index"

CONFIGURATION_ATTRIBUTES = ("compilation_info", "lowering_config", "decomposition_config")


def configured_by(op: ir.Operation) -> str:
    """Name of an attribute that says how an op is to be compiled, or ''."""
    return next((name for name in CONFIGURATION_ATTRIBUTES if name in op.attributes), "")


@dataclass(frozen=True)
class AttentionFacts:
    """What one attention op computes.

    Iteration dims are numbered as in its indexing maps; `batch`, `m`, `k1`, `k2`, `n`
    sort them as IREE does: m rows of the query, k1 the head dim of Q.K, k2 the keys, n
    the head dim of V. A dim of Q and the result that K and V both lack (a grouped-query
    group that was folded) counts as an m dim.
    """

    op: ir.Operation
    maps: tuple[maps.Positions, ...]
    operand_names: tuple[str, ...]
    num_dims: int
    batch: tuple[int, ...]
    m: tuple[int, ...]
    k1: tuple[int, ...]
    k2: tuple[int, ...]
    n: tuple[int, ...]

    @property
    def kind(self) -> str:
        """`attention` or `online_attention`."""
        return self.op.name.rpartition(".")[2]

    @property
    def last_op(self) -> ir.Operation:
        """The op whose result is the attention's."""
        return self.op

    @property
    def result(self) -> ir.Value:
        """What attention gives: of online attention its sums."""
        return self.last_op.results[0]

    @property
    def location(self) -> str:
        return location_text(self.op.location)

    @property
    def number(self) -> int:
        """Which of the function's attentions at this location, counted from 1."""
        return number_of(self.op)

    @property
    def place(self) -> str:
        """The location for a reader, with the number where that is above 1."""
        return located(self.location, self.number)

    @property
    def path(self) -> str:
        """What the input names the place: a module path, or ''."""
        return path_text(self.op.location)

    @property
    def function(self) -> str:
        """Name of the enclosing function, or the empty string."""
        return function_name(self.op)

    def record_in(self, report: Report) -> AttentionRecord:
        """Its record in a report, made at its first use."""
        return report.record_of(
            AttentionRecord(
                self.location,
                self.function,
                self.kind,
                self.shapes,
                self.element_types,
                number=self.number,
                path=self.path,
            )
        )

    def index(self, operand: str) -> int:
        """Position of `query`, `key`, `value`, `scale`, `mask`, `output`, ... in operands."""
        return self.operand_names.index(operand)

    def map_of(self, operand: str) -> maps.Positions:
        return self.maps[self.index(operand)]

    def value(self, operand: str) -> ir.Value:
        return self.op.operands[self.index(operand)]

    @property
    def has_mask(self) -> bool:
        return "mask" in self.operand_names

    @property
    def result_names(self) -> tuple[str, ...]:
        """`output`, and for online_attention `max` and `sum`."""
        return self.operand_names[len(self.operand_names) - len(self.op.results) :]

    @property
    def tensor_operands(self) -> tuple[str, ...]:
        """Names of the operands that are tensors with a map: all but the scale."""
        return tuple(name for name in self.operand_names if name != "scale")

    @cached_property
    def sizes(self) -> tuple[int | None, ...]:
        """Size of each iteration dim; None where it is dynamic everywhere."""
        sizes: list[int | None] = [None] * self.num_dims
        for name in self.tensor_operands:
            for dim, size in zip(self.map_of(name), ranked_shape(self.value(name)), strict=True):
                if dim is not None and size is not None:
                    sizes[dim] = size
        return tuple(sizes)

    def extent(self, dims: tuple[int, ...]) -> int | None:
        """Product of the sizes of `dims`; None if one is dynamic."""
        sizes = [self.sizes[dim] for dim in dims]
        return None if None in sizes else self.assumed_extent(dims)

    def assumed_extent(self, dims: tuple[int, ...]) -> int:
        """Product of the sizes of `dims` for estimates: a dynamic one is ASSUMED_EXTENT."""
        sizes = (self.sizes[dim] for dim in dims)
        return math.prod(ASSUMED_EXTENT if size is None else size for size in sizes)

    def is_unit(self, dim: int) -> bool:
        """Whether the dim has size 1 by type in every operand that carries it."""
        return all(
            size == 1
            for name in self.tensor_operands
            for p, size in zip(self.map_of(name), ranked_shape(self.value(name)), strict=True)
            if p == dim
        )

    @property
    def shapes(self) -> dict[str, list[int | None]]:
        return {name: list(ranked_shape(self.value(name))) for name in self.tensor_operands}

    @property
    def element_types(self) -> dict[str, str]:
        return {name: element_type_name(self.value(name)) for name in self.tensor_operands}

    def is_innermost(self, operand: str, dims: tuple[int, ...]) -> bool:
        """Whether the last dim of the operand's map is one of `dims`."""
        positions = self.map_of(operand)
        return bool(positions) and positions[-1] in dims

    @property
    def own_configuration(self) -> str:
        """Name of the configuration attribute that a user put on the op, or ''; an empty one,
        as FlexAttention is imported with, says nothing."""
        attributes = self.op.attributes
        given = (name for name in CONFIGURATION_ATTRIBUTES if name in attributes)
        return next((name for name in given if str(attributes[name]) != "{}"), "")

    @cached_property
    def may_lose_dims(self) -> bool:
        """Whether IREE may still fold unit dims of this attention away. In a dispatch it does
        not: those stay that a reshape or a slice between attention and its operands kept."""
        return 1 in self.sizes and not has_ancestor(self.op, "flow.executable")

    @property
    def changes_scores(self) -> bool:
        """Whether the region makes of a score anything but itself."""
        return self.score_steps != []

    @cached_property
    def score_index_dims(self) -> frozenset[int]:
        """Iteration dims that the score region reads by `iree_linalg_ext.index`."""
        return frozenset(index_dim(inner) for inner in index_ops(self.op))

    @cached_property
    def score_steps(self) -> list[list[str]] | None:
        """The score region as text: [op, type, attributes, operands...] a step, the yield
        last, with `0` for the score and later numbers for the results of steps; [] where it
        changes nothing, None where it reads values from outside or holds regions."""
        arguments = body_of(self.op).arguments
        numbers: dict[ir.Value, str] = {value: str(i) for i, value in enumerate(arguments)}
        steps: list[list[str]] = []
        for op in body_ops(self.op):
            if len(op.regions) or any(value not in numbers for value in op.operands):
                return None
            operands = [numbers[value] for value in op.operands]
            kinds = ", ".join(str(result.type) for result in op.results)
            attributes = ", ".join(f"{name} = {op.attributes[name]}" for name in op.attributes)
            steps.append([op.name, kinds, attributes, *operands])
            numbers.update({result: str(len(numbers) + i) for i, result in enumerate(op.results)})
        return [] if len(steps) == 1 and steps[0][3:] == ["0"] else steps


def find(module: ir.Operation) -> list[AttentionFacts]:
    """Facts of every attention op under `module` that can be understood, in the order they stand.

    The others stay as they are: those that a user wrote so (`note_what_is_left` tells of them),
    and those that lack a dim since IREE folded dims of size one, as it does before the phase
    flow: attention over a single key is one.
    """
    return [facts for op in find_ops(module) if (facts := whole_facts(op))]


def whole_facts(op: ir.Operation) -> AttentionFacts | None:
    """Facts of one attention op; None where it lacks a dim, or cannot be understood."""
    try:
        return describe(op)
    except AttnError:
        return None


def note_what_is_left(module: ir.Operation, report: Report) -> None:
    """Notes, once each, the attention ops that no pass takes, with the reason. Those in kernels
    are IREE's own doing."""
    for op in find_ops(module):
        if has_ancestor(op, "flow.executable") or has_ancestor(op, "hal.executable"):
            continue
        try:
            describe(op)
        except AttnError as error:
            if not report.is_left(op):
                report.record(op, "left", error.message)


def find_ops(module: ir.Operation) -> list[ir.Operation]:
    """Every attention op under `module`, nested regions included."""
    return collect(module, lambda op: op.name in OP_NAMES, bodies=False)


def tell_apart(module: ir.Operation) -> None:
    """Numbers the attention ops of a function that share a location: the layers of a model
    written as a loop, its self- and cross-attention written as one class. Those numbered
    before keep their numbers."""
    taken: dict[tuple[str, str], set[int]] = {}
    unnumbered: list[tuple[ir.Operation, set[int]]] = []
    for op in find_ops(module):
        numbers = taken.setdefault((function_name(op), location_text(op.location)), set())
        number = number_of(op)
        if number == 1 and 1 in numbers:
            unnumbered.append((op, numbers))
        numbers.add(number)
    for op, numbers in unnumbered:
        number = max(numbers) + 1
        set_number(op, number)
        numbers.add(number)


def describe(op: ir.Operation) -> AttentionFacts:
    """Facts of one attention op; AttnError if it is not one that can be understood."""
    why = _no_tensors(op)
    positions = maps.positions(op)
    if why or positions is None:
        why = why or "an indexing map is no projected permutation"
        raise AttnError(f"{op.name}: {why}", location_text(op.location))
    num_results = len(op.results)
    num_inputs = len(op.operands) - num_results
    outputs = ("output", "max", "sum")[:num_results]
    names = ("query", "key", "value", "scale", "mask")[:num_inputs] + outputs
    num_dims = maps.loop_count(op)
    of = {
        name: frozenset(dim for dim in dims if dim is not None)
        for name, dims in zip(names, positions, strict=True)
    }
    groups = _classify(num_dims, of["query"], of["key"], of["value"], of["output"])
    why = _odd_dims(of, groups)
    if why:
        raise AttnError(f"{op.name}: {why}", location_text(op.location))
    return AttentionFacts(op, positions, names, num_dims, **groups)


def _no_tensors(op: ir.Operation) -> str:
    """Why an op's operands are none that passes on tensors take, or ''."""
    shaped = [value.type for value in op.operands if isinstance(value.type, ir.ShapedType)]
    odd = [kind for kind in shaped if not isinstance(kind, ir.RankedTensorType)]
    return f"works on tensors only, not on {odd[0]}" if odd else ""


def _odd_dims(of: dict[str, frozenset[int]], groups: dict[str, tuple[int, ...]]) -> str:
    """Why the dims of operands are not those of attention, or ''. `of` has the dims of each
    operand, `groups` those of each kind."""
    k1, k2, n = (frozenset(groups[kind]) for kind in ("k1", "k2", "n"))
    if not k1 or not k2 or not n:
        return (
            "needs a dim shared by query and key (k1), one shared by key and value "
            "(k2) and one shared by value and output (n)"
        )
    if not k1 <= of["query"] & of["key"]:
        return "a dim of query or key alone is summed over"
    if not k2 <= of["key"] or k2 & of["query"]:
        return "a dim of value that is summed over must be one of key, and none of query"
    if not n <= of["value"]:
        return "a dim of output is in no other operand"
    if of.get("mask", frozenset()) & (k1 | n):
        return "its mask's map names a dim that scores do not have (k1 or n)"
    return ""


def _classify(
    num_dims: int,
    query: frozenset[int],
    key: frozenset[int],
    value: frozenset[int],
    output: frozenset[int],
) -> dict[str, tuple[int, ...]]:
    kinds: dict[str, list[int]] = {"batch": [], "m": [], "k1": [], "k2": [], "n": []}
    for dim in range(num_dims):
        if dim in output:
            if dim in key or (dim in query and dim in value):
                kind = "batch"
            else:
                kind = "m" if dim in query else "n"
        else:
            kind = "k2" if dim in value else "k1"
        kinds[kind].append(dim)
    return {kind: tuple(dims) for kind, dims in kinds.items()}


def begins_with_numbers(facts: AttentionFacts) -> bool:
    """Whether all results start from nothing, or from a number."""
    return facts.kind == "attention" or all(
        start_number(facts, name) is not None for name in facts.result_names
    )


def start_number(facts: AttentionFacts, name: str) -> ir.Value | None:
    """The number that a result of online attention starts from."""
    return filled_with(facts.value(name))
