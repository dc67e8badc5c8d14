"""Devices of IREE's runtime by the names that users know: `cpu`, `cuda`, `cuda:1`, `hip`."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import AttnError

if TYPE_CHECKING:
    from iree.runtime import HalDevice

# By what users call them: the runtime's driver, the compiler's backend, DLPack's code.
_KINDS = {
    "cpu": ("local-task", "llvm-cpu", 1),
    "cuda": ("cuda", "cuda", 2),
    "hip": ("hip", "rocm", 10),
}
_ALIASES = {"llvm-cpu": "cpu", "local-task": "cpu", "host": "cpu", "rocm": "hip"}
# Of CUDA's cuDeviceGetAttribute: the compute capability.
_MAJOR, _MINOR = 75, 76
# All that were opened.
_made: list[RuntimeDevice] = []


@dataclass(frozen=True)
class RuntimeDevice:
    """A device that programs run on."""

    kind: str
    index: int
    hal: HalDevice

    @property
    def on_host(self) -> bool:
        """Whether its memory is that of this process."""
        return self.kind == "cpu"

    @property
    def backend(self) -> str:
        """The compiler's target backend for it."""
        return _KINDS[self.kind][1]

    @property
    def dlpack_code(self) -> int:
        """What DLPack calls its kind."""
        return _KINDS[self.kind][2]

    def flags(self, given: Sequence[str]) -> list[str]:
        """Flags of iree-compile that name its processor, where `given` ones do not."""
        names = {flag.lstrip("-").partition("=")[0] for flag in given}
        if self.kind == "cpu" and "iree-llvmcpu-target-cpu" not in names:
            return ["--iree-llvmcpu-target-cpu=host"]
        if self.kind == "cuda" and "iree-cuda-target" not in names:
            return [f"--iree-cuda-target={_cuda_architecture(self.index)}"]
        if self.kind == "hip" and not names & {"iree-rocm-target", "iree-hip-target"}:
            raise AttnError(
                "which AMD GPU it is must be said: extra_args=['--iree-rocm-target=gfx942']"
            )
        return []


def open_device(name: str) -> RuntimeDevice:
    """The device called `name`; AttnError says which exist where there is none."""
    kind, _, number = name.partition(":")
    kind = _ALIASES.get(kind, kind)
    if kind not in _KINDS or not (number or "0").isdigit():
        raise AttnError(f"no device is called '{name}' ({_existing()})")
    return _opened(kind, int(number or 0))


@functools.cache
def _opened(kind: str, index: int) -> RuntimeDevice:
    from iree import runtime

    found, why = _devices_of(kind)
    if index >= len(found):
        reason = f": {why}" if why else ""
        raise AttnError(f"there is no device '{kind}:{index}' here{reason} ({_existing()})")
    # Devices and results may outlive the interpreter: nothing that a user must hear of.
    binding: Any = runtime._binding
    binding.disable_leak_checker()
    driver: Any = runtime.get_driver(_KINDS[kind][0])
    _made.append(RuntimeDevice(kind, index, driver.create_device(found[index]["device_id"])))
    return _made[-1]


def _forget_devices() -> None:
    """In a fork, which has none of the threads of the drivers that it knows."""
    if _opened.cache_info().currsize:
        from iree import runtime

        for device in _made:
            # To take it down, at exit too, would wait for its threads.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(device.hal))
        _opened.cache_clear()
        binding: Any = runtime._binding
        binding.clear_hal_driver_cache()


def _devices_of(kind: str) -> tuple[list[dict[str, int]], str]:
    """The devices of a kind; else why there are none."""
    from iree import runtime

    try:
        return runtime.get_driver(_KINDS[kind][0]).query_available_devices(), ""
    except (RuntimeError, ValueError) as error:
        return [], str(error).rpartition("; ")[2].strip()


def _existing() -> str:
    names = [
        kind if kind == "cpu" else f"{kind}:{index}"
        for kind in _KINDS
        for index in range(len(_devices_of(kind)[0]))
    ]
    return f"there are: {', '.join(names)}"


def _cuda_architecture(index: int) -> str:
    """The architecture of a CUDA device (`sm_90`), as the driver says."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, found = ctypes.c_int(), [ctypes.c_int(), ctypes.c_int()]
    failed = driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), index)
    for attribute, value in zip((_MAJOR, _MINOR), found, strict=True):
        failed = failed or driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
    if failed:
        raise AttnError(f"the CUDA driver does not say what 'cuda:{index}' is (error {failed})")
    return f"sm_{found[0].value}{found[1].value}"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_devices)
