"""attn-hold-workspace: what a call computes in stays allocated between calls, for CUDA.

IREE 3.13's CUDA driver takes the memory of a call from a pool that gives everything back to the
system as soon as the call has ended: 2 us a MB and 90 us beside that on an H200, at each call. So
the module holds its workspace: one allocation for what all of its calls put into memory between
their kernels, made when the module is loaded, and made anew by a call that needs more where sizes
are known only then.

One is enough for all. What is held is read and written within one list of commands, and the driver
has one stream, on which those of all calls run one behind the other.

The pool maps memory in segments of 32 MB and keeps each that something lies in. What a call returns
has rooms of its own, each a segment whose end the module holds, or several whose ends it holds:
what is up to 60 MB is not mapped anew either, and of what is larger 64 MB are not (on an H200 34 MB
take 8 us in place of 263, 67 MB 101 in place of 362).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import Builder, collect, erase, users, whole_number
from ..ir.globals import declare_global, initialize, load_global, store_global
from ..machines import backends
from ..passes import Pass, PassContext

_ALLOCATION, _RELEASE = "stream.resource.alloca", "stream.resource.dealloca"
# Of `attn-own-results`: memory for a result.
ALLOCATION = "hal.device.queue.alloca"
_COMMANDS = "stream.cmd.execute"
_AWAIT, _NO_WAIT = "stream.timepoint.await", "stream.timepoint.immediate"
_TRANSIENT, _EXTERNAL = "!stream.resource<transient>", "!stream.resource<external>"
_TIMEPOINT = "!stream.timepoint"
_NAME = "__attn_workspace"
_BYTES, _END = f"{_NAME}_bytes", f"{_NAME}_end"
# What the pool maps at once.
_SEGMENT = 32 << 20
# Sizes in the pool are rounded up to this; what is held of a segment so that it stays mapped.
_STEP = 2 << 20
# What fits into a room of one segment, one end of which is held; both are of several.
_ROOM = _SEGMENT - _STEP
# What fits into one of two segments, both of which stay mapped.
ROOM_OF_TWO = 2 * _ROOM
# The largest workspace: what needs more runs far longer than memory takes to map, and others may
# need that memory.
_MOST = 1 << 30
# Segments that are kept mapped for results, at most.
_RESULT_SEGMENTS = 8


class HoldWorkspace(Pass):
    """Allocates once, not at each call, what one list of commands alone computes in, up to 1 GB:
    the module then holds 32 MB or more of the GPU's memory. `--attn-workspace=false` leaves it."""

    name = "attn-hold-workspace"
    summary = "CUDA: the memory that calls compute in stays allocated between them"
    phase = "stream"
    backends = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if {*backends(module)} != {"cuda"}:
            return False
        workspace = hold_workspace(module)
        if workspace is not None:
            context.report.note(
                f"the module holds {workspace}: IREE 3.13's CUDA driver would map it at each call",
                bytes=workspace.size + workspace.kept_segments * _SEGMENT,
            )
        return workspace is not None


@dataclass(frozen=True)
class _Use:
    """An allocation that one list of commands computes in, and its release; `size` is 0 where only
    a call knows it."""

    allocation: ir.Operation
    commands: ir.Operation
    release: ir.Operation
    size: int


@dataclass(frozen=True)
class Workspace:
    """What a module holds: bytes when it is loaded, whether calls may make it grow, and rooms for
    results, each by its number of segments of memory."""

    size: int
    grows: bool
    rooms: Sequence[int]

    @property
    def kept_segments(self) -> int:
        return sum(map(_kept, self.rooms))

    def __str__(self) -> str:
        more = ", and more once a call needs it" if self.grows else ""
        kept = self.kept_segments
        room = f"; {kept * _SEGMENT >> 20} MB for results" if kept else ""
        return f"a workspace of {math.ceil(self.size / 1e6)} MB{more}{room}"


def hold_workspace(module: ir.Operation) -> Workspace | None:
    """Has each list of commands compute in one allocation that the module holds; None where there
    is nothing to hold, or more than one device. Needs a current context."""
    functions = collect(module, lambda op: op.name == "util.func", bodies=False)
    allocations = [collect(one, lambda op: op.name == _ALLOCATION) for one in functions]
    found = [op for each in allocations for op in each]
    affinities = {str(_affinity(op)): _affinity(op) for op in found}
    uses = _one_for_each_list([use for use in map(_read_use, found) if use is not None])
    returned = [sizes for each in functions if (sizes := _returned_bytes(each))]
    if len(affinities) > 1 or (not uses and not returned):
        return None
    size = max([_STEP, *(use.size for use in uses)])
    grows = not all(use.size for use in uses)
    # Results have room in what the workspace leaves of its last segment; one that grows moves.
    rest = 0 if grows else -size % _SEGMENT
    # Twice, as callers often hold what the call before has returned.
    rooms = [_at_most(_RESULT_SEGMENTS, _rooms(sizes * 2, rest)) for sizes in returned]
    workspace = Workspace(size, grows, max(rooms, key=lambda one: sum(map(_kept, one)), default=[]))
    affinity = next(iter(affinities.values()), module.attributes.get("stream.affinity.default"))
    _allocate(functions[0], workspace, affinity, used=bool(uses))
    for use in uses:
        _replace(use)
    return workspace


def _affinity(op: ir.Operation) -> ir.Attribute | None:
    return op.attributes.get("affinity")


def _read_use(allocation: ir.Operation) -> _Use | None:
    """What an allocation is for, if one list of commands alone reads and writes it."""
    memory, size = allocation.results[0], whole_number(allocation.operands[0])
    names = sorted(op.name for op in users(memory))
    if str(memory.type) != _TRANSIENT or names != [_COMMANDS, _RELEASE]:
        return None
    if size is not None and not 0 < size <= _MOST:
        return None
    commands, release = sorted(users(memory), key=lambda op: op.name)
    return _Use(allocation, commands, release, size or 0)


def _one_for_each_list(uses: Sequence[_Use]) -> list[_Use]:
    """The first of those that one list of commands has: others would be the same memory."""
    found: list[_Use] = []
    for use in uses:
        if all(use.commands != other.commands for other in found):
            found.append(use)
    return found


def _returned_bytes(function: ir.Operation) -> list[int]:
    """The sizes of what a function returns; where a call knows it what two segments hold."""

    def size(op: ir.Operation) -> ir.Value | None:
        if op.name == _ALLOCATION and str(op.results[0].type) == _EXTERNAL:
            return op.operands[0]
        return op.operands[-1] if op.name == ALLOCATION else None

    sizes = [size(op) for op in collect(function, lambda op: size(op) is not None)]
    known = (None if value is None else whole_number(value) for value in sizes)
    return [ROOM_OF_TWO if number is None else number for number in known]


def _rooms(sizes: Sequence[int], rest: int) -> list[int]:
    """Rooms for results of these sizes, each by its segments, beside the `rest` bytes of a segment
    that has other memory."""
    rooms, left = [0], [rest]
    for size in sorted(sizes, reverse=True):
        size = math.ceil(size / _STEP) * _STEP
        place = next((at for at, space in enumerate(left) if space >= size), None)
        if place is None:
            segments = 1 if size <= _ROOM else math.ceil((size + 2 * _STEP) / _SEGMENT)
            rooms.append(segments)
            left.append(_space(segments) - size)
        else:
            left[place] -= size
    return rooms[1:]


def _space(segments: int) -> int:
    """What fits into a room of so many segments."""
    return _ROOM if segments == 1 else segments * _SEGMENT - 2 * _STEP


def _kept(segments: int) -> int:
    """How many segments of a room stay mapped: those with an end that is held."""
    return min(segments, 2)


def _at_most(segments: int, rooms: Iterable[int]) -> list[int]:
    """The first rooms, of which so many segments stay mapped at most."""
    taken: list[int] = []
    for room in rooms:
        if sum(map(_kept, taken)) + _kept(room) <= segments:
            taken.append(room)
    return taken


class _Memory:
    """Allocations where a builder stands, with all that they need."""

    def __init__(self, build: Builder, affinity: ir.Attribute | None):
        self.build = build
        self.on = {} if affinity is None else {"affinity": affinity}

    def made(self, size: ir.Value) -> ir.Value:
        """Memory of `size` bytes, waited for."""
        kinds = [ir.Type.parse(_TRANSIENT), ir.Type.parse(_TIMEPOINT)]
        memory, ready = self.build.create(_ALLOCATION, kinds, [size], self.on).results
        return self._awaited(memory, size, ready)

    def released(self, memory: ir.Value, size: ir.Value) -> None:
        self.build.create(_RELEASE, [ir.Type.parse(_TIMEPOINT)], [memory, size], self.on)

    def _awaited(self, memory: ir.Value, size: ir.Value, ready: ir.Value) -> ir.Value:
        parts = {
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, 1]),
            "sync": ir.UnitAttr.get(),
        }
        op = self.build.create(_AWAIT, [memory.type], [memory, size, ready], {**parts, **self.on})
        return op.results[0]


def _allocate(
    before: ir.Operation, workspace: Workspace, affinity: ir.Attribute | None, used: bool
) -> None:
    """Adds globals with memory that is allocated when the module is loaded; whether the workspace
    is `used` by calls, or only keeps room for results.

    Each room for results is filled but for its ends, which are held, before anything is given
    back: so none lies in another's.
    """
    build = Builder(before)
    transient = ir.Type.parse(_TRANSIENT)
    # Public is what nobody reads, or IREE would leave it out.
    visibility = "private" if used else "public"
    declare_global(build, _NAME, transient, visibility=visibility, mutable=workspace.grows)
    if workspace.grows:
        declare_global(build, _BYTES, ir.IndexType.get())
    ends = [f"{_END}_{number}" for number in range(workspace.kept_segments)]
    for name in ends:
        declare_global(build, name, transient, visibility="public", mutable=False)

    def fill(inner: Builder) -> None:
        memory = _Memory(inner, affinity)
        fillers: list[tuple[ir.Value, ir.Value]] = []

        def filled(size: int) -> None:
            count = inner.constant_index(size)
            fillers.append((memory.made(count), count))

        size = inner.constant_index(workspace.size)
        store_global(inner, _NAME, memory.made(size))
        if workspace.grows:
            store_global(inner, _BYTES, size)
        rest = -workspace.size % _SEGMENT // _STEP * _STEP
        if ends and rest:
            filled(rest)
        names = iter(ends)

        def held() -> None:
            store_global(inner, next(names), memory.made(inner.constant_index(_STEP)))

        for room in workspace.rooms:
            if room > 1:
                held()
            filled(_space(room))
            held()
        for each in fillers:
            memory.released(*each)

    initialize(build, fill)


def _replace(use: _Use) -> None:
    """Has the list of commands use the workspace, and wait for what the allocation waited for."""
    allocation, release = use.allocation, use.release
    build = Builder(allocation)
    memory, ready = allocation.results
    if use.size:
        ours = load_global(build, _NAME, memory.type)
    else:
        ours = _grown(build, allocation.operands[0], memory.type, _affinity(allocation))
    memory.replace_all_uses_with(ours)
    ready.replace_all_uses_with(_awaited(build, allocation, 1))
    release.results[0].replace_all_uses_with(_awaited(Builder(release), release, 2))
    erase(release)
    erase(allocation)


def _grown(
    build: Builder, size: ir.Value, kind: ir.Type, affinity: ir.Attribute | None
) -> ir.Value:
    """The workspace with `size` bytes or more, made anew where it has less; memory of this call's
    own where that would be more than a module holds.

    Who computes in the old one holds it until it is done. Whole segments do not lie in the room for
    results.
    """

    def anew(inner: Builder) -> list[ir.Value]:
        whole = inner.andi(inner.addi(size, _SEGMENT - 1), -_SEGMENT)
        made = _Memory(inner, affinity).made(whole)

        def keep(innermost: Builder) -> list[ir.Value]:
            store_global(innermost, _NAME, made)
            store_global(innermost, _BYTES, whole)
            return []

        fits = inner.compare("ule", whole, inner.constant_index(_MOST))
        inner.conditional(fits, [], keep, lambda _: [])
        return [made]

    def held(inner: Builder) -> list[ir.Value]:
        return [load_global(inner, _NAME, kind)]

    enough = build.compare("ule", size, load_global(build, _BYTES, size.type))
    return build.conditional(enough, [kind], held, anew)[0]


def _awaited(build: Builder, op: ir.Operation, number: int) -> ir.Value:
    """The timepoint that is operand `number`, or one that has passed."""
    if len(op.operands) > number:
        return op.operands[number]
    return build.create(_NO_WAIT, [ir.Type.parse(_TIMEPOINT)], []).results[0]
