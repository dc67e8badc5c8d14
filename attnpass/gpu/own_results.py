"""attn-own-results: caches that a call makes anew and returns lie in memory of their own, for CUDA.

IREE puts all that a call returns into one allocation. Beyond two of the pool's segments of 32 MB
`attn-hold-workspace` cannot keep all of it mapped: K and V of 34 MB each, longer by a row than
those that a call was given, cost 76 us a call on an H200, 133 us where their sizes are known only
at run time. So each has an allocation, made before all work.

A cache like that is memory that nothing is in yet, into which rows are written: the module gets
that memory itself, as it gets those of a caller.
"""

from __future__ import annotations

import math

from iree.compiler import ir

from ..forms.merge_copies import tied_operand
from ..ir import Builder, collect, defining_op, erase
from ..ir.queries import is_used
from ..ir.types import element_bytes, ranked_shape, tensor_bytes
from ..machines import backends
from ..passes import Pass, PassContext
from .hold_workspace import ALLOCATION, ROOM_OF_TWO

_EXPORT, _IMPORT, _BARRIER = "hal.tensor.export", "hal.tensor.import", "hal.tensor.barrier"
_EMPTY, _DISPATCH, _RESHAPE = "flow.tensor.empty", "flow.dispatch", "flow.tensor.reshape"
# IREE's numbers: memory on the device that the device sees; transfers, and storage of dispatches.
_DEVICE_LOCAL, _ANY_USAGE = 48, 3075
# What a size that only calls know is taken for: each allocation costs a call some us.
_ASSUMED = 4096
# More allocations would take longer than memory takes to map.
_MOST = 8


class OwnResults(Pass):
    """Where a call returns more than stays mapped, caches whose sizes follow from those of the
    arguments get an allocation each. `--attn-workspace=false` leaves them."""

    name = "attn-own-results"
    summary = "CUDA: returned caches have memory of their own"
    phase = "flow"
    backends = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if {*backends(module)} != {"cuda"}:
            return False
        count = own_results(module)
        if count:
            why = "in one allocation results would be more than stays mapped"
            context.report.note(f"{count} caches that are returned have own memory: {why}")
        return count > 0


def own_results(module: ir.Operation) -> int:
    """Gives the caches that the functions of a module for one device return allocations; their
    number. Needs a current context."""
    devices = collect(module, lambda op: "!hal.device" in _global_type(op), bodies=False)
    if len(devices) != 1:
        return 0
    functions = collect(module, lambda op: op.name == "util.func", bodies=False)
    writes = [write for function in functions for write in _first_writes(function)]
    return sum(_own_memory(*write) for write in writes)


def _global_type(op: ir.Operation) -> str:
    return str(op.attributes["type"]) if op.name == "util.global" else ""


def _first_writes(function: ir.Operation) -> list[tuple[ir.Operation, int]]:
    """What first writes into the caches that a function makes anew and returns, and by which
    operand, where it returns too much for memory that stays mapped as one; else nothing."""
    returned = [op.operands[0] for op in collect(function, lambda op: op.name == _EXPORT)]
    if len(returned) < 2 or sum(tensor_bytes(x, _ASSUMED) for x in returned) <= ROOM_OF_TWO:
        return []
    found = [write for value in returned if (write := _first_write(value)) is not None]
    return found if len(found) <= _MOST and len(set(found)) == len(found) else []


def _first_write(value: ir.Value) -> tuple[ir.Operation, int] | None:
    """The dispatch that first writes into what has become `value`, if nothing was in it before."""
    found = None
    while (op := defining_op(value, _BARRIER, _RESHAPE, _DISPATCH)) is not None:
        number = tied_operand(op) if op.name == _DISPATCH else 0
        if op.name == _BARRIER:
            number = ir.OpResult(value).result_number
        if number < 0:
            return None
        found = (op, number) if op.name == _DISPATCH else None
        value = op.operands[number]
    return found if defining_op(value, _EMPTY) is not None else None


def _own_memory(write: ir.Operation, number: int) -> bool:
    """Puts an allocation, before all dispatches, in the place of the `flow.tensor.empty` that is
    operand `number` of `write`; False where its size is known only between them. Needs a current
    context."""
    value = write.operands[number]
    made = defining_op(value)
    assert made is not None
    first = next(op.operation for op in write.block.operations if op.operation.name == _DISPATCH)
    sizes = list(made.operands)
    build = Builder(first, made.location).after_sizes(sizes)
    if build.anchor != first:
        return False
    known = math.prod(size for size in ranked_shape(value) if size is not None)
    count = build.constant_index(known * element_bytes(value))
    for size in sizes:
        count = build.muli(count, size)
    if sizes:
        # The driver gives no memory of no bytes.
        count = build.apply("arith.maxui", count, 1)
    memory, ready = _allocated(build, count)
    attributes = {
        "operandSegmentSizes": build.segments(1, len(sizes), 1, 0),
        "target_encoding": ir.TypeAttr.get(value.type),
    }
    taken = build.create(_IMPORT, [value.type], [memory, *sizes, ready], attributes)
    write.operands[number] = taken.results[0]
    if not is_used(value):
        erase(made)
    return True


def _allocated(build: Builder, size: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Memory of `size` bytes on the device, and the fence that says when it may be used."""

    def number(value: int, bits: int) -> ir.Value:
        return build.constant_number(value, ir.IntegerType.get_signless(bits))

    def made(name: str, kind: str, operands: list[ir.Value], **attributes: int) -> ir.Value:
        widths = {"flags": 64}
        given: dict[str, ir.Attribute] = {
            each: ir.IntegerAttr.get(ir.IntegerType.get_signless(widths.get(each, 32)), value)
            for each, value in attributes.items()
        }
        return build.create(name, [ir.Type.parse(kind)], operands, given).results[0]

    device = made("hal.devices.get", "!hal.device", [build.constant_index(0)])
    ready = made("hal.fence.create", "!hal.fence", [device], flags=0)
    at_once = made("util.null", "!hal.fence", [])
    kind = made("hal.memory_type", "i32", [], type=_DEVICE_LOCAL)
    usage = made("hal.buffer_usage", "i32", [], usage=_ANY_USAGE)
    operands = [device, number(-1, 64), at_once, ready, number(0, 64), kind, usage, size]
    return made(ALLOCATION, "!hal.buffer", operands, flags=0), ready
