"""Builds `hal.dispatch.extern`: a kernel's launch, with its PTX as data.

The operation and IREE's calling convention for CUDA (binding pointers, then 32-bit constants)
are those of IREE 3.13's HAL dialect; f32 travels in an i32 by its bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..ir import Builder, DynamicSize, Size, SizeProduct, element_type_name, product, sizes_of
from . import Kernel

_TARGET = '#hal.executable.target<"cuda", "cuda-nvptx-fb">'
_READ = "#hal.pipeline.binding<storage_buffer, ReadOnly>"
_WRITE = "#hal.pipeline.binding<storage_buffer>"


def launch(
    build: Builder,
    kernel: Kernel,
    workgroups: tuple[Size, Size],
    constants: dict[str, Size | ir.Value],
    tensors: Sequence[ir.Value],
    results: Sequence[tuple[Sequence[Size], ir.Type]],
) -> list[ir.Value]:
    """Runs the kernel with workgroups[0] * workgroups[1] workgroups; returns the results.

    `constants` are what the kernel's 32-bit parameters may be, by name; `results` are sizes
    and element type of what it writes, without the scratch memory, which is added here.
    """
    index = ir.IndexType.get()
    given = [size for tensor in tensors for size in sizes_of(tensor)]
    made = [size for sizes, _ in results for size in sizes]
    argument_dims = [build.size(size) for size in given if not isinstance(size, int)]
    result_dims = [build.size(size) for size in made if not isinstance(size, int)]
    if kernel.scratch_per_workgroup:
        scratch = product([*workgroups, kernel.scratch_per_workgroup])
        results = [*results, ([scratch], ir.IntegerType.get_signless(8))]
    index = ir.IndexType.get()
    made = [[_as_dim(build, size) for size in sizes] for sizes, _ in results]
    types = [build.tensor_type(sizes, kind) for sizes, (_, kind) in zip(made, results, strict=True)]
    workload = [build.size(size) for size in workgroups]
    argument_dims = _dynamic(build, [sizes_of(tensor) for tensor in tensors])
    result_dims = _dynamic(build, made)
    numbers_given = [_as_i32(build, constants[name]) for name in kernel.constants]
    arguments = [*numbers_given, *tensors]
    bindings = ", ".join([_READ] * len(tensors) + [_WRITE] * len(results))
    layout = f"#hal.pipeline.layout<constants = {len(numbers_given)}, bindings = [{bindings}]>"
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
    operands = [*workload, *arguments, *argument_dims, *result_dims]
    op = build.create("hal.dispatch.extern", types, operands, attributes, regions=2)
    kinds = [ir.Type.parse("!hal.device"), *[index] * len(workload)]
    block = op.regions[0].blocks.append(*kinds, arg_locs=[build.location] * len(kinds))

    def workgroup_count(inner: Builder) -> list[ir.Value]:
        _, blocks, heads = block.arguments
        one = inner.constant_index(1)
        return [inner.create("arith.muli", [index], [blocks, heads]).results[0], one, one]

    build.fill_block(block, "hal.return", workgroup_count)
    return list(op.results)


def _as_dim(build: Builder, size: Size) -> Size:
    """A size that a tensor type can have."""
    return DynamicSize(build.size(size)) if isinstance(size, SizeProduct) else size


def _dynamic(build: Builder, shapes: Sequence[Sequence[Size]]) -> list[ir.Value]:
    return [build.size(size) for sizes in shapes for size in sizes if not isinstance(size, int)]


def _object(kernel: Kernel) -> ir.Attribute:
    data = kernel.ptx()
    return ir.Attribute.parse(
        f'#hal.executable.object<{{path = "{kernel.name}.ptx", '
        f'data = dense<"0x{data.hex().upper()}"> : vector<{len(data)}xi8>}}>'
    )


def _as_i32(build: Builder, number: Size | ir.Value) -> ir.Value:
    """A size, or the bits of a scalar that is no integer."""
    i32 = ir.IntegerType.get_signless(32)
    if not isinstance(number, ir.Value):
        return build.create("arith.index_cast", [i32], [build.size(number)]).results[0]
    f32 = ir.F32Type.get()
    width = {"f32": "", "f64": "arith.truncf"}.get(element_type_name(number), "arith.extf")
    if width:
        number = build.create(width, [f32], [number]).results[0]
    return build.create("arith.bitcast", [i32], [number]).results[0]
