"""Compiles prefill with other tiles than attn-configure's, and with an older attnpass, for a GPU.

    python tools/bench_tiles.py build/tiles [--before OLDER_CHECKOUT] [--layouts]
                                  (needs attnpass)
    python tools/bench_configure.py run build/tiles --json tools/results/tiles_h200.json
                                  (needs a GPU, torch and iree-base-runtime only)

The variants of a case are measured and checked as those of bench_configure are: in one run,
beside PyTorch's kernels. `reread` reads Q's fragments in each step, whether or not registers
could hold them; `8 bits off` leaves kernels with 8-bit factors as IREE made them. With `--layouts`
there is no other tile but V beside V^T, by the older attnpass and by this one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench_configure import Case, module, variant_entry

_TILE = """
import attnpass.machines.nvidia.configurations as nvidia, attnpass.machines.nvidia.tiles as tiles
tiles.TILES = nvidia.TILES = ((1024, (tiles.Tile(*{0}),)),)
"""
_LANES = """
import attnpass.machines.configurations.nvidia_lanes as lanes
lanes.LANE_TILES = ((1024, (lanes.LaneTile(*{0}),)),)
"""
_REREAD = """
import attnpass.gpu.lowered.rereads as rereads
rereads._SHARE = 0.1
"""
_WITHOUT = """
import dataclasses, attnpass.gpu.shared_memory as drive
improve = drive.improve_shared_memory
drive.improve_shared_memory = lambda module, wanted, report: improve(
    module, dataclasses.replace(wanted, {0}=False), report
)
"""
_COMPILE = """
from attnpass.cli.attn_compile import main
sys.exit(main(sys.argv[1:]))
"""
# Head dims, and the tiles beside the present one: rows, columns, keys, warps along rows and
# columns.
TILES = {
    (32, 96): ((192, 96, 32, 6), (96, 96, 64, 6), (96, 96, 32, 3), (96, 96, 64, 3)),
    (32, 80): ((80, 80, 64, 5), (160, 80, 32, 5)),
    (32, 128): ((128, 128, 64, 4), (128, 128, 64, 8), (256, 128, 32, 8)),
    (16, 192): ((96, 192, 32, 6),),
    (8, 512): ((64, 512, 16, 4, 2), (64, 512, 32, 4, 2)),
    (4, 1024): ((32, 256, 16, 2, 2), (32, 1024, 16, 2, 4)),
}
LANES = ((1, 32, 1, 4, 16), (1, 32, 2, 2, 16), (1, 32, 2, 4, 16), (1, 16, 1, 4, 16))


def variants() -> Iterator[tuple[Case, str, str]]:
    """Cases, names of variants and what to run in front of the compiler."""
    for (heads, head), tiles in TILES.items():
        case = Case(heads=heads, head=head)
        yield case, "before", ""
        yield case, "present", ""
        yield case, "present V^T", ""
        for tile in tiles:
            yield case, _name(tile), _TILE.format(tile)
            if head >= 512:
                yield case, _name(tile) + " V^T", _TILE.format(tile)
    yield Case(head=64), "present", ""
    yield Case(head=64), "reread", _REREAD
    yield Case(heads=4, head=1024), "not ahead", _WITHOUT.format("ahead")
    for case in (
        Case(query="bf16", value="bf16"),
        Case(query="bf16", value="bf16", head=64),
        Case(rows=1333, keys=1333),
        Case(dynamic=True),
    ):
        for name in ("before", "present", "present V^T"):
            yield case, name, ""
    for value in ("f16", "f8E4M3FN"):
        case = Case(query="f8E4M3FN", value=value)
        for layout in ("", " V^T"):
            yield case, "8 bits off" + layout, _WITHOUT.format("fp8")
            yield case, "8 bits" + layout, ""
    case = Case(heads=2, rows=512, keys=512, head=1024, query="f32", value="f32")
    for lanes in LANES:
        yield case, f"lanes {lanes}", _LANES.format(lanes)


def layouts() -> Iterator[tuple[Case, str, str]]:
    """The same of V and V^T."""
    heads = {64: 32, 128: 32, 192: 16, 256: 16, 512: 8, 1024: 4}
    cases = [Case(heads=count, head=head) for head, count in heads.items()]
    cases += [replace(case, query="bf16", value="bf16") for case in cases[:2]]
    cases += [Case(mask="causal"), Case(heads=8, group=4), Case(rows=1024, keys=1024)]
    for case in cases:
        for name in ("before", "before V^T", "present", "present V^T"):
            yield case, name, ""


def _name(tile: tuple[int, ...]) -> str:
    rows, columns, keys, *warps = tile
    return f"{rows} rows, {columns} columns, {keys} keys on {' x '.join(map(str, warps))} warps"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("folder", type=Path)
    parser.add_argument("--before", help="a checkout with the attnpass of the variants `before`")
    parser.add_argument("--layouts", action="store_true", help="V and V^T, without other tiles")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for case, name, prelude in layouts() if options.layouts else variants():
        if name.startswith("before") and not options.before:
            continue
        tree = options.before if name.startswith("before") else None
        entries.append(compile_one(options.folder, case, name, prelude, tree, len(entries)))
        (options.folder / "manifest.json").write_text(json.dumps(entries, indent=1))


def compile_one(
    folder: Path, case: Case, name: str, prelude: str, tree: str | None, number: int
) -> dict[str, object]:
    """The manifest's entry of one variant, compiled in a process of its own."""
    source, path = folder / "source.mlir", folder / f"{number}.vmfb"
    source.write_text(module(case, name.endswith("V^T")))
    # What has no 8-bit tensor cores would widen 8-bit operands in front of attention.
    arch = "sm_89" if case.is_narrow else "sm_80"
    # `-P`: not the attnpass of the current folder.
    command = [sys.executable, *(["-P"] if tree else []), "-c", f"import sys\n{prelude}{_COMPILE}"]
    command += [str(source)]
    command += ["-o", str(path), "--iree-hal-target-device=cuda", f"--iree-cuda-target={arch}"]
    environment = {**os.environ, "PYTHONPATH": tree} if tree else None
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    return variant_entry(case, name, path, done)


if __name__ == "__main__":
    main()
