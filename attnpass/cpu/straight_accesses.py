"""Masked vectors read and written as their elements lie, and turned in registers.

IREE 3.13's vector lowering takes the mask of a transfer that turns its vector for one of the turned
vector: where both dims are longer than one, it reads what is not there, and leaves out what is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from ..ir import Builder, collect, maps, replace_op

_READ, _WRITE = "vector.transfer_read", "vector.transfer_write"
_MAP, _INSIDE, _COUNTS = "permutation_map", "in_bounds", "operandSegmentSizes"


def use_straight_accesses(function: ir.Operation) -> None:
    """Replaces the masked transfers of a kernel that turn what they read or write."""
    for op in collect(function, lambda op: op.name in (_READ, _WRITE)):
        dims = _dims(op)
        kept = [dim for dim in dims if dim is not None]
        if ir.DenseI32ArrayAttr(op.attributes[_COUNTS])[3] and kept != sorted(kept):
            (_read if op.name == _READ else _write)(op, dims)


def _dims(op: ir.Operation) -> maps.Positions:
    """The dim of memory that each of a vector's lies along; None for one that repeats."""
    (dims,) = maps.positions_of(ir.ArrayAttr.get([op.attributes[_MAP]])) or ((),)
    return dims


def _read(op: ir.Operation, dims: maps.Positions) -> None:
    kind = ir.VectorType(op.results[0].type)
    build, order = Builder(op, op.location), _order(dims)
    sizes = [kind.shape[at] for at in order]
    straight = ir.VectorType.get(sizes, kind.element_type, loc=build.location)
    made = build.create(_READ, [straight], list(op.operands), _attributes(op, dims)).results[0]
    repeated = [at for at, dim in enumerate(dims) if dim is None]
    lies = [*repeated, *order]
    if repeated:
        whole = ir.VectorType.get(
            [kind.shape[at] for at in lies], kind.element_type, loc=build.location
        )
        made = build.create("vector.broadcast", [whole], [made]).results[0]
    turned = _transposed(build, made, [lies.index(at) for at in range(len(dims))], kind)
    replace_op(op, turned)


def _write(op: ir.Operation, dims: maps.Positions) -> None:
    vector, *others = op.operands
    kind, build, order = ir.VectorType(vector.type), Builder(op, op.location), _order(dims)
    straight = ir.VectorType.get(
        [kind.shape[at] for at in order], kind.element_type, loc=build.location
    )
    turned = _transposed(build, vector, order, straight)
    kinds = [result.type for result in op.results]
    made = build.create(_WRITE, kinds, [turned, *others], _attributes(op, dims))
    replace_op(op, *made.results)


def _order(dims: maps.Positions) -> list[int]:
    """The dims of a vector that do not repeat, as they lie in memory."""
    known = [(dim, at) for at, dim in enumerate(dims) if dim is not None]
    return [at for _, at in sorted(known)]


def _attributes(op: ir.Operation, dims: maps.Positions) -> dict[str, ir.Attribute]:
    """The attributes of a transfer that turns nothing, of the same elements."""
    order = _order(dims)
    old, inside = ir.AffineMapAttr(op.attributes[_MAP]).value, ir.ArrayAttr(op.attributes[_INSIDE])
    new: Any = ir.AffineMap.get(old.n_dims, old.n_symbols, [old.results[at] for at in order])
    return {
        _MAP: ir.AffineMapAttr.get(new),
        _INSIDE: ir.ArrayAttr.get([inside[at] for at in order]),
        _COUNTS: op.attributes[_COUNTS],
    }


def _transposed(
    build: Builder, vector: ir.Value, permutation: Sequence[int], kind: ir.VectorType
) -> ir.Value:
    turned = {"permutation": build.integers(*permutation)}
    return build.create("vector.transpose", [kind], [vector], turned).results[0]
