"""attn-read-terms: what a sum adds up stands in a tensor that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iree.compiler import ir

from ..attention.barrier import copied
from ..ir import (
    Builder,
    Size,
    body_of,
    body_ops,
    constant_number,
    defining_op,
    element_type,
    index_dim,
    is_elementwise,
    is_ranked_tensor,
    iterator_kinds,
    maps,
    reduces,
    sizes_of,
)
from ..ir.bodies import combined, needed_ops, takes_by_index
from ..ir.builder import OPTIMIZATION_BARRIER
from ..ir.globals import LOAD, STORE
from ..ir.regions import copy_steps
from ..ir.views import SLICE, view_of
from ..passes import OpPass

_INDEX, _FILL = "linalg.index", "linalg.fill"
# Terms of others may be added up once: the largest of many equal numbers is that number.
_ADDS = ("arith.addf", "arith.addi", "arith.mulf", "arith.muli", "arith.xori")
_NAMED = (
    "linalg.reduce",
    "linalg.pooling_nhwc_sum",
    "linalg.pooling_nchw_sum",
    "linalg.pooling_nwc_sum",
    "linalg.pooling_ncw_sum",
)
# Programs deeper than this are left; Python's stack ends.
_DEEPEST = 100


class ReadTerms(OpPass):
    """Has a sum or product over dims read its terms from a tensor, where they hang on no element
    of one: constants, indices, and what fills a tensor.

    IREE 3.13 takes the scalars that fill a tensor into the body of what reads it. Where a body then
    has a term that it reads from no tensor, IREE's vectorizer adds it up once a vector (a count of
    six is 1), or fails ("reduction dimension out of range"): counts, sums of ones, by how much an
    average pool divides. What fills a tensor is read from a copy, which has a kernel of its own;
    other terms are put in a tensor of the summed dims.
    """

    name = "attn-read-terms"
    summary = "what a sum adds up is read from a tensor"
    mends = "sums of constants and indices are wrong"
    ops = ("linalg.generic", *_NAMED)

    def change(self, op: ir.Operation) -> str:
        if op.name in _NAMED:
            return _read(op, [0]) if _is_filled(op.operands[0]) else ""
        if not reduces(op):
            return ""
        found = [_Term(op, number, value) for number, value in _terms(op)]
        filled = {one for term in found if term.hangs_on_filled for one in term.reads}
        lone = [term for term in found if not term.reads]
        said = _read(op, sorted(filled)) if filled else ""
        return _give(op, lone) or said


class _Term:
    """What a reduction combines with result `number`, and the operands that it hangs on."""

    def __init__(self, op: ir.Operation, number: int, value: ir.Value) -> None:
        self.number, self.value = number, value
        self.ops = needed_ops(op, [value])
        arguments = list(body_of(op).arguments)
        given = {value, *(x for inner in self.ops for x in inner.operands)}
        self.reads = [at for at, argument in enumerate(arguments) if argument in given]
        self.hangs_on_filled = bool(self.reads) and all(
            _is_filled(op.operands[at]) for at in self.reads
        )


def _terms(op: ir.Operation) -> Iterator[tuple[int, ir.Value]]:
    for number in range(len(op.results)):
        term = combined(op, _ADDS, number)
        if term is not None:
            yield number, term


def _is_filled(value: ir.Value, depth: int = _DEEPEST) -> bool:
    """Whether IREE may find out that one scalar fills a tensor."""
    op = defining_op(value)
    if op is None or depth == 0:
        return False
    if op.name == _FILL or constant_number(value) is not None:
        return True
    if op.name == LOAD:
        stored = _stored_before(op)
        return stored is not None and _is_filled(stored, depth - 1)
    view = view_of(op)
    if view is not None:
        return _is_filled(view.source, depth - 1)
    if op.name in (SLICE, OPTIMIZATION_BARRIER):
        return op.name == SLICE and _is_filled(op.operands[0], depth - 1)
    if not is_elementwise(op) or takes_by_index(op):
        return False
    inputs = list(op.operands)[:-1]
    if not inputs:
        return not any(inner.name == _INDEX for inner in body_ops(op))
    return all(is_ranked_tensor(one) and _is_filled(one, depth - 1) for one in inputs)


def _stored_before(load: ir.Operation) -> ir.Value | None:
    """What the block has stored in a global in front of a load, as far as can be seen."""
    name = load.attributes["global"]
    before: ir.Value | None = None
    for op in load.block.operations:
        if op.operation == load:
            return before
        if op.operation.name == STORE and op.attributes["global"] == name:
            before = op.operands[0]
    return None


def _read(op: ir.Operation, numbers: Sequence[int]) -> str:
    """Has an op read copies of these operands."""
    for number in numbers:
        op.operands[number] = copied(Builder(op), op.operands[number])
    return "what it adds up is read from memory: IREE 3.13 adds up what fills a tensor once"


def _give(op: ir.Operation, terms: Sequence[_Term]) -> str:
    """Gives a reduction such terms as operands; '' where it has none, or other loops."""
    positions = maps.positions(op)
    kinds = iterator_kinds(op)
    if not terms or positions is None or any(None in dims for dims in positions):
        return ""
    known = [tuple(dim for dim in dims if dim is not None) for dims in positions]
    first_init = len(op.operands) - len(op.results)
    kept = {dim for dims in known[first_init:] for dim in dims}
    if {dim for dim, kind in enumerate(kinds) if kind == "parallel"} != kept:
        return ""
    sizes = dict[int, Size]()
    for value, dims in zip(op.operands, known, strict=True):
        sizes.update(zip(dims, sizes_of(value) if dims else (), strict=True))
    build = Builder(op)
    given = [_tensor(build, term, kinds, sizes) for term in terms]
    inputs = [*list(op.operands)[:first_init], *(tensor for tensor, _ in given)]
    inits = list(op.operands)[first_init:]
    places = [*known[:first_init], *(dims for _, dims in given), *known[first_init:]]

    own = {term.value for term in terms}
    *steps, last = body_ops(op)
    steps = [step for step in steps if not own.intersection(step.results)]

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> list[ir.Value]:
        others = (*scalars[:first_init], *scalars[len(inputs) :])
        names = dict(zip(body_of(op).arguments, others, strict=True))
        names.update(zip((term.value for term in terms), scalars[first_init:], strict=False))
        made = copy_steps(steps, inner, names, inner.loop_index)
        return [made.get(value, value) for value in last.operands]

    results = build.generic(inputs, inits, places, body)
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    return "its terms stand in a tensor: IREE 3.13 adds up what it reads from none once"


def _tensor(
    build: Builder, term: _Term, kinds: Sequence[str], sizes: dict[int, Size]
) -> tuple[ir.Value, tuple[int, ...]]:
    """A tensor of what a term is, over all summed loops and those whose indices it reads."""
    own = {index_dim(inner) for inner in term.ops if inner.name == _INDEX}
    loops = tuple(dim for dim, kind in enumerate(kinds) if kind == "reduction" or dim in own)

    def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        made = copy_steps(term.ops, inner, {}, lambda dim: inner.loop_index(loops.index(dim)))
        return made.get(term.value, term.value)

    found = build.computed([sizes[dim] for dim in loops], element_type(term.value), body)
    return copied(build, found), loops
