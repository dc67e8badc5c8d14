"""Writes a chosen kernel into a module: `hal.dispatch.extern` with the PTX as data.

The operation and IREE's calling convention for CUDA (binding pointers, then 32-bit constants)
are those of IREE 3.13's HAL dialect; f32 travels in an i32 by its bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from .. import maps
from ..attention import AttentionFacts
from ..ir import (
    Builder,
    DynamicSize,
    Size,
    element_type,
    element_type_name,
    product,
    sizes_of,
)
from ..layout.attention_rewrite import iteration_size
from . import Kernel
from .choose import KernelPlan

_TARGET = '#hal.executable.target<"cuda", "cuda-nvptx-fb">'
_READ = "#hal.pipeline.binding<storage_buffer, ReadOnly>"
_WRITE = "#hal.pipeline.binding<storage_buffer>"


def replace_by_kernel(facts: AttentionFacts, plan: KernelPlan) -> None:
    """Makes the attention's users read the kernel's result; the attention is left without
    uses. Needs a current context."""
    build, kernel = Builder(facts.op), plan.kernel
    names = [name for name in plan.orders if name != "output"]
    operands = [
        plan.sources[name]
        if name in plan.sources
        else build.transpose(_as_bytes(build, facts.value(name)), plan.orders[name])
        for name in names
    ]
    rows, keys = iteration_size(facts, plan.row), iteration_size(facts, facts.k2[0])
    group = product([iteration_size(facts, dim) for dim in plan.group])
    heads = product([*[iteration_size(facts, dim) for dim in plan.heads], group])
    blocks = _ceildiv(build, rows, kernel.rows_per_workgroup)
    scratch = product([blocks, heads, kernel.scratch_per_workgroup])
    if not isinstance(scratch, int):
        scratch = DynamicSize(build.size(scratch))
    numbers = {"rows": rows, "keys": keys, "group": product([group, plan.repeats])}
    numbers |= {"diagonal": plan.mask.diagonal, "behind": plan.mask.behind}
    numbers |= _mask_numbers(facts, plan, keys)
    scale = _scale_bits(build, facts.value("scale"))
    constants = [
        scale if name == "scale" else _as_i32(build, build.size(numbers[name]))
        for name in kernel.constants
    ]
    output = [sizes_of(facts.value("output"))[dim] for dim in plan.orders["output"]]
    i8 = ir.IntegerType.get_signless(8)
    results = [(output, element_type(facts.value("output"))), ([scratch], i8)]
    workgroups = [build.size(blocks), build.size(heads)]
    new = _extern(build, kernel, workgroups, constants, operands, results)
    back = build.transpose(new, maps.inverse(plan.orders["output"]))
    facts.op.results[0].replace_all_uses_with(back)


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


def _as_bytes(build: Builder, value: ir.Value) -> ir.Value:
    """Truth values as bytes; other tensors as they are."""
    if element_type_name(value) != "i1":
        return value
    i8 = ir.IntegerType.get_signless(8)
    sizes = sizes_of(value)
    axes = tuple(range(len(sizes)))

    def widen(inner: Builder, elements: Sequence[ir.Value]) -> list[ir.Value]:
        return [inner.create("arith.extui", [i8], [elements[0]]).results[0]]

    return build.generic([value], [build.empty(sizes, i8)], [axes, axes], widen)[0]


def _extern(
    build: Builder,
    kernel: Kernel,
    workload: Sequence[ir.Value],
    constants: Sequence[ir.Value],
    tensors: Sequence[ir.Value],
    results: Sequence[tuple[Sequence[Size], ir.Type]],
) -> ir.Value:
    """The `hal.dispatch.extern`; its first result."""
    index = ir.IndexType.get()
    given = [size for tensor in tensors for size in sizes_of(tensor)]
    made = [size for sizes, _ in results for size in sizes]
    argument_dims = [build.size(size) for size in given if not isinstance(size, int)]
    result_dims = [build.size(size) for size in made if not isinstance(size, int)]
    arguments = [*constants, *tensors]
    bindings = ", ".join([_READ] * len(tensors) + [_WRITE] * len(results))
    layout = f"#hal.pipeline.layout<constants = {len(constants)}, bindings = [{bindings}]>"
    segments = [len(workload), len(arguments), len(argument_dims), len(result_dims)]

    def numbers(*values: int) -> ir.ArrayAttr:
        return ir.ArrayAttr.get([ir.IntegerAttr.get(index, value) for value in values])

    attributes: dict[str, ir.Attribute] = {
        "export_name": build.string(kernel.name),
        "layout": ir.Attribute.parse(layout),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments),
        "targets": ir.ArrayAttr.get([ir.Attribute.parse(_TARGET)]),
        "target_objects": ir.ArrayAttr.get([ir.ArrayAttr.get([_object(kernel)])]),
        "target_ordinals": numbers(0),
        "tied_operands": numbers(*[-1] * len(results)),
        "workgroup_size": numbers(kernel.workgroup_size, 1, 1),
        "workgroup_local_memory": ir.IntegerAttr.get(index, kernel.shared_memory),
    }
    types = [build.tensor_type(sizes, element) for sizes, element in results]
    operands = [*workload, *arguments, *argument_dims, *result_dims]
    op = build.create("hal.dispatch.extern", types, operands, attributes, regions=2)
    kinds = [ir.Type.parse("!hal.device"), *[index] * len(workload)]
    block = op.regions[0].blocks.append(*kinds, arg_locs=[build.location] * len(kinds))

    def workgroup_count(inner: Builder) -> list[ir.Value]:
        _, blocks, heads = block.arguments
        one = inner.constant_index(1)
        return [inner.create("arith.muli", [index], [blocks, heads]).results[0], one, one]

    build.fill_block(block, "hal.return", workgroup_count)
    return op.results[0]


def _object(kernel: Kernel) -> ir.Attribute:
    data = kernel.ptx()
    return ir.Attribute.parse(
        f'#hal.executable.object<{{path = "{kernel.name}.ptx", '
        f'data = dense<"0x{data.hex().upper()}"> : vector<{len(data)}xi8>}}>'
    )


def _ceildiv(build: Builder, size: Size, divisor: int) -> Size:
    if isinstance(size, int):
        return -(-size // divisor)
    return build.size_op("ceildivui", size, divisor)


def _as_i32(build: Builder, value: ir.Value) -> ir.Value:
    i32 = ir.IntegerType.get_signless(32)
    return build.create("arith.index_cast", [i32], [value]).results[0]


def _scale_bits(build: Builder, scale: ir.Value) -> ir.Value:
    """The scale as f32, in the bits of an i32."""
    f32, i32 = ir.F32Type.get(), ir.IntegerType.get_signless(32)
    width = {"f32": "", "f64": "arith.truncf"}.get(element_type_name(scale), "arith.extf")
    if width:
        scale = build.create(width, [f32], [scale]).results[0]
    return build.create("arith.bitcast", [i32], [scale]).results[0]
