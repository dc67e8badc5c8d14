"""CUDA architectures that IREE 3.13 knows by name alone, described for it.

For `--iree-cuda-target=sm_90` IREE writes a target without limits and instructions, and then
refuses most kernels ("missing GPU target"). All of the compiler reads them from the module,
so it is enough to write them there. Limits: CUDA C++ Programming Guide, "Compute
Capabilities"; `mma.sync` in f16, bf16 and fp8, which sm_89 has, runs on all of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir import body_ops, known_attribute, printed, set_attribute
from ..report.records import Report

if TYPE_CHECKING:
    from iree.compiler import ir
    from iree.compiler.api import Session

# The first PTX version that has the architecture and, in LLVM, its fp8 `mma.sync`.
PTX_VERSIONS = {
    "sm_90": 84,
    "sm_90a": 84,
    "sm_100": 86,
    "sm_100a": 86,
    "sm_103": 88,
    "sm_103a": 88,
}
SHARED_MEMORY_BYTES = 232448
# What IREE's flag for PTX features says where the user has not given it.
_DEFAULT_FEATURES = "+ptx76"

_UNDESCRIBED = '#hal.executable.target<"cuda", "cuda-nvptx-fb">'
_DESCRIBED = """\
#hal.executable.target<"cuda", "cuda-nvptx-fb", {{iree_codegen.target_info = #iree_gpu.target<
  arch = "{arch}", features = "{features}", wgp = <
    compute = fp64|fp32|fp16|int64|int32|int16|int8, storage = b64|b32|b16|b8,
    subgroup = shuffle|arithmetic, dot = dp4xi8toi32,
    mma = [<NV_MMA_SYNC_F32_16x8x16_F16>, <NV_MMA_SYNC_F16_16x8x16_F16>,
           <NV_MMA_SYNC_F32_16x8x16_BF16>, <NV_MMA_SYNC_F32_16x8x32_F8E4M3FN>,
           <NV_MMA_SYNC_F32_16x8x32_F8E5M2>, <NV_WMMA_F32_16x16x16_F16>,
           <NV_WMMA_F16_16x16x16_F16>],
    subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 64],
    max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = {shared},
    max_workgroup_counts = [2147483647, 65535, 65535]>>}}>"""


def undescribed_arch(session: Session) -> tuple[str, str] | None:
    """The session's CUDA architecture and PTX features, if IREE needs it described."""
    flags: dict[str, str] = {}
    for flag in session.get_flags():
        name, _, value = flag.partition("=")
        flags[name] = value
    arch = flags.get("--iree-cuda-target", "")
    if arch not in PTX_VERSIONS:
        return None
    features = flags.get("--iree-cuda-target-features", _DEFAULT_FEATURES)
    return arch, f"+ptx{PTX_VERSIONS[arch]}" if features == _DEFAULT_FEATURES else features


def describe_targets(module: ir.Operation, arch: str, features: str, report: Report) -> None:
    """Describes the CUDA targets of `module` (at IREE's phase preprocessing or later) that
    IREE left undescribed."""
    described = _DESCRIBED.format(arch=arch, features=features, shared=SHARED_MEMORY_BYTES)
    changed = False
    holders = [(module, "hal.device.targets")]
    holders += [(op, "initial_value") for op in body_ops(module) if op.name == "util.global"]
    for op, name in holders:
        text = str(known_attribute(op, name) or "")
        if _UNDESCRIBED in text:
            set_attribute(op, name, text.replace(_UNDESCRIBED, described))
            changed = True
    if changed:
        version = str(printed.ptx_version(features) or "?")
        report.note(
            f"IREE 3.13 does not describe {arch}: compiled for {arch} with PTX "
            f"{version[:-1]}.{version[-1:]}, the tensor-core instructions of sm_89 and "
            f"{SHARED_MEMORY_BYTES} bytes of shared memory a workgroup"
        )
