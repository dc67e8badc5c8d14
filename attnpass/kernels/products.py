"""Products of rows with weights, and what a kernel can do behind them: one reader for all kernels.

A product here is a contraction of rows (..., k) with weights of two dims, n and k, summed into
(..., n); or a batch of these, in which each product has rows or weights of its own. Behind it stand
elementwise ops, on scalars or on whole tensors, which take its result and a number, a bias of each
column, an activation, a number and a factor of each column, and a tensor like the result, in that
order; casts are between them. What comes after the last of them is what a kernel would write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iree.compiler import ir

from ..attention.widening import widened_from
from ..ir import (
    Refusal,
    Size,
    defining_op,
    element_number,
    element_type_name,
    is_elementwise,
    is_ranked_tensor,
    is_used,
    known_attribute,
    maps,
    product,
    ranked_shape,
    sizes_of,
    splat_number,
    users,
)
from ..ir.bodies import ScalarReader, Scope, read_elementwise, takes_by_index
from ..ir.contractions import FEW_ROWS, ContractionFacts, read_contraction
from ..ir.views import IN_PLACE, RESHAPES, SLICE, WHOLE, View, repeat_of, view_of

# Ops behind a product that are looked at.
_MOST_STEPS = 16
_CASTS = ("arith.extf", "arith.truncf")
# How near constants are to those of GELU: they may be rounded to bf16.
_NEAR = 4e-3
# Activations, in words.
ACTIVATIONS = {
    "gelu": "GELU",
    "gelu_tanh": "GELU by tanh",
    "silu": "SiLU",
    "quick_gelu": "GELU by a sigmoid",
    "relu": "ReLU",
}
_TAKEN = "its weights are taken by index, where IREE reads them: a kernel would need a copy"
# Element types of operands.
_WIDE, _NARROW = ("f16", "bf16"), "f8E4M3FN"
# A scalar behind a product: a number, or an op's name and what it takes.
Term = tuple[Any, ...]
_PRODUCT: Term = ("product",)


@dataclass(frozen=True)
class Epilogue:
    """What is done to a product: it is multiplied with `scale` and `scales`, tensors of one element
    (`one`) or of one for each of the `rows` or `columns`, a `bias` of each column is added, an
    `activation` (`none` or a key of `ACTIVATIONS`) follows, the result is multiplied with `rescale`
    and a `factor` of each column, and `operand`, a tensor like the result, is added or multiplied
    as `other` says (`none`, `add`, `multiply`). The factor may be another one for every `share`
    rows, the bias for every `bias_share`. `result` is what it makes. Of a product whose columns are
    two of a gate `halves` are both, the one with the activation first; `start` is the first column
    of such a half."""

    result: ir.Value
    scale: float = 1.0
    scales: tuple[tuple[str, ir.Value], ...] = ()
    bias: ir.Value | None = None
    activation: str = "none"
    rescale: float = 1.0
    factor: ir.Value | None = None
    share: Size | None = None
    bias_share: Size | None = None
    other: str = "none"
    operand: ir.Value | None = None
    start: int = 0
    halves: tuple[Epilogue, Epilogue] | None = None

    @property
    def kind(self) -> tuple[bool, str, str]:
        return self.bias is not None, self.activation, self.other

    @property
    def is_scaled(self) -> bool:
        numbers = (self.scale, self.rescale) != (1.0, 1.0)
        return numbers or bool(self.scales) or self.factor is not None

    @property
    def is_linear(self) -> bool:
        """Whether nothing but scales and a bias was applied so far."""
        applied = self.activation != "none" or self.factor is not None or self.other != "none"
        return not applied and self.rescale == 1.0

    @property
    def words(self) -> str:
        done = ["a scale"] if (self.scale, self.rescale) != (1.0, 1.0) else []
        done += [{"one": "a scale"}.get(kind, f"a scale of {kind}") for kind, _ in self.scales]
        if self.bias is not None:
            done.append("a bias" + (" of each batch" if self.bias_share else ""))
        done += [ACTIVATIONS[self.activation]] if self.activation in ACTIVATIONS else []
        if self.factor is not None:
            done.append("a factor of each column" + (" and batch" if self.share else ""))
        if self.halves:
            return f"{self.halves[0].words} of one half of the columns times the other"
        others = {"add": "a residual", "multiply": "another product's result"}
        return " and ".join([*done, *([others[self.other]] if self.other in others else [])])


@dataclass(frozen=True)
class BatchLoops:
    """The loops of a batch of products: those of the dims of rows, weights and result (None: one
    element of the dim is read), and the sizes of all. The result ends in that of the columns."""

    rows: maps.Positions
    weights: maps.Positions
    result: tuple[int, ...]
    sizes: tuple[Size, ...]
    depth: int

    @property
    def lead(self) -> tuple[int, ...]:
        """Loops that only rows have, in the result's order."""
        return tuple(loop for loop in self._longer() if loop not in self.weights)

    @property
    def batch(self) -> tuple[int, ...]:
        """Loops of the products of the batch, in the result's order; they may share rows."""
        return tuple(loop for loop in self._longer() if loop in self.weights)

    def _longer(self) -> list[int]:
        return [loop for loop in self.result[:-1] if self.sizes[loop] != 1]


@dataclass(frozen=True)
class RowGroups:
    """Groups of rows: those of group g end at the g-th least of `ends` (i32 or i64). `product` is
    the op that multiplies all rows with the weights of all `count` groups."""

    ends: ir.Value
    count: int
    product: ir.Operation


@dataclass(frozen=True)
class ProductFacts:
    """A product of `rows` (dims `lead`, then k) with `weights`, which lie as (n, k) or, if not
    `by_columns`, as (k, n). `epilogues` is what may be done behind it, the least first; each has
    the rows' element type (of 8-bit rows: one of 16 bits) or, behind the last of these, f32. Scales
    in front of the product are among them. Where there are `loops` it is a batch of products, whose
    operands lie as these say; `lead` are the rows of one. Where there are `groups` the rows lie
    group by group, and the weights have a dim of groups in front."""

    op: ir.Operation
    rows: ir.Value
    weights: ir.Value
    by_columns: bool
    lead: tuple[Size, ...]
    n: Size
    k: Size
    element_type: str
    epilogues: tuple[Epilogue, ...]
    loops: BatchLoops | None = None
    groups: RowGroups | None = None

    @property
    def m(self) -> Size:
        return product(self.lead)


def read_product(op: ir.Operation) -> ProductFacts | Refusal | None:
    """The product with weights that an op is; None for an op that is none, and for one of which no
    kernel's operands are made, as two activations; else why it cannot be one."""
    facts = read_contraction(op)
    if facts is None or not _is_float_product(facts):
        return None
    for number in (1, 0):
        found = _of_narrow(facts, number) or _with_weights(facts, number)
        if found is not None:
            return found
    return _of_batch(facts)


def _is_float_product(facts: ContractionFacts) -> bool:
    kinds = [element_type_name(value) for value in facts.op.operands]
    return all(kind in (*_WIDE, "f32", _NARROW) for kind in kinds) and len(kinds) == 3


def _with_weights(facts: ContractionFacts, number: int) -> ProductFacts | Refusal | None:
    """The product whose weights are operand `number`; None if that has rows."""
    given = (facts.left, facts.right)
    weights, loops = _below_repeats(facts.op.operands[number], given[number])
    rows, row_loops = _below_widening(facts.op.operands[1 - number]), given[1 - number]
    sizes = facts.sizes
    if len(facts.k) != 1 or not facts.result or facts.result[-1] is None:
        return None
    k, n, lead = facts.k[0], facts.result[-1], facts.result[:-1]
    if len(loops) != 2 or {*loops} != {n, k} or n in row_loops:
        return None
    if row_loops != (*lead, k):
        # As rows of a batch of one may be weights.
        rows, row_loops = _below_repeats(rows, row_loops)
        lead = tuple(loop for loop in lead if loop is not None and sizes[loop] != 1)
    if not lead or row_loops != (*lead, k):
        return None
    kinds = [element_type_name(value) for value in (rows, weights)]
    if kinds[0] != kinds[1] or kinds[0] not in ("f16", "bf16"):
        if all(_is_of_narrow(value) for value in facts.op.operands[:2]):
            return Refusal(
                "what is done to its 8-bit operands, or its result's type, is none of a kernel"
            )
        return Refusal(f"there are no kernels for {kinds[0]} times {kinds[1]}")
    if element_number(facts.op.operands[2]) != 0:
        return Refusal("it is added to a tensor")
    kind = kinds[0]
    dims = tuple(sizes[loop] for loop in lead if loop is not None)
    epilogues = _written(facts.op, kind)
    if not epilogues:
        return _unwritten(facts.op, kind)
    if _is_taken_for_few(weights, product(dims)):
        return Refusal(_TAKEN)
    turned = loops == (n, k)
    return ProductFacts(facts.op, rows, weights, turned, dims, sizes[n], sizes[k], kind, epilogues)


def _is_taken_for_few(weights: ir.Value, rows: Size) -> bool:
    """Whether weights are taken by index, as those of a token's experts, for few rows: IREE reads
    them where they are, and for a kernel they would be copied."""
    op = defining_op(weights)
    while op is not None and op.name in WHOLE:
        op = defining_op(op.operands[0])
    return takes_by_index(op) and isinstance(rows, int) and rows <= FEW_ROWS


def _unwritten(op: ir.Operation, kind: str) -> Refusal:
    kinds = f"{element_type_name(op.results[0])} and not {kind}"
    return Refusal(f"its result is {kinds}, and a kernel does nothing of what stands behind it")


def _of_batch(facts: ContractionFacts) -> ProductFacts | Refusal | None:
    """A batch of products of 16-bit rows and weights; None if these have other bits."""
    given, columns = (facts.left, facts.right), facts.result[-1] if facts.result else None
    operands = facts.op.operands
    (kind, *others) = {element_type_name(_below_widening(one)) for one in [*operands][:2]}
    if others or kind not in _WIDE:
        return None
    if len(facts.k) != 1:
        return Refusal(f"it sums over {len(facts.k)} dims")
    holders = [number for number in (0, 1) if columns in given[number]]
    if columns is None or None in facts.result or len(holders) != 1:
        return Refusal("its last dim is not that of one operand's columns")
    number, (depth,) = holders[0], facts.k
    rows, row_loops = below_all(operands[1 - number], given[1 - number])
    weights, weight_loops = below_all(operands[number], given[number])
    if depth not in row_loops or depth not in weight_loops:
        return Refusal("one operand is the same along the depth")
    if element_number(operands[2]) != 0:
        return Refusal("it is added to a tensor")
    epilogues = _written(facts.op, kind)
    if not epilogues:
        return _unwritten(facts.op, kind)
    loops = BatchLoops(row_loops, weight_loops, facts.kept, facts.sizes, depth)
    lead = tuple(facts.sizes[loop] for loop in loops.lead) or (1,)
    if _is_taken_for_few(weights, product(lead)):
        return Refusal(_TAKEN)
    sizes = (facts.sizes[columns], facts.sizes[depth])
    return ProductFacts(facts.op, rows, weights, True, lead, *sizes, kind, epilogues, loops)


# Operands of 8 bits -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Narrow:
    """A tensor of 8 bits that an operand is, times a number and scales, and the loops of its
    dims."""

    value: ir.Value
    loops: maps.Positions
    number: float
    scales: tuple[Term, ...]


def _of_narrow(facts: ContractionFacts, number: int) -> ProductFacts | None:
    """The product of 8-bit rows with weights, operand `number`, with scales of rows and of columns
    in front of it or behind; None if it is no such product."""
    given = (facts.left, facts.right)
    weights = _below_scales(facts.op.operands[number], given[number])
    rows = _below_scales(facts.op.operands[1 - number], given[1 - number])
    if weights is None or rows is None or len(facts.k) != 1 or not facts.result:
        return None
    k, n, lead = facts.k[0], facts.result[-1], facts.result[:-1]
    lead = tuple(loop for loop in lead if loop is not None and facts.sizes[loop] != 1) or lead[-1:]
    fits = {*weights.loops} == {n, k} and len(weights.loops) == 2 and rows.loops == (*lead, k)
    if n is None or None in lead or not fits or element_number(facts.op.operands[2]) != 0:
        return None
    scales = [*_placed(rows.scales, "rows", "rows")]
    scales += _placed(weights.scales, "rows" if weights.loops == (n, k) else "columns", "columns")
    kinds = {element_type_name(one.result) for one in _behind(facts.op)} & {*_WIDE}
    if not all(scale for scale, _ in scales) or len(kinds) != 1:
        return None
    front = rows.number * weights.number
    found = tuple(
        replace(one, scale=one.scale * front, scales=(*scales, *one.scales))
        for one in _behind(facts.op)
        if element_type_name(one.result) in kinds
    )
    dims = tuple(facts.sizes[loop] for loop in lead if loop is not None)
    sizes = (dims, facts.sizes[n], facts.sizes[k], _NARROW, found)
    return ProductFacts(facts.op, rows.value, weights.value, weights.loops == (n, k), *sizes)


def _placed(scales: Sequence[Term], along: str, kind: str) -> list[tuple[str, ir.Value]]:
    """Scales of an operand as those of its product: what lies `along` becomes one of each `kind`;
    '' for one that does not stay outside of the sum."""
    names = {"one": "one", along: kind}
    return [(names.get(term[0], ""), term[1]) for term in scales]


def _below_scales(value: ir.Value, loops: maps.Positions) -> _Narrow | None:
    """The 8-bit tensor that an operand is, times numbers and scales; None if it is none."""
    value, loops = _below_repeats(value, loops)
    source = next((one for one in _made_of(value) if element_type_name(one) == _NARROW), None)
    if source is None or len(ranked_shape(source)) != len(loops):
        return None
    number, rest = _split(_Reader(source).tensor(value) or ("number", 0.0))
    scales = tuple(term for term in rest if term != _PRODUCT)
    if len(scales) != len(rest) - 1 or any(len(term) != 2 for term in scales):
        return None
    below, loops = _below_repeats(source, loops)
    return _Narrow(below, loops, number, scales) if math.isfinite(number) else None


def _is_of_narrow(value: ir.Value) -> bool:
    below, _ = _below_repeats(value, tuple(range(len(ranked_shape(value)))))
    return any(element_type_name(one) == _NARROW for one in _made_of(below))


def _made_of(value: ir.Value) -> Iterator[ir.Value]:
    """A tensor, and those that elementwise ops make it of, the nearest first."""
    waiting = [value]
    for _ in range(_MOST_STEPS):
        if not waiting:
            return
        value = waiting.pop(0)
        yield value
        op = defining_op(value)
        if op is not None and _is_step(op):
            waiting += [each for each in op.operands if is_ranked_tensor(each)]


def _written(op: ir.Operation, kind: str) -> tuple[Epilogue, ...]:
    """What a kernel may do behind the product and write as `kind`, then as f32, where that is
    what others read: no elementwise op, which IREE would have fused, or nothing is of `kind`."""
    found = [(one, element_type_name(one.result)) for one in _behind(op)]
    last = max((place for place, (_, made) in enumerate(found) if made == kind), default=-1)
    wide = [one for one, made in found[last + 1 :] if made == "f32"]
    narrow = [_behind_sums(one) for one, made in found if made == kind]
    wide = [_behind_sums(one) for one in wide]
    if narrow:
        wide = [one for one in wide if not is_fused_behind(one.result)]
    return (*narrow, *wide)


def is_fused_behind(value: ir.Value) -> bool:
    """Whether elementwise ops alone read a value: IREE makes them in a product's kernel."""
    return all(map(_is_step, _readers(value)))


def written_alone(op: ir.Operation, kind: str) -> Epilogue | None:
    """What is written of a product as `kind` where nothing is done behind it."""
    plain = (False, "none", "none")
    found = [one for one in _written(op, kind) if one.kind == plain and not one.is_scaled]
    found = [one for one in found if element_type_name(one.result) == kind and not one.halves]
    return found[0] if found else None


def _behind_sums(one: Epilogue) -> Epilogue:
    """A scale of each column as a factor, where nothing is between these."""
    between = one.bias is not None or one.activation != "none" or one.factor is not None
    if between or [kind for kind, _ in one.scales] != ["columns"]:
        return one
    return replace(one, scales=(), factor=one.scales[0][1])


def _readers(value: ir.Value) -> list[ir.Operation]:
    return [user for user in users(value) if _reads(user)]


def _below_widening(value: ir.Value) -> ir.Value:
    """What a value is widened from, if that has 16 bits: products of these are exact in f32."""
    source = widened_from(value, 2)
    return value if source is None else source


def _below_repeats(value: ir.Value, loops: maps.Positions) -> tuple[ir.Value, maps.Positions]:
    """What an operand is a repeat, a transpose or another shape of, or widened from, and the loops
    of its dims; those of size one left out."""
    value, loops = below_all(value, loops)
    shape = ranked_shape(value)
    if all(loop is not None or size == 1 for loop, size in zip(loops, shape, strict=True)):
        kept = tuple(loop for loop, size in zip(loops, shape, strict=True) if size != 1)
        return value, kept if len(kept) >= 2 else tuple(loops)
    return value, loops


def below_all(value: ir.Value, loops: maps.Positions) -> tuple[ir.Value, maps.Positions]:
    """What an operand is a repeat, a transpose or another shape of, or widened from, and the loop
    of each of its dims."""
    while True:
        value = _below_widening(value)
        op = defining_op(value)
        view = None if op is None else repeat_of(op) or (view_of(op) if op.name in WHOLE else None)
        places = None if view is None else _places(view)
        if view is None or places is None:
            break
        loops = tuple(None if dim is None else loops[dim] for dim in places)
        value = view.source
    return value, loops


def _places(view: View) -> maps.Positions | None:
    """For each dim of the source the dim of the result that runs along it (None: it is one
    element); None for a reshape that cuts or joins dims of more."""
    source, result = ranked_shape(view.source), ranked_shape(view.result)
    found: dict[int, int | None] = dict.fromkeys(range(len(source)))
    for run in view.runs:
        long = [dim for dim in run.source if source[dim] != 1]
        there = [dim for dim in run.result if result[dim] != 1]
        if len(long) > 1 or (long and len(there) != 1):
            return None
        found |= dict(zip(long, there, strict=False))
    return tuple(found[dim] for dim in sorted(found))


# What stands behind a product ---------------------------------------------------------------------


def _behind(op: ir.Operation) -> Iterator[Epilogue]:
    """What a kernel may do behind the product, the least first: up to ops whose result alone is
    read by others."""
    yield Epilogue(op.results[0])
    places = {each.operation: number for number, each in enumerate(op.block)}
    cone: list[ir.Operation] = [op]
    for _ in range(_MOST_STEPS):
        waiting = [user for one in cone for user in _readers(one.results[0])]
        waiting = [user for user in waiting if user not in cone]
        if not waiting or any(user not in places for user in waiting):
            return
        following = min(waiting, key=lambda user: places[user])
        if not _is_step(following) and _first_column(following) is None:
            return
        cone.append(following)
        if {*waiting} == {following} and (found := _read_epilogue(op, following)) is not None:
            yield found


def _reads(user: ir.Operation) -> bool:
    """Whether an op reads elements, for anybody."""
    left_over = user.name.startswith("tensor.") and not is_used(user.results[0])
    return user.name != "tensor.dim" and not left_over


def _is_step(op: ir.Operation) -> bool:
    """Whether an op may stand behind a product in a kernel: elementwise, or another shape."""
    return op.name in IN_PLACE or _is_mapped(op) or is_elementwise(op)


def _first_column(op: ir.Operation) -> int | None:
    """Where a slice that is half of the columns starts; None for all else."""
    view = view_of(op) if op.name == SLICE else None
    if view is None or len(ranked_shape(view.source)) != len(ranked_shape(view.result)):
        return None
    *lead, columns = sizes_of(view.source)
    *same, half = sizes_of(view.result)
    runs = {run.source: (run.start, run.step) for run in view.runs}
    start, step = runs.get((len(lead),), (None, None))
    whole = all(runs.get((dim,)) == (0, 1) for dim in range(len(lead))) and lead == same
    halved = isinstance(half, int) and columns == 2 * half and step == 1
    return start if whole and halved and start in (0, half) else None


def _is_mapped(op: ir.Operation) -> bool:
    """Whether an op on scalars stands between whole tensors, element by element."""
    mapped = op.name.startswith(("arith.", "math.")) and len(op.operands) > 0
    return mapped and len(op.results) == 1 and is_ranked_tensor(op.results[0])


def _read_epilogue(op: ir.Operation, last: ir.Operation) -> Epilogue | None:
    result = last.results[0]
    term = _Reader(op.results[0]).tensor(result)
    return None if term is None else _match(term, result) or _match_halves(term, result)


class _Reader(ScalarReader["int | None", Term]):
    """Reads elements behind `product` as terms; other tensors are read along all dims of the
    result (`like`), along the last (`columns`), or along the first and the last (`shared`)."""

    def __init__(self, product: ir.Value):
        self.product = product
        # The tensor of which an element is read, and its shape.
        self.read, self.shape = product, ranked_shape(product)
        self.made: dict[ir.Value, Term | None] = {}

    def tensor(self, value: ir.Value) -> Term | None:
        """What each element of a tensor is."""
        before = self._enter(value)
        term = self.element(value, tuple(range(len(self.shape))))
        self._enter(before)
        return term

    def _enter(self, value: ir.Value) -> ir.Value:
        """Reads elements of `value` from here on; returns what they were of."""
        before, self.read, self.shape = self.read, value, ranked_shape(value)
        return before

    def element(self, value: ir.Value, places: tuple[int | None, ...], /) -> Term | None:
        whole = self._is_like(value, places)
        if whole and value in self.made:
            return self.made[value]
        term = self._whole(value) if whole and self._follows(value) else self._read(value, places)
        if whole:
            self.made[value] = term
        return term

    def _follows(self, value: ir.Value, steps: int = _MOST_STEPS) -> bool:
        """Whether a tensor is made of the product by elementwise ops."""
        op = defining_op(value)
        if value == self.product:
            return True
        halved = op is not None and _first_column(op) is not None
        if op is None or not steps or not (halved or _is_step(op)):
            return False
        given = list(op.operands)
        read = (
            given[:1] if halved or op.name in IN_PLACE else given if _is_mapped(op) else given[:-1]
        )
        return any(self._follows(each, steps - 1) for each in read)

    def _whole(self, value: ir.Value) -> Term | None:
        op, rank = defining_op(value), len(ranked_shape(value))
        if value == self.product:
            return _PRODUCT
        if op is None:
            return None
        start = _first_column(op)
        if start is not None:
            term = self.tensor(op.operands[0])
            return None if term is None else _from_column(term, start)
        if op.name in IN_PLACE:
            return self._reshaped(op)
        if _is_mapped(op):
            return self._applied(op, [self.tensor(each) for each in op.operands])
        made = read_elementwise(op)
        if made is None or len(made.dim_of) != rank:
            return None
        before = self._enter(value)
        term = self.scalar(made.scalar, Scope.at(made, range(rank), None))
        self._enter(before)
        return term

    def _reshaped(self, op: ir.Operation) -> Term | None:
        """The product in another shape, its columns being dim by dim the last."""
        view = view_of(op)
        if view is None or (op.name in RESHAPES and not _keeps_last(view)):
            return None
        source = view.source
        return self.tensor(source)

    def _read(self, value: ir.Value, places: tuple[int | None, ...]) -> Term | None:
        number = splat_number(_below_widening(value))
        if number is not None:
            return ("number", number)
        like = len(places) > 1 and self._is_like(value, places)
        source, dims = _below_repeats(value, places)
        if self._is_columns(source, dims) and not (like and self._is_like(source, dims)):
            return ("columns", source)
        if like:
            return ("like", value)
        # Dims of size one are left out where two are left.
        long = _long(source, dims) if len(dims) == len(ranked_shape(source)) else list(dims)
        if not long:
            return ("one", source)
        if long == [dim for dim, size in enumerate(self.shape[:-1]) if size != 1]:
            return ("rows", source)
        rows = self._shared_rows(dims)
        return None if rows is None else ("shared", source, rows)

    def _shared_rows(self, places: tuple[int | None, ...]) -> Size | None:
        """How many rows one behind the other read the same elements, one for each column, of a
        tensor with these places; None if none do."""
        long = [place for place in places if place is not None]
        lead = [dim for dim, size in enumerate(self.shape[:-1]) if size != 1]
        kept = len(long) - 1
        if kept < 1 or long != [*lead[:kept], len(self.shape) - 1]:
            return None
        sizes = sizes_of(self.read)
        return product([sizes[dim] for dim in lead[kept:]]) if kept < len(lead) else None

    def _is_columns(self, value: ir.Value, places: tuple[int | None, ...]) -> bool:
        """Whether an element is read for each column of the result."""
        whole = len(places) == len(ranked_shape(value))
        return whole and _long(value, places) == [len(self.shape) - 1]

    def _is_like(self, value: ir.Value, places: tuple[int | None, ...]) -> bool:
        """Whether an element is read for each of the result, dims of size one apart."""
        return _long(value, places) == [dim for dim, size in enumerate(self.shape) if size != 1]

    def argument(self, value: ir.Value) -> Term | None:
        return None

    def constant(self, op: ir.Operation) -> Term | None:
        if op.name != "arith.constant":
            return None
        given = known_attribute(op, "value")
        is_number = isinstance(given, ir.FloatAttr | ir.IntegerAttr)
        return ("number", float(given.value)) if is_number else None

    def index(self, place: int | None | None) -> Term | None:
        return None

    def step(
        self, value: ir.Value, op: ir.Operation, scope: Scope[int | None, Term]
    ) -> Term | None:
        return self._applied(op, self.inputs(op, scope))

    def _applied(self, op: ir.Operation, given: Sequence[Term | None]) -> Term | None:
        if any(term is None for term in given):
            return None
        if op.name in _CASTS:
            return given[0]
        numbers = [term[1] for term in given if term is not None and term[0] == "number"]
        if op.name == "arith.cmpf":
            return (op.name, *given, ir.IntegerAttr(op.attributes["predicate"]).value)
        if op.name in _FOLDED and len(numbers) == len(given):
            return ("number", _FOLDED[op.name](*numbers))
        return (op.name, *given)


_FOLDED = {
    "math.sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "math.rsqrt": lambda x: 1 / math.sqrt(x) if x > 0 else math.nan,
    "arith.divf": lambda x, y: x / y if y else math.nan,
    "arith.mulf": lambda x, y: x * y,
    "arith.addf": lambda x, y: x + y,
    "arith.negf": lambda x: -x,
}


def _long(value: ir.Value, places: tuple[int | None, ...]) -> list[int | None]:
    """The places of the dims that are not of size one."""
    shape = ranked_shape(value)
    return [place for place, size in zip(places, shape, strict=True) if size != 1]


def _keeps_last(view: View) -> bool:
    source, result = len(ranked_shape(view.source)) - 1, len(ranked_shape(view.result)) - 1
    return any((run.source, run.result) == ((source,), (result,)) for run in view.runs)


# Terms --------------------------------------------------------------------------------------------


def _match(term: Term, result: ir.Value) -> Epilogue | None:
    """What a kernel does to make the term of a product; None if none does."""
    if term == _PRODUCT:
        return Epilogue(result)
    activated = _activation(term)
    if activated is not None:
        name, inner = activated
        found = _match(inner, result)
        return None if found is None or not found.is_linear else replace(found, activation=name)
    number, rest = _split(term)
    if len(rest) == 1 and rest != [term]:
        found = _match(rest[0], result)
        return None if found is None else _scaled(found, number)
    if term[0] not in ("arith.addf", "arith.mulf"):
        return None
    for given, read in (term[1:], term[:0:-1]):
        found = _match(given, result) if read[0] in _READS else None
        if found is not None and found.other == "none":
            return _with_read(found, term[0], read)
    return None


def _match_halves(term: Term, result: ir.Value) -> Epilogue | None:
    """What a kernel does that multiplies an activation of one half of a product's columns with the
    other half."""
    if term[0] != "arith.mulf":
        return None
    for one, other in (term[1:], term[:0:-1]):
        name, inner = _activation(one) or ("", one)
        gate, factor = _half(inner, result), _half(other, result)
        if name and gate is not None and factor is not None and gate.start != factor.start:
            gate = replace(gate, activation=name)
            return Epilogue(result, activation=name, halves=(gate, factor))
    return None


def _half(term: Term, result: ir.Value) -> Epilogue | None:
    """What is done to one half of a product's columns: a bias of these may be added."""
    starts = _starts(term)
    found = _match(_whole_columns(term), result) if len(starts) == 1 else None
    if found is None or not found.is_linear or found.is_scaled:
        return None
    return replace(found, start=starts.pop())


def _starts(term: Term) -> set[int]:
    """The first columns that a term's parts are read from."""
    if term[0] in ("product", "columns"):
        return {term[-1]} if isinstance(term[-1], int) else {-1}
    return {start for part in term[1:] if isinstance(part, tuple) for start in _starts(part)}


def _whole_columns(term: Term) -> Term:
    """A term of some columns as if it were one of all."""
    if term[0] in ("product", "columns"):
        return term[:-1] if isinstance(term[-1], int) else term
    return tuple(_whole_columns(part) if isinstance(part, tuple) else part for part in term)


def _from_column(term: Term, start: int) -> Term | None:
    """A term of a product's columns from `start` on; None if it is one of some already, or reads
    what has all of its columns."""
    if term[0] in ("product", "columns"):
        known = len(term) == (1 if term[0] == "product" else 2)
        return (*term, start) if known else None
    if term[0] in ("number", "one", "rows"):
        return term
    if term[0] in _READS:
        return None
    parts = [_from_column(part, start) if isinstance(part, tuple) else part for part in term[1:]]
    return None if any(part is None for part in parts) else (term[0], *parts)


_READS = ("like", "columns", "shared", "one", "rows")


def _scaled(found: Epilogue, number: float) -> Epilogue | None:
    if found.other != "none" or not math.isfinite(number):
        return None
    if found.is_linear and found.bias is None:
        return replace(found, scale=found.scale * number)
    return replace(found, rescale=found.rescale * number)


def _with_read(found: Epilogue, op: str, read: Term) -> Epilogue | None:
    """What a kernel does that then adds or multiplies what is read."""
    kind, value = read[:2]
    written = element_type_name(found.result)
    if kind == "like":
        # As wide as the result, or widened from that.
        value = value if element_type_name(value) == written else _below_widening(value)
        if element_type_name(value) != written:
            return None
        return replace(found, other="add" if op == "arith.addf" else "multiply", operand=value)
    if element_type_name(value) not in ("f16", "bf16", "f32"):
        return None
    if op == "arith.mulf" and found.is_linear and found.bias is None and kind != "shared":
        return replace(found, scales=(*found.scales, (kind, value)))
    if op == "arith.mulf" and found.factor is None and kind in ("columns", "shared"):
        return replace(found, factor=value, share=read[2] if kind == "shared" else None)
    if op == "arith.addf" and kind in ("columns", "shared") and found.bias is None:
        share = read[2] if kind == "shared" else None
        return replace(found, bias=value, bias_share=share) if found.is_linear else None
    return None


def _activation(term: Term) -> tuple[str, Term] | None:
    """The activation that a term is, and of what."""
    clamped = _above_zero(term)
    if clamped is not None:
        return "relu", clamped
    number, rest = _split(term)
    if len(rest) != 2:
        return None
    for inner, raised in (rest, rest[::-1]):
        name = _name_of(inner, _curve(number, raised))
        if name:
            return name, inner
    return None


# Comparisons of arith.cmpf by which NaN is kept: greater or unordered, less and ordered.
_GREATER, _LESS = (9, 10), (4, 5)


def _above_zero(term: Term) -> Term | None:
    """What a term is the larger of, the other being zero; NaN stays NaN."""
    zero: Term = ("number", 0.0)
    if term[0] == "arith.maximumf" and zero in term[1:]:
        return term[1] if term[2] == zero else term[2]
    if term[0] != "arith.select" or term[1][0] != "arith.cmpf":
        return None
    (_, left, right, predicate), (chosen, other) = term[1], term[2:]
    greater = predicate in _GREATER and (left, right, other) == (chosen, zero, zero)
    less = predicate in _LESS and (left, right, chosen) == (other, zero, zero)
    return chosen if greater else other if less else None


def _split(term: Term) -> tuple[float, list[Term]]:
    """The number and the rest of a term's factors."""
    factors = list(_factors(term))
    rest = [factor for factor in factors if factor[0] != "number"]
    return math.prod(factor[1] for factor in factors if factor[0] == "number"), rest


def _factors(term: Term) -> Iterator[Term]:
    if term[0] == "arith.mulf":
        yield from _factors(term[1])
        yield from _factors(term[2])
    elif term[0] == "arith.divf":
        yield from _factors(term[1])
        number = term[2][1] if term[2][0] == "number" else 0.0
        yield ("number", 1 / number) if number else ("inverse", term[2])
    elif term[0] == "arith.negf":
        yield from _factors(term[1])
        yield ("number", -1.0)
    else:
        yield term


@dataclass(frozen=True)
class _Curve:
    """`low` plus `high` times a function of `argument`; `inverse` is 1 / (1 + exp(argument))."""

    function: str
    low: float
    high: float
    argument: Term


def _curve(number: float, term: Term) -> _Curve | None:
    """The curve that a number times a term is."""
    if term[0] == "math.erfc":
        return _Curve("math.erfc", 0.0, number, term[1])
    summed = term[1] if term[0] == "inverse" else term
    if summed[0] != "arith.addf":
        return None
    for one, other in (summed[1:], summed[:0:-1]):
        high, rest = _split(other)
        if one[0] == "number" and len(rest) == 1 and len(rest[0]) == 2:
            return _raised(number, term[0], one[1], high, rest[0])
    return None


def _raised(number: float, op: str, low: float, high: float, function: Term) -> _Curve | None:
    name, argument = function
    if op != "inverse":
        return _Curve(name, number * low, number * high, argument)
    is_sigmoid = (name, low, high) == ("math.exp", 1.0, 1.0)
    return _Curve(op, 0.0, number, argument) if is_sigmoid else None


# Activations as x times a curve of slope * (x + cube * x^3): the curve, its low and high, both.
_BENT, _CUBE = math.sqrt(2 / math.pi), 0.044715
_CURVES = (
    ("gelu", "math.erf", 0.5, 0.5, math.sqrt(0.5), 0.0),
    ("gelu", "math.erfc", 0.0, 0.5, -math.sqrt(0.5), 0.0),
    ("gelu_tanh", "math.tanh", 0.5, 0.5, _BENT, _CUBE),
    ("gelu_tanh", "inverse", 0.0, 1.0, -2 * _BENT, _CUBE),
    ("silu", "inverse", 0.0, 1.0, -1.0, 0.0),
    ("quick_gelu", "inverse", 0.0, 1.0, -1.702, 0.0),
)


def _name_of(inner: Term, curve: _Curve | None) -> str:
    """Which activation of `inner` it is that times a curve; '' for none."""
    powers = None if curve is None else _powers(curve.argument, inner)
    if curve is None or powers is None:
        return ""
    slope = powers.pop(1, 0.0)
    cube = powers.pop(3, 0.0) / slope if slope else 0.0
    if any(powers.values()):
        return ""
    found = (curve.low, curve.high, slope, cube)
    for name, function, *wanted in _CURVES:
        if function == curve.function and all(map(_is_near, found, wanted)):
            return name
    return ""


def _is_near(found: float, wanted: float) -> bool:
    """Whether a number is the one that is wanted, or that rounded."""
    rounded = abs(wanted) != 1 and math.isclose(found, wanted, rel_tol=_NEAR)
    return found == wanted or rounded


def _powers(term: Term, inner: Term) -> dict[int, float] | None:
    """A term as a polynomial of `inner`, up to its cube: each power's number."""
    if term == inner:
        return {1: 1.0}
    if term[0] == "number":
        return {0: term[1]}
    if term[0] in ("math.powf", "math.fpowi") and term[2][0] == "number":
        power = term[2][1]
        return _multiplied([term[1]] * int(power), inner) if power in (2.0, 3.0) else None
    if term[0] == "arith.addf":
        one, other = _powers(term[1], inner), _powers(term[2], inner)
        if one is None or other is None:
            return None
        return {each: one.get(each, 0.0) + other.get(each, 0.0) for each in {*one, *other}}
    factors = list(_factors(term))
    return _multiplied(factors, inner) if len(factors) > 1 else None


def _multiplied(factors: Sequence[Term], inner: Term) -> dict[int, float] | None:
    made = {0: 1.0}
    for factor in factors:
        found = _powers(factor, inner)
        if found is None or max(made) + max(found) > 3:
            return None
        pairs = [(each, other) for each in made for other in found]
        after = dict.fromkeys((each + other for each, other in pairs), 0.0)
        for each, other in pairs:
            after[each + other] += made[each] * found[other]
        made = after
    return made
