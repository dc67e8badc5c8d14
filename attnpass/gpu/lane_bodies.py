"""Bodies of a kernel's loops as a thread does them, an element at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from iree.compiler import ir

from ..codegen import ptx
from ..codegen.kernel import load_of
from ..ir import (
    DYNAMIC,
    Refusal,
    body_ops,
    copied_attributes,
    defining_op,
    erase_unused,
    index_dim,
    is_used,
    users,
    whole_number,
)
from .lane_loops import LaneLoops

EXTRACT, INDEX = "tensor.extract", "linalg.index"
# What a kernel's operands are made by; without readers they go.
_LOADED = ("iree_codegen.load_from_buffer", "tensor.empty")
# Of places, in 32 bits.
_OF_PLACES = tuple(
    f"arith.{name}"
    for name in (
        *("addi", "subi", "muli", "divui", "remui", "divsi", "remsi", "ceildivui"),
        *("maxsi", "minsi", "maxui", "minui", "cmpi", "select"),
    )
)


def extracts(op: ir.Operation) -> list[ir.Operation]:
    """What a body reads at computed places."""
    return [one for one in body_ops(op) if one.name == EXTRACT]


def why_not(op: ir.Operation) -> Refusal | None:
    """What keeps `made` from a body; None where it makes it."""
    plain = ("arith.", "math.", INDEX, EXTRACT)
    if not all(one.name.startswith(plain) for one in body_ops(op)[:-1]):
        return Refusal("its body is more than scalars")
    if any(computes_with_bytes(one) for one in body_ops(op)[:-1]):
        return Refusal("IREE 3.13 cannot translate its casts of 8-bit floats")
    read = [value for one in body_ops(op) for value in one.operands if _is_index(value)]
    far = any(abs(whole_number(value) or 0) >= 1 << 31 for value in read)
    if far or any(map(_is_cast_of_more, body_ops(op))):
        return Refusal("its places are no numbers of 32 bits")
    for one in extracts(op):
        load = load_of(one.operands[0])
        if load is None or load.results[0] != one.operands[0]:
            return Refusal("it reads what is in no buffer")
        if not is_known(load.operands[0]):
            return Refusal("sizes are known only at run time")
    return None


def _is_cast_of_more(op: ir.Operation) -> bool:
    """Whether an op makes a place of a number of more than 31 bits and a sign, and others bound it:
    what is just read at lies in its tensor."""
    if op.name not in ("arith.index_cast", "arith.index_castui") or not _is_index(op.results[0]):
        return False
    bits = op.operands[0].type.width + (op.name == "arith.index_castui")
    return bits > 32 and any(user.name != EXTRACT for user in users(op.results[0]))


def computes_with_bytes(op: ir.Operation) -> bool:
    """Whether floats of 8 bits are among what an op of a body takes or makes."""
    kinds = [value.type for value in (*op.operands, *op.results)]
    return any(isinstance(kind, ir.FloatType) and kind.width == 8 for kind in kinds)


def is_known(memref: ir.Value) -> bool:
    """Whether a memref's shape is known, and its elements are numbers of whole bytes."""
    return ir.MemRefType(memref.type).has_static_shape and is_plain(memref)


def is_plain(memref: ir.Value) -> bool:
    """Whether a memref's elements are numbers of whole bytes, in as far as that is known no more
    than 32 bits count."""
    kind = ir.MemRefType(memref.type)
    element = kind.element_type
    whole = isinstance(element, ir.IntegerType | ir.FloatType) and element.width >= 8
    return whole and math.prod(size for size in kind.shape if size != DYNAMIC) < 1 << 31


def made(
    op: ir.Operation,
    build: LaneLoops,
    indices: Mapping[int, ir.Value],
    given: Mapping[ir.Value, ir.Value],
    before: dict[Any, ir.Value] | None = None,
) -> ir.Value:
    """What the body of an op with one result makes where its loops are at these `indices`, of what
    is `given` for its arguments; indices are numbers of 32 bits. What has been made `before` of the
    same values, where this is, is not made again."""
    names = dict(given)
    before = {} if before is None else before

    def cast(value: ir.Value, kind: ir.Type) -> ir.Value:
        """An index of 32 bits, or these of an index, with its sign."""
        return build.build.convert("arith.index_cast", value, kind)

    def named(value: ir.Value) -> ir.Value:
        if value in names or not _is_index(value):
            return names.get(value, value)
        number = whole_number(value)
        return cast(value, build.i32) if number is None else build.number(number)

    *steps, last = body_ops(op)
    for step in steps:
        (result,) = step.results
        if step.name == INDEX:
            names[result] = indices[index_dim(step)]
        elif step.name == EXTRACT:
            load = load_of(step.operands[0])
            assert load is not None, "it has been read before"
            places = [named(value) for value in list(step.operands)[1:]]
            names[result] = build.get(load.operands[0], places)
        elif step.name != "arith.constant" or not _is_index(result):
            of_places = step.name in _OF_PLACES
            operands = [named(value) for value in step.operands]
            if not of_places:
                pairs = zip(step.operands, operands, strict=True)
                operands = [cast(x, build.index) if _is_index(one) else x for one, x in pairs]
            kind = build.i32 if _is_index(result) and of_places else result.type
            attributes = copied_attributes(step)
            same = (step.name, str(kind), *operands, *map(str, attributes.values()))
            if same not in before:
                before[same] = _step(build, step.name, kind, operands, attributes)
            names[result] = before[same]
            if _is_index(names[result]):
                names[result] = cast(names[result], build.i32)
    return named(last.operands[0])


def _step(
    build: LaneLoops,
    name: str,
    kind: ir.Type,
    operands: list[ir.Value],
    attributes: dict[str, ir.Attribute],
) -> ir.Value:
    if name == "math.exp" and isinstance(kind, ir.F32Type | ir.F16Type | ir.BF16Type):
        wide = build.build.cast_float(operands[0], ir.F32Type.get())
        return build.build.cast_float(ptx.exp(build.build, wide), kind)
    return build.build.create(name, [kind], operands, attributes).results[0]


def erase(ends: list[ir.Operation], ops: list[ir.Operation]) -> None:
    """Erases the ops of a kernel, the last first, and what stores and loads for them alone."""
    read = [value for op in ops for value in op.operands]
    read += [one.operands[0] for op in ops for one in extracts(op)]
    loads = _makers(value for value in read if defining_op(value) not in ops)
    erase_unused([*ends, *ops])
    fills = [op for op in loads if op.name == "linalg.fill" and not is_used(op.results[0])]
    loads = _makers(
        [op.results[0] for op in loads if op not in fills] + [op.operands[1] for op in fills]
    )
    erase_unused(fills)
    erase_unused([op for op in loads if op.name in _LOADED and not is_used(op.results[0])])


def _makers(values: Iterable[ir.Value]) -> list[ir.Operation]:
    """The ops that make these values, each once."""
    made: list[ir.Operation] = []
    for value in values:
        op = defining_op(value)
        if op is not None and op not in made:
            made.append(op)
    return made


def _is_index(value: ir.Value) -> bool:
    return isinstance(value.type, ir.IndexType)
