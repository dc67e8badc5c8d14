"""Writes the tables and the plots of docs/gpu.md from the measured JSON.

    python tools/gpu_page.py

The JSON comes from tools/bench_configure.py, tools/bench_shared_memory.py, tools/bench_tiles.py,
tools/count_sass.py, tools/bench_projection.py, tools/bench_projection_tiles.py and
tools/bench_split_k.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from bench_configure import NARROW_VARIANTS, WRONG
from doc_blocks import DOCS, RESULTS, table, text_table, write_block

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


# What the machine instructions of attention's loop are for; the rest computes addresses.
_INSTRUCTIONS = {
    "tensor-core products (HMMA)": ("HMMA",),
    "reads of shared memory (LDS, LDSM)": ("LDS", "LDSM"),
    "to join halves (PRMT)": ("PRMT",),
    "copies of K and V (LDG and STS, LDGSTS)": ("LDG", "STS", "LDGSTS"),
    "maximum, exp2, sum, rescaling, rounding (FMNMX, MUFU, FADD, FMUL, F2FP)": (
        "FMNMX",
        "MUFU",
        "FADD",
        "FMUL",
        "F2FP",
    ),
    "shuffles (SHFL)": ("SHFL",),
    "barriers (BAR)": ("BAR",),
}


def sass() -> str:
    """Instructions of the loop over the keys, by what they are for."""
    data = json.loads((RESULTS / "sass_sm90.json").read_text())
    titles = {"none": "IREE's", "all": "with `attn-shared-memory`"}
    head = [f"{titles[k['rewrite']]}{', V^T' if k['layout'] else ''}" for k in data["kernels"]]
    loops = [kernel["loop"] for kernel in data["kernels"]]
    counts = {
        what: [sum(loop.get(name, 0) for name in names) for loop in loops]
        for what, names in _INSTRUCTIONS.items()
    }
    totals = [sum(loop.values()) for loop in loops]
    named = [sum(column) for column in zip(*counts.values(), strict=True)]
    counts["addresses and rest"] = [a - b for a, b in zip(totals, named, strict=True)]
    counts["all"] = totals
    tile = data["tile"]
    return (
        f"{data['arch']}, ptxas {data['ptxas']}: instructions of a warp in one step over "
        f"{tile['keys']} keys, for f16, head dim 64, {tile['rows']} rows on {tile['warps']} "
        "warps.\n\n" + table(["", *head], [[what, *row] for what, row in counts.items()])
    )


def shared_memory() -> str:
    """Milliseconds of a case by what is done with shared memory, and by tile."""
    data = json.loads((RESULTS / "shared_memory_h200.json").read_text())
    cases: dict[str, dict[str, dict[str, Any]]] = {}
    for row in data["rows"]:
        cases.setdefault(row["variant"].removesuffix(" V^T"), {})[
            row["case"] + " V^T" * row["variant"].endswith(" V^T")
        ] = row
    columns = [f"32x1_4096x4096_{head}_f16{v}" for head in ("d64", "d128") for v in ("", " V^T")]
    lines = [
        [name, *(_ms(rows[column]) if column in rows else "-" for column in columns)]
        for name, rows in cases.items()
    ]
    worst = max(row["error"] for row in data["rows"])
    return f"{data['gpu']}, milliseconds; worst error against float32: {worst:.1e}.\n\n" + table(
        ["rewrites and tile", *columns], lines
    )


def tiles() -> str:
    """Milliseconds before and after the rewrites that spare registers and masks, and of other
    tiles, by case."""
    data, cases = _configured("tiles_h200.json")
    named = ("FA2", "before", "present", "present V^T")
    lines = []
    for case, rows in cases.items():
        others = [
            f"{name}: {_ms(row)}"
            for name, row in rows.items()
            if name not in (*named, "cuDNN", "efficient")
        ]
        found = [_ms(rows[name]) if name in rows else "-" for name in named]
        lines.append([case, *found, "; ".join(others)])
    worst = max(row["error"] for row in data["rows"] if "_f16" in row["case"] and "error" in row)
    return f"{data['gpu']}, milliseconds; worst error in f16: {worst:.1e}.\n\n" + text_table(
        ["case", *named, "others"], lines
    )


def _ms(row: dict[str, Any]) -> str:
    if row.get("failed"):
        return "no kernel"
    if row.get("error", 0) > WRONG:
        return "wrong"
    return f"{row['ms']:.3f}" if row.get("ms", 0) > 0 else "-"


def layouts() -> str:
    """Milliseconds of V and V^T, before and after fragments were read slice by slice."""
    data, cases = _configured("layouts_h200.json")
    names = ("before", "before V^T", "present", "present V^T", "FA2")
    lines = [
        [case, *(_ms(rows[name]) if name in rows else "-" for name in names)]
        for case, rows in cases.items()
    ]
    worst = max(row["error"] for row in data["rows"] if "_f16" in row["case"] and "error" in row)
    return f"{data['gpu']}, milliseconds; worst error in f16: {worst:.1e}.\n\n" + table(
        ["case", "V before", "V^T before", "V", "V^T", "FA2"], lines
    )


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


def projection_tiles() -> str:
    """Microseconds and TFLOPS of the projection's kernel by tile and layout."""
    data = json.loads((RESULTS / "projection_tiles_h200.json").read_text())
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in data["rows"]:
        tile = f"{row['rows']} x {row['columns']} x {row['depth']} on {row['warps']} warps"
        how = "yes" if row["ordered"] else "no"
        spent = row["microseconds"]["projection"]
        flops = f"{2 * 4096**3 / spent / 1e6:.0f}"
        key = (tile, str(row["buffers"] or "as IREE lowers it"), how)
        lines.setdefault(key, {})[row["layout"]] = f"{spent:.0f} ({flops})"
    worst = max(row["error"] for row in data["rows"])
    layouts = ("V as it is", "V^T")
    return (
        f"{data['gpu']}, microseconds (TFLOPS); cuBLAS, with Hopper's own instructions: "
        f"{data['cublas_microseconds']:.0f}. Worst error of the layer: {worst:.1e}.\n\n"
        + table(
            ["tile", "buffers", "steps ordered", *layouts],
            [
                [*key, *(found.get(layout, "-") for layout in layouts)]
                for key, found in lines.items()
            ],
        )
    )


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
    write_block("gpu.md", "sass", sass())
    write_block("gpu.md", "shared-memory", shared_memory())
    write_block("gpu.md", "tiles", tiles())
    write_block("gpu.md", "prefill", prefill())
    write_block("gpu.md", "narrow", narrow())
    write_block("gpu.md", "f32", f32())
    write_block("gpu.md", "layouts", layouts())
    write_block("gpu.md", "projection", projection())
    write_block("gpu.md", "projection-tiles", projection_tiles())
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
