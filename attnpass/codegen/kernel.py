"""What rewrites of kernels share: finding ops, running IREE's passes, marking what is done."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from iree.compiler import ir, passmanager

from ..ir import (
    collect,
    defining_op,
    descendants,
    detached_copy,
    printed,
    restore,
    set_attribute,
)
from ..ir.views import IN_PLACE, SLICE, below_views
from ..passes import Pass, PassContext
from ..report.ops import op_of
from ..report.records import Report

# The path from a module at IREE's phase executable-configurations to its kernels.
_VARIANTS = ("hal.executable", "hal.executable.variant")
_FUNCTIONS = ("builtin.module", "func.func")
_LOADS = ("iree_codegen.load_from_buffer", "iree_tensor_ext.dispatch.tensor.load")
STORES = ("iree_codegen.store_to_buffer", "iree_tensor_ext.dispatch.tensor.store")
# What a kernel that is lowered here says of the pipeline it was for.
_LOWERED_BY = "attnpass.lowered_by"
GPU_LOWERING = "iree-llvmgpu-lower-executable-target"
# What an op of a kernel says of how it is cut.
CONFIGURATION = "lowering_config"


class KernelsPass(Pass):
    """Base of the passes that configure or lower the kernels of a backend, one by one."""

    phase = "executable-configurations"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        (backend,) = self.backends
        kernels = list(kernels_for(module, backend))
        return any([self.change(*each, context.report) for each in kernels])

    def change(self, function: ir.Operation, target: str, report: Report) -> bool:
        """Changes a kernel for a target, as IREE prints it, and reports that; returns whether it
        did."""
        raise NotImplementedError


def load_of(value: ir.Value) -> ir.Operation | None:
    """The op that loads the tensor which `value` is a piece of from a buffer that the kernel is
    given; None for one that the kernel computes."""
    return defining_op(below_views(value, (*IN_PLACE, SLICE)), *_LOADS)


def blocks_of(op: ir.Operation) -> Iterator[ir.Block]:
    """The blocks in an op, outer ones first."""
    for region in op.regions:
        for block in region:
            yield block
            for inner in list(block):
                yield from blocks_of(inner.operation)


def kernels_by_target(module: ir.Operation) -> Iterator[tuple[ir.Operation, str]]:
    """The kernels of a module at IREE's phase executable-configurations, each with the text of the
    target that it is for."""
    for variant in descendants(module, *_VARIANTS):
        target = str(variant.attributes["target"])
        yield from ((function, target) for function in list(descendants(variant, *_FUNCTIONS)))


def kernels_for(module: ir.Operation, backend: str) -> Iterator[tuple[ir.Operation, str]]:
    """Those for a backend that IREE is yet to lower."""
    for function, target in kernels_by_target(module):
        if backend in printed.backends(target) and is_to_be_lowered(function):
            yield function, target


def is_to_be_lowered(function: ir.Operation) -> bool:
    """Whether IREE is yet to lower this kernel, by one of its pipelines."""
    if "translation_info" not in function.attributes:
        return False
    return bool(printed.pipeline(function.attributes["translation_info"]))


def run_passes(function: ir.Operation, passes: str) -> str:
    """Runs IREE's passes on one kernel; returns why one failed, or nothing."""
    messages: list[str] = []

    def hear(diagnostic: ir.Diagnostic) -> bool:
        if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
            messages.append(diagnostic.message)
        return True

    # A kernel that IREE complains of is left to it: it says so again, and may go on all the
    # same (keys of unknown number without a mask: its result is wrong).
    with function.context as context, context.attach_diagnostic_handler(hear):
        emits, context.emit_error_diagnostics = context.emit_error_diagnostics, True
        try:
            passmanager.PassManager.parse(f"func.func({passes})").run(function)
        except ir.MLIRError:
            messages = messages or ["no reason given"]
        except ValueError as error:
            # Another IREE has no pass of that name, or no such option of it.
            messages = [str(error).partition("error: ")[2] or str(error)]
        finally:
            context.emit_error_diagnostics = emits
    return messages[0].splitlines()[0] if messages else ""


def _find_no_classes() -> None:
    """Has the bindings find that there are no Python classes of `nvgpu`'s ops. They look for these
    in all folders of Python's path, as long as there is no such module, whenever they hand out an
    op that uses a value: that took a sixth of a compile of attention for CUDA."""
    name = "iree.compiler.dialects.nvgpu"
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        sys.modules[name] = types.ModuleType(name)


def lower(function: ir.Operation, report: Report) -> bool:
    """Runs IREE's lowering of a GPU kernel to vectors. Where it fails the kernel stays as it
    was, which the report says, and `function` must not be used again."""
    _find_no_classes()
    kernel, copy = op_of(function), detached_copy(function)
    problem = run_passes(function, GPU_LOWERING)
    if problem:
        restore(function, copy)
        report.record(kernel, "left", f"IREE says of its lowering: {problem}")
    return not problem


def rewrite_lowered(
    function: ir.Operation, report: Report, rewrite: Callable[[ir.Operation], bool]
) -> bool:
    """Lowers a kernel and rewrites it; one in which `rewrite` changes nothing is as it was, for
    IREE to lower. Returns whether it was changed."""
    copy = detached_copy(function)
    if not lower(function, report):
        return False
    if not rewrite(function):
        restore(function, copy)
        return False
    mark_lowered(function)
    return True


def configured(function: ir.Operation) -> list[ir.Operation]:
    """The ops of a kernel that say how they are cut."""
    return collect(function, lambda op: CONFIGURATION in op.attributes, bodies=False)


def reconfigure(op: ir.Operation, changes: Mapping[str, Callable[[list[Any]], list[Any]]]) -> None:
    """Changes the lists of these names in what an op says of how it is cut."""
    set_attribute(op, CONFIGURATION, printed.with_numbers(op.attributes[CONFIGURATION], changes))


def set_threads(function: ir.Operation, threads: int, pipeline: str = "") -> None:
    """Gives a GPU's kernel workgroups of so many threads, and the pipeline of IREE that is named,
    if one is."""
    info = function.attributes["translation_info"]
    if pipeline:
        info = printed.with_pipeline(info, f"#iree_gpu.pipeline<{pipeline}>")
    info = printed.with_numbers(info, {"workgroup_size": lambda _: [threads, 1, 1]})
    set_attribute(function, "translation_info", info)


def mark_lowered(function: ir.Operation) -> None:
    """Keeps IREE from lowering a kernel again; its workgroup stays."""
    info = function.attributes["translation_info"]
    if found := printed.pipeline(info):
        set_attribute(function, _LOWERED_BY, f'"{found}"')
    set_attribute(function, "translation_info", printed.with_pipeline(info))


def pipeline_of(function: ir.Operation) -> str:
    """The pipeline of IREE that lowers a kernel, or has lowered it here; '' for none."""
    attributes = function.attributes
    lowered_by = printed.pipeline(attributes.get(_LOWERED_BY, ""))
    return lowered_by or printed.pipeline(attributes.get("translation_info", ""))
