"""CPUs through IREE's llvm-cpu backend.

Measured on two cores of an AVX-512 machine (znver4), IREE 3.13, f32: k2 innermost in V
makes attention 1.7-1.9 times slower in every good configuration, 1.05 times in the default
one. So on a CPU V stays as it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..attention import AttentionFacts
from . import Target, Worth

NAMES = ("llvm-cpu", "host")

_FLOPS_PER_SECOND = 2.5e10


@dataclass(frozen=True)
class Cpu(Target):
    """A CPU; `arch` is LLVM's processor name, `features` its feature flags, `vector_bytes`
    what IREE takes a vector register to hold."""

    vector_bytes: int = 16

    def worth_of_transposed_v(self, facts: AttentionFacts) -> Worth:
        extent = facts.assumed_extent((*facts.batch, *facts.m, *facts.k2, *facts.n))
        return Worth(
            -0.7 * 4 * extent / _FLOPS_PER_SECOND,
            "a CPU reads V along its head dim; measured with AVX-512, V^T makes attention "
            "1.7-1.9 times slower",
        )


def describe(processor: str, features: str = "", vector_bytes: int = 16) -> Target:
    """The CPU with LLVM's processor name, comma-separated feature flags and vector size."""
    flags = tuple(flag for flag in features.split(",") if flag)
    return Cpu("llvm-cpu", processor, 2e10, 5e-6, os.cpu_count() or 1, flags, vector_bytes)


def find(name: str) -> Target | None:
    """`llvm-cpu`, `host` or `llvm-cpu:PROCESSOR`; None for another family's name."""
    if name in NAMES:
        return describe("generic" if name == "llvm-cpu" else "host")
    if name.startswith("llvm-cpu:"):
        return describe(name.removeprefix("llvm-cpu:"))
    return None
