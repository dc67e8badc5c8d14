"""Compiled modules in IREE's runtime, and what goes in and out of them."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import AttnError, first_line
from .devices import RuntimeDevice
from .scheduling import behind_workers

if TYPE_CHECKING:
    from iree.runtime import HalBufferView, HalElementType, VmInstance

# What names the parameters of a program.
SCOPE = "attnpass"
# IREE's CPU code reads the start of a buffer with aligned instructions.
_ALIGNMENT = 64
_BYTES = np.dtype(np.uint8)

Value = Any


class Executable:
    """A compiled module on a device, with its parameters.

    `parameters` are arrays of bytes by name; the runtime reads them where they lie if it can, so
    they stay as long as this object. `call` takes buffer views and numbers, in the order of the
    function's arguments, and returns those of its results.
    """

    def __init__(
        self, vmfb: bytes, device: RuntimeDevice, parameters: Mapping[str, np.ndarray] | None = None
    ):
        from iree import runtime

        # What each call asks for, at once: looking it up takes as long as a small kernel.
        self._view: Any = runtime.HalBufferView
        self._list: Any = runtime.VmVariantList
        self._usage = runtime.BufferUsage.DEFAULT | runtime.BufferUsage.MAPPING
        self._local = runtime.MemoryType.DEVICE_LOCAL
        self._visible = self._local | runtime.MemoryType.HOST_VISIBLE
        self._allocator: Any = device.hal.allocator
        self.device, self._process = device, os.getpid()
        self._parameters = dict(parameters or {})
        instance = _instance()
        module = runtime.VmModule.copy_buffer(instance, vmfb)
        modules = [runtime.create_hal_module(instance, device.hal)]
        if self._parameters:
            index = runtime.ParameterIndex()
            for name, data in self._parameters.items():
                index.add_buffer(name, data)
            provider = index.create_provider(scope=SCOPE)
            modules.append(runtime.create_io_parameters_module(instance, provider))
        self._context = runtime.VmContext(instance, [*modules, module])
        # A context, with what it keeps between calls, is of one caller at a time.
        self._lock = threading.Lock()
        self._waiting = behind_workers if device.on_host else contextlib.nullcontext
        self._function: Any = module.lookup_function(_entry(module.function_names))

    def call(self, arguments: Sequence[Value]) -> list[Value]:
        """Runs the program; AttnError with the runtime's words where it refuses."""
        if os.getpid() != self._process:
            raise AttnError(
                "it was compiled in another process, of which this is a fork: "
                "compile it here, or start processes by 'spawn'"
            )
        given = self._list(len(arguments))
        for value in arguments:
            if isinstance(value, self._view):
                given.push_ref(value)
            elif isinstance(value, float):
                given.push_float(value)
            else:
                given.push_int(int(value))
        results = self._list(1)
        try:
            with self._lock, self._waiting():
                self._context.invoke(self._function, given, results)
        except (RuntimeError, ValueError, IndexError) as error:
            raise AttnError(f"IREE's runtime refuses the call: {first_line(error)}") from error
        return [self._taken(results, place) for place in range(len(results))]

    def _taken(self, results: Any, place: int) -> Value:
        value = results.get_variant(place)
        if isinstance(value, int | float):
            return value
        return results.get_as_object(place, self._view)

    def put(self, data: np.ndarray, shape: Sequence[int], element: HalElementType) -> HalBufferView:
        """The bytes of an array as a view on the device: itself where the device is this
        process's and the array lies where IREE's code can read it, else a copy. The array must
        stay until the program has run, and longer where a result is the same memory."""
        allocator, usage, on_host = self._allocator, self._usage, self.device.on_host
        if on_host and data.size and is_aligned(data.ctypes.data):
            buffer = allocator.import_host_allocation(data, self._visible, usage)
        else:
            kind = self._visible if on_host else self._local
            buffer = allocator.allocate_buffer_copy(kind, usage, self.device.hal, _some(data))
        return self._view(buffer, list(shape), element)

    def room(self, length: int, shape: Sequence[int], element: HalElementType) -> HalBufferView:
        """Memory of the device for so many bytes of a result."""
        buffer = self._allocator.allocate_buffer(self._local, self._usage, length)
        return self._view(buffer, list(shape), element)

    def take(self, view: HalBufferView) -> np.ndarray:
        """The bytes of a result on this side: its own memory where the device is this
        process's, else a copy."""
        if self.device.on_host:
            return view.map().asarray([view.byte_length], _BYTES)
        from iree import runtime

        bytes_of = runtime.HalBufferView(
            view.get_buffer(), [view.byte_length], runtime.HalElementType.UINT_8
        )
        return runtime.DeviceArray(self.device.hal, bytes_of, implicit_host_transfer=True).to_host()


def is_aligned(pointer: int) -> bool:
    """Whether IREE's CPU code can read memory that begins there."""
    return pointer % _ALIGNMENT == 0


@functools.cache
def _instance() -> VmInstance:
    from iree import runtime

    return runtime.VmInstance()


def _entry(names: Sequence[str]) -> str:
    """The function that a program is called by."""
    found = [name for name in names if not name.startswith("__") and "$" not in name]
    if "main" in found:
        return "main"
    if len(found) != 1:
        raise AttnError(f"a module with one function is needed, this one has {len(found)}")
    return found[0]


def _some(data: np.ndarray) -> np.ndarray:
    """An array that has bytes: the runtime makes no buffer of none."""
    return data if data.size else np.zeros(1, np.uint8)
