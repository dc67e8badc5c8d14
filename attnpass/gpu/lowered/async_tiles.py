"""Loops that copy their next tile to shared memory while they compute on this one.

IREE's loop over the keys is: barrier, loads of K and V from global memory, stores to shared
memory, barrier, products. All threads wait for the loads. Here each tile has two buffers, or
more, and is copied asynchronously (`cp.async`): a step waits for its own tile, meets the other
threads once, starts the copies of a later tile into the buffers that the step before has read,
and computes. Projections are loops of the same form.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from ...ir import (
    Builder,
    Refusal,
    collect,
    copied_attributes,
    defining_op,
    element_bytes,
    erase_unused,
    has_ancestor,
    next_op,
    printed,
    users,
)
from .shared_buffers import (
    READ,
    WRITE,
    buffer_bytes,
    is_plain_transfer,
    minor_identity,
    replace_buffer,
    shared_buffers,
    transfers_of,
)
from .threads import Threads, places_refusal

# Bytes that a `cp.async` copies; only the last number may go round the first-level cache.
_SIZES = (4, 8, 16)
# Shared memory of a Hopper multiprocessor, which runs code for sm_80 and sm_89, too, and has more
# of it than IREE's limit; CUDA keeps some for itself of each workgroup's.
_HOPPER, _RESERVED = 233472, 1024
# Registers of a multiprocessor, over the most that a thread has: threads that always have room.
_THREADS = 65536 // 256


@dataclass(frozen=True)
class Copy:
    """A read from global memory and the write of what it read to a shared buffer."""

    read: ir.Operation
    write: ir.Operation


@dataclass(frozen=True)
class AsyncTiles:
    """What a loop copies between its two barriers, and the buffers that it copies to."""

    loop: ir.Operation
    barriers: tuple[ir.Operation, ir.Operation]
    copies: list[Copy]
    buffers: list[ir.Operation]

    @property
    def position(self) -> ir.Value:
        """The loop's induction variable."""
        return self.loop.regions[0].blocks[0].arguments[0]


def fetch_ahead(
    function: ir.Operation, threads: Threads, limit: int, most: int
) -> tuple[int, list[str]]:
    """Makes the loops of a kernel that copy tiles fetch the next ones ahead, into up to `most`
    buffers a tile, in `limit` bytes of shared memory; returns how many do, and why others do
    not."""
    loops = collect(function, lambda op: op.name == "scf.for")
    # What is asked about first is asked of the IR as IREE left it.
    found = [_tiles(loop, threads) for loop in loops if collect(loop, _is_barrier)]
    refused = [tiles.reason for tiles in found if isinstance(tiles, Refusal)]
    count = 0
    for tiles in found:
        if isinstance(tiles, Refusal):
            continue
        refusals = [_room_refusal(function, tiles, threads, limit, n) for n in range(2, most + 1)]
        if None not in refusals:
            refused.append(str(refusals[0]))
            continue
        _fetch_ahead(tiles, most - refusals[::-1].index(None))
        count += 1
    return count, list(dict.fromkeys(refused))


def _is_barrier(op: ir.Operation) -> bool:
    return op.name == "gpu.barrier"


def _room_refusal(
    function: ir.Operation, tiles: AsyncTiles, threads: Threads, limit: int, buffers: int
) -> Refusal | None:
    """Why there is no room for so many buffers a tile, or None."""
    used = sum(buffer_bytes(op) for op in shared_buffers(function) if op not in tiles.buffers)
    once = sum(buffer_bytes(op) for op in tiles.buffers)
    # Workgroups take turns on a multiprocessor: none may lose its place, unless registers
    # leave it none.
    most = max(1, _THREADS // threads.count)
    for room, reserved in ((limit, 0), (max(limit, _HOPPER), _RESERVED)):
        now, then = (room // (used + n * once + reserved) for n in (1, buffers))
        if then < min(now, most) or used + buffers * once > limit:
            words = {2: "two"}.get(buffers, buffers)
            return Refusal(
                f"{words} buffers a tile are {used + buffers * once} bytes of shared memory, of "
                f"{room}: {then} workgroups would have room instead of {now}"
            )
    return None


def _tiles(loop: ir.Operation, threads: Threads) -> AsyncTiles | Refusal:
    """What the loop copies, or why that cannot be done ahead."""
    body = [view.operation for view in loop.regions[0].blocks[0]]
    barriers = [op for op in body if _is_barrier(op)]
    if len(barriers) != 2 or len(collect(loop, _is_barrier)) != 2:
        return Refusal("its loop does not have two barriers")
    if _is_in_loop(loop):
        return Refusal("its loop is in another one")
    first, second = (body.index(op) for op in barriers)
    between, behind = body[first:second], body[second:]
    writes = collect(loop, lambda op: op.name == WRITE and printed.is_shared(op.operands[1].type))
    copies = []
    for write in writes:
        read = defining_op(write.operands[0])
        if read is None or write not in between or read not in between:
            return Refusal("its loop writes to shared memory what it computes")
        why = _copy_refusal(read, write, threads) or _repeat_refusal(read, write, loop)
        if why:
            return why
        copies.append(Copy(read, write))
    buffers = [op for write in writes if (op := defining_op(write.operands[1])) is not None]
    buffers = list(dict.fromkeys(buffers))
    for buffer in buffers:
        transfers = transfers_of(buffer) if buffer.name == "memref.alloc" else None
        if transfers is None or any(op not in writes and op not in behind for op in transfers):
            return Refusal("what it copies is read at other places than behind the barriers")
    if not copies:
        return Refusal("its loop copies nothing to shared memory")
    return AsyncTiles(loop, (barriers[0], barriers[1]), copies, buffers)


def _is_in_loop(op: ir.Operation) -> bool:
    """Whether an op is in a loop of its thread: a workgroup is done once."""
    return has_ancestor(op, "scf.for", "scf.while")


def _copy_refusal(read: ir.Operation, write: ir.Operation, threads: Threads) -> Refusal | None:
    """Why a read and a write are no asynchronous copy, or None."""
    if read.name != READ or len(users(read.results[0])) != 1:
        return Refusal("its tiles are not copied as they are")
    if not is_plain_transfer(read) or not is_plain_transfer(write):
        return Refusal("its copies have masks, leave the tensor or permute dims")
    vector, source, target = read.results[0].type, read.operands[0], write.operands[1]
    size = vector.shape[-1] * element_bytes(source)
    if any(count != 1 for count in vector.shape[:-1]) or size not in _SIZES:
        return Refusal("its threads do not copy 4, 8 or 16 bytes in a row")
    if printed.is_shared(source.type):
        return Refusal("its tiles come from shared memory")
    for buffer, column in ((source, read.operands[-2]), (target, write.operands[-1])):
        starts = _rows_are_aligned(buffer, size)
        if not starts or not is_multiple(column, vector.shape[-1], threads):
            return Refusal(f"its copies are not known to start at multiples of {size} bytes")
    return None


def _repeat_refusal(read: ir.Operation, write: ir.Operation, loop: ir.Operation) -> Refusal | None:
    """Why the places of a copy cannot be computed for another step of the loop, or None."""
    body = loop.regions[0].blocks[0]
    places = [*list(read.operands)[1:-1], *list(write.operands)[2:]]
    return places_refusal(places, body, body.arguments[0])


def _rows_are_aligned(buffer: ir.Value, size: int) -> bool:
    """Whether each row of a buffer starts at a multiple of `size` bytes."""
    kind, element = buffer.type, element_bytes(buffer)
    strides, offset = kind.get_strides_and_offset()
    unknown = ir.ShapedType.get_dynamic_stride_or_offset()
    if strides[-1] != 1 or not _starts_aligned(buffer, size):
        return False
    if offset != unknown and offset * element % size:
        return False
    if isinstance(kind.layout, ir.AffineMapAttr):
        # Rows follow each other, so that all strides are multiples of the last size.
        last = kind.rank - 1
        return not kind.is_dynamic_dim(last) and kind.shape[last] * element % size == 0
    # What is unknown of a binding's strides are multiples of those farther in.
    known = [stride for stride in strides[:-1] if stride != unknown]
    return strides[-2:-1] == known[-1:] and all(x * element % size == 0 for x in known)


def _starts_aligned(buffer: ir.Value, size: int) -> bool:
    """Whether a buffer is known to start at a multiple of `size` bytes, with the offset that
    its type does not say."""
    op = defining_op(buffer)
    if op is not None and op.name == "memref.alloc":
        # Shared buffers of whole multiples of 16 bytes lie one behind the other.
        return buffer_bytes(op) % _SIZES[-1] == 0
    if op is None or op.name != "memref.assume_alignment":
        return False
    span = defining_op(op.operands[0], "hal.interface.binding.subspan")
    if span is None:
        return False
    aligned = ir.IntegerAttr(op.attributes["alignment"]).value % size == 0
    return aligned and is_assumed_multiple(span.operands[0], size)


def is_assumed_multiple(value: ir.Value, unit: int) -> bool:
    """Whether an offset in bytes is a constant multiple, or one of those that IREE says it is."""
    op = defining_op(value)
    if op is None:
        return False
    if op.name == "arith.constant":
        return ir.IntegerAttr(op.attributes["value"]).value % unit == 0
    if op.name != "util.assume.int":
        return False
    cases = ir.ArrayAttr(op.attributes["assumptions"])[list(op.results).index(value)]
    for case in ir.ArrayAttr(cases):
        said = printed.assumptions(case)
        only = said.get("umin") == said.get("umax", -1) and said["umax"] % unit == 0
        if not only and said.get("udiv", 1) % unit:
            return False
    return len(ir.ArrayAttr(cases)) > 0


def is_multiple(value: ir.Value, unit: int, threads: Threads) -> bool:
    """Whether an index is known to be a multiple of `unit`, in all threads and loop steps."""
    known = threads.values(value)
    if known is not None:
        return all(number % unit == 0 for number in known)
    op = defining_op(value)
    if op is None:
        return _counts_in(ir.BlockArgument(value), unit, threads)
    if op.name == "arith.addi":
        return all(is_multiple(operand, unit, threads) for operand in op.operands)
    if op.name != "affine.linearize_index":
        return False
    stride, sizes = 1, list(op.attributes["static_basis"])[::-1]
    for number, index in enumerate(reversed(op.operands)):
        if stride % unit and not is_multiple(index, unit, threads):
            return False
        stride *= sizes[number] if number < len(sizes) else 1
    return True


def _counts_in(argument: ir.BlockArgument, unit: int, threads: Threads) -> bool:
    """Whether a loop counts in multiples of `unit`, from such a one."""
    loop, number = argument.owner.owner.operation, argument.arg_number
    if loop.name == "scf.for" and number == 0:
        return all(is_multiple(loop.operands[i], unit, threads) for i in (0, 2))
    if loop.name == "scf.forall":
        bounds = [loop.attributes[name] for name in ("staticLowerBound", "staticStep")]
        # A size that is known at run time only is no multiple of anything.
        return all(number < len(b) and b[number] % unit == 0 for b in bounds)
    return False


def _fetch_ahead(tiles: AsyncTiles, count: int) -> None:
    """Gives each tile `count` buffers, of which all but one are on their way."""
    loop, (first, second) = tiles.loop, tiles.barriers
    low, high, step = list(loop.operands)[:3]
    several = {
        op.results[0]: replace_buffer(op, [count, *op.results[0].type.shape])
        for op in tiles.buffers
    }
    before = Builder(loop)
    groups: list[ir.Value] = []
    for number in range(count - 1):
        position = _steps_on(before, low, step, number)
        there = None if _is_below(position, high) else before.compare("slt", position, high)
        slot = before.constant_index(number)
        groups.append(_start(before, tiles, several, position, slot, there))
    # Groups end in the order in which they began: the oldest one is this step's tile.
    _wait(Builder(first), groups[0], count - 2)
    build = Builder(second)
    done = build.apply("arith.divui", build.subi(tiles.position, low), step)
    slot, free = (
        build.apply("arith.remui", turn, build.constant_index(count))
        for turn in (done, build.addi(done, build.constant_index(count - 1)))
    )
    following = _steps_on(build, tiles.position, step, count - 1)
    # The last steps copy their own tile once more, which nobody reads: that takes no branch.
    is_there = build.compare("slt", following, high)
    following = build.select(is_there, following, tiles.position)
    _start(build, tiles, several, following, free)
    _wait(Builder(next_op(loop)), groups[0], 0)
    reads = [
        _read_slot(user, new, slot)
        for old, new in several.items()
        for user in users(old)
        if user.name == READ
    ]
    writes = [copy.write for copy in tiles.copies]
    erase_unused([*writes, *(copy.read for copy in tiles.copies), *reads, second])


def _steps_on(build: Builder, position: ir.Value, step: ir.Value, count: int) -> ir.Value:
    """The loop's position some steps later."""
    for _ in range(count):
        position = build.addi(position, step)
    return position


def _is_below(position: ir.Value, high: ir.Value) -> bool:
    """Whether one index is known to be less than another one."""
    numbers = [Threads(1).values(value) for value in (position, high)]
    return None not in numbers and numbers[0] < numbers[1]  # type: ignore[operator]


def _wait(build: Builder, group: ir.Value, left: int) -> None:
    """Waits until no more than `left` groups are on their way: of which one the token is does
    not matter."""
    build.create("nvgpu.device_async_wait", [], [group], {"numGroups": build.integer(left, 32)})


def _start(
    build: Builder,
    tiles: AsyncTiles,
    several: dict[ir.Value, ir.Value],
    position: ir.Value,
    slot: ir.Value,
    there: ir.Value | None = None,
) -> ir.Value:
    """Starts the copies of the tile that the loop has at `position`, into buffers `slot`;
    where `there` is false, nothing is read. Returns what to wait for."""
    context = build.anchor.context
    index = ir.IndexType.get(context)
    token = ir.Type.parse("!nvgpu.device.async.token", context)
    values = {tiles.position: position}
    started = []
    for pair in tiles.copies:
        source, *sources, _ = pair.read.operands
        _, target, *targets = pair.write.operands
        sources = [_at_step(x, values, build, tiles.loop) for x in sources]
        targets = [slot, *(_at_step(x, values, build, tiles.loop) for x in targets)]
        count = pair.read.results[0].type.shape[-1]
        elements = []
        if there is not None:
            counts = [build.constant_index(number) for number in (count, 0)]
            elements = [build.select(there, *counts)]
        segments = [1, len(targets), 1, len(sources), len(elements)]
        attributes: dict[str, ir.Attribute] = {
            "dstElements": ir.IntegerAttr.get(index, count),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments, context),
        }
        if count * element_bytes(source) == _SIZES[-1]:
            attributes["bypassL1"] = ir.UnitAttr.get(context)
        operands = [several[target], *targets, source, *sources, *elements]
        copy = build.create("nvgpu.device_async_copy", [token], operands, attributes)
        started.append(copy.results[0])
    return build.create("nvgpu.device_async_create_group", [token], started).results[0]


def _at_step(
    value: ir.Value, values: dict[ir.Value, ir.Value], build: Builder, loop: ir.Operation
) -> ir.Value:
    """`value` at another position of the loop; `values` holds what is known there already."""
    op = defining_op(value)
    if value not in values and op is not None and op.block == loop.regions[0].blocks[0]:
        operands = [_at_step(operand, values, build, loop) for operand in op.operands]
        copy = build.copy(op)
        for number, operand in enumerate(operands):
            copy.operands[number] = operand
        values.update(zip(op.results, copy.results, strict=True))
    return values.get(value, value)


def _read_slot(read: ir.Operation, buffers: ir.Value, slot: ir.Value) -> ir.Operation:
    """Makes a read from buffer `slot` of two; returns the read that it replaces."""
    rank, vector = buffers.type.rank, read.results[0].type
    attributes = copied_attributes(read)
    kept = minor_identity(rank, vector.rank, read.context)
    attributes["permutation_map"] = ir.AffineMapAttr.get(kept)
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([1, rank, 1, 0], read.context)
    operands = [buffers, slot, *list(read.operands)[1:]]
    new = Builder(read).create(read.name, [vector], operands, attributes)
    read.results[0].replace_all_uses_with(new.results[0])
    return read
