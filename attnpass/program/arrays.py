"""Programs on numpy arrays."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import AttnError
from .executable import Executable, Value


class ArrayProgram:
    """A program on arrays, in the order of its arguments and results; `types` are those of the
    results.

    On a CPU arguments are read where they lie (in order of their dims, at a multiple of 64 bytes:
    else in a copy), and results are the runtime's own memory. A program that `updates` its
    arguments gets copies of them.
    """

    def __init__(self, executable: Executable, types: Sequence[np.dtype], updates: bool):
        self._executable, self._types, self._updates = executable, types, updates

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[Value]:
        given = [array_bytes(a.copy() if self._updates else a) for a in arrays]
        views = [
            self._executable.put(data, array.shape, _element_types()[array.dtype])
            for data, array in zip(given, arrays, strict=True)
        ]
        results = self._executable.call(views)
        return [
            self._taken(result, dtype, given)
            for result, dtype in zip(results, self._types, strict=True)
        ]

    def _taken(self, result: Value, dtype: np.dtype, given: Sequence[np.ndarray]) -> Value:
        if isinstance(result, int | float):
            return np.asarray(result, dtype)
        if 0 in result.shape:
            return np.empty(result.shape, dtype)
        data = self._executable.take(result)
        # IREE may return an argument's memory, which goes away with the argument.
        if any(np.may_share_memory(data, argument) for argument in given):
            data = data.copy()
        return data.view(dtype).reshape(result.shape)


def array_bytes(array: np.ndarray) -> np.ndarray:
    """The bytes of an array: its own memory, where its dims are in order, else a copy."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if flat.flags.writeable or not flat.size:
        return flat
    # The runtime takes no buffer that is read-only (as those of JAX are), though it only reads.
    memory: Any = (ctypes.c_uint8 * flat.size).from_address(flat.ctypes.data)
    memory.owner = flat
    return np.frombuffer(memory, np.uint8)


def check_array(name: str, array: np.ndarray, dtype: np.dtype, shape: Sequence[int | None]) -> None:
    """AttnError where an argument is none that the program was compiled for; a size of None is
    any."""
    if array.dtype != dtype:
        raise AttnError(f"argument {name}: it was compiled for {dtype}, not {array.dtype}")
    fits = len(shape) == array.ndim and all(
        size in (None, given) for size, given in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = "x".join("?" if size is None else str(size) for size in shape)
        raise AttnError(
            f"argument {name}: it was compiled for {wanted}, not "
            f"{'x'.join(map(str, array.shape))}; compile again for others"
        )


@functools.cache
def _element_types() -> dict[np.dtype, Any]:
    import ml_dtypes
    from iree.runtime.dtypes import map_dtype_to_hal_element_type

    names = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
    types = [np.dtype(getattr(ml_dtypes, name)) for name in names]
    types += [np.dtype(kind) for kind in "?bBhHiIlLefdFD"]
    return {dtype: map_dtype_to_hal_element_type(dtype) for dtype in types}
