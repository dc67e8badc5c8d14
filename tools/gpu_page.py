"""Writes the tables and the plots of docs/gpu.md from the measured JSON.

    python tools/gpu_page.py

The JSON comes from tools/bench_configure.py, tools/bench_projection.py,
tools/bench_product_tiles.py, tools/bench_copies.py and tools/bench_split_k.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from bench_configure import NARROW_VARIANTS, WRONG
from doc_blocks import DOCS, RESULTS, table, write_block

COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")
WIDTH, HEIGHT, MARGIN = 640, 360, 60


def prefill() -> str:
    """Milliseconds by case and variant, timed cases only, and the worst error of all."""
    data, cases = _configured("configure_h200.json")
    checked = [r for r in data["rows"] if r.get("variant", "").startswith("attnpass")]
    worst = max(r["error"] for r in checked if "f8" not in r["case"] and "bf16" not in r["case"])
    return (
        f"{data['gpu']}, torch {data['torch']}, milliseconds. Worst error of the passes against "
        f"float32 in f16, {len(checked)} results checked in all types: {worst:.1e}.\n\n"
        + _beside(cases, ("attnpass", "attnpass V^T"), ("FA2", "cuDNN"))
    )


def narrow() -> str:
    """Milliseconds of cases with 8-bit operands, widened in front of attention and not."""
    _, cases = _configured("configure_h200.json")
    names = ("attnpass", "attnpass V^T", *NARROW_VARIANTS, "FA2", "cuDNN")
    lines = []
    for case, rows in cases.items():
        if "f8" in case and "ms" in rows.get("8 bits", {}):
            errors = [_error(rows, group) for group in (names[:2], NARROW_VARIANTS)]
            lines.append([case, *(_ms(rows.get(name, {})) for name in names), *errors])
    return table(["case", *names, "error, widened", "error, 8 bits"], lines)


def _error(rows: dict[str, Any], names: Sequence[str]) -> str:
    """The largest error of the rows of these names."""
    errors = [rows[name]["error"] for name in names if name in rows]
    return f"{max(errors):.1e}" if errors else "-"


def f32() -> str:
    """The same in f32."""
    data, cases = _configured("configure_f32_h200.json")
    checked = [r for r in data["rows"] if r.get("variant", "").startswith("attnpass")]
    worst = max(r["error"] for r in checked)
    return (
        f"{data['gpu']}, torch {data['torch']}, milliseconds. Worst error of the passes against "
        f"float64, {len(checked)} results checked: {worst:.1e}.\n\n"
        + _beside(cases, ("attnpass",), ("efficient",))
    )


def _beside(cases: dict[str, dict[str, Any]], ours: Sequence[str], peers: Sequence[str]) -> str:
    """The times of IREE, of the passes and of PyTorch's kernels."""
    names = ("iree", *ours, *peers)
    lines = []
    for case, rows in cases.items():
        best = min((rows[name]["ms"] for name in ours if "ms" in rows.get(name, {})), default=None)
        if best is None:
            continue
        stock = rows.get("iree", {}).get("ms")
        ratio = "-" if stock is None else f"{stock / best:.2f}"
        lines.append([case, *(_ms(rows.get(name, {})) for name in names), ratio])
    head = ["heads x group, rows x keys, head dim, type", *names, "iree / attnpass"]
    return table(head, lines)


def _configured(name: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What was measured, and its rows by case and variant."""
    data = json.loads((RESULTS / name).read_text())
    cases: dict[str, dict[str, Any]] = {}
    for row in data["rows"]:
        cases.setdefault(row["case"], {})[row.get("variant", "")] = row
    return data, cases


def _ms(row: dict[str, Any]) -> str:
    if row.get("failed"):
        return "no kernel"
    if row.get("error", 0) > WRONG:
        return "wrong"
    return f"{row['ms']:.3f}" if row.get("ms", 0) > 0 else "-"


def projection() -> str:
    """Milliseconds and errors of a projection into attention by form and variant, what its
    kernels take, and the errors of the forms that were not timed."""
    cases = _projections()
    timed = {case: rows for case, rows in cases.items() if "ms" in rows["attnpass V^T"]}
    names = {
        "iree": "IREE",
        "attnpass, V as it is": "V as it is",
        "attnpass V^T": "V^T",
        "attnpass": "by price",
        "kernels, V as it is": "kernels, V as it is",
        "kernels, V^T": "kernels, V^T",
        "kernels": "kernels, by price",
        "FA2": "FA2",
        "cuDNN": "cuDNN",
    }
    lines = [[case, *(_ms_and_error(rows[name]) for name in names)] for case, rows in timed.items()]
    parts = [
        f"{_read('projection_h200.json')['gpu']}, milliseconds (error against float32).",
        table(["form, types, batch, model width, rows", *names.values()], lines),
        "Microseconds of the kernels:",
        _purposes(timed, names),
        "Errors of the forms that were not timed:",
        table(
            ["form, type, batch, model width, rows", "IREE", "V as it is", "V^T"],
            [
                [case, *(f"{rows[name]['error']:.1e}" for name in list(names)[:3])]
                for case, rows in cases.items()
                if case not in timed
            ],
        ),
    ]
    return "\n\n".join(parts)


def _projections() -> dict[str, dict[str, dict[str, Any]]]:
    """The rows of tools/bench_projection.py by case and variant."""
    cases: dict[str, dict[str, dict[str, Any]]] = {}
    for row in _read("projection_h200.json")["rows"]:
        cases.setdefault(row["case"], {})[row["variant"]] = row
    return cases


def _read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / name).read_text())


def _purposes(cases: dict[str, dict[str, dict[str, Any]]], names: dict[str, str]) -> str:
    """What each variant's kernels take by what they are for."""
    purposes = ("projection", "transposition", "casts", "attention")
    lines = []
    for case, rows in cases.items():
        for name, words in names.items():
            if "microseconds" in rows[name]:
                spent = rows[name]["microseconds"]
                cells = (f"{spent[one]:.0f}" if one in spent else "-" for one in purposes)
                lines.append([case, words, *cells])
    return table(["case", "variant", *purposes], lines)


def product_tiles() -> str:
    """Microseconds of products by size and tile."""
    data = _read("product_tiles_h200.json")
    tiles = [row for row in data["rows"] if row["order"] == "by columns"]
    lines = [
        [size, *(f"{row['microseconds'][size]:.1f}" for row in tiles), f"{spent:.1f}"]
        for size, spent in data["cublas"].items()
    ]
    worst = max(row["error"] for row in data["rows"])
    names = ["IREE" if row["tile"] == "iree" else row["tile"] for row in tiles]
    return f"{data['gpu']}, microseconds; worst error: {worst:.1e}.\n\n" + table(
        ["rows x columns x depth", *names, "cuBLAS"], lines
    )


def unknown_rows() -> str:
    """Microseconds of products whose rows are known at run time alone."""
    data = _read("product_tiles_h200.json")
    head = ["IREE", "with `attn-tile-products`"]
    return _products(data["gpu"], data["unknown"], ("iree", "attnpass"), head, (0, 1))


def odd_rows() -> str:
    """Microseconds of products whose known rows or columns fill no tile."""
    data = _read("product_tiles_h200.json")
    rows = [row for row in data["odd"] if row["order"] == "by columns"]
    return _products(data["gpu"], rows, ("configured", "tiled"), ["as it is", "in tiles"], (1, 2))


def _products(
    gpu: str,
    rows: list[dict[str, Any]],
    ways: tuple[str, str],
    head: list[str],
    digits: tuple[int, int],
) -> str:
    """Microseconds of products two ways, with digits of these, and of what the second gains."""
    lines = []
    for row in rows:
        before, after = (row[way]["microseconds"] for way in ways)
        times = [f"{spent:.{digits[0]}f}" for spent in (before, after)]
        lines.append([row["size"], *times, f"{before / after:.{digits[1]}f}"])
    worst = max(row[ways[1]]["error"] for row in rows)
    return f"{gpu}, microseconds; worst error: {worst:.1e}.\n\n" + table(
        ["rows x columns x depth", *head, "times as fast"], lines
    )


def copies() -> str:
    """Microseconds of copies beside attention."""
    data = _read("copies_h200.json")
    lines = []
    for row in data["rows"]:
        rate = row["megabytes"] / row["attnpass"]
        times = [f"{row[name]:.1f}" for name in ("iree", "attnpass")]
        lines.append([row["copy"], *times, f"{row['iree'] / row['attnpass']:.1f}", f"{rate:.1f}"])
    return f"{data['gpu']}, microseconds; results are equal to PyTorch's.\n\n" + table(
        ["copy", "IREE", "configured", "times as fast", "TB/s"], lines
    )


def _ms_and_error(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    if row.get("failed"):
        return "does not compile"
    error = f"({row['error']:.1e})"
    return f"{row['ms']:.3f} {error}" if "ms" in row else error


def decode() -> str:
    """GB/s of K and V by shape and variant."""
    data = json.loads((RESULTS / "split_k_h200.json").read_text())
    shapes: dict[str, dict[str, str]] = {}
    for row in data["rows"]:
        name = row["variant"] if row.get("splits") in (None, "", "auto") else ""
        shapes.setdefault(row["shape"], {})[name] = f"{row['GB/s']:.0f}"
    names = ("iree", "attnpass", "torch FA2", "torch cuDNN")
    lines = [[shape, *(rows.get(name, "-") for name in names)] for shape, rows in shapes.items()]
    return "GB/s of K and V, f16, head dim 128.\n\n" + table(["heads x rows x keys", *names], lines)


def layers() -> str:
    """Milliseconds of a decode step of a Llama-like layer."""
    data = json.loads((RESULTS / "split_k_h200.json").read_text())
    rows: dict[int, dict[str, str]] = {}
    for row in data["layers"]:
        rows.setdefault(row["keys"], {})[row["variant"]] = f"{row['ms']:.3f}"
    names = ("iree", "attnpass", "torch FA2")
    return "Milliseconds of a step.\n\n" + table(
        ["cached keys", *names],
        [[keys, *(r.get(n, "-") for n in names)] for keys, r in rows.items()],
    )


def speedups() -> str:
    """SVG: how many times as long as ours each other program takes, a line a case."""
    _, cases = _configured("configure_h200.json")
    names = ("iree", "FA2", "cuDNN")
    ratios: dict[str, dict[str, float]] = {}
    for case, rows in cases.items():
        times = {name: row["ms"] for name, row in rows.items() if "ms" in row}
        ours = min((times[n] for n in ("attnpass", "attnpass V^T") if n in times), default=None)
        if ours is not None and times.keys() & set(names):
            ratios[case] = {name: times[name] / ours for name in names if name in times}
    left, step = 300, 16

    def place(ratio: float) -> float:
        return left + (math.log10(ratio) + 1) / 3.5 * (WIDTH + 160 - left - 20)

    height = 90 + step * len(ratios)
    title = "prefill on an H200: time over that of attnpass (right of 1: attnpass is faster)"
    parts = _head(height, title, WIDTH + 160)
    for tick in (0.1, 0.3, 1, 3, 10, 30, 100, 300):
        x, color = place(tick), "black" if tick == 1 else "#ddd"
        parts.append(f'<path d="M{x:.1f},60 V{height - 20}" stroke="{color}"/>')
        parts.append(_text(f"{x - 8:.1f}", "54", f"{tick:g}"))
    for i, (case, row) in enumerate(ratios.items()):
        y = 74 + step * i
        parts.append(_text("10", str(y + 4), case))
        for name, ratio in row.items():
            color = COLORS[names.index(name)]
            parts.append(f'<circle cx="{place(ratio):.1f}" cy="{y}" r="4" fill="{color}"/>')
    for i, name in enumerate(names):
        parts.append(_text(str(left + 80 * i), str(height - 4), name, COLORS[i]))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _head(height: int, title: str, width: int = WIDTH) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(str(MARGIN), "30", title),
    ]


def _text(x: str, y: str, words: str, color: str = "black") -> str:
    return f'<text x="{x}" y="{y}" font-size="12" fill="{color}">{words}</text>'


def sweep() -> str:
    """SVG: GB/s over the number of chunks, a line a shape."""
    data = json.loads((RESULTS / "split_k_h200.json").read_text())
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in data["rows"]:
        if (row.get("splits") or "").isdigit():
            lines.setdefault(row["shape"], []).append((int(row["splits"]), row["GB/s"]))

    def place(splits: float, speed: float) -> str:
        x = MARGIN + math.log2(splits) / 7 * (WIDTH - 2 * MARGIN)
        y = HEIGHT - MARGIN - speed / 4500 * (HEIGHT - 2 * MARGIN)
        return f"{x:.1f},{y:.1f}"

    parts = _head(HEIGHT, "decode, GB/s of K and V over the number of chunks of keys")
    for power in range(1, 8):
        x, y = place(2**power, 0).split(",")
        parts.append(_text(x, str(float(y) + 18), str(2**power)))
    for speed in range(0, 5000, 1000):
        x, y = place(1, speed).split(",")
        parts.append(_text("15", y, str(speed)))
        parts.append(f'<path d="M{x},{y} H{WIDTH - MARGIN}" stroke="#ddd"/>')
    for i, (shape, points) in enumerate(lines.items()):
        path = " ".join(place(*point) for point in sorted(points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[i]}"/>')
        parts.append(_text(str(WIDTH - 150), str(200 + 16 * i), shape, COLORS[i]))
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    write_block("gpu.md", "prefill", prefill())
    write_block("gpu.md", "narrow", narrow())
    write_block("gpu.md", "f32", f32())
    write_block("gpu.md", "projection", projection())
    write_block("gpu.md", "product-tiles", product_tiles())
    write_block("gpu.md", "unknown-rows", unknown_rows())
    write_block("gpu.md", "odd-rows", odd_rows())
    write_block("gpu.md", "copies", copies())
    write_block("gpu.md", "decode", decode())
    write_block("gpu.md", "layers", layers())
    (DOCS / "prefill.svg").write_text(speedups())
    (DOCS / "split-k.svg").write_text(sweep())


if __name__ == "__main__":
    main()
