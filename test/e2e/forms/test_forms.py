"""Orders of dims, masks, types and sizes, any two of them together, in numbers.

On llvm-cpu compiled and run; for CUDA compiled and its kernels interpreted. All forms, and runs on
a GPU: `tools/fuzz.py --forms`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from forms import APART, CPU_FAMILIES, CPU_TOLERANCE, GPU_FAMILIES, GPU_TOLERANCE, Form, pairwise
from gpu_module import lower_some, run_gpu_module
from helpers import ALL_RUN, compile_text, run_module
from iree.compiler import ir

import attnpass

# With ATTNPASS_EXAMPLES any two values of all factors meet.
NO_PAIRS = () if ALL_RUN else APART
CPU_FORMS = {form.name: form for form in pairwise(CPU_FAMILIES, apart=NO_PAIRS)}
# Once wrong on an H200: orders of the result, of loops, of V and of masks.
REPORTED = [
    Form(
        "hmndk,hdm,hdk,hkn,hnm", "i1", "broadcast", "f32", "", "attention", "a", (64, 16, 192, 192)
    ),
    Form("khnmd,hmd,hkd,khn,hmn", "i1", "row", "f32", "", "attention", "b", (16, 100, 40, 40)),
    Form(
        "hnkmd,hmd,hkd,khn,hmn", "f16", "transposed", "f32", "", "attention", "c", (64, 100, 40, 40)
    ),
    Form(
        "hdknm,hmd,hdk,hnk,hmn",
        "f32",
        "transposed",
        "bf16",
        "k",
        "online_attention",
        "d",
        (64, 40, 8, 8),
    ),
]
GPU_FORMS = {form.name: form for form in [*REPORTED, *pairwise(GPU_FAMILIES, apart=NO_PAIRS)]}


def module(forms: dict[str, Form]) -> str:
    return "".join(form.text(name) for name, form in forms.items())


@cache
def for_cpu() -> bytes:
    return compile_text(module(CPU_FORMS), mode="cost")


@pytest.mark.parametrize("name", CPU_FORMS)
def test_cpu(name: str) -> None:
    form = CPU_FORMS[name]
    assert form.error(run_module(for_cpu(), form.inputs(), name)) < CPU_TOLERANCE[form.kind]


@pytest.fixture(scope="module")
def for_gpu(tmp_path_factory: pytest.TempPathFactory) -> tuple[ir.Module, list[str]]:
    """The kernels, and the names of those that IREE cannot lower."""
    path: Path = tmp_path_factory.mktemp("forms") / "kernels.mlir"
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
    attnpass.compile_str(
        module(GPU_FORMS),
        mode="cost",
        output_file=str(path),
        extra_args=[*flags, "--compile-to=executable-configurations"],
    )
    lowered, failed = lower_some(path.read_text())
    return lowered, list(failed)


@pytest.mark.parametrize("name", GPU_FORMS)
def test_cuda(name: str, for_gpu: tuple[ir.Module, list[str]]) -> None:
    form, (lowered, failed) = GPU_FORMS[name], for_gpu
    if any(kernel.startswith(f"{name}_dispatch_") for kernel in failed):
        # IREE 3.13 has no program for these, whatever configures them.
        assert form.op == "online_attention" and form.dynamic == "mk"
        return
    assert form.error(run_gpu_module(lowered, form.inputs(), name)) < GPU_TOLERANCE[form.kind]
