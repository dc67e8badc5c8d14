"""attn-cloned-results: what kernels make that read no tensor is copied as it is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from iree.compiler import ir

from ..ir import (
    Builder,
    collect,
    copied_attributes,
    descendants,
    erase_unused,
    is_ranked_tensor,
    known_attribute,
    set_function_type,
    symbol_name,
)
from ..ir.globals import declare_global, load_global
from ..passes import Pass, PassContext

_DISPATCH, _EXECUTABLE, _RESHAPE = "flow.dispatch", "flow.executable", "flow.tensor.reshape"
_READERS = ("hal.tensor.export", "hal.tensor.barrier")
_FUNCTIONS = ("builtin.module", "func.func")
# What such kernels are given to read, and as what.
_NAME, _TYPE, _NUMBERS = "__attn_unread", "tensor<2xi8>", "dense<[0, 1]>"
_WHY = "is handed a tensor: IREE 3.13 copies no results of kernels that read none"
_ARGUMENT = f"!iree_tensor_ext.dispatch.tensor<readonly:{_TYPE}>"


class ClonedResults(Pass):
    """Gives a kernel without tensors to read one, which it does not read, where what it makes may
    be copied: something is written into it, or a global holds it.

    IREE 3.13 runs such a kernel again in place of the copy, and takes the first result of that run,
    whichever was copied: tables of angles and what is computed of them, places of writes and their
    mask. And it takes two such runs for one: what is written into the copy, the other readers of
    the table see. Done once flow has made kernels, since several ops become such a kernel.
    """

    name = "attn-cloned-results"
    summary = "what kernels without inputs make is copied as it is"
    phase = "flow"
    mends = "copies of what a kernel without inputs makes are of its first result, or are none"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        executables = {symbol_name(op): op for op in descendants(module, _EXECUTABLE)}
        dispatches = collect(module, lambda op: op.name == _DISPATCH)
        refused = [op for op in dispatches if _is_refused(op)]
        kernels = {_entry(op): _functions(executables, _entry(op)) for op in refused}
        kernels = {entry: found[0] for entry, found in kernels.items() if len(found) == 1}
        for op in refused:
            if _entry(op) in kernels:
                context.report.record(op, "repaired", _WHY)
        if kernels:
            _declare(module)
        counts = {_entry(op): _hand(op) for op in dispatches if _entry(op) in kernels}
        for entry, function in kernels.items():
            _take(function, counts[entry])
        return bool(kernels)


def _is_refused(op: ir.Operation) -> bool:
    """Whether a dispatch is handed no tensor, and a result may be copied beside other results, or
    other readers of it."""
    if any(map(is_ranked_tensor, op.operands)):
        return False
    uses = [list(_uses(value)) for value in op.results]
    return any(
        len(op.results) + len(found) > 2 and not all(itertools.starmap(_reads, found))
        for found in uses
    )


def _uses(value: ir.Value) -> Iterator[tuple[ir.Operation, int]]:
    """Who reads a tensor, reshaped or not, and as which operand."""
    for use in value.uses:
        user = use.owner.operation
        if user.name == _RESHAPE:
            yield from _uses(user.results[0])
        else:
            yield user, use.operand_number


def _reads(op: ir.Operation, number: int) -> bool:
    """Whether an op does no more than read this operand."""
    if op.name != _DISPATCH:
        return op.name in _READERS
    # Numbers count behind the workload, which is the first of the operands' segments.
    workload = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0]
    tied = [ir.IntegerAttr(one).value for one in known_attribute(op, "tied_operands") or []]
    return number - workload not in tied


def _entry(op: ir.Operation) -> ir.Attribute | None:
    """The kernel that a dispatch runs; None where there are several."""
    entries = ir.ArrayAttr(op.attributes["entry_points"])
    return entries[0] if len(entries) == 1 else None


def _functions(
    executables: dict[str, ir.Operation], entry: ir.Attribute | None
) -> list[ir.Operation]:
    """The functions of a kernel's executable, of which there is IR."""
    if entry is None:
        return []
    executable = executables.get(ir.SymbolRefAttr(entry).value[0])
    return [] if executable is None else list(descendants(executable, *_FUNCTIONS))


def _declare(module: ir.Operation) -> None:
    """The global that is read, in front of all that may read it."""
    first = collect(module, lambda op: op.name in ("util.initializer", "util.func"), bodies=False)
    numbers = ir.Attribute.parse(f"{_NUMBERS} : {_TYPE}", module.context)
    kind = ir.Type.parse(_TYPE, module.context)
    declare_global(Builder(first[0]), _NAME, kind, mutable=False, initial=numbers)


def _take(function: ir.Operation, place: int) -> None:
    """Gives a function one more argument, at this place."""
    block = function.regions[0].blocks[0]
    kinds = [argument.type for argument in block.arguments]
    kinds.insert(place, ir.Type.parse(_ARGUMENT, function.context))
    block.add_argument(kinds[-1], function.location)
    _shift([*block.arguments], kinds, place)
    set_function_type(function, [])


def _shift(arguments: Sequence[ir.BlockArgument], kinds: Sequence[ir.Type], place: int) -> None:
    """Has each argument behind `place` stand for the one before it."""
    for number in range(len(arguments) - 1, place, -1):
        arguments[number].set_type(kinds[number])
        arguments[number - 1].replace_all_uses_with(arguments[number])
    arguments[place].set_type(kinds[place])


def _hand(op: ir.Operation) -> int:
    """Has a dispatch hand over the tensor, behind its other arguments; the number of these."""
    build = Builder(op)
    workload, count, *sizes = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
    operands = list(op.operands)
    unread = load_global(build, _NAME, ir.Type.parse(_TYPE, op.context))
    operands.insert(workload + count, unread)
    segments = build.segments(workload, count + 1, *sizes)
    attributes = copied_attributes(op) | {"operandSegmentSizes": segments}
    new = build.create(_DISPATCH, [one.type for one in op.results], operands, attributes)
    for old, value in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(value)
    erase_unused([op])
    return count
