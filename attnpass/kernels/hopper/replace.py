"""Writes a chosen kernel into a module: what it reads, in its order, and its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iree.compiler import ir

from ...attention.edit import edit, iteration_size
from ...attention.facts import AttentionFacts
from ...attention.widening import cast_elements, widen
from ...ir import Builder, Size, element_type, element_type_name, maps, product, sizes_of
from .decode import launch_decode
from .extern import launch, runs_on_hopper
from .scale import magnitude, signed_query
from .unseen import row_maximum, with_zeros, within_range, without_absorbed

if TYPE_CHECKING:
    from .offers import KernelPlan


def replace_by_kernel(facts: AttentionFacts, plan: KernelPlan, elsewhere: bool) -> None:
    """Makes the attention's users read the kernel's result; the attention is left without
    uses. With `elsewhere` the module tells at run time whether the device has the kernel, and
    runs a copy of the attention where it has not. Needs a current context."""
    build, old = Builder(facts.op), facts.op.results[0]
    if not elsewhere:
        old.replace_all_uses_with(_by_kernel(facts, plan, build, False))
        return
    (new,) = build.conditional(
        runs_on_hopper(build),
        [old.type],
        lambda inner: [_by_kernel(facts, plan, inner, True)],
        lambda inner: [edit(facts, inner).build().results[0]],
    )
    old.replace_all_uses_with(new)


def _by_kernel(
    facts: AttentionFacts, plan: KernelPlan, build: Builder, elsewhere: bool
) -> ir.Value:
    """The attention's result, by the kernel."""
    kernel = plan.kernel
    most = row_maximum(facts, build) if plan.mask_place else None
    names = [name for name in plan.orders if name != "output"]
    operands = [_operand(facts, plan, build, name, most) for name in names]
    rows, keys = iteration_size(facts, plan.row), iteration_size(facts, facts.k2[0])
    inner = product([iteration_size(facts, dim) for dim in plan.group])
    heads = product([iteration_size(facts, dim) for dim in plan.heads])
    numbers: dict[str, Size | ir.Value] = {
        "rows": rows,
        "keys": keys,
        "group": product([inner, plan.repeats]),
        # Limits that hide nothing, for kernels that know a window alone.
        "diagonal": plan.mask.diagonal if plan.mask.kind in ("causal", "window") else keys,
        "behind": plan.mask.behind if plan.mask.kind == "window" else rows,
        "scale": magnitude(build, facts.value("scale")),
        "cap": build.constant_float(plan.mask.cap, ir.F32Type.get()),
        **_mask_numbers(facts, plan, keys),
    }
    output = [sizes_of(facts.value("output"))[dim] for dim in plan.orders["output"]]
    result = (output, element_type(facts.value("output")))
    if kernel.kind == "decode":
        kv_heads = heads if plan.repeats == 1 else build.size_op("divui", heads, plan.repeats)
        new = launch_decode(build, plan, numbers | {"heads": kv_heads}, operands, result, elsewhere)
    else:
        numbers["heads"] = product([heads, inner])
        blocks = build.size_op("ceildivui", rows, kernel.rows_per_workgroup)
        workgroups = (blocks, numbers["heads"])
        if kernel.programs_per_unit:
            all_blocks = product([blocks, numbers["heads"]])
            workgroups = (build.size_op("minui", all_blocks, plan.programs), 1)
        new = launch(build, kernel, workgroups, numbers, operands, [result], elsewhere)[0]
    return with_zeros(facts, build.transpose(new, maps.inverse(plan.orders["output"])), build)


def _mask_numbers(facts: AttentionFacts, plan: KernelPlan, keys: Size) -> dict[str, Size]:
    """Where in the mask a head's rows stand, in the kernel's words."""
    place = plan.mask_place
    if place is None:
        return {}
    return {
        "mask_stride": keys if place.by_row else 0,
        "mask_divisor": product([iteration_size(facts, dim) for dim in place.inner]),
        "mask_count": product([iteration_size(facts, dim) for dim in place.heads]),
    }


def _operand(
    facts: AttentionFacts, plan: KernelPlan, build: Builder, name: str, most: ir.Value | None
) -> ir.Value:
    """What the kernel reads as Q, K, V or the mask: in its order, in its type; `most` is the
    largest number of each row of the mask where that matters."""
    value = plan.sources.get(name, facts.value(name))
    if name == "mask":
        value = within_range(build, facts, most)
    if name in plan.widened:
        value = widen(build, value, plan.widened[name])
    elif element_type_name(value) == "i1":
        value = cast_elements(build, value, ir.IntegerType.get_signless(8), "arith.extui")
    if name == "query":
        value = without_absorbed(build, facts, value, most)
        value = signed_query(build, value, facts.value("scale"))
    return value if name in plan.sources else build.transpose(value, plan.orders[name])
