"""attn-normal-form: masks of truth values, and iteration dims in one order.

Iteration dims stand in the order b, m, n, k1, k2, those of a kind in the order of the result's: of
rows and keys the last dim is innermost. In f32 on NVIDIA GPUs those of the result stand in its
order, whatever kinds they are, since no tensor core takes part: IREE 3.13 lowers a product whose
result has its dims in another order than the loops to wrong numbers
(`iree-llvmgpu-vector-lowering`), and tensor cores need m before n. Of several key dims that IREE
cannot join, those whose sizes are unknown, or no multiples of its tiles, come first: an innermost
loop with a rest gets a mask, which IREE 3.13 gives too many dims on CPUs ("'vector.mask' op
expects a 'vector<8x4xi1>' mask").

Masks of integers, of which IREE reads the lowest bit, and of bits that lie packed in bytes are
masks of truth values. Attention begins with nothing: it does not read what its result is said to
begin with, but IREE 3.13 fails where its kernel is to make that, a fill, too.

attn-order-dims: attention's iteration dims in one order, when its result's order is final.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..attention.edit import edit
from ..attention.facts import AttentionFacts, find
from ..ir import Builder, defining_op, element_type, is_float, maps, product, sizes_of
from ..machines import Target
from ..machines.cpu.configurations import fills_tiles
from ..machines.gpu.configurations import is_f32, tiled
from ..passes import Pass, PassContext
from ..report.records import Report

_PACKED = "#iree_encoding.packed_storage"
_BYTE = 8


def order_dims(facts: AttentionFacts, target: Target | None, report: Report) -> bool:
    """Numbers the iteration dims of an attention in the normal order, in place; returns whether
    they stood in another. A configuration of the op's own says what its numbers are."""
    order = _normal_order(facts, target)
    if facts.own_configuration or maps.is_identity(order):
        return False
    edit(facts).renumber(maps.inverse(order)).in_place()
    report.record(facts.op, "fitted", "its iteration dims stand in its result's order now")
    return True


def _normal_order(facts: AttentionFacts, target: Target | None) -> list[int]:
    """The iteration dims as they should stand."""
    lanes = target is not None and target.has_f32_lanes and is_f32(facts)
    output = facts.map_of("output")
    outer = list(output if lanes else [dim for dim in output if dim not in facts.n])
    if target is not None and target.is_gpu and facts.m:
        _put_last(outer, tiled(facts, "output", facts.m), facts.m)
    head = [dim for dim in facts.map_of("query") if dim in facts.k1]
    keys = [dim for dim in facts.map_of("key") if dim in facts.k2]
    if not all(maps.are_neighbours(facts.map_of(name), keys) for name in _with_keys(facts)):
        keys.sort(key=lambda dim: fills_tiles(facts.sizes[dim], target))
    seen = [*outer, *output, *head, *keys, *range(facts.num_dims)]
    return list(dict.fromkeys(dim for dim in seen if dim is not None))


def _put_last(order: list[int | None], row: int, others: Sequence[int]) -> None:
    """Puts the rows that a GPU's tile takes behind the other dims of m: IREE's products tile the
    last of them."""
    last = max(order.index(dim) for dim in others)
    order.remove(row)
    order.insert(last, row)


def _with_keys(facts: AttentionFacts) -> list[str]:
    """The operands that have a key dim."""
    names = ["key", "value", *(["mask"] if facts.has_mask else [])]
    return [name for name in names if set(facts.map_of(name)) & set(facts.k2)]


def truth_mask(facts: AttentionFacts) -> str:
    """Gives an attention a mask of truth values instead of one of integers or of packed bits;
    returns what it had, for a reader, or ''."""
    if not facts.has_mask:
        return ""
    mask, build = facts.value("mask"), Builder(facts.op)
    kind = element_type(mask)
    if is_float(kind):
        return ""
    if str(ir.RankedTensorType(mask.type).encoding) == _PACKED:
        edit(facts).operand("mask", _unpacked(mask, build)).in_place()
        return "bits that lie packed in bytes"
    if ir.IntegerType(kind).width == 1:
        return ""
    edit(facts).operand("mask", _lowest_bits(mask, build)).in_place()
    return f"{kind}, of which IREE reads the lowest bit"


def begins_with_nothing(facts: AttentionFacts) -> bool:
    """Gives an attention an empty tensor for its result where it had another; returns whether."""
    start = facts.value("output")
    if facts.kind != "attention" or defining_op(start, "tensor.empty") is not None:
        return False
    empty = Builder(facts.op).empty(sizes_of(start), element_type(start))
    edit(facts).operand("output", empty).in_place()
    return True


def _lowest_bits(mask: ir.Value, build: Builder) -> ir.Value:
    i1 = ir.IntegerType.get_signless(1, mask.context)
    return build.computed(
        sizes_of(mask), i1, lambda inner, x: inner.convert("arith.trunci", x[0], i1), mask
    )


def _unpacked(mask: ir.Value, build: Builder) -> ir.Value:
    """Bits that lie packed, the lowest of a byte first, as truth values, a byte each."""
    sizes = sizes_of(mask)
    i1, i8 = (ir.IntegerType.get_signless(width, mask.context) for width in (1, _BYTE))
    count = build.size_op("ceildivui", product(sizes), _BYTE)
    kind = build.tensor_type([count], i8)
    old = [build.size(size) for size in sizes if not isinstance(size, int)]
    new = [build.size(size) for size in [count] if not isinstance(size, int)]
    segments = ir.DenseI32ArrayAttr.get([1, len(old), len(new)], mask.context)
    operands, attributes = [mask, *old, *new], {"operandSegmentSizes": segments}
    packed = build.create("flow.tensor.bitcast", [kind], operands, attributes).results[0]
    extents = [build.size(size) for size in sizes]

    def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        index = ir.IndexType.get(mask.context)
        place = inner.constant_index(0)
        for loop, extent in enumerate(extents):
            place = inner.muli(place, extent)
            place = inner.addi(place, inner.loop_index(loop))
        eight = inner.constant_index(_BYTE)
        at, bit = (
            inner.create(f"arith.{name}", [index], [place, eight]).results[0]
            for name in ("divui", "remui")
        )
        byte = inner.extract(packed, [at])
        shift = inner.convert("arith.index_cast", bit, i8)
        shifted = inner.apply("arith.shrui", byte, shift)
        return inner.convert("arith.trunci", shifted, i1)

    return build.computed(sizes, i1, body)


class NormalForm(Pass):
    """Brings attention into the form that all other passes and configurations know.

    Masks of integers (IREE reads their lowest bit) and of bits packed 8 to a byte become masks of
    truth values, by one elementwise op. Results begin with empty tensors. Iteration dims get the
    order b, m, n, k1, k2 and, within a kind, that of the result; in f32 on NVIDIA GPUs the order of
    the result throughout, since IREE 3.13 computes wrong numbers of other orders there. Maps are
    relabelled, nothing is moved.
    """

    name = "attn-normal-form"
    summary = "masks of truth values; iteration dims in one order, by relabelling"
    mends = "masks of i8, and dims in another order than those of the result, are wrong on GPUs"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        changed = False
        target = context.target_for(module)
        for facts in find(module):
            had = truth_mask(facts)
            if had:
                why = f"its mask is of truth values now; it was of {had}"
                context.report.record(facts.op, "fitted", why)
            begins = begins_with_nothing(facts)
            if begins:
                context.report.record(facts.op, "fitted", "its result begins with nothing now")
            changed |= bool(had) | begins | order_dims(facts, target, context.report)
        return changed


class OrderDims(Pass):
    """Puts iteration dims in the order that `attn-normal-form` gives them, once more.

    The passes between, and IREE's folding of transposes and reshapes, may have given the result
    another order, or the iteration space other dims. Maps are relabelled, nothing is moved.
    """

    name = "attn-order-dims"
    summary = "iteration dims in one order again, after IREE's folding"
    phase = "flow"
    mends = "attention whose dims stand in another order than its result's is wrong on GPUs"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = context.target_for(module)
        return any([order_dims(facts, target, context.report) for facts in find(module)])
