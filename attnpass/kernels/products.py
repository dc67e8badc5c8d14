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

from iree.compiler import ir

from ..attention.widening import below_widening
from ..ir import (
    Refusal,
    Size,
    below_ops,
    defining_op,
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
from ..ir.bodies import ScalarReader, Scope, predicate, read_elementwise, takes_by_index
from ..ir.contractions import FEW_ROWS, ContractionFacts, read_contraction, starts_at_zero
from ..ir.views import IN_PLACE, RESHAPES, SLICE, WHOLE, View, repeat_of, view_of
from .epilogues import PRODUCT, Epilogue, Term, epilogue_of, factors_of, from_column

# Ops behind a product that are looked at.
_MOST_STEPS = 16
_CASTS = ("arith.extf", "arith.truncf")
_TAKEN = "its weights are taken by index, where IREE reads them: a kernel would need a copy"
# Element types of operands, and those of 16 bits or more.
_WIDE, _NARROW = ("f16", "bf16"), "f8E4M3FN"
_WHOLE = (*_WIDE, "f32")


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
    return all(kind in (*_WHOLE, _NARROW) for kind in kinds) and len(kinds) == 3


def _with_weights(facts: ContractionFacts, number: int) -> ProductFacts | Refusal | None:
    """The product whose weights are operand `number`; None if that has rows."""
    given = (facts.left, facts.right)
    weights, loops = _below_repeats(facts.op.operands[number], given[number])
    rows, row_loops = below_widening(facts.op.operands[1 - number]), given[1 - number]
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
    if kinds[0] != kinds[1] or kinds[0] not in _WHOLE:
        if all(_is_of_narrow(value) for value in facts.op.operands[:2]):
            return Refusal(
                "what is done to its 8-bit operands, or its result's type, is none of a kernel"
            )
        return Refusal(f"there are no kernels for {kinds[0]} times {kinds[1]}")
    if not starts_at_zero(facts.op):
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
    op = defining_op(below_ops(weights, *WHOLE))
    return takes_by_index(op) and isinstance(rows, int) and rows <= FEW_ROWS


def _unwritten(op: ir.Operation, kind: str) -> Refusal:
    kinds = f"{element_type_name(op.results[0])} and not {kind}"
    return Refusal(f"its result is {kinds}, and a kernel does nothing of what stands behind it")


def _of_batch(facts: ContractionFacts) -> ProductFacts | Refusal | None:
    """A batch of products of rows and weights of 16 bits or f32; None if these have other bits."""
    given, columns = (facts.left, facts.right), facts.result[-1] if facts.result else None
    below = _of_one_kind(list(zip(facts.op.operands, given, strict=False)))
    if below is None:
        return None
    if len(facts.k) != 1:
        return Refusal(f"it sums over {len(facts.k)} dims")
    holders = [number for number in (0, 1) if columns in given[number]]
    if columns is None or None in facts.result or len(holders) != 1:
        return Refusal("its last dim is not that of one operand's columns")
    number, (depth,) = holders[0], facts.k
    (rows, row_loops), (weights, weight_loops) = below[1 - number], below[number]
    kind = element_type_name(rows)
    if depth not in row_loops or depth not in weight_loops:
        return Refusal("one operand is the same along the depth")
    if not starts_at_zero(facts.op):
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


def _of_one_kind(
    given: Sequence[tuple[ir.Value, maps.Positions]],
) -> list[tuple[ir.Value, maps.Positions]] | None:
    """What two operands are repeats, transposes or other shapes of, and the loops of their dims:
    widened from, too, where both are from one type; None where no type of kernels is that of
    both."""
    for widened in (True, False):
        below = [below_all(value, loops, widened) for value, loops in given]
        kind, *others = {element_type_name(value) for value, _ in below}
        if not others and kind in _WHOLE:
            return below
    return None


def as_given(facts: ProductFacts) -> ProductFacts:
    """A batch of products of its operands as they are given, not of what these are transposes of:
    those are copied then. The same where they have another type so."""
    given = read_contraction(facts.op)
    assert given is not None and facts.loops is not None, "it has been read before"
    pairs = zip(facts.op.operands, (given.left, given.right), strict=False)
    rows, weights = [(below_widening(value), loops) for value, loops in pairs][
        :: -1 if facts.loops.result[-1] in given.left else 1
    ]
    if {element_type_name(value) for value, _ in (rows, weights)} != {facts.element_type}:
        return facts
    loops = replace(facts.loops, rows=rows[1], weights=weights[1])
    return replace(facts, rows=rows[0], weights=weights[0], loops=loops)


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
    if n is None or None in lead or not fits or not starts_at_zero(facts.op):
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
    number, rest = factors_of(_Reader(source).tensor(value) or ("number", 0.0))
    scales = tuple(term for term in rest if term != PRODUCT)
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


def _below_repeats(value: ir.Value, loops: maps.Positions) -> tuple[ir.Value, maps.Positions]:
    """What an operand is a repeat, a transpose or another shape of, or widened from, and the loops
    of its dims; those of size one left out."""
    value, loops = below_all(value, loops)
    shape = ranked_shape(value)
    if all(loop is not None or size == 1 for loop, size in zip(loops, shape, strict=True)):
        kept = tuple(loop for loop, size in zip(loops, shape, strict=True) if size != 1)
        return value, kept if len(kept) >= 2 else tuple(loops)
    return value, loops


def below_all(
    value: ir.Value, loops: maps.Positions, widened: bool = True
) -> tuple[ir.Value, maps.Positions]:
    """What an operand is a repeat, a transpose or another shape of, or `widened` from, and the
    loop of each of its dims."""
    while True:
        value = below_widening(value) if widened else value
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
    return None if term is None else epilogue_of(term, result)


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
            return PRODUCT
        if op is None:
            return None
        start = _first_column(op)
        if start is not None:
            term = self.tensor(op.operands[0])
            return None if term is None else from_column(term, start)
        if op.name in IN_PLACE:
            return self._reshaped(op)
        if _is_mapped(op):
            return self._applied(op, [self.tensor(each) for each in op.operands])
        made = read_elementwise(op)
        if made is None or len(made.dim_of) != rank:
            return None
        before = self._enter(value)
        term = self.scalar(made.scalar, self.scope(made, range(rank)))
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
        number = splat_number(below_widening(value))
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

    def constant(self, op: ir.Operation) -> Term | None:
        if op.name != "arith.constant":
            return None
        given = known_attribute(op, "value")
        is_number = isinstance(given, ir.FloatAttr | ir.IntegerAttr)
        return ("number", float(given.value)) if is_number else None

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
            return (op.name, *given, predicate(op))
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
