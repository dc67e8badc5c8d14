"""Counts the machine instructions in attention's loop over the keys, without and with
attn-shared-memory.

    python tools/count_sass.py --json tools/results/sass_sm90.json

Needs ptxas and cuobjdump (of the CUDA toolkit) on PATH; no GPU. The kernels are those of
tools/bench_shared_memory.py; PTX is assembled for sm_90. The loop is the innermost backward branch
around the tensor cores' instructions; its counts are those of one warp and one step.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import bench_configure as bench
from bench_shared_memory import TILES, compile_one

from attnpass.machines.nvidia.ptxas import ptx_in

ARCH = "sm_90"
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*)$", re.M)
_TARGET = re.compile(r"0x([0-9a-f]+)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="where the counts go")
    path = parser.parse_args().json
    for tool in ("ptxas", "cuobjdump"):
        if not shutil.which(tool):
            raise SystemExit(f"{tool}, of the CUDA toolkit, must be on PATH")
    case, tile = bench.Case(head=64), TILES[0]
    kernels = []
    with tempfile.TemporaryDirectory() as folder:
        for layout in ("", " V^T"):
            for rewrite in ("none", "all"):
                entry = compile_one(Path(folder), case, tile, rewrite, layout, len(kernels))
                if entry["failed"]:
                    raise SystemExit(f"{entry['variant']}: {entry['failed']}")
                loop = loop_of(sass(Path(folder) / str(entry["file"])))
                kernels.append({"rewrite": rewrite, "layout": layout.strip(), "loop": loop})
    data = {
        "ptxas": _version("ptxas"),
        "arch": ARCH,
        "case": case.name,
        "tile": dict(zip(("rows", "keys", "warps"), tile, strict=True)),
        "kernels": kernels,
    }
    path.write_text(json.dumps(data, indent=1) + "\n")


def sass(module: Path) -> str:
    """The assembly of the one kernel in a compiled module."""
    (ptx,) = ptx_in(module.read_bytes())
    source, cubin = module.with_suffix(".ptx"), module.with_suffix(".cubin")
    source.write_bytes(ptx)
    subprocess.run(["ptxas", f"-arch={ARCH}", str(source), "-o", str(cubin)], check=True)
    command = ["cuobjdump", "-sass", str(cubin)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def loop_of(text: str) -> dict[str, int]:
    """How often each instruction, without what stands behind its first dot, is in the smallest
    loop that has most of the tensor cores' instructions."""
    found = [(int(place, 16), name, rest) for place, name, rest in _INSTRUCTION.findall(text)]
    loops = [
        [name.partition(".")[0] for at, name, _ in found if start <= at <= end]
        for end, name, rest in found
        if name == "BRA" and (start := _target(rest)) is not None and start < end
    ]
    best = max(loops, key=lambda names: (names.count("HMMA"), -len(names)))
    return dict(sorted(Counter(best).items()))


def _target(rest: str) -> int | None:
    found = _TARGET.search(rest)
    return int(found[1], 16) if found else None


def _version(tool: str) -> str:
    said: Any = subprocess.run([tool, "--version"], check=True, capture_output=True, text=True)
    found = re.search(r"V([\d.]+)", said.stdout)
    return found[1] if found else ""


if __name__ == "__main__":
    main()
