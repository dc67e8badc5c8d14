"""Writes the table at the top of README.md from the measured JSON.

    python tools/readme_page.py

The JSON comes from tools/bench_configure.py, tools/bench_kernels.py and tools/bench_cpu.py.
"""

from __future__ import annotations

import json
from typing import Any

from doc_blocks import RESULTS, table, write_block

# PyTorch's kernels by their names in the JSON.
PEERS = {"FA2": "FlashAttention-2", "cuDNN": "cuDNN", "efficient": "memory-efficient"}
CPU = "a core of an Intel Xeon (Emerald Rapids), f32"


def main() -> None:
    head = ["attention", "IREE 3.13", "attnpass", "with `--attn-kernels=cost`", "PyTorch"]
    lines = [
        gpu_line("f16, 32 heads of 128", "configure_h200.json", "32x1_4096x4096_d128_f16"),
        gpu_line("f32, 32 heads of 128", "configure_f32_h200.json", "32x1_4096x4096_d128_f32"),
        gpu_line("f16, 4 heads of 1024", "configure_h200.json", "4x1_4096x4096_d1024_f16"),
        cpu_line("32 heads of 128, 512 rows and keys", "32 heads, 512 x 512, d 128, f32"),
        cpu_line("decode, 8 heads of 4 rows, 4096 keys", "8 heads, 4 x 4096, d 128, f32"),
    ]
    write_block("../README.md", "gains", table(head, lines))


def gpu_line(words: str, name: str, case: str) -> list[str]:
    """A line for a case on the H200 with 4096 rows and keys."""
    rows = {row["variant"]: row for row in _rows(name) if row["case"] == case}
    peers = [f"{_ms(rows[peer])} ({PEERS[peer]})" for peer in PEERS if "ms" in rows.get(peer, {})]
    words = f"H200, {words}, 4096 rows and keys"
    ours = [_ms(rows["iree"]), _ms(rows["attnpass"]), _kernel(case)]
    return [words, *ours, ", ".join(peers) or "no fused kernel"]


def cpu_line(words: str, case: str) -> list[str]:
    data = json.loads((RESULTS / "cpu_emeraldrapids.json").read_text())
    row = data["threads"]["1"][case]
    return [f"{CPU}, {words}", _ms(row["iree"]), _ms(row["vectorized"]), "-", _ms(row["torch"])]


def _kernel(case: str) -> str:
    """The time of the precompiled kernel for a case, if there is one."""
    shape, _, kind = case.rpartition("_")
    found = (row for row in _rows("kernels_h200.json") if row["case"] == f"{kind}_{shape}")
    return next((_ms(row["iree"]) for row in found), "-")


def _rows(name: str) -> list[dict[str, Any]]:
    return json.loads((RESULTS / name).read_text())["rows"]


def _ms(row: dict[str, Any]) -> str:
    return f"{row['ms']:.3g}" if row["ms"] < 1000 else f"{row['ms']:.0f}"


if __name__ == "__main__":
    main()
