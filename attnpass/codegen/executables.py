"""The images that IREE's CUDA executables hold for the driver to load: PTX, or machine code.

An executable is a flatbuffer (IREE: `schemas/cuda_executable_def.fbs`) behind a header of 64 bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

# Of IREE's header: what it begins with, and where it says how many bytes follow it.
_MAGIC, _HEADER, _SIZE_AT = b"CDA1", 64, 8
# Fields of the tables `ExecutableDef` and `ModuleDef`.
_MODULES, _IMAGE = 1, 0
# What images are aligned to.
_ALIGNMENT = 8


@dataclass(frozen=True)
class Image:
    """An image, and where in the executable the offset of it stands."""

    place: int
    data: bytes


def images_of(executable: bytes) -> list[Image]:
    """The images of an executable, none for one that is no CUDA executable of IREE 3.13."""
    if not executable.startswith(_MAGIC) or len(executable) <= _HEADER:
        return []
    modules = _field(executable, _HEADER + _offset(executable, _HEADER), _MODULES)
    if not modules:
        return []
    vector = modules + _offset(executable, modules)
    found: list[Image] = []
    for number in range(_offset(executable, vector)):
        entry = vector + 4 + 4 * number
        place = _field(executable, entry + _offset(executable, entry), _IMAGE)
        if place:
            text = place + _offset(executable, place)
            found.append(Image(place, executable[text + 4 : text + 4 + _offset(executable, text)]))
    return found


def with_image(executable: bytes, old: Image, new: bytes) -> bytes:
    """The executable with another image in place of one of its own, which is cleared; the new one
    stands behind all else, since offsets in a flatbuffer point forward."""
    begin = old.place + _offset(executable, old.place) + 4
    changed = bytearray(executable)
    changed[begin : begin + len(old.data)] = bytes(len(old.data))
    # In front of a string stands its length; behind it a zero that does not count.
    changed += bytes(-(len(changed) + 4) % _ALIGNMENT)
    struct.pack_into("<I", changed, old.place, len(changed) - old.place)
    changed += struct.pack("<I", len(new)) + new + bytes(_ALIGNMENT)
    struct.pack_into("<Q", changed, _SIZE_AT, len(changed) - _HEADER)
    return bytes(changed)


def _offset(data: bytes, place: int) -> int:
    (number,) = struct.unpack_from("<I", data, place)
    return int(number)


def _field(data: bytes, table: int, number: int) -> int:
    """The place of a table's field, 0 where the table has none."""
    (back,) = struct.unpack_from("<i", data, table)
    vtable = table - back
    size, _ = struct.unpack_from("<HH", data, vtable)
    at = 4 + 2 * number
    (place,) = struct.unpack_from("<H", data, vtable + at) if at < size else (0,)
    return table + place if place else 0
