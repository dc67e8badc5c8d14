"""The instructions that attn-lower-cuda rounds to bf16 and computes tanh with, on a GPU.

All 2^32 numbers of f32: those rounded to bf16 two at a time bit by bit against PyTorch (any NaN
for NaN), tanh of them, over 1 and over a soft-cap of 50, against float64. Needs triton.
"""

# pyright: reportMissingImports=false, reportIndexIssue=false
# (torch and triton are on the GPU machine only)

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from bench.results import Row, row

CHUNK = 1 << 26
CAPS = (1.0, 50.0)
ROUND = tl.constexpr("cvt.rn.bf16x2.f32 $0, $2, $1;")
TANH = tl.constexpr(
    """{
    .reg .f32 t;
    mul.rn.f32 t, $1, $2;
    ex2.approx.ftz.f32 t, t;
    add.rn.f32 t, t, 0f3F800000;
    rcp.approx.ftz.f32 t, t;
    mul.rn.f32 t, t, 0f40000000;
    sub.rn.f32 $0, 0f3F800000, t;
    }"""
)


@triton.jit
def round_kernel(x, out, size: tl.constexpr):
    at = tl.program_id(0) * size + tl.arange(0, size)
    low, high = tl.load(x + 2 * at), tl.load(x + 2 * at + 1)
    pair = tl.inline_asm_elementwise(ROUND, "=r,f,f", [low, high], tl.int32, True, 1)
    tl.store(out + at, pair)


@triton.jit
def tanh_kernel(x, out, factor, size: tl.constexpr):
    at = tl.program_id(0) * size + tl.arange(0, size)
    number = tl.load(x + at)
    factors = tl.full([size], 0.0, tl.float32) + factor
    value = tl.inline_asm_elementwise(TANH, "=f,f,f", [number, factors], tl.float32, True, 1)
    tl.store(out + at, value)


@dataclass(frozen=True)
class Instruction:
    name: str


def cases() -> list[Instruction]:
    return [Instruction("rounded to bf16"), Instruction("tanh")]


def run(_: Path, case: Instruction, __: argparse.Namespace) -> Iterator[Row]:
    wrong, errors = 0, dict.fromkeys(CAPS, 0.0)
    for start in range(-(1 << 31), 1 << 31, CHUNK):
        bits = torch.arange(start, start + CHUNK, dtype=torch.int64, device="cuda")
        x = bits.to(torch.int32).view(torch.float32)
        if case.name != "tanh":
            wrong += _wrongly_rounded(x)
            continue
        for cap in CAPS:
            errors[cap] = max(errors[cap], _tanh_error(x, cap))
    found: dict[str, Any] = {"numbers": 1 << 32}
    if case.name == "tanh":
        found["largest error by divisor"] = {f"{cap:g}": error for cap, error in errors.items()}
    else:
        found["otherwise than PyTorch"] = wrong
    yield row(case.name, "attnpass", found)


def _wrongly_rounded(x: torch.Tensor) -> int:
    pairs = torch.empty(len(x) // 2, dtype=torch.int32, device="cuda")
    round_kernel[(len(pairs) // 1024,)](x, pairs, 1024)
    got, right = pairs.view(torch.bfloat16), x.to(torch.bfloat16)
    same = (got.view(torch.int16) == right.view(torch.int16)) | (got.isnan() & right.isnan())
    return int((~same).sum())


def _tanh_error(x: torch.Tensor, cap: float) -> float:
    """The largest absolute error; infinite if NaN comes of a number, or a number of NaN."""
    got = torch.empty_like(x)
    tanh_kernel[(len(x) // 1024,)](x, got, 2.0 * math.log2(math.e) / cap, 1024)
    if not torch.equal(got.isnan(), x.isnan()):
        return math.inf
    return float(((x.double() / cap).tanh() - got.double()).abs().nan_to_num().max())
