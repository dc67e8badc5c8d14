"""NVIDIA GPUs through IREE's cuda backend.

Measured on an H200 run through sm_80 code, IREE 3.13 (f16 unless said otherwise): k2
innermost in V gains 10.8% at head dim 128 and 5.4% at 64 (medians over configurations),
8.1% for bf16, 11.4% for fp8, 17% for fp8 Q and K with 16-bit V, little from head dim 256
on; with one query row it loses (3541 -> 2584 GB/s), and so it does in f32 (15.0 -> 30.5 ms
at head dim 128, 6.3 -> 13.0 at 64).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..attention import AttentionFacts
from . import Target, Worth

NAMES = ("sm_80", "sm_86", "sm_89", "sm_90")

# The default configuration's speed on the measured shape (B*H 32, S 4096, d 128: 5.21 ms).
_FLOPS_PER_SECOND = 5.3e13
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
        gain, words = _gain(facts)
        seconds = 2 * batch * rows * keys * head / _FLOPS_PER_SECOND
        return Worth(gain * seconds, f"measured on an H200: {words}")


def _gain(facts: AttentionFacts) -> tuple[float, str]:
    """Share of the attention's time that V^T saves, and the measurement in words."""
    types = facts.element_types
    head = facts.assumed_extent(facts.n)
    if types["value"].startswith("f8"):
        return 0.114, "V^T saves 11.4% with an fp8 V"
    if types["query"].startswith("f8"):
        return 0.17, "V^T saves 17% with fp8 Q and K and a 16-bit V"
    if types["value"] == "f32":
        return -2.6, "V^T halves the speed in f32, which takes no tensor cores"
    if types["value"] not in ("f16", "bf16"):
        return 0.0, f"nothing for {types['value']}"
    if head >= 256:
        return 0.0, f"V^T gains little at head dim {head}"
    if head <= 64:
        return 0.054, "V^T saves 5.4% at head dim 64"
    if types["value"] == "bf16":
        return 0.081, "V^T saves 8.1% in bf16 at head dim 128"
    return 0.108, "V^T saves 10.8% at head dim 128"


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
