"""Measures the kernels of a projection into attention on a CUDA GPU with other tiles than ours.

    python tools/bench_projection_tiles.py compile build/tiles      (needs attnpass)
    python tools/bench_projection_tiles.py run build/tiles --json projection_tiles.json
                                  (needs a GPU, torch and iree-base-runtime only)

The layer is that of bench_projection.py, batch 1. Times are of the kernels alone, from CUPTI
through torch's profiler: means of ten calls, in microseconds, with the layer's error.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import bench_configure as bench
import bench_projection as projection
from iree_device import load

LAYOUTS = {"V as it is": "never", "V^T": "always"}
# Rows, columns, depth, subgroups along rows and columns, buffers a tile, and whether the steps
# are ordered; buffers 0: as IREE lowers it.
VARIANTS = (
    (128, 128, 64, 2, 2, 0, False),
    (128, 128, 64, 2, 2, 2, False),
    (128, 128, 64, 2, 2, 2, True),
    (128, 128, 32, 2, 2, 3, False),
    (128, 128, 32, 2, 2, 4, False),
    (128, 128, 32, 2, 2, 4, True),
    (128, 256, 64, 2, 4, 2, False),
    (128, 256, 64, 2, 4, 2, True),
    (128, 256, 64, 2, 4, 3, False),
    (128, 256, 64, 2, 4, 3, True),
    (128, 256, 32, 2, 4, 3, False),
    (128, 256, 32, 2, 4, 4, False),
    (128, 256, 32, 2, 4, 4, True),
    (256, 128, 64, 4, 2, 3, False),
    (256, 128, 32, 4, 2, 4, False),
)
# Runs attn-compile with this one tile, so many buffers, and the steps ordered or not.
_WITH_TILE = """
import json, sys
import attnpass.machines.nvidia.contractions as contraction
import attnpass.gpu.shared_memory as drive
from attnpass.cli.attn_compile import main
*tile, buffers, ordered = json.loads(sys.argv[1])
contraction.TILES = (contraction.Tile(*tile),)
if buffers:
    drive._PROJECTION_BUFFERS = buffers
else:
    drive._is_projection = lambda function: False
if not ordered:
    drive.interleave = lambda function: 0
sys.exit(main(sys.argv[2:]))
"""


def compile_all(folder: Path) -> None:
    """Writes a .vmfb for each variant and layout, and manifest.json."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "source.mlir"
    source.write_text(projection.module(projection.TIMED[0], True))
    entries = []
    for layout, mode in LAYOUTS.items():
        for variant in VARIANTS:
            path = folder / f"{len(entries)}.vmfb"
            command = [sys.executable, "-c", _WITH_TILE, json.dumps(variant), str(source)]
            command += ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
            command += [f"--attn-mode={mode}", "-o", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            failed = done.stderr.strip()[-200:] if done.returncode else ""
            entries.append({**described(layout, variant), "file": path.name, "failed": failed})
            print(layout, variant, failed, flush=True)
            (folder / "manifest.json").write_text(json.dumps(entries, indent=1))


def described(layout: str, variant: tuple[int, ...]) -> dict[str, Any]:
    rows, columns, depth, down, across, buffers, ordered = variant
    tile = {"rows": rows, "columns": columns, "depth": depth, "warps": down * across}
    return {"layout": layout, **tile, "buffers": buffers, "ordered": bool(ordered)}


def run_all(folder: Path, json_path: Path) -> None:
    """Checks and measures all; writes rows as they come."""
    import torch
    from iree import runtime

    torch.backends.cuda.matmul.allow_tf32 = False
    config, of = runtime.Config("cuda"), projection.TIMED[0]
    given = projection.inputs(of, bench.MANY)
    right = projection.reference(of, given)
    cublas = product_time(given["x"][0], given["w"])
    given = {name: projection.place(config.device, value) for name, value in given.items()}
    own = [name for name in given if name not in projection.SHARED]
    shared = [given[name] for name in given if name in projection.SHARED]
    rows: list[dict[str, Any]] = []
    entries = json.loads((folder / "manifest.json").read_text())
    # The profiler's first call is not like the others.
    for number, entry in enumerate([entries[0], *entries]):
        functions = load(config, folder / entry["file"])
        got = functions["one"](*(given[name][0] for name in own), *shared)
        row = {key: entry[key] for key in entry if key not in ("file", "failed")}
        row["error"] = bench.relative_error(bench.host(got, torch.float16), right)
        calls = {"": projection.caller(functions, given)}
        row["microseconds"] = projection.by_purpose(bench.kernels_in_turns(calls)[""])
        print(json.dumps(row), flush=True)
        if number:
            rows.append(row)
        result = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__}
        result |= {"cublas_microseconds": cublas, "rows": rows}
        json_path.write_text(json.dumps(result, indent=1) + "\n")


def product_time(x: Any, w: Any) -> float:
    """Microseconds of PyTorch's `x @ w`, one of 50 in a row."""
    import torch

    spent = 0.0
    for count in (3, 50):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            torch.matmul(x, w)
        torch.cuda.synchronize()
        spent = (time.perf_counter() - start) / count
    return round(spent * 1e6, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("compile", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, default=Path("projection_tiles.json"))
    arguments = parser.parse_args()
    if arguments.what == "compile":
        compile_all(arguments.folder)
    else:
        run_all(arguments.folder, arguments.json)


if __name__ == "__main__":
    main()
