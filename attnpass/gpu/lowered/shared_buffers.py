"""Buffers in shared memory: which a kernel has, and rows that are read without conflicts.

32 threads read 4 bytes each of eight rows at once, or eight threads 16 bytes each
(`ldmatrix`): that takes each of the 32 banks of 4 bytes once if the rows lie an odd number of
16 bytes apart. IREE 3.13 pads rows by 8 bytes: two threads read a bank, and 16 bytes are
stored in two halves.
"""

from __future__ import annotations

import math

from iree.compiler import ir

from ...ir import Builder, collect, copied_attributes, element_bytes, printed, users
from .threads import Threads

READ, WRITE = "vector.transfer_read", "vector.transfer_write"
_BYTES = 16


def shared_buffers(function: ir.Operation) -> list[ir.Operation]:
    """The buffers that a kernel allocates in shared memory."""
    return collect(
        function,
        lambda op: op.name == "memref.alloc" and printed.is_shared(op.results[0].type),
    )


def buffer_bytes(op: ir.Operation) -> int:
    """Bytes of a buffer of known size."""
    return math.prod(op.results[0].type.shape) * element_bytes(op.results[0])


def are_aligned(function: ir.Operation) -> bool:
    """Whether each buffer in shared memory starts at a multiple of 16 bytes: they lie one behind
    the other."""
    kinds = [(op, op.results[0].type) for op in shared_buffers(function)]
    return all(kind.has_static_shape and buffer_bytes(op) % _BYTES == 0 for op, kind in kinds)


def transfers_of(buffer: ir.Operation) -> list[ir.Operation] | None:
    """The reads and writes of a buffer; None if something else is done with it or its size is
    known only at run time."""
    if not buffer.results[0].type.has_static_shape:
        return None
    ends = _ends(buffer)
    rest = [user for user in users(buffer.results[0]) if user not in ends]
    views = [op for op in rest if op.name == "memref.subview"]
    # Of IREE's padding a view is left that only ends the buffer's life.
    if any(user.name != "memref.dealloc" for view in views for user in users(view.results[0])):
        return None
    transfers = [op for op in rest if op not in views]
    return transfers if all(op.name in (READ, WRITE) for op in transfers) else None


def is_plain_transfer(op: ir.Operation) -> bool:
    """Whether a read or write of a vector has no mask, permutes nothing and stays inside."""
    reads = op.name == READ
    buffer, vector = (op.operands[0], op.results[0]) if reads else (op.operands[1], op.operands[0])
    if not isinstance(buffer.type, ir.MemRefType):
        return False
    rank = buffer.type.rank
    inside = all(ir.BoolAttr(flag).value for flag in ir.ArrayAttr(op.attributes["in_bounds"]))
    wanted = ir.AffineMapAttr.get(minor_identity(rank, vector.type.rank, op.context))
    # Buffer and indices, and the padding of a read or the vector of a write.
    unmasked = len(op.operands) == rank + 2
    return inside and unmasked and op.attributes["permutation_map"] == wanted


def minor_identity(rank: int, kept: int, context: ir.Context) -> ir.AffineMap:
    """The map from `rank` dims to the last `kept` of them."""
    return ir.AffineMap.get_identity(rank, context).get_submap(list(range(rank - kept, rank)))


def space_rows(function: ir.Operation, threads: Threads, limit: int) -> int:
    """Makes the rows of shared buffers lie an odd number of 16 bytes apart, as far as all of
    them fit into `limit` bytes; returns how many buffers changed. The old ones stay behind,
    without use."""
    buffers = shared_buffers(function)
    if not all(op.results[0].type.has_static_shape for op in buffers):
        return 0
    room = limit - sum(buffer_bytes(op) for op in buffers)
    count = 0
    for op in buffers:
        transfers = transfers_of(op)
        if not transfers or op.results[0].type.rank < 2:
            continue
        if any(_reads_single_bytes(transfer) for transfer in transfers):
            continue
        shape = list(op.results[0].type.shape)
        columns = _spaced(op, transfers, threads)
        more = math.prod(shape[:-1]) * (columns - shape[-1]) * element_bytes(op.results[0])
        if columns == shape[-1] or more > room:
            continue
        room -= more
        count += 1
        new = replace_buffer(op, [*shape[:-1], columns])
        op.results[0].replace_all_uses_with(new)
    return count


def _reads_single_bytes(op: ir.Operation) -> bool:
    """Whether an op reads a column of 8-bit elements, as of row-major V: each thread bytes of
    four rows, which are in banks of their own where IREE's padding is, and no longer with ours
    (measured: 7% slower)."""
    return (
        op.name == READ and element_bytes(op.operands[0]) == 1 and op.results[0].type.shape[-1] == 1
    )


def _spaced(buffer: ir.Operation, transfers: list[ir.Operation], threads: Threads) -> int:
    """The least width of rows that holds what is read and written of them."""
    size = element_bytes(buffer.results[0])
    used = max(_columns(op, threads) or buffer.results[0].type.shape[-1] for op in transfers)
    steps = -(-used * size // _BYTES)
    return (steps + 1 - steps % 2) * _BYTES // size


def _columns(op: ir.Operation, threads: Threads) -> int | None:
    """The width of rows that a read or write needs; None where it is not known."""
    reads = op.name == READ
    values = threads.values(op.operands[-2 if reads else -1])
    if values is None or not is_plain_transfer(op):
        return None
    vector = op.results[0] if reads else op.operands[0]
    return max(values) + (vector.type.shape[-1] if vector.type.rank else 1)


def replace_buffer(buffer: ir.Operation, shape: list[int]) -> ir.Value:
    """A buffer of another shape, with the end of the old one's life; its reads and writes are
    left to the caller."""
    old = buffer.results[0].type
    kind = ir.MemRefType.get(
        shape, old.element_type, memory_space=old.memory_space, loc=buffer.location
    )
    new = Builder(buffer).create(buffer.name, [kind], [], copied_attributes(buffer)).results[0]
    for end in _ends(buffer):
        end.operands[0] = new
    return new


def _ends(buffer: ir.Operation) -> list[ir.Operation]:
    """The ops that end a buffer's life, directly or through a view."""
    direct = users(buffer.results[0])
    views = [op for op in direct if op.name == "memref.subview"]
    through = [user for view in views for user in users(view.results[0])]
    return [op for op in (*direct, *through) if op.name == "memref.dealloc"]
