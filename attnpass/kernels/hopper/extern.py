"""Builds `hal.dispatch.extern`: a kernel's launch, with its code as data.

The operation and IREE's calling convention for CUDA (binding pointers, then 32-bit constants)
are those of IREE 3.13's HAL dialect; f32 travels in an i32 by its bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ...ir import (
    Builder,
    DynamicSize,
    Size,
    SizeProduct,
    collect,
    descendants,
    element_type_name,
    product,
    sizes_of,
)
from .manifest import DeviceCode, load_kernels

_TARGET = '#hal.executable.target<"cuda", "cuda-nvptx-fb">'
_READ = '#hal.pipeline.binding<storage_buffer, "ReadOnly|Indirect">'
_WRITE = "#hal.pipeline.binding<storage_buffer, Indirect>"


def launch(
    build: Builder,
    kernel: DeviceCode,
    workgroups: tuple[Size, Size],
    constants: dict[str, Size | ir.Value],
    tensors: Sequence[ir.Value],
    results: Sequence[tuple[Sequence[Size], ir.Type]],
    elsewhere: bool = False,
) -> list[ir.Value]:
    """Runs the kernel with workgroups[0] * workgroups[1] workgroups; returns the results.

    `constants` are what the kernel's 32-bit parameters may be, by name; `results` are sizes
    and element type of what it writes, without the scratch memory, which is added here. With
    `elsewhere` the module can be loaded where the kernel cannot, and must not run it there.
    """
    if kernel.scratch_per_workgroup:
        scratch = product([*workgroups, kernel.scratch_per_workgroup])
        results = [*results, ([scratch], ir.IntegerType.get_signless(8))]
    made = [[_as_dim(build, size) for size in sizes] for sizes, _ in results]
    types = [build.tensor_type(sizes, kind) for sizes, (_, kind) in zip(made, results, strict=True)]
    workload = [build.size(size) for size in workgroups]
    argument_dims = _dynamic(build, [sizes_of(tensor) for tensor in tensors])
    result_dims = _dynamic(build, made)
    arguments = [*(_as_i32(build, constants[name]) for name in kernel.constants), *tensors]
    parts = [workload, arguments, argument_dims, result_dims]
    objects = [_object(kernel.name, kernel.image())]
    if elsewhere:
        objects.append(_object(f"{kernel.name}_elsewhere", _stub(kernel, len(tensors) + len(made))))
    attributes = _attributes(build, kernel, len(tensors), len(results), objects)
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([len(part) for part in parts])
    operands = [value for part in parts for value in part]
    op = build.create("hal.dispatch.extern", types, operands, attributes, regions=1 + len(objects))
    _count_workgroups(build, op)
    if elsewhere:
        _ask_for_hopper(build, op)
    return list(op.results)


def _attributes(
    build: Builder, kernel: DeviceCode, reads: int, writes: int, objects: Sequence[ir.Attribute]
) -> dict[str, ir.Attribute]:
    """The attributes of the launch, but for the sizes of its operands' parts."""
    index = ir.IndexType.get()

    def numbers(*values: int) -> ir.ArrayAttr:
        return ir.ArrayAttr.get([ir.IntegerAttr.get(index, value) for value in values])

    bindings = ", ".join([_READ] * reads + [_WRITE] * writes)
    constants = len(kernel.constants)
    layout = (
        f"#hal.pipeline.layout<constants = {constants}, bindings = [{bindings}], flags = Indirect>"
    )
    return {
        "export_name": build.string(kernel.name),
        "layout": ir.Attribute.parse(layout),
        "targets": ir.ArrayAttr.get([ir.Attribute.parse(_TARGET)] * len(objects)),
        "target_objects": ir.ArrayAttr.get([ir.ArrayAttr.get([each]) for each in objects]),
        "target_ordinals": numbers(*[0] * len(objects)),
        "tied_operands": numbers(*[-1] * writes),
        "workgroup_size": numbers(kernel.workgroup_size, 1, 1),
        "workgroup_local_memory": ir.IntegerAttr.get(index, kernel.shared_memory),
    }


def _count_workgroups(build: Builder, op: ir.Operation) -> None:
    """Fills the region that makes a grid of the two numbers of workgroups."""
    index = ir.IndexType.get()
    kinds = [ir.Type.parse("!hal.device"), index, index]
    block = op.regions[0].blocks.append(*kinds, arg_locs=[build.location] * len(kinds))

    def grid(inner: Builder) -> list[ir.Value]:
        _, blocks, heads = block.arguments
        one = inner.constant_index(1)
        return [inner.create("arith.muli", [index], [blocks, heads]).results[0], one, one]

    build.fill_block(block, "hal.return", grid)


def _ask_for_hopper(build: Builder, op: ir.Operation) -> None:
    """Fills the region that says whether a device takes the first object."""
    block = op.regions[1].blocks.append(ir.Type.parse("!hal.device"), arg_locs=[build.location])
    build.fill_block(block, "hal.return", lambda inner: [_is_hopper(inner, block.arguments[0])])


def runs_on_hopper(build: Builder) -> ir.Value:
    """Whether the module's device can run the kernels, asked at run time."""
    kind = ir.Type.parse("!hal.device")
    device = build.create("hal.devices.get", [kind], [build.constant_index(0)]).results[0]
    return _is_hopper(build, device)


def _is_hopper(build: Builder, device: ir.Value) -> ir.Value:
    """Compute capability 9.0, which alone runs what is compiled for sm_90a."""
    i1, i32 = ir.IntegerType.get_signless(1), ir.IntegerType.get_signless(32)
    attributes = {
        "category": build.string("cuda.device"),
        "key": build.string("compute_capability_major"),
        "default_value": ir.IntegerAttr.get(i32, 0),
    }
    major = build.create("hal.device.query", [i1, i32], [device], attributes).results[1]
    return build.compare("eq", major, build.constant_number(9, i32))


def launches_in(module: ir.Operation) -> bool:
    """Whether a module, at IREE's phase preprocessing or flow, launches one of these kernels."""
    path = ("hal.executable", "hal.executable.variant", "hal.executable.export")
    names = [op.attributes["sym_name"] for op in descendants(module, *path)]
    launches = collect(module, lambda op: op.name == "hal.dispatch.extern")
    names += [op.attributes["export_name"] for op in launches]
    launched = {ir.StringAttr(name).value for name in names}
    return bool(launched) and any(kernel.name in launched for kernel in load_kernels())


def _as_dim(build: Builder, size: Size) -> Size:
    """A size that a tensor type can have."""
    return DynamicSize(build.size(size)) if isinstance(size, SizeProduct) else size


def _dynamic(build: Builder, shapes: Sequence[Sequence[Size]]) -> list[ir.Value]:
    return [build.size(size) for sizes in shapes for size in sizes if not isinstance(size, int)]


def _stub(kernel: DeviceCode, pointers: int) -> bytes:
    """PTX that any GPU loads: the kernel's parameters, and no work. IREE loads a module's
    executables when the module is loaded, so each must have a variant for every device."""
    kinds = [".u64"] * pointers + [".u32"] * len(kernel.constants)
    parameters = ", ".join(f".param {kind} p{number}" for number, kind in enumerate(kinds))
    text = f".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry {kernel.name}"
    return f"{text}({parameters})\n{{\n  ret;\n}}\n".encode()


def _object(name: str, data: bytes) -> ir.Attribute:
    return ir.Attribute.parse(
        f'#hal.executable.object<{{path = "{name}.cubin", '
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
