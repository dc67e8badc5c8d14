"""Tiles that a loop copies to shared memory anew in each step, though they stay the same.

Over an unknown number of keys IREE 3.13 leaves the copy of Q in the loop, and multiplies what it
reads of it by the scale there, too. Here Q is copied once, before the loop, and scaled on the
way.
"""

from __future__ import annotations

from iree.compiler import ir

from ...ir import Builder, collect, defining_op, erase_unused, printed
from .shared_buffers import READ, WRITE, shared_buffers, transfers_of
from .threads import places_refusal

_BARRIER = "gpu.barrier"


def copy_before_loops(function: ir.Operation) -> int:
    """Copies tiles that a kernel's loops do not change before these; returns how many."""
    count = 0
    for loop in collect(function, lambda op: op.name == "scf.for"):
        body = [view.operation for view in loop.regions[0].blocks[0]]
        barriers = [op for op in body if op.name == _BARRIER]
        if len(barriers) != 2 or _writes_elsewhere(loop):
            continue
        first, second = (body.index(op) for op in barriers)
        copied = [
            (buffer, writes)
            for buffer in shared_buffers(function)
            if (writes := _same_writes(buffer, body[first:second], body[second:], loop))
        ]
        if not copied:
            continue
        # What was read of the buffers before is done with, and what is written is there.
        build, known = Builder(loop), {}
        build.copy(barriers[0])
        for _, writes in copied:
            for write in writes:
                _repeat_op(write, known, build, loop)
        build.copy(barriers[0])
        erase_unused([write for _, writes in copied for write in writes])
        count += len(copied)
    return count


def _writes_elsewhere(loop: ir.Operation) -> bool:
    """Whether a loop writes to memory that is not shared."""
    writes = collect(loop, lambda op: op.name == WRITE)
    return any(not printed.is_shared(op.operands[1].type) for op in writes)


def _same_writes(
    buffer: ir.Operation,
    between: list[ir.Operation],
    behind: list[ir.Operation],
    loop: ir.Operation,
) -> list[ir.Operation]:
    """The writes of a buffer, where all are copies between the loop's barriers that each step
    repeats, and all reads are behind them; else none."""
    transfers = transfers_of(buffer) or []
    writes = [op for op in transfers if op.name == WRITE]
    reads = [op for op in transfers if op.name == READ]
    if any(op not in between for op in writes) or any(op not in behind for op in reads):
        return []
    return writes if all(_is_same(op, loop) for op in writes) else []


def _is_same(write: ir.Operation, loop: ir.Operation) -> bool:
    """Whether each step of the loop writes what the first one does, straight from a buffer that
    is not shared."""
    read = defining_op(write.operands[0], READ)
    if read is None or printed.is_shared(read.operands[0].type):
        return False
    block = loop.regions[0].blocks[0]
    places = [*list(write.operands)[1:], *read.operands]
    return read.block == block and places_refusal(places, block) is None


def _repeat_op(
    op: ir.Operation, known: dict[ir.Value, ir.Value], build: Builder, loop: ir.Operation
) -> None:
    """Makes an op of the loop's body, and what it needs of that body, once more."""
    block = loop.regions[0].blocks[0]
    for operand in op.operands:
        maker = defining_op(operand)
        if maker is not None and maker.block == block and operand not in known:
            _repeat_op(maker, known, build, loop)
    copy = build.copy(op, [known.get(operand, operand) for operand in op.operands])
    known.update(zip(op.results, copy.results, strict=True))
