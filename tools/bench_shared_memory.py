"""Compiles prefill with each rewrite of attn-shared-memory, and with other tiles, for a GPU.

    python tools/bench_shared_memory.py build/shared-memory          (needs attnpass)
    python tools/bench_configure.py run build/shared-memory --json shared_memory.json
                                  (needs a GPU, torch and iree-base-runtime only)

The variants of a case are measured and checked as those of bench_configure are: in one run,
beside PyTorch's kernels.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import bench_configure as bench

CASES = (bench.Case(head=64), bench.Case())
# The rewrites by the option of the pass that leaves the others out; all but the first with it.
REWRITES = {
    "none": None,
    "rows": "{ldmatrix=false ahead=false}",
    "rows, ldmatrix": "{ahead=false}",
    "rows, ahead": "{ldmatrix=false}",
    "all": "",
}
# Rows, keys at a time and subgroups of the tiles that all rewrites are tried with.
TILES = (
    (128, 64, 4),
    (64, 64, 4),
    (64, 128, 4),
    (128, 64, 8),
    (128, 128, 8),
    (128, 32, 4),
    (64, 32, 4),
    (256, 32, 8),
)
# Runs attn-compile with this one tile.
_WITH_TILE = """
import sys
import attnpass.machines.nvidia.configurations as nvidia
from attnpass.configs.gpu_tiles import Tile
from attnpass.cli.attn_compile import main
columns, rows, keys, subgroups = map(int, sys.argv[1].split(","))
nvidia_tiles = sys.modules["attnpass.machines.nvidia.tiles"]
nvidia_tiles.TILES = nvidia.TILES = ((columns, (Tile(rows, columns, keys, subgroups),)),)
sys.exit(main(sys.argv[2:]))
"""
_BEFORE = (
    "attn-propagate-layout{operands=v,k,q},attn-pad-heads,attn-tile-dynamic,"
    "attn-mask-dynamic-keys,attn-pad-keys,attn-configure,attn-hardware-exp2"
)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    first = TILES[0]
    wanted = [(first, rewrite) for rewrite in REWRITES] + [(tile, "all") for tile in TILES[1:]]
    entries = []
    for case in CASES:
        for tile, rewrite in wanted:
            for layout in ("", " V^T"):
                entries.append(compile_one(folder, case, tile, rewrite, layout, len(entries)))
                (folder / "manifest.json").write_text(json.dumps(entries, indent=1))


def compile_one(
    folder: Path,
    case: bench.Case,
    tile: tuple[int, int, int],
    rewrite: str,
    layout: str,
    number: int,
) -> dict[str, object]:
    """The manifest's entry of one variant, compiled in a process of its own."""
    source, path = folder / "source.mlir", folder / f"{number}.vmfb"
    source.write_text(bench.module(case, bool(layout)))
    options = REWRITES[rewrite]
    passes = _BEFORE if options is None else f"{_BEFORE},attn-shared-memory{options}"
    numbers = ",".join(map(str, (case.head, *tile)))
    command = [sys.executable, "-c", _WITH_TILE, numbers, str(source), "-o", str(path)]
    command += ["--iree-hal-target-device=cuda", f"--iree-cuda-target={case.arch('attnpass')}"]
    command += [f"--attn-pipeline={passes}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    name = f"{rewrite}, {tile[0]} rows x {tile[1]} keys on {tile[2]} warps{layout}"
    return bench.variant_entry(case, name, path, done)


if __name__ == "__main__":
    main()
