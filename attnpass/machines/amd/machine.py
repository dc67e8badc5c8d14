"""AMD GPUs through IREE's rocm backend.

Only compiled, never timed: V^T removes the one- and two-byte LDS reads (64 -> 0 on gfx942
for f16, 512 -> 0 on gfx950 for fp8), and mostly, not always, takes fewer registers
(bench/results/amd_assembly.json); no seconds are claimed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...attention.facts import AttentionFacts
from ...ir import Refusal, printed
from .. import Family, Target
from ..gpu.machine import Gpu
from . import configurations

_UNITS = {"gfx942": (5.3e12, 304), "gfx950": (8e12, 256), "gfx1100": (9.6e11, 96)}


@dataclass(frozen=True)
class Amd(Gpu):
    """A GPU of AMD's."""

    def configuration(self, facts: AttentionFacts) -> dict[str, str] | Refusal:
        return configurations.configuration(facts, self)

    def loses_lanes(self, facts: AttentionFacts) -> bool:
        return configurations.own_loses_lanes(facts, self)

    def padded_keys(self, facts: AttentionFacts) -> int | None:
        return configurations.padded_keys(facts, self)

    def padded_heads(self, facts: AttentionFacts) -> tuple[int, int] | None:
        return configurations.padded_heads(facts, self)

    def dynamic_tiles(self, facts: AttentionFacts) -> dict[int, int] | Refusal:
        return configurations.dynamic_tiles(facts, self)

    @property
    def subgroup(self) -> int | None:
        return configurations.subgroup(self)


class AmdGpus(Family):
    """AMD's GPUs, called `gfx942` and so on."""

    names = ("gfx942", "gfx950", "gfx1100", "gfx1201")
    backends = ("rocm",)

    def find(self, name: str) -> Target | None:
        name = name.removeprefix("rocm:") if name != "rocm" else "gfx942"
        if not re.fullmatch(r"gfx[0-9]+[0-9a-f]{2}|gfx[0-9]+(-[0-9]+)?-generic", name):
            return None
        bandwidth, units = _UNITS.get(name, (6.4e11, 64))
        shared = 160 * 1024 if name == "gfx950" else 64 * 1024
        return Amd("rocm", name, bandwidth, 6e-6, units, shared_bytes=shared)

    def claim(self, attribute: str) -> Target | None:
        return self.find(printed.entry(attribute, "arch"))
