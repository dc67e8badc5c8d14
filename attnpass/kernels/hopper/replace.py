"""Writes a chosen kernel into a module: what it reads, in its order, and its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ...attention.edit import edit, iteration_size
from ...attention.facts import AttentionFacts
from ...attention.sinks import AttentionWithSink
from ...attention.widening import cast_elements, widen
from ...ir import (
    Builder,
    Size,
    element_bytes,
    element_type,
    element_type_name,
    erase_dead,
    maps,
    product,
    sizes_of,
    static_size,
)
from ...ir.padding import is_padded_in_place, padded_to
from .decode import launch_chunks
from .extern import launch, runs_on_hopper
from .manifest import BY_BLOCK
from .places import UNIT, HeadPlace, common_places, numbers_of, ordered_place, rows_of
from .plan import KernelPlan
from .scale import magnitude, signed_query
from .unseen import as_numbers, row_maximum, within_range, without_absorbed


def replace_by_kernel(facts: AttentionFacts, plan: KernelPlan, elsewhere: bool) -> None:
    """Makes the attention's users read the kernel's result; the attention is left without
    uses. With `elsewhere` the module tells at run time whether the device has the kernel, and
    runs a copy of the attention where it has not. Needs a current context."""
    build, old = Builder(facts.last_op), facts.result
    if not elsewhere:
        _replace_result(facts, plan)
        return
    (new,) = build.conditional(
        runs_on_hopper(build),
        [old.type],
        lambda inner: [_by_kernel(facts, plan, inner, True)],
        lambda inner: [_rebuilt(facts, inner)],
    )
    old.replace_all_uses_with(new)


def _rebuilt(facts: AttentionFacts, build: Builder) -> ir.Value:
    if isinstance(facts, AttentionWithSink):
        return facts.rebuilt(build)
    return edit(facts, build).build().results[0]


def _replace_result(facts: AttentionFacts, plan: KernelPlan) -> None:
    """Makes those who read the result, or what alone transposes it, read the kernel's."""
    old = facts.result
    if plan.reader is None:
        old.replace_all_uses_with(_by_kernel(facts, plan, Builder(facts.last_op), False))
        return
    build = Builder(plan.reader, facts.op.location)
    plan.reader.results[0].replace_all_uses_with(_by_kernel(facts, plan, build, False))
    # What is left of it are its sizes.
    old.replace_all_uses_with(Builder(facts.last_op).empty(sizes_of(old), element_type(old)))
    erase_dead([plan.reader])


def _by_kernel(
    facts: AttentionFacts, plan: KernelPlan, build: Builder, elsewhere: bool
) -> ir.Value:
    """The attention's result, by the kernel; in the order of the plan's reader, if there is one
    and the module runs nowhere else."""
    kernel = plan.kernel
    most = row_maximum(facts, build) if plan.mask_place else None
    names = [name for name in plan.orders if name != "output"]
    values = {name: _value(facts, plan, build, name, most) for name in names}
    rows, keys = iteration_size(facts, plan.row), iteration_size(facts, facts.k2[0])
    inner = product([iteration_size(facts, dim) for dim in plan.group])
    heads = product([iteration_size(facts, dim) for dim in plan.heads])
    columns, units = iteration_size(facts, facts.k1[0]), UNIT // element_bytes(values["query"])
    numbers: dict[str, Size | ir.Value] = {
        "rows": rows,
        "keys": keys,
        "group": product([inner, plan.repeats]),
        # Limits that hide nothing, for kernels that know a window alone.
        "diagonal": plan.mask.diagonal if plan.mask.kind in ("causal", "window") else keys,
        "behind": plan.mask.behind if plan.mask.kind == "window" else rows,
        "columns": static_size(columns) // units,
        "scale": magnitude(build, facts.value("scale")),
        "cap": build.constant_float(plan.mask.cap, ir.F32Type.get()),
        **_mask_numbers(facts, plan, keys),
    }
    reader = None if elsewhere else plan.reader
    result = _result(facts, plan, reader)
    place = plan.at_result if reader is None else plan.at_reader
    operands, strides = _lying(facts, plan, build, values, place)
    numbers |= strides
    if isinstance(facts, AttentionWithSink) and plan.sink is not None:
        operands.append(facts.sink.in_order(build, facts, plan.sink.dims))
        numbers |= {
            "sink_count": product([iteration_size(facts, dim) for dim in plan.sink.dims]),
            "sink_rows": product([iteration_size(facts, dim) for dim in plan.sink.inner]),
        }
    numbers["heads"] = product([heads, inner])
    if kernel.combined:
        numbers["heads"] = _kv_heads(build, plan, heads)
        new = launch_chunks(build, plan, numbers, operands, result, elsewhere)
    else:
        workgroups = _workgroups(build, plan, heads, inner, rows)
        new = launch(build, kernel, workgroups, numbers, operands, [result], elsewhere)[0]
    if reader is None and plan.at_result is None:
        new = build.transpose(new, maps.inverse(plan.orders["output"]))
    return new


def _kv_heads(build: Builder, plan: KernelPlan, heads: Size) -> Size:
    return heads if plan.repeats == 1 else build.size_op("divui", heads, plan.repeats)


def _workgroups(
    build: Builder, plan: KernelPlan, heads: Size, inner: Size, rows: Size
) -> tuple[Size, Size]:
    """How many workgroups compute blocks of rows: one a block; as many as run at once where each
    takes one block after the other; or a cluster for a block of the rows that share K and V."""
    kernel = plan.kernel
    if kernel.kind in BY_BLOCK:
        own_rows = product([inner, plan.repeats, rows])
        blocks = build.size_op("ceildivui", own_rows, kernel.rows_per_workgroup)
        kv_heads = _kv_heads(build, plan, heads)
        if kernel.kind == "blocks":
            return build.size_op("minui", product([blocks, kv_heads]), plan.programs), 1
        return product([blocks, kernel.cluster]), kv_heads
    blocks = build.size_op("ceildivui", rows, kernel.rows_per_workgroup)
    if kernel.programs_per_unit:
        all_blocks = product([blocks, heads, inner])
        return build.size_op("minui", all_blocks, plan.programs), 1
    return blocks, product([heads, inner])


def _mask_numbers(facts: AttentionFacts, plan: KernelPlan, keys: Size) -> dict[str, Size]:
    """Where in the mask a head's rows stand, in the kernel's words."""
    place = plan.mask_place
    if place is None:
        return {}
    return {
        "mask_stride": (place.row_size or keys) if place.by_row else 0,
        "mask_divisor": product([iteration_size(facts, dim) for dim in place.inner]),
        "mask_count": product([iteration_size(facts, dim) for dim in place.heads]),
    }


def _result(
    facts: AttentionFacts, plan: KernelPlan, reader: ir.Operation | None
) -> tuple[Sequence[Size], ir.Type]:
    """Sizes and element type of what the kernel writes."""
    old = facts.value("output") if reader is None else reader.results[0]
    sizes = sizes_of(old)
    if reader is None and plan.at_result is None:
        sizes = tuple(sizes[dim] for dim in plan.orders["output"])
    return sizes, element_type(old)


def _lying(
    facts: AttentionFacts,
    plan: KernelPlan,
    build: Builder,
    values: dict[str, ir.Value],
    written: HeadPlace | None,
) -> tuple[list[ir.Value], dict[str, Size]]:
    """The tensors that the kernel reads, and where in them its operands lie; those that it cannot
    read as they lie are copied. `written` is where the rows of the result are; None: with heads
    in front."""
    if plan.latent is not None:
        others = [name for name in values if name not in ("key", "value")]
        query, *mask = (_in_order(plan, build, name, values[name]) for name in others)
        return [query, *plan.latent.sources, *mask], plan.latent.numbers(build)
    if not plan.kernel.strided:
        copied = [_in_order(plan, build, name, value) for name, value in values.items()]
        return copied, {}
    group = product([*(iteration_size(facts, dim) for dim in plan.group), plan.repeats])
    orders = {name: plan.order_of(name, value) for name, value in values.items()}
    places = common_places({n: v for n, v in values.items() if n != "mask"}, orders, group)
    found: list[ir.Value] = []
    for name, value in values.items():
        source = places[name].source if name in places else None
        found.append(_in_order(plan, build, name, value) if source is None else source)
        if name not in places and name != "mask":
            (places[name],) = rows_of(found[-1], range(len(orders[name])), False)
    places["output"] = written or ordered_place(facts.result, plan.orders["output"])
    heads = product([iteration_size(facts, dim) for dim in plan.heads])
    kv_heads = _kv_heads(build, plan, heads)
    units = {name: UNIT // element_bytes(value) for name, value in values.items()}
    units["output"] = UNIT // element_bytes(facts.result)
    return found, numbers_of(build, places, kv_heads, group, units)


def _value(
    facts: AttentionFacts, plan: KernelPlan, build: Builder, name: str, most: ir.Value | None
) -> ir.Value:
    """What the kernel reads as Q, K, V or the mask, in its type; `most` is the largest number of
    each row of the mask where that matters."""
    value = plan.sources.get(name, facts.value(name))
    if name == "mask":
        value = within_range(build, facts, most, plan.kernel.settles_unseen)
    if name == "mask" and plan.kernel.mask == "keys":
        value = as_numbers(build, value)
    elif name in plan.widened:
        value = widen(build, value, plan.widened[name])
    elif element_type_name(value) == "i1":
        value = cast_elements(build, value, ir.IntegerType.get_signless(8), "arith.extui")
    if name == "query":
        if not plan.kernel.settles_unseen:
            value = without_absorbed(build, facts, value, most)
        value = signed_query(build, value, facts.value("scale"))
    return value


def _in_order(plan: KernelPlan, build: Builder, name: str, value: ir.Value) -> ir.Value:
    ordered = build.transpose(value, plan.order_of(name, value))
    place = plan.mask_place
    if name != "mask" or place is None or place.row_size is None:
        return ordered
    sizes, zero = sizes_of(ordered), build.constant_number(0, element_type(ordered))
    in_place = is_padded_in_place(ordered, [len(sizes) - 1])
    return padded_to(build, ordered, [*sizes[:-1], place.row_size], zero, in_place)
