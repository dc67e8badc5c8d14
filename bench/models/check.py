"""Compiling and running a model: by IREE alone, or with the passes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import attnpass
from attnpass import Report
from bench.device import load, several, to_iree
from bench.models.trace import Array, Model

TARGET = [
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
]
GENERIC = ["--iree-llvmcpu-target-cpu=generic"]
HOST = ["--iree-llvmcpu-target-cpu=host"]
OFF = "--iree-global-opt-enable-attention-v-transpose=false"


def compile_model(
    model: Model,
    mode: str | None,
    flags: Sequence[str] = (),
    report: Report | None = None,
    cpu: Sequence[str] = GENERIC,
) -> bytes:
    """With the passes in `mode`, or by IREE alone where that is None."""
    extra = [*TARGET, *cpu, *flags]
    if mode is None:
        data = attnpass.compile_str(model.text, extra_args=["--attn-disable", *extra])
    else:
        data = attnpass.compile_str(model.text, mode=mode, report=report, extra_args=extra)
    assert data is not None
    return data


@dataclass(frozen=True)
class Built:
    """A model compiled: its text at `flow`, the bytecode module, and what was decided."""

    flow: str
    vmfb: bytes
    report: Report


def build(
    model: Model,
    mode: str | None,
    flags: Sequence[str] = (),
    cpu: Sequence[str] = GENERIC,
) -> Built:
    """Compiles to the end, and reads the text at `flow` on the way."""
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        dump = f"--dump-compilation-phases-to={folder}"
        vmfb = compile_model(model, mode, [*flags, dump], report, cpu)
        (path,) = Path(folder).glob("*.flow.mlir")
        return Built(path.read_text(), vmfb, report)


def flow_text(model: Model, mode: str | None, flags: Sequence[str] = ()) -> str:
    """The model at `flow`, alone."""
    return compile_model(model, mode, [*flags, "--compile-to=flow"], None).decode()


def run(vmfb: bytes, inputs: Sequence[Array]) -> list[Array]:
    """What the only public function gives for `inputs`."""
    return [np.array(result.to_host()) for result in loaded(vmfb, inputs)()]


def loaded(vmfb: bytes, inputs: Sequence[Array]) -> Callable[[], list[Any]]:
    """A call of the only public function on `inputs`, which lie on the device already (all cores);
    it returns when the results, device arrays, are there."""
    import iree.runtime as runtime

    config = runtime.Config("local-task")
    functions = load(config, vmfb)
    names = [n for n in functions.vm_module.function_names if not n.startswith("__")]
    (name,) = (n for n in names if "$" not in n)
    given = [to_iree(config.device, array) for array in inputs]

    def call() -> list[Any]:
        results = several(functions[name](*given))
        for result in results:
            result.to_host()
        return results

    return call


def error(results: Sequence[Array], wanted: Sequence[Array]) -> float:
    """The largest relative L2 distance of a result from the reference."""
    return max(
        float(np.linalg.norm(np.asarray(got, np.float64) - right) / np.linalg.norm(right))
        for got, right in zip(results, wanted, strict=True)
    )


def worst_error(vmfb: bytes, model: Model) -> float:
    """The error of the model as compiled."""
    return error(run(vmfb, model.inputs), model.outputs)
