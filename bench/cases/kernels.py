"""The precompiled attention kernels inside IREE modules on a Hopper GPU: checked and timed.

`compile` writes a .vmfb for each case and for each number of repeats. `run` compares every
case with attention in float64 on the same rounded inputs, and times the large ones beside
PyTorch's FlashAttention and cuDNN in the same process. Inside IREE a dispatch is timed as the
slope between modules that repeat it few and many times, so that calling costs drop out.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.attention import V_T, K, V, fresh_attention, scores_of
from bench.device import gpu, load, to_iree, to_torch, torch_type
from bench.results import Row, row
from bench.timing import backends, captured, ms, slopes

FEW, MANY = 4, 24
# Short kernels are repeated more often, so that the difference is well above a call's jitter.
MANY_SHORT = 404
# The kernel that transposes V itself.
TURNING = "attention_f8e4m3fn_d128"
# The length of the products that make V, where something does.
PROJECTED = 256
DEVICE = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80")


@dataclass(frozen=True)
class Case:
    """`heads` = batch x heads of K and V, each with `group` query heads.

    `behind` keys before its own are what a row sees, if not 0. `mask` is the type of a mask
    that is passed in, i1 or a float, and `mask_dims` are its dims: some of b, g, m, n. Where
    it has m, row 5 sees no key, if there is one. `offset` is the key that a causal row 0 sees
    last. `timed` cases are run repeatedly; `own` leaves attention to IREE, by itself or
    `configured` by attnpass. `layout` is V's in the module, `steps` the number of attentions,
    each reading the output of the one before. `cache` is the type of K and V, if not `dtype`,
    and `value` that of V, if not K's.
    With `projected` V is a product of two arguments, and the layout pass runs before. With
    `elsewhere` the module asks for the device at run time: `hopper` and finds the kernel's, or
    `older` and is made not to. A score s becomes cap * tanh(s / cap) with a `cap`, and scores
    are half as large as that (standard deviation). `growing` keys are the larger the later, so
    that rows' maxima grow. `forced` is the kernel that is measured, if not the one that would be
    taken. With `poisoned` every other head is NaN, and the rest must not
    be.
    """

    dtype: str
    heads: int
    rows: int
    keys: int
    head: int
    group: int = 1
    causal: bool = False
    layout: str = "row-major"
    dynamic: bool = False
    timed: bool = False
    own: bool = False
    steps: int = 1
    behind: int = 0
    mask: str = ""
    mask_dims: str = "mn"
    offset: int = 0
    cache: str = ""
    configured: bool = False
    projected: bool = False
    elsewhere: str = ""
    cap: float = 0
    forced: str = ""
    value: str = ""
    poisoned: bool = False
    growing: bool = False

    @property
    def name(self) -> str:
        kinds = self.dtype + self.cache + self.value
        words = [kinds, f"{self.heads}x{self.group}", f"{self.rows}x{self.keys}"]
        words += [f"d{self.head}"]
        for word in ("causal", "dynamic", "own", "configured", "projected", "growing"):
            words += [word] if getattr(self, word) else []
        words += [f"offset{self.offset}"] if self.offset else []
        words += [f"elsewhere_{self.elsewhere}"] if self.elsewhere else []
        words += [f"window{self.behind}"] if self.behind else []
        words += [f"cap{self.cap:g}"] if self.cap else []
        words += [f"mask_{self.mask}_{self.mask_dims}"] if self.mask else []
        words += ["forced"] if self.forced else []
        words += ["poisoned"] if self.poisoned else []
        words += ["vt"] if self.layout == "transposed" else []
        words += [f"steps{self.steps}"] if self.steps > 1 else []
        return "_".join(words)

    @property
    def output(self) -> str:
        """The element type of the result: that of 16 bits, f16 if there is none."""
        kinds = (self.dtype, self.kept, self.values)
        return next((kind for kind in kinds if not kind.startswith("f8")), "f16")

    @property
    def kept(self) -> str:
        """The element type of K."""
        return self.cache or self.dtype

    @property
    def values(self) -> str:
        """The element type of V."""
        return self.value or self.kept

    @property
    def is_narrow(self) -> bool:
        """Whether Q, K or V has 8 bits."""
        return any(kind.startswith("f8") for kind in (self.dtype, self.kept, self.values))

    @property
    def is_decode(self) -> bool:
        return self.rows * self.group <= 64

    @property
    def bytes(self) -> int:
        """Of K and V."""
        width = 1 if self.kept.startswith("f8") else 2
        return 2 * self.heads * self.keys * self.head * width

    @property
    def many(self) -> int:
        short = self.flops < 4e10 and self.bytes < 2e8
        return MANY_SHORT if short else MANY

    @property
    def flops(self) -> float:
        """Of the two products; half of them where half of the keys are hidden, and those of
        the window if there is one."""
        keys = min(self.keys, self.behind + 1) if self.behind else self.keys
        full = 4 * self.heads * self.group * self.rows * keys * self.head
        return full / 2 if self.causal and not self.behind else full


def cases() -> list[Case]:
    odd = [
        Case("f16", 2, 300, 777, 128),
        Case("f16", 3, 1000, 1000, 128, causal=True),
        Case("f16", 1, 777, 1333, 128, dynamic=True),
        Case("f16", 8, 1333, 1333, 128, group=4, causal=True, dynamic=True),
        Case("f16", 8, 777, 777, 128, group=4),
        Case("f16", 2, 129, 1, 128),
        Case("f16", 2, 127, 128, 64),
        Case("f16", 2, 129, 136, 64, layout="transposed"),
        Case("f16", 2, 333, 1000, 128, layout="transposed"),
        Case("f16", 2, 1333, 1333, 64, causal=True, steps=3),
        Case("bf16", 8, 777, 777, 128, group=4, causal=True),
        Case("bf16", 8, 1333, 1333, 64, group=4),
        Case("bf16", 3, 1000, 1000, 128, causal=True, layout="transposed"),
        Case("bf16", 3, 500, 700, 64, dynamic=True),
        Case("f16", 2, 333, 777, 256),
        Case("bf16", 8, 777, 777, 256, group=4, causal=True, dynamic=True),
        Case("f16", 2, 1000, 1000, 64, causal=True, behind=100),
        Case("f16", 8, 1333, 1333, 128, group=4, causal=True, behind=300, dynamic=True),
        Case("bf16", 2, 1000, 777, 256, causal=True, behind=64),
        Case("f16", 2, 300, 777, 64, mask="f16"),
        Case("f16", 8, 333, 777, 128, group=4, mask="f16", mask_dims="bgmn"),
        Case("f16", 3, 333, 777, 128, group=2, mask="f32", mask_dims="gmn"),
        Case("f16", 3, 333, 776, 128, group=2, mask="i1", mask_dims="bn"),
        Case("f16", 2, 300, 777, 256, mask="f16", mask_dims="n"),
        Case("bf16", 3, 333, 777, 64, mask="f32", mask_dims="bmn", dynamic=True),
        Case("bf16", 4, 333, 777, 128, mask="bf16", mask_dims="bn"),
        Case("bf16", 4, 500, 1333, 128, mask="i1", group=2, mask_dims="gmn", dynamic=True),
        Case("bf16", 2, 300, 777, 256, mask="i1"),
        *odd_wide(),
        *odd_aligned(),
        Case("f8E4M3FN", 2, 300, 784, 128, layout="transposed"),
        Case("f8E4M3FN", 2, 1000, 1008, 128, layout="transposed", causal=True),
        Case("f8E4M3FN", 8, 777, 1024, 128, layout="transposed", group=4),
        Case("f8E4M3FN", 2, 300, 784, 128, forced=TURNING),
        Case("f8E4M3FN", 3, 1000, 1008, 128, causal=True, forced=TURNING + "_causal"),
        Case("f8E4M3FN", 8, 777, 1024, 128, group=4, causal=True, forced=TURNING + "_causal"),
        Case("f8E4M3FN", 40, 777, 1040, 128, layout="transposed", group=2, causal=True),
        Case("f8E4M3FN", 2, 129, 16, 128, layout="transposed"),
        *odd_poisoned(),
    ]
    timed = [
        Case("f16", 32, 4096, 4096, 128, timed=True),
        Case("f16", 32, 4096, 4096, 128, timed=True, own=True),
        Case("f16", 32, 16384, 16384, 128, timed=True),
        Case("f16", 32, 16384, 16384, 128, timed=True, layout="transposed"),
        Case("bf16", 32, 4096, 4096, 128, timed=True),
        Case("bf16", 32, 16384, 16384, 128, timed=True),
        Case("f16", 32, 4096, 4096, 128, timed=True, causal=True),
        Case("f16", 32, 16384, 16384, 128, timed=True, causal=True),
        Case("bf16", 32, 16384, 16384, 128, timed=True, causal=True),
        Case("f16", 32, 4096, 4096, 64, timed=True),
        Case("f16", 32, 16384, 16384, 64, timed=True),
        Case("bf16", 32, 4096, 4096, 64, timed=True),
        Case("bf16", 32, 16384, 16384, 64, timed=True),
        Case("f16", 32, 4096, 4096, 64, timed=True, causal=True),
        Case("f16", 32, 16384, 16384, 64, timed=True, causal=True),
        Case("bf16", 32, 4096, 4096, 64, timed=True, causal=True),
        Case("bf16", 32, 16384, 16384, 64, timed=True, causal=True),
        Case("f16", 32, 512, 16384, 64, timed=True),
        Case("f16", 8, 4096, 4096, 128, group=4, timed=True),
        Case("f16", 8, 777, 777, 128, group=4, timed=True, causal=True),
        Case("f16", 8, 1333, 1333, 128, group=4, timed=True, causal=True),
        Case("f16", 32, 512, 512, 128, timed=True),
        Case("f16", 32, 4096, 4096, 256, timed=True),
        Case("bf16", 32, 4096, 4096, 256, timed=True, causal=True),
        Case("f16", 32, 16384, 16384, 128, timed=True, causal=True, behind=4096),
        Case("bf16", 8, 4096, 4096, 128, group=4, timed=True, causal=True, behind=1024),
        Case("f16", 32, 4096, 4096, 128, timed=True, mask="f16"),
        Case("f16", 32, 4096, 4096, 128, timed=True, mask="i1"),
        Case("bf16", 32, 4096, 4096, 128, timed=True, mask="f32"),
        Case("bf16", 32, 4096, 4096, 128, timed=True, mask="bf16"),
        Case("f16", 32, 4096, 4092, 128, timed=True, mask="f16"),
        Case("bf16", 8, 1333, 1333, 128, group=4, timed=True, mask="bf16"),
        Case("f16", 32, 4096, 4096, 64, timed=True, mask="f16"),
        Case("f16", 32, 4096, 4096, 256, timed=True, mask="f16"),
        Case("f16", 8, 777, 777, 128, group=4, timed=True, mask="i1", mask_dims="bn"),
        Case("f8E4M3FN", 32, 4096, 4096, 128, timed=True, layout="transposed"),
        Case("f8E4M3FN", 32, 16384, 16384, 128, timed=True, layout="transposed"),
        Case("f8E4M3FN", 32, 16384, 16384, 128, timed=True, layout="transposed", causal=True),
        Case("f8E4M3FN", 32, 4096, 4096, 128, timed=True, layout="transposed", causal=True),
        Case("f8E4M3FN", 32, 16384, 16384, 128, timed=True),
        Case("f8E4M3FN", 32, 4096, 4096, 128, timed=True, forced=TURNING),
        Case("f8E4M3FN", 32, 16384, 16384, 128, timed=True, forced=TURNING),
        Case(
            "f8E4M3FN", 32, 16384, 16384, 128, timed=True, causal=True, forced=TURNING + "_causal"
        ),
    ]
    found = odd + odd_decode() + timed + timed_decode() + thresholds() + soft_capped()
    return found + mixed() + widened()


def mixed() -> list[Case]:
    """Q and K of 8 bits before V of 16."""
    odd = [
        Case("", 2, 300, 777, 128, value="f16"),
        Case("", 2, 129, 1, 128, value="f16"),
        Case("", 8, 777, 777, 128, value="f16", group=4, causal=True),
        Case("", 3, 333, 1000, 128, value="f16", layout="transposed"),
        Case("", 3, 500, 1000, 128, value="f16", growing=True),
        Case("", 32, 512, 1024, 128, value="f16", projected=True),
        Case("", 8, 777, 1001, 128, value="bf16", group=4, dynamic=True),
        Case("", 8, 1333, 1333, 128, value="bf16", group=4, causal=True, dynamic=True),
        Case("", 40, 777, 1110, 128, value="bf16", causal=True, offset=333),
        Case("", 2, 129, 136, 128, value="bf16", layout="transposed"),
    ]
    timed = [
        Case("", 32, 4096, 4096, 128, value="f16"),
        Case("", 32, 4096, 4096, 128, value="f16", layout="transposed"),
        Case("", 32, 4096, 4096, 128, value="f16", causal=True),
        Case("", 32, 16384, 16384, 128, value="f16"),
        Case("", 32, 4096, 4096, 128, value="bf16"),
        Case("", 32, 4096, 4096, 128, value="bf16", layout="transposed"),
        Case("", 32, 16384, 16384, 128, value="bf16", causal=True),
        Case("", 8, 4096, 4096, 128, value="bf16", group=4),
        Case("", 32, 1024, 1024, 128, value="f16"),
        Case("", 8, 1333, 1333, 128, value="f16", group=4, causal=True),
    ]
    found = odd + [replace(case, timed=True) for case in timed]
    return [replace(case, dtype="f8E4M3FN") for case in found]


def widened() -> list[Case]:
    """8-bit operands that no kernel takes as they are, by the kernels for 16 bits."""
    e4m3, e5m2 = "f8E4M3FN", "f8E5M2"
    odd = [
        Case(e4m3, 2, 300, 777, 64, value="f16"),
        Case(e4m3, 3, 333, 1000, 64, value="bf16", layout="transposed", dynamic=True, group=2),
        Case(e4m3, 2, 300, 777, 64),
        Case(e4m3, 3, 777, 777, 256, causal=True, group=2),
        Case(e4m3, 3, 333, 777, 128, mask="i1", mask_dims="bmn"),
        Case(e4m3, 2, 300, 1000, 64, mask="f16"),
        Case(e4m3, 8, 1333, 1333, 128, causal=True, dynamic=True),
        Case(e4m3, 3, 333, 333, 64, cap=20),
        Case(e5m2, 2, 300, 777, 128),
        Case(e5m2, 3, 500, 500, 64, causal=True, value="bf16"),
        Case("f16", 8, 333, 777, 128, group=4, cache=e4m3),
        Case("bf16", 8, 500, 1333, 128, group=4, cache=e4m3, causal=True, offset=833),
    ]
    timed = [
        Case(e4m3, 32, 4096, 4096, 128, value="f16", forced="attention_f16_d128"),
        Case(e4m3, 32, 4096, 4096, 128, value="bf16", forced="attention_bf16_d128"),
        Case(e4m3, 32, 4096, 4096, 128, mask="f16"),
        Case(e4m3, 32, 4096, 4096, 64),
        Case(e4m3, 32, 4096, 4096, 256, causal=True),
        Case(e5m2, 32, 4096, 4096, 128),
        Case("bf16", 8, 4096, 4096, 128, group=4, cache=e4m3),
    ]
    return odd + [replace(case, timed=True) for case in timed]


def soft_capped() -> list[Case]:
    """Attention with a soft-cap, small and odd, then as large as Gemma 2's."""
    odd = [
        Case("f16", 2, 300, 777, 128),
        Case("f16", 8, 1333, 1333, 128, group=4, causal=True, dynamic=True),
        Case("f16", 2, 1000, 1000, 64, causal=True, behind=100),
        Case("f16", 3, 333, 777, 256, group=2, causal=True, behind=300),
        Case("f16", 3, 333, 777, 64, mask="i1", mask_dims="bmn"),
        Case("f16", 2, 300, 777, 256, mask="f16", mask_dims="n"),
        Case("bf16", 8, 777, 777, 128, group=4, causal=True),
        Case("bf16", 2, 300, 500, 64, dynamic=True),
        Case("bf16", 4, 500, 1333, 128, mask="i1", group=2, mask_dims="gmn", dynamic=True),
        Case("bf16", 4, 333, 777, 256, mask="bf16", mask_dims="bn"),
        Case("f16", 8, 1, 777, 128, group=4),
        Case("f16", 8, 4, 5000, 128, group=2, causal=True, offset=3000, behind=700, dynamic=True),
        Case("bf16", 5, 1, 1777, 256, group=2, mask="i1", mask_dims="bn"),
        Case("f8E4M3FN", 8, 1, 777, 128, group=4),
        Case("f16", 4, 512, 512, 128, own=True),  # what IREE does: wrong
        Case("f16", 4, 512, 512, 128, own=True, configured=True),
        Case("f16", 4, 1, 4096, 128, own=True, configured=True),
    ]
    timed = [
        Case("f16", 32, 4096, 4096, 128),
        Case("bf16", 32, 4096, 4096, 128),
        Case("f16", 32, 4096, 4096, 128, own=True, configured=True),
        Case("bf16", 32, 16384, 16384, 128, causal=True),
        Case("f16", 32, 4096, 4096, 64),
        Case("f16", 32, 4096, 4096, 256),
        Case("bf16", 8, 8192, 8192, 256, group=2, causal=True),
        Case("f16", 32, 4096, 4096, 128, mask="i1"),
        Case("bf16", 32, 4096, 4096, 128, mask="bf16"),
        Case("f16", 64, 1, 16384, 128),
        Case("bf16", 8, 1, 65536, 256, group=2),
    ]
    return [replace(case, cap=20) for case in odd] + [
        replace(case, cap=50, timed=True) for case in timed
    ]


def odd_wide() -> list[Case]:
    """Enough heads for workgroups of 256 rows, in some or in all cases."""
    kinds = [
        Case("f16", 0, 777, 1333, 64),
        Case("f16", 0, 1333, 1333, 64, causal=True),
        Case("f16", 0, 777, 1110, 64, causal=True, offset=333),
        Case("f16", 0, 600, 1333, 64, causal=True),
        Case("f16", 0, 500, 776, 64, layout="transposed"),
        Case("bf16", 0, 777, 777, 64, causal=True),
        Case("bf16", 0, 777, 776, 64, causal=True, layout="transposed"),
    ]
    found = [replace(case, heads=heads) for heads in (40, 64) for case in kinds]
    return [*found, Case("bf16", 8, 1000, 777, 64, group=8)]


def odd_poisoned() -> list[Case]:
    """Keys that fill no tile, with NaN behind them, which a weight of 0 would not hide."""
    narrow = "f8E4M3FN"
    found = [
        Case("f16", 4, 300, 777, 128),
        Case("f16", 4, 776, 776, 128, layout="transposed", causal=True),
        Case("f16", 40, 300, 777, 64),
        Case("f16", 4, 300, 777, 256),
        Case("f16", 4, 300, 777, 128, mask="f16"),
        Case(narrow, 4, 300, 784, 128, layout="transposed"),
        Case(narrow, 4, 784, 784, 128, layout="transposed", causal=True),
        Case(narrow, 4, 300, 784, 128, forced=TURNING),
        Case(narrow, 4, 784, 784, 128, causal=True, forced=TURNING + "_causal"),
        Case("f16", 4, 1, 777, 128),
        Case(narrow, 4, 1, 777, 128),
    ]
    return [replace(case, poisoned=True) for case in found]


def odd_aligned() -> list[Case]:
    """Masks with rows that start at multiples of 16 bytes."""
    return [
        Case("f16", 2, 300, 776, 64, mask="f16"),
        Case("f16", 8, 333, 776, 128, group=4, mask="f16", mask_dims="bgmn"),
        Case("f16", 3, 333, 780, 128, group=2, mask="f32", mask_dims="gmn"),
        Case("f16", 3, 333, 784, 128, group=2, mask="i1", mask_dims="bn"),
        Case("f16", 2, 300, 776, 256, mask="f16", mask_dims="n"),
        Case("f16", 2, 333, 1004, 256, mask="f32", mask_dims="bmn"),
        Case("bf16", 3, 333, 780, 64, mask="f32", mask_dims="bmn"),
        Case("bf16", 4, 333, 1000, 128, mask="bf16", mask_dims="bn"),
        Case("bf16", 4, 500, 1328, 128, mask="i1", group=2, mask_dims="gmn"),
        Case("bf16", 2, 300, 784, 256, mask="i1"),
        Case("bf16", 2, 129, 16, 64, mask="i1", mask_dims="bmn"),
    ]


def odd_decode() -> list[Case]:
    """Decode of few keys and odd lengths, right to the last row and key."""
    narrow = "f8E4M3FN"
    return [
        Case("f16", 8, 1, 777, 128),
        Case("f16", 3, 1, 1, 128),
        Case("f16", 2, 1, 5000, 64, group=4),
        Case("f16", 3, 1, 1333, 256, group=8),
        Case("f16", 40, 1, 130, 128, group=5, dynamic=True),
        Case("f16", 8, 3, 4097, 128, group=8, dynamic=True),
        Case("f16", 8, 4, 1000, 128, group=2, causal=True, offset=996),
        Case("f16", 8, 4, 5000, 128, group=2, causal=True, offset=3000, behind=700, dynamic=True),
        Case("f16", 5, 1, 777, 128, group=4, mask="f16", mask_dims="n"),
        Case("f16", 5, 7, 777, 64, mask="i1", mask_dims="bmn"),
        Case("f16", 5, 1, 3001, 256, group=2, mask="f32", mask_dims="bgn", dynamic=True),
        Case("bf16", 8, 1, 777, 128, group=4),
        Case("bf16", 8, 1, 1333, 64, dynamic=True),
        Case("bf16", 5, 1, 777, 128, group=4, mask="bf16", mask_dims="bn"),
        Case("bf16", 5, 6, 1777, 128, group=4, mask="i1", mask_dims="gmn"),
        Case("bf16", 4, 1, 2000, 256, mask="f32", mask_dims="n"),
        Case(narrow, 8, 1, 777, 128, group=4),
        Case(narrow, 8, 1, 1333, 64, dynamic=True),
        Case(narrow, 5, 7, 777, 64, mask="i1", mask_dims="bmn"),
        Case("f16", 8, 1, 1333, 128, group=4, cache=narrow),
        Case("f16", 5, 1, 777, 64, mask="f16", mask_dims="n", cache=narrow, dynamic=True),
        Case("bf16", 8, 1, 1333, 128, group=4, cache=narrow, mask="i1", mask_dims="bn"),
        Case("bf16", 3, 1, 5000, 64, group=4, cache=narrow),
        Case(narrow, 32, 1024, 1024, 128, projected=True),
        Case("f16", 32, 512, 1024, 128, projected=True),
        Case("f16", 8, 1, 4096, 128, group=4, elsewhere="hopper"),
        Case("f16", 8, 1, 4096, 128, group=4, elsewhere="older"),
        Case("f16", 8, 500, 1024, 128, elsewhere="hopper"),
        Case("f16", 8, 500, 1024, 128, elsewhere="older"),
    ]


def timed_decode() -> list[Case]:
    """Decode over long caches."""
    narrow = "f8E4M3FN"
    found = [Case("f16", heads, 1, keys, 128, timed=True) for heads, keys in DECODE]
    found += [
        Case("bf16", 32, 1, 65536, 128, timed=True),
        Case("f16", 128, 1, 16384, 128, group=4, timed=True),
        Case("bf16", 64, 1, 8192, 128, group=8, timed=True),
        Case("f16", 64, 1, 16384, 64, timed=True),
        Case("f16", 64, 1, 8192, 256, timed=True),
        Case("f16", 64, 1, 16384, 128, timed=True, mask="f16", mask_dims="bn"),
        Case("bf16", 64, 1, 16384, 128, group=4, timed=True, mask="i1", mask_dims="n"),
        Case(narrow, 64, 1, 16384, 128, timed=True),
        Case(narrow, 32, 1, 65536, 128, timed=True),
        Case(narrow, 64, 1, 16384, 64, timed=True),
        Case("bf16", 32, 1, 65536, 128, timed=True, cache=narrow),
        Case("f16", 64, 1, 16384, 128, group=8, timed=True, cache=narrow),
    ]
    own = [Case("f16", heads, 1, keys, 128) for heads, keys in ((64, 16384), (32, 65536))]
    own += [Case("f16", 128, 1, 16384, 128, group=4)]
    own += [Case("f16", 32, 4096, 4096, head) for head in (64, 128)]
    return found + [replace(case, timed=True, own=True, configured=True) for case in own]


# Heads and keys of one row each.
DECODE = ((64, 16384), (32, 65536), (256, 4096), (8, 65536), (32, 4096))


def thresholds() -> list[Case]:
    """Small attentions, by a kernel and by IREE: where does a kernel begin to win?"""
    sizes = ((1, 128), (1, 512), (1, 2048), (8, 128), (8, 512), (32, 128), (32, 256), (32, 1024))
    small = [Case("f16", heads, rows, rows, 128) for heads, rows in sizes]
    small += [Case("f16", 12, 512, 512, 64), Case("f16", 12, 128, 128, 64)]
    caches = ((1, 1024), (1, 16384), (8, 512), (8, 2048), (32, 128), (32, 512), (32, 2048))
    small += [Case("f16", heads, 1, keys, 128) for heads, keys in caches]
    small += [Case("f16", 8, 1, keys, 128, group=4) for keys in (256, 1024, 4096, 16384)]
    small += [Case("f16", 16, 1, 2048, 64)]
    small = [replace(case, timed=True) for case in small]
    return [c for case in small for c in (case, replace(case, own=True, configured=True))]


def module_text(case: Case) -> str:
    """`main(q, k, v)`: attention as the passes see it."""
    b, g, m, n, d = case.heads, case.group, case.rows, case.keys, case.head
    dynamic = "" if not case.dynamic else "bn" if case.is_decode else "bgmn"
    named = zip("bgmn", (b, g, m, n), strict=True)
    bs, gs, ms, ns = ("?" if dim in dynamic else str(size) for dim, size in named)
    transposed = case.layout == "transposed"
    q = f"tensor<{bs}x{gs}x{ms}x{d}x{case.dtype}>"
    k = f"tensor<{bs}x{ns}x{d}x{case.kept}>"
    v = f"tensor<{bs}x{f'{d}x{ns}' if transposed else f'{ns}x{d}'}x{case.values}>"
    o = f"tensor<{bs}x{gs}x{ms}x{d}x{case.output}>"
    mask, argument = "", ""
    read = [("%k", k, K), ("%v", v, V_T if transposed else V), ("%scale", "f32", "")]
    value_argument, project = f"%v: {v}", ""
    if case.projected:
        value_argument, project = _projection(case, v)
    if case.mask:
        shape = "x".join(
            dict(zip("bgmn", (bs, gs, ms, ns), strict=True))[x] for x in case.mask_dims
        )
        given = "i8" if case.mask == "i1" else case.mask
        argument = f", %given: tensor<{shape}x{given}>"
        name = "%mask" if case.mask == "i1" else "%given"
        dims = ", ".join(case.mask_dims).replace("n", "k2")
        read.append((name, f"tensor<{shape}x{case.mask}>", dims))
        if case.mask == "i1":
            mask = f"""
  %mask = arith.trunci %given : tensor<{shape}xi8> to tensor<{shape}xi1>"""
    if case.causal:
        seen = "%ahead"
        window = ""
        if case.behind:
            seen = "%seen"
            window = f"""
    %behind = arith.constant {case.behind} : index
    %last = arith.addi %j, %behind : index
    %near = arith.cmpi sge, %last, %i : index
    %seen = arith.andi %ahead, %near : i1"""
        kind = f"tensor<{ms}x{ns}xi1>"
        read.append(("%mask", kind, "m, k2"))
        mask = f"""
  %blank = tensor.empty({", ".join(f"%{dim}" for dim in dynamic if dim in "mn")}) : {kind}
  %mask = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}} outs(%blank : {kind}) {{
  ^bb0(%out: i1):
    %row = linalg.index 0 : index
    %shift = arith.constant {case.offset} : index
    %i = arith.addi %row, %shift : index
    %j = linalg.index 1 : index
    %ahead = arith.cmpi sge, %i, %j : index{window}
    linalg.yield {seen} : i1
  }} -> {kind}"""
    sizes = ""
    if case.dynamic:
        sizes = f"""
  %b = tensor.dim %q0, %c0 : {q}
  %g = tensor.dim %q0, %c1 : {q}
  %m = tensor.dim %q0, %c2 : {q}
  %n = tensor.dim %k, %c1 : {k}"""
    cap = ""
    if case.cap:
        cap = f"""
    %c = arith.constant {case.cap:.9e} : f32
    %ss = arith.divf %s, %c : f32
    %st = math.tanh %ss : f32
    %sc = arith.mulf %st, %c : f32"""
    body = "".join(
        fresh_attention(
            f"%q{step + 1}",
            [(f"%q{step}", q, "b, g, m, k1"), *read],
            o,
            ", ".join(f"%{dim}" for dim in dynamic if dim != "n"),
            written="b, g, m, n",
            dims="b, g, m, n, k1, k2",
            body=cap,
            score="%sc" if case.cap else "%s",
        )
        for step in range(case.steps)
    )
    return f"""func.func @main(%q0: {q}, %k: {k}, {value_argument}{argument}) -> {o} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %scale = arith.constant {case.head**-0.5:.9e} : f32{sizes}{mask}{project}{body}
  return %q{case.steps} : {o}
}}
"""


def _projection(case: Case, v: str) -> tuple[str, str]:
    """Arguments and text that make V: x (keys, 256) by w (256, heads * head)."""
    heads, keys, head, kind = case.heads, case.keys, case.head, case.values
    x, w = f"tensor<{keys}x{PROJECTED}xf16>", f"tensor<{PROJECTED}x{heads * head}xf16>"
    wide, narrow = (f"tensor<{keys}x{heads * head}x{of}>" for of in ("f32", kind))
    apart = f"tensor<{keys}x{heads}x{head}x{kind}>"
    return (
        f"%left: {x}, %right: {w}",
        f"""
  %zero = arith.constant 0.0 : f32
  %p0 = tensor.empty() : {wide}
  %p1 = linalg.fill ins(%zero : f32) outs(%p0 : {wide}) -> {wide}
  %p2 = linalg.matmul ins(%left, %right : {x}, {w}) outs(%p1 : {wide}) -> {wide}
  %p3 = tensor.empty() : {narrow}
  %p4 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
      ins(%p2 : {wide}) outs(%p3 : {narrow}) {{
  ^bb0(%p5: f32, %p6: {kind}):
    %p7 = arith.truncf %p5 : f32 to {kind}
    linalg.yield %p7 : {kind}
  }} -> {narrow}
  %p8 = tensor.expand_shape %p4 [[0], [1, 2]] output_shape [{keys}, {heads}, {head}]
      : {narrow} into {apart}
  %p9 = tensor.empty() : {v}
  %v = linalg.transpose ins(%p8 : {apart}) outs(%p9 : {v}) permutation = [1, 0, 2]""",
    )


def settings(case: Case) -> dict[str, Any]:
    return asdict(case)


def compile(folder: Path, wanted: list[Case], _: argparse.Namespace) -> None:
    """Writes the .vmfb files; stops at the first case that does not compile."""
    names = folder / "kernels.json"
    taken = json.loads(names.read_text()) if names.exists() else {}
    for case in wanted:
        source = folder / "source.mlir"
        source.write_text(module_text(case))
        if not case.own:
            passes = ["--attn-propagate-layout=target=sm_90"] if case.projected else []
            passes += ["--attn-use-kernels=target=sm_90 mode=always"]
            passes[-1] += " elsewhere=iree" if case.elsewhere else ""
            passes[-1] += f" kernel={case.forced}" if case.forced else ""
            command = [sys.executable, "-m", "attnpass.cli.attn_opt", str(source), *passes]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            beside = "iree_linalg_ext.attention" in text
            if "hal.dispatch.extern" not in text or beside != bool(case.elsewhere):
                raise SystemExit(f"{case.name}: no kernel was taken")
            taken[case.name] = re.findall(r'hal.dispatch.extern "(\w+)"', text)[0]
            names.write_text(json.dumps(taken, indent=1))
            if case.elsewhere == "older":  # look for another device than there is
                text = text.replace("constant 9 : i32", "constant 8 : i32")
            source.write_text(text)
        for repeats in (FEW, case.many) if case.timed else (1,):
            _compile(source, folder / f"{case.name}.{repeats}.vmfb", repeats, case)
        print(case.name, flush=True)
        source.unlink()


def _compile(source: Path, target: Path, repeats: int, case: Case) -> None:
    flags = [*DEVICE, f"--iree-hal-benchmark-dispatch-repeat-count={repeats}"]
    tool = [str(Path(sys.executable).with_name("iree-compile"))]
    casts = case.projected or case.is_narrow
    if case.configured or casts:
        tool = [sys.executable, "-m", "attnpass.cli.attn_compile", "--attn-target=sm_90"]
    if casts:  # of 8 bits want the attnpass pass, and an architecture that has them
        flags += ["--iree-cuda-target=sm_90", "--attn-pipeline=attn-lower-cuda{only=exp2}"]
    subprocess.run([*tool, str(source), *flags, "-o", str(target)], check=True, timeout=300)


def run(folder: Path, case: Case, options: argparse.Namespace) -> Iterator[Row]:
    """A row of the kernel (or of IREE's code, where that is left to do it), and of its peers."""
    import torch

    if options.numbers and case.timed:
        return
    config = gpu()
    taken = json.loads((folder / "kernels.json").read_text())
    q, k, v = _inputs(case)
    mask = _mask(case)
    transposed = v.transpose(1, 2).contiguous() if case.layout == "transposed" else v
    given = [q, k, transposed]
    if case.projected:
        x, w = _factors(case)
        given[2:], v = [x, w], _projected(case, x, w)
    device = [to_iree(config.device, tensor) for tensor in given]
    if mask is not None:
        device.append(to_iree(config.device, mask.to(torch.uint8) if case.mask == "i1" else mask))
    full = _full_mask(case, mask)
    wanted = reference(case, q, k, v, full)
    names = (FEW, case.many) if case.timed else (1,)
    start = time.perf_counter()
    functions = {
        count: load(config, folder / f"{case.name}.{count}.vmfb")["main"] for count in names
    }
    output = functions[names[0]](*device)
    found: dict[str, Any] = {"first_call_ms": ms(time.perf_counter() - start, 1)}
    found |= {"kernel": taken[case.name]} if case.name in taken else {}
    kind = torch.bfloat16 if case.output == "bf16" else torch.float16
    got = to_torch(output, kind)
    part = got[_heads(case)]
    found["error"] = relative_error(part, wanted)
    if not bool((torch.isfinite(part) == torch.isfinite(wanted)).all()):
        found["failed"] = "not finite, or finite where no key is seen"
    # Twice the same answer: a race would show.
    again = to_torch(functions[names[-1]](*device), kind)
    found["same_again"] = bool(torch.equal(got.nan_to_num(), again.nan_to_num()))
    ways: dict[str, Way] = {}
    if case.timed:
        ways["iree"] = Way(case, {n: lambda f=f: f(*device) for n, f in functions.items()})
        with torch.no_grad():
            ways |= _torch_ways(case, q, k, v, full, wanted)
            able = {name: way.calls for name, way in ways.items() if not way.failed}
            for name, seconds in slopes(able, repeats=7).items():
                ways[name].found.update(_speed(ways[name].case, seconds))
        found |= ways.pop("iree").found
    torch.cuda.empty_cache()
    yield row(case.name, "iree", found)
    for name, way in ways.items():
        yield row(case.name, name, {"failed": way.failed} if way.failed else way.found)


def _inputs(case: Case) -> tuple[Any, Any, Any]:
    """q (heads, group, rows, head), k and v (heads, keys, head), in the case's type."""
    import torch

    torch.manual_seed(len(case.name) + case.rows)
    shapes = [
        (case.heads, case.group, case.rows, case.head),
        (case.heads, case.keys, case.head),
        (case.heads, case.keys, case.head),
    ]
    types = (case.dtype, case.kept, case.values)
    growth = torch.linspace(0.1, 8, case.keys, device="cuda")[:, None] if case.growing else 1
    sizes = (case.cap / 2 or 1, growth, 1)
    tensors = [
        torch.randn(shape, device="cuda") * size for shape, size in zip(shapes, sizes, strict=True)
    ]
    for tensor in tensors if case.poisoned else []:
        tensor[1::2] = math.nan
    q, k, v = (tensor.to(torch_type(kind)) for tensor, kind in zip(tensors, types, strict=True))
    return q, k, v


def _factors(case: Case) -> list[Any]:
    """What V is a product of."""
    import torch

    shapes = (case.keys, PROJECTED), (PROJECTED, case.heads * case.head)
    x, w = (torch.randn(shape, device="cuda") for shape in shapes)
    return [x.half(), (w * PROJECTED**-0.5).half()]


def _projected(case: Case, x: Any, w: Any) -> Any:
    """V (heads, keys, head) in its type, of the product in float32."""
    import torch

    kind = torch.float8_e4m3fn if case.values.startswith("f8") else torch.float16
    product = (x.double() @ w.double()).float().to(kind)
    return product.view(case.keys, case.heads, case.head).transpose(0, 1).contiguous()


def _mask(case: Case) -> Any:
    """The mask that is passed in: of its type, in the shape of `mask_dims`; None without one."""
    import torch

    if not case.mask:
        return None
    sizes = dict(zip("bgmn", (case.heads, case.group, case.rows, case.keys), strict=True))
    shape = [sizes[dim] for dim in case.mask_dims]
    seen = torch.rand(shape, device="cuda") < 0.7
    seen[..., 0] = True
    if "m" in case.mask_dims and case.rows > 5 and not case.timed:
        seen[..., 5, :] = False
    if case.mask == "i1":
        return seen
    bias = torch.randn(shape, device="cuda").masked_fill(~seen, -math.inf)
    return bias.to(torch_type(case.mask))


def _full_mask(case: Case, mask: Any) -> Any:
    """A mask with dims (b, g, m, n), some of size one; a window as truth values."""
    import torch

    if case.behind:
        row = torch.arange(case.rows, device="cuda")[:, None] + case.offset
        key = torch.arange(case.keys, device="cuda")[None]
        return ((key <= row) & (key >= row - case.behind))[None, None]
    if mask is None:
        return None
    given = iter(mask.shape)
    return mask.reshape([next(given) if dim in case.mask_dims else 1 for dim in "bgmn"])


def _heads(case: Case) -> list[int]:
    """The heads of K and V that are compared: the first and the last, for long ones."""
    return [0, case.heads - 1] if case.timed else list(range(case.heads))


def reference(case: Case, q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Attention of `_heads(case)` in float64, a query head at a time."""
    import torch

    heads = []
    for head in _heads(case):
        rows = []
        for number, member in enumerate(q[head]):
            x = member.double()
            own = None if mask is None else _own_mask(mask, head, number)
            for _ in range(case.steps):
                x = _exact(x, k[head].double(), v[head].double(), case, own)
                x = x.to(member.dtype).double() if case.steps > 1 else x
            rows.append(x)
        heads.append(torch.stack(rows))
    return torch.stack(heads)


def _own_mask(mask: Any, head: int, member: int) -> Any:
    """The mask (m, n) of one query head; m may be 1."""
    return mask[min(head, mask.shape[0] - 1), min(member, mask.shape[1] - 1)]


def _exact(q: Any, k: Any, v: Any, case: Case, mask: Any) -> Any:
    """Softmax attention of one head, in blocks of rows; row i sees keys 0 to i if causal."""
    import torch

    blocks = []
    for start in range(0, len(q), 2048):
        scores = scores_of(q[start : start + 2048], k, case.head**-0.5, case.cap)
        part = mask if mask is None or len(mask) == 1 else mask[start : start + 2048]
        if part is not None and part.dtype == torch.bool:
            scores = scores.masked_fill(~part, -math.inf)
        elif part is not None:
            scores = scores + part.double()
        elif case.causal:
            row = torch.arange(start, start + len(scores), device=q.device) + case.offset
            key = torch.arange(len(k), device=q.device)
            scores = scores.masked_fill(key[None] > row[:, None], -math.inf)
        blocks.append(torch.softmax(scores, -1) @ v)
    return torch.cat(blocks)


def relative_error(output: Any, wanted: Any) -> float:
    """||output - wanted|| / ||wanted|| in float64; not numbers count as 0."""
    wanted = wanted.nan_to_num()
    return float((output.double().nan_to_num() - wanted).norm() / wanted.norm())


@dataclass(frozen=True)
class Way:
    """A way to compute a case: calls that repeat it as often as their key says, and what was found
    of it; or why there is none."""

    case: Case
    calls: dict[int, Callable[[], Any]] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)
    failed: str = ""


def _way(case: Case, call: Callable[[], Any], error: float) -> Way:
    return Way(case, {n: captured(call, n) for n in (FEW, case.many)}, {"error": error})


def _speed(case: Case, seconds: float) -> dict[str, float]:
    speed = {"ms": ms(seconds), "TFLOPS": round(case.flops / seconds / 1e12, 1)}
    return speed | ({"GBps": round(case.bytes / seconds / 1e9)} if case.is_decode else {})


def _torch_ways(case: Case, q: Any, k: Any, v: Any, mask: Any, wanted: Any) -> dict[str, Way]:
    """FlashAttention and cuDNN on the same tensors; 8-bit inputs in bf16, which they take."""
    import torch
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    if case.own:
        return {}
    if case.is_narrow:
        q, k, v = (tensor.to(torch.bfloat16) for tensor in (q, k, v))
        mask = mask.to(torch.bfloat16) if case.mask == "f16" else mask
        case = replace(case, dtype="bf16", cache="", value="")  # and twice the bytes
    flat = q.flatten(0, 1)[None]
    pair = k[None], v[None]

    if mask is not None:
        mask = mask.expand(case.heads, case.group, case.rows, case.keys).flatten(0, 1)[None]

    def call() -> Any:
        return scaled_dot_product_attention(
            flat, *pair, mask, is_causal=mask is None and case.causal, enable_gqa=case.group > 1
        )

    if case.cap:
        return _flex_ways(case, flat, pair, wanted)
    ways: dict[str, Way] = {}
    names = ("FA2", "cuDNN") if mask is None else ("FA2", "cuDNN", "efficient")
    for short, kind in backends(*names).items():
        name = f"torch_{short.lower()}"
        try:
            with sdpa_kernel(kind):
                error = relative_error(call()[0].view(q.shape)[_heads(case)], wanted)
                ways[name] = _way(case, call, error)
        except RuntimeError as problem:
            ways[name] = Way(case, failed=str(problem)[:200])
    return ways


def _flex_ways(case: Case, flat: Any, pair: Any, wanted: Any) -> dict[str, Way]:
    """FlexAttention, compiled, for soft-caps, which SDPA has not; compiling takes long, so that
    only the plain and causal cases of 4096 and 16384 rows have this."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if case.mask or case.behind or case.group > 1 or case.rows < 4096:
        return {}

    def capped(score: Any, *_: Any) -> Any:
        return case.cap * torch.tanh(score / case.cap)

    def seen(_b: Any, _h: Any, row: Any, key: Any) -> Any:
        return row >= key

    sizes = (None, None, case.rows, case.keys)
    mask = create_block_mask(seen, *sizes, device="cuda") if case.causal else None
    compiled: Any = torch.compile(flex_attention)

    def call() -> Any:
        return compiled(flat, *pair, score_mod=capped, block_mask=mask)

    try:
        shape = (case.heads, case.group, case.rows, case.head)
        error = relative_error(call()[0].view(shape)[_heads(case)], wanted)
    except Exception as problem:  # where there is no compiler
        return {"torch_flex": Way(case, failed=str(problem)[:200])}
    return {"torch_flex": _way(case, call, error)}
