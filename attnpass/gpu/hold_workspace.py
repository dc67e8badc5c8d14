"""attn-hold-workspace: what a call computes in stays allocated between calls, for CUDA.

IREE 3.13's CUDA driver takes the memory of a call from a pool that gives everything back to the
system as soon as the call has ended: 2 us a MB and 90 us beside that on an H200, at each call. So
the module holds its workspace: one allocation, made when it is loaded, for what all of its calls
put into memory between their kernels.

One is enough for all. What is held is read and written within one list of commands, and the driver
has one stream, on which those of all calls run one behind the other.

The pool maps memory in pieces of 32 MB and keeps each that something lies in. So the workspace ends
where its last piece has room for what a call returns, which is then not mapped anew either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from ..ir import Builder, collect, defining_op, fill_region, users
from ..machines import backends
from ..passes import Pass, PassContext

_ALLOCATION, _RELEASE = "stream.resource.alloca", "stream.resource.dealloca"
_COMMANDS = "stream.cmd.execute"
_AWAIT, _NO_WAIT = "stream.timepoint.await", "stream.timepoint.immediate"
_TRANSIENT, _EXTERNAL = "!stream.resource<transient>", "!stream.resource<external>"
_TIMEPOINT = "!stream.timepoint"
_NAME = "__attn_workspace"
# What the pool maps at once.
_PIECE = 32 << 20
# Sizes in the pool are rounded up to this.
_STEP = 2 << 20
# Beyond it a call takes far longer than its memory, which others may need.
_MOST = 1 << 30


@dataclass(frozen=True)
class _HeldMemory:
    """Memory of a known size that one list of commands computes in."""

    allocation: ir.Operation
    commands: ir.Operation
    release: ir.Operation
    size: int


def hold_workspace(module: ir.Operation) -> int:
    """Has each list of commands compute in one allocation that the module holds; returns its
    bytes, 0 where there is nothing to hold. Needs a current context."""
    functions = collect(module, lambda op: op.name == "util.func", bodies=False)
    allocations = [collect(one, lambda op: op.name == _ALLOCATION) for one in functions]
    found = [op for each in allocations for op in each]
    if len({str(_affinity(op)) for op in found}) != 1:
        return 0
    uses = _one_a_list([use for use in map(_use, found) if use is not None])
    if not uses:
        return 0
    returned = max(sum(map(_returned_bytes, each)) for each in allocations)
    size = _held_bytes(max(use.size for use in uses), returned)
    _allocate(functions[0], size, found[0])
    for use in uses:
        _replace(use)
    return size


def _affinity(op: ir.Operation) -> ir.Attribute | None:
    return op.attributes.get("affinity")


def _use(allocation: ir.Operation) -> _HeldMemory | None:
    """What an allocation is for, if one list of commands alone reads and writes it."""
    memory, size = allocation.results[0], _known_bytes(allocation)
    names = sorted(op.name for op in users(memory))
    if str(memory.type) != _TRANSIENT or names != [_COMMANDS, _RELEASE] or not 0 < size <= _MOST:
        return None
    commands, release = sorted(users(memory), key=lambda op: op.name)
    return _HeldMemory(allocation, commands, release, size)


def _one_a_list(uses: Sequence[_HeldMemory]) -> list[_HeldMemory]:
    """The first of those that one list of commands has: others would be the same memory."""
    found: list[_HeldMemory] = []
    for use in uses:
        if all(use.commands != other.commands for other in found):
            found.append(use)
    return found


def _known_bytes(allocation: ir.Operation) -> int:
    """How much is allocated; 0 where that is known only at run time."""
    made = defining_op(allocation.operands[0])
    if made is None or made.name != "arith.constant":
        return 0
    return ir.IntegerAttr(made.attributes["value"]).value


def _returned_bytes(allocation: ir.Operation) -> int:
    return _known_bytes(allocation) if str(allocation.results[0].type) == _EXTERNAL else 0


def _held_bytes(used: int, returned: int) -> int:
    """A size for the workspace whose last piece has room for what is returned, if one piece has."""
    pieces = math.ceil(used / _PIECE)
    room = _PIECE - _STEP
    if returned <= pieces * _PIECE - used or returned > room:
        return max(used, _STEP)
    return pieces * _PIECE + _STEP


def _allocate(before: ir.Operation, size: int, like: ir.Operation) -> None:
    """Adds a global with memory that is allocated when the module is loaded."""
    context = before.context
    kinds = [ir.Type.parse(_TRANSIENT), ir.Type.parse(_TIMEPOINT)]
    build = Builder(before)
    attributes = {
        "sym_name": build.string(_NAME),
        "sym_visibility": build.string("private"),
        "type": ir.TypeAttr.get(kinds[0]),
    }
    build.create("util.global", [], [], attributes)
    nothing = ir.TypeAttr.get(ir.FunctionType.get([], [], context))
    initializer = build.create("util.initializer", [], [], {"function_type": nothing}, regions=1)

    def fill(inner: Builder, _: Sequence[ir.Value]) -> list[ir.Value]:
        bytes_ = inner.constant_index(size)
        where = _affinity(like)
        on = {} if where is None else {"affinity": where}
        memory, made = inner.create(_ALLOCATION, kinds, [bytes_], on).results
        parts = {
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, 1], context),
            "sync": ir.UnitAttr.get(context),
        }
        waited = inner.create(_AWAIT, kinds[:1], [memory, bytes_, made], {**parts, **on})
        inner.create("util.global.store", [], [waited.results[0]], {"global": _symbol(context)})
        return []

    fill_region(initializer, [], "util.return", fill)


def _replace(use: _HeldMemory) -> None:
    """Has the list of commands use the workspace, and wait for what the allocation waited for."""
    allocation, release = use.allocation, use.release
    build = Builder(allocation)
    memory, ready = allocation.results
    held = build.create("util.global.load", [memory.type], [], {"global": _symbol(memory.context)})
    memory.replace_all_uses_with(held.results[0])
    ready.replace_all_uses_with(_awaited(build, allocation, 1))
    release.results[0].replace_all_uses_with(_awaited(Builder(release), release, 2))
    release.erase()
    allocation.erase()


def _awaited(build: Builder, op: ir.Operation, number: int) -> ir.Value:
    """The timepoint that is operand `number`, or one that has passed."""
    if len(op.operands) > number:
        return op.operands[number]
    return build.create(_NO_WAIT, [ir.Type.parse(_TIMEPOINT)], []).results[0]


def _symbol(context: ir.Context) -> ir.Attribute:
    return ir.FlatSymbolRefAttr.get(_NAME, context)


@dataclass(frozen=True)
class HoldWorkspace(Pass):
    """Allocates what calls compute in once, when the module is loaded, instead of at each call.

    Where one list of commands alone uses it, its size is known and at most 1 GB. The module then
    holds 32 MB or more of the GPU's memory for as long as it is loaded. IREE 3.13's CUDA driver
    has one stream, so calls do not meet there. `--attn-workspace=false` leaves it.
    """

    name: ClassVar[str] = "attn-hold-workspace"
    summary: ClassVar[str] = "CUDA: the memory that calls compute in stays allocated between them"
    phase: ClassVar[str] = "stream"
    backends: ClassVar[tuple[str, ...]] = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if {*backends(module)} != {"cuda"}:
            return False
        size = hold_workspace(module)
        if size:
            context.report.note(
                f"the module holds a workspace of {math.ceil(size / 1e6)} MB, which IREE 3.13's "
                "CUDA driver would map into memory at each call",
                bytes=size,
            )
        return bool(size)
