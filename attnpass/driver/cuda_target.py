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
    changed = False
    holders = [(module, "hal.device.targets")]
    holders += [(op, "initial_value") for op in body_ops(module) if op.name == "util.global"]
    for op, name in holders:
        text = str(known_attribute(op, name) or "")
        described = printed.with_cuda_described(text, arch, features, SHARED_MEMORY_BYTES)
        if described != text:
            set_attribute(op, name, described)
            changed = True
    if changed:
        version = str(printed.ptx_version(features) or "?")
        report.note(
            f"IREE 3.13 does not describe {arch}: compiled for {arch} with PTX "
            f"{version[:-1]}.{version[-1:]}, the tensor-core instructions of sm_89 and "
            f"{SHARED_MEMORY_BYTES} bytes of shared memory a workgroup"
        )
