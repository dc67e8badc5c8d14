"""Attention under another mask: for kernels that need one, or more keys than there are; masks
that keep eight elements in a byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir

from . import maps
from .attention import AttentionFacts
from .ir import Builder, Size, copied_attributes, copy_region, product, sizes_of

_PACKED = "#iree_encoding.packed_storage"


def attend_under(
    facts: AttentionFacts,
    mask: ir.Value,
    positions: maps.Positions,
    given: Mapping[str, ir.Value] | None = None,
) -> None:
    """Gives the users of an attention the same one under `mask`, whose dims are the iteration
    dims `positions`, with the operands `given` by name instead of its own. The caller erases
    the old op."""
    op, build = facts.op, Builder(facts.op)
    operands, indexing = list(op.operands), list(facts.maps)
    for name, value in (given or {}).items():
        operands[facts.index(name)] = value
    if facts.has_mask:
        operands[facts.index("mask")], indexing[facts.index("mask")] = mask, positions
    else:
        operands.insert(facts.index("scale") + 1, mask)
        indexing.insert(facts.index("scale") + 1, positions)
    attributes = copied_attributes(op)
    attributes["indexing_maps"] = maps.maps_attribute(facts.num_dims, indexing)
    types = [result.type for result in op.results]
    new = build.create(op.name, types, operands, attributes, regions=1)
    copy_region(op, new)
    for old, value in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(value)


def is_packed(value: ir.Value) -> bool:
    """Whether a tensor keeps eight i1 in a byte."""
    kind = value.type
    return isinstance(kind, ir.RankedTensorType) and str(kind.encoding) == _PACKED


def unpacked(value: ir.Value, build: Builder) -> ir.Value:
    """A packed tensor with an element in each byte: IREE 3.13 does not compile all vectors of
    packed ones."""
    sizes = sizes_of(value)
    bits = product(sizes)
    data = _bytes_of(value, build.size_op("ceildivui", bits, 8), build)
    bit = ir.IntegerType.get_signless(1, value.type.context)

    def body(inner: Builder, _: Sequence[ir.Value]) -> list[ir.Value]:
        place, eight = inner.loop_index(0), inner.constant_index(8)
        of, at = (
            inner.create(f"arith.{name}ui", [place.type], [place, eight]).results[0]
            for name in ("div", "rem")
        )
        byte = inner.extract(data, [of])
        shift = inner.create("arith.index_cast", [byte.type], [at])
        moved = inner.create("arith.shrui", [byte.type], [byte, shift.results[0]])
        return [inner.create("arith.trunci", [bit], moved.results).results[0]]

    flat = build.generic([], [build.empty([bits], bit)], [(0,)], body)[0]
    return build.expand(flat, [range(len(sizes))], sizes)


def _bytes_of(value: ir.Value, count: Size, build: Builder) -> ir.Value:
    """The bytes of a tensor, so many of them."""
    dynamic = [] if isinstance(count, int) else [build.size(count)]
    known = [build.size(size) for size in sizes_of(value) if not isinstance(size, int)]
    byte = ir.IntegerType.get_signless(8, value.type.context)
    segments = ir.DenseI32ArrayAttr.get([1, len(known), len(dynamic)], value.type.context)
    return build.create(
        "flow.tensor.bitcast",
        [build.tensor_type([count], byte)],
        [value, *known, *dynamic],
        {"operandSegmentSizes": segments},
    ).results[0]
