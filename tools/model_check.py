"""Compiling and running a traced model, and reading what IREE made of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from mlir_trace import Model

import attnpass
from attnpass import Report

TARGET = [
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=generic",
]


def compile_model(model: Model, mode: str | None, flags: list[str], report: Report | None) -> bytes:
    """With the passes in `mode`, or by IREE alone where that is None."""
    extra = [*TARGET, *flags]
    if mode is None:
        from iree.compiler.tools import compile_str

        data = compile_str(model.text, extra_args=extra)
    else:
        data = attnpass.compile_str(model.text, mode=mode, report=report, extra_args=extra)
    assert data is not None
    return data


def worst_error(vmfb: bytes, model: Model) -> float:
    """The largest relative L2 distance of a result from the reference."""
    import iree.runtime as runtime

    config = runtime.Config("local-task")
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, vmfb))
    results: Any = context.modules.module["main"](*model.inputs)
    if not isinstance(results, tuple | list):
        results = [results]
    return max(
        float(np.linalg.norm(np.asarray(got.to_host(), np.float64) - wanted))
        / float(np.linalg.norm(wanted))
        for got, wanted in zip(results, model.outputs, strict=True)
    )


def dispatches(flow: str) -> int:
    return len(re.findall(r"flow\.dispatch @", flow))


def v_transposed(flow: str) -> list[bool]:
    """Per attention of a module at `flow`: whether k2, the last dim of the reduction, is
    innermost in V's map. k2 is the last dim of K's and V's maps that the result lacks."""
    found = []
    for text in re.findall(r"attention <indexing_maps = \[(.*?)\]>", flow):
        q, _, v, *_, out = [re.split(r", ", dims) for dims in re.findall(r"-> \(([^)]*)\)>", text)]
        keys = [dim for dim in v if dim not in out and dim not in q]
        found.append(bool(keys) and v[-1] in keys)
    return found
