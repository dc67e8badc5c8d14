"""attn-rank-sorts: sorts become comparisons of all pairs, as experts are chosen for a token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import (
    Builder,
    Size,
    body_of,
    body_ops,
    copy_steps,
    element_type,
    is_used,
    ranked_shape,
    replace_op,
    sizes_of,
    users,
    yielded,
)
from ..ir.bodies import predicate
from ..ir.rewrite import erase
from ..ir.views import is_widened_integer
from ..machines import is_for_cpus
from ..passes import OpPass
from .arg_maxima import ComparedRows, counts_along, largest_places
from .few_largest import order_of_few, runs_of
from .merged_keys import merged_keys
from .merged_runs import is_long, merged, ranks_in_row
from .ordered_keys import falling_keys, ranks_of_keys

_SORT, _TOPK = "iree_linalg_ext.sort", "iree_linalg_ext.topk"
_SCATTER, _EXPAND = "iree_linalg_ext.scatter", "tensor.expand_shape"
_SLICE = "tensor.extract_slice"
# Tests by which an order falls, and those by which it rises: of floats, false where an operand is
# NaN, and of signed integers.
_FALLING, _RISING = ("ogt", "oge", "sgt", "sge"), ("olt", "ole", "slt", "sle")


class RankSorts(OpPass):
    """Makes of a sort along a dim of n elements

        rank[i] = how many elements stand in front of element i        (n comparisons each)
        order[s] = the element whose rank is s                         (n comparisons each)
        result[s] = operand[order[s]]

    where s goes as far as the results are read: to k, for the largest k of a row (`topk`).

    IREE 3.13 has one thread for a row, which swaps neighbours in memory, n x n times: an argsort of
    all tokens' experts is one thread's work. Here all elements are looked at side by side. Equal
    elements stay in order, as in IREE. NaN is larger than all numbers, as in PyTorch, where the
    order is that of floats; IREE's sort leaves such rows unsorted.

    A row's largest element alone (`topk` of 1) is looked for as `attn-arg-maxima` does, few of a
    long row (a vocabulary's 50) among the runs that hold them (`few_largest.py`).
    """

    name = "attn-rank-sorts"
    summary = "sorts are comparisons side by side"
    why = "IREE sorts a row in one thread"
    what = "fitted"

    def wanted(self, op: ir.Operation) -> bool:
        return len(op.results) > 0 and op.name in (_SORT, _TOPK)

    def change(self, op: ir.Operation) -> str:
        sort = _Sort(op)
        if not sort.is_pure:
            return ""
        order, way = sort.of_few(), "comparisons"
        if order is None and is_long(sort.sizes, sort.dim, sort.on_cpu):
            order, way = sort.merged(), "merges"
        elif order is None:
            ranks = sort.ranks()
            order, sort.find_ranks = sort.order(ranks), lambda: ranks
        for number, result in enumerate(op.results):
            if number < len(sort.operands) and counts_along(sort.operands[number], sort.dim):
                sort.read_by_rank(result)
            if is_used(result):
                sort.replace(result, sort.result(number, order))
        rows = "x".join(str(size or "?") for size in ranked_shape(op.operands[0]))
        return f"finds the places of {rows} elements by {way} side by side"


class _Sort:
    """A sort along `dim`, of whose results the first `kept` elements are read."""

    def __init__(self, op: ir.Operation):
        self.op, self.build = op, Builder(op)
        # The largest elements are written to two tensors, of which nothing is read.
        self.is_topk = op.name == _TOPK
        self.operands = list(op.operands)[: -len(op.results) if self.is_topk else None]
        self.sizes = sizes_of(self.operands[0])
        self.dim = ir.IntegerAttr(op.attributes["dimension"]).value
        self.rank = len(self.sizes)
        self.all_dims = tuple(range(self.rank))
        self.kept = self._kept()
        self.on_cpu = is_for_cpus(op)
        self.i32 = ir.IntegerType.get_signless(32, op.context)
        # What stands in order already, by the number of the operand.
        self.sorted: dict[int, ir.Value] = {}
        self.find_ranks: Callable[[], ir.Value] = self.ranks

    @property
    def is_pure(self) -> bool:
        """Whether the order of two elements is told by ops on scalars of theirs alone."""
        reads = any(is_used(argument) for argument in body_of(self.op).arguments)
        return reads and all(
            inner.name.startswith(("arith.", "math.")) for inner in body_ops(self.op)[:-1]
        )

    def _compared(self) -> dict[int, ir.Value]:
        """What tells the order of two elements, by its operand's number, as it is compared."""
        arguments = list(body_of(self.op).arguments)
        compared: dict[int, ir.Value] = {}
        for number, value in enumerate(self.operands):
            if any(is_used(argument) for argument in arguments[2 * number : 2 * number + 2]):
                # In a kernel of what makes them, elements would be made n times, and IREE does not
                # end.
                compared[number] = compute_barrier(self.build, self._narrow(value))
                if element_type(compared[number]) == element_type(value):
                    self.operands[number] = compared[number]
        return compared

    def merged(self) -> ir.Value:
        """`order`, of rows that are merged; what is compared then stands in order already."""
        compared = self._compared()
        keys = self._keys(compared)
        if keys is not None:
            any_key = isinstance(element_type(*compared.values()), ir.IntegerType)
            ordered, order = merged_keys(self.build, keys, self.dim, any_key=any_key)
            self.find_ranks = lambda: ranks_in_row(self.build, [keys], ([ordered], order), _falls)
            return self._first(order)

        def before(inner: Builder, one: Sequence[ir.Value], other: Sequence[ir.Value]) -> ir.Value:
            first = self._in_front(inner, [*compared], one, other)
            second = self._in_front(inner, [*compared], other, one)
            return inner.andi(first, inner.xori(second, True))

        given = [*compared.values()]
        keys, order = merged(self.build, given, self.dim, before)
        self.sorted = {
            number: key
            for number, key in zip(compared, keys, strict=True)
            if element_type(key) == element_type(self.operands[number])
        }
        self.find_ranks = lambda: ranks_in_row(self.build, given, (keys, order), before)
        return self._first(order)

    def read_by_rank(self, result: ir.Value) -> None:
        """Has what is written to each place of a result in order be read by rank: the inverse of
        an order is the ranks."""
        if self.rank != 1 or self.kept != self.sizes[0] or not isinstance(self.kept, int):
            return
        writes = [op for op in _writes_at(result) if sizes_of(op.operands[2])[0] == self.kept]
        if not writes:
            return
        ranks = self.find_ranks()
        for op in writes:
            op.results[0].replace_all_uses_with(_read_at(Builder(op), op.operands[0], ranks))
            erase(op)

    def ranks(self) -> ir.Value:
        """For each element how many stand in front of it."""
        compared = self._compared()
        keys = self._keys(compared)
        if keys is not None:
            any_key = isinstance(element_type(*compared.values()), ir.IntegerType)
            return ranks_of_keys(self.build, keys, self.dim, any_key=any_key)
        read = [*compared]
        other = self._at(self.rank)

        def body(inner: Builder, scalars: Sequence[ir.Value]) -> Sequence[ir.Value]:
            own, others = scalars[: len(read)], scalars[len(read) : -1]
            first = self._in_front(inner, read, others, own)
            second = self._in_front(inner, read, own, others)
            # Where both or none may stand in front of the other, the one that does stays there.
            not_second = inner.xori(second, True)
            may = inner.apply("arith.ori", first, not_second)
            must = inner.andi(first, not_second)
            is_earlier = inner.compare(
                "ult", inner.loop_index(self.rank), inner.loop_index(self.dim)
            )
            counts = inner.select(is_earlier, may, must)
            return [inner.addi(scalars[-1], inner.convert("arith.extui", counts, self.i32))]

        inputs = [compared[number] for number in read]
        maps = [*[self.all_dims] * len(read), *[other] * len(read), self.all_dims]
        init = self._zeros(self.sizes)
        return self.build.generic([*inputs, *inputs], [init], maps, body)[0]

    def _narrow(self, value: ir.Value) -> ir.Value:
        """Integers of 64 bits that were widened from fewer as 32: a GPU compares these in one
        instruction, and reads them at twice the rate."""
        if not is_widened_integer(value):
            return value
        return self.build.computed(
            sizes_of(value),
            self.i32,
            lambda inner, x: inner.convert("arith.trunci", x[0], self.i32),
            value,
        )

    def _wide(self, inner: Builder, scalar: ir.Value, number: int) -> ir.Value:
        """A number as the sort's own steps take it: MLIR compares what is widened as it was."""
        kind = element_type(self.operands[number])
        return scalar if scalar.type == kind else inner.convert("arith.extsi", scalar, kind)

    def of_few(self) -> ir.Value | None:
        """The numbers of each row's largest elements, as `order` has them, where so few are read
        that not all pairs are compared; None where more are, or the sort's order is another."""
        value, runs = self._falling(), runs_of(self.sizes, self.dim, self.kept)
        if value is None or (self.kept != 1 and runs is None):
            return None
        if self.kept != 1:
            assert isinstance(self.kept, int) and runs is not None, "what runs_of takes"
            keys = self._keys(self._compared())
            value = value if keys is None else keys
            return order_of_few(self.build, value, self.dim, self.kept, runs, self.on_cpu)
        rows = tuple(dim for dim in self.all_dims if dim != self.dim)
        _, places = largest_places(self.build, ComparedRows(value, self.dim, rows, is_max=True))
        sizes = self._kept_sizes()
        return self.build.computed(sizes, self.i32, lambda _, x: x[0], (places, rows))

    def _keys(self, compared: Mapping[int, ir.Value]) -> ir.Value | None:
        """On a CPU, where one comparison tells the order, whole numbers that do, in memory."""
        steps, arguments = body_ops(self.op), list(body_of(self.op).arguments)
        compares = steps[0].name in ("arith.cmpf", "arith.cmpi")
        if not self.on_cpu or not compares or len(steps) != 2 or len(compared) != 1:
            return None
        ((number, value),) = compared.items()
        test = predicate(steps[0])
        pair = arguments[2 * number : 2 * number + 2]
        if test not in (*_FALLING, *_RISING) or [*steps[0].operands] != pair:
            return None
        keys = falling_keys(self.build, value, rising=test in _RISING)
        return compute_barrier(self.build, keys)

    def _falling(self) -> ir.Value | None:
        """The operand of floats of which the largest come first; None if the order is another."""
        steps, arguments = body_ops(self.op), list(body_of(self.op).arguments)
        pairs = [arguments[at : at + 2] for at in range(0, len(arguments), 2)]
        compared, end = steps[0], steps[-1]
        if compared.name != "arith.cmpf" or [*compared.operands] not in pairs:
            return None
        if end.operands[0] != compared.results[0] or predicate(compared) not in _FALLING:
            return None
        return self.operands[pairs.index([*compared.operands])]

    def order(self, ranks: ir.Value) -> ir.Value:
        """For each place that is read the number of the element that stands there."""

        def body(inner: Builder, scalars: Sequence[ir.Value]) -> Sequence[ir.Value]:
            rank, total = scalars
            place = inner.convert("arith.index_cast", inner.loop_index(self.dim), self.i32)
            number = inner.convert("arith.index_cast", inner.loop_index(self.rank), self.i32)
            here = inner.compare("eq", rank, place)
            return [inner.addi(total, inner.select(here, number, inner.splat(0, self.i32)))]

        maps = [self._at(self.rank), self.all_dims]
        return self.build.generic([ranks], [self._zeros(self._kept_sizes())], maps, body)[0]

    def result(self, number: int, order: ir.Value) -> ir.Value:
        """What the op gives as this result: the elements of an operand in their order, or their
        numbers."""
        if number in self.sorted:
            return self._first(self.sorted[number])
        kind = element_type(self.op.results[number])
        operand = self.operands[number] if number < len(self.operands) else None

        def body(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
            place = inner.to_index(scalars[0])
            if operand is None or counts_along(operand, self.dim):
                return inner.convert("arith.index_cast", place, kind)
            places = [inner.loop_index(loop) for loop in self.all_dims]
            places[self.dim] = place
            return inner.extract(operand, places)

        return self.build.computed(self._kept_sizes(), kind, body, order)

    def replace(self, old: ir.Value, new: ir.Value) -> None:
        """Gives the readers of a result what stands in its place."""
        if self.is_topk or self.kept == self.sizes[self.dim]:
            old.replace_all_uses_with(new)
            return
        for reader in users(old):
            cut = new
            if reader.results[0].type != new.type:
                zeros, sizes = [0] * self.rank, sizes_of(reader.results[0])
                cut = Builder(reader).extract_slice(new, zeros, sizes)
            replace_op(reader, cut)

    def _in_front(
        self,
        inner: Builder,
        read: Sequence[int],
        one: Sequence[ir.Value],
        other: Sequence[ir.Value],
    ) -> ir.Value:
        """Whether the sort lets `one` stand in front of `other`."""
        arguments = list(body_of(self.op).arguments)
        given: dict[ir.Value, ir.Value] = {}
        for number, *pair in zip(read, one, other, strict=True):
            for argument, scalar in zip(arguments[2 * number :], pair, strict=False):
                given[argument] = self._wide(inner, scalar, number)
        *steps, end = body_ops(self.op)
        compared = steps[0] if len(steps) == 1 and steps[0].name == "arith.cmpf" else None
        if compared is not None and end.operands[0] == compared.results[0]:
            return _compare_with_nan(inner, compared, [given[x] for x in compared.operands])
        made = copy_steps(steps, inner, given, inner.loop_index)
        return made.get(end.operands[0], end.operands[0])

    def _at(self, loop: int) -> tuple[int, ...]:
        """All dims, `loop` in place of the one that is sorted."""
        return (*self.all_dims[: self.dim], loop, *self.all_dims[self.dim + 1 :])

    def _kept_sizes(self) -> list[Size]:
        return [*self.sizes[: self.dim], self.kept, *self.sizes[self.dim + 1 :]]

    def _first(self, value: ir.Value) -> ir.Value:
        """As much of whole rows as is read."""
        if self.kept == self.sizes[self.dim]:
            return value
        return self.build.extract_slice(value, [0] * self.rank, self._kept_sizes())

    def _kept(self) -> Size:
        """How many elements of each row are read at the most."""
        if self.is_topk:
            return sizes_of(self.op.results[0])[self.dim]
        most = 0
        for reader in (user for result in self.op.results for user in users(result)):
            size = _first_elements(reader, self.dim)
            if size is None:
                return self.sizes[self.dim]
            most = max(most, size)
        return most or self.sizes[self.dim]

    def _zeros(self, sizes: Sequence[Size]) -> ir.Value:
        return self.build.fill(self.build.splat(0, self.i32), self.build.empty(sizes, self.i32))


def _falls(inner: Builder, one: Sequence[ir.Value], other: Sequence[ir.Value]) -> ir.Value:
    """Whether one key stands in front of another."""
    return inner.compare("sgt", one[0], other[0])


def _compare_with_nan(inner: Builder, op: ir.Operation, operands: Sequence[ir.Value]) -> ir.Value:
    """What a comparison of floats says, where NaN is the largest of all and equal to itself."""
    test = predicate(op)
    one, other = operands
    if test in ("olt", "ole"):
        one, other = other, one
    if test in ("oge", "ole"):
        return inner.apply(
            "arith.ori",
            inner.compare_floats("oge", one, other),
            inner.compare_floats("uno", one, one),
        )
    if test in ("ogt", "olt"):
        return inner.andi(
            inner.compare_floats("ugt", one, other), inner.compare_floats("ord", other, other)
        )
    return copy_steps([op], inner, dict(zip(op.operands, operands, strict=True)), inner.loop_index)[
        op.results[0]
    ]


def _writes_at(places: ir.Value) -> list[ir.Operation]:
    """The ops that write rows to these places, and nothing else."""
    shown = [op.results[0] for op in users(places) if op.name == _EXPAND]
    return [
        op
        for indices in (places, *shown)
        for op in users(indices)
        if op.name == _SCATTER
        and len(op.results) == 1
        and len(op.operands) == 3
        and op.operands[1] == indices
        and list(op.attributes["dimension_map"]) == [0]
        and yielded(op) == body_of(op).arguments[0]
        and sizes_of(op.operands[0])[1:] == sizes_of(op.operands[2])[1:]
    ]


def _read_at(build: Builder, rows: ir.Value, places: ir.Value) -> ir.Value:
    """The rows at these places."""
    sizes, kind = sizes_of(rows), element_type(rows)
    counts = counts_along(rows, 0)

    def body(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        place = inner.to_index(x[0])
        if counts:
            return inner.convert("arith.index_cast", place, kind)
        others = [inner.loop_index(loop) for loop in range(1, len(sizes))]
        return inner.extract(rows, [place, *others])

    return build.computed(sizes, kind, body, (places, (0,)))


def _first_elements(op: ir.Operation, dim: int) -> int | None:
    """How many elements along a dim a slice takes from its start, all along other dims; None for
    any other op."""
    if op.name != _SLICE or len(op.operands) > 1:
        return None
    offsets, sizes, strides = (
        list(op.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides")
    )
    shape = ranked_shape(op.operands[0])
    others = [size for place, size in enumerate(sizes) if place != dim]
    whole = [size for place, size in enumerate(shape) if place != dim]
    same_rank = len(ranked_shape(op.results[0])) == len(shape)
    if any(offsets) or any(stride != 1 for stride in strides) or others != whole or not same_rank:
        return None
    return sizes[dim]
