"""attn-assemble-kernels: the module holds machine code beside its PTX, for CUDA."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from iree.compiler import ir

from ..codegen.assembler import (
    Assembler,
    entries_of,
    fat_binary,
    find_assembler,
    worth_assembling,
)
from ..codegen.executables import Image, images_of, with_image
from ..ir import Refusal, collect, known_attribute, set_attribute
from ..ir.constants import raw_data
from ..passes import Pass, PassContext, option

_BINARY = "hal.executable.binary"


@dataclass(frozen=True)
class AssembleKernels(Pass):
    """Puts the GPU's machine code beside the PTX of each kernel, where a `ptxas` of CUDA 12 is
    installed (NVIDIA's toolkit or the packages nvidia-cuda-nvcc-cu12 and triton have one).

    IREE 3.13 hands PTX alone to the driver, which compiles it when a module is loaded: up to half
    a second. `iree-compile --iree-cuda-use-ptxas` would do so, but has no effect. A GPU of another
    architecture still takes the PTX.
    """

    name = "attn-assemble-kernels"
    summary = "CUDA: kernels are assembled when they are compiled, not when they are loaded"
    why = "IREE hands PTX alone to the driver, which compiles it when a module is loaded"
    phase = "hal"
    backends = ("cuda",)

    ptxas: str = option("auto", "the assembler: `auto` for one that is installed, or its path")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if not self.is_for(module):
            return False
        executables = collect(module, lambda op: op.name == _BINARY, bodies=False)
        found = [
            _Assembled(op, image)
            for op in executables
            for image in images_of(_data(op))
            if worth_assembling(image.data)
        ]
        if not found:
            return False
        tool = find_assembler(self.ptxas.strip("{}"))
        written = tool if isinstance(tool, Refusal) else _machine_code(tool, found)
        if isinstance(written, Refusal):
            context.report.note(
                f"kernels stay PTX, which the driver compiles when the module is loaded: {written}"
            )
            return False
        for kernel, code in zip(found, written, strict=True):
            kernel.replace(fat_binary(code, kernel.image.data))
        count = sum(entries_of(kernel.image.data) for kernel in found)
        context.report.note(
            f"the machine code of {count} kernels stands beside their PTX, which drivers of other "
            "GPUs compile when the module is loaded",
            kernels=count,
        )
        return True


@dataclass(frozen=True)
class _Assembled:
    """PTX in an executable, of which machine code is made."""

    executable: ir.Operation
    image: Image

    def replace(self, image: bytes) -> None:
        data = with_image(_data(self.executable), self.image, image)
        text = f'dense<"0x{data.hex().upper()}"> : vector<{len(data)}xi8>'
        set_attribute(self.executable, "data", text)


def _data(executable: ir.Operation) -> bytes:
    data = known_attribute(executable, "data")
    return raw_data(data, ir.ShapedType(data.type).get_dim_size(0))


def _machine_code(tool: Assembler, kernels: Sequence[_Assembled]) -> list[bytes] | Refusal:
    """The machine code of each kernel, or why one has none."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        written = list(threads.map(tool.machine_code, (one.image.data for one in kernels)))
    for code in written:
        if isinstance(code, Refusal):
            return code
    return [code for code in written if not isinstance(code, Refusal)]
