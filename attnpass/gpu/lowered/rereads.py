"""Fragments that a loop reads from shared memory anew in each step, where registers cannot hold
them.

IREE reads Q's fragments once, before the loop over the keys, and multiplies them by the scale.
With a wide head dim they and the loop's sums are more than a thread has registers for: the
compiler puts them to memory and gets them back in each step. Shared memory has them anyway: the
scale goes to where Q is written there, and the loop reads what it needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from iree.compiler import ir

from ...ir import (
    Builder,
    collect,
    copied_attributes,
    defining_op,
    element_bytes,
    enclosing,
    printed,
    splat_number,
    users,
)
from .shared_buffers import READ, WRITE, transfers_of

# Registers of a multiprocessor, which threads get in groups of so many, the most that a thread
# has, and the share of them that sums, scores and fragments may take: the rest is for K, V and
# addresses.
_REGISTERS, _GROUP, _MOST, _SHARE = 65536, 128, 255, 0.9
_REGISTER_BYTES = 4
_PLACED = ("vector.transpose", "vector.shape_cast", "vector.insert_strided_slice")
_SCALED, _PRODUCT = "arith.mulf", "nvgpu.mma.sync"


@dataclass
class Origin:
    """The ops that make a vector of what lies in a shared buffer, operands first, the reads
    among them, and the multiplication by one number, if there is one."""

    ops: list[ir.Operation] = field(default_factory=list)
    reads: list[ir.Operation] = field(default_factory=list)
    scaling: ir.Operation | None = None
    factor: ir.Value | float | None = None


def read_in_loops(function: ir.Operation, threads: int) -> int:
    """Makes the loops of a kernel of so many threads read what these have no registers for;
    returns how many reads that takes. The old reads stay behind, without use."""
    room = min(_MOST, _REGISTERS // (-(-threads // _GROUP) * _GROUP)) * _SHARE
    count = 0
    for loop in collect(function, lambda op: op.name == "scf.for"):
        if not collect(loop, lambda op: op.name == _PRODUCT):
            continue
        taken = sum(_registers(op.results[0]) for op in collect(loop, _makes_scores))
        taken += sum(_registers(value) for value in list(loop.operands)[3:])
        for value in _captured(loop):
            origin = _origin(value) if taken + _registers(value) > room else None
            if origin is not None and _may_move(origin, value, loop, function):
                _move(origin, value, loop)
                count += len(origin.reads)
    return count


def scale_before_loops(function: ir.Operation) -> int:
    """Has Q scaled where it is written to shared memory instead of in each step of a loop;
    returns how many values that were."""
    count = 0
    for loop in collect(function, lambda op: op.name == "scf.for"):
        for op in collect(loop, lambda op: op.name == _SCALED):
            value = op.results[0]
            origin = _origin(value)
            if origin is None or not _may_move(origin, value, loop, function):
                continue
            _scale_writes(origin)
            (unscaled,) = (x for x in op.operands if _factor(x) is None)
            value.replace_all_uses_with(unscaled)
            count += 1
    return count


def _makes_scores(op: ir.Operation) -> bool:
    """Whether an op is a product that adds to nothing, as the first ones of Q and K do."""
    return op.name == _PRODUCT and defining_op(op.operands[2], "arith.constant") is not None


def _registers(value: ir.Value) -> int:
    kind = value.type
    count = math.prod(kind.shape) if isinstance(kind, ir.VectorType) else 1
    return -(-count * element_bytes(value) // _REGISTER_BYTES)


def _captured(loop: ir.Operation) -> list[ir.Value]:
    """The vectors made before the loop that ops in it use."""
    inside = collect(loop, lambda op: op != loop)
    made = {result for op in inside for result in op.results}
    used = dict.fromkeys(value for op in inside for value in op.operands if value not in made)
    return [value for value in used if isinstance(value.type, ir.VectorType) and defining_op(value)]


def _origin(value: ir.Value) -> Origin | None:
    """How a vector is made of a shared buffer; None where anything else takes part in it."""
    origin = Origin()
    if not _trace(value, origin) or not origin.reads:
        return None
    if len({op.operands[0] for op in origin.reads}) > 1:
        return None
    return origin


def _trace(value: ir.Value, origin: Origin) -> bool:
    """Adds what makes `value` to its origin; returns whether all of that may be repeated."""
    op = defining_op(value)
    if op is None or op.name == "arith.constant":
        return op is not None
    if op.name == READ:
        origin.reads.append(op)
        origin.ops.append(op)
        return printed.is_shared(op.operands[0].type)
    if op.name == _SCALED:
        return _trace_scaled(op, origin)
    # What a read is inserted into comes behind it among the operands, and is made before it.
    parts = reversed(list(op.operands))
    if op.name not in _PLACED or not all(_trace(part, origin) for part in parts):
        return False
    origin.ops.append(op)
    return True


def _trace_scaled(op: ir.Operation, origin: Origin) -> bool:
    """The same of a product with one number, which all of the origin's reads must be under."""
    factors = [_factor(operand) for operand in op.operands]
    sides = [n for n, factor in enumerate(factors) if factor is not None]
    if len(sides) != 1 or origin.reads or origin.scaling is not None:
        return False
    if not _trace(op.operands[1 - sides[0]], origin):
        return False
    origin.scaling, origin.factor = op, factors[sides[0]]
    origin.ops.append(op)
    return True


def _factor(value: ir.Value) -> ir.Value | float | None:
    """The number that each element of a vector is; None where that is not known to be one."""
    op = defining_op(value, "vector.broadcast")
    if op is not None:
        scalar = op.operands[0]
        return None if isinstance(scalar.type, ir.VectorType) else scalar
    return splat_number(value)


def _may_move(origin: Origin, value: ir.Value, loop: ir.Operation, function: ir.Operation) -> bool:
    """Whether the loop may read anew, and what is written be scaled instead of what is read."""
    inside = collect(loop, lambda op: op != loop)
    uses = [(user, result) for op in origin.ops for result in op.results for user in users(result)]
    private = all(user in (inside if result == value else origin.ops) for user, result in uses)
    alloc = defining_op(origin.reads[0].operands[0], "memref.alloc")
    transfers = None if alloc is None else transfers_of(alloc)
    if transfers is None or not private:
        return False
    ordered = collect(function, lambda op: op in transfers)
    reads, writes = ordered[-len(origin.reads) :], ordered[: -len(origin.reads)]
    # What is scaled is all that is written, before all that is read.
    if any(op.name != WRITE for op in writes) or any(op not in origin.reads for op in reads):
        return False
    under_scaling = origin.scaling is None or _covers(origin)
    factor = origin.factor
    return under_scaling and (not isinstance(factor, ir.Value) or _is_known_early(factor, function))


def _covers(origin: Origin) -> bool:
    """Whether the scaling is behind all reads."""
    assert origin.scaling is not None
    behind = origin.ops[origin.ops.index(origin.scaling) :]
    return not any(op.name in (READ, "vector.insert_strided_slice") for op in behind)


def _is_known_early(value: ir.Value, function: ir.Operation) -> bool:
    """Whether a number is there when the kernel begins, or can be made of such ones there."""
    op = defining_op(value)
    if op is None or op.block == function.regions[0].blocks[0]:
        return True
    arithmetic = op.name.startswith("arith.") and not len(op.regions)
    return arithmetic and all(_is_known_early(operand, function) for operand in op.operands)


def _move(origin: Origin, value: ir.Value, loop: ir.Operation) -> None:
    body = loop.regions[0].blocks[0]
    using = [_in_block(user, body) for user in users(value)]
    first = next(view.operation for view in body if view.operation in using)
    if origin.scaling is not None:
        _scale_writes(origin)
    build, new = Builder(first), {}
    for op in origin.ops:
        operands = [new.get(operand, operand) for operand in op.operands]
        if op == origin.scaling:
            (inner,) = (x for x in op.operands if x in new)
            new[op.results[0]] = new[inner]
        else:
            new[op.results[0]] = build.copy(op, operands).results[0]
    value.replace_all_uses_with(new[value])


def _in_block(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """The op of a block that `op` is, or is in."""
    return next(outer for outer in enclosing(op) if outer.block == block)


def _scale_writes(origin: Origin) -> None:
    """Scales what is written to the buffer, as what is read from it was."""
    scaling, factor = origin.scaling, origin.factor
    assert scaling is not None and factor is not None
    attributes = copied_attributes(scaling)
    for write in users(origin.reads[0].operands[0]):
        if write.name != WRITE:
            continue
        build = Builder(write)
        kind = write.operands[0].type
        if isinstance(factor, ir.Value):
            early = _early(factor, build)
            spread = build.create("vector.broadcast", [kind], [early]).results[0]
        else:
            spread = build.splat(factor, kind)
        product = build.create(_SCALED, [kind], [spread, write.operands[0]], attributes)
        write.operands[0] = product.results[0]


def _early(value: ir.Value, build: Builder) -> ir.Value:
    """A number made again at another place, of what is there."""
    op = defining_op(value)
    if op is None or op.name == "arith.constant" or not op.name.startswith("arith."):
        return value
    return build.copy(op, [_early(operand, build) for operand in op.operands]).results[0]
