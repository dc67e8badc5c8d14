"""What V^T is worth to a plain Triton attention kernel for e4m3: a peer of the shipped kernels.

    python tools/bench_layouts_triton.py --json triton.json    (needs a GPU, torch and triton)

The kernel is the textbook one; Triton lowers `tl.dot` itself, and so decides how row-major V
becomes an operand of 8-bit wgmma, which wants the keys innermost. Each layout is timed with
several tile sizes; the best is what counts. Errors are against attention in float64.
"""

# pyright: reportMissingImports=false
# (torch and triton are on the GPU machine only)

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

HEADS, HEAD = 32, 128
# Keys and warps a program, stages of the software pipeline.
TILES = tuple(itertools.product((64, 128), (8,), (2, 3)))


@triton.jit
def attention(
    query,
    key,
    value,
    output,
    rows,
    scale,
    HEAD: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    STAGES: tl.constexpr,
    V_TRANSPOSED: tl.constexpr,
):
    """softmax(scale * Q K^T) V of one head and `ROWS` rows; as many keys as rows, a multiple
    of the tiles."""
    first = tl.program_id(0) * ROWS
    start = tl.program_id(1).to(tl.int64) * rows * HEAD
    row, column = first + tl.arange(0, ROWS), tl.arange(0, HEAD)
    q = tl.load(query + start + row[:, None] * HEAD + column[None, :])
    peak = tl.full([ROWS], -1.0e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    out = tl.zeros([ROWS, HEAD], tl.float32)
    factor = scale * 1.4426950408889634
    for tile in tl.range(0, rows, KEYS, num_stages=STAGES):
        place = tile + tl.arange(0, KEYS)
        k = tl.load(key + start + place[:, None] * HEAD + column[None, :])
        scores = tl.dot(q, k.T)
        new_peak = tl.maximum(peak, tl.max(scores, 1) * factor)
        weights = tl.math.exp2(scores * factor - (new_peak - 8.0)[:, None])
        shrink = tl.math.exp2(peak - new_peak)
        total = total * shrink + tl.sum(weights, 1)
        peak = new_peak
        if V_TRANSPOSED:
            v = tl.load(value + start + column[:, None] * rows + place[None, :]).T
        else:
            v = tl.load(value + start + place[:, None] * HEAD + column[None, :])
        out = tl.dot(weights.to(v.dtype), v, out * shrink[:, None])
    out = out / total[:, None]
    tl.store(output + start + row[:, None] * HEAD + column[None, :], out.to(tl.float16))


def measure(size: int, transposed: bool) -> dict[str, Any]:
    """The best of all tiles at this number of rows and keys."""
    torch.manual_seed(size)
    q, k, v = (
        torch.randn(HEADS, size, HEAD, device="cuda").to(torch.float8_e4m3fn) for _ in range(3)
    )
    given = v.transpose(1, 2).contiguous() if transposed else v
    wanted = torch.softmax(q[0].double() @ k[0].double().T * HEAD**-0.5, -1) @ v[0].double()
    found = []
    for keys, warps, stages in TILES:
        out = torch.full((HEADS, size, HEAD), float("nan"), dtype=torch.float16, device="cuda")

        launch: Any = attention
        run = launch[(size // 128, HEADS)]
        sizes = (size, HEAD**-0.5, HEAD, 128, keys, stages, transposed)
        call = partial(run, q, k, given, out, *sizes, num_warps=warps)
        row: dict[str, Any] = {"keys": keys, "warps": warps, "stages": stages}
        try:
            seconds = _seconds(call)
        except Exception as problem:  # a tile that does not fit must not hide the others
            found.append(row | {"failed": f"{type(problem).__name__}: {problem}"[:120]})
            continue
        error = float((out[0].double() - wanted).norm() / wanted.norm())
        speed = 4 * HEADS * size * size * HEAD / seconds / 1e12
        found.append(row | {"ms": seconds * 1e3, "TFLOPS": round(speed, 1), "error": error})
    best = max(found, key=lambda row: row.get("TFLOPS", 0))
    return {"size": size, "v_transposed": transposed, "best": best, "tried": found}


def _seconds(call: Callable[[], None], repeats: int = 5) -> float:
    """Median of a call's time by CUDA events."""
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, default=Path("triton.json"))
    options = parser.parse_args()
    result: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(0),
        "triton": triton.__version__,
        "rows": [],
    }
    for size, transposed in itertools.product((4096, 16384), (False, True)):
        result["rows"].append(measure(size, transposed))
        print(json.dumps(result["rows"][-1]["best"] | {"size": size, "vt": transposed}), flush=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
