"""Modules on an IREE device, and arrays from numpy or torch, of element types that numpy cannot
name too."""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

# numpy's (ml_dtypes') and torch's names of element types -> IREE's.
ELEMENTS = {
    "float64": "FLOAT_64",
    "float32": "FLOAT_32",
    "float16": "FLOAT_16",
    "bfloat16": "BFLOAT_16",
    "float8_e4m3fn": "FLOAT_8_E4M3_FN",
    "float8_e5m2": "FLOAT_8_E5M2",
    "int64": "SINT_64",
    "int32": "SINT_32",
    "int8": "SINT_8",
    "uint8": "SINT_8",
    "bool": "BOOL_8",
}


def load(config: Any, module: Path | bytes) -> Any:
    """The functions, by name, of a compiled module (a .vmfb or what is in one)."""
    from iree import runtime

    binary = module if isinstance(module, bytes) else module.read_bytes()
    loaded = runtime.VmModule.copy_buffer(config.vm_instance, binary)
    context = runtime.SystemContext(config=config)
    context.add_vm_module(loaded)
    return context.modules[loaded.name]


def to_iree(device: Any, values: Any) -> Any:
    """A device array with the bits of a numpy array or a torch tensor; numbers stay. KeyError for
    a tensor of a type that is not in ELEMENTS."""
    from iree import runtime

    if isinstance(values, float | int):
        return values
    if isinstance(values, np.generic):
        values = np.asarray(values)  # numpy's tensors of no dims
    name = str(values.dtype).removeprefix("torch.")
    if isinstance(values, np.ndarray) and (name not in ELEMENTS or not values.size):
        return runtime.asdevicearray(device, np.array(values, order="C"))
    view = device.allocator.allocate_buffer_copy(
        memory_type=runtime.MemoryType.DEVICE_LOCAL,
        allowed_usage=runtime.BufferUsage.DEFAULT | runtime.BufferUsage.MAPPING,
        device=device,
        buffer=_bits(values),
        element_type=getattr(runtime.HalElementType, ELEMENTS[name]),
    )
    return runtime.DeviceArray(device, view)


def several(results: Any) -> list[Any]:
    """The results of a function that may have one alone."""
    return list(results) if isinstance(results, tuple | list) else [results]


def to_torch(array: Any, kind: Any) -> Any:
    """A tensor of torch type `kind` on the GPU with the bits of a device array."""
    import torch

    bits = np.array(array.to_host())
    return torch.from_numpy(bits.view(f"i{bits.itemsize}")).view(kind).cuda()


def _bits(values: Any) -> np.ndarray[Any, Any]:
    """The values as integers of their width."""
    if isinstance(values, np.ndarray):
        return np.asarray(values, order="C").view(f"i{values.itemsize}")
    import torch

    kinds = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return values.contiguous().view(kinds[values.element_size()]).cpu().numpy()


@cache
def gpu() -> Any:
    """IREE's configuration for the GPU, one a process."""
    from iree import runtime

    return runtime.Config("cuda")


def torch_type(name: str) -> Any:
    """torch's name of an element type."""
    import torch

    kinds = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}
    kinds |= {"f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}
    return getattr(torch, kinds[name])
