"""attn-store-sums: what a norm and others read stands in memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cmp_to_key

from iree.compiler import ir

from ..attention.barrier import barrier_behind
from ..ir import (
    body_names,
    collect,
    defining_op,
    element_bytes,
    element_type,
    iterator_kinds,
    maps,
    ranked_shape,
    reached,
    readers_behind,
    reduces,
)
from ..ir.bodies import takes_by_index
from ..ir.contractions import is_contraction
from ..ir.views import RESHAPES, WHOLE, below_views, view_of
from ..machines import is_for_cpus
from ..passes import Pass, PassContext

# What a norm's kernel makes for itself.
_MADE = ("arith.constant", "linalg.fill", "tensor.empty", "tensor.dim")

_SOFTMAX = "linalg.softmax"
# Of more ops IREE makes no one kernel.
_MOST = 128
# Of bytes: IREE gives a kernel 32 KiB of the stack, and norms hold three rows there.
_LONG_ROW = 1 << 13


class StoreSums(Pass):
    """For CPUs it puts a compute barrier behind what an elementwise op makes where a norm, or
    another reduction, reads it and other kernels do: the sum that a layer normed in front passes on
    beside its norm.

    From O2 on IREE 3.13 fuses the op into the norm's kernel, of which it is a second result, and
    copies a tile of whole rows over the stack: rows of more than some 200 numbers do not compile
    ("exceeded stack allocation limit"), and the whole module falls back to O0. In front of the
    barrier the op joins the product whose result it adds to.

    What an op reads at single places of a dim (x and y of a grid) stands in memory on all targets:
    fused, with what others read of it, too, IREE writes these places alone.

    So do scores of a softmax over an unknown number of keys, and what a norm of an unknown number
    squares: their tile would be as long as the longest row there may be. Known long rows do, where
    they are taken by index: what computes them otherwise is computed anew for each reader. And
    what a softmax gives, where a reduction and others read it (the largest chance of a token, and
    the choice): IREE has no program for GPUs for a softmax's kernel with two results.

    On GPUs, where what stands between two reductions of a row (a norm's centered numbers, a
    softmax's exponentials) is read outside of their kernel, IREE has it as a second result and no
    program for it ("failed to distribute"). So what a product, the caller or a mean of rows reads
    stands in memory, and what a norm or softmax gives where a transpose reads it behind a reshape,
    in front of which IREE moves both, or would write its rows across (a norm of 15999 numbers, then
    channels last: a thread has a row, and takes minutes to compile). So does what a sum and others
    read of what is transposed (behind a convolution that is a product of channels last): its lanes
    would read it across (608 us of 15), and what a transpose makes that puts another dim last,
    where a norm reads it (attention over channels: 165 us of 20). So do truths that are counted,
    or of which all or any are asked for, and what they are told by: a kernel that has these beside
    is none ("failed to bufferize", or "to distribute", which no fallback mends). And what a sum
    reads, where an op that leads to no sum reads it first, or what it is made of: IREE makes one
    op of both, and lays out what leads to the sum alone.
    """

    name = "attn-store-sums"
    summary = "what a norm and others read stands in memory"
    why = "IREE fuses a sum into its norm's kernel, and copies its rows there"
    mends = "norms of sums that a residual reads again do not compile for CPUs"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        kernels, changed = _Kernels(module), False
        for op in kernels.ops:
            kernels.between[op] = _is_elementwise(op) and _is_between(op, kernels)
            why = _why_stored(op, kernels)
            if why and barrier_behind(op):
                context.report.record(op, "repaired", f"its result is put in memory: {why}")
                changed = True
            kernels.add(op)
        return changed


class _Kernels:
    """What IREE may take into a norm's kernel. `add` has each op once what stands before it, and
    it itself, has its barriers: what it says of these ops stays so, and no long chain is walked
    again for each of its ops."""

    def __init__(self, module: ir.Operation) -> None:
        self.ops = collect(module, lambda op: True, bodies=False)
        self._waits: dict[ir.Operation, bool] = {}
        self._sums: dict[ir.Operation, bool] = {}
        self._gathers: dict[ir.Operation, bool] = {}
        # What `_is_between` said when the ops behind were not known yet, nor had barriers.
        self.between: dict[ir.Operation, bool] = {}
        # By results: an op's hash changes with its operands, which barriers change.
        self._leads: set[ir.Value] = set()
        for op in reversed(self.ops):
            if op.name == "linalg.generic" and (reduces(op) or any(map(self.leads, _readers(op)))):
                self._leads.add(op.results[0])

    def add(self, op: ir.Operation) -> None:
        """Notes what an op waits for."""
        self._waits[op] = not _may_join(op) or any(
            self._waits.get(made, True) for made in _makers(op)
        )
        self._sums[op] = self.adds_up(op)
        self._gathers[op] = self.takes_by_index(op)

    def leads(self, op: ir.Operation) -> bool:
        """Whether an op is a reduction, or elementwise ops lead from it to one."""
        return len(op.results) > 0 and op.results[0] in self._leads

    def adds_up(self, op: ir.Operation) -> bool:
        """Whether an elementwise op reads, by others or not, a reduction that is no product."""
        return _is_elementwise(op) and any(
            self._sums.get(made, False) or (reduces(made) and not is_contraction(made))
            for made in _sources(op)
        )

    def takes_by_index(self, op: ir.Operation) -> bool:
        """Whether an elementwise op, or one that it reads, takes elements by index."""
        if not _is_elementwise(op):
            return False
        return takes_by_index(op) or any(self._gathers.get(made, False) for made in _sources(op))

    def is_normed(self, readers: Iterable[ir.Operation], source: ir.Operation) -> bool:
        """Whether a reduction follows a reader of `source`, by elementwise ops that wait for
        nothing else."""
        waits = {source: False}
        seen: set[ir.Operation] = set()
        waiting = list(readers)
        while waiting:
            op = waiting.pop()
            if op in seen or not self.leads(op) or self.needs_others(op, source, waits):
                continue
            seen.add(op)
            if reduces(op):
                return True
            waiting += _readers(op)
        return False

    def needs_others(
        self, reader: ir.Operation, source: ir.Operation, known: dict[ir.Operation, bool]
    ) -> bool:
        """Whether a reader of `source` waits for what no elementwise op or reduction makes, or is
        such an op itself. `known` says so of `source` and of ops that were asked about."""
        seen: set[ir.Operation] = set()
        waiting = [reader]
        while waiting:
            op = waiting.pop()
            if op in seen:
                continue
            seen.add(op)
            waits = known.get(op, self._waits.get(op))
            joins = len(seen) <= _MOST and (waits is not None or _may_join(op))
            if waits or not joins:
                known[reader] = True
                return True
            if waits is None:
                waiting += _makers(op)
        known.update(dict.fromkeys(seen, False))
        return False


def _why_stored(op: ir.Operation, kernels: _Kernels) -> str:
    """Why what an op makes is to stand in memory; '' where it is not."""
    if len(op.results) == 1 and not is_for_cpus(op) and _is_normed_across(op):
        return "a sum would read it across"
    if op.name not in ("linalg.generic", _SOFTMAX) or len(op.results) != 1:
        return ""
    if op.name == _SOFTMAX or _divides_by_sum(op):
        stored = _is_reduced(op) or (_is_turned(op) and not is_for_cpus(op))
        return "a reduction and others read it" if stored else ""
    if reduces(op):
        return ""
    if _is_softmax_shared(op):
        return "a softmax and others read it"
    if _is_read_in_parts(op):
        return "an op reads parts of it"
    if not is_for_cpus(op):
        stored = (_leaves(op) or _is_summed_both_ways(op)) and kernels.between[op]
        stored = stored or ((_is_turned(op) or _is_crossed(op)) and _ends_norm(op, kernels))
        if stored or _is_counted(op) or _is_beside_sum(op):
            return "no kernel has it beside sums"
        return "a sum would read it across" if _is_summed_across(op) else ""
    if _is_in_softmax(op, kernels):
        return "a softmax or norm over an unknown number reads it"
    if _is_long_gather(op, kernels):
        return "a kernel would hold its long rows on the stack"
    return "a norm and others read it" if _is_shared(op, kernels) else ""


def _is_reduced(op: ir.Operation) -> bool:
    """Whether a reduction, which is no product, and others read what op makes."""
    readers = list(_readers(op))
    return len(readers) > 1 and any(
        one.name == "linalg.generic" and reduces(one) and not is_contraction(one) for one in readers
    )


def _is_between(op: ir.Operation, kernels: _Kernels) -> bool:
    """Whether an elementwise op reads a reduction, and another reduction reads what it makes."""
    # What leads out of a norm has a reader beside those that lead to its second reduction.
    if len([*_readers(op)]) < 2:
        return False
    return kernels.adds_up(op) and kernels.is_normed(_readers(op), op)


def _is_counted(op: ir.Operation) -> bool:
    """Whether a reduction of truths or whole numbers, of what an elementwise op makes as numbers of
    another kind, or of its truths, and others read it."""
    readers = list(_readers(op))
    if len(readers) < 2 or not _is_elementwise(op):
        return False
    own = element_type(op.results[0])
    sums = (_sum_of(reader) for reader in readers)
    kinds = [element_type(one.results[0]) for one in sums if one is not None]
    is_truth = isinstance(own, ir.IntegerType) and own.width == 1
    return any(isinstance(kind, ir.IntegerType) and (is_truth or kind != own) for kind in kinds)


def _leaves(op: ir.Operation) -> bool:
    """Whether what reads op stands outside of any kernel of reductions: a product, the caller."""
    return any(not _may_join(reader) for reader in _readers(op))


def _is_summed_both_ways(op: ir.Operation) -> bool:
    """Whether a reduction of the last dim and one of others read what op makes, by elementwise ops:
    a norm's, and a mean of its rows."""
    seen = {op}
    waiting, ways = [op], set[bool]()
    while waiting and len(seen) <= _MOST:
        for reader, number in _reads(waiting.pop()):
            if reader.name != "linalg.generic" or reader in seen or is_contraction(reader):
                continue
            if reduces(reader):
                ways.add(_reduces_last(reader, number))
            else:
                seen.add(reader)
                waiting.append(reader)
    return len(ways) > 1


def _reduces_last(op: ir.Operation, number: int) -> bool:
    """Whether op reduces the last dim of this operand."""
    positions = maps.positions(op)
    loop = positions[number][-1] if positions is not None and positions[number] else None
    return loop is not None and iterator_kinds(op)[loop] == "reduction"


def _is_turned(op: ir.Operation) -> bool:
    """Whether a transpose reads what op makes behind a reshape."""
    return any(
        use.owner.operation.name in RESHAPES and _is_transposed(use.owner.operation)
        for use in op.results[0].uses
    )


def _is_transposed(op: ir.Operation) -> bool:
    readers = (use.owner.operation for use in op.results[0].uses)
    return any(
        (reader.name in RESHAPES and _is_transposed(reader))
        or ((view := view_of(reader)) is not None and not view.keeps_order)
        for reader in readers
    )


def _is_crossed(op: ir.Operation) -> bool:
    """Whether a transpose reads what op makes and puts another dim last."""
    last = len(ranked_shape(op.results[0])) - 1
    for use in op.results[0].uses:
        view = view_of(use.owner.operation)
        if view is not None and not view.keeps_order:
            (run,) = (run for run in view.runs if last in run.source)
            if run.result and run.result[-1] != len(ranked_shape(view.result)) - 1:
                return True
    return False


def _is_summed_across(op: ir.Operation) -> bool:
    """Whether a sum and others read what an elementwise op makes of what a transpose does."""
    readers = list(_readers(op))
    if len(readers) < 2 or not _is_elementwise(op) or not any(map(_sum_of, readers)):
        return False
    made = reached([op], lambda one: _sources(one) if _is_elementwise(one) else ())
    return any(_is_of_transpose(one) for one in made if _is_elementwise(one))


def _is_normed_across(op: ir.Operation) -> bool:
    """Whether a sum along its last dim and others read what a transpose makes, which puts another
    dim last."""
    view = view_of(op)
    if view is None or view.keeps_order or op.name not in ("linalg.transpose", "linalg.generic"):
        return False
    sizes = len(ranked_shape(view.source)), len(ranked_shape(view.result))
    stays = any(sizes[0] - 1 in run.source and sizes[1] - 1 in run.result for run in view.runs)
    readers = list(_readers(op))
    return not stays and len(readers) > 1 and any(map(_sums_last, readers))


def _sums_last(reader: ir.Operation) -> bool:
    """Whether a reader is, or leads alone to, a sum along the last dim of what it reads."""
    total = _sum_of(reader)
    return total is not None and _reduces_last(total, 0)


def _is_beside_sum(op: ir.Operation) -> bool:
    """Whether a sum and others read what an elementwise op makes, and an elementwise op that leads
    to no sum reads it, or what it is made of, which in 16 bits any other may read, too."""
    readers = list(_readers(op))
    sums = [reader for reader in readers if _sum_of(reader)]
    if len(readers) < 2 or not _is_elementwise(op) or all(_waits(one, op) for one in sums):
        return False
    made, outside = _made_of(op)
    return any(_is_joined_beside(one, op, made) for one in made if not _leads_to(one, outside))


def _is_joined_beside(one: ir.Operation, op: ir.Operation, made: set[ir.Operation]) -> bool:
    """Whether IREE makes one op of `one` and its first reader, and this op makes what leads to no
    sum of `op`, which is made by `made`."""
    reads = _in_order(_reads(one))
    others = [read for read in reads if read[0] not in made]
    beside = [read for read in others if _is_beside(*read, one)]
    if one == op or reads[0] in beside:
        return reads[0] in beside
    wide = _is_kept_wide(one, made) and any(not _may_join(other) for other, _ in others)
    return reads[0][0] in made and (wide or len(beside) > 0)


def _in_order(reads: Iterable[tuple[ir.Operation, int]]) -> list[tuple[ir.Operation, int]]:
    """Readers in the order of the program: of several IREE takes what they read into the first."""

    def compare(one: tuple[ir.Operation, int], other: tuple[ir.Operation, int]) -> int:
        return int(other[0].is_before_in_block(one[0])) - int(one[0].is_before_in_block(other[0]))

    return sorted(reads, key=cmp_to_key(compare))


def _made_of(op: ir.Operation) -> tuple[set[ir.Operation], set[ir.Operation]]:
    """An elementwise op, those of which it is made, and what else these read."""
    found, outside = set[ir.Operation](), set[ir.Operation]()
    for one in reached([op], lambda one: _sources(one) if _is_elementwise(one) else ()):
        (found if _is_elementwise(one) else outside).add(one)
        if len(found) > _MOST:
            break
    return found, outside


def _leads_to(op: ir.Operation, ends: Iterable[ir.Operation]) -> bool:
    """Whether one of `ends` is made of what `op` makes, in whatever way."""

    def behind(ops: Iterable[ir.Operation | None]) -> list[ir.Operation]:
        return [one for one in ops if one is not None and not one.is_before_in_block(op)]

    later = reached(behind(ends), lambda one: behind(map(defining_op, one.operands)))
    return any(one == op or count > _MOST for count, one in enumerate(later))


def _is_beside(reader: ir.Operation, number: int, op: ir.Operation) -> bool:
    """Whether an elementwise op that leads to no sum reads what `op` makes, as this operand, at its
    own places, and nothing else that is made of it: IREE makes one op of both."""
    if not _is_elementwise(reader) or any(map(_sum_of, (reader, *_readers(reader)))):
        return False
    positions, loops = maps.positions(reader), len(iterator_kinds(reader))
    if positions is None or positions[number] != tuple(range(loops)):
        return False
    return not _waits(reader, op)


def _waits(reader: ir.Operation, op: ir.Operation) -> bool:
    """Whether a reader of what `op` makes reads what else is made of it, too."""
    return _leads_to(op, [made for made in _sources(reader) if made != op])


def _is_kept_wide(op: ir.Operation, others: Collection[ir.Operation]) -> bool:
    """Whether one of `others` computes in 16 bits with what `op` makes in 16 bits: in one op with
    it, it takes numbers that are not rounded yet."""
    values = [one.results[0] for one in (op, *_readers(op)) if one == op or one in others]
    return len([value for value in values if element_bytes(value) == 2]) > 1


def _sum_of(op: ir.Operation) -> ir.Operation | None:
    """The reduction that an op is, or that alone reads what it makes."""
    while _is_elementwise(op) and len(readers := list(_readers(op))) == 1:
        op = readers[0]
    is_sum = op.name == "linalg.generic" and reduces(op) and not is_contraction(op)
    return op if is_sum else None


def _is_of_transpose(op: ir.Operation) -> bool:
    """Whether an op reads what a transpose moves."""
    for value in op.operands:
        while (made := defining_op(value)) is not None and (view := view_of(made)) is not None:
            if not view.keeps_order:
                return True
            value = view.source
    return False


def _ends_norm(op: ir.Operation, kernels: _Kernels) -> bool:
    """Whether op, by elementwise ops, makes its result of what stands between two reductions."""
    made = reached([op], lambda one: _sources(one) if _is_elementwise(one) else ())
    return any(one.name == _SOFTMAX or kernels.between.get(one) for one in made)


def _sources(op: ir.Operation) -> Iterator[ir.Operation]:
    """What makes an op's operands, below views."""
    found = (defining_op(below_views(value, WHOLE)) for value in op.operands)
    return (made for made in found if made is not None)


def _is_elementwise(op: ir.Operation) -> bool:
    return op.name == "linalg.generic" and not reduces(op)


def _divides_by_sum(op: ir.Operation) -> bool:
    """Whether an elementwise op ends a softmax: it divides by the sum of what it divides."""
    if body_names(op) != ["arith.divf", "linalg.yield"] or len(op.operands) != 3:
        return False
    above, below, _ = op.operands
    total = defining_op(below_views(below, WHOLE))
    return total is not None and reduces(total) and total.operands[0] == above


def _is_read_in_parts(op: ir.Operation) -> bool:
    """Whether an op reads what an elementwise op makes at single places of a dim."""
    return any(
        reader.name == "linalg.generic" and _has_places(reader, number)
        for reader, number in _reads(op)
    )


def _has_places(op: ir.Operation, number: int) -> bool:
    exprs = ir.AffineMapAttr(op.attributes["indexing_maps"][number]).value.results
    sizes = ranked_shape(op.operands[number])
    return any(
        isinstance(expr, ir.AffineConstantExpr) and size != 1
        for expr, size in zip(exprs, sizes, strict=True)
    )


def _reads(op: ir.Operation) -> Iterator[tuple[ir.Operation, int]]:
    """The ops that read the elements of an op's result, by views or not, and as which operand."""
    for use in op.results[0].uses:
        user = use.owner.operation
        if view_of(user) is not None:
            yield from _reads(user)
        else:
            yield user, use.operand_number


def _is_in_softmax(op: ir.Operation, kernels: _Kernels) -> bool:
    """Whether a softmax over an unknown number of elements reads what `op` makes, or such a
    reduction and others do; exponentials are the softmax's own."""
    readers = list(_readers(op))
    if any(_is_unknown_softmax(reader) for reader in readers):
        return True
    is_power = "math.exp" in body_names(op)
    return (
        len(readers) > 1
        and not is_power
        and any(kernels.leads(reader) and _is_reduced_unknown(reader) for reader in readers)
    )


def _is_reduced_unknown(op: ir.Operation) -> bool:
    """Whether a reduction over a dim known only at run time reads op, or is it."""
    return None in _reduced_sizes(op)


def _is_unknown_softmax(op: ir.Operation) -> bool:
    return op.name == _SOFTMAX and None in _reduced_sizes(op)


def _is_long_gather(op: ir.Operation, kernels: _Kernels) -> bool:
    """Whether a reduction of rows that are too long for the stack reads what `op` takes by index,
    and others do."""
    if not kernels.takes_by_index(op):
        return False
    readers = list(_readers(op))
    longest = max((_size(_reduced_sizes(reader)) for reader in readers), default=1)
    is_shared = len(readers) > 1 or any(reader.name == _SOFTMAX for reader in readers)
    return is_shared and longest * element_bytes(op.results[0]) > _LONG_ROW


def _size(sizes: Sequence[int | None]) -> int:
    return math.prod(size or 1 for size in sizes)


def _reduced_sizes(op: ir.Operation) -> list[int | None]:
    """The sizes over which a softmax or a reduction goes, that is op or alone reads what op makes
    (the squares of a norm); none of other ops."""
    for _ in range(_MOST):
        if not _is_elementwise(op):
            break
        readers = list(_readers(op))
        if len(readers) != 1:
            return []
        op = readers[0]
    if op.name == _SOFTMAX:
        dim = ir.IntegerAttr(op.attributes["dimension"]).value
        return [ranked_shape(op.operands[0])[dim]]
    if not reduces(op) or is_contraction(op):
        return []
    positions = maps.positions(op)
    kinds, shape = iterator_kinds(op), ranked_shape(op.operands[0])
    return [
        size
        for loop, size in zip(positions[0] if positions else (), shape, strict=False)
        if loop is not None and kinds[loop] == "reduction"
    ]


def _is_shared(op: ir.Operation, kernels: _Kernels) -> bool:
    """Whether a norm of what `op` makes would have it as a second result."""
    readers = list(_readers(op))
    if len(readers) < 2 or not any(map(kernels.leads, readers)):
        return False
    known = {op: False}
    inside = [reader for reader in readers if not kernels.needs_others(reader, op, known)]
    return len(inside) < len(readers) and kernels.is_normed(inside, op)


def _is_softmax_shared(op: ir.Operation) -> bool:
    """Whether a `linalg.softmax` and another op read what an elementwise op makes."""
    readers = list(_readers(op))
    return len(readers) > 1 and any(reader.name == _SOFTMAX for reader in readers)


def _readers(op: ir.Operation) -> Iterator[ir.Operation]:
    """What reads the elements of an op's result, by views or not."""
    return readers_behind(op.results[0], lambda user: view_of(user) is not None)


def _may_join(op: ir.Operation) -> bool:
    """Whether IREE takes an op into the kernel of a norm."""
    if op.name in _MADE or view_of(op) is not None:
        return True
    return op.name == "linalg.generic" and not is_contraction(op)


def _makers(op: ir.Operation) -> Iterator[ir.Operation]:
    """What makes an op's operands; not what hands in a tensor that is there before."""
    found = (defining_op(value) for value in op.operands)
    return (made for made in found if made is not None and not _is_input(made))


def _is_input(op: ir.Operation) -> bool:
    """Whether an op hands in a tensor that is there before: an argument, a weight."""
    return op.name.startswith(("hal.", "util.", "flow.", "torch_c."))
