"""Writes the tables of docs/kernels.md from the measured JSON.

    python tools/kernels_page.py

The JSON comes from tools/bench_kernels.py and tools/bench_llama_layer.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from doc_blocks import RESULTS, table, write_block

Row = dict[str, Any]


def _rows(wanted: Callable[[Row], bool]) -> list[Row]:
    data = json.loads((RESULTS / "kernels_h200.json").read_text())
    return [row for row in data["rows"] if row["timed"] and "iree" in row and wanted(row)]


def _is_decode(row: Row) -> bool:
    return row["rows"] * row["group"] <= 64


def _is_widened(row: Row) -> bool:
    """Whether operands of 8 bits are cast for a kernel of 16."""
    return "f8" in row["case"] and not row["own"] and "f8" not in row["kernel"]


def decode() -> str:
    """GB/s of K and V of the large caches; PyTorch reads those of 8 bits in 16."""
    large = 2**24
    rows = _rows(lambda row: _is_decode(row) and row["heads"] * row["keys"] * row["head"] >= large)
    return _beside_peers(rows, "GBps")


def prefill() -> str:
    """TFLOPS of the products; PyTorch computes those of 8 bits in bf16."""
    rows = _rows(lambda row: not _is_decode(row) and row["keys"] >= 512 and not row.get("cap"))
    return _beside_peers([row for row in rows if not _is_widened(row)], "TFLOPS")


def widened() -> str:
    """TFLOPS of kernels of 16 bits and the casts of 8-bit operands in front of them."""
    return _beside_peers(_rows(_is_widened), "TFLOPS")


def caps() -> str:
    """TFLOPS of the products with a soft-cap, beside FlexAttention's."""
    rows = _rows(lambda row: not _is_decode(row) and bool(row.get("cap")))
    own = {row["case"]: row for row in rows if row["own"]}
    lines = []
    for row in (row for row in rows if not row["own"]):
        iree = own.get(row["case"].replace("_cap", "_own_configured_cap"), {})
        ways = (row["iree"], row.get("torch_flex", {}), iree.get("iree", {}))
        cells = [way.get("TFLOPS", "-") for way in ways]
        lines.append([row["case"], *cells, f"{row['error']:.1e}"])
    return table(["case", "kernel", "FlexAttention", "IREE, configured", "error"], lines)


def _beside_peers(rows: list[Row], speed: str) -> str:
    lines = []
    for row in (row for row in rows if not row["own"]):
        ways = [row.get(name, {}) for name in ("iree", "torch_fa2", "torch_cudnn")]
        cells = [f"{way[speed]} ({_time(way['ms'])})" if "ms" in way else "-" for way in ways]
        ratio = f"{ways[2]['ms'] / ways[0]['ms']:.2f}" if "ms" in ways[2] else "-"
        lines.append([row["case"], *cells, ratio, f"{row['error']:.1e}"])
    head = ["case", "kernel", "FA2", "cuDNN", "cuDNN's time / kernel's", "error"]
    return table(head, lines)


def _time(ms: float) -> str:
    return f"{ms:.3g} ms" if ms >= 1 else f"{ms * 1e3:.0f} us"


def thresholds() -> str:
    """Microseconds of the kernel beside IREE's code as attnpass configures it."""
    own = {row["case"]: row for row in _rows(lambda row: row["configured"])}
    lines = []
    for row in _rows(lambda row: f"{row['case']}_own_configured" in own):
        iree = own[f"{row['case']}_own_configured"]["iree"]["ms"]
        kernel = row["iree"]["ms"]
        lines.append([row["case"], f"{kernel * 1e3:.1f}", f"{iree * 1e3:.1f}"])
    return table(["case", "kernel", "IREE, configured"], lines)


def layers() -> str:
    """Milliseconds of a Llama layer and attention's share of them."""
    data = json.loads((RESULTS / "llama_layer_h200.json").read_text())
    lines = []
    for row in data["rows"]:
        cells = [row["case"]]
        for way in ("iree", "configured", "kernels"):
            cells += [f"{row[way]['ms']:.3f}", f"{100 * row[way]['share']:.0f}%"]
        cells += [f"{row['torch']['ms']:.3f}", f"{row['kernels']['error']:.1e}"]
        lines.append(cells)
    head = ["case", "IREE", "attention", "configured", "attention"]
    return table([*head, "kernels", "attention", "PyTorch", "error"], lines)


def main() -> None:
    write_block("kernels.md", "decode", decode())
    write_block("kernels.md", "prefill", prefill())
    write_block("kernels.md", "widened", widened())
    write_block("kernels.md", "caps", caps())
    write_block("kernels.md", "thresholds", thresholds())
    write_block("kernels.md", "layers", layers())


if __name__ == "__main__":
    main()
