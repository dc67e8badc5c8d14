"""attn-store-results: attention's result stands in memory where an elementwise op repeats it."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import store_operand
from ..attention.facts import find_ops
from ..ir import (
    defining_op,
    is_elementwise,
    is_ranked_tensor,
    loop_sizes,
    loops_read,
    ranked_shape,
    reached,
    users,
)
from ..ir.bodies import takes_by_index
from ..ir.views import WHOLE, repeat_of
from ..machines import backends
from ..passes import Pass, PassContext

# On tensors these compute each element for itself.
_SCALARWISE = ("arith.", "math.")


class StoreResults(Pass):
    """Puts a compute barrier behind a result of attention, or what elementwise ops and views make
    of it, where an elementwise op has more loops of other sizes than one than it reads of that
    attention: a repeat, an outer product, a factor for each of several results. A product that
    sums over dims of size one is such an op.

    IREE 3.13 fuses that op into attention's kernel, and fails to distribute its other loops over
    threads of a GPU ("'func.func' op failed to distribute"), whatever the configuration. On CPUs a
    configured kernel has no program where such an op takes elements by index, or reads rows that
    others take: there the result is stored in front of that op, repeated or not.
    """

    name = "attn-store-results"
    summary = "results of attention that are repeated, or meet what is taken by index, are stored"
    mends = "kernels that repeat attention's result do not compile for GPUs"
    backends = ("cuda", "rocm", "llvm-cpu")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if not self.is_for(module):
            return False
        changed, is_for_gpus = False, bool({"cuda", "rocm"} & backends(module))
        for attention in find_ops(module):
            for op, numbers in _refused(attention, is_for_gpus):
                does = "repeats it" if is_for_gpus else "takes others by index"
                why = f"its result is put in memory: an op behind it {does}"
                context.report.record(attention, "repaired", why)
                for number in numbers:
                    store_operand(op, number)
                changed = True
        return changed


def _refused(attention: ir.Operation, is_for_gpus: bool) -> list[tuple[ir.Operation, list[int]]]:
    """The ops that repeat what they read of an attention, on GPUs, or take other elements by index,
    on CPUs, with the numbers of the operands that are attention's."""
    made = [value for value in attention.results if is_ranked_tensor(value)]
    found: dict[ir.Operation, list[int]] = {}
    for value in made:
        for op in users(value):
            loops = _loops(op)
            if loops is None or op.results[0] in made:
                continue
            read = [number for number in range(len(loops.of)) if op.operands[number] in made]
            read_loops = {loop for number in read for loop in loops.of[number]}
            if (loops.wanted <= read_loops) if is_for_gpus else not _meets_taken(op):
                found.pop(op, None)
                made.extend(op.results)
            elif read:
                found[op] = read
    return list(found.items())


def _meets_taken(op: ir.Operation) -> bool:
    """Whether an op takes elements by index, or those in front do that IREE fuses into it."""

    def before(one: ir.Operation) -> list[ir.Operation]:
        made = (defining_op(value) for value in one.operands)
        return [each for each in made if each is not None and is_elementwise(each)]

    return any(map(takes_by_index, reached([op], before)))


@dataclass(frozen=True)
class _Loops:
    """The loops of an elementwise op whose size is not one, and those that each input has."""

    wanted: set[int]
    of: list[set[int]]


def _loops(op: ir.Operation) -> _Loops | None:
    """Of an op that computes each element of its results for itself; None of others."""
    if op.name in WHOLE:
        return _Loops(set(), [set()])
    if not len(op.results) or not all(is_ranked_tensor(value) for value in op.operands):
        return None
    if op.name.startswith(_SCALARWISE):
        return _Loops(set(), [set()] * len(op.operands))
    shape = ranked_shape(op.results[0])
    if op.name == "linalg.broadcast" and (view := repeat_of(op)) is not None:
        wanted = {dim for dim, size in enumerate(shape) if size != 1}
        return _Loops(wanted, [wanted & {*(view.projection or ())}])
    read = [{dim for dim in dims if dim is not None} for _, dims in loops_read(op)]
    wanted = {dim for dim, size in loop_sizes(op).items() if size != 1}
    if not read or not wanted <= read[-1]:
        return None
    return _Loops(wanted, read[: len(op.operands) - len(op.results)])
