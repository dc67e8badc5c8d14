"""NVIDIA GPUs through IREE's cuda backend.

Measured on an H200 run through sm_80 code, IREE 3.13, 32 heads of 4096 rows and keys, with the
configurations and rewrites that attn-compile has on by default: k2 innermost in V makes attention
faster with 8-bit V (1.567 -> 1.432 ms) and with 8-bit Q and K (1.416 -> 1.181 ms). With 16 bits
it did (1.58 -> 1.45 ms) before `attn-shared-memory` read row-major V with transposing loads;
since then it is 1.027 -> 1.014 ms at head dim 128 and nothing at 64. In f32 it makes attention
slower (15.0 -> 30.5 ms at head dim 128, 6.3 -> 13.0 at 64), and so it does with one query row
(3541 -> 2584 GB/s in f16).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..attention import AttentionFacts
from . import Target, Worth

NAMES = ("sm_80", "sm_86", "sm_89", "sm_90")

# Multiply-adds of the shape that was measured, head dim 128.
_MEASURED_WORK = 32 * 4096 * 4096 * (128 + 128)
# What IREE and LLVM take as the oldest.
_FIRST_VERSION = 50
# Fewer query rows than one tensor-core tile: decode.
_TILE_ROWS = 16


@dataclass(frozen=True)
class Nvidia(Target):
    """A CUDA device; `shared_bytes` is what IREE lets a workgroup have of shared memory."""

    shared_bytes: int = 0

    def worth_of_transposed_v(self, facts: AttentionFacts) -> Worth:
        rows, keys = facts.assumed_extent(facts.m), facts.assumed_extent(facts.k2)
        batch = facts.assumed_extent(facts.batch)
        head = facts.assumed_extent(facts.k1) + facts.assumed_extent(facts.n)
        if rows < _TILE_ROWS:
            bytes_read = batch * keys * head * 2
            return Worth(
                -0.37 * bytes_read / self.bytes_per_second,
                f"with {rows} query row(s) the kernel reads row-major V faster (measured on an "
                "H200: 3541 against 2584 GB/s)",
            )
        milliseconds, words = _saved(facts)
        share = batch * rows * keys * head / _MEASURED_WORK
        return Worth(milliseconds * 1e-3 * share, words)


def _saved(facts: AttentionFacts) -> tuple[float, str]:
    """What V^T saves of the measured shape, in milliseconds, and the measurement in words."""
    types = facts.element_types
    head = facts.assumed_extent(facts.n)
    if types["value"].startswith("f8"):
        return 0.135, "measured on an H200: V^T saves 8.6% with an fp8 V"
    if types["query"].startswith("f8"):
        return 0.235, "measured on an H200: V^T saves 17% with fp8 Q and K and a 16-bit V"
    if types["value"] == "f32":
        return -13.4, "measured on an H200: V^T halves the speed in f32, without tensor cores"
    if types["value"] not in ("f16", "bf16"):
        return 0.0, f"nothing was measured for {types['value']}"
    if head >= 256 or head <= 64:
        return 0.0, f"measured on an H200: V^T gains little at head dim {head}"
    return 0.013, "measured on an H200: V^T saves 1.3% at head dim 128"


def find(name: str) -> Target | None:
    """The target called `sm_80` and so on; None for another family's name."""
    name = name.removeprefix("cuda:") if name != "cuda" else "sm_80"
    version = re.fullmatch(r"sm_(\d+)[af]?", name)
    if not version or int(version[1]) < _FIRST_VERSION:
        return None
    bandwidth, units = (4.3e12, 132) if name.startswith("sm_9") else (1.5e12, 108)
    # IREE 3.13 describes every card as it does an A100, but for those two (CUDA's limits).
    shared = 101376 if name in ("sm_86", "sm_89") else 166912
    return Nvidia("cuda", name, bandwidth, 3e-6, units, shared_bytes=shared)
