"""AMD GPUs through IREE's rocm backend.

Only compiled, never timed: V^T removes the one- and two-byte LDS reads (64 -> 0 on gfx942
for f16, 512 -> 0 on gfx950 for fp8), and mostly, not always, takes fewer registers
(bench/results/amd_assembly.json); no seconds are claimed.
"""

from __future__ import annotations

import re

from .. import Target

NAMES = ("gfx942", "gfx950", "gfx1100", "gfx1201")

_UNITS = {"gfx942": (5.3e12, 304), "gfx950": (8e12, 256), "gfx1100": (9.6e11, 96)}


def find(name: str) -> Target | None:
    """The target called `gfx942` and so on; None for another family's name."""
    name = name.removeprefix("rocm:") if name != "rocm" else "gfx942"
    if not re.fullmatch(r"gfx[0-9]+[0-9a-f]{2}|gfx[0-9]+(-[0-9]+)?-generic", name):
        return None
    bandwidth, units = _UNITS.get(name, (6.4e11, 64))
    shared = 160 * 1024 if name == "gfx950" else 64 * 1024
    return Target("rocm", name, bandwidth, 6e-6, units, shared_bytes=shared)
