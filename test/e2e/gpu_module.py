"""Runs a whole module that is compiled for a GPU in numpy, without the GPU.

`lowered` compiles it, and `lower` takes it from the phase executable-configurations, to where its
kernels are loops and vectors, which `gpu_interpreter` runs; `run_gpu_module` is the host program
around them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from gpu_interpreter import TYPES, Machine, run_whole_kernel
from helpers import iree_alone
from iree.compiler import ir, passmanager

import attnpass
from attnpass import Report
from attnpass.codegen.kernel import is_to_be_lowered, kernels_by_target
from attnpass.ir import DYNAMIC, collect
from attnpass.passes import Pass, PassContext
from attnpass.report.entries import Record

_CONFIGURED = "--compile-to=executable-configurations"
_LOWER = "iree-llvmgpu-lower-executable-target"
LOWER_VECTORS = "iree-llvmgpu-vector-lowering"
# How types lie in memory, where the interpreter computes with others.
_STORED = {"i32": np.int32, "i1": np.int8}


def lowered(text: str, flags: Sequence[str], **options: Any) -> ir.Module:
    """A module that attnpass has compiled for a GPU, with its kernels lowered; MLIRError."""
    configured = attnpass.compile_str(text, extra_args=[*flags, _CONFIGURED], **options)
    assert configured is not None
    return lower(configured.decode())


def behind_pass(text: str, kernels: Pass, flags: Sequence[str]) -> tuple[str, list[Record]]:
    """A module that IREE has compiled for a GPU behind a pass over its kernels, and what that
    says it has fitted."""
    configured = iree_alone(text, [*flags, _CONFIGURED])
    report, context = Report(), ir.Context()
    context.load_all_available_dialects()
    with context:
        module = ir.Module.parse(configured)
        kernels.run(module.operation, PassContext(report))
        return str(module), report.found("fitted")


def lower(text: str) -> ir.Module:
    """A module at the phase executable-configurations with its kernels lowered; MLIRError."""
    module, failed = lower_some(text)
    for error in failed.values():
        raise error
    return module


def lower_vectors(module: ir.Module) -> None:
    """Takes the kernels of a lowered module through IREE's own lowering of products of vectors."""
    manager = passmanager.PassManager.parse(f"func.func({LOWER_VECTORS})", module.context)
    for function in kernels(module):
        manager.run(function)


def lower_some(text: str) -> tuple[ir.Module, dict[str, ir.MLIRError]]:
    """A module with those kernels lowered that IREE can lower, and the errors of the others by
    their names."""
    context = ir.Context()
    context.load_all_available_dialects()
    module = ir.Module.parse(text, context)
    manager = passmanager.PassManager.parse(f"func.func({_LOWER})", context)
    failed: dict[str, ir.MLIRError] = {}
    for function in kernels(module):
        if is_to_be_lowered(function):
            try:
                manager.run(function)
            except ir.MLIRError as error:
                failed[ir.StringAttr(function.attributes["sym_name"]).value] = error
    return module, failed


def kernels(module: ir.Module) -> list[ir.Operation]:
    """The kernels of a lowered module, in order."""
    return [function for function, _ in kernels_by_target(module.operation)]


def run_gpu_module(
    module: ir.Module, inputs: Sequence[np.ndarray], name: str = "main", last: int = 0
) -> list[np.ndarray]:
    """The results of a function of a lowered module. With `last`, only so many workgroups of
    the kernel that is dispatched last are run; `is_written` says of each element whether any
    has written it."""
    functions = [op for op in _beside_kernels(module) if op.name == "util.func"]
    (function,) = (f for f in functions if str(f.attributes["sym_name"]) == f'"{name}"')
    return _Host(module, last).call(function, inputs)


def _beside_kernels(module: ir.Module) -> list[ir.Operation]:
    """What stands in a module beside kernels, whose many ops take long to look through."""
    ops = (view.operation for view in module.body.operations)
    return [op for op in ops if op.name != "hal.executable"]


def is_written(array: np.ndarray) -> np.ndarray:
    """Which elements a kernel has written: the bits of the others are all set, which those of
    no number or NaN that numpy computes are."""
    bits = np.ascontiguousarray(array).view(f"u{array.itemsize}")
    return bits != np.iinfo(bits.dtype).max


class _Host(Machine):
    """The program that calls kernels: one thread. Resources are arrays of bytes."""

    def __init__(self, module: ir.Module, last: int):
        super().__init__(_no_binding, (1, 1, 1), (), ())
        self.module, self.last = module, last
        self.globals: dict[str, Any] = {}
        self.kernels = {str(f.attributes["sym_name"]): f for f in kernels(module)}
        self.to_come = sum(
            len(collect(op, lambda one: one.name == "stream.cmd.dispatch"))
            for op in _beside_kernels(module)
        )

    def call(self, function: ir.Operation, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        for op in _beside_kernels(self.module):
            if op.name == "util.initializer" and not collect(op, _executes):
                self.block(op.regions[0].blocks[0])
        block = function.regions[0].blocks[0]
        self.values.update(zip(block.arguments, inputs, strict=True))
        return self.block(block)

    def do_hal_element_type(self, op: ir.Operation) -> None: ...

    def do_hal_encoding_type(self, op: ir.Operation) -> None: ...

    def do_hal_buffer_view_assert(self, op: ir.Operation, *_: Any) -> None: ...

    def do_hal_buffer_view_dim(self, op: ir.Operation, view: np.ndarray) -> Any:
        return self.everywhere(view.shape[ir.IntegerAttr(op.attributes["index"]).value])

    def do_util_global_store(self, op: ir.Operation, value: Any) -> None:
        self.globals[str(op.attributes["global"])] = value

    def do_util_global_load(self, op: ir.Operation) -> Any:
        return self.globals[str(op.attributes["global"])]

    def do_util_optimization_barrier(self, op: ir.Operation, *operands: Any) -> Any:
        return list(operands)

    def do_util_align(self, op: ir.Operation, value: Any, to: Any) -> Any:
        return -(-value // to) * to

    def do_stream_tensor_import(self, op: ir.Operation, view: np.ndarray, *_: Any) -> Any:
        return np.frombuffer(bytearray(view.tobytes()), np.uint8)

    def do_stream_tensor_export(self, op: ir.Operation, data: np.ndarray, *sizes: Any) -> Any:
        kind = ir.ShapedType(ir.TypeAttr(op.attributes["source_encoding"]).value)
        return _view(data, 0, kind, [int(size[0]) for size in sizes[:-1]])

    def do_stream_resource_alloca(self, op: ir.Operation, size: Any, *_: Any) -> Any:
        return [np.full(int(size[0]), 0xFF, np.uint8), None]

    def do_stream_resource_subview(self, op: ir.Operation, data: np.ndarray, *sizes: Any) -> Any:
        _, start, size = (int(number[0]) for number in sizes)
        return data[start : start + size]

    def do_stream_timepoint_join(self, op: ir.Operation, *_: Any) -> None: ...

    def do_stream_resource_dealloca(self, op: ir.Operation, *_: Any) -> None: ...

    def do_stream_timepoint_await(self, op: ir.Operation, *operands: Any) -> Any:
        return list(operands[: len(op.results)])

    def do_stream_cmd_execute(self, op: ir.Operation, *operands: Any) -> None:
        block = op.regions[0].blocks[0]
        resources = [x for x in operands if x is not None and x.dtype == np.uint8]
        self.values.update(zip(block.arguments, resources, strict=True))
        self.block(block)

    def do_stream_cmd_concurrent(self, op: ir.Operation) -> None:
        self.block(op.regions[0].blocks[0])

    do_stream_cmd_serial = do_stream_cmd_concurrent

    def do_stream_cmd_fill(self, op: ir.Operation, *operands: Any) -> None:
        target, _, start, size, value = operands
        name = str(op.operands[4].type)
        kind = _STORED.get(name, TYPES[name])
        part = target[int(start[0]) : int(start[0] + size[0])]
        part.view(kind)[...] = value[0]

    def do_stream_cmd_copy(self, op: ir.Operation, *operands: Any) -> None:
        source, _, start, target, _, begin, size = operands
        start, begin, size = (int(number[0]) for number in (start, begin, size))
        target[begin : begin + size] = source[start : start + size]

    def do_stream_cmd_dispatch(self, op: ir.Operation, *operands: Any) -> None:
        parts, rest = [], list(operands)
        for count in op.attributes["operandSegmentSizes"]:
            parts.append(rest[:count])
            rest = rest[count:]
        _, constants, resources, _, starts, _ = parts
        (entry,) = op.attributes["entry_points"]
        function = self.kernels[f'"{ir.SymbolRefAttr(entry).value[-1]}"']

        def bind(span: ir.Operation, offset: int, sizes: Sequence[int]) -> np.ndarray:
            number = ir.IntegerAttr(span.attributes["binding"]).value
            offset += int(starts[number][0])
            return _view(resources[number], offset, ir.ShapedType(span.results[0].type), sizes)

        info = str(function.attributes["translation_info"])
        (size,) = re.findall(r"workgroup_size = \[(\d+), (\d+), (\d+)\]", info)
        (lanes,) = re.findall(r"subgroup_size = (\d+)", info)
        self.to_come -= 1
        some = 0 if self.to_come else self.last
        numbers = [int(number[0]) for number in constants]
        run_whole_kernel(function, bind, [int(n) for n in size], numbers, int(lanes), some)


def _executes(op: ir.Operation) -> bool:
    return op.name == "stream.cmd.execute"


def _no_binding(op: ir.Operation, offset: int, sizes: Sequence[int]) -> np.ndarray:
    raise AssertionError("only kernels bind buffers")


def _view(data: np.ndarray, offset: int, kind: ir.ShapedType, sizes: Sequence[int]) -> np.ndarray:
    """Bytes from `offset` as an array of a type whose unknown sizes are `sizes`."""
    unknown, name = iter(sizes), str(kind.element_type)
    shape = [next(unknown) if size == DYNAMIC else size for size in kind.shape]
    element = np.dtype(_STORED.get(name, TYPES[name]))
    size = int(np.prod(shape)) * element.itemsize
    return data[offset : offset + size].view(element).reshape(shape)
